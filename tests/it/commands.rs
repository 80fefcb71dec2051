//! Commands against a sidecar that serves.
//!
//! What they say without one stands in `cli`. Never waits for time to pass: only for lines.

use std::process::Stdio;

use callgate_client::pb::v1 as pb;
use pb::connect_request::Body as Word;
use pb::connect_response::Body as Heard;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::support::executor::{Executor, hello, resuming};
use super::support::orchestrator::{Orchestrator, call, turn};
use super::support::sidecar::{Setup, Sidecar};
use super::support::{set_up, soon, tools};

/// The program as a client of this sidecar.
fn callgate(sidecar: &Sidecar, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_callgate"));
    command
        .args(arguments)
        .env_clear()
        .env("HOME", sidecar.home())
        .env(
            "CALLGATE_ENDPOINT",
            format!("unix://{}", sidecar.socket().display()),
        )
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

/// The state that `callgate tools` tells of the tool, as text and as JSON alike.
async fn told_state(sidecar: &Sidecar, tool: &str) -> String {
    let run = callgate(sidecar, &["tools", "--json"]).output();
    let output = soon("the list", run).await.unwrap();
    let lines = String::from_utf8(output.stdout).unwrap();
    let listed = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .find(|listed| listed["name"] == tool);
    let state = listed.unwrap()["state"].as_str().unwrap().to_owned();
    let run = callgate(sidecar, &["tools"]).output();
    let output = soon("the table", run).await.unwrap();
    let table = String::from_utf8(output.stdout).unwrap();
    let mut rows = table.lines().map(|row| row.split_whitespace());
    let row: Vec<&str> = rows
        .find(|row| row.clone().next() == Some(tool))
        .unwrap()
        .collect();
    assert_eq!(row[3], state, "{table}");
    state
}

#[tokio::test]
async fn tools_are_told_to_be_full_or_draining() {
    let sidecar = Sidecar::start().await;
    let narrow = pb::Hello {
        max_concurrent_executions: 1,
        ..hello("box", [tools::echo()])
    };
    let mut executor = Executor::join(&sidecar, narrow).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    assert_eq!(told_state(&sidecar, "echo").await, "active");
    let mut events = orchestrator.run(turn("t", [call("c", "echo", "{}")])).await;
    let work = executor.work().await;
    assert_eq!(told_state(&sidecar, "echo").await, "full");
    // A tool is listed as long as somebody who runs it may come back.
    let other = Executor::join(&sidecar, resuming("box", "other", [tools::echo()])).await;
    other.hang_up();
    let mut registry = orchestrator.registry.clone();
    let is_awaited = async {
        loop {
            let request = pb::ListExecutorsRequest::default();
            let listed = registry.list_executors(request).await.unwrap().into_inner();
            let mut states = listed.executors.iter().map(pb::ExecutorInfo::state);
            if states.any(|state| state == pb::ExecutorState::Reconnecting) {
                return;
            }
        }
    };
    soon("the other executor to be awaited", is_awaited).await;
    assert_eq!(told_state(&sidecar, "echo").await, "full");
    executor
        .say(Word::DrainRequest(pb::DrainRequest::default()))
        .await;
    executor
        .hear_some("the drain", |heard| {
            matches!(heard, Heard::DrainStarted(_)).then_some(())
        })
        .await;
    assert_eq!(told_state(&sidecar, "echo").await, "draining");
    executor.answer_text(&work, "").await;
    events.completed().await;
}

#[tokio::test]
async fn a_credential_that_may_not_see_executors_is_told_the_tools_all_the_same() {
    let setup = Setup::default().set("server.tcp", "127.0.0.1:0");
    let (sidecar, _executor, _orchestrator) = set_up(setup, [tools::echo()]).await;
    let (endpoint, token) = (sidecar.tcp(), sidecar.token("orchestrator"));
    let arguments = ["tools", "--endpoint", &endpoint, "--token", &token];
    let output = soon("the table", callgate(&sidecar, &arguments).output())
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(String::from_utf8(output.stdout).unwrap().contains("active"));
}

#[tokio::test]
async fn a_call_that_waits_says_what_for() {
    let (sidecar, mut executor, _orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let full = pb::CapacityUpdate {
        max_concurrent_executions: 0,
    };
    executor.say(Word::CapacityUpdate(full)).await;
    executor.has_no_work().await;
    let mut waiting = callgate(&sidecar, &["call", "echo", "{}"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(waiting.stderr.take().unwrap()).lines();
    let line = soon("a word of explanation", lines.next_line()).await;
    assert_eq!(
        line.unwrap().unwrap(),
        "callgate: waiting for an executor to take `echo`"
    );
    let room = pb::CapacityUpdate {
        max_concurrent_executions: 1,
    };
    executor.say(Word::CapacityUpdate(room)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    let output = soon("the result", waiting.wait_with_output())
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "done\n");
    // One line is enough.
    assert_eq!(soon("the end", lines.next_line()).await.unwrap(), None);
}

#[tokio::test]
async fn a_loop_is_no_success_of_a_command() {
    let (sidecar, mut executor, _orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let file = sidecar.home().join("message.json");
    let message = r#"{"role":"assistant","tool_calls":[{"id":"c","type":"function",
        "function":{"name":"echo","arguments":"{}"}}]}"#;
    std::fs::write(&file, message).unwrap();
    for number in 1..=5 {
        let turn = format!("t{number}");
        let file = file.to_str().unwrap();
        let arguments = ["turn", file, "--run", "r", "--turn", &turn];
        let running = callgate(&sidecar, &arguments).output();
        let answering = async {
            if number < 5 {
                let work = executor.work().await;
                executor.answer_text(&work, "again").await;
            }
        };
        let (output, ()) = tokio::join!(soon("the turn", running), answering);
        let output = output.unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let expected = if number < 5 { 0 } else { 1 };
        assert_eq!(output.status.code(), Some(expected), "{number}: {told}");
        assert_eq!(told.contains("loop_detected"), number == 5, "{told}");
    }
}
