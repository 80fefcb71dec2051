//! Taking turns up after a restart, at every stage at which a process can die.
//!
//! Never reads a store: what is stored comes in as a value.

use std::sync::Arc;

use bytes::Bytes;
use callgate::gate::call::CallState;
use callgate::gate::ids::{CallIndex, InstanceId, ToolName};
use callgate::gate::record::{DispatchIntent, Record, StoredTurn};
use callgate::gate::result::{CallEffect, CallResult};
use callgate::gate::tool::{Risk, ToolDefinition};
use callgate::gate::turn::{CancelScope, Durability, Proof};

use super::drive::{Turn, paper};
use super::lines;

const CALLS: &[(&str, &str, &str)] = &[("a", "write", "{}"), ("b", "read", "{}")];

/// Call `a` was sent before the process died.
fn sent(stored: &mut StoredTurn) {
    stored.dispatched.push(DispatchIntent {
        call: CallIndex(0),
        attempt: 1,
        instance: InstanceId::trusted("x1"),
    });
}

/// The result that call `a` of such a turn gets.
fn answer() -> Arc<CallResult> {
    let mut turn = paper(CALLS).lay();
    turn.start();
    turn.claimed(&["a"]);
    turn.answered("a", 1);
    turn.result("a")
}

fn expecting() -> Turn {
    let mut turn = paper(CALLS).restore(sent);
    turn.recover();
    turn
}

#[test]
fn what_was_never_sent_starts_again_from_the_look() {
    let mut turn = paper(CALLS).restore(|_| {});
    assert_eq!(
        turn.recover(),
        [
            "announce a: validating -> scheduled",
            "announce b: validating -> scheduled",
            "claim a",
            "claim b",
        ]
    );
}

#[test]
fn what_was_sent_is_expected_back_and_not_sent_again() {
    let mut turn = paper(CALLS).restore(sent);
    assert_eq!(
        turn.recover(),
        [
            "announce a: validating -> scheduled",
            "announce b: validating -> scheduled",
            "expect a#1@x1",
            "claim b",
        ]
    );
    assert_eq!(turn.deadline(), Some(500));
    assert_eq!(turn.claimed(&["a"]), Vec::<String>::new());
}

#[test]
fn results_that_were_recorded_stand() {
    let mut turn = paper(CALLS).restore(|stored| {
        sent(stored);
        stored.results.push((CallIndex(0), answer()));
    });
    assert_eq!(
        turn.recover(),
        ["announce b: validating -> scheduled", "claim b"]
    );
    assert_eq!(turn.result("a"), answer());
    turn.claimed(&["b"]);
    assert_eq!(
        turn.answered("b", 1)[0],
        "persist turn ended completed run=active results=[a b], before announce"
    );
}

#[test]
fn a_turn_whose_calls_have_all_ended_ends() {
    let mut turn = paper(&CALLS[..1]).restore(|stored| {
        stored.results.push((CallIndex(0), answer()));
    });
    assert_eq!(
        turn.recover(),
        [
            "persist turn ended completed run=active results=[a], before announce",
            "announce turn completed: completed run=active results=[a]",
            "finish",
        ]
    );
}

#[test]
fn a_turn_that_was_being_cancelled_ends_cancelled() {
    let mut turn = paper(CALLS).restore(|stored| {
        sent(stored);
        stored.cancelling = Some("enough".to_owned());
    });
    let effects = turn.recover();
    assert_eq!(
        effects[0],
        "persist turn ended cancelled run=cancelled stop=run_ended results=[a b], before announce"
    );
    assert_eq!(effects.last().unwrap(), "finish");
    assert_eq!(
        lines::result(&turn.result("a")),
        "cancelled tool_cancelled effect=unknown attempts=1"
    );
}

#[test]
fn what_leaves_no_record_of_its_dispatch_may_have_run_before_the_restart() {
    // `b` may be repeated, so nothing was written when it was sent.
    let mut turn = paper(CALLS).restore(|stored| stored.cancelling = Some("enough".to_owned()));
    turn.recover();
    assert_eq!(
        lines::result(&turn.result("a")),
        "cancelled tool_cancelled because=cancelled_before_start effect=not_executed attempts=0"
    );
    assert_eq!(
        lines::result(&turn.result("b")),
        "cancelled tool_cancelled effect=unknown attempts=0"
    );
    let mut turn = paper(CALLS).restore(|_| {});
    turn.recover();
    turn.cancel(CancelScope::Turn, 0);
    assert_eq!(turn.result("a").effect, CallEffect::NotExecuted);
    assert_eq!(turn.result("b").effect, CallEffect::Unknown);
}

#[test]
fn a_call_that_its_executor_still_has_goes_on() {
    let mut turn = expecting();
    assert_eq!(
        turn.later(10).resumed("a", 1),
        ["announce a: scheduled -> executing"]
    );
    turn.answered("a", 1);
    assert_eq!(
        lines::result(&turn.result("a")),
        "success effect=executed attempts=1"
    );
}

#[test]
fn a_call_that_goes_on_has_its_whole_time_again() {
    let mut turn = paper(&CALLS[..1]).restore(sent);
    turn.recover();
    turn.later(10).resumed("a", 1);
    assert_eq!(turn.deadline(), Some(10_010));
}

#[test]
fn a_result_that_was_held_over_the_restart_is_taken() {
    let mut turn = expecting();
    assert_eq!(
        turn.answered("a", 1),
        [
            "persist end of a, before announce",
            "announce a: scheduled -> executing",
            "announce a: executing -> success",
            "announce a completed: success effect=executed attempts=1",
            "acknowledge a#1",
        ]
    );
}

#[test]
fn a_call_whose_executor_does_not_come_back_ends_unknown() {
    let mut turn = expecting();
    turn.due();
    assert_eq!(
        lines::result(&turn.result("a")),
        "error tool_outcome_unknown effect=unknown attempts=1"
    );
}

#[test]
fn a_call_that_never_arrived_is_sent_again_after_a_restart() {
    let mut turn = expecting();
    assert_eq!(turn.lost("a", 1, Proof::NeverStarted), ["claim a"]);
    assert_eq!(turn.claimed(&["a"])[1], "dispatch a#2 {} timeout=10000");
}

#[test]
fn arguments_that_fit_no_longer_are_not_sent_again() {
    let mut turn = paper(CALLS).restore(sent);
    let before = turn
        .registry
        .get(&ToolName::trusted("write"))
        .unwrap()
        .definition
        .clone();
    let schema = r#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#;
    turn.register(ToolDefinition {
        parameters: Bytes::from(schema),
        ..before
    });
    turn.recover();
    turn.lost("a", 1, Proof::NeverStarted);
    turn.claimed(&["a"]);
    assert_eq!(
        lines::result(&turn.result("a")),
        "error tool_argument_required because=invalid_call effect=not_executed attempts=1"
    );
}

#[test]
fn a_tool_that_must_be_asked_by_now_is_not_sent_again() {
    let mut turn = paper(CALLS).restore(sent);
    let before = turn
        .registry
        .get(&ToolName::trusted("write"))
        .unwrap()
        .definition
        .clone();
    turn.register(ToolDefinition {
        risk: Some(Risk::Dangerous),
        ..before
    });
    turn.recover();
    turn.lost("a", 1, Proof::NeverStarted);
    turn.claimed(&["a"]);
    assert_eq!(
        lines::result(&turn.result("a")),
        "error approval_unavailable because=approval_unavailable effect=not_executed attempts=1"
    );
}

#[test]
fn a_call_of_a_tool_that_is_gone_may_have_run() {
    let mut turn = paper(CALLS).restore(sent);
    turn.registry.unregister(&ToolName::trusted("write"));
    turn.recover();
    assert_eq!(
        lines::result(&turn.result("a")),
        "error tool_outcome_unknown effect=unknown attempts=1"
    );
}

#[test]
fn a_call_that_is_expected_back_counts_for_max_parallel() {
    let mut turn = paper(CALLS).max_parallel(1).restore(sent);
    assert_eq!(turn.recover().last().unwrap(), "expect a#1@x1");
    let effects = turn.answered("a", 1);
    assert!(effects.contains(&"claim b".to_owned()), "{effects:?}");
}

#[test]
fn a_cancelled_call_that_is_expected_back_is_told_when_it_comes() {
    let mut turn = expecting();
    assert_eq!(
        turn.cancel_call("a", 50),
        ["withdraw a#1 call_cancelled \"enough\" grace=50"]
    );
    turn.due();
    assert_eq!(turn.state("a"), CallState::Cancelled);
}

#[test]
fn a_new_epoch_is_durable_before_anything_of_it_is_told() {
    let turn = paper(CALLS).restore(|_| {});
    let (record, when) = turn.machine.recovery_record(2);
    assert!(matches!(record, Record::TurnRecovered { epoch: 2, .. }));
    assert_eq!(when, Durability::BeforeAnnounce);
}
