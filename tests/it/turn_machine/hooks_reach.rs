//! How far the word of a hook reaches: what it cannot make run, what is never lost of it, and what
//! comes while it is asked.
//!
//! What each word does by itself is `hooking`'s business.

use callgate::gate::approval::Choice;
use callgate::gate::call::CallState;
use callgate::gate::hooks::{BeforeAction, BeforeVerdict, FailureKind, Hook, OnFailure, Point};
use callgate::gate::permission::Approver;
use callgate::gate::result::CallResult;
use callgate::gate::tool::{Kind, Risk, ToolDefinition};

use super::asking::{decide, says as chooses};
use super::drive::{Turn, paper};
use super::hooking::{code, has, hook, list, one, rewrites, says};
use super::tools::definition;

const WORDS: [BeforeAction; 4] = [
    BeforeAction::Proceed,
    BeforeAction::Allow,
    BeforeAction::Ask,
    BeforeAction::Defer,
];

#[test]
fn no_hook_lets_a_tool_run_that_the_turn_does_not_have() {
    for action in WORDS {
        for verdict in [
            says(action),
            BeforeVerdict {
                action,
                ..rewrites("{\"n\":1}")
            },
        ] {
            let calls = [("a", "write", "{}"), ("b", "nothing", "{}")];
            let mut turn = paper(&calls).toolset(&["read"]).lay();
            turn.hooks = one(Point::BeforeToolCall);
            turn.approver = Approver::Expected;
            turn.start();
            turn.hook_says(1, verdict.clone());
            turn.hook_says(2, verdict);
            for id in ["a", "b"] {
                assert_eq!(code(&turn, id), "tool_not_found", "{action:?}");
            }
            assert!(turn.machine.has_ended());
        }
    }
}

#[test]
fn a_hook_sees_a_call_that_does_not_fit_and_cannot_make_it_run() {
    for action in WORDS {
        for (arguments, expected) in [
            ("{\"n\":\"x\"}", "tool_argument_type_mismatch"),
            ("{\"n\":1,}", "json_invalid"),
            ("{\"n\":", "json_truncated"),
            ("{\"n\":NaN}", "json_number_out_of_range"),
        ] {
            let mut turn = paper(&[("a", "drop", arguments)]).lay();
            turn.hooks = one(Point::BeforeToolCall);
            turn.approver = Approver::Expected;
            let lines = turn.start();
            let shown = format!("#1 a {arguments} {expected} after 0");
            assert!(has(&lines, &shown), "{lines:?}");
            turn.hook_says(1, says(action));
            assert_eq!(code(&turn, "a"), expected, "{action:?}");
            assert!(!turn.transcript().contains("approval required"));
        }
    }
}

#[test]
fn every_call_that_a_hook_allows_runs_unasked() {
    let edits = ToolDefinition {
        risk: Some(Risk::Sensitive),
        kind: Kind::Edit,
        ..definition("patch")
    };
    let calls = ["a", "b", "c", "d"].map(|id| (id, "patch", "{}"));
    let mut turn = paper(&calls).lay();
    turn.register(edits);
    turn.hooks = one(Point::BeforeToolCall);
    turn.approver = Approver::Expected;
    turn.start();
    for ticket in 1..=4 {
        turn.hook_says(ticket, says(BeforeAction::Allow));
    }
    for (id, ..) in calls {
        assert_eq!(turn.state(id), CallState::Scheduled, "{id}");
    }
    assert!(!turn.transcript().contains("approval required"));
}

/// What the model gets beside the result.
fn contexts(result: &CallResult) -> Vec<String> {
    let words = result.hooks.as_ref();
    let texts = words.map(|words| words.contexts.iter().map(|one| one.text.clone()));
    texts.into_iter().flatten().collect()
}

#[test]
fn a_context_comes_with_every_word_but_abort() {
    for action in [
        BeforeAction::Proceed,
        BeforeAction::Allow,
        BeforeAction::Ask,
        BeforeAction::Defer,
        BeforeAction::Deny,
        BeforeAction::Abort,
    ] {
        let mut turn = paper(&[("a", "read", "{}")]).lay();
        turn.hooks = one(Point::BeforeToolCall);
        turn.approver = Approver::Expected;
        turn.start();
        let verdict = BeforeVerdict {
            context: "mind the gap".to_owned(),
            ..says(action)
        };
        turn.hook_says(1, verdict);
        if turn.state("a") == CallState::AwaitingApproval {
            let once = chooses(&turn, "a", Choice::Once);
            decide(&mut turn, "a", once);
        }
        if turn.state("a") == CallState::Scheduled {
            turn.claimed(&["a"]);
            turn.answered("a", 1);
        }
        assert!(turn.machine.has_ended(), "{action:?}");
        let expected: &[&str] = match action == BeforeAction::Abort {
            true => &[],
            false => &["mind the gap"],
        };
        assert_eq!(contexts(&turn.result("a")), expected, "{action:?}");
    }
}

#[test]
fn every_failure_of_a_hook_is_an_event_that_says_which() {
    for on_failure in [OnFailure::Deny, OnFailure::Ask, OnFailure::Ignore] {
        for (kind, status) in [
            (FailureKind::Timeout, "timeout"),
            (FailureKind::Failed, "failed"),
            (FailureKind::Unavailable, "unavailable"),
        ] {
            let mut turn = paper(&[("a", "read", "{}")]).lay();
            turn.hooks = list(vec![Hook {
                on_failure,
                ..hook("one", 1, &[Point::BeforeToolCall])
            }]);
            turn.start();
            let lines = turn.hook_fails(1, kind);
            let expected = format!("hook ran one before_tool_call a {status}");
            assert!(has(&lines, &expected), "{expected}: {lines:?}");
        }
    }
}

#[test]
fn a_call_that_its_hooks_let_through_does_not_start_once_it_is_cancelled() {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "read", "{}")]).lay();
    turn.hooks = one(Point::BeforeToolCall);
    turn.start();
    turn.hook_says(1, says(BeforeAction::Allow));
    // The hook is asked about the other call by now.
    turn.cancel_call("a", 0);
    let lines = turn.hook_says(2, says(BeforeAction::Allow));
    let claims: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("claim"))
        .collect();
    assert_eq!(claims, ["claim b"]);
    assert_eq!(turn.state("a"), CallState::Cancelled);
    assert_eq!(sent(&mut turn), ["b"]);
}

/// The calls that are sent when executors have room for all.
fn sent(turn: &mut Turn) -> Vec<String> {
    let told = turn.claimed(&["a", "b"]);
    let sent = told
        .iter()
        .filter_map(|line| line.strip_prefix("dispatch "));
    sent.filter_map(|line| line.split_once('#'))
        .map(|(id, _)| id.to_owned())
        .collect()
}
