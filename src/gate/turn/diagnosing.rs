//! The opinion of others whether a run is in a loop, after a round without calls.
//!
//! The first hook that diagnoses is asked, and without one the endpoint of the config; a failure of the
//! one is no reason to ask the other. Whatever is no clear yes is a no. Never asks while a call is open.

use super::effect::{Effect, HookAbout, HookRun};
use super::hooking::{Asked, HookTicket};
use super::{TurnMachine, View};
use crate::gate::hooks::{FailureKind, HookAnswer, Point};
use crate::gate::ids::{CallIndex, UnixMillis};
use crate::gate::loop_detector::Diagnosis;

/// Whose opinion the turn waits for.
#[derive(Debug)]
pub(super) enum Diagnosing {
    /// The endpoint of the config, until then.
    Endpoint(UnixMillis),
    /// A hook, which answers in its own time or has failed.
    Hook(Asked),
}

impl TurnMachine {
    /// Asks for a diagnosis, if this is a round without calls and one is due.
    pub(super) fn ask_for_diagnosis(&mut self, now: UnixMillis, view: &View<'_>) {
        let settings = &view.settings.loops.diagnosis;
        let is_due = self.spec.round >= settings.next_round(view.loop_window.diagnosed());
        if !self.calls.is_empty() || !is_due || self.run_ended.is_some() {
            return;
        }
        let hooks: Vec<_> = view.hooks.at(Point::LoopDiagnose).cloned().collect();
        for hook in hooks {
            let is_awaited = hook.is_awaited(Point::LoopDiagnose);
            if is_awaited && self.diagnosing.is_some() {
                continue;
            }
            let run = self.run_after(now);
            let about = HookAbout::Diagnosis { run };
            let ticket = self.ask_hook(hook.clone(), Point::LoopDiagnose, about, now, view);
            if is_awaited {
                self.diagnosing = Some(Diagnosing::Hook(Asked { ticket, hook }));
            }
        }
        if self.diagnosing.is_none() && settings.has_endpoint {
            let until = now.plus(settings.timeout_ms);
            self.diagnosing = Some(Diagnosing::Endpoint(until));
            self.act.push(Effect::AskDiagnosis {
                turn: self.spec.clone(),
                timeout_ms: settings.timeout_ms,
            });
        }
    }

    /// The endpoint's opinion is here, or will not come.
    pub(super) fn on_diagnosed(
        &mut self,
        now: UnixMillis,
        diagnosis: Option<&Diagnosis>,
        view: &View<'_>,
    ) {
        let asked = self.diagnosing.take_if(|asked| asked.until().is_some());
        if asked.is_some() {
            self.take_diagnosis(now, diagnosis, view);
        }
    }

    /// A hook answered whether the run is in a loop. False: it was asked something else.
    pub(super) fn take_diagnosis_answer(
        &mut self,
        now: UnixMillis,
        ticket: HookTicket,
        answer: &HookAnswer,
        took_ms: u64,
        view: &View<'_>,
    ) -> bool {
        let asked = self.diagnosing.take_if(|asked| asked.is_hook(ticket));
        let Some(Diagnosing::Hook(Asked { hook, .. })) = asked else {
            return false;
        };
        let (diagnosis, failure) = match answer {
            HookAnswer::Diagnosis(diagnosis) => (Some(diagnosis), None),
            HookAnswer::Failed(failure) => (None, Some(failure.kind)),
            HookAnswer::Before(_) | HookAnswer::After(_) | HookAnswer::Approval(_) => {
                (None, Some(FailureKind::Failed))
            }
        };
        self.act.push(Effect::HookRan(HookRun {
            call: None,
            ..HookRun::of(&hook, Point::LoopDiagnose, CallIndex(0), failure, took_ms)
        }));
        self.take_diagnosis(now, diagnosis, view);
        true
    }

    fn take_diagnosis(&mut self, now: UnixMillis, diagnosis: Option<&Diagnosis>, view: &View<'_>) {
        let settings = &view.settings.loops.diagnosis;
        let found = diagnosis.and_then(|diagnosis| diagnosis.verdict(settings));
        if let Some(found) = found.filter(|_| self.run_ended.is_none()) {
            self.loop_found(found, now, view);
        }
    }

    /// Whether the turn cannot end yet because a diagnosis may still come.
    pub(super) fn waits_for_diagnosis(&self) -> bool {
        let goes_on = self.cancelling.is_none() && self.run_ended.is_none();
        goes_on && self.diagnosing.is_some()
    }

    /// When the endpoint is not waited for any more. None: it is not asked.
    pub(super) fn diagnosed_until(&self) -> Option<UnixMillis> {
        self.diagnosing.as_ref().and_then(Diagnosing::until)
    }

    /// An endpoint that has had its time is not waited for any more.
    pub(super) fn give_diagnosis_up(&mut self, now: UnixMillis) {
        self.diagnosing
            .take_if(|asked| asked.until().is_some_and(|until| until <= now));
    }

    /// The turn ends: no opinion is wanted any more.
    pub(super) fn forget_diagnosis(&mut self) {
        if let Some(Diagnosing::Hook(asked)) = self.diagnosing.take() {
            self.forget_asked(Some(asked), Point::LoopDiagnose, None);
        }
    }
}

impl Diagnosing {
    fn until(&self) -> Option<UnixMillis> {
        match self {
            Diagnosing::Endpoint(until) => Some(*until),
            Diagnosing::Hook(_) => None,
        }
    }

    fn is_hook(&self, ticket: HookTicket) -> bool {
        match self {
            Diagnosing::Endpoint(_) => false,
            Diagnosing::Hook(asked) => asked.ticket == ticket,
        }
    }
}
