//! What the analysis of commands promises.
//!
//! Never runs a command, and never goes deep: the stack of a test is small.

mod always;
mod readers;
mod rows;
mod wrapped;

use super::{Analysis, Opaque, Unordered, analyse, is_flag};

/// Whether a deny rule that names these first words, flags in any order, would find them.
fn sees(analysis: &Analysis, words: &str) -> bool {
    let wanted: Vec<&str> = words.split(' ').collect();
    analysis.views().any(|(_, view)| {
        let words: Vec<&str> = view.words.iter().map(String::as_str).collect();
        words.starts_with(&wanted) || sees_unordered(&view.words, &wanted)
    })
}

fn sees_unordered(words: &[String], wanted: &[&str]) -> bool {
    let Some(command) = Unordered::of(words) else {
        return false;
    };
    let (flags, operands): (Vec<&str>, Vec<&str>) = wanted.iter().partition(|word| is_flag(word));
    let mut open = operands.iter();
    let mut next = open.next();
    for found in &command.operands {
        match next {
            Some(wanted) if found.text == **wanted => next = open.next(),
            Some(_) if found.is_optional => {}
            Some(_) | None => break,
        }
    }
    next.is_none() && flags.iter().all(|flag| command.has_flag(flag))
}

/// Whether allow rules that name these first words would let it run. The rules of the product are
/// richer; this is the least that any of them must do.
fn allows(analysis: &Analysis, rules: &[&str]) -> bool {
    analysis.understood.is_ok()
        && !analysis.segments.is_empty()
        && analysis.segments.iter().all(|segment| {
            let harmless = segment.redirections.iter().all(|one| one.is_harmless());
            segment.allow_view().is_ok_and(|allow| {
                harmless
                    && rules
                        .iter()
                        .any(|rule| covers(rule, &allow.view.words, allow.spelled_min))
            })
        })
}

fn covers(rule: &str, words: &[String], spelled_min: usize) -> bool {
    let rule: Vec<&str> = rule.split(' ').collect();
    let same = rule.iter().zip(words).all(|(rule, word)| rule == word);
    same && words.len() >= rule.len() && rule.len() >= spelled_min
}

/// Whether this build can agree on anything.
const TWO_PARSERS: bool = cfg!(feature = "tree-sitter");

/// The answer of a build with two parsers, or why one parser never is enough.
fn expected(both: Result<(), Opaque>) -> Result<(), Opaque> {
    match both {
        Ok(()) if !TWO_PARSERS => Err(Opaque::OneParser),
        other => other,
    }
}

fn understood(text: &str) -> Result<(), Opaque> {
    analyse(text).understood
}
