//! Stage F: may the call run, by rules, mode and risk?
//!
//! Asked when the turn decides and again before every send, each time with the rules of that moment.
//! Never keeps an answer: a permit is used up by the dispatch that it was made for.

use std::borrow::Cow;

use super::call::{Call, Place};
use super::effect::{Analyse, Effect};
use super::look::Refused;
use super::settle::End;
use super::{TurnMachine, View};
use crate::gate::call::CallState;
use crate::gate::command::Opaque;
use crate::gate::event::Event;
use crate::gate::ids::{CallIndex, UnixMillis};
use crate::gate::json::{Document, Value};
use crate::gate::permission::{
    self, Answer, Approver, Because, Check, CommandSubject, GrantedTool, Grants, Hook, ModeBounds,
    PathSubject, Permit, Situation, Subject,
};
use crate::gate::refusal::{Refusal, RuleDenial};
use crate::gate::result::NotExecuted;
use crate::gate::tool::{DeclaredSubject, SubjectKind, Tool};

impl TurnMachine {
    /// Has the commands of the calls cut up. False: there are none, so all can be decided now.
    pub(super) fn ask_for_analysis(&mut self, view: &View<'_>) -> bool {
        let mut asked = Vec::new();
        for call in &mut self.calls {
            let matters = call.is_open() && call.refusal.is_none() && call.command.is_none();
            if matters && let Some(text) = command_of(call, view) {
                call.is_analysed_now = true;
                asked.push(Effect::Analyse(Analyse {
                    call: call.index,
                    text,
                }));
            }
        }
        let any = !asked.is_empty();
        self.act.append(&mut asked);
        any
    }

    /// A command was cut up. The last one lets the batch be decided.
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
        if !std::mem::take(&mut call.is_analysed_now) {
            return;
        }
        call.command = Some(command);
        if !self
            .calls
            .iter()
            .any(|call| call.is_open() && call.is_analysed_now)
        {
            self.decide_all(now, view);
        }
    }
}

impl TurnMachine {
    /// Ends every call that is refused, and lets the others run.
    pub(super) fn decide_all(&mut self, now: UnixMillis, view: &View<'_>) {
        for position in 0..self.calls.len() {
            self.decide(position, now, view);
        }
    }

    fn decide(&mut self, position: usize, now: UnixMillis, view: &View<'_>) {
        let Some(call) = self.calls.get_mut(position) else {
            return;
        };
        // What was sent before a restart was decided then.
        if !call.is_open() || matches!(call.place, Place::Expected { .. }) {
            return;
        }
        let refused = match (call.refusal.take(), &call.tool) {
            (Some(refused), _) => Some(refused),
            (None, Some(tool)) => judge(call, tool, now, view).err(),
            // A call without a tool was refused.
            (None, None) => return,
        };
        if let Some(refused) = refused {
            self.end(position, now, End::refused(refused.refusal, refused.why));
            return;
        }
        let index = call.index;
        let moved = call.move_to(CallState::Scheduled, Cow::Borrowed(""));
        self.announce.push(Event::CallMoved(moved));
        self.ready.push_back(index);
    }
}

/// The command of a call whose tool runs commands that this gate can read.
fn command_of(call: &Call, view: &View<'_>) -> Option<String> {
    let tool = call.tool.as_ref()?;
    let declared = tool.definition.subject.as_ref()?;
    if declared.kind != Some(SubjectKind::Command) || !is_bash(declared) {
        return None;
    }
    let document = document_of(call, view)?;
    let text = document.root().pointer(&declared.pointer)?.as_str()?;
    Some(text.to_owned())
}

fn is_bash(declared: &DeclaredSubject) -> bool {
    matches!(declared.dialect.as_str(), "" | "bash" | "sh")
}

fn document_of(call: &Call, view: &View<'_>) -> Option<Document> {
    let arguments = call.arguments.as_ref()?;
    // They were read before; nothing was kept, since most calls never need it.
    Document::parse_object(&arguments.text, view.json).ok()
}

/// The permit of a call, or why it does not run.
pub(super) fn judge(
    call: &Call,
    tool: &Tool,
    now: UnixMillis,
    view: &View<'_>,
) -> Result<Permit, Refused> {
    // Most deployments begin without rules; then nothing about the arguments can matter.
    let matters = tool.definition.subject.is_some() || !view.permissions.policy.is_empty();
    let document = matters.then(|| document_of(call, view)).flatten();
    let root = document.as_ref().map(Document::root);
    let subject = subject_of(tool, root, call.command.as_ref());
    let granted = GrantedTool {
        name: tool.definition.name.clone(),
        owner: tool.owner.clone(),
        digest: tool.digest,
    };
    let place = permission::Place::default();
    let asked = permission::Call {
        tool: &granted,
        kind: tool.definition.kind,
        risk: tool.risk,
        skip_permission: tool.definition.skip_permission,
        arguments: root,
        subject: &subject,
        place: &place,
    };
    let permissions = view.permissions;
    let situation = Situation {
        now,
        mode: ModeBounds::of(permissions.mode),
        policies: &[&permissions.policy],
        grants: &Grants::default(),
        hook: Hook::default(),
        check: Check::default(),
        approver: Approver::None,
        settings: permissions.settings,
    };
    permission::permit(permission::decide_call(&asked, &situation))
        .map_err(|answer| refused(tool, &answer))
}

fn refused(tool: &Tool, answer: &Answer) -> Refused {
    let name = tool.definition.name.to_string();
    match &answer.decided_by.because {
        Because::Rule(rule) | Because::Untried(rule) => Refused {
            refusal: Refusal::DeniedByRule(Box::new(RuleDenial {
                name,
                message: rule.message.as_deref().map(str::to_owned),
                rule: rule.text.to_string(),
                origin: rule.origin.to_string(),
                segment: answer.decided_by.segment.clone(),
            })),
            why: NotExecuted::DeniedByRule,
        },
        Because::Mode(mode) => Refused {
            refusal: Refusal::DeniedByMode {
                name,
                mode: mode.as_str(),
            },
            why: NotExecuted::DeniedByMode,
        },
        // Nothing else denies yet; whatever it is, it asks for somebody who is not there.
        Because::NoApprover
        | Because::Grant { .. }
        | Because::Hook
        | Because::Unclear(_)
        | Because::ToolCheck
        | Because::SkipPermission => Refused {
            refusal: Refusal::ApprovalUnavailable { name },
            why: NotExecuted::ApprovalUnavailable,
        },
    }
}

/// What the call is about. An argument of another type than declared counts as left out.
fn subject_of(
    tool: &Tool,
    arguments: Option<Value<'_>>,
    command: Option<&CommandSubject>,
) -> Subject {
    let Some(declared) = &tool.definition.subject else {
        return Subject::Undeclared;
    };
    let value = arguments.and_then(|root| root.pointer(&declared.pointer));
    let Some(value) = value else {
        return Subject::Absent;
    };
    if declared.kind == Some(SubjectKind::Path) {
        return paths_of(value);
    }
    let Some(text) = value.as_str() else {
        return Subject::Absent;
    };
    match declared.kind {
        Some(SubjectKind::Command) => Subject::Command(match (command, is_bash(declared)) {
            (Some(command), true) => command.clone(),
            (None, true) => CommandSubject::unread(text, Opaque::TimedOut),
            (_, false) => CommandSubject::unread(text, Opaque::Unsupported),
        }),
        Some(SubjectKind::Url) => Subject::Url(text.to_owned()),
        Some(SubjectKind::Text | SubjectKind::Path) | None => Subject::Text(text.to_owned()),
    }
}

/// One path or a list of them. Anything else in the list: nobody can tell what is touched.
fn paths_of(value: Value<'_>) -> Subject {
    let path = |text: &str| PathSubject {
        given: text.to_owned(),
        canonical: None,
    };
    if let Some(text) = value.as_str() {
        return Subject::Paths(vec![path(text)]);
    }
    let texts: Option<Vec<_>> = value.items().map(|item| item.as_str().map(path)).collect();
    match texts {
        Some(paths) if !paths.is_empty() => Subject::Paths(paths),
        Some(_) | None => Subject::Absent,
    }
}
