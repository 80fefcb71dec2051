//! Hooks over a restart of the sidecar: none is forgotten, and their processes get a moment to return.

use callgate_client::pb::v1 as pb;
use pb::BeforeAction::{Deny, Proceed};
use pb::HookPoint::BeforeToolCall;

use super::{listed, until};
use crate::audit::{admin, records};
use crate::support::executor::{Executor, hello as executor_hello};
use crate::support::hook::{HookProcess, before, hello, registration};
use crate::support::orchestrator::{Orchestrator, call, code_of, turn};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::tools;

/// Waits no longer for a hook than a test can.
fn quick(id: &str) -> pb::HookRegistration {
    pb::HookRegistration {
        timeout_ms: Some(300),
        ..registration(id, &[BeforeToolCall])
    }
}

async fn with_hooks(setup: Setup, hooks: Vec<pb::HookRegistration>) -> (Sidecar, HookProcess) {
    let sidecar = setup.start().await;
    let process = HookProcess::join(&sidecar, hello("i", hooks)).await;
    (sidecar, process)
}

async fn executor(sidecar: &Sidecar) -> Executor {
    Executor::join(sidecar, executor_hello("box", [tools::echo()])).await
}

fn echoing(id: &str) -> pb::RunTurnRequest {
    turn(id, [call("c", "echo", r#"{"text":"a"}"#)])
}

async fn hooks_of(sidecar: &Sidecar) -> Vec<(String, bool)> {
    let hooks = listed(sidecar).await.into_iter();
    let hooks = hooks.map(|hook| (hook.registration.unwrap().hook_id, hook.connected));
    hooks.collect()
}

/// Ends it in order, so that all it has to write is written.
async fn stopped(mut sidecar: Sidecar) -> Sidecar {
    sidecar.terminate().await;
    sidecar.exited().await;
    sidecar
}

#[tokio::test]
async fn a_hook_whose_process_does_not_return_fails() {
    let (sidecar, process) = with_hooks(Setup::default(), vec![quick("guard")]).await;
    drop(process);
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    let mut executor = executor(&sidecar).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let completed = orchestrator.run_to_end(echoing("t")).await;
    assert_eq!(code_of(&completed, "c"), "hook_unavailable");
    executor.has_no_work().await;
}

#[tokio::test]
async fn a_process_that_returns_answers_what_waited_for_it() {
    let guards = || ["b", "a"].map(|id| registration(id, &[BeforeToolCall]));
    let (sidecar, process) = with_hooks(Setup::default(), guards().into()).await;
    drop(process);
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    assert_eq!(
        hooks_of(&sidecar).await,
        [("b".to_owned(), false), ("a".to_owned(), false)]
    );
    let _executor = executor(&sidecar).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(echoing("t")).await;
    // Another process of the same hooks will do; their order is that of the first registration.
    let mut guards: Vec<_> = guards().into();
    guards.reverse();
    let mut process = HookProcess::join(&sidecar, hello("other", guards)).await;
    assert_eq!(process.says(before(Proceed)).await.hook_id, "b");
    assert_eq!(process.says(before(Deny)).await.hook_id, "a");
    assert_eq!(
        code_of(&events.completed().await, "c"),
        "tool_denied_by_hook"
    );
}

#[tokio::test]
async fn what_was_said_to_a_hook_is_kept_as_it_was_said_last() {
    let only = |tool: &str| pb::HookRegistration {
        matcher: Some(pb::HookMatcher {
            tools: vec![tool.to_owned()],
            ..pb::HookMatcher::default()
        }),
        ..quick("guard")
    };
    let (sidecar, process) = with_hooks(Setup::default(), vec![only("echo")]).await;
    drop(process);
    let again = HookProcess::join(&sidecar, hello("i", [only("write")])).await;
    drop(again);
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    let mut executor = executor(&sidecar).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(echoing("t")).await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
}

#[tokio::test]
async fn a_process_that_left_is_not_waited_for() {
    let (sidecar, process) = with_hooks(Setup::default(), vec![quick("guard")]).await;
    process.leave().await;
    let sidecar = stopped(sidecar).await.restart(Setup::default()).await;
    assert_eq!(hooks_of(&sidecar).await, []);
    let mut auditor = admin(&sidecar).await;
    let found = records(&mut auditor, pb::AuditFilter::default()).await;
    let told = found.iter().filter(|one| one.kind.starts_with("hook."));
    let told: Vec<_> = told
        .map(|one| {
            let record: serde_json::Value = serde_json::from_slice(&one.record_json).unwrap();
            (one.kind.clone(), record["detail"]["hook"].clone())
        })
        .collect();
    let kinds = ["hook.registered", "hook.removed"];
    assert_eq!(told, kinds.map(|kind| (kind.to_owned(), "guard".into())));
}

#[tokio::test]
async fn the_time_to_return_ends() {
    let setup = || Setup::default().set("hooks.absent_keep_ms", 200);
    let (sidecar, process) = with_hooks(Setup::default(), vec![quick("guard")]).await;
    drop(process);
    let sidecar = sidecar.crash_and_restart(setup()).await;
    until(&sidecar, <[_]>::is_empty).await;
    let sidecar = stopped(sidecar).await.restart(Setup::default()).await;
    assert_eq!(hooks_of(&sidecar).await, []);
}
