//! What both parsers make of words, redirections and odd texts.
//!
//! Never about rules.

use super::super::precheck::branches;
use super::super::{Opaque, RedirectionKind, WordKind, analyse, limits, precheck};
use super::{expected, sees, understood};

/// The words of the first command, with how much of each is known.
fn words(text: &str) -> Vec<(String, WordKind)> {
    let analysis = analyse(text);
    let segment = analysis.segments.into_iter().next().unwrap();
    let words = segment.words.into_iter();
    words.map(|word| (word.text, word.kind)).collect()
}

#[test]
fn words_lose_their_quotes() {
    for (text, word) in [
        ("a", "a"),
        ("'a b'", "a b"),
        ("\"a b\"", "a b"),
        ("a\\ b", "a b"),
        ("a\\\nb", "ab"),
        ("\"a\\\nb\"", "ab"),
        ("'a\\nb'", "a\\nb"),
        ("\"a\\nb\"", "a\\nb"),
        ("\"\\$a \\` \\\" \\\\\"", "$a ` \" \\"),
        ("$'a\\nb'", "a\nb"),
        ("$'\\x41\\102\\u0043\\U00000044'", "ABCD"),
        ("$'\\'\\\"\\\\\\?'", "'\"\\?"),
        ("$'\\e\\a'", "\u{1b}\u{7}"),
        ("$'a\\0b'", "a"),
        ("$'\\xc3\\xa9'", "\u{e9}"),
        ("$'\\q'", "\\q"),
        ("a'b'\"c\"\\d", "abcd"),
        ("\"\"", ""),
        ("''", ""),
        ("\\~", "~"),
        ("'~'", "~"),
        ("'*'", "*"),
        ("\\*", "*"),
        ("\"{a,b}\"", "{a,b}"),
        ("{}", "{}"),
        ("stash@{0}", "stash@{0}"),
        ("a~b", "a~b"),
        ("~/x", "~/x"),
        ("9", "9"),
        ("\"$\"", "$"),
        ("\" a  b \"", " a  b "),
        ("\u{e9}", "\u{e9}"),
        ("a=b", "a=b"),
        ("--a=b", "--a=b"),
    ] {
        let text = format!("echo {text} end");
        let literal = |text: &str| (text.to_owned(), WordKind::Literal);
        assert_eq!(
            words(&text),
            [literal("echo"), literal(word), literal("end")],
            "{text}"
        );
    }
}

#[test]
fn words_that_the_shell_changes_are_marked() {
    for (text, kind) in [
        ("*.rs", WordKind::Pattern),
        ("a?", WordKind::Pattern),
        ("[ab]", WordKind::Pattern),
        ("\"a\"*", WordKind::Pattern),
        ("$a", WordKind::Dynamic),
        ("\"$a\"", WordKind::Dynamic),
        ("${a}", WordKind::Dynamic),
        ("${a:-b}", WordKind::Dynamic),
        ("$(a)", WordKind::Dynamic),
        ("`a`", WordKind::Dynamic),
        ("$((1))", WordKind::Dynamic),
        ("<(a)", WordKind::Dynamic),
        ("{a,b}", WordKind::Dynamic),
        ("{1..3}", WordKind::Dynamic),
        ("a{b,c}d", WordKind::Dynamic),
        ("~root", WordKind::Dynamic),
        ("~+", WordKind::Dynamic),
        ("a=~/b", WordKind::Dynamic),
        ("a=b:~/c", WordKind::Dynamic),
        ("$\"a\"", WordKind::Dynamic),
        ("$'\\xff'", WordKind::Dynamic),
        ("$'\\u00e9'", WordKind::Dynamic),
        ("$@", WordKind::Dynamic),
        ("$1", WordKind::Dynamic),
    ] {
        let text = format!("echo {text}");
        let found = words(&text).get(1).map(|(_, kind)| *kind);
        assert_eq!(found, Some(kind), "{text}");
    }
}

#[test]
fn both_parsers_agree_on_ordinary_commands() {
    for text in [
        "echo \"a $b c\"",
        "echo \"$a$b\" '$c' $d/e",
        "echo $(ls -l) `pwd` \"$(id)\"",
        "echo ${a} ${b:-c} ${#d} ${e%.*} \"${f[@]}\"",
        "a=b c=\"d e\" ls",
        "a=b",
        "a=b c=d; echo $a",
        "export a=b c",
        "cat a | grep -v b | sort -u > c 2>> d",
        "ls -la && cd a || exit 1",
        "(cd a && ls) > /dev/null 2>&1",
        "for f in *.rs; do wc -l \"$f\"; done",
        "while read -r a; do echo $a; done < b",
        "if [ -f a ] && [ \"$b\" = c ]; then ls; elif true; then pwd; else id; fi",
        "case $a in b|c) ls ;; *) pwd ;; esac",
        "diff <(ls a) <(ls b)",
        "cat <<E > a\nb $c\nE\n",
        "cat <<'E'\na 'b' \"c\" $d `e`\nE\n",
        "cat <<-E\n\ta\n\tE\nls",
        "grep a <<< \"$b\"",
        "find . -name '*.rs' -exec grep -l a {} +",
        "git commit -m \"a\n\nb\"",
        "python3 -c 'import os; print(os.name)'",
        "a() { ls; }",
        "sleep 1 & wait",
        "echo a; echo b;",
        "time ls",
        "! ls",
        "echo $((1 + 2))",
    ] {
        let why = understood(text);
        let reads_alike = why != Err(Opaque::Disagreement) && why != Err(Opaque::Unparsable);
        assert!(reads_alike, "{text}: {why:?}");
    }
}

#[test]
fn texts_that_cannot_be_trusted_say_why() {
    for (text, why) in [
        ("", Opaque::Empty),
        ("  \n", Opaque::Empty),
        ("# a", Opaque::Empty),
        ("ls \u{202e}a", Opaque::ForbiddenCharacter),
        ("ls \u{200b}", Opaque::ForbiddenCharacter),
        ("ls \0", Opaque::ForbiddenCharacter),
        ("ls \r\n", Opaque::ForbiddenCharacter),
        ("ls \u{1b}[1m", Opaque::ForbiddenCharacter),
        ("ls 99999999999>f", Opaque::HugeDescriptor),
        ("ls 2147483648>&1", Opaque::HugeDescriptor),
        ("ls >&2147483648", Opaque::HugeDescriptor),
        ("ls 'a", Opaque::Unparsable),
        ("ls )", Opaque::Unparsable),
        ("if ls", Opaque::Unparsable),
        ("((a))", Opaque::Arithmetic),
        ("for ((i=0;i<3;i++)); do ls; done", Opaque::Arithmetic),
        ("[[ -f a ]]", Opaque::ExtendedTest),
        ("a() { ls; }", Opaque::DefinesFunction),
        ("coproc ls", Opaque::Coprocess),
        ("for PATH in a; do ls; done", Opaque::SetsVariable),
    ] {
        assert_eq!(understood(text), Err(why), "{text:?}");
    }
    assert_eq!(understood("ls"), expected(Ok(())));
}

#[test]
fn the_limits_hold_where_they_say() {
    let nested = |levels: usize| format!("{}ls{}", "(".repeat(levels), ")".repeat(levels));
    let deepest = usize::from(limits::NESTING_MAX);
    assert_eq!(precheck(&nested(deepest)), Ok(()));
    assert_eq!(precheck(&nested(deepest + 1)), Err(Opaque::TooDeep));
    let pairs = "()".repeat(limits::OPENERS_MAX);
    assert_eq!(precheck(&pairs), Ok(()));
    assert_eq!(precheck(&format!("{pairs}(")), Err(Opaque::TooDeep));
    let closers = ")".repeat(limits::OPENERS_MAX);
    assert_eq!(precheck(&closers), Ok(()));
    assert_eq!(precheck(&format!("{closers}]")), Err(Opaque::TooDeep));
    let keywords = "if ".repeat(deepest + 1);
    assert_eq!(precheck(&keywords), Err(Opaque::TooDeep));
    assert_eq!(precheck(&"a".repeat(limits::TEXT_BYTES_MAX)), Ok(()));
    assert_eq!(
        precheck(&"a".repeat(limits::TEXT_BYTES_MAX + 1)),
        Err(Opaque::TooLong)
    );
    let row = "a;".repeat(limits::SEGMENTS_MAX);
    assert_eq!(precheck(&row), Ok(()));
    assert_eq!(precheck(&format!("{row}a;a")), Err(Opaque::TooManySegments));
}

#[test]
fn redirections_say_what_they_write() {
    let cases = [
        ("ls > a", Some((RedirectionKind::Write, Some("a")))),
        ("ls >> a", Some((RedirectionKind::Append, Some("a")))),
        ("ls >| a", Some((RedirectionKind::Write, Some("a")))),
        ("ls &> a", Some((RedirectionKind::Write, Some("a")))),
        ("ls &>> a", Some((RedirectionKind::Append, Some("a")))),
        ("ls >& a", Some((RedirectionKind::Write, Some("a")))),
        ("ls <> a", Some((RedirectionKind::ReadWrite, Some("a")))),
        ("ls 2> 'a b'", Some((RedirectionKind::Write, Some("a b")))),
        ("ls < a", Some((RedirectionKind::Read, None))),
        (
            "ls < /dev/tcp/a/1",
            Some((RedirectionKind::Read, Some("/dev/tcp/a/1"))),
        ),
        ("ls > /dev/null", Some((RedirectionKind::Write, None))),
        ("ls 2>&1", Some((RedirectionKind::Duplicate, None))),
        ("ls 2>&-", Some((RedirectionKind::Duplicate, None))),
        ("ls > $a", Some((RedirectionKind::Write, None))),
        ("ls <<< a", Some((RedirectionKind::HereString, None))),
        ("ls", None),
    ];
    for (text, redirection) in cases {
        let analysis = analyse(text);
        let segment = analysis.segments.first().unwrap();
        let found = segment
            .redirections
            .first()
            .map(|one| (one.kind, one.written()));
        assert_eq!(found, redirection, "{text}");
    }
}

#[test]
fn only_what_may_be_a_bracket_counts_as_one() {
    for (text, count) in [
        ("ls", 0),
        ("(ls)", 1),
        ("case a in a) ls ;; esac", 1),
        ("awk '{print (1)}' \"(a)\" \\( $a '('", 0),
        ("echo $(ls) '('", 2),
        ("echo \"${a}(\" '('", 3),
        ("echo $'\\'' '('", 1),
        ("# ' (", 1),
        ("cat <<E\n'(\nE\n", 1),
        ("echo '(", 1),
        ("echo 'case' case", 1),
    ] {
        assert_eq!(branches(text), count, "{text}");
    }
}

#[test]
fn what_could_take_for_ever_is_read_by_one_parser_only() {
    let allowed = limits::BRANCHES_MAX;
    let nested = |levels: usize| format!("{}rm x;{}", "( ".repeat(levels), " )".repeat(levels));
    for levels in [allowed, allowed + 1, 2 * allowed] {
        let analysis = analyse(&nested(levels));
        assert!(sees(&analysis, "rm x"), "{levels}");
    }
    assert_eq!(understood(&nested(allowed + 1)), Err(Opaque::TooDeep));
}
