//! Arguments that a tool calls secret: used, and shown to nobody who approves, administers or listens.

use callgate_client::pb::v1 as pb;
use pb::ApprovalChoice::{Edit, Once};
use pb::HookPoint::ApprovalRequested;
use pb::hook_invocation::Payload;

use super::frozen;
use crate::support::approver::{Approver, choose};
use crate::support::executor::Executor;
use crate::support::hook::{HookProcess, hello, registration};
use crate::support::orchestrator::{Orchestrator, call, turn};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{set_up, tools};

const ASKED: &str = r#"{"to":"a","token":"s3cr3t","list":[{"pin":7777123477771234}]}"#;
const SHOWN: &str = r#"{"list":[{"pin":"[secret]"}],"to":"a","token":"[secret]"}"#;
const RUNS: &str = r#"{"list":[{"pin":7777123477771234}],"to":"a","token":"s3cr3t"}"#;

async fn with_secrets() -> (Sidecar, Executor, Orchestrator, Approver) {
    let pay = pb::ToolDefinition {
        parameters_json: r#"{"type":"object","properties":{"to":{"type":"string"},
            "token":{"type":"string"},"list":{"type":"array","items":{"type":"object",
            "properties":{"pin":{"type":"integer"}}}}}}"#
            .into(),
        secret_pointers: vec!["/token".to_owned(), "/list/0/pin".to_owned()],
        ..tools::named("pay", tools::erase())
    };
    let (sidecar, executor, orchestrator) = set_up(Setup::default(), [pay]).await;
    let approver = Approver::connect(&sidecar).await;
    (sidecar, executor, orchestrator, approver)
}

fn paying(turn_id: &str) -> pb::RunTurnRequest {
    turn(turn_id, [call("c", "pay", ASKED)])
}

fn holds_secret(shown: &impl std::fmt::Debug) -> bool {
    let text = format!("{shown:?}");
    text.contains("s3cr3t") || text.contains("7777123477771234")
}

#[tokio::test]
async fn approvers_see_a_marker_and_the_tool_gets_the_value() {
    let (sidecar, mut executor, orchestrator, approver) = with_secrets().await;
    let waits = [registration("judge", &[ApprovalRequested])];
    let mut hook = HookProcess::join(&sidecar, hello("i", waits)).await;
    let mut events = frozen(&orchestrator, paying("t")).await;
    let Some(Payload::Approval(asked)) = hook.asked().await.payload else {
        panic!("no approval");
    };
    let approval = approver.only().await;
    assert_eq!(approval.effective_arguments_json, SHOWN);
    assert_eq!(approval.call.as_ref().unwrap().arguments_json, SHOWN);
    let admin = Orchestrator::admin(&sidecar).await;
    let turn = admin.get_turn("t").await.unwrap();
    assert_eq!(turn.calls[0].call.as_ref().unwrap().arguments_json, SHOWN);
    let whole = approver.get(&approval.approval_id).await.unwrap();
    assert!(!holds_secret(&(&asked, &approval, &whole, &turn)));
    // Who wrote it may read it.
    let own = orchestrator.get_turn("t").await.unwrap();
    assert_eq!(own.calls[0].call.as_ref().unwrap().arguments_json, ASKED);
    approver.decide(choose(&approval, Once)).await;
    let work = executor.work().await;
    assert_eq!(work.arguments_json, RUNS);
    executor.answer_text(&work, "paid").await;
    events.completed().await;
}

#[tokio::test]
async fn an_edit_keeps_what_its_writer_could_not_see() {
    let (_sidecar, mut executor, orchestrator, approver) = with_secrets().await;
    let mut events = frozen(&orchestrator, paying("t")).await;
    let approval = approver.only().await;
    let edit = pb::ApprovalDecision {
        edited_arguments_json: SHOWN.replace(r#""a""#, r#""b""#).into(),
        ..choose(&approval, Edit)
    };
    let outcome = approver.decide(edit).await;
    assert_eq!(outcome.status(), pb::DecisionStatus::Taken);
    let work = executor.work().await;
    assert_eq!(work.arguments_json, RUNS.replace(r#""a""#, r#""b""#));
    executor.answer_text(&work, "paid").await;
    events.completed().await;
    let after = approver.get(&approval.approval_id).await.unwrap();
    let edited = after.decision.clone().unwrap().edited_arguments_json;
    assert_eq!(edited, SHOWN.replace(r#""a""#, r#""b""#));
    assert!(!holds_secret(&(&outcome, &after)));
}

#[tokio::test]
async fn what_is_secret_stays_so_over_a_restart_and_without_its_tool() {
    let (sidecar, executor, orchestrator, approver) = with_secrets().await;
    drop(frozen(&orchestrator, paying("t")).await);
    let waiting = approver.only().await;
    drop(executor);
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    let approver = Approver::connect(&sidecar).await;
    let approval = approver.only().await;
    assert_eq!(approval.approval_digest, waiting.approval_digest);
    assert_eq!(approval.effective_arguments_json, SHOWN);
    assert!(!holds_secret(&approval));
}
