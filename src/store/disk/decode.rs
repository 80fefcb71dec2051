//! Bytes to facts.
//!
//! Takes what any version wrote, fills nothing in by guess. What comes out owns its bytes: a turn of
//! a few hundred bytes never holds a row of megabytes. Never looks at other records.

use std::borrow::Cow;
use std::sync::Arc;

use prost::Message;

use super::numbers::{self, content};
use super::{Kind, Unreadable, approval, hooks};
use crate::gate::admission::{RequestedCall, Trace, TurnRequest};
use crate::gate::call::ToolCall;
use crate::gate::event::{RunSummary, TurnCompleted};
use crate::gate::ids::{
    ApprovalId, BatchId, CallId, CallIndex, HookId, InstanceId, RunId, SessionId, ToolName, TurnId,
    TurnKey, UnixMillis,
};
use crate::gate::record::{DispatchIntent, TurnSpec};
use crate::gate::refusal::{CallError, RESERVED_CODES};
use crate::gate::result::{
    CallResult, CallTiming, Content, Digest, Media, Resource, ResourceBody, ResourceLink,
};
use crate::gate::snapshot::Seen;
use crate::gate::tool::{DeclaredSubject, ToolDefinition};
use crate::gate::toolset::Toolset;
use crate::store::RestoredTool;
use crate::store::fold::{Fact, TurnFact};

/// Reads one record.
pub(crate) fn decode(bytes: &[u8]) -> Result<Fact, Unreadable> {
    let entry = super::Entry::decode(bytes)?;
    match numbers::kind_from(entry.kind)? {
        kind @ (Kind::Accepted
        | Kind::Dispatched
        | Kind::CallsEnded
        | Kind::Cancelling
        | Kind::Ended
        | Kind::Recovered
        | Kind::HooksHeard
        | Kind::ApprovalsAsked
        | Kind::ApprovalsChanged) => of_turn(kind, entry),
        Kind::SessionPut => {
            let session = entry.session_record;
            let session = session.ok_or(Unreadable::Missing("session_record"))?;
            Ok(Fact::SessionPut(Box::new(approval::session_from(session)?)))
        }
        Kind::GrantsPut => {
            let grants = entry.grants.into_iter().map(approval::grant_from);
            Ok(Fact::GrantsPut {
                session: SessionId::trusted(entry.session),
                grants: grants.collect::<Result<_, _>>()?,
                at: UnixMillis(entry.at),
            })
        }
        Kind::RunEnded | Kind::RunSeen => {
            let run = entry.run_state.ok_or(Unreadable::Missing("run_state"))?;
            Ok(Fact::Run(run_of(run, &entry.session, &entry.run)?))
        }
        Kind::ToolRegistered => {
            let tool = entry.tool.ok_or(Unreadable::Missing("tool"))?;
            Ok(Fact::ToolRegistered(Box::new(tool_of(tool)?)))
        }
        Kind::ToolRemoved => Ok(Fact::ToolRemoved(ToolName::trusted(entry.name))),
        Kind::HookRegistered => {
            let hook = entry.hook.ok_or(Unreadable::Missing("hook"))?;
            Ok(Fact::HookRegistered(hooks::hook_from(hook)))
        }
        Kind::HookRemoved => Ok(Fact::HookRemoved(HookId::trusted(entry.name))),
        Kind::ToolsetPut => {
            let toolset = entry.toolset.ok_or(Unreadable::Missing("toolset"))?;
            Ok(Fact::ToolsetPut(toolset_of(toolset)))
        }
        Kind::ToolsetDeleted => Ok(Fact::ToolsetDeleted(entry.name)),
    }
}

/// Reads a run whose names are known.
pub(crate) fn run_summary(
    bytes: &[u8],
    session: &str,
    run: &str,
) -> Result<RunSummary, Unreadable> {
    run_of(super::Run::decode(bytes)?, session, run)
}

/// Reads a tool.
pub(crate) fn restored_tool(bytes: &[u8]) -> Result<RestoredTool, Unreadable> {
    tool_of(super::Tool::decode(bytes)?)
}

/// Reads a toolset.
pub(crate) fn restored_toolset(bytes: &[u8]) -> Result<Toolset, Unreadable> {
    Ok(toolset_of(super::Toolset::decode(bytes)?))
}

fn of_turn(kind: Kind, entry: super::Entry) -> Result<Fact, Unreadable> {
    let key = TurnKey {
        session: SessionId::trusted(entry.session.as_str()),
        turn: TurnId::trusted(entry.turn.as_str()),
    };
    let at = UnixMillis(entry.at);
    let run = || -> Result<RunSummary, Unreadable> {
        let run = entry.run_state.clone();
        let run = run.ok_or(Unreadable::Missing("run_state"))?;
        run_of(run, &entry.session, &entry.run)
    };
    let fact = match kind {
        Kind::Accepted => {
            let run = run()?;
            let accepted = entry.accepted.ok_or(Unreadable::Missing("accepted"))?;
            TurnFact::Accepted(Arc::new(spec_of(accepted, &key, &run, at)?))
        }
        Kind::Dispatched => {
            let intents = entry.intents.into_iter().map(intent_of);
            TurnFact::Dispatched(intents.collect::<Result<_, _>>()?)
        }
        Kind::CallsEnded => {
            let results = entry.ended_calls.into_iter().map(ended_call_of);
            TurnFact::CallsEnded(results.collect::<Result<_, _>>()?)
        }
        Kind::Cancelling => {
            let run = run()?;
            TurnFact::Cancelling {
                reason: entry.reason,
                run,
            }
        }
        Kind::Ended => {
            let run = run()?;
            let completed = entry.completed.ok_or(Unreadable::Missing("completed"))?;
            TurnFact::Ended(Arc::new(completed_of(completed, run)?))
        }
        Kind::Recovered => TurnFact::Recovered { epoch: entry.epoch },
        Kind::HooksHeard => {
            let heard = entry.heard.into_iter().map(hooks::heard_from);
            TurnFact::HooksHeard(heard.collect::<Result<_, _>>()?)
        }
        Kind::ApprovalsAsked => {
            let approvals = entry.approvals.into_iter().map(approval::approval_from);
            TurnFact::ApprovalsAsked(approvals.collect::<Result<_, _>>()?)
        }
        Kind::ApprovalsChanged => {
            let changes = entry.approval_changes.into_iter();
            let changes = changes.map(approval::change_from);
            TurnFact::ApprovalsChanged(changes.collect::<Result<_, _>>()?)
        }
        Kind::RunEnded
        | Kind::ToolRegistered
        | Kind::ToolRemoved
        | Kind::HookRegistered
        | Kind::HookRemoved
        | Kind::ToolsetPut
        | Kind::ToolsetDeleted
        | Kind::SessionPut
        | Kind::GrantsPut
        | Kind::RunSeen => return Err(Unreadable::Missing("turn")),
    };
    Ok(Fact::Turn { key, at, fact })
}

fn spec_of(
    accepted: super::Accepted,
    key: &TurnKey,
    run: &RunSummary,
    at: UnixMillis,
) -> Result<TurnSpec, Unreadable> {
    Ok(TurnSpec {
        request: TurnRequest {
            session: key.session.clone(),
            turn: key.turn.clone(),
            run: run.run.clone(),
            calls: accepted.calls.into_iter().map(call_of).collect(),
            format: accepted.format.map(numbers::format_from).transpose()?,
            toolset: accepted.toolset,
            snapshot: accepted.snapshot,
            max_parallel: accepted.max_parallel,
            batch_policy: accepted
                .requested_policy
                .map(numbers::batch_policy_from)
                .transpose()?,
            command_rules: accepted
                .command_rules
                .into_iter()
                .map(approval::turn_rule_from)
                .collect::<Result<_, _>>()?,
            timeout_ms: accepted.timeout_ms,
            model_message: accepted.model_message,
            trace: accepted.trace.map(|trace| Trace {
                parent: trace.parent,
                state: trace.state,
            }),
        },
        batch: BatchId::trusted(accepted.batch),
        batch_policy: accepted
            .batch_policy
            .map(numbers::batch_policy_from)
            .transpose()?
            .unwrap_or_default(),
        session_toolset: accepted.session_toolset,
        session_max_parallel: accepted.session_max_parallel,
        round: run.rounds,
        run_started_at: run.started_at,
        accepted_at: at,
        principal: std::sync::Arc::from(""),
    })
}

fn call_of(call: super::Call) -> RequestedCall {
    RequestedCall {
        call: ToolCall {
            call_id: CallId::trusted(call.call_id),
            name: ToolName::trusted(call.name),
            arguments: call.arguments,
            truncated: call.truncated,
        },
        minted: call.minted,
        seen: Digest::from_slice(&call.seen_digest).map(|digest| Seen {
            tool: ToolName::trusted(call.seen_tool),
            digest,
        }),
    }
}

pub(super) fn index_of(number: u32) -> Result<CallIndex, Unreadable> {
    u16::try_from(number)
        .map(CallIndex)
        .map_err(|_| Unreadable::Unknown {
            field: "call",
            value: u64::from(number),
        })
}

fn intent_of(intent: super::Intent) -> Result<DispatchIntent, Unreadable> {
    Ok(DispatchIntent {
        call: index_of(intent.call)?,
        attempt: intent.attempt,
        instance: InstanceId::trusted(intent.instance),
    })
}

fn ended_call_of(ended: super::EndedCall) -> Result<(CallIndex, Arc<CallResult>), Unreadable> {
    let result = ended.result.ok_or(Unreadable::Missing("result"))?;
    Ok((index_of(ended.call)?, Arc::new(result_of(result)?)))
}

fn run_of(run: super::Run, session: &str, name: &str) -> Result<RunSummary, Unreadable> {
    Ok(RunSummary {
        session: SessionId::trusted(session),
        run: RunId::trusted(name),
        state: numbers::run_state_from(run.state)?,
        rounds: run.rounds,
        end_code: run.end_code,
        end_reason: run.end_reason,
        started_at: UnixMillis(run.started_at),
        ended_at: run.ended_at.map(UnixMillis),
    })
}

fn completed_of(completed: super::Completed, run: RunSummary) -> Result<TurnCompleted, Unreadable> {
    let results = completed
        .results
        .into_iter()
        .map(|result| result_of(result).map(Arc::new));
    Ok(TurnCompleted {
        outcome: numbers::turn_outcome_from(completed.outcome)?,
        results: results.collect::<Result<_, _>>()?,
        stop: completed.stop.map(numbers::stop_from).transpose()?,
        run,
        error: completed.error.map(error_of).transpose()?,
    })
}

fn result_of(result: super::CallResult) -> Result<CallResult, Unreadable> {
    let digest = result.arguments_digest.map(|digest| {
        Digest::from_slice(&digest).ok_or(Unreadable::Unknown {
            field: "arguments_digest",
            value: digest.len() as u64,
        })
    });
    let contents = result.contents.into_iter().map(content_of);
    Ok(CallResult {
        call_id: CallId::trusted(result.call_id),
        tool: ToolName::trusted(result.tool),
        outcome: numbers::call_outcome_from(result.outcome)?,
        stop_flag: result.stop_flag,
        error: result.error.map(error_of).transpose()?,
        contents: contents.collect::<Result<_, _>>()?,
        structured: result.structured,
        metadata: result.metadata,
        not_executed: result
            .not_executed
            .map(numbers::not_executed_from)
            .transpose()?,
        effect: numbers::effect_from(result.effect)?,
        cut_from_bytes: result.cut_from_bytes,
        sanitised: result.sanitised,
        attempts: result.attempts,
        timing: CallTiming {
            received_at: UnixMillis(result.received_at),
            started_at: result.started_at.map(UnixMillis),
            finished_at: UnixMillis(result.finished_at),
            approval_ms: result.approval_ms,
            queue_ms: result.queue_ms,
        },
        approval: result.approval.map(ApprovalId::trusted),
        arguments_digest: digest.transpose()?,
        hooks: result
            .hooks
            .map(|words| hooks::words_from(words).map(Box::new))
            .transpose()?,
    })
}

fn error_of(error: super::CallError) -> Result<CallError, Unreadable> {
    let ours = RESERVED_CODES.iter().find(|code| **code == error.code);
    Ok(CallError {
        code: match ours {
            Some(code) => Cow::Borrowed(*code),
            None => Cow::Owned(error.code),
        },
        layer: numbers::layer_from(error.layer)?,
        message_for_model: error.message_for_model,
        detail: error.detail,
        path: error.path,
        retryable: error.retryable,
        retry_after_ms: error.retry_after_ms,
    })
}

fn content_of(part: super::Content) -> Result<Content, Unreadable> {
    let media = |part: super::Content| Media {
        data: part.data,
        mime_type: part.mime_type,
    };
    Ok(match part.kind {
        content::TEXT => Content::Text(part.text),
        content::JSON => Content::Json(part.data),
        content::IMAGE => Content::Image(media(part)),
        content::AUDIO => Content::Audio(media(part)),
        content::RESOURCE_TEXT => Content::Resource(Resource {
            uri: part.uri,
            mime_type: part.mime_type,
            body: ResourceBody::Text(part.text),
        }),
        content::RESOURCE_BLOB => Content::Resource(Resource {
            uri: part.uri,
            mime_type: part.mime_type,
            body: ResourceBody::Blob(part.data),
        }),
        content::LINK => Content::ResourceLink(ResourceLink {
            uri: part.uri,
            name: part.name,
            title: part.title,
            description: part.description,
            mime_type: part.mime_type,
            size_bytes: part.size_bytes,
        }),
        other => {
            return Err(Unreadable::Unknown {
                field: "content",
                value: u64::from(other),
            });
        }
    })
}

fn tool_of(tool: super::Tool) -> Result<RestoredTool, Unreadable> {
    Ok(RestoredTool {
        definition: ToolDefinition {
            name: ToolName::trusted(tool.name),
            description: tool.description,
            parameters: tool.parameters,
            dialect: numbers::dialect_from(tool.dialect)?,
            risk: tool.risk.map(numbers::risk_from).transpose()?,
            kind: numbers::tool_kind_from(tool.kind)?,
            subject: tool.subject.map(subject_of).transpose()?,
            skip_permission: tool.skip_permission,
            loop_exempt: tool.loop_exempt,
            loop_key: tool.loop_key,
            idempotent: tool.idempotent,
            exclusive: tool.exclusive,
            timeout_ms: tool.timeout_ms,
            max_concurrency: tool.max_concurrency,
            supports_cancellation: tool.supports_cancellation,
            has_permission_check: tool.has_permission_check,
            secret_pointers: tool.secret_pointers,
            services: tool.services,
            version: tool.version,
            annotations: tool.annotations,
        },
        owner: tool.owner,
        generation: tool.generation,
        registered_at: UnixMillis(tool.registered_at),
    })
}

fn subject_of(subject: super::Subject) -> Result<DeclaredSubject, Unreadable> {
    Ok(DeclaredSubject {
        pointer: subject.pointer,
        kind: subject.kind.map(numbers::subject_kind_from).transpose()?,
        dialect: subject.dialect,
    })
}

fn toolset_of(toolset: super::Toolset) -> Toolset {
    Toolset {
        name: toolset.name,
        base: toolset.base,
        include: toolset.include,
        exclude: toolset.exclude,
        version: toolset.version,
    }
}
