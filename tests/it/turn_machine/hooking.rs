//! Hooks before calls, on paper.
//!
//! Never talks to a hook process: its answers are inputs.

use std::sync::Arc;

use bytes::Bytes;
use callgate::gate::approval::ApprovalState;
use callgate::gate::call::CallState;
use callgate::gate::event::{RunState, TurnCompleted, TurnOutcome};
use callgate::gate::hooks::{
    AfterVerdict, BeforeAction, BeforeVerdict, Body, FailureKind, Hook, HookAnswer, HookFailure,
    HookList, HookPlace, Matcher, OnFailure, Point,
};
use callgate::gate::ids::HookId;
use callgate::gate::permission::{Approver, Mode};
use callgate::gate::record::Record;
use callgate::gate::result::{CallEffect, CallOutcome, Content, NotExecuted, ToolResult};
use callgate::gate::turn::{CancelScope, Effect, HookTicket, Input};

use super::drive::{Turn, paper, text};

/// A remote hook of these points, in place `number`.
pub(crate) fn hook(name: &str, number: u64, points: &[Point]) -> Hook {
    Hook {
        id: HookId::trusted(name),
        place: HookPlace { order: 0, number },
        points: points.to_vec(),
        matcher: Matcher::default(),
        timeout_ms: 5_000,
        on_failure: OnFailure::Deny,
        observes: false,
        withholds: false,
        description: String::new(),
        body: Body::Remote,
    }
}

pub(crate) fn list(hooks: Vec<Hook>) -> HookList {
    HookList::new(hooks.into_iter().map(Arc::new).collect())
}

pub(super) fn one(point: Point) -> HookList {
    list(vec![hook("one", 1, &[point])])
}

fn two() -> HookList {
    list(vec![
        hook("two", 2, &[Point::BeforeToolCall]),
        hook("one", 1, &[Point::BeforeToolCall]),
    ])
}

pub(crate) fn says(action: BeforeAction) -> BeforeVerdict {
    BeforeVerdict {
        action,
        reason_for_user: "because".to_owned(),
        ..BeforeVerdict::default()
    }
}

pub(crate) fn rewrites(arguments: &'static str) -> BeforeVerdict {
    BeforeVerdict {
        modified: Bytes::from_static(arguments.as_bytes()),
        ..says(BeforeAction::Proceed)
    }
}

impl Turn {
    pub(crate) fn hook_answered(&mut self, ticket: u32, answer: HookAnswer) -> Vec<String> {
        self.give(Input::HookAnswered {
            ticket: HookTicket(ticket),
            answer,
            took_ms: 3,
        })
    }

    pub(crate) fn hook_says(&mut self, ticket: u32, verdict: BeforeVerdict) -> Vec<String> {
        self.hook_answered(ticket, HookAnswer::Before(Box::new(verdict)))
    }

    pub(crate) fn hook_says_after(&mut self, ticket: u32, verdict: AfterVerdict) -> Vec<String> {
        self.hook_answered(ticket, HookAnswer::After(Box::new(verdict)))
    }

    pub(crate) fn hook_fails(&mut self, ticket: u32, kind: FailureKind) -> Vec<String> {
        let failure = HookFailure {
            kind,
            message: "why".to_owned(),
        };
        self.hook_answered(ticket, HookAnswer::Failed(failure))
    }

    /// The end of the turn, if this input ends it.
    pub(super) fn end_of(&mut self, input: Input) -> Arc<TurnCompleted> {
        let effects = self.effects(input);
        let ends = effects.into_iter().find_map(|effect| {
            let Effect::Persist { record, .. } = effect else {
                return None;
            };
            let Record::TurnEnded { completed, .. } = record else {
                return None;
            };
            Some(completed)
        });
        ends.expect("the turn ends")
    }
}

pub(super) fn asked(lines: &[String]) -> Vec<&str> {
    let hooks = lines.iter().map(String::as_str);
    hooks
        .filter(|line| line.starts_with("ask hook") || line.starts_with("tell hook"))
        .collect()
}

pub(super) fn has(lines: &[String], part: &str) -> bool {
    lines.iter().any(|line| line.contains(part))
}

pub(super) fn code(turn: &Turn, id: &str) -> String {
    let result = turn.result(id);
    result
        .error
        .as_ref()
        .map_or_else(String::new, |error| error.code.to_string())
}

#[test]
fn hooks_are_asked_one_after_the_other_over_the_whole_batch_before_anything_runs() {
    let mut turn = paper(&[("a", "read", "{\"n\":1}"), ("b", "nothing", "{}")]).lay();
    turn.hooks = two();
    let lines = turn.start();
    let first = ["ask hook one before_tool_call #1 a {\"n\":1} after 0"];
    assert_eq!(asked(&lines), first);
    assert!(!has(&lines, "claim"));
    let lines = turn.hook_says(1, says(BeforeAction::Proceed));
    let second = ["ask hook two before_tool_call #2 a {\"n\":1} after 1"];
    assert_eq!(asked(&lines), second);
    let lines = turn.hook_says(2, says(BeforeAction::Proceed));
    // A call of no tool is shown all the same.
    let third = ["ask hook one before_tool_call #3 b {} tool_not_found after 0"];
    assert_eq!(asked(&lines), third);
    turn.hook_says(3, says(BeforeAction::Allow));
    let lines = turn.hook_says(4, says(BeforeAction::Proceed));
    assert!(has(&lines, "claim a"), "{lines:?}");
    assert_eq!(code(&turn, "b"), "tool_not_found");
}

#[test]
fn a_rewrite_flows_on_and_is_what_runs() {
    let mut turn = paper(&[("a", "read", "{\"n\":1}")]).lay();
    turn.hooks = two();
    turn.start();
    let lines = turn.hook_says(1, rewrites("{ \"n\" : 2 }"));
    let expected = ["ask hook two before_tool_call #2 a { \"n\" : 2 } after 1"];
    assert_eq!(asked(&lines), expected);
    let lines = turn.hook_says(2, says(BeforeAction::Proceed));
    assert!(has(&lines, "persist hooks heard of a=proceed, after"));
    let lines = turn.claimed(&["a"]);
    assert!(has(&lines, "dispatch a#1 {\"n\":2}"), "{lines:?}");
}

#[test]
fn a_rewrite_that_does_not_fit_is_told_to_the_next_hook_and_never_runs() {
    let mut turn = paper(&[("a", "read", "{\"n\":1}")]).lay();
    turn.hooks = two();
    turn.start();
    let lines = turn.hook_says(1, rewrites("{\"n\":\"x\"}"));
    let expected = "#2 a {\"n\":\"x\"} hook_modified_args_invalid after 1";
    assert!(has(&lines, expected), "{lines:?}");
    turn.hook_says(2, says(BeforeAction::Allow));
    assert_eq!(code(&turn, "a"), "hook_modified_args_invalid");
    let result = turn.result("a");
    assert_eq!(result.not_executed, Some(NotExecuted::InvalidCall));
    assert_eq!(result.attempts, 0);
}

#[test]
fn a_rewrite_mends_what_the_model_got_wrong() {
    let mut turn = paper(&[("a", "read", "{\"n\":\"x\"}")]).lay();
    turn.hooks = one(Point::BeforeToolCall);
    let lines = turn.start();
    assert!(has(&lines, "tool_argument_type_mismatch"), "{lines:?}");
    let lines = turn.hook_says(1, rewrites("{\"n\":1}"));
    assert!(has(&lines, "claim a"), "{lines:?}");
}

#[test]
fn a_denial_ends_the_chain_of_its_call_and_leaves_the_others() {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "read", "{}")]).lay();
    turn.hooks = two();
    turn.start();
    let lines = turn.hook_says(1, says(BeforeAction::Deny));
    assert_eq!(
        asked(&lines),
        ["ask hook one before_tool_call #2 b {} after 0"]
    );
    let result = turn.result("a");
    let error = result.error.as_ref().unwrap();
    assert_eq!(error.code, "tool_denied_by_hook");
    assert_eq!(error.message_for_model, "because");
    assert_eq!(result.not_executed, Some(NotExecuted::DeniedByHook));
    turn.hook_says(2, says(BeforeAction::Proceed));
    let lines = turn.hook_says(3, says(BeforeAction::Proceed));
    assert!(has(&lines, "claim b"), "{lines:?}");
}

#[test]
fn a_synthetic_result_has_the_calls_id_and_its_own_error_flag() {
    let denies = |is_error| BeforeVerdict {
        synthetic: Some(ToolResult {
            is_error,
            ..text("cached")
        }),
        ..says(BeforeAction::Deny)
    };
    let answered = |is_error| {
        let mut turn = paper(&[("a", "write", "{}")]).lay();
        turn.hooks = one(Point::BeforeToolCall);
        turn.start();
        turn.hook_says(1, denies(is_error));
        turn.result("a")
    };
    let success = answered(false);
    assert_eq!(success.call_id.as_str(), "a");
    assert_eq!(success.outcome, CallOutcome::Success);
    assert_eq!(success.not_executed, Some(NotExecuted::AnsweredByHook));
    assert_eq!(success.effect, CallEffect::NotExecuted);
    assert_eq!(success.contents, [Content::Text("cached".to_owned())]);
    let error = answered(true);
    assert_eq!(error.outcome, CallOutcome::Error);
    assert_eq!(error.error.as_ref().unwrap().code, "tool_denied_by_hook");
    assert_eq!(error.error.as_ref().unwrap().message_for_model, "cached");
}

#[test]
fn an_abort_ends_the_run_and_nothing_of_the_batch_runs() {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "read", "{}")]).lay();
    turn.hooks = one(Point::BeforeToolCall);
    turn.start();
    turn.hook_says(1, says(BeforeAction::Allow));
    let completed = turn.end_of(Input::HookAnswered {
        ticket: HookTicket(2),
        answer: HookAnswer::Before(Box::new(says(BeforeAction::Abort))),
        took_ms: 0,
    });
    assert_eq!(completed.outcome, TurnOutcome::Aborted);
    assert_eq!(completed.run.state, RunState::Aborted);
    assert_eq!(completed.run.end_code, "run_aborted");
    assert_eq!(completed.run.end_reason, "because");
    for result in &completed.results {
        assert_eq!(result.error.as_ref().unwrap().code, "run_aborted");
        assert_eq!(result.not_executed, Some(NotExecuted::RunAborted));
    }
    // Recorded before it is told.
    let transcript = turn.transcript();
    let recorded = transcript.find("persist turn ended").unwrap();
    assert!(recorded < transcript.find("announce turn completed").unwrap());
    assert!(transcript.contains("run=aborted stop=run_ended results=[a b], before announce"));
}

#[test]
fn an_ask_waits_for_an_approver_even_where_the_mode_would_not_ask() {
    let mut turn = paper(&[("a", "read", "{\"n\":1}")]).lay();
    turn.hooks = one(Point::BeforeToolCall);
    turn.approver = Approver::Expected;
    turn.session_mode = Some(Mode::Auto);
    turn.start();
    let verdict = BeforeVerdict {
        modified: Bytes::from_static(b"{\"n\":2}"),
        context: "mind the gap".to_owned(),
        ..says(BeforeAction::Ask)
    };
    let lines = turn.hook_says(1, verdict);
    assert!(
        has(&lines, "persist asking for a, before announce"),
        "{lines:?}"
    );
    let approval = turn.approval("a");
    assert_eq!(&*approval.arguments, b"{\"n\":2}");
    assert_eq!(
        (approval.ground.hook.as_str(), &*approval.ground.message),
        ("one", "because")
    );
    assert_eq!(approval.contexts.len(), 1);
    assert!(!approval.is_deferred);
}

#[test]
fn an_ask_without_an_approver_is_unavailable_and_a_defer_waits() {
    let mut turn = paper(&[("a", "read", "{}")]).lay();
    turn.hooks = one(Point::BeforeToolCall);
    turn.start();
    turn.hook_says(1, says(BeforeAction::Ask));
    assert_eq!(code(&turn, "a"), "approval_unavailable");
    let mut turn = paper(&[("a", "read", "{}")]).lay();
    turn.hooks = two();
    turn.start();
    let lines = turn.hook_says(1, says(BeforeAction::Defer));
    assert_eq!(asked(&lines), [] as [&str; 0]);
    assert_eq!(turn.state("a"), CallState::AwaitingApproval);
    assert!(turn.approval("a").is_deferred);
}

#[test]
fn failures_count_as_the_hook_says_with_a_code_of_their_own() {
    let failing = |on_failure, kind| {
        let mut turn = paper(&[("a", "read", "{}")]).lay();
        turn.hooks = list(vec![Hook {
            on_failure,
            ..hook("one", 1, &[Point::BeforeToolCall])
        }]);
        turn.approver = Approver::Expected;
        turn.start();
        turn.hook_fails(1, kind);
        turn
    };
    let codes = [
        (FailureKind::Timeout, "hook_timeout"),
        (FailureKind::Failed, "hook_failed"),
        (FailureKind::Unavailable, "hook_unavailable"),
    ];
    for (kind, expected) in codes {
        let denied = failing(OnFailure::Deny, kind);
        assert_eq!(code(&denied, "a"), expected);
        let why = denied.result("a").not_executed;
        assert_eq!(why, Some(NotExecuted::DeniedByHook));
        let asking = failing(OnFailure::Ask, kind);
        assert_eq!(asking.state("a"), CallState::AwaitingApproval);
        let reason = format!("hook `one`: {expected}");
        assert_eq!(asking.approval("a").ground.message, reason);
        assert_eq!(
            failing(OnFailure::Ignore, kind).state("a"),
            CallState::Scheduled
        );
    }
}

#[test]
fn an_answer_to_another_question_is_nonsense_and_a_late_one_is_nothing() {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "read", "{}")]).lay();
    turn.hooks = one(Point::BeforeToolCall);
    turn.start();
    turn.hook_says_after(1, AfterVerdict::default());
    assert_eq!(code(&turn, "a"), "hook_failed");
    assert_eq!(
        turn.hook_says(1, says(BeforeAction::Abort)),
        [] as [&str; 0]
    );
    assert_eq!(
        turn.hook_says(7, says(BeforeAction::Abort)),
        [] as [&str; 0]
    );
    turn.hook_says(2, says(BeforeAction::Proceed));
    assert_eq!(turn.state("b"), CallState::Scheduled);
}

#[test]
fn cancelling_the_call_that_a_hook_is_asked_about_goes_on_with_the_next() {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "read", "{}")]).lay();
    turn.hooks = one(Point::BeforeToolCall);
    turn.start();
    let lines = turn.cancel_call("a", 0);
    assert!(has(&lines, "forget hook #1"), "{lines:?}");
    assert_eq!(
        asked(&lines),
        ["ask hook one before_tool_call #2 b {} after 0"]
    );
    assert_eq!(turn.state("a"), CallState::Cancelled);
}

#[test]
fn cancelling_the_turn_or_its_time_ends_it_while_a_hook_is_asked() {
    for times_out in [false, true] {
        let mut turn = paper(&[("a", "read", "{}")]).timeout_ms(50).lay();
        turn.hooks = one(Point::BeforeToolCall);
        turn.start();
        let lines = match times_out {
            true => turn.due(),
            false => turn.cancel(CancelScope::Turn, 0),
        };
        assert!(has(&lines, "forget hook #1"), "{lines:?}");
        assert!(has(&lines, "hook ran one before_tool_call a cancelled"));
        assert!(has(&lines, "turn completed: cancelled"), "{lines:?}");
        assert!(turn.machine.has_ended());
    }
}

#[test]
fn a_run_that_ends_while_a_hook_is_asked_takes_its_calls_along() {
    let mut turn = paper(&[("a", "read", "{}")]).lay();
    turn.hooks = one(Point::BeforeToolCall);
    turn.start();
    let run = turn.run_ended();
    let lines = turn.give(Input::RunEnded(run));
    assert!(has(&lines, "forget hook #1"), "{lines:?}");
    assert_eq!(turn.state("a"), CallState::Cancelled);
    assert!(turn.machine.has_ended());
}

#[test]
fn a_tool_that_changes_while_a_hook_is_asked_does_not_run() {
    let mut turn = paper(&[("a", "read", "{}")]).lay();
    turn.hooks = one(Point::BeforeToolCall);
    turn.start();
    turn.change_tool("read");
    turn.give(Input::ToolsChanged);
    turn.hook_says(1, says(BeforeAction::Allow));
    assert_eq!(code(&turn, "a"), "tool_changed");
}

#[test]
fn a_call_that_waits_keeps_what_hooks_said_over_a_restart_and_one_that_does_not_is_asked_again() {
    let calls = [("a", "write", "{\"n\":1}"), ("b", "read", "{}")];
    let mut turn = paper(&calls).lay();
    turn.hooks = one(Point::BeforeToolCall);
    turn.start();
    let parked = BeforeVerdict {
        modified: Bytes::from_static(b"{\"n\":2}"),
        suppress: true,
        context: "mind the gap".to_owned(),
        ..says(BeforeAction::Defer)
    };
    turn.hook_says(1, parked);
    let effects = turn.effects(Input::HookAnswered {
        ticket: HookTicket(2),
        answer: HookAnswer::Before(Box::new(says(BeforeAction::Proceed))),
        took_ms: 0,
    });
    let mut heard = Vec::new();
    let mut approvals = Vec::new();
    for effect in effects {
        let Effect::Persist { record, .. } = effect else {
            continue;
        };
        if let Record::HooksHeard { heard: words, .. } = record {
            heard = words;
        } else if let Record::ApprovalsAsked {
            approvals: asked, ..
        } = record
        {
            approvals = asked;
        }
    }
    let mut again = paper(&calls).restore(|stored| {
        stored.heard = heard;
        stored.approvals = approvals;
    });
    again.hooks = one(Point::BeforeToolCall);
    let lines = again.recover();
    let expected = ["ask hook one before_tool_call #1 b {} after 0 attempt=2"];
    assert_eq!(asked(&lines), expected);
    assert_eq!(again.state("a"), CallState::AwaitingApproval);
    assert_eq!(again.approval("a").state, ApprovalState::Pending);
    again.hook_says(1, says(BeforeAction::Proceed));
    // Nobody can be asked, and it waits all the same.
    assert_eq!(again.state("a"), CallState::AwaitingApproval);
    assert_eq!(&*again.approval("a").arguments, b"{\"n\":2}");
}
