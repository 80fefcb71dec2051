//! Options with which a program that mostly reads deletes, writes or runs another.
//!
//! Never says what an option does, only that a rule must spell it, and what text it may run.

use super::builtins::{ACTING, FOREIGN, FOREIGN_OPERAND, MAKE_RUNS, RUNNING, SHELLS, TAR_RUNS};
use super::peel::{Inner, Lift, basename, program};
use super::reason::AskReason;
use super::sed;

/// The options of some programs.
type Options = [(&'static str, &'static [&'static str])];

/// What an allow rule must do to cover a program with these options.
pub(super) fn lift_of_options(argv: &[String], names: &[String]) -> Lift {
    if runs_text_without_option(argv) {
        return Lift::Spelled {
            words: argv.len(),
            because: AskReason::RunsText,
            inner: None,
        };
    }
    let is_named = |program: &str| names.iter().any(|name| name == program);
    let last = |table| positions(argv, table, is_named).max();
    let (acting, running) = (last(ACTING), last(RUNNING));
    let because = match running {
        Some(_) => AskReason::RunsText,
        None => AskReason::ActingOption,
    };
    match acting.max(running) {
        Some(at) => Lift::Spelled {
            words: at + 1,
            because,
            inner: None,
        },
        None => Lift::Plain,
    }
}

/// Where options of the programs that are named stand.
fn positions(
    argv: &[String],
    table: &'static Options,
    is_named: impl Fn(&str) -> bool,
) -> impl Iterator<Item = usize> {
    let known = table.iter().filter(|(program, _)| is_named(program));
    let options: Vec<&str> = known.flat_map(|(_, options)| *options).copied().collect();
    let words = argv.iter().enumerate().skip(1);
    let given = move |word: &str| options.iter().any(|option| is_option(word, option));
    words.filter(move |(_, word)| given(word)).map(|(at, _)| at)
}

/// Whether a word gives an option, also bundled or with its value.
fn is_option(word: &str, option: &str) -> bool {
    if word == option {
        return true;
    }
    if option.starts_with("--") {
        return is_long_option(word, option);
    }
    let bundled = word.starts_with('-') && !word.starts_with("--") && option.len() == 2;
    bundled
        && option
            .chars()
            .nth(1)
            .is_some_and(|letter| word.contains(letter))
}

/// Whether a word gives a long option, which may be cut off as long as it is clear.
pub(super) fn is_long_option(word: &str, option: &str) -> bool {
    let name = word.split('=').next().unwrap_or(word);
    name.len() > 2 && name.starts_with("--") && option.starts_with(name)
}

/// The program by its name, and by its name with its sub-command.
pub(super) fn names_of(argv: &[String], sub: usize) -> [String; 2] {
    let name = argv.first().map_or("", |name| basename(name));
    let sub = argv.get(sub).map_or("", String::as_str);
    [name.to_owned(), format!("{name} {sub}")]
}

/// Whether options or sub-commands decide what this program does.
pub(super) fn minds_options(argv: &[String]) -> bool {
    let names = names_of(argv, 1);
    let mut tables = ACTING.iter().chain(RUNNING);
    let acts = tables.any(|(program, _)| names.iter().any(|name| name == program));
    acts || program(argv).is_some() || SHELLS.contains(&names.first().map_or("", String::as_str))
}

/// What stands behind the letter of an option among other letters, as `x` in `-fx`.
pub(super) fn bundled_value<'a>(word: &'a str, option: &str) -> Option<&'a str> {
    let letters = word
        .strip_prefix('-')
        .filter(|rest| !rest.starts_with('-'))?;
    let (before, value) = letters.split_once(option.chars().nth(1)?)?;
    let are_flags = before.chars().all(|letter| letter.is_ascii_alphabetic());
    are_flags.then_some(value)
}

/// A name without its version, as `python` of `python3.12`.
pub(super) fn unversioned(name: &str) -> &str {
    name.trim_end_matches(|last: char| last.is_ascii_digit() || ".-".contains(last))
}

/// Texts that the program may run because of its options: commands, and code of other languages.
pub(super) fn texts(argv: &[String]) -> Vec<Inner> {
    let Some(name) = argv.first().map(|name| basename(name)) else {
        return Vec::new();
    };
    let base = unversioned(name);
    let is_named = |program: &str| {
        // Nearly always false, and then nothing else is looked at.
        program.starts_with(base)
            && match program.split_once(' ') {
                Some((program, sub)) => {
                    program == name && argv.iter().skip(1).any(|word| word == sub)
                }
                None => program == name || program == base,
            }
    };
    let values = |table| positions(argv, table, is_named).flat_map(|at| values_at(argv, at));
    let mut texts: Vec<Inner> = values(RUNNING).map(Inner::Script).collect();
    texts.extend(values(FOREIGN).map(Inner::Foreign));
    if FOREIGN_OPERAND.contains(&name) {
        let operand = argv.iter().skip(1).find(|word| !word.starts_with('-'));
        texts.extend(operand.cloned().map(Inner::Foreign));
    }
    if is_make(name) {
        let set = argv.iter().filter_map(|word| word.split_once('='));
        for (_, value) in set {
            // `$(shell rm x)` is no shell's.
            texts.push(Inner::Foreign(value.to_owned()));
            texts.push(Inner::Script(value.to_owned()));
        }
    }
    if base == "perl" {
        let files = argv.iter().skip(1).filter(|word| is_pipe(word));
        texts.extend(files.map(|file| Inner::Script(file.trim_matches(['|', ' ']).to_owned())));
    }
    if bundles_a_running_option(argv) {
        texts.extend(argv.iter().skip(2).cloned().map(Inner::Script));
    }
    texts
}

/// What may be the value of the option at a position: what is attached, and the next word.
fn values_at(argv: &[String], at: usize) -> impl Iterator<Item = String> {
    let word = argv.get(at).map_or("", String::as_str);
    let attached = match word.split_once('=') {
        Some((_, value)) => Some(value),
        None if word.starts_with("--") => None,
        // Which letter is the option's does not matter: the rest of each is looked at.
        None => word.get(2..).filter(|value| !value.is_empty()),
    };
    let next = argv.get(at + 1).cloned();
    attached.map(str::to_owned).into_iter().chain(next)
}

/// Whether a program runs a part of its words that is no option's value.
fn runs_text_without_option(argv: &[String]) -> bool {
    let name = argv.first().map_or("", |name| basename(name));
    let words = argv.get(1..).unwrap_or_default();
    let sets_shell = |word: &String| {
        let set = word.split_once('=').map(|(variable, _)| variable);
        set.is_some_and(|variable| MAKE_RUNS.contains(&variable.trim_end_matches([':', '+', '?'])))
    };
    match name {
        "sed" | "gsed" => sed::may_run(words),
        _ if unversioned(name) == "perl" => words.iter().any(|word| is_pipe(word)),
        _ if is_make(name) => words.iter().any(sets_shell),
        _ => bundles_a_running_option(argv),
    }
}

/// Whether `perl` takes the name of a file for a command whose output it reads, or that reads its own.
fn is_pipe(file: &str) -> bool {
    file.trim_end().ends_with('|') || file.trim_start().starts_with('|')
}

fn is_make(name: &str) -> bool {
    matches!(name, "make" | "gmake" | "bmake")
}

/// Whether `tar` is given options without a dash, as in `tar xIf`, and one that runs a program.
fn bundles_a_running_option(argv: &[String]) -> bool {
    let is_tar = argv
        .first()
        .is_some_and(|name| matches!(basename(name), "tar" | "gtar" | "bsdtar"));
    let letters = argv.get(1).filter(|word| !word.starts_with('-'));
    let is_given = |letters: &String| {
        let mut short = TAR_RUNS.iter().filter(|option| option.len() == 2);
        short.any(|option| {
            option
                .get(1..)
                .is_some_and(|letter| letters.contains(letter))
        })
    };
    is_tar && letters.is_some_and(is_given)
}
