//! Which executor gets a call, and when: room, drain, refusals, waiting.
//!
//! Never sends a call where there is no room for it.

use callgate_client::pb::v1 as pb;
use pb::connect_request::Body as Word;
use pb::connect_response::Body as Heard;

use super::one;
use crate::support::executor::{Executor, hello};
use crate::support::orchestrator::{Orchestrator, call, code_of, result_of, text_of, turn};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{set_up, tools, until_connected, until_no_executor};

#[tokio::test]
async fn instances_of_one_executor_share_the_load_by_free_slots() {
    let sidecar = Sidecar::start().await;
    let with_slots = |slots| pb::Hello {
        max_concurrent_executions: slots,
        ..hello("box", [tools::echo()])
    };
    let mut wide = Executor::join(&sidecar, with_slots(3)).await;
    let mut narrow = Executor::join(&sidecar, with_slots(1)).await;
    let registration = &narrow.welcome.registrations[0];
    assert_eq!(
        (registration.state(), registration.generation),
        (pb::RegistrationState::Active, 1)
    );
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let calls = ["a", "b", "c", "d", "e"].map(|id| call(id, "echo", "{}"));
    let mut events = orchestrator.run(turn("t", calls)).await;
    let mut at_wide = Vec::new();
    for _ in 0..3 {
        at_wide.push(wide.work().await);
    }
    let at_narrow = narrow.work().await;
    wide.has_no_work().await;
    narrow.has_no_work().await;
    // The fifth waits for the first slot that is free.
    narrow.answer_text(&at_narrow, "").await;
    let last = narrow.work().await;
    assert_eq!(last.call_id, "e");
    narrow.answer_text(&last, "").await;
    for work in at_wide {
        wide.answer_text(&work, "").await;
    }
    let completed = events.completed().await;
    assert!(completed.results.iter().all(|result| !result.is_error));
}

#[tokio::test]
async fn a_draining_executor_gets_nothing_new_and_finishes_what_it_has() {
    let sidecar = Sidecar::start().await;
    let mut leaving = Executor::join(&sidecar, hello("box", [tools::write()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let calls = [call("a", "write", "{}"), call("b", "write", "{}")];
    let mut events = orchestrator.run(turn("t", calls)).await;
    let runs = leaving.work().await;
    let queued = leaving.work().await;
    leaving.accept(&runs).await;
    leaving
        .say(Word::DrainRequest(pb::DrainRequest::default()))
        .await;
    leaving
        .hear_some("the drain", |heard| {
            matches!(heard, Heard::DrainStarted(_)).then_some(())
        })
        .await;
    let mut staying = Executor::join(&sidecar, hello("box", [tools::write()])).await;
    // What has not begun is given back, and goes to somebody else.
    leaving
        .say(Word::Abandoned(pb::ExecuteAbandoned {
            execution: queued.execution.clone(),
            message: String::new(),
        }))
        .await;
    let again = staying.work().await;
    assert_eq!(again.call_id, "b");
    assert_eq!(again.execution.as_ref().unwrap().attempt, 2);
    let mut more = orchestrator.run(one("u", "write")).await;
    let work = staying.work().await;
    leaving.answer_text(&runs, "finished").await;
    assert_eq!(leaving.acked().await, pb::ResultAckStatus::Recorded);
    // Pings are still answered, and do not make it take work again.
    leaving.has_no_work().await;
    staying.answer_text(&again, "").await;
    staying.answer_text(&work, "").await;
    more.completed().await;
    assert_eq!(
        text_of(result_of(&events.completed().await, "a")),
        "finished"
    );
    leaving.hang_up_politely();
    assert!(leaving.ended().await.1.is_none());
}

#[tokio::test]
async fn a_busy_executor_is_left_alone_and_another_one_asked() {
    let sidecar = Sidecar::start().await;
    let mut busy = Executor::join(&sidecar, hello("box", [tools::write()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    for (position, reason) in [
        pb::RejectReason::Busy,
        pb::RejectReason::Draining,
        pb::RejectReason::Unspecified,
    ]
    .into_iter()
    .enumerate()
    {
        let mut events = orchestrator
            .run(one(&format!("t{position}"), "write"))
            .await;
        let work = busy.work().await;
        let mut free = Executor::join(&sidecar, hello("box", [tools::write()])).await;
        busy.reject(&work, reason).await;
        let again = free.work().await;
        // Not always the second: the one that hung up last round may have been tried first.
        let attempt = |work: &pb::ExecuteRequest| work.execution.as_ref().unwrap().attempt;
        assert_eq!(attempt(&again), attempt(&work) + 1);
        free.answer_text(&again, "").await;
        assert_eq!(code_of(&events.completed().await, "c"), "");
        free.hang_up();
        until_connected(&orchestrator, 1).await;
    }
}

#[tokio::test]
async fn the_only_executor_is_asked_again_after_its_pause() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    let work = executor.work().await;
    executor.reject(&work, pb::RejectReason::Busy).await;
    let again = executor.work().await;
    assert_eq!(again.execution.as_ref().unwrap().attempt, 2);
    executor.answer_text(&again, "").await;
    let completed = events.completed().await;
    // Long before the next ping, which comes after 5 000 ms.
    let timing = result_of(&completed, "c").timing.unwrap();
    assert!(
        timing.finished_at_ms - timing.received_at_ms < 3_000,
        "{timing:?}"
    );
}

#[tokio::test]
async fn a_call_that_is_rejected_for_good_ends() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let rows = [
        (pb::RejectReason::UnknownTool, "tool_changed"),
        (pb::RejectReason::BadArguments, "executor_protocol_error"),
        (pb::RejectReason::TooLarge, "limit_exceeded"),
    ];
    for (reason, expected) in rows {
        let mut events = orchestrator.run(one(expected, "write")).await;
        let work = executor.work().await;
        executor.reject(&work, reason).await;
        let completed = events.completed().await;
        assert_eq!(code_of(&completed, "c"), expected);
        assert_eq!(
            result_of(&completed, "c").effect(),
            pb::CallEffect::NotExecuted
        );
    }
}

#[tokio::test]
async fn arguments_larger_than_the_executors_message_are_not_sent() {
    let sidecar = Sidecar::start().await;
    let small = pb::Hello {
        max_message_bytes: 65_536,
        ..hello("box", [tools::write()])
    };
    let mut executor = Executor::join(&sidecar, small).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(65_536));
    let calls = [call("large", "write", &large), call("small", "write", "{}")];
    let mut events = orchestrator.run(turn("t", calls)).await;
    let work = executor.work().await;
    assert_eq!(work.call_id, "small");
    executor.answer_text(&work, "").await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "large"), "limit_exceeded");
    assert_eq!(
        result_of(&completed, "large").effect(),
        pb::CallEffect::NotExecuted
    );
}

#[tokio::test]
async fn calls_wait_for_room_and_for_capacity() {
    let sidecar = Sidecar::start().await;
    let narrow = pb::Hello {
        max_concurrent_executions: 0,
        ..hello("box", [tools::echo()])
    };
    let mut executor = Executor::join(&sidecar, narrow).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let calls = ["a", "b", "c"].map(|id| call(id, "echo", "{}"));
    let mut events = orchestrator.run(turn("t", calls)).await;
    // No size at all means one.
    let first = executor.work().await;
    executor.has_no_work().await;
    let capacity = |slots| {
        Word::CapacityUpdate(pb::CapacityUpdate {
            max_concurrent_executions: slots,
        })
    };
    executor.say(capacity(0)).await;
    executor.answer_text(&first, "").await;
    executor.has_no_work().await;
    executor.say(capacity(2)).await;
    let work = [executor.work().await, executor.work().await];
    for request in &work {
        executor.answer_text(request, "").await;
    }
    let completed = events.completed().await;
    assert!(completed.results.iter().all(|result| !result.is_error));
}

#[tokio::test]
async fn a_tool_runs_no_more_often_at_once_than_it_says() {
    let single = pb::ToolDefinition {
        max_concurrency: 1,
        ..tools::echo()
    };
    let (_sidecar, mut executor, orchestrator) =
        set_up(Setup::default(), [single, tools::write()]).await;
    let calls = [
        call("a", "echo", "{}"),
        call("b", "echo", "{}"),
        call("c", "write", "{}"),
    ];
    let mut events = orchestrator.run(turn("t", calls)).await;
    let work = [executor.work().await, executor.work().await];
    let mut ids: Vec<&str> = work
        .iter()
        .map(|request| request.call_id.as_str())
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a", "c"]);
    executor.has_no_work().await;
    for request in &work {
        executor.answer_text(request, "").await;
    }
    let last = executor.work().await;
    assert_eq!(last.call_id, "b");
    executor.answer_text(&last, "").await;
    events.completed().await;
}

#[tokio::test]
async fn without_an_executor_a_call_ends_after_its_queue_time() {
    let setup = Setup::default().set("turn.queue_timeout_ms", 300);
    let (_sidecar, executor, orchestrator) = set_up(setup, [tools::write()]).await;
    executor.hang_up();
    until_no_executor(&orchestrator).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    let completed = events.completed().await;
    let result = result_of(&completed, "c");
    assert_eq!(code_of(&completed, "c"), "tool_unavailable");
    assert_eq!(result.effect(), pb::CallEffect::NotExecuted);
    assert_eq!(
        result.not_executed_reason(),
        pb::NotExecutedReason::ToolUnavailable
    );
    assert_eq!(result.attempts, 0);
    assert!(result.error.as_ref().unwrap().retryable);
    let never_executing = events
        .lines()
        .iter()
        .all(|line| !line.contains("executing"));
    assert!(never_executing, "{:?}", events.lines());
}

#[tokio::test]
async fn a_call_waits_for_an_executor_that_comes_in_time() {
    let (sidecar, executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    executor.hang_up();
    until_no_executor(&orchestrator).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    events.until_state("c", pb::CallState::Scheduled).await;
    let mut executor = Executor::join(&sidecar, hello("box", [tools::write()])).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
}

#[tokio::test]
async fn a_name_is_taken_while_anybody_runs_the_tool_and_free_afterwards() {
    let (sidecar, executor, _orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let thief = Executor::join(&sidecar, hello("thief", [tools::echo()])).await;
    let error = thief.welcome.registrations[0].error.as_ref().unwrap();
    assert_eq!(error.code, "tool_name_duplicate");
    thief.hang_up();
    let mut executor = executor;
    executor.hang_up_politely();
    assert!(executor.ended().await.1.is_none());
    let heir = Executor::join(&sidecar, hello("heir", [tools::echo()])).await;
    assert_eq!(
        heir.welcome.registrations[0].state(),
        pb::RegistrationState::Active
    );
    assert_eq!(heir.welcome.registrations[0].generation, 2);
}
