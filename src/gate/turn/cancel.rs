//! Cancelling: one call, or the turn and its run.
//!
//! What was not sent ends at once; what is out is told and has its grace time. Never takes a result
//! away that came in time.

use super::call::{Place, Stopping};
use super::effect::{Durability, Effect};
use super::input::{Cancel, CancelReason, CancelScope};
use super::settle::End;
use super::{TurnMachine, View};
use crate::gate::event::RunSummary;
use crate::gate::ids::{CallIndex, UnixMillis};
use crate::gate::record::Record;

impl TurnMachine {
    pub(super) fn on_cancel(&mut self, now: UnixMillis, cancel: &Cancel) {
        match cancel.scope {
            CancelScope::Call(index) => {
                let reason = or_sentence(&cancel.reason, "the call was cancelled");
                self.stop_call(
                    index,
                    now,
                    CancelReason::CallCancelled,
                    &reason,
                    cancel.grace_ms,
                );
            }
            CancelScope::Turn => {
                let reason = or_sentence(&cancel.reason, "the turn was cancelled");
                self.stop_turn(now, CancelReason::TurnCancelled, &reason, cancel.grace_ms);
            }
            CancelScope::Run => {
                let reason = or_sentence(&cancel.reason, "the run was cancelled");
                self.stop_turn(now, CancelReason::RunEnded, &reason, cancel.grace_ms);
            }
        }
    }

    /// The run has ended by something else: what waits for approvers waits in vain.
    pub(super) fn on_run_ended(&mut self, now: UnixMillis, run: RunSummary) {
        // A hook of this turn may have ended it before.
        self.run_ended.get_or_insert(run);
        self.stop_waiting(now);
    }

    /// Whatever waits for approvers or hooks ends, if the run has ended.
    pub(super) fn stop_waiting(&mut self, now: UnixMillis) {
        if self.run_ended.is_some() {
            let pending = self.pending().map(|approval| approval.call);
            let mut waiting: Vec<CallIndex> = pending.collect();
            waiting.extend(self.undecided());
            self.stop_unasked(now, &waiting);
        }
    }

    /// Nobody is asked any more about these calls, since the run has ended.
    pub(super) fn stop_unasked(&mut self, now: UnixMillis, calls: &[CallIndex]) {
        for index in calls {
            self.stop_call(*index, now, CancelReason::RunEnded, "the run has ended", 0);
        }
        if !calls.is_empty() {
            self.reject_rest(now);
        }
    }

    pub(super) fn time_out_turn(&mut self, now: UnixMillis, view: &View<'_>) {
        let timeout = self.spec.request.timeout_ms.unwrap_or_default();
        let reason = format!("the turn took longer than {timeout} ms");
        let grace = view.settings.cancel_grace_ms;
        self.stop_turn(now, CancelReason::Deadline, &reason, grace);
    }

    fn stop_turn(&mut self, now: UnixMillis, why: CancelReason, reason: &str, grace_ms: u32) {
        let is_first = self.cancelling.is_none();
        self.cancelling.get_or_insert_with(|| reason.to_owned());
        for position in 0..self.calls.len() {
            let index = CallIndex(u16::try_from(position).unwrap_or(u16::MAX));
            self.stop_call(index, now, why, reason, grace_ms);
        }
        self.ready.clear();
        // With nothing out the turn ends in this very step, and its end says it all.
        if is_first && self.open > 0 {
            self.persist.push(Effect::Persist {
                record: Record::TurnCancelling {
                    turn: self.spec.clone(),
                    reason: reason.to_owned(),
                    run: self.run_after(now),
                },
                when: Durability::BeforeAnnounce,
            });
        }
    }

    /// Calls that executors have are told to stop, since the run has ended.
    pub(super) fn stop_running(&mut self, now: UnixMillis, reason: &str, grace_ms: u32) {
        for position in 0..self.calls.len() {
            let index = CallIndex(u16::try_from(position).unwrap_or(u16::MAX));
            self.stop_call(index, now, CancelReason::RunEnded, reason, grace_ms);
        }
        self.ready.clear();
        // With nothing out the turn ends in this very step, and its end says it all.
        if self.open > 0 {
            self.persist.push(Effect::Persist {
                record: Record::TurnCancelling {
                    turn: self.spec.clone(),
                    reason: reason.to_owned(),
                    run: self.run_after(now),
                },
                when: Durability::BeforeAnnounce,
            });
        }
    }

    fn stop_call(
        &mut self,
        index: CallIndex,
        now: UnixMillis,
        why: CancelReason,
        reason: &str,
        grace_ms: u32,
    ) {
        let Some(call) = self.calls.get_mut(index.get()) else {
            return;
        };
        if !call.is_open() {
            return;
        }
        if call.place == Place::Answered {
            self.end_answered(index, now);
            return;
        }
        let stopping = Stopping {
            reason: why,
            message: reason.to_owned(),
            until: now.plus(u64::from(grace_ms)),
        };
        if !call.is_out() {
            let claimed = call.is_waiting();
            if claimed {
                self.release(index);
            }
            self.end(index.get(), now, End::stopped(&stopping, true));
            return;
        }
        if grace_ms == 0 {
            self.withdraw(index, why, reason, 0, true);
            self.end(index.get(), now, End::stopped(&stopping, false));
            return;
        }
        match &mut call.stopping {
            // Only a shorter grace changes anything.
            Some(before) if before.until <= stopping.until => return,
            Some(before) => before.until = stopping.until,
            None => call.stopping = Some(stopping),
        }
        // Its silence is given the whole grace, whether it was accepted or not.
        if let Place::Sent { accept_until, .. } = &mut call.place {
            *accept_until = None;
        }
        self.withdraw(index, why, reason, grace_ms, false);
    }
}

fn or_sentence(reason: &str, sentence: &str) -> String {
    match reason.is_empty() {
        true => sentence.to_owned(),
        false => reason.to_owned(),
    }
}
