//! Stages B and F: the first failing gate is a call's error, and what passes looks for an executor.
//!
//! Never goes further than the first step of a turn.

use bytes::Bytes;
use callgate::gate::call::CallState;
use callgate::gate::tool::ToolDefinition;

use super::drive::{Paper, paper};
use super::lines;
use super::tools::definition;

/// Code and place of the error with which the only call of a turn ends at once.
fn refusal(paper: Paper) -> (String, String, String) {
    let mut turn = paper.lay();
    turn.start();
    let result = turn.result("a");
    let error = result.error.clone().unwrap();
    (error.code.into_owned(), error.path, error.message_for_model)
}

fn code(tool: &str, arguments: &str) -> String {
    refusal(paper(&[("a", tool, arguments)])).0
}

#[test]
fn a_turn_without_calls_is_a_round() {
    let mut turn = paper(&[]).lay();
    assert_eq!(
        turn.start(),
        [
            "persist turn accepted, after",
            "persist turn ended completed run=active results=[], after",
            "announce accepted round 1: ",
            "announce turn completed: completed run=active results=[]",
            "finish",
        ]
    );
}

#[test]
fn a_turn_is_recorded_then_told_then_its_calls_look_for_executors() {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "write", "{}")]).lay();
    assert_eq!(
        turn.start(),
        [
            "persist turn accepted, after",
            "announce accepted round 1: a=read b=write",
            "announce a: validating -> scheduled",
            "announce b: validating -> scheduled",
            "claim a",
            "claim b",
        ]
    );
}

#[test]
fn a_refused_call_ends_alone_and_the_others_go_on() {
    let mut turn = paper(&[("a", "nothing", "{}"), ("b", "read", "{}")]).lay();
    assert_eq!(
        turn.start(),
        [
            "persist turn accepted, after",
            "announce accepted round 1: a=nothing b=read",
            "announce a: validating -> error tool_not_found",
            "announce b: validating -> scheduled",
            "announce a completed: error tool_not_found because=not_found effect=not_executed attempts=0",
            "claim b",
        ]
    );
}

#[test]
fn a_turn_whose_calls_are_all_refused_ends_in_its_first_step() {
    let mut turn = paper(&[("a", "nothing", "{}")]).lay();
    assert_eq!(
        turn.start(),
        [
            "persist turn accepted, after",
            "persist turn ended completed run=active results=[a], after",
            "announce accepted round 1: a=nothing",
            "announce a: validating -> error tool_not_found",
            "announce a completed: error tool_not_found because=not_found effect=not_executed attempts=0",
            "announce turn completed: completed run=active results=[a]",
            "finish",
        ]
    );
}

#[test]
fn an_unknown_tool_comes_before_bad_json() {
    assert_eq!(code("nothing", "{"), "tool_not_found");
}

#[test]
fn names_of_another_languages_insides_are_names_like_others() {
    for name in ["constructor", "__proto__", "toString", "hasOwnProperty"] {
        assert_eq!(code(name, "{}"), "tool_not_found", "{name}");
    }
}

#[test]
fn no_arguments_are_an_empty_object_and_what_is_required_is_still_missed() {
    for nothing in ["", " \n"] {
        let mut turn = paper(&[("a", "read", nothing), ("b", "need", nothing)]).lay();
        turn.register(ToolDefinition {
            parameters: Bytes::from_static(
                br#"{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}"#,
            ),
            ..definition("need")
        });
        turn.start();
        let error = turn.result("b").error.clone().unwrap();
        assert_eq!(error.code, "tool_argument_required");
        let told = turn.claimed(&["a"]);
        let is_sent = |line: &String| line.starts_with("dispatch a#1 {} ");
        assert!(told.iter().any(is_sent), "{told:?}");
    }
}

#[test]
fn bad_json_comes_before_the_schema() {
    assert_eq!(code("write", "{\"n\":\"x\",}"), "json_invalid");
    assert_eq!(code("write", "{\"n\":\"x\""), "json_truncated");
    assert_eq!(code("write", "[]"), "json_not_object");
}

#[test]
fn arguments_that_do_not_fit_name_the_place() {
    let (code, path, message) = refusal(paper(&[("a", "write", "{\"n\":\"x\"}")]));
    assert_eq!(code, "tool_argument_type_mismatch");
    assert_eq!(path, "$.n");
    assert!(message.contains("$.n"), "{message}");
}

#[test]
fn the_schema_comes_before_the_decision() {
    assert_eq!(code("drop", "{\"n\":\"x\"}"), "tool_argument_type_mismatch");
}

#[test]
fn a_tool_that_must_be_asked_ends_unasked_without_an_approver() {
    let mut turn = paper(&[("a", "drop", "{}")]).lay();
    turn.start();
    assert_eq!(
        lines::result(&turn.result("a")),
        "error approval_unavailable because=approval_unavailable effect=not_executed attempts=0"
    );
}

#[test]
fn a_call_that_was_cut_off_does_not_run_even_if_its_arguments_parse() {
    let (code, ..) = refusal(paper(&[("a", "read", "{}")]).cut_off());
    assert_eq!(code, "json_truncated");
}

#[test]
fn only_the_call_that_was_cut_off_ends() {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "read", "{\"n\":")])
        .cut_off()
        .lay();
    turn.start();
    assert_eq!(turn.state("a"), CallState::Scheduled);
    assert_eq!(
        lines::result(&turn.result("b")),
        "error json_truncated because=invalid_call effect=not_executed attempts=0"
    );
}

#[test]
fn a_tool_outside_the_toolset_is_not_found() {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "write", "{}")])
        .toolset(&["read"])
        .lay();
    turn.start();
    assert_eq!(turn.state("a"), CallState::Scheduled);
    assert_eq!(
        lines::result(&turn.result("b")),
        "error tool_not_found because=not_found effect=not_executed attempts=0"
    );
}

#[test]
fn the_models_names_are_resolved_by_the_list_that_it_saw() {
    let mut turn = paper(&[("a", "x_read", "{}"), ("b", "read", "{}")])
        .snapshot()
        .lay();
    let effects = turn.start();
    assert_eq!(effects[1], "announce accepted round 1: a=read b=read");
    assert_eq!(turn.state("a"), CallState::Scheduled);
    // `read` is not a name that the model was given.
    assert_eq!(
        lines::result(&turn.result("b")),
        "error tool_not_found because=not_found effect=not_executed attempts=0"
    );
}

#[test]
fn a_tool_that_changed_since_the_model_saw_it_does_not_run() {
    let mut turn = paper(&[("a", "x_write", "{}")]).snapshot().lay();
    turn.change_tool("write");
    turn.start();
    assert_eq!(
        lines::result(&turn.result("a")),
        "error tool_changed because=tool_unavailable effect=not_executed attempts=0"
    );
}

#[test]
fn every_call_id_that_came_in_has_exactly_one_result_with_that_id() {
    let ids = ["1", "call_Ünlike".get(..5).unwrap(), "x y"];
    let mut turn = paper(&[
        (ids[0], "nothing", "{}"),
        (ids[1], "write", "nonsense"),
        (ids[2], "drop", "{}"),
    ])
    .lay();
    let effects = turn.start();
    let completed: Vec<_> = effects
        .iter()
        .filter(|line| line.contains(" completed: error"))
        .collect();
    assert_eq!(completed.len(), 3);
    assert_eq!(
        effects[1],
        "persist turn ended completed run=active results=[1 call_ x y], after"
    );
}

#[test]
fn arguments_that_parsed_keep_their_digest_though_they_do_not_fit() {
    let mut turn = paper(&[("a", "write", "{\"n\":\"x\"}"), ("b", "write", "{")]).lay();
    turn.start();
    assert!(turn.result("a").arguments_digest.is_some());
    assert!(turn.result("b").arguments_digest.is_none());
}
