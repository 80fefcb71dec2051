//! Turns over the wire: what a well-behaved orchestrator and executor see of every kind of call.
//!
//! Never looks into the sidecar: only at what it says.

use callgate_client::pb::v1 as pb;
use pb::turn_event::Body;

use super::support::executor::{Executor, hello, text_result};
use super::support::failure::{self, detail};
use super::support::orchestrator::{call, code_of, result_of, text_of, turn};
use super::support::sidecar::Setup;
use super::support::{set_up, soon, tools};

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
async fn empty_and_repeated_call_ids_refuse_the_turn() {
    let (_sidecar, _executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let empty = turn("t", [call("a", "echo", "{}"), call("", "echo", "{}")]);
    let status = orchestrator.refused(empty).await;
    assert_eq!(status.code(), tonic::Code::InvalidArgument);
    assert_eq!(failure::code(&status), "call_id_empty");
    assert_eq!(detail(&status).violations[0].field, "calls[1].call_id");
    let twice = turn("t", [call("a", "echo", "{}"), call("a", "echo", "{}")]);
    let status = orchestrator.refused(twice).await;
    assert_eq!(failure::code(&status), "call_id_duplicate");
    assert_eq!(detail(&status).violations[0].field, "calls[1].call_id");
    // Nothing was recorded: the id is free.
    assert!(orchestrator.get_turn("t").await.is_err());
}

#[tokio::test]
async fn an_empty_call_id_is_minted_where_that_is_configured() {
    let setup = Setup::default().set("turn.mint_call_ids", true);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let request = turn("t", [call("", "echo", "{}"), call("b", "echo", "{}")]);
    let mut events = orchestrator.run(request.clone()).await;
    let Body::TurnAccepted(accepted) = events.next().await else {
        panic!("not accepted first");
    };
    let minted = accepted.calls[0].call_id.clone();
    assert!(accepted.calls[0].minted && !minted.is_empty());
    assert!(!accepted.calls[1].minted);
    // The same request is the same turn, though its ids would be minted anew.
    let mut again = orchestrator.run(request).await;
    for _ in 0..2 {
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
    }
    let completed = events.completed().await;
    assert_eq!(completed.results[0].call_id, minted);
    assert_eq!(again.completed().await, completed);
}

#[tokio::test]
async fn the_same_turn_attaches_and_runs_nothing_twice() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let request = turn("t", [call("c", "write", "{}")]);
    let mut first = orchestrator.run(request.clone()).await;
    let work = executor.work().await;
    let mut second = orchestrator.run(request.clone()).await;
    executor.answer_text(&work, "once").await;
    let completed = first.completed().await;
    assert_eq!(second.completed().await, completed);
    assert_eq!(second.lines(), first.lines());
    // After its end, too.
    let mut third = orchestrator.run(request).await;
    assert_eq!(third.completed().await, completed);
    assert_eq!(third.lines(), first.lines());
}

#[tokio::test]
async fn the_same_turn_with_other_contents_is_a_conflict() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut first = orchestrator.run(turn("t", [call("c", "echo", "{}")])).await;
    let other = turn("t", [call("c", "echo", r#"{"text":"other"}"#)]);
    let status = orchestrator.refused(other.clone()).await;
    assert_eq!(status.code(), tonic::Code::AlreadyExists);
    assert_eq!(failure::code(&status), "call_conflict");
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    first.completed().await;
    assert_eq!(
        failure::code(&orchestrator.refused(other.clone()).await),
        "call_conflict"
    );
    // Of another session it is another turn.
    let elsewhere = pb::RunTurnRequest {
        session_id: "elsewhere".to_owned(),
        ..other
    };
    let mut events = orchestrator.run(elsewhere).await;
    let work = executor.work().await;
    assert_eq!(work.context.as_ref().unwrap().session_id, "elsewhere");
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
    // Now the id alone is not enough.
    let request = pb::GetTurnRequest {
        turn_id: "t".to_owned(),
        session_id: String::new(),
    };
    let status = orchestrator
        .turns
        .clone()
        .get_turn(request)
        .await
        .unwrap_err();
    assert_eq!(detail(&status).violations[0].field, "session_id");
}

#[tokio::test]
async fn a_provider_message_comes_in_and_its_tool_messages_go_out() {
    let dotted = tools::named("fs.read", tools::echo());
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [dotted]).await;
    let listed = orchestrator
        .registry
        .clone()
        .list_tools(pb::ListToolsRequest {
            format: pb::ProviderFormat::OpenaiChat as i32,
            ..pb::ListToolsRequest::default()
        })
        .await
        .unwrap()
        .into_inner();
    let export = listed.tool_export.unwrap();
    let alias = export.aliases[0].alias.clone();
    assert_eq!(export.aliases[0].tool, "fs.read");
    let message = format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{{"id":"call_1","type":"function",
            "function":{{"name":"{alias}","arguments":"{{\"text\":\"x\"}}"}}}}]}}"#
    );
    let request = pb::RunTurnRequest {
        session_id: "s".to_owned(),
        turn_id: "t".to_owned(),
        provider_message: Some(pb::ProviderMessage {
            format: pb::ProviderFormat::OpenaiChat as i32,
            message_json: message.clone().into(),
            finish_reason: "tool_calls".to_owned(),
        }),
        tool_snapshot_id: listed.tool_snapshot_id,
        ..pb::RunTurnRequest::default()
    };
    let mut events = orchestrator.run(request.clone()).await;
    let work = executor.work().await;
    assert_eq!(work.tool_name, "fs.read");
    executor.answer_text(&work, "line \"1\"").await;
    let completed = events.completed().await;
    let messages = completed.provider_messages.unwrap();
    assert_eq!(messages.messages_json.len(), 1);
    let appended: serde_json::Value = serde_json::from_slice(&messages.messages_json[0]).unwrap();
    assert_eq!(appended["role"], "tool");
    assert_eq!(appended["tool_call_id"], "call_1");
    assert_eq!(appended["content"], "line \"1\"");
    let stored = orchestrator.get_turn("t").await.unwrap();
    assert_eq!(stored.model_message, message);
    // Cut off by the provider: the last call is not executed, though its text parses.
    let mut cut = pb::RunTurnRequest {
        turn_id: "cut".to_owned(),
        ..request
    };
    cut.provider_message.as_mut().unwrap().finish_reason = "length".to_owned();
    let completed = orchestrator.run_to_end(cut).await;
    assert_eq!(code_of(&completed, "call_1"), "json_truncated");
}

#[tokio::test]
async fn a_broken_provider_message_refuses_the_turn() {
    let (_sidecar, _executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let of = |message: &str| pb::RunTurnRequest {
        session_id: "s".to_owned(),
        turn_id: "t".to_owned(),
        provider_message: Some(pb::ProviderMessage {
            format: pb::ProviderFormat::OpenaiChat as i32,
            message_json: message.to_owned().into(),
            finish_reason: String::new(),
        }),
        ..pb::RunTurnRequest::default()
    };
    for message in [
        "",
        "[]",
        "{",
        r#"{"role":"user"}"#,
        r#"{"tool_calls":[{"id":"a"}]}"#,
    ] {
        let status = orchestrator.refused(of(message)).await;
        assert_eq!(
            failure::code(&status),
            "provider_message_invalid",
            "{message}"
        );
    }
    let mut formless = of("{}");
    formless.provider_message.as_mut().unwrap().format = 0;
    let status = orchestrator.refused(formless).await;
    assert_eq!(failure::code(&status), "provider_message_invalid");
    let mut both = of("{}");
    both.calls = vec![call("c", "echo", "{}")];
    assert_eq!(
        failure::code(&orchestrator.refused(both).await),
        "invalid_request"
    );
}

#[tokio::test]
async fn a_provider_message_may_be_larger_than_a_named_model_message() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let text = "x".repeat(900 * 1024);
    let call = |id: &str| {
        format!(
            r#"{{"id":"{id}","type":"function","function":{{"name":"echo","arguments":"{{\"text\":\"{text}\"}}"}}}}"#
        )
    };
    let message = format!(
        r#"{{"role":"assistant","tool_calls":[{},{}]}}"#,
        call("a"),
        call("b")
    );
    let request = pb::RunTurnRequest {
        session_id: "s".to_owned(),
        turn_id: "t".to_owned(),
        provider_message: Some(pb::ProviderMessage {
            format: pb::ProviderFormat::OpenaiChat as i32,
            message_json: message.clone().into(),
            finish_reason: String::new(),
        }),
        ..pb::RunTurnRequest::default()
    };
    let mut events = orchestrator.run(request).await;
    for _ in 0..2 {
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
    }
    let completed = events.completed().await;
    assert!(completed.results.iter().all(|result| !result.is_error));
    let stored = orchestrator.get_turn("t").await.unwrap();
    assert_eq!(stored.model_message.len(), message.len());
}

#[tokio::test]
async fn a_call_outside_the_toolset_is_not_found() {
    let (_sidecar, mut executor, orchestrator) =
        set_up(Setup::default(), [tools::echo(), tools::write()]).await;
    let toolset = pb::Toolset {
        name: "readers".to_owned(),
        include: vec!["ec*".to_owned()],
        ..pb::Toolset::default()
    };
    let put = pb::PutToolsetRequest {
        toolset: Some(toolset),
    };
    orchestrator
        .registry
        .clone()
        .put_toolset(put)
        .await
        .unwrap();
    let mut request = turn("t", [call("in", "echo", "{}"), call("out", "write", "{}")]);
    request.toolset = "readers".to_owned();
    let mut events = orchestrator.run(request).await;
    let work = executor.work().await;
    assert_eq!(work.call_id, "in");
    executor.answer_text(&work, "").await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "out"), "tool_not_found");
    let mut unknown = turn("u", [call("c", "echo", "{}")]);
    unknown.toolset = "none".to_owned();
    let status = orchestrator.refused(unknown).await;
    assert_eq!(failure::code(&status), "not_found");
    assert_eq!(detail(&status).resource_kind, "toolset");
}

#[tokio::test]
async fn a_tool_that_changed_since_the_model_saw_it_does_not_run() {
    let (sidecar, _executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let listed = orchestrator
        .registry
        .clone()
        .list_tools(pb::ListToolsRequest::default())
        .await
        .unwrap()
        .into_inner();
    let changed = pb::ToolDefinition {
        description: "Does something else.".to_owned(),
        ..tools::echo()
    };
    let newer = Executor::join(&sidecar, hello("box", [changed])).await;
    assert_eq!(newer.welcome.registrations[0].generation, 2);
    let mut request = turn("t", [call("c", "echo", "{}")]);
    request.tool_snapshot_id = listed.tool_snapshot_id;
    let completed = orchestrator.run_to_end(request).await;
    assert_eq!(code_of(&completed, "c"), "tool_changed");
    let mut expired = turn("u", [call("c", "echo", "{}")]);
    expired.tool_snapshot_id = "none of ours".to_owned();
    let status = orchestrator.refused(expired).await;
    assert_eq!(status.code(), tonic::Code::FailedPrecondition);
    assert_eq!(failure::code(&status), "snapshot_expired");
}

#[tokio::test]
async fn a_tool_goes_back_to_its_earlier_definition_when_the_newer_one_leaves() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let changed = pb::ToolDefinition {
        description: "Does something else.".to_owned(),
        ..tools::echo()
    };
    let newer = Executor::join(&sidecar, hello("box", [changed])).await;
    assert_eq!(newer.welcome.registrations[0].generation, 2);
    let mut registry = orchestrator.registry.clone();
    let watched = soon(
        "the watch",
        registry.watch_tools(pb::WatchToolsRequest::default()),
    )
    .await;
    let mut watch = watched.unwrap().into_inner();
    newer.hang_up();
    let is_back = async {
        while let Some(message) = watch.message().await.unwrap() {
            if message.tools.iter().any(|tool| tool.generation == 3) {
                return;
            }
        }
    };
    soon("the earlier definition", is_back).await;
    // The name was never free for others.
    let thief = Executor::join(&sidecar, hello("thief", [tools::echo()])).await;
    let refused = thief.welcome.registrations[0].error.clone().unwrap();
    assert_eq!(refused.code, "tool_name_duplicate");
    let mut events = orchestrator.run(turn("t", [call("c", "echo", "{}")])).await;
    let work = executor.work().await;
    executor.answer_text(&work, "still here").await;
    let completed = events.completed().await;
    assert_eq!(text_of(result_of(&completed, "c")), "still here");
}

#[tokio::test]
async fn a_tool_that_changed_while_its_call_waited_does_not_run() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), []).await;
    let busy = pb::Hello {
        max_concurrent_executions: 1,
        ..hello("box", [tools::echo()])
    };
    executor.hang_up();
    executor = Executor::join(&sidecar, busy).await;
    let calls = [call("a", "echo", "{}"), call("b", "echo", "{}")];
    let mut events = orchestrator.run(turn("t", calls)).await;
    let work = executor.work().await;
    let changed = pb::ToolDefinition {
        description: "Does something else.".to_owned(),
        ..tools::echo()
    };
    executor
        .say(pb::connect_request::Body::ToolUpdate(pb::ToolUpdate {
            update_id: "u".to_owned(),
            upsert: vec![changed],
            remove: Vec::new(),
        }))
        .await;
    executor.answer_text(&work, "").await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "a"), "");
    assert_eq!(code_of(&completed, "b"), "tool_changed");
}

#[tokio::test]
async fn what_must_be_asked_is_not_run_without_an_approver() {
    let (_sidecar, mut executor, orchestrator) = set_up(
        Setup::default(),
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

#[tokio::test]
async fn a_stop_flag_ends_the_run_also_together_with_an_error() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    for (run, is_error) in [("good", false), ("bad", true)] {
        let of = |id: &str| pb::RunTurnRequest {
            run_id: run.to_owned(),
            ..turn(&format!("{run}-{id}"), [call("c", "echo", "{}")])
        };
        let mut events = orchestrator.run(of("1")).await;
        let work = executor.work().await;
        let last = pb::ToolResult {
            is_error,
            stop_flag: true,
            ..text_result("that was it")
        };
        executor.answer(&work.execution, last).await;
        let completed = events.completed().await;
        assert_eq!(completed.outcome(), pb::TurnOutcome::Completed);
        assert!(completed.stop);
        assert_eq!(completed.stop_reason(), pb::StopReason::Tool);
        assert_eq!(
            completed.run.as_ref().unwrap().state(),
            pb::RunState::Completed
        );
        assert_eq!(result_of(&completed, "c").is_error, is_error);
        let status = orchestrator.refused(of("2")).await;
        assert_eq!(status.code(), tonic::Code::FailedPrecondition);
        assert_eq!(failure::code(&status), "run_not_active");
    }
}

#[tokio::test]
async fn a_turn_that_outlives_its_run_says_that_the_loop_must_end() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut slow = orchestrator
        .run(turn("slow", [call("c", "echo", "{}")]))
        .await;
    let held = executor.work().await;
    let mut fast = orchestrator
        .run(turn("fast", [call("c", "echo", "{}")]))
        .await;
    let work = executor.work().await;
    let last = pb::ToolResult {
        stop_flag: true,
        ..text_result("that was it")
    };
    executor.answer(&work.execution, last).await;
    assert!(fast.completed().await.stop);
    executor.answer_text(&held, "late").await;
    let completed = slow.completed().await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::Completed);
    assert_eq!(text_of(result_of(&completed, "c")), "late");
    assert!(completed.stop, "{completed:?}");
    assert_eq!(completed.run.unwrap().state(), pb::RunState::Completed);
}

#[tokio::test]
async fn a_run_is_ended_once_nothing_of_it_runs() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let end = pb::EndRunRequest {
        session_id: "s".to_owned(),
        run_id: String::new(),
    };
    let mut turns = orchestrator.turns.clone();
    let status = turns.end_run(end.clone()).await.unwrap_err();
    assert_eq!(failure::code(&status), "not_found");
    let mut events = orchestrator.run(turn("t", [call("c", "echo", "{}")])).await;
    let work = executor.work().await;
    let status = turns.end_run(end.clone()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::FailedPrecondition);
    assert_eq!(failure::code(&status), "run_busy");
    executor.answer_text(&work, "").await;
    events.completed().await;
    let run = turns
        .end_run(end.clone())
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    assert_eq!((run.run_id.as_str(), run.rounds), ("s", 1));
    assert_eq!(run.state(), pb::RunState::Completed);
    let status = orchestrator.refused(turn("u", [])).await;
    assert_eq!(failure::code(&status), "run_not_active");
    // Ending or cancelling it again changes nothing.
    assert_eq!(
        turns.end_run(end).await.unwrap().into_inner().run.unwrap(),
        run
    );
    let cancel = pb::CancelRunRequest {
        session_id: "s".to_owned(),
        ..pb::CancelRunRequest::default()
    };
    assert_eq!(
        turns
            .cancel_run(cancel)
            .await
            .unwrap()
            .into_inner()
            .run
            .unwrap(),
        run
    );
}

#[tokio::test]
async fn a_cancelled_run_cancels_its_turns() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut events = orchestrator.run(turn("t", [call("c", "echo", "{}")])).await;
    let work = executor.work().await;
    let cancel = pb::CancelRunRequest {
        session_id: "s".to_owned(),
        reason: "enough".to_owned(),
        ..pb::CancelRunRequest::default()
    };
    let cancelled = orchestrator.turns.clone().cancel_run(cancel).await.unwrap();
    let run = cancelled.into_inner().run.unwrap();
    assert_eq!(run.state(), pb::RunState::Cancelled);
    assert_eq!(
        (run.end_code.as_str(), run.end_reason.as_str()),
        ("tool_cancelled", "enough")
    );
    let told = executor.told_to_stop().await;
    assert_eq!(told.reason(), pb::CancelReason::RunEnded);
    assert_eq!(told.message, "enough");
    executor
        .answer_cancelled(&work.execution, pb::CallEffect::NotExecuted)
        .await;
    let completed = events.completed().await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::Cancelled);
    assert_eq!(completed.run.unwrap().state(), pb::RunState::Cancelled);
}

#[tokio::test]
async fn a_turn_without_calls_counts_as_a_round() {
    let (_sidecar, _executor, orchestrator) = set_up(Setup::default(), []).await;
    for round in 1..=3 {
        let mut events = orchestrator.run(turn(&format!("t{round}"), [])).await;
        let completed = events.completed().await;
        assert_eq!(events.lines(), ["accepted 0", "completed"]);
        assert_eq!(completed.run.unwrap().rounds, round);
        let Some(Body::TurnAccepted(accepted)) = &events.events[0].body else {
            panic!("not accepted first");
        };
        assert_eq!((accepted.round, accepted.batch_id.as_str()), (round, ""));
    }
}

#[tokio::test]
async fn turns_are_shown_and_listed_newest_first() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    for id in ["t1", "t2"] {
        let mut request = turn(id, [call("c", "echo", r#"{"text":"x"}"#)]);
        request.model_message = format!("message of {id}").into();
        let mut events = orchestrator.run(request).await;
        let work = executor.work().await;
        executor.answer_text(&work, "seen").await;
        events.completed().await;
    }
    let mut open = orchestrator
        .run(turn("t3", [call("c", "echo", "{}")]))
        .await;
    let work = executor.work().await;
    let shown = orchestrator.get_turn("t2").await.unwrap();
    assert_eq!(shown.state(), pb::TurnState::Completed);
    assert_eq!(shown.model_message, "message of t2");
    assert_eq!(shown.calls[0].state(), pb::CallState::Success);
    assert_eq!(
        text_of(result_of(shown.completed.as_ref().unwrap(), "c")),
        "seen"
    );
    let list = |state: pb::TurnState, page_size: u32, page_token: String| {
        let request = pb::ListTurnsRequest {
            session_id: "s".to_owned(),
            state: state as i32,
            page_size,
            page_token,
            ..pb::ListTurnsRequest::default()
        };
        let mut turns = orchestrator.turns.clone();
        async move { turns.list_turns(request).await.unwrap().into_inner() }
    };
    let ids = |page: &pb::ListTurnsResponse| -> Vec<String> {
        page.turns.iter().map(|turn| turn.turn_id.clone()).collect()
    };
    let all = list(pb::TurnState::Unspecified, 0, String::new()).await;
    assert_eq!(ids(&all), ["t3", "t2", "t1"]);
    assert!(all.turns.iter().all(|turn| turn.model_message.is_empty()));
    let running = list(pb::TurnState::Running, 0, String::new()).await;
    assert_eq!(ids(&running), ["t3"]);
    let ended = list(pb::TurnState::Completed, 0, String::new()).await;
    assert_eq!(ids(&ended), ["t2", "t1"]);
    let mut paged = Vec::new();
    let mut token = String::new();
    for _ in 0..3 {
        let page = list(pb::TurnState::Unspecified, 1, token).await;
        paged.extend(ids(&page));
        token = page.next_page_token;
    }
    assert_eq!(paged, ["t3", "t2", "t1"]);
    assert_eq!(token, "");
    executor.answer_text(&work, "").await;
    open.completed().await;
}

#[tokio::test]
async fn a_result_is_shown_once_its_call_has_ended() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let calls = [call("a", "echo", "{}"), call("b", "echo", "{}")];
    let mut events = orchestrator.run(turn("t", calls)).await;
    let (first, second) = (executor.work().await, executor.work().await);
    executor.answer_text(&first, "early").await;
    events.until_state("a", pb::CallState::Success).await;
    assert_eq!(
        text_of(&orchestrator.get_result("t", "a").await.unwrap()),
        "early"
    );
    for (turn, call) in [("t", "b"), ("t", "none"), ("none", "a")] {
        let status = orchestrator.get_result(turn, call).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::NotFound, "{turn} {call}");
        assert_eq!(failure::code(&status), "not_found");
    }
    executor.answer_text(&second, "late").await;
    events.completed().await;
    assert_eq!(
        text_of(&orchestrator.get_result("t", "b").await.unwrap()),
        "late"
    );
}

#[tokio::test]
async fn results_are_cut_to_the_readers_message_and_kept_whole() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut request = turn("t", [call("a", "echo", "{}"), call("b", "echo", "{}")]);
    request.view = Some(pb::TurnView {
        max_message_bytes: 256 * 1024,
        ..pb::TurnView::default()
    });
    let mut events = orchestrator.run(request).await;
    let large = "é".repeat(400 * 1024);
    for _ in 0..2 {
        let work = executor.work().await;
        let text = if work.call_id == "a" {
            large.as_str()
        } else {
            "small"
        };
        executor.answer_text(&work, text).await;
    }
    let completed = events.completed().await;
    assert!(prost::Message::encoded_len(&completed) <= 256 * 1024);
    let cut = result_of(&completed, "a");
    assert!(cut.truncated);
    assert_eq!(cut.original_bytes, Some(large.len() as u64));
    assert!(large.starts_with(&text_of(cut)) && !text_of(cut).is_empty());
    let small = result_of(&completed, "b");
    assert_eq!((text_of(small).as_str(), small.truncated), ("small", false));
    let whole = orchestrator.get_result("t", "a").await.unwrap();
    assert!(!whole.truncated);
    assert_eq!(text_of(&whole), large);
}

#[tokio::test]
async fn contents_travel_where_the_reader_wants_them() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let rows = [
        (pb::ResultDelivery::Unspecified, false, true),
        (pb::ResultDelivery::AtEnd, false, true),
        (pb::ResultDelivery::AsCompleted, true, false),
        (pb::ResultDelivery::Both, true, true),
    ];
    for (position, (delivery, as_completed, at_end)) in rows.into_iter().enumerate() {
        let mut request = turn(&format!("t{position}"), [call("c", "echo", "{}")]);
        request.view = Some(pb::TurnView {
            result_delivery: delivery as i32,
            ..pb::TurnView::default()
        });
        let mut events = orchestrator.run(request).await;
        let work = executor.work().await;
        executor.answer_text(&work, "here").await;
        let Body::CallCompleted(ended) = events
            .until(|body| matches!(body, Body::CallCompleted(_)))
            .await
        else {
            panic!("no result");
        };
        let has = |result: &pb::CallResult| !result.contents.is_empty();
        assert_eq!(has(&ended.result.unwrap()), as_completed, "{delivery:?}");
        let completed = events.completed().await;
        assert_eq!(has(result_of(&completed, "c")), at_end, "{delivery:?}");
    }
}
