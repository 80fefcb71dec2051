//! Seeing what waits: pages, filters, watches, and what was decided long ago.

use callgate_client::pb::v1 as pb;
use pb::ApprovalChoice::{Deny, Once};
use tonic::{Code, Streaming};

use super::{erasing, frozen, with_approver};
use crate::support::approver::{Approver, choose};
use crate::support::failure;
use crate::support::orchestrator::{Orchestrator, call, turn};
use crate::support::sidecar::Setup;
use crate::support::soon;

async fn three(orchestrator: &Orchestrator) {
    for (session, tool) in [("s1", "erase"), ("s2", "edit"), ("s2", "erase")] {
        let request = pb::RunTurnRequest {
            session_id: session.to_owned(),
            run_id: tool.to_owned(),
            ..turn(
                &format!("{session} {tool}"),
                [call("c", tool, r#"{"text":"x"}"#)],
            )
        };
        drop(frozen(orchestrator, request).await);
    }
}

fn filtered(filter: pb::ApprovalFilter) -> pb::ListApprovalsRequest {
    pb::ListApprovalsRequest {
        filter: Some(filter),
        ..pb::ListApprovalsRequest::default()
    }
}

#[tokio::test]
async fn what_waits_is_listed_by_page_and_by_filter() {
    let (_sidecar, _executor, orchestrator, approver) = with_approver(Setup::default()).await;
    three(&orchestrator).await;
    let mut turns = Vec::new();
    let mut token = String::new();
    loop {
        let request = pb::ListApprovalsRequest {
            page_size: 2,
            page_token: token,
            ..pb::ListApprovalsRequest::default()
        };
        let page = approver.page(request).await.unwrap();
        assert_eq!(page.total, 3);
        turns.extend(page.approvals.into_iter().map(|approval| approval.turn_id));
        token = page.next_page_token;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(turns, ["s1 erase", "s2 edit", "s2 erase"]);
    let rows = [
        (
            pb::ApprovalFilter {
                session_id: "s2".to_owned(),
                ..Default::default()
            },
            2,
        ),
        (
            pb::ApprovalFilter {
                root_session_ids: vec!["s1".to_owned()],
                ..Default::default()
            },
            1,
        ),
        (
            pb::ApprovalFilter {
                tools: vec!["er*".to_owned()],
                ..Default::default()
            },
            2,
        ),
        (
            pb::ApprovalFilter {
                min_risk_level: pb::RiskLevel::Dangerous as i32,
                ..Default::default()
            },
            2,
        ),
        (
            pb::ApprovalFilter {
                turn_id: "s2 edit".to_owned(),
                ..Default::default()
            },
            1,
        ),
    ];
    for (filter, expected) in rows {
        let found = approver.page(filtered(filter.clone())).await.unwrap();
        assert_eq!(found.approvals.len(), expected, "{filter:?}");
    }
    for (size, is_taken) in [(500, true), (501, false)] {
        let request = pb::ListApprovalsRequest {
            page_size: size,
            ..pb::ListApprovalsRequest::default()
        };
        assert_eq!(approver.page(request).await.is_ok(), is_taken, "{size}");
    }
}

#[tokio::test]
async fn what_was_decided_is_found_by_its_session() {
    let (_sidecar, _executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut events = frozen(&orchestrator, erasing("t")).await;
    let approval = approver.only().await;
    approver.decide(choose(&approval, Deny)).await;
    events.completed().await;
    let states = vec![pb::ApprovalState::Denied as i32];
    let everywhere = pb::ApprovalFilter {
        states: states.clone(),
        ..pb::ApprovalFilter::default()
    };
    let status = approver.page(filtered(everywhere)).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let of_session = pb::ApprovalFilter {
        states,
        session_id: "s".to_owned(),
        ..pb::ApprovalFilter::default()
    };
    let found = approver.page(filtered(of_session)).await.unwrap().approvals;
    assert_eq!(found[0].approval_id, approval.approval_id);
    assert_eq!(found[0].state(), pb::ApprovalState::Denied);
}

#[tokio::test]
async fn long_arguments_are_cut_in_lists_and_whole_when_looked_at() {
    let (_sidecar, _executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let long = format!(r#"{{"text":"{}"}}"#, "x".repeat(8 * 1024));
    let _events = frozen(&orchestrator, turn("t", [call("c", "erase", &long)])).await;
    let listed = approver.only().await;
    assert!(listed.arguments_cut && listed.effective_arguments_json.len() <= 4 * 1024);
    let whole = approver.get(&listed.approval_id).await.unwrap();
    assert!(!whole.arguments_cut);
    assert_eq!(whole.effective_arguments_json, long);
    assert_eq!(whole.approval_digest, listed.approval_digest);
    let status = approver.get("nobody.0.0123456789abcdef").await.unwrap_err();
    assert_eq!(
        (status.code(), failure::code(&status)),
        (Code::NotFound, "approval_not_found".to_owned())
    );
}

async fn next(watch: &mut Streaming<pb::WatchApprovalsResponse>) -> pb::WatchApprovalsResponse {
    soon("a change", watch.message()).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_watcher_gets_what_waits_and_then_every_change_and_can_come_back() {
    let (sidecar, _executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut first = frozen(&orchestrator, erasing("t1")).await;
    let mut watch = approver
        .watch(pb::WatchApprovalsRequest::default())
        .await
        .unwrap();
    let snapshot = next(&mut watch).await;
    assert!(snapshot.snapshot_complete);
    assert_eq!(snapshot.approvals.len(), 1);
    approver.decide(choose(&snapshot.approvals[0], Deny)).await;
    first.completed().await;
    let change = next(&mut watch).await;
    assert_eq!(change.approvals[0].state(), pb::ApprovalState::Denied);
    drop(watch);
    let mut second = frozen(&orchestrator, erasing("t2")).await;
    let resumed = pb::WatchApprovalsRequest {
        after_cursor: change.cursor.clone(),
        ..pb::WatchApprovalsRequest::default()
    };
    let mut watch = approver.watch(resumed.clone()).await.unwrap();
    let missed = next(&mut watch).await;
    assert!(!missed.snapshot_complete);
    assert_eq!(missed.approvals[0].turn_id, "t2");
    approver.decide(choose(&missed.approvals[0], Once)).await;
    // Nobody knows what it was told before it came back: what stops to wait is told all the same.
    let approved = next(&mut watch).await;
    assert_eq!(approved.approvals[0].state(), pb::ApprovalState::Approved);
    drop(watch);
    drop(second.try_next().await);
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    let approver = Approver::connect(&sidecar).await;
    let status = match approver.watch(resumed).await {
        Err(status) => status,
        Ok(mut watch) => watch.message().await.unwrap_err(),
    };
    assert_eq!(
        (status.code(), failure::code(&status)),
        (Code::OutOfRange, "cursor_expired".to_owned())
    );
}
