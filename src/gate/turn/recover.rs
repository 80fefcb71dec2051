//! Taking a turn up after a restart.
//!
//! What was never sent starts again from the look; what was sent is expected back for a while. Never
//! sends a call twice that must not run twice.

use std::sync::Arc;

use super::call::{Call, Place, Stopping};
use super::effect::{Durability, Effect, Expect};
use super::input::{CancelReason, CheckedArguments};
use super::look::{Refused, steps_of};
use super::settle::End;
use super::{TurnMachine, View};
use crate::gate::approval::BatchPolicy;
use crate::gate::call::CallState;
use crate::gate::event::Attempt;
use crate::gate::ids::{HookId, UnixMillis};
use crate::gate::json::Document;
use crate::gate::record::{Record, StoredTurn};
use crate::gate::refusal::Refusal;
use crate::gate::result::{CallOutcome, Digest, NotExecuted};

impl TurnMachine {
    /// The machine of a turn that had not ended when the process died.
    pub fn restore(stored: &StoredTurn) -> Self {
        let mut machine = Self::new(Arc::new(stored.spec.clone()));
        machine.epoch = stored.epoch.saturating_add(1);
        machine.cancelling.clone_from(&stored.cancelling);
        for intent in &stored.dispatched {
            if let Some(call) = machine.calls.get_mut(intent.call.get()) {
                call.attempts = intent.attempt;
                // It was sent, so it was heard.
                call.is_heard = true;
                call.is_decision_told = true;
                call.place = Place::Expected {
                    instance: intent.instance.clone(),
                    until: UnixMillis(u64::MAX),
                };
            }
        }
        for approval in &stored.approvals {
            if let Some(call) = machine.calls.get_mut(approval.call.get()) {
                call.approval = Some(approval.clone());
                call.is_heard = true;
            }
        }
        for (index, heard) in &stored.heard {
            if let Some(call) = machine.calls.get_mut(index.get()) {
                call.heard = Some(heard.clone());
                call.is_heard = true;
            }
        }
        for (index, result) in &stored.results {
            let Some(call) = machine.calls.get_mut(index.get()) else {
                continue;
            };
            call.place = Place::Home;
            call.tool_name = result.tool.clone();
            call.attempts = result.attempts;
            call.state = match result.outcome {
                CallOutcome::Success => CallState::Success,
                CallOutcome::Error => CallState::Error,
                CallOutcome::Cancelled => CallState::Cancelled,
            };
            call.result = Some(result.clone());
            (call.is_decision_told, call.is_end_told) = (true, true);
            machine.open = machine.open.saturating_sub(1);
        }
        machine
    }

    pub(super) fn on_recovered(&mut self, now: UnixMillis, view: &View<'_>) {
        // How long exactly people were awaited is not written down: a turn gets more time rather than
        // less.
        let approvals = self.calls.iter().filter_map(|call| call.approval.as_ref());
        let asked_at = approvals.map(|approval| approval.created_at).min();
        self.suspended_ms = asked_at.map_or(0, |asked_at| now.since(asked_at));
        // What it called was judged before; with the results it may be judged again.
        self.note_steps(steps_of(&self.spec, view.registry, view.json), view);
        if let Some(reason) = self.cancelling.clone() {
            self.end_cancelled(now, &reason, view);
            return;
        }
        for position in 0..self.calls.len() {
            let Some(call) = self.calls.get(position).filter(|call| call.is_open()) else {
                continue;
            };
            let sent_to = match &call.place {
                Place::Expected { instance, .. } => Some(instance.clone()),
                Place::Home | Place::Waiting { .. } | Place::Sent { .. } | Place::Answered => None,
            };
            self.look_again(position, view);
            match sent_to {
                Some(instance) => self.expect(position, instance, now, view),
                None => self.wait_again(position, now),
            }
        }
        self.stop_waiting(now);
        self.hear_hooks(now, view);
    }

    /// What waited waits on and can be decided, however long it takes to learn what is asked about it.
    fn wait_again(&mut self, position: usize, now: UnixMillis) {
        let call = self.calls.get(position);
        let waits = call.filter(|call| call.refusal.is_none());
        let approval = waits.and_then(|call| call.approval.clone());
        if let Some(approval) = approval.filter(|approval| approval.is_pending()) {
            self.wait_on(position, now);
            self.shown.push(approval);
        }
    }

    /// Looks at a call that another process may have sent without a word on the disk.
    fn look_again(&mut self, position: usize, view: &View<'_>) {
        self.look(position, view);
        self.put_heard(position, view);
        let was_frozen = self.was_frozen();
        if let Some(call) = self.calls.get_mut(position) {
            call.may_have_run = call.refusal.is_none() && call.is_repeatable() && !was_frozen;
            put_edited(call, view);
        }
    }

    /// Hooks put other arguments in place of the model's own.
    fn put_heard(&mut self, position: usize, view: &View<'_>) {
        let heard = self.calls.get(position).and_then(|call| call.heard.clone());
        let rewritten = heard.as_ref().and_then(|heard| heard.arguments.as_ref());
        if let (Some(heard), Some(text)) = (&heard, rewritten) {
            let nobody = HookId::trusted("");
            let hook = heard.rewritten_by.as_ref().unwrap_or(&nobody);
            self.put_rewritten(position, text, hook, view);
        }
    }

    /// Whether nothing of the batch can have been sent, since an approver was awaited.
    fn was_frozen(&self) -> bool {
        let mut approvals = self.calls.iter().filter_map(|call| call.approval.as_ref());
        self.spec.batch_policy != BatchPolicy::EagerSafe
            && approvals.any(|approval| approval.is_pending())
    }

    /// A cancelled turn does not go on: whatever has not ended, ends.
    fn end_cancelled(&mut self, now: UnixMillis, reason: &str, view: &View<'_>) {
        for position in 0..self.calls.len() {
            let Some(call) = self.calls.get(position).filter(|call| call.is_open()) else {
                continue;
            };
            let never_sent = call.place == Place::Home;
            let stopping = Stopping {
                reason: CancelReason::TurnCancelled,
                message: reason.to_owned(),
                until: now,
            };
            self.look_again(position, view);
            self.end(position, now, End::stopped(&stopping, never_sent));
        }
    }

    fn expect(
        &mut self,
        position: usize,
        instance: crate::gate::ids::InstanceId,
        now: UnixMillis,
        view: &View<'_>,
    ) {
        let Some(call) = self.calls.get_mut(position) else {
            return;
        };
        // It was sent, so it was allowed; it is only waited for. What the look says counts if it must be
        // sent again.
        let moved = call.move_to(CallState::Scheduled, "".into());
        call.place = Place::Expected {
            instance: instance.clone(),
            until: now.plus(view.settings.resume_window_ms),
        };
        self.announce
            .push(crate::gate::event::Event::CallMoved(moved));
        self.active += 1;
        let Some(tool) = call.tool.clone() else {
            let refusal = crate::gate::refusal::Refusal::OutcomeUnknown {
                name: call.tool_name.to_string(),
            };
            self.end(position, now, End::unknown(refusal));
            return;
        };
        self.act.push(Effect::Expect(Expect {
            call: call.index,
            execution: call.execution.clone(),
            attempt: call.attempts,
            instance,
            tool,
        }));
    }

    /// The executor came back and still has the call.
    pub(super) fn on_resumed(&mut self, now: UnixMillis, of: Attempt, _view: &View<'_>) {
        let Some(call) = self.current_mut(of) else {
            return;
        };
        let timeout_ms = call
            .tool
            .as_ref()
            .map_or(0, |tool| u64::from(tool.timeout_ms));
        call.place = Place::Sent {
            accept_until: None,
            run_until: now.plus(timeout_ms),
        };
        self.begin(of.call, now);
    }

    /// The record that opens a new epoch.
    pub fn recovery_record(&self, epoch: u32) -> (Record, Durability) {
        let turn = self.spec.clone();
        (
            Record::TurnRecovered { turn, epoch },
            Durability::BeforeAnnounce,
        )
    }
}

/// An approver put other arguments in place of the model's own.
fn put_edited(call: &mut Call, view: &View<'_>) {
    let Some(edited) = call.approval.as_ref().and_then(|approval| {
        let decision = approval.decision.as_ref()?;
        decision.edited.clone()
    }) else {
        return;
    };
    let Some(tool) = &call.tool else {
        return;
    };
    // They passed when they were put in; the schema may be another one now.
    let checked = Document::parse_object(&edited, view.json)
        .map_err(Refusal::from)
        .and_then(|document| tool.schema.check(&document).map_err(Refusal::from));
    call.arguments = Some(CheckedArguments {
        digest: Digest::of(&edited),
        text: edited,
    });
    call.is_rewritten = true;
    call.refusal = checked.err().map(|refusal| Refused {
        refusal,
        why: NotExecuted::InvalidCall,
    });
}
