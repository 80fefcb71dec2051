//! What a run called, and that it ended, across processes that die.

use callgate_client::pb::v1 as pb;

use super::same;
use crate::support::executor::{Executor, hello};
use crate::support::failure;
use crate::support::orchestrator::{Orchestrator, code_of};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::tools;

/// Runs turns of a call that is recorded before it is told.
async fn repeat(sidecar: &Sidecar, run: &str, numbers: std::ops::RangeInclusive<u32>) {
    let mut executor = Executor::join(sidecar, hello("box", [tools::write()])).await;
    let orchestrator = Orchestrator::connect(sidecar).await;
    for number in numbers {
        let mut events = orchestrator.run(same(run, "write", number)).await;
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
        assert_eq!(
            events.completed().await.outcome(),
            pb::TurnOutcome::Completed
        );
    }
}

async fn is_stopped(sidecar: &Sidecar, run: &str, place: &str) {
    let orchestrator = Orchestrator::connect(sidecar).await;
    let completed = orchestrator.run_to_end(same(run, "write", 5)).await;
    assert_eq!(
        completed.outcome(),
        pb::TurnOutcome::LoopDetected,
        "{place}"
    );
    assert_eq!(code_of(&completed, "c"), "loop_detected", "{place}");
    let status = orchestrator.refused(same(run, "write", 6)).await;
    assert_eq!(failure::code(&status), "run_not_active", "{place}");
}

#[tokio::test]
async fn calls_of_a_process_that_was_killed_count() {
    let mut sidecar = Sidecar::start().await;
    for number in 1..=4 {
        repeat(&sidecar, "r", number..=number).await;
        sidecar = sidecar.crash_and_restart(Setup::default()).await;
    }
    is_stopped(&sidecar, "r", "after four deaths").await;
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    is_stopped(&sidecar, "r", "after the verdict").await;
}

#[tokio::test]
async fn results_of_a_process_that_was_killed_count_where_results_do() {
    let setup = || Setup::default().set("loop.compare_results", true);
    let sidecar = setup().start().await;
    repeat(&sidecar, "r", 1..=4).await;
    let sidecar = sidecar.crash_and_restart(setup()).await;
    is_stopped(&sidecar, "r", "with results").await;
}

/// More passages than a verdict has.
#[cfg(feature = "failpoints")]
const PASSAGES_MAX: u64 = 20;

#[cfg(feature = "failpoints")]
async fn a_verdict_survives(failpoint: &str) {
    let mut sidecar = Sidecar::start().await;
    for at in 1..PASSAGES_MAX {
        let (run, place) = (format!("r{at}"), format!("{failpoint}@{at}"));
        repeat(&sidecar, &run, 1..=4).await;
        let dies = Setup::default().failpoint(failpoint, at);
        sidecar = sidecar.crash_and_restart(dies).await;
        let orchestrator = Orchestrator::connect(&sidecar).await;
        let told = match orchestrator.try_run(same(&run, "write", 5)).await {
            Err(_) => false,
            Ok(mut events) => loop {
                match events.try_next().await {
                    Err(_) => break false,
                    Ok(None) => break true,
                    Ok(Some(_)) => {}
                }
            },
        };
        sidecar = sidecar.crash_and_restart(Setup::default()).await;
        is_stopped(&sidecar, &run, &place).await;
        if told {
            assert!(at > 1, "`{failpoint}` is never passed");
            return;
        }
    }
    panic!("a verdict passes `{failpoint}` more than {PASSAGES_MAX} times");
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn a_verdict_survives_death_at_every_effect() {
    a_verdict_survives("engine.effect").await;
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn a_verdict_survives_death_before_every_commit() {
    a_verdict_survives("store.before_commit").await;
}

#[cfg(feature = "failpoints")]
#[tokio::test]
async fn a_verdict_survives_death_after_every_commit() {
    a_verdict_survives("store.after_commit").await;
}
