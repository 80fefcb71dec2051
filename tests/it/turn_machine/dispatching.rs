//! Stages I and J: who may start, what is re-checked, and what is recorded before anything is sent.
//!
//! Never picks an executor: claims come in as inputs.

use bytes::Bytes;
use callgate::gate::call::CallState;
use callgate::gate::ids::{InstanceId, ToolName};
use callgate::gate::turn::{Claimed, Effect, Input};

use super::drive::{Turn, paper};
use super::lines;

fn started(calls: &[(&str, &str, &str)]) -> Turn {
    let mut turn = paper(calls).lay();
    turn.start();
    turn
}

/// The calls that a list of effects sends out to look for executors.
fn claims(effects: &[String]) -> Vec<&str> {
    effects
        .iter()
        .filter_map(|line| line.strip_prefix("claim "))
        .collect()
}

#[test]
fn the_dispatch_of_a_call_that_must_not_run_twice_is_recorded_before_it_is_sent() {
    let mut turn = started(&[("a", "write", "{ \"n\" : 1.0 }")]);
    assert_eq!(
        turn.claimed(&["a"]),
        [
            "persist dispatch of a#1@x1, before dispatch",
            "dispatch a#1 {\"n\":1.0} timeout=10000",
        ]
    );
}

#[test]
fn the_dispatch_of_a_call_that_may_run_twice_needs_no_record() {
    let mut turn = started(&[("a", "read", ""), ("b", "put", "{}")]);
    assert_eq!(
        turn.claimed(&["a", "b"]),
        [
            "dispatch a#1 {} timeout=10000",
            "dispatch b#1 {} timeout=10000"
        ]
    );
}

#[test]
fn one_record_covers_all_strict_calls_of_a_burst() {
    let mut turn = started(&[
        ("a", "write", "{}"),
        ("b", "read", "{}"),
        ("c", "deaf", "{}"),
    ]);
    assert_eq!(
        turn.claimed(&["a", "b", "c"]),
        [
            "persist dispatch of a#1@x1 c#1@x1, before dispatch",
            "dispatch a#1 {} timeout=10000",
            "dispatch b#1 {} timeout=10000",
            "dispatch c#1 {} timeout=10000",
        ]
    );
}

#[test]
fn what_is_sent_is_what_was_digested() {
    let mut turn = started(&[("a", "read", " {\"n\": 2} ")]);
    let call = turn.index("a");
    let claim = Claimed {
        call,
        instance: InstanceId::trusted("x1"),
        accepts: true,
    };
    let effects = turn.effects(Input::Claimed(vec![claim]));
    let [Effect::Dispatch(dispatch)] = effects.as_slice() else {
        panic!("{effects:?}");
    };
    assert_eq!(dispatch.arguments.text, Bytes::from("{\"n\":2}"));
    assert_eq!(
        dispatch.arguments.digest,
        callgate::gate::result::Digest::of(b"{\"n\":2}")
    );
    assert_eq!(dispatch.execution.as_str(), "batch.0");
}

#[test]
fn the_same_call_twice_in_a_batch_runs_twice() {
    let mut turn = started(&[("a", "write", "{\"n\":1}"), ("b", "write", "{\"n\":1}")]);
    let told = turn.claimed(&["a", "b"]);
    let sent = told.iter().filter(|line| line.starts_with("dispatch "));
    assert_eq!(sent.count(), 2, "{told:?}");
    turn.answered("a", 1);
    assert_eq!(turn.state("b"), CallState::Scheduled);
    turn.answered("b", 1);
    assert_eq!(turn.state("b"), CallState::Success);
}

#[test]
fn a_call_is_sent_once_however_often_it_is_claimed() {
    let mut turn = started(&[("a", "read", "{}")]);
    assert_eq!(turn.claimed(&["a", "a"]), ["dispatch a#1 {} timeout=10000"]);
    assert_eq!(turn.claimed(&["a"]), Vec::<String>::new());
}

#[test]
fn max_parallel_lets_as_many_calls_start_in_call_order() {
    let calls = [
        ("a", "read", "{}"),
        ("b", "read", "{}"),
        ("c", "read", "{}"),
    ];
    let mut turn = paper(&calls).max_parallel(2).lay();
    assert_eq!(claims(&turn.start()), ["a", "b"]);
    turn.claimed(&["a", "b"]);
    assert_eq!(claims(&turn.answered("b", 1)), ["c"]);
}

#[test]
fn a_call_that_ends_in_the_queue_makes_room_for_the_next() {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "read", "{}")])
        .max_parallel(1)
        .lay();
    assert_eq!(claims(&turn.start()), ["a"]);
    assert_eq!(claims(&turn.cancel_call("a", 0)), ["b"]);
}

#[test]
fn a_call_that_was_cancelled_before_its_turn_is_passed_over() {
    let calls = [
        ("a", "read", "{}"),
        ("b", "read", "{}"),
        ("c", "read", "{}"),
    ];
    let mut turn = paper(&calls).max_parallel(1).lay();
    turn.start();
    assert_eq!(claims(&turn.cancel_call("b", 0)), Vec::<&str>::new());
    turn.claimed(&["a"]);
    assert_eq!(claims(&turn.answered("a", 1)), ["c"]);
}

#[test]
fn an_exclusive_call_runs_alone_and_is_not_passed() {
    let calls = [
        ("a", "read", "{}"),
        ("b", "solo", "{}"),
        ("c", "read", "{}"),
        ("d", "read", "{}"),
    ];
    let mut turn = paper(&calls).lay();
    assert_eq!(claims(&turn.start()), ["a"]);
    turn.claimed(&["a"]);
    assert_eq!(claims(&turn.answered("a", 1)), ["b"]);
    turn.claimed(&["b"]);
    assert_eq!(claims(&turn.answered("b", 1)), ["c", "d"]);
}

#[test]
fn two_exclusive_calls_run_one_after_the_other() {
    let mut turn = paper(&[("a", "solo", "{}"), ("b", "solo", "{}")]).lay();
    assert_eq!(claims(&turn.start()), ["a"]);
    turn.claimed(&["a"]);
    assert_eq!(claims(&turn.answered("a", 1)), ["b"]);
}

#[test]
fn a_tool_that_changed_between_look_and_dispatch_is_given_back_and_ends() {
    let mut turn = started(&[("a", "write", "{}"), ("b", "read", "{}")]);
    turn.change_tool("write");
    assert_eq!(
        turn.claimed(&["a", "b"]),
        [
            "announce a: scheduled -> error tool_changed",
            "announce a completed: error tool_changed because=tool_unavailable effect=not_executed attempts=0",
            "give back a",
            "dispatch b#1 {} timeout=10000",
        ]
    );
}

#[test]
fn a_tool_that_was_removed_between_look_and_dispatch_ends_the_same_way() {
    let mut turn = started(&[("a", "read", "{}")]);
    turn.registry.unregister(&ToolName::trusted("read"));
    turn.claimed(&["a"]);
    assert_eq!(
        lines::result(&turn.result("a")),
        "error tool_changed because=tool_unavailable effect=not_executed attempts=0"
    );
}

#[test]
fn a_tool_that_was_registered_anew_unchanged_runs() {
    let mut turn = started(&[("a", "write", "{}")]);
    let tool = turn
        .registry
        .get(&ToolName::trusted("write"))
        .unwrap()
        .definition
        .clone();
    turn.register(tool);
    assert_eq!(turn.claimed(&["a"]).len(), 2);
}

#[test]
fn a_dispatch_that_cannot_be_recorded_runs_nothing() {
    let mut turn = started(&[("a", "write", "{}"), ("b", "read", "{}")]);
    turn.claimed(&["a"]);
    assert_eq!(
        turn.unrecorded(&["a"]),
        [
            "announce a: scheduled -> error store_unavailable",
            "announce a completed: error store_unavailable because=tool_unavailable effect=not_executed attempts=0",
            "give back a",
        ]
    );
    assert_eq!(turn.unrecorded(&["a"]), Vec::<String>::new());
}

#[test]
fn an_executor_that_takes_a_call_begins_it() {
    let mut turn = started(&[("a", "write", "{}")]);
    turn.claimed(&["a"]);
    assert_eq!(
        turn.accepted("a", 1),
        ["announce a: scheduled -> executing"]
    );
    assert_eq!(turn.accepted("a", 1), Vec::<String>::new());
}

#[test]
fn a_queued_call_begins_when_its_handler_does() {
    let mut turn = started(&[("a", "write", "{}")]);
    turn.claimed(&["a"]);
    assert_eq!(turn.queued("a", 1), Vec::<String>::new());
    assert_eq!(turn.state("a"), CallState::Scheduled);
    turn.later(5);
    assert_eq!(
        turn.progressed("a", 1),
        [
            "announce a: scheduled -> executing",
            "announce a progress \"half\""
        ]
    );
    assert_eq!(turn.printed("a", 1), ["announce a output of 5 bytes"]);
    turn.answered("a", 1);
    assert_eq!(turn.result("a").timing.started_at.unwrap().0, 5);
}

#[test]
fn the_time_in_the_queue_is_told() {
    let mut turn = started(&[("a", "read", "{}")]);
    turn.later(30).claimed(&["a"]);
    turn.later(70).answered("a", 1);
    let timing = turn.result("a").timing;
    assert_eq!((timing.queue_ms, timing.finished_at.0), (30, 100));
}
