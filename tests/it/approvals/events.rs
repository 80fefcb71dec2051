//! Events of all sessions: what a subscriber sees, and how it comes back.

use callgate_client::pb::v1 as pb;
use pb::ApprovalChoice::{Deny, Once};
use tonic::{Code, Status, Streaming};

use super::{erasing, frozen, with_approver};
use crate::support::approver::{Approver, choose};
use crate::support::sidecar::Setup;
use crate::support::{failure, soon};

type Events = Streaming<pb::SubscribeResponse>;

async fn subscribe(approver: &Approver, request: pb::SubscribeRequest) -> Result<Events, Status> {
    let mut client = approver.events.clone();
    let subscribed = soon("the subscription", client.subscribe(request)).await?;
    Ok(subscribed.into_inner())
}

async fn next(events: &mut Events) -> pb::SubscribeResponse {
    soon("an event", events.message()).await.unwrap().unwrap()
}

/// The state of the call, if the event tells of one that moved.
fn moved(event: &pb::EventRecord) -> Option<pb::CallState> {
    let Some(pb::event_record::Body::Turn(record)) = &event.body else {
        return None;
    };
    let body = record.event.as_ref()?.body.as_ref();
    let Some(pb::turn_event::Body::CallStateChanged(moved)) = body else {
        return None;
    };
    Some(moved.state())
}

#[tokio::test]
async fn a_subscriber_sees_calls_and_approvals_of_every_session() {
    let (_sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut waiting = frozen(&orchestrator, erasing("t1")).await;
    let request = pb::SubscribeRequest {
        include_snapshot: true,
        ..pb::SubscribeRequest::default()
    };
    let mut events = subscribe(&approver, request).await.unwrap();
    let snapshot = next(&mut events).await;
    assert!(snapshot.snapshot_complete);
    let is_turn = |event: &pb::EventRecord| {
        matches!(event.body, Some(pb::event_record::Body::TurnSnapshot(_)))
    };
    let kinds: Vec<bool> = snapshot.events.iter().map(is_turn).collect();
    assert_eq!(kinds, [true, false]);
    let approval = approver.only().await;
    approver.decide(choose(&approval, Once)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    waiting.completed().await;
    let mut states = Vec::new();
    while !states.contains(&pb::CallState::Success) {
        let message = next(&mut events).await;
        assert!(message.events.iter().all(|event| event.session_id == "s"));
        states.extend(message.events.iter().filter_map(moved));
    }
    assert_eq!(
        states,
        [
            pb::CallState::Scheduled,
            pb::CallState::Executing,
            pb::CallState::Success
        ]
    );
}

#[tokio::test]
async fn a_filter_leaves_other_kinds_and_sessions_out() {
    let (_sidecar, _executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let filter = pb::EventFilter {
        session_id: "other".to_owned(),
        kinds: vec![pb::EventKind::Approval as i32],
        ..pb::EventFilter::default()
    };
    let request = pb::SubscribeRequest {
        filter: Some(filter),
        ..pb::SubscribeRequest::default()
    };
    let mut events = subscribe(&approver, request).await.unwrap();
    let _first = frozen(&orchestrator, erasing("t1")).await;
    let of_other = pb::RunTurnRequest {
        session_id: "other".to_owned(),
        ..erasing("t2")
    };
    let _second = frozen(&orchestrator, of_other).await;
    let message = next(&mut events).await;
    assert_eq!(message.events.len(), 1);
    let Some(pb::event_record::Body::ApprovalChanged(changed)) = &message.events[0].body else {
        panic!("{message:?}");
    };
    assert_eq!(changed.approval.as_ref().unwrap().turn_id, "t2");
}

#[tokio::test]
async fn who_comes_back_with_its_cursor_misses_nothing_and_an_old_one_is_refused() {
    let (sidecar, executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut events = subscribe(&approver, pb::SubscribeRequest::default())
        .await
        .unwrap();
    let mut waiting = frozen(&orchestrator, erasing("t1")).await;
    let mut cursor = String::new();
    while cursor.is_empty() {
        cursor = next(&mut events).await.cursor;
    }
    drop(events);
    let approval = approver.only().await;
    approver.decide(choose(&approval, Deny)).await;
    waiting.completed().await;
    let resumed = pb::SubscribeRequest {
        after_cursor: cursor.clone(),
        ..pb::SubscribeRequest::default()
    };
    let mut events = subscribe(&approver, resumed.clone()).await.unwrap();
    let mut states = Vec::new();
    while !states.contains(&pb::CallState::Error) {
        states.extend(next(&mut events).await.events.iter().filter_map(moved));
    }
    drop((events, executor));
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    let approver = Approver::connect(&sidecar).await;
    let status = subscribe(&approver, resumed).await.unwrap_err();
    assert_eq!(
        (status.code(), failure::code(&status)),
        (Code::OutOfRange, "cursor_expired".to_owned())
    );
    let both = pb::SubscribeRequest {
        after_cursor: cursor,
        include_snapshot: true,
        ..pb::SubscribeRequest::default()
    };
    let status = subscribe(&approver, both).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}
