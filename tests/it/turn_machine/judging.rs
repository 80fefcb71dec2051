//! Rules and the mode, held against calls: when the turn decides, while they wait, before every send.
//!
//! What a rule matches is the permission vectors' business, never this file's.

use std::sync::Arc;

use callgate::gate::call::CallState;
use callgate::gate::command::Opaque;
use callgate::gate::permission::{
    CommandSubject, LoadOptions, Mode, Permissions, Policy, RuleEntry, Source, SourceRules,
    SourceText, Trust, Verdict,
};
use callgate::gate::tool::{DeclaredSubject, Kind, Risk, SubjectKind, ToolDefinition};
use callgate::gate::turn::{CancelScope, Input, Proof};

use super::drive::{Turn, paper};
use super::tools::definition;

/// No rules but these, in the default mode.
pub(crate) fn rules(rules: &[(Verdict, &str)]) -> Permissions {
    let entries = rules
        .iter()
        .map(|(list, text)| (*list, RuleEntry::of_text(*text)));
    let text = SourceText {
        source: Source::User,
        file: Some(Arc::from("settings.json")),
        root: None,
        rules: SourceRules {
            entries: entries.collect(),
            max_mode: None,
        },
    };
    let options = LoadOptions {
        aliases: &Default::default(),
        trust: Trust::Untrusted,
        subject_of: &|_| None,
        read_command: &CommandSubject::plain,
    };
    Permissions {
        policy: Arc::new(Policy::load(vec![text], &options, 1).unwrap().policy),
        ..Permissions::default()
    }
}

pub(super) fn runs_commands() -> ToolDefinition {
    ToolDefinition {
        kind: Kind::Execute,
        risk: Some(Risk::Sensitive),
        subject: Some(DeclaredSubject {
            pointer: "/command".to_owned(),
            kind: Some(SubjectKind::Command),
            dialect: String::new(),
        }),
        ..definition("run_shell")
    }
}

fn with_commands(commands: &[(&str, &str)]) -> Turn {
    let texts: Vec<_> = commands
        .iter()
        .map(|(id, command)| (*id, format!("{{\"command\":{command:?}}}")))
        .collect();
    let calls: Vec<_> = texts
        .iter()
        .map(|(id, text)| (*id, "run_shell", text.as_str()))
        .chain([("z", "read", "{}")])
        .collect();
    let mut turn = paper(&calls).lay();
    turn.register(runs_commands());
    turn
}

fn analysed(turn: &mut Turn, id: &str, command: CommandSubject) -> Vec<String> {
    let call = turn.index(id);
    turn.give(Input::CommandAnalysed {
        call,
        command: Box::new(command),
    })
}

#[test]
fn a_denied_call_ends_and_the_rest_of_its_batch_runs() {
    let mut turn = paper(&[("a", "read", "{}"), ("b", "put", "{}")]).lay();
    turn.permissions = rules(&[(Verdict::Deny, "put")]);
    let told = turn.start();
    assert!(
        told.contains(&"announce b completed: error tool_denied_by_rule because=denied_by_rule effect=not_executed attempts=0".to_owned()),
        "{told:?}"
    );
    assert_eq!(turn.state("a"), CallState::Scheduled);
    let error = turn.result("b").error.clone().unwrap();
    assert_eq!(
        error.detail,
        "deny rule `put` of userSettings `settings.json`, rule 1"
    );
    assert_eq!(
        error.message_for_model,
        "tool `put` is not allowed to do that"
    );
}

#[test]
fn an_allow_rule_lets_a_tool_run_that_would_be_asked() {
    let mut turn = paper(&[("a", "drop", "{}")]).lay();
    turn.permissions = rules(&[(Verdict::Allow, "drop")]);
    turn.start();
    assert_eq!(turn.state("a"), CallState::Scheduled);
}

#[test]
fn plan_mode_denies_what_is_not_safe() {
    let mut turn = paper(&[("a", "drop", "{}"), ("b", "read", "{}")]).lay();
    turn.permissions.mode = Mode::Plan;
    let told = turn.start();
    assert!(
        told.contains(&"announce a completed: error tool_denied_by_mode because=denied_by_mode effect=not_executed attempts=0".to_owned()),
        "{told:?}"
    );
    assert_eq!(turn.state("b"), CallState::Scheduled);
}

#[test]
fn a_rule_that_comes_while_a_call_waits_ends_it() {
    let mut turn = paper(&[("a", "write", "{}")]).lay();
    turn.start();
    turn.permissions = rules(&[(Verdict::Deny, "write")]);
    assert_eq!(
        turn.give(Input::ToolsChanged),
        [
            "persist turn ended completed run=active results=[a], after",
            "announce a: scheduled -> error tool_denied_by_rule",
            "announce a completed: error tool_denied_by_rule because=denied_by_rule effect=not_executed attempts=0",
            "announce turn completed: completed run=active results=[a]",
            "give back a",
            "finish",
        ]
    );
}

#[test]
fn a_rule_that_nobody_told_of_holds_before_the_send() {
    let mut turn = paper(&[("a", "write", "{}")]).lay();
    turn.start();
    turn.permissions = rules(&[(Verdict::Deny, "write")]);
    let told = turn.claimed(&["a"]);
    assert!(
        !told.iter().any(|line| line.starts_with("dispatch")),
        "{told:?}"
    );
    assert_eq!(turn.state("a"), CallState::Error);
}

#[test]
fn a_rule_that_came_meanwhile_holds_before_the_second_send() {
    let mut turn = paper(&[("a", "read", "{}")]).lay();
    turn.start();
    turn.claimed(&["a"]);
    turn.permissions = rules(&[(Verdict::Deny, "read")]);
    turn.lost("a", 1, Proof::NeverStarted);
    assert_eq!(turn.state("a"), CallState::Error);
}

#[test]
fn nothing_of_a_batch_runs_before_its_commands_are_understood() {
    let mut turn = with_commands(&[("a", "git status"), ("b", "rm -rf /")]);
    turn.permissions = rules(&[
        (Verdict::Allow, "run_shell(git *)"),
        (Verdict::Deny, "run_shell(rm *)"),
    ]);
    let told = turn.start();
    let asked: Vec<_> = told
        .iter()
        .filter(|line| line.starts_with("analyse"))
        .collect();
    assert_eq!(
        asked,
        ["analyse a \"git status\"", "analyse b \"rm -rf /\""]
    );
    for id in ["a", "b", "z"] {
        assert_eq!(turn.state(id), CallState::Validating, "{id}");
    }
    assert!(analysed(&mut turn, "b", CommandSubject::plain("rm -rf /")).is_empty());
    analysed(&mut turn, "a", CommandSubject::plain("git status"));
    assert_eq!(turn.state("a"), CallState::Scheduled);
    assert_eq!(turn.state("b"), CallState::Error);
    assert_eq!(turn.state("z"), CallState::Scheduled);
    // A second word about the same command is nobody's.
    assert!(analysed(&mut turn, "b", CommandSubject::plain("git status")).is_empty());
}

#[test]
fn a_command_that_nobody_understands_is_not_allowed_and_still_denied() {
    for (list, expected) in [
        (Verdict::Allow, "approval_unavailable"),
        (Verdict::Deny, "tool_denied_by_rule"),
    ] {
        let mut turn = with_commands(&[("a", "git status")]);
        turn.permissions = rules(&[(list, "run_shell(git *)")]);
        turn.start();
        analysed(
            &mut turn,
            "a",
            CommandSubject::unread("git status", Opaque::TimedOut),
        );
        assert_eq!(turn.result("a").error.clone().unwrap().code, expected);
    }
}

#[test]
fn a_turn_that_is_cancelled_while_a_command_is_analysed_ends() {
    let mut turn = with_commands(&[("a", "git status")]);
    turn.start();
    turn.cancel(CancelScope::Turn, 0);
    assert!(turn.machine.has_ended(), "{}", turn.transcript());
    assert!(analysed(&mut turn, "a", CommandSubject::plain("git status")).is_empty());
}
