//! From the gate's types to the turn and registry messages, and from requests to the gate's types.
//!
//! Translates and nothing else. Never asks the engine.

use bytes::Bytes;

use super::status::Failure;
use crate::engine::CallStanding;
use crate::gate::admission::{RequestedCall, Trace, TurnRequest};
use crate::gate::call::{CallState, ToolCall};
use crate::gate::event::{OutputChannel, RunState, RunSummary};
use crate::gate::hooks::{HookText, Injected, MessageRole};
use crate::gate::ids::{CallId, CallIndex, RunId, SessionId, ToolName, TurnId};
use crate::gate::loop_detector::Detector;
use crate::gate::provider::ProviderFormat;
use crate::gate::record::StoredTurn;
use crate::gate::refusal::{CallError, ErrorLayer};
use crate::gate::result::{
    CallEffect, CallOutcome, CallResult, Content, Media, NotExecuted, ResourceBody,
};
use crate::gate::tool::{DeclaredSubject, Kind, Risk, SubjectKind, Tool};
use crate::pb::v1 as pb;

/// A span for a 32-bit field; longer ones are cut.
pub(super) fn ms32(span_ms: u64) -> u32 {
    u32::try_from(span_ms).unwrap_or(u32::MAX)
}

/// Reads an id that must be there.
pub(super) fn session_id(text: &str) -> Result<SessionId, Failure> {
    SessionId::parse(text).map_err(|error| Failure::id("session_id", error))
}

/// Reads a session that may be left out.
pub(super) fn optional_session(text: &str) -> Result<Option<SessionId>, Failure> {
    match text.is_empty() {
        true => Ok(None),
        false => session_id(text).map(Some),
    }
}

/// Reads an id that must be there.
pub(super) fn turn_id(text: &str) -> Result<TurnId, Failure> {
    TurnId::parse(text).map_err(|error| Failure::id("turn_id", error))
}

/// Reads a run; empty is the session's default run.
pub(super) fn run_id(text: &str, session: &SessionId) -> Result<RunId, Failure> {
    match text.is_empty() {
        true => Ok(RunId::trusted(session.as_str())),
        false => RunId::parse(text).map_err(|error| Failure::id("run_id", error)),
    }
}

/// Reads a provider's form; unspecified is none.
pub(super) fn format(number: i32) -> Result<Option<ProviderFormat>, Failure> {
    match pb::ProviderFormat::try_from(number) {
        Ok(pb::ProviderFormat::Unspecified) => Ok(None),
        Ok(pb::ProviderFormat::OpenaiChat) => Ok(Some(ProviderFormat::OpenAiChat)),
        Err(_) => Err(Failure::new(
            pb::ErrorReason::ProviderMessageInvalid,
            "the provider's form is not known here",
        )),
    }
}

pub(super) fn format_number(format: ProviderFormat) -> i32 {
    match format {
        ProviderFormat::OpenAiChat => pb::ProviderFormat::OpenaiChat as i32,
    }
}

/// Reads a turn's request; `mint` gives the id of a turn that has none.
pub(super) fn turn_request(
    request: pb::RunTurnRequest,
    mint: impl FnOnce() -> TurnId,
) -> Result<TurnRequest, Failure> {
    let session = session_id(&request.session_id)?;
    let run = run_id(&request.run_id, &session)?;
    let turn = match request.turn_id.is_empty() {
        true => mint(),
        false => turn_id(&request.turn_id)?,
    };
    if request.max_parallel == Some(0) {
        return Err(Failure::field("max_parallel", "must not be zero"));
    }
    if request.timeout_ms == Some(0) {
        return Err(Failure::field("timeout_ms", "must not be zero"));
    }
    let mut model_message = request.model_message;
    let (calls, format) = match request.provider_message {
        None => (plain_calls(request.calls)?, None),
        Some(_) if !request.calls.is_empty() => {
            return Err(Failure::field(
                "provider_message",
                "must not come together with `calls`",
            ));
        }
        Some(message) => {
            if model_message.is_empty() {
                model_message = message.message_json.clone();
            }
            provider_calls(&message)?
        }
    };
    Ok(TurnRequest {
        session,
        turn,
        run,
        calls: calls
            .into_iter()
            .map(|call| RequestedCall {
                call,
                minted: false,
                seen: None,
            })
            .collect(),
        format,
        toolset: some_text(request.toolset),
        snapshot: some_text(request.tool_snapshot_id),
        max_parallel: request.max_parallel,
        batch_policy: super::convert_approval::batch_policy_from(request.batch_policy),
        command_rules: Vec::new(),
        timeout_ms: request.timeout_ms,
        model_message,
        trace: request.trace.map(|trace| Trace {
            parent: trace.traceparent,
            state: trace.tracestate,
        }),
    })
}

fn some_text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn plain_calls(calls: Vec<pb::ToolCall>) -> Result<Vec<ToolCall>, Failure> {
    let read = |(index, call): (usize, pb::ToolCall)| {
        let call_id = match call.call_id.is_empty() {
            // Judged at admission, which may mint one.
            true => CallId::trusted(""),
            false => CallId::parse(&call.call_id)
                .map_err(|error| Failure::id(&format!("calls[{index}].call_id"), error))?,
        };
        Ok(ToolCall {
            call_id,
            name: ToolName::trusted(call.name),
            arguments: call.arguments_json,
            truncated: call.truncated,
        })
    };
    calls.into_iter().enumerate().map(read).collect()
}

fn provider_calls(
    message: &pb::ProviderMessage,
) -> Result<(Vec<ToolCall>, Option<ProviderFormat>), Failure> {
    let format = format(message.format)?.ok_or_else(|| {
        Failure::new(
            pb::ErrorReason::ProviderMessageInvalid,
            "`provider_message.format` must be set",
        )
    })?;
    let calls = format.read_calls(&message.message_json, &message.finish_reason)?;
    Ok((calls, Some(format)))
}

pub(super) fn call_state(state: CallState) -> i32 {
    let state = match state {
        CallState::Validating => pb::CallState::Validating,
        CallState::AwaitingApproval => pb::CallState::AwaitingApproval,
        CallState::Scheduled => pb::CallState::Scheduled,
        CallState::Executing => pb::CallState::Executing,
        CallState::Success => pb::CallState::Success,
        CallState::Error => pb::CallState::Error,
        CallState::Cancelled => pb::CallState::Cancelled,
    };
    state as i32
}

pub(super) fn loop_detector(detector: Detector) -> i32 {
    let detector = match detector {
        Detector::ToolSignature => pb::LoopDetector::ToolSignature,
        Detector::Cycle => pb::LoopDetector::Cycle,
        Detector::Llm => pb::LoopDetector::Llm,
    };
    detector as i32
}

pub(super) fn output_channel(channel: OutputChannel) -> i32 {
    let channel = match channel {
        OutputChannel::Text => pb::OutputChannel::Text,
        OutputChannel::Stdout => pb::OutputChannel::Stdout,
        OutputChannel::Stderr => pb::OutputChannel::Stderr,
        OutputChannel::Data => pb::OutputChannel::Data,
    };
    channel as i32
}

/// A result, with or without its contents.
pub(super) fn call_result(result: &CallResult, with_contents: bool) -> pb::CallResult {
    let outcome = match result.outcome {
        CallOutcome::Success => pb::CallOutcome::Success,
        CallOutcome::Error => pb::CallOutcome::Error,
        CallOutcome::Cancelled => pb::CallOutcome::Cancelled,
    };
    let effect = match result.effect {
        CallEffect::NotExecuted => pb::CallEffect::NotExecuted,
        CallEffect::Executed => pb::CallEffect::Executed,
        CallEffect::Unknown => pb::CallEffect::Unknown,
    };
    let kept = |bytes: &Bytes| match with_contents {
        true => bytes.clone(),
        false => Bytes::new(),
    };
    pb::CallResult {
        call_id: result.call_id.to_string(),
        tool: result.tool.to_string(),
        outcome: outcome as i32,
        is_error: result.outcome != CallOutcome::Success,
        stop_flag: result.stop_flag,
        error: result.error.as_ref().map(call_error),
        contents: match with_contents {
            true => result.contents.iter().map(content).collect(),
            false => Vec::new(),
        },
        structured_json: kept(&result.structured),
        metadata_json: kept(&result.metadata),
        not_executed_reason: not_executed(result.not_executed),
        effect: effect as i32,
        truncated: result.cut_from_bytes.is_some(),
        original_bytes: result.cut_from_bytes,
        sanitised: result.sanitised,
        suppressed: result.hooks.as_ref().is_some_and(|words| words.suppressed),
        attempts: result.attempts,
        timing: Some(pb::CallTiming {
            received_at_ms: result.timing.received_at.0,
            started_at_ms: result.timing.started_at.map(|at| at.0),
            finished_at_ms: result.timing.finished_at.0,
            approval_ms: result.timing.approval_ms,
            queue_ms: ms32(result.timing.queue_ms),
        }),
        approval_id: result
            .approval
            .as_ref()
            .map_or_else(String::new, ToString::to_string),
        arguments_digest: result
            .arguments_digest
            .map_or_else(Bytes::new, |digest| Bytes::copy_from_slice(&digest.0)),
    }
}

fn not_executed(reason: Option<NotExecuted>) -> i32 {
    let reason = match reason {
        None => pb::NotExecutedReason::Unspecified,
        Some(NotExecuted::ApprovalUnavailable) => pb::NotExecutedReason::ApprovalUnavailable,
        Some(NotExecuted::DeniedByUser) => pb::NotExecutedReason::DeniedByUser,
        Some(NotExecuted::ApprovalExpired) => pb::NotExecutedReason::ApprovalExpired,
        Some(NotExecuted::BatchRejected) => pb::NotExecutedReason::BatchRejected,
        Some(NotExecuted::AnsweredByApprover) => pb::NotExecutedReason::AnsweredByApprover,
        Some(NotExecuted::DeniedByRule) => pb::NotExecutedReason::DeniedByRule,
        Some(NotExecuted::DeniedByMode) => pb::NotExecutedReason::DeniedByMode,
        Some(NotExecuted::DeniedByTool) => pb::NotExecutedReason::DeniedByTool,
        Some(NotExecuted::InvalidCall) => pb::NotExecutedReason::InvalidCall,
        Some(NotExecuted::NotFound) => pb::NotExecutedReason::NotFound,
        Some(NotExecuted::CancelledBeforeStart) => pb::NotExecutedReason::CancelledBeforeStart,
        Some(NotExecuted::Loop) => pb::NotExecutedReason::Loop,
        Some(NotExecuted::ToolUnavailable) => pb::NotExecutedReason::ToolUnavailable,
        Some(NotExecuted::DeniedByHook) => pb::NotExecutedReason::DeniedByHook,
        Some(NotExecuted::AnsweredByHook) => pb::NotExecutedReason::AnsweredByHook,
        Some(NotExecuted::RunAborted) => pb::NotExecutedReason::RunAborted,
    };
    reason as i32
}

/// A context that a hook added.
pub(super) fn context(text: &HookText, call_id: &str) -> pb::AdditionalContext {
    pb::AdditionalContext {
        text: text.text.clone(),
        hook_id: text.hook.to_string(),
        call_id: call_id.to_owned(),
    }
}

/// A message that a hook added.
pub(super) fn injected(message: &Injected, call_id: &str) -> pb::InjectedMessage {
    let role = match message.role {
        MessageRole::System => pb::MessageRole::System,
        MessageRole::User => pb::MessageRole::User,
    };
    pb::InjectedMessage {
        role: role as i32,
        text: message.text.clone(),
        hook_id: message.hook.to_string(),
        call_id: call_id.to_owned(),
    }
}

pub(super) fn call_error(error: &CallError) -> pb::ToolError {
    let layer = match error.layer {
        ErrorLayer::Config => pb::ErrorLayer::Config,
        ErrorLayer::Decode => pb::ErrorLayer::Decode,
        ErrorLayer::Tool => pb::ErrorLayer::Tool,
        ErrorLayer::Permission => pb::ErrorLayer::Permission,
        ErrorLayer::Cancelled => pb::ErrorLayer::Cancelled,
        ErrorLayer::Runtime => pb::ErrorLayer::Runtime,
        ErrorLayer::Transport => pb::ErrorLayer::Transport,
        ErrorLayer::Store => pb::ErrorLayer::Store,
        ErrorLayer::Hook => pb::ErrorLayer::Hook,
    };
    pb::ToolError {
        code: error.code.to_string(),
        layer: layer as i32,
        message_for_model: error.message_for_model.clone(),
        detail: error.detail.clone(),
        path: error.path.clone(),
        retryable: error.retryable,
        retry_after_ms: error.retry_after_ms,
    }
}

fn content(part: &Content) -> pb::ContentPart {
    use pb::content_part::Content as Part;
    let part = match part {
        Content::Text(text) => Part::Text(text.clone()),
        Content::Json(json) => Part::ValueJson(json.clone()),
        Content::Image(media) => Part::Image(self::media(media)),
        Content::Audio(media) => Part::Audio(self::media(media)),
        Content::Resource(resource) => Part::Resource(pb::Resource {
            uri: resource.uri.clone(),
            mime_type: resource.mime_type.clone(),
            data: Some(match &resource.body {
                ResourceBody::Text(text) => pb::resource::Data::Text(text.clone()),
                ResourceBody::Blob(blob) => pb::resource::Data::Blob(blob.clone()),
            }),
        }),
        Content::ResourceLink(link) => Part::ResourceLink(pb::ResourceLink {
            uri: link.uri.clone(),
            name: link.name.clone(),
            title: link.title.clone(),
            description: link.description.clone(),
            mime_type: link.mime_type.clone(),
            size_bytes: link.size_bytes,
        }),
    };
    pb::ContentPart {
        content: Some(part),
    }
}

fn media(media: &Media) -> pb::Media {
    pb::Media {
        data: media.data.clone(),
        mime_type: media.mime_type.clone(),
    }
}

pub(super) fn run(run: &RunSummary) -> pb::Run {
    let state = match run.state {
        RunState::Active => pb::RunState::Active,
        RunState::Completed => pb::RunState::Completed,
        RunState::Cancelled => pb::RunState::Cancelled,
        RunState::Error => pb::RunState::Error,
        RunState::LoopDetected => pb::RunState::LoopDetected,
        RunState::Aborted => pb::RunState::Aborted,
    };
    pb::Run {
        run_id: run.run.to_string(),
        session_id: run.session.to_string(),
        state: state as i32,
        rounds: run.rounds,
        end_code: run.end_code.clone(),
        end_reason: run.end_reason.clone(),
        started_at_ms: run.started_at.0,
        ended_at_ms: run.ended_at.map(|at| at.0),
    }
}

/// A turn as it stands. `last_sequence` belongs to its present epoch.
pub(super) fn turn(
    stored: &StoredTurn,
    calls: &[CallStanding],
    last_sequence: u64,
    completed: Option<pb::TurnCompleted>,
) -> pb::Turn {
    let spec = &stored.spec;
    let state = match stored.completed {
        Some(_) => pb::TurnState::Completed,
        None if is_suspended(calls) => pb::TurnState::Suspended,
        None => pb::TurnState::Running,
    };
    let requested = spec.request.calls.iter().zip(calls).zip(0..);
    pb::Turn {
        turn_id: spec.request.turn.to_string(),
        session_id: spec.request.session.to_string(),
        run_id: spec.request.run.to_string(),
        batch_id: match spec.request.calls.is_empty() {
            true => String::new(),
            false => spec.batch.to_string(),
        },
        state: state as i32,
        calls: requested
            .map(|((requested, standing), position)| pb::TurnCall {
                call: Some(pb::ToolCall {
                    call_id: requested.call.call_id.to_string(),
                    name: requested.call.name.to_string(),
                    arguments_json: requested.call.arguments.clone(),
                    truncated: requested.call.truncated,
                }),
                tool: standing.tool.to_string(),
                state: call_state(standing.state),
                ..asked(stored, CallIndex(position))
            })
            .collect(),
        epoch: stored.epoch,
        last_sequence,
        model_message: spec.request.model_message.clone(),
        completed,
        accepted_at_ms: spec.accepted_at.0,
        updated_at_ms: stored.updated_at.0,
    }
}

/// Whether only people are awaited: some call waits for an approver, and none is on its way.
fn is_suspended(calls: &[CallStanding]) -> bool {
    let any = |state: CallState| calls.iter().any(|call| call.state == state);
    any(CallState::AwaitingApproval) && !any(CallState::Executing)
}

/// What a call's approval adds to it.
fn asked(stored: &StoredTurn, call: CallIndex) -> pb::TurnCall {
    let mut approvals = stored.approvals.iter();
    let approval = approvals.find(|approval| approval.call == call);
    let edited = approval
        .and_then(|approval| approval.decision.as_ref())
        .and_then(|decision| decision.edited.clone());
    pb::TurnCall {
        approval_id: match approval {
            Some(_) => stored.spec.approval_id(call).to_string(),
            None => String::new(),
        },
        effective_arguments_json: edited.unwrap_or_default(),
        ..pb::TurnCall::default()
    }
}

pub(super) fn definition(tool: &Tool) -> pb::ToolDefinition {
    let definition = &tool.definition;
    pb::ToolDefinition {
        name: definition.name.to_string(),
        description: definition.description.clone(),
        parameters_json: definition.parameters.clone(),
        schema_dialect: match definition.dialect {
            crate::gate::schema::SchemaDialect::Core => pb::SchemaDialect::Core as i32,
            crate::gate::schema::SchemaDialect::JsonSchema202012 => {
                pb::SchemaDialect::JsonSchema202012 as i32
            }
        },
        risk_level: risk(tool.risk),
        kind: kind(definition.kind),
        subject: definition.subject.as_ref().map(subject),
        skip_permission: definition.skip_permission,
        loop_exempt: definition.loop_exempt,
        loop_key: definition.loop_key.clone(),
        idempotent: definition.idempotent,
        exclusive: definition.exclusive,
        timeout_ms: Some(tool.timeout_ms),
        max_concurrency: definition.max_concurrency,
        supports_cancellation: definition.supports_cancellation,
        has_permission_check: definition.has_permission_check,
        secret_pointers: definition.secret_pointers.clone(),
        services: definition.services.clone(),
        version: definition.version.clone(),
        annotations_json: definition.annotations.clone(),
    }
}

fn subject(subject: &DeclaredSubject) -> pb::Subject {
    let subject_type = match subject.kind {
        None => pb::SubjectType::Unspecified,
        Some(SubjectKind::Command) => pb::SubjectType::Command,
        Some(SubjectKind::Path) => pb::SubjectType::Path,
        Some(SubjectKind::Url) => pb::SubjectType::Url,
        Some(SubjectKind::Text) => pb::SubjectType::Text,
    };
    pb::Subject {
        pointer: subject.pointer.clone(),
        subject_type: subject_type as i32,
        dialect: subject.dialect.clone(),
    }
}

pub(super) fn risk(risk: Risk) -> i32 {
    let risk = match risk {
        Risk::Safe => pb::RiskLevel::Safe,
        Risk::Sensitive => pb::RiskLevel::Sensitive,
        Risk::Dangerous => pb::RiskLevel::Dangerous,
    };
    risk as i32
}

pub(super) fn kind(kind: Kind) -> i32 {
    let kind = match kind {
        Kind::Read => pb::ToolKind::Read,
        Kind::Fetch => pb::ToolKind::Fetch,
        Kind::Edit => pb::ToolKind::Edit,
        Kind::Delete => pb::ToolKind::Delete,
        Kind::Execute => pb::ToolKind::Execute,
        Kind::Interact => pb::ToolKind::Interact,
        Kind::Other => pb::ToolKind::Other,
    };
    kind as i32
}
