//! Paths against patterns, the table of modes, and which rules load.
//!
//! Never decides a whole call: `vectors` does.

use callgate::gate::permission::{
    Aliases, Answer, Approver, Call, Check, Grants, Hook, Mode, ModeBounds, PathSubject, Settings,
    Situation, Subject, Trust, Verdict, decide_call, mode_verdict,
};
use callgate::gate::tool::{Kind, Risk, SubjectKind};
use serde::Deserialize;

use super::build::{self, Written, load, tool};
use super::vectors::{Facts, KindWord, Word, read};

/// One pattern and one path, in a rule that denies and in one that allows.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PathRow {
    name: String,
    pattern: String,
    root: Option<String>,
    given: String,
    /// Absent: the given path, from `/w`. Null: unknown.
    #[serde(default, deserialize_with = "present")]
    canonical: Option<Option<String>>,
    facts: Option<Facts>,
    denies: bool,
    allows: bool,
    /// The deny rule cannot be tried.
    #[serde(default)]
    asks: bool,
}

/// Tells null from absent.
fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

impl PathRow {
    fn verdict(&self, list: &'static str, session: Mode) -> Verdict {
        self.answer(list, session).verdict
    }

    fn rule(&self, list: &'static str) -> Written {
        Written {
            root: self.root.clone(),
            ..Written::of(list, &format!("Read({})", self.pattern))
        }
    }

    fn answer(&self, list: &'static str, session: Mode) -> Answer {
        let policy = build::policy(&[self.rule(list)]);
        let path = PathSubject {
            given: self.given.clone(),
            canonical: self
                .canonical
                .clone()
                .unwrap_or(build::path(&self.given).canonical),
        };
        let place = self.facts.as_ref().map_or(build::place(), Facts::place);
        let call = Call {
            tool: &tool("Read"),
            kind: Kind::Read,
            risk: Risk::Sensitive,
            skip_permission: false,
            arguments: None,
            subject: &Subject::Paths(vec![path]),
            place: &place,
        };
        let situation = Situation {
            now: build::NOW,
            mode: ModeBounds::of(session),
            policies: &[&policy],
            grants: &Grants::default(),
            hook: Hook::Proceed,
            check: Check::Passthrough,
            approver: Approver::Expected,
            settings: Settings::default(),
        };
        decide_call(&call, &situation)
    }
}

/// Every vector of paths with what its rule says: the rule, the path that it meets, and the answer.
/// `*` means every call, so it meets none in particular.
pub(super) fn paths() -> Vec<(String, String, String, Answer)> {
    let mut found = Vec::new();
    for row in read::<Vec<PathRow>>("paths.json") {
        for (list, session, holds) in [
            ("deny", Mode::Auto, row.denies),
            ("allow", Mode::Default, row.allows),
        ] {
            if holds {
                let rule = format!("Read({})", row.pattern);
                let answer = row.answer(list, session);
                let met = match row.pattern.as_str() {
                    "*" => String::new(),
                    _ => row.given.clone(),
                };
                found.push((row.name.clone(), rule, met, answer));
            }
        }
    }
    found
}

/// Every vector of modes: its name, what each mode says, and the answers.
pub(super) fn modes() -> Vec<(String, Mode, Verdict, Answer)> {
    let mut found = Vec::new();
    for row in read::<Vec<ModeRow>>("modes.json") {
        let verdicts = [row.plan, row.default, row.accept_edits, row.auto].map(Verdict::from);
        for (session, verdict) in Mode::ALL.into_iter().zip(verdicts) {
            let call = Call {
                tool: &tool("any"),
                kind: row.kind.into(),
                risk: row.risk,
                skip_permission: false,
                arguments: None,
                subject: &Subject::Undeclared,
                place: &build::place(),
            };
            let situation = Situation {
                now: build::NOW,
                mode: ModeBounds::of(session),
                policies: &[],
                grants: &Grants::default(),
                hook: Hook::Proceed,
                check: Check::Passthrough,
                approver: Approver::Expected,
                settings: Settings::default(),
            };
            let answer = decide_call(&call, &situation);
            found.push((row.name.clone(), session, verdict, answer));
        }
    }
    found
}

#[test]
fn paths_are_matched_as_the_vectors_say() {
    for row in read::<Vec<PathRow>>("paths.json") {
        let denied = match (row.denies, row.asks) {
            (true, _) => Verdict::Deny,
            (false, true) => Verdict::Ask,
            (false, false) => Verdict::Allow,
        };
        assert_eq!(row.verdict("deny", Mode::Auto), denied, "{}", row.name);
        let allowed = match row.allows {
            true => Verdict::Allow,
            false => Verdict::Ask,
        };
        assert_eq!(row.verdict("allow", Mode::Default), allowed, "{}", row.name);
    }
}

/// One line of the table of modes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ModeRow {
    name: String,
    kind: KindWord,
    risk: Risk,
    plan: Word,
    default: Word,
    accept_edits: Word,
    auto: Word,
}

#[test]
fn modes_say_what_the_table_says() {
    for row in read::<Vec<ModeRow>>("modes.json") {
        let expected = [row.plan, row.default, row.accept_edits, row.auto].map(Verdict::from);
        let found = Mode::ALL.map(|mode| mode_verdict(mode, row.kind.into(), row.risk));
        assert_eq!(found, expected, "{}", row.name);
    }
}

/// One rule, and whether it loads.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleCase {
    name: String,
    list: Word,
    rule: serde_json::Value,
    /// What its tool is known to declare.
    subject: Option<SubjectWord>,
    #[serde(default)]
    loads: bool,
    code: Option<String>,
}

#[derive(Deserialize, Clone, Copy)]
#[serde(rename_all = "snake_case")]
enum SubjectWord {
    Command,
    Path,
}

#[test]
fn rules_load_or_say_what_is_wrong() {
    for case in read::<Vec<RuleCase>>("rules.json") {
        let name = &case.name;
        let rule = Written {
            rule: case.rule,
            ..Written::of(Verdict::from(case.list).as_str(), "")
        };
        let subject = case.subject.map(|word| match word {
            SubjectWord::Command => SubjectKind::Command,
            SubjectWord::Path => SubjectKind::Path,
        });
        // A wrong rule never takes the good ones beside it away.
        let rules = [Written::of("deny", "beside"), rule];
        let loaded = load(&rules, &Aliases::default(), Trust::Trusted, subject);
        let problems = match (loaded, case.list) {
            (Ok(loaded), _) => {
                assert!(
                    loaded.policy.hides("beside", build::NOW).is_some(),
                    "{name}"
                );
                assert!(
                    loaded.skipped.is_empty() || case.list == Word::Allow,
                    "{name}"
                );
                loaded.skipped
            }
            (Err(error), Word::Ask | Word::Deny) => error.problems,
            (Err(error), Word::Allow) => panic!("{name}: {error}"),
        };
        let codes: Vec<&str> = problems
            .iter()
            .map(|problem| problem.error.code())
            .collect();
        assert_eq!(codes.is_empty(), case.loads, "{name}: {codes:?}");
        assert_eq!(codes.first().copied(), case.code.as_deref(), "{name}");
    }
}
