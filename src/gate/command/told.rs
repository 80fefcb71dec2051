//! What of a program's words or input tells it to run something else.
//!
//! An allow rule lets a program do what it does with its files, not whatever its words tell it to run:
//! those words the rule must spell. The lists hold what is widely used; a program that is not in them is
//! taken for one that runs nothing. Never says what is run, and nothing here is about deny rules, for
//! which every word of every program counts.

use super::acting::unversioned;
use super::builtins::FOREIGN;
use super::peel::basename;
use super::reason::AskReason;
use super::told_options::{
    CODE_IN_WORDS, EDITORS, PLUS_COMMANDS, READS_CODE, READS_OPTIONS, READS_SCRIPT, TELLING,
};

/// How many of its first words a rule must spell because of what they tell the program to run. None: no
/// word does.
///
/// # Errors
/// If the program is fed with what it runs, which no rule can see.
pub(super) fn told(argv: &[String], is_fed: bool) -> Result<Option<usize>, AskReason> {
    let Some((name, words)) = argv.split_first() else {
        return Ok(None);
    };
    let program = Told::new(basename(name), words);
    if is_fed && program.reads_code() {
        return Err(AskReason::ReadsScript);
    }
    Ok(program.last_telling().map(|at| at + 2))
}

/// Whether a program runs what it reads from its input.
pub(super) fn reads_code(argv: &[String]) -> bool {
    let name = argv.first().map_or("", |name| basename(name));
    Told::new(name, argv.get(1..).unwrap_or_default()).reads_code()
}

/// A program with its words.
struct Told<'a> {
    name: &'a str,
    base: &'a str,
    words: &'a [String],
}

impl<'a> Told<'a> {
    fn new(name: &'a str, words: &'a [String]) -> Self {
        Self {
            base: unversioned(name),
            name,
            words,
        }
    }

    fn is_in(&self, names: &[&str]) -> bool {
        names.contains(&self.name) || names.contains(&self.base)
    }

    /// Whether it runs what it reads, with these words.
    fn reads_code(&self) -> bool {
        if self.is_in(READS_CODE) || self.is_in(EDITORS) {
            return true;
        }
        let names_input = self.words.iter().any(|word| is_input(word));
        if self.base.ends_with("make") || self.base.ends_with("sed") || self.is_in(AWK) {
            let options = ["-f", "--file", "--makefile"];
            let names_file =
                |word: &String| options.iter().any(|option| given(word, option).is_some());
            return names_input && self.words.iter().any(names_file);
        }
        let tells_only = self.words.iter().all(|word| is_question(word)) && !self.words.is_empty();
        if !self.is_in(READS_SCRIPT) || tells_only {
            return false;
        }
        let mut pairs = self.words.iter().zip(self.words.iter().skip(1));
        let runs_module = |(option, module): (&String, &String)| {
            option.ends_with('m') && READING_MODULES.contains(&module.as_str())
        };
        names_input
            || self.base == "python" && pairs.any(runs_module)
            || self.script().is_none() && !self.is_given_code()
    }

    /// Whether one of its options is code.
    fn is_given_code(&self) -> bool {
        let options: Vec<&str> = code_options(self).chain(["-m"]).collect();
        let mut words = self.words.iter();
        words.any(|word| options.iter().any(|option| given(word, option).is_some()))
    }

    /// Where the script of an interpreter stands, if nothing before it could take it for a value.
    fn script(&self) -> Option<usize> {
        let at = self.words.iter().position(|word| !word.starts_with('-'))?;
        let flags = PLAIN_FLAGS.iter().find(|(name, _)| self.is_in(&[name]));
        let flags = flags.map_or("", |(_, flags)| flags);
        let is_plain = |word: &String| {
            let letters = word.get(1..).unwrap_or_default();
            word == "--"
                || !letters.is_empty() && letters.chars().all(|letter| flags.contains(letter))
        };
        let before = self.words.get(..at).unwrap_or_default();
        before.iter().all(is_plain).then_some(at)
    }

    /// Position among the words of the last one that tells the program what to run.
    fn last_telling(&self) -> Option<usize> {
        let options: Vec<&str> = options_of(TELLING, self)
            .chain(code_options(self))
            .collect();
        let last = self.words.len().checked_sub(1)?;
        let runs_script = self.is_in(READS_SCRIPT) && !self.is_in(EDITORS);
        let script = self.script().filter(|_| runs_script);
        let mut telling = None;
        for (at, word) in self.words.iter().enumerate() {
            let given = options.iter().find_map(|option| given(word, option));
            let until = match given {
                Some(Value::Attached) => Some(at),
                Some(Value::Next) => Some((at + 1).min(last)),
                None => self.tells(word).then_some(at),
            };
            telling = telling.max(until);
            // What follows a script is for the script.
            if script == Some(at) {
                break;
            }
        }
        telling
    }

    /// Whether a word that is no option tells it what to run.
    fn tells(&self, word: &str) -> bool {
        match self.name {
            _ if self.is_in(AWK) => awk_may_run(word),
            _ if self.is_in(SQL) => sql_may_run(word),
            _ if self.is_in(PLUS_COMMANDS) && word.starts_with('+') => {
                !word.bytes().skip(1).all(|byte| byte.is_ascii_digit())
            }
            "make" | "gmake" | "bmake" => sets_text(word) || !is_plain(word),
            "cmake" => sets_program(word),
            "git" => word.starts_with("ext::"),
            _ if self.is_in(READS_OPTIONS) => word.starts_with('@') || word.starts_with("-XX:On"),
            "socat" => {
                let word = word.to_ascii_lowercase();
                ["exec:", "system:", "shell:"]
                    .iter()
                    .any(|kind| word.contains(kind))
            }
            "zip" => word.starts_with('-') && word.contains("TT"),
            _ => self.is_in(CODE_IN_WORDS) && !is_plain(word),
        }
    }
}

const AWK: &[&str] = &["awk", "gawk", "mawk", "nawk"];
const SQL: &[&str] = &["sqlite3", "psql", "mysql", "mariadb"];

/// Modules of Python that run what they read.
const READING_MODULES: &[&str] = &[
    "code", "pdb", "asyncio", "IPython", "ptpython", "bpython", "sqlite3",
];

/// Letters of options of interpreters that take no value.
const PLAIN_FLAGS: &[(&str, &str)] = &[
    ("perl", "wtTWX"),
    ("php", "qn"),
    ("python", "uBOsSEIvqbxd"),
    ("ruby", "w"),
];

/// Whether a word may name the input, by whatever path.
fn is_input(word: &str) -> bool {
    let ends = ["=-", "f-"].iter().any(|end| word.ends_with(end));
    word == "-" || ends || word.contains("dev/") || word.contains("proc/")
}

/// Whether a program only answers and ends, as with `--version`.
fn is_question(word: &str) -> bool {
    matches!(word, "--version" | "-V" | "-v" | "--help" | "-h" | "-VV")
}

fn options_of<'a>(
    table: &'a [(&'a str, &'a [&'a str])],
    program: &Told<'_>,
) -> impl Iterator<Item = &'a str> {
    let own = table.iter().filter(|(name, _)| {
        // Nearly always another letter.
        name.as_bytes().first() == program.base.as_bytes().first() && program.is_in(&[name])
    });
    own.flat_map(|(_, options)| *options).copied()
}

/// Options whose value is code; those of programs whose code is looked into are not among them.
fn code_options(program: &Told<'_>) -> impl Iterator<Item = &'static str> {
    let looked_into = matches!(program.base, "sed" | "gsed") || program.is_in(AWK);
    let table: &'static [(&str, &[&str])] = match looked_into || program.is_in(SQL) {
        true => &[],
        false => FOREIGN,
    };
    let own = table.iter().filter(|(name, _)| program.is_in(&[name]));
    let own: Vec<&'static str> = own.flat_map(|(_, options)| *options).copied().collect();
    own.into_iter()
}

/// Where the value of an option stands.
enum Value {
    Attached,
    Next,
}

/// Whether a word gives an option, in any spelling, and where its value stands.
fn given(word: &str, option: &str) -> Option<Value> {
    if word == option {
        return Some(Value::Next);
    }
    let (name, has_value) = match word.split_once('=') {
        Some((name, _)) => (name, true),
        None => (word, false),
    };
    let letters = option.trim_start_matches('-');
    if option.starts_with("--") {
        // Long ones may be cut off, and some programs take them with one dash.
        let is_cut = name.len() > 3 && name.starts_with("--") && option.starts_with(name);
        let is_given = is_cut || name.strip_prefix('-') == Some(letters);
        return is_given.then_some(match has_value {
            true => Value::Attached,
            false => Value::Next,
        });
    }
    if letters.len() > 1 {
        // As Go and others have them: `-exec`, `--exec`.
        let is_same = name.starts_with('-') && name.trim_start_matches('-') == letters;
        return is_same.then_some(match has_value {
            true => Value::Attached,
            false => Value::Next,
        });
    }
    let bundle = word
        .strip_prefix('-')
        .filter(|rest| !rest.starts_with('-'))?;
    let (_, value) = bundle.split_once(letters)?;
    Some(match value {
        "" => Value::Next,
        _ => Value::Attached,
    })
}

/// Whether a word is a name, a path, a number or a list of such, in which no code fits.
fn is_plain(word: &str) -> bool {
    word.chars()
        .all(|letter| letter.is_alphanumeric() || "_./,:=@%+-~^#".contains(letter))
}

/// Whether a program of `awk` may run a command or more code.
fn awk_may_run(word: &str) -> bool {
    let without_or = word.replace("||", "");
    ["system", "|", "@"]
        .iter()
        .any(|mark| without_or.contains(mark))
}

/// Whether a statement may be a command of the client, or have the server run one.
fn sql_may_run(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    let marks = [
        "\\",
        "program",
        "system",
        "edit(",
        "load_extension",
        "sys_",
        "source",
        "pager",
        "readfile",
        "writefile",
        "$",
    ];
    let is_dot_command = |line: &str| {
        let line = line.trim_start();
        line.starts_with('.') && !line.starts_with("./") && !line.starts_with("../")
    };
    marks.iter().any(|mark| lower.contains(mark)) || text.lines().any(is_dot_command)
}

/// Whether a word of `make` sets a variable to more than a number.
fn sets_text(word: &str) -> bool {
    let value = word.split_once('=').map_or("", |(_, value)| value);
    !value.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a definition for `cmake` names a program.
fn sets_program(word: &str) -> bool {
    let programs = [
        "COMPIL", "LAUNCHER", "COMMAND", "PROGRAM", "LINKER", "EMULATOR", "SHELL", "--eval",
    ];
    programs.iter().any(|part| word.contains(part)) || !is_plain(word)
}
