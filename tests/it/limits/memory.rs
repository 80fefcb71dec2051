//! How much is kept in memory, and that nothing is lost that is let go.
//!
//! Never tests a limit by its default alone.

use callgate_client::pb::v1 as pb;

use crate::support::failure::code;
use crate::support::orchestrator::{call, turn};
use crate::support::sidecar::Setup;
use crate::support::{set_up, tools};

#[tokio::test]
async fn a_session_that_memory_has_let_go_keeps_its_ended_run() {
    let setup = Setup::default().set("limits.sessions_max", 1);
    let (_sidecar, _executor, orchestrator) = set_up(setup, []).await;
    let of = |session: &str, id: &str| pb::RunTurnRequest {
        session_id: session.to_owned(),
        ..turn(id, [])
    };
    orchestrator.run_to_end(of("first", "t1")).await;
    let end = pb::EndRunRequest {
        session_id: "first".to_owned(),
        run_id: String::new(),
    };
    orchestrator.turns.clone().end_run(end).await.unwrap();
    orchestrator.run_to_end(of("second", "t2")).await;
    let status = orchestrator.refused(of("first", "t3")).await;
    assert_eq!(code(&status), "run_not_active");
    let again = orchestrator.run_to_end(of("second", "t4")).await;
    assert_eq!(again.run.unwrap().rounds, 2);
}

#[tokio::test]
async fn ended_turns_have_a_size_in_memory() {
    let setup = Setup::default().set("limits.finished_turns_bytes_max", 1);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let request = turn("t", [call("c", "echo", "{}")]);
    // However large it is, whoever follows it gets its end.
    let mut events = orchestrator.run(request.clone()).await;
    let work = executor.work().await;
    executor.answer_text(&work, "kept").await;
    let completed = events.completed().await;
    orchestrator.run_to_end(turn("next", [])).await;
    let mut repeated = orchestrator.run(request).await;
    assert_eq!(repeated.completed().await, completed);
    assert!(repeated.snapshot.is_some());
}
