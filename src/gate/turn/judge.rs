//! Stage F: may the call run, by rules, mode, risk, grants and consent?
//!
//! Asked when the turn decides, whenever anything of that changes, and again before every send. What
//! others said of the call is used each time anew. Never keeps an answer of its own: a permit is used up
//! by the dispatch that it was made for.

use std::sync::Arc;

use super::call::{Call, Place};
use super::inquire::each_path;
use super::look::Refused;
use super::settle::End;
use super::{TurnMachine, View};
use crate::gate::approval::ApprovalState;
use crate::gate::call::CallState;
use crate::gate::ids::UnixMillis;
use crate::gate::json::{Document, Value};
use crate::gate::permission::{
    self, Answer, Approver, Because, Check, GrantCandidate, GrantedTool, Ground, Permit, Settings,
    Situation, Subject, Verdict,
};
use crate::gate::record::TurnSpec;
use crate::gate::refusal::{Refusal, RuleDenial};
use crate::gate::result::NotExecuted;
use crate::gate::tool::Tool;

impl TurnMachine {
    /// Ends every call that is refused, freezes the batch if any must be asked, and lets the others go.
    pub(super) fn decide_all(&mut self, now: UnixMillis, view: &View<'_>) {
        let mut asked = Vec::new();
        for position in 0..self.calls.len() {
            asked.extend(self.decide(position, now, view));
        }
        self.freeze(asked, now, view);
    }

    /// Decides one call. Some: it must be asked, and was not asked before.
    fn decide(&mut self, position: usize, now: UnixMillis, view: &View<'_>) -> Option<Asked> {
        let call = self.calls.get_mut(position)?;
        // What was sent before a restart was decided then, and an approver may have been faster.
        let is_let_run = call.approval.is_some() && call.state == CallState::Scheduled;
        if !call.is_open() || is_let_run || matches!(call.place, Place::Expected { .. }) {
            return None;
        }
        if let Some(refused) = call.refusal.take() {
            self.end(position, now, End::refused(refused.refusal, refused.why));
            return None;
        }
        if self.deny_outside(position, now, view) {
            return None;
        }
        let call = self.calls.get_mut(position)?;
        // A call without a tool was refused.
        let tool = call.tool.clone()?;
        let is_asked_already = call.approval.is_some();
        let call_waits = call.state == CallState::AwaitingApproval;
        let approver = match is_asked_already {
            true => Approver::Expected,
            false => view.session.approver,
        };
        let case = Case::new(call, &tool, view, now, approver);
        let (answer, candidates) = case.judge(Wanted::Candidates);
        let ground = answer.ground(case_revision(view));
        call.ground = Some(Arc::new(ground.clone()));
        match answer.verdict {
            Verdict::Ask if !is_asked_already => {
                return Some(Asked {
                    position,
                    answer,
                    candidates,
                });
            }
            // It waits since the turn was taken up.
            Verdict::Ask if call_waits => {}
            Verdict::Ask => self.wait_on(position, now),
            Verdict::Allow => {
                self.approve_by(position, now, ground);
                self.let_run(position);
            }
            Verdict::Deny => self.deny_by(position, now, &tool, &answer, view),
        }
        None
    }

    /// The rules or the mode deny a call, whoever was asked.
    pub(super) fn deny_by(
        &mut self,
        position: usize,
        now: UnixMillis,
        tool: &Tool,
        answer: &Answer,
        view: &View<'_>,
    ) {
        let ground = answer.ground(case_revision(view));
        let told = Some(Arc::new(ground.clone()));
        self.close_by(position, now, ApprovalState::Denied, ground);
        let Some(call) = self.calls.get_mut(position) else {
            return;
        };
        call.ground = told;
        let refused = refused(call, tool, answer);
        self.end(position, now, End::refused(refused.refusal, refused.why));
    }
}

/// A call that must be asked.
pub(super) struct Asked {
    pub(super) position: usize,
    pub(super) answer: Answer,
    pub(super) candidates: Vec<GrantCandidate>,
}

pub(super) fn case_revision(view: &View<'_>) -> u64 {
    view.permissions.policy.revision()
}

/// The command in the arguments of a tool that runs commands which this gate can read.
pub fn command_in(tool: &Tool, arguments: &Document) -> Option<String> {
    let declared = tool.definition.subject.as_ref()?;
    if !declared.is_readable_command() {
        return None;
    }
    let text = arguments.root().pointer(&declared.pointer)?.as_str()?;
    Some(text.to_owned())
}

pub(super) fn document_of(call: &Call, view: &View<'_>) -> Option<Document> {
    let arguments = call.arguments.as_ref()?;
    // They were read before; nothing was kept, since most calls never need it.
    Document::parse_object(&arguments.text, view.json).ok()
}

/// Why a call that was decided does not run after all.
pub(super) struct Stopped {
    pub(super) refused: Refused,
    /// What decided that, for the audit. None: nothing about rules, mode or consent.
    pub(super) ground: Option<Arc<Ground>>,
}

impl From<Refused> for Stopped {
    fn from(refused: Refused) -> Self {
        Self {
            refused,
            ground: None,
        }
    }
}

/// The permit of a call, or why it does not run now.
pub(super) fn permit(
    call: &Call,
    tool: &Tool,
    spec: &TurnSpec,
    now: UnixMillis,
    view: &View<'_>,
) -> Result<Permit, Stopped> {
    let consent = call.approval.as_ref().zip(call.arguments.as_ref());
    let consent = consent.and_then(|(approval, arguments)| approval.consent(spec, &arguments.text));
    let approver = match consent {
        Some(_) => Approver::Expected,
        None => Approver::None,
    };
    let (answer, _) = Case::new(call, tool, view, now, approver).judge(Wanted::Answer);
    permission::permit(answer, consent).map_err(|answer| Stopped {
        refused: refused(call, tool, &answer),
        ground: Some(Arc::new(answer.ground(case_revision(view)))),
    })
}

/// Whether what could be granted is wanted beside the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    Answer,
    Candidates,
}

/// One call being decided.
pub(super) struct Case<'a> {
    pub(super) call: &'a Call,
    pub(super) tool: &'a Tool,
    pub(super) view: &'a View<'a>,
    pub(super) now: UnixMillis,
    pub(super) approver: Approver,
    /// What the tool's own check says.
    pub(super) check: Check,
}

impl<'a> Case<'a> {
    /// The call as it is decided now, with everything that was said of it.
    pub(super) fn new(
        call: &'a Call,
        tool: &'a Tool,
        view: &'a View<'a>,
        now: UnixMillis,
        approver: Approver,
    ) -> Self {
        Self {
            check: call.check(tool),
            call,
            tool,
            view,
            now,
            approver,
        }
    }

    /// What rules, mode and grants say; for a call that must be asked, what could be granted.
    pub(super) fn judge(&self, wanted: Wanted) -> (Answer, Vec<GrantCandidate>) {
        let Case {
            call, tool, view, ..
        } = *self;
        let definition = &tool.definition;
        // Most deployments begin without rules; then nothing about the arguments can matter.
        let matters = definition.subject.is_some()
            || view.turn_rules.is_some()
            || !view.permissions.policy.is_empty();
        let document = matters.then(|| document_of(call, view)).flatten();
        let root = document.as_ref().map(Document::root);
        let declared = definition.subject.as_ref();
        let mut subject = Subject::of_call(declared, root, call.command.as_ref());
        add_facts(&mut subject, call, tool, root, view.session.cwd);
        let granted = granted_tool(tool);
        let place = permission::Place {
            cwd: view.session.cwd.map(str::to_owned),
            ..permission::Place::default()
        };
        let asked = permission::Call {
            tool: &granted,
            kind: definition.kind,
            risk: tool.risk,
            skip_permission: definition.skip_permission,
            arguments: root,
            subject: &subject,
            place: &place,
        };
        let situation = Situation {
            now: self.now,
            mode: view.session.mode,
            policies: match view.turn_rules {
                Some(own) => &[&view.permissions.policy, own],
                None => &[&view.permissions.policy],
            },
            grants: view.session.grants,
            hook: call.hooks_say(),
            check: self.check,
            approver: self.approver,
            settings: Settings {
                executor_is_trusted: view.permissions.trusts(&tool.owner),
                ..view.permissions.settings
            },
        };
        let answer = permission::decide_call(&asked, &situation);
        let candidates = match (answer.verdict, wanted) {
            (Verdict::Ask, Wanted::Candidates) => {
                permission::candidates(&asked, &situation, &answer)
            }
            (Verdict::Ask | Verdict::Allow | Verdict::Deny, _) => Vec::new(),
        };
        (answer, candidates)
    }
}

pub(super) fn granted_tool(tool: &Tool) -> GrantedTool {
    GrantedTool {
        name: tool.definition.name.clone(),
        owner: tool.owner.clone(),
        digest: tool.digest,
    }
}

pub(super) fn refused(call: &Call, tool: &Tool, answer: &Answer) -> Refused {
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
        Because::ToolCheck if answer.verdict == Verdict::Deny => {
            let word = call.word.as_ref();
            Refused {
                refusal: Refusal::DeniedByTool {
                    name,
                    message: word.map(|word| word.for_model.clone()).unwrap_or_default(),
                },
                why: NotExecuted::DeniedByTool,
            }
        }
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

/// Puts beside each path what its executor says that it is.
fn add_facts(
    subject: &mut Subject,
    call: &Call,
    tool: &Tool,
    arguments: Option<Value<'_>>,
    cwd: Option<&str>,
) {
    let declared = tool.definition.subject.as_ref();
    let (Subject::Paths(paths), Some(facts), Some(declared)) = (subject, &call.facts, declared)
    else {
        return;
    };
    let Some(value) = arguments.and_then(|root| root.pointer(&declared.pointer)) else {
        return;
    };
    for (path, (pointer, given)) in paths.iter_mut().zip(each_path(value, &declared.pointer)) {
        let canonical = facts.canonical(cwd, &pointer, given);
        path.canonical = canonical.map(str::to_owned);
    }
}
