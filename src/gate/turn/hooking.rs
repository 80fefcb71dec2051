//! Stages D and E: the hooks before a call, one call after the other and one hook after the other.
//!
//! Built-in hooks are judged on the spot; a remote one is asked, and nothing behind it happens before
//! it has answered. An answer that nobody waits for any more changes nothing. Never decides whether a
//! call may run: what was heard is one voice in `judge`.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::call::Place;
use super::effect::{AskHook, Durability, Effect, HookAbout, HookRun};
use super::input::CheckedArguments;
use super::judge::document_of;
use super::look::Refused;
use super::meant::as_matched;
use super::settle::End;
use super::{TurnMachine, View};
use crate::gate::call::CallState;
use crate::gate::event::{RunState, RunSummary};
use crate::gate::hooks::{
    BeforeAction, Body, Builtin, Denial, FailureKind, Fold, Hook, HookAnswer, HookFailure,
    HookPlace, Judged, Point, RunStatus, voice_of,
};
use crate::gate::ids::{CallIndex, HookId, UnixMillis};
use crate::gate::json::Document;
use crate::gate::permission::Mode;
use crate::gate::record::Record;
use crate::gate::refusal::Refusal;
use crate::gate::result::{CallOutcome, Digest, NotExecuted, UNNAMED_ERROR, settle};

/// One question to a hook, by which its answer is known. Counts the questions of a turn in one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct HookTicket(pub u32);

/// A hook that was asked and has not answered.
#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) ticket: HookTicket,
    pub(super) hook: Arc<Hook>,
}

/// How far the hooks before the calls are.
#[derive(Debug, Default)]
pub(super) struct Before {
    /// The call whose hooks are heard.
    position: usize,
    /// The hook that was heard last for it.
    behind: Option<HookPlace>,
    asked: Option<Asked>,
}

impl TurnMachine {
    /// Hears the hooks; without any, the calls are decided at once.
    pub(super) fn hear_hooks(&mut self, now: UnixMillis, view: &View<'_>) {
        if !view.hooks.has(Point::BeforeToolCall) {
            self.inquire_all(now, view);
            return;
        }
        self.is_undecided = true;
        self.before = Some(Before::default());
        self.go_on_hearing(now, view);
    }

    /// Leaves true after every step: the chain waits for a hook, or is over.
    pub(super) fn go_on_hearing(&mut self, now: UnixMillis, view: &View<'_>) {
        while let Some(before) = &self.before {
            let position = before.position;
            let Some(call) = self.calls.get(position) else {
                self.before = None;
                self.recheck(view);
                self.inquire_all(now, view);
                return;
            };
            if !call.is_open() || call.is_heard {
                self.next_call();
                continue;
            }
            if before.asked.is_some() || call.is_analysed_now {
                return;
            }
            let next = view.hooks.next(Point::BeforeToolCall, before.behind);
            let Some(hook) = next.cloned() else {
                self.next_call();
                continue;
            };
            if self.cut_up_for(position, &hook, view) {
                return;
            }
            if let Some(before) = &mut self.before {
                before.behind = Some(hook.place);
            }
            self.hear(position, hook, now, view);
        }
    }

    /// The hooks of the next call, if there is one. What is still asked about this one is not wanted.
    fn next_call(&mut self) {
        let Some(before) = &mut self.before else {
            return;
        };
        let (position, asked) = (before.position, before.asked.take());
        *before = Before {
            position: position + 1,
            ..Before::default()
        };
        if let Some(call) = self.calls.get_mut(position) {
            call.is_heard = true;
        }
        self.forget_asked(asked, Point::BeforeToolCall, Some(position));
    }

    /// Hears one hook about one call, if it is for such calls.
    fn hear(&mut self, position: usize, hook: Arc<Hook>, now: UnixMillis, view: &View<'_>) {
        let Some(call) = self.calls.get(position) else {
            return;
        };
        let needs_arguments =
            hook.matcher.reads_arguments() || matches!(hook.body, Body::BuiltIn(_));
        let document = needs_arguments.then(|| document_of(call, view)).flatten();
        let cwd = view.session.cwd;
        let matched = as_matched(call, document.as_ref(), view);
        if !hook.matcher.may_mean(&matched) {
            return;
        }
        match &hook.body {
            Body::BuiltIn(builtin) => {
                let verdict = builtin.judge(&Judged {
                    arguments: document.as_ref(),
                    cwd,
                });
                self.confine(position, builtin, &hook);
                let answer = HookAnswer::Before(Box::new(verdict));
                self.take_before(position, &hook, answer, 0, now, view);
            }
            Body::Remote => self.ask_before(position, hook, now, view),
        }
    }

    /// What an executor says later of a path is held against the directories once more.
    fn confine(&mut self, position: usize, builtin: &Builtin, hook: &Arc<Hook>) {
        if builtin.confines()
            && let Some(call) = self.calls.get_mut(position)
        {
            call.confined_by.push(hook.clone());
        }
    }

    fn ask_before(&mut self, position: usize, hook: Arc<Hook>, now: UnixMillis, view: &View<'_>) {
        let spec = self.spec.clone();
        let (Some(call), Some(asked)) =
            (self.calls.get(position), spec.request.calls.get(position))
        else {
            return;
        };
        let heard = call.heard.as_deref();
        let as_made = || match &call.arguments {
            Some(arguments) => arguments.text.clone(),
            None => asked.call.arguments.clone(),
        };
        let about = HookAbout::Before {
            call: call.index,
            arguments: heard
                .and_then(|heard| heard.arguments.clone())
                .unwrap_or_else(as_made),
            generation: heard.map_or(0, |heard| heard.generation),
            validation: call
                .refusal
                .as_ref()
                .map(|refused| Box::new(refused.refusal.clone().into_error())),
            tool: call.tool.clone(),
            earlier: heard.map(|heard| heard.earlier.clone()).unwrap_or_default(),
        };
        let is_awaited = hook.is_awaited(Point::BeforeToolCall);
        let ticket = self.ask_hook(hook.clone(), Point::BeforeToolCall, about, now, view);
        if is_awaited && let Some(before) = &mut self.before {
            before.asked = Some(Asked { ticket, hook });
        }
    }

    /// Emits one question.
    pub(super) fn ask_hook(
        &mut self,
        hook: Arc<Hook>,
        point: Point,
        about: HookAbout,
        now: UnixMillis,
        view: &View<'_>,
    ) -> HookTicket {
        self.tickets += 1;
        let ticket = HookTicket(self.tickets);
        self.act.push(Effect::AskHook(Box::new(AskHook {
            ticket,
            is_awaited: hook.is_awaited(point),
            hook,
            point,
            attempt: self.epoch,
            turn: self.spec.clone(),
            cwd: view.session.cwd.map(str::to_owned),
            mode: mode_of(now, view),
            at: now,
            about,
        })));
        ticket
    }

    /// A hook answered, or failed to.
    pub(super) fn on_hook_answered(
        &mut self,
        now: UnixMillis,
        ticket: HookTicket,
        answer: HookAnswer,
        took_ms: u64,
        view: &View<'_>,
    ) {
        if let Some(before) = &mut self.before
            && let Some(asked) = before.asked.take_if(|asked| asked.ticket == ticket)
        {
            let position = before.position;
            self.take_before(position, &asked.hook, answer, took_ms, now, view);
            return;
        }
        if self.take_after_answer(now, ticket, &answer, took_ms, view)
            || self.take_diagnosis_answer(now, ticket, &answer, took_ms, view)
        {
            return;
        }
        self.take_approval_answer(now, ticket, answer, took_ms, view);
    }

    fn take_before(
        &mut self,
        position: usize,
        hook: &Arc<Hook>,
        answer: HookAnswer,
        took_ms: u64,
        now: UnixMillis,
        view: &View<'_>,
    ) {
        let answer = match answer {
            HookAnswer::Before(verdict) => match verdict.find_problem() {
                None => Ok(*verdict),
                Some(problem) => Err(HookFailure::nonsense(problem)),
            },
            HookAnswer::Failed(failure) => Err(failure),
            HookAnswer::After(_) | HookAnswer::Approval(_) | HookAnswer::Diagnosis(_) => Err(
                HookFailure::nonsense("it answered another question than it was asked"),
            ),
        };
        let Some(call) = self.calls.get_mut(position) else {
            return;
        };
        let heard = Arc::make_mut(call.heard.get_or_insert_default());
        let generation = heard.generation;
        let (fold, failure) = match answer {
            Ok(verdict) => (heard.take(hook, verdict), None),
            Err(failure) => (
                heard.take_failure(hook, failure.clone()),
                Some(failure.kind),
            ),
        };
        let last = heard.earlier.last();
        let run = HookRun {
            before: last.map(|last| last.action),
            is_modified: heard.generation > generation,
            ..HookRun::of(hook, Point::BeforeToolCall, call.index, failure, took_ms)
        };
        let rewritten = (heard.generation > generation)
            .then(|| heard.arguments.clone())
            .flatten();
        self.act.push(Effect::HookRan(run));
        if let Some(text) = rewritten {
            self.put_rewritten(position, &text, &hook.id, view);
        }
        match fold {
            Fold::Next => {}
            Fold::Deferred => self.next_call(),
            Fold::Denied(denial) => self.deny_by_hook(position, *denial, now, view),
            Fold::Aborted(reason) => self.abort(now, &hook.id, &reason, view),
        }
    }

    /// Checks the whole new arguments at once, so that the next hook sees what is wrong with them.
    pub(super) fn put_rewritten(
        &mut self,
        position: usize,
        text: &Bytes,
        hook: &HookId,
        view: &View<'_>,
    ) {
        let Some(call) = self.calls.get_mut(position) else {
            return;
        };
        // Without a tool nothing can be mended.
        let Some(tool) = &call.tool else {
            return;
        };
        let checked = Document::parse_object(text, view.json)
            .map_err(|error| error.to_string())
            .and_then(|document| {
                let fits = tool.schema.check(&document);
                fits.map_err(|error| error.to_string())?;
                Ok(document.dispatch_form())
            });
        call.refusal = match checked {
            Ok(text) => {
                call.command = None;
                call.arguments = Some(CheckedArguments {
                    digest: Digest::of(&text),
                    text,
                });
                None
            }
            Err(problem) => Some(Refused {
                refusal: Refusal::HookModifiedArgsInvalid {
                    hook: hook.to_string(),
                    problem,
                },
                why: NotExecuted::InvalidCall,
            }),
        };
    }

    fn deny_by_hook(&mut self, position: usize, denial: Denial, now: UnixMillis, view: &View<'_>) {
        let Some(name) = self.calls.get(position).map(|call| call.tool_name.clone()) else {
            return;
        };
        let refusal = refusal_of(&denial, name.as_str());
        let Some(synthetic) = denial.synthetic else {
            let end = End::refused(refusal, NotExecuted::DeniedByHook);
            self.end(position, now, end.with_detail(denial.detail));
            return;
        };
        let is_unnamed = synthetic.is_error && synthetic.error.is_none();
        let settled = settle(&name, synthetic, view.limits);
        let error = settled.result.error.as_ref();
        // What cannot be taken says that itself.
        let is_unnamed = is_unnamed && error.is_some_and(|error| error.code == UNNAMED_ERROR);
        let end = End::answered_by_hook(settled);
        if end.outcome() == CallOutcome::Success {
            self.pass_through(position);
            self.end(position, now, end);
            return;
        }
        let end = match is_unnamed {
            // It says that it is an error and not which.
            true => end.with_error(refusal),
            false => end,
        };
        self.end(position, now, end);
    }

    /// The run ends, and nothing of the batch runs that does not run yet.
    pub(super) fn abort(&mut self, now: UnixMillis, hook: &HookId, reason: &str, view: &View<'_>) {
        let reason = match reason.is_empty() {
            true => format!("hook `{hook}` ended the run"),
            false => reason.to_owned(),
        };
        if self.run_ended.is_none() {
            let summary = self.run_after(now);
            self.run_ended = Some(RunSummary {
                state: RunState::Aborted,
                end_code: "run_aborted".to_owned(),
                end_reason: reason.clone(),
                ended_at: Some(now),
                ..summary
            });
        }
        self.aborted.get_or_insert_with(|| reason.clone());
        for position in 0..self.calls.len() {
            let unsent = self
                .calls
                .get(position)
                .filter(|call| call.is_open() && !call.is_out() && call.place != Place::Answered);
            if unsent.is_none() {
                continue;
            }
            if unsent.is_some_and(super::call::Call::is_waiting) {
                self.release(CallIndex(u16::try_from(position).unwrap_or(u16::MAX)));
            }
            let refusal = Refusal::RunAborted {
                reason: reason.clone(),
            };
            self.end(
                position,
                now,
                End::refused(refusal, NotExecuted::RunAborted),
            );
        }
        self.stop_running(now, &reason, view.settings.cancel_grace_ms);
    }

    /// Stage E: the calls as hooks left them are held against the registry of now, and what was heard of
    /// them is written down.
    fn recheck(&mut self, view: &View<'_>) {
        let mut heard = Vec::new();
        for call in self.calls.iter_mut().filter(|call| call.is_open()) {
            if let Some(words) = call.heard.as_ref().filter(|words| !words.is_trivial()) {
                heard.push((call.index, words.clone()));
            }
            let Some(tool) = &call.tool else {
                continue;
            };
            let name = &tool.definition.name;
            if call.refusal.is_none() && !view.registry.is_unchanged(name, &tool.digest) {
                call.refusal = Some(Refused {
                    refusal: Refusal::ToolChanged {
                        name: name.to_string(),
                    },
                    why: NotExecuted::ToolUnavailable,
                });
            }
        }
        if !heard.is_empty() {
            self.persist.push(Effect::Persist {
                record: Record::HooksHeard {
                    turn: self.spec.clone(),
                    heard,
                },
                when: Durability::After,
            });
        }
    }

    /// An answer is not wanted any more.
    pub(super) fn forget_asked(
        &mut self,
        asked: Option<Asked>,
        point: Point,
        position: Option<usize>,
    ) {
        let Some(asked) = asked else {
            return;
        };
        self.act.push(Effect::ForgetHook(asked.ticket));
        let index = position.and_then(|position| u16::try_from(position).ok());
        self.act.push(Effect::HookRan(HookRun {
            call: index.map(CallIndex),
            status: RunStatus::Cancelled,
            ..HookRun::of(&asked.hook, point, CallIndex(0), None, 0)
        }));
    }

    /// The turn ends: whoever is still asked is not wanted any more.
    pub(super) fn forget_all_asked(&mut self) {
        if let Some(before) = self.before.take() {
            let position = before.position;
            self.forget_asked(before.asked, Point::BeforeToolCall, Some(position));
        }
        self.forget_after();
        self.forget_approving();
        self.forget_diagnosis();
    }

    /// Calls that no approver and no executor has when their run ends.
    pub(super) fn undecided(&self) -> Vec<CallIndex> {
        if self.before.is_none() {
            return Vec::new();
        }
        let undecided = self
            .calls
            .iter()
            .filter(|call| call.state == CallState::Validating);
        undecided.map(|call| call.index).collect()
    }

    /// Tells whoever wants to know that the turn begins.
    pub(super) fn tell_started(&mut self, now: UnixMillis, view: &View<'_>) {
        let hooks: Vec<_> = view.hooks.at(Point::TurnStarted).cloned().collect();
        for hook in hooks {
            let run = self.run_after(now);
            let about = HookAbout::TurnStarted { run };
            self.ask_hook(hook, Point::TurnStarted, about, now, view);
        }
    }

    /// Tells whoever wants to know that the turn has ended.
    pub(super) fn tell_finished(&mut self, now: UnixMillis, view: &View<'_>) {
        let hooks: Vec<_> = view.hooks.at(Point::TurnFinished).cloned().collect();
        for hook in hooks {
            let about = HookAbout::TurnFinished {
                results: self
                    .calls
                    .iter()
                    .filter_map(|call| call.result.clone())
                    .collect(),
                run: self.run_after(now),
            };
            self.ask_hook(hook, Point::TurnFinished, about, now, view);
        }
    }
}

/// The mode that holds in the session.
pub(super) fn mode_of(now: UnixMillis, view: &View<'_>) -> Mode {
    view.session
        .mode
        .effective(view.session.grants.edits_granted(now))
}

fn refusal_of(denial: &Denial, name: &str) -> Refusal {
    let (name, hook) = (name.to_owned(), denial.hook.to_string());
    match denial.failure {
        None => Refusal::DeniedByHook {
            name,
            reason: denial.reason.clone(),
        },
        Some(FailureKind::Timeout) => Refusal::HookTimeout { name, hook },
        Some(FailureKind::Failed) => Refusal::HookFailed { name, hook },
        Some(FailureKind::Unavailable) => Refusal::HookUnavailable { name, hook },
    }
}

impl HookRun {
    /// A run about one call.
    pub(super) fn of(
        hook: &Hook,
        point: Point,
        call: CallIndex,
        failure: Option<FailureKind>,
        took_ms: u64,
    ) -> Self {
        Self {
            hook: hook.id.clone(),
            point,
            call: Some(call),
            status: failure.map_or(RunStatus::Answered, RunStatus::of_failure),
            before: None,
            after: None,
            is_modified: false,
            took_ms,
            code: failure.map_or(Cow::Borrowed(""), |kind| Cow::Borrowed(kind.code())),
        }
    }
}

impl super::call::Call {
    /// What the hooks together say, as one voice among those that decide.
    pub(super) fn hooks_say(&self) -> crate::gate::permission::Hook {
        let heard = self.heard.as_ref();
        voice_of(heard.map_or(BeforeAction::Proceed, |heard| heard.action))
    }

    /// Why the call is denied now that its executor has said what its paths are.
    pub(super) fn leaves_its_directories(&self) -> Option<Denial> {
        let facts = self.facts.as_ref()?;
        for hook in &self.confined_by {
            let Body::BuiltIn(builtin) = &hook.body else {
                continue;
            };
            let outside = facts
                .iter()
                .find_map(|fact| builtin.outside(&fact.pointer, &fact.canonical));
            if let Some(reason) = outside {
                return Some(Denial {
                    hook: hook.id.clone(),
                    failure: None,
                    reason,
                    detail: String::new(),
                    synthetic: None,
                });
            }
        }
        None
    }
}

impl TurnMachine {
    /// Ends a call whose path leads out of the directories that a built-in hook asks for. True: it did.
    pub(super) fn deny_outside(
        &mut self,
        position: usize,
        now: UnixMillis,
        view: &View<'_>,
    ) -> bool {
        let call = self.calls.get(position);
        let Some(denial) = call.and_then(super::call::Call::leaves_its_directories) else {
            return false;
        };
        self.deny_by_hook(position, denial, now, view);
        true
    }
}
