//! Many decisions at once, old ones beside new ones, and decisions against cancellations.
//!
//! Each choice by itself is `deciding`'s business.

use callgate_client::pb::v1 as pb;
use pb::ApprovalChoice::{Deny, Edit, Once, Respond};

use super::{erasing, frozen, with_approver};
use crate::support::approver::{Approver, choose, code};
use crate::support::executor::{Executor, hello, text_result};
use crate::support::failure;
use crate::support::orchestrator::{Orchestrator, call, code_of, result_of, text_of, turn};
use crate::support::sidecar::Setup;
use crate::support::{soon, tools};

async fn decide_all(
    approver: &Approver,
    decisions: Vec<pb::ApprovalDecision>,
) -> Vec<pb::DecisionOutcome> {
    let mut approvals = approver.approvals.clone();
    let request = pb::DecideApprovalsRequest { decisions };
    let decided = soon("the decisions", approvals.decide_approvals(request)).await;
    decided.unwrap().into_inner().outcomes
}

#[tokio::test]
async fn answers_in_one_request_each_find_their_own_call() {
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let calls = (0..4).map(|number| {
        let arguments = format!("{{\"text\":\"{number}\"}}");
        call(&format!("c{number}"), "erase", &arguments)
    });
    let request = pb::RunTurnRequest {
        batch_policy: pb::BatchPolicy::FreezePartial as i32,
        ..turn("t", calls)
    };
    let mut events = frozen(&orchestrator, request).await;
    let pending = approver.pending().await;
    let of = |id: &str| {
        let is_it = |one: &&pb::Approval| one.call.as_ref().unwrap().call_id == id;
        pending.iter().find(is_it).unwrap()
    };
    let unknown = pb::ApprovalDecision {
        approval_id: "nobody.0.0000000000000000".to_owned(),
        ..choose(of("c0"), Once)
    };
    let edit = pb::ApprovalDecision {
        edited_arguments_json: "{\"text\":\"edited\"}".into(),
        ..choose(of("c2"), Edit)
    };
    let respond = pb::ApprovalDecision {
        response: Some(text_result("done by hand")),
        ..choose(of("c1"), Respond)
    };
    // The last call first, and one among them that nobody knows.
    let decisions = vec![
        choose(of("c3"), Deny),
        edit,
        unknown,
        respond,
        choose(of("c0"), Once),
    ];
    let ids: Vec<_> = decisions
        .iter()
        .map(|decision| decision.approval_id.clone())
        .collect();
    let outcomes = decide_all(&approver, decisions).await;
    let told: Vec<_> = outcomes.iter().map(|one| one.approval_id.clone()).collect();
    assert_eq!(told, ids);
    for (position, outcome) in outcomes.iter().enumerate() {
        let (status, expected) = match position {
            2 => (pb::DecisionStatus::Refused, "approval_not_found"),
            _ => (pb::DecisionStatus::Taken, ""),
        };
        assert_eq!(outcome.status(), status, "{position}");
        assert_eq!(code(outcome), expected, "{position}");
    }
    let mut arguments = Vec::new();
    for _ in 0..2 {
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
        arguments.push(String::from_utf8(work.arguments_json.to_vec()).unwrap());
    }
    arguments.sort();
    assert_eq!(arguments, ["{\"text\":\"0\"}", "{\"text\":\"edited\"}"]);
    let completed = events.completed().await;
    assert_eq!(text_of(result_of(&completed, "c1")), "done by hand");
    assert_eq!(code_of(&completed, "c3"), "tool_denied_by_user");
    executor.has_no_work().await;
}

#[tokio::test]
async fn what_belongs_to_another_choice_changes_nothing_of_the_call() {
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut events = frozen(&orchestrator, erasing("t")).await;
    let forged = pb::ApprovalDecision {
        edited_arguments_json: "{\"text\":\"forged\"}".into(),
        response: Some(text_result("forged")),
        grant_candidate_ids: vec!["c1".to_owned()],
        ..choose(&approver.only().await, Once)
    };
    approver.decide(forged).await;
    let work = executor.work().await;
    assert_eq!(work.arguments_json, "{\"text\":\"x\"}");
    executor.answer_text(&work, "done").await;
    let completed = events.completed().await;
    assert_eq!(text_of(result_of(&completed, "c")), "done");
    // Nothing was granted either: the next one is asked again.
    let mut next = frozen(&orchestrator, erasing("t2")).await;
    approver.decide(choose(&approver.only().await, Deny)).await;
    next.completed().await;
}

#[tokio::test]
async fn an_old_answer_does_not_reach_the_same_call_asked_again() {
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut first = frozen(&orchestrator, erasing("t1")).await;
    let old = approver.only().await;
    approver.decide(choose(&old, Deny)).await;
    first.completed().await;
    // The same call with the same id in the same run.
    let mut second = frozen(&orchestrator, erasing("t2")).await;
    let new = approver.only().await;
    assert_ne!(old.approval_id, new.approval_id);
    let late = approver.decide(choose(&old, Once)).await;
    assert_eq!(late.status(), pb::DecisionStatus::Conflict);
    assert_eq!(code(&late), "approval_already_decided");
    let of_old = pb::ApprovalDecision {
        approval_digest: old.approval_digest.clone(),
        ..choose(&new, Once)
    };
    let mixed = approver.decide(of_old).await;
    assert_eq!(code(&mixed), "approval_digest_mismatch");
    executor.has_no_work().await;
    assert_eq!(approver.only().await, new);
    approver.decide(choose(&new, Once)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&second.completed().await, "c"), "");
}

#[tokio::test]
async fn a_decision_and_a_cancellation_at_once_end_in_one_of_them() {
    let setup = Setup::default().set("loop.enabled", false);
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(setup).await;
    for round in 0..30 {
        let id = format!("t{round}");
        let request = pb::RunTurnRequest {
            run_id: id.clone(),
            ..erasing(&id)
        };
        let mut events = frozen(&orchestrator, request).await;
        let approval = approver.only().await;
        let (outcome, _) = tokio::join!(
            approver.decide(choose(&approval, Once)),
            orchestrator.cancel_turn(&id, Some(0)),
        );
        let completed = events.completed().await;
        assert_eq!(completed.outcome(), pb::TurnOutcome::Cancelled, "{id}");
        let result = result_of(&completed, "c");
        assert_eq!(result.outcome(), pb::CallOutcome::Cancelled, "{id}");
        let was_sent = result.attempts > 0;
        if outcome.status() != pb::DecisionStatus::Taken {
            assert_eq!(code(&outcome), "approval_not_pending", "{id}");
            assert!(!was_sent, "{id}");
        }
        if was_sent {
            // It was sent before the cancellation, which went after it.
            let work = executor.work().await;
            let stop = executor.told_to_stop().await;
            assert_eq!(stop.execution, work.execution, "{id}");
        }
    }
    executor.has_no_work().await;
}

#[tokio::test]
async fn what_was_approved_is_what_runs_whatever_the_orchestrator_says_after_a_kill() {
    let (sidecar, executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let _events = frozen(&orchestrator, erasing("t")).await;
    let approval = approver.only().await;
    drop(executor);
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    let (orchestrator, approver) = (
        Orchestrator::connect(&sidecar).await,
        Approver::connect(&sidecar).await,
    );
    let other = turn("t", [call("c", "erase", "{\"text\":\"other\"}")]);
    let status = orchestrator.refused(other.clone()).await;
    assert_eq!(failure::code(&status), "call_conflict");
    approver.decide(choose(&approval, Once)).await;
    let status = orchestrator.refused(other).await;
    assert_eq!(failure::code(&status), "call_conflict");
    let mut executor = Executor::join(&sidecar, hello("box", [tools::erase()])).await;
    let work = executor.work().await;
    assert_eq!(work.arguments_json, "{\"text\":\"x\"}");
    executor.answer_text(&work, "").await;
    let mut events = orchestrator.run(erasing("t")).await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
    executor.has_no_work().await;
}

#[tokio::test]
async fn another_turn_of_the_session_leaves_what_waits_as_it_is() {
    let (sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut waiting = frozen(&orchestrator, erasing("t1")).await;
    let approval = approver.only().await;
    // Another message of the user: another run, from another process.
    let other = Orchestrator::connect(&sidecar).await;
    let next = pb::RunTurnRequest {
        run_id: "next".to_owned(),
        ..turn("t2", [call("e", "echo", "{}")])
    };
    let mut events = other.run(next).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&events.completed().await, "e"), "");
    assert_eq!(approver.only().await, approval);
    let again = Approver::connect(&sidecar).await;
    again.decide(choose(&approval, Once)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&waiting.completed().await, "c"), "");
}
