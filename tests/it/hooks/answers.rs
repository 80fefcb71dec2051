//! Answers of hooks that are no good, or beyond a limit: whose fault that is, and what it costs.

use callgate_client::pb::v1 as pb;
use pb::BeforeAction::{Ask, Deny, Proceed};
use pb::HookPoint::{AfterToolCall, BeforeToolCall};
use pb::hook_verdict::Verdict;

use crate::support::executor::text_result;
use crate::support::hook::{HookProcess, before, hello, registration};
use crate::support::orchestrator::{call, code_of, result_of, text_of, turn};
use crate::support::sidecar::Setup;
use crate::support::{set_up, tools};

/// One call in a run of its own: several of them are no loop.
fn echoing(id: &str) -> pb::RunTurnRequest {
    pb::RunTurnRequest {
        run_id: id.to_owned(),
        ..turn(id, [call("c", "echo", r#"{"text":"x"}"#)])
    }
}

#[tokio::test]
async fn blank_arguments_of_a_hook_are_no_arguments_but_a_failure() {
    use pb::HookFailureMode as Mode;
    let setup = Setup::default().set("approvals.approvers", "none");
    let (sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let modes = [
        (Mode::Deny, "hook_failed"),
        (Mode::Ask, "approval_unavailable"),
        (Mode::Ignore, ""),
    ];
    for (mode, expected) in modes {
        let wanted = pb::HookRegistration {
            on_failure: mode as i32,
            ..registration("one", &[BeforeToolCall])
        };
        let mut hook = HookProcess::join(&sidecar, hello("i", [wanted])).await;
        for (number, blank) in [" ", "\t\r\n  "].into_iter().enumerate() {
            let mut events = orchestrator
                .run(echoing(&format!("{mode:?}{number}")))
                .await;
            let verdict = pb::BeforeVerdict {
                modified_args_json: blank.into(),
                ..before(Proceed)
            };
            hook.says(verdict).await;
            if expected.is_empty() {
                // As if the hook had said nothing: with the model's own arguments.
                let work = executor.work().await;
                assert_eq!(work.arguments_json, r#"{"text":"x"}"#);
                executor.answer_text(&work, "done").await;
            }
            assert_eq!(code_of(&events.completed().await, "c"), expected);
        }
        hook.leave().await;
    }
    let mut hook = HookProcess::join(
        &sidecar,
        hello("i", [registration("one", &[BeforeToolCall])]),
    )
    .await;
    // Where new arguments do not count, blank ones do not either.
    let mut events = orchestrator.run(echoing("denied")).await;
    let verdict = pb::BeforeVerdict {
        modified_args_json: " ".into(),
        ..before(Deny)
    };
    hook.says(verdict).await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "c"), "tool_denied_by_hook");
    let mut events = orchestrator.run(echoing("asked")).await;
    let verdict = pb::BeforeVerdict {
        modified_args_json: "{}".into(),
        ..before(Ask)
    };
    hook.says(verdict).await;
    let completed = events.completed().await;
    assert_ne!(code_of(&completed, "c"), "hook_failed");
}

fn replaced(result: pb::ToolResult) -> Option<Verdict> {
    Some(Verdict::After(pb::AfterVerdict {
        action: pb::AfterAction::Proceed as i32,
        modified_result: Some(result),
        ..pb::AfterVerdict::default()
    }))
}

#[tokio::test]
async fn a_broken_result_of_a_hook_is_its_failure_and_not_the_tools() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let broken = || {
        let result = text_result("polished");
        [
            pb::ToolResult {
                structured_json: "{".into(),
                ..result.clone()
            },
            pb::ToolResult {
                metadata_json: "[1,]".into(),
                ..result
            },
        ]
    };
    for withholds in [false, true] {
        let wanted = pb::HookRegistration {
            withhold_on_failure: withholds,
            ..registration("one", &[AfterToolCall])
        };
        let mut hook = HookProcess::join(&sidecar, hello("i", [wanted])).await;
        for (number, result) in broken().into_iter().enumerate() {
            let mut events = orchestrator
                .run(echoing(&format!("{withholds}{number}")))
                .await;
            let work = executor.work().await;
            executor.answer_text(&work, "raw").await;
            let asked = hook.asked().await;
            hook.answer(&asked, replaced(result)).await;
            let completed = events.completed().await;
            let result = result_of(&completed, "c");
            match withholds {
                true => assert_eq!(code_of(&completed, "c"), "hook_failed"),
                false => assert_eq!(
                    (text_of(result), result.is_error),
                    ("raw".to_owned(), false)
                ),
            }
        }
        hook.leave().await;
    }
}
