//! How a program that runs other programs, or has sub-commands, is described.
//!
//! Never looks at a command: that is `peel`. A letter or option that stands in no list makes what
//! follows uncertain, which deny rules answer by looking at every possibility and allow rules by not
//! applying.

use std::collections::BTreeMap;
use std::sync::LazyLock;

/// How a program stands to the command behind its options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Changes nothing that a rule about the inner command would care for.
    Transparent,
    /// Runs it elsewhere, as somebody else or many times: an allow rule must spell it.
    Exec,
    /// As [`Role::Exec`], and joins its arguments into a script.
    Joined,
    /// Not another program but a sub-command.
    Global,
    /// Runs it in this shell's place: no allow rule covers it.
    Evaluates,
}

/// What may stand between a program's name and the command or sub-command behind it.
#[derive(Debug)]
pub(super) struct Program {
    /// First words, as `uv run`; any of them.
    pub(super) names: &'static [&'static str],
    pub(super) role: Role,
    /// Letters of short options without a value.
    pub(super) flags: &'static str,
    /// Letters of short options with a value, attached or as the next word.
    pub(super) valued: &'static str,
    /// Long options without a value.
    pub(super) long_flags: &'static [&'static str],
    /// Long options with a value behind `=` or as the next word.
    pub(super) long_valued: &'static [&'static str],
    /// Words between the options and the command, such as the time of `timeout`.
    pub(super) operands: usize,
    /// Options whose value is a script, such as `-c` of `su`.
    pub(super) scripts: &'static [&'static str],
    /// Whether `NAME=value` may stand before the command.
    pub(super) assignments: bool,
    /// Options of a [`Role::Global`] program that change nothing but how it answers.
    pub(super) harmless: &'static [&'static str],
    /// Sub-commands of a [`Role::Global`] program that need not be spelled. Empty: all.
    pub(super) plain: &'static [&'static str],
    /// Whether its options are not known, so that any word may begin the command.
    pub(super) anywhere: bool,
}

pub(super) const NONE: Program = Program {
    names: &[],
    role: Role::Exec,
    flags: "",
    valued: "",
    long_flags: &[],
    long_valued: &[],
    operands: 0,
    scripts: &[],
    assignments: false,
    harmless: &[],
    plain: &[],
    anywhere: false,
};

/// A program by one of its names.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) program: &'static Program,
    /// The words of the name behind the first.
    pub(super) rest: Vec<&'static str>,
}

/// Every described program whose name begins with this word.
pub(super) fn programs_called(first: &str) -> &'static [Named] {
    // Each command is looked up many times, in all of its forms.
    static BY_FIRST_WORD: LazyLock<BTreeMap<&str, Vec<Named>>> = LazyLock::new(|| {
        let mut all: BTreeMap<&str, Vec<Named>> = BTreeMap::new();
        let tables = [super::wrappers::WRAPPERS, super::subcommands::SUBCOMMANDS];
        for program in tables.into_iter().flatten() {
            for name in program.names {
                let mut words = name.split(' ');
                let first = words.next().unwrap_or_default();
                let rest = words.collect();
                all.entry(first).or_default().push(Named { program, rest });
            }
        }
        all
    });
    BY_FIRST_WORD.get(first).map_or(&[], Vec::as_slice)
}
