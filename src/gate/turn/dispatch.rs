//! Stages I and J up to the send: who may start now, who has room, what is re-checked.
//!
//! [`TurnMachine::send`] is the one function that emits a dispatch. Never picks the executor: that is
//! the pool's business.

use std::borrow::Cow;

use super::call::{Call, Place};
use super::effect::{Claim, Dispatch, Durability, Effect, Withdraw};
use super::input::{CancelReason, Claimed, Proof, RejectReason};
use super::judge::{Stopped, permit};
use super::look::Refused;
use super::settle::End;
use super::{TurnMachine, View};
use crate::gate::call::CallState;
use crate::gate::event::Attempt;
use crate::gate::ids::{CallIndex, ToolName, UnixMillis};
use crate::gate::permission::Permit;
use crate::gate::record::{DispatchIntent, Record, TurnSpec};
use crate::gate::refusal::Refusal;
use crate::gate::result::NotExecuted;

/// The gates that hold again at dispatch: the look, still registered, still the same tool, the rules
/// and the mode of now.
///
/// The look of a call that was sent before a restart is not its first: it may refuse here.
fn pass(call: &Call, spec: &TurnSpec, now: UnixMillis, view: &View<'_>) -> Result<Permit, Stopped> {
    if let Some(refused) = &call.refusal {
        return Err(refused.clone().into());
    }
    let changed = |name: &ToolName| Refused {
        refusal: Refusal::ToolChanged {
            name: name.to_string(),
        },
        why: NotExecuted::ToolUnavailable,
    };
    let Some(tool) = &call.tool else {
        return Err(changed(&call.tool_name).into());
    };
    let name = &tool.definition.name;
    match view.registry.is_unchanged(name, &tool.digest) {
        true => permit(call, tool, spec, now, view),
        false => Err(changed(name).into()),
    }
}

impl TurnMachine {
    /// Lets calls look for executors: in call order, within `max_parallel`, exclusive ones alone.
    ///
    /// Stops at the first call that cannot start, so that an exclusive one is not passed for ever.
    pub(super) fn claim_ready(&mut self, now: UnixMillis, view: &View<'_>) {
        let parallel = self.spec.max_parallel();
        let parallel = parallel.map_or(usize::MAX, |max| max as usize);
        while let Some(&index) = self.ready.front() {
            let Some(call) = self.calls.get(index.get()) else {
                break;
            };
            if !call.is_open() {
                self.ready.pop_front();
                continue;
            }
            let exclusive_active = self.active == 1 && self.is_exclusive_active();
            let alone = call.is_exclusive() && self.active > 0;
            if self.active >= parallel || exclusive_active || alone {
                break;
            }
            self.ready.pop_front();
            self.active += 1;
            self.claim(index, now, view.settings.queue_timeout_ms);
        }
    }

    fn is_exclusive_active(&self) -> bool {
        self.calls
            .iter()
            .any(|call| call.is_open() && call.place != Place::Home && call.is_exclusive())
    }

    fn claim(&mut self, index: CallIndex, now: UnixMillis, timeout_ms: u64) {
        let Some(call) = self.calls.get_mut(index.get()) else {
            return;
        };
        let Some(tool) = call.tool.clone() else {
            return;
        };
        call.place = Place::Waiting {
            since: now,
            until: now.plus(timeout_ms),
        };
        self.act.push(Effect::Claim(Claim {
            call: index,
            execution: call.execution.clone(),
            tool,
        }));
    }

    /// Executors have room: re-check the whole lot, record it, send it in one burst.
    pub(super) fn on_claimed(&mut self, now: UnixMillis, claims: &[Claimed], view: &View<'_>) {
        let mut intents = Vec::with_capacity(claims.len());
        let mut decided = Vec::new();
        let mut when = Durability::After;
        for claimed in claims {
            let Some(permit) = self.may_send(claimed.call, now, view) else {
                continue;
            };
            let Some(call) = self.calls.get_mut(claimed.call.get()) else {
                continue;
            };
            call.attempts += 1;
            call.grants = permit.grants().to_vec();
            if !call.is_repeatable() {
                when = Durability::BeforeDispatch;
                decided.extend(call.tell_decision());
                intents.push(DispatchIntent {
                    call: claimed.call,
                    attempt: call.attempts,
                    instance: claimed.instance.clone(),
                });
            }
            self.send(claimed, permit, now, view);
        }
        // What running twice harms nobody needs no word of its dispatch.
        if !intents.is_empty() {
            self.persist.push(Effect::Persist {
                record: Record::CallsDispatched {
                    turn: self.spec.clone(),
                    calls: intents,
                    decided,
                },
                when,
            });
        }
    }

    /// Whether the call is still wanted and may still go.
    fn may_send(&mut self, index: CallIndex, now: UnixMillis, view: &View<'_>) -> Option<Permit> {
        let call = self.calls.get(index.get())?;
        let wanted = call.is_open() && matches!(call.place, Place::Waiting { .. });
        match wanted {
            true => self.passes_again(index, now, view),
            false => None,
        }
    }

    /// The permit of a call that every gate still lets through; a call that one does not is ended.
    fn passes_again(
        &mut self,
        index: CallIndex,
        now: UnixMillis,
        view: &View<'_>,
    ) -> Option<Permit> {
        let call = self.calls.get(index.get())?;
        let stopped = match pass(call, &self.spec, now, view) {
            Ok(permit) => return Some(permit),
            Err(stopped) => stopped,
        };
        if call.is_waiting() {
            self.release(index);
        }
        // The audit names what stopped it, not what let it run before.
        if let Some(ground) = stopped.ground
            && let Some(call) = self.calls.get_mut(index.get())
        {
            call.ground = Some(ground);
        }
        let refused = stopped.refused;
        self.end(index.get(), now, End::refused(refused.refusal, refused.why));
        None
    }

    /// A call that waits for a tool that is no longer there, or that the rules deny now, waits in vain;
    /// one that waits for an approver may not have to.
    pub(super) fn on_tools_changed(&mut self, now: UnixMillis, view: &View<'_>) {
        self.decide_waiting_again(now, view);
        for position in 0..self.calls.len() {
            let waiting = self.calls.get(position).filter(|call| {
                call.state == CallState::Scheduled
                    && matches!(call.place, Place::Home | Place::Waiting { .. })
            });
            if let Some(index) = waiting.map(|call| call.index) {
                // Its permit is made anew when it is sent.
                let _ = self.passes_again(index, now, view);
            }
        }
    }

    /// Emits the dispatch of one call. The only place that does.
    fn send(&mut self, claimed: &Claimed, permit: Permit, now: UnixMillis, view: &View<'_>) {
        let Some(call) = self.calls.get_mut(claimed.call.get()) else {
            return;
        };
        let (Some(tool), Some(arguments)) = (call.tool.clone(), call.arguments.clone()) else {
            return;
        };
        if let Place::Waiting { since, .. } = call.place {
            call.queue_ms += now.since(since);
        }
        let timeout_ms = u64::from(tool.timeout_ms);
        call.place = Place::Sent {
            accept_until: claimed
                .accepts
                .then(|| now.plus(view.settings.accept_timeout_ms)),
            run_until: now.plus(timeout_ms),
        };
        self.act.push(Effect::Dispatch(Dispatch {
            permit,
            call: claimed.call,
            execution: call.execution.clone(),
            attempt: call.attempts,
            tool,
            turn: self.spec.clone(),
            arguments,
            cwd: view.session.cwd.map(str::to_owned),
            timeout_ms,
        }));
    }

    /// Gives back a claim that is not used.
    pub(super) fn release(&mut self, index: CallIndex) {
        let Some(call) = self.calls.get(index.get()) else {
            return;
        };
        self.act.push(Effect::Withdraw(Withdraw {
            execution: call.execution.clone(),
            attempt: 0,
            reason: CancelReason::CallCancelled,
            message: String::new(),
            grace_ms: 0,
            tell: false,
            forget: true,
        }));
    }

    /// As many calls wait as may.
    pub(super) fn on_queue_full(&mut self, now: UnixMillis, index: CallIndex) {
        let waits = self
            .calls
            .get(index.get())
            .is_some_and(|call| call.is_open() && matches!(call.place, Place::Waiting { .. }));
        if waits {
            let end = End::refused(Refusal::QueueFull, NotExecuted::ToolUnavailable);
            self.end(index.get(), now, end);
        }
    }

    /// The store could not record the dispatch: nothing was sent and nothing runs.
    pub(super) fn on_dispatch_unrecorded(&mut self, now: UnixMillis, calls: &[CallIndex]) {
        for &index in calls {
            let Some(call) = self.calls.get_mut(index.get()) else {
                continue;
            };
            call.is_decision_told = false;
            if !call.is_open() {
                continue;
            }
            call.attempts = call.attempts.saturating_sub(1);
            self.release(index);
            self.end(
                index.get(),
                now,
                End::refused(Refusal::StoreUnavailable, NotExecuted::ToolUnavailable),
            );
        }
    }

    /// The executor did not take the call.
    pub(super) fn on_rejected(
        &mut self,
        now: UnixMillis,
        of: Attempt,
        reason: RejectReason,
        view: &View<'_>,
    ) {
        let Some(call) = self.current(of) else {
            return;
        };
        let name = call.tool_name.to_string();
        let refusal = match reason {
            RejectReason::Busy => return self.on_lost(now, of, Proof::NeverStarted, view),
            RejectReason::UnknownTool => Refusal::ToolChanged { name },
            RejectReason::BadArguments => Refusal::ExecutorProtocol { name },
            RejectReason::TooLarge => Refusal::ExecutorLimit,
        };
        self.end(
            of.call.get(),
            now,
            End::refused(refusal, NotExecuted::ToolUnavailable),
        );
    }

    /// The executor is gone: send again what is surely harmless, end the rest.
    pub(super) fn on_lost(&mut self, now: UnixMillis, of: Attempt, proof: Proof, view: &View<'_>) {
        let Some(call) = self.current(of) else {
            return;
        };
        // A handler that was said to run did begin, whatever is said later.
        let never_started = proof == Proof::NeverStarted && call.state == CallState::Scheduled;
        if let Some(stopping) = call.stopping.clone() {
            self.end(of.call.get(), now, End::stopped(&stopping, never_started));
            return;
        }
        let may_repeat = never_started || call.is_repeatable();
        if may_repeat && call.attempts < view.settings.attempts_max {
            self.note_attempt(of.call, never_started);
            if self.passes_again(of.call, now, view).is_some() {
                self.claim(of.call, now, view.settings.queue_timeout_ms);
            }
            return;
        }
        let name = call.tool_name.to_string();
        let end = match never_started {
            true => End::refused(
                Refusal::ToolUnavailable { name },
                NotExecuted::ToolUnavailable,
            ),
            false => End::unknown(Refusal::OutcomeUnknown { name }),
        };
        self.end(of.call.get(), now, end);
    }

    fn note_attempt(&mut self, index: CallIndex, never_started: bool) {
        if let Some(call) = self.calls.get_mut(index.get()) {
            call.may_have_run |= !never_started;
        }
    }

    /// The executor has the call.
    pub(super) fn on_accepted(&mut self, now: UnixMillis, of: Attempt, queued: bool) {
        let Some(call) = self.current_mut(of) else {
            return;
        };
        if let Place::Sent { accept_until, .. } = &mut call.place {
            *accept_until = None;
        }
        if !queued {
            self.begin(of.call, now);
        }
    }

    /// The handler runs.
    pub(super) fn begin(&mut self, index: CallIndex, now: UnixMillis) {
        let Some(call) = self.calls.get_mut(index.get()) else {
            return;
        };
        if call.state != CallState::Scheduled {
            return;
        }
        call.started_at.get_or_insert(now);
        let moved = call.move_to(CallState::Executing, Cow::Borrowed(""));
        self.announce
            .push(crate::gate::event::Event::CallMoved(moved));
    }
}
