//! Hook processes: what they are asked, how they answer, come and go.

use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::hook_service_client::HookServiceClient;
use pb::BeforeAction::{Abort, Allow, Deny, Proceed};
use pb::HookPoint::{AfterToolCall, ApprovalRequested, BeforeToolCall, TurnFinished, TurnStarted};
use pb::connect_hook_request::Body as Word;
use pb::connect_hook_response::Body as Heard;
use pb::event_record::Body as Happened;
use pb::hook_verdict::Verdict;

use super::{listed, until};
use crate::support::approver::Approver;
use crate::support::executor::{self, Executor, text_result};
use crate::support::hook::{HookProcess, before, hello, registration};
use crate::support::orchestrator::{Orchestrator, call, code_of, result_of, text_of, turn};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{failure, set_up, soon, tools};

async fn one(sidecar: &Sidecar, points: &[pb::HookPoint]) -> HookProcess {
    HookProcess::join(sidecar, hello("i", [registration("one", points)])).await
}

/// Silence of a peer ends its stream soon.
fn impatient() -> Setup {
    let setup = Setup::default().set("stream.ping_interval_ms", 300);
    setup.set("stream.ping_misses", 6)
}

fn echoing(id: &str) -> pb::RunTurnRequest {
    turn(id, [call("c", "echo", r#"{"text":"x"}"#)])
}

#[tokio::test]
async fn a_hook_sees_the_call_and_what_it_rewrites_is_what_runs() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut hook = one(&sidecar, &[BeforeToolCall]).await;
    assert_eq!(hook.welcome.registered[0].error, None);
    let mut events = orchestrator.run(echoing("t")).await;
    let verdict = pb::BeforeVerdict {
        modified_args_json: r#"{"text":"y"}"#.into(),
        additional_context: "mind the gap".to_owned(),
        ..before(Proceed)
    };
    let asked = hook.says(verdict).await;
    assert_eq!((asked.hook_id.as_str(), asked.timeout_ms), ("one", 5_000));
    assert_eq!(
        (asked.session_id.as_str(), asked.turn_id.as_str()),
        ("s", "t")
    );
    assert_eq!((asked.attempt, asked.point()), (1, BeforeToolCall));
    assert_eq!(asked.mode(), pb::Mode::Default);
    let Some(pb::hook_invocation::Payload::Before(about)) = asked.payload else {
        panic!("{asked:?}");
    };
    assert_eq!(about.arguments_json, r#"{"text":"x"}"#);
    assert_eq!(about.call.unwrap().call_id, "c");
    let tool = about.tool.unwrap();
    assert_eq!(
        (tool.name.as_str(), tool.kind()),
        ("echo", pb::ToolKind::Read)
    );
    let work = executor.work().await;
    assert_eq!(work.arguments_json, r#"{"text":"y"}"#);
    executor.answer_text(&work, "done").await;
    let completed = events.completed().await;
    assert_eq!(completed.additional_contexts[0].text, "mind the gap");
}

#[tokio::test]
async fn a_denial_an_abort_and_nonsense_end_what_they_are_about() {
    let (sidecar, _executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut hook = one(&sidecar, &[BeforeToolCall]).await;
    let mut events = orchestrator.run(echoing("t")).await;
    let denies = pb::BeforeVerdict {
        reason_for_user: "not here".to_owned(),
        ..before(Deny)
    };
    hook.says(denies).await;
    let completed = events.completed().await;
    let error = result_of(&completed, "c").error.clone().unwrap();
    assert_eq!(
        (&*error.code, &*error.message_for_model),
        ("tool_denied_by_hook", "not here")
    );
    let after = Some(Verdict::After(pb::AfterVerdict::default()));
    for (id, nonsense) in [("empty", None), ("after", after)] {
        let mut events = orchestrator.run(echoing(id)).await;
        let asked = hook.asked().await;
        hook.answer(&asked, nonsense).await;
        assert_eq!(code_of(&events.completed().await, "c"), "hook_failed");
    }
    let mut events = orchestrator.run(echoing("u")).await;
    hook.says(before(Abort)).await;
    let completed = events.completed().await;
    assert_eq!(completed.outcome(), pb::TurnOutcome::Aborted);
    assert_eq!(
        completed.run.clone().unwrap().state(),
        pb::RunState::Aborted
    );
    assert_eq!(code_of(&completed, "c"), "run_aborted");
    let refused = orchestrator.refused(echoing("v")).await;
    assert_eq!(failure::code(&refused), "run_not_active");
}

#[tokio::test]
async fn several_questions_are_on_their_way_and_answers_come_in_any_order() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut hook = one(&sidecar, &[BeforeToolCall]).await;
    let mut turns = Vec::new();
    for id in ["a", "b"] {
        let request = pb::RunTurnRequest {
            run_id: id.to_owned(),
            ..echoing(id)
        };
        turns.push(orchestrator.run(request).await);
    }
    let asked = [hook.asked().await, hook.asked().await];
    for question in asked.iter().rev() {
        let verdict = Some(Verdict::Before(before(Allow)));
        hook.answer(question, verdict).await;
    }
    for _ in 0..2 {
        let work = executor.work().await;
        executor.answer_text(&work, "done").await;
    }
    for turn in &mut turns {
        assert_eq!(code_of(&turn.completed().await, "c"), "");
    }
}

#[tokio::test]
async fn a_hook_has_its_time_and_once_more_and_then_it_failed() {
    let (sidecar, _executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let slow = pb::HookRegistration {
        timeout_ms: Some(300),
        ..registration("one", &[BeforeToolCall])
    };
    let mut hook = HookProcess::join(&sidecar, hello("i", [slow])).await;
    let mut events = orchestrator.run(echoing("t")).await;
    let asked = hook.asked().await;
    for _ in 0..2 {
        hook.say(Word::NeedMoreTime(pb::NeedMoreTime {
            invocation_id: asked.invocation_id.clone(),
            extra_ms: 60_000,
        }))
        .await;
    }
    let Heard::Notice(notice) = hook.hear().await.unwrap() else {
        panic!("no notice");
    };
    assert_eq!(notice.code, "need_more_time_twice");
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "c"), "hook_timeout");
    // What is asked for beyond the hook's own time is cut.
    let ended_at = result_of(&completed, "c").timing.unwrap().finished_at_ms;
    let waited = ended_at - asked.invoked_at_ms;
    assert!((600..20_000).contains(&waited), "{waited} ms");
    let Heard::InvocationCancelled(cancelled) = hook.hear().await.unwrap() else {
        panic!("not taken back");
    };
    assert_eq!(cancelled.invocation_id, asked.invocation_id);
    let late = Some(Verdict::Before(before(Allow)));
    hook.answer(&asked, late).await;
    let Heard::Notice(notice) = hook.hear().await.unwrap() else {
        panic!("no notice");
    };
    assert_eq!(notice.code, "verdict_late");
}

#[tokio::test]
async fn a_broken_stream_leaves_its_hooks_failing_until_the_process_returns() {
    let sidecar = impatient().start().await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut hook = one(&sidecar, &[BeforeToolCall]).await;
    let mut events = orchestrator.run(echoing("t")).await;
    hook.asked().await;
    // Nobody reads its stream any more, so nobody answers pings.
    assert_eq!(code_of(&events.completed().await, "c"), "hook_unavailable");
    let completed = orchestrator.run_to_end(echoing("u")).await;
    assert_eq!(code_of(&completed, "c"), "hook_unavailable");
    let mut executor = Executor::join(&sidecar, executor::hello("box", [tools::echo()])).await;
    let mut back = one(&sidecar, &[BeforeToolCall]).await;
    assert_eq!(back.welcome.registered[0].error, None);
    let mut events = orchestrator.run(echoing("v")).await;
    back.says(before(Proceed)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
    let hooks = listed(&sidecar).await;
    assert_eq!((hooks[0].runs, hooks[0].failures), (3, 2));
}

#[tokio::test]
async fn a_process_that_ends_without_a_word_leaves_its_hooks_failing() {
    let (sidecar, _executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    one(&sidecar, &[BeforeToolCall]).await.crash().await;
    let hooks = listed(&sidecar).await;
    assert!(!hooks[0].connected);
    let completed = orchestrator.run_to_end(echoing("t")).await;
    assert_eq!(code_of(&completed, "c"), "hook_unavailable");
}

#[tokio::test]
async fn a_word_of_leave_unregisters_and_a_removed_hook_is_gone() {
    let sidecar = impatient().start().await;
    one(&sidecar, &[BeforeToolCall]).await.leave().await;
    assert_eq!(listed(&sidecar).await, []);
    let _silent = one(&sidecar, &[BeforeToolCall]).await;
    let mut hooks = HookServiceClient::new(sidecar.control_channel().await);
    let remove = |id: &str| pb::RemoveHookRequest {
        hook_id: id.to_owned(),
    };
    let status = hooks.remove_hook(remove("one")).await.unwrap_err();
    assert_eq!(failure::code(&status), "invalid_request");
    let status = hooks.remove_hook(remove("two")).await.unwrap_err();
    assert_eq!(failure::code(&status), "not_found");
    // Nobody reads its stream, so nobody answers pings.
    until(&sidecar, |hooks| !hooks[0].connected).await;
    hooks.remove_hook(remove("one")).await.unwrap();
    assert_eq!(listed(&sidecar).await, []);
}

#[tokio::test]
async fn a_required_hook_fails_from_the_first_moment_on_while_it_is_absent() {
    let setup = || Setup::default().set("hooks.required", r#"["one"]"#);
    let (sidecar, mut executor, orchestrator) = set_up(setup(), [tools::echo()]).await;
    let completed = orchestrator.run_to_end(echoing("t")).await;
    assert_eq!(code_of(&completed, "c"), "hook_unavailable");
    let mut hook = one(&sidecar, &[BeforeToolCall]).await;
    let mut events = orchestrator.run(echoing("u")).await;
    hook.says(before(Proceed)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
    hook.leave().await;
    let completed = orchestrator.run_to_end(echoing("v")).await;
    assert_eq!(code_of(&completed, "c"), "hook_unavailable");
    let hooks = listed(&sidecar).await;
    assert!(hooks[0].required && !hooks[0].connected);
}

#[tokio::test]
async fn another_live_process_cannot_take_a_hooks_name_and_the_same_one_can() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let first = one(&sidecar, &[BeforeToolCall]).await;
    let other = hello("other", [registration("one", &[BeforeToolCall])]);
    let refused = HookProcess::join(&sidecar, other).await;
    let error = refused.welcome.registered[0].error.clone().unwrap();
    assert_eq!(error.detail.unwrap().code, "name_forbidden");
    let mut again = one(&sidecar, &[BeforeToolCall]).await;
    let mut events = orchestrator.run(echoing("t")).await;
    again.says(before(Proceed)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
    drop(first);
}

#[tokio::test]
async fn a_hook_after_a_call_may_change_its_result_and_end_the_loop() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut hook = one(&sidecar, &[AfterToolCall]).await;
    let mut events = orchestrator.run(echoing("t")).await;
    let work = executor.work().await;
    executor.answer_text(&work, "raw").await;
    let asked = hook.asked().await;
    let Some(pb::hook_invocation::Payload::After(about)) = &asked.payload else {
        panic!("{asked:?}");
    };
    assert_eq!(text_of(about.result.as_ref().unwrap()), "raw");
    let verdict = pb::AfterVerdict {
        action: pb::AfterAction::Stop as i32,
        modified_result: Some(text_result("polished")),
        injected_messages: vec![pb::InjectedMessage {
            text: "that will do".to_owned(),
            ..pb::InjectedMessage::default()
        }],
        ..pb::AfterVerdict::default()
    };
    hook.answer(&asked, Some(Verdict::After(verdict))).await;
    let completed = events.completed().await;
    assert_eq!(text_of(result_of(&completed, "c")), "polished");
    assert_eq!(completed.stop_reason(), pb::StopReason::Hook);
    let injected = &completed.injected_messages[0];
    assert_eq!(
        (injected.role(), &*injected.text),
        (pb::MessageRole::User, "that will do")
    );
    assert_eq!((&*injected.hook_id, &*injected.call_id), ("one", "c"));
}

#[tokio::test]
async fn an_automatic_approver_sees_the_approval_and_decides_it() {
    let setup = Setup::default().set("approvals.approvers", "connected");
    let (sidecar, mut executor, orchestrator) = set_up(setup, [tools::edit()]).await;
    let mut hook = one(&sidecar, &[ApprovalRequested]).await;
    let mut events = orchestrator.run(turn("t", [call("c", "edit", "{}")])).await;
    let asked = hook.asked().await;
    let Some(pb::hook_invocation::Payload::Approval(about)) = &asked.payload else {
        panic!("{asked:?}");
    };
    let approval = about.approval.clone().unwrap();
    assert_eq!(approval.tool, "edit");
    let verdict = pb::ApprovalVerdict {
        action: pb::ApprovalAction::Approve as i32,
        message: "fine".to_owned(),
        approval_digest: approval.approval_digest,
    };
    hook.answer(&asked, Some(Verdict::Approval(verdict))).await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    events.completed().await;
    let decided = Approver::connect(&sidecar).await;
    let approval = decided.get(&approval.approval_id).await.unwrap();
    assert_eq!(approval.decision.unwrap().decided_by, "hook:one");
}

#[tokio::test]
async fn observers_learn_of_turns_and_every_run_is_an_event() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut hook = one(&sidecar, &[TurnStarted, BeforeToolCall, TurnFinished]).await;
    let mut watching = Approver::connect(&sidecar).await.events;
    let request = pb::SubscribeRequest {
        filter: Some(pb::EventFilter {
            kinds: vec![pb::EventKind::Hook as i32],
            ..pb::EventFilter::default()
        }),
        ..pb::SubscribeRequest::default()
    };
    let mut heard = watching.subscribe(request).await.unwrap().into_inner();
    let mut events = orchestrator.run(echoing("t")).await;
    let started = hook.asked().await;
    assert_eq!((started.point(), started.timeout_ms), (TurnStarted, 0));
    hook.says(before(Proceed)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    events.completed().await;
    let finished = hook.asked().await;
    let Some(pb::hook_invocation::Payload::Turn(about)) = finished.payload else {
        panic!("{finished:?}");
    };
    assert_eq!(about.results[0].call_id, "c");
    assert_eq!(about.results[0].contents, []);
    let ran = async {
        loop {
            let message = heard.message().await.unwrap().unwrap();
            let mut bodies = message.events.into_iter().filter_map(|event| event.body);
            if let Some(Happened::HookRan(ran)) = bodies.next() {
                return ran;
            }
        }
    };
    let ran = soon("the hook's run", ran).await;
    assert_eq!(
        (&*ran.hook_id, &*ran.call_id, &*ran.turn_id),
        ("one", "c", "t")
    );
    assert_eq!(ran.status(), pb::HookRunStatus::Answered);
    assert_eq!(ran.before_action(), Proceed);
}
