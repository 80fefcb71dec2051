//! What executors say about calls that they have, and what their silence means.
//!
//! A word about another attempt, or about a call that has ended, changes nothing here. Never trusts a
//! result before the gate's rules were applied to it.

use std::sync::Arc;

use super::call::{Call, Place};
use super::effect::{Effect, Withdraw};
use super::input::{CancelReason, Proof, Reply};
use super::settle::End;
use super::{TurnMachine, View};
use crate::gate::event::{Attempt, Event, OutputChunk, Progress};
use crate::gate::ids::{CallIndex, UnixMillis};
use crate::gate::refusal::Refusal;
use crate::gate::result::{CallEffect, NotExecuted, settle};

/// Between two reports of one call that are passed on, in milliseconds.
const REPORT_INTERVAL_MS: u64 = 100;

impl TurnMachine {
    /// The call, if it is open, out, and in that attempt.
    pub(super) fn current(&self, of: Attempt) -> Option<&Call> {
        self.calls
            .get(of.call.get())
            .filter(|call| call.is_open() && call.is_out() && call.attempts == of.attempt)
    }

    /// [`current`](Self::current), to change it.
    pub(super) fn current_mut(&mut self, of: Attempt) -> Option<&mut Call> {
        self.calls
            .get_mut(of.call.get())
            .filter(|call| call.is_open() && call.is_out() && call.attempts == of.attempt)
    }

    pub(super) fn on_progress(&mut self, now: UnixMillis, of: Attempt, progress: Progress) {
        if self.current(of).is_none() {
            return;
        }
        self.begin(of.call, now);
        if let Some(call) = self.current_mut(of) {
            call.reports.held = Some(progress);
            self.pass_report_on(of.call, now);
        }
    }

    /// Passes the last report on, if its moment has come.
    fn pass_report_on(&mut self, index: CallIndex, now: UnixMillis) {
        let Some(call) = self.calls.get_mut(index.get()) else {
            return;
        };
        if call.reports.next_at > now {
            return;
        }
        if let Some(progress) = call.reports.held.take() {
            call.reports.next_at = now.plus(REPORT_INTERVAL_MS);
            self.announce
                .push(Event::Progress(index, Arc::new(progress)));
        }
    }

    pub(super) fn on_output(&mut self, now: UnixMillis, of: Attempt, chunk: OutputChunk) {
        if self.current(of).is_none() {
            return;
        }
        self.begin(of.call, now);
        self.announce.push(Event::Output(of.call, Arc::new(chunk)));
    }

    pub(super) fn on_reply(&mut self, now: UnixMillis, of: Attempt, reply: Reply, view: &View<'_>) {
        let Some(call) = self.current_mut(of) else {
            return;
        };
        call.answered = true;
        let name = call.tool_name.clone();
        let stopping = call.stopping.clone();
        self.begin(of.call, now);
        let end = match (reply, stopping) {
            (Reply::Result(result), _) => {
                let settled = settle(&name, result, view.limits);
                self.answer(of.call, settled, now, view);
                return;
            }
            (
                Reply::Cancelled {
                    not_executed,
                    executed,
                    message,
                },
                Some(stopping),
            ) => {
                let effect = match (not_executed, executed) {
                    (true, _) => CallEffect::NotExecuted,
                    (false, true) => CallEffect::Executed,
                    (false, false) => CallEffect::Unknown,
                };
                End::stopped_with(&stopping, effect, message)
            }
            // Nobody told it to stop.
            (Reply::Cancelled { message, .. }, None) => {
                let problem = "it says that it was cancelled, and was not".to_owned();
                End::broken(
                    Refusal::ResultInvalid {
                        name: name.to_string(),
                        problem,
                    },
                    message,
                )
            }
            (Reply::Empty, _) => {
                let problem = "it holds neither a result nor a cancellation".to_owned();
                End::broken(
                    Refusal::ResultInvalid {
                        name: name.to_string(),
                        problem,
                    },
                    String::new(),
                )
            }
        };
        self.end(of.call.get(), now, end);
    }

    /// Something is due: an executor, an acceptance, an end, a stop, or the turn's own.
    pub(super) fn on_deadline(&mut self, now: UnixMillis, view: &View<'_>) {
        if self.turn_deadline().is_some_and(|due| due <= now) {
            self.time_out_turn(now, view);
        }
        self.give_diagnosis_up(now);
        for position in 0..self.calls.len() {
            let due = self
                .calls
                .get(position)
                .and_then(Call::deadline)
                .is_some_and(|due| due <= now);
            if due {
                self.call_is_due(position, now, view);
            }
        }
    }

    fn call_is_due(&mut self, position: usize, now: UnixMillis, view: &View<'_>) {
        let Some(call) = self.calls.get(position) else {
            return;
        };
        let index = call.index;
        self.pass_report_on(index, now);
        self.stop_asking(position, now, view);
        let Some(call) = self.calls.get(position) else {
            return;
        };
        if call.expires_at().is_some_and(|expires| expires <= now) {
            self.expire(position, now);
            return;
        }
        let place_is_due = call.place_deadline().is_some_and(|due| due <= now);
        // Whatever is due for a call that must stop ends it as stopped.
        if let Some(stopping) = call.stopping.clone()
            && (place_is_due || stopping.until <= now)
        {
            self.withdraw(index, stopping.reason, &stopping.message, 0, true);
            self.end(position, now, End::stopped(&stopping, false));
            return;
        }
        if !place_is_due {
            return;
        }
        let name = call.tool_name.to_string();
        match call.place.clone() {
            Place::Home | Place::Answered => {}
            Place::Waiting { .. } => {
                self.release(index);
                let refusal = Refusal::ToolUnavailable { name };
                self.end(
                    position,
                    now,
                    End::refused(refusal, NotExecuted::ToolUnavailable),
                );
            }
            Place::Expected { .. } => {
                let attempt = call.attempts;
                self.withdraw(index, CancelReason::Deadline, "", 0, true);
                self.on_lost(
                    now,
                    Attempt {
                        call: index,
                        attempt,
                    },
                    Proof::None,
                    view,
                );
            }
            Place::Sent { run_until, .. } if run_until <= now => {
                let timeout_ms = call
                    .tool
                    .as_ref()
                    .map_or(0, |tool| u64::from(tool.timeout_ms));
                let grace = view.settings.cancel_grace_ms;
                self.withdraw(
                    index,
                    CancelReason::Deadline,
                    "the call timed out",
                    grace,
                    true,
                );
                self.end(
                    position,
                    now,
                    End::unknown(Refusal::ToolTimeout { name, timeout_ms }),
                );
            }
            Place::Sent { .. } => {
                let attempt = call.attempts;
                let grace = view.settings.cancel_grace_ms;
                self.withdraw(
                    index,
                    CancelReason::Deadline,
                    "not accepted in time",
                    grace,
                    true,
                );
                self.on_lost(
                    now,
                    Attempt {
                        call: index,
                        attempt,
                    },
                    Proof::None,
                    view,
                );
            }
        }
    }

    /// Tells the executor to stop, where the tool listens.
    pub(super) fn withdraw(
        &mut self,
        index: CallIndex,
        reason: CancelReason,
        message: &str,
        grace_ms: u32,
        forget: bool,
    ) {
        let Some(call) = self.calls.get(index.get()) else {
            return;
        };
        let tell = call
            .tool
            .as_ref()
            .is_some_and(|tool| tool.definition.supports_cancellation);
        self.act.push(Effect::Withdraw(Withdraw {
            execution: call.execution.clone(),
            attempt: call.attempts,
            reason,
            message: message.to_owned(),
            grace_ms,
            tell,
            forget,
        }));
    }
}
