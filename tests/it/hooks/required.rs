//! Hooks that must be there: where, and what holds while they are not.

use callgate_client::pb::v1 as pb;
use pb::BeforeAction::Proceed;
use pb::HookPoint::{AfterToolCall, BeforeToolCall, TurnFinished};
use pb::hook_verdict::Verdict;

use super::listed;
use crate::support::hook::{HookProcess, before, hello, registration};
use crate::support::orchestrator::{call, code_of, text_of, turn};
use crate::support::sidecar::{Setup, Sidecar, home, refuses_to_start};
use crate::support::{set_up, tools};

/// One call in a run of its own: several of them are no loop.
fn echoing(id: &str) -> pb::RunTurnRequest {
    pb::RunTurnRequest {
        run_id: id.to_owned(),
        ..turn(id, [call("c", "echo", "{}")])
    }
}

fn required(points: &str) -> Setup {
    let setup = Setup::default().set("hooks.required", r#"["one"]"#);
    match points.is_empty() {
        true => setup,
        false => setup.set("hooks.required_points.one", points),
    }
}

async fn joined(sidecar: &Sidecar, points: &[pb::HookPoint]) -> HookProcess {
    HookProcess::join(sidecar, hello("i", [registration("one", points)])).await
}

#[tokio::test]
async fn a_hook_that_is_asked_elsewhere_than_where_it_is_required_is_not_there() {
    let setup = required(r#"["before_tool_call"]"#);
    let (sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let wrong: [&[pb::HookPoint]; 2] = [&[TurnFinished], &[AfterToolCall, TurnFinished]];
    for (number, points) in wrong.into_iter().enumerate() {
        let elsewhere = joined(&sidecar, points).await;
        let error = elsewhere.welcome.registered[0].error.clone().unwrap();
        assert!(error.message.contains("before_tool_call"), "{error:?}");
        assert_eq!(error.detail.unwrap().code, "invalid_request");
        let completed = orchestrator.run_to_end(echoing(&number.to_string())).await;
        assert_eq!(code_of(&completed, "c"), "hook_unavailable");
        assert!(!listed(&sidecar).await[0].connected);
        elsewhere.leave().await;
    }
    let mut hook = joined(&sidecar, &[TurnFinished, BeforeToolCall]).await;
    assert_eq!(hook.welcome.registered[0].error, None);
    let mut events = orchestrator.run(echoing("t")).await;
    hook.says(before(Proceed)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
}

#[tokio::test]
async fn what_a_required_hook_after_calls_does_not_see_nobody_sees() {
    let setup = required(r#"["after_tool_call"]"#);
    let (sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let mut events = orchestrator.run(echoing("absent")).await;
    let work = executor.work().await;
    executor.answer_text(&work, "raw").await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "c"), "hook_failed");
    assert!(!format!("{completed:?}").contains("raw"), "{completed:?}");
    let mut hook = joined(&sidecar, &[AfterToolCall]).await;
    let mut events = orchestrator.run(echoing("there")).await;
    let work = executor.work().await;
    executor.answer_text(&work, "raw").await;
    let asked = hook.asked().await;
    let verdict = pb::AfterVerdict {
        action: pb::AfterAction::Proceed as i32,
        ..pb::AfterVerdict::default()
    };
    hook.answer(&asked, Some(Verdict::After(verdict))).await;
    let completed = events.completed().await;
    assert_eq!(text_of(&completed.results[0]), "raw");
}

#[tokio::test]
async fn a_required_hook_without_points_may_be_asked_wherever_it_wants() {
    let (sidecar, mut executor, orchestrator) = set_up(required(""), [tools::echo()]).await;
    let completed = orchestrator.run_to_end(echoing("absent")).await;
    assert_eq!(code_of(&completed, "c"), "hook_unavailable");
    let hook = joined(&sidecar, &[TurnFinished]).await;
    assert_eq!(hook.welcome.registered[0].error, None);
    let mut events = orchestrator.run(echoing("there")).await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
}

#[tokio::test]
async fn points_that_cannot_be_stop_the_start() {
    let home = home();
    let cases = [
        (required(r#"["before"]"#), "`before` is no point of hooks"),
        (required("[]"), "must not be empty"),
        (
            required("").set("hooks.required_points.two", r#"["turn_started"]"#),
            "`two` is not in `hooks.required`",
        ),
    ];
    for (setup, problem) in cases {
        let (code, log) = refuses_to_start(setup, home.path()).await;
        assert_eq!(code, Some(64), "{log}");
        assert!(log.contains(problem), "{log}");
    }
}
