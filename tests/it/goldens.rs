//! Transcripts of telling turns, compared with what is kept in `tests/golden`.
//!
//! `UPDATE_GOLDENS=1` writes them anew; read the difference before committing it. Never reads a clock:
//! a transcript is the same on every machine.

use std::path::{Path, PathBuf};

use callgate::gate::hooks::{AfterAction, AfterVerdict, BeforeAction, FailureKind, Point};
use callgate::gate::ids::{CallIndex, InstanceId};
use callgate::gate::record::DispatchIntent;
use callgate::gate::turn::{CancelScope, Proof, RejectReason, Reply};

use crate::turn_machine::drive::{Turn, paper, text};
use crate::turn_machine::hooking::{hook, list, rewrites, says};

/// A name, and what happens under it.
type Scenario = (&'static str, fn() -> Turn);

const SCENARIOS: &[Scenario] = &[
    ("three_calls_and_one_result_each", three_calls),
    ("refused_calls_beside_one_that_runs", refused_calls),
    ("a_strict_call_is_recorded_before_it_is_sent", strict_call),
    ("an_executor_is_lost", lost_executor),
    ("a_turn_is_cancelled_while_calls_run", cancelled_turn),
    ("an_exclusive_call_runs_alone", exclusive_call),
    ("a_turn_is_taken_up_after_a_restart", restarted_turn),
    ("a_tool_ends_the_run", stop_flag),
    ("a_turn_runs_out_of_time", turn_timeout),
    ("hooks_rewrite_park_and_deny", hooks_before),
    ("a_hook_aborts_the_run", hook_aborts),
    ("hooks_look_at_results_one_at_a_time", hooks_after),
];

fn three_calls() -> Turn {
    let calls = [
        ("a", "read", "{\"n\": 1}"),
        ("b", "write", "{}"),
        ("c", "put", ""),
    ];
    let mut turn = paper(&calls).lay();
    turn.start();
    turn.claimed(&["a", "b", "c"]);
    turn.later(1).accepted("a", 1);
    turn.accepted("b", 1);
    turn.queued("c", 1);
    turn.later(5).progressed("b", 1);
    turn.later(5).answered("b", 1);
    turn.later(5).printed("c", 1);
    turn.answered("a", 1);
    turn.later(5).answered("c", 1);
    turn
}

fn refused_calls() -> Turn {
    let mut turn = paper(&[
        ("a", "nothing", "{"),
        ("b", "write", "{\"n\":1,\"n\":2}"),
        ("c", "write", "{\"n\":\"1\"}"),
        ("d", "drop", "{}"),
        ("e", "read", "{\"n\":1}"),
        ("f", "read", "{\"n\":"),
    ])
    .cut_off()
    .lay();
    turn.start();
    turn.claimed(&["e"]);
    turn.later(3).answered("e", 1);
    turn
}

fn strict_call() -> Turn {
    let mut turn = paper(&[("a", "write", "{}"), ("b", "write", "{}")]).lay();
    turn.start();
    turn.claimed(&["a"]);
    turn.unrecorded(&["a"]);
    turn.later(10).claimed(&["b"]);
    turn.accepted("b", 1);
    turn.later(10).answered("b", 1);
    turn
}

fn lost_executor() -> Turn {
    let calls = [
        ("a", "write", "{}"),
        ("b", "write", "{}"),
        ("c", "read", "{}"),
    ];
    let mut turn = paper(&calls).lay();
    turn.start();
    turn.claimed(&["a", "b", "c"]);
    turn.accepted("a", 1);
    turn.accepted("c", 1);
    turn.later(20).lost("a", 1, Proof::None);
    turn.lost("b", 1, Proof::NeverStarted);
    turn.lost("c", 1, Proof::None);
    turn.later(20).claimed(&["b", "c"]);
    turn.rejected("b", 2, RejectReason::Busy);
    turn.later(5).answered("c", 1);
    turn.answered("c", 2);
    turn.due();
    turn
}

fn cancelled_turn() -> Turn {
    let calls = [
        ("a", "write", "{}"),
        ("b", "write", "{}"),
        ("c", "deaf", "{}"),
        ("d", "read", "{}"),
        ("e", "read", "{}"),
    ];
    let mut turn = paper(&calls).max_parallel(4).lay();
    turn.start();
    turn.claimed(&["a", "b", "c"]);
    turn.accepted("a", 1);
    turn.accepted("b", 1);
    turn.accepted("c", 1);
    turn.later(30).cancel(CancelScope::Turn, 50);
    turn.later(10).answered("a", 1);
    let stopped = Reply::Cancelled {
        not_executed: false,
        executed: true,
        message: "after row 3".to_owned(),
    };
    turn.later(10).replied("b", 1, stopped);
    turn.due();
    turn.later(10).answered("c", 1);
    turn
}

fn exclusive_call() -> Turn {
    let calls = [
        ("a", "read", "{}"),
        ("b", "solo", "{}"),
        ("c", "read", "{}"),
    ];
    let mut turn = paper(&calls).lay();
    turn.start();
    turn.claimed(&["a"]);
    turn.later(5).answered("a", 1);
    turn.claimed(&["b"]);
    turn.later(5).answered("b", 1);
    turn.claimed(&["c"]);
    turn.later(5).answered("c", 1);
    turn
}

fn restarted_turn() -> Turn {
    let calls = [
        ("a", "write", "{}"),
        ("b", "write", "{}"),
        ("c", "write", "{}"),
        ("d", "read", "{}"),
    ];
    let answered = {
        let mut turn = paper(&calls).lay();
        turn.start();
        turn.claimed(&["a"]);
        turn.answered("a", 1);
        turn.result("a")
    };
    let mut turn = paper(&calls).restore(|stored| {
        for call in [0, 1, 2] {
            stored.dispatched.push(DispatchIntent {
                call: CallIndex(call),
                attempt: 1,
                instance: InstanceId::trusted("x1"),
            });
        }
        stored.results.push((CallIndex(0), answered));
    });
    turn.recover();
    turn.later(40).resumed("b", 1);
    turn.lost("c", 1, Proof::NeverStarted);
    turn.claimed(&["c", "d"]);
    turn.later(5).answered("b", 1);
    turn.answered("d", 1);
    turn.later(5).answered("c", 2);
    turn
}

fn stop_flag() -> Turn {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "write", "{}")]).lay();
    turn.start();
    turn.claimed(&["a", "b"]);
    let mut stop = text("all is done");
    stop.stop_flag = true;
    turn.later(5).replied("a", 1, Reply::Result(stop));
    turn.later(5).answered("b", 1);
    turn
}

fn turn_timeout() -> Turn {
    let mut turn = paper(&[("a", "write", "{}"), ("b", "read", "{}")])
        .timeout_ms(300)
        .lay();
    turn.start();
    turn.claimed(&["a"]);
    turn.accepted("a", 1);
    turn.due();
    turn.due();
    turn
}

fn hooks_before() -> Turn {
    let calls = [
        ("a", "read", "{\"n\":1}"),
        ("b", "write", "{}"),
        ("c", "nothing", "{}"),
    ];
    let mut turn = paper(&calls).lay();
    let points = [Point::BeforeToolCall];
    turn.hooks = list(vec![hook("one", 1, &points), hook("two", 2, &points)]);
    turn.start();
    turn.later(3).hook_says(1, rewrites("{\"n\":2}"));
    turn.later(3).hook_says(2, says(BeforeAction::Allow));
    turn.later(3).hook_says(3, says(BeforeAction::Defer));
    turn.later(3).hook_fails(4, FailureKind::Timeout);
    turn.later(50).cancel(CancelScope::Turn, 0);
    turn
}

fn hook_aborts() -> Turn {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "read", "{}")]).lay();
    turn.hooks = list(vec![hook("one", 1, &[Point::BeforeToolCall])]);
    turn.start();
    turn.later(3).hook_says(1, says(BeforeAction::Proceed));
    turn.later(3).hook_says(2, says(BeforeAction::Abort));
    turn
}

fn hooks_after() -> Turn {
    let mut turn = paper(&[("a", "write", "{}"), ("b", "read", "{}")]).lay();
    let points = [Point::AfterToolCall, Point::TurnFinished];
    turn.hooks = list(vec![hook("one", 1, &points)]);
    turn.start();
    turn.claimed(&["a", "b"]);
    turn.later(5).answered("a", 1);
    turn.answered("b", 1);
    let stops = AfterVerdict {
        action: AfterAction::Stop,
        context: "that will do".to_owned(),
        ..AfterVerdict::default()
    };
    turn.later(3).hook_says_after(1, stops);
    turn.later(3).hook_says_after(2, AfterVerdict::default());
    turn
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn path_of(name: &str) -> PathBuf {
    folder().join(format!("{name}.turn.txt"))
}

#[test]
fn every_turn_goes_as_its_golden_says() {
    let update = std::env::var_os("UPDATE_GOLDENS").is_some();
    let mut different = Vec::new();
    for (name, play) in SCENARIOS {
        let turn = play();
        assert!(turn.machine.has_ended(), "`{name}` does not end");
        if update {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(path_of(name), turn.transcript()).unwrap();
        }
        let kept = std::fs::read_to_string(path_of(name)).unwrap_or_default();
        if kept != turn.transcript() {
            different.push(format!("{name}\n{}", turn.transcript()));
        }
    }
    assert!(
        different.is_empty(),
        "not as in tests/golden (UPDATE_GOLDENS=1 writes anew):\n{}",
        different.join("\n")
    );
}

#[test]
fn every_golden_has_its_scenario() {
    let mut kept: Vec<PathBuf> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let mut known: Vec<PathBuf> = SCENARIOS.iter().map(|(name, _)| path_of(name)).collect();
    kept.sort();
    known.sort();
    assert_eq!(kept, known);
}
