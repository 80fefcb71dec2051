//! What can be read of turns and results, and how much of it a reader gets.
//!
//! Never shows a result before its call has ended.

use callgate_client::pb::v1 as pb;
use pb::turn_event::Body;

use crate::support::failure;
use crate::support::orchestrator::{call, result_of, text_of, turn};
use crate::support::sidecar::Setup;
use crate::support::{set_up, tools};

#[tokio::test]
async fn turns_are_shown_and_listed_newest_first() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    for id in ["t1", "t2"] {
        let mut request = turn(id, [call("c", "echo", r#"{"text":"x"}"#)]);
        request.model_message = format!("message of {id}").into();
        let mut events = orchestrator.run(request).await;
        let work = executor.work().await;
        executor.answer_text(&work, "seen").await;
        events.completed().await;
    }
    let mut open = orchestrator
        .run(turn("t3", [call("c", "echo", "{}")]))
        .await;
    let work = executor.work().await;
    let shown = orchestrator.get_turn("t2").await.unwrap();
    assert_eq!(shown.state(), pb::TurnState::Completed);
    assert_eq!(shown.model_message, "message of t2");
    assert_eq!(shown.calls[0].state(), pb::CallState::Success);
    assert_eq!(
        text_of(result_of(shown.completed.as_ref().unwrap(), "c")),
        "seen"
    );
    let list = |state: pb::TurnState, page_size: u32, page_token: String| {
        let request = pb::ListTurnsRequest {
            session_id: "s".to_owned(),
            state: state as i32,
            page_size,
            page_token,
            ..pb::ListTurnsRequest::default()
        };
        let mut turns = orchestrator.turns.clone();
        async move { turns.list_turns(request).await.unwrap().into_inner() }
    };
    let ids = |page: &pb::ListTurnsResponse| -> Vec<String> {
        page.turns.iter().map(|turn| turn.turn_id.clone()).collect()
    };
    let all = list(pb::TurnState::Unspecified, 0, String::new()).await;
    assert_eq!(ids(&all), ["t3", "t2", "t1"]);
    assert!(all.turns.iter().all(|turn| turn.model_message.is_empty()));
    let running = list(pb::TurnState::Running, 0, String::new()).await;
    assert_eq!(ids(&running), ["t3"]);
    let ended = list(pb::TurnState::Completed, 0, String::new()).await;
    assert_eq!(ids(&ended), ["t2", "t1"]);
    let mut paged = Vec::new();
    let mut token = String::new();
    for _ in 0..3 {
        let page = list(pb::TurnState::Unspecified, 1, token).await;
        paged.extend(ids(&page));
        token = page.next_page_token;
    }
    assert_eq!(paged, ["t3", "t2", "t1"]);
    assert_eq!(token, "");
    executor.answer_text(&work, "").await;
    open.completed().await;
}

#[tokio::test]
async fn a_result_is_shown_once_its_call_has_ended() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let calls = [call("a", "echo", "{}"), call("b", "echo", "{}")];
    let mut events = orchestrator.run(turn("t", calls)).await;
    let (first, second) = (executor.work().await, executor.work().await);
    executor.answer_text(&first, "early").await;
    events.until_state("a", pb::CallState::Success).await;
    assert_eq!(
        text_of(&orchestrator.get_result("t", "a").await.unwrap()),
        "early"
    );
    for (turn, call) in [("t", "b"), ("t", "none"), ("none", "a")] {
        let status = orchestrator.get_result(turn, call).await.unwrap_err();
        assert_eq!(status.code(), tonic::Code::NotFound, "{turn} {call}");
        assert_eq!(failure::code(&status), "not_found");
    }
    executor.answer_text(&second, "late").await;
    events.completed().await;
    assert_eq!(
        text_of(&orchestrator.get_result("t", "b").await.unwrap()),
        "late"
    );
}

#[tokio::test]
async fn results_are_cut_to_the_readers_message_and_kept_whole() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut request = turn("t", [call("a", "echo", "{}"), call("b", "echo", "{}")]);
    request.view = Some(pb::TurnView {
        max_message_bytes: 256 * 1024,
        ..pb::TurnView::default()
    });
    let mut events = orchestrator.run(request).await;
    let large = "é".repeat(400 * 1024);
    for _ in 0..2 {
        let work = executor.work().await;
        let text = if work.call_id == "a" {
            large.as_str()
        } else {
            "small"
        };
        executor.answer_text(&work, text).await;
    }
    let completed = events.completed().await;
    assert!(prost::Message::encoded_len(&completed) <= 256 * 1024);
    let cut = result_of(&completed, "a");
    assert!(cut.truncated);
    assert_eq!(cut.original_bytes, Some(large.len() as u64));
    assert!(large.starts_with(&text_of(cut)) && !text_of(cut).is_empty());
    let small = result_of(&completed, "b");
    assert_eq!((text_of(small).as_str(), small.truncated), ("small", false));
    let whole = orchestrator.get_result("t", "a").await.unwrap();
    assert!(!whole.truncated);
    assert_eq!(text_of(&whole), large);
}

#[tokio::test]
async fn contents_travel_where_the_reader_wants_them() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let rows = [
        (pb::ResultDelivery::Unspecified, false, true),
        (pb::ResultDelivery::AtEnd, false, true),
        (pb::ResultDelivery::AsCompleted, true, false),
        (pb::ResultDelivery::Both, true, true),
    ];
    for (position, (delivery, as_completed, at_end)) in rows.into_iter().enumerate() {
        let mut request = turn(&format!("t{position}"), [call("c", "echo", "{}")]);
        request.view = Some(pb::TurnView {
            result_delivery: delivery as i32,
            ..pb::TurnView::default()
        });
        let mut events = orchestrator.run(request).await;
        let work = executor.work().await;
        executor.answer_text(&work, "here").await;
        let Body::CallCompleted(ended) = events
            .until(|body| matches!(body, Body::CallCompleted(_)))
            .await
        else {
            panic!("no result");
        };
        let has = |result: &pb::CallResult| !result.contents.is_empty();
        assert_eq!(has(&ended.result.unwrap()), as_completed, "{delivery:?}");
        let completed = events.completed().await;
        assert_eq!(has(result_of(&completed, "c")), at_end, "{delivery:?}");
    }
}
