//! Executors that say what is wrong: hellos, results, words that nobody asked for.
//!
//! Never lets a wrong word spoil the right one that follows.

use callgate_client::pb::v1 as pb;
use pb::connect_request::Body as Word;
use pb::connect_response::Body as Heard;
use tonic::Code;

use super::{one, unknown_outcome};
use crate::support::executor::{Executor, hello, resuming, text_result};
use crate::support::failure::{code, detail};
use crate::support::orchestrator::{Orchestrator, code_of, result_of, text_of};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{set_up, tools};

fn invalid_result(completed: &pb::TurnCompleted) {
    let result = result_of(completed, "c");
    assert_eq!(code_of(completed, "c"), "result_invalid");
    assert_eq!(result.outcome(), pb::CallOutcome::Error);
    assert_eq!(result.effect(), pb::CallEffect::Executed);
}

#[tokio::test]
async fn a_result_for_the_call_of_another_executor_is_dropped() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let mut foreign = Executor::join(&sidecar, hello("other", [tools::echo()])).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    let work = executor.work().await;
    foreign.answer_text(&work, "mine").await;
    assert_eq!(foreign.acked().await, pb::ResultAckStatus::UnknownExecution);
    foreign.accept(&work).await;
    assert_eq!(foreign.noticed().await, "execution_unknown");
    assert_eq!(foreign.noticed().await, "execution_not_yours");
    executor.answer_text(&work, "right").await;
    assert_eq!(text_of(result_of(&events.completed().await, "c")), "right");
}

#[tokio::test]
async fn a_result_is_taken_once() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    let work = executor.work().await;
    executor.answer_text(&work, "first").await;
    assert_eq!(executor.acked().await, pb::ResultAckStatus::Recorded);
    executor.answer_text(&work, "second").await;
    assert_eq!(executor.acked().await, pb::ResultAckStatus::AlreadyRecorded);
    assert_eq!(text_of(result_of(&events.completed().await, "c")), "first");
    assert_eq!(
        text_of(&orchestrator.get_result("t", "c").await.unwrap()),
        "first"
    );
}

#[tokio::test]
async fn a_result_of_an_unknown_execution_or_attempt_is_dropped() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    let work = executor.work().await;
    let right = work.execution.clone().unwrap();
    let invented = pb::ExecutionRef {
        execution_id: "invented".to_owned(),
        ..right.clone()
    };
    let other_attempt = pb::ExecutionRef {
        attempt: 7,
        ..right
    };
    for wrong in [Some(invented), Some(other_attempt), None] {
        executor.answer(&wrong, text_result("wrong")).await;
        assert_eq!(
            executor.acked().await,
            pb::ResultAckStatus::UnknownExecution
        );
        assert_eq!(executor.noticed().await, "execution_unknown");
    }
    executor.answer_text(&work, "right").await;
    assert_eq!(text_of(result_of(&events.completed().await, "c")), "right");
}

#[tokio::test]
async fn a_result_that_is_too_large_is_cut_or_refused() {
    let setup = Setup::default().set("limits.result_bytes_max", 1000);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let picture = |bytes: usize| pb::ToolResult {
        contents: vec![pb::ContentPart {
            content: Some(pb::content_part::Content::Image(pb::Media {
                data: vec![0; bytes].into(),
                mime_type: "image/png".to_owned(),
            })),
        }],
        ..pb::ToolResult::default()
    };
    let mut run = async |id: &str, result: pb::ToolResult| {
        let mut events = orchestrator.run(one(id, "echo")).await;
        let work = executor.work().await;
        executor.answer(&work.execution, result).await;
        result_of(&events.completed().await, "c").clone()
    };
    let fits = run("t1", text_result(&"x".repeat(1000))).await;
    assert!(!fits.truncated && !fits.is_error);
    // 999 bytes end inside of a character.
    let cut = run("t2", text_result(&format!("x{}", "é".repeat(500)))).await;
    assert_eq!(text_of(&cut), format!("x{}", "é".repeat(499)));
    assert_eq!((cut.truncated, cut.original_bytes), (true, Some(1001)));
    assert!(!cut.is_error);
    // What says what it is counts, too.
    let at = 1000 - "image/png".len();
    assert!(!run("t3", picture(at)).await.is_error);
    let refused = run("t4", picture(at + 1)).await;
    let error = refused.error.unwrap();
    assert_eq!(error.code, "result_too_large");
    assert_eq!(refused.effect, pb::CallEffect::Executed as i32);
}

#[tokio::test]
async fn a_result_without_outcome_is_invalid() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut events = orchestrator.run(one("t", "echo")).await;
    let work = executor.work().await;
    executor
        .say(Word::Result(pb::ExecuteResult {
            execution: work.execution,
            outcome: None,
        }))
        .await;
    invalid_result(&events.completed().await);
    assert_eq!(executor.acked().await, pb::ResultAckStatus::Recorded);
}

#[tokio::test]
async fn a_cancellation_that_nobody_asked_for_is_invalid() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut events = orchestrator.run(one("t", "echo")).await;
    let work = executor.work().await;
    executor
        .answer_cancelled(&work.execution, pb::CallEffect::NotExecuted)
        .await;
    let completed = events.completed().await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::Completed);
    invalid_result(&completed);
}

#[tokio::test]
async fn a_result_with_broken_json_is_invalid() {
    let (_sidecar, mut executor, orchestrator) =
        set_up(Setup::default().set("loop.enabled", false), [tools::echo()]).await;
    let texts = [
        "{\"a\":NaN}",
        "{",
        "{\"a\":\"\\ud800\"}",
        "{\"a\":1,\"a\":2}",
        "1 2",
        "\u{feff}1",
    ];
    for (position, text) in texts.into_iter().enumerate() {
        let structured = pb::ToolResult {
            structured_json: text.to_owned().into(),
            ..pb::ToolResult::default()
        };
        let metadata = pb::ToolResult {
            metadata_json: text.to_owned().into(),
            ..pb::ToolResult::default()
        };
        let part = pb::ToolResult {
            contents: vec![pb::ContentPart {
                content: Some(pb::content_part::Content::ValueJson(text.to_owned().into())),
            }],
            ..pb::ToolResult::default()
        };
        for (kind, result) in [structured, metadata, part].into_iter().enumerate() {
            let mut events = orchestrator
                .run(one(&format!("t{position}-{kind}"), "echo"))
                .await;
            let work = executor.work().await;
            executor.answer(&work.execution, result).await;
            invalid_result(&events.completed().await);
        }
    }
}

#[tokio::test]
async fn an_error_keeps_a_code_of_the_executors_own_domain_only() {
    let (_sidecar, mut executor, orchestrator) =
        set_up(Setup::default().set("loop.enabled", false), [tools::echo()]).await;
    let rows = [
        ("disk_full", "disk_full"),
        ("tool_not_found", "tool_execution_failed"),
        ("tool_cancelled", "tool_execution_failed"),
        ("Disk full", "tool_execution_failed"),
        ("", "tool_execution_failed"),
    ];
    for (position, (sent, kept)) in rows.into_iter().enumerate() {
        let mut events = orchestrator.run(one(&format!("t{position}"), "echo")).await;
        let work = executor.work().await;
        let failed = pb::ToolResult {
            is_error: true,
            error: Some(pb::ToolError {
                code: sent.to_owned(),
                layer: pb::ErrorLayer::Store as i32,
                message_for_model: "é".repeat(4096),
                detail: "stack".to_owned(),
                ..pb::ToolError::default()
            }),
            ..pb::ToolResult::default()
        };
        executor.answer(&work.execution, failed).await;
        let completed = events.completed().await;
        let error = result_of(&completed, "c").error.clone().unwrap();
        assert_eq!(error.code, kept, "{sent}");
        assert_eq!(error.layer(), pb::ErrorLayer::Tool);
        assert_eq!(error.message_for_model, "é".repeat(2048));
        assert_eq!(error.detail, "stack");
    }
}

#[tokio::test]
async fn a_stream_begins_with_its_only_hello() {
    let sidecar = Setup::default()
        .set("stream.hello_timeout_ms", 200)
        .start()
        .await;
    let mut rude = Executor::open(&sidecar).await;
    rude.say(Word::Pong(pb::Pong { nonce: 1 })).await;
    let status = rude.ended().await.1.unwrap();
    assert_eq!(
        (status.code(), code(&status).as_str()),
        (Code::InvalidArgument, "hello_required")
    );
    let mut silent = Executor::open(&sidecar).await;
    let status = silent.ended().await.1.unwrap();
    assert_eq!(
        (status.code(), code(&status).as_str()),
        (Code::DeadlineExceeded, "hello_timeout")
    );
    let mut twice = Executor::join(&sidecar, hello("box", [])).await;
    twice.say(Word::Hello(hello("box", []))).await;
    let (heard, status) = twice.ended().await;
    let status = status.unwrap();
    assert_eq!(code(&status), "protocol_violation");
    let Some(Heard::GoAway(go_away)) = heard.last() else {
        panic!("no farewell: {heard:?}");
    };
    assert_eq!(go_away.reason(), pb::GoAwayReason::ProtocolViolation);
}

#[tokio::test]
async fn a_hello_that_cannot_be_taken_is_refused() {
    let sidecar = Sidecar::start().await;
    let refused = async |hello: pb::Hello| {
        let mut executor = Executor::open(&sidecar).await;
        executor.say(Word::Hello(hello)).await;
        executor.ended().await.1.unwrap()
    };
    let status = refused(hello("", [])).await;
    assert_eq!(code(&status), "invalid_request");
    assert_eq!(detail(&status).violations[0].field, "executor_name");
    let newer = pb::Hello {
        protocol: Some(pb::ProtocolRange { min: 2, max: 3 }),
        ..hello("box", [])
    };
    let status = refused(newer).await;
    assert_eq!(status.code(), Code::FailedPrecondition);
    assert_eq!(code(&status), "protocol_unsupported");
    assert_eq!(
        detail(&status).protocol,
        Some(pb::ProtocolRange { min: 1, max: 1 })
    );
    let narrow = pb::Hello {
        max_message_bytes: 65_535,
        ..hello("box", [])
    };
    assert_eq!(
        detail(&refused(narrow).await).violations[0].field,
        "max_message_bytes"
    );
}

#[tokio::test]
async fn a_refused_tool_does_not_refuse_the_others() {
    let (sidecar, _executor, _orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let bad = tools::with_schema(
        tools::named("bad", tools::echo()),
        pb::SchemaDialect::Core,
        "[]",
    );
    let list = [
        tools::echo(),
        tools::named(" ", tools::echo()),
        bad,
        tools::write(),
        tools::write(),
    ];
    let other = Executor::join(&sidecar, hello("other", list)).await;
    let answers: Vec<&str> = other
        .welcome
        .registrations
        .iter()
        .map(|registration| {
            registration
                .error
                .as_ref()
                .map_or("", |error| error.code.as_str())
        })
        .collect();
    let expected = [
        "tool_name_duplicate",
        "tool_name_empty",
        "schema_root_not_object",
        "",
        "tool_name_duplicate",
    ];
    assert_eq!(answers, expected);
}

#[tokio::test]
async fn an_unknown_word_is_noted_once_and_the_stream_goes_on() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    for _ in 0..3 {
        executor
            .say_message(pb::ConnectRequest { body: None })
            .await;
    }
    assert_eq!(executor.noticed().await, "body_unknown");
    let mut events = orchestrator.run(one("t", "echo")).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    events.completed().await;
    executor.hang_up_politely();
    let (heard, end) = executor.ended().await;
    assert!(end.is_none(), "{end:?}");
    let notices = heard.iter().filter(|word| matches!(word, Heard::Notice(_)));
    assert_eq!(notices.count(), 0);
}

#[tokio::test]
async fn a_flood_of_unknown_words_ends_the_stream() {
    let (sidecar, _executor, _orchestrator) = set_up(Setup::default(), []).await;
    for unknown in [None, Some(Word::Accepted(pb::ExecuteAccepted::default()))] {
        let mut executor = Executor::join(&sidecar, hello("noise", [])).await;
        for _ in 0..1_001 {
            executor
                .say_message(pb::ConnectRequest {
                    body: unknown.clone(),
                })
                .await;
        }
        let (heard, status) = executor.ended().await;
        assert_eq!(code(&status.unwrap()), "protocol_violation");
        let Some(Heard::GoAway(go_away)) = heard.last() else {
            panic!("no farewell");
        };
        assert_eq!(go_away.reason(), pb::GoAwayReason::ProtocolViolation);
    }
}

#[tokio::test]
async fn output_that_nobody_wants_or_that_is_too_large_is_dropped() {
    let setup = Setup::default()
        .set("limits.output_chunk_bytes_max", 10)
        .set("limits.output_window_bytes", 15);
    let sidecar = setup.start().await;
    let mut executor = Executor::join(&sidecar, resuming("box", "i", [tools::echo()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(one("t", "echo")).await;
    let work = executor.work().await;
    assert_eq!(work.output_credit_bytes, 0);
    executor.print(&work, 1, b"x").await;
    assert_eq!(executor.noticed().await, "output_without_credit");
    executor.answer_text(&work, "").await;
    events.completed().await;
    let mut request = one("u", "echo");
    request.view = Some(pb::TurnView {
        include_output: true,
        ..pb::TurnView::default()
    });
    let mut events = orchestrator.run(request).await;
    let work = executor.work().await;
    assert_eq!(work.output_credit_bytes, 15);
    executor.print(&work, 1, b"0123456789a").await;
    assert_eq!(executor.noticed().await, "output_too_large");
    executor.print(&work, 2, b"0123456789").await;
    executor.answer_text(&work, "").await;
    events.completed().await;
    let printed: Vec<String> = events
        .events
        .iter()
        .map(|event| crate::support::orchestrator::line(event.body.as_ref().unwrap()))
        .filter(|line| line.contains("output"))
        .collect();
    assert_eq!(printed, ["c: output 10"]);
}

#[tokio::test]
async fn a_message_beyond_the_agreed_size_costs_only_its_own_stream() {
    let setup = Setup::default()
        .set("limits.message_bytes_max", 100_000)
        .set("stream.resume_window_ms", 300);
    let sidecar = setup.start().await;
    let mut executor = Executor::join(&sidecar, hello("box", [tools::write()])).await;
    let mut other = Executor::join(&sidecar, hello("other", [tools::echo()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    let mut beside = orchestrator.run(one("u", "echo")).await;
    let work = executor.work().await;
    let alive = other.work().await;
    executor.answer_text(&work, &"x".repeat(200_000)).await;
    unknown_outcome(&events.completed().await, "tool_outcome_unknown");
    other.answer_text(&alive, "").await;
    assert_eq!(code_of(&beside.completed().await, "c"), "");
}
