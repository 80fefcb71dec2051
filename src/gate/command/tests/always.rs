//! What lasting approvals are offered.
//!
//! Never about the form in which a rule is stored.

use super::super::{Reach, analyse, candidates};
use super::TWO_PARSERS;

/// The prefixes that are offered, one for each segment that has one.
fn prefixes(text: &str) -> Vec<String> {
    let all = candidates(&analyse(text)).into_iter();
    let prefixes = all.filter(|one| one.reach == Reach::Prefix);
    prefixes.map(|one| one.words.join(" ")).collect()
}

fn exact(text: &str) -> Vec<String> {
    let all = candidates(&analyse(text)).into_iter();
    let exact = all.filter(|one| one.reach == Reach::Exact);
    exact.map(|one| one.words.join(" ")).collect()
}

#[test]
fn prefixes_say_what_is_done() {
    if !TWO_PARSERS {
        return;
    }
    for (row, text, prefix) in [
        ("B46", "gh pr view 1", "gh pr"),
        ("B70", "./gradlew x", "./gradlew"),
        ("B127", "ls -la /a/b", "ls -la"),
        ("arity", "git commit -m x", "git commit -m"),
        ("arity", "git log --oneline a", "git log --oneline"),
        ("arity", "npm run test -- --watch", "npm run test"),
        ("arity", "cargo test a", "cargo test"),
        ("arity", "docker compose up -d", "docker compose up -d"),
        ("wrapped", "timeout 5 cargo test a", "cargo test"),
    ] {
        assert_eq!(prefixes(text), [prefix], "{row}: {text}");
    }
}

#[test]
fn no_prefix_is_offered_for_what_may_run_anything() {
    for text in [
        "python3 -c x",
        "python3.12 a.py",
        "node a.js",
        "bash a.sh",
        "rm -rf a",
        "dd if=a",
        "chmod +x a",
        "npx a",
        "pnpm dlx a",
        "uv run a",
        "git",
        "docker",
        "kubectl",
        "git -C a status",
        "sudo ls",
        "/usr/bin/python3 a",
        "env ls",
        "find . -delete",
        "git --version",
        "cargo run a",
    ] {
        assert_eq!(prefixes(text), Vec::<String>::new(), "{text}");
    }
}

#[test]
fn nothing_is_offered_while_a_part_is_open() {
    for (row, text) in [
        ("B122", "for icon in a b c; do echo $icon; done"),
        ("B122", "f() { ls; }"),
        ("B46", "GH_TOKEN=t gh api x"),
        ("here", "cat <<'E'\na\nE\n"),
        ("here", "cat <<< a"),
        ("redirect", "ls > a"),
        ("dynamic", "ls $a"),
        ("opaque", "eval ls"),
        ("opaque", "ls; ((a))"),
        ("control", "ls $'a\\nb'"),
        ("unparsable", "ls 'a"),
    ] {
        assert_eq!(candidates(&analyse(text)), Vec::new(), "{row}: {text}");
    }
}

#[test]
fn each_segment_has_its_own_offer() {
    if !TWO_PARSERS {
        return;
    }
    let offered = candidates(&analyse("cd p && git status && grep -r v ."));
    let of = |segment| {
        let mine = offered.iter().filter(move |one| one.segment == segment);
        mine.map(|one| (one.reach, one.words.join(" ")))
            .collect::<Vec<_>>()
    };
    assert_eq!(of(0), [], "B124: never for a change of directory");
    assert_eq!(
        of(1),
        [
            (Reach::Exact, "git status".to_owned()),
            (Reach::Prefix, "git status".to_owned())
        ]
    );
    assert_eq!(
        of(2),
        [
            (Reach::Exact, "grep -r v .".to_owned()),
            (Reach::Prefix, "grep -r".to_owned())
        ],
        "B125"
    );
    assert_eq!(exact("timeout 5 psql -c 'a b'"), ["psql -c a b"], "B128");
}
