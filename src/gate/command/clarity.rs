//! Whether it is known which programs a command runs, though no rule may be able to allow it.
//!
//! What writes to a file or takes a variable as an argument is clear: its program is known. What hides
//! a program is not, and is asked about in every mode. Never says whether a rule may match.

use super::acting::minds_options;
use super::allow::{WRAPPERS_MAX, has_pattern, is_safe, is_safe_name, may_become_option};
use super::peel::{Lift, basename, is_assignment, peel};
use super::reading::Simple;
use super::reason::AskReason;
use super::view::adds_words;
use super::word::WordKind;

/// How much is known of what a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clarity {
    /// The program and all of its words.
    Known,
    /// The program, by its name; not all of its words.
    OpenWords(String),
    /// Something may run that nobody can name.
    Unclear,
}

/// How much is known of one command, and where its program stands behind wrappers.
pub(super) fn clarity(simple: &Simple) -> (Clarity, usize) {
    let mut at = 0;
    (walk(simple, &mut at), at)
}

fn walk(simple: &Simple, at: &mut usize) -> Clarity {
    if !simple.assignments.iter().all(is_safe) {
        return Clarity::Unclear;
    }
    let all: Vec<String> = simple.words.iter().map(|word| word.text.clone()).collect();
    let mut gets_words = false;
    for _ in 0..WRAPPERS_MAX {
        let argv = all.get(*at..).unwrap_or_default();
        let Some(name) = simple.words.get(*at) else {
            // Nothing but redirections; or a wrapper of nothing, which says what it wraps when it runs.
            return match gets_words {
                true => Clarity::Unclear,
                false => Clarity::Known,
            };
        };
        if name.kind != WordKind::Literal {
            return Clarity::Unclear;
        }
        let (words, inner) = match peel(argv).lift {
            Lift::Plain
            | Lift::Spelled {
                because: AskReason::ActingOption | AskReason::OtherSubCommand,
                ..
            } => return of_program(simple, &all, *at, gets_words),
            Lift::Transparent(words) => (words, words),
            Lift::Spelled {
                words,
                because: AskReason::ExecWrapper,
                inner: Some(inner),
            } => (words, inner),
            Lift::Spelled { .. } | Lift::Never(_) => return Clarity::Unclear,
        };
        let is_known = (*at..*at + words.max(inner)).all(|word| is_literal(simple, word));
        if !is_known || has_pattern(simple, *at, words) {
            return Clarity::Unclear;
        }
        let sets = argv.get(1..inner).unwrap_or_default();
        let sets = sets
            .iter()
            .any(|word| is_assignment(word) && !is_safe_name(word));
        if sets || adds_words(argv) && replaces_program(argv, inner) {
            return Clarity::Unclear;
        }
        gets_words |= adds_words(argv);
        *at += inner;
    }
    Clarity::Unclear
}

/// Whether `xargs` puts what it reads in the place of its program, as in `xargs -I{} {} x`.
fn replaces_program(argv: &[String], inner: usize) -> bool {
    let program = argv.get(inner).map_or("", String::as_str);
    let options = argv.get(1..inner).unwrap_or_default().iter().enumerate();
    let mut marks = options.filter_map(|(at, word)| {
        let next = || argv.get(at + 2).map_or("", String::as_str);
        let attached = ["--replace=", "-I", "-J", "-i"]
            .iter()
            .find_map(|name| word.strip_prefix(name));
        match (word.as_str(), attached) {
            ("-I" | "-J", _) => Some(next()),
            ("-i" | "--replace", _) => Some("{}"),
            (_, attached) => attached,
        }
    });
    marks.any(|mark| program.contains(mark))
}

fn is_literal(simple: &Simple, at: usize) -> bool {
    let word = simple.words.get(at);
    word.is_none_or(|word| word.kind == WordKind::Literal)
}

/// A program without wrappers, at a position.
fn of_program(simple: &Simple, all: &[String], at: usize, gets_words: bool) -> Clarity {
    let argv = all.get(at..).unwrap_or_default();
    let words = simple.words.get(at..).unwrap_or_default();
    let is_open = gets_words || words.iter().any(|word| word.kind == WordKind::Dynamic);
    if may_become_option(simple, all, at) || is_open && minds_options(argv) {
        return Clarity::Unclear;
    }
    match argv.first() {
        Some(name) if is_open => Clarity::OpenWords(basename(name).to_owned()),
        Some(_) | None => Clarity::Known,
    }
}
