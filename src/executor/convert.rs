//! Between the executor stream's messages and the gate's types, and nothing else.
//!
//! An unknown enum value falls to the safe side that the proto names. Never checks a limit that has an
//! answer of its own.

use std::borrow::Cow;

use bytes::Bytes;
use prost::Message;

use super::pool::{DispatchContext, Listed, ResultStatus, Resumption};
use super::session::StreamSettings;
use crate::gate::event::{OutputChannel, OutputChunk, Progress};
use crate::gate::ids::{ExecutionId, ToolName};
use crate::gate::limits::Limits;
use crate::gate::record::TurnSpec;
use crate::gate::refusal::{CallError, ErrorLayer};
use crate::gate::registry::Registration;
use crate::gate::result::{
    Content, Media, Resource, ResourceBody, ResourceLink, ToolResult, cut_text,
};
use crate::gate::schema::SchemaDialect;
use crate::gate::tool::{
    DeclaredSubject, Kind, Risk, SubjectKind, Tool, ToolDefinition, ToolWarning,
};
use crate::gate::turn::{CancelReason, Dispatch, RejectReason, Reply, Withdraw};
use crate::pb::v1 as pb;

/// A span for a 32-bit field; longer ones are cut.
pub(super) fn ms32(span_ms: u64) -> u32 {
    u32::try_from(span_ms).unwrap_or(u32::MAX)
}

pub(super) fn response(body: pb::connect_response::Body) -> pb::ConnectResponse {
    pb::ConnectResponse { body: Some(body) }
}

fn reference(execution: &ExecutionId, attempt: u32) -> Option<pb::ExecutionRef> {
    Some(pb::ExecutionRef {
        execution_id: execution.to_string(),
        attempt,
    })
}

/// What a handler may know of a call.
pub(super) fn call_context(turn: &TurnSpec, tool: &Tool, cwd: Option<String>) -> pb::CallContext {
    let request = &turn.request;
    let session = request.session.to_string();
    pb::CallContext {
        session_id: session.clone(),
        run_id: request.run.to_string(),
        turn_id: request.turn.to_string(),
        batch_call_id: turn.batch.to_string(),
        state: Some(pb::SessionState {
            schema_version: 0,
            session_id: session,
            metadata_json: Bytes::new(),
        }),
        services: tool.definition.services.clone(),
        cwd: cwd.unwrap_or_default(),
        trace: request.trace.as_ref().map(|trace| pb::TraceContext {
            traceparent: trace.parent.clone(),
            tracestate: trace.state.clone(),
        }),
    }
}

/// The message of a dispatch, and its size on the wire in bytes.
pub(super) fn execute_request(
    dispatch: Dispatch,
    context: &DispatchContext,
    prints: bool,
) -> (pb::ConnectResponse, usize) {
    let request = &dispatch.turn.request;
    let call_id = request
        .calls
        .get(dispatch.call.get())
        .map(|requested| requested.call.call_id.to_string());
    let message = pb::ExecuteRequest {
        execution: reference(&dispatch.execution, dispatch.attempt),
        tool_name: dispatch.tool.definition.name.to_string(),
        tool_digest: Bytes::copy_from_slice(&dispatch.tool.digest.0),
        call_id: call_id.unwrap_or_default(),
        arguments_json: dispatch.arguments.text,
        arguments_digest: Bytes::copy_from_slice(&dispatch.arguments.digest.0),
        context: Some(call_context(&dispatch.turn, &dispatch.tool, dispatch.cwd)),
        deadline_at_ms: context.now_ms.saturating_add(dispatch.timeout_ms),
        timeout_ms: ms32(dispatch.timeout_ms),
        output_credit_bytes: if prints { context.output_credit } else { 0 },
    };
    let message = response(pb::connect_response::Body::Execute(message));
    let size = message.encoded_len();
    (message, size)
}

pub(super) fn cancel_execution(withdraw: &Withdraw) -> pb::ConnectResponse {
    let reason = match withdraw.reason {
        CancelReason::CallCancelled => pb::CancelReason::CallCancelled,
        CancelReason::TurnCancelled => pb::CancelReason::TurnCancelled,
        CancelReason::RunEnded => pb::CancelReason::RunEnded,
        CancelReason::Deadline => pb::CancelReason::Deadline,
        CancelReason::Shutdown => pb::CancelReason::Shutdown,
    };
    response(pb::connect_response::Body::Cancel(pb::CancelExecution {
        execution: reference(&withdraw.execution, withdraw.attempt),
        reason: reason as i32,
        message: withdraw.message.clone(),
        grace_ms: withdraw.grace_ms,
    }))
}

pub(super) fn result_ack(
    execution: &ExecutionId,
    attempt: u32,
    status: ResultStatus,
) -> pb::ConnectResponse {
    let status = match status {
        ResultStatus::Recorded => pb::ResultAckStatus::Recorded,
        ResultStatus::AlreadyRecorded => pb::ResultAckStatus::AlreadyRecorded,
        ResultStatus::Late => pb::ResultAckStatus::Late,
        ResultStatus::Stale => pb::ResultAckStatus::Stale,
        ResultStatus::Unknown => pb::ResultAckStatus::UnknownExecution,
    };
    response(pb::connect_response::Body::ResultAck(pb::ResultAck {
        execution: reference(execution, attempt),
        status: status as i32,
    }))
}

pub(super) fn output_credit(
    execution: &ExecutionId,
    attempt: u32,
    bytes: u32,
) -> pb::ConnectResponse {
    response(pb::connect_response::Body::OutputCredit(pb::OutputCredit {
        execution: reference(execution, attempt),
        added_bytes: bytes,
        stop: false,
    }))
}

/// When the two sides of a stream ping, as the wire says it.
pub fn timing(settings: &StreamSettings) -> pb::StreamTiming {
    pb::StreamTiming {
        ping_interval_ms: ms32(settings.ping_interval_ms),
        ping_misses: settings.ping_misses,
        accept_timeout_ms: ms32(settings.accept_timeout_ms),
        resume_window_ms: ms32(settings.resume_window_ms),
        send_stall_ms: ms32(settings.send_stall_ms),
    }
}

/// What the sidecar takes on a stream, as the wire says it.
pub fn stream_limits(limits: &Limits) -> pb::StreamLimits {
    pb::StreamLimits {
        max_message_bytes: ms32(limits.message_bytes_max),
        max_arguments_bytes: ms32(limits.args_bytes_max),
        max_result_bytes: ms32(limits.result_bytes_max),
        max_output_chunk_bytes: ms32(limits.output_chunk_bytes_max),
        max_metadata_bytes: ms32(limits.result_metadata_bytes_max),
        max_tools_per_message: ms32(limits.tools_per_message_max),
    }
}

pub(super) fn in_flight(listed: &[pb::InFlightExecution]) -> Vec<(ExecutionId, u32, Listed)> {
    listed
        .iter()
        .map(|entry| {
            let reference = entry.execution.clone().unwrap_or_default();
            let progress = match entry.state() {
                pb::InFlightState::Queued => Listed::Queued,
                pb::InFlightState::Finished => Listed::Finished,
                pb::InFlightState::Running | pb::InFlightState::Unspecified => Listed::Running,
            };
            let execution = ExecutionId::trusted(reference.execution_id.as_str());
            (execution, reference.attempt, progress)
        })
        .collect()
}

pub(super) fn in_flight_action(decision: Resumption) -> pb::InFlightAction {
    match decision {
        Resumption::Continue => pb::InFlightAction::Continue,
        Resumption::Cancel => pb::InFlightAction::Cancel,
        Resumption::SendResult => pb::InFlightAction::SendResult,
        Resumption::Forget => pb::InFlightAction::Forget,
    }
}

pub(super) fn reject_reason(reason: pb::RejectReason) -> RejectReason {
    match reason {
        pb::RejectReason::Unspecified | pb::RejectReason::Busy | pb::RejectReason::Draining => {
            RejectReason::Busy
        }
        pb::RejectReason::UnknownTool => RejectReason::UnknownTool,
        pb::RejectReason::BadArguments => RejectReason::BadArguments,
        pb::RejectReason::TooLarge => RejectReason::TooLarge,
    }
}

pub(super) fn progress(progress: pb::ExecutionProgress, limits: &Limits) -> Progress {
    let mut message = progress.message;
    cut_text(&mut message, limits.progress_message_bytes_max);
    let details = progress.details_json;
    Progress {
        message,
        fraction: progress
            .fraction
            .filter(|fraction| (0.0..=1.0).contains(fraction)),
        details: match details.len() as u64 > limits.progress_details_bytes_max {
            true => Bytes::new(),
            false => details,
        },
    }
}

pub(super) fn output(chunk: pb::OutputChunk) -> OutputChunk {
    let channel = match chunk.channel() {
        pb::OutputChannel::Unspecified | pb::OutputChannel::Text => OutputChannel::Text,
        pb::OutputChannel::Stdout => OutputChannel::Stdout,
        pb::OutputChannel::Stderr => OutputChannel::Stderr,
        pb::OutputChannel::Data => OutputChannel::Data,
    };
    OutputChunk {
        channel,
        chunk_sequence: chunk.chunk_sequence,
        data: chunk.data,
        dropped_bytes: chunk.dropped_bytes,
    }
}

pub(super) fn reply(outcome: Option<pb::execute_result::Outcome>) -> Reply {
    match outcome {
        Some(pb::execute_result::Outcome::Result(result)) => Reply::Result(tool_result(result)),
        Some(pb::execute_result::Outcome::Cancelled(cancelled)) => Reply::Cancelled {
            not_executed: cancelled.effect() == pb::CallEffect::NotExecuted,
            executed: cancelled.effect() == pb::CallEffect::Executed,
            message: cancelled.message,
        },
        None => Reply::Empty,
    }
}

/// Reads a result, whoever gives it.
pub fn tool_result(result: pb::ToolResult) -> ToolResult {
    ToolResult {
        contents: result.contents.into_iter().map(content).collect(),
        is_error: result.is_error,
        stop_flag: result.stop_flag,
        error: result.error.map(call_error),
        structured: result.structured_json,
        metadata: result.metadata_json,
        sanitised: result.sanitised,
    }
}

fn call_error(error: pb::ToolError) -> CallError {
    CallError {
        code: Cow::Owned(error.code),
        layer: ErrorLayer::Tool,
        message_for_model: error.message_for_model,
        detail: error.detail,
        path: error.path,
        retryable: error.retryable,
        retry_after_ms: error.retry_after_ms,
    }
}

fn content(part: pb::ContentPart) -> Content {
    use pb::content_part::Content as Part;
    match part.content {
        Some(Part::Text(text)) => Content::Text(text),
        Some(Part::ValueJson(json)) => Content::Json(json),
        Some(Part::Image(media)) => Content::Image(self::media(media)),
        Some(Part::Audio(media)) => Content::Audio(self::media(media)),
        Some(Part::Resource(resource)) => Content::Resource(self::resource(resource)),
        Some(Part::ResourceLink(link)) => Content::ResourceLink(ResourceLink {
            uri: link.uri,
            name: link.name,
            title: link.title,
            description: link.description,
            mime_type: link.mime_type,
            size_bytes: link.size_bytes,
        }),
        None => Content::Text("[content of an unknown kind]".into()),
    }
}

fn media(media: pb::Media) -> Media {
    Media {
        data: media.data,
        mime_type: match media.mime_type.is_empty() {
            true => "application/octet-stream".to_owned(),
            false => media.mime_type,
        },
    }
}

fn resource(resource: pb::Resource) -> Resource {
    Resource {
        uri: resource.uri,
        mime_type: resource.mime_type,
        body: match resource.data {
            Some(pb::resource::Data::Text(text)) => ResourceBody::Text(text),
            Some(pb::resource::Data::Blob(blob)) => ResourceBody::Blob(blob),
            None => ResourceBody::Blob(Bytes::new()),
        },
    }
}

pub(crate) fn definition(definition: pb::ToolDefinition) -> ToolDefinition {
    let dialect = match definition.schema_dialect() {
        pb::SchemaDialect::Unspecified | pb::SchemaDialect::Core => SchemaDialect::Core,
        pb::SchemaDialect::JsonSchema202012 => SchemaDialect::JsonSchema202012,
    };
    // An unknown risk is read as the worst, an unknown kind as any.
    let risk = match pb::RiskLevel::try_from(definition.risk_level) {
        Ok(pb::RiskLevel::Unspecified) => None,
        Ok(pb::RiskLevel::Safe) => Some(Risk::Safe),
        Ok(pb::RiskLevel::Sensitive) => Some(Risk::Sensitive),
        Ok(pb::RiskLevel::Dangerous) | Err(_) => Some(Risk::Dangerous),
    };
    let kind = match definition.kind() {
        pb::ToolKind::Read => Kind::Read,
        pb::ToolKind::Fetch => Kind::Fetch,
        pb::ToolKind::Edit => Kind::Edit,
        pb::ToolKind::Delete => Kind::Delete,
        pb::ToolKind::Execute => Kind::Execute,
        pb::ToolKind::Interact => Kind::Interact,
        pb::ToolKind::Unspecified | pb::ToolKind::Other => Kind::Other,
    };
    ToolDefinition {
        name: ToolName::trusted(definition.name.as_str()),
        description: definition.description,
        parameters: definition.parameters_json,
        dialect,
        risk,
        kind,
        subject: definition.subject.map(subject),
        skip_permission: definition.skip_permission,
        loop_exempt: definition.loop_exempt,
        loop_key: definition.loop_key,
        idempotent: definition.idempotent,
        exclusive: definition.exclusive,
        timeout_ms: definition.timeout_ms,
        max_concurrency: definition.max_concurrency,
        supports_cancellation: definition.supports_cancellation,
        has_permission_check: definition.has_permission_check,
        secret_pointers: definition.secret_pointers,
        services: definition.services,
        version: definition.version,
        annotations: definition.annotations_json,
    }
}

/// An unknown type is read as plain text, in which no rule for another type matches.
fn subject(subject: pb::Subject) -> DeclaredSubject {
    let kind = match pb::SubjectType::try_from(subject.subject_type) {
        Ok(pb::SubjectType::Unspecified) => None,
        Ok(pb::SubjectType::Command) => Some(SubjectKind::Command),
        Ok(pb::SubjectType::Path) => Some(SubjectKind::Path),
        Ok(pb::SubjectType::Url) => Some(SubjectKind::Url),
        Ok(pb::SubjectType::Text) | Err(_) => Some(SubjectKind::Text),
    };
    DeclaredSubject {
        pointer: subject.pointer,
        kind,
        dialect: subject.dialect,
    }
}

pub(super) fn registration(registration: &Registration) -> pb::ToolRegistration {
    match registration {
        Registration::Active { tool, .. } => pb::ToolRegistration {
            name: tool.definition.name.to_string(),
            state: pb::RegistrationState::Active as i32,
            error: None,
            tool_digest: Bytes::copy_from_slice(&tool.digest.0),
            generation: tool.generation,
            warnings: tool.warnings.iter().map(warning).collect(),
        },
        Registration::Refused { name, error } => pb::ToolRegistration {
            name: name.to_string(),
            state: pb::RegistrationState::Refused as i32,
            error: Some(pb::ToolError {
                code: error.code().to_owned(),
                layer: pb::ErrorLayer::Config as i32,
                message_for_model: error.to_string(),
                path: error.path().to_owned(),
                ..pb::ToolError::default()
            }),
            ..pb::ToolRegistration::default()
        },
    }
}

pub(super) fn removal(name: &str) -> pb::ToolRegistration {
    pb::ToolRegistration {
        name: name.to_owned(),
        state: pb::RegistrationState::Removed as i32,
        ..pb::ToolRegistration::default()
    }
}

fn warning(warning: &ToolWarning) -> pb::ToolWarning {
    pb::ToolWarning {
        code: warning.code.to_owned(),
        path: warning.path.clone(),
        message: warning.message.clone(),
    }
}
