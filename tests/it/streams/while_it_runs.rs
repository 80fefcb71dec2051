//! What is told while a call runs: progress, output, signs of life.
//!
//! Never keeps any of it.

use callgate_client::pb::v1 as pb;
use pb::turn_event::Body;

use super::{attach, one};
use crate::support::executor::{Executor, hello, resuming};
use crate::support::orchestrator::{Following, Orchestrator};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{set_up, tools};

fn with_output(mut request: pb::RunTurnRequest) -> pb::RunTurnRequest {
    request.view = Some(pb::TurnView {
        include_output: true,
        ..pb::TurnView::default()
    });
    request
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
