//! Records to bytes.
//!
//! Writes what the messages of the parent module read; the property test holds the two together.
//! Never fails and never copies a body that it does not write.

use prost::Message;

use super::numbers::{self, content};
use super::wire::Wire;
use super::{Kind, approval, hooks};
use crate::gate::admission::RequestedCall;
use crate::gate::approval::BatchPolicy;
use crate::gate::event::{RunState, RunSummary, TurnCompleted};
use crate::gate::ids::{ApprovalId, UnixMillis};
use crate::gate::permission::Grant;
use crate::gate::record::{DispatchIntent, Record, TurnSpec};
use crate::gate::refusal::CallError;
use crate::gate::result::{CallResult, Content, Resource, ResourceBody};
use crate::gate::tool::Tool;
use crate::gate::toolset::Toolset;
use crate::store::RestoredTool;

/// Appends the record's bytes to `out`.
pub(crate) fn encode(record: &Record, out: &mut Vec<u8>) {
    let wire = &mut Wire::new(out);
    match record {
        Record::TurnAccepted(turn) => accepted(wire, turn),
        Record::CallsDispatched { turn, calls, .. } => {
            turn_head(wire, Kind::Dispatched, turn, UnixMillis(0));
            for intent in calls {
                wire.message(11, |wire| write_intent(wire, intent));
            }
        }
        Record::CallsEnded { turn, results, .. } => {
            let at = latest(results.iter().map(|(_, result)| &**result));
            turn_head(wire, Kind::CallsEnded, turn, at);
            for (index, result) in results {
                wire.message(12, |wire| {
                    wire.uint(1, u64::from(index.0));
                    wire.message(2, |wire| write_result(wire, result));
                });
            }
        }
        Record::TurnCancelling { turn, reason, run } => {
            let at = run.ended_at.unwrap_or_default();
            turn_head(wire, Kind::Cancelling, turn, at);
            wire.message(6, |wire| write_run(wire, run));
            wire.text(13, reason);
        }
        Record::TurnEnded {
            turn, completed, ..
        } => {
            turn_head(wire, Kind::Ended, turn, ended_at(turn, completed));
            wire.message(6, |wire| write_run(wire, &completed.run));
            wire.message(14, |wire| write_completed(wire, completed));
        }
        Record::TurnRecovered { turn, epoch } => {
            turn_head(wire, Kind::Recovered, turn, UnixMillis(0));
            wire.uint(15, u64::from(*epoch));
        }
        Record::ApprovalsAsked {
            turn, approvals, ..
        } => {
            let at = approvals.iter().map(|approval| approval.created_at).max();
            turn_head(wire, Kind::ApprovalsAsked, turn, at.unwrap_or_default());
            for asked in approvals {
                wire.bytes(19, &approval::approval_to(asked).encode_to_vec());
            }
        }
        Record::ApprovalsChanged { turn, changes } => {
            let at = changes.iter().map(|change| change.decision.at).max();
            turn_head(wire, Kind::ApprovalsChanged, turn, at.unwrap_or_default());
            for change in changes {
                wire.bytes(20, &approval::change_to(change).encode_to_vec());
            }
        }
        Record::HooksHeard { turn, heard } => {
            turn_head(wire, Kind::HooksHeard, turn, UnixMillis(0));
            for (index, words) in heard {
                wire.bytes(23, &hooks::heard_to(*index, words).encode_to_vec());
            }
        }
        Record::RunEnded(_)
        | Record::SessionPut(_)
        | Record::GrantsPut { .. }
        | Record::ToolRegistered(_)
        | Record::ToolRemoved(_)
        | Record::HookRegistered(_)
        | Record::HookRemoved(_)
        | Record::ToolsetPut(_)
        | Record::ToolsetDeleted(_)
        | Record::By(_)
        | Record::Noted(_) => encode_other(record, wire),
    }
}

/// Records that are about no turn.
fn encode_other(record: &Record, wire: &mut Wire<'_>) {
    match record {
        Record::RunEnded(run) => {
            kind(wire, Kind::RunEnded);
            wire.text(2, run.session.as_str());
            wire.text(4, run.run.as_str());
            wire.uint(5, run.ended_at.unwrap_or_default().0);
            wire.message(6, |wire| write_run(wire, run));
        }
        Record::SessionPut(session) => {
            kind(wire, Kind::SessionPut);
            wire.text(2, session.id.as_str());
            wire.uint(5, session.updated_at.0);
            wire.bytes(21, &approval::session_to(session).encode_to_vec());
        }
        Record::GrantsPut { session, grants } => {
            kind(wire, Kind::GrantsPut);
            wire.text(2, session.as_str());
            wire.uint(5, grants_changed_at(grants).0);
            for grant in grants {
                wire.bytes(22, &approval::grant_to(grant).encode_to_vec());
            }
        }
        Record::ToolRegistered(tool) => {
            kind(wire, Kind::ToolRegistered);
            wire.message(16, |wire| write_tool(wire, &as_restored(tool)));
        }
        Record::ToolRemoved(name) => {
            kind(wire, Kind::ToolRemoved);
            wire.text(18, name.as_str());
        }
        Record::HookRegistered(kept) => {
            kind(wire, Kind::HookRegistered);
            wire.bytes(24, &hooks::hook_bytes(&hooks::as_restored_hook(kept)));
        }
        Record::HookRemoved(id) => {
            kind(wire, Kind::HookRemoved);
            wire.text(18, id.as_str());
        }
        Record::ToolsetPut(toolset) => {
            kind(wire, Kind::ToolsetPut);
            wire.message(17, |wire| write_toolset(wire, toolset));
        }
        Record::ToolsetDeleted(name) => {
            kind(wire, Kind::ToolsetDeleted);
            wire.text(18, name);
        }
        Record::TurnAccepted(_)
        | Record::CallsDispatched { .. }
        | Record::CallsEnded { .. }
        | Record::TurnCancelling { .. }
        | Record::TurnEnded { .. }
        | Record::HooksHeard { .. }
        | Record::ApprovalsAsked { .. }
        | Record::ApprovalsChanged { .. }
        | Record::TurnRecovered { .. }
        | Record::By(_)
        | Record::Noted(_) => {}
    }
}

/// The latest moment that grants name.
pub(crate) fn grants_changed_at(grants: &[Grant]) -> UnixMillis {
    let moments = grants.iter().map(|grant| {
        let revoked = grant.revoked.as_ref().map(|revoked| revoked.at);
        grant.given.at.max(revoked.unwrap_or_default())
    });
    moments.max().unwrap_or_default()
}

/// The bytes of a run, without its names.
pub(crate) fn run_bytes(run: &RunSummary) -> Vec<u8> {
    let mut out = Vec::new();
    write_run(&mut Wire::new(&mut out), run);
    out
}

/// Appends a note of how turns left a run.
pub(crate) fn run_seen(run: &RunSummary, at: u64, out: &mut Vec<u8>) {
    let wire = &mut Wire::new(out);
    kind(wire, Kind::RunSeen);
    wire.text(2, run.session.as_str());
    wire.text(4, run.run.as_str());
    wire.uint(5, at);
    wire.message(6, |wire| write_run(wire, run));
}

/// The bytes of a tool.
pub(crate) fn tool_bytes(tool: &RestoredTool) -> Vec<u8> {
    let mut out = Vec::new();
    write_tool(&mut Wire::new(&mut out), tool);
    out
}

/// The bytes of a toolset.
pub(crate) fn toolset_bytes(toolset: &Toolset) -> Vec<u8> {
    let mut out = Vec::new();
    write_toolset(&mut Wire::new(&mut out), toolset);
    out
}

/// When a turn ended: the latest moment that its end names.
pub(crate) fn ended_at(turn: &TurnSpec, completed: &TurnCompleted) -> UnixMillis {
    latest(completed.results.iter().map(|result| &**result))
        .max(completed.run.ended_at.unwrap_or_default())
        .max(turn.accepted_at)
}

/// What a registered tool is after a restart.
pub(crate) fn as_restored(tool: &Tool) -> RestoredTool {
    RestoredTool {
        definition: tool.definition.clone(),
        owner: tool.owner.to_string(),
        generation: tool.generation,
        registered_at: tool.registered_at,
    }
}

/// The run as the acceptance of a turn leaves it.
pub(crate) fn run_at_acceptance(turn: &TurnSpec) -> RunSummary {
    RunSummary {
        session: turn.session().clone(),
        run: turn.run().clone(),
        state: RunState::Active,
        rounds: turn.round,
        end_code: String::new(),
        end_reason: String::new(),
        started_at: turn.run_started_at,
        ended_at: None,
    }
}

fn kind(wire: &mut Wire<'_>, kind: Kind) {
    wire.uint(1, u64::from(numbers::kind_to(kind)));
}

fn turn_head(wire: &mut Wire<'_>, of: Kind, turn: &TurnSpec, at: UnixMillis) {
    kind(wire, of);
    wire.text(2, turn.request.session.as_str());
    wire.text(3, turn.request.turn.as_str());
    wire.text(4, turn.request.run.as_str());
    wire.uint(5, at.0);
}

/// The latest end among results.
pub(crate) fn latest<'a>(results: impl Iterator<Item = &'a CallResult>) -> UnixMillis {
    results
        .map(|result| result.timing.finished_at)
        .max()
        .unwrap_or_default()
}

fn accepted(wire: &mut Wire<'_>, turn: &TurnSpec) {
    turn_head(wire, Kind::Accepted, turn, turn.accepted_at);
    wire.message(6, |wire| {
        wire.uint(1, u64::from(numbers::run_state_to(RunState::Active)));
        wire.uint(2, u64::from(turn.round));
        wire.uint(5, turn.run_started_at.0);
    });
    let request = &turn.request;
    wire.message(10, |wire| {
        wire.text(1, turn.batch.as_str());
        for requested in &request.calls {
            wire.message(2, |wire| write_call(wire, requested));
        }
        let format = request.format.map(numbers::format_to);
        wire.opt_uint(3, format.map(u64::from));
        wire.opt_text(4, request.toolset.as_deref());
        wire.opt_text(5, request.snapshot.as_deref());
        wire.opt_uint(6, request.max_parallel.map(u64::from));
        wire.opt_uint(7, request.timeout_ms.map(u64::from));
        wire.bytes(8, &request.model_message);
        if let Some(trace) = &request.trace {
            wire.message(9, |wire| {
                wire.text(1, &trace.parent);
                wire.text(2, &trace.state);
            });
        }
        let requested = request.batch_policy.map(numbers::batch_policy_to);
        wire.opt_uint(10, requested.map(u64::from));
        if turn.batch_policy != BatchPolicy::default() {
            wire.uint(11, u64::from(numbers::batch_policy_to(turn.batch_policy)));
        }
        wire.opt_text(12, turn.session_toolset.as_deref());
        wire.opt_uint(13, turn.session_max_parallel.map(u64::from));
        for rule in &request.command_rules {
            wire.bytes(14, &approval::turn_rule_to(rule).encode_to_vec());
        }
    });
}

fn write_call(wire: &mut Wire<'_>, requested: &RequestedCall) {
    wire.text(1, requested.call.call_id.as_str());
    wire.text(2, requested.call.name.as_str());
    wire.bytes(3, &requested.call.arguments);
    wire.flag(4, requested.call.truncated);
    wire.flag(5, requested.minted);
    if let Some(seen) = &requested.seen {
        wire.text(6, seen.tool.as_str());
        wire.bytes(7, &seen.digest.0);
    }
}

fn write_intent(wire: &mut Wire<'_>, intent: &DispatchIntent) {
    wire.uint(1, u64::from(intent.call.0));
    wire.uint(2, u64::from(intent.attempt));
    wire.text(3, intent.instance.as_str());
}

fn write_run(wire: &mut Wire<'_>, run: &RunSummary) {
    wire.uint(1, u64::from(numbers::run_state_to(run.state)));
    wire.uint(2, u64::from(run.rounds));
    wire.text(3, &run.end_code);
    wire.text(4, &run.end_reason);
    wire.uint(5, run.started_at.0);
    wire.opt_uint(6, run.ended_at.map(|at| at.0));
}

fn write_completed(wire: &mut Wire<'_>, completed: &TurnCompleted) {
    wire.uint(1, u64::from(numbers::turn_outcome_to(completed.outcome)));
    for result in &completed.results {
        wire.message(2, |wire| write_result(wire, result));
    }
    let stop = completed.stop.map(numbers::stop_to);
    wire.opt_uint(3, stop.map(u64::from));
    if let Some(error) = &completed.error {
        wire.message(4, |wire| write_error(wire, error));
    }
}

fn write_result(wire: &mut Wire<'_>, result: &CallResult) {
    wire.text(1, result.call_id.as_str());
    wire.text(2, result.tool.as_str());
    wire.uint(3, u64::from(numbers::call_outcome_to(result.outcome)));
    wire.flag(4, result.stop_flag);
    if let Some(error) = &result.error {
        wire.message(5, |wire| write_error(wire, error));
    }
    for part in &result.contents {
        wire.message(6, |wire| write_content(wire, part));
    }
    wire.bytes(7, &result.structured);
    wire.bytes(8, &result.metadata);
    let not_executed = result.not_executed.map(numbers::not_executed_to);
    wire.opt_uint(9, not_executed.map(u64::from));
    wire.uint(10, u64::from(numbers::effect_to(result.effect)));
    wire.opt_uint(11, result.cut_from_bytes);
    wire.flag(12, result.sanitised);
    wire.uint(13, u64::from(result.attempts));
    wire.uint(14, result.timing.received_at.0);
    wire.opt_uint(15, result.timing.started_at.map(|at| at.0));
    wire.uint(16, result.timing.finished_at.0);
    wire.uint(17, result.timing.queue_ms);
    let digest = result.arguments_digest.as_ref();
    wire.opt_bytes(18, digest.map(|digest| digest.0.as_slice()));
    wire.opt_text(19, result.approval.as_ref().map(ApprovalId::as_str));
    wire.uint(20, result.timing.approval_ms);
    if let Some(words) = &result.hooks {
        wire.bytes(21, &hooks::words_to(words).encode_to_vec());
    }
}

fn write_error(wire: &mut Wire<'_>, error: &CallError) {
    wire.text(1, &error.code);
    wire.uint(2, u64::from(numbers::layer_to(error.layer)));
    wire.text(3, &error.message_for_model);
    wire.text(4, &error.detail);
    wire.text(5, &error.path);
    wire.flag(6, error.retryable);
    wire.opt_uint(7, error.retry_after_ms.map(u64::from));
}

fn write_content(wire: &mut Wire<'_>, part: &Content) {
    let mut kind = |number: u32| wire.uint(1, u64::from(number));
    match part {
        Content::Text(text) => {
            kind(content::TEXT);
            wire.text(2, text);
        }
        Content::Json(text) => {
            kind(content::JSON);
            wire.bytes(3, text);
        }
        Content::Image(media) => {
            kind(content::IMAGE);
            wire.bytes(3, &media.data);
            wire.text(4, &media.mime_type);
        }
        Content::Audio(media) => {
            kind(content::AUDIO);
            wire.bytes(3, &media.data);
            wire.text(4, &media.mime_type);
        }
        Content::Resource(resource) => write_resource(wire, resource),
        Content::ResourceLink(link) => {
            kind(content::LINK);
            wire.text(4, &link.mime_type);
            wire.text(5, &link.uri);
            wire.text(6, &link.name);
            wire.text(7, &link.title);
            wire.text(8, &link.description);
            wire.opt_uint(9, link.size_bytes);
        }
    }
}

fn write_resource(wire: &mut Wire<'_>, resource: &Resource) {
    match &resource.body {
        ResourceBody::Text(text) => {
            wire.uint(1, u64::from(content::RESOURCE_TEXT));
            wire.text(2, text);
        }
        ResourceBody::Blob(blob) => {
            wire.uint(1, u64::from(content::RESOURCE_BLOB));
            wire.bytes(3, blob);
        }
    }
    wire.text(4, &resource.mime_type);
    wire.text(5, &resource.uri);
}

fn write_tool(wire: &mut Wire<'_>, tool: &RestoredTool) {
    let definition = &tool.definition;
    wire.text(1, definition.name.as_str());
    wire.text(2, &definition.description);
    wire.bytes(3, &definition.parameters);
    wire.uint(4, u64::from(numbers::dialect_to(definition.dialect)));
    let risk = definition.risk.map(numbers::risk_to);
    wire.opt_uint(5, risk.map(u64::from));
    wire.uint(6, u64::from(numbers::tool_kind_to(definition.kind)));
    wire.flag(7, definition.idempotent);
    wire.flag(8, definition.exclusive);
    wire.opt_uint(9, definition.timeout_ms.map(u64::from));
    wire.uint(10, u64::from(definition.max_concurrency));
    wire.flag(11, definition.supports_cancellation);
    wire.texts(12, &definition.services);
    wire.text(13, &definition.version);
    wire.bytes(14, &definition.annotations);
    wire.text(15, &tool.owner);
    wire.uint(16, u64::from(tool.generation));
    wire.uint(17, tool.registered_at.0);
    if let Some(subject) = &definition.subject {
        wire.message(18, |wire| {
            wire.text(1, &subject.pointer);
            wire.opt_uint(
                2,
                subject
                    .kind
                    .map(|kind| numbers::subject_kind_to(kind).into()),
            );
            wire.text(3, &subject.dialect);
        });
    }
    wire.flag(19, definition.skip_permission);
    wire.flag(20, definition.has_permission_check);
    wire.texts(21, &definition.secret_pointers);
    wire.flag(24, definition.loop_exempt);
    wire.texts(25, &definition.loop_key);
}

fn write_toolset(wire: &mut Wire<'_>, toolset: &Toolset) {
    wire.text(1, &toolset.name);
    wire.text(2, &toolset.base);
    wire.texts(3, &toolset.include);
    wire.texts(4, &toolset.exclude);
    wire.uint(5, toolset.version);
}
