//! Many turns on one stream.
//!
//! Never assumes which of two turns speaks first.

use callgate_client::pb::v1 as pb;
use pb::stream_turns_request::Body as Ask;
use pb::stream_turns_response::Body as Said;
use pb::turn_event::Body;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::{attach, one};
use crate::support::orchestrator::{Orchestrator, call, code_of, result_of, text_of, turn};
use crate::support::sidecar::Setup;
use crate::support::{set_up, soon, tools};

/// One `StreamTurns`.
struct Multiplex {
    out: Option<mpsc::Sender<pb::StreamTurnsRequest>>,
    inbound: tonic::Streaming<pb::StreamTurnsResponse>,
}

impl Multiplex {
    async fn open(orchestrator: &Orchestrator) -> Self {
        let (out, asked) = mpsc::channel(64);
        let mut turns = orchestrator.turns.clone();
        let opening = turns.stream_turns(ReceiverStream::new(asked));
        let inbound = soon("the headers", opening).await.unwrap().into_inner();
        Self {
            out: Some(out),
            inbound,
        }
    }

    async fn ask(&self, ask: Ask) {
        let out = self.out.as_ref().unwrap();
        out.send(pb::StreamTurnsRequest { body: Some(ask) })
            .await
            .unwrap();
    }

    async fn try_hear(&mut self) -> Option<Said> {
        let message = soon("a word", self.inbound.message()).await.unwrap()?;
        Some(message.body.unwrap())
    }

    async fn hear(&mut self) -> Said {
        self.try_hear().await.expect("the stream ended")
    }

    /// The end of each of these turns; nothing but events may come before.
    async fn ends(&mut self, mut count: usize) -> Vec<(String, pb::TurnCompleted)> {
        let mut ends = Vec::new();
        while count > 0 {
            let said = self.hear().await;
            let Said::Turn(events) = said else {
                panic!("no events: {said:?}");
            };
            for event in events.events {
                if let Some(Body::TurnCompleted(completed)) = event.body {
                    ends.push((events.turn_id.clone(), completed));
                    count -= 1;
                }
            }
        }
        ends
    }

    async fn refused(&mut self) -> (String, String) {
        let said = self.hear().await;
        let Said::Refused(refused) = said else {
            panic!("not refused: {said:?}");
        };
        (refused.turn_id, refused.error.unwrap().detail.unwrap().code)
    }
}

#[tokio::test]
async fn many_turns_share_one_stream() {
    let (_sidecar, mut executor, orchestrator) =
        set_up(Setup::default().set("loop.enabled", false), [tools::echo()]).await;
    let mut stream = Multiplex::open(&orchestrator).await;
    for position in 0..20 {
        stream.ask(Ask::Run(one(&format!("t{position}")))).await;
    }
    let mut work = Vec::new();
    // An executor has room for 16.
    for _ in 0..16 {
        work.push(executor.work().await);
    }
    while let Some(request) = work.pop() {
        let turn_id = request.context.as_ref().unwrap().turn_id.clone();
        executor.answer_text(&request, &turn_id).await;
    }
    for _ in 0..4 {
        let request = executor.work().await;
        let turn_id = request.context.as_ref().unwrap().turn_id.clone();
        executor.answer_text(&request, &turn_id).await;
    }
    let mut ends = stream.ends(20).await;
    ends.sort_by(|one, other| one.0.cmp(&other.0));
    ends.dedup_by(|one, other| one.0 == other.0);
    assert_eq!(ends.len(), 20);
    for (turn_id, completed) in &ends {
        assert_eq!(&text_of(result_of(completed, "c")), turn_id);
    }
    stream.out = None;
    assert_eq!(stream.try_hear().await, None);
}

#[tokio::test]
async fn a_turn_that_is_refused_is_a_message_and_the_stream_goes_on() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut stream = Multiplex::open(&orchestrator).await;
    let mut no_ids = one("t");
    no_ids.calls[0].call_id.clear();
    stream.ask(Ask::Run(no_ids)).await;
    assert_eq!(
        stream.refused().await,
        ("t".to_owned(), "call_id_empty".to_owned())
    );
    stream.ask(Ask::Run(one(""))).await;
    assert_eq!(stream.refused().await.1, "invalid_request");
    stream.ask(Ask::Attach(attach("none", 0))).await;
    assert_eq!(
        stream.refused().await,
        ("none".to_owned(), "not_found".to_owned())
    );
    let cancel = pb::CancelCallRequest {
        turn_id: "none".to_owned(),
        call_id: "c".to_owned(),
        ..pb::CancelCallRequest::default()
    };
    stream.ask(Ask::CancelCall(cancel)).await;
    assert_eq!(stream.refused().await.1, "not_found");
    let unknown = pb::StreamTurnsRequest { body: None };
    stream.out.as_ref().unwrap().send(unknown).await.unwrap();
    let Said::Notice(notice) = stream.hear().await else {
        panic!("no notice");
    };
    assert_eq!(notice.code, "body_unknown");
    stream.ask(Ask::Run(one("t"))).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    stream.ends(1).await;
}

#[tokio::test]
async fn a_turn_is_cancelled_on_its_stream() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut stream = Multiplex::open(&orchestrator).await;
    stream
        .ask(Ask::Run(turn(
            "t",
            ["a", "b"].map(|id| call(id, "echo", "{}")),
        )))
        .await;
    let (a, b) = (executor.work().await, executor.work().await);
    let cancel = pb::CancelCallRequest {
        turn_id: "t".to_owned(),
        call_id: "a".to_owned(),
        grace_ms: Some(0),
        ..pb::CancelCallRequest::default()
    };
    stream.ask(Ask::CancelCall(cancel)).await;
    assert_eq!(executor.told_to_stop().await.execution, a.execution);
    let cancel = pb::CancelTurnRequest {
        turn_id: "t".to_owned(),
        ..pb::CancelTurnRequest::default()
    };
    stream.ask(Ask::CancelTurn(cancel)).await;
    assert_eq!(executor.told_to_stop().await.execution, b.execution);
    executor
        .answer_cancelled(&b.execution, pb::CallEffect::NotExecuted)
        .await;
    let (_, completed) = stream.ends(1).await.remove(0);
    assert_eq!(completed.outcome(), pb::TurnOutcome::Cancelled);
    assert_eq!(code_of(&completed, "a"), "tool_cancelled");
}

#[tokio::test]
async fn a_turn_that_is_detached_goes_on_and_can_be_taken_up_where_it_was_left() {
    for on_disconnect in [pb::OnDisconnect::Keep, pb::OnDisconnect::Cancel] {
        let (_sidecar, mut executor, orchestrator) =
            set_up(Setup::default(), [tools::echo()]).await;
        let mut stream = Multiplex::open(&orchestrator).await;
        let mut request = one("t");
        request.on_disconnect = on_disconnect as i32;
        stream.ask(Ask::Run(request)).await;
        let work = executor.work().await;
        executor.accept(&work).await;
        let mut last_sequence = 0;
        while last_sequence < 3 {
            let Said::Turn(events) = stream.hear().await else {
                panic!("no events");
            };
            last_sequence = events.events.last().unwrap().sequence;
        }
        let detach = pb::DetachTurn {
            turn_id: "t".to_owned(),
        };
        stream.ask(Ask::Detach(detach.clone())).await;
        let Said::Detached(detached) = stream.hear().await else {
            panic!("not detached");
        };
        assert_eq!((detached.turn_id.as_str(), detached.error), ("t", None));
        assert_eq!(detached.last_sequence, 3);
        // An unknown one is ignored, and the stream has nothing more to say.
        stream.ask(Ask::Detach(detach)).await;
        stream
            .ask(Ask::Attach(attach("t", detached.last_sequence)))
            .await;
        executor.answer_text(&work, "went on").await;
        let Said::Turn(events) = stream.hear().await else {
            panic!("no events");
        };
        assert_eq!(events.events[0].sequence, 4);
        let Some(Body::TurnCompleted(completed)) = &events.events.last().unwrap().body else {
            panic!("not ended: {events:?}");
        };
        assert_eq!(text_of(result_of(completed, "c")), "went on");
    }
}

#[tokio::test]
async fn a_half_closed_stream_ends_once_nothing_is_followed() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut stream = Multiplex::open(&orchestrator).await;
    stream.ask(Ask::Run(one("t"))).await;
    stream.ask(Ask::Run(one("left"))).await;
    let (work, _left) = (executor.work().await, executor.work().await);
    stream
        .ask(Ask::Detach(pb::DetachTurn {
            turn_id: "left".to_owned(),
        }))
        .await;
    stream.out = None;
    executor.answer_text(&work, "").await;
    let mut detached = false;
    let mut ended = false;
    while let Some(said) = stream.try_hear().await {
        detached |= matches!(said, Said::Detached(_));
        if let Said::Turn(events) = said {
            ended |= events
                .events
                .iter()
                .any(|event| matches!(event.body, Some(Body::TurnCompleted(_))));
        }
    }
    assert!(detached && ended);
}

#[tokio::test]
async fn a_stream_that_breaks_cancels_the_turns_that_want_it() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let stream = Multiplex::open(&orchestrator).await;
    let cancel = pb::RunTurnRequest {
        on_disconnect: pb::OnDisconnect::Cancel as i32,
        run_id: "r".to_owned(),
        ..one("cancel")
    };
    stream.ask(Ask::Run(cancel)).await;
    let cancelled = executor.work().await;
    stream.ask(Ask::Run(one("keep"))).await;
    let kept = executor.work().await;
    drop(stream);
    assert_eq!(executor.told_to_stop().await.execution, cancelled.execution);
    executor
        .answer_cancelled(&cancelled.execution, pb::CallEffect::NotExecuted)
        .await;
    executor.answer_text(&kept, "kept").await;
    let completed = orchestrator
        .attach(attach("keep", 0))
        .await
        .completed()
        .await;
    assert_eq!(text_of(result_of(&completed, "c")), "kept");
    let completed = orchestrator
        .attach(attach("cancel", 0))
        .await
        .completed()
        .await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::Cancelled);
}

#[tokio::test]
async fn no_more_turns_than_allowed_are_followed_on_one_stream() {
    let setup = Setup::default().set("limits.stream_turns_max", 2);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let beside = orchestrator.run(one("beside")).await;
    executor.work().await;
    let mut stream = Multiplex::open(&orchestrator).await;
    stream.ask(Ask::Run(one("t1"))).await;
    stream.ask(Ask::Run(one("t2"))).await;
    let work = [executor.work().await, executor.work().await];
    stream.ask(Ask::Run(one("t3"))).await;
    stream.ask(Ask::Attach(attach("beside", 0))).await;
    let mut refused = Vec::new();
    while refused.len() < 2 {
        match stream.hear().await {
            Said::Refused(turn) => {
                let error = turn.error.unwrap();
                assert_eq!(error.status, tonic::Code::ResourceExhausted as u32);
                let limit = error.detail.unwrap().limit.unwrap();
                assert_eq!(
                    (limit.name.as_str(), limit.allowed),
                    ("stream_turns_max", 2)
                );
                refused.push(turn.turn_id);
            }
            Said::Turn(events) => assert_ne!(events.turn_id, "beside"),
            said @ (Said::Detached(_) | Said::GoAway(_) | Said::Notice(_)) => panic!("{said:?}"),
        }
    }
    assert_eq!(refused, ["t3", "beside"]);
    for request in &work {
        executor.answer_text(request, "").await;
    }
    stream.ends(2).await;
    // Their places are free again.
    stream.ask(Ask::Run(one("t3"))).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    stream.ends(1).await;
    drop(beside);
}
