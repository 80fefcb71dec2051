//! Hooks after calls, about approvals, and those that are only told, on paper.
//!
//! Never talks to a hook process: its answers are inputs.

use callgate::gate::call::CallState;
use callgate::gate::event::{RunState, StopReason};
use callgate::gate::hooks::{
    AfterAction, AfterVerdict, ApprovalAction, ApprovalVerdict, BeforeAction, BeforeVerdict,
    FailureKind, Hook, HookAnswer, Matcher, MatcherParts, MessageRole, Point,
};
use callgate::gate::permission::{Aliases, Approver};
use callgate::gate::result::{CallEffect, CallOutcome, Content, ToolResult};
use callgate::gate::turn::{CancelScope, HookTicket, Input, Reply};

use super::drive::{paper, text};
use super::hooking::{asked, code, has, hook, list, one, says};

#[test]
fn after_hooks_hear_of_answers_one_call_at_a_time_before_the_call_ends() {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "read", "{}")]).lay();
    turn.hooks = list(vec![hook(
        "one",
        1,
        &[Point::AfterToolCall, Point::AfterToolFailure],
    )]);
    turn.start();
    turn.claimed(&["a", "b"]);
    let failed = Reply::Result(ToolResult {
        is_error: true,
        ..text("broken")
    });
    let lines = turn.replied("b", 1, failed);
    assert!(
        has(&lines, "ask hook one after_tool_failure #1 b error"),
        "{lines:?}"
    );
    assert!(!has(&lines, "acknowledge") && !has(&lines, "completed"));
    let lines = turn.answered("a", 1);
    assert_eq!(asked(&lines), [] as [&str; 0]);
    let lines = turn.hook_says_after(1, AfterVerdict::default());
    assert!(has(&lines, "acknowledge b#1"), "{lines:?}");
    assert!(
        has(&lines, "ask hook one after_tool_call #2 a success"),
        "{lines:?}"
    );
    turn.hook_says_after(2, AfterVerdict::default());
    assert!(turn.machine.has_ended());
}

#[test]
fn only_calls_that_an_executor_answered_are_told_to_after_hooks() {
    let mut turn = paper(&[("a", "nothing", "{}"), ("b", "read", "{}")]).lay();
    turn.hooks = list(vec![hook(
        "one",
        1,
        &[Point::AfterToolCall, Point::AfterToolFailure],
    )]);
    let lines = turn.start();
    assert_eq!(asked(&lines), [] as [&str; 0]);
    turn.claimed(&["b"]);
    let lines = turn.cancel_call("b", 0);
    assert_eq!(asked(&lines), [] as [&str; 0]);
    assert!(turn.machine.has_ended());
}

#[test]
fn words_of_hooks_come_before_then_after_and_a_suppressed_result_is_a_placeholder() {
    let mut turn = paper(&[("a", "read", "{}")]).lay();
    turn.hooks = list(vec![hook(
        "one",
        1,
        &[Point::BeforeToolCall, Point::AfterToolCall],
    )]);
    turn.start();
    let before = BeforeVerdict {
        context: "before".to_owned(),
        suppress: true,
        ..says(BeforeAction::Proceed)
    };
    turn.hook_says(1, before);
    turn.claimed(&["a"]);
    turn.answered("a", 1);
    let after = AfterVerdict {
        action: AfterAction::Stop,
        context: "after".to_owned(),
        injected: vec![(MessageRole::User, "look".to_owned())],
        ..AfterVerdict::default()
    };
    let completed = turn.end_of(Input::HookAnswered {
        ticket: HookTicket(2),
        answer: HookAnswer::After(Box::new(after)),
        took_ms: 0,
    });
    let result = &completed.results[0];
    let words = result.hooks.as_ref().unwrap();
    let contexts: Vec<_> = words.contexts.iter().map(|one| &*one.text).collect();
    assert_eq!(contexts, ["before", "after"]);
    assert!(words.suppressed);
    let placeholder = Content::Text("[a hook keeps this result back]".to_owned());
    assert_eq!(result.contents, [placeholder]);
    assert_eq!(result.outcome, CallOutcome::Success);
    assert_eq!(completed.stop, Some(StopReason::Hook));
    assert_eq!(completed.run.state, RunState::Completed);
}

#[test]
fn a_suppressed_error_keeps_its_flag_and_code() {
    let mut turn = paper(&[("a", "read", "{}")]).lay();
    turn.hooks = one(Point::BeforeToolCall);
    turn.start();
    let verdict = BeforeVerdict {
        suppress: true,
        ..says(BeforeAction::Proceed)
    };
    turn.hook_says(1, verdict);
    turn.claimed(&["a"]);
    let failed = Reply::Result(ToolResult {
        is_error: true,
        ..text("the secret is 7")
    });
    turn.replied("a", 1, failed);
    let result = turn.result("a");
    assert_eq!(code(&turn, "a"), "tool_execution_failed");
    assert!(!format!("{result:?}").contains("secret"), "{result:?}");
}

#[test]
fn a_failing_after_hook_keeps_the_result_unless_it_withholds() {
    for withholds in [false, true] {
        let mut turn = paper(&[("a", "write", "{}")]).lay();
        turn.hooks = list(vec![Hook {
            withholds,
            ..hook("one", 1, &[Point::AfterToolCall])
        }]);
        turn.start();
        turn.claimed(&["a"]);
        turn.answered("a", 1);
        turn.hook_fails(1, FailureKind::Timeout);
        let result = turn.result("a");
        assert_eq!(result.effect, CallEffect::Executed);
        match withholds {
            false => assert_eq!(result.contents, [Content::Text("done".to_owned())]),
            true => assert_eq!(code(&turn, "a"), "hook_failed"),
        }
        assert_eq!(result.contents.is_empty(), withholds);
    }
}

#[test]
fn an_abort_after_a_call_keeps_its_result_and_stops_what_runs() {
    let mut turn = paper(&[("a", "write", "{}"), ("b", "write", "{}")]).lay();
    turn.hooks = one(Point::AfterToolCall);
    turn.start();
    turn.claimed(&["a", "b"]);
    turn.answered("a", 1);
    let abort = AfterVerdict {
        action: AfterAction::Abort,
        reason_for_user: "enough".to_owned(),
        context: "dropped".to_owned(),
        ..AfterVerdict::default()
    };
    let lines = turn.hook_says_after(1, abort);
    assert!(has(
        &lines,
        "persist turn cancelling \"enough\" run=aborted, before announce"
    ));
    assert!(has(&lines, "withdraw b#1 run_ended"), "{lines:?}");
    let kept = turn.result("a");
    assert_eq!(
        (kept.outcome, kept.hooks.clone()),
        (CallOutcome::Success, None)
    );
    let lines = turn.due();
    assert!(
        has(&lines, "turn completed: aborted run=aborted"),
        "{lines:?}"
    );
}

#[test]
fn a_result_that_came_in_time_is_kept_when_the_turn_ends_before_its_hook_answers() {
    let mut turn = paper(&[("a", "write", "{}")]).lay();
    turn.hooks = one(Point::AfterToolCall);
    turn.start();
    turn.claimed(&["a"]);
    turn.answered("a", 1);
    let lines = turn.cancel(CancelScope::Turn, 0);
    assert!(has(&lines, "forget hook #1"), "{lines:?}");
    assert_eq!(turn.result("a").outcome, CallOutcome::Success);
}

#[test]
fn a_hook_may_approve_what_the_mode_asks_and_not_what_it_did_not_see() {
    let deciding = |action, sees: bool| {
        let mut turn = paper(&[("a", "drop", "{}")]).lay();
        turn.hooks = one(Point::ApprovalRequested);
        turn.approver = Approver::Expected;
        let lines = turn.start();
        assert_eq!(asked(&lines), ["ask hook one approval_requested #1 a"]);
        let digest = turn.approval("a").digest;
        let verdict = ApprovalVerdict {
            action,
            message: "no".to_owned(),
            digest: sees.then_some(digest),
        };
        turn.hook_answered(1, HookAnswer::Approval(verdict));
        turn
    };
    let approved = deciding(ApprovalAction::Approve, true);
    assert_eq!(approved.state("a"), CallState::Scheduled);
    let decision = approved.approval("a").decision.clone().unwrap();
    assert_eq!(decision.by, "hook:one");
    let blind = deciding(ApprovalAction::Approve, false);
    assert_eq!(blind.state("a"), CallState::AwaitingApproval);
    let left = deciding(ApprovalAction::Leave, true);
    assert_eq!(left.state("a"), CallState::AwaitingApproval);
    let denied = deciding(ApprovalAction::Deny, false);
    assert_eq!(code(&denied, "a"), "tool_denied_by_user");
}

#[test]
fn only_hooks_that_are_for_such_calls_may_approve() {
    let matching = |name: &str, number, tools: &[&str], pointers: &[&str]| {
        let parts = MatcherParts {
            tools: tools.iter().map(|tool| (*tool).to_owned()).collect(),
            pointers: pointers.iter().map(|one| (*one).to_owned()).collect(),
            ..MatcherParts::default()
        };
        Hook {
            matcher: Matcher::new(parts, &Aliases::default()).unwrap(),
            ..hook(name, number, &[Point::ApprovalRequested])
        }
    };
    let mut turn = paper(&[("a", "drop", "{\"x\":1}")]).lay();
    turn.hooks = list(vec![
        matching("other_tool", 1, &["write"], &[]),
        matching("other_argument", 2, &[], &["/y"]),
        matching("this", 3, &["dr*"], &["/x"]),
        matching("later", 4, &["write"], &[]),
    ]);
    turn.approver = Approver::Expected;
    let lines = turn.start();
    assert_eq!(asked(&lines), ["ask hook this approval_requested #1 a"]);
    let leave = ApprovalVerdict {
        action: ApprovalAction::Leave,
        message: String::new(),
        digest: None,
    };
    let lines = turn.hook_answered(1, HookAnswer::Approval(leave));
    assert_eq!(asked(&lines), [] as [&str; 0]);
    assert_eq!(turn.state("a"), CallState::AwaitingApproval);
}

#[test]
fn observers_are_told_and_not_awaited() {
    let mut turn = paper(&[("a", "read", "{}")]).lay();
    turn.hooks = list(vec![
        Hook {
            observes: true,
            ..hook("one", 1, &[Point::BeforeToolCall])
        },
        hook("two", 2, &[Point::TurnStarted, Point::TurnFinished]),
    ]);
    let lines = turn.start();
    let expected = [
        "tell hook two turn_started #1 the turn",
        "tell hook one before_tool_call #2 a {} after 0",
    ];
    assert_eq!(asked(&lines), expected);
    assert!(has(&lines, "claim a"));
    turn.claimed(&["a"]);
    let lines = turn.answered("a", 1);
    let expected = ["tell hook two turn_finished #3 the turn of 1 results"];
    assert_eq!(asked(&lines), expected);
}
