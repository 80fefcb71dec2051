//! Kills at every step: what waited still waits, what was decided stays decided, nothing runs twice.

use callgate_client::pb::v1 as pb;
use pb::ApprovalChoice::{Deny, Once, Session};

use super::{erasing, frozen, with_approver};
use crate::support::approver::{Approver, choose, code};
use crate::support::executor::{Executor, hello};
use crate::support::orchestrator::{Orchestrator, code_of};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::tools;
use crate::support::worker::{Habit, Worker};

async fn attached(sidecar: &Sidecar, turn: &str) -> pb::TurnCompleted {
    let orchestrator = Orchestrator::connect(sidecar).await;
    let request = pb::AttachTurnRequest {
        turn_id: turn.to_owned(),
        ..pb::AttachTurnRequest::default()
    };
    orchestrator.attach(request).await.completed().await
}

#[tokio::test]
async fn what_waited_before_a_kill_waits_after_it() {
    let (sidecar, executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let _events = frozen(&orchestrator, erasing("t")).await;
    let before = approver.only().await;
    drop(executor);
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    let approver = Approver::connect(&sidecar).await;
    let after = approver.only().await;
    assert_eq!(after, before);
    let mut executor = Executor::join(&sidecar, hello("box", [tools::erase()])).await;
    let outcome = approver.decide(choose(&before, Once)).await;
    assert_eq!(outcome.status(), pb::DecisionStatus::Taken);
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&attached(&sidecar, "t").await, "c"), "");
    executor.has_no_work().await;
}

#[tokio::test]
async fn a_grant_and_a_decision_outlive_the_process() {
    let (sidecar, mut executor, orchestrator, approver) = with_approver(Setup::default()).await;
    let mut events = frozen(&orchestrator, erasing("t1")).await;
    let approval = approver.only().await;
    approver.decide(choose(&approval, Session)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    events.completed().await;
    drop(executor);
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    let approver = Approver::connect(&sidecar).await;
    let deny = approver.decide(choose(&approval, Deny)).await;
    assert_eq!(code(&deny), "approval_already_decided");
    let again = approver.decide(choose(&approval, Session)).await;
    assert_eq!(again.status(), pb::DecisionStatus::Repeated);
    let mut executor = Executor::join(&sidecar, hello("box", [tools::erase()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(erasing("t2")).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
}

/// More passages than the script has.
const PASSAGES_MAX: u64 = 80;

/// What an approver was told before the process died.
type Told = Option<(pb::Approval, pb::DecisionOutcome)>;

/// Freezes a turn and approves it, as far as the process lives. Some: all of it happened.
async fn play(sidecar: &Sidecar, told: &mut Told) -> Option<()> {
    let orchestrator = Orchestrator::try_connect(sidecar).await?;
    let mut events = orchestrator.try_run(erasing("t")).await.ok()?;
    while let Some(event) = events.try_next().await.ok()? {
        if !is_suspended(&event) {
            continue;
        }
        let approver = Approver::try_connect(sidecar).await?;
        let page = approver
            .page(pb::ListApprovalsRequest::default())
            .await
            .ok()?;
        let approval = page.approvals.first()?.clone();
        let outcome = approver.try_decide(choose(&approval, Once)).await.ok()?;
        *told = Some((approval, outcome));
    }
    Some(())
}

fn is_suspended(event: &pb::TurnEvent) -> bool {
    matches!(event.body, Some(pb::turn_event::Body::TurnSuspended(_)))
}

/// One life that dies at one passage, and the next one on the same directories. False: it came through.
async fn one_life(failpoint: &str, at: u64) -> bool {
    let place = format!("{failpoint}@{at}");
    let (mut sidecar, serves) = Setup::default().failpoint(failpoint, at).launch().await;
    let worker = Worker::start(sidecar.socket(), vec![tools::erase()], Habit::Answers);
    let mut told = None;
    let mut came_through = false;
    if serves {
        let joined = tokio::select! {
            () = worker.welcome_after(0) => true,
            _ = sidecar.exited() => false,
        };
        if joined {
            came_through = play(&sidecar, &mut told).await.is_some();
        }
    }
    if came_through {
        // What is left to write is written, and may be the passage.
        sidecar.terminate_if_alive().await;
    }
    let died = !sidecar.exited().await.success();
    let welcomes = worker.welcomes();
    let sidecar = sidecar.restart(Setup::default()).await;
    worker.welcome_after(welcomes).await;
    go_on(&sidecar, &told, &place).await;
    assert_eq!(worker.begun("t", "c"), 1, "{place}");
    died
}

/// The next process takes up what is there: the same turn attaches, or begins if nothing was written.
async fn go_on(sidecar: &Sidecar, told: &Told, place: &str) {
    let orchestrator = Orchestrator::connect(sidecar).await;
    let approver = Approver::connect(sidecar).await;
    let mut events = orchestrator.run(erasing("t")).await;
    for approval in approver.pending().await {
        assert!(told.is_none(), "{place}: a decision is lost");
        let outcome = approver.decide(choose(&approval, Once)).await;
        assert_eq!(outcome.status(), pb::DecisionStatus::Taken, "{place}");
    }
    while let Some(event) = events.try_next().await.unwrap() {
        if is_suspended(&event) {
            for approval in approver.pending().await {
                approver.decide(choose(&approval, Once)).await;
            }
        }
    }
    if let Some((approval, outcome)) = told {
        assert_eq!(outcome.status(), pb::DecisionStatus::Taken, "{place}");
        let again = approver.decide(choose(approval, Once)).await;
        assert_eq!(again.status(), pb::DecisionStatus::Repeated, "{place}");
    }
}

async fn survives_every_death(failpoint: &str, least: u64) {
    let mut at = 1;
    while one_life(failpoint, at).await {
        at += 1;
        assert!(at < PASSAGES_MAX, "never came through");
    }
    assert!(at > least, "the point is hardly passed: {at}");
}

#[tokio::test]
async fn killed_at_every_effect_an_approved_call_runs_once_and_no_decision_is_lost() {
    survives_every_death("engine.effect", 10).await;
}

#[tokio::test]
async fn killed_before_every_commit_an_approved_call_runs_once_and_no_decision_is_lost() {
    survives_every_death("store.before_commit", 2).await;
}

#[tokio::test]
async fn killed_after_every_commit_an_approved_call_runs_once_and_no_decision_is_lost() {
    survives_every_death("store.after_commit", 2).await;
}
