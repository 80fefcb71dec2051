//! Executors that go away or refuse: what is sent again, and what is said of the rest.
//!
//! Never sends again what must not run twice, unless it surely never began.

use callgate::gate::call::CallState;
use callgate::gate::result::CallEffect;
use callgate::gate::turn::{CancelScope, Proof, RejectReason};

use super::drive::{Turn, paper};
use super::lines;

/// A call that was sent, beside one that keeps the turn open.
fn sent(tool: &str, attempts_max: u32) -> Turn {
    let calls = [("a", tool, "{}"), ("z", "read", "{}")];
    let mut turn = paper(&calls).attempts_max(attempts_max).lay();
    turn.start();
    turn.claimed(&["a"]);
    turn
}

#[test]
fn a_strict_call_that_may_have_begun_ends_unknown() {
    let mut turn = sent("write", 3);
    assert_eq!(
        turn.lost("a", 1, Proof::None),
        [
            "persist end of a, before announce",
            "announce a: scheduled -> error tool_outcome_unknown",
            "announce a completed: error tool_outcome_unknown effect=unknown attempts=1",
        ]
    );
}

#[test]
fn a_strict_call_that_surely_never_began_is_sent_again() {
    let mut turn = sent("write", 3);
    assert_eq!(turn.lost("a", 1, Proof::NeverStarted), ["claim a"]);
    assert_eq!(
        turn.claimed(&["a"]),
        [
            "persist dispatch of a#2@x1, before dispatch",
            "dispatch a#2 {} timeout=10000",
        ]
    );
}

#[test]
fn a_handler_that_was_said_to_run_did_begin_whatever_is_said_later() {
    let mut turn = sent("write", 3);
    turn.accepted("a", 1);
    turn.lost("a", 1, Proof::NeverStarted);
    assert_eq!(
        lines::result(&turn.result("a")),
        "error tool_outcome_unknown effect=unknown attempts=1"
    );
}

#[test]
fn a_repeatable_call_is_sent_again_without_proof() {
    for tool in ["read", "put"] {
        let mut turn = sent(tool, 3);
        turn.accepted("a", 1);
        assert_eq!(turn.lost("a", 1, Proof::None), ["claim a"], "{tool}");
        assert_eq!(turn.claimed(&["a"]), ["dispatch a#2 {} timeout=10000"]);
        turn.answered("a", 2);
        assert_eq!(
            lines::result(&turn.result("a")),
            "success effect=executed attempts=2"
        );
    }
}

#[test]
fn no_call_is_sent_more_often_than_attempts_max() {
    let mut turn = sent("read", 2);
    turn.lost("a", 1, Proof::None);
    turn.claimed(&["a"]);
    turn.lost("a", 2, Proof::None);
    assert_eq!(
        lines::result(&turn.result("a")),
        "error tool_outcome_unknown effect=unknown attempts=2"
    );
}

#[test]
fn a_call_that_never_began_in_any_attempt_had_no_executor() {
    let mut turn = sent("write", 2);
    turn.lost("a", 1, Proof::NeverStarted);
    turn.claimed(&["a"]);
    turn.lost("a", 2, Proof::NeverStarted);
    assert_eq!(
        lines::result(&turn.result("a")),
        "error tool_unavailable because=tool_unavailable effect=not_executed attempts=2"
    );
}

#[test]
fn words_of_an_attempt_that_was_given_up_do_not_count() {
    let mut turn = sent("read", 3);
    turn.lost("a", 1, Proof::None);
    assert_eq!(turn.answered("a", 1), Vec::<String>::new());
    turn.claimed(&["a"]);
    assert_eq!(turn.answered("a", 1), Vec::<String>::new());
    assert_eq!(turn.state("a"), CallState::Scheduled);
}

#[test]
fn a_call_that_may_have_run_before_is_never_called_not_executed() {
    // The first attempt may have acted; whatever ends the second, nobody knows.
    let ends: [fn(&mut Turn) -> Vec<String>; 5] = [
        |turn| turn.due(),
        |turn| turn.cancel_call("a", 0),
        |turn| turn.cancel(CancelScope::Turn, 0),
        |turn| {
            turn.change_tool("put");
            turn.claimed(&["a"])
        },
        |turn| {
            turn.claimed(&["a"]);
            turn.rejected("a", 2, RejectReason::TooLarge)
        },
    ];
    for end in ends {
        let mut turn = sent("put", 3);
        turn.lost("a", 1, Proof::None);
        end(&mut turn);
        let result = turn.result("a");
        assert_eq!(
            (result.effect, result.not_executed),
            (CallEffect::Unknown, None),
            "{}",
            turn.transcript()
        );
    }
}

#[test]
fn a_call_that_surely_never_began_may_still_end_not_executed() {
    let mut turn = sent("write", 3);
    turn.lost("a", 1, Proof::NeverStarted);
    turn.cancel_call("a", 0);
    assert_eq!(
        lines::result(&turn.result("a")),
        "cancelled tool_cancelled because=cancelled_before_start effect=not_executed attempts=1"
    );
}

#[test]
fn a_busy_executor_makes_way_for_another() {
    let mut turn = sent("write", 3);
    assert_eq!(turn.rejected("a", 1, RejectReason::Busy), ["claim a"]);
}

#[test]
fn an_executor_that_does_not_take_a_call_says_why() {
    let refused = |reason| {
        let mut turn = sent("write", 3);
        turn.rejected("a", 1, reason);
        lines::result(&turn.result("a"))
    };
    let rest = "because=tool_unavailable effect=not_executed attempts=1";
    let code = |code| format!("error {code} {rest}");
    assert_eq!(refused(RejectReason::UnknownTool), code("tool_changed"));
    assert_eq!(
        refused(RejectReason::BadArguments),
        code("executor_protocol_error")
    );
    assert_eq!(refused(RejectReason::TooLarge), code("limit_exceeded"));
}

#[test]
fn an_executor_that_is_gone_while_a_call_stops_ends_it() {
    let mut turn = sent("write", 3);
    turn.cancel_call("a", 50);
    turn.lost("a", 1, Proof::None);
    assert_eq!(
        lines::result(&turn.result("a")),
        "cancelled tool_cancelled effect=unknown attempts=1"
    );
    let mut turn = sent("read", 3);
    turn.cancel_call("a", 50);
    turn.lost("a", 1, Proof::NeverStarted);
    assert_eq!(
        lines::result(&turn.result("a")),
        "cancelled tool_cancelled because=cancelled_before_start effect=not_executed attempts=1"
    );
}
