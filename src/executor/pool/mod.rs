//! Who has room, who holds what, and where every execution is.
//!
//! One table behind one lock that is never held while waiting. An execution is in exactly one stage; a
//! word about it counts only from the instance, stream and attempt that it was sent with. Never
//! decides what a loss or a late word means for the call: it says what is known.

mod claim;
mod inquire;
mod instance;
mod resume;
mod stage;
mod words;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;

use super::SharedMailbox;
use crate::base::clock::Clock;
use crate::gate::ids::{CallIndex, ExecutionId, InstanceId, OwnerName, ToolName};
use crate::gate::limits::Limits;
use crate::gate::tool::Tool;
use inquire::Unasked;
use instance::Instance;
use stage::Stage;

pub use claim::DispatchContext;
pub use instance::{ExecutorView, InstanceState};
pub(super) use instance::{Joining, Link};
pub(super) use resume::{Progress as Listed, Resumption};
pub(super) use words::{Heard, ResultStatus, Word};

/// One execution and who wants to know of it.
struct Execution {
    call: CallIndex,
    mailbox: SharedMailbox,
    owner: OwnerName,
    tool: ToolName,
    tool_digest: crate::gate::result::Digest,
    max_concurrency: u32,
    /// Bytes that it may still print.
    output_credit: u64,
    stage: Stage,
}

/// What all instances of one executor share.
#[derive(Default)]
struct Owner {
    instances: Vec<InstanceId>,
    /// Executions that look for room, oldest first.
    waiting: VecDeque<ExecutionId>,
    /// Executions per tool that has a bound of its own.
    running: BTreeMap<ToolName, u32>,
}

#[derive(Default)]
struct Inner {
    // The ids are minted here, so no peer can aim at the hash, and a fast one does.
    #[expect(
        clippy::disallowed_types,
        reason = "looked up by id only; its order is never seen"
    )]
    executions: std::collections::HashMap<ExecutionId, Execution, foldhash::fast::RandomState>,
    owners: BTreeMap<OwnerName, Owner>,
    instances: BTreeMap<(OwnerName, InstanceId), Instance>,
    /// Questions for which no process is there, oldest first.
    unasked: Vec<Unasked>,
}

/// The executors that are connected and what they have in hand.
pub struct Pool {
    inner: Mutex<Inner>,
    clock: Clock,
    limits: Limits,
    /// How long a full executor is left alone if it names no span, in milliseconds.
    busy_pause_ms: u64,
}

impl Pool {
    /// A pool without executors.
    pub fn new(clock: Clock, limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::default(),
            clock,
            limits,
            busy_pause_ms: 50,
        })
    }

    /// Whether a connected or returning instance runs the tool in this very definition.
    pub fn is_held(&self, tool: &Tool) -> bool {
        let inner = self.inner.lock();
        inner.instances_of(tool).next().is_some()
    }

    /// How many instances that can be reached run the tool, and how many executions of it there are.
    pub fn usage(&self, tool: &Tool) -> (u32, u32) {
        let inner = self.inner.lock();
        let ready = inner
            .instances_of(tool)
            .filter(|instance| instance.is_reachable())
            .count();
        let running = inner
            .executions
            .values()
            .filter(|execution| {
                execution.tool == tool.definition.name && execution.stage.holds_slot()
            })
            .count();
        (count(ready), count(running))
    }

    /// Names of owners with at least one instance that can be reached, for listings.
    pub fn reachable(&self, tool: &Tool) -> bool {
        let inner = self.inner.lock();
        inner
            .instances_of(tool)
            .any(|instance| instance.is_present())
    }

    /// Executions in every stage, for people and tests.
    pub fn executions(&self) -> usize {
        self.inner.lock().executions.len()
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

impl Inner {
    /// The owner's instances, in the order in which they came.
    fn at_owner<'a>(&'a self, owner: &'a OwnerName) -> impl Iterator<Item = &'a Instance> + 'a {
        let ids = self
            .owners
            .get(owner)
            .map(|owner| owner.instances.as_slice());
        ids.unwrap_or_default()
            .iter()
            .filter_map(|id| self.instances.get(&(owner.clone(), id.clone())))
    }

    fn instances_of<'a>(&'a self, tool: &'a Tool) -> impl Iterator<Item = &'a Instance> + 'a {
        self.at_owner(&tool.owner)
            .filter(|instance| instance.runs(&tool.definition.name, &tool.digest))
    }

    /// Takes an execution off the books and gives its slot back.
    fn remove(&mut self, execution: &ExecutionId) -> Option<Execution> {
        let removed = self.executions.remove(execution)?;
        self.free(&removed);
        Some(removed)
    }

    /// Gives back what an execution holds in its stage.
    fn free(&mut self, execution: &Execution) {
        if !execution.stage.holds_slot() {
            return;
        }
        self.free_slot(
            &execution.owner,
            execution.stage.instance(),
            &execution.tool,
        );
    }

    fn free_slot(&mut self, owner: &OwnerName, instance: Option<&InstanceId>, tool: &ToolName) {
        if let Some(id) = instance
            && let Some(instance) = self.instances.get_mut(&(owner.clone(), id.clone()))
        {
            instance.busy = instance.busy.saturating_sub(1);
        }
        if let Some(owner) = self.owners.get_mut(owner)
            && let Some(running) = owner.running.get_mut(tool)
        {
            *running = running.saturating_sub(1);
        }
    }
}
