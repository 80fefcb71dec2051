//! The panel in a terminal, against a real sidecar: what a person decides there happens.
//!
//! One turn a test, so that a failure names what did not work. Never waits for time to pass.

use callgate_client::pb::v1 as pb;

use crate::support::executor::Executor;
use crate::support::orchestrator::{Orchestrator, call, turn};
use crate::support::set_up;
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::tmux::Panel;
use crate::support::tools;

/// Asks in mode default, and is no edit: granting it grants the tool.
fn send() -> pb::ToolDefinition {
    pb::ToolDefinition {
        kind: pb::ToolKind::Other as i32,
        ..tools::named("send", tools::edit())
    }
}

async fn everything() -> (Sidecar, Executor, Orchestrator, Panel) {
    let (sidecar, executor, orchestrator) = set_up(Setup::default(), [send()]).await;
    let sockets = sidecar.home().join("s");
    let panel = Panel::start(sidecar.home(), &sockets, (80, 24)).await;
    panel.shows(&["0 wait, live"]).await;
    (sidecar, executor, orchestrator, panel)
}

#[tokio::test]
async fn an_approved_call_runs() {
    let (_sidecar, mut executor, orchestrator, panel) = everything().await;
    let arguments = r#"{"text":"hello"}"#;
    let mut following = orchestrator
        .run(turn("t1", [call("c1", "send", arguments)]))
        .await;
    panel.shows(&["1 wait", "send"]).await;
    executor.has_no_work().await;
    panel.press(&["Enter"]).await;
    panel.shows(&["\"text\": \"hello\"", "the end"]).await;
    panel.press(&["a"]).await;
    panel.shows(&["once holds", "0 wait"]).await;
    let work = executor.work().await;
    assert_eq!(work.arguments_json, arguments);
    executor.accept(&work).await;
    panel.shows(&["running   send             t1/c1"]).await;
    executor.answer_text(&work, "sent").await;
    panel.shows(&["success   send             t1/c1"]).await;
    let completed = following.completed().await;
    assert_eq!(completed.results[0].outcome(), pb::CallOutcome::Success);
    panel.press(&["q"]).await;
    panel.left(0).await;
}

#[tokio::test]
async fn a_denied_call_does_not_run_and_the_model_reads_why() {
    let (_sidecar, mut executor, orchestrator, panel) = everything().await;
    let mut following = orchestrator
        .run(turn("t1", [call("c1", "send", "{}")]))
        .await;
    panel.shows(&["1 wait"]).await;
    panel.press(&["Enter"]).await;
    panel.shows(&["d deny"]).await;
    panel.press(&["d"]).await;
    panel.shows(&["why not"]).await;
    panel.types("ask me tomorrow").await;
    panel.press(&["Enter"]).await;
    panel.shows(&["deny holds", "0 wait"]).await;
    let completed = following.completed().await;
    let result = &completed.results[0];
    assert_eq!(
        result.not_executed_reason(),
        pb::NotExecutedReason::DeniedByUser
    );
    let error = result.error.as_ref().unwrap();
    assert!(
        error.message_for_model.contains("ask me tomorrow"),
        "{error:?}"
    );
    executor.has_no_work().await;
}

#[tokio::test]
async fn what_was_granted_for_the_session_runs_unasked_from_then_on() {
    let (_sidecar, mut executor, orchestrator, panel) = everything().await;
    let mut following = orchestrator
        .run(turn("t1", [call("c1", "send", "{}")]))
        .await;
    panel.shows(&["1 wait"]).await;
    panel.press(&["Enter"]).await;
    panel.shows(&["s session", "the end"]).await;
    panel.press(&["s"]).await;
    panel.shows(&["[x] tool", "enter store and run"]).await;
    panel.press(&["Enter"]).await;
    panel.shows(&["session holds", "0 wait"]).await;
    let work = executor.work().await;
    executor.answer_text(&work, "sent").await;
    following.completed().await;
    let arguments = r#"{"text":"again"}"#;
    let mut following = orchestrator
        .run(turn("t2", [call("c2", "send", arguments)]))
        .await;
    let work = executor.work().await;
    executor.answer_text(&work, "sent").await;
    let completed = following.completed().await;
    assert_eq!(completed.results[0].outcome(), pb::CallOutcome::Success);
}

#[tokio::test]
async fn the_terminal_may_change_its_size_while_a_call_waits() {
    let (_sidecar, _executor, orchestrator, panel) = everything().await;
    let _following = orchestrator
        .run(turn("t1", [call("c1", "send", "{}")]))
        .await;
    panel.shows(&["1 wait"]).await;
    panel.resize(20, 5).await;
    panel.shows(&["too small to decide", "1 wait"]).await;
    panel.resize(120, 40).await;
    panel.shows(&["1 wait, live", "send"]).await;
    panel.press(&["C-c"]).await;
    panel.left(0).await;
}

#[tokio::test]
async fn a_mode_that_lets_it_run_releases_what_waits() {
    let (_sidecar, mut executor, orchestrator, panel) = everything().await;
    let mut following = orchestrator
        .run(turn("t1", [call("c1", "send", "{}")]))
        .await;
    panel.shows(&["1 wait"]).await;
    panel.press(&["m"]).await;
    panel.shows(&["> 2 default"]).await;
    panel.press(&["4"]).await;
    panel.shows(&["mode of s is auto", "0 wait"]).await;
    let work = executor.work().await;
    executor.answer_text(&work, "sent").await;
    let completed = following.completed().await;
    assert_eq!(completed.results[0].outcome(), pb::CallOutcome::Success);
}

#[tokio::test]
async fn a_sidecar_that_comes_back_is_taken_up_with_what_waits() {
    let (sidecar, _executor, orchestrator, panel) = everything().await;
    let _following = orchestrator
        .run(turn("t1", [call("c1", "send", "{}")]))
        .await;
    panel.shows(&["1 wait, live"]).await;
    let _sidecar = sidecar.crash_and_restart(Setup::default()).await;
    panel.shows(&["1 wait, live", "send"]).await;
    panel.press(&["Enter"]).await;
    panel.shows(&["the end"]).await;
    panel.press(&["a"]).await;
    panel.shows(&["once holds", "0 wait"]).await;
}
