//! What paths really are: when an executor is asked, and which rules hold with the answer.
//!
//! Never says what a pattern matches: that is the permission vectors' business.

use bytes::Bytes;
use callgate::gate::approval::Choice;
use callgate::gate::call::CallState;
use callgate::gate::limits::Limits;
use callgate::gate::permission::{Approver, Check, Facts, PathFact, ToolWord, Verdict};
use callgate::gate::record::DispatchIntent;
use callgate::gate::tool::{DeclaredSubject, Kind, Risk, SubjectKind, ToolDefinition};
use callgate::gate::turn::{Answers, Input};

use super::asking::{decided, says as choose};
use super::drive::{Turn, paper};
use super::judging::rules;
use super::tools::definition;

fn reads_paths() -> ToolDefinition {
    ToolDefinition {
        kind: Kind::Read,
        risk: Some(Risk::Sensitive),
        subject: Some(DeclaredSubject {
            pointer: "/path".to_owned(),
            kind: Some(SubjectKind::Path),
            dialect: String::new(),
        }),
        ..definition("read_file")
    }
}

/// One call of a tool of paths.
fn of(path: &str) -> Turn {
    let arguments = format!("{{\"path\":{path}}}");
    let mut turn = paper(&[("a", "read_file", &arguments)]).lay();
    turn.register(reads_paths());
    turn.approver = Approver::Expected;
    turn
}

fn fact(pointer: &str, value: &str, canonical: &str) -> PathFact {
    PathFact {
        pointer: pointer.to_owned(),
        value: value.to_owned(),
        canonical: canonical.to_owned(),
        exists: Some(true),
    }
}

fn resolved(turn: &mut Turn, facts: Vec<PathFact>) -> Vec<String> {
    let call = turn.index("a");
    turn.give(Input::FactsResolved { call, facts })
}

/// Where a call of `/data/a` ends up, if that is said of it.
fn becomes(list: Verdict, rule: &str, facts: Vec<PathFact>) -> CallState {
    let mut turn = of(r#""/data/a""#);
    turn.permissions = rules(&[(list, rule)]);
    let told = turn.start();
    assert!(told.contains(&"resolve a /path".to_owned()), "{told:?}");
    assert_eq!(turn.state("a"), CallState::Validating);
    resolved(&mut turn, facts);
    turn.state("a")
}

#[test]
fn an_allow_rule_needs_both_forms_and_a_deny_rule_either() {
    let within = || vec![fact("/path", "/data/a", "/data/b")];
    let outside = || vec![fact("/path", "/data/a", "/etc/passwd")];
    let work = "read_file(//data/**)";
    let etc = "read_file(//etc/**)";
    let cases = [
        (Verdict::Allow, work, within(), CallState::Scheduled),
        (Verdict::Allow, work, outside(), CallState::AwaitingApproval),
        (Verdict::Allow, work, vec![], CallState::AwaitingApproval),
        (Verdict::Deny, work, outside(), CallState::Error),
        (Verdict::Deny, etc, outside(), CallState::Error),
        (Verdict::Deny, etc, within(), CallState::AwaitingApproval),
    ];
    for (list, rule, facts, expected) in cases {
        let said = format!("{list:?} {rule} {facts:?}");
        assert_eq!(becomes(list, rule, facts), expected, "{said}");
    }
}

#[test]
fn facts_about_something_else_are_no_facts() {
    let work = "read_file(//data/**)";
    for wrong in [
        fact("/other", "/data/a", "/data/a"),
        fact("/path", "/data/other", "/data/other"),
        fact("/path", "/data/a", ""),
        fact("/path", "/data/a", "work/a"),
    ] {
        let said = format!("{wrong:?}");
        let state = becomes(Verdict::Allow, work, vec![wrong]);
        assert_eq!(state, CallState::AwaitingApproval, "{said}");
    }
    // Of two, the first counts.
    let two = vec![
        fact("/path", "/data/a", "/etc/passwd"),
        fact("/path", "/data/a", "/data/a"),
    ];
    let state = becomes(Verdict::Allow, work, two);
    assert_eq!(state, CallState::AwaitingApproval);
}

#[test]
fn every_path_of_a_list_is_asked_about_and_needs_its_fact() {
    for (last, expected) in [
        ("/data/b", CallState::Scheduled),
        ("/etc/b", CallState::AwaitingApproval),
    ] {
        let mut turn = of(r#"["/data/a","/data/b"]"#);
        turn.permissions = rules(&[(Verdict::Allow, "read_file(//data/**)")]);
        let told = turn.start();
        assert!(
            told.contains(&"resolve a /path/0 /path/1".to_owned()),
            "{told:?}"
        );
        let facts = vec![
            fact("/path/0", "/data/a", "/data/a"),
            fact("/path/1", "/data/b", last),
        ];
        resolved(&mut turn, facts);
        assert_eq!(turn.state("a"), expected);
    }
}

#[test]
fn nobody_is_asked_about_more_paths_than_may_be() {
    let max = usize::try_from(Limits::default().call_facts_max).unwrap();
    for (count, is_asked) in [(max, true), (max + 1, false)] {
        let paths = vec![r#""a""#; count].join(",");
        let mut turn = of(&format!("[{paths}]"));
        turn.allow_arguments_of(16_384);
        let told = turn.start();
        let asked = told.iter().any(|line| line.starts_with("resolve a"));
        assert_eq!(asked, is_asked, "{count} paths");
        let waits = turn.state("a") == CallState::AwaitingApproval;
        assert_eq!(waits, !is_asked, "{count} paths");
    }
}

#[test]
fn an_executor_that_takes_too_long_knows_nothing() {
    let mut turn = of(r#""/data/a""#);
    turn.permissions = rules(&[(Verdict::Allow, "read_file(//data/**)")]);
    turn.start();
    assert_eq!(turn.deadline(), Some(300));
    turn.due();
    assert_eq!(turn.state("a"), CallState::AwaitingApproval);
    assert!(resolved(&mut turn, vec![fact("/path", "/data/a", "/data/a")]).is_empty());
}

#[test]
fn facts_hold_for_later_decisions_and_only_for_their_working_directory() {
    let mut turn = of(r#""a""#);
    turn.cwd = Some("/data");
    turn.start();
    resolved(&mut turn, vec![fact("/path", "a", "/data/a")]);
    assert_eq!(turn.state("a"), CallState::AwaitingApproval);
    turn.permissions = rules(&[(Verdict::Allow, "read_file(//data/**)")]);
    turn.cwd = Some("/data/sub");
    turn.give(Input::ToolsChanged);
    assert_eq!(turn.state("a"), CallState::AwaitingApproval);
    turn.cwd = Some("/data");
    turn.give(Input::ToolsChanged);
    assert_eq!(turn.state("a"), CallState::Scheduled);
    turn.permissions = rules(&[(Verdict::Deny, "read_file(//data/a)")]);
    turn.claimed(&["a"]);
    assert_eq!(turn.state("a"), CallState::Error);
}

#[test]
fn a_tool_is_asked_once_its_paths_are_known() {
    let mut turn = of(r#""/data/a""#);
    turn.register(ToolDefinition {
        has_permission_check: true,
        ..reads_paths()
    });
    turn.permissions = rules(&[(Verdict::Allow, "read_file(//data/**)")]);
    let told = turn.start();
    assert!(
        !told.iter().any(|line| line.starts_with("check")),
        "{told:?}"
    );
    let told = resolved(&mut turn, vec![fact("/path", "/data/a", "/data/b")]);
    assert_eq!(
        told,
        ["check a default matched=read_file(//data/**) [/data/b]"]
    );
    let call = turn.index("a");
    let word = Some(Box::new(ToolWord {
        check: Check::Passthrough,
        ..ToolWord::default()
    }));
    turn.give(Input::ToolChecked { call, word });
    assert_eq!(turn.state("a"), CallState::Scheduled);
}

#[test]
fn paths_are_asked_about_again_after_a_restart_unless_the_call_was_sent() {
    for (was_sent, expected) in [(false, true), (true, false)] {
        let arguments = r#"{"path":"/data/a"}"#;
        let paper = paper(&[("a", "read_file", arguments)]);
        let mut turn = paper.restore(|stored| {
            if was_sent {
                stored.dispatched.push(DispatchIntent {
                    call: callgate::gate::ids::CallIndex(0),
                    attempt: 1,
                    instance: callgate::gate::ids::InstanceId::trusted("x1"),
                });
            }
        });
        turn.register(reads_paths());
        let told = turn.recover();
        let asked = told.contains(&"resolve a /path".to_owned());
        assert_eq!(asked, expected, "{told:?}");
    }
}

#[test]
fn an_edited_path_is_held_against_deny_rules_as_it_really_is() {
    for (canonical, expected) in [
        ("/data/b", CallState::Scheduled),
        ("/etc/passwd", CallState::AwaitingApproval),
    ] {
        let mut turn = of(r#""/data/a""#);
        turn.permissions = rules(&[(Verdict::Deny, "read_file(//etc/**)")]);
        turn.start();
        resolved(&mut turn, vec![fact("/path", "/data/a", "/data/a")]);
        let mut deciding = choose(&turn, "a", Choice::Edit);
        deciding.edited = Bytes::from_static(br#"{"path":"/data/b"}"#);
        let Input::Decided(mut input) = decided(&turn, "a", deciding) else {
            panic!("not a decision");
        };
        let facts = vec![fact("/path", "/data/b", canonical)];
        input.answers = Answers {
            facts: Some(Facts::new(None, facts)),
            ..Answers::default()
        };
        turn.give(Input::Decided(input));
        assert_eq!(turn.state("a"), expected, "{canonical}");
    }
}
