//! Keeps the registry: one value that readers load without a lock, and writers replace.
//!
//! Never decides what a legal tool is: that is `gate::registry`.

use std::sync::Arc;

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::base::clock::Clock;
use crate::gate::audit::note::Note;
use crate::gate::ids::{OwnerName, ToolName, UnixMillis};
use crate::gate::limits::Limits;
use crate::gate::record::Record;
use crate::gate::registry::{Registration, Registry};
use crate::gate::tool::{SharedTool, Tool, ToolDefinition, ToolRules};
use crate::gate::toolset::{Toolset, ToolsetError};

/// Where changes of the registry are written down. Never waits.
pub trait RegistryJournal: Send + Sync {
    /// Writes a change down, some time soon.
    fn write(&self, records: &[Record]);
}

/// The registry and its writers.
pub struct Directory {
    registry: ArcSwap<Registry>,
    /// Held while a new registry is made from the present one.
    writing: Mutex<()>,
    changes: watch::Sender<u64>,
    rules: ToolRules,
    limits: Limits,
    clock: Clock,
    journal: Arc<dyn RegistryJournal>,
}

impl Directory {
    /// A directory that begins with `registry`.
    pub fn new(
        registry: Registry,
        rules: ToolRules,
        limits: Limits,
        clock: Clock,
        journal: Arc<dyn RegistryJournal>,
    ) -> Self {
        let (changes, _) = watch::channel(registry.revision);
        Self {
            registry: ArcSwap::from_pointee(registry),
            writing: Mutex::new(()),
            changes,
            rules,
            limits,
            clock,
            journal,
        }
    }

    /// The registry as it is now. Never waits.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// Tells of changes, by revision.
    pub fn watch(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// How definitions are judged here.
    pub fn rules(&self) -> &ToolRules {
        &self.rules
    }

    /// Registers tools of `owner`; see [`Registry::register`].
    pub fn register(
        &self,
        owner: &OwnerName,
        definitions: Vec<ToolDefinition>,
        is_held: &dyn Fn(&Tool) -> bool,
    ) -> Vec<Registration> {
        let now = UnixMillis(self.clock.now_ms());
        self.change(|registry| {
            let outcomes =
                registry.register(owner, definitions, now, &self.rules, &self.limits, is_held);
            let records = outcomes.iter().filter_map(|outcome| match outcome {
                Registration::Active {
                    tool,
                    changed: true,
                } => Some(Record::ToolRegistered(tool.clone())),
                Registration::Active { .. } | Registration::Refused { .. } => None,
            });
            (records.collect(), outcomes)
        })
    }

    /// Removes a tool; None if there is none of that name.
    pub fn unregister(&self, name: &ToolName, by: &Arc<str>) -> Option<SharedTool> {
        self.change(|registry| match registry.unregister(name) {
            Some(tool) => {
                let removed = Record::ToolRemoved(name.clone());
                (vec![Record::By(by.clone()), removed], Some(tool))
            }
            None => (Vec::new(), None),
        })
    }

    /// Writes down what only the audit keeps.
    pub(super) fn note(&self, note: Note) {
        self.journal.write(&[Record::Noted(note)]);
    }

    /// Makes or replaces a toolset; with `expected`, only if that is its version.
    ///
    /// # Errors
    /// [`ToolsetError`]; nothing changes then.
    pub fn put_toolset(
        &self,
        toolset: Toolset,
        expected: Option<u64>,
        by: &Arc<str>,
    ) -> Result<Arc<Toolset>, ToolsetError> {
        self.change_toolset(by, |registry| {
            let put = registry.toolsets.put(toolset, expected)?;
            registry.revision += 1;
            Ok(put)
        })
    }

    /// Copies what one toolset shows into another; see [`Registry::copy_into_excluding`].
    ///
    /// # Errors
    /// [`ToolsetError`]; nothing changes then.
    pub fn copy_toolset(
        &self,
        source: &str,
        target: &str,
        excluding: &[String],
        by: &Arc<str>,
    ) -> Result<Arc<Toolset>, ToolsetError> {
        self.change_toolset(by, |registry| {
            registry.copy_into_excluding(source, target, excluding)
        })
    }

    /// Removes a toolset.
    ///
    /// # Errors
    /// [`ToolsetError`]; nothing changes then.
    pub fn delete_toolset(&self, name: &str, by: &Arc<str>) -> Result<(), ToolsetError> {
        self.change(|registry| {
            let outcome = registry.toolsets.delete(name);
            match &outcome {
                Ok(()) => {
                    registry.revision += 1;
                    let deleted = Record::ToolsetDeleted(name.to_owned());
                    (vec![Record::By(by.clone()), deleted], outcome)
                }
                Err(_) => (Vec::new(), outcome),
            }
        })
    }

    fn change_toolset(
        &self,
        by: &Arc<str>,
        edit: impl FnOnce(&mut Registry) -> Result<Arc<Toolset>, ToolsetError>,
    ) -> Result<Arc<Toolset>, ToolsetError> {
        self.change(|registry| match edit(registry) {
            Ok(toolset) => {
                let put = Record::ToolsetPut(toolset.clone());
                (vec![Record::By(by.clone()), put], Ok(toolset))
            }
            Err(error) => (Vec::new(), Err(error)),
        })
    }

    /// Makes the next registry from the present one, writes the change down, and shows it.
    fn change<T>(&self, edit: impl FnOnce(&mut Registry) -> (Vec<Record>, T)) -> T {
        let _writing = self.writing.lock();
        let mut next = (*self.registry.load_full()).clone();
        let before = next.revision;
        let (records, outcome) = edit(&mut next);
        let revision = next.revision;
        if revision != before {
            self.journal.write(&records);
            self.registry.store(Arc::new(next));
            self.changes.send_replace(revision);
        }
        outcome
    }
}
