//! Cancelling a call, a turn or a run, at every stage of a call.
//!
//! Never takes a result away that came in time.

use callgate::gate::call::CallState;
use callgate::gate::event::{Event, RunState, TurnOutcome};
use callgate::gate::turn::{Cancel, CancelScope, Effect, Input, Reply};

use super::drive::{Turn, paper, text};
use super::lines;

fn started() -> Turn {
    let mut turn = paper(&[("a", "write", "{}"), ("z", "read", "{}")]).lay();
    turn.start();
    turn
}

fn running() -> Turn {
    let mut turn = started();
    turn.claimed(&["a"]);
    turn.accepted("a", 1);
    turn
}

fn cancelled(not_executed: bool, executed: bool) -> Reply {
    Reply::Cancelled {
        not_executed,
        executed,
        message: "stopped at row 3".to_owned(),
    }
}

#[test]
fn a_call_that_waits_for_an_executor_ends_at_once() {
    let mut turn = started();
    assert_eq!(
        turn.cancel_call("a", 50),
        [
            "announce a: scheduled -> cancelled tool_cancelled",
            "announce a completed: cancelled tool_cancelled because=cancelled_before_start effect=not_executed attempts=0",
            "give back a",
        ]
    );
}

#[test]
fn a_call_that_waits_for_its_turn_has_no_claim_to_give_back() {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "read", "{}")])
        .max_parallel(1)
        .lay();
    turn.start();
    assert_eq!(
        turn.cancel_call("b", 50),
        [
            "announce b: scheduled -> cancelled tool_cancelled",
            "announce b completed: cancelled tool_cancelled because=cancelled_before_start effect=not_executed attempts=0",
        ]
    );
}

#[test]
fn a_call_that_was_sent_is_told_and_has_its_grace() {
    let mut turn = running();
    assert_eq!(
        turn.later(5).cancel_call("a", 50),
        ["withdraw a#1 call_cancelled \"enough\" grace=50"]
    );
    assert_eq!(turn.deadline(), Some(55));
    assert_eq!(turn.state("a"), CallState::Executing);
}

#[test]
fn a_tool_that_does_not_listen_is_not_told() {
    let mut turn = paper(&[("a", "deaf", "{}")]).lay();
    turn.start();
    turn.claimed(&["a"]);
    assert_eq!(
        turn.cancel_call("a", 50),
        ["withdraw a#1 call_cancelled \"enough\" grace=50 untold"]
    );
}

#[test]
fn without_grace_a_call_ends_at_once_and_its_answer_is_forgotten() {
    let mut turn = running();
    assert_eq!(
        turn.cancel_call("a", 0),
        [
            "persist end of a, before announce",
            "announce a: executing -> cancelled tool_cancelled",
            "announce a completed: cancelled tool_cancelled effect=unknown attempts=1",
            "withdraw a#1 call_cancelled \"enough\" grace=0 forget",
        ]
    );
    assert_eq!(turn.answered("a", 1), Vec::<String>::new());
}

#[test]
fn a_result_inside_the_grace_is_kept() {
    let mut turn = running();
    turn.cancel_call("a", 50);
    turn.later(49).answered("a", 1);
    assert_eq!(
        lines::result(&turn.result("a")),
        "success effect=executed attempts=1"
    );
}

#[test]
fn a_call_that_stops_says_whether_it_had_acted() {
    let told = |not_executed, executed| {
        let mut turn = running();
        turn.cancel_call("a", 50);
        turn.replied("a", 1, cancelled(not_executed, executed));
        let detail = turn.result("a").error.clone().unwrap().detail;
        assert_eq!(detail, "stopped at row 3");
        lines::result(&turn.result("a"))
    };
    assert_eq!(
        told(true, false),
        "cancelled tool_cancelled effect=not_executed attempts=1"
    );
    assert_eq!(
        told(false, true),
        "cancelled tool_cancelled effect=executed attempts=1"
    );
    assert_eq!(
        told(false, false),
        "cancelled tool_cancelled effect=unknown attempts=1"
    );
}

#[test]
fn a_call_that_says_nothing_in_its_grace_ends_unknown() {
    let mut turn = running();
    turn.cancel_call("a", 50);
    assert_eq!(
        turn.due(),
        [
            "persist end of a, before announce",
            "announce a: executing -> cancelled tool_cancelled",
            "announce a completed: cancelled tool_cancelled effect=unknown attempts=1",
            "withdraw a#1 call_cancelled \"enough\" grace=0 forget",
        ]
    );
}

#[test]
fn a_call_that_is_out_of_time_while_it_stops_is_cancelled_not_timed_out() {
    let mut turn = running();
    turn.cancel_call("a", 1_000_000);
    turn.later(10_000).give(Input::DeadlineReached);
    assert_eq!(
        lines::result(&turn.result("a")),
        "cancelled tool_cancelled effect=unknown attempts=1"
    );
}

#[test]
fn an_acceptance_that_is_due_does_not_shorten_the_grace() {
    let mut turn = started();
    turn.claimed(&["a"]);
    turn.cancel_call("a", 300);
    // Its acceptance would be due at 100.
    turn.later(200).give(Input::DeadlineReached);
    assert_eq!(turn.state("a"), CallState::Scheduled);
    turn.answered("a", 1);
    assert_eq!(
        lines::result(&turn.result("a")),
        "success effect=executed attempts=1"
    );
}

#[test]
fn a_second_cancellation_without_grace_does_not_wait_for_the_first() {
    let mut turn = running();
    turn.cancel_call("a", 50);
    turn.cancel_call("a", 0);
    assert_eq!(turn.state("a"), CallState::Cancelled);
}

#[test]
fn cancelling_a_call_leaves_the_run_active() {
    let mut turn = paper(&[("a", "read", "{}")]).lay();
    turn.start();
    assert_eq!(
        turn.cancel_call("a", 0)[0],
        "persist turn ended completed run=active results=[a], after"
    );
}

#[test]
fn cancelling_a_call_that_has_ended_changes_nothing() {
    let mut turn = running();
    turn.answered("a", 1);
    assert_eq!(turn.cancel_call("a", 0), Vec::<String>::new());
}

#[test]
fn cancelling_a_turn_ends_what_was_not_sent_and_tells_the_rest() {
    let mut turn = running();
    assert_eq!(
        turn.cancel(CancelScope::Turn, 50),
        [
            "persist turn cancelling \"enough\" run=cancelled, before announce",
            "announce z: scheduled -> cancelled tool_cancelled",
            "announce z completed: cancelled tool_cancelled because=cancelled_before_start effect=not_executed attempts=0",
            "withdraw a#1 turn_cancelled \"enough\" grace=50",
            "give back z",
        ]
    );
    assert_eq!(
        turn.answered("a", 1),
        [
            "persist turn ended cancelled run=cancelled stop=run_ended results=[a z], before announce",
            "announce a: executing -> success",
            "announce a completed: success effect=executed attempts=1",
            "announce turn completed: cancelled run=cancelled stop=run_ended results=[a z]",
            "acknowledge a#1",
            "finish",
        ]
    );
}

#[test]
fn cancelling_a_turn_with_nothing_out_ends_it_in_that_step() {
    let mut turn = started();
    let effects = turn.cancel(CancelScope::Turn, 50);
    assert_eq!(
        effects[0],
        "persist turn ended cancelled run=cancelled stop=run_ended results=[a z], before announce"
    );
    assert_eq!(effects.last().unwrap(), "finish");
}

#[test]
fn nothing_of_a_cancelled_turn_starts_any_more() {
    let calls = [
        ("a", "write", "{}"),
        ("b", "read", "{}"),
        ("c", "read", "{}"),
    ];
    let mut turn = paper(&calls).max_parallel(1).lay();
    turn.start();
    turn.claimed(&["a"]);
    turn.cancel(CancelScope::Turn, 50);
    assert_eq!(turn.claimed(&["b", "c"]), Vec::<String>::new());
    let effects = turn.answered("a", 1);
    assert!(
        !effects.iter().any(|line| line.starts_with("claim ")),
        "{effects:?}"
    );
    assert!(turn.machine.has_ended());
}

#[test]
fn a_lost_call_of_a_cancelled_turn_is_not_sent_again() {
    let mut turn = paper(&[("a", "read", "{}")]).lay();
    turn.start();
    turn.claimed(&["a"]);
    turn.cancel(CancelScope::Turn, 50);
    turn.lost("a", 1, callgate::gate::turn::Proof::None);
    assert!(turn.machine.has_ended());
}

#[test]
fn a_stop_flag_in_the_grace_leaves_the_run_cancelled() {
    let mut turn = paper(&[("a", "write", "{}")]).lay();
    turn.start();
    turn.claimed(&["a"]);
    turn.cancel(CancelScope::Run, 50);
    let mut result = text("done");
    result.stop_flag = true;
    assert_eq!(
        turn.replied("a", 1, Reply::Result(result))[0],
        "persist turn ended cancelled run=cancelled stop=run_ended results=[a], before announce"
    );
}

#[test]
fn executors_learn_whether_the_turn_or_the_run_ended() {
    let mut turn = running();
    let effects = turn.cancel(CancelScope::Run, 50);
    assert!(
        effects.contains(&"withdraw a#1 run_ended \"enough\" grace=50".to_owned()),
        "{effects:?}"
    );
}

#[test]
fn a_second_cancellation_only_shortens_the_wait() {
    let mut turn = running();
    turn.cancel(CancelScope::Turn, 50);
    assert_eq!(turn.cancel(CancelScope::Run, 60), Vec::<String>::new());
    let told = turn.cancel(CancelScope::Run, 40);
    assert_eq!(told, ["withdraw a#1 run_ended \"enough\" grace=40"]);
    let ended = turn.cancel(CancelScope::Run, 0);
    assert!(ended.contains(&"finish".to_owned()), "{ended:?}");
}

#[test]
fn a_cancellation_without_words_gets_a_sentence() {
    let sentence = |scope| {
        let mut turn = paper(&[("a", "read", "{}")]).lay();
        turn.start();
        let cancel = Cancel {
            scope,
            reason: String::new(),
            grace_ms: 0,
        };
        turn.give(Input::CancelRequested(cancel));
        turn.result("a").error.clone().unwrap().message_for_model
    };
    let call = callgate::gate::ids::CallIndex(0);
    assert_eq!(sentence(CancelScope::Call(call)), "the call was cancelled");
    assert_eq!(sentence(CancelScope::Turn), "the turn was cancelled");
    assert_eq!(sentence(CancelScope::Run), "the run was cancelled");
}

#[test]
fn a_cancelled_turn_says_why_and_ends_its_run() {
    let mut turn = started();
    let cancel = Cancel {
        scope: CancelScope::Turn,
        reason: "enough".to_owned(),
        grace_ms: 0,
    };
    let effects = turn.later(9).effects(Input::CancelRequested(cancel));
    let completed = effects.iter().find_map(|effect| {
        let Effect::Announce(Event::TurnCompleted(completed)) = effect else {
            return None;
        };
        Some(completed)
    });
    let completed = completed.unwrap();
    assert_eq!(completed.outcome, TurnOutcome::Cancelled);
    assert_eq!(completed.error.as_ref().unwrap().code, "tool_cancelled");
    assert_eq!(
        completed.error.as_ref().unwrap().message_for_model,
        "enough"
    );
    let run = &completed.run;
    assert_eq!(
        (run.state, run.end_code.as_str()),
        (RunState::Cancelled, "tool_cancelled")
    );
    assert_eq!(run.ended_at.unwrap().0, 9);
    // One closing result per call, in call order.
    let ids: Vec<_> = completed
        .results
        .iter()
        .map(|result| result.call_id.as_str())
        .collect();
    assert_eq!(ids, ["a", "z"]);
}
