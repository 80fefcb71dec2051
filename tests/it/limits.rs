//! Every limit that a peer can reach: at it, and one above.
//!
//! Small values where the defaults would take long. Never tests a limit by its default alone.

use callgate_client::pb::v1 as pb;
use pb::connect_request::Body as Word;
use tonic::Code;

use super::support::executor::{Executor, again, hello, resuming, text_result};
use super::support::failure::{code, detail};
use super::support::orchestrator::{Orchestrator, call, code_of, result_of, text_of, turn};
use super::support::sidecar::{Setup, Sidecar};
use super::support::{set_up, soon, tools};

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

/// A whole request that is refused for a limit.
fn refused_by(status: &tonic::Status, name: &str, allowed: u64, actual: u64) {
    assert_eq!(code(status), "limit_exceeded");
    let limit = detail(status).limit.unwrap();
    assert_eq!(
        (limit.name.as_str(), limit.allowed, limit.actual),
        (name, allowed, actual)
    );
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

#[tokio::test]
async fn results_have_parts_metadata_and_errors_of_a_size() {
    let setup = Setup::default()
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
async fn definitions_have_a_size_in_every_part() {
    let setup = Setup::default()
        .set("limits.tool_name_bytes_max", 4)
        .set("limits.tool_description_bytes_max", 4)
        .set("limits.tool_annotations_bytes_max", 8)
        .set("limits.tool_version_bytes_max", 4)
        .set("limits.tool_services_max", 1)
        .set("limits.schema_bytes_max", 100)
        .set("limits.schema_depth_max", 3)
        .set("limits.schema_properties_max", 2);
    let sidecar = setup.start().await;
    let base = || pb::ToolDefinition {
        name: "t".to_owned(),
        description: "d".to_owned(),
        ..pb::ToolDefinition::default()
    };
    let schema = |text: &str| pb::ToolDefinition {
        parameters_json: text.to_owned().into(),
        ..base()
    };
    let described = |bytes: usize| {
        schema(&format!(
            r#"{{"type":"object","description":"{}"}}"#,
            "x".repeat(bytes - 34)
        ))
    };
    let rows = [
        (
            pb::ToolDefinition {
                name: "tttt".to_owned(),
                ..base()
            },
            pb::ToolDefinition {
                name: "ttttt".to_owned(),
                ..base()
            },
            "tool_name_invalid",
        ),
        (
            pb::ToolDefinition {
                description: "dddd".to_owned(),
                ..base()
            },
            pb::ToolDefinition {
                description: "ddddd".to_owned(),
                ..base()
            },
            "tool_definition_invalid",
        ),
        (
            pb::ToolDefinition {
                annotations_json: "{\"a\":10}".into(),
                ..base()
            },
            pb::ToolDefinition {
                annotations_json: "{\"a\":100}".into(),
                ..base()
            },
            "tool_definition_invalid",
        ),
        (
            pb::ToolDefinition {
                version: "1.23".to_owned(),
                ..base()
            },
            pb::ToolDefinition {
                version: "1.234".to_owned(),
                ..base()
            },
            "tool_definition_invalid",
        ),
        (
            pb::ToolDefinition {
                services: vec!["a".to_owned()],
                ..base()
            },
            pb::ToolDefinition {
                services: vec!["a".to_owned(), "b".to_owned()],
                ..base()
            },
            "tool_definition_invalid",
        ),
        (described(100), described(101), "schema_too_large"),
        (
            schema(r#"{"type":"object","properties":{"a":{"type":"string"}}}"#),
            schema(
                r#"{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}}}"#,
            ),
            "schema_too_deep",
        ),
        (
            schema(r#"{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"}}}"#),
            schema(
                r#"{"type":"object","properties":{"a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}}}"#,
            ),
            "schema_too_large",
        ),
    ];
    for (position, (at, above, expected)) in rows.into_iter().enumerate() {
        let executor = Executor::join(&sidecar, hello("at", [at])).await;
        let at = &executor.welcome.registrations[0];
        assert_eq!(at.error, None, "row {position}");
        executor.hang_up();
        let executor = Executor::join(&sidecar, hello("at", [above])).await;
        let above = &executor.welcome.registrations[0];
        let found = above.error.as_ref().map(|error| error.code.as_str());
        assert_eq!(found, Some(expected), "row {position}");
    }
}

#[tokio::test]
async fn registrations_have_a_number_of_tools() {
    let setup = Setup::default()
        .set("limits.tools_per_message_max", 2)
        .set("limits.tools_max", 3);
    let sidecar = setup.start().await;
    let list = |names: &[&str]| -> Vec<pb::ToolDefinition> {
        names
            .iter()
            .map(|name| tools::named(name, tools::echo()))
            .collect()
    };
    let mut greedy = Executor::open(&sidecar).await;
    greedy
        .say(Word::Hello(hello("greedy", list(&["a", "b", "c"]))))
        .await;
    let status = greedy.ended().await.1.unwrap();
    assert_eq!(status.code(), Code::InvalidArgument);
    refused_by(&status, "tools_per_message_max", 2, 3);
    let mut modest = Executor::join(&sidecar, hello("modest", list(&["a", "b"]))).await;
    let update = |names: &[&str]| {
        Word::ToolUpdate(pb::ToolUpdate {
            update_id: "u".to_owned(),
            upsert: list(names),
            remove: Vec::new(),
        })
    };
    modest.say(update(&["c", "d"])).await;
    let answer = modest
        .hear_some("the answer", |heard| {
            let pb::connect_response::Body::ToolUpdateResult(answer) = heard else {
                return None;
            };
            Some(answer.clone())
        })
        .await;
    assert_eq!(answer.registrations[0].error, None);
    let refused = answer.registrations[1].error.as_ref().unwrap();
    assert_eq!(refused.code, "tool_definition_invalid");
    modest.say(update(&["a", "b", "c"])).await;
    refused_by(
        &modest.ended().await.1.unwrap(),
        "tools_per_message_max",
        2,
        3,
    );
}

#[tokio::test]
async fn toolsets_have_a_number_and_a_number_of_entries() {
    let setup = Setup::default()
        .set("limits.toolsets_max", 2)
        .set("limits.toolset_entries_max", 2);
    let list = ["a", "b", "c"].map(|name| tools::named(name, tools::echo()));
    let (_sidecar, _executor, orchestrator) = set_up(setup, list).await;
    let mut registry = orchestrator.registry.clone();
    let put = |name: &str, include: &[&str]| pb::PutToolsetRequest {
        toolset: Some(pb::Toolset {
            name: name.to_owned(),
            include: include.iter().map(|&entry| entry.to_owned()).collect(),
            ..pb::Toolset::default()
        }),
    };
    registry.put_toolset(put("one", &["a", "b"])).await.unwrap();
    let status = registry
        .put_toolset(put("one", &["a", "b", "c"]))
        .await
        .unwrap_err();
    refused_by(&status, "toolset_entries_max", 2, 3);
    let copy = |target: &str, excluding: &[&str]| pb::CopyToolsetRequest {
        source: String::new(),
        target: target.to_owned(),
        excluding: excluding.iter().map(|&entry| entry.to_owned()).collect(),
    };
    let status = registry.copy_toolset(copy("two", &[])).await.unwrap_err();
    refused_by(&status, "toolset_entries_max", 2, 3);
    registry.copy_toolset(copy("two", &["c"])).await.unwrap();
    let status = registry.put_toolset(put("three", &[])).await.unwrap_err();
    refused_by(&status, "toolsets_max", 2, 3);
    let status = registry
        .copy_toolset(copy("three", &["c"]))
        .await
        .unwrap_err();
    refused_by(&status, "toolsets_max", 2, 3);
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

#[tokio::test]
async fn a_session_that_memory_has_let_go_keeps_its_ended_run() {
    let setup = Setup::default().set("limits.sessions_max", 1);
    let (_sidecar, _executor, orchestrator) = set_up(setup, []).await;
    let of = |session: &str, id: &str| pb::RunTurnRequest {
        session_id: session.to_owned(),
        ..turn(id, [])
    };
    orchestrator.run_to_end(of("first", "t1")).await;
    let end = pb::EndRunRequest {
        session_id: "first".to_owned(),
        run_id: String::new(),
    };
    orchestrator.turns.clone().end_run(end).await.unwrap();
    orchestrator.run_to_end(of("second", "t2")).await;
    let status = orchestrator.refused(of("first", "t3")).await;
    assert_eq!(code(&status), "run_not_active");
    let again = orchestrator.run_to_end(of("second", "t4")).await;
    assert_eq!(again.run.unwrap().rounds, 2);
}

#[tokio::test]
async fn ended_turns_have_a_size_in_memory() {
    let setup = Setup::default().set("limits.finished_turns_bytes_max", 1);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let request = turn("t", [call("c", "echo", "{}")]);
    // However large it is, whoever follows it gets its end.
    let mut events = orchestrator.run(request.clone()).await;
    let work = executor.work().await;
    executor.answer_text(&work, "kept").await;
    let completed = events.completed().await;
    orchestrator.run_to_end(turn("next", [])).await;
    let mut repeated = orchestrator.run(request).await;
    assert_eq!(repeated.completed().await, completed);
    assert!(repeated.snapshot.is_some());
}

#[tokio::test]
async fn tool_lists_have_a_number() {
    let setup = Setup::default().set("limits.tool_snapshots_max", 1);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let list = async || {
        let request = pb::ListToolsRequest::default();
        let listed = orchestrator
            .registry
            .clone()
            .list_tools(request)
            .await
            .unwrap();
        listed.into_inner().tool_snapshot_id
    };
    let older = list().await;
    executor
        .say(Word::ToolUpdate(pb::ToolUpdate {
            update_id: "u".to_owned(),
            upsert: vec![tools::write()],
            remove: Vec::new(),
        }))
        .await;
    executor.has_no_work().await;
    let newer = list().await;
    assert_ne!(older, newer);
    let of = |snapshot: &str| pb::RunTurnRequest {
        tool_snapshot_id: snapshot.to_owned(),
        ..turn("t", [call("c", "echo", "{}")])
    };
    assert_eq!(
        code(&orchestrator.refused(of(&older)).await),
        "snapshot_expired"
    );
    let mut events = orchestrator.run(of(&newer)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    events.completed().await;
}

#[tokio::test]
async fn messages_have_a_size() {
    let setup = Setup::default().set("limits.message_bytes_max", 100_000);
    let (_sidecar, _executor, orchestrator) = set_up(setup, []).await;
    let of = |bytes: usize| {
        let mut request = turn("t", []);
        request.model_message = vec![b'x'; bytes].into();
        let without = prost::Message::encoded_len(&request) - bytes;
        (request, without)
    };
    let overhead = of(99_900).1;
    let (at, _) = of(100_000 - overhead);
    let (above, _) = of(100_001 - overhead);
    let status = orchestrator.refused(above).await;
    // The codec refuses it before anybody has seen it, so there is no detail.
    assert_eq!(status.code(), Code::OutOfRange);
    orchestrator.run_to_end(at).await;
}

#[tokio::test]
async fn headers_have_a_size() {
    let setup = Setup::default().set("limits.header_bytes_max", 2_000);
    let (_sidecar, _executor, orchestrator) = set_up(setup, []).await;
    let ask = async |bytes: usize| {
        let mut request = tonic::Request::new(pb::GetServerInfoRequest {});
        let value = "x".repeat(bytes).parse().unwrap();
        request.metadata_mut().insert("x-large", value);
        soon(
            "an answer",
            orchestrator.server.clone().get_server_info(request),
        )
        .await
    };
    ask(1_000).await.unwrap();
    ask(2_000).await.unwrap_err();
    ask(1_000).await.unwrap();
}

#[tokio::test]
async fn connections_have_a_number() {
    let setup = Setup::default().set("limits.connections_max", 1);
    let sidecar: Sidecar = setup.start().await;
    let first = Orchestrator::connect(&sidecar).await;
    first.run_to_end(turn("t", [])).await;
    if let Some(second) = Orchestrator::try_connect(&sidecar).await {
        let status = second.refused(turn("u", [])).await;
        assert!(
            matches!(status.code(), Code::Unavailable | Code::Unknown),
            "{status:?}"
        );
    }
    first.run_to_end(turn("u", [])).await;
}
