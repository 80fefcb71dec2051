//! Instances that come, break off, come back, and go.
//!
//! Whoever keeps results until they are acknowledged lists everything that it has when it comes back,
//! so what it does not list surely never arrived. Never believes a list without the token that only the
//! same process can have.

use std::collections::BTreeMap;

use super::instance::{Instance, InstanceState, Joining, Link};
use super::stage::Stage;
use super::{Inner, Pool};
use crate::executor::session_end::{self, SessionEnd};
use crate::gate::event::Attempt;
use crate::gate::ids::{ExecutionId, InstanceId, OwnerName};
use crate::gate::turn::{Input, Proof};

/// How far an execution is, as its executor says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Its handler has not begun.
    Queued,
    /// Its handler runs.
    Running,
    /// Its result is held.
    Finished,
}

/// What an executor does with an execution from an earlier stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resumption {
    /// Go on; the result is wanted.
    Continue,
    /// Stop, then answer.
    Cancel,
    /// Send the held result again.
    SendResult,
    /// Stop and forget.
    Forget,
}

/// What an executor lists when it comes back.
pub(crate) type InFlight = Vec<(ExecutionId, u32, Progress)>;

impl Pool {
    /// An instance joins, for the first time or again. Says what to do with each execution it lists.
    ///
    /// `listed` is None unless the instance proved that it is the same process as before.
    pub(crate) fn join(&self, joining: Joining, listed: Option<InFlight>) -> Vec<Resumption> {
        let now = self.clock.now_ms();
        let mut inner = self.inner.lock();
        let (owner, instance) = (joining.owner.clone(), joining.instance.clone());
        let key = (owner.clone(), instance.clone());
        let resumes = joining.resumes;
        let mut before = inner.instances.remove(&key);
        if let Some(before) = &mut before {
            session_end::dismiss(&before.about.link.lanes, SessionEnd::Superseded);
            before.lose_questions();
        }
        let mut joined = Instance::new(joining, now);
        if let (Some(before), true) = (before, listed.is_some()) {
            joined.forgotten = before.forgotten;
            joined.recent = before.recent;
            joined.busy = before.busy;
        }
        inner.instances.insert(key, joined);
        let ids = &mut inner.owners.entry(owner.clone()).or_default().instances;
        if !ids.contains(&instance) {
            ids.push(instance.clone());
        }
        let proven = listed.is_some() && resumes;
        let decisions = inner.settle_listed(&owner, &instance, listed.unwrap_or_default(), proven);
        inner.pump(&owner, now);
        inner.ask_kept(&owner, now, self.limits.executor_questions_max);
        decisions
    }

    /// The stream of an instance ended. True: its executions are kept for the resume window.
    pub(crate) fn disconnected(
        &self,
        owner: &OwnerName,
        instance: &InstanceId,
        link: &Link,
    ) -> bool {
        let mut inner = self.inner.lock();
        let key = (owner.clone(), instance.clone());
        let Some(at) = inner.instances.get_mut(&key) else {
            return false;
        };
        // Only the stream that joined may take its instance away.
        if at.about.link.connection != link.connection {
            return false;
        }
        at.lose_questions();
        let leaves = at.state == InstanceState::Draining && at.busy == 0;
        if at.about.resumes && !leaves {
            at.state = InstanceState::Reconnecting;
            return true;
        }
        inner.gone(&key, Proof::None);
        inner.pump(owner, self.clock.now_ms());
        false
    }

    /// The resume window of an instance has passed. Nothing happens if it is back.
    pub(crate) fn expire(&self, owner: &OwnerName, instance: &InstanceId, link: &Link) {
        let mut inner = self.inner.lock();
        let key = (owner.clone(), instance.clone());
        let expired = inner.instances.get(&key).is_some_and(|at| {
            at.state == InstanceState::Reconnecting && at.about.link.connection == link.connection
        });
        if expired {
            inner.gone(&key, Proof::None);
            inner.pump(owner, self.clock.now_ms());
        }
    }
}

impl Inner {
    /// Settles every execution of an instance that came back by what it lists.
    fn settle_listed(
        &mut self,
        owner: &OwnerName,
        instance: &InstanceId,
        listed: InFlight,
        proven: bool,
    ) -> Vec<Resumption> {
        let mut missing: BTreeMap<ExecutionId, ()> = self
            .executions
            .iter()
            .filter(|(_, execution)| {
                execution.owner == *owner
                    && execution.stage.instance() == Some(instance)
                    && matches!(execution.stage, Stage::Sent { .. } | Stage::Expected { .. })
            })
            .map(|(id, _)| (id.clone(), ()))
            .collect();
        let mut decisions = Vec::with_capacity(listed.len());
        for (id, attempt, progress) in listed {
            let decision = self.resume_one(owner, instance, &id, attempt, progress);
            if decision != Resumption::Forget {
                missing.remove(&id);
            }
            decisions.push(decision);
        }
        let proof = match proven {
            true => Proof::NeverStarted,
            false => Proof::None,
        };
        for id in missing.into_keys() {
            self.lose(&id, proof);
        }
        decisions
    }

    fn resume_one(
        &mut self,
        owner: &OwnerName,
        instance: &InstanceId,
        id: &ExecutionId,
        listed_attempt: u32,
        progress: Progress,
    ) -> Resumption {
        let key = (owner.clone(), instance.clone());
        let Some(execution) = self.executions.get_mut(id) else {
            return self.resume_forgotten(&key, id, listed_attempt, progress);
        };
        if execution.owner != *owner || execution.stage.instance() != Some(instance) {
            return Resumption::Forget;
        }
        let (attempt, cancelled, expected) = match &execution.stage {
            Stage::Sent {
                attempt, cancelled, ..
            } => (*attempt, *cancelled, false),
            Stage::Expected { attempt, .. } => (*attempt, false, true),
            // Answered: its acknowledgement is on the way.
            Stage::Answered { .. } => return Resumption::Continue,
            Stage::Waiting | Stage::Claimed { .. } => return Resumption::Forget,
        };
        if attempt != listed_attempt {
            return Resumption::Forget;
        }
        if expected {
            execution.stage = Stage::Sent {
                instance: instance.clone(),
                attempt,
                cancelled: false,
            };
        }
        let of = Attempt {
            call: execution.call,
            attempt,
        };
        match (expected, progress) {
            (true, Progress::Queued | Progress::Running) => {
                execution.mailbox.deliver(Input::ExecutorResumed { of });
            }
            (false, Progress::Queued | Progress::Running) => {
                let queued = progress == Progress::Queued;
                execution
                    .mailbox
                    .deliver(Input::ExecutorAccepted { of, queued });
            }
            (_, Progress::Finished) => {}
        }
        if expected && let Some(at) = self.instances.get_mut(&key) {
            at.busy += 1;
        }
        match (progress, cancelled) {
            (Progress::Finished, _) => Resumption::SendResult,
            (Progress::Queued | Progress::Running, true) => Resumption::Cancel,
            (Progress::Queued | Progress::Running, false) => Resumption::Continue,
        }
    }

    /// An execution that nobody waits for: one that runs must stop, one that is done is done.
    fn resume_forgotten(
        &mut self,
        key: &(OwnerName, InstanceId),
        id: &ExecutionId,
        attempt: u32,
        progress: Progress,
    ) -> Resumption {
        let Some(at) = self.instances.get_mut(key) else {
            return Resumption::Forget;
        };
        let entry = (id.clone(), attempt);
        if progress != Progress::Finished && at.forgotten.contains_key(&entry) {
            return Resumption::Cancel;
        }
        if let Some(tool) = at.forgotten.remove(&entry) {
            self.free_slot(&key.0, Some(&key.1), &tool);
        }
        Resumption::Forget
    }

    /// An instance does not come back.
    fn gone(&mut self, key: &(OwnerName, InstanceId), proof: Proof) {
        let Some(gone) = self.instances.remove(key) else {
            return;
        };
        if let Some(owner) = self.owners.get_mut(&key.0) {
            owner.instances.retain(|id| *id != key.1);
        }
        for tool in gone.forgotten.into_values() {
            self.free_slot(&key.0, None, &tool);
        }
        let lost: Vec<ExecutionId> = self
            .executions
            .iter()
            .filter(|(_, execution)| {
                execution.owner == key.0
                    && execution.stage.instance() == Some(&key.1)
                    && matches!(execution.stage, Stage::Sent { .. })
            })
            .map(|(id, _)| id.clone())
            .collect();
        for id in lost {
            self.lose(&id, proof);
        }
    }
}
