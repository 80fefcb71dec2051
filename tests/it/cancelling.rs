//! Cancelling over the wire: a call, a turn, a run, before, while and after anything happens.
//!
//! Never lets a late word change what was told.

use callgate_client::pb::v1 as pb;
use pb::turn_event::Body;

use super::support::executor::{Executor, hello};
use super::support::failure::code;
use super::support::orchestrator::{Orchestrator, call, code_of, result_of, text_of, turn};
use super::support::sidecar::{Setup, Sidecar};
use super::support::{set_up, soon, tools};

fn one(turn_id: &str) -> pb::RunTurnRequest {
    turn(turn_id, [call("c", "write", "{}")])
}

/// A turn that was cancelled ends its run, and has its results for the history only.
fn cancelled(completed: &pb::TurnCompleted, calls: usize) {
    assert_eq!(completed.outcome(), pb::TurnOutcome::Cancelled);
    assert_eq!(completed.results, []);
    let closing = completed.closing_results.as_ref().unwrap();
    assert!(closing.history_only);
    assert_eq!(closing.results.len(), calls);
    assert!(completed.stop);
    assert_eq!(completed.stop_reason(), pb::StopReason::RunEnded);
    assert_eq!(
        completed.run.as_ref().unwrap().state(),
        pb::RunState::Cancelled
    );
    assert_eq!(completed.error.as_ref().unwrap().code, "tool_cancelled");
}

#[tokio::test]
async fn a_turn_is_cancelled_while_its_calls_wait_and_run() {
    let sidecar = Sidecar::start().await;
    let narrow = pb::Hello {
        max_concurrent_executions: 1,
        ..hello("box", [tools::write()])
    };
    let mut executor = Executor::join(&sidecar, narrow).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let calls = ["runs", "waits"].map(|id| call(id, "write", "{}"));
    let mut events = orchestrator.run(turn("t", calls)).await;
    let work = executor.work().await;
    executor.accept(&work).await;
    events.until_state("runs", pb::CallState::Executing).await;
    assert_eq!(
        orchestrator.cancel_turn("t", None).await,
        pb::TurnState::Running
    );
    // What was not sent ends at once.
    events.until_state("waits", pb::CallState::Cancelled).await;
    let told = executor.told_to_stop().await;
    assert_eq!(told.execution, work.execution);
    assert_eq!(told.reason(), pb::CancelReason::TurnCancelled);
    assert_eq!((told.message.as_str(), told.grace_ms), ("stop it", 5_000));
    executor
        .answer_cancelled(&work.execution, pb::CallEffect::Executed)
        .await;
    let completed = events.completed().await;
    cancelled(&completed, 2);
    let runs = result_of(&completed, "runs");
    assert_eq!(runs.outcome(), pb::CallOutcome::Cancelled);
    assert_eq!(runs.effect(), pb::CallEffect::Executed);
    let waits = result_of(&completed, "waits");
    assert_eq!(waits.effect(), pb::CallEffect::NotExecuted);
    let reason = waits.not_executed_reason();
    assert_eq!(reason, pb::NotExecutedReason::CancelledBeforeStart);
    assert_eq!(executor.acked().await, pb::ResultAckStatus::Recorded);
    assert_eq!(
        orchestrator.cancel_turn("t", None).await,
        pb::TurnState::Completed
    );
    assert_eq!(
        code(&orchestrator.refused(one("next")).await),
        "run_not_active"
    );
}

#[tokio::test]
async fn a_cancellation_that_comes_before_its_turn_is_remembered() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    assert_eq!(
        orchestrator.cancel_turn("t", None).await,
        pb::TurnState::Unspecified
    );
    let completed = orchestrator.run_to_end(one("t")).await;
    cancelled(&completed, 1);
    let result = result_of(&completed, "c");
    assert_eq!(
        (result.attempts, result.effect()),
        (0, pb::CallEffect::NotExecuted)
    );
    executor.has_no_work().await;
}

#[tokio::test]
async fn a_cancellation_that_came_early_is_for_its_own_session() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    assert_eq!(
        orchestrator.cancel_turn("t", None).await,
        pb::TurnState::Unspecified
    );
    let elsewhere = pb::RunTurnRequest {
        session_id: "elsewhere".to_owned(),
        ..one("t")
    };
    let mut events = orchestrator.run(elsewhere).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(
        events.completed().await.outcome(),
        pb::TurnOutcome::Completed
    );
    cancelled(&orchestrator.run_to_end(one("t")).await, 1);
}

#[tokio::test]
async fn a_cancellation_that_came_too_early_is_forgotten() {
    let setup = Setup::default().set("turn.early_cancel_ms", 0);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::write()]).await;
    orchestrator.cancel_turn("t", None).await;
    let mut events = orchestrator.run(one("t")).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(
        events.completed().await.outcome(),
        pb::TurnOutcome::Completed
    );
}

#[tokio::test]
async fn a_cancellation_reaches_its_turn_whichever_of_them_is_first() {
    let (_sidecar, _executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    for round in 0..40 {
        let id = format!("t{round}");
        let request = pb::RunTurnRequest {
            run_id: format!("r{round}"),
            ..one(&id)
        };
        let (events, _) = tokio::join!(
            orchestrator.run(request),
            orchestrator.cancel_turn(&id, Some(0))
        );
        let mut events = events;
        cancelled(&events.completed().await, 1);
    }
}

#[tokio::test]
async fn without_grace_nothing_is_awaited() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let mut events = orchestrator.run(one("t")).await;
    let work = executor.work().await;
    executor.accept(&work).await;
    events.until_state("c", pb::CallState::Executing).await;
    assert_eq!(
        orchestrator.cancel_turn("t", Some(0)).await,
        pb::TurnState::Completed
    );
    let completed = events.completed().await;
    cancelled(&completed, 1);
    assert_eq!(result_of(&completed, "c").effect(), pb::CallEffect::Unknown);
    assert_eq!(executor.told_to_stop().await.grace_ms, 0);
    executor.answer_text(&work, "late").await;
    assert_eq!(executor.acked().await, pb::ResultAckStatus::Late);
    assert_eq!(
        orchestrator.get_result("t", "c").await.unwrap(),
        *result_of(&completed, "c")
    );
}

#[tokio::test]
async fn a_cancellation_that_is_ignored_ends_after_its_grace() {
    let deaf = pb::ToolDefinition {
        supports_cancellation: false,
        ..tools::named("deaf", tools::write())
    };
    let (_sidecar, mut executor, orchestrator) =
        set_up(Setup::default(), [tools::write(), deaf]).await;
    let calls = [call("told", "write", "{}"), call("untold", "deaf", "{}")];
    let mut events = orchestrator.run(turn("t", calls)).await;
    let work = [executor.work().await, executor.work().await];
    for request in &work {
        executor.accept(request).await;
    }
    orchestrator.cancel_turn("t", Some(300)).await;
    let completed = events.completed().await;
    cancelled(&completed, 2);
    for id in ["told", "untold"] {
        assert_eq!(code_of(&completed, id), "tool_cancelled");
        assert_eq!(result_of(&completed, id).effect(), pb::CallEffect::Unknown);
    }
    // Only the tool that listens was told, with its grace and once more at its end.
    let mine = |work: &pb::ExecuteRequest| work.call_id == "told";
    let told = work.iter().find(|work| mine(work)).unwrap();
    for grace in [300, 0] {
        let cancel = executor.told_to_stop().await;
        assert_eq!(
            (&cancel.execution, cancel.grace_ms),
            (&told.execution, grace)
        );
    }
    for request in &work {
        executor.answer_text(request, "late").await;
        assert_eq!(executor.acked().await, pb::ResultAckStatus::Late);
    }
}

#[tokio::test]
async fn a_result_inside_the_grace_time_counts() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let mut events = orchestrator.run(one("t")).await;
    let work = executor.work().await;
    orchestrator.cancel_turn("t", None).await;
    executor.told_to_stop().await;
    executor.answer_text(&work, "done already").await;
    let completed = events.completed().await;
    cancelled(&completed, 1);
    let result = result_of(&completed, "c");
    assert_eq!(result.outcome(), pb::CallOutcome::Success);
    assert_eq!(text_of(result), "done already");
}

#[tokio::test]
async fn one_call_is_cancelled_and_the_turn_goes_on() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let calls = ["a", "b"].map(|id| call(id, "write", "{}"));
    let mut events = orchestrator.run(turn("t", calls)).await;
    let (a, b) = (executor.work().await, executor.work().await);
    executor.accept(&a).await;
    events.until_state("a", pb::CallState::Executing).await;
    let state = orchestrator.cancel_call("t", "a", None).await.unwrap();
    assert_eq!(state, pb::CallState::Executing);
    let told = executor.told_to_stop().await;
    assert_eq!(told.execution, a.execution);
    assert_eq!(told.reason(), pb::CancelReason::CallCancelled);
    assert_eq!(told.message, "not that one");
    executor
        .answer_cancelled(&a.execution, pb::CallEffect::NotExecuted)
        .await;
    events.until_state("a", pb::CallState::Cancelled).await;
    executor.answer_text(&b, "b").await;
    let completed = events.completed().await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::Completed);
    assert!(!completed.stop);
    let a = result_of(&completed, "a");
    assert_eq!(a.outcome(), pb::CallOutcome::Cancelled);
    assert_eq!(a.error.as_ref().unwrap().code, "tool_cancelled");
    assert_eq!(a.error.as_ref().unwrap().message_for_model, "not that one");
    assert_eq!(text_of(result_of(&completed, "b")), "b");
    // Ended calls and turns answer OK, unknown ones do not.
    let state = orchestrator.cancel_call("t", "b", None).await.unwrap();
    assert_eq!(state, pb::CallState::Success);
    let unknown = orchestrator
        .cancel_call("t", "none", None)
        .await
        .unwrap_err();
    assert_eq!(code(&unknown), "not_found");
    let unknown = orchestrator
        .cancel_call("none", "a", None)
        .await
        .unwrap_err();
    assert_eq!(code(&unknown), "not_found");
}

#[tokio::test]
async fn a_shorter_grace_replaces_a_longer_one() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let mut events = orchestrator.run(one("t")).await;
    executor.work().await;
    orchestrator
        .cancel_call("t", "c", Some(60_000))
        .await
        .unwrap();
    orchestrator.cancel_turn("t", Some(0)).await;
    cancelled(&events.completed().await, 1);
}

#[tokio::test]
async fn a_second_cancellation_with_less_grace_shortens_the_first() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let mut events = orchestrator.run(one("t")).await;
    executor.work().await;
    orchestrator.cancel_turn("t", Some(60_000)).await;
    orchestrator.cancel_turn("t", Some(0)).await;
    cancelled(&events.completed().await, 1);
}

#[tokio::test]
async fn cancelling_one_turn_cancels_the_other_turns_of_its_run() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let mut first = orchestrator.run(one("first")).await;
    let mut second = orchestrator.run(one("second")).await;
    let other = pb::RunTurnRequest {
        run_id: "other".to_owned(),
        ..one("third")
    };
    let mut third = orchestrator.run(other).await;
    let mut work = Vec::new();
    for _ in 0..3 {
        work.push(executor.work().await);
    }
    orchestrator.cancel_turn("first", None).await;
    for _ in 0..2 {
        let told = executor.told_to_stop().await;
        executor
            .answer_cancelled(&told.execution, pb::CallEffect::NotExecuted)
            .await;
    }
    cancelled(&first.completed().await, 1);
    cancelled(&second.completed().await, 1);
    executor.answer_text(&work[2], "").await;
    assert_eq!(
        third.completed().await.outcome(),
        pb::TurnOutcome::Completed
    );
}

#[tokio::test]
async fn a_broken_stream_cancels_only_where_that_was_asked_for() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let cancel = pb::RunTurnRequest {
        run_id: "r".to_owned(),
        on_disconnect: pb::OnDisconnect::Cancel as i32,
        ..one("cancel")
    };
    let events = orchestrator.run(cancel).await;
    let work = executor.work().await;
    drop(events);
    let told = executor.told_to_stop().await;
    assert_eq!(told.execution, work.execution);
    assert_eq!(told.reason(), pb::CancelReason::TurnCancelled);
    executor
        .answer_cancelled(&work.execution, pb::CallEffect::NotExecuted)
        .await;
    let keep = orchestrator.run(one("keep")).await;
    let work = executor.work().await;
    drop(keep);
    executor.answer_text(&work, "kept").await;
    let attach = pb::AttachTurnRequest {
        turn_id: "keep".to_owned(),
        ..pb::AttachTurnRequest::default()
    };
    let completed = orchestrator.attach(attach).await.completed().await;
    assert_eq!(text_of(result_of(&completed, "c")), "kept");
}

#[tokio::test]
async fn a_turn_is_cancelled_when_its_time_is_over() {
    let setup = Setup::default().set("turn.cancel_grace_ms", 100);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::write()]).await;
    let mut request = one("t");
    request.timeout_ms = Some(200);
    let mut events = orchestrator.run(request).await;
    let work = executor.work().await;
    executor.accept(&work).await;
    let completed = events.completed().await;
    cancelled(&completed, 1);
    assert_eq!(
        executor.told_to_stop().await.reason(),
        pb::CancelReason::Deadline
    );
    assert!(
        completed
            .error
            .unwrap()
            .message_for_model
            .contains("200 ms")
    );
    let mut none = one("u");
    none.timeout_ms = Some(0);
    assert_eq!(code(&orchestrator.refused(none).await), "invalid_request");
}

#[tokio::test]
async fn a_reason_that_is_too_long_is_refused() {
    let (_sidecar, _executor, orchestrator) = set_up(Setup::default(), []).await;
    let of = |bytes: usize| pb::CancelTurnRequest {
        turn_id: "t".to_owned(),
        reason: "x".repeat(bytes),
        ..pb::CancelTurnRequest::default()
    };
    let mut turns = orchestrator.turns.clone();
    turns.cancel_turn(of(1_024)).await.unwrap();
    let status = turns.cancel_turn(of(1_025)).await.unwrap_err();
    assert_eq!(code(&status), "limit_exceeded");
}

#[tokio::test]
async fn many_turns_that_are_dropped_at_once_leave_the_connection_alive() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let mut dropped = tokio::task::JoinSet::new();
    for position in 0..50 {
        let mut turns = orchestrator.turns.clone();
        let request = one(&format!("dropped{position}"));
        dropped.spawn(async move {
            let running = turns.run_turn(request);
            // Some are dropped before their headers came, some after.
            let _ =
                tokio::time::timeout(std::time::Duration::from_millis(position % 5), running).await;
        });
    }
    while soon("the drops", dropped.join_next()).await.is_some() {}
    let last = orchestrator.run(pb::RunTurnRequest {
        session_id: "alive".to_owned(),
        ..one("alive")
    });
    let mut events = last.await;
    loop {
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
        if work.context.unwrap().session_id == "alive" {
            break;
        }
    }
    let end = events
        .until(|body| matches!(body, Body::TurnCompleted(_)))
        .await;
    let Body::TurnCompleted(completed) = end else {
        panic!("no end");
    };
    assert_eq!(completed.outcome(), pb::TurnOutcome::Completed);
}
