//! Stage K: the hooks after a call that an executor answered, one call at a time.
//!
//! The call keeps executing until they are done, and its executor waits for the acknowledgement that
//! long. Never loses a result that came in time: what ends the turn meanwhile ends the hooks, not it.

use std::sync::Arc;

use super::call::{Call, Place};
use super::effect::{Effect, HookAbout, HookRun};
use super::hooking::{Asked, HookTicket};
use super::meant::is_for;
use super::settle::End;
use super::{TurnMachine, View};
use crate::gate::hooks::{AfterChain, AfterFold, Hook, HookAnswer, HookFailure, HookPlace, Point};
use crate::gate::ids::{CallIndex, HookId, UnixMillis};
use crate::gate::refusal::Refusal;
use crate::gate::result::Settled;

/// How far the hooks after one call are.
#[derive(Debug)]
pub(super) struct After {
    index: CallIndex,
    point: Point,
    chain: AfterChain,
    behind: Option<HookPlace>,
    asked: Option<Asked>,
}

impl TurnMachine {
    /// An executor answered: its hooks are heard before the call ends.
    pub(super) fn answer(
        &mut self,
        index: CallIndex,
        settled: Settled,
        now: UnixMillis,
        view: &View<'_>,
    ) {
        let point = point_of(&settled);
        let is_over = self.cancelling.is_some() || self.aborted.is_some();
        if is_over || !view.hooks.has(point) {
            self.end(index.get(), now, End::answered(settled));
            return;
        }
        if let Some(call) = self.calls.get_mut(index.get()) {
            call.place = Place::Answered;
            call.stopping = None;
            call.answer = Some(Box::new(settled));
            self.after_queue.push_back(index);
        }
    }

    /// Leaves true after every step: the next answered call is heard about, or none is there.
    pub(super) fn go_on_after(&mut self, now: UnixMillis, view: &View<'_>) {
        loop {
            let Some(after) = &mut self.after else {
                if !self.begin_after() {
                    return;
                }
                continue;
            };
            let is_open = self.calls.get(after.index.get()).is_some_and(Call::is_open);
            if !is_open {
                self.forget_after();
                continue;
            }
            if after.asked.is_some() {
                return;
            }
            let next = view.hooks.next(after.point, after.behind).cloned();
            let Some(hook) = next else {
                self.finish_after(now);
                continue;
            };
            after.behind = Some(hook.place);
            self.ask_after(hook, now, view);
        }
    }

    /// Takes the next answered call up. False: there is none.
    fn begin_after(&mut self) -> bool {
        let Some(index) = self.after_queue.pop_front() else {
            return false;
        };
        let answer = self
            .calls
            .get_mut(index.get())
            .filter(|call| call.is_open())
            .and_then(|call| call.answer.take());
        if let Some(settled) = answer {
            self.after = Some(After {
                index,
                point: point_of(&settled),
                chain: AfterChain::new(*settled),
                behind: None,
                asked: None,
            });
        }
        true
    }

    fn ask_after(&mut self, hook: Arc<Hook>, now: UnixMillis, view: &View<'_>) {
        let Some(after) = &self.after else {
            return;
        };
        let (index, point) = (after.index, after.point);
        let Some(call) = self.calls.get(index.get()) else {
            return;
        };
        if !is_for(&hook, call, view) {
            return;
        }
        let shown = End::answered(after.chain.result.clone());
        let about = HookAbout::After {
            call: index,
            arguments: call
                .arguments
                .as_ref()
                .map(|arguments| arguments.text.clone())
                .unwrap_or_default(),
            result: Arc::new(shown.into_result(call, &self.spec, now)),
            tool: call.tool.clone(),
        };
        let is_awaited = hook.is_awaited(point);
        let ticket = self.ask_hook(hook.clone(), point, about, now, view);
        if is_awaited && let Some(after) = &mut self.after {
            after.asked = Some(Asked { ticket, hook });
        }
    }

    /// A hook answered about a call that was answered. False: it was asked something else.
    pub(super) fn take_after_answer(
        &mut self,
        now: UnixMillis,
        ticket: HookTicket,
        answer: &HookAnswer,
        took_ms: u64,
        view: &View<'_>,
    ) -> bool {
        let Some(after) = &mut self.after else {
            return false;
        };
        let Some(asked) = after.asked.take_if(|asked| asked.ticket == ticket) else {
            return false;
        };
        let hook = asked.hook;
        let name = self.calls.get(after.index.get());
        let name = name.map(|call| call.tool_name.clone());
        let mut action = None;
        let mut is_modified = false;
        let fold = match (answer, name) {
            (HookAnswer::After(verdict), Some(name)) => {
                action = Some(verdict.action);
                is_modified = verdict.modified.is_some();
                after
                    .chain
                    .take(&hook, (**verdict).clone(), &name, view.limits)
            }
            (HookAnswer::Failed(failure), _) => AfterFold::Failed(failure.clone()),
            (
                HookAnswer::Before(_)
                | HookAnswer::Approval(_)
                | HookAnswer::Diagnosis(_)
                | HookAnswer::After(_),
                _,
            ) => AfterFold::Failed(HookFailure::nonsense(
                "it answered another question than it was asked",
            )),
        };
        let (fold, failure) = match fold {
            AfterFold::Failed(failure) => {
                let kind = failure.kind;
                (after.chain.take_failure(&hook, failure), Some(kind))
            }
            AfterFold::Next | AfterFold::Done | AfterFold::Aborted(_) => (fold, None),
        };
        let run = HookRun {
            after: action.filter(|_| failure.is_none()),
            is_modified: is_modified && failure.is_none(),
            ..HookRun::of(&hook, after.point, after.index, failure, took_ms)
        };
        self.act.push(Effect::HookRan(run));
        match fold {
            AfterFold::Next | AfterFold::Failed(_) => {}
            AfterFold::Done => self.finish_after(now),
            AfterFold::Aborted(reason) => {
                self.finish_after(now);
                self.abort(now, &hook.id, &reason, view);
            }
        }
        true
    }

    /// Every hook was heard: the call ends.
    fn finish_after(&mut self, now: UnixMillis) {
        let Some(after) = self.after.take() else {
            return;
        };
        self.end(after.index.get(), now, end_of(after.chain));
    }

    /// The call ends with what its executor answered, whoever was still to be heard.
    ///
    /// Hooks that hold results back could not be heard, so one that is among them holds it back.
    pub(super) fn end_answered(&mut self, index: CallIndex, now: UnixMillis) {
        let heard = self.after.take_if(|after| after.index == index);
        let chain = match heard {
            Some(mut after) => {
                let asked = after.asked.take();
                if let Some(asked) = &asked {
                    let failure = HookFailure::nonsense("the call ended before it answered");
                    after.chain.take_failure(&asked.hook, failure);
                }
                self.forget_asked(asked, after.point, Some(index.get()));
                after.chain
            }
            None => {
                let call = self.calls.get_mut(index.get());
                let Some(settled) = call.and_then(|call| call.answer.take()) else {
                    return;
                };
                AfterChain::new(*settled)
            }
        };
        self.end(index.get(), now, end_of(chain));
    }

    /// Nobody waits for the hooks of the call that is heard about.
    pub(super) fn forget_after(&mut self) {
        if let Some(after) = self.after.take() {
            let position = after.index.get();
            self.forget_asked(after.asked, after.point, Some(position));
        }
    }
}

fn point_of(settled: &Settled) -> Point {
    match settled.result.is_error {
        true => Point::AfterToolFailure,
        false => Point::AfterToolCall,
    }
}

fn end_of(chain: AfterChain) -> End {
    let AfterChain {
        result,
        words,
        withheld_by,
    } = chain;
    match withheld_by {
        None => End::answered(result).with_words(words),
        Some((hook, failure)) => withheld(&hook, failure, &result).with_words(words),
    }
}

/// A result that nobody may see, since the hook that was to look at it did not.
fn withheld(hook: &HookId, failure: HookFailure, result: &Settled) -> End {
    let refusal = Refusal::ResultWithheld {
        hook: hook.to_string(),
    };
    let detail = format!("{}: {}", failure.kind.code(), failure.message);
    End::broken(refusal, detail).with_stop_flag(result.result.stop_flag)
}
