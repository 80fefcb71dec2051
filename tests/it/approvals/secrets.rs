//! Arguments that a tool calls secret: used, and shown to nobody who approves, administers or listens.

use callgate_client::pb::v1 as pb;
use pb::ApprovalChoice::{Edit, Once};
use pb::HookPoint::{ApprovalRequested, LoopDiagnose, TurnFinished, TurnStarted};
use pb::hook_invocation::Payload;

use super::frozen;
use crate::audit::{admin, records, until_kind};
use crate::support::approver::{Approver, choose};
use crate::support::executor::Executor;
use crate::support::hook::{HookProcess, hello, registration};
use crate::support::orchestrator::{Orchestrator, call, turn};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{set_up, tools};

const ASKED: &str = r#"{"to":"a","token":"s3cr3t","list":[{"pin":7777123477771234}]}"#;
const SHOWN: &str = r#"{"list":[{"pin":"[secret]"}],"to":"a","token":"[secret]"}"#;
const RUNS: &str = r#"{"list":[{"pin":7777123477771234}],"to":"a","token":"s3cr3t"}"#;

async fn with_secrets(setup: Setup) -> (Sidecar, Executor, Orchestrator, Approver) {
    let pay = pb::ToolDefinition {
        parameters_json: r#"{"type":"object","properties":{"to":{"type":"string"},
            "token":{"type":"string"},"list":{"type":"array","items":{"type":"object",
            "properties":{"pin":{"type":"integer"}}}}}}"#
            .into(),
        secret_pointers: vec!["/token".to_owned(), "/list/0/pin".to_owned()],
        ..tools::named("pay", tools::erase())
    };
    let (sidecar, executor, orchestrator) = set_up(setup, [pay]).await;
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
    let (sidecar, mut executor, orchestrator, approver) = with_secrets(Setup::default()).await;
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
    let (_sidecar, mut executor, orchestrator, approver) = with_secrets(Setup::default()).await;
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
    let (sidecar, executor, orchestrator, approver) = with_secrets(Setup::default()).await;
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

/// A call of a tool that nobody has, and one whose secret stands in the wrong place.
fn misspelt() -> pb::RunTurnRequest {
    let wrong_place = r#"{"to":7,"tokn":"s3cr3t"}"#;
    turn(
        "t",
        [call("a", "pya", ASKED), call("b", "pay", wrong_place)],
    )
}

#[tokio::test]
async fn what_nobody_can_place_is_hidden_whole() {
    let setup = Setup::default()
        .set("loop.diagnosis.after_rounds", 1)
        .set("loop.diagnosis.every_rounds", 1);
    let (sidecar, _executor, orchestrator, approver) = with_secrets(setup).await;
    let watches = [registration(
        "watch",
        &[TurnStarted, TurnFinished, LoopDiagnose],
    )];
    let mut hook = HookProcess::join(&sidecar, hello("i", watches)).await;
    orchestrator.run_to_end(misspelt()).await;
    for point in [TurnStarted, TurnFinished] {
        let asked = hook.asked().await;
        let Some(Payload::Turn(told)) = &asked.payload else {
            panic!("{asked:?}");
        };
        assert_eq!(asked.point(), point);
        assert!(
            told.calls
                .iter()
                .all(|one| one.arguments_json == r#""[secret]""#)
        );
        assert!(!holds_secret(&asked));
    }
    // Only a round without calls is looked at.
    drop(orchestrator.run(turn("looked-at", [])).await);
    let asked = loop {
        let asked = hook.asked().await;
        if asked.point() == LoopDiagnose {
            break asked;
        }
    };
    let Some(Payload::Diagnosis(about)) = &asked.payload else {
        panic!("{asked:?}");
    };
    let journal = String::from_utf8_lossy(&about.history_json).into_owned();
    assert_eq!(journal.matches("[secret]").count(), 2, "{journal}");
    assert!(!journal.contains("s3cr3t"), "{journal}");
    let mut auditor = admin(&sidecar).await;
    until_kind(&mut auditor, "turn.ended").await;
    let found = records(&mut auditor, pb::AuditFilter::default()).await;
    let text = |record: &pb::AuditRecord| String::from_utf8_lossy(&record.record_json).into_owned();
    assert!(!found.iter().any(|record| text(record).contains("s3cr3t")));
    let decided = found.iter().filter(|record| record.kind == "call.decided");
    assert_eq!(
        decided
            .filter(|record| text(record).contains(r#""arguments":"[secret]""#))
            .count(),
        2
    );
    let turn = Orchestrator::admin(&sidecar)
        .await
        .get_turn("t")
        .await
        .unwrap();
    assert!(!holds_secret(&turn));
    assert!(holds_secret(&orchestrator.get_turn("t").await.unwrap()));
    drop(approver);
}

#[tokio::test]
async fn a_call_of_no_tool_is_shown_where_no_tool_has_secrets() {
    let (sidecar, _executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    orchestrator.run_to_end(misspelt()).await;
    let mut auditor = admin(&sidecar).await;
    let found = until_kind(&mut auditor, "call.decided").await;
    assert!(
        found
            .iter()
            .any(|record| String::from_utf8_lossy(&record.record_json).contains("tokn"))
    );
}
