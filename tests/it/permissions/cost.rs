//! What a decision costs, counted in index probes and rules looked at.
//!
//! Never measures time.

use callgate::gate::permission::{
    Aliases, CommandSubject, Grants, LoadOptions, Mode, Policy, RuleEntry, Source, SourceRules,
    SourceText, Trust, Verdict,
};
use callgate::gate::tool::Kind;
use callgate::gate::tool::SubjectKind;

use super::build::{decide, situation, subject};

/// `count` rules of each of the lists, made by `rule`.
fn rules(count: usize, rule: &dyn Fn(usize) -> String) -> Policy {
    let lists = [Verdict::Deny, Verdict::Ask, Verdict::Allow];
    let entries = (0..count).map(|number| {
        let list = lists[number % lists.len()];
        (list, RuleEntry::of_text(rule(number)))
    });
    let text = SourceText {
        source: Source::User,
        file: None,
        root: None,
        rules: SourceRules {
            entries: entries.collect(),
            max_mode: None,
        },
    };
    let options = LoadOptions {
        aliases: &Aliases::default(),
        trust: Trust::Trusted,
        subject_of: &|_| None,
        read_command: &CommandSubject::plain,
    };
    Policy::load(vec![text], &options, 1).unwrap().policy
}

/// What one decision costs with that policy.
fn looks(policy: &Policy, tool: &str, kind: SubjectKind, text: &str) -> u32 {
    let grants = Grants::default();
    let policies = [policy];
    let situation = situation(Mode::Default, &policies, &grants);
    let answer = decide(tool, Kind::Other, &subject(kind, text), &situation);
    assert_eq!(answer.verdict, Verdict::Ask, "no rule matches");
    answer.looks
}

#[test]
fn ten_thousand_rules_cost_less_than_twice_ten() {
    type Shape = (&'static str, SubjectKind, &'static str, fn(usize) -> String);
    let shapes: [Shape; 9] = [
        ("run", SubjectKind::Command, "git push origin main", |n| {
            format!("run(git sub{n} *)")
        }),
        ("run", SubjectKind::Command, "git push origin main", |n| {
            format!("run(prog{n}:*)")
        }),
        ("run", SubjectKind::Command, "git push origin main", |n| {
            format!("run(git push b{n})")
        }),
        ("run", SubjectKind::Command, "git push origin main", |n| {
            format!("tool{n}")
        }),
        ("mcp__a__b", SubjectKind::Text, "x", |n| {
            format!("mcp__server{n}__*")
        }),
        ("read", SubjectKind::Path, "src/a/b.rs", |n| {
            format!("read(src/dir{n}/**)")
        }),
        ("read", SubjectKind::Path, "src/a/b.rs", |n| {
            format!("read(name{n})")
        }),
        ("read", SubjectKind::Path, "src/a/b.rs", |n| {
            format!("read(*.ext{n})")
        }),
        ("get", SubjectKind::Url, "https://a.b.example.com/", |n| {
            format!("get(domain:*.host{n}.example.com)")
        }),
    ];
    for (tool, kind, text, rule) in shapes {
        let few = looks(&rules(10, &rule), tool, kind, text);
        let many = looks(&rules(10_000, &rule), tool, kind, text);
        assert!(
            few > 0 && many < 2 * few,
            "`{}`: {few} with 10, {many} with 10,000",
            rule(0)
        );
    }
}
