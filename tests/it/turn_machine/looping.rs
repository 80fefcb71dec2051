//! Loops: what a turn does that makes its run one, and what counts.
//!
//! Which calls are the same, and which repetitions a loop, is the vectors' business.

use callgate::gate::event::RunState;
use callgate::gate::loop_detector::{
    Diagnosis, DiagnosisSettings, LoopCheck, LoopSettings, LoopWindow,
};
use callgate::gate::permission::{Approver, Verdict};
use callgate::gate::result::ToolResult;
use callgate::gate::turn::{CancelScope, Input, Reply};

use super::drive::{Paper, Turn, paper, text};
use super::judging::rules;

type Calls<'a> = &'a [(&'a str, &'a str, &'a str)];

const READ: Calls = &[("a", "read", "{\"n\":1}")];

/// A turn of a run that called this.
fn turn(window: &LoopWindow, paper: Paper, change: impl FnOnce(&mut Turn)) -> Turn {
    let mut turn = paper.lay();
    turn.window = window.clone();
    change(&mut turn);
    turn
}

/// Begins turns with these calls, the first with number 1. Gives the window that they leave.
fn begun(times: u32, calls: Calls, change: impl Fn(&mut Turn)) -> LoopWindow {
    let mut window = LoopWindow::default();
    for number in 1..=times {
        let mut turn = turn(&window, paper(calls).round(number), &change);
        turn.start();
        assert!(!turn.transcript().contains("loop detected"), "{number}");
        window = turn.window;
    }
    window
}

/// The turn after them.
fn fifth(calls: Calls, change: impl Fn(&mut Turn)) -> Turn {
    let window = begun(4, calls, &change);
    let mut turn = turn(&window, paper(calls).round(5), &change);
    turn.start();
    turn
}

fn is_loop(turn: &Turn) -> bool {
    turn.transcript().contains("loop detected")
}

#[test]
fn the_fifth_identical_call_is_recorded_told_and_nothing_else() {
    let window = begun(4, READ, |_| {});
    let mut turn = turn(&window, paper(READ).round(5), |_| {});
    assert_eq!(
        turn.start(),
        [
            "persist turn accepted, after",
            "persist turn ended loop_detected run=loop_detected stop=run_ended results=[a], \
             before announce",
            "announce accepted round 5: a=read",
            "announce loop detected: tool_signature \"the same call came 5 times in a row\" \
             period=1 repetitions=5 [a]",
            "announce a: validating -> error loop_detected",
            "announce a completed: error loop_detected because=loop effect=not_executed attempts=0",
            "announce turn completed: loop_detected run=loop_detected stop=run_ended results=[a]",
            "finish",
        ]
    );
    assert_eq!(turn.state("a").as_str(), "error");
}

#[test]
fn nobody_is_asked_about_a_loop() {
    let drop = &[("a", "drop", "{}")];
    let asks = |turn: &mut Turn| turn.approver = Approver::Expected;
    let turn = fifth(drop, asks);
    assert!(is_loop(&turn) && !turn.transcript().contains("approval required"));
}

#[test]
fn every_call_of_the_turn_ends_with_the_loop() {
    let window = begun(4, READ, |_| {});
    let calls = [
        ("a", "read", "{\"n\":1}"),
        ("b", "write", "{}"),
        ("c", "nothing", "{"),
        ("d", "read", "{\"n\":1.0}"),
    ];
    let mut turn = turn(&window, paper(&calls).round(5), |_| {});
    turn.start();
    for id in ["a", "b", "c", "d"] {
        let error = turn.result(id).error.clone().unwrap();
        assert_eq!(error.code, "loop_detected", "{id}");
        assert!(!error.retryable);
    }
    assert!(
        turn.transcript().contains("repetitions=5 [a d]"),
        "{}",
        turn.transcript()
    );
}

#[test]
fn invalid_calls_count() {
    for calls in [
        &[("a", "nothing", "{}")],
        &[("a", "nothing", "{")],
        &[("a", "read", "{\"n\":\"x\"}")],
        &[("a", "read", "{\"n\":1")],
    ] {
        assert!(is_loop(&fifth(calls, |_| {})), "{calls:?}");
    }
}

#[test]
fn cut_off_calls_count() {
    let calls = [("a", "read", "{\"n\":")];
    let mut window = LoopWindow::default();
    for number in 1..=5 {
        let mut turn = turn(&window, paper(&calls).cut_off().round(number), |_| {});
        turn.start();
        assert_eq!(is_loop(&turn), number == 5);
        window = turn.window;
    }
}

#[test]
fn denied_calls_count() {
    let turn = fifth(READ, |turn| {
        turn.permissions = rules(&[(Verdict::Deny, "read")]);
    });
    assert!(is_loop(&turn));
    let unanswered = fifth(&[("a", "drop", "{}")], |_| {});
    assert!(is_loop(&unanswered));
}

#[test]
fn calls_that_a_rule_lets_run_unasked_count() {
    let turn = fifth(&[("a", "drop", "{}")], |turn| {
        turn.permissions = rules(&[(Verdict::Allow, "drop")]);
    });
    assert!(is_loop(&turn));
}

#[test]
fn a_turn_that_is_cancelled_before_it_begins_counts_and_ends_cancelled() {
    let window = begun(3, READ, |_| {});
    let mut early = turn(&window, paper(READ).round(4), |_| {});
    early.cancel(CancelScope::Turn, 0);
    early.start();
    assert!(early.transcript().contains("turn completed: cancelled"));
    let mut next = turn(&early.window, paper(READ).round(5), |_| {});
    next.start();
    assert!(is_loop(&next));

    let window = begun(4, READ, |_| {});
    let mut fifth = turn(&window, paper(READ).round(5), |_| {});
    fifth.cancel(CancelScope::Turn, 0);
    fifth.start();
    assert!(!is_loop(&fifth));
}

#[test]
fn with_detection_off_nothing_is_kept() {
    let off = |turn: &mut Turn| turn.settings.loops = LoopSettings::off();
    let turn = fifth(READ, off);
    assert!(!is_loop(&turn));
    assert_eq!(turn.window, LoopWindow::default());
}

#[test]
fn a_tool_may_be_exempt() {
    let exempt = |turn: &mut Turn| {
        let mut definition = super::tools::definition("poll");
        definition.loop_exempt = true;
        turn.register(definition);
    };
    assert!(!is_loop(&fifth(&[("a", "poll", "{}")], exempt)));
}

#[test]
fn a_turn_taken_up_after_a_restart_is_not_judged_again_and_counts_once() {
    let window = begun(4, READ, |_| {});
    let mut turn = paper(READ).round(5).restore(|_| {});
    turn.window = window.clone();
    turn.recover();
    assert!(!is_loop(&turn));
    let mut once_more = paper(READ).round(4).restore(|_| {});
    once_more.window = window.clone();
    once_more.recover();
    assert_eq!(once_more.window, window);
}

fn after_results(turn: &mut Turn) {
    turn.settings.loops.check = LoopCheck::AfterResults;
}

#[test]
fn after_results_the_fifth_call_still_runs() {
    let mut turn = fifth(READ, after_results);
    turn.claimed(&["a"]);
    assert!(!is_loop(&turn));
    let told = turn.answered("a", 1);
    let ended = "turn ended loop_detected run=loop_detected stop=run_ended results=[a]";
    assert_eq!(told[0], format!("persist {ended}, before announce"));
    assert_eq!(
        told[3],
        "announce loop detected: tool_signature \"the same call came 5 times in a row\" \
         period=1 repetitions=5 [a]",
        "{told:?}"
    );
    assert!(turn.result("a").error.is_none());
}

#[test]
fn after_results_a_run_that_a_tool_ends_is_no_loop() {
    let mut turn = fifth(READ, after_results);
    turn.claimed(&["a"]);
    let done = ToolResult {
        stop_flag: true,
        ..text("done")
    };
    turn.replied("a", 1, Reply::Result(done));
    assert!(!is_loop(&turn));
    assert!(
        turn.transcript()
            .contains("turn completed: completed run=completed stop=tool")
    );
}

#[test]
fn results_that_differ_are_no_repetition_where_they_count() {
    let play = |word: fn(u32) -> String| {
        let mut window = LoopWindow::default();
        for number in 1..=5 {
            let mut turn = turn(&window, paper(READ).round(number), |turn| {
                turn.settings.loops.compare_results = true;
            });
            turn.start();
            if is_loop(&turn) {
                return Some(number);
            }
            turn.claimed(&["a"]);
            turn.replied("a", 1, Reply::Result(text(&word(number))));
            window = turn.window;
        }
        None
    };
    assert_eq!(play(|number| number.to_string()), None);
    assert_eq!(play(|_| "busy".to_owned()), Some(5));
    // Of the fifth nothing is known yet, and the four before must be the same.
    assert_eq!(play(|number| number.min(2).to_string()), None);
}

#[test]
fn a_run_that_has_ended_stays_as_it_is() {
    let window = begun(4, READ, |_| {});
    let mut turn = turn(&window, paper(READ).round(5), |_| {});
    let ended = turn.run_ended();
    assert_eq!(ended.state, RunState::Completed);
    turn.give(Input::RunEnded(ended));
    turn.start();
    assert!(!is_loop(&turn));
}

const DIAGNOSIS: DiagnosisSettings = DiagnosisSettings {
    has_endpoint: true,
    after_rounds: 30,
    every_rounds: 10,
    threshold: 0.8,
    timeout_ms: 400,
};

fn diagnosed(round: u32, last: u32, calls: Calls) -> Turn {
    let mut window = LoopWindow::default();
    window.note_diagnosis(last);
    let mut turn = turn(&window, paper(calls).round(round), |turn| {
        turn.settings.loops.diagnosis = DIAGNOSIS;
    });
    turn.start();
    turn
}

fn is_asked(turn: &Turn) -> bool {
    turn.transcript().contains("ask diagnosis within 400")
}

#[test]
fn a_diagnosis_is_due_after_thirty_rounds_and_then_every_ten_without_calls() {
    assert!(!is_asked(&diagnosed(29, 0, &[])));
    assert!(is_asked(&diagnosed(30, 0, &[])));
    assert!(is_asked(&diagnosed(37, 0, &[])));
    assert!(!is_asked(&diagnosed(46, 37, &[])));
    assert!(is_asked(&diagnosed(47, 37, &[])));
    assert!(!is_asked(&diagnosed(47, 37, READ)));
}

fn said(is_loop: bool, confidence: f64) -> Input {
    Input::Diagnosed(Some(Box::new(Diagnosis {
        is_loop,
        reason: "it asks for the same file".to_owned(),
        confidence,
    })))
}

#[test]
fn a_diagnosis_that_is_sure_ends_the_run() {
    let mut turn = diagnosed(30, 0, &[]);
    assert!(!turn.machine.has_ended());
    assert_eq!(
        turn.give(said(true, 0.81)),
        [
            "persist turn ended loop_detected run=loop_detected stop=run_ended results=[], \
             before announce",
            "announce loop detected: llm \"it asks for the same file\" period=0 repetitions=0 []",
            "announce turn completed: loop_detected run=loop_detected stop=run_ended results=[]",
            "finish",
        ]
    );
}

#[test]
fn any_other_diagnosis_is_no_loop() {
    let others = [
        said(true, 0.8),
        said(true, f64::NAN),
        said(false, 0.99),
        Input::Diagnosed(None),
    ];
    for answer in others {
        let mut turn = diagnosed(30, 0, &[]);
        turn.give(answer);
        assert!(turn.machine.has_ended() && !is_loop(&turn));
        assert!(
            turn.transcript()
                .contains("turn completed: completed run=active")
        );
    }
}

#[test]
fn a_diagnosis_that_does_not_come_is_no_loop_and_neither_is_a_late_one() {
    let mut turn = diagnosed(30, 0, &[]);
    assert_eq!(turn.deadline(), Some(400));
    turn.due();
    assert!(turn.machine.has_ended() && !is_loop(&turn));
    assert_eq!(turn.give(said(true, 0.9)), [] as [&str; 0]);
}

#[test]
fn whoever_cancels_waits_for_no_diagnosis() {
    let mut turn = diagnosed(30, 0, &[]);
    turn.cancel(CancelScope::Turn, 0);
    assert!(turn.machine.has_ended());
    assert!(
        turn.transcript()
            .contains("turn completed: cancelled run=cancelled")
    );
}

#[test]
fn what_waits_in_a_run_that_has_ended_does_not_wait_again_after_a_restart() {
    let drop = [("a", "drop", "{}")];
    let mut before = paper(&drop).lay();
    before.approver = Approver::Expected;
    before.start();
    let approval = before.approval("a").clone();
    let mut turn = paper(&drop).restore(|stored| stored.approvals.push(approval));
    turn.approver = Approver::Expected;
    let ended = turn.run_ended();
    turn.give(Input::RunEnded(ended));
    turn.recover();
    assert!(turn.machine.has_ended());
    assert_eq!(turn.state("a").as_str(), "cancelled");
}

#[test]
fn in_a_run_that_has_ended_nobody_is_asked() {
    let calls = [("a", "drop", "{}"), ("b", "read", "{}")];
    let mut turn = paper(&calls).lay();
    turn.approver = Approver::Expected;
    let ended = turn.run_ended();
    turn.give(Input::RunEnded(ended));
    turn.start();
    assert!(turn.machine.has_ended());
    assert!(!turn.transcript().contains("approval required"));
    assert_eq!(
        turn.result("b").error.clone().unwrap().code,
        "tool_batch_rejected"
    );
}
