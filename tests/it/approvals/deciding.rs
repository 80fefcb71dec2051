//! Decisions: each choice, the race of two, and what is refused.

use callgate_client::pb::v1 as pb;
use pb::ApprovalChoice::{Deny, Edit, Once, Respond, Session};
use tonic::Code;

use super::{erasing, frozen, with_approver};
use crate::support::approver::{Approver, choose, code};
use crate::support::failure;
use crate::support::orchestrator::{call, code_of, result_of, text_of, turn};
use crate::support::sidecar::Setup;

#[tokio::test]
async fn a_dangerous_call_waits_and_runs_once_when_it_is_approved() {
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let calls = [
        call("c", "erase", r#"{"text":"x"}"#),
        call("e", "echo", "{}"),
    ];
    let mut events = frozen(&orchestrator, turn("t", calls)).await;
    executor.has_no_work().await;
    let approval = approver.only().await;
    assert_eq!(approval.tool, "erase");
    assert_eq!(approval.call.as_ref().unwrap().call_id, "c");
    assert_eq!(approval.display_arguments, "{\n  \"text\": \"x\"\n}");
    let verdict = approval.verdict.as_ref().unwrap();
    assert_eq!(verdict.stage(), pb::DecisionStage::ModeDefault);
    let outcome = approver.decide(choose(&approval, Once)).await;
    assert_eq!(outcome.status(), pb::DecisionStatus::Taken);
    let decision = outcome.approval.unwrap().decision.unwrap();
    assert!(decision.decided_by.starts_with("uid:"), "{decision:?}");
    let work = [executor.work().await, executor.work().await];
    for request in &work {
        executor.answer_text(request, "done").await;
    }
    let completed = events.completed().await;
    let result = result_of(&completed, "c");
    assert_eq!((text_of(result), result.attempts), ("done".to_owned(), 1));
    assert_eq!(result.approval_id, approval.approval_id);
    assert_eq!(
        events.lines()[..6],
        [
            "accepted 2",
            "e: validating > scheduled",
            "c: validating > awaiting_approval",
            "asking 1",
            "suspended 1",
            "c: awaiting_approval > scheduled",
        ]
    );
    let after = approver.get(&approval.approval_id).await.unwrap();
    assert_eq!(after.state(), pb::ApprovalState::Approved);
    assert_eq!(after.call_outcome(), pb::CallOutcome::Success);
}

#[tokio::test]
async fn a_refusal_reaches_the_model_with_its_words_and_ends_the_batch() {
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let calls = [call("c", "erase", "{}"), call("e", "echo", "{}")];
    let mut events = frozen(&orchestrator, turn("t", calls)).await;
    let approval = approver.only().await;
    let deny = pb::ApprovalDecision {
        message: "use the archive instead".to_owned(),
        ..choose(&approval, Deny)
    };
    approver.decide(deny).await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "c"), "tool_denied_by_user");
    let error = result_of(&completed, "c").error.clone().unwrap();
    assert!(error.message_for_model.contains("use the archive instead"));
    assert_eq!(code_of(&completed, "e"), "tool_batch_rejected");
    executor.has_no_work().await;
}

#[tokio::test]
async fn a_grant_lets_later_calls_of_the_session_run_until_it_is_revoked() {
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut events = frozen(&orchestrator, erasing("t1")).await;
    let approval = approver.only().await;
    assert_eq!(approval.grant_candidates[0].rule, "erase");
    approver.decide(choose(&approval, Session)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    events.completed().await;
    let mut events = orchestrator.run(erasing("t2")).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
    let other_session = pb::RunTurnRequest {
        session_id: "other".to_owned(),
        ..erasing("t3")
    };
    let mut other = frozen(&orchestrator, other_session).await;
    let mut sessions = approver.sessions.clone();
    let request = pb::ListGrantsRequest {
        session_id: "s".to_owned(),
        ..pb::ListGrantsRequest::default()
    };
    let grants = sessions
        .list_grants(request)
        .await
        .unwrap()
        .into_inner()
        .grants;
    // The call that was asked runs by the grant as well.
    assert_eq!((grants.len(), grants[0].uses), (1, 2));
    let request = pb::RevokeGrantsRequest {
        session_id: "s".to_owned(),
        grant_ids: vec![grants[0].grant_id.clone()],
    };
    let revoked = sessions.revoke_grants(request).await.unwrap().into_inner();
    assert_eq!(revoked.grants[0].state(), pb::GrantState::Revoked);
    let mut again = frozen(&orchestrator, erasing("t4")).await;
    for approval in approver.pending().await {
        approver.decide(choose(&approval, Deny)).await;
    }
    other.completed().await;
    again.completed().await;
}

#[tokio::test]
async fn a_grant_given_while_the_same_waits_elsewhere_in_the_session_lets_it_run() {
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let run = |turn: &str| pb::RunTurnRequest {
        run_id: format!("run {turn}"),
        ..erasing(turn)
    };
    let mut first = frozen(&orchestrator, run("t1")).await;
    let mut second = frozen(&orchestrator, run("t2")).await;
    let pending = approver.pending().await;
    assert_eq!(pending.len(), 2);
    approver.decide(choose(&pending[0], Session)).await;
    for _ in 0..2 {
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
    }
    first.completed().await;
    second.completed().await;
    let released = approver.get(&pending[1].approval_id).await.unwrap();
    let decision = released.decision.unwrap();
    assert_eq!(decision.choice(), pb::ApprovalChoice::Unspecified);
    assert_eq!(decision.verdict.unwrap().stage(), pb::DecisionStage::Grant);
}

#[tokio::test]
async fn edited_arguments_run_and_denied_ones_do_not() {
    let setup = Setup::default().set("permissions.deny", "[\"shell(rm *)\"]");
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(setup).await;
    let calls = [call("c", "shell", r#"{"command":"git status"}"#)];
    let mut events = frozen(&orchestrator, turn("t", calls)).await;
    let approval = approver.only().await;
    let edit = |text: &str| pb::ApprovalDecision {
        edited_arguments_json: text.to_owned().into(),
        ..choose(&approval, Edit)
    };
    for broken in ["", "{}", "{", r#"{"command":"true && rm -rf /"}"#] {
        let outcome = approver.decide(edit(broken)).await;
        assert_eq!(outcome.status(), pb::DecisionStatus::Refused, "{broken}");
        assert_eq!(code(&outcome), "approval_edit_invalid", "{broken}");
    }
    let outcome = approver.decide(edit(r#"{"command": "git log"}"#)).await;
    assert_eq!(outcome.status(), pb::DecisionStatus::Taken);
    let work = executor.work().await;
    assert_eq!(work.arguments_json, r#"{"command":"git log"}"#);
    executor.answer_text(&work, "").await;
    events.completed().await;
}

#[tokio::test]
async fn a_blank_edit_is_none() {
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut events = frozen(&orchestrator, erasing("t")).await;
    let approval = approver.only().await;
    let edit = |text: &str| pb::ApprovalDecision {
        edited_arguments_json: text.to_owned().into(),
        ..choose(&approval, Edit)
    };
    let outcome = approver.decide(edit(" \n\t")).await;
    assert_eq!(outcome.status(), pb::DecisionStatus::Refused);
    assert_eq!(code(&outcome), "approval_edit_invalid");
    let outcome = approver.decide(edit("{}")).await;
    assert_eq!(outcome.status(), pb::DecisionStatus::Taken);
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    events.completed().await;
}

#[tokio::test]
async fn an_approver_may_answer_in_the_tools_place() {
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut events = frozen(&orchestrator, erasing("t")).await;
    let approval = approver.only().await;
    let text = pb::content_part::Content::Text("already gone".to_owned());
    let respond = pb::ApprovalDecision {
        response: Some(pb::ToolResult {
            contents: vec![pb::ContentPart {
                content: Some(text),
            }],
            ..pb::ToolResult::default()
        }),
        ..choose(&approval, Respond)
    };
    approver.decide(respond).await;
    let completed = events.completed().await;
    let result = result_of(&completed, "c");
    assert_eq!(text_of(result), "already gone");
    assert_eq!(
        result.not_executed_reason(),
        pb::NotExecutedReason::AnsweredByApprover
    );
    executor.has_no_work().await;
}

#[tokio::test]
async fn of_two_deciders_one_wins_and_the_other_learns_of_it() {
    let (sidecar, mut executor, orchestrator, approver) =
        with_approver(Setup::default().set("loop.enabled", false)).await;
    let other = Approver::connect(&sidecar).await;
    for round in 0..40 {
        let mut events = frozen(&orchestrator, erasing(&format!("t{round}"))).await;
        let approval = approver.only().await;
        let (yes, no) = tokio::join!(
            approver.decide(choose(&approval, Once)),
            other.decide(choose(&approval, Deny)),
        );
        let statuses = [yes.status(), no.status()];
        let taken = pb::DecisionStatus::Taken;
        assert_eq!(
            statuses.iter().filter(|status| **status == taken).count(),
            1
        );
        let loser = if yes.status() == taken { &no } else { &yes };
        assert_eq!(loser.status(), pb::DecisionStatus::Conflict);
        let runs = yes.status() == taken;
        if runs {
            let work = executor.work().await;
            executor.answer_text(&work, "").await;
        }
        let completed = events.completed().await;
        assert_eq!(code_of(&completed, "c").is_empty(), runs);
        // Both learn the same, however late they ask.
        let again = other.decide(choose(&approval, Once)).await;
        let expected = match runs {
            true => pb::DecisionStatus::Repeated,
            false => pb::DecisionStatus::Conflict,
        };
        assert_eq!(again.status(), expected);
    }
    executor.has_no_work().await;
}

#[tokio::test]
async fn a_decision_about_something_else_is_refused() {
    let (_sidecar, executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut events = frozen(&orchestrator, erasing("t")).await;
    let approval = approver.only().await;
    let once = choose(&approval, Once);
    let rows = [
        (
            pb::ApprovalDecision {
                approval_digest: vec![7; 32].into(),
                ..once.clone()
            },
            "approval_digest_mismatch",
        ),
        (
            pb::ApprovalDecision {
                approval_digest: Vec::new().into(),
                ..once.clone()
            },
            "approval_digest_mismatch",
        ),
        (
            pb::ApprovalDecision {
                etag: "99".to_owned(),
                ..once.clone()
            },
            "etag_mismatch",
        ),
        (
            pb::ApprovalDecision {
                approval_id: "nobody.0.0000000000000000".to_owned(),
                ..once.clone()
            },
            "approval_not_found",
        ),
        (
            pb::ApprovalDecision {
                approval_id: "nonsense".to_owned(),
                ..once.clone()
            },
            "approval_not_found",
        ),
        (
            pb::ApprovalDecision {
                choice: 77,
                ..once.clone()
            },
            "approval_choice_not_allowed",
        ),
        (
            pb::ApprovalDecision {
                message: "m".repeat(4 * 1024 + 1),
                ..once.clone()
            },
            "invalid_request",
        ),
    ];
    for (decision, expected) in rows {
        let outcome = approver.decide(decision).await;
        assert_eq!(outcome.status(), pb::DecisionStatus::Refused, "{expected}");
        assert_eq!(code(&outcome), expected);
    }
    let longest = pb::ApprovalDecision {
        message: "m".repeat(4 * 1024),
        ..once.clone()
    };
    assert_eq!(approver.only().await.state(), pb::ApprovalState::Pending);
    let twice = pb::DecideApprovalsRequest {
        decisions: vec![once.clone(), once],
    };
    let mut approvals = approver.approvals.clone();
    let status = approvals.decide_approvals(twice).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    assert_eq!(failure::code(&status), "invalid_request");
    let outcome = approver.decide(longest).await;
    assert_eq!(outcome.status(), pb::DecisionStatus::Taken);
    let mut executor = executor;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    events.completed().await;
}

#[tokio::test]
async fn only_an_approver_decides() {
    let (sidecar, _executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut events = frozen(&orchestrator, erasing("t")).await;
    let approval = approver.only().await;
    let orchestrators = Approver::over(sidecar.channel().await);
    let status = orchestrators
        .try_decide(choose(&approval, Once))
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::PermissionDenied);
    approver.decide(choose(&approval, Deny)).await;
    events.completed().await;
}

#[tokio::test]
async fn an_answer_after_the_cancellation_revives_nothing() {
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut events = frozen(&orchestrator, erasing("t")).await;
    let approval = approver.only().await;
    let mut turns = orchestrator.turns.clone();
    let request = pb::CancelTurnRequest {
        turn_id: "t".to_owned(),
        ..pb::CancelTurnRequest::default()
    };
    turns.cancel_turn(request).await.unwrap();
    let outcome = approver.decide(choose(&approval, Once)).await;
    assert_eq!(outcome.status(), pb::DecisionStatus::Conflict);
    assert_eq!(code(&outcome), "approval_not_pending");
    assert_eq!(
        outcome.approval.unwrap().state(),
        pb::ApprovalState::Cancelled
    );
    events.completed().await;
    executor.has_no_work().await;
    assert_eq!(approver.pending().await, []);
}

#[tokio::test]
async fn where_nobody_is_expected_nothing_waits() {
    let setup = Setup::default().set("approvals.approvers", "none");
    let (_sidecar, _executor, orchestrator, _approver) = with_approver(setup).await;
    let completed = orchestrator.run_to_end(erasing("t")).await;
    assert_eq!(code_of(&completed, "c"), "approval_unavailable");
}

#[tokio::test]
async fn where_approvers_must_be_there_a_watching_one_is() {
    let setup = Setup::default().set("approvals.approvers", "connected");
    let (_sidecar, _executor, orchestrator, approver) = with_approver(setup).await;
    let completed = orchestrator.run_to_end(erasing("t1")).await;
    assert_eq!(code_of(&completed, "c"), "approval_unavailable");
    let watch = approver
        .watch(pb::WatchApprovalsRequest::default())
        .await
        .unwrap();
    let mut events = frozen(&orchestrator, erasing("t2")).await;
    drop(watch);
    // What waits goes on waiting: whoever comes may decide.
    let approval = approver.only().await;
    approver.decide(choose(&approval, Deny)).await;
    events.completed().await;
}

#[tokio::test]
async fn a_reader_may_leave_while_people_are_awaited_and_come_back() {
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let request = pb::RunTurnRequest {
        on_suspend: pb::OnSuspend::End as i32,
        on_disconnect: pb::OnDisconnect::Cancel as i32,
        ..erasing("t")
    };
    let mut events = orchestrator.run(request).await;
    while events.try_next().await.unwrap().is_some() {}
    assert_eq!(events.lines().last().unwrap(), "suspended 1");
    let approval = approver.only().await;
    approver.decide(choose(&approval, Once)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    let request = pb::AttachTurnRequest {
        turn_id: "t".to_owned(),
        ..pb::AttachTurnRequest::default()
    };
    let completed = orchestrator.attach(request).await.completed().await;
    assert_eq!(code_of(&completed, "c"), "");
}
