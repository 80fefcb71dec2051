//! Streams of turns: many turns on one, taking a turn up again, progress, output and silence.
//!
//! Never assumes which of two turns speaks first.

use callgate_client::pb::v1 as pb;
use pb::stream_turns_request::Body as Ask;
use pb::stream_turns_response::Body as Said;
use pb::turn_event::Body;
use tokio::sync::mpsc;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::ReceiverStream;

use super::support::executor::{Executor, hello, resuming};
use super::support::failure;
use super::support::orchestrator::{
    Following, Orchestrator, call, code_of, result_of, text_of, turn,
};
use super::support::sidecar::{Setup, Sidecar};
use super::support::{set_up, soon, tools};

fn one(turn_id: &str) -> pb::RunTurnRequest {
    turn(turn_id, [call("c", "echo", "{}")])
}

fn attach(turn_id: &str, after_sequence: u64) -> pb::AttachTurnRequest {
    pb::AttachTurnRequest {
        turn_id: turn_id.to_owned(),
        after_sequence,
        ..pb::AttachTurnRequest::default()
    }
}

fn with_output(mut request: pb::RunTurnRequest) -> pb::RunTurnRequest {
    request.view = Some(pb::TurnView {
        include_output: true,
        ..pb::TurnView::default()
    });
    request
}

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
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
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

#[tokio::test]
async fn a_reader_takes_up_after_what_it_has_seen() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut whole = orchestrator.run(one("t")).await;
    let work = executor.work().await;
    executor.answer_text(&work, "x").await;
    let completed = whole.completed().await;
    let lines = whole.lines();
    for after in 0..lines.len() {
        let mut rest = orchestrator.attach(attach("t", after as u64)).await;
        assert_eq!(rest.completed().await, completed);
        assert_eq!(rest.lines(), lines[after..]);
        assert_eq!((rest.epoch, &rest.snapshot), (1, &None));
    }
    // Nothing follows the last one.
    let mut nothing = orchestrator.attach(attach("t", lines.len() as u64)).await;
    assert_eq!(nothing.try_next().await.unwrap(), None);
    let status = orchestrator
        .try_attach(attach("none", 0))
        .await
        .err()
        .unwrap();
    assert_eq!(failure::code(&status), "not_found");
}

#[tokio::test]
async fn a_turn_that_memory_has_let_go_is_shown_by_its_snapshot() {
    let setup = Setup::default().set("limits.finished_turns_max", 1);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let mut ends = Vec::new();
    for id in ["t1", "t2"] {
        let mut events = orchestrator.run(one(id)).await;
        let work = executor.work().await;
        executor.answer_text(&work, id).await;
        ends.push(events.completed().await);
    }
    for mut events in [
        orchestrator.attach(attach("t1", 0)).await,
        orchestrator.run(one("t1")).await,
    ] {
        assert_eq!(events.completed().await, ends[0]);
        let snapshot = events.snapshot.unwrap();
        assert_eq!(snapshot.state(), pb::TurnState::Completed);
        assert_eq!(snapshot.calls[0].state(), pb::CallState::Success);
    }
    assert_eq!(
        text_of(&orchestrator.get_result("t1", "c").await.unwrap()),
        "t1"
    );
    let mut other = one("t1");
    other.calls[0].arguments_json = r#"{"text":"other"}"#.into();
    let status = orchestrator.refused(other).await;
    assert_eq!(failure::code(&status), "call_conflict");
}

#[tokio::test]
async fn progress_is_told_unless_it_is_not_wanted() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut told = orchestrator.run(one("t")).await;
    let work = executor.work().await;
    let mut untold = {
        let mut request = attach("t", 0);
        request.view = Some(pb::TurnView {
            exclude_progress: true,
            ..pb::TurnView::default()
        });
        orchestrator.attach(request).await
    };
    executor.report(&work, "half").await;
    let Body::CallProgress(progress) = told
        .until(|body| matches!(body, Body::CallProgress(_)))
        .await
    else {
        panic!("no progress");
    };
    assert_eq!(
        (progress.call_id.as_str(), progress.message.as_str()),
        ("c", "half")
    );
    executor.report(&work, &"é".repeat(1_000)).await;
    let Body::CallProgress(progress) = told
        .until(|body| matches!(body, Body::CallProgress(_)))
        .await
    else {
        panic!("no progress");
    };
    assert_eq!(progress.message, "é".repeat(512));
    executor.answer_text(&work, "").await;
    told.completed().await;
    untold.completed().await;
    // Progress says that the handler runs, and takes no place in the sequence.
    assert_eq!(told.lines(), untold.lines());
    let reports = untold.events.iter().filter(|event| event.sequence == 0);
    assert_eq!(reports.count(), 0);
    assert!(
        told.lines()
            .contains(&"c: scheduled > executing".to_owned())
    );
}

#[tokio::test]
async fn a_burst_of_progress_is_thinned_out_and_its_last_word_kept() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut events = orchestrator.run(one("t")).await;
    let work = executor.work().await;
    for position in 0..200 {
        executor.report(&work, &position.to_string()).await;
    }
    let mut last = String::new();
    let mut count = 0;
    while last != "199" {
        let Body::CallProgress(progress) = events
            .until(|body| matches!(body, Body::CallProgress(_)))
            .await
        else {
            panic!("no progress");
        };
        last = progress.message;
        count += 1;
    }
    // Ten a second; the burst takes a few at most.
    assert!(count < 100, "{count}");
    executor.answer_text(&work, "").await;
    events.completed().await;
}

#[tokio::test]
async fn output_flows_within_its_window_and_on_as_it_is_read() {
    let setup = Setup::default().set("limits.output_window_bytes", 1_000);
    let sidecar = setup.start().await;
    let mut executor = Executor::join(&sidecar, resuming("box", "i", [tools::echo()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(with_output(one("t"))).await;
    let work = executor.work().await;
    let mut credit = u64::from(work.output_credit_bytes);
    assert_eq!(credit, 1_000);
    let mut printed = 0;
    for sequence in 1..=50 {
        while credit < 100 {
            let added = executor
                .hear_some("credit", |heard| {
                    let pb::connect_response::Body::OutputCredit(credit) = heard else {
                        return None;
                    };
                    Some(credit.added_bytes)
                })
                .await;
            credit += u64::from(added);
        }
        executor.print(&work, sequence, &[b'x'; 100]).await;
        credit -= 100;
        let Body::CallOutput(output) = events
            .until(|body| matches!(body, Body::CallOutput(_)))
            .await
        else {
            panic!("no output");
        };
        assert_eq!((output.chunk_sequence, output.dropped_bytes), (sequence, 0));
        assert_eq!(output.channel(), pb::OutputChannel::Stdout);
        printed += output.data.len();
    }
    assert_eq!(printed, 5_000);
    executor.answer_text(&work, "").await;
    events.completed().await;
}

#[tokio::test]
async fn a_reader_that_comes_later_opens_the_output() {
    let sidecar = Sidecar::start().await;
    let mut executor = Executor::join(&sidecar, resuming("box", "i", [tools::echo()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut without = orchestrator.run(one("t")).await;
    let work = executor.work().await;
    executor.accept(&work).await;
    without.until_state("c", pb::CallState::Executing).await;
    let mut request = attach("t", 0);
    request.view = with_output(one("t")).view;
    let mut with = orchestrator.attach(request).await;
    let added = executor
        .hear_some("credit", |heard| {
            let pb::connect_response::Body::OutputCredit(credit) = heard else {
                return None;
            };
            Some(credit.added_bytes)
        })
        .await;
    assert_eq!(added, 256 * 1024);
    executor.print(&work, 1, b"hello").await;
    let Body::CallOutput(output) = with.until(|body| matches!(body, Body::CallOutput(_))).await
    else {
        panic!("no output");
    };
    assert_eq!(output.data, "hello");
    executor.answer_text(&work, "").await;
    with.completed().await;
    without.completed().await;
    assert!(without.events.iter().all(|event| event.sequence > 0));
}

#[tokio::test]
async fn output_that_a_slow_reader_missed_is_counted() {
    let sidecar = Sidecar::start().await;
    let mut executor = Executor::join(&sidecar, resuming("box", "i", [tools::echo()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut slow = orchestrator.run(with_output(one("t"))).await;
    let work = executor.work().await;
    // Small pieces, far more than anybody keeps for a reader that does not come.
    for sequence in 1..=3_000 {
        executor.print(&work, sequence, b"0123456789").await;
    }
    executor.answer_text(&work, "").await;
    orchestrator.attach(attach("t", 0)).await.completed().await;
    slow.completed().await;
    let mut seen = 0;
    let mut last = 0;
    for event in &slow.events {
        let Some(Body::CallOutput(output)) = &event.body else {
            continue;
        };
        seen += output.data.len() as u64 + output.dropped_bytes;
        last = output.chunk_sequence;
    }
    // What came after the last piece that was kept is not told by a later one.
    assert_eq!(seen, last * 10);
}

#[tokio::test]
async fn silence_is_broken_by_heartbeats() {
    let setup = Setup::default().set("turn.heartbeat_ms", 50);
    let sidecar = setup.start().await;
    let narrow = pb::Hello {
        max_concurrent_executions: 1,
        ..hello("box", [tools::echo()])
    };
    let mut executor = Executor::join(&sidecar, narrow).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut runs = orchestrator.run(one("runs")).await;
    let work = executor.work().await;
    executor.accept(&work).await;
    let mut waits = orchestrator.run(one("waits")).await;
    let heartbeat = async |events: &mut Following| {
        let body = events
            .until(|body| matches!(body, Body::Heartbeat(_)))
            .await;
        let Body::Heartbeat(heartbeat) = body else {
            panic!("no heartbeat");
        };
        heartbeat.waiting_for
    };
    assert_eq!(heartbeat(&mut runs).await, "tool");
    assert_eq!(heartbeat(&mut waits).await, "executor");
    executor.answer_text(&work, "").await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    runs.completed().await;
    waits.completed().await;
}

#[tokio::test]
async fn tools_are_watched_as_they_come_change_and_go() {
    let (_sidecar, executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let request = pb::WatchToolsRequest::default();
    let mut registry = orchestrator.registry.clone();
    let mut watch = soon("the watch", registry.watch_tools(request))
        .await
        .unwrap()
        .into_inner();
    let names = |message: &pb::WatchToolsResponse| -> Vec<String> {
        let tools = message.tools.iter();
        tools
            .map(|tool| tool.definition.as_ref().unwrap().name.clone())
            .collect()
    };
    let first = soon("the tools", watch.next()).await.unwrap().unwrap();
    assert_eq!(names(&first), ["echo"]);
    let mut complete = first.snapshot_complete;
    executor
        .say(pb::connect_request::Body::ToolUpdate(pb::ToolUpdate {
            update_id: "u".to_owned(),
            upsert: vec![tools::write()],
            remove: vec!["echo".to_owned()],
        }))
        .await;
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let message = soon("a change", watch.next()).await.unwrap().unwrap();
        complete |= message.snapshot_complete;
        for tool in message.tools {
            seen.push((tool.definition.unwrap().name, tool.state));
        }
    }
    seen.sort();
    let expected = [
        ("echo".to_owned(), pb::ToolState::Removed as i32),
        ("write".to_owned(), pb::ToolState::Active as i32),
    ];
    assert_eq!(seen, expected);
    assert!(complete);
}
