//! Approvals, decisions, grants and sessions between the gate and the wire.
//!
//! What people read is made safe here: control, bidi and zero-width characters become escapes. Never
//! decides.

use std::fmt::Write;

use bytes::Bytes;

use super::convert;
use super::convert_permission::{effect, mode, mode_number, source_number};
use super::status::{Failure, word_of};
use crate::engine::{Engine, Session, ShownApproval};
use crate::gate::approval::{
    Approval, ApprovalState, BatchPolicy, Choice, DecideError, Decision, MESSAGE_BYTES_MAX, Outcome,
};
use crate::gate::ids::{SessionId, UnixMillis};
use crate::gate::mask::masked;
use crate::gate::permission::{Grant, GrantCandidate, Ground, GroundKind, Scope, Source};
use crate::gate::result::CallOutcome;
use crate::gate::session::{Approvers, CWD_BYTES_MAX, SessionSettings};
use crate::pb::v1::{self as pb, ErrorReason};

/// Arguments beyond this are cut in lists and streams, in bytes.
pub(super) const SHOWN_BYTES_MAX: usize = 4 << 10;

/// How an approval is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// Whole.
    Whole,
    /// Arguments beyond [`SHOWN_BYTES_MAX`] cut.
    Cut,
    /// Without arguments.
    Bare,
}

/// An approval as it is now.
pub(super) fn approval(shown: &ShownApproval, how: Shown) -> pb::Approval {
    let approval = &*shown.approval;
    let request = &shown.spec.request;
    let asked = request.calls.get(approval.call.get());
    let secrets = &approval.secrets;
    let (arguments, cut) = shown_bytes(&masked(&approval.arguments, secrets), how);
    pb::Approval {
        approval_id: shown.id.to_string(),
        batch_id: shown.spec.batch.to_string(),
        session_id: request.session.to_string(),
        root_session_id: shown.root.to_string(),
        run_id: request.run.to_string(),
        turn_id: request.turn.to_string(),
        call: asked.map(|asked| pb::ToolCall {
            call_id: asked.call.call_id.to_string(),
            name: asked.call.name.to_string(),
            arguments_json: shown_bytes(&masked(&asked.call.arguments, secrets), how).0,
            truncated: asked.call.truncated,
        }),
        tool: approval.tool.name.to_string(),
        owner: approval.tool.owner.to_string(),
        tool_digest: Bytes::copy_from_slice(&approval.tool.digest.0),
        risk_level: convert::risk(approval.risk),
        kind: convert::kind(approval.kind),
        display_arguments: match how {
            Shown::Bare => String::new(),
            Shown::Whole | Shown::Cut => display(&arguments, cut),
        },
        effective_arguments_json: arguments,
        approval_digest: Bytes::copy_from_slice(&approval.digest.0),
        arguments_cut: cut,
        verdict: Some(shown_ground(&approval.ground, secrets)),
        tool_reason: visible(&approval.tool_reason),
        allowed_choices: choices(approval),
        grant_candidates: approval.candidates.iter().map(candidate).collect(),
        state: state(approval.state),
        created_at_ms: approval.created_at.0,
        expires_at_ms: approval.expires_at.map(|at| at.0),
        decision: approval
            .decision
            .as_ref()
            .map(|decision| self::decision(decision, secrets, how)),
        pending_in_batch: shown.pending_in_batch,
        mode: mode_number(approval.mode),
        call_outcome: outcome_number(shown.outcome),
        deferred: approval.is_deferred,
        additional_contexts: match how {
            Shown::Bare => Vec::new(),
            Shown::Whole | Shown::Cut => {
                let contexts = approval.contexts.iter();
                let call = asked.map_or("", |asked| asked.call.call_id.as_str());
                contexts.map(|text| convert::context(text, call)).collect()
            }
        },
        etag: approval.version.to_string(),
    }
}

/// Why it is asked, without what may quote an argument that nobody may see.
pub(super) fn shown_ground(why: &Ground, secrets: &[String]) -> pb::PermissionVerdict {
    let mut verdict = ground(why);
    if !secrets.is_empty() {
        verdict.segment.clear();
        // The words of a grant are those of a command.
        if why.source == Some(Source::Session) {
            verdict.rule.clear();
        }
    }
    verdict
}

fn choices(approval: &Approval) -> Vec<i32> {
    let choices = approval.choices().into_iter();
    choices.map(|choice| choice_number(Some(choice))).collect()
}

fn shown_bytes(bytes: &Bytes, how: Shown) -> (Bytes, bool) {
    match how {
        Shown::Whole => (bytes.clone(), false),
        Shown::Bare => (Bytes::new(), !bytes.is_empty()),
        Shown::Cut if bytes.len() <= SHOWN_BYTES_MAX => (bytes.clone(), false),
        Shown::Cut => {
            // Text of ours: it is cut where a character ends.
            let text = std::str::from_utf8(bytes).unwrap_or_default();
            let end = text.floor_char_boundary(SHOWN_BYTES_MAX);
            (bytes.slice(..end), true)
        }
    }
}

/// Arguments for people: indented, and with nothing in them that hides or moves text.
fn display(arguments: &Bytes, cut: bool) -> String {
    let text = std::str::from_utf8(arguments).unwrap_or_default();
    let indented = match cut {
        // Half of a value cannot be indented.
        true => None,
        false => indent(text),
    };
    visible(indented.as_deref().unwrap_or(text))
}

/// The same JSON with each member on a line of its own. Only blanks between tokens change: values stay
/// as they are written.
fn indent(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len() * 2);
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        out.push(character);
        match (in_string, character) {
            (true, '\\') => out.extend(characters.next()),
            (_, '"') => in_string = !in_string,
            (false, '{' | '[') => match characters.peek() {
                Some('}' | ']') => out.extend(characters.next()),
                Some(_) | None => {
                    depth += 1;
                    break_line(&mut out, depth);
                }
            },
            (false, '}' | ']') => {
                out.pop();
                depth = depth.checked_sub(1)?;
                break_line(&mut out, depth);
                out.push(character);
            }
            (false, ',') => break_line(&mut out, depth),
            (false, ':') => out.push(' '),
            (_, _) => {}
        }
    }
    Some(out)
}

fn break_line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth.min(64)));
}

/// Text in which everything can be seen: what hides, moves or reorders becomes an escape.
pub(super) fn visible(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match is_hidden(character) {
            false => out.push(character),
            true => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(character));
            }
        }
    }
    out
}

fn is_hidden(character: char) -> bool {
    let code = u32::from(character);
    (character.is_control() && character != '\n')
        || matches!(code,
            0xad | 0x34f | 0x61c | 0x115f..=0x1160 | 0x17b4..=0x17b5 | 0x180b..=0x180f
            | 0x200b..=0x200f | 0x2028..=0x202e | 0x2060..=0x206f | 0x3164 | 0xfe00..=0xfe0f
            | 0xfeff | 0xffa0 | 0xfff0..=0xfffb | 0x1bca0..=0x1bca3 | 0x1d173..=0x1d17a
            | 0xe0000..=0xe0fff)
}

/// Why a call may run, must be asked or must not run.
pub(super) fn ground(ground: &Ground) -> pb::PermissionVerdict {
    let stage = match ground.kind {
        GroundKind::DenyRule => pb::DecisionStage::DenyRule,
        GroundKind::AskRule => pb::DecisionStage::AskRule,
        GroundKind::Unclear => pb::DecisionStage::SafetyFloor,
        GroundKind::ModeBlock => pb::DecisionStage::ModeBlock,
        GroundKind::Hook => pb::DecisionStage::Hook,
        GroundKind::ToolCheck => pb::DecisionStage::ToolCheck,
        GroundKind::AllowRule => pb::DecisionStage::AllowRule,
        GroundKind::Grant => pb::DecisionStage::Grant,
        GroundKind::SkipPermission => pb::DecisionStage::SkipPermission,
        GroundKind::ModeAndRisk => pb::DecisionStage::ModeDefault,
        GroundKind::NoApprover => pb::DecisionStage::NoApprover,
    };
    pb::PermissionVerdict {
        effect: effect(ground.verdict),
        stage: stage as i32,
        rule: ground.rule.clone(),
        source: ground.source.map_or(0, source_number),
        origin: ground.origin.clone(),
        segment: ground.segment.clone(),
        segment_index: None,
        message: visible(&ground.message),
        hook_id: ground.hook.clone(),
        policy_revision: ground.revision,
    }
}

pub(super) fn candidate(candidate: &GrantCandidate) -> pb::GrantCandidate {
    let segment = candidate.segment.as_ref();
    pb::GrantCandidate {
        candidate_id: candidate.id.clone(),
        kind: grant_kind(&candidate.scope),
        rule: visible(&candidate.rule),
        summary: summary(&candidate.scope).to_owned(),
        segment: segment.map(|(_, text)| visible(text)).unwrap_or_default(),
        segment_index: segment.map(|(at, _)| *at),
        also_covers: 0,
    }
}

fn summary(scope: &Scope) -> &'static str {
    match scope {
        Scope::Prefix(_) => "commands that begin with these words, for this session",
        Scope::Words(_) => "exactly these words, for this session",
        Scope::WholeText(_) => "exactly this command, for this session",
        Scope::Tool => "every call of this tool of this owner, for this session",
        Scope::Edits => "edits run unasked in this session",
    }
}

fn grant_kind(scope: &Scope) -> i32 {
    let kind = match scope {
        Scope::Prefix(_) => pb::GrantKind::CommandPrefix,
        Scope::Words(_) | Scope::WholeText(_) => pb::GrantKind::CommandExact,
        Scope::Tool => pb::GrantKind::Tool,
        Scope::Edits => pb::GrantKind::AcceptEdits,
    };
    kind as i32
}

fn choice_number(choice: Option<Choice>) -> i32 {
    let choice = match choice {
        None => pb::ApprovalChoice::Unspecified,
        Some(Choice::Once) => pb::ApprovalChoice::Once,
        Some(Choice::Session) => pb::ApprovalChoice::Session,
        Some(Choice::Deny) => pb::ApprovalChoice::Deny,
        Some(Choice::Edit) => pb::ApprovalChoice::Edit,
        Some(Choice::Respond) => pb::ApprovalChoice::Respond,
        Some(Choice::CancelTurn) => pb::ApprovalChoice::CancelTurn,
    };
    choice as i32
}

pub(super) fn choice_from(number: i32) -> Option<Choice> {
    match pb::ApprovalChoice::try_from(number) {
        Ok(pb::ApprovalChoice::Unspecified) | Err(_) => None,
        Ok(pb::ApprovalChoice::Once) => Some(Choice::Once),
        Ok(pb::ApprovalChoice::Session) => Some(Choice::Session),
        Ok(pb::ApprovalChoice::Deny) => Some(Choice::Deny),
        Ok(pb::ApprovalChoice::Edit) => Some(Choice::Edit),
        Ok(pb::ApprovalChoice::Respond) => Some(Choice::Respond),
        Ok(pb::ApprovalChoice::CancelTurn) => Some(Choice::CancelTurn),
    }
}

pub(super) fn state(state: ApprovalState) -> i32 {
    let state = match state {
        ApprovalState::Pending => pb::ApprovalState::Pending,
        ApprovalState::Approved => pb::ApprovalState::Approved,
        ApprovalState::Denied => pb::ApprovalState::Denied,
        ApprovalState::Answered => pb::ApprovalState::Answered,
        ApprovalState::Expired => pb::ApprovalState::Expired,
        ApprovalState::Cancelled => pb::ApprovalState::Cancelled,
        ApprovalState::Withdrawn => pb::ApprovalState::Withdrawn,
        ApprovalState::Superseded => pb::ApprovalState::Superseded,
    };
    state as i32
}

fn decision(decision: &Decision, secrets: &[String], how: Shown) -> pb::Decision {
    let edited = decision.edited.as_ref();
    let edited = edited.map(|edited| masked(edited, secrets));
    pb::Decision {
        decision_id: decision.id.clone(),
        choice: choice_number(decision.choice),
        decided_by: match decision.by.is_empty() {
            true => "callgate".to_owned(),
            false => decision.by.clone(),
        },
        surface: decision.surface.clone(),
        decided_at_ms: decision.at.0,
        message: decision.message.clone(),
        edited_arguments_json: shown_bytes(&edited.unwrap_or_default(), how).0,
        grants: Vec::new(),
        verdict: decision
            .ground
            .as_ref()
            .map(|decided| shown_ground(decided, secrets)),
    }
}

fn outcome_number(outcome: Option<CallOutcome>) -> i32 {
    let outcome = match outcome {
        None => pb::CallOutcome::Unspecified,
        Some(CallOutcome::Success) => pb::CallOutcome::Success,
        Some(CallOutcome::Error) => pb::CallOutcome::Error,
        Some(CallOutcome::Cancelled) => pb::CallOutcome::Cancelled,
    };
    outcome as i32
}

/// What became of one decision. `shown`: the approval around the one in the outcome.
pub(super) fn decision_outcome(outcome: &Outcome, shown: &ShownApproval) -> pb::DecisionOutcome {
    let (status, approval, error) = match outcome {
        Outcome::Taken(approval) => (pb::DecisionStatus::Taken, approval, None),
        Outcome::Repeated(approval) => (pb::DecisionStatus::Repeated, approval, None),
        Outcome::Refused(approval, error) => {
            let status = match error {
                DecideError::AlreadyDecided | DecideError::NotPending => {
                    pb::DecisionStatus::Conflict
                }
                DecideError::NotFound
                | DecideError::DigestMismatch
                | DecideError::VersionMismatch
                | DecideError::ChoiceNotAllowed(_)
                | DecideError::EditInvalid(_)
                | DecideError::IdReused
                | DecideError::TooManyGrants => pb::DecisionStatus::Refused,
            };
            (status, approval, Some(decide_failure(error)))
        }
    };
    let shown = ShownApproval {
        approval: approval.clone(),
        ..shown.clone()
    };
    pb::DecisionOutcome {
        approval_id: shown.id.to_string(),
        status: status as i32,
        approval: Some(self::approval(&shown, Shown::Cut)),
        error: error.map(Failure::into_rpc_error),
    }
}

pub(super) fn decide_failure(error: &DecideError) -> Failure {
    let reason = match error {
        DecideError::NotFound => ErrorReason::ApprovalNotFound,
        DecideError::AlreadyDecided => ErrorReason::ApprovalAlreadyDecided,
        DecideError::NotPending => ErrorReason::ApprovalNotPending,
        DecideError::DigestMismatch => ErrorReason::ApprovalDigestMismatch,
        DecideError::VersionMismatch => ErrorReason::EtagMismatch,
        DecideError::ChoiceNotAllowed(_) => ErrorReason::ApprovalChoiceNotAllowed,
        DecideError::EditInvalid(_) => ErrorReason::ApprovalEditInvalid,
        DecideError::IdReused => ErrorReason::DecisionIdReused,
        DecideError::TooManyGrants => ErrorReason::LimitExceeded,
    };
    Failure::new(reason, error.to_string())
}

/// What an approver writes, if it is not too long.
pub(super) fn message(text: String, field: &str) -> Result<String, Failure> {
    match text.len() <= MESSAGE_BYTES_MAX {
        true => Ok(text),
        false => Err(Failure::field(
            field,
            format!("must have at most {MESSAGE_BYTES_MAX} bytes"),
        )),
    }
}

pub(super) fn batch_policy(policy: BatchPolicy) -> i32 {
    let policy = match policy {
        BatchPolicy::FreezeAtomic => pb::BatchPolicy::FreezeAtomic,
        BatchPolicy::FreezePartial => pb::BatchPolicy::FreezePartial,
        BatchPolicy::EagerSafe => pb::BatchPolicy::EagerSafe,
    };
    policy as i32
}

/// A policy that was set. One that nobody knows is the default one.
pub(super) fn batch_policy_from(number: i32) -> Option<BatchPolicy> {
    match pb::BatchPolicy::try_from(number) {
        Ok(pb::BatchPolicy::Unspecified) => None,
        Ok(pb::BatchPolicy::FreezeAtomic) | Err(_) => Some(BatchPolicy::FreezeAtomic),
        Ok(pb::BatchPolicy::FreezePartial) => Some(BatchPolicy::FreezePartial),
        Ok(pb::BatchPolicy::EagerSafe) => Some(BatchPolicy::EagerSafe),
    }
}

fn approvers_from(number: i32) -> Option<Approvers> {
    match pb::ApproverAvailability::try_from(number) {
        Ok(pb::ApproverAvailability::Unspecified) => None,
        Ok(pb::ApproverAvailability::Expected) => Some(Approvers::Expected),
        Ok(pb::ApproverAvailability::Connected) => Some(Approvers::Connected),
        Ok(pb::ApproverAvailability::None) | Err(_) => Some(Approvers::None),
    }
}

/// Reads what is set about a session.
pub(super) fn settings(settings: Option<pb::SessionSettings>) -> Result<SessionSettings, Failure> {
    let settings = settings.unwrap_or_default();
    if settings.max_parallel == Some(0) {
        return Err(Failure::field("settings.max_parallel", "must not be zero"));
    }
    if let Some(cwd) = &settings.cwd
        && cwd.len() > CWD_BYTES_MAX
    {
        let problem = format!("must have at most {CWD_BYTES_MAX} bytes");
        return Err(Failure::field("settings.cwd", problem));
    }
    Ok(SessionSettings {
        mode: mode(settings.mode),
        batch_policy: batch_policy_from(settings.batch_policy),
        max_parallel: settings.max_parallel,
        toolset: settings.toolset.filter(|name| !name.is_empty()),
        cwd: settings.cwd.filter(|cwd| !cwd.is_empty()),
        approvers: approvers_from(settings.approvers),
        approval_ttl_ms: settings.approval_ttl_ms,
    })
}

/// A session with all settings as they hold.
pub(super) fn session(engine: &Engine, session: &Session) -> pb::Session {
    let state = session.state();
    let record = &state.record;
    let defaults = engine.session_defaults();
    let approvers = match record.settings.approvers.unwrap_or(defaults.approvers) {
        Approvers::Expected => pb::ApproverAvailability::Expected,
        Approvers::Connected => pb::ApproverAvailability::Connected,
        Approvers::None => pb::ApproverAvailability::None,
    };
    let policy = record
        .settings
        .batch_policy
        .unwrap_or(defaults.batch_policy);
    let ttl_ms = record.settings.approval_ttl_ms;
    pb::Session {
        session_id: record.id.to_string(),
        parent_session_id: record
            .parent
            .as_ref()
            .map_or_else(String::new, SessionId::to_string),
        root_session_id: record.root.to_string(),
        depth: record.depth,
        settings: Some(pb::SessionSettings {
            mode: mode_number(engine.mode_of(session)),
            batch_policy: batch_policy(policy),
            max_parallel: record.settings.max_parallel,
            toolset: record.settings.toolset.clone(),
            cwd: record.settings.cwd.clone(),
            approvers: approvers as i32,
            approval_ttl_ms: Some(ttl_ms.unwrap_or(defaults.approval_ttl_ms)),
        }),
        max_mode: mode_number(engine.max_mode(session)),
        created_at_ms: record.created_at.0,
        used_at_ms: session.used_at().max(record.updated_at).0,
        closed_at_ms: record.closed_at.map(|at| at.0),
        pending_approvals: engine.pending_of_line(session),
        etag: record.version.to_string(),
    }
}

/// A grant as it is at that moment.
pub(super) fn grant(grant: &Grant, session: &Session, now: UnixMillis) -> pb::Grant {
    let closed_at = session.state().record.closed_at;
    let expired_at = grant.terms.expires.filter(|expires| *expires <= now);
    let (state, ended_at) = match (&grant.revoked, closed_at.or(expired_at)) {
        (Some(revoked), _) => (pb::GrantState::Revoked, Some(revoked.at)),
        (None, Some(ended)) => (pb::GrantState::Expired, Some(ended)),
        (None, None) => (pb::GrantState::Active, None),
    };
    pb::Grant {
        grant_id: grant.id.to_string(),
        session_id: session.id().to_string(),
        kind: grant_kind(&grant.terms.scope),
        rule: match grant.terms.scope {
            Scope::Edits => String::new(),
            Scope::Prefix(_) | Scope::Words(_) | Scope::WholeText(_) | Scope::Tool => {
                visible(&grant.text())
            }
        },
        tool: grant.terms.tool.name.to_string(),
        owner: grant.terms.tool.owner.to_string(),
        tool_digest: Bytes::copy_from_slice(&grant.terms.tool.digest.0),
        approval_id: grant.given.approval.clone(),
        granted_by: grant.given.by.clone(),
        granted_at_ms: grant.given.at.0,
        expires_at_ms: grant.terms.expires.map(|at| at.0),
        uses: grant.uses,
        state: state as i32,
        revoked_by: grant
            .revoked
            .as_ref()
            .map(|revoked| revoked.by.clone())
            .unwrap_or_default(),
        ended_at_ms: ended_at.map(|at| at.0),
    }
}

/// Reads a version that came back as an etag. Empty: whatever it is now.
pub(super) fn version(etag: &str) -> Result<Option<u32>, Failure> {
    if etag.is_empty() {
        return Ok(None);
    }
    // One that is none of ours is as good as an old one.
    let old = || {
        Failure::new(
            ErrorReason::EtagMismatch,
            word_of(ErrorReason::EtagMismatch),
        )
    };
    etag.parse().map(Some).map_err(|_| old())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_indented_and_nothing_in_them_is_hidden() {
        let text = "{\"a\":[1,{}],\"b\":\"x\u{202e}y\u{200b},{\\\"\u{e0041}\",\"c\":[]}";
        let shown = display(&Bytes::from(text), false);
        let expected = "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": \"x\\u{202e}y\\u{200b},{\\\"\\u{e0041}\",\n  \"c\": []\n}";
        assert_eq!(shown, expected);
    }

    #[test]
    fn long_arguments_are_cut_where_a_character_ends() {
        let text = format!("{{\"a\":\"{}\"}}", "ä".repeat(SHOWN_BYTES_MAX));
        let bytes = Bytes::from(text);
        let (cut, is_cut) = shown_bytes(&bytes, Shown::Cut);
        assert!(is_cut && cut.len() <= SHOWN_BYTES_MAX);
        assert!(std::str::from_utf8(&cut).is_ok());
        let at_the_limit = Bytes::from(vec![b'x'; SHOWN_BYTES_MAX]);
        assert!(!shown_bytes(&at_the_limit, Shown::Cut).1);
        assert!(!shown_bytes(&bytes, Shown::Whole).1);
    }
}
