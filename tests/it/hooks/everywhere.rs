//! Hook processes wherever a call comes from, whatever they are busy with, and across a kill.
//!
//! What a verdict does is the turn machine's tests' business.

use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::session_service_client::SessionServiceClient;
use pb::BeforeAction::{Deny, Proceed};
use pb::HookPoint::BeforeToolCall;
use pb::connect_hook_response::Body as Heard;
use pb::hook_verdict::Verdict;

use crate::support::executor::{Executor, hello as executor_hello};
use crate::support::hook::{HookProcess, before, hello, registration};
use crate::support::orchestrator::{Orchestrator, call, code_of, result_of, turn};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{set_up, tools};

async fn child_of(sidecar: &Sidecar, parent: &str, child: &str) {
    let mut sessions = SessionServiceClient::new(sidecar.channel().await);
    let fork = pb::ForkSessionRequest {
        parent_session_id: parent.to_owned(),
        session_id: child.to_owned(),
        ..pb::ForkSessionRequest::default()
    };
    sessions.fork_session(fork).await.unwrap();
}

#[tokio::test]
async fn a_hook_is_asked_in_every_session_about_every_tool_and_what_it_denies_does_not_run() {
    let names = ["shell", "delegate_task", "patch", "mcp__x__y"];
    let all = names.map(|name| tools::named(name, tools::write()));
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), all).await;
    let first = [registration("one", &[BeforeToolCall])];
    let mut hook = HookProcess::join(&sidecar, hello("i", first)).await;
    for session in ["s", "child", "grandchild"] {
        match session {
            "child" => child_of(&sidecar, "s", "child").await,
            "grandchild" => child_of(&sidecar, "child", "grandchild").await,
            _ => {}
        }
        // A child has no tool that delegates.
        let has = |name: &&str| session == "s" || *name != "delegate_task";
        let names: Vec<_> = names.into_iter().filter(has).collect();
        let calls = names.iter().map(|name| call(name, name, "{}"));
        let request = pb::RunTurnRequest {
            session_id: session.to_owned(),
            ..turn(session, calls)
        };
        let mut events = orchestrator.run(request).await;
        for _ in &names {
            let asked = hook.says(before(Deny)).await;
            assert_eq!(asked.session_id, session);
        }
        let completed = events.completed().await;
        for name in names {
            assert_eq!(
                code_of(&completed, name),
                "tool_denied_by_hook",
                "{session}"
            );
            let effect = result_of(&completed, name).effect();
            assert_eq!(effect, pb::CallEffect::NotExecuted, "{session}");
        }
    }
    executor.has_no_work().await;
}

#[tokio::test]
async fn the_time_in_the_queue_of_its_process_is_not_a_hooks_own() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let slow = pb::HookRegistration {
        timeout_ms: Some(500),
        ..registration("one", &[BeforeToolCall])
    };
    let narrow = pb::HookHello {
        max_concurrent_invocations: 1,
        ..hello("i", [slow])
    };
    let mut hook = HookProcess::join(&sidecar, narrow).await;
    let request = |id: &str| pb::RunTurnRequest {
        run_id: id.to_owned(),
        ..turn(id, [call("c", "echo", "{}")])
    };
    let mut first = orchestrator.run(request("a")).await;
    let asked = hook.asked().await;
    let mut second = orchestrator.run(request("b")).await;
    // The first question is never answered. The second one waits meanwhile, and has its whole time then.
    assert_eq!(code_of(&first.completed().await, "c"), "hook_timeout");
    let Heard::InvocationCancelled(cancelled) = hook.hear().await.unwrap() else {
        panic!("not taken back");
    };
    assert_eq!(cancelled.invocation_id, asked.invocation_id);
    let asked = hook.says(before(Proceed)).await;
    assert_eq!(asked.turn_id, "b");
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&second.completed().await, "c"), "");
}

#[tokio::test]
async fn a_verdict_that_cannot_be_read_is_a_failure_and_never_no_opinion() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let wanted = [registration("one", &[BeforeToolCall])];
    let mut hook = HookProcess::join(&sidecar, hello("i", wanted)).await;
    let of_action = |action| pb::BeforeVerdict {
        action,
        ..pb::BeforeVerdict::default()
    };
    let rewriting = |text: &'static str| pb::BeforeVerdict {
        modified_args_json: text.into(),
        ..before(Proceed)
    };
    let failed = Verdict::Failure(pb::HookFailure {
        message: "no entry point".to_owned(),
    });
    let rows = [
        (Some(Verdict::Before(of_action(0))), "hook_failed"),
        (Some(Verdict::Before(of_action(77))), "hook_failed"),
        (Some(Verdict::Before(of_action(-1))), "hook_failed"),
        (
            Some(Verdict::Approval(pb::ApprovalVerdict::default())),
            "hook_failed",
        ),
        (Some(failed), "hook_failed"),
        (None, "hook_failed"),
        (
            Some(Verdict::Before(rewriting("null"))),
            "hook_modified_args_invalid",
        ),
        (
            Some(Verdict::Before(rewriting("{\"text\":\"x\""))),
            "hook_modified_args_invalid",
        ),
        (
            Some(Verdict::Before(rewriting("hello"))),
            "hook_modified_args_invalid",
        ),
    ];
    for (number, (verdict, expected)) in rows.into_iter().enumerate() {
        let request = turn(
            &format!("t{number}"),
            [call("c", "echo", &number_of(number))],
        );
        let mut events = orchestrator.run(request).await;
        let asked = hook.asked().await;
        hook.answer(&asked, verdict).await;
        let completed = events.completed().await;
        assert_eq!(code_of(&completed, "c"), expected, "{number}");
    }
    executor.has_no_work().await;
}

/// Arguments that no other row has, so that no loop is seen.
fn number_of(number: usize) -> String {
    format!("{{\"text\":\"{number}\"}}")
}

#[tokio::test]
async fn a_call_whose_hooks_were_not_all_heard_before_a_kill_does_not_run_unheard() {
    let setup = || Setup::default().set("hooks.required", "[\"one\", \"two\"]");
    let (sidecar, executor, orchestrator) = set_up(setup(), [tools::write()]).await;
    let ids = ["one", "two"];
    let both = hello("i", ids.map(|id| registration(id, &[BeforeToolCall])));
    let mut hooks = HookProcess::join(&sidecar, both).await;
    let request = turn("t", [call("c", "write", "{}")]);
    let _events = orchestrator.run(request.clone()).await;
    let asked = hooks.says(before(Proceed)).await;
    assert_eq!((asked.hook_id.as_str(), asked.attempt), ("one", 1));
    assert_eq!(hooks.asked().await.hook_id, "two");
    drop((hooks, executor));
    let sidecar = sidecar.crash_and_restart(setup()).await;
    let mut executor = Executor::join(&sidecar, executor_hello("box", [tools::write()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    // The hooks are not back: what the first one said before does not stand for both.
    let completed = orchestrator.run_to_end(request).await;
    assert_eq!(code_of(&completed, "c"), "hook_unavailable");
    executor.has_no_work().await;
}
