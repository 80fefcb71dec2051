//! What the audit says of each fact that is written down.
//!
//! The one place that knows which record follows from which fact. Never shows a value at a secret
//! pointer, and never text that may hold one: see `calls`.

use super::calls;
use super::draft::Entry;
use super::note::{Note, PolicyChange, Refused};
use super::words;
use crate::gate::approval::{Approval, ApprovalChange, ApprovalState};
use crate::gate::event::{RunState, RunSummary, TurnCompleted};
use crate::gate::hooks::KeptHook;
use crate::gate::permission::{Grant, Scope};
use crate::gate::record::{CallWay, DispatchIntent, Fresh, Record, TurnSpec};
use crate::gate::result::Digest;
use crate::gate::session::SessionRecord;
use crate::gate::tool::Tool;
use crate::gate::toolset::Toolset;

/// Appends drafts of what the records say to `out`. They are written together with the records.
pub fn derive(records: &[Record], out: &mut Vec<u8>) {
    let mut by = "";
    for record in records {
        match record {
            Record::By(principal) => by = principal,
            Record::TurnAccepted(_)
            | Record::CallsDispatched { .. }
            | Record::CallsEnded { .. }
            | Record::TurnCancelling { .. }
            | Record::TurnEnded { .. }
            | Record::TurnRecovered { .. }
            | Record::HooksHeard { .. }
            | Record::ApprovalsAsked { .. }
            | Record::ApprovalsChanged { .. } => of_turn(record, out),
            Record::SessionPut(session) => session_changed(session, by, out),
            Record::GrantsPut { session, grants } => {
                for grant in grants {
                    grant_changed(session.as_str(), grant, out);
                }
            }
            Record::RunEnded(run) => run_ended(run, by, out),
            Record::ToolRegistered(tool) => tool_registered(tool, out),
            Record::ToolRemoved(name) => Entry {
                tool: name.as_str(),
                ..Entry::new("tool.removed", by)
            }
            .push(out),
            Record::HookRegistered(kept) => hook_registered(kept, by, out),
            Record::HookRemoved(id) => Entry {
                detail: Some(&|object| object.text("hook", id.as_str())),
                ..Entry::new("hook.removed", by)
            }
            .push(out),
            Record::ToolsetPut(toolset) => toolset_changed(toolset, by, out),
            Record::ToolsetDeleted(name) => Entry {
                detail: Some(&|object| object.text("toolset", name)),
                ..Entry::new("toolset.removed", by)
            }
            .push(out),
            Record::Noted(note) => noted(note, out),
        }
    }
}

fn of_turn(record: &Record, out: &mut Vec<u8>) {
    match record {
        Record::TurnAccepted(turn) => turn_accepted(turn, out),
        Record::CallsDispatched {
            turn,
            calls,
            decided,
        } => {
            decided_all(turn, decided, out);
            for intent in calls {
                call_dispatched(turn, intent, out);
            }
        }
        Record::CallsEnded {
            turn,
            results,
            decided,
        } => {
            decided_all(turn, decided, out);
            for (index, result) in results {
                calls::ended(turn, *index, result, out);
            }
        }
        Record::TurnCancelling { turn, reason, .. } => Entry {
            detail: Some(&|object| object.text("reason", reason)),
            ..Entry::of_turn("turn.cancelling", "", turn)
        }
        .push(out),
        Record::TurnEnded {
            turn,
            completed,
            fresh,
        } => turn_ended(turn, completed, fresh, out),
        Record::TurnRecovered { turn, epoch } => Entry {
            detail: Some(&|object| object.number("epoch", u64::from(*epoch))),
            ..Entry::of_turn("turn.recovered", "", turn)
        }
        .push(out),
        Record::ApprovalsAsked {
            turn,
            approvals,
            asked,
        } => {
            for approval in approvals {
                let way = asked.iter().find(|way| way.call == approval.call);
                approval_asked(turn, approval, way, out);
            }
        }
        Record::ApprovalsChanged { turn, changes } => {
            for change in changes {
                approval_changed(turn, change, out);
            }
        }
        // What hooks said stands with the decision of each call.
        Record::HooksHeard { .. }
        | Record::By(_)
        | Record::SessionPut(_)
        | Record::GrantsPut { .. }
        | Record::RunEnded(_)
        | Record::ToolRegistered(_)
        | Record::ToolRemoved(_)
        | Record::HookRegistered(_)
        | Record::HookRemoved(_)
        | Record::ToolsetPut(_)
        | Record::ToolsetDeleted(_)
        | Record::Noted(_) => {}
    }
}

fn decided_all(turn: &TurnSpec, decided: &[CallWay], out: &mut Vec<u8>) {
    for way in decided {
        calls::decided(turn, way, out);
    }
}

fn turn_accepted(turn: &TurnSpec, out: &mut Vec<u8>) {
    Entry {
        detail: Some(&|object| {
            object.text("batch_id", turn.batch.as_str());
            object.number("calls", turn.request.calls.len() as u64);
            object.number("round", u64::from(turn.round));
            let rules = turn.request.command_rules.iter();
            object.texts_if(
                "rules",
                rules.map(|rule| format!("{} {}", rule.list.as_str(), rule.text)),
            );
            object.text_if("toolset", turn.toolset().unwrap_or_default());
        }),
        ..Entry::of_turn("turn.accepted", &turn.principal, turn)
    }
    .push(out);
}

fn call_dispatched(turn: &TurnSpec, intent: &DispatchIntent, out: &mut Vec<u8>) {
    let call = turn.request.calls.get(intent.call.get());
    Entry {
        call: call.map_or("", |requested| requested.call.call_id.as_str()),
        tool: call.map_or("", |requested| requested.tool_name()),
        detail: Some(&|object| {
            object.number("attempt", u64::from(intent.attempt));
            object.text("instance", intent.instance.as_str());
        }),
        ..Entry::of_turn("call.dispatched", "", turn)
    }
    .push(out);
}

fn turn_ended(turn: &TurnSpec, completed: &TurnCompleted, fresh: &Fresh, out: &mut Vec<u8>) {
    decided_all(turn, &fresh.decided, out);
    for index in &fresh.ended {
        let call = turn.request.calls.get(index.get());
        let call_id = call.map(|requested| &requested.call.call_id);
        let mut results = completed.results.iter();
        if let Some(result) = results.find(|result| Some(&result.call_id) == call_id) {
            calls::ended(turn, *index, result, out);
        }
    }
    Entry {
        detail: Some(&|object| {
            if let Some(error) = &completed.error {
                object.text("error_code", &error.code);
            }
            object.text("outcome", words::turn(completed.outcome));
            object.text("run_state", words::run(completed.run.state));
        }),
        ..Entry::of_turn("turn.ended", "", turn)
    }
    .push(out);
    if completed.run.state != RunState::Active {
        run_ended(&completed.run, "", out);
    }
}

fn approval_asked(turn: &TurnSpec, approval: &Approval, way: Option<&CallWay>, out: &mut Vec<u8>) {
    let call = turn.request.calls.get(approval.call.get());
    let secrets = way.is_none_or(CallWay::has_secrets);
    let hook = way.and_then(|way| way.hook.as_ref());
    Entry {
        call: call.map_or("", |requested| requested.call.call_id.as_str()),
        tool: approval.tool.name.as_str(),
        decision: Some(&|object| calls::ground(object, &approval.ground, (&[], hook), secrets)),
        detail: Some(&|object| {
            object.text("approval_id", turn.approval_id(approval.call).as_str());
            object.hex("definition_digest", &approval.tool.digest.0);
            object.hex("digest", &approval.digest.0);
            if let Some(expires) = approval.expires_at {
                object.number("expires_at_ms", expires.0);
            }
            object.text("kind", approval.kind.as_str());
            object.text("mode", approval.mode.as_str());
            object.text("owner", approval.tool.owner.as_str());
            object.text("risk", approval.risk.as_str());
        }),
        effective_call: calls::effective(way).as_ref().map(|members| members as _),
        original_call: calls::original(turn, way)
            .as_ref()
            .map(|members| members as _),
        ..Entry::of_turn("approval.asked", "", turn)
    }
    .push(out);
}

fn approval_changed(turn: &TurnSpec, change: &ApprovalChange, out: &mut Vec<u8>) {
    let kind = match change.state {
        ApprovalState::Pending => return,
        ApprovalState::Approved | ApprovalState::Denied | ApprovalState::Answered => {
            "approval.decided"
        }
        ApprovalState::Expired => "approval.expired",
        ApprovalState::Cancelled | ApprovalState::Withdrawn | ApprovalState::Superseded => {
            "approval.cancelled"
        }
    };
    let call = turn.request.calls.get(change.call.get());
    let decision = &change.decision;
    Entry {
        call: call.map_or("", |requested| requested.call.call_id.as_str()),
        tool: call.map_or("", |requested| requested.tool_name()),
        decision: Some(&|object| calls::approver_decision(object, decision)),
        detail: Some(&|object| {
            object.text("approval_id", turn.approval_id(change.call).as_str());
            object.text("state", words::approval(change.state));
        }),
        ..Entry::of_turn(kind, &decision.by, turn)
    }
    .push(out);
}

fn session_changed(session: &SessionRecord, by: &str, out: &mut Vec<u8>) {
    let settings = &session.settings;
    Entry {
        session: session.id.as_str(),
        detail: Some(&|object| {
            if let Some(ttl) = settings.approval_ttl_ms {
                object.number("approval_ttl_ms", ttl);
            }
            object.text_if("approvers", settings.approvers.map_or("", words::approvers));
            let policy = settings.batch_policy.map_or("", words::batch_policy);
            object.text_if("batch_policy", policy);
            if let Some(closed) = session.closed_at {
                object.number("closed_at_ms", closed.0);
            }
            object.text_if("cwd", settings.cwd.as_deref().unwrap_or_default());
            object.flag("inherits_grants", session.inherits_grants);
            if let Some(max) = settings.max_parallel {
                object.number("max_parallel", u64::from(max));
            }
            object.text_if("mode", settings.mode.map_or("", |mode| mode.as_str()));
            let parent = session.parent.as_ref();
            object.text_if("parent", parent.map_or("", |parent| parent.as_str()));
            object.text_if("toolset", settings.toolset.as_deref().unwrap_or_default());
            object.number("version", u64::from(session.version));
        }),
        ..Entry::new("session.changed", by)
    }
    .push(out);
}

/// A grant that is only counted up says nothing new.
fn grant_changed(session: &str, grant: &Grant, out: &mut Vec<u8>) {
    let (kind, by) = match &grant.revoked {
        Some(revoked) => ("grant.revoked", revoked.by.as_str()),
        None if grant.uses > 0 => return,
        None => ("grant.given", grant.given.by.as_str()),
    };
    Entry {
        session,
        tool: grant.terms.tool.name.as_str(),
        detail: Some(&|object| {
            object.text_if("approval_id", &grant.given.approval);
            object.hex("definition_digest", &grant.terms.tool.digest.0);
            if let Some(expires) = grant.terms.expires {
                object.number("expires_at_ms", expires.0);
            }
            object.text("grant", &grant.id.to_string());
            object.text("owner", grant.terms.tool.owner.as_str());
            object.text("scope", scope_word(&grant.terms.scope));
            match &grant.terms.scope {
                Scope::Prefix(words) | Scope::Words(words) => object.texts_if("words", words),
                Scope::WholeText(text) => object.texts_if("words", [text.as_ref()]),
                Scope::Tool | Scope::Edits => {}
            }
        }),
        ..Entry::new(kind, by)
    }
    .push(out);
}

fn scope_word(scope: &Scope) -> &'static str {
    match scope {
        Scope::Prefix(_) => "prefix",
        Scope::Words(_) => "words",
        Scope::WholeText(_) => "whole_text",
        Scope::Tool => "tool",
        Scope::Edits => "edits",
    }
}

fn run_ended(run: &RunSummary, by: &str, out: &mut Vec<u8>) {
    Entry {
        session: run.session.as_str(),
        run: run.run.as_str(),
        detail: Some(&|object| {
            object.text_if("code", &run.end_code);
            object.text_if("reason", &run.end_reason);
            object.number("rounds", u64::from(run.rounds));
            object.text("state", words::run(run.state));
        }),
        ..Entry::new("run.ended", by)
    }
    .push(out);
}

fn hook_registered(kept: &KeptHook, by: &str, out: &mut Vec<u8>) {
    let hook = &kept.hook;
    Entry {
        detail: Some(&|object| {
            object.text("hook", hook.id.as_str());
            object.text("instance", &kept.instance);
            object.text("on_failure", words::on_failure(hook.on_failure));
            object.number("order", u64::from(hook.place.order));
            object.texts_if("points", hook.points.iter().map(|point| point.as_str()));
            object.hex("registration_digest", &Digest::of(&kept.registration).0);
        }),
        ..Entry::new("hook.registered", by)
    }
    .push(out);
}

fn tool_registered(tool: &Tool, out: &mut Vec<u8>) {
    let kind = match tool.generation {
        0 | 1 => "tool.registered",
        _ => "tool.changed",
    };
    let definition = &tool.definition;
    Entry {
        tool: definition.name.as_str(),
        detail: Some(&|object| {
            object.texts_if("changed_fields", tool.changed_fields.iter());
            object.hex("definition_digest", &tool.digest.0);
            object.number("generation", u64::from(tool.generation));
            object.text("kind", definition.kind.as_str());
            object.text("owner", tool.owner.as_str());
            object.text("risk", tool.risk.as_str());
            object.texts_if("secret_pointers", &definition.secret_pointers);
            object.text_if("version", &definition.version);
        }),
        ..Entry::new(kind, tool.owner.as_str())
    }
    .push(out);
}

fn toolset_changed(toolset: &Toolset, by: &str, out: &mut Vec<u8>) {
    Entry {
        detail: Some(&|object| {
            object.text("toolset", &toolset.name);
            object.number("version", toolset.version);
        }),
        ..Entry::new("toolset.changed", by)
    }
    .push(out);
}

fn noted(note: &Note, out: &mut Vec<u8>) {
    match note {
        Note::LateResult(late) => Entry {
            detail: Some(&|object| {
                object.number("attempt", u64::from(late.attempt));
                object.text("execution_id", late.execution.as_str());
            }),
            result_digest: late.answer,
            ..Entry::new("call.late_result", late.executor.as_str())
        }
        .push(out),
        Note::Refused(refused) => security_refused(refused, out),
        Note::PolicyChanged(change) => policy_changed(change, out),
    }
}

fn security_refused(refused: &Refused, out: &mut Vec<u8>) {
    Entry {
        detail: Some(&|object| {
            object.text("door", refused.door);
            object.text("method", &refused.method);
            object.text_if("peer", &refused.peer);
            object.text("reason", refused.reason);
            if refused.unwritten > 0 {
                object.number("unwritten", refused.unwritten);
            }
        }),
        ..Entry::new("security.refused", &refused.principal)
    }
    .push(out);
}

fn policy_changed(change: &PolicyChange, out: &mut Vec<u8>) {
    Entry {
        detail: Some(&|object| {
            object.hex("digest", &change.digest.0);
            object.number("revision", change.revision);
            object.number("rules", change.rules);
        }),
        ..Entry::new("policy.changed", "")
    }
    .push(out);
}
