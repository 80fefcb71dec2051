//! What adding a rule may and may not change, over generated rules and calls.
//!
//! Never compares with another engine, only with itself.

use callgate::gate::permission::{
    Answer, Approver, Check, Grants, Hook, Mode, ModeBounds, Policy, Settings, Situation, Verdict,
};
use callgate::gate::tool::Kind;
use callgate::gate::tool::SubjectKind;
use proptest::prelude::*;

use super::build::{NOW, Written, decide, policy, subject};

const TOOLS: [(&str, SubjectKind, Kind); 4] = [
    ("sh", SubjectKind::Command, Kind::Execute),
    ("edit", SubjectKind::Path, Kind::Edit),
    ("get", SubjectKind::Url, Kind::Fetch),
    ("say", SubjectKind::Text, Kind::Other),
];

/// Texts that often have something to do with each other.
fn specifier() -> impl Strategy<Value = String> {
    let word = prop::sample::select(vec!["a", "b", "ab", "*", "a*", "'a b'", "-x"]);
    let command = prop::collection::vec(word, 1..4).prop_map(|words| words.join(" "));
    let name = prop::sample::select(vec!["a", "b", "a.x", "*", "*.x", "**", "..", "[ab]", "?"]);
    let path = (
        prop::sample::select(vec!["", "/", "//", "~/", "./", "../"]),
        prop::collection::vec(name, 1..4),
    )
        .prop_map(|(start, names)| format!("{start}{}", names.join("/")));
    let host = prop::sample::select(vec!["a.b", "*.b", "b", "c.a.b", "*.a.b"])
        .prop_map(|host| format!("domain:{host}"));
    prop_oneof![
        command.clone(),
        command.prop_map(|text| format!("{text}:*")),
        path.prop_filter("a rule that loads", |text| !text.contains("**/..")),
        host,
        Just("param:/a=1".to_owned()),
    ]
}

fn rule() -> impl Strategy<Value = String> {
    let tool = prop::sample::select(vec!["sh", "edit", "get", "say", "s*", "e*t"]);
    prop_oneof![
        1 => tool.clone().prop_map(str::to_owned),
        6 => (tool, specifier()).prop_map(|(tool, inner)| format!("{tool}({inner})")),
    ]
}

fn rules() -> impl Strategy<Value = Vec<Written>> {
    let list = prop::sample::select(vec!["allow", "ask", "deny", "allow"]);
    let written = (list, rule()).prop_map(|(list, rule)| Written::of(list, &rule));
    prop::collection::vec(written, 0..8)
}

/// A tool and what it is called with.
fn call() -> impl Strategy<Value = (usize, String)> {
    let text = prop_oneof![
        prop::sample::select(vec![
            "a", "a b", "ab -x", "a a b", "b -x", "a; b", "'a b'", "$a"
        ]),
        prop::sample::select(vec![
            "a/b",
            "../a",
            "/a/b.x",
            "/users/u/a",
            "b/a.x",
            "~/a",
            ".."
        ]),
        prop::sample::select(vec![
            "https://a.b/",
            "https://c.a.b",
            "http://u@b",
            "b/a",
            "%"
        ]),
    ];
    (0..TOOLS.len(), text.prop_map(str::to_owned))
}

fn answer(policies: &[&Policy], mode: Mode, (tool, text): &(usize, String)) -> Answer {
    let (name, kind, does) = TOOLS[*tool];
    let situation = Situation {
        now: NOW,
        mode: ModeBounds::of(mode),
        policies,
        grants: &Grants::default(),
        hook: Hook::Proceed,
        check: Check::Passthrough,
        approver: Approver::Expected,
        settings: Settings::default(),
    };
    decide(name, does, &subject(kind, text), &situation)
}

fn mode() -> impl Strategy<Value = Mode> {
    prop::sample::select(Mode::ALL.to_vec())
}

/// The verdicts without and with one rule more.
fn verdicts(
    mut rules: Vec<Written>,
    added: Written,
    at: usize,
    mode: Mode,
    call: &(usize, String),
) -> (Verdict, Verdict) {
    let before = answer(&[&policy(&rules)], mode, call).verdict;
    rules.insert(at % (rules.len() + 1), added);
    (before, answer(&[&policy(&rules)], mode, call).verdict)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn adding_a_deny_rule_never_loosens(
        rules in rules(), added in rule(), at in 0_usize..8, mode in mode(), call in call(),
    ) {
        let (before, after) = verdicts(rules, Written::of("deny", &added), at, mode, &call);
        prop_assert!(after >= before, "{before:?} became {after:?}");
    }

    #[test]
    fn adding_an_ask_rule_never_loosens(
        rules in rules(), added in rule(), at in 0_usize..8, mode in mode(), call in call(),
    ) {
        let (before, after) = verdicts(rules, Written::of("ask", &added), at, mode, &call);
        prop_assert!(after >= before, "{before:?} became {after:?}");
    }

    #[test]
    fn adding_an_allow_rule_never_tightens_and_never_changes_a_deny(
        rules in rules(), added in rule(), at in 0_usize..8, mode in mode(), call in call(),
    ) {
        let (before, after) = verdicts(rules, Written::of("allow", &added), at, mode, &call);
        prop_assert!(after <= before, "{before:?} became {after:?}");
        prop_assert!(before != Verdict::Deny || after == Verdict::Deny);
    }

    #[test]
    fn rules_together_decide_as_rules_apart(
        rules in rules(), mode in mode(), call in call(),
    ) {
        let together = answer(&[&policy(&rules)], mode, &call);
        let apart: Vec<Policy> = rules.iter().map(|rule| policy(std::slice::from_ref(rule))).collect();
        let one_by_one = answer(&apart.iter().collect::<Vec<_>>(), mode, &call);
        prop_assert_eq!(together.verdict, one_by_one.verdict);
        prop_assert_eq!(together.decided_by.stage, one_by_one.decided_by.stage);
    }

    #[test]
    fn a_rule_that_allows_would_deny_as_well(rule in rule(), call in call()) {
        let allows = policy(&[Written::of("allow", &rule)]);
        let denies = policy(&[Written::of("deny", &rule)]);
        if answer(&[&allows], Mode::Default, &call).verdict == Verdict::Allow {
            let denied = answer(&[&denies], Mode::Default, &call).verdict;
            prop_assert_eq!(denied, Verdict::Deny, "`{}`", rule);
        }
    }
}
