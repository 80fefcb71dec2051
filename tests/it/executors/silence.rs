//! Executors that stay silent, do not read, or do not answer in time.
//!
//! Never holds up anybody else for them.

use callgate_client::pb::v1 as pb;
use pb::connect_request::Body as Word;
use pb::connect_response::Body as Heard;
use tonic::Code;

use super::{one, unknown_outcome};
use crate::support::executor::{Executor, hello, resuming};
use crate::support::failure::code;
use crate::support::orchestrator::{Orchestrator, call, code_of, result_of, text_of, turn};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{set_up, tools};

#[tokio::test]
async fn an_executor_that_answers_no_ping_is_given_up() {
    let setup = Setup::default()
        .set("stream.ping_interval_ms", 50)
        .set("stream.ping_misses", 2);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::write()]).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    let work = executor.work().await;
    executor.accept(&work).await;
    executor.answers_pings = false;
    let (heard, status) = executor.ended().await;
    let status = status.unwrap();
    assert_eq!(
        (status.code(), code(&status).as_str()),
        (Code::DeadlineExceeded, "heartbeat_missed")
    );
    let Some(Heard::GoAway(go_away)) = heard.last() else {
        panic!("no farewell: {heard:?}");
    };
    assert_eq!(go_away.reason(), pb::GoAwayReason::HeartbeatMissed);
    assert!(go_away.reconnect_max_ms > 0);
    unknown_outcome(&events.completed().await, "tool_outcome_unknown");
}

#[tokio::test]
async fn an_executor_that_answers_each_ping_late_stays() {
    let setup = Setup::default()
        // A busy machine must not make an answer late by two pings.
        .set("stream.ping_interval_ms", 300)
        .set("stream.ping_misses", 2);
    let (_sidecar, mut executor, _orchestrator) = set_up(setup, [tools::echo()]).await;
    executor.answers_pings = false;
    let mut last = executor.pinged().await;
    for _ in 0..4 {
        // Its answer is always one ping behind.
        let next = executor.pinged().await;
        executor.say(Word::Pong(pb::Pong { nonce: last })).await;
        last = next;
    }
}

#[tokio::test]
async fn an_executor_that_does_not_read_is_closed_and_holds_nobody_up() {
    let setup = Setup::default()
        .set("loop.enabled", false)
        .set("stream.ping_interval_ms", 50)
        .set("stream.ping_misses", 10_000)
        .set("stream.send_stall_ms", 300)
        .set("turn.queue_timeout_ms", 500);
    let sidecar = setup.start().await;
    let deaf = Executor::join(&sidecar, hello("deaf", [tools::write()])).await;
    let mut other = Executor::join(&sidecar, hello("other", [tools::echo()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(1_000_000));
    let mut stuck = Vec::new();
    for position in 0..6 {
        let calls = ["a", "b"].map(|id| call(id, "write", &large));
        stuck.push(
            orchestrator
                .run(turn(&format!("stuck{position}"), calls))
                .await,
        );
    }
    let mut events = orchestrator.run(one("t", "echo")).await;
    let work = other.work().await;
    other.answer_text(&work, "at once").await;
    assert_eq!(
        text_of(result_of(&events.completed().await, "c")),
        "at once"
    );
    let mut unknown = 0;
    for mut events in stuck {
        for result in events.completed().await.results {
            // What was still being recorded when the stream ended was never sent.
            let code = result.error.unwrap().code;
            assert!(
                ["tool_outcome_unknown", "tool_unavailable"].contains(&code.as_str()),
                "{code}"
            );
            unknown += u32::from(code == "tool_outcome_unknown");
        }
    }
    assert!(unknown > 0);
    let mut deaf = deaf;
    let status = deaf.ended().await.1.unwrap();
    assert_eq!(
        (status.code(), code(&status).as_str()),
        (Code::ResourceExhausted, "slow_reader")
    );
}

#[tokio::test]
async fn a_silent_call_times_out_and_keeps_its_slot() {
    let short = pb::ToolDefinition {
        timeout_ms: Some(200),
        ..tools::write()
    };
    let sidecar = Sidecar::start().await;
    let narrow = pb::Hello {
        max_concurrent_executions: 1,
        ..hello("box", [short, tools::echo()])
    };
    let mut executor = Executor::join(&sidecar, narrow).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    let work = executor.work().await;
    assert_eq!(work.timeout_ms, 200);
    executor.accept(&work).await;
    unknown_outcome(&events.completed().await, "tool_timeout");
    let told = executor.told_to_stop().await;
    assert_eq!(told.reason(), pb::CancelReason::Deadline);
    // The handler still runs as far as anybody knows.
    let mut events = orchestrator.run(one("u", "echo")).await;
    executor.has_no_work().await;
    executor.answer_text(&work, "too late").await;
    assert_eq!(executor.acked().await, pb::ResultAckStatus::Late);
    let next = executor.work().await;
    executor.answer_text(&next, "").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
    assert!(orchestrator.get_result("t", "c").await.unwrap().is_error);
}

#[tokio::test]
async fn a_call_that_is_not_accepted_in_time_counts_as_lost() {
    let setup = Setup::default().set("stream.accept_timeout_ms", 200);
    let sidecar = setup.start().await;
    let list = || [tools::write(), tools::echo()];
    let mut deaf = Executor::join(&sidecar, resuming("box", "deaf", list())).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut strict = orchestrator.run(one("t", "write")).await;
    deaf.work().await;
    unknown_outcome(&strict.completed().await, "tool_outcome_unknown");
    let mut harmless = orchestrator.run(one("u", "echo")).await;
    deaf.work().await;
    // Both slots stay taken, so the other instance has more room.
    let mut quick = Executor::join(&sidecar, resuming("box", "quick", list())).await;
    let again = quick.work().await;
    assert_eq!(again.execution.as_ref().unwrap().attempt, 2);
    quick.answer_text(&again, "quick").await;
    assert_eq!(
        text_of(result_of(&harmless.completed().await, "c")),
        "quick"
    );
}
