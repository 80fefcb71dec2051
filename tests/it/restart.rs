//! What a sidecar that dies or leaves owes to the next one on the same directories.
//!
//! The matrix kills it at every passage of a point until a script comes through alive. Never lets a
//! call that must not run twice run twice.

use callgate_client::pb::v1 as pb;
use pb::turn_event::Body;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;

use super::support::executor::{Executor, again, hello, resuming};
use super::support::failure::{code, detail};
use super::support::orchestrator::{Orchestrator, call, code_of, result_of, text_of, turn};
use super::support::sidecar::{Setup, Sidecar, refuses_to_start};
use super::support::worker::{Habit, Worker};
use super::support::{set_up, soon, tools};

/// More passages than any script has.
const PASSAGES_MAX: u64 = 150;

/// What happens while the sidecar may die.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Script {
    /// One call that may run twice.
    Harmless,
    /// One call that must not.
    Strict,
    /// Three calls of all kinds.
    Mixed,
    /// One call that must not run twice, cancelled while it runs.
    Cancelled,
}

impl Script {
    fn request(self) -> pb::RunTurnRequest {
        let calls = match self {
            Script::Harmless => vec![call("echo", "echo", "{}")],
            Script::Strict | Script::Cancelled => vec![call("write", "write", "{}")],
            Script::Mixed => ["echo", "write", "put"]
                .map(|tool| call(tool, tool, r#"{"text":"x"}"#))
                .into(),
        };
        turn("t", calls)
    }

    fn habit(self) -> Habit {
        match self {
            Script::Harmless | Script::Strict | Script::Mixed => Habit::Answers,
            Script::Cancelled => Habit::RunsOn,
        }
    }
}

/// What an orchestrator learned before its sidecar died, if it did.
#[derive(Default)]
struct Learned {
    completed: Option<pb::TurnCompleted>,
    cancelled: bool,
}

/// One life of a script that dies at one passage. False: it came through alive.
async fn one_life(script: Script, failpoint: &str, at: u64) -> bool {
    let place = format!("{script:?} {failpoint}@{at}");
    let (mut sidecar, serves) = Setup::default().failpoint(failpoint, at).launch().await;
    let all = vec![tools::echo(), tools::write(), tools::put()];
    let worker = Worker::start(sidecar.socket(), all, script.habit());
    let mut learned = Learned::default();
    if serves {
        let joined = tokio::select! {
            () = worker.welcome_after(0) => true,
            _ = sidecar.exited() => false,
        };
        if joined {
            // An error means that it died.
            let _ = play(script, &sidecar, &worker, &mut learned).await;
        }
    }
    if serves && learned.completed.is_some() {
        // What is left to write is written, and may be the passage.
        sidecar.terminate_if_alive().await;
    }
    let died = !sidecar.exited().await.success();
    let welcomes = worker.welcomes();
    let sidecar = sidecar.restart(Setup::default()).await;
    worker.welcome_after(welcomes).await;
    check_afterwards(script, &sidecar, &worker, &learned, &place).await;
    died
}

/// Runs the script as far as it goes.
async fn play(
    script: Script,
    sidecar: &Sidecar,
    worker: &Worker,
    learned: &mut Learned,
) -> Option<()> {
    let orchestrator = Orchestrator::try_connect(sidecar).await?;
    let mut events = orchestrator.try_run(script.request()).await.ok()?;
    if script == Script::Cancelled {
        let runs = async {
            worker.has_begun(1).await;
            true
        };
        let dies = async {
            // The worker's call begins, or the stream breaks.
            while events.try_next().await.ok().flatten().is_some() {}
            false
        };
        let begun = tokio::select! {
            begun = runs => begun,
            begun = dies => begun,
        };
        if !begun {
            return None;
        }
        let cancel = pb::CancelTurnRequest {
            turn_id: "t".to_owned(),
            session_id: "s".to_owned(),
            ..pb::CancelTurnRequest::default()
        };
        let mut turns = orchestrator.turns.clone();
        soon("the cancellation", turns.cancel_turn(cancel))
            .await
            .ok()?;
        learned.cancelled = true;
    }
    while let Some(event) = events.try_next().await.ok()? {
        if let Some(Body::TurnCompleted(completed)) = event.body {
            learned.completed = Some(completed);
        }
    }
    Some(())
}

/// What must hold after every crash.
async fn check_afterwards(
    script: Script,
    sidecar: &Sidecar,
    worker: &Worker,
    learned: &Learned,
    place: &str,
) {
    let orchestrator = Orchestrator::connect(sidecar).await;
    if script == Script::Cancelled && !learned.cancelled {
        orchestrator.cancel_turn("t", None).await;
    }
    let mut events = orchestrator.run(script.request()).await;
    let completed = events.completed().await;
    let request = script.request();
    let strict = |call: &pb::ToolCall| call.name == "write";
    for call in &request.calls {
        let result = result_of(&completed, &call.call_id);
        let begun = worker.begun("t", &call.call_id);
        assert!(
            !strict(call) || begun <= 1,
            "{place}: `write` began {begun} times"
        );
        if script == Script::Cancelled {
            assert_eq!(result.outcome(), pb::CallOutcome::Cancelled, "{place}");
            continue;
        }
        assert_eq!(code_of(&completed, &call.call_id), "", "{place}");
        assert_eq!(text_of(result), format!("t {}", call.call_id), "{place}");
        assert!(begun >= 1, "{place}: {} never began", call.call_id);
    }
    let expected = match script {
        Script::Cancelled => pb::TurnOutcome::Cancelled,
        Script::Harmless | Script::Strict | Script::Mixed => pb::TurnOutcome::Completed,
    };
    assert_eq!(completed.outcome(), expected, "{place}");
    // What was told stays true. What may run twice may have run again.
    if let Some(before) = &learned.completed
        && script != Script::Harmless
    {
        assert_eq!(before, &completed, "{place}");
    }
    let mut repeated = orchestrator.run(script.request()).await;
    assert_eq!(repeated.completed().await, completed, "{place}");
    let attach = pb::AttachTurnRequest {
        turn_id: "t".to_owned(),
        epoch: 1,
        after_sequence: 1,
        ..pb::AttachTurnRequest::default()
    };
    let shown = orchestrator.get_turn("t").await.unwrap();
    if learned.completed.is_none() || shown.epoch > 1 {
        // Whatever its reader has seen of another process counts no more.
        let mut attached = orchestrator.attach(attach).await;
        assert_eq!(attached.completed().await, completed, "{place}");
        // From memory, or from the store, whose count begins anew.
        let epochs = [shown.epoch, shown.epoch + 1];
        assert!(epochs.contains(&attached.epoch), "{place}");
        assert!(shown.epoch == 1 || attached.snapshot.is_some(), "{place}");
    }
    let running = pb::ListTurnsRequest {
        state: pb::TurnState::Running as i32,
        ..pb::ListTurnsRequest::default()
    };
    let listed = orchestrator
        .turns
        .clone()
        .list_turns(running)
        .await
        .unwrap();
    assert_eq!(listed.into_inner().turns, [], "{place}");
}

async fn survives_every_death(script: Script, failpoint: &str) {
    for at in 1..PASSAGES_MAX {
        if !one_life(script, failpoint, at).await {
            assert!(
                at > 1,
                "`{failpoint}` is never passed: build with the feature `failpoints`"
            );
            return;
        }
    }
    panic!("{script:?} passes `{failpoint}` more than {PASSAGES_MAX} times");
}

macro_rules! deaths {
    ($($name:ident: $script:ident at $failpoint:literal;)*) => {$(
        #[cfg(feature = "failpoints")]
        #[tokio::test]
        async fn $name() {
            survives_every_death(Script::$script, $failpoint).await;
        }
    )*};
}

deaths! {
    a_harmless_call_survives_death_at_every_effect: Harmless at "engine.effect";
    a_harmless_call_survives_death_before_every_commit: Harmless at "store.before_commit";
    a_harmless_call_survives_death_after_every_commit: Harmless at "store.after_commit";
    a_strict_call_runs_once_whatever_effect_the_sidecar_dies_at: Strict at "engine.effect";
    a_strict_call_runs_once_whatever_commit_the_sidecar_dies_before: Strict at "store.before_commit";
    a_strict_call_runs_once_whatever_commit_the_sidecar_dies_after: Strict at "store.after_commit";
    a_mixed_batch_survives_death_at_every_effect: Mixed at "engine.effect";
    a_mixed_batch_survives_death_before_every_commit: Mixed at "store.before_commit";
    a_mixed_batch_survives_death_after_every_commit: Mixed at "store.after_commit";
    a_cancellation_survives_death_at_every_effect: Cancelled at "engine.effect";
    a_cancellation_survives_death_before_every_commit: Cancelled at "store.before_commit";
    a_cancellation_survives_death_after_every_commit: Cancelled at "store.after_commit";
}

fn one(turn_id: &str) -> pb::RunTurnRequest {
    turn(turn_id, [call("c", "write", "{}")])
}

async fn health(sidecar: &Sidecar, service: &str) -> ServingStatus {
    let mut client = HealthClient::new(sidecar.channel().await);
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let answer = soon("health", client.check(request)).await.unwrap();
    answer.into_inner().status()
}

#[tokio::test]
async fn a_running_call_is_expected_back_by_the_next_process() {
    let sidecar = Sidecar::start().await;
    let mut executor = Executor::join(&sidecar, resuming("box", "i", [tools::write()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut first = orchestrator.run(one("t")).await;
    let work = executor.work().await;
    executor.accept(&work).await;
    first.until_state("c", pb::CallState::Executing).await;
    let token = executor.welcome.resume_token.clone();
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    // Both ways of taking it up begin with how it stands.
    let mut repeated = orchestrator.run(one("t")).await;
    let attach = pb::AttachTurnRequest {
        turn_id: "t".to_owned(),
        epoch: 1,
        after_sequence: 3,
        ..pb::AttachTurnRequest::default()
    };
    let mut attached = orchestrator.attach(attach).await;
    let listed = [(work.execution.clone().unwrap(), pb::InFlightState::Running)];
    let back = again(resuming("box", "i", [tools::write()]), &token, listed);
    let executor = Executor::join(&sidecar, back).await;
    assert_eq!(
        executor.welcome.in_flight[0].action(),
        pb::InFlightAction::Continue
    );
    executor.answer_text(&work, "over two lives").await;
    for events in [&mut repeated, &mut attached] {
        let completed = events.completed().await;
        assert_eq!(text_of(result_of(&completed, "c")), "over two lives");
        assert_eq!(events.epoch, 2);
        let snapshot = events.snapshot.as_ref().unwrap();
        assert_eq!(snapshot.state(), pb::TurnState::Running);
    }
    let shown = orchestrator.get_turn("t").await.unwrap();
    assert_eq!(shown.epoch, 2);
}

#[tokio::test]
async fn a_result_that_was_told_is_never_lost_or_changed() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let calls = ["a", "b"].map(|id| call(id, "write", "{}"));
    let mut events = orchestrator.run(turn("t", calls.clone())).await;
    let (a, _b) = (executor.work().await, executor.work().await);
    executor.answer_text(&a, "told").await;
    events.until_state("a", pb::CallState::Success).await;
    let told = orchestrator.get_result("t", "a").await.unwrap();
    let setup = Setup::default().set("stream.resume_window_ms", 200);
    let sidecar = sidecar.crash_and_restart(setup).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    assert_eq!(orchestrator.get_result("t", "a").await.unwrap(), told);
    let completed = orchestrator.run_to_end(turn("t", calls)).await;
    assert_eq!(result_of(&completed, "a"), &told);
    let lost = result_of(&completed, "b");
    assert_eq!(code_of(&completed, "b"), "tool_outcome_unknown");
    assert_eq!((lost.effect(), lost.attempts), (pb::CallEffect::Unknown, 1));
}

#[tokio::test]
async fn an_ended_run_stays_ended_also_where_a_turn_of_it_was_still_open() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let mut open = orchestrator.run(one("open")).await;
    executor.work().await;
    let mut last = orchestrator.run(one("last")).await;
    let work = executor.work().await;
    let stop = pb::ToolResult {
        stop_flag: true,
        ..pb::ToolResult::default()
    };
    executor.answer(&work.execution, stop).await;
    assert!(last.completed().await.stop);
    open.until_state("c", pb::CallState::Scheduled).await;
    let setup = Setup::default().set("stream.resume_window_ms", 200);
    let sidecar = sidecar.crash_and_restart(setup).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    assert_eq!(
        code(&orchestrator.refused(one("next")).await),
        "run_not_active"
    );
    let completed = orchestrator.run_to_end(one("open")).await;
    assert_eq!(code_of(&completed, "c"), "tool_outcome_unknown");
    assert!(completed.stop);
    assert_eq!(completed.run.unwrap().state(), pb::RunState::Completed);
    assert_eq!(
        code(&orchestrator.refused(one("next")).await),
        "run_not_active"
    );
}

#[tokio::test]
async fn a_sidecar_that_leaves_finishes_what_runs_and_takes_nothing_new() {
    for by_rpc in [false, true] {
        let (mut sidecar, mut executor, orchestrator) =
            set_up(Setup::default(), [tools::write()]).await;
        let admin = Orchestrator::admin(&sidecar).await;
        let mut events = orchestrator.run(one("t")).await;
        let work = executor.work().await;
        executor.accept(&work).await;
        assert_eq!(health(&sidecar, "readiness").await, ServingStatus::Serving);
        match by_rpc {
            false => sidecar.terminate().await,
            true => {
                let mut server = admin.server.clone();
                let request = pb::StartDrainRequest::default();
                soon("the drain", server.start_drain(request))
                    .await
                    .unwrap();
            }
        }
        // Signals take a moment: the first refusal says that the drain has begun.
        let status = soon("a refusal", async {
            for round in 0.. {
                let next = pb::RunTurnRequest {
                    session_id: format!("other{round}"),
                    ..turn("next", [])
                };
                match orchestrator.try_run(next).await {
                    Err(status) => return status,
                    Ok(mut events) => drop(events.completed().await),
                }
            }
            unreachable!()
        })
        .await;
        assert_eq!(status.code(), Code::Unavailable);
        assert_eq!(code(&status), "draining");
        assert!(detail(&status).retry_after_ms.is_some());
        for service in ["", "readiness", "callgate.v1.TurnService"] {
            assert_eq!(
                health(&sidecar, service).await,
                ServingStatus::NotServing,
                "{service}"
            );
        }
        assert_eq!(health(&sidecar, "liveness").await, ServingStatus::Serving);
        let request = pb::GetServerInfoRequest {};
        let info = orchestrator
            .server
            .clone()
            .get_server_info(request)
            .await
            .unwrap();
        assert_eq!(info.into_inner().state(), pb::ServerState::Draining);
        // A repeated request still finds its turn.
        let mut repeated = orchestrator.run(one("t")).await;
        executor.answer_text(&work, "finished").await;
        for events in [&mut events, &mut repeated] {
            assert_eq!(
                text_of(result_of(&events.completed().await, "c")),
                "finished"
            );
        }
        assert_eq!(executor.acked().await, pb::ResultAckStatus::Recorded);
        let (heard, _) = executor.ended().await;
        let Some(pb::connect_response::Body::GoAway(go_away)) = heard.last() else {
            panic!("no farewell: {heard:?}");
        };
        assert_eq!(go_away.reason(), pb::GoAwayReason::Shutdown);
        assert!(go_away.reconnect_max_ms > 0);
        assert!(sidecar.exited().await.success());
    }
}

#[tokio::test]
async fn a_turn_that_outlasts_the_drain_is_taken_up_by_the_next_process() {
    for by_rpc in [false, true] {
        let setup = match by_rpc {
            false => Setup::default().set("server.drain_ms", 200),
            true => Setup::default(),
        };
        let sidecar = setup.start().await;
        let mut executor = Executor::join(&sidecar, resuming("box", "i", [tools::write()])).await;
        let orchestrator = Orchestrator::connect(&sidecar).await;
        let mut events = orchestrator.run(one("t")).await;
        let work = executor.work().await;
        executor.accept(&work).await;
        events.until_state("c", pb::CallState::Executing).await;
        match by_rpc {
            false => sidecar.terminate().await,
            true => {
                let mut server = Orchestrator::admin(&sidecar).await.server;
                let request = pb::StartDrainRequest {
                    drain_ms: Some(200),
                };
                soon("the drain", server.start_drain(request))
                    .await
                    .unwrap();
            }
        }
        let token = executor.welcome.resume_token.clone();
        let sidecar = sidecar.restart(Setup::default()).await;
        let listed = [(work.execution.clone().unwrap(), pb::InFlightState::Running)];
        let back = again(resuming("box", "i", [tools::write()]), &token, listed);
        let executor = Executor::join(&sidecar, back).await;
        executor.answer_text(&work, "later").await;
        let orchestrator = Orchestrator::connect(&sidecar).await;
        let completed = orchestrator.run_to_end(one("t")).await;
        assert_eq!(text_of(result_of(&completed, "c")), "later");
        assert_eq!(result_of(&completed, "c").attempts, 1);
    }
}

#[tokio::test]
async fn two_processes_cannot_share_a_data_directory() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::write()]).await;
    let (exit, said) = refuses_to_start(Setup::default(), sidecar.home()).await;
    assert_eq!(exit, Some(2), "{said}");
    assert!(said.contains("another process"), "{said}");
    // The first one goes on as if nothing had been.
    let mut events = orchestrator.run(one("t")).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
    assert!(Orchestrator::try_connect(&sidecar).await.is_some());
}

#[tokio::test]
async fn tools_and_toolsets_outlive_a_restart() {
    let (sidecar, executor, orchestrator) =
        set_up(Setup::default(), [tools::write(), tools::echo()]).await;
    let toolset = pb::Toolset {
        name: "writers".to_owned(),
        include: vec!["write".to_owned()],
        ..pb::Toolset::default()
    };
    let put = pb::PutToolsetRequest {
        toolset: Some(toolset),
    };
    orchestrator
        .registry
        .clone()
        .put_toolset(put)
        .await
        .unwrap();
    let digest = executor.welcome.registrations[0].tool_digest.clone();
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut request = turn("t", [call("c", "write", "{}"), call("d", "echo", "{}")]);
    request.toolset = "writers".to_owned();
    // It waits for its executor instead of not being there.
    let mut events = orchestrator.run(request).await;
    events.until_state("c", pb::CallState::Scheduled).await;
    let mut executor = Executor::join(&sidecar, hello("box", [tools::write()])).await;
    let registration = &executor.welcome.registrations[0];
    assert_eq!(
        (&registration.tool_digest, registration.generation),
        (&digest, 1)
    );
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    let completed = events.completed().await;
    assert_eq!(
        (code_of(&completed, "c"), code_of(&completed, "d")),
        ("", "tool_not_found")
    );
}

#[tokio::test]
async fn a_turn_taken_up_after_a_restart_still_knows_its_aliases() {
    let dotted = tools::named("fs.write", tools::write());
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [dotted.clone()]).await;
    let request = pb::ListToolsRequest {
        format: pb::ProviderFormat::OpenaiChat as i32,
        ..pb::ListToolsRequest::default()
    };
    let listed = orchestrator
        .registry
        .clone()
        .list_tools(request)
        .await
        .unwrap()
        .into_inner();
    let alias = listed.tool_export.unwrap().aliases[0].alias.clone();
    let mut request = turn("t", [call("c", &alias, "{}")]);
    request.tool_snapshot_id = listed.tool_snapshot_id;
    // What an executor has is recorded. It does not answer before the crash.
    let _events = orchestrator.run(request.clone()).await;
    executor.work().await;
    let sidecar = sidecar
        .crash_and_restart(Setup::default().set("stream.resume_window_ms", 200))
        .await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let completed = orchestrator.run_to_end(request).await;
    let result = result_of(&completed, "c");
    assert_eq!(
        (result.tool.as_str(), code_of(&completed, "c")),
        ("fs.write", "tool_outcome_unknown")
    );
}
