//! Runs one turn for a command and prints what happens.
//!
//! Ctrl-C and SIGTERM cancel the turn, and its end is still printed. A turn that takes its time says on standard error what
//! it waits for, once. Never invents a result.

use callgate_client::connect::AuthorizedChannel;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::turn_service_client::TurnServiceClient;
use serde_json::{Value, json};

use super::client::{failed, state_word, word};
use super::output::{Outcome, data, foreign, note};
use super::serve::listen_for;
use super::waiting::{SILENCE, Waiting};
use pb::turn_event::Body;
use tokio::signal::unix::{Signal, SignalKind};

/// How events are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// One line an event, for people.
    Lines,
    /// One JSON object an event.
    Json,
    /// Nothing but the result.
    ResultOnly,
}

/// Runs a turn to its end. Gives the end back.
pub(super) async fn run_turn(
    channel: AuthorizedChannel,
    request: pb::RunTurnRequest,
    form: Form,
) -> Result<pb::TurnCompleted, Outcome> {
    let mut turns = TurnServiceClient::new(channel).max_decoding_message_size(64 * 1024 * 1024);
    let mut terminate = listen_for(SignalKind::terminate())?;
    let (own_turn, session) = (request.turn_id.clone(), request.session_id.clone());
    let cancel = |reason: &str| pb::CancelTurnRequest {
        turn_id: own_turn.clone(),
        session_id: session.clone(),
        reason: reason.to_owned(),
        grace_ms: None,
    };
    let turn_id = request.turn_id.clone();
    let mut canceller = turns.clone();
    let mut events = turns
        .run_turn(request)
        .await
        .map_err(|status| failed(&status))?
        .into_inner();
    let mut interrupted = false;
    let mut waiting = Waiting::default();
    let mut silence = std::pin::pin!(tokio::time::sleep(SILENCE));
    let mut explained = false;
    loop {
        let message = tokio::select! {
            message = events.message() => message.map_err(|status| lost(&status, &turn_id))?,
            reason = interruption(&mut terminate), if !interrupted => {
                interrupted = true;
                let cancelled = canceller.cancel_turn(cancel(reason)).await;
                cancelled.map_err(|status| failed(&status))?;
                continue;
            }
            () = silence.as_mut(), if !explained => {
                explained = true;
                note(&format!("callgate: {}", waiting.line()));
                continue;
            }
        };
        let Some(message) = message else {
            return Err(Outcome::failed("the stream ended before the turn did"));
        };
        for event in message.turn.unwrap_or_default().events {
            waiting.take(&event);
            print_event(&event, form);
            if let Some(Body::TurnCompleted(completed)) = event.body {
                return Ok(completed);
            }
        }
    }
}

/// Waits for somebody to end this program. Says how.
async fn interruption(terminate: &mut Signal) -> &'static str {
    tokio::select! {
        _ = tokio::signal::ctrl_c() => "interrupted at the terminal",
        _ = terminate.recv() => "ended by a signal",
    }
}

/// The sidecar went away: the turn need not have.
fn lost(status: &tonic::Status, turn_id: &str) -> Outcome {
    let (code, problem) = (status.code(), status.message());
    Outcome::failed(format!(
        "{code:?}: {problem}; turn `{turn_id}` may go on, and sending it again under that id follows it"
    ))
}

fn print_event(event: &pb::TurnEvent, form: Form) {
    match form {
        Form::ResultOnly => {}
        Form::Json => data(&event_json(event).to_string()),
        Form::Lines => {
            if let Some(line) = event_line(event) {
                foreign(&line);
            }
        }
    }
}

/// One event as a line; none where the line would say nothing.
pub(super) fn event_line(event: &pb::TurnEvent) -> Option<String> {
    Some(match event.body.as_ref()? {
        Body::TurnAccepted(accepted) => format!(
            "accepted    run {} round {}, {} call(s)",
            accepted.run_id,
            accepted.round,
            accepted.calls.len()
        ),
        Body::CallStateChanged(moved) => {
            let state = state_word(moved.state);
            let code = match moved.code.is_empty() {
                true => String::new(),
                false => format!("  {}", moved.code),
            };
            format!("{state:<11} {}{code}", moved.call_id)
        }
        Body::CallCompleted(_) => return None,
        Body::CallProgress(progress) => {
            let part = progress
                .fraction
                .map_or_else(String::new, |fraction| format!(" {:.0}%", fraction * 100.0));
            format!(
                "progress    {}{part}  {}",
                progress.call_id, progress.message
            )
        }
        Body::CallOutput(output) => format!(
            "output      {}  {}",
            output.call_id,
            String::from_utf8_lossy(&output.data).trim_end()
        ),
        Body::ApprovalRequired(required) => {
            let asked = required.approvals.iter();
            let lines = asked.map(|asked| {
                let (id, call) = (&asked.approval_id, &asked.call_id);
                format!("approval    {call}  {id}  {}", asked.tool)
            });
            lines.collect::<Vec<_>>().join("\n")
        }
        Body::TurnSuspended(suspended) => format!(
            "suspended   {} approval(s) awaited",
            suspended.approval_ids.len()
        ),
        Body::LoopDetected(found) => format!(
            "loop        {}  {}  {}",
            word(found.detector().as_str_name(), "LOOP_DETECTOR_"),
            found.reason,
            found.call_ids.join(", ")
        ),
        Body::Heartbeat(heartbeat) => format!("waiting     for {}", heartbeat.waiting_for),
        Body::TurnCompleted(completed) => {
            let outcome = word(completed.outcome().as_str_name(), "TURN_OUTCOME_");
            let stop = if completed.stop { ", stop" } else { "" };
            format!("turn        {outcome}{stop}")
        }
    })
}

/// A result as lines.
pub(super) fn result_lines(result: &pb::CallResult) -> Vec<String> {
    let mut lines = Vec::new();
    let error = result.error.as_ref();
    if let Some(error) = error {
        lines.push(format!("{}: {}", error.code, error.message_for_model));
    }
    let texts = result.contents.iter().map(part_text);
    // An error's own words are often its first part as well: once is enough.
    lines.extend(texts.filter(|text| error.is_none_or(|error| error.message_for_model != *text)));
    lines
}

fn part_text(part: &pb::ContentPart) -> String {
    use pb::content_part::Content;
    match &part.content {
        Some(Content::Text(text)) => text.clone(),
        Some(Content::ValueJson(json)) => String::from_utf8_lossy(json).into_owned(),
        Some(Content::Image(media)) => format!("[image {}]", media.mime_type),
        Some(Content::Audio(media)) => format!("[audio {}]", media.mime_type),
        Some(Content::Resource(resource)) => format!("[resource {}]", resource.uri),
        Some(Content::ResourceLink(link)) => format!("[link {}]", link.uri),
        None => "[content of an unknown kind]".to_owned(),
    }
}

/// A result as JSON.
pub(super) fn result_json(result: &pb::CallResult) -> Value {
    json!({
        "call_id": result.call_id,
        "tool": result.tool,
        "outcome": word(result.outcome().as_str_name(), "CALL_OUTCOME_"),
        "is_error": result.is_error,
        "stop_flag": result.stop_flag,
        "error": result.error.as_ref().map(|error| json!({
            "code": error.code,
            "layer": word(error.layer().as_str_name(), "ERROR_LAYER_"),
            "message_for_model": error.message_for_model,
            "path": error.path,
            "retryable": error.retryable,
        })),
        "contents": result.contents.iter().map(part_text).collect::<Vec<_>>(),
        "structured": String::from_utf8_lossy(&result.structured_json),
        "effect": word(result.effect().as_str_name(), "CALL_EFFECT_"),
        "not_executed_reason":
            word(result.not_executed_reason().as_str_name(), "NOT_EXECUTED_REASON_"),
        "attempts": result.attempts,
        "truncated": result.truncated,
    })
}

fn event_json(event: &pb::TurnEvent) -> Value {
    let body = match &event.body {
        None => Value::Null,
        Some(Body::TurnAccepted(accepted)) => json!({"turn_accepted": {
            "session_id": accepted.session_id, "run_id": accepted.run_id,
            "batch_id": accepted.batch_id, "round": accepted.round,
            "calls": accepted.calls.iter().map(|call| json!({
                "call_id": call.call_id, "tool": call.tool, "minted": call.minted,
            })).collect::<Vec<_>>(),
        }}),
        Some(Body::CallStateChanged(moved)) => json!({"call_state_changed": {
            "call_id": moved.call_id, "state": state_word(moved.state),
            "previous_state": state_word(moved.previous_state), "code": moved.code,
        }}),
        Some(Body::CallCompleted(completed)) => json!({"call_completed":
            completed.result.as_ref().map(result_json)}),
        Some(Body::CallProgress(progress)) => json!({"call_progress": {
            "call_id": progress.call_id, "message": progress.message,
            "fraction": progress.fraction,
        }}),
        Some(Body::CallOutput(output)) => json!({"call_output": {
            "call_id": output.call_id, "chunk_sequence": output.chunk_sequence,
            "data": String::from_utf8_lossy(&output.data),
        }}),
        Some(Body::ApprovalRequired(required)) => json!({"approval_required": {
            "batch_id": required.batch_id,
            "approvals": required.approvals.iter().map(|asked| json!({
                "approval_id": asked.approval_id, "call_id": asked.call_id, "tool": asked.tool,
            })).collect::<Vec<_>>(),
        }}),
        Some(Body::TurnSuspended(suspended)) => json!({"turn_suspended": {
            "batch_id": suspended.batch_id, "approval_ids": suspended.approval_ids,
        }}),
        Some(Body::LoopDetected(found)) => json!({"loop_detected": {
            "detector": word(found.detector().as_str_name(), "LOOP_DETECTOR_"),
            "reason": found.reason, "call_ids": found.call_ids,
            "period": found.period, "repetitions": found.repetitions,
            "confidence": found.confidence,
        }}),
        Some(Body::Heartbeat(heartbeat)) => json!({"heartbeat": heartbeat.waiting_for}),
        Some(Body::TurnCompleted(completed)) => {
            json!({"turn_completed": completed_json(completed)})
        }
    };
    json!({"sequence": event.sequence, "occurred_at_ms": event.occurred_at_ms, "event": body})
}

/// A turn's end as JSON.
pub(super) fn completed_json(completed: &pb::TurnCompleted) -> Value {
    let messages = |messages: Option<&pb::ProviderMessages>| {
        messages.map(|messages| {
            let texts = messages.messages_json.iter();
            texts
                .map(|text| serde_json::from_slice(text).unwrap_or(Value::Null))
                .collect::<Vec<Value>>()
        })
    };
    let closing = completed.closing_results.as_ref();
    json!({
        "outcome": word(completed.outcome().as_str_name(), "TURN_OUTCOME_"),
        "results": completed.results.iter().map(result_json).collect::<Vec<_>>(),
        "closing_results": closing.map(|closing| closing.results.iter().map(result_json).collect::<Vec<_>>()),
        "stop": completed.stop,
        "run": completed.run.as_ref().map(|run| json!({
            "run_id": run.run_id,
            "state": word(run.state().as_str_name(), "RUN_STATE_"),
            "rounds": run.rounds,
        })),
        "messages": messages(completed.provider_messages.as_ref()),
    })
}

/// Whether every call of the turn gave a result that is no error.
pub(super) fn all_succeeded(completed: &pb::TurnCompleted) -> bool {
    completed.outcome() == pb::TurnOutcome::Completed
        && completed.results.iter().all(|result| !result.is_error)
}
