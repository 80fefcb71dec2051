//! Approvals of sessions below others: found, told and answered at the root.
//!
//! Which settings a child may have is `sessions`' business.

use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::session_service_client::SessionServiceClient;
use pb::ApprovalChoice::Once;

use super::{erasing, frozen, with_approver};
use crate::support::approver::choose;
use crate::support::hook::{HookProcess, hello, registration};
use crate::support::orchestrator::code_of;
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::soon;

/// `root`, a session below it, and `deep` below that.
async fn three_generations(sidecar: &Sidecar) {
    let mut sessions = SessionServiceClient::new(sidecar.channel().await);
    let create = pb::CreateSessionRequest {
        session_id: "root".to_owned(),
        settings: None,
    };
    sessions.create_session(create).await.unwrap();
    for (parent, child) in [("root", "middle"), ("middle", "deep")] {
        let fork = pb::ForkSessionRequest {
            parent_session_id: parent.to_owned(),
            session_id: child.to_owned(),
            ..pb::ForkSessionRequest::default()
        };
        sessions.fork_session(fork).await.unwrap();
    }
}

fn deep(turn_id: &str) -> pb::RunTurnRequest {
    pb::RunTurnRequest {
        session_id: "deep".to_owned(),
        ..erasing(turn_id)
    }
}

fn of_root() -> Option<pb::ApprovalFilter> {
    Some(pb::ApprovalFilter {
        root_session_ids: vec!["root".to_owned()],
        ..pb::ApprovalFilter::default()
    })
}

#[tokio::test]
async fn what_a_grandchild_asks_reaches_who_looks_at_the_root_and_is_answered_there() {
    let (sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    three_generations(&sidecar).await;
    let request = pb::WatchApprovalsRequest {
        filter: of_root(),
        ..pb::WatchApprovalsRequest::default()
    };
    let mut watch = approver.watch(request).await.unwrap();
    let snapshot = soon("the snapshot", watch.message()).await.unwrap();
    assert!(snapshot.unwrap().snapshot_complete);
    let mut events = frozen(&orchestrator, deep("t")).await;
    let told = soon("a change", watch.message()).await.unwrap().unwrap();
    let approval = &told.approvals[0];
    assert_eq!(
        (&*approval.session_id, &*approval.root_session_id),
        ("deep", "root")
    );
    let request = pb::ListApprovalsRequest {
        filter: of_root(),
        ..pb::ListApprovalsRequest::default()
    };
    let listed = approver.page(request).await.unwrap().approvals;
    assert_eq!(listed.len(), 1);
    approver.decide(choose(approval, Once)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
}

#[tokio::test]
async fn a_mode_of_the_root_releases_what_its_grandchild_waits_for() {
    let (sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    three_generations(&sidecar).await;
    let mut events = frozen(&orchestrator, deep("t")).await;
    let request = pb::UpdateSessionRequest {
        session_id: "root".to_owned(),
        settings: Some(pb::SessionSettings {
            mode: pb::Mode::Auto as i32,
            ..pb::SessionSettings::default()
        }),
        ..pb::UpdateSessionRequest::default()
    };
    let mut sessions = approver.sessions.clone();
    let updated = sessions.update_session(request).await.unwrap().into_inner();
    assert_eq!((updated.released, updated.denied), (1, 0));
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
}

#[tokio::test]
async fn an_automatic_approver_answers_for_grandchildren_too() {
    let (sidecar, mut executor, orchestrator, _approver) = with_approver(Setup::default()).await;
    three_generations(&sidecar).await;
    let point = pb::HookPoint::ApprovalRequested;
    let mut hook = HookProcess::join(&sidecar, hello("i", [registration("one", &[point])])).await;
    let mut events = orchestrator.run(deep("t")).await;
    let asked = hook.asked().await;
    let Some(pb::hook_invocation::Payload::Approval(about)) = &asked.payload else {
        panic!("{asked:?}");
    };
    let approval = about.approval.clone().unwrap();
    let verdict = pb::ApprovalVerdict {
        action: pb::ApprovalAction::Approve as i32,
        message: String::new(),
        approval_digest: approval.approval_digest,
    };
    let verdict = Some(pb::hook_verdict::Verdict::Approval(verdict));
    hook.answer(&asked, verdict).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
}
