//! Whether it is known which programs a command runs, though no rule may be able to allow it.
//!
//! What writes to a file or takes a variable as an argument is clear: its program is known. What hides
//! a program is not, and is asked about in every mode. Never says whether a rule may match.

use super::acting::{minds_options, texts};
use super::allow::{WRAPPERS_MAX, has_pattern, is_safe, is_safe_name, may_become_option};
use super::peel::{Inner, Lift, basename, peel};
use super::reading::Simple;
use super::reason::AskReason;
use super::told::reads_code;
use super::view::adds_words;
use super::word::{Word, WordKind};

/// A program that gets words which are not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenProgram {
    /// Its name, without a path.
    pub name: String,
    /// How those words begin. Empty: they may be any.
    pub beginnings: Vec<String>,
    /// The patterns of file names among them, as written.
    pub patterns: Vec<String>,
}

/// How much is known of what a command runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Clarity {
    /// The program and all of its words.
    Known,
    /// The program; not all of its words.
    OpenWords(OpenProgram),
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
    let mut replaced: Vec<String> = Vec::new();
    for _ in 0..WRAPPERS_MAX {
        let argv = all.get(*at..).unwrap_or_default();
        let Some(name) = simple.words.get(*at) else {
            // Nothing but redirections; or a wrapper of nothing, which says what it wraps when it runs.
            return match gets_words {
                true => Clarity::Unclear,
                false => Clarity::Known,
            };
        };
        let is_replaced = replaced
            .iter()
            .any(|mark| name.text.contains(mark.as_str()));
        if name.kind != WordKind::Literal || is_replaced || is_open_file(&name.text) {
            return Clarity::Unclear;
        }
        if simple.is_fed && reads_code(argv) {
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
        let is_set = |word: &&String| word.contains('=') && !word.starts_with('-');
        let sets = sets.iter().filter(is_set).any(|word| !is_safe_name(word));
        if sets {
            return Clarity::Unclear;
        }
        if adds_words(argv) {
            gets_words = true;
            replaced.extend(replaced_by(argv, inner));
        }
        *at += inner;
    }
    Clarity::Unclear
}

/// What `xargs` replaces by what it reads, as `{}` in `xargs -I{} rm {}`.
fn replaced_by(argv: &[String], inner: usize) -> Vec<String> {
    let options = argv.get(1..inner).unwrap_or_default().iter().enumerate();
    let marks = options.filter_map(|(at, word)| {
        let attached = ["--replace=", "-I", "-J", "-i"]
            .iter()
            .find_map(|name| word.strip_prefix(name));
        match (word.as_str(), attached) {
            ("-I" | "-J", _) => argv.get(at + 2).cloned(),
            ("-i" | "--replace", _) => Some("{}".to_owned()),
            (_, attached) => attached.map(str::to_owned),
        }
    });
    marks.collect()
}

/// Whether a program is whatever some file that is open holds.
fn is_open_file(name: &str) -> bool {
    ["/dev/fd/", "/dev/std", "/proc/"]
        .iter()
        .any(|place| name.starts_with(place))
}

fn is_literal(simple: &Simple, at: usize) -> bool {
    let word = simple.words.get(at);
    word.is_none_or(|word| word.kind == WordKind::Literal)
}

/// Whether the word is code in another language that the program runs.
fn runs_code(argv: &[String], word: &str) -> bool {
    let mut texts = texts(argv).into_iter();
    texts.any(|text| matches!(text, Inner::Foreign(code) if code == word))
}

/// Whether a word more would be code, as behind `python3 -c`.
fn runs_next_word(argv: &[String]) -> bool {
    let next = String::from("CALLGATE");
    let longer: Vec<String> = argv.iter().cloned().chain([next.clone()]).collect();
    runs_code(&longer, &next)
}

/// A program without wrappers, at a position.
fn of_program(simple: &Simple, all: &[String], at: usize, gets_words: bool) -> Clarity {
    let argv = all.get(at..).unwrap_or_default();
    let words = simple.words.get(at..).unwrap_or_default();
    let dynamic = words.iter().filter(|word| word.kind == WordKind::Dynamic);
    let dynamic: Vec<&Word> = dynamic.collect();
    let is_added_to = gets_words || !dynamic.is_empty();
    let is_unclear = simple.is_fed && reads_code(argv)
        || may_become_option(simple, all, at)
        || is_added_to && minds_options(argv)
        || gets_words && runs_next_word(argv)
        || dynamic.iter().any(|word| runs_code(argv, &word.text));
    if is_unclear {
        return Clarity::Unclear;
    }
    let mut beginnings = beginnings(words);
    let Some(name) = argv
        .first()
        .filter(|_| is_added_to || !beginnings.is_empty())
    else {
        return Clarity::Known;
    };
    if is_added_to || beginnings.iter().any(String::is_empty) {
        beginnings.clear();
    }
    Clarity::OpenWords(OpenProgram {
        name: basename(name).to_owned(),
        beginnings,
        patterns: words
            .iter()
            .filter(|word| word.kind == WordKind::Pattern)
            .map(|word| word.text.clone())
            .collect(),
    })
}

/// What the names of the files that patterns stand for begin with.
fn beginnings(words: &[Word]) -> Vec<String> {
    let operands = words.iter().position(|word| word.text == "--");
    let patterns = words.iter().enumerate();
    let patterns = patterns.filter(|(_, word)| word.kind == WordKind::Pattern);
    let beginnings = patterns.map(|(at, word)| {
        let end = word.text.find(['*', '?', '[', '{', '+', '@', '!']);
        let fixed = word.text.get(..end.unwrap_or(0)).unwrap_or_default();
        let is_operand = operands.is_some_and(|operands| operands < at);
        match fixed {
            // Behind `--` it is at least no option.
            "" if is_operand => None,
            // A file's name could be an option.
            _ if fixed.starts_with('-') => Some(String::new()),
            _ => Some(fixed.to_owned()),
        }
    });
    beginnings.flatten().collect()
}
