//! Executors that lie, stay silent, break off and come back: what becomes of their calls, and that
//! nobody else suffers.
//!
//! Never trusts an executor to be polite.

use callgate_client::pb::v1 as pb;
use pb::connect_request::Body as Word;
use pb::connect_response::Body as Heard;
use tonic::Code;

use super::support::executor::{Executor, again, hello, resuming, text_result};
use super::support::failure::{code, detail};
use super::support::orchestrator::{Orchestrator, call, code_of, result_of, text_of, turn};
use super::support::sidecar::{Setup, Sidecar};
use super::support::{set_up, tools};

/// One call of a tool, in a turn of its own.
fn one(turn_id: &str, tool: &str) -> pb::RunTurnRequest {
    turn(turn_id, [call("c", tool, "{}")])
}

fn invalid_result(completed: &pb::TurnCompleted) {
    let result = result_of(completed, "c");
    assert_eq!(code_of(completed, "c"), "result_invalid");
    assert_eq!(result.outcome(), pb::CallOutcome::Error);
    assert_eq!(result.effect(), pb::CallEffect::Executed);
}

fn unknown_outcome(completed: &pb::TurnCompleted, expected: &str) {
    let result = result_of(completed, "c");
    assert_eq!(code_of(completed, "c"), expected);
    assert_eq!(result.effect(), pb::CallEffect::Unknown);
    assert_eq!(
        result.not_executed_reason(),
        pb::NotExecutedReason::Unspecified
    );
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
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
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
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
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
async fn an_executor_that_answers_no_ping_is_given_up() {
    let setup = Setup::default()
        .set("stream.ping_interval_ms", 50)
        .set("stream.ping_misses", 2);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::write()]).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    let work = executor.work().await;
    executor.accept(&work).await;
    executor.answers_pings = false;
    let (heard, status) = executor.ended().await;
    let status = status.unwrap();
    assert_eq!(
        (status.code(), code(&status).as_str()),
        (Code::DeadlineExceeded, "heartbeat_missed")
    );
    let Some(Heard::GoAway(go_away)) = heard.last() else {
        panic!("no farewell: {heard:?}");
    };
    assert_eq!(go_away.reason(), pb::GoAwayReason::HeartbeatMissed);
    assert!(go_away.reconnect_max_ms > 0);
    unknown_outcome(&events.completed().await, "tool_outcome_unknown");
}

#[tokio::test]
async fn an_executor_that_answers_each_ping_late_stays() {
    let setup = Setup::default()
        .set("stream.ping_interval_ms", 30)
        .set("stream.ping_misses", 2);
    let (_sidecar, mut executor, _orchestrator) = set_up(setup, [tools::echo()]).await;
    executor.answers_pings = false;
    let mut last = executor.pinged().await;
    for _ in 0..10 {
        // Its answer is always one ping behind.
        let next = executor.pinged().await;
        executor.say(Word::Pong(pb::Pong { nonce: last })).await;
        last = next;
    }
}

#[tokio::test]
async fn an_executor_that_does_not_read_is_closed_and_holds_nobody_up() {
    let setup = Setup::default()
        .set("stream.ping_interval_ms", 50)
        .set("stream.ping_misses", 10_000)
        .set("stream.send_stall_ms", 300)
        .set("turn.queue_timeout_ms", 500);
    let sidecar = setup.start().await;
    let deaf = Executor::join(&sidecar, hello("deaf", [tools::write()])).await;
    let mut other = Executor::join(&sidecar, hello("other", [tools::echo()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(1_000_000));
    let mut stuck = Vec::new();
    for position in 0..6 {
        let calls = ["a", "b"].map(|id| call(id, "write", &large));
        stuck.push(
            orchestrator
                .run(turn(&format!("stuck{position}"), calls))
                .await,
        );
    }
    let mut events = orchestrator.run(one("t", "echo")).await;
    let work = other.work().await;
    other.answer_text(&work, "at once").await;
    assert_eq!(
        text_of(result_of(&events.completed().await, "c")),
        "at once"
    );
    let mut unknown = 0;
    for mut events in stuck {
        for result in events.completed().await.results {
            // What was still being recorded when the stream ended was never sent.
            let code = result.error.unwrap().code;
            assert!(
                ["tool_outcome_unknown", "tool_unavailable"].contains(&code.as_str()),
                "{code}"
            );
            unknown += u32::from(code == "tool_outcome_unknown");
        }
    }
    assert!(unknown > 0);
    let mut deaf = deaf;
    let status = deaf.ended().await.1.unwrap();
    assert_eq!(
        (status.code(), code(&status).as_str()),
        (Code::ResourceExhausted, "slow_reader")
    );
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
        .map(|event| super::support::orchestrator::line(event.body.as_ref().unwrap()))
        .filter(|line| line.contains("output"))
        .collect();
    assert_eq!(printed, ["c: output 10"]);
}

#[tokio::test]
async fn a_silent_call_times_out_and_keeps_its_slot() {
    let short = pb::ToolDefinition {
        timeout_ms: Some(200),
        ..tools::write()
    };
    let sidecar = Sidecar::start().await;
    let narrow = pb::Hello {
        max_concurrent_executions: 1,
        ..hello("box", [short, tools::echo()])
    };
    let mut executor = Executor::join(&sidecar, narrow).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    let work = executor.work().await;
    assert_eq!(work.timeout_ms, 200);
    executor.accept(&work).await;
    unknown_outcome(&events.completed().await, "tool_timeout");
    let told = executor.told_to_stop().await;
    assert_eq!(told.reason(), pb::CancelReason::Deadline);
    // The handler still runs as far as anybody knows.
    let mut events = orchestrator.run(one("u", "echo")).await;
    executor.has_no_work().await;
    executor.answer_text(&work, "too late").await;
    assert_eq!(executor.acked().await, pb::ResultAckStatus::Late);
    let next = executor.work().await;
    executor.answer_text(&next, "").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
    assert!(orchestrator.get_result("t", "c").await.unwrap().is_error);
}

#[tokio::test]
async fn a_call_lost_with_its_executor_is_sent_again_only_if_that_is_harmless() {
    for (tool, definition, repeats) in [
        ("write", tools::write(), false),
        ("put", tools::put(), true),
        ("echo", tools::echo(), true),
    ] {
        let sidecar = Sidecar::start().await;
        let mut first = Executor::join(&sidecar, hello("box", [definition.clone()])).await;
        let orchestrator = Orchestrator::connect(&sidecar).await;
        let mut events = orchestrator.run(one("t", tool)).await;
        let work = first.work().await;
        first.accept(&work).await;
        events.until_state("c", pb::CallState::Executing).await;
        let mut second = Executor::join(&sidecar, hello("box", [definition])).await;
        first.hang_up();
        if !repeats {
            unknown_outcome(&events.completed().await, "tool_outcome_unknown");
            second.has_no_work().await;
            continue;
        }
        let again = second.work().await;
        let (before, after) = (work.execution.unwrap(), again.execution.clone().unwrap());
        assert_eq!(after.execution_id, before.execution_id);
        assert_eq!((before.attempt, after.attempt), (1, 2));
        second.answer_text(&again, "second").await;
        let completed = events.completed().await;
        assert_eq!(text_of(result_of(&completed, "c")), "second");
        assert_eq!(result_of(&completed, "c").attempts, 2);
    }
}

/// A strict call at a resuming executor whose stream broke, before or after it said that it runs.
async fn broken_off(
    setup: Setup,
    accepts: bool,
) -> (
    Sidecar,
    Orchestrator,
    super::support::orchestrator::Following,
    pb::ExecuteRequest,
    String,
) {
    let sidecar = setup.start().await;
    let mut executor = Executor::join(&sidecar, resuming("box", "i", [tools::write()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    let work = executor.work().await;
    if accepts {
        executor.accept(&work).await;
        events.until_state("c", pb::CallState::Executing).await;
    }
    let token = executor.welcome.resume_token.clone();
    executor.hang_up();
    (sidecar, orchestrator, events, work, token)
}

#[tokio::test]
async fn an_executor_that_comes_back_with_a_call_goes_on_with_it() {
    let (sidecar, _orchestrator, mut events, work, token) =
        broken_off(Setup::default(), true).await;
    let listed = [(work.execution.clone().unwrap(), pb::InFlightState::Running)];
    let back = again(resuming("box", "i", [tools::write()]), &token, listed);
    let executor = Executor::join(&sidecar, back).await;
    let decision = &executor.welcome.in_flight[0];
    assert_eq!(decision.action(), pb::InFlightAction::Continue);
    assert_eq!(decision.execution, work.execution);
    executor.answer_text(&work, "went on").await;
    let completed = events.completed().await;
    assert_eq!(text_of(result_of(&completed, "c")), "went on");
    assert_eq!(result_of(&completed, "c").attempts, 1);
}

#[tokio::test]
async fn a_call_that_is_not_listed_never_arrived_and_is_sent_again() {
    let (sidecar, _orchestrator, mut events, work, token) =
        broken_off(Setup::default(), false).await;
    let back = again(resuming("box", "i", [tools::write()]), &token, []);
    let mut executor = Executor::join(&sidecar, back).await;
    let again = executor.work().await;
    assert_eq!(again.execution.as_ref().unwrap().attempt, 2);
    assert_eq!(again.call_id, work.call_id);
    executor.answer_text(&work, "from before").await;
    assert_eq!(executor.acked().await, pb::ResultAckStatus::Stale);
    executor.answer_text(&again, "once").await;
    assert_eq!(text_of(result_of(&events.completed().await, "c")), "once");
}

#[tokio::test]
async fn a_running_call_that_is_not_listed_any_more_has_an_unknown_outcome() {
    let (sidecar, _orchestrator, mut events, _work, token) =
        broken_off(Setup::default(), true).await;
    let back = again(resuming("box", "i", [tools::write()]), &token, []);
    let mut executor = Executor::join(&sidecar, back).await;
    unknown_outcome(&events.completed().await, "tool_outcome_unknown");
    executor.has_no_work().await;
}

#[tokio::test]
async fn a_held_result_is_asked_for() {
    for accepts in [false, true] {
        let (sidecar, _orchestrator, mut events, work, token) =
            broken_off(Setup::default(), accepts).await;
        let listed = [(work.execution.clone().unwrap(), pb::InFlightState::Finished)];
        let back = again(resuming("box", "i", [tools::write()]), &token, listed);
        let mut executor = Executor::join(&sidecar, back).await;
        assert_eq!(
            executor.welcome.in_flight[0].action(),
            pb::InFlightAction::SendResult
        );
        executor.answer_text(&work, "held").await;
        assert_eq!(text_of(result_of(&events.completed().await, "c")), "held");
        assert_eq!(executor.acked().await, pb::ResultAckStatus::Recorded);
    }
}

#[tokio::test]
async fn a_call_whose_executor_does_not_come_back_has_an_unknown_outcome() {
    for accepts in [false, true] {
        let setup = Setup::default().set("stream.resume_window_ms", 300);
        let (_sidecar, _orchestrator, mut events, _work, _token) = broken_off(setup, accepts).await;
        unknown_outcome(&events.completed().await, "tool_outcome_unknown");
    }
}

#[tokio::test]
async fn a_list_without_the_right_token_is_not_believed() {
    let (sidecar, _orchestrator, mut events, work, _token) =
        broken_off(Setup::default(), false).await;
    let listed = [(work.execution.clone().unwrap(), pb::InFlightState::Running)];
    let forged = again(resuming("box", "i", [tools::write()]), "guessed", listed);
    let mut executor = Executor::join(&sidecar, forged).await;
    assert_eq!(
        executor.welcome.in_flight[0].action(),
        pb::InFlightAction::Forget
    );
    unknown_outcome(&events.completed().await, "tool_outcome_unknown");
    executor.has_no_work().await;
}

#[tokio::test]
async fn a_listed_execution_that_nobody_knows_is_forgotten() {
    let sidecar = Sidecar::start().await;
    let first = Executor::join(&sidecar, resuming("box", "i", [tools::echo()])).await;
    let token = first.welcome.resume_token.clone();
    first.hang_up();
    let unknown = pb::ExecutionRef {
        execution_id: "long gone".to_owned(),
        attempt: 1,
    };
    let listed = [(unknown.clone(), pb::InFlightState::Running)];
    let back = again(resuming("box", "i", [tools::echo()]), &token, listed);
    let mut executor = Executor::join(&sidecar, back).await;
    let decision = &executor.welcome.in_flight[0];
    assert_eq!(decision.action(), pb::InFlightAction::Forget);
    assert_eq!(decision.execution, Some(unknown));
    executor.has_no_work().await;
}

#[tokio::test]
async fn the_newest_stream_of_a_process_wins() {
    let sidecar = Sidecar::start().await;
    let mut older = Executor::join(&sidecar, resuming("box", "i", [tools::echo()])).await;
    let mut newer = Executor::join(&sidecar, resuming("box", "i", [tools::echo()])).await;
    // Whatever the older one still says is not the newer one's word.
    older
        .say(Word::DrainRequest(pb::DrainRequest::default()))
        .await;
    let (heard, status) = older.ended().await;
    let status = status.unwrap();
    assert_eq!(
        (status.code(), code(&status).as_str()),
        (Code::Aborted, "superseded")
    );
    let Some(Heard::GoAway(go_away)) = heard.last() else {
        panic!("no farewell: {heard:?}");
    };
    assert_eq!(go_away.reason(), pb::GoAwayReason::Superseded);
    assert_eq!(go_away.reconnect_max_ms, 0);
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(one("t", "echo")).await;
    let work = newer.work().await;
    newer.answer_text(&work, "").await;
    events.completed().await;
}

#[tokio::test]
async fn instances_of_one_executor_share_the_load_by_free_slots() {
    let sidecar = Sidecar::start().await;
    let with_slots = |slots| pb::Hello {
        max_concurrent_executions: slots,
        ..hello("box", [tools::echo()])
    };
    let mut wide = Executor::join(&sidecar, with_slots(3)).await;
    let mut narrow = Executor::join(&sidecar, with_slots(1)).await;
    let registration = &narrow.welcome.registrations[0];
    assert_eq!(
        (registration.state(), registration.generation),
        (pb::RegistrationState::Active, 1)
    );
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let calls = ["a", "b", "c", "d", "e"].map(|id| call(id, "echo", "{}"));
    let mut events = orchestrator.run(turn("t", calls)).await;
    let mut at_wide = Vec::new();
    for _ in 0..3 {
        at_wide.push(wide.work().await);
    }
    let at_narrow = narrow.work().await;
    wide.has_no_work().await;
    narrow.has_no_work().await;
    // The fifth waits for the first slot that is free.
    narrow.answer_text(&at_narrow, "").await;
    let last = narrow.work().await;
    assert_eq!(last.call_id, "e");
    narrow.answer_text(&last, "").await;
    for work in at_wide {
        wide.answer_text(&work, "").await;
    }
    let completed = events.completed().await;
    assert!(completed.results.iter().all(|result| !result.is_error));
}

#[tokio::test]
async fn a_draining_executor_gets_nothing_new_and_finishes_what_it_has() {
    let sidecar = Sidecar::start().await;
    let mut leaving = Executor::join(&sidecar, hello("box", [tools::write()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let calls = [call("a", "write", "{}"), call("b", "write", "{}")];
    let mut events = orchestrator.run(turn("t", calls)).await;
    let runs = leaving.work().await;
    let queued = leaving.work().await;
    leaving.accept(&runs).await;
    leaving
        .say(Word::DrainRequest(pb::DrainRequest::default()))
        .await;
    leaving
        .hear_some("the drain", |heard| {
            matches!(heard, Heard::DrainStarted(_)).then_some(())
        })
        .await;
    let mut staying = Executor::join(&sidecar, hello("box", [tools::write()])).await;
    // What has not begun is given back, and goes to somebody else.
    leaving
        .say(Word::Abandoned(pb::ExecuteAbandoned {
            execution: queued.execution.clone(),
            message: String::new(),
        }))
        .await;
    let again = staying.work().await;
    assert_eq!(again.call_id, "b");
    assert_eq!(again.execution.as_ref().unwrap().attempt, 2);
    let mut more = orchestrator.run(one("u", "write")).await;
    let work = staying.work().await;
    leaving.answer_text(&runs, "finished").await;
    assert_eq!(leaving.acked().await, pb::ResultAckStatus::Recorded);
    // Pings are still answered, and do not make it take work again.
    leaving.has_no_work().await;
    staying.answer_text(&again, "").await;
    staying.answer_text(&work, "").await;
    more.completed().await;
    assert_eq!(
        text_of(result_of(&events.completed().await, "a")),
        "finished"
    );
    leaving.hang_up_politely();
    assert!(leaving.ended().await.1.is_none());
}

#[tokio::test]
async fn a_busy_executor_is_left_alone_and_another_one_asked() {
    let sidecar = Sidecar::start().await;
    let mut busy = Executor::join(&sidecar, hello("box", [tools::write()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    for (position, reason) in [
        pb::RejectReason::Busy,
        pb::RejectReason::Draining,
        pb::RejectReason::Unspecified,
    ]
    .into_iter()
    .enumerate()
    {
        let mut events = orchestrator
            .run(one(&format!("t{position}"), "write"))
            .await;
        let work = busy.work().await;
        let mut free = Executor::join(&sidecar, hello("box", [tools::write()])).await;
        busy.reject(&work, reason).await;
        let again = free.work().await;
        // Not always the second: the one that hung up last round may have been tried first.
        let attempt = |work: &pb::ExecuteRequest| work.execution.as_ref().unwrap().attempt;
        assert_eq!(attempt(&again), attempt(&work) + 1);
        free.answer_text(&again, "").await;
        assert_eq!(code_of(&events.completed().await, "c"), "");
        free.hang_up();
    }
}

#[tokio::test]
async fn the_only_executor_is_asked_again_after_its_pause() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    let work = executor.work().await;
    executor.reject(&work, pb::RejectReason::Busy).await;
    let again = executor.work().await;
    assert_eq!(again.execution.as_ref().unwrap().attempt, 2);
    executor.answer_text(&again, "").await;
    let completed = events.completed().await;
    // Long before the next ping, which comes after 5 000 ms.
    let timing = result_of(&completed, "c").timing.unwrap();
    assert!(
        timing.finished_at_ms - timing.received_at_ms < 3_000,
        "{timing:?}"
    );
}

#[tokio::test]
async fn a_call_that_is_rejected_for_good_ends() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let rows = [
        (pb::RejectReason::UnknownTool, "tool_changed"),
        (pb::RejectReason::BadArguments, "executor_protocol_error"),
        (pb::RejectReason::TooLarge, "limit_exceeded"),
    ];
    for (reason, expected) in rows {
        let mut events = orchestrator.run(one(expected, "write")).await;
        let work = executor.work().await;
        executor.reject(&work, reason).await;
        let completed = events.completed().await;
        assert_eq!(code_of(&completed, "c"), expected);
        assert_eq!(
            result_of(&completed, "c").effect(),
            pb::CallEffect::NotExecuted
        );
    }
}

#[tokio::test]
async fn arguments_larger_than_the_executors_message_are_not_sent() {
    let sidecar = Sidecar::start().await;
    let small = pb::Hello {
        max_message_bytes: 65_536,
        ..hello("box", [tools::write()])
    };
    let mut executor = Executor::join(&sidecar, small).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(65_536));
    let calls = [call("large", "write", &large), call("small", "write", "{}")];
    let mut events = orchestrator.run(turn("t", calls)).await;
    let work = executor.work().await;
    assert_eq!(work.call_id, "small");
    executor.answer_text(&work, "").await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "large"), "limit_exceeded");
    assert_eq!(
        result_of(&completed, "large").effect(),
        pb::CallEffect::NotExecuted
    );
}

#[tokio::test]
async fn a_call_that_is_not_accepted_in_time_counts_as_lost() {
    let setup = Setup::default().set("stream.accept_timeout_ms", 200);
    let sidecar = setup.start().await;
    let list = || [tools::write(), tools::echo()];
    let mut deaf = Executor::join(&sidecar, resuming("box", "deaf", list())).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut strict = orchestrator.run(one("t", "write")).await;
    deaf.work().await;
    unknown_outcome(&strict.completed().await, "tool_outcome_unknown");
    let mut harmless = orchestrator.run(one("u", "echo")).await;
    deaf.work().await;
    // Both slots stay taken, so the other instance has more room.
    let mut quick = Executor::join(&sidecar, resuming("box", "quick", list())).await;
    let again = quick.work().await;
    assert_eq!(again.execution.as_ref().unwrap().attempt, 2);
    quick.answer_text(&again, "quick").await;
    assert_eq!(
        text_of(result_of(&harmless.completed().await, "c")),
        "quick"
    );
}

#[tokio::test]
async fn calls_wait_for_room_and_for_capacity() {
    let sidecar = Sidecar::start().await;
    let narrow = pb::Hello {
        max_concurrent_executions: 0,
        ..hello("box", [tools::echo()])
    };
    let mut executor = Executor::join(&sidecar, narrow).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let calls = ["a", "b", "c"].map(|id| call(id, "echo", "{}"));
    let mut events = orchestrator.run(turn("t", calls)).await;
    // No size at all means one.
    let first = executor.work().await;
    executor.has_no_work().await;
    let capacity = |slots| {
        Word::CapacityUpdate(pb::CapacityUpdate {
            max_concurrent_executions: slots,
        })
    };
    executor.say(capacity(0)).await;
    executor.answer_text(&first, "").await;
    executor.has_no_work().await;
    executor.say(capacity(2)).await;
    let work = [executor.work().await, executor.work().await];
    for request in &work {
        executor.answer_text(request, "").await;
    }
    let completed = events.completed().await;
    assert!(completed.results.iter().all(|result| !result.is_error));
}

#[tokio::test]
async fn a_tool_runs_no_more_often_at_once_than_it_says() {
    let single = pb::ToolDefinition {
        max_concurrency: 1,
        ..tools::echo()
    };
    let (_sidecar, mut executor, orchestrator) =
        set_up(Setup::default(), [single, tools::write()]).await;
    let calls = [
        call("a", "echo", "{}"),
        call("b", "echo", "{}"),
        call("c", "write", "{}"),
    ];
    let mut events = orchestrator.run(turn("t", calls)).await;
    let work = [executor.work().await, executor.work().await];
    let mut ids: Vec<&str> = work
        .iter()
        .map(|request| request.call_id.as_str())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "c"]);
    executor.has_no_work().await;
    for request in &work {
        executor.answer_text(request, "").await;
    }
    let last = executor.work().await;
    assert_eq!(last.call_id, "b");
    executor.answer_text(&last, "").await;
    events.completed().await;
}

#[tokio::test]
async fn without_an_executor_a_call_ends_after_its_queue_time() {
    let setup = Setup::default().set("turn.queue_timeout_ms", 300);
    let (_sidecar, executor, orchestrator) = set_up(setup, [tools::write()]).await;
    executor.hang_up();
    let mut events = orchestrator.run(one("t", "write")).await;
    let completed = events.completed().await;
    let result = result_of(&completed, "c");
    assert_eq!(code_of(&completed, "c"), "tool_unavailable");
    assert_eq!(result.effect(), pb::CallEffect::NotExecuted);
    assert_eq!(
        result.not_executed_reason(),
        pb::NotExecutedReason::ToolUnavailable
    );
    assert_eq!(result.attempts, 0);
    assert!(result.error.as_ref().unwrap().retryable);
    let never_executing = events
        .lines()
        .iter()
        .all(|line| !line.contains("executing"));
    assert!(never_executing, "{:?}", events.lines());
}

#[tokio::test]
async fn a_call_waits_for_an_executor_that_comes_in_time() {
    let (sidecar, executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    executor.hang_up();
    let mut events = orchestrator.run(one("t", "write")).await;
    events.until_state("c", pb::CallState::Scheduled).await;
    let mut executor = Executor::join(&sidecar, hello("box", [tools::write()])).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
}

#[tokio::test]
async fn a_name_is_taken_while_anybody_runs_the_tool_and_free_afterwards() {
    let (sidecar, executor, _orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let thief = Executor::join(&sidecar, hello("thief", [tools::echo()])).await;
    let error = thief.welcome.registrations[0].error.as_ref().unwrap();
    assert_eq!(error.code, "tool_name_duplicate");
    thief.hang_up();
    let mut executor = executor;
    executor.hang_up_politely();
    assert!(executor.ended().await.1.is_none());
    let heir = Executor::join(&sidecar, hello("heir", [tools::echo()])).await;
    assert_eq!(
        heir.welcome.registrations[0].state(),
        pb::RegistrationState::Active
    );
    assert_eq!(heir.welcome.registrations[0].generation, 2);
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
