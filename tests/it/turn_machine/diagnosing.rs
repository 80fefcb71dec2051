//! Hooks that are told of loops, and those that are asked whether there is one.
//!
//! When a diagnosis is due, and what the endpoint's says, is the business of `looping`.

use callgate::gate::hooks::{
    ApprovalVerdict, BeforeAction, FailureKind, Hook, HookAnswer, HookList, Point,
};
use callgate::gate::loop_detector::{Diagnosis, DiagnosisSettings, LoopCheck};
use callgate::gate::turn::CancelScope;

use super::drive::{Turn, paper};
use super::hooking::{asked, has, hook, list, one, says};

fn repeated(change: impl Fn(&mut Turn)) -> Turn {
    let mut window = callgate::gate::loop_detector::LoopWindow::default();
    for number in 1.. {
        let mut turn = paper(&[("a", "read", "{\"n\":1}")]).round(number).lay();
        turn.window = window;
        change(&mut turn);
        turn.start();
        if number == 5 {
            return turn;
        }
        window = turn.window;
    }
    unreachable!("the fifth turn is returned");
}

/// A round without calls, after which a diagnosis is due.
fn round(hooks: HookList) -> Turn {
    let mut turn = paper(&[]).round(30).lay();
    turn.hooks = hooks;
    turn
}

fn said(is_loop: bool, confidence: f64) -> HookAnswer {
    HookAnswer::Diagnosis(Diagnosis {
        is_loop,
        reason: "it reads in circles".to_owned(),
        confidence,
    })
}

fn is_loop(turn: &Turn) -> bool {
    turn.transcript().contains("loop detected")
}

#[test]
fn hooks_are_told_of_a_loop_when_the_end_of_its_run_is_recorded() {
    let told = |check: LoopCheck| {
        let mut turn = repeated(|turn| {
            turn.settings.loops.check = check;
            turn.hooks = one(Point::LoopSuspected);
        });
        if check == LoopCheck::AfterResults {
            turn.claimed(&["a"]);
            assert!(!turn.transcript().contains("tell hook"));
            turn.answered("a", 1);
        }
        let lines: Vec<String> = turn.transcript().lines().map(str::to_owned).collect();
        let place = |part: &str| lines.iter().position(|line| line.contains(part));
        let recorded = place("persist turn ended loop_detected").unwrap();
        let announced = place("announce turn completed").unwrap();
        let told = place("tell hook one loop_suspected #1 tool_signature run=loop_detected");
        assert!(
            recorded < announced && announced < told.unwrap(),
            "{lines:?}"
        );
        assert!(turn.machine.has_ended());
    };
    told(LoopCheck::BeforeCalls);
    told(LoopCheck::AfterResults);
}

#[test]
fn the_first_hook_that_diagnoses_is_asked_without_any_endpoint() {
    let watches = Hook {
        observes: true,
        ..hook("watches", 1, &[Point::LoopDiagnose])
    };
    let mut turn = round(list(vec![
        hook("second", 3, &[Point::LoopDiagnose]),
        hook("first", 2, &[Point::LoopDiagnose, Point::LoopSuspected]),
        watches,
    ]));
    let lines = turn.start();
    assert_eq!(
        asked(&lines),
        [
            "tell hook watches loop_diagnose #1 run=active",
            "ask hook first loop_diagnose #2 run=active",
        ]
    );
    assert!(!turn.machine.has_ended());
    assert_eq!(
        turn.hook_answered(2, said(true, 0.81)),
        [
            "persist turn ended loop_detected run=loop_detected stop=run_ended results=[], \
             before announce",
            "announce loop detected: llm \"it reads in circles\" period=0 repetitions=0 []",
            "announce turn completed: loop_detected run=loop_detected stop=run_ended results=[]",
            "hook ran first loop_diagnose - answered",
            "tell hook first loop_suspected #3 llm run=loop_detected",
            "finish",
        ]
    );
}

#[test]
fn a_hook_is_asked_in_place_of_the_endpoint() {
    let with_endpoint = |hooks: HookList| {
        let mut turn = round(hooks);
        turn.settings.loops.diagnosis.has_endpoint = true;
        turn.start()
    };
    let lines = with_endpoint(one(Point::LoopDiagnose));
    assert!(has(&lines, "ask hook one") && !has(&lines, "ask diagnosis"));
    let watches = Hook {
        observes: true,
        ..hook("one", 1, &[Point::LoopDiagnose])
    };
    let lines = with_endpoint(list(vec![watches]));
    assert!(has(&lines, "tell hook one") && has(&lines, "ask diagnosis within 10000"));
}

#[test]
fn nobody_is_asked_before_it_is_due_or_beside_calls() {
    let asks = |round: u32, last: u32, calls: &[(&str, &str, &str)]| {
        let mut turn = paper(calls).round(round).lay();
        turn.hooks = one(Point::LoopDiagnose);
        turn.window.note_diagnosis(last);
        has(&turn.start(), "ask hook one loop_diagnose")
    };
    assert!(!asks(29, 0, &[]) && asks(30, 0, &[]));
    assert!(!asks(46, 37, &[]) && asks(47, 37, &[]));
    assert!(!asks(47, 37, &[("a", "read", "{}")]));
}

#[test]
fn only_a_clear_and_sure_yes_is_a_loop() {
    let answers = [
        (said(true, 0.8), false),
        (said(true, 0.81), true),
        (said(true, 1.0), true),
        (said(true, 1.01), false),
        (said(true, -0.9), false),
        (said(true, f64::NAN), false),
        (said(true, f64::INFINITY), false),
        (said(false, 0.99), false),
        (
            HookAnswer::Before(Box::new(says(BeforeAction::Deny))),
            false,
        ),
        (HookAnswer::Approval(ApprovalVerdict::default()), false),
    ];
    for (answer, expected) in answers {
        let shown = format!("{answer:?}");
        let mut turn = round(one(Point::LoopDiagnose));
        turn.start();
        turn.hook_answered(1, answer);
        assert!(turn.machine.has_ended(), "{shown}");
        assert_eq!(is_loop(&turn), expected, "{shown}");
    }
}

#[test]
fn how_sure_is_sure_is_a_setting() {
    let mut turn = round(one(Point::LoopDiagnose));
    turn.settings.loops.diagnosis = DiagnosisSettings {
        threshold: 0.5,
        ..DiagnosisSettings::default()
    };
    turn.start();
    turn.hook_answered(1, said(true, 0.6));
    assert!(is_loop(&turn));
}

#[test]
fn a_hook_that_fails_in_any_way_is_no_loop_and_the_endpoint_is_not_asked() {
    for (kind, word) in [
        (FailureKind::Timeout, "timeout"),
        (FailureKind::Failed, "failed"),
        (FailureKind::Unavailable, "unavailable"),
    ] {
        let mut turn = round(one(Point::LoopDiagnose));
        turn.settings.loops.diagnosis.has_endpoint = true;
        turn.start();
        let lines = turn.hook_fails(1, kind);
        let ran = format!("hook ran one loop_diagnose - {word}");
        assert!(has(&lines, &ran), "{lines:?}");
        assert!(turn.machine.has_ended() && !is_loop(&turn));
        assert!(!turn.transcript().contains("ask diagnosis"));
        assert!(
            turn.transcript()
                .contains("turn completed: completed run=active")
        );
    }
}

#[test]
fn whoever_ends_the_turn_waits_for_no_hook_and_a_late_answer_changes_nothing() {
    let mut turn = round(one(Point::LoopDiagnose));
    turn.start();
    assert_eq!(turn.deadline(), None);
    let lines = turn.cancel(CancelScope::Turn, 0);
    assert!(has(&lines, "forget hook #1"), "{lines:?}");
    assert!(has(&lines, "hook ran one loop_diagnose - cancelled"));
    assert!(turn.machine.has_ended());
    assert_eq!(turn.hook_answered(1, said(true, 0.9)), [] as [&str; 0]);
}
