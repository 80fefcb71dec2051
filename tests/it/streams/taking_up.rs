//! Taking a turn up again after its stream was left.
//!
//! Never tells an event twice.

use callgate_client::pb::v1 as pb;

use super::{attach, one};
use crate::support::failure;
use crate::support::orchestrator::text_of;
use crate::support::sidecar::Setup;
use crate::support::{set_up, tools};

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
    // One has seen all but the end, by a count that is gone with memory.
    let seen = pb::AttachTurnRequest {
        epoch: 1,
        ..attach("t1", 5)
    };
    for mut events in [
        orchestrator.attach(attach("t1", 0)).await,
        orchestrator.attach(seen).await,
        orchestrator.run(one("t1")).await,
    ] {
        assert_eq!(events.completed().await, ends[0]);
        assert_eq!(events.epoch, 2);
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
