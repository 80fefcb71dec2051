//! Finding room for a call, sending it, taking it back.
//!
//! Several instances of one executor share the load by free slots. Never waits: what finds no room is
//! told later, through its mailbox.

use super::stage::Stage;
use super::{Execution, Inner, Owner, Pool, words};
use crate::executor::{SharedMailbox, convert};
use crate::gate::event::Attempt;
use crate::gate::ids::{ExecutionId, InstanceId, OwnerName};
use crate::gate::turn::{Claim, Claimed, Dispatch, Expect, Input, Proof, RejectReason, Withdraw};

/// What a dispatch needs beyond the call itself.
#[derive(Debug, Clone, Copy)]
pub struct DispatchContext {
    /// Bytes of output that may be sent now. Zero: nobody listens.
    pub output_credit: u32,
    /// When it is sent, in Unix milliseconds.
    pub now_ms: u64,
}

impl Pool {
    /// Looks for an executor with room. None: there is none now, and the mailbox will be told.
    pub fn claim(&self, claim: Claim, mailbox: SharedMailbox) -> Option<Claimed> {
        let now = self.clock.now_ms();
        let mut inner = self.inner.lock();
        let execution = Execution {
            call: claim.call,
            mailbox,
            owner: claim.tool.owner.clone(),
            tool: claim.tool.definition.name.clone(),
            tool_digest: claim.tool.digest,
            max_concurrency: claim.tool.definition.max_concurrency,
            output_credit: 0,
            stage: Stage::Waiting,
        };
        // An earlier attempt may still stand on the books.
        inner.remove(&claim.execution);
        match inner.place(&claim.execution, execution, now) {
            Ok(claimed) => Some(claimed),
            Err(execution) if inner.waiting() >= self.limits.waiting_calls_max => {
                execution.mailbox.deliver(Input::QueueFull(claim.call));
                None
            }
            Err(execution) => {
                let owner = inner.owners.entry(execution.owner.clone()).or_default();
                owner.waiting.push_back(claim.execution.clone());
                inner.executions.insert(claim.execution, *execution);
                None
            }
        }
    }

    /// Sends a call to the executor that was claimed for it.
    ///
    /// The answer, whatever it is, comes through the mailbox.
    pub fn dispatch(&self, dispatch: Dispatch, context: DispatchContext) {
        let mut inner = self.inner.lock();
        let Some(execution) = inner.executions.get_mut(&dispatch.execution) else {
            return;
        };
        let Stage::Claimed { instance } = &execution.stage else {
            return;
        };
        let instance = instance.clone();
        let attempt = dispatch.attempt;
        execution.stage = Stage::Sent {
            instance: instance.clone(),
            attempt,
            cancelled: false,
        };
        let owner = execution.owner.clone();
        let Some(at) = inner.instances.get(&(owner, instance.clone())) else {
            inner.lose(&dispatch.execution, Proof::NeverStarted);
            return;
        };
        let max_message_bytes = at.about.max_message_bytes;
        let prints = at.about.prints;
        let link = at.is_reachable().then(|| at.about.link.clone());
        let execution_id = dispatch.execution.clone();
        let (message, size) = convert::execute_request(dispatch, &context, prints);
        if prints && let Some(execution) = inner.executions.get_mut(&execution_id) {
            execution.output_credit = u64::from(context.output_credit);
        }
        if size > max_message_bytes {
            inner.reject(&execution_id, attempt, RejectReason::TooLarge);
            return;
        }
        let sent = link.is_some_and(|link| link.lanes.work(message));
        if !sent {
            inner.lose(&execution_id, Proof::NeverStarted);
        }
    }

    /// Expects an execution that was sent before a restart.
    pub fn expect(&self, expect: Expect, mailbox: SharedMailbox) {
        let mut inner = self.inner.lock();
        inner.executions.insert(
            expect.execution,
            Execution {
                call: expect.call,
                mailbox,
                owner: expect.tool.owner.clone(),
                tool: expect.tool.definition.name.clone(),
                tool_digest: expect.tool.digest,
                max_concurrency: expect.tool.definition.max_concurrency,
                output_credit: 0,
                stage: Stage::Expected {
                    instance: expect.instance,
                    attempt: expect.attempt,
                },
            },
        );
    }

    /// Stops an execution, or gives a claim back.
    pub fn withdraw(&self, withdraw: &Withdraw) {
        let mut inner = self.inner.lock();
        let Some(execution) = inner.executions.get_mut(&withdraw.execution) else {
            return;
        };
        let owner = execution.owner.clone();
        match &mut execution.stage {
            Stage::Waiting | Stage::Claimed { .. } | Stage::Expected { .. } => {
                inner.remove(&withdraw.execution);
            }
            Stage::Sent {
                instance,
                attempt,
                cancelled,
            } if *attempt == withdraw.attempt => {
                let (instance, attempt) = (instance.clone(), *attempt);
                *cancelled = true;
                if withdraw.tell
                    && let Some(link) = inner.link(&owner, &instance)
                {
                    link.lanes.control(convert::cancel_execution(withdraw));
                }
                if withdraw.forget {
                    inner.forget(&withdraw.execution, &instance, attempt);
                }
            }
            Stage::Sent { .. } | Stage::Answered { .. } => {}
        }
        inner.pump(&owner, self.clock.now_ms());
    }

    /// Tells the executor that its result is kept.
    pub fn acknowledge(&self, execution: &ExecutionId, attempt: u32) {
        let mut inner = self.inner.lock();
        let Some(known) = inner.executions.get(execution) else {
            return;
        };
        let Stage::Answered { instance, .. } = &known.stage else {
            return;
        };
        let (owner, instance) = (known.owner.clone(), instance.clone());
        inner.executions.remove(execution);
        if let Some(at) = inner.instances.get_mut(&(owner.clone(), instance.clone())) {
            at.remember(execution.clone(), attempt);
        }
        if let Some(link) = inner.link(&owner, &instance) {
            let status = words::ResultStatus::Recorded;
            link.lanes
                .control_unhurried(convert::result_ack(execution, attempt, status));
        }
    }

    /// Lets an execution print more.
    pub fn credit(&self, execution: &ExecutionId, bytes: u32) {
        if bytes == 0 {
            return;
        }
        let mut inner = self.inner.lock();
        let Some(known) = inner.executions.get(execution) else {
            return;
        };
        let Stage::Sent {
            instance, attempt, ..
        } = &known.stage
        else {
            return;
        };
        let (key, attempt) = ((known.owner.clone(), instance.clone()), *attempt);
        let prints = inner.instances.get(&key).is_some_and(|at| at.about.prints);
        if !prints {
            return;
        }
        if let Some(link) = inner.link(&key.0, &key.1)
            && let Some(known) = inner.executions.get_mut(execution)
        {
            known.output_credit = known.output_credit.saturating_add(u64::from(bytes));
            link.lanes
                .control(convert::output_credit(execution, attempt, bytes));
        }
    }
}

impl Inner {
    /// How many executions look for room.
    fn waiting(&self) -> u64 {
        let owners = self.owners.values();
        owners.map(|owner| owner.waiting.len() as u64).sum()
    }

    /// Gives the execution a slot, if one is free; else gives it back.
    fn place(
        &mut self,
        id: &ExecutionId,
        mut execution: Execution,
        now: u64,
    ) -> Result<Claimed, Box<Execution>> {
        let Some(instance) = self.find_room(&execution, now) else {
            return Err(Box::new(execution));
        };
        let key = (execution.owner.clone(), instance.clone());
        let Some(at) = self.instances.get_mut(&key) else {
            return Err(Box::new(execution));
        };
        at.busy += 1;
        let accepts = at.about.resumes;
        if execution.max_concurrency > 0 {
            let owner = self.owners.entry(execution.owner.clone()).or_default();
            *owner.running.entry(execution.tool.clone()).or_default() += 1;
        }
        execution.stage = Stage::Claimed {
            instance: instance.clone(),
        };
        let call = execution.call;
        self.executions.insert(id.clone(), execution);
        Ok(Claimed {
            call,
            instance,
            accepts,
        })
    }

    /// The instance with the most free slots that runs this very definition.
    fn find_room(&self, execution: &Execution, now: u64) -> Option<InstanceId> {
        let owner = self.owners.get(&execution.owner)?;
        let bound = execution.max_concurrency;
        if bound > 0 && owner.running.get(&execution.tool).copied().unwrap_or(0) >= bound {
            return None;
        }
        owner
            .instances
            .iter()
            .filter_map(|id| {
                let at = self.instances.get(&(execution.owner.clone(), id.clone()))?;
                at.runs(&execution.tool, &execution.tool_digest)
                    .then(|| (at.free_slots(now), id))
            })
            .filter(|(free, _)| *free > 0)
            .max_by_key(|(free, _)| *free)
            .map(|(_, id)| id.clone())
    }

    /// Gives room to whoever waits longest and fits. Call after anything that may have made room.
    pub(super) fn pump(&mut self, owner: &OwnerName, now: u64) {
        let Some(waiting) = self.owners.get_mut(owner).map(Owner::take_waiting) else {
            return;
        };
        let mut still_waiting = std::collections::VecDeque::new();
        for id in waiting {
            let Some(execution) = self.executions.remove(&id) else {
                continue;
            };
            if execution.stage != Stage::Waiting {
                self.executions.insert(id, execution);
                continue;
            }
            let mailbox = execution.mailbox.clone();
            match self.place(&id, execution, now) {
                Ok(claimed) => mailbox.deliver(Input::Claimed(vec![claimed])),
                Err(execution) => {
                    self.executions.insert(id.clone(), *execution);
                    still_waiting.push_back(id);
                }
            }
        }
        if let Some(owner) = self.owners.get_mut(owner) {
            owner.waiting = still_waiting;
        }
    }

    /// The call is gone from its executor.
    pub(super) fn lose(&mut self, id: &ExecutionId, proof: Proof) {
        let Some(execution) = self.remove(id) else {
            return;
        };
        if let Some(attempt) = execution.stage.attempt() {
            execution.mailbox.deliver(Input::ExecutorLost {
                of: Attempt {
                    call: execution.call,
                    attempt,
                },
                proof,
            });
        }
    }

    pub(super) fn reject(&mut self, id: &ExecutionId, attempt: u32, reason: RejectReason) {
        let Some(execution) = self.remove(id) else {
            return;
        };
        execution.mailbox.deliver(Input::ExecutorRejected {
            of: Attempt {
                call: execution.call,
                attempt,
            },
            reason,
        });
    }

    /// Nobody waits for the execution any more, but its handler may still run: the slot stays taken.
    fn forget(&mut self, id: &ExecutionId, instance: &InstanceId, attempt: u32) {
        let Some(execution) = self.executions.remove(id) else {
            return;
        };
        let key = (execution.owner.clone(), instance.clone());
        match self.instances.get_mut(&key) {
            Some(at) => {
                at.forgotten.insert((id.clone(), attempt), execution.tool);
            }
            None => self.free(&execution),
        }
    }
}

impl Owner {
    fn take_waiting(&mut self) -> std::collections::VecDeque<ExecutionId> {
        std::mem::take(&mut self.waiting)
    }
}

impl Stage {
    /// The attempt that was sent.
    pub(super) fn attempt(&self) -> Option<u32> {
        match self {
            Stage::Waiting | Stage::Claimed { .. } => None,
            Stage::Sent { attempt, .. }
            | Stage::Answered { attempt, .. }
            | Stage::Expected { attempt, .. } => Some(*attempt),
        }
    }
}
