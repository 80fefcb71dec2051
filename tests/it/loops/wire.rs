//! A run that is in a loop, as its orchestrator sees it.

use callgate_client::pb::v1 as pb;
use pb::turn_event::Body;

use super::same;
use crate::support::approver::Approver;
use crate::support::failure;
use crate::support::orchestrator::{call, code_of, result_of, turn};
use crate::support::sidecar::Setup;
use crate::support::{set_up, tools};

#[tokio::test]
async fn the_fifth_identical_call_stops_the_run_which_refuses_afterwards() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    for number in 1..=4 {
        let mut events = orchestrator.run(same("r", "echo", number)).await;
        let work = executor.work().await;
        executor.answer_text(&work, "again").await;
        assert_eq!(
            events.completed().await.outcome(),
            pb::TurnOutcome::Completed
        );
    }
    let mut request = same("r", "echo", 5);
    request.calls.push(call("d", "echo", "{}"));
    let mut events = orchestrator.run(request.clone()).await;
    let completed = events.completed().await;
    let found = events.events.iter().find_map(|event| match &event.body {
        Some(Body::LoopDetected(found)) => Some(found.clone()),
        _ => None,
    });
    let found = found.unwrap();
    assert_eq!(found.detector(), pb::LoopDetector::ToolSignature);
    assert_eq!(found.call_ids, ["c"]);
    assert_eq!((found.period, found.repetitions), (1, 5));
    assert_eq!(found.confidence, None);
    assert_eq!(completed.outcome(), pb::TurnOutcome::LoopDetected);
    assert!(completed.stop);
    assert_eq!(completed.stop_reason(), pb::StopReason::RunEnded);
    assert_eq!(completed.error.as_ref().unwrap().code, "loop_detected");
    for id in ["c", "d"] {
        assert_eq!(code_of(&completed, id), "loop_detected");
        let result = result_of(&completed, id);
        assert_eq!(result.not_executed_reason(), pb::NotExecutedReason::Loop);
        assert_eq!(result.effect(), pb::CallEffect::NotExecuted);
    }
    let run = completed.run.clone().unwrap();
    assert_eq!(run.state(), pb::RunState::LoopDetected);
    assert_eq!(run.end_code, "loop_detected");
    assert_eq!((run.end_reason, run.rounds), (found.reason, 5));
    let status = orchestrator.refused(same("r", "echo", 6)).await;
    assert_eq!(failure::code(&status), "run_not_active");
    executor.has_no_work().await;
    // The turn itself can be asked for again, and another run is another matter.
    let mut again = orchestrator.run(request).await;
    assert_eq!(again.completed().await, completed);
    let mut other = orchestrator.run(same("r2", "echo", 1)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(
        other.completed().await.outcome(),
        pb::TurnOutcome::Completed
    );
}

#[tokio::test]
async fn a_turn_that_is_repeated_counts_once() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    for number in 1..=4 {
        let mut events = orchestrator.run(same("r", "echo", number)).await;
        let mut repeated = orchestrator.run(same("r", "echo", number)).await;
        let work = executor.work().await;
        executor.answer_text(&work, "again").await;
        assert_eq!(events.completed().await, repeated.completed().await);
        let mut afterwards = orchestrator.run(same("r", "echo", number)).await;
        assert_eq!(
            afterwards.completed().await.outcome(),
            pb::TurnOutcome::Completed
        );
    }
}

#[tokio::test]
async fn five_turns_at_once_are_one_loop() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let turns = (1..=5).map(|number| orchestrator.run(same("r", "echo", number)));
    let mut all = futures_util::future::join_all(turns).await;
    for _ in 0..4 {
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
    }
    let mut loops = 0;
    for events in &mut all {
        let outcome = events.completed().await.outcome();
        loops += u32::from(outcome == pb::TurnOutcome::LoopDetected);
    }
    assert_eq!(loops, 1);
    executor.has_no_work().await;
}

#[tokio::test]
async fn a_loop_cancels_what_waits_for_approvers_in_the_same_run() {
    let all = [tools::echo(), tools::erase()];
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), all).await;
    let approver = Approver::connect(&sidecar).await;
    let waiting = pb::RunTurnRequest {
        run_id: "r".to_owned(),
        ..turn("waiting", [call("c", "erase", "{}")])
    };
    let mut waits = orchestrator.run(waiting).await;
    let is_suspended = |body: &Body| matches!(body, Body::TurnSuspended(_));
    waits.until(is_suspended).await;
    for number in 1..=4 {
        let mut events = orchestrator.run(same("r", "echo", number)).await;
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
        events.completed().await;
    }
    let completed = orchestrator.run_to_end(same("r", "echo", 5)).await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::LoopDetected);
    let ended = waits.completed().await;
    assert_eq!(code_of(&ended, "c"), "tool_cancelled");
    assert_eq!(
        ended.run.as_ref().unwrap().state(),
        pb::RunState::LoopDetected
    );
    assert_eq!(approver.pending().await, []);
}

#[tokio::test]
async fn a_tool_may_be_exempt_or_name_what_counts() {
    let poll = pb::ToolDefinition {
        loop_exempt: true,
        ..tools::named("poll", tools::echo())
    };
    let find = pb::ToolDefinition {
        loop_key: vec!["/text".to_owned()],
        ..tools::named("find", tools::echo())
    };
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [poll, find]).await;
    for number in 1..=7 {
        let mut events = orchestrator.run(same("r", "poll", number)).await;
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
        assert_eq!(
            events.completed().await.outcome(),
            pb::TurnOutcome::Completed
        );
    }
    let finding = |number: u32| {
        let arguments = format!(r#"{{"text":"x","attempt":{number}}}"#);
        turn(&format!("t{number}"), [call("c", "find", &arguments)])
    };
    for number in 1..=4 {
        let mut events = orchestrator.run(finding(number)).await;
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
        events.completed().await;
    }
    let completed = orchestrator.run_to_end(finding(5)).await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::LoopDetected);
}

#[tokio::test]
async fn polling_whose_results_change_is_no_loop_where_they_count() {
    let setup = Setup::default().set("loop.compare_results", true);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    for number in 1..=6 {
        let mut events = orchestrator.run(same("r", "echo", number)).await;
        let work = executor.work().await;
        let state = ["queued", "running", "done"][(number.min(3) - 1) as usize];
        executor.answer_text(&work, state).await;
        assert_eq!(
            events.completed().await.outcome(),
            pb::TurnOutcome::Completed
        );
    }
    // The third to the sixth said the same.
    let completed = orchestrator.run_to_end(same("r", "echo", 7)).await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::LoopDetected);
}

#[tokio::test]
async fn after_results_the_last_repetition_has_its_result() {
    let setup = Setup::default()
        .set("loop.check", "after_results")
        .set("loop.repeat", 2);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    for (number, outcome) in [
        (1, pb::TurnOutcome::Completed),
        (2, pb::TurnOutcome::LoopDetected),
    ] {
        let mut events = orchestrator.run(same("r", "echo", number)).await;
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
        let completed = events.completed().await;
        assert_eq!(completed.outcome(), outcome);
        assert_eq!(code_of(&completed, "c"), "");
    }
    let status = orchestrator.refused(same("r", "echo", 3)).await;
    assert_eq!(failure::code(&status), "run_not_active");
}
