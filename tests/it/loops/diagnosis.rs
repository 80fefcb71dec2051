//! A model's opinion, from a stub that stands for it.

use callgate_client::pb::v1 as pb;
use pb::turn_event::Body;

use super::same;
use super::stub::{Answer, Stub};
use crate::support::executor::Executor;
use crate::support::failure;
use crate::support::orchestrator::{Orchestrator, turn};
use crate::support::sidecar::{Setup, Sidecar, home, refuses_to_start};
use crate::support::{set_up, tools};

fn setup(stub: &Stub) -> Setup {
    Setup::default()
        .set("loop.diagnosis.endpoint", stub.address())
        .set("loop.diagnosis.model", "judge")
        .set("loop.diagnosis.after_rounds", 1)
        .set("loop.diagnosis.every_rounds", 1)
}

async fn asking(answers: Vec<Answer>) -> (Stub, Sidecar, Executor, Orchestrator) {
    let stub = Stub::start(answers).await;
    let (sidecar, executor, orchestrator) = set_up(setup(&stub), [tools::echo()]).await;
    (stub, sidecar, executor, orchestrator)
}

fn said(text: &str) -> Answer {
    Answer::Says(text.to_owned())
}

fn sure(confidence: &str) -> String {
    format!(
        "{{\"is_loop\": true, \"reason\": \"it reads in circles\", \"confidence\": {confidence}}}"
    )
}

/// A round without calls.
fn round(number: u32) -> pb::RunTurnRequest {
    turn(&format!("round{number}"), [])
}

#[tokio::test]
async fn a_sure_diagnosis_ends_the_run() {
    let prose = format!(
        "I looked at it closely.\n```json\n{}\n```\nGood luck!",
        sure("0.81")
    );
    let (_stub, _sidecar, _executor, orchestrator) = asking(vec![said(&prose)]).await;
    let mut events = orchestrator.run(round(1)).await;
    let completed = events.completed().await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::LoopDetected);
    assert_eq!(completed.run.unwrap().state(), pb::RunState::LoopDetected);
    let found = events.events.iter().find_map(|event| match &event.body {
        Some(Body::LoopDetected(found)) => Some(found.clone()),
        _ => None,
    });
    let found = found.unwrap();
    assert_eq!(found.detector(), pb::LoopDetector::Llm);
    assert_eq!(found.reason, "it reads in circles");
    assert_eq!(found.confidence, Some(0.81));
    assert_eq!(
        (found.call_ids.len(), found.period, found.repetitions),
        (0, 0, 0)
    );
    let status = orchestrator.refused(round(2)).await;
    assert_eq!(failure::code(&status), "run_not_active");
}

#[tokio::test]
async fn whatever_else_the_endpoint_says_is_no_loop() {
    let large = format!("{}{}", " ".repeat(300 << 10), sure("0.99"));
    let answers = vec![
        said(&sure("0.8")),
        said(&sure("NaN")),
        said("nothing that is JSON"),
        said("{\"is_loop\": false, \"confidence\": 1}"),
        said("{\"first\": \"object\"} {\"is_loop\": true, \"confidence\": 1}"),
        said(&large),
        Answer::Status(500),
        Answer::Status(401),
        Answer::Body(b"<html>".to_vec()),
        Answer::Body(b"{\"choices\": []}".to_vec()),
        Answer::Closes,
    ];
    let count = u32::try_from(answers.len()).unwrap();
    let (mut stub, _sidecar, _executor, orchestrator) = asking(answers).await;
    for number in 1..=count {
        let completed = orchestrator.run_to_end(round(number)).await;
        assert_eq!(completed.outcome(), pb::TurnOutcome::Completed, "{number}");
        stub.request().await;
    }
    // Nobody listens any more.
    drop(stub);
    let completed = orchestrator.run_to_end(round(count + 1)).await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::Completed);
}

#[tokio::test]
async fn an_endpoint_that_is_silent_is_not_waited_for() {
    let mut stub = Stub::start(vec![Answer::IsSilent]).await;
    let setup = setup(&stub).set("loop.diagnosis.timeout_ms", 100);
    let (_sidecar, _executor, orchestrator) = set_up(setup, []).await;
    let completed = orchestrator.run_to_end(round(1)).await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::Completed);
    stub.request().await;
}

#[tokio::test]
async fn the_model_is_shown_the_history_that_came_with_the_round() {
    let stub = Stub::start(vec![said("no")]).await;
    let with_key = setup(&stub)
        .set("loop.diagnosis.api_key_env", "JUDGE_KEY")
        .env("JUDGE_KEY", "s3cret");
    let mut stub = stub;
    let (sidecar, _executor, orchestrator) = set_up(with_key, []).await;
    let history = r#"[{"role":"user","content":"read it again"}]"#;
    let request = pb::RunTurnRequest {
        history_json: history.into(),
        ..round(1)
    };
    orchestrator.run_to_end(request).await;
    let asked = stub.request().await;
    let (head, body) = asked.split_once("\r\n\r\n").unwrap();
    assert!(
        head.starts_with("POST /v1/chat/completions HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(head.contains("authorization: Bearer s3cret"), "{head}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["model"], "judge");
    assert_eq!(body["messages"][1]["content"], history);
    assert!(!sidecar.log().contains("s3cret"), "{}", sidecar.log());
}

#[tokio::test]
async fn else_it_is_shown_what_the_run_called() {
    let (mut stub, _sidecar, mut executor, orchestrator) = asking(vec![said("no")]).await;
    let of_run = |request: pb::RunTurnRequest| pb::RunTurnRequest {
        run_id: String::new(),
        ..request
    };
    let mut events = orchestrator.run(of_run(same("r", "echo", 1))).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    events.completed().await;
    orchestrator
        .run_to_end(of_run(same("r", "nothing", 2)))
        .await;
    // What was told is written some time soon; a page of turns waits for it.
    let listed = pb::ListTurnsRequest::default();
    let mut turns = orchestrator.turns.clone();
    let is_written = async {
        loop {
            let page = turns.list_turns(listed.clone()).await.unwrap().into_inner();
            let ended = page
                .turns
                .iter()
                .filter(|turn| turn.state() == pb::TurnState::Completed);
            if ended.count() == 2 {
                return;
            }
        }
    };
    crate::support::soon("turns to be written", is_written).await;
    orchestrator.run_to_end(round(3)).await;
    let asked = stub.request().await;
    let (_, body) = asked.split_once("\r\n\r\n").unwrap();
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let journal = body["messages"][1]["content"].as_str().unwrap();
    let journal: serde_json::Value = serde_json::from_str(journal).unwrap();
    assert_eq!(
        journal,
        serde_json::json!([
            {"tool": "echo", "arguments": "{\"text\":\"x\"}", "outcome": "success"},
            {"tool": "nothing", "arguments": "{\"text\":\"x\"}", "outcome": "tool_not_found"},
        ])
    );
}

#[tokio::test]
async fn rounds_with_calls_and_rounds_too_soon_ask_nobody() {
    let mut stub = Stub::start(vec![said("no"), said("no")]).await;
    let setup = setup(&stub)
        .set("loop.diagnosis.after_rounds", 3)
        .set("loop.diagnosis.every_rounds", 2);
    let (_sidecar, _executor, orchestrator) = set_up(setup, []).await;
    orchestrator.run_to_end(round(1)).await;
    orchestrator.run_to_end(round(2)).await;
    let calling = turn(
        "calling",
        [crate::support::orchestrator::call("c", "none", "{}")],
    );
    orchestrator.run_to_end(calling).await;
    assert!(!stub.was_asked());
    orchestrator.run_to_end(round(4)).await;
    stub.request().await;
    orchestrator.run_to_end(round(5)).await;
    assert!(!stub.was_asked());
    orchestrator.run_to_end(round(6)).await;
    stub.request().await;
}

#[tokio::test]
async fn a_history_is_an_array_of_a_size() {
    let setup = Setup::default().set("limits.history_bytes_max", 10);
    let (_sidecar, _executor, orchestrator) = set_up(setup, []).await;
    let of = |text: &str, number: u32| pb::RunTurnRequest {
        history_json: text.to_owned().into(),
        ..round(number)
    };
    orchestrator.run_to_end(of("[12345678]", 1)).await;
    let status = orchestrator.refused(of("[123456789]", 2)).await;
    assert_eq!(failure::code(&status), "limit_exceeded");
    for text in ["{}", "[", "[1] 2", "[\"\\ud8\"]"] {
        let status = orchestrator.refused(of(text, 2)).await;
        assert_eq!(failure::code(&status), "invalid_request", "{text}");
    }
}

#[tokio::test]
async fn a_key_that_is_not_there_keeps_the_sidecar_from_starting() {
    let stub = Stub::start(Vec::new()).await;
    let home = home();
    let missing = home.path().join("no-key");
    for (key, value, problem) in [
        (
            "loop.diagnosis.api_key_env",
            "NOT_SET".to_owned(),
            "`NOT_SET` is not set",
        ),
        (
            "loop.diagnosis.api_key_file",
            missing.display().to_string(),
            "no-key",
        ),
    ] {
        let (code, log) = refuses_to_start(setup(&stub).set(key, value), home.path()).await;
        assert_ne!(code, Some(0));
        assert!(log.contains(problem), "{log}");
    }
}
