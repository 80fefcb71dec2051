//! What silence means: in the queue, before acceptance, while running, and for the turn.
//!
//! Never reads a clock: the machine names the moment, the test goes there.

use callgate::gate::call::CallState;
use callgate::gate::ids::InstanceId;
use callgate::gate::turn::{Claimed, Input};

use super::drive::{Turn, paper};
use super::lines;

fn started(tool: &str) -> Turn {
    let mut turn = paper(&[("a", tool, "{}")]).lay();
    turn.start();
    turn
}

#[test]
fn a_call_that_finds_no_executor_in_time_is_given_back() {
    let mut turn = started("write");
    assert_eq!(turn.deadline(), Some(1_000));
    assert_eq!(
        turn.due(),
        [
            "persist turn ended completed run=active results=[a], after",
            "announce a: scheduled -> error tool_unavailable",
            "announce a completed: error tool_unavailable because=tool_unavailable effect=not_executed attempts=0",
            "announce turn completed: completed run=active results=[a]",
            "give back a",
            "finish",
        ]
    );
    assert!(turn.result("a").error.clone().unwrap().retryable);
    assert_eq!(turn.result("a").timing.queue_ms, 1_000);
}

#[test]
fn a_moment_that_has_not_come_changes_nothing() {
    let mut turn = started("write");
    assert_eq!(
        turn.later(999).give(Input::DeadlineReached),
        Vec::<String>::new()
    );
}

#[test]
fn a_strict_call_that_is_not_accepted_in_time_ends_unknown() {
    let mut turn = started("write");
    turn.claimed(&["a"]);
    assert_eq!(turn.deadline(), Some(100));
    let effects = turn.due();
    assert!(
        effects
            .contains(&"withdraw a#1 deadline \"not accepted in time\" grace=50 forget".to_owned()),
        "{effects:?}"
    );
    assert_eq!(
        lines::result(&turn.result("a")),
        "error tool_outcome_unknown effect=unknown attempts=1"
    );
}

#[test]
fn a_repeatable_call_that_is_not_accepted_in_time_is_sent_again() {
    let mut turn = started("read");
    turn.claimed(&["a"]);
    assert_eq!(
        turn.due(),
        [
            "withdraw a#1 deadline \"not accepted in time\" grace=50 forget",
            "claim a"
        ]
    );
    assert_eq!(turn.deadline(), Some(1_100));
}

#[test]
fn an_executor_that_never_says_accepted_has_until_the_end() {
    let mut turn = started("write");
    let claim = Claimed {
        call: turn.index("a"),
        instance: InstanceId::trusted("x1"),
        accepts: false,
    };
    turn.give(Input::Claimed(vec![claim]));
    assert_eq!(turn.deadline(), Some(10_000));
}

#[test]
fn a_queued_call_has_its_whole_time_and_then_no_more() {
    let mut turn = started("write");
    turn.claimed(&["a"]);
    turn.queued("a", 1);
    assert_eq!(turn.deadline(), Some(10_000));
    let effects = turn.due();
    assert!(
        effects
            .contains(&"withdraw a#1 deadline \"the call timed out\" grace=50 forget".to_owned()),
        "{effects:?}"
    );
    assert_eq!(
        lines::result(&turn.result("a")),
        "error tool_timeout effect=unknown attempts=1"
    );
}

#[test]
fn progress_does_not_buy_time() {
    let mut turn = started("write");
    turn.claimed(&["a"]);
    turn.accepted("a", 1);
    turn.later(9_000).progressed("a", 1);
    assert_eq!(turn.deadline(), Some(10_000));
}

#[test]
fn a_result_in_the_last_moment_counts() {
    let mut turn = started("write");
    turn.claimed(&["a"]);
    turn.accepted("a", 1);
    turn.later(10_000).answered("a", 1);
    assert_eq!(turn.state("a"), CallState::Success);
}

#[test]
fn a_turn_that_takes_too_long_is_cancelled_with_the_default_grace() {
    let calls = [("a", "write", "{}"), ("z", "read", "{}")];
    let mut turn = paper(&calls).timeout_ms(500).lay();
    turn.start();
    turn.claimed(&["a"]);
    turn.accepted("a", 1);
    assert_eq!(turn.deadline(), Some(500));
    assert_eq!(
        turn.due(),
        [
            "persist turn cancelling \"the turn took longer than 500 ms\" run=cancelled, before announce",
            "announce z: scheduled -> cancelled tool_cancelled",
            "announce z completed: cancelled tool_cancelled because=cancelled_before_start effect=not_executed attempts=0",
            "withdraw a#1 deadline \"the turn took longer than 500 ms\" grace=50",
            "give back z",
        ]
    );
    assert_eq!(turn.deadline(), Some(550));
    assert_eq!(turn.due().last().unwrap(), "finish");
}

#[test]
fn every_moment_that_has_come_is_answered_in_one_step() {
    let mut turn = paper(&[("a", "write", "{}"), ("b", "read", "{}")]).lay();
    turn.start();
    turn.claimed(&["a"]);
    turn.later(50_000).give(Input::DeadlineReached);
    assert_eq!(turn.state("a"), CallState::Error);
    assert_eq!(turn.state("b"), CallState::Error);
    assert!(turn.machine.has_ended());
}
