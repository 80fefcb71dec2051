//! A hook process that is told of loops and asked whether there is one.
//!
//! Never asks a model.

use callgate_client::pb::v1 as pb;
use pb::HookPoint::{LoopDiagnose, LoopSuspected};
use pb::hook_invocation::Payload;
use pb::hook_verdict::Verdict;

use crate::support::hook::{HookProcess, hello, registration};
use crate::support::orchestrator::{Orchestrator, call, turn};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{set_up, tools};

async fn diagnosed(timeout_ms: u32) -> (Sidecar, Orchestrator, HookProcess) {
    let setup = Setup::default()
        .set("loop.diagnosis.after_rounds", 1)
        .set("loop.diagnosis.every_rounds", 1);
    let (sidecar, _executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let wanted = pb::HookRegistration {
        timeout_ms: Some(timeout_ms),
        ..registration("judge", &[LoopDiagnose, LoopSuspected])
    };
    let hook = HookProcess::join(&sidecar, hello("i", [wanted])).await;
    assert_eq!(hook.welcome.registered[0].error, None);
    (sidecar, orchestrator, hook)
}

/// A round without calls.
fn round(number: u32) -> pb::RunTurnRequest {
    turn(&format!("round{number}"), [])
}

fn said(is_loop: bool, confidence: f64) -> Verdict {
    Verdict::LoopVerdict(pb::LoopVerdict {
        is_loop,
        reason: "it reads in circles".to_owned(),
        confidence,
    })
}

fn history_of(asked: pb::HookInvocation) -> String {
    let Some(Payload::Diagnosis(about)) = asked.payload else {
        panic!("{asked:?}");
    };
    assert_eq!(about.run.unwrap().state(), pb::RunState::Active);
    String::from_utf8(about.history_json.to_vec()).unwrap()
}

#[tokio::test]
async fn a_hook_is_shown_the_history_and_its_sure_yes_ends_the_run() {
    let (_sidecar, orchestrator, mut hook) = diagnosed(5_000).await;
    let history = r#"[{"role":"user","content":"read it again"}]"#;
    let request = pb::RunTurnRequest {
        history_json: history.into(),
        ..round(1)
    };
    let mut events = orchestrator.run(request).await;
    let asked = hook.asked().await;
    assert_eq!((asked.point(), asked.timeout_ms), (LoopDiagnose, 5_000));
    hook.answer(&asked, Some(said(true, 0.81))).await;
    assert_eq!(history_of(asked), history);
    let completed = events.completed().await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::LoopDetected);
    let told = hook.asked().await;
    assert_eq!((told.point(), told.timeout_ms), (LoopSuspected, 0));
    let Some(Payload::LoopSuspected(about)) = told.payload else {
        panic!("{told:?}");
    };
    assert_eq!(about.detector(), pb::LoopDetector::Llm);
    assert_eq!(about.reason, "it reads in circles");
    assert_eq!(about.call_ids, [] as [&str; 0]);
    assert_eq!(about.run.unwrap().state(), pb::RunState::LoopDetected);
}

#[tokio::test]
async fn whatever_else_a_hook_does_is_no_loop() {
    let (_sidecar, orchestrator, mut hook) = diagnosed(200).await;
    let answers = [
        Some(said(true, 0.8)),
        Some(said(true, f64::NAN)),
        Some(said(true, 1.01)),
        Some(said(false, 1.0)),
        Some(Verdict::Failure(pb::HookFailure::default())),
        Some(Verdict::Approval(pb::ApprovalVerdict::default())),
        None,
    ];
    let mut number = 0;
    for answer in answers {
        number += 1;
        let shown = format!("{answer:?}");
        let mut events = orchestrator.run(round(number)).await;
        let asked = hook.asked().await;
        hook.answer(&asked, answer).await;
        let completed = events.completed().await;
        assert_eq!(completed.outcome(), pb::TurnOutcome::Completed, "{shown}");
        // Without a history it is the journal, which holds no call.
        assert_eq!(history_of(asked), "[]");
    }
    // It is silent.
    let mut events = orchestrator.run(round(number + 1)).await;
    hook.asked().await;
    let completed = events.completed().await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::Completed);
    // It is torn off, while it is asked and before.
    let mut events = orchestrator.run(round(number + 2)).await;
    while !matches!(
        hook.hear().await,
        Ok(pb::connect_hook_response::Body::Invocation(_))
    ) {}
    drop(hook);
    let completed = events.completed().await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::Completed);
    let completed = orchestrator.run_to_end(round(number + 3)).await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::Completed);
}

#[tokio::test]
async fn a_hook_is_told_which_calls_are_the_loop() {
    let (_sidecar, orchestrator, mut hook) = diagnosed(5_000).await;
    for number in 1..=5 {
        let same = [call("c", "nothing", "{}")];
        let completed = orchestrator
            .run_to_end(turn(&format!("t{number}"), same))
            .await;
        let is_loop = completed.outcome() == pb::TurnOutcome::LoopDetected;
        assert_eq!(is_loop, number == 5);
    }
    let told = hook.asked().await;
    assert_eq!(told.turn_id, "t5");
    let Some(Payload::LoopSuspected(about)) = told.payload else {
        panic!("{told:?}");
    };
    assert_eq!(about.detector(), pb::LoopDetector::ToolSignature);
    assert_eq!(about.call_ids, ["c"]);
}
