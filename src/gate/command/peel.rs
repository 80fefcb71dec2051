//! Takes one wrapper off an argument vector.
//!
//! For deny and ask every command that may stand inside counts; for allow only what is certain.
//! Never parses: a script inside is handed back as text.

use std::collections::BTreeSet;

use super::acting::{bundled_value, is_long_option, lift_of_options, names_of, texts, unversioned};
use super::builtins::{CHANGING, EVALUATING, FD_EXEC, FIND_EXEC, SHELLS, SUBSCRIPTING};
use super::limits;
use super::programs::{NONE, Named, Program, Role, programs_called};
use super::reason::AskReason;

/// What a command runs besides itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inner {
    /// Another program with its arguments.
    Argv(Vec<String>),
    /// A script for a shell.
    Script(String),
    /// Code in another language, in which commands can be looked for but not understood.
    Foreign(String),
}

/// What an allow rule must do to cover a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lift {
    /// Nothing special.
    Plain,
    /// Look at the command that starts at this word instead.
    Transparent(usize),
    /// Spell this many words, because of this, and whatever the command at `inner` needs.
    Spelled {
        words: usize,
        because: AskReason,
        inner: Option<usize>,
    },
    /// No rule can.
    Never(AskReason),
}

/// One wrapper, taken off.
#[derive(Debug)]
pub(super) struct Peel {
    pub(super) inner: Vec<Inner>,
    pub(super) lift: Lift,
    /// Whether there may be more inside than [`limits::STARTS_MAX`] commands.
    pub(super) cut: bool,
}

impl Peel {
    pub(super) fn plain() -> Peel {
        Peel::new(Vec::new(), Lift::Plain)
    }

    fn never(inner: Vec<Inner>, why: AskReason) -> Peel {
        Peel::new(inner, Lift::Never(why))
    }

    pub(super) fn new(inner: Vec<Inner>, lift: Lift) -> Peel {
        Peel {
            inner,
            lift,
            cut: false,
        }
    }
}

/// The last part of a path.
pub(in crate::gate) fn basename(name: &str) -> &str {
    name.rsplit('/').next().unwrap_or(name)
}

/// Takes the outermost wrapper off, if there is one.
pub(super) fn peel(argv: &[String]) -> Peel {
    let Some(name) = argv.first().map(|name| basename(name)) else {
        return Peel::plain();
    };
    let mut peeled = match name {
        _ if is_shell(name) || is_own_program(argv) => shell(argv),
        "find" | "gfind" => running_options(argv, FIND_EXEC),
        "fd" | "fdfind" => running_options(argv, FD_EXEC),
        "eval" => Peel::never(vec![joined(argv, 1)], AskReason::Evaluates),
        "trap" => Peel::never(trap(argv), AskReason::Evaluates),
        "alias" => Peel::never(aliased(argv), AskReason::ChangesShell),
        "command" if is_lookup(argv) => Peel::plain(),
        "set" if only_stops_at_errors(argv) => Peel::plain(),
        _ if name.starts_with("git-") => git_program(argv, name),
        // What is left of a keyword: its options, or the keyword itself.
        _ if name == "!" || name.starts_with('-') => {
            let inner = argv.iter().skip(1).cloned().collect();
            Peel::never(vec![Inner::Argv(inner)], AskReason::UnknownOption)
        }
        _ if is_loader(name) => through(argv, &LOADER, 1),
        _ => match program(argv) {
            Some((program, base)) => through(argv, program, base),
            None if EVALUATING.contains(&name) => {
                Peel::never(callbacks(argv), AskReason::Evaluates)
            }
            None if CHANGING.contains(&name) => {
                Peel::never(callbacks(argv), AskReason::ChangesShell)
            }
            None => Peel::new(Vec::new(), lift_of_options(argv, &names_of(argv, 1))),
        },
    };
    peeled.inner.extend(texts(argv));
    if name == "git" {
        peeled.inner.extend(shell_aliases(argv));
    }
    if SUBSCRIPTING.contains(&name) {
        subscripts(argv, &mut peeled);
    }
    peeled
}

/// A shell, also of a version, as `bash-5.2`.
fn is_shell(name: &str) -> bool {
    SHELLS.contains(&unversioned(name))
}

/// Whether it is the shell itself by the name of its process, as `/proc/self/exe`.
fn is_own_program(argv: &[String]) -> bool {
    let name = argv.first().map_or("", String::as_str);
    name.starts_with("/proc/") && name.ends_with("/exe")
}

/// Values behind an exclamation mark, as settings of git have them: scripts.
fn shell_aliases(argv: &[String]) -> impl Iterator<Item = Inner> {
    let values = argv.iter().skip(1);
    let values = values.filter_map(|word| match word.strip_prefix('!') {
        Some(script) => Some(script),
        None => word.split_once("=!").map(|(_, script)| script),
    });
    values.map(|script| Inner::Script(script.to_owned()))
}

/// `set -euo pipefail` and the like change when a script stops, and not what its commands mean.
fn only_stops_at_errors(argv: &[String]) -> bool {
    let known = ["-o", "errexit", "nounset", "pipefail", "xtrace"];
    let are_letters = |word: &str| {
        let letters = word.strip_prefix('-').unwrap_or_default();
        !letters.is_empty() && letters.chars().all(|letter| "euxo".contains(letter))
    };
    let mut words = argv.iter().skip(1);
    argv.len() > 1 && words.all(|word| known.contains(&word.as_str()) || are_letters(word))
}

/// A sub-command of git by the name of its program, as `git-push`.
fn git_program(argv: &[String], name: &str) -> Peel {
    let sub = name.trim_start_matches("git-").to_owned();
    let rest = argv.get(1..).unwrap_or_default();
    let inner = [&["git".to_owned(), sub], rest].concat();
    Peel::never(vec![Inner::Argv(inner)], AskReason::UnknownOption)
}

/// `command -v x` says where `x` is and does not run it.
pub(super) fn is_lookup(argv: &[String]) -> bool {
    let option = argv.get(1).map_or("", String::as_str);
    option.starts_with('-') && option.contains(['v', 'V'])
}

/// Whether it is the program that loads other programs.
fn is_loader(name: &str) -> bool {
    name.starts_with("ld-linux") || name.starts_with("ld-musl")
}

const LOADER: Program = Program {
    long_flags: &["--list", "--verify", "--inhibit-cache"],
    long_valued: &["--library-path", "--preload", "--argv0", "--audit"],
    ..NONE
};

/// The program with the longest name that these words begin with, and how many words that is.
pub(super) fn program(argv: &[String]) -> Option<(&'static Program, usize)> {
    let name = basename(argv.first()?);
    let begins = |named: &&Named| {
        let rest = argv.get(1..).unwrap_or_default();
        let mut words = named.rest.iter().enumerate();
        words.all(|(at, word)| rest.get(at).is_some_and(|found| found == word))
    };
    let named = programs_called(name).iter().filter(begins);
    let named = named.map(|named| (named.program, named.rest.len() + 1));
    named.max_by_key(|(_, words)| *words)
}

/// Whether options stand between the program and its sub-command.
pub(super) fn has_options_first(argv: &[String]) -> bool {
    let Some((
        Program {
            role: Role::Global, ..
        },
        words,
    )) = program(argv)
    else {
        return false;
    };
    argv.get(words).is_some_and(|word| word.starts_with('-'))
}

/// Where the command or sub-command behind the options may start.
struct Starts {
    at: BTreeSet<usize>,
    scripts: Vec<String>,
    certain: bool,
    cut: bool,
}

/// Walks over the options. An option that is not known may or may not take the next word: both
/// ways are followed.
fn starts(argv: &[String], program: &Program, base: usize) -> Starts {
    let mut found = Starts {
        at: BTreeSet::new(),
        scripts: Vec::new(),
        certain: true,
        cut: false,
    };
    let mut open = vec![base];
    let mut seen = BTreeSet::new();
    while let Some(at) = open.pop() {
        let Some(word) = argv.get(at) else {
            continue;
        };
        if !seen.insert(at) {
            continue;
        }
        if found.at.len() >= limits::STARTS_MAX || found.scripts.len() >= limits::STARTS_MAX {
            found.cut = true;
            found.certain = false;
            break;
        }
        if word == "--" {
            operands(argv, program, at + 1, &mut found);
        } else if let Some(script) = script_option(argv, program, at) {
            found.scripts.push(script);
            open.push(at + 1);
        } else if word == "-" && program.assignments {
            open.push(at + 1);
        } else if word.starts_with('-') && word.len() > 1 {
            option(word, at, program, &mut open, &mut found.certain);
        } else if (program.assignments && is_assignment(word))
            || (program.role == Role::Global && word.starts_with('+'))
        {
            open.push(at + 1);
        } else {
            operands(argv, program, at, &mut found);
        }
    }
    found
}

/// Skips the operands before the command. Options whose value is a script may stand anywhere.
fn operands(argv: &[String], program: &Program, at: usize, found: &mut Starts) {
    let later = at..argv.len();
    let scripts = later.filter_map(|at| script_option(argv, program, at));
    found.scripts.extend(scripts);
    let mut start = at.saturating_add(program.operands);
    if argv.get(start).is_some_and(|word| word == "--") {
        start += 1;
    }
    let last = match program.anywhere {
        true => argv.len(),
        false => start.saturating_add(1),
    };
    let room = limits::STARTS_MAX.saturating_sub(found.at.len());
    found.at.extend((start..last.min(argv.len())).take(room));
    found.cut |= last.saturating_sub(start) > room;
}

/// The value of an option that takes a script: the next word, or attached.
fn script_option(argv: &[String], program: &Program, at: usize) -> Option<String> {
    let word = argv.get(at)?;
    for option in program.scripts {
        match word.strip_prefix(option) {
            Some("") => return argv.get(at + 1).cloned(),
            Some(value) if value.starts_with('=') => return value.get(1..).map(str::to_owned),
            Some(value) if option.len() == 2 => return Some(value.to_owned()),
            _ => {}
        }
        if option.len() == 2
            && let Some(value) = bundled_value(word, option)
        {
            return match value {
                "" => argv.get(at + 1).cloned(),
                value => Some(value.to_owned()),
            };
        }
        if option.starts_with("--") && is_long_option(word, option) {
            return match word.split_once('=') {
                Some((_, value)) => Some(value.to_owned()),
                None => argv.get(at + 1).cloned(),
            };
        }
    }
    None
}

fn option(word: &str, at: usize, program: &Program, open: &mut Vec<usize>, certain: &mut bool) {
    if word.starts_with("--") {
        let name = word.split('=').next().unwrap_or(word);
        let valued = program.long_valued.contains(&name);
        let flag = program.long_flags.contains(&name);
        *certain &= valued || flag;
        if word.contains('=') || !valued {
            open.push(at + 1);
        }
        if !word.contains('=') && !flag {
            open.push(at + 2);
        }
        return;
    }
    let mut letters = word.get(1..).unwrap_or_default().chars();
    while let Some(letter) = letters.next() {
        if program.flags.contains(letter) {
            continue;
        }
        let attached = !letters.as_str().is_empty();
        let valued = program.valued.contains(letter);
        *certain &= valued;
        if attached || !valued {
            open.push(at + 1);
        }
        if !attached {
            open.push(at + 2);
        }
        return;
    }
    open.push(at + 1);
}

/// Whether a word would set a variable, standing before a command.
pub(super) fn is_assignment(word: &str) -> bool {
    let Some((name, _)) = word.split_once('=') else {
        return false;
    };
    let name = name.strip_suffix('+').unwrap_or(name);
    let starts = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    starts
        && name
            .chars()
            .all(|next| next.is_ascii_alphanumeric() || next == '_')
}

/// A program of the table.
fn through(argv: &[String], program: &Program, base: usize) -> Peel {
    let found = starts(argv, program, base);
    let mut inner: Vec<Inner> = found.scripts.iter().cloned().map(Inner::Script).collect();
    for start in &found.at {
        match program.role {
            Role::Joined => {
                inner.push(joined(argv, *start));
                let each = argv.iter().skip(*start).filter(|word| word.contains(' '));
                inner.extend(each.cloned().map(Inner::Script));
            }
            Role::Global if *start == base => {}
            Role::Global => {
                let head = argv.get(..base).unwrap_or_default();
                let tail = argv.get(*start..).unwrap_or_default();
                inner.push(Inner::Argv([head, tail].concat()));
                // And with the options where those of the sub-command stand.
                if let (Some(options), [sub, rest @ ..]) = (argv.get(base..*start), tail) {
                    let sub = std::slice::from_ref(sub);
                    inner.push(Inner::Argv([head, sub, options, rest].concat()));
                }
            }
            Role::Transparent | Role::Exec | Role::Evaluates => {
                inner.push(Inner::Argv(argv.iter().skip(*start).cloned().collect()));
            }
        }
    }
    let lift = lift_of(argv, program, &found, base);
    Peel {
        inner,
        lift,
        cut: found.cut,
    }
}

fn lift_of(argv: &[String], program: &Program, found: &Starts, base: usize) -> Lift {
    let all = argv.len();
    let one = match found.at.len() {
        1 if found.certain => found.at.first().copied(),
        _ => None,
    };
    let spelled = |words, because, inner| Lift::Spelled {
        words,
        because,
        inner,
    };
    let bare = argv.first().is_some_and(|name| !name.contains('/'));
    match program.role {
        Role::Evaluates => Lift::Never(AskReason::Evaluates),
        Role::Global => match one {
            Some(start) if is_harmless(argv, program, base, start) => {
                sub_command(argv, program, start)
            }
            Some(start) => spelled(start + 1, AskReason::ConfigOption, None),
            None if found.at.is_empty() => Lift::Plain,
            None => spelled(all, AskReason::ConfigOption, None),
        },
        _ if !found.scripts.is_empty() => spelled(all, AskReason::ExecWrapper, None),
        Role::Joined => spelled(all, AskReason::ExecWrapper, None),
        Role::Transparent | Role::Exec => match one {
            Some(start) if bare && program.role == Role::Transparent => Lift::Transparent(start),
            Some(start) => spelled(start + 1, AskReason::ExecWrapper, Some(start)),
            None if found.at.is_empty() && is_alone(argv, program) => {
                lift_of_options(argv, &names_of(argv, 1))
            }
            None if found.at.is_empty() => spelled(all, AskReason::ExecWrapper, None),
            None => Lift::Never(AskReason::UnknownOption),
        },
    }
}

/// Whether nothing but options without weight stand before the sub-command.
fn is_harmless(argv: &[String], program: &Program, base: usize, start: usize) -> bool {
    let between = argv.get(base..start).unwrap_or_default();
    between
        .iter()
        .all(|word| program.harmless.contains(&word.as_str()))
}

/// Whether a wrapper without a command does no more than tell something.
fn is_alone(argv: &[String], program: &Program) -> bool {
    let tells = argv.len() == 1 && argv.first().is_some_and(|name| name == "env");
    tells || program.operands == usize::MAX
}

fn joined(argv: &[String], from: usize) -> Inner {
    let words = argv.get(from..).unwrap_or_default();
    let words = match words.split_first() {
        Some((first, rest)) if first == "--" => rest,
        _ => words,
    };
    Inner::Script(words.join(" "))
}

/// A shell: its script, or what it would read instead.
fn shell(argv: &[String]) -> Peel {
    let mut at = 1;
    let mut wants_script = false;
    let mut reads_input = false;
    while let Some(word) = argv.get(at) {
        if word == "-" {
            at += 1;
            break;
        }
        let is_option = word.starts_with(['-', '+']) && word.len() > 1;
        if !is_option || word == "--" {
            at += usize::from(is_option);
            break;
        }
        at += 1;
        if let Some(long) = word.strip_prefix("--") {
            wants_script |= long == "command";
            at += usize::from(matches!(long, "rcfile" | "init-file"));
        } else {
            wants_script |= word.starts_with('-') && word.contains('c');
            reads_input |= word.contains('s');
            at += usize::from(word.ends_with(['o', 'O']));
        }
    }
    let attached = argv.iter().find_map(|word| word.strip_prefix("--command="));
    let script = attached.or_else(|| argv.get(at).map(String::as_str));
    match script {
        Some(script) if wants_script || attached.is_some() => Peel::new(
            script_with_arguments(argv, script, at),
            Lift::Spelled {
                words: argv.len(),
                because: AskReason::ExecWrapper,
                inner: None,
            },
        ),
        Some(_) if !reads_input => Peel::new(
            Vec::new(),
            Lift::Spelled {
                words: at + 1,
                because: AskReason::ExecWrapper,
                inner: None,
            },
        ),
        _ => Peel::never(Vec::new(), AskReason::ReadsScript),
    }
}

/// The script, and the arguments that it may run through `"$@"`.
fn script_with_arguments(argv: &[String], script: &str, at: usize) -> Vec<Inner> {
    let mut inner = vec![Inner::Script(script.to_owned())];
    for from in [at + 1, at + 2] {
        let rest = argv.get(from..).unwrap_or_default();
        if !rest.is_empty() {
            inner.push(Inner::Argv(rest.to_vec()));
        }
    }
    inner
}

/// A program with options behind which a command stands.
fn running_options(argv: &[String], options: &[&str]) -> Peel {
    let mut inner = Vec::new();
    let mut spelled = None;
    let mut cut = false;
    for (at, word) in argv.iter().enumerate().skip(1) {
        if options.contains(&word.as_str()) {
            spelled = Some(at + 2);
            cut = inner.len() >= limits::STARTS_MAX;
            if cut {
                break;
            }
            let rest = argv.iter().skip(at + 1);
            let command = rest.take_while(|word| *word != ";" && *word != "+");
            inner.push(Inner::Argv(command.cloned().collect()));
        }
    }
    let acting = lift_of_options(argv, &names_of(argv, 1));
    let lift = match (spelled, acting) {
        (Some(words), Lift::Spelled { words: other, .. }) => Lift::Spelled {
            words: words.max(other),
            because: AskReason::ExecWrapper,
            inner: None,
        },
        (Some(words), _) => Lift::Spelled {
            words,
            because: AskReason::ExecWrapper,
            inner: None,
        },
        (None, other) => other,
    };
    Peel { inner, lift, cut }
}

/// A sub-command that is not known to only read or change files here must be spelled: it may be an
/// alias, or send something.
fn sub_command(argv: &[String], program: &Program, start: usize) -> Lift {
    let name = argv.get(start).map_or("", String::as_str);
    let acting = lift_of_options(argv, &names_of(argv, start));
    let is_plain = program.plain.is_empty() || program.plain.contains(&name);
    if is_plain || acting != Lift::Plain {
        return acting;
    }
    Lift::Spelled {
        words: start + 1,
        because: AskReason::OtherSubCommand,
        inner: None,
    }
}

fn trap(argv: &[String]) -> Vec<Inner> {
    let action = argv.iter().skip(1).find(|word| !word.starts_with('-'));
    action.cloned().map(Inner::Script).into_iter().collect()
}

fn aliased(argv: &[String]) -> Vec<Inner> {
    let values = argv.iter().skip(1).filter_map(|word| word.split_once('='));
    values
        .map(|(_, value)| Inner::Script(value.to_owned()))
        .collect()
}

/// Scripts that a builtin keeps to run them later: behind `-C`, or behind a key.
fn callbacks(argv: &[String]) -> Vec<Inner> {
    let mut inner = Vec::new();
    let pairs = argv.iter().zip(argv.iter().skip(1));
    for (option, value) in pairs {
        if option == "-C" || option == "-F" {
            inner.push(Inner::Script(value.clone()));
        }
    }
    let attached = argv.iter().filter_map(|word| bundled_value(word, "-C"));
    let attached = attached.filter(|value| !value.is_empty());
    inner.extend(attached.map(|value| Inner::Script(value.to_owned())));
    if argv.first().is_some_and(|name| name == "bind") {
        let keys = argv.iter().filter_map(|word| word.split_once(':'));
        inner.extend(keys.map(|(_, value)| Inner::Script(value.to_owned())));
    }
    inner
}

/// Subscripts in the arguments of some builtins are evaluated, substitutions in them included.
fn subscripts(argv: &[String], peeled: &mut Peel) {
    let runs = |word: &&String| word.contains('[') && word.contains(['$', '`']);
    for word in argv.iter().skip(1).filter(runs) {
        // The body of a here-document is looked into without its quotes.
        let script = format!(": <<CALLGATE\n{word}\nCALLGATE\n");
        peeled.inner.push(Inner::Script(script));
    }
    let option = match argv.first().map_or("", |name| basename(name)) {
        "wait" => "-p",
        _ => "-v",
    };
    let names = |word: &String| bundled_value(word, option).is_some() || word == "-R";
    if argv.iter().skip(1).any(names) && peeled.lift == Lift::Plain {
        peeled.lift = Lift::Never(AskReason::Evaluates);
    }
}
