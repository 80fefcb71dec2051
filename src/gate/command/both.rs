//! Lets both parsers read a text, and says whether they agree.
//!
//! Without the feature `tree-sitter` there is one parser, and nothing is ever agreed on.

use std::collections::BTreeSet;

use super::brush;
use super::doubt;
use super::precheck::precheck;
use super::reading::{Reading, RedirectionKind, Simple};
use super::reason::Opaque;

/// What both parsers found.
#[derive(Debug)]
pub(super) struct Both {
    /// Commands that brush-parser found: those that may be allowed if everything is understood.
    pub(super) first: Vec<Simple>,
    /// Commands that only the other parser found.
    pub(super) second: Vec<Simple>,
    /// Why nothing of it may be allowed.
    pub(super) understood: Result<(), Opaque>,
    /// Whether some of the text may hold commands that neither found.
    pub(super) incomplete: bool,
}

/// Reads a text, in whatever state it is.
pub(super) fn read(text: &str) -> Both {
    if let Err(why) = precheck(text) {
        return Both {
            first: Vec::new(),
            second: Vec::new(),
            understood: Err(why),
            incomplete: true,
        };
    }
    let mut first = brush::read(text);
    if let Err(why) = doubt::check(text) {
        first.fail(why);
    }
    compare(first, second_reading(text))
}

#[cfg(feature = "tree-sitter")]
fn second_reading(text: &str) -> Reading {
    super::tree::read(text)
}

/// Nothing was read a second time, and what the one parser is known to misread may be in the text.
#[cfg(not(feature = "tree-sitter"))]
fn second_reading(text: &str) -> Reading {
    let mut reading = Reading::default();
    reading.distrust(Opaque::OneParser);
    let mut last = ' ';
    for character in text.chars().filter(|character| !character.is_whitespace()) {
        reading.incomplete |= last == '(' && character == '(';
        last = character;
    }
    reading
}

fn compare(first: Reading, second: Reading) -> Both {
    let agree = is_same(&first, &second);
    let known: BTreeSet<_> = first.commands.iter().map(Simple::key).collect();
    let mut rest = second.commands;
    rest.retain(|command| !command.is_bare() && !known.contains(&command.key()));
    let empty = first.commands.is_empty() && rest.is_empty();
    let understood = match (first.opaque, second.opaque) {
        (None, _) if empty => Err(Opaque::Empty),
        (Some(why), _) | (None, Some(why)) => Err(why),
        (None, None) if !agree => Err(Opaque::Disagreement),
        (None, None) => Ok(()),
    };
    Both {
        first: first.commands,
        second: rest,
        understood,
        incomplete: first.incomplete || second.incomplete,
    }
}

/// Whether both have the same commands equally often, and the same redirections.
fn is_same(first: &Reading, second: &Reading) -> bool {
    sorted_commands(first) == sorted_commands(second)
        && sorted_redirections(first) == sorted_redirections(second)
}

fn sorted_commands(reading: &Reading) -> Vec<super::reading::SimpleKey<'_>> {
    let commands = reading.commands.iter().filter(|command| !command.is_bare());
    let mut keys: Vec<_> = commands.map(Simple::key).collect();
    keys.sort_unstable();
    keys
}

fn sorted_redirections(reading: &Reading) -> Vec<(RedirectionKind, &str)> {
    let all = reading.redirections.iter();
    let mut keys: Vec<_> = all.map(super::reading::Redirection::key).collect();
    keys.sort_unstable();
    keys
}
