//! Runs: what ends one, and what that means for its turns.
//!
//! Never starts a turn in a run that has ended.

use callgate_client::pb::v1 as pb;
use pb::turn_event::Body;

use crate::support::executor::text_result;
use crate::support::failure;
use crate::support::orchestrator::{call, result_of, text_of, turn};
use crate::support::sidecar::Setup;
use crate::support::{set_up, tools};

#[tokio::test]
async fn a_stop_flag_ends_the_run_also_together_with_an_error() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    for (run, is_error) in [("good", false), ("bad", true)] {
        let of = |id: &str| pb::RunTurnRequest {
            run_id: run.to_owned(),
            ..turn(&format!("{run}-{id}"), [call("c", "echo", "{}")])
        };
        let mut events = orchestrator.run(of("1")).await;
        let work = executor.work().await;
        let last = pb::ToolResult {
            is_error,
            stop_flag: true,
            ..text_result("that was it")
        };
        executor.answer(&work.execution, last).await;
        let completed = events.completed().await;
        assert_eq!(completed.outcome(), pb::TurnOutcome::Completed);
        assert!(completed.stop);
        assert_eq!(completed.stop_reason(), pb::StopReason::Tool);
        assert_eq!(
            completed.run.as_ref().unwrap().state(),
            pb::RunState::Completed
        );
        assert_eq!(result_of(&completed, "c").is_error, is_error);
        let status = orchestrator.refused(of("2")).await;
        assert_eq!(status.code(), tonic::Code::FailedPrecondition);
        assert_eq!(failure::code(&status), "run_not_active");
    }
}

#[tokio::test]
async fn a_turn_that_outlives_its_run_says_that_the_loop_must_end() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut slow = orchestrator
        .run(turn("slow", [call("c", "echo", "{}")]))
        .await;
    let held = executor.work().await;
    let mut fast = orchestrator
        .run(turn("fast", [call("c", "echo", "{}")]))
        .await;
    let work = executor.work().await;
    let last = pb::ToolResult {
        stop_flag: true,
        ..text_result("that was it")
    };
    executor.answer(&work.execution, last).await;
    assert!(fast.completed().await.stop);
    executor.answer_text(&held, "late").await;
    let completed = slow.completed().await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::Completed);
    assert_eq!(text_of(result_of(&completed, "c")), "late");
    assert!(completed.stop, "{completed:?}");
    assert_eq!(completed.run.unwrap().state(), pb::RunState::Completed);
}

#[tokio::test]
async fn a_run_is_ended_once_nothing_of_it_runs() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let end = pb::EndRunRequest {
        session_id: "s".to_owned(),
        run_id: String::new(),
    };
    let mut turns = orchestrator.turns.clone();
    let status = turns.end_run(end.clone()).await.unwrap_err();
    assert_eq!(failure::code(&status), "not_found");
    let look = pb::GetRunRequest {
        session_id: "s".to_owned(),
        run_id: String::new(),
    };
    let status = turns.get_run(look.clone()).await.unwrap_err();
    assert_eq!(failure::code(&status), "not_found");
    let mut events = orchestrator.run(turn("t", [call("c", "echo", "{}")])).await;
    let work = executor.work().await;
    let status = turns.end_run(end.clone()).await.unwrap_err();
    assert_eq!(status.code(), tonic::Code::FailedPrecondition);
    assert_eq!(failure::code(&status), "run_busy");
    executor.answer_text(&work, "").await;
    events.completed().await;
    let run = turns
        .end_run(end.clone())
        .await
        .unwrap()
        .into_inner()
        .run
        .unwrap();
    assert_eq!((run.run_id.as_str(), run.rounds), ("s", 1));
    assert_eq!(run.state(), pb::RunState::Completed);
    let seen = turns.get_run(look).await.unwrap().into_inner();
    assert_eq!(seen.run.as_ref(), Some(&run));
    let status = orchestrator.refused(turn("u", [])).await;
    assert_eq!(failure::code(&status), "run_not_active");
    // Ending or cancelling it again changes nothing.
    assert_eq!(
        turns.end_run(end).await.unwrap().into_inner().run.unwrap(),
        run
    );
    let cancel = pb::CancelRunRequest {
        session_id: "s".to_owned(),
        ..pb::CancelRunRequest::default()
    };
    assert_eq!(
        turns
            .cancel_run(cancel)
            .await
            .unwrap()
            .into_inner()
            .run
            .unwrap(),
        run
    );
}

#[tokio::test]
async fn a_cancelled_run_cancels_its_turns() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut events = orchestrator.run(turn("t", [call("c", "echo", "{}")])).await;
    let work = executor.work().await;
    let cancel = pb::CancelRunRequest {
        session_id: "s".to_owned(),
        reason: "enough".to_owned(),
        ..pb::CancelRunRequest::default()
    };
    let cancelled = orchestrator.turns.clone().cancel_run(cancel).await.unwrap();
    let run = cancelled.into_inner().run.unwrap();
    assert_eq!(run.state(), pb::RunState::Cancelled);
    assert_eq!(
        (run.end_code.as_str(), run.end_reason.as_str()),
        ("tool_cancelled", "enough")
    );
    let told = executor.told_to_stop().await;
    assert_eq!(told.reason(), pb::CancelReason::RunEnded);
    assert_eq!(told.message, "enough");
    executor
        .answer_cancelled(&work.execution, pb::CallEffect::NotExecuted)
        .await;
    let completed = events.completed().await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::Cancelled);
    assert_eq!(completed.run.unwrap().state(), pb::RunState::Cancelled);
}

#[tokio::test]
async fn a_turn_without_calls_counts_as_a_round() {
    let (_sidecar, _executor, orchestrator) = set_up(Setup::default(), []).await;
    for round in 1..=3 {
        let mut events = orchestrator.run(turn(&format!("t{round}"), [])).await;
        let completed = events.completed().await;
        assert_eq!(events.lines(), ["accepted 0", "completed"]);
        assert_eq!(completed.run.unwrap().rounds, round);
        let Some(Body::TurnAccepted(accepted)) = &events.events[0].body else {
            panic!("not accepted first");
        };
        assert_eq!((accepted.round, accepted.batch_id.as_str()), (round, ""));
    }
}
