//! Stage C: is the run in a loop?
//!
//! Looked at before anybody is asked, or when the results stand. A loop ends the run: what has not run
//! ends `loop_detected`, and the turn with it, and hooks are told. Never changes the run's window: what
//! this turn called is handed out for it.

use std::sync::Arc;

use super::call::Call;
use super::effect::HookAbout;
use super::settle::End;
use super::{TurnMachine, View};
use crate::gate::event::Event;
use crate::gate::hooks::Point;
use crate::gate::ids::UnixMillis;
use crate::gate::loop_detector::{LoopCheck, LoopFound, ResultMark, Round};
use crate::gate::refusal::Refusal;
use crate::gate::result::NotExecuted;

impl TurnMachine {
    /// Leaves what the turn called for the window of its run.
    pub(super) fn note_steps(&mut self, steps: Round, view: &View<'_>) {
        if view.settings.loops.compares_calls() && !steps.steps.is_empty() {
            self.steps = steps;
            self.steps_are_new = true;
        }
    }

    /// What the calls are, as they were looked at.
    pub(super) fn signed(&self) -> Round {
        let mut round = Round::new(self.spec.round);
        for call in &self.calls {
            if let Some(signature) = call.signature {
                round.observe(call.index, signature);
            }
        }
        round
    }

    /// What the turn called, if the window of its run has not had it like this.
    ///
    /// Ask after every step, and put it in before another turn of the run is judged.
    pub fn take_new_steps(&mut self) -> Option<Round> {
        std::mem::take(&mut self.steps_are_new).then(|| self.steps.clone())
    }

    /// Ends everything if the run is in a loop with this turn's calls.
    pub(super) fn stop_loop(&mut self, now: UnixMillis, view: &View<'_>) -> bool {
        let settings = &view.settings.loops;
        if settings.check != LoopCheck::BeforeCalls || self.run_ended.is_some() {
            return false;
        }
        let Some(found) = view.loop_window.judge(&self.steps, settings) else {
            return false;
        };
        let reason = found.reason.clone();
        self.loop_found(found, now, view);
        for position in 0..self.calls.len() {
            let reason = reason.clone();
            let end = End::refused(Refusal::LoopDetected { reason }, NotExecuted::Loop);
            self.end(position, now, end);
        }
        true
    }

    /// Leaves true after every step: when the results stand, the run was looked at with them.
    pub(super) fn judge_results(&mut self, now: UnixMillis, view: &View<'_>) {
        let settings = &view.settings.loops;
        if self.open > 0 || self.steps.steps.is_empty() || self.looping.is_some() {
            return;
        }
        if settings.compare_results {
            for step in &mut self.steps.steps {
                let result = self.calls.get(step.call.get()).and_then(result_of);
                step.result = result;
            }
            self.steps_are_new = true;
        }
        let goes_on =
            self.cancelling.is_none() && self.run_ended.is_none() && !self.has_stop_flag();
        if settings.check == LoopCheck::AfterResults
            && goes_on
            && let Some(found) = view.loop_window.judge(&self.steps, settings)
        {
            self.loop_found(found, now, view);
        }
    }

    /// The run is in a loop: its readers and the hooks that want to know are told.
    pub(super) fn loop_found(&mut self, found: LoopFound, now: UnixMillis, view: &View<'_>) {
        let found = Arc::new(found);
        self.announce.push(Event::LoopDetected(found.clone()));
        self.looping = Some(found.clone());
        let hooks: Vec<_> = view.hooks.at(Point::LoopSuspected).cloned().collect();
        for hook in hooks {
            let about = HookAbout::LoopSuspected {
                found: found.clone(),
                run: self.run_after(now),
            };
            self.ask_hook(hook, Point::LoopSuspected, about, now, view);
        }
    }
}

fn result_of(call: &Call) -> Option<ResultMark> {
    call.result.as_ref().map(|result| ResultMark::of(result))
}
