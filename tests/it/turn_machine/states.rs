//! The table of legal moves, against the drawing above it.
//!
//! Never goes through a turn: the moves that turns make are checked by `random`.

use callgate::gate::call::CallState;
use callgate::gate::turn::{Input, TurnMachine};

use super::drive::paper;

/// The arrows of the drawing, and no others.
const ARROWS: &[(&str, &str)] = &[
    ("validating", "awaiting_approval"),
    ("validating", "scheduled"),
    ("validating", "error"),
    ("validating", "cancelled"),
    ("awaiting_approval", "scheduled"),
    ("awaiting_approval", "error"),
    ("awaiting_approval", "cancelled"),
    ("scheduled", "executing"),
    ("scheduled", "error"),
    ("scheduled", "cancelled"),
    ("executing", "success"),
    ("executing", "error"),
    ("executing", "cancelled"),
];

#[test]
fn the_table_has_the_arrows_of_the_drawing_and_no_others() {
    let all = CallState::ALL;
    let legal: Vec<(&str, &str)> = all
        .iter()
        .flat_map(|from| all.iter().map(move |to| (from, to)))
        .filter(|(from, to)| from.can_become(**to))
        .map(|(from, to)| (from.as_str(), to.as_str()))
        .collect();
    assert_eq!(legal, ARROWS);
}

#[test]
fn nothing_follows_a_final_state() {
    for from in CallState::ALL {
        let leads_on = CallState::ALL.into_iter().any(|to| from.can_become(to));
        assert_eq!(from.is_final(), !leads_on, "{}", from.as_str());
    }
}

#[test]
#[should_panic(expected = "call `a` cannot go from scheduled to scheduled")]
fn an_illegal_move_is_a_bug_and_says_who_from_where_to_where() {
    // The engine never starts a turn twice; if it did, the machine must not go on.
    let mut turn = paper(&[("a", "read", "{}")]).lay();
    turn.start();
    turn.give(Input::Started);
}

#[test]
fn a_machine_that_has_ended_answers_nothing_to_anything() {
    let mut turn = paper(&[]).lay();
    turn.start();
    assert!(turn.machine.has_ended());
    assert_eq!(turn.start(), Vec::<String>::new());
    assert_eq!(turn.deadline(), None);
}

#[test]
fn a_machine_before_its_first_input_waits_for_nothing() {
    let spec = paper(&[("a", "read", "{}")]).spec();
    let machine = TurnMachine::new(spec.into());
    assert_eq!(machine.deadline(), None);
    assert!(!machine.has_ended());
}
