//! Between the look and the decision: what only others know of a call.
//!
//! What a command would run, what a path really is, what the tool itself says. All of it is asked for at
//! once; a tool is asked when its command and its paths are known, since it is told of them. A turn is
//! decided when everything is here or has taken too long; the answers stay with the call and are used
//! again at every later decision. Never waits, and never decides by an answer that did not come.

use std::collections::BTreeMap;

use super::call::{Call, Place};
use super::effect::{About, Analyse, Effect, Inquiry, Matched};
use super::judge::{Case, Wanted, command_in, document_of};
use super::{TurnMachine, View};
use crate::gate::ids::{CallIndex, UnixMillis};
use crate::gate::json::{Document, Value};
use crate::gate::permission::{
    Answer, Approver, Because, Check, CommandSubject, Facts, PathFact, Source, Stage, ToolWord,
    Verdict,
};
use crate::gate::tool::{SubjectKind, Tool};

/// Paths that were asked about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FactsAsked {
    /// Until when an answer counts.
    pub(super) until: UnixMillis,
    /// From where they were meant.
    cwd: Option<String>,
}

impl TurnMachine {
    /// Asks for everything that the calls' decisions need; the turn is decided once nothing is awaited.
    pub(super) fn inquire_all(&mut self, now: UnixMillis, view: &View<'_>) {
        self.is_undecided = true;
        for position in 0..self.calls.len() {
            self.inquire(position, now, view);
        }
    }

    /// Leaves true after every step: what has every answer is decided.
    pub(super) fn decide_when_answered(&mut self, now: UnixMillis, view: &View<'_>) {
        let mut open = self.calls.iter().filter(|call| call.is_open());
        if self.is_undecided && self.before.is_none() && !open.any(Call::is_asked_about) {
            self.is_undecided = false;
            self.decide_all(now, view);
        }
    }

    /// Asks for what is still missing of one call.
    fn inquire(&mut self, position: usize, now: UnixMillis, view: &View<'_>) {
        let Some(call) = self.calls.get_mut(position) else {
            return;
        };
        let Some(tool) = call.tool.clone() else {
            return;
        };
        let definition = &tool.definition;
        // Most tools declare neither: their arguments need not be read again.
        let matters = definition.subject.is_some() || definition.has_permission_check;
        if !matters || !call.is_open() || call.refusal.is_some() {
            return;
        }
        let Some(document) = document_of(call, view) else {
            return;
        };
        if call.command.is_none()
            && !call.is_analysed_now
            && let Some(text) = command_in(&tool, &document)
        {
            call.is_analysed_now = true;
            self.act.push(Effect::Analyse(Analyse {
                call: call.index,
                text,
            }));
        }
        // What was sent before a restart was decided then.
        if matches!(call.place, Place::Expected { .. }) {
            return;
        }
        if call.facts.is_none() && call.facts_asked.is_none() {
            self.ask_for_facts(position, &tool, &document, now, view);
        }
        self.ask_the_tool(position, &tool, now, view);
    }

    fn ask_for_facts(
        &mut self,
        position: usize,
        tool: &Tool,
        document: &Document,
        now: UnixMillis,
        view: &View<'_>,
    ) {
        let pointers = paths_in(tool, document);
        let Some(call) = self.calls.get_mut(position) else {
            return;
        };
        if pointers.is_empty() || pointers.len() as u64 > view.limits.call_facts_max {
            call.facts = Some(Facts::default());
            return;
        }
        let timeout_ms = view.settings.facts_timeout_ms;
        call.facts_asked = Some(FactsAsked {
            until: now.plus(timeout_ms),
            cwd: view.session.cwd.map(str::to_owned),
        });
        self.inquire_of(position, About::Facts { pointers }, timeout_ms, now, view);
    }

    /// Asks a tool about a call, unless the call is denied already.
    fn ask_the_tool(&mut self, position: usize, tool: &Tool, now: UnixMillis, view: &View<'_>) {
        let Some(call) = self.calls.get_mut(position) else {
            return;
        };
        let is_asked = call.word.is_some() || call.is_asked_about();
        if !tool.definition.has_permission_check || is_asked {
            return;
        }
        let case = Case {
            check: Check::Passthrough,
            ..Case::new(call, tool, view, now, Approver::Expected)
        };
        let (answer, _) = case.judge(Wanted::Answer);
        if answer.verdict == Verdict::Deny {
            return;
        }
        let about = About::Check {
            mode: answer.mode,
            facts: call.facts.iter().flat_map(Facts::iter).cloned().collect(),
            matched: matched_by(&answer),
        };
        let timeout_ms = view.settings.check_timeout_ms;
        call.word_until = Some(now.plus(timeout_ms));
        self.inquire_of(position, about, timeout_ms, now, view);
    }

    fn inquire_of(
        &mut self,
        position: usize,
        about: About,
        timeout_ms: u64,
        now: UnixMillis,
        view: &View<'_>,
    ) {
        let Some(call) = self.calls.get(position) else {
            return;
        };
        let (Some(tool), Some(arguments)) = (&call.tool, &call.arguments) else {
            return;
        };
        self.act.push(Effect::Inquire(Box::new(Inquiry {
            call: call.index,
            tool: tool.clone(),
            turn: self.spec.clone(),
            arguments: arguments.text.clone(),
            cwd: view.session.cwd.map(str::to_owned),
            until: now.plus(timeout_ms),
            timeout_ms,
            about,
        })));
    }

    /// A command was cut up.
    pub(super) fn on_command_analysed(
        &mut self,
        now: UnixMillis,
        index: CallIndex,
        command: CommandSubject,
        view: &View<'_>,
    ) {
        let Some(call) = self.calls.get_mut(index.get()) else {
            return;
        };
        if std::mem::take(&mut call.is_analysed_now) {
            call.command = Some(command);
            // Before the hooks have spoken nothing else is asked.
            if self.before.is_none() {
                self.inquire(index.get(), now, view);
            }
        }
    }

    /// An executor said what a call's paths are.
    pub(super) fn on_facts_resolved(
        &mut self,
        now: UnixMillis,
        index: CallIndex,
        facts: Vec<PathFact>,
        view: &View<'_>,
    ) {
        let Some(call) = self.calls.get_mut(index.get()) else {
            return;
        };
        if let Some(asked) = call.facts_asked.take() {
            let mut facts = facts;
            let document = document_of(call, view);
            if let (Some(tool), Some(document)) = (&call.tool, document) {
                keep_about(&mut facts, tool, &document);
            }
            call.facts = Some(Facts::new(asked.cwd.as_deref(), facts));
            self.inquire(index.get(), now, view);
        }
    }

    /// A tool said what it thinks of a call. None: nobody can be asked, or who was is gone.
    pub(super) fn on_tool_checked(&mut self, index: CallIndex, word: Option<ToolWord>) {
        let Some(call) = self.calls.get_mut(index.get()) else {
            return;
        };
        if call.word_until.take().is_some() {
            call.word = Some(word.unwrap_or_else(|| unanswered(call)));
        }
    }

    /// What took too long counts as what nobody knows.
    pub(super) fn stop_asking(&mut self, position: usize, now: UnixMillis, view: &View<'_>) {
        let Some(call) = self.calls.get_mut(position) else {
            return;
        };
        let index = call.index;
        let facts_due = call
            .facts_asked
            .as_ref()
            .is_some_and(|asked| asked.until <= now);
        let word_due = call.word_until.is_some_and(|until| until <= now);
        if facts_due {
            self.on_facts_resolved(now, index, Vec::new(), view);
        }
        if word_due {
            self.on_tool_checked(index, None);
        }
    }
}

impl Call {
    /// Whether somebody has still to say something about it.
    pub(super) fn is_asked_about(&self) -> bool {
        self.is_analysed_now || self.facts_asked.is_some() || self.word_until.is_some()
    }

    /// Until when the answers that are awaited count.
    pub(super) fn inquiry_deadline(&self) -> Option<UnixMillis> {
        let facts = self.facts_asked.as_ref().map(|asked| asked.until);
        facts.into_iter().chain(self.word_until).min()
    }

    /// What the tool's own check says for a decision of now.
    pub(super) fn check(&self, tool: &Tool) -> Check {
        match (&self.word, tool.definition.has_permission_check) {
            (_, false) => Check::Passthrough,
            (Some(word), true) => word.check,
            // Nobody asked it: what it would say may be anything.
            (None, true) => Check::AskFirm,
        }
    }
}

/// A check that nobody answered asks. Of a call that waits for an approver already, firmly: what the tool
/// said before a restart is not known any more, and may have been that.
fn unanswered(call: &Call) -> ToolWord {
    let check = match call.approval {
        Some(_) => Check::AskFirm,
        None => Check::Ask,
    };
    ToolWord {
        check,
        ..ToolWord::default()
    }
}

/// The allow rule or grant that was heard, as tools are told of it.
fn matched_by(answer: &Answer) -> Option<Matched> {
    let mut steps = answer.steps.iter();
    let allows = steps.find(|step| step.stage == Stage::Allow)?;
    match &allows.because {
        Because::Rule(rule) => Some(Matched {
            rule: rule.text.to_string(),
            source: rule.origin.source,
        }),
        Because::Grant { text, .. } => Some(Matched {
            rule: text.clone(),
            source: Source::Session,
        }),
        Because::Untried(_)
        | Because::Hook
        | Because::Unclear(_)
        | Because::Mode(_)
        | Because::ToolCheck
        | Because::SkipPermission
        | Because::NoApprover => None,
    }
}

/// Where the paths are in the arguments of a tool whose rules are about paths.
pub fn paths_in(tool: &Tool, arguments: &Document) -> Vec<String> {
    let Some(declared) = &tool.definition.subject else {
        return Vec::new();
    };
    if declared.kind != Some(SubjectKind::Path) {
        return Vec::new();
    }
    let value = arguments.root().pointer(&declared.pointer);
    let paths = value.map(|value| each_path(value, &declared.pointer));
    let pointers = paths.into_iter().flatten();
    pointers.map(|(pointer, _)| pointer).collect()
}

/// Leaves only facts about paths that stand in the arguments, so that nothing else is kept.
pub fn keep_about(facts: &mut Vec<PathFact>, tool: &Tool, arguments: &Document) {
    let declared = tool.definition.subject.as_ref();
    let value = declared.and_then(|declared| {
        let value = arguments.root().pointer(&declared.pointer)?;
        Some(each_path(value, &declared.pointer))
    });
    let paths: BTreeMap<String, &str> = value.into_iter().flatten().collect();
    facts.retain(|fact| paths.get(&fact.pointer) == Some(&fact.value.as_str()));
}

/// Every path in the value of a subject, and where it stands. Empty: there is none, or something else
/// stands among them.
pub(super) fn each_path<'a>(value: Value<'a>, pointer: &str) -> Vec<(String, &'a str)> {
    if let Some(text) = value.as_str() {
        return vec![(pointer.to_owned(), text)];
    }
    let items = value.items().enumerate();
    let texts = items.map(|(at, item)| Some((format!("{pointer}/{at}"), item.as_str()?)));
    texts.collect::<Option<Vec<_>>>().unwrap_or_default()
}
