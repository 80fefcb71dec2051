//! What executors answer, and answers that no longer count.
//!
//! Never settles a result itself: how results are cut and renamed is in `results`.

use std::borrow::Cow;

use callgate::gate::call::CallState;
use callgate::gate::refusal::{CallError, ErrorLayer};
use callgate::gate::result::{CallEffect, ToolResult};
use callgate::gate::turn::{RejectReason, Reply};

use super::drive::{Turn, paper, text};
use super::lines;

fn sent(tool: &str) -> Turn {
    let mut turn = paper(&[("a", tool, "{}"), ("z", "read", "{}")]).lay();
    turn.start();
    turn.claimed(&["a"]);
    turn
}

fn failure(code: &'static str) -> Reply {
    Reply::Result(ToolResult {
        is_error: true,
        error: Some(CallError {
            code: Cow::Borrowed(code),
            layer: ErrorLayer::Store,
            message_for_model: "no such record".to_owned(),
            detail: String::new(),
            path: String::new(),
            retryable: true,
            retry_after_ms: Some(7),
        }),
        ..ToolResult::default()
    })
}

#[test]
fn a_strict_result_is_durable_before_it_is_told_and_acknowledged_last() {
    let mut turn = sent("write");
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
fn a_repeatable_result_is_recorded_soon() {
    let mut turn = sent("put");
    turn.accepted("a", 1);
    assert_eq!(
        turn.answered("a", 1),
        [
            "persist end of a, after",
            "announce a: executing -> success",
            "announce a completed: success effect=executed attempts=1",
            "acknowledge a#1",
        ]
    );
}

#[test]
fn the_last_result_ends_the_turn_in_call_order() {
    let mut turn = sent("write");
    turn.claimed(&["z"]);
    turn.answered("z", 1);
    assert_eq!(
        turn.answered("a", 1),
        [
            "persist turn ended completed run=active results=[a z], before announce",
            "announce a: scheduled -> executing",
            "announce a: executing -> success",
            "announce a completed: success effect=executed attempts=1",
            "announce turn completed: completed run=active results=[a z]",
            "acknowledge a#1",
            "finish",
        ]
    );
}

#[test]
fn a_domain_error_keeps_its_code_and_gets_our_layer() {
    let mut turn = sent("write");
    turn.replied("a", 1, failure("record_missing"));
    assert_eq!(
        lines::result(&turn.result("a")),
        "error record_missing effect=executed attempts=1"
    );
    let error = turn.result("a").error.clone().unwrap();
    assert_eq!(error.layer, ErrorLayer::Tool);
    assert_eq!((error.retryable, error.retry_after_ms), (true, Some(7)));
}

#[test]
fn a_reserved_code_of_an_executor_becomes_tool_execution_failed() {
    let mut turn = sent("write");
    turn.replied("a", 1, failure("tool_not_found"));
    assert_eq!(
        lines::result(&turn.result("a")),
        "error tool_execution_failed effect=executed attempts=1"
    );
}

#[test]
fn a_stop_flag_completes_the_run_also_with_an_error() {
    for is_error in [false, true] {
        let mut turn = paper(&[("a", "read", "{}")]).lay();
        turn.start();
        turn.claimed(&["a"]);
        let result = ToolResult {
            is_error,
            stop_flag: true,
            ..text("done")
        };
        let effects = turn.replied("a", 1, Reply::Result(result));
        assert_eq!(
            effects[0],
            "persist turn ended completed run=completed stop=tool results=[a], before announce"
        );
    }
}

#[test]
fn a_cancellation_that_nobody_asked_for_is_an_invalid_result() {
    let mut turn = sent("write");
    let reply = Reply::Cancelled {
        not_executed: true,
        executed: false,
        message: "i stopped".to_owned(),
    };
    turn.replied("a", 1, reply);
    assert_eq!(
        lines::result(&turn.result("a")),
        "error result_invalid effect=executed attempts=1"
    );
    assert_eq!(turn.result("a").error.clone().unwrap().detail, "i stopped");
}

#[test]
fn an_answer_that_holds_nothing_is_an_invalid_result() {
    let mut turn = sent("write");
    turn.replied("a", 1, Reply::Empty);
    assert_eq!(
        lines::result(&turn.result("a")),
        "error result_invalid effect=executed attempts=1"
    );
}

#[test]
fn a_result_that_cannot_be_read_keeps_its_stop_flag() {
    let mut turn = sent("write");
    let result = ToolResult {
        stop_flag: true,
        structured: bytes::Bytes::from_static(b"{NaN"),
        ..ToolResult::default()
    };
    turn.replied("a", 1, Reply::Result(result));
    assert!(turn.result("a").stop_flag);
    assert_eq!(
        lines::result(&turn.result("a")),
        "error result_invalid effect=executed attempts=1"
    );
}

#[test]
fn words_about_another_attempt_change_nothing() {
    let mut turn = sent("write");
    for attempt in [0, 2, u32::MAX] {
        assert_eq!(turn.answered("a", attempt), Vec::<String>::new());
        assert_eq!(turn.accepted("a", attempt), Vec::<String>::new());
        assert_eq!(turn.progressed("a", attempt), Vec::<String>::new());
        assert_eq!(turn.printed("a", attempt), Vec::<String>::new());
        assert_eq!(
            turn.rejected("a", attempt, RejectReason::Busy),
            Vec::<String>::new()
        );
    }
    assert_eq!(turn.state("a"), CallState::Scheduled);
}

#[test]
fn words_about_a_call_that_was_not_sent_change_nothing() {
    let mut turn = paper(&[("a", "write", "{}")]).lay();
    turn.start();
    for attempt in [0, 1] {
        assert_eq!(turn.answered("a", attempt), Vec::<String>::new());
        assert_eq!(turn.accepted("a", attempt), Vec::<String>::new());
    }
}

#[test]
fn a_second_answer_changes_nothing() {
    let mut turn = sent("write");
    turn.answered("a", 1);
    let before = turn.result("a");
    assert_eq!(turn.replied("a", 1, Reply::Empty), Vec::<String>::new());
    assert_eq!(turn.result("a"), before);
}

#[test]
fn words_about_a_call_that_does_not_exist_change_nothing() {
    use callgate::gate::event::Attempt;
    use callgate::gate::ids::CallIndex;
    use callgate::gate::turn::{Cancel, CancelScope, Input, Proof};
    let mut turn = sent("write");
    let of = Attempt {
        call: CallIndex(9),
        attempt: 1,
    };
    let inputs = [
        Input::ExecutorResumed { of },
        Input::ExecutorLost {
            of,
            proof: Proof::None,
        },
        Input::DispatchUnrecorded(vec![CallIndex(9)]),
        Input::CancelRequested(Cancel {
            scope: CancelScope::Call(CallIndex(9)),
            reason: String::new(),
            grace_ms: 0,
        }),
    ];
    for input in inputs {
        assert_eq!(turn.give(input), Vec::<String>::new());
    }
}

#[test]
fn a_tool_that_answered_has_acted_as_far_as_anyone_knows() {
    let mut turn = sent("write");
    turn.answered("a", 1);
    assert_eq!(turn.result("a").effect, CallEffect::Executed);
}
