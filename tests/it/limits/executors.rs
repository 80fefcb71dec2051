//! How large and how many: executors, what they take and what they answer.
//!
//! Never tests a limit by its default alone.

use callgate_client::pb::v1 as pb;
use pb::connect_request::Body as Word;
use tonic::Code;

use super::refused_by;
use crate::support::executor::{Executor, again, hello, resuming, text_result};
use crate::support::orchestrator::{Orchestrator, call, code_of, result_of, text_of, turn};
use crate::support::sidecar::Setup;
use crate::support::{set_up, tools};

#[tokio::test]
async fn results_have_parts_metadata_and_errors_of_a_size() {
    let setup = Setup::default()
        .set("loop.enabled", false)
        .set("limits.result_parts_max", 2)
        .set("limits.result_metadata_bytes_max", 8)
        .set("limits.error_message_bytes_max", 5)
        .set("limits.error_detail_bytes_max", 3)
        .set("limits.json_depth_max", 2);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let mut round = 0;
    let mut run = async |result: pb::ToolResult| {
        round += 1;
        let request = turn(&format!("t{round}"), [call("c", "echo", "{}")]);
        let mut events = orchestrator.run(request).await;
        let work = executor.work().await;
        executor.answer(&work.execution, result).await;
        result_of(&events.completed().await, "c").clone()
    };
    let parts = |count: usize| pb::ToolResult {
        contents: vec![text_result("x").contents[0].clone(); count],
        ..pb::ToolResult::default()
    };
    assert_eq!(text_of(&run(parts(2)).await), "xx");
    let metadata = |text: &str| pb::ToolResult {
        metadata_json: text.to_owned().into(),
        ..pb::ToolResult::default()
    };
    assert!(!run(metadata("12345678")).await.is_error);
    let structured = |text: &str| pb::ToolResult {
        structured_json: text.to_owned().into(),
        ..pb::ToolResult::default()
    };
    assert!(!run(structured("[[1]]")).await.is_error);
    for above in [parts(3), metadata("123456789"), structured("[[[1]]]")] {
        assert_eq!(run(above).await.error.unwrap().code, "result_invalid");
    }
    let failed = pb::ToolResult {
        is_error: true,
        error: Some(pb::ToolError {
            code: "own".to_owned(),
            message_for_model: "12345é".to_owned(),
            detail: "123456".to_owned(),
            ..pb::ToolError::default()
        }),
        ..pb::ToolResult::default()
    };
    let error = run(failed).await.error.unwrap();
    assert_eq!(
        (error.message_for_model.as_str(), error.detail.as_str()),
        ("12345", "123")
    );
}

#[tokio::test]
async fn executors_have_a_number_and_those_who_come_back_are_not_counted_twice() {
    let setup = Setup::default().set("limits.executors_max", 1);
    let sidecar = setup.start().await;
    let first = Executor::join(&sidecar, resuming("box", "i", [tools::echo()])).await;
    let mut second = Executor::open(&sidecar).await;
    second.say(Word::Hello(hello("other", []))).await;
    let status = second.ended().await.1.unwrap();
    assert_eq!(status.code(), Code::ResourceExhausted);
    refused_by(&status, "executors_max", 1, 2);
    let token = first.welcome.resume_token.clone();
    first.hang_up();
    Executor::join(
        &sidecar,
        again(resuming("box", "i", [tools::echo()]), &token, []),
    )
    .await;
}

#[tokio::test]
async fn executors_offer_a_number_of_slots_and_list_a_number_of_executions() {
    let setup = Setup::default()
        .set("limits.executor_slots_max", 2)
        .set("limits.in_flight_max", 1);
    let (sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let calls = ["a", "b", "c"].map(|id| call(id, "echo", "{}"));
    let mut events = orchestrator.run(turn("t", calls)).await;
    let work = [executor.work().await, executor.work().await];
    executor.has_no_work().await;
    let capacity = pb::CapacityUpdate {
        max_concurrent_executions: 9,
    };
    executor.say(Word::CapacityUpdate(capacity)).await;
    executor.has_no_work().await;
    for request in &work {
        executor.answer_text(request, "").await;
    }
    let last = executor.work().await;
    executor.answer_text(&last, "").await;
    events.completed().await;
    let execution = |id: &str| {
        let execution = pb::ExecutionRef {
            execution_id: id.to_owned(),
            attempt: 1,
        };
        (execution, pb::InFlightState::Running)
    };
    let one = again(resuming("back", "i", []), "", [execution("a")]);
    Executor::join(&sidecar, one).await;
    let two = again(
        resuming("back", "i", []),
        "",
        [execution("a"), execution("b")],
    );
    let mut greedy = Executor::open(&sidecar).await;
    greedy.say(Word::Hello(two)).await;
    refused_by(&greedy.ended().await.1.unwrap(), "in_flight_max", 1, 2);
}

#[tokio::test]
async fn a_number_of_calls_waits_for_room() {
    let setup = Setup::default().set("limits.waiting_calls_max", 2);
    let sidecar = setup.start().await;
    let narrow = pb::Hello {
        max_concurrent_executions: 1,
        ..hello("box", [tools::echo()])
    };
    let mut executor = Executor::join(&sidecar, narrow).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let calls = ["a", "b", "c", "d"].map(|id| call(id, "echo", "{}"));
    let mut events = orchestrator.run(turn("t", calls)).await;
    for _ in 0..3 {
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
    }
    let completed = events.completed().await;
    for id in ["a", "b", "c"] {
        assert_eq!(code_of(&completed, id), "");
    }
    let refused = result_of(&completed, "d");
    let error = refused.error.as_ref().unwrap();
    assert_eq!(
        (error.code.as_str(), error.retryable),
        ("limit_exceeded", true)
    );
    assert_eq!(refused.effect(), pb::CallEffect::NotExecuted);
}

#[tokio::test]
async fn details_of_progress_that_are_too_large_are_left_out() {
    let setup = Setup::default()
        .set("limits.progress_details_bytes_max", 5)
        .set("limits.progress_message_bytes_max", 3);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    for (id, details, kept) in [("at", "12345", "12345"), ("above", "123456", "")] {
        let mut events = orchestrator.run(turn(id, [call("c", "echo", "{}")])).await;
        let work = executor.work().await;
        executor
            .say(Word::Progress(pb::ExecutionProgress {
                execution: work.execution.clone(),
                message: "abcd".to_owned(),
                fraction: Some(0.5),
                details_json: details.into(),
            }))
            .await;
        let pb::turn_event::Body::CallProgress(progress) = events
            .until(|body| matches!(body, pb::turn_event::Body::CallProgress(_)))
            .await
        else {
            panic!("no progress");
        };
        assert_eq!(
            (progress.message.as_str(), progress.fraction),
            ("abc", Some(0.5))
        );
        assert_eq!(progress.details_json, kept);
        executor.answer_text(&work, "").await;
        events.completed().await;
    }
}
