//! A batch of calls from its acceptance to its end: order, arguments, what runs beside what.
//!
//! Never lets one bad call spoil another.

use callgate_client::pb::v1 as pb;
use pb::turn_event::Body;

use crate::support::executor::text_result;
use crate::support::failure::{self, detail};
use crate::support::orchestrator::{call, code_of, result_of, text_of, turn};
use crate::support::sidecar::Setup;
use crate::support::{set_up, tools};

#[tokio::test]
async fn a_good_call_is_told_from_acceptance_to_its_end() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let request = turn("t", [call("c", "echo", r#"{"text":"hi"}"#)]);
    let mut events = orchestrator.run(request).await;
    let work = executor.work().await;
    assert_eq!(work.arguments_json, r#"{"text":"hi"}"#);
    executor.accept(&work).await;
    events.until_state("c", pb::CallState::Executing).await;
    executor.answer_text(&work, "hi").await;
    let completed = events.completed().await;
    assert_eq!(
        events.lines(),
        [
            "accepted 1",
            "c: validating > scheduled",
            "c: scheduled > executing",
            "c: executing > success",
            "c: result",
            "completed",
        ]
    );
    let result = result_of(&completed, "c");
    assert_eq!(text_of(result), "hi");
    assert_eq!(result.effect(), pb::CallEffect::Executed);
    assert_eq!(result.attempts, 1);
    assert!(!completed.stop);
    assert_eq!(
        completed.run.as_ref().unwrap().state(),
        pb::RunState::Active
    );
    assert_eq!(executor.acked().await, pb::ResultAckStatus::Recorded);
}

#[tokio::test]
async fn a_call_carries_its_context() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut request = turn("t", [call("c", "echo", r#"{"text":"hi"}"#)]);
    request.run_id = "r".to_owned();
    let mut events = orchestrator.run(request).await;
    let Body::TurnAccepted(accepted) = events.next().await else {
        panic!("not accepted first");
    };
    let work = executor.work().await;
    let context = work.context.clone().unwrap();
    assert_eq!(
        (context.session_id.as_str(), context.run_id.as_str()),
        ("s", "r")
    );
    assert_eq!(
        (context.turn_id.as_str(), work.call_id.as_str()),
        ("t", "c")
    );
    assert_eq!(context.batch_call_id, accepted.batch_id);
    assert_eq!(work.timeout_ms, 120_000);
    assert_eq!(
        work.tool_digest,
        executor.welcome.registrations[0].tool_digest
    );
    executor.answer_text(&work, "").await;
    let completed = events.completed().await;
    assert_eq!(
        result_of(&completed, "c").arguments_digest,
        work.arguments_digest
    );
}

#[tokio::test]
async fn results_stand_in_call_order_and_ends_in_the_order_of_completion() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let calls = ["a", "b", "c"].map(|id| call(id, "echo", "{}"));
    let mut events = orchestrator.run(turn("t", calls)).await;
    let mut work = Vec::new();
    for _ in 0..3 {
        work.push(executor.work().await);
    }
    for request in work.iter().rev() {
        executor.answer_text(request, &request.call_id).await;
    }
    let completed = events.completed().await;
    let ends: Vec<String> = events
        .lines()
        .into_iter()
        .filter(|line| line.ends_with("result"))
        .collect();
    assert_eq!(ends, ["c: result", "b: result", "a: result"]);
    let ids: Vec<&str> = completed
        .results
        .iter()
        .map(|result| result.call_id.as_str())
        .collect();
    assert_eq!(ids, ["a", "b", "c"]);
    for result in &completed.results {
        assert_eq!(text_of(result), result.call_id);
    }
}

#[tokio::test]
async fn the_largest_batch_runs_and_one_call_more_is_refused() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let calls =
        |count: usize| (0..count).map(|position| call(&format!("c{position}"), "echo", "{}"));
    let status = orchestrator.refused(turn("over", calls(129))).await;
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    let limit = detail(&status).limit.unwrap();
    assert_eq!(
        (limit.name.as_str(), limit.allowed, limit.actual),
        ("calls_max", 128, 129)
    );
    let mut events = orchestrator.run(turn("t", calls(128))).await;
    for _ in 0..128 {
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
    }
    let completed = events.completed().await;
    assert_eq!(completed.results.len(), 128);
    assert!(completed.results.iter().all(|result| !result.is_error));
}

#[tokio::test]
async fn a_call_with_bad_arguments_ends_with_its_own_error_and_spares_the_others() {
    let schema = r#"{"type":"object","properties":{"text":{"type":"string"},
        "n":{"type":"integer"},"list":{"type":"array","items":{"type":"string"}}},
        "required":["text"]}"#;
    let strict = r#"{"type":"object","properties":{"kind":{"enum":["a","b"]},
        "n":{"type":"integer","minimum":1},"id":{"type":"string","pattern":"^x"},
        "one":{"oneOf":[{"type":"string"},{"type":"null"}]}},"additionalProperties":false}"#;
    let core = tools::with_schema(tools::echo(), pb::SchemaDialect::Core, schema);
    let full = tools::with_schema(
        tools::named("full", tools::echo()),
        pb::SchemaDialect::JsonSchema202012,
        strict,
    );
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [core, full]).await;
    let deep = format!("{{\"text\":{}1{}}}", "[".repeat(70), "]".repeat(70));
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(1024 * 1024));
    let rows: Vec<(&str, &str, &str, &str)> = vec![
        ("json_invalid", "echo", "{\"text\":}", ""),
        ("json_invalid", "echo", "{\"text\":\"a\"} x", ""),
        ("json_not_object", "echo", "[1]", ""),
        ("json_truncated", "echo", "{\"text\":\"a", ""),
        (
            "json_duplicate_key",
            "echo",
            r#"{"text":"a","text":"b"}"#,
            "",
        ),
        ("json_invalid_unicode", "echo", r#"{"text":"\ud83d"}"#, ""),
        (
            "json_number_out_of_range",
            "echo",
            r#"{"text":"a","n":NaN}"#,
            "",
        ),
        (
            "json_number_out_of_range",
            "echo",
            r#"{"text":"a","n":1e400}"#,
            "",
        ),
        ("json_too_large", "echo", &large, ""),
        ("json_too_deep", "echo", &deep, ""),
        ("tool_argument_required", "echo", "{}", "$.text"),
        ("tool_argument_required", "echo", "", "$.text"),
        (
            "tool_argument_type_mismatch",
            "echo",
            r#"{"text":1}"#,
            "$.text",
        ),
        (
            "tool_argument_type_mismatch",
            "echo",
            r#"{"text":"a","n":1.5}"#,
            "$.n",
        ),
        (
            "tool_argument_type_mismatch",
            "echo",
            r#"{"text":"a","list":["a",1]}"#,
            "$.list[1]",
        ),
        ("tool_argument_enum", "full", r#"{"kind":"c"}"#, "$.kind"),
        ("tool_argument_range", "full", r#"{"n":0}"#, "$.n"),
        ("tool_argument_pattern", "full", r#"{"id":"y"}"#, "$.id"),
        ("tool_argument_unknown", "full", r#"{"other":1}"#, "$.other"),
        ("tool_argument_invalid", "full", r#"{"one":1}"#, "$.one"),
        ("tool_not_found", "constructor", "{}", ""),
        ("tool_not_found", "no such tool", "{}", ""),
    ];
    let mut calls: Vec<pb::ToolCall> = rows
        .iter()
        .enumerate()
        .map(|(position, (_, tool, arguments, _))| call(&format!("c{position}"), tool, arguments))
        .collect();
    calls.push(pb::ToolCall {
        truncated: true,
        ..call("cut", "echo", r#"{"text":"a"}"#)
    });
    calls.push(call("good", "echo", r#"{"text":"a","n":4475.0}"#));
    let mut events = orchestrator.run(turn("t", calls)).await;
    let work = executor.work().await;
    assert_eq!(work.call_id, "good");
    executor.answer_text(&work, "fine").await;
    let completed = events.completed().await;
    for (position, (code, tool, arguments, path)) in rows.iter().enumerate() {
        let result = result_of(&completed, &format!("c{position}"));
        let error = result.error.as_ref().unwrap();
        let shown: String = arguments.chars().take(60).collect();
        assert_eq!(
            (error.code.as_str(), result.tool.as_str()),
            (*code, *tool),
            "{shown}"
        );
        if !path.is_empty() {
            assert_eq!(error.path, *path, "{shown}");
        }
        assert_eq!(result.outcome(), pb::CallOutcome::Error);
        assert_eq!(result.effect(), pb::CallEffect::NotExecuted);
        assert_eq!(result.attempts, 0);
        let expected = match *code {
            "tool_not_found" => pb::NotExecutedReason::NotFound,
            _ => pb::NotExecutedReason::InvalidCall,
        };
        assert_eq!(result.not_executed_reason(), expected);
    }
    assert_eq!(code_of(&completed, "cut"), "json_truncated");
    assert_eq!(code_of(&completed, "good"), "");
}

#[tokio::test]
async fn arguments_arrive_digit_for_digit_in_dispatch_form() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let rows = [
        (
            r#"{"id":9223372036854775807}"#,
            r#"{"id":9223372036854775807}"#,
        ),
        (
            r#"{ "n" : 123456789012345678901234567890 , "a" : 1.50 }"#,
            r#"{"a":1.50,"n":123456789012345678901234567890}"#,
        ),
        (
            r#"{"z":1e0,"__proto__":{"b":2,"a":1}}"#,
            r#"{"__proto__":{"a":1,"b":2},"z":1e0}"#,
        ),
        ("", "{}"),
    ];
    let calls = rows
        .iter()
        .enumerate()
        .map(|(position, (sent, _))| call(&format!("c{position}"), "echo", sent));
    let mut events = orchestrator.run(turn("t", calls)).await;
    for (_, arrives) in rows {
        let work = executor.work().await;
        assert_eq!(work.arguments_json, arrives);
        executor.answer_text(&work, "").await;
    }
    events.completed().await;
}

#[tokio::test]
async fn what_must_be_asked_is_not_run_without_an_approver() {
    let (_sidecar, mut executor, orchestrator) = set_up(
        Setup::default().set("approvals.approvers", "none"),
        [tools::echo(), tools::edit(), tools::erase()],
    )
    .await;
    let calls = [
        call("edit", "edit", "{}"),
        call("erase", "erase", "{}"),
        call("bad", "erase", "{"),
        call("echo", "echo", "{}"),
    ];
    let mut events = orchestrator.run(turn("t", calls)).await;
    let work = executor.work().await;
    assert_eq!(work.call_id, "echo");
    executor.answer_text(&work, "").await;
    let completed = events.completed().await;
    for id in ["edit", "erase"] {
        let result = result_of(&completed, id);
        let error = result.error.as_ref().unwrap();
        assert_eq!(error.code, "approval_unavailable");
        assert_eq!(error.layer(), pb::ErrorLayer::Permission);
        let reason = result.not_executed_reason();
        assert_eq!(reason, pb::NotExecutedReason::ApprovalUnavailable);
    }
    assert_eq!(code_of(&completed, "bad"), "json_truncated");
}

#[tokio::test]
async fn an_exclusive_call_runs_alone() {
    let alone = pb::ToolDefinition {
        exclusive: true,
        ..tools::named("alone", tools::echo())
    };
    let (_sidecar, mut executor, orchestrator) =
        set_up(Setup::default(), [tools::echo(), alone]).await;
    let calls = [
        call("a", "echo", "{}"),
        call("b", "alone", "{}"),
        call("c", "echo", "{}"),
        call("d", "echo", "{}"),
    ];
    let mut events = orchestrator.run(turn("t", calls)).await;
    // Each time everything that may run is there before anything is answered.
    for expected in [vec!["a"], vec!["b"], vec!["c", "d"]] {
        let mut work = Vec::new();
        for _ in 0..expected.len() {
            work.push(executor.work().await);
        }
        let ids: Vec<&str> = work
            .iter()
            .map(|request| request.call_id.as_str())
            .collect();
        assert_eq!(ids, expected);
        for request in &work {
            executor.answer_text(request, "").await;
        }
    }
    let completed = events.completed().await;
    assert_eq!(completed.results.len(), 4);
}

#[tokio::test]
async fn no_more_calls_than_max_parallel_run_at_once() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let calls = ["a", "b", "c", "d", "e"].map(|id| call(id, "echo", "{}"));
    let mut request = turn("t", calls);
    request.max_parallel = Some(2);
    let mut events = orchestrator.run(request).await;
    let mut running = std::collections::VecDeque::new();
    running.push_back(executor.work().await);
    running.push_back(executor.work().await);
    for expected in ["c", "d", "e"] {
        executor
            .answer_text(&running.pop_front().unwrap(), "")
            .await;
        let next = executor.work().await;
        assert_eq!(next.call_id, expected);
        running.push_back(next);
    }
    for request in running {
        executor.answer_text(&request, "").await;
    }
    let completed = events.completed().await;
    assert!(completed.results.iter().all(|result| !result.is_error));
    let mut none = turn("u", [call("c", "echo", "{}")]);
    none.max_parallel = Some(0);
    assert_eq!(
        failure::code(&orchestrator.refused(none).await),
        "invalid_request"
    );
}

#[tokio::test]
async fn a_tool_that_fails_lets_the_next_one_of_a_narrow_turn_start() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut request = turn("t", ["a", "b"].map(|id| call(id, "echo", "{}")));
    request.max_parallel = Some(1);
    let mut events = orchestrator.run(request).await;
    let work = executor.work().await;
    let failed = pb::ToolResult {
        is_error: true,
        ..text_result("no")
    };
    executor.answer(&work.execution, failed).await;
    let work = executor.work().await;
    executor.answer_text(&work, "yes").await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "a"), "tool_execution_failed");
    assert_eq!(code_of(&completed, "b"), "");
}
