//! What `callgate explain` says of every vector: the stage, the rule, its source and the segment.
//!
//! Never asks a process: the program's own words are made here.

use callgate::cli::explain::shown;
use callgate::gate::permission::Answer;
use serde_json::{Value, json};

use super::tables::{modes, paths};
use super::vectors::{Told, decisions};

/// What it says decided the call.
fn decided(answer: &Answer) -> Value {
    let shown = shown(answer);
    let decided = &shown["decided_by"];
    // The words for people name the rule too.
    let because = decided["because"].as_str().unwrap();
    assert!(
        because.contains(decided["rule"].as_str().unwrap()),
        "{because}"
    );
    assert!(
        because.contains(decided["segment"].as_str().unwrap()),
        "{because}"
    );
    json!({
        "verdict": shown["verdict"], "stage": decided["stage"], "rule": decided["rule"],
        "source": decided["source"], "segment": decided["segment"],
    })
}

/// The stage of a vector as the wire calls it. That of hooks is theirs, wherever they were heard.
fn stage(told: &Told) -> &'static str {
    match (told.stage.as_str(), told.why.as_deref()) {
        (_, Some("hook")) => "hook",
        (_, Some("tool_check")) => "tool_check",
        ("deny", _) => "deny_rule",
        ("ask", _) => "ask_rule",
        ("unclear", _) => "safety_floor",
        ("mode_block", _) => "mode_block",
        ("allow", Some("skip_permission")) => "skip_permission",
        ("allow", _) if told.is_grant => "grant",
        ("allow", _) => "allow_rule",
        ("mode_and_risk", _) => "mode_default",
        ("approver", _) => "no_approver",
        (other, _) => panic!("{}: no stage `{other}`", told.name),
    }
}

#[test]
fn every_decision_is_explained_by_stage_rule_source_and_segment() {
    let decisions = decisions();
    assert!(decisions.len() > 80, "{} vectors", decisions.len());
    for (answer, told) in decisions {
        let expected = json!({
            "verdict": told.verdict,
            "stage": stage(&told),
            "rule": told.rule.clone().unwrap_or_default(),
            "source": told.source.clone().unwrap_or_default(),
            "segment": told.segment.clone().unwrap_or_default(),
        });
        assert_eq!(decided(&answer), expected, "{}", told.name);
    }
}

#[test]
fn every_path_that_a_rule_meets_is_explained() {
    for (name, rule, met, answer) in paths() {
        let stage = match answer.verdict.as_str() {
            "deny" => "deny_rule",
            _ => "allow_rule",
        };
        let expected = json!({
            "verdict": answer.verdict.as_str(), "stage": stage, "rule": rule,
            "source": "userSettings", "segment": met,
        });
        assert_eq!(decided(&answer), expected, "{name}");
    }
}

#[test]
fn every_row_of_the_table_of_modes_is_explained() {
    for (name, mode, verdict, answer) in modes() {
        let stage = match verdict.as_str() {
            "deny" => "mode_block",
            _ => "mode_default",
        };
        let expected = json!({
            "verdict": verdict.as_str(), "stage": stage, "rule": "", "source": "", "segment": "",
        });
        assert_eq!(decided(&answer), expected, "{name} in {}", mode.as_str());
        let because = shown(&answer)["decided_by"]["because"].clone();
        assert_eq!(because, format!("mode `{}`", mode.as_str()), "{name}");
    }
}

#[test]
fn every_stage_is_told_in_its_order_also_where_it_said_nothing() {
    let order = [
        "validation",
        "deny_rule",
        "ask_rule",
        "safety_floor",
        "mode_block",
        "tool_check",
        "allow_rule",
        "grant",
        "skip_permission",
        "mode_default",
        "no_approver",
    ];
    for (answer, told) in decisions() {
        let shown = shown(&answer);
        let steps = shown["steps"].as_array().unwrap().iter();
        let mut stages: Vec<&str> = steps.map(|step| step["stage"].as_str().unwrap()).collect();
        stages.retain(|stage| *stage != "hook");
        stages.dedup();
        assert_eq!(stages, order, "{}", told.name);
    }
}
