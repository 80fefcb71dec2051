//! All hooks of one sidecar, who is behind each, and the questions on their way.
//!
//! Whoever wants the list takes a snapshot of it; every change makes a new one. A hook whose process is
//! gone stays and fails until it returns, is removed, or its time is over. Never decides what a failure
//! means.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::asking::{self, Connection};
use super::convert;
use crate::base::mint::Mint;
use crate::base::tasks::Tasks;
use crate::engine::{HookDesk, HookQuestion};
use crate::executor::SharedMailbox;
use crate::gate::hooks::{
    Body, BuiltInHook, Hook, HookList, HookPlace, Matcher, OnFailure, Point, RunStatus,
    TIMEOUT_DEFAULT_MS,
};
use crate::gate::ids::{BatchId, HookId};
use crate::gate::permission::Aliases;
use crate::gate::turn::{HookRun, HookTicket};
use crate::pb::v1::{self as pb, ErrorReason};
use crate::server::status::Failure;

/// What a desk is made of.
pub struct DeskParts {
    /// Hooks that need no process.
    pub built_in: Vec<BuiltInHook>,
    /// Hooks that fail while they are absent.
    pub required: Vec<HookId>,
    /// Names that rules may use for tools.
    pub aliases: Aliases,
    /// Mints invocation ids.
    pub mint: Arc<Mint>,
    /// Owns the questions on their way.
    pub tasks: Tasks,
}

/// One hook and who is behind it.
struct Entry {
    hook: Arc<Hook>,
    is_required: bool,
    /// The process that registered it last. Empty: none did.
    instance: String,
    /// Its stream. None: it is gone, or there is none.
    connection: Option<Arc<Connection>>,
    runs: u64,
    failures: u64,
}

#[derive(Default)]
struct Inner {
    entries: BTreeMap<HookId, Entry>,
    /// Registrations so far.
    registered: u64,
}

type Question = (BatchId, HookTicket);

/// The hooks of one sidecar.
pub struct Desk {
    list: ArcSwap<HookList>,
    inner: Mutex<Inner>,
    /// Dropping one ends its question.
    asked: Mutex<BTreeMap<Question, oneshot::Sender<()>>>,
    pub(super) aliases: Aliases,
    pub(super) mint: Arc<Mint>,
    tasks: Tasks,
    own: Weak<Desk>,
}

impl Desk {
    /// The hooks that the configuration declares, and those that it requires, absent.
    #[must_use]
    pub fn new(parts: DeskParts) -> Arc<Self> {
        let mut inner = Inner::default();
        for declared in parts.built_in {
            let place = inner.next_place(declared.order);
            let hook = Hook {
                id: declared.id,
                place,
                points: vec![Point::BeforeToolCall],
                matcher: declared.matcher,
                timeout_ms: 0,
                on_failure: OnFailure::Deny,
                observes: false,
                withholds: false,
                description: declared.description,
                body: Body::BuiltIn(declared.body),
            };
            inner.put(hook, String::new(), None);
        }
        for id in parts.required {
            let place = inner.next_place(0);
            inner.put(absent(id.clone(), place), String::new(), None);
            if let Some(entry) = inner.entries.get_mut(&id) {
                entry.is_required = true;
            }
        }
        let desk = Arc::new_cyclic(|own| Self {
            list: ArcSwap::from_pointee(HookList::default()),
            inner: Mutex::new(inner),
            asked: Mutex::default(),
            aliases: parts.aliases,
            mint: parts.mint,
            tasks: parts.tasks,
            own: own.clone(),
        });
        desk.renew(&desk.inner.lock());
        desk
    }

    /// Makes what everybody sees anew.
    fn renew(&self, inner: &Inner) {
        let hooks = inner.entries.values().map(|entry| entry.hook.clone());
        self.list.store(Arc::new(HookList::new(hooks.collect())));
    }

    /// Takes a process's hook in. Its place stays if it was there before.
    pub(super) fn register(
        &self,
        mut hook: Hook,
        connection: &Arc<Connection>,
    ) -> Result<(), Failure> {
        let mut inner = self.inner.lock();
        let known = inner.entries.get(&hook.id);
        if let Some(known) = known {
            let is_live = known.connection.is_some() && known.instance != connection.instance;
            if is_live || known.is_built_in() {
                let problem = format!("the hook `{}` is somebody else's", hook.id);
                return Err(Failure::new(ErrorReason::NameForbidden, problem));
            }
            hook.place.number = known.hook.place.number;
        } else {
            hook.place = inner.next_place(hook.place.order);
        }
        let instance = connection.instance.clone();
        inner.put(hook, instance, Some(connection.clone()));
        self.renew(&inner);
        Ok(())
    }

    /// A stream ended in order: its hooks go. Required ones stay and fail.
    pub(super) fn unregister(&self, connection: &Arc<Connection>) {
        let mut inner = self.inner.lock();
        inner.entries.retain(|_, entry| {
            if !entry.is_at(connection) {
                return true;
            }
            entry.connection = None;
            entry.is_required
        });
        self.renew(&inner);
        connection.close();
    }

    /// A stream broke: its hooks stay and fail.
    pub(super) fn lose(&self, connection: &Arc<Connection>) {
        let mut inner = self.inner.lock();
        let own = inner.entries.values_mut();
        for entry in own.filter(|entry| entry.is_at(connection)) {
            entry.connection = None;
        }
        connection.close();
    }

    /// The time of a process that did not return is over. Required hooks stay.
    pub(super) fn expire(&self, instance: &str) {
        let mut inner = self.inner.lock();
        inner.entries.retain(|_, entry| {
            entry.is_required || entry.connection.is_some() || entry.instance != instance
        });
        self.renew(&inner);
    }

    /// Takes a hook away whose process is gone.
    pub(super) fn remove(&self, id: &str) -> Result<(), Failure> {
        let mut inner = self.inner.lock();
        let key = HookId::trusted(id);
        let Some(entry) = inner.entries.get_mut(&key) else {
            return Err(Failure::not_found("hook", id));
        };
        if entry.connection.is_some() || entry.is_built_in() {
            let problem = "is connected or declared in the configuration";
            return Err(Failure::field("hook_id", problem));
        }
        if entry.is_required {
            // What it said of itself does not hold any more; it fails for every call.
            entry.hook = Arc::new(absent(key, entry.hook.place));
            entry.instance.clear();
        } else {
            inner.entries.remove(&key);
        }
        self.renew(&inner);
        Ok(())
    }

    /// All hooks as they stand, in the order in which they are asked.
    pub(super) fn infos(&self) -> Vec<pb::HookInfo> {
        let inner = self.inner.lock();
        let mut entries: Vec<&Entry> = inner.entries.values().collect();
        entries.sort_by_key(|entry| entry.hook.place);
        let infos = entries.into_iter().map(|entry| pb::HookInfo {
            registration: Some(convert::registration(&entry.hook)),
            built_in: entry.is_built_in(),
            connected: entry.is_built_in() || entry.connection.is_some(),
            required: entry.is_required,
            runs: entry.runs,
            failures: entry.failures,
        });
        infos.collect()
    }

    fn connection_of(&self, hook: &HookId) -> Option<Arc<Connection>> {
        let inner = self.inner.lock();
        inner.entries.get(hook)?.connection.clone()
    }
}

impl HookDesk for Desk {
    fn list(&self) -> Arc<HookList> {
        self.list.load_full()
    }

    fn ask(&self, question: HookQuestion, mailbox: SharedMailbox) {
        let connection = self.connection_of(&question.ask.hook.id);
        let invocation_id = self.mint.id();
        if !question.ask.is_awaited {
            if let Some(connection) = connection {
                connection.tell(convert::invocation(&question, invocation_id));
            }
            return;
        }
        let key = (question.ask.turn.batch.clone(), question.ask.ticket);
        let (keep, forgotten) = oneshot::channel();
        self.asked.lock().insert(key.clone(), keep);
        let desk = self.own.clone();
        self.tasks.spawn("hook", async move {
            let asked = asking::ask(connection, question, invocation_id, mailbox);
            tokio::select! {
                () = asked => {}
                _ = forgotten => {}
            }
            if let Some(desk) = desk.upgrade() {
                desk.asked.lock().remove(&key);
            }
        });
    }

    fn forget(&self, batch: &BatchId, ticket: HookTicket) {
        self.asked.lock().remove(&(batch.clone(), ticket));
    }

    fn ran(&self, run: &HookRun) {
        let mut inner = self.inner.lock();
        if let Some(entry) = inner.entries.get_mut(&run.hook) {
            entry.runs += 1;
            let is_failure = !matches!(run.status, RunStatus::Answered | RunStatus::Cancelled);
            entry.failures += u64::from(is_failure);
        }
    }
}

impl Entry {
    fn is_built_in(&self) -> bool {
        matches!(self.hook.body, Body::BuiltIn(_))
    }

    fn is_at(&self, connection: &Arc<Connection>) -> bool {
        let own = self.connection.as_ref();
        own.is_some_and(|own| Arc::ptr_eq(own, connection))
    }
}

impl Inner {
    fn next_place(&mut self, order: u32) -> HookPlace {
        self.registered += 1;
        HookPlace {
            order,
            number: self.registered,
        }
    }

    fn put(&mut self, hook: Hook, instance: String, connection: Option<Arc<Connection>>) {
        let before = self.entries.get(&hook.id);
        let (is_required, runs, failures) = before.map_or((false, 0, 0), |before| {
            (before.is_required, before.runs, before.failures)
        });
        let entry = Entry {
            is_required,
            instance,
            connection,
            runs,
            failures,
            hook: Arc::new(hook),
        };
        self.entries.insert(entry.hook.id.clone(), entry);
    }
}

/// A hook that must be there and is not: it is asked about every call, and fails.
fn absent(id: HookId, place: HookPlace) -> Hook {
    Hook {
        id,
        place,
        points: vec![Point::BeforeToolCall],
        matcher: Matcher::default(),
        timeout_ms: TIMEOUT_DEFAULT_MS,
        on_failure: OnFailure::Deny,
        observes: false,
        withholds: false,
        description: String::new(),
        body: Body::Remote,
    }
}
