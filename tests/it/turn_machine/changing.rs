//! A world that changes beside a turn: its run ends, its tools change.
//!
//! Never cancels: a run that ended lets its turns go on.

use callgate::gate::call::CallState;
use callgate::gate::ids::ToolName;
use callgate::gate::turn::{CancelScope, Input, Proof};

use super::drive::paper;
use super::lines;

const CALLS: &[(&str, &str, &str)] = &[("a", "write", "{}"), ("b", "put", "{}")];

#[test]
fn a_call_that_waits_for_a_tool_that_changed_does_not_wait_in_vain() {
    let mut turn = paper(CALLS).lay();
    turn.start();
    turn.change_tool("write");
    assert_eq!(
        turn.give(Input::ToolsChanged),
        [
            "announce a: scheduled -> error tool_changed",
            "announce a completed: error tool_changed because=tool_unavailable effect=not_executed attempts=0",
            "give back a",
        ]
    );
}

#[test]
fn a_call_that_waits_for_its_turn_ends_without_a_claim_to_give_back() {
    let mut turn = paper(CALLS).max_parallel(1).lay();
    turn.start();
    turn.registry.unregister(&ToolName::trusted("put"));
    assert_eq!(
        turn.give(Input::ToolsChanged),
        [
            "announce b: scheduled -> error tool_changed",
            "announce b completed: error tool_changed because=tool_unavailable effect=not_executed attempts=0",
        ]
    );
}

#[test]
fn a_call_that_was_sent_goes_on_though_its_tool_changed() {
    let mut turn = paper(CALLS).lay();
    turn.start();
    turn.claimed(&["a"]);
    turn.change_tool("write");
    assert_eq!(turn.give(Input::ToolsChanged), Vec::<String>::new());
    turn.answered("a", 1);
    assert_eq!(turn.state("a"), CallState::Success);
}

#[test]
fn tools_that_change_elsewhere_change_nothing_here() {
    let mut turn = paper(CALLS).lay();
    turn.start();
    turn.change_tool("read");
    assert_eq!(turn.give(Input::ToolsChanged), Vec::<String>::new());
}

#[test]
fn a_lost_call_whose_tool_changed_is_not_sent_again() {
    let mut turn = paper(CALLS).lay();
    turn.start();
    turn.claimed(&["a", "b"]);
    turn.change_tool("write");
    turn.change_tool("put");
    turn.lost("a", 1, Proof::NeverStarted);
    assert_eq!(
        lines::result(&turn.result("a")),
        "error tool_changed because=tool_unavailable effect=not_executed attempts=1"
    );
    // Its first attempt may have acted.
    turn.lost("b", 1, Proof::None);
    assert_eq!(
        lines::result(&turn.result("b")),
        "error tool_changed effect=unknown attempts=1"
    );
}

#[test]
fn a_run_that_ended_lets_its_turn_go_on_and_stays_ended() {
    let mut turn = paper(&CALLS[..1]).lay();
    turn.start();
    turn.claimed(&["a"]);
    let run = turn.run_ended();
    assert_eq!(turn.give(Input::RunEnded(run)), Vec::<String>::new());
    assert_eq!(
        turn.answered("a", 1)[0],
        "persist turn ended completed run=completed stop=run_ended results=[a], before announce"
    );
}

#[test]
fn a_turn_that_is_cancelled_after_its_run_ended_leaves_the_run_as_it_was() {
    let mut turn = paper(&CALLS[..1]).lay();
    turn.start();
    let run = turn.run_ended();
    turn.give(Input::RunEnded(run));
    assert_eq!(
        turn.cancel(CancelScope::Turn, 0)[0],
        "persist turn ended cancelled run=completed stop=run_ended results=[a], before announce"
    );
}
