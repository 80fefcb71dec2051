//! An approval in words, for the commands and the panel alike.
//!
//! Every text of others goes through [`visible`] here, so that whoever prints these lines need not think
//! of it. Never shortens arguments and never decides.

use callgate_client::pb::v1 as pb;
use serde_json::{Value, json};

use super::client::word;
use super::visible::{visible, visible_lines};

/// How long something has been so, roughly: a list of ages must not change with every second.
pub(super) fn age(since_ms: u64, now_ms: u64) -> String {
    let seconds = now_ms.saturating_sub(since_ms) / 1_000;
    match seconds {
        0..60 => format!("{}s", seconds / 5 * 5),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        days => format!("{}d", days / 86_400),
    }
}

/// The word of a risk. What we do not know is dangerous.
pub(super) fn risk_word(risk: i32) -> String {
    let risk = pb::RiskLevel::try_from(risk).unwrap_or(pb::RiskLevel::Dangerous);
    word(risk.as_str_name(), "RISK_LEVEL_")
}

/// The word of a mode. What we do not know is plan.
pub(super) fn mode_word(mode: i32) -> String {
    let mode = pb::Mode::try_from(mode).unwrap_or(pb::Mode::Plan);
    word(mode.as_str_name(), "MODE_")
}

/// The word of an approval's state. What we do not know is shown by its number, and final.
pub(super) fn approval_state_word(state: i32) -> String {
    pb::ApprovalState::try_from(state).map_or_else(
        |_| format!("state {state}"),
        |state| word(state.as_str_name(), "APPROVAL_STATE_"),
    )
}

/// The word of a choice.
pub(super) fn choice_word(choice: i32) -> String {
    pb::ApprovalChoice::try_from(choice).map_or_else(
        |_| format!("choice {choice}"),
        |choice| word(choice.as_str_name(), "APPROVAL_CHOICE_"),
    )
}

/// The word of a grant's kind.
pub(super) fn grant_kind_word(kind: i32) -> String {
    pb::GrantKind::try_from(kind).map_or_else(
        |_| format!("kind {kind}"),
        |kind| word(kind.as_str_name(), "GRANT_KIND_"),
    )
}

/// Which rule, grant, mode or analysis decided, on one line.
pub(super) fn because(verdict: &pb::PermissionVerdict) -> String {
    let stage = pb::DecisionStage::try_from(verdict.stage);
    let stage = stage.map_or_else(
        |_| format!("stage {}", verdict.stage),
        |stage| word(stage.as_str_name(), "DECISION_STAGE_").replace('_', " "),
    );
    if verdict.rule.is_empty() {
        return match verdict.message.is_empty() {
            true => stage,
            false => format!("{stage}: {}", visible(&verdict.message)),
        };
    }
    let source = word(verdict.source().as_str_name(), "RULE_SOURCE_");
    let origin = match verdict.origin.is_empty() {
        true => String::new(),
        false => format!(", {}", visible(&verdict.origin)),
    };
    format!("{stage} `{}` of {source}{origin}", visible(&verdict.rule))
}

/// Why an approval is asked for, on one line.
pub(super) fn why(approval: &pb::Approval) -> String {
    approval
        .verdict
        .as_ref()
        .map_or_else(|| "not told".to_owned(), because)
}

/// A decision as it was recorded, on one line.
pub(super) fn decision_line(decision: &pb::Decision) -> String {
    let by = match decision.surface.is_empty() {
        true => visible(&decision.decided_by),
        false => format!(
            "{} with {}",
            visible(&decision.decided_by),
            visible(&decision.surface)
        ),
    };
    let what = match (&decision.verdict, decision.choice()) {
        (Some(verdict), _) => format!("nobody chose; {}", because(verdict)),
        (None, pb::ApprovalChoice::Unspecified) => "nobody chose".to_owned(),
        (None, _) => format!("{} by {by}", choice_word(decision.choice)),
    };
    match decision.message.is_empty() {
        true => what,
        false => format!("{what}: {}", visible(&decision.message)),
    }
}

/// A grant that could be stored, word for word, on as many lines as it needs.
pub(super) fn candidate_lines(candidate: &pb::GrantCandidate) -> Vec<String> {
    let kind = grant_kind_word(candidate.kind);
    let mut lines = vec![match candidate.rule.is_empty() {
        true => format!("{kind}  ({})", visible(&candidate.candidate_id)),
        false => format!(
            "{kind} `{}`  ({})",
            visible(&candidate.rule),
            visible(&candidate.candidate_id)
        ),
    }];
    if !candidate.segment.is_empty() {
        lines.push(format!("answers `{}`", visible(&candidate.segment)));
    }
    if !candidate.summary.is_empty() {
        lines.push(visible(&candidate.summary));
    }
    if candidate.also_covers > 0 {
        lines.push(format!(
            "covers {} more that wait as well",
            candidate.also_covers
        ));
    }
    lines
}

/// The arguments whole, as the sidecar wrote them for people.
fn argument_lines(approval: &pb::Approval) -> Vec<String> {
    let raw = String::from_utf8_lossy(&approval.effective_arguments_json);
    let text = match approval.display_arguments.is_empty() {
        true => raw.as_ref(),
        false => approval.display_arguments.as_str(),
    };
    visible_lines(text).collect()
}

/// One line of an approval. Whoever breaks it begins the next one with `rest`, so that a long text of others
/// never looks like a line of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) first: &'static str,
    pub(super) rest: &'static str,
    pub(super) text: String,
}

/// A line of ours: what follows its name is indented when it is broken.
fn own(text: impl Into<String>) -> Line {
    Line {
        first: "",
        rest: "          ",
        text: text.into(),
    }
}

/// A line of the arguments.
fn of_arguments(text: String) -> Line {
    Line {
        first: "| ",
        rest: "|> ",
        text,
    }
}

/// A line of a proposal.
fn of_proposal(first: &'static str, text: String) -> Line {
    Line {
        first,
        rest: "    ",
        text,
    }
}

impl std::fmt::Display for Line {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}{}", self.first, self.text)
    }
}

/// The whole approval: what would run, who asks for it, why, what it would store.
pub(super) fn lines(approval: &pb::Approval, now_ms: u64) -> Vec<Line> {
    let ours = head_lines(approval, now_ms).into_iter();
    let mut lines: Vec<Line> = ours.chain(reason_lines(approval)).map(own).collect();
    lines.push(own(""));
    lines.push(own("arguments"));
    lines.extend(argument_lines(approval).into_iter().map(of_arguments));
    if approval.arguments_cut {
        lines.push(own("(cut here)"));
    }
    if !approval.grant_candidates.is_empty() {
        lines.push(own(""));
        lines.push(own("approving for the session would store"));
        for candidate in &approval.grant_candidates {
            let mut texts = candidate_lines(candidate).into_iter();
            lines.extend(texts.next().map(|text| of_proposal("  - ", text)));
            lines.extend(texts.map(|text| of_proposal("    ", text)));
        }
    }
    if let Some(decision) = &approval.decision {
        lines.push(own(""));
        lines.push(own(format!("decided   {}", decision_line(decision))));
    }
    lines
}

fn head_lines(approval: &pb::Approval, now_ms: u64) -> Vec<String> {
    let call = approval
        .call
        .as_ref()
        .map_or("", |call| call.call_id.as_str());
    let kind = word(approval.kind().as_str_name(), "TOOL_KIND_");
    let root = match approval.root_session_id == approval.session_id {
        true => String::new(),
        false => format!(" under {}", visible(&approval.root_session_id)),
    };
    let batch = match approval.pending_in_batch {
        0 | 1 => String::new(),
        waiting => format!("; {waiting} calls of its batch wait"),
    };
    let mut lines = vec![
        format!("approval  {}", visible(&approval.approval_id)),
        format!(
            "state     {}, asked {} ago{batch}",
            approval_state_word(approval.state),
            age(approval.created_at_ms, now_ms)
        ),
        format!(
            "tool      {} of {}, {kind}, {}",
            visible(&approval.tool),
            visible(&approval.owner),
            risk_word(approval.risk_level)
        ),
        format!(
            "session   {}{root}, mode {}",
            visible(&approval.session_id),
            mode_word(approval.mode)
        ),
        format!(
            "call      {} of turn {}, run {}",
            visible(call),
            visible(&approval.turn_id),
            visible(&approval.run_id)
        ),
    ];
    if let Some(expires) = approval.expires_at_ms {
        let left = age(now_ms, expires.max(now_ms));
        lines.push(format!("expires   in {left}"));
    }
    lines
}

fn reason_lines(approval: &pb::Approval) -> Vec<String> {
    let mut lines = vec![format!("asked by  {}", why(approval))];
    if let Some(verdict) = &approval.verdict {
        if !verdict.segment.is_empty() {
            lines.push(format!("          for `{}`", visible(&verdict.segment)));
        }
        if !verdict.message.is_empty() && !verdict.rule.is_empty() {
            lines.push(format!("          {}", visible(&verdict.message)));
        }
    }
    if !approval.tool_reason.is_empty() {
        lines.push(format!("tool says {}", visible(&approval.tool_reason)));
    }
    lines
}

fn verdict_json(verdict: &pb::PermissionVerdict) -> Value {
    json!({
        "effect": word(verdict.effect().as_str_name(), "PERMISSION_EFFECT_"),
        "stage": word(verdict.stage().as_str_name(), "DECISION_STAGE_"),
        "rule": verdict.rule,
        "source": word(verdict.source().as_str_name(), "RULE_SOURCE_"),
        "origin": verdict.origin,
        "segment": verdict.segment,
        "message": verdict.message,
    })
}

fn decision_json(decision: &pb::Decision) -> Value {
    json!({
        "decision_id": decision.decision_id,
        "choice": choice_word(decision.choice),
        "decided_by": decision.decided_by,
        "surface": decision.surface,
        "decided_at_ms": decision.decided_at_ms,
        "message": decision.message,
        "edited_arguments": String::from_utf8_lossy(&decision.edited_arguments_json),
        "grants": decision.grants.iter().map(grant_json).collect::<Vec<_>>(),
        "verdict": decision.verdict.as_ref().map(verdict_json),
    })
}

/// A grant as JSON.
pub(super) fn grant_json(grant: &pb::Grant) -> Value {
    json!({
        "grant_id": grant.grant_id,
        "session_id": grant.session_id,
        "kind": grant_kind_word(grant.kind),
        "rule": grant.rule,
        "tool": grant.tool,
        "owner": grant.owner,
        "approval_id": grant.approval_id,
        "granted_by": grant.granted_by,
        "granted_at_ms": grant.granted_at_ms,
        "uses": grant.uses,
        "state": word(grant.state().as_str_name(), "GRANT_STATE_"),
        "revoked_by": grant.revoked_by,
        "ended_at_ms": grant.ended_at_ms,
    })
}

/// An approval as JSON.
pub(super) fn approval_json(approval: &pb::Approval) -> Value {
    json!({
        "approval_id": approval.approval_id,
        "state": approval_state_word(approval.state),
        "session_id": approval.session_id,
        "root_session_id": approval.root_session_id,
        "batch_id": approval.batch_id,
        "run_id": approval.run_id,
        "turn_id": approval.turn_id,
        "call_id": approval.call.as_ref().map(|call| call.call_id.as_str()),
        "tool": approval.tool,
        "owner": approval.owner,
        "risk": risk_word(approval.risk_level),
        "kind": word(approval.kind().as_str_name(), "TOOL_KIND_"),
        "mode": mode_word(approval.mode),
        "arguments": String::from_utf8_lossy(&approval.effective_arguments_json),
        "arguments_cut": approval.arguments_cut,
        "verdict": approval.verdict.as_ref().map(verdict_json),
        "tool_reason": approval.tool_reason,
        "allowed_choices":
            approval.allowed_choices.iter().map(|choice| choice_word(*choice)).collect::<Vec<_>>(),
        "grant_candidates": approval.grant_candidates.iter().map(|candidate| json!({
            "candidate_id": candidate.candidate_id,
            "kind": grant_kind_word(candidate.kind),
            "rule": candidate.rule,
            "summary": candidate.summary,
            "segment": candidate.segment,
            "segment_index": candidate.segment_index,
            "also_covers": candidate.also_covers,
        })).collect::<Vec<_>>(),
        "created_at_ms": approval.created_at_ms,
        "expires_at_ms": approval.expires_at_ms,
        "pending_in_batch": approval.pending_in_batch,
        "decision": approval.decision.as_ref().map(decision_json),
        "approval_digest": hex(&approval.approval_digest),
        "etag": approval.etag,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
