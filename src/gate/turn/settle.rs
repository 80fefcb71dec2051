//! Stage L: calls get their one result, and the turn its end.
//!
//! Everything that a step ended is recorded first, then told, then acknowledged. Never ends a call
//! twice.

use std::borrow::Cow;
use std::sync::Arc;

use super::TurnMachine;
use super::View;
use super::call::{Call, Place, Stopping};
use super::effect::{Durability, Effect};
use crate::gate::approval::{ApprovalState, Decision};
use crate::gate::call::CallState;
use crate::gate::event::{Event, RunState, RunSummary, StopReason, TurnCompleted, TurnOutcome};
use crate::gate::hooks::{HookText, HookWords, KeptBack};
use crate::gate::ids::{CallIndex, UnixMillis};
use crate::gate::record::{CallWay, Fresh, Record, TurnSpec};
use crate::gate::refusal::{CallError, Refusal};
use crate::gate::result::{
    CallEffect, CallOutcome, CallResult, CallTiming, Content, NotExecuted, Settled, ToolResult,
};

/// What the model sees of a result that a hook keeps from it.
const SUPPRESSED: &str = "[a hook keeps this result back]";

/// How a call ends.
#[derive(Debug)]
pub(super) struct End {
    outcome: CallOutcome,
    error: Option<CallError>,
    not_executed: Option<NotExecuted>,
    effect: CallEffect,
    answer: ToolResult,
    cut_from_bytes: Option<u64>,
    words: HookWords,
    /// It is what an executor answered, so that hooks can keep it from the model.
    is_output: bool,
}

impl End {
    fn error(error: CallError, not_executed: Option<NotExecuted>, effect: CallEffect) -> Self {
        Self {
            outcome: CallOutcome::Error,
            error: Some(error),
            not_executed,
            effect,
            answer: ToolResult::default(),
            cut_from_bytes: None,
            words: HookWords::default(),
            is_output: false,
        }
    }

    /// No executor ran it.
    pub(super) fn refused(refusal: Refusal, why: NotExecuted) -> Self {
        Self::error(refusal.into_error(), Some(why), CallEffect::NotExecuted)
    }

    /// It was sent, and no answer is known.
    pub(super) fn unknown(refusal: Refusal) -> Self {
        Self::error(refusal.into_error(), None, CallEffect::Unknown)
    }

    /// It was answered, and the answer cannot be used.
    pub(super) fn broken(refusal: Refusal, detail: String) -> Self {
        let error = CallError {
            detail,
            ..refusal.into_error()
        };
        Self::error(error, None, CallEffect::Executed)
    }

    /// It was stopped without an answer.
    pub(super) fn stopped(stopping: &Stopping, never_started: bool) -> Self {
        let effect = match never_started {
            true => CallEffect::NotExecuted,
            false => CallEffect::Unknown,
        };
        Self {
            not_executed: never_started.then_some(NotExecuted::CancelledBeforeStart),
            ..Self::stopped_with(stopping, effect, String::new())
        }
    }

    /// It was stopped and says whether it had acted.
    pub(super) fn stopped_with(stopping: &Stopping, effect: CallEffect, detail: String) -> Self {
        let refusal = Refusal::Cancelled {
            reason: stopping.message.clone(),
        };
        let error = CallError {
            detail,
            ..refusal.into_error()
        };
        Self {
            outcome: CallOutcome::Cancelled,
            ..Self::error(error, None, effect)
        }
    }

    /// It was answered.
    pub(super) fn answered(settled: Settled) -> Self {
        let Settled {
            mut result,
            cut_from_bytes,
        } = settled;
        Self {
            outcome: match result.is_error {
                true => CallOutcome::Error,
                false => CallOutcome::Success,
            },
            error: result.error.take(),
            not_executed: None,
            effect: CallEffect::Executed,
            answer: result,
            cut_from_bytes,
            words: HookWords::default(),
            is_output: true,
        }
    }

    /// A hook gave the result in the tool's place. An error is its denial.
    pub(super) fn answered_by_hook(settled: Settled) -> Self {
        let why = match settled.result.is_error {
            true => NotExecuted::DeniedByHook,
            false => NotExecuted::AnsweredByHook,
        };
        Self {
            effect: CallEffect::NotExecuted,
            not_executed: Some(why),
            is_output: false,
            ..Self::answered(settled)
        }
    }

    /// How it ends.
    pub(super) fn outcome(&self) -> CallOutcome {
        self.outcome
    }

    /// The same end with this error.
    pub(super) fn with_error(mut self, refusal: Refusal) -> Self {
        let said = self.error.take();
        let mut error = refusal.into_error();
        if let Some(said) = said.filter(|_| !self.answer.contents.is_empty()) {
            error.message_for_model = said.message_for_model;
        }
        self.error = Some(error);
        self
    }

    /// The same end with something for operators.
    pub(super) fn with_detail(mut self, detail: String) -> Self {
        if let Some(error) = self.error.as_mut().filter(|_| !detail.is_empty()) {
            error.detail = detail;
        }
        self
    }

    /// The same end with what hooks add to it.
    pub(super) fn with_words(mut self, words: HookWords) -> Self {
        self.words = words;
        self
    }

    /// The same end, which ends the loop or does not.
    pub(super) fn with_stop_flag(mut self, stop_flag: bool) -> Self {
        self.answer.stop_flag = stop_flag;
        self
    }

    /// An approver gave the result in the tool's place.
    pub(super) fn answered_by_approver(settled: Settled) -> Self {
        Self {
            effect: CallEffect::NotExecuted,
            not_executed: Some(NotExecuted::AnsweredByApprover),
            is_output: false,
            ..Self::answered(settled)
        }
    }

    /// What is left to say when an earlier attempt may have acted.
    fn after_an_earlier_attempt(self) -> Self {
        match self.effect {
            CallEffect::NotExecuted => Self {
                effect: CallEffect::Unknown,
                not_executed: None,
                ..self
            },
            CallEffect::Executed | CallEffect::Unknown => self,
        }
    }

    /// The call's one result, as the model may see it.
    fn into_last_result(mut self, call: &Call, spec: &TurnSpec, now: UnixMillis) -> CallResult {
        let mut words = std::mem::take(&mut self.words);
        if let Some(heard) = &call.heard {
            // Those from before the call come first.
            let earlier: Vec<HookText> = heard.contexts.clone();
            words.contexts.splice(0..0, earlier);
            words.suppressed |= heard.suppress;
        }
        words.suppressed &= self.is_output;
        if words.suppressed {
            words.kept_back = Some(Box::new(self.suppress()));
        }
        CallResult {
            hooks: (!words.is_empty()).then(|| Box::new(words)),
            ..self.into_result(call, spec, now)
        }
    }

    /// Takes away what the tool said; error flag, code and pairing stay.
    ///
    /// What is taken away here is what the audit keeps.
    fn suppress(&mut self) -> KeptBack {
        let placeholder = vec![Content::Text(SUPPRESSED.to_owned())];
        let error = self.error.as_mut();
        let message = error.map(|error| &mut error.message_for_model);
        KeptBack {
            contents: std::mem::replace(&mut self.answer.contents, placeholder),
            structured: std::mem::take(&mut self.answer.structured),
            message: message.map_or_else(String::new, |message| {
                std::mem::replace(message, SUPPRESSED.to_owned())
            }),
        }
    }

    /// The result as it is, nothing kept back.
    pub(super) fn into_result(self, call: &Call, spec: &TurnSpec, now: UnixMillis) -> CallResult {
        CallResult {
            hooks: None,
            approval: call.approval.as_ref().map(|_| spec.approval_id(call.index)),
            call_id: call.call_id.clone(),
            tool: call.tool_name.clone(),
            outcome: self.outcome,
            stop_flag: self.answer.stop_flag,
            error: self.error,
            contents: self.answer.contents,
            structured: self.answer.structured,
            metadata: self.answer.metadata,
            not_executed: self.not_executed,
            effect: self.effect,
            cut_from_bytes: self.cut_from_bytes,
            sanitised: self.answer.sanitised,
            attempts: call.attempts,
            timing: CallTiming {
                received_at: spec.accepted_at,
                started_at: call.started_at,
                finished_at: now,
                approval_ms: call.approval_ms(now),
                queue_ms: call.queue_ms,
            },
            arguments_digest: call.arguments.as_ref().map(|arguments| arguments.digest),
        }
    }
}

impl TurnMachine {
    /// Moves a call that no executor runs through the states of one that is run.
    pub(super) fn pass_through(&mut self, position: usize) {
        for next in [CallState::Scheduled, CallState::Executing] {
            if let Some(call) = self.calls.get_mut(position) {
                let moved = call.move_to(next, Cow::Borrowed(""));
                self.announce.push(Event::CallMoved(moved));
            }
        }
    }

    /// Gives a call its one result.
    pub(super) fn end(&mut self, position: usize, now: UnixMillis, end: End) {
        // Whatever ends a call that still waits ends its approval.
        self.close(
            position,
            ApprovalState::Cancelled,
            Decision {
                at: now,
                ..Decision::default()
            },
        );
        let spec = self.spec.clone();
        let Some(call) = self.calls.get_mut(position) else {
            return;
        };
        let end = match call.may_have_run {
            true => end.after_an_earlier_attempt(),
            false => end,
        };
        let code = end
            .error
            .as_ref()
            .map_or(Cow::Borrowed(""), |error| error.code.clone());
        let next = match end.outcome {
            CallOutcome::Success => CallState::Success,
            CallOutcome::Error => CallState::Error,
            CallOutcome::Cancelled => CallState::Cancelled,
        };
        if call.place != Place::Home {
            self.active = self.active.saturating_sub(1);
        }
        if let Place::Waiting { since, .. } = call.place {
            call.queue_ms += now.since(since);
        }
        if let Some(progress) = call.reports.held.take() {
            // The last word is kept, however early.
            let told = Event::Progress(call.index, Arc::new(progress));
            self.announce.push(told);
        }
        let moved = call.move_to(next, code);
        call.place = Place::Home;
        call.stopping = None;
        call.result = Some(Arc::new(end.into_last_result(call, &spec, now)));
        self.ended_now.push(call.index);
        self.open = self.open.saturating_sub(1);
        self.announce.push(Event::CallMoved(moved));
    }

    /// Leaves true after every step: what ended is recorded, told and acknowledged, in that order.
    pub(super) fn settle(&mut self, now: UnixMillis, view: &View<'_>) {
        self.record_approvals();
        let ended_now = std::mem::take(&mut self.ended_now);
        for &index in &ended_now {
            let Some(call) = self.calls.get_mut(index.get()) else {
                continue;
            };
            if let Some(result) = &call.result {
                self.announce
                    .push(Event::CallCompleted(index, result.clone()));
            }
            if std::mem::take(&mut call.answered) {
                self.act.push(Effect::Acknowledge {
                    execution: call.execution.clone(),
                    attempt: call.attempts,
                });
            }
        }
        if self.open == 0 && !self.waits_for_diagnosis() {
            self.finish(now, view);
            return;
        }
        self.record_ended(&ended_now);
    }

    /// Records what executors answered while the turn goes on; the rest is in the turn's end.
    fn record_ended(&mut self, ended: &[CallIndex]) {
        let mut when = Durability::After;
        let mut results = Vec::new();
        for &index in ended {
            let Some(call) = self.calls.get(index.get()) else {
                continue;
            };
            let Some(result) = &call.result else {
                continue;
            };
            // What a person decided is not found again by looking.
            if result.attempts == 0 && call.approval.is_none() {
                continue;
            }
            if !call.is_repeatable() || call.approval.is_some() {
                when = Durability::BeforeAnnounce;
            }
            results.push((index, result.clone()));
        }
        if !results.is_empty() {
            let turn = self.spec.clone();
            let decided = self.tell_ended(results.iter().map(|(index, _)| *index));
            self.persist.push(Effect::Persist {
                record: Record::CallsEnded {
                    turn,
                    results,
                    decided,
                },
                when,
            });
        }
    }

    /// The audit has the end of these calls from now on; what it lacks of their decisions.
    fn tell_ended(&mut self, ended: impl Iterator<Item = CallIndex>) -> Vec<CallWay> {
        let mut decided = Vec::new();
        for index in ended {
            if let Some(call) = self.calls.get_mut(index.get()) {
                call.is_end_told = true;
                decided.extend(call.tell_decision());
            }
        }
        decided
    }

    fn finish(&mut self, now: UnixMillis, view: &View<'_>) {
        self.forget_all_asked();
        self.tell_finished(now, view);
        let results: Vec<_> = self
            .calls
            .iter()
            .filter_map(|call| call.result.clone())
            .collect();
        let run = self.run_after(now);
        let is_aborted =
            self.aborted.is_some() || self.cancelling.is_some() && run.state == RunState::Aborted;
        let (outcome, refusal) = match (&self.cancelling, &self.looping) {
            _ if is_aborted => {
                let reason = self.aborted.as_ref().or(self.cancelling.as_ref());
                let reason = reason.cloned().unwrap_or_default();
                (TurnOutcome::Aborted, Some(Refusal::RunAborted { reason }))
            }
            (Some(reason), _) => {
                let reason = reason.clone();
                (TurnOutcome::Cancelled, Some(Refusal::Cancelled { reason }))
            }
            (None, Some(found)) => {
                let reason = found.reason.clone();
                let refusal = Refusal::LoopDetected { reason };
                (TurnOutcome::LoopDetected, Some(refusal))
            }
            (None, None) => (TurnOutcome::Completed, None),
        };
        let error = refusal.map(Refusal::into_error);
        let completed = Arc::new(TurnCompleted {
            outcome,
            stop: self.stop_reason(outcome, &run),
            results,
            run,
            error,
        });
        let untold = self.calls.iter().filter(|call| !call.is_end_told);
        let ended: Vec<CallIndex> = untold.map(|call| call.index).collect();
        let decided = self.tell_ended(ended.iter().copied());
        self.persist.push(Effect::Persist {
            record: Record::TurnEnded {
                turn: self.spec.clone(),
                completed: completed.clone(),
                fresh: Fresh { decided, ended },
            },
            when: self.end_durability(&completed),
        });
        self.announce.push(Event::TurnCompleted(completed));
        self.ended = true;
    }

    /// The end of a run, and of calls that must not run twice, is on the disk before it is told.
    fn end_durability(&self, completed: &TurnCompleted) -> Durability {
        let run_ended = completed.run.state != RunState::Active;
        let ran_once =
            |call: &Call| call.approval.is_some() || call.attempts > 0 && !call.is_repeatable();
        match run_ended || self.calls.iter().any(ran_once) {
            true => Durability::BeforeAnnounce,
            false => Durability::After,
        }
    }

    /// The run as this turn leaves it.
    pub(super) fn run_after(&self, now: UnixMillis) -> RunSummary {
        if let Some(ended) = &self.run_ended {
            // An end stays as it is.
            return RunSummary {
                rounds: ended.rounds.max(self.spec.round),
                ..ended.clone()
            };
        }
        let (state, end_code, end_reason) = match (&self.cancelling, &self.looping) {
            (Some(reason), _) => (RunState::Cancelled, "tool_cancelled", reason.as_str()),
            (None, Some(found)) => (
                RunState::LoopDetected,
                "loop_detected",
                found.reason.as_str(),
            ),
            (None, None) if self.has_stop_flag() => {
                (RunState::Completed, "", "a tool ended the run")
            }
            (None, None) if self.was_stopped() => (RunState::Completed, "", "a hook ended the run"),
            (None, None) => (RunState::Active, "", ""),
        };
        RunSummary {
            session: self.spec.session().clone(),
            run: self.spec.run().clone(),
            state,
            rounds: self.spec.round,
            end_code: end_code.to_owned(),
            end_reason: end_reason.to_owned(),
            started_at: self.spec.run_started_at,
            ended_at: (state != RunState::Active).then_some(now),
        }
    }

    fn stop_reason(&self, outcome: TurnOutcome, run: &RunSummary) -> Option<StopReason> {
        match (outcome, run.state) {
            (TurnOutcome::Completed, RunState::Active) => None,
            (TurnOutcome::Completed, _) if self.has_stop_flag() => Some(StopReason::Tool),
            (TurnOutcome::Completed, _) if self.was_stopped() => Some(StopReason::Hook),
            (
                TurnOutcome::Completed
                | TurnOutcome::Cancelled
                | TurnOutcome::Aborted
                | TurnOutcome::Error
                | TurnOutcome::LoopDetected,
                _,
            ) => Some(StopReason::RunEnded),
        }
    }

    /// Whether a hook said STOP.
    pub(super) fn was_stopped(&self) -> bool {
        let results = self.calls.iter().filter_map(|call| call.result.as_ref());
        let mut words = results.filter_map(|result| result.hooks.as_ref());
        words.any(|words| words.stopped_by.is_some())
    }

    pub(super) fn has_stop_flag(&self) -> bool {
        let results = self.calls.iter().filter_map(|call| call.result.as_ref());
        results.into_iter().any(|result| result.stop_flag)
    }
}
