//! Executors that break off and come back, and what they still have of their calls.
//!
//! Never runs a call twice that may have begun.

use callgate_client::pb::v1 as pb;
use pb::connect_request::Body as Word;
use pb::connect_response::Body as Heard;
use tonic::Code;

use super::{one, unknown_outcome};
use crate::support::executor::{Executor, again, hello, resuming};
use crate::support::failure::code;
use crate::support::orchestrator::{Orchestrator, result_of, text_of};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::tools;

#[tokio::test]
async fn a_call_lost_with_its_executor_is_sent_again_only_if_that_is_harmless() {
    for (tool, definition, repeats) in [
        ("write", tools::write(), false),
        ("put", tools::put(), true),
        ("echo", tools::echo(), true),
    ] {
        let sidecar = Sidecar::start().await;
        let mut first = Executor::join(&sidecar, hello("box", [definition.clone()])).await;
        let orchestrator = Orchestrator::connect(&sidecar).await;
        let mut events = orchestrator.run(one("t", tool)).await;
        let work = first.work().await;
        first.accept(&work).await;
        events.until_state("c", pb::CallState::Executing).await;
        let mut second = Executor::join(&sidecar, hello("box", [definition])).await;
        first.hang_up();
        if !repeats {
            unknown_outcome(&events.completed().await, "tool_outcome_unknown");
            second.has_no_work().await;
            continue;
        }
        let again = second.work().await;
        let (before, after) = (work.execution.unwrap(), again.execution.clone().unwrap());
        assert_eq!(after.execution_id, before.execution_id);
        assert_eq!((before.attempt, after.attempt), (1, 2));
        second.answer_text(&again, "second").await;
        let completed = events.completed().await;
        assert_eq!(text_of(result_of(&completed, "c")), "second");
        assert_eq!(result_of(&completed, "c").attempts, 2);
    }
}

/// A strict call at a resuming executor whose stream broke, before or after it said that it runs.
async fn broken_off(
    setup: Setup,
    accepts: bool,
) -> (
    Sidecar,
    Orchestrator,
    crate::support::orchestrator::Following,
    pb::ExecuteRequest,
    String,
) {
    let sidecar = setup.start().await;
    let mut executor = Executor::join(&sidecar, resuming("box", "i", [tools::write()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(one("t", "write")).await;
    let work = executor.work().await;
    if accepts {
        executor.accept(&work).await;
        events.until_state("c", pb::CallState::Executing).await;
    }
    let token = executor.welcome.resume_token.clone();
    executor.hang_up();
    (sidecar, orchestrator, events, work, token)
}

#[tokio::test]
async fn an_executor_that_comes_back_with_a_call_goes_on_with_it() {
    let (sidecar, _orchestrator, mut events, work, token) =
        broken_off(Setup::default(), true).await;
    let listed = [(work.execution.clone().unwrap(), pb::InFlightState::Running)];
    let back = again(resuming("box", "i", [tools::write()]), &token, listed);
    let executor = Executor::join(&sidecar, back).await;
    let decision = &executor.welcome.in_flight[0];
    assert_eq!(decision.action(), pb::InFlightAction::Continue);
    assert_eq!(decision.execution, work.execution);
    executor.answer_text(&work, "went on").await;
    let completed = events.completed().await;
    assert_eq!(text_of(result_of(&completed, "c")), "went on");
    assert_eq!(result_of(&completed, "c").attempts, 1);
}

#[tokio::test]
async fn a_call_that_is_not_listed_never_arrived_and_is_sent_again() {
    let (sidecar, _orchestrator, mut events, work, token) =
        broken_off(Setup::default(), false).await;
    let back = again(resuming("box", "i", [tools::write()]), &token, []);
    let mut executor = Executor::join(&sidecar, back).await;
    let again = executor.work().await;
    assert_eq!(again.execution.as_ref().unwrap().attempt, 2);
    assert_eq!(again.call_id, work.call_id);
    executor.answer_text(&work, "from before").await;
    assert_eq!(executor.acked().await, pb::ResultAckStatus::Stale);
    executor.answer_text(&again, "once").await;
    assert_eq!(text_of(result_of(&events.completed().await, "c")), "once");
}

#[tokio::test]
async fn a_running_call_that_is_not_listed_any_more_has_an_unknown_outcome() {
    let (sidecar, _orchestrator, mut events, _work, token) =
        broken_off(Setup::default(), true).await;
    let back = again(resuming("box", "i", [tools::write()]), &token, []);
    let mut executor = Executor::join(&sidecar, back).await;
    unknown_outcome(&events.completed().await, "tool_outcome_unknown");
    executor.has_no_work().await;
}

#[tokio::test]
async fn a_held_result_is_asked_for() {
    for accepts in [false, true] {
        let (sidecar, _orchestrator, mut events, work, token) =
            broken_off(Setup::default(), accepts).await;
        let listed = [(work.execution.clone().unwrap(), pb::InFlightState::Finished)];
        let back = again(resuming("box", "i", [tools::write()]), &token, listed);
        let mut executor = Executor::join(&sidecar, back).await;
        assert_eq!(
            executor.welcome.in_flight[0].action(),
            pb::InFlightAction::SendResult
        );
        executor.answer_text(&work, "held").await;
        assert_eq!(text_of(result_of(&events.completed().await, "c")), "held");
        assert_eq!(executor.acked().await, pb::ResultAckStatus::Recorded);
    }
}

#[tokio::test]
async fn a_call_whose_executor_does_not_come_back_has_an_unknown_outcome() {
    for accepts in [false, true] {
        let setup = Setup::default().set("stream.resume_window_ms", 300);
        let (_sidecar, _orchestrator, mut events, _work, _token) = broken_off(setup, accepts).await;
        unknown_outcome(&events.completed().await, "tool_outcome_unknown");
    }
}

#[tokio::test]
async fn a_list_without_the_right_token_is_not_believed() {
    let (sidecar, _orchestrator, mut events, work, _token) =
        broken_off(Setup::default(), false).await;
    let listed = [(work.execution.clone().unwrap(), pb::InFlightState::Running)];
    let forged = again(resuming("box", "i", [tools::write()]), "guessed", listed);
    let mut executor = Executor::join(&sidecar, forged).await;
    assert_eq!(
        executor.welcome.in_flight[0].action(),
        pb::InFlightAction::Forget
    );
    unknown_outcome(&events.completed().await, "tool_outcome_unknown");
    executor.has_no_work().await;
}

#[tokio::test]
async fn a_listed_execution_that_nobody_knows_is_forgotten() {
    let sidecar = Sidecar::start().await;
    let first = Executor::join(&sidecar, resuming("box", "i", [tools::echo()])).await;
    let token = first.welcome.resume_token.clone();
    first.hang_up();
    let unknown = pb::ExecutionRef {
        execution_id: "long gone".to_owned(),
        attempt: 1,
    };
    let listed = [(unknown.clone(), pb::InFlightState::Running)];
    let back = again(resuming("box", "i", [tools::echo()]), &token, listed);
    let mut executor = Executor::join(&sidecar, back).await;
    let decision = &executor.welcome.in_flight[0];
    assert_eq!(decision.action(), pb::InFlightAction::Forget);
    assert_eq!(decision.execution, Some(unknown));
    executor.has_no_work().await;
}

#[tokio::test]
async fn the_newest_stream_of_a_process_wins() {
    let sidecar = Sidecar::start().await;
    let mut older = Executor::join(&sidecar, resuming("box", "i", [tools::echo()])).await;
    let mut newer = Executor::join(&sidecar, resuming("box", "i", [tools::echo()])).await;
    // Whatever the older one still says is not the newer one's word.
    older
        .say(Word::DrainRequest(pb::DrainRequest::default()))
        .await;
    let (heard, status) = older.ended().await;
    let status = status.unwrap();
    assert_eq!(
        (status.code(), code(&status).as_str()),
        (Code::Aborted, "superseded")
    );
    let Some(Heard::GoAway(go_away)) = heard.last() else {
        panic!("no farewell: {heard:?}");
    };
    assert_eq!(go_away.reason(), pb::GoAwayReason::Superseded);
    assert_eq!(go_away.reconnect_max_ms, 0);
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(one("t", "echo")).await;
    let work = newer.work().await;
    newer.answer_text(&work, "").await;
    events.completed().await;
}
