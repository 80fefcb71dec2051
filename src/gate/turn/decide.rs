//! Stage H: what an approver says about a waiting call.
//!
//! A turn is owned by one task, so the first decision wins and every later one learns of it. What is
//! refused changes nothing. Never trusts a decision's contents: arguments pass schema and deny rules
//! again, and grants are picked among those that were shown.

use std::sync::Arc;

use bytes::Bytes;

use super::call::Call;
use super::effect::{Durability, Effect};
use super::input::{Cancel, CancelScope, CheckedArguments};
use super::judge::{Case, Wanted, document_of, refused};
use super::meant::is_for;
use super::settle::End;
use super::{TurnMachine, View};
use crate::gate::approval::{
    self, Approval, ApprovalState, Choice, DecideError, Deciding, Decision, Outcome,
};
use crate::gate::hooks::{BeforeAction, Body, Hook, Judged, Point};
use crate::gate::ids::{CallIndex, UnixMillis};
use crate::gate::json::Document;
use crate::gate::mask::unmasked;
use crate::gate::permission::{
    Approver, CommandSubject, Facts, Given, Grant, GrantCandidate, GrantId, NewGrant, ToolWord,
    Verdict,
};
use crate::gate::record::Record;
use crate::gate::refusal::Refusal;
use crate::gate::result::{Digest, NotExecuted, settle};
use crate::gate::session::GRANTS_MAX;

/// A decision with what the engine adds to it.
#[derive(Debug, Clone, PartialEq)]
pub struct Decided {
    /// The call.
    pub call: CallIndex,
    /// What the approver says.
    pub deciding: Deciding,
    /// The first of the names that grants of this decision get.
    pub first_grant: GrantId,
    /// What others say of the edited arguments.
    pub answers: Answers,
}

/// What others say of a call's arguments.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Answers {
    /// The command in them, cut up.
    pub command: Option<CommandSubject>,
    /// What their paths are. None: nobody was asked.
    pub facts: Option<Facts>,
    /// What the tool says. None: nobody answered.
    pub word: Option<ToolWord>,
}

impl TurnMachine {
    pub(super) fn on_decided(&mut self, now: UnixMillis, decided: Decided, view: &View<'_>) {
        let position = decided.call.get();
        let known = self.calls.get(position);
        let Some(approval) = known.and_then(|call| call.approval.clone()) else {
            return;
        };
        let outcome = match self.take_decision(&approval, now, decided, view) {
            Err(outcome) => outcome,
            Ok(()) => {
                let now_known = self
                    .calls
                    .get(position)
                    .and_then(|call| call.approval.clone());
                Outcome::Taken(now_known.unwrap_or(approval))
            }
        };
        self.act.push(Effect::Answer(Box::new(outcome)));
    }

    fn take_decision(
        &mut self,
        approval: &std::sync::Arc<Approval>,
        now: UnixMillis,
        decided: Decided,
        view: &View<'_>,
    ) -> Result<(), Outcome> {
        let position = decided.call.get();
        let deciding = &decided.deciding;
        let refused = |error| Outcome::Refused(approval.clone(), error);
        if !approval.is_pending() {
            return Err(approval::compare(approval, deciding));
        }
        if deciding.digest != Some(approval.digest) {
            return Err(refused(DecideError::DigestMismatch));
        }
        if deciding
            .version
            .is_some_and(|seen| seen != approval.version)
        {
            return Err(refused(DecideError::VersionMismatch));
        }
        let choice = allowed(approval, deciding).map_err(refused)?;
        let stops = matches!(choice, Choice::Deny | Choice::CancelTurn);
        if !stops && approval.expires_at.is_some_and(|expires| expires <= now) {
            self.expire(position, now);
            return Err(refused(DecideError::NotPending));
        }
        let decision = Decision {
            id: deciding.id.clone(),
            choice: Some(choice),
            by: deciding.by.clone(),
            surface: deciding.surface.clone(),
            at: now,
            message: deciding.message.clone(),
            contents: deciding.contents(approval),
            ..Decision::default()
        };
        match choice {
            Choice::Once => self.approve(position, decision),
            Choice::Session => self
                .approve_for_session(position, &decided, decision, now, view)
                .map_err(refused)?,
            Choice::Edit => self
                .approve_edited(position, decided, decision, now, view)
                .map_err(refused)?,
            Choice::Deny => self.refuse(position, decision, now),
            Choice::Respond => self.respond(position, decided, decision, now, view),
            Choice::CancelTurn => self.cancel_by(position, decision, now, view),
        }
        Ok(())
    }

    pub(super) fn approve(&mut self, position: usize, decision: Decision) {
        self.close(position, ApprovalState::Approved, decision);
        self.let_run(position);
    }

    fn approve_for_session(
        &mut self,
        position: usize,
        decided: &Decided,
        mut decision: Decision,
        now: UnixMillis,
        view: &View<'_>,
    ) -> Result<(), DecideError> {
        let spec = self.spec.clone();
        let approval = self
            .calls
            .get(position)
            .and_then(|call| call.approval.clone());
        let approval = approval.ok_or(DecideError::NotFound)?;
        let picked = pick(&approval.candidates, &decided.deciding.candidates)?;
        let holding = view.session.grants.iter().filter(|grant| grant.holds(now));
        if holding.count() + picked.len() > GRANTS_MAX {
            return Err(DecideError::TooManyGrants);
        }
        let given = Given {
            approval: spec.approval_id(decided.call).to_string(),
            by: decision.by.clone(),
            at: now,
        };
        let grants: Vec<Grant> = picked
            .into_iter()
            .zip(decided.first_grant.0..)
            .map(|(candidate, id)| {
                let terms = NewGrant {
                    tool: approval.tool.clone(),
                    scope: candidate.scope.clone(),
                    expires: None,
                    uses_max: None,
                };
                Grant::new(GrantId(id), terms, given.clone())
            })
            .collect();
        decision.grants = grants.iter().map(|grant| grant.id).collect();
        self.persist.push(Effect::Persist {
            record: Record::GrantsPut {
                session: spec.session().clone(),
                grants: grants.clone(),
            },
            when: Durability::BeforeAnnounce,
        });
        self.act.push(Effect::Grant(grants));
        self.approve(position, decision);
        Ok(())
    }

    fn approve_edited(
        &mut self,
        position: usize,
        decided: Decided,
        mut decision: Decision,
        now: UnixMillis,
        view: &View<'_>,
    ) -> Result<(), DecideError> {
        let call = self.calls.get_mut(position).ok_or(DecideError::NotFound)?;
        let arguments = edited(call, &decided, view)?;
        let before = (
            call.arguments.replace(arguments.clone()),
            call.replace_answers(decided.answers),
        );
        let denied = denies(call, now, view).or_else(|| forbidden(call, view));
        if let Some(why) = denied {
            call.arguments = before.0;
            call.replace_answers(before.1);
            return Err(DecideError::EditInvalid(why));
        }
        call.is_rewritten = true;
        decision.edited = Some(arguments.text);
        self.approve(position, decision);
        Ok(())
    }

    /// The approver said no.
    pub(super) fn refuse(&mut self, position: usize, decision: Decision, now: UnixMillis) {
        let name = self
            .calls
            .get(position)
            .map(|call| call.tool_name.to_string());
        let refusal = Refusal::DeniedByUser {
            name: name.unwrap_or_default(),
            message: decision.message.clone(),
        };
        self.close(position, ApprovalState::Denied, decision);
        self.end(
            position,
            now,
            End::refused(refusal, NotExecuted::DeniedByUser),
        );
        self.reject_rest(now);
    }

    /// The approver gave the result. The call passes its states all the same.
    fn respond(
        &mut self,
        position: usize,
        decided: Decided,
        decision: Decision,
        now: UnixMillis,
        view: &View<'_>,
    ) {
        self.close(position, ApprovalState::Answered, decision);
        let Some(name) = self.calls.get(position).map(|call| call.tool_name.clone()) else {
            return;
        };
        let response = decided.deciding.response.unwrap_or_default();
        let settled = settle(&name, response, view.limits);
        self.pass_through(position);
        self.end(position, now, End::answered_by_approver(settled));
    }

    fn cancel_by(&mut self, position: usize, decision: Decision, now: UnixMillis, view: &View<'_>) {
        let reason = match decision.message.is_empty() {
            true => "the turn was cancelled by an approver".to_owned(),
            false => decision.message.clone(),
        };
        self.close(position, ApprovalState::Cancelled, decision);
        self.on_cancel(
            now,
            &Cancel {
                scope: CancelScope::Turn,
                reason,
                grace_ms: view.settings.cancel_grace_ms,
            },
        );
    }
}

/// The choice, if it may be made and has what it needs.
fn allowed(approval: &Approval, deciding: &Deciding) -> Result<Choice, DecideError> {
    let choice = deciding
        .choice
        .filter(|choice| approval.choices().contains(choice))
        .ok_or(DecideError::ChoiceNotAllowed("this choice is not offered"))?;
    if choice == Choice::Respond && deciding.response.is_none() {
        let problem = "a response needs a result";
        return Err(DecideError::ChoiceNotAllowed(problem));
    }
    Ok(choice)
}

/// One candidate for each segment; the only one need not be named.
fn pick<'a>(
    offered: &'a [GrantCandidate],
    named: &[String],
) -> Result<Vec<&'a GrantCandidate>, DecideError> {
    let problem = "one grant for each part of the command must be picked among those offered";
    let wrong = || DecideError::ChoiceNotAllowed(problem);
    if let ([only], []) = (offered, named) {
        return Ok(vec![only]);
    }
    let mut picked: Vec<&GrantCandidate> = Vec::new();
    for id in named {
        let candidate = offered.iter().find(|candidate| candidate.id == *id);
        picked.push(candidate.ok_or_else(wrong)?);
    }
    let segment = |candidate: &&GrantCandidate| candidate.segment.as_ref().map(|(at, _)| *at);
    let mut answered: Vec<_> = picked.iter().map(segment).collect();
    let mut open: Vec<_> = offered
        .iter()
        .map(|candidate| segment(&candidate))
        .collect();
    answered.sort_unstable();
    open.sort_unstable();
    open.dedup();
    match answered == open {
        true => Ok(picked),
        false => Err(wrong()),
    }
}

/// The edited arguments, read and checked as the model's own were.
fn edited(
    call: &Call,
    decided: &Decided,
    view: &View<'_>,
) -> Result<CheckedArguments, DecideError> {
    let invalid = |problem: String| DecideError::EditInvalid(problem);
    let tool = call.tool.as_ref().ok_or(DecideError::NotFound)?;
    // A model may leave its arguments blank; who edits them says what they are.
    if decided.deciding.edited.trim_ascii().is_empty() {
        return Err(invalid("they are empty".to_owned()));
    }
    let read = |text: &Bytes| {
        let document = Document::parse_object(text, view.json);
        document.map_err(|error| invalid(error.to_string()))
    };
    let mut document = read(&decided.deciding.edited)?;
    if let Some(approval) = call.approval.as_ref().filter(|one| !one.secrets.is_empty()) {
        // What the approver could not see and left alone stays as it was.
        let unmasked = unmasked(&document, &approval.arguments, &approval.secrets);
        document = read(&unmasked)?;
    }
    let checked = tool.schema.check(&document);
    checked.map_err(|error| invalid(error.to_string()))?;
    let text = document.dispatch_form();
    Ok(CheckedArguments {
        digest: Digest::of(&text),
        text,
    })
}

impl Call {
    /// Puts what others say of other arguments in place of what they said. Returns that.
    fn replace_answers(&mut self, answers: Answers) -> Answers {
        Answers {
            command: std::mem::replace(&mut self.command, answers.command),
            facts: std::mem::replace(&mut self.facts, answers.facts),
            word: std::mem::replace(&mut self.word, answers.word),
        }
    }
}

/// Why the rules, the mode or the tool deny the call as it is now. None: they do not.
fn denies(call: &Call, now: UnixMillis, view: &View<'_>) -> Option<String> {
    let tool = call.tool.as_ref()?;
    let case = Case::new(call, tool, view, now, Approver::Expected);
    let (answer, _) = case.judge(Wanted::Answer);
    let denied = answer.verdict == Verdict::Deny;
    denied.then(|| refused(call, tool, &answer).refusal.to_string())
}

/// Why a built-in hook denies the call as it is now. None: none does; remote ones are not asked again.
fn forbidden(call: &Call, view: &View<'_>) -> Option<String> {
    let outside = call.leaves_its_directories().map(|denial| denial.reason);
    let document = document_of(call, view);
    let judged = Judged {
        arguments: document.as_ref(),
        cwd: view.session.cwd,
    };
    let denied = |hook: &Arc<Hook>| {
        let Body::BuiltIn(builtin) = &hook.body else {
            return None;
        };
        let verdict = is_for(hook, call, view).then(|| builtin.judge(&judged))?;
        let why = format!("the hook `{}`: {}", hook.id, verdict.reason_for_user);
        (verdict.action == BeforeAction::Deny).then_some(why)
    };
    outside.or_else(|| view.hooks.at(Point::BeforeToolCall).find_map(denied))
}
