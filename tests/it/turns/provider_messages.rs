//! Turns that come as a provider's message and go back as its tool messages.
//!
//! Never talks to a provider.

use callgate_client::pb::v1 as pb;

use crate::support::approver::{Approver, choose};
use crate::support::failure;
use crate::support::orchestrator::{call, code_of};
use crate::support::sidecar::Setup;
use crate::support::{set_up, tools};

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
async fn a_refused_batch_goes_back_to_the_model_with_a_message_for_every_call() {
    let all = [tools::echo(), tools::erase()];
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), all).await;
    let approver = Approver::connect(&sidecar).await;
    let call = |id: &str, tool: &str| {
        format!(
            r#"{{"id":"{id}","type":"function","function":{{"name":"{tool}","arguments":""}}}}"#
        )
    };
    let message = format!(
        r#"{{"role":"assistant","content":null,"tool_calls":[{},{},{}]}}"#,
        call("one", "echo"),
        call("two", "erase"),
        call("three", "nothing")
    );
    let request = pb::RunTurnRequest {
        session_id: "s".to_owned(),
        turn_id: "t".to_owned(),
        provider_message: Some(pb::ProviderMessage {
            format: pb::ProviderFormat::OpenaiChat as i32,
            message_json: message.into(),
            finish_reason: "tool_calls".to_owned(),
        }),
        ..pb::RunTurnRequest::default()
    };
    let mut events = orchestrator.run(request).await;
    events
        .until(|body| matches!(body, pb::turn_event::Body::TurnSuspended(_)))
        .await;
    let deny = choose(&approver.only().await, pb::ApprovalChoice::Deny);
    approver.decide(deny).await;
    let completed = events.completed().await;
    let messages = completed.provider_messages.unwrap().messages_json;
    let answered: Vec<_> = messages
        .iter()
        .map(|message| {
            let message: serde_json::Value = serde_json::from_slice(message).unwrap();
            assert_eq!(message["role"], "tool");
            assert!(!message["content"].as_str().unwrap().is_empty());
            message["tool_call_id"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(answered, ["one", "two", "three"]);
    executor.has_no_work().await;
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
