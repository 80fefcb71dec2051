//! Approvals, sessions and grants on the disk.
//!
//! These records are rare, so they are written through their messages, unlike those of every turn.
//! Never decides what a record changes.

use std::sync::Arc;

use prost::Message;

use super::{Unreadable, hooks, numbers};
use crate::gate::admission;
use crate::gate::approval as gate;
use crate::gate::ids::{CallIndex, OwnerName, SessionId, ToolName, UnixMillis};
use crate::gate::permission::{
    self, Extras, Given, GrantCandidate, GrantId, GrantedTool, Grants, Mode, NewGrant, Revoked,
    Scope,
};
use crate::gate::result::Digest;
use crate::gate::session::{SessionRecord, SessionSettings, StoredSession};

#[derive(Clone, PartialEq, Message)]
pub(super) struct Tool {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    owner: String,
    #[prost(bytes = "vec", tag = "3")]
    digest: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Ground {
    #[prost(uint32, tag = "1")]
    verdict: u32,
    #[prost(uint32, tag = "2")]
    kind: u32,
    #[prost(string, tag = "3")]
    rule: String,
    #[prost(uint32, optional, tag = "4")]
    source: Option<u32>,
    #[prost(string, tag = "5")]
    origin: String,
    #[prost(string, tag = "6")]
    segment: String,
    #[prost(string, tag = "7")]
    message: String,
    #[prost(uint64, tag = "8")]
    revision: u64,
    #[prost(string, tag = "9")]
    hook: String,
}

/// What a grant covers: `kind` says which field counts.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Covers {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, repeated, tag = "2")]
    words: Vec<String>,
    #[prost(string, tag = "3")]
    text: String,
}

const PREFIX: u32 = 1;
const WORDS: u32 = 2;
const WHOLE_TEXT: u32 = 3;
const TOOL: u32 = 4;
const EDITS: u32 = 5;

#[derive(Clone, PartialEq, Message)]
pub(super) struct Candidate {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(message, optional, tag = "2")]
    covers: Option<Covers>,
    #[prost(string, tag = "3")]
    rule: String,
    #[prost(uint32, optional, tag = "4")]
    segment_index: Option<u32>,
    #[prost(string, tag = "5")]
    segment: String,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Decision {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(uint32, optional, tag = "2")]
    choice: Option<u32>,
    #[prost(string, tag = "3")]
    by: String,
    #[prost(string, tag = "4")]
    surface: String,
    #[prost(uint64, tag = "5")]
    at: u64,
    #[prost(string, tag = "6")]
    message: String,
    #[prost(bytes = "bytes", optional, tag = "7")]
    edited: Option<bytes::Bytes>,
    #[prost(bytes = "bytes", tag = "8")]
    contents: bytes::Bytes,
    #[prost(uint64, repeated, tag = "9")]
    grants: Vec<u64>,
    #[prost(message, optional, tag = "10")]
    ground: Option<Ground>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Approval {
    #[prost(uint32, tag = "1")]
    call: u32,
    #[prost(message, optional, tag = "2")]
    tool: Option<Tool>,
    #[prost(uint32, tag = "3")]
    risk: u32,
    #[prost(uint32, tag = "4")]
    kind: u32,
    #[prost(bytes = "bytes", tag = "5")]
    arguments: bytes::Bytes,
    #[prost(bytes = "vec", tag = "6")]
    digest: Vec<u8>,
    #[prost(message, optional, tag = "7")]
    ground: Option<Ground>,
    #[prost(message, repeated, tag = "8")]
    candidates: Vec<Candidate>,
    #[prost(uint32, tag = "9")]
    mode: u32,
    #[prost(uint64, tag = "10")]
    created_at: u64,
    #[prost(uint64, optional, tag = "11")]
    expires_at: Option<u64>,
    #[prost(string, tag = "12")]
    tool_reason: String,
    #[prost(bool, tag = "13")]
    is_deferred: bool,
    #[prost(message, repeated, tag = "14")]
    contexts: Vec<hooks::Text>,
    #[prost(string, repeated, tag = "15")]
    secrets: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Change {
    #[prost(uint32, tag = "1")]
    call: u32,
    #[prost(uint32, tag = "2")]
    state: u32,
    #[prost(message, optional, tag = "3")]
    decision: Option<Decision>,
    #[prost(uint32, tag = "4")]
    version: u32,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Grant {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(message, optional, tag = "2")]
    tool: Option<Tool>,
    #[prost(message, optional, tag = "3")]
    covers: Option<Covers>,
    #[prost(uint64, optional, tag = "4")]
    expires: Option<u64>,
    #[prost(uint32, optional, tag = "5")]
    uses_max: Option<u32>,
    #[prost(uint32, tag = "6")]
    uses: u32,
    #[prost(string, tag = "7")]
    approval: String,
    #[prost(string, tag = "8")]
    by: String,
    #[prost(uint64, tag = "9")]
    at: u64,
    #[prost(string, optional, tag = "10")]
    revoked_by: Option<String>,
    #[prost(uint64, tag = "11")]
    revoked_at: u64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Session {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, optional, tag = "2")]
    parent: Option<String>,
    #[prost(string, tag = "3")]
    root: String,
    #[prost(uint32, tag = "4")]
    depth: u32,
    #[prost(uint32, optional, tag = "5")]
    mode: Option<u32>,
    #[prost(uint32, optional, tag = "6")]
    batch_policy: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    max_parallel: Option<u32>,
    #[prost(string, optional, tag = "8")]
    toolset: Option<String>,
    #[prost(string, optional, tag = "9")]
    cwd: Option<String>,
    #[prost(uint32, optional, tag = "10")]
    approvers: Option<u32>,
    #[prost(uint64, optional, tag = "11")]
    approval_ttl_ms: Option<u64>,
    #[prost(bool, tag = "12")]
    inherits_grants: bool,
    #[prost(uint64, tag = "13")]
    created_at: u64,
    #[prost(uint64, tag = "14")]
    updated_at: u64,
    #[prost(uint64, optional, tag = "15")]
    closed_at: Option<u64>,
    #[prost(uint32, tag = "16")]
    version: u32,
}

/// A rule that came with a turn.
#[derive(Clone, PartialEq, Message)]
pub(super) struct TurnRule {
    #[prost(uint32, tag = "1")]
    list: u32,
    #[prost(string, tag = "2")]
    text: String,
    #[prost(string, repeated, tag = "3")]
    matches: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    not_matches: Vec<String>,
    #[prost(string, optional, tag = "5")]
    message: Option<String>,
    #[prost(uint64, optional, tag = "6")]
    expires: Option<u64>,
    #[prost(uint32, repeated, tag = "7")]
    modes: Vec<u32>,
}

/// A session with everything, as its table holds it.
#[derive(Clone, PartialEq, Message)]
struct Whole {
    #[prost(message, optional, tag = "1")]
    record: Option<Session>,
    #[prost(message, repeated, tag = "2")]
    grants: Vec<Grant>,
    #[prost(uint64, tag = "3")]
    touched_at: u64,
}

/// The bytes of a session.
pub(crate) fn session_bytes(session: &StoredSession) -> Vec<u8> {
    let whole = Whole {
        record: Some(session_to(&session.record)),
        grants: session.grants.iter().map(grant_to).collect(),
        touched_at: session.touched_at.0,
    };
    whole.encode_to_vec()
}

/// Reads a session.
pub(crate) fn stored_session(bytes: &[u8]) -> Result<StoredSession, Unreadable> {
    let whole = Whole::decode(bytes)?;
    let record = whole.record.ok_or(Unreadable::Missing("record"))?;
    let grants = whole.grants.into_iter().map(grant_from);
    Ok(StoredSession {
        record: session_from(record)?,
        grants: Grants::restore(grants.collect::<Result<_, _>>()?),
        touched_at: UnixMillis(whole.touched_at),
    })
}

pub(super) fn turn_rule_to(rule: &admission::TurnRule) -> TurnRule {
    let extras = &rule.extras;
    let modes = Mode::ALL.into_iter();
    TurnRule {
        list: numbers::verdict_to(rule.list),
        text: rule.text.clone(),
        matches: extras.matches.clone(),
        not_matches: extras.not_matches.clone(),
        message: extras.message.as_deref().map(str::to_owned),
        expires: extras.expires.map(|at| at.0),
        modes: modes
            .filter(|mode| extras.modes.contains(*mode))
            .map(numbers::mode_to)
            .collect(),
    }
}

pub(super) fn turn_rule_from(rule: TurnRule) -> Result<admission::TurnRule, Unreadable> {
    let modes = rule.modes.into_iter().map(numbers::mode_from);
    Ok(admission::TurnRule {
        list: numbers::verdict_from(rule.list)?,
        text: rule.text,
        extras: Extras {
            matches: rule.matches,
            not_matches: rule.not_matches,
            message: rule.message.map(Arc::from),
            expires: rule.expires.map(UnixMillis),
            modes: modes.collect::<Result<_, _>>()?,
        },
    })
}

fn tool_to(tool: &GrantedTool) -> Tool {
    Tool {
        name: tool.name.to_string(),
        owner: tool.owner.to_string(),
        digest: tool.digest.0.to_vec(),
    }
}

fn tool_from(tool: Option<Tool>) -> Result<GrantedTool, Unreadable> {
    let tool = tool.ok_or(Unreadable::Missing("tool"))?;
    Ok(GrantedTool {
        name: ToolName::trusted(tool.name),
        owner: OwnerName::trusted(tool.owner),
        digest: digest_from(&tool.digest)?,
    })
}

fn digest_from(bytes: &[u8]) -> Result<Digest, Unreadable> {
    Digest::from_slice(bytes).ok_or(Unreadable::Missing("digest"))
}

fn ground_to(ground: &permission::Ground) -> Ground {
    Ground {
        verdict: numbers::verdict_to(ground.verdict),
        kind: numbers::ground_to(ground.kind),
        rule: ground.rule.clone(),
        source: ground.source.map(numbers::source_to),
        origin: ground.origin.clone(),
        segment: ground.segment.clone(),
        message: ground.message.clone(),
        revision: ground.revision,
        hook: ground.hook.clone(),
    }
}

fn ground_from(ground: Ground) -> Result<permission::Ground, Unreadable> {
    Ok(permission::Ground {
        verdict: numbers::verdict_from(ground.verdict)?,
        kind: numbers::ground_from(ground.kind)?,
        rule: ground.rule,
        source: ground.source.map(numbers::source_from).transpose()?,
        origin: ground.origin,
        segment: ground.segment,
        message: ground.message,
        revision: ground.revision,
        hook: ground.hook,
    })
}

fn covers_to(scope: &Scope) -> Covers {
    let mut covers = Covers::default();
    covers.kind = match scope {
        Scope::Prefix(words) => {
            covers.words.clone_from(words);
            PREFIX
        }
        Scope::Words(words) => {
            covers.words.clone_from(words);
            WORDS
        }
        Scope::WholeText(text) => {
            covers.text = text.to_string();
            WHOLE_TEXT
        }
        Scope::Tool => TOOL,
        Scope::Edits => EDITS,
    };
    covers
}

fn covers_from(covers: Option<Covers>) -> Result<Scope, Unreadable> {
    let covers = covers.ok_or(Unreadable::Missing("covers"))?;
    Ok(match covers.kind {
        PREFIX => Scope::Prefix(covers.words),
        WORDS => Scope::Words(covers.words),
        WHOLE_TEXT => Scope::WholeText(Arc::from(covers.text)),
        TOOL => Scope::Tool,
        EDITS => Scope::Edits,
        other => {
            return Err(Unreadable::Unknown {
                field: "covers",
                value: u64::from(other),
            });
        }
    })
}

fn candidate_to(candidate: &GrantCandidate) -> Candidate {
    let segment = candidate.segment.as_ref();
    Candidate {
        id: candidate.id.clone(),
        covers: Some(covers_to(&candidate.scope)),
        rule: candidate.rule.clone(),
        segment_index: segment.map(|(at, _)| *at),
        segment: segment.map(|(_, text)| text.clone()).unwrap_or_default(),
    }
}

fn candidate_from(candidate: Candidate) -> Result<GrantCandidate, Unreadable> {
    let segment = candidate.segment;
    Ok(GrantCandidate {
        id: candidate.id,
        scope: covers_from(candidate.covers)?,
        rule: candidate.rule,
        segment: candidate.segment_index.map(|at| (at, segment)),
    })
}

fn decision_to(decision: &gate::Decision) -> Decision {
    Decision {
        id: decision.id.clone(),
        choice: decision.choice.map(numbers::choice_to),
        by: decision.by.clone(),
        surface: decision.surface.clone(),
        at: decision.at.0,
        message: decision.message.clone(),
        edited: decision.edited.clone(),
        contents: decision.contents.clone(),
        grants: decision.grants.iter().map(|id| id.0).collect(),
        ground: decision.ground.as_ref().map(ground_to),
    }
}

fn decision_from(decision: Decision) -> Result<gate::Decision, Unreadable> {
    Ok(gate::Decision {
        id: decision.id,
        choice: decision.choice.map(numbers::choice_from).transpose()?,
        by: decision.by,
        surface: decision.surface,
        at: UnixMillis(decision.at),
        message: decision.message,
        edited: decision.edited,
        contents: decision.contents,
        grants: decision.grants.into_iter().map(GrantId).collect(),
        ground: decision.ground.map(ground_from).transpose()?,
    })
}

pub(super) fn approval_to(approval: &gate::Approval) -> Approval {
    Approval {
        call: u32::from(approval.call.0),
        tool: Some(tool_to(&approval.tool)),
        risk: numbers::risk_to(approval.risk),
        kind: numbers::tool_kind_to(approval.kind),
        arguments: approval.arguments.clone(),
        digest: approval.digest.0.to_vec(),
        ground: Some(ground_to(&approval.ground)),
        candidates: approval.candidates.iter().map(candidate_to).collect(),
        mode: numbers::mode_to(approval.mode),
        created_at: approval.created_at.0,
        expires_at: approval.expires_at.map(|at| at.0),
        tool_reason: approval.tool_reason.clone(),
        is_deferred: approval.is_deferred,
        contexts: approval.contexts.iter().map(hooks::text_to).collect(),
        secrets: approval.secrets.clone(),
    }
}

pub(super) fn approval_from(approval: Approval) -> Result<Arc<gate::Approval>, Unreadable> {
    let candidates = approval.candidates.into_iter().map(candidate_from);
    let ground = approval.ground.ok_or(Unreadable::Missing("ground"))?;
    Ok(Arc::new(gate::Approval {
        call: call_from(approval.call)?,
        tool: tool_from(approval.tool)?,
        risk: numbers::risk_from(approval.risk)?,
        kind: numbers::tool_kind_from(approval.kind)?,
        arguments: approval.arguments,
        secrets: approval.secrets,
        digest: digest_from(&approval.digest)?,
        ground: ground_from(ground)?,
        tool_reason: approval.tool_reason,
        is_deferred: approval.is_deferred,
        contexts: approval
            .contexts
            .into_iter()
            .map(hooks::text_from)
            .collect(),
        candidates: candidates.collect::<Result<_, _>>()?,
        mode: numbers::mode_from(approval.mode)?,
        created_at: UnixMillis(approval.created_at),
        expires_at: approval.expires_at.map(UnixMillis),
        state: gate::ApprovalState::Pending,
        decision: None,
        version: 1,
    }))
}

pub(super) fn change_to(change: &gate::ApprovalChange) -> Change {
    Change {
        call: u32::from(change.call.0),
        state: numbers::approval_state_to(change.state),
        decision: Some(decision_to(&change.decision)),
        version: change.version,
    }
}

pub(super) fn change_from(change: Change) -> Result<gate::ApprovalChange, Unreadable> {
    let decision = change.decision.ok_or(Unreadable::Missing("decision"))?;
    Ok(gate::ApprovalChange {
        call: call_from(change.call)?,
        state: numbers::approval_state_from(change.state)?,
        decision: decision_from(decision)?,
        version: change.version,
    })
}

fn call_from(number: u32) -> Result<CallIndex, Unreadable> {
    super::decode::index_of(number)
}

pub(super) fn grant_to(grant: &permission::Grant) -> Grant {
    Grant {
        id: grant.id.0,
        tool: Some(tool_to(&grant.terms.tool)),
        covers: Some(covers_to(&grant.terms.scope)),
        expires: grant.terms.expires.map(|at| at.0),
        uses_max: grant.terms.uses_max,
        uses: grant.uses,
        approval: grant.given.approval.clone(),
        by: grant.given.by.clone(),
        at: grant.given.at.0,
        revoked_by: grant.revoked.as_ref().map(|revoked| revoked.by.clone()),
        revoked_at: grant.revoked.as_ref().map_or(0, |revoked| revoked.at.0),
    }
}

pub(super) fn grant_from(grant: Grant) -> Result<permission::Grant, Unreadable> {
    let revoked_at = UnixMillis(grant.revoked_at);
    Ok(permission::Grant {
        id: GrantId(grant.id),
        terms: NewGrant {
            tool: tool_from(grant.tool)?,
            scope: covers_from(grant.covers)?,
            expires: grant.expires.map(UnixMillis),
            uses_max: grant.uses_max,
        },
        uses: grant.uses,
        given: Given {
            approval: grant.approval,
            by: grant.by,
            at: UnixMillis(grant.at),
        },
        revoked: grant.revoked_by.map(|by| Revoked { by, at: revoked_at }),
    })
}

pub(super) fn session_to(session: &SessionRecord) -> Session {
    let settings = &session.settings;
    Session {
        id: session.id.to_string(),
        parent: session.parent.as_ref().map(ToString::to_string),
        root: session.root.to_string(),
        depth: session.depth,
        mode: settings.mode.map(numbers::mode_to),
        batch_policy: settings.batch_policy.map(numbers::batch_policy_to),
        max_parallel: settings.max_parallel,
        toolset: settings.toolset.clone(),
        cwd: settings.cwd.clone(),
        approvers: settings.approvers.map(numbers::approvers_to),
        approval_ttl_ms: settings.approval_ttl_ms,
        inherits_grants: session.inherits_grants,
        created_at: session.created_at.0,
        updated_at: session.updated_at.0,
        closed_at: session.closed_at.map(|at| at.0),
        version: session.version,
    }
}

pub(super) fn session_from(session: Session) -> Result<SessionRecord, Unreadable> {
    let batch_policy = session.batch_policy.map(numbers::batch_policy_from);
    Ok(SessionRecord {
        id: SessionId::trusted(session.id),
        parent: session.parent.map(SessionId::trusted),
        root: SessionId::trusted(session.root),
        depth: session.depth,
        settings: SessionSettings {
            mode: session.mode.map(numbers::mode_from).transpose()?,
            batch_policy: batch_policy.transpose()?,
            max_parallel: session.max_parallel,
            toolset: session.toolset,
            cwd: session.cwd,
            approvers: session.approvers.map(numbers::approvers_from).transpose()?,
            approval_ttl_ms: session.approval_ttl_ms,
        },
        inherits_grants: session.inherits_grants,
        created_at: UnixMillis(session.created_at),
        updated_at: UnixMillis(session.updated_at),
        closed_at: session.closed_at.map(UnixMillis),
        version: session.version,
    })
}
