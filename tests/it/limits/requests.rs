//! How large and how many: what an orchestrator asks for.
//!
//! Never tests a limit by its default alone.

use callgate_client::pb::v1 as pb;
use tonic::Code;

use super::refused_by;
use crate::support::failure::code;
use crate::support::orchestrator::{call, code_of, turn};
use crate::support::sidecar::Setup;
use crate::support::{set_up, tools};

/// A call at a limit passes; one above it has its code.
async fn arguments(setup: Setup, at: &str, above: &str, expected: &str) {
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let calls = [call("at", "echo", at), call("above", "echo", above)];
    let mut events = orchestrator.run(turn("t", calls)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "at"), "");
    assert_eq!(code_of(&completed, "above"), expected);
}

#[tokio::test]
async fn arguments_have_a_size() {
    let setup = Setup::default().set("limits.args_bytes_max", 12);
    arguments(
        setup,
        r#"{"text":"a"}"#,
        r#"{"text":"ab"}"#,
        "json_too_large",
    )
    .await;
}

#[tokio::test]
async fn arguments_have_a_depth() {
    let setup = Setup::default().set("limits.json_depth_max", 3);
    arguments(setup, r#"{"a":[[]]}"#, r#"{"a":[[[]]]}"#, "json_too_deep").await;
}

#[tokio::test]
async fn arguments_have_a_number_of_values() {
    let setup = Setup::default().set("limits.json_nodes_max", 4);
    arguments(
        setup,
        r#"{"a":[1,2]}"#,
        r#"{"a":[1,2,3]}"#,
        "json_too_large",
    )
    .await;
}

#[tokio::test]
async fn turns_have_a_number_of_calls_and_a_size() {
    let setup = Setup::default()
        .set("limits.calls_max", 2)
        .set("limits.batch_args_bytes_max", 24)
        .set("limits.model_message_bytes_max", 3);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let calls = |ids: &[&str], arguments: &str| -> Vec<pb::ToolCall> {
        ids.iter().map(|id| call(id, "echo", arguments)).collect()
    };
    let mut at = turn("at", calls(&["a", "b"], r#"{"text":"a"}"#));
    at.model_message = "abc".into();
    let mut events = orchestrator.run(at).await;
    for _ in 0..2 {
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
    }
    events.completed().await;
    let status = orchestrator
        .refused(turn("t", calls(&["a", "b", "c"], "{}")))
        .await;
    assert_eq!(status.code(), Code::InvalidArgument);
    refused_by(&status, "calls_max", 2, 3);
    let status = orchestrator
        .refused(turn("t", calls(&["a", "b"], r#"{"text":"ab"}"#)))
        .await;
    refused_by(&status, "batch_args_bytes_max", 24, 26);
    let mut above = turn("t", []);
    above.model_message = "abcd".into();
    refused_by(
        &orchestrator.refused(above).await,
        "model_message_bytes_max",
        3,
        4,
    );
}

#[tokio::test]
async fn reasons_of_cancellations_have_a_length() {
    let setup = Setup::default().set("limits.reason_bytes_max", 3);
    let (_sidecar, _executor, orchestrator) = set_up(setup, []).await;
    let mut turns = orchestrator.turns.clone();
    let of = |reason: &str| pb::CancelCallRequest {
        turn_id: "t".to_owned(),
        call_id: "c".to_owned(),
        reason: reason.to_owned(),
        ..pb::CancelCallRequest::default()
    };
    assert_eq!(
        code(&turns.cancel_call(of("abc")).await.unwrap_err()),
        "not_found"
    );
    refused_by(
        &turns.cancel_call(of("abcd")).await.unwrap_err(),
        "reason_bytes_max",
        3,
        4,
    );
    let run = pb::CancelRunRequest {
        session_id: "s".to_owned(),
        reason: "abcd".to_owned(),
        ..pb::CancelRunRequest::default()
    };
    refused_by(
        &turns.cancel_run(run).await.unwrap_err(),
        "reason_bytes_max",
        3,
        4,
    );
}
