//! The one form of a segment that an allow rule may match, or why there is none.
//!
//! Never looks into scripts and never drops a part that could matter: where anything is not
//! certain, the answer is a reason to ask.

use super::acting::minds_options;
use super::peel::{Lift, peel};
use super::reading::{Assignment, RedirectionKind, Simple};
use super::reason::AskReason;
use super::told::told;
use super::view::View;
use super::word::WordKind;

/// How many wrappers one command may have around it.
pub(super) const WRAPPERS_MAX: usize = 16;

/// Variables that change how a program speaks and not what it runs or reads.
const SAFE_VARIABLES: &[&str] = &[
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_NUMERIC",
    "LC_TIME",
    "TZ",
    "TERM",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "COLUMNS",
    "LINES",
    "CI",
    "NODE_ENV",
    "RUST_BACKTRACE",
    "RUST_LOG",
    "CARGO_TERM_COLOR",
    "PYTHONUNBUFFERED",
    "PYTHONDONTWRITEBYTECODE",
    "PYTHONHASHSEED",
    "CGO_ENABLED",
    "GOOS",
    "GOARCH",
    "DEBIAN_FRONTEND",
];

/// What an allow rule is tried against.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowView {
    /// The command without its transparent wrappers.
    pub view: View,
    /// How many of its first words the rule itself must spell, pattern characters not counted: one
    /// for most commands. A rule `find *` spells one word of `find . -delete`, which needs three.
    pub spelled_min: usize,
    /// Why it is more than one.
    pub because: Option<AskReason>,
    /// The transparent wrappers that were taken off, by name.
    pub wrappers: Vec<String>,
}

/// The view of one command for allow rules.
pub(super) fn allow_view(simple: &Simple) -> Result<AllowView, AskReason> {
    if simple.words.is_empty() {
        return Err(AskReason::NoCommand);
    }
    if simple
        .words
        .first()
        .is_some_and(|name| name.kind != WordKind::Literal)
    {
        return Err(AskReason::DynamicName);
    }
    if simple
        .words
        .iter()
        .any(|word| word.kind == WordKind::Dynamic)
    {
        return Err(AskReason::DynamicWord);
    }
    if !simple.assignments.iter().all(is_safe) {
        return Err(AskReason::Assignment);
    }
    let mut redirections = simple.redirections.iter();
    if redirections.any(|one| !is_known(one.kind, one.target.kind)) {
        return Err(AskReason::DynamicRedirection);
    }
    unwrap(simple)
}

pub(super) fn is_safe(assignment: &Assignment) -> bool {
    is_safe_name(&assignment.name) && assignment.value.kind == WordKind::Literal
}

/// Whether a variable, perhaps with its value behind `=`, changes no more than how a program speaks.
pub(super) fn is_safe_name(variable: &str) -> bool {
    let name = variable.split('=').next().unwrap_or(variable);
    SAFE_VARIABLES.contains(&name)
}

fn is_known(kind: RedirectionKind, target: WordKind) -> bool {
    match target {
        WordKind::Literal => true,
        WordKind::Dynamic => false,
        // Patterns mean nothing in these.
        WordKind::Pattern => {
            matches!(
                kind,
                RedirectionKind::HereDocument | RedirectionKind::HereString
            )
        }
    }
}

/// Whether one of these words is a pattern, which files decide about.
pub(super) fn has_pattern(simple: &Simple, from: usize, count: usize) -> bool {
    let mut words = simple.words.iter().skip(from).take(count);
    words.any(|word| word.kind == WordKind::Pattern)
}

/// Whether a file's name could become a sub-command or an option of a program for which that matters.
pub(super) fn may_become_option(simple: &Simple, all: &[String], at: usize) -> bool {
    let argv = all.get(at..).unwrap_or_default();
    if !minds_options(argv) {
        return false;
    }
    let operands = argv.iter().position(|word| word == "--");
    let words = simple.words.iter().skip(at).zip(argv);
    let mut words = words.take(operands.unwrap_or(argv.len()));
    words.any(|(word, text)| {
        word.kind == WordKind::Pattern && text.starts_with(['*', '?', '[', '-'])
    })
}

/// Takes transparent wrappers off, and counts what a rule must spell.
fn unwrap(simple: &Simple) -> Result<AllowView, AskReason> {
    let all: Vec<String> = simple.words.iter().map(|word| word.text.clone()).collect();
    let mut from = 0;
    let mut at = 0;
    let mut spelled_min = 1;
    let mut because = None;
    let mut wrappers = Vec::new();
    for _ in 0..WRAPPERS_MAX {
        let named = simple
            .words
            .get(at)
            .is_some_and(|name| name.kind == WordKind::Literal);
        if !named {
            return Err(AskReason::DynamicName);
        }
        match peel(all.get(at..).unwrap_or_default()).lift {
            Lift::Plain => {
                if may_become_option(simple, &all, at) {
                    return Err(AskReason::DynamicWord);
                }
                let told = told(all.get(at..).unwrap_or_default(), simple.is_fed)?;
                if let Some(words) = told {
                    spelled_min = spelled_min.max(at - from + words);
                    because = because.or(Some(AskReason::RunsText));
                }
                let words = all.get(from..).unwrap_or_default().to_vec();
                return Ok(AllowView {
                    view: View::of(words),
                    spelled_min,
                    because,
                    wrappers,
                });
            }
            Lift::Never(why) => return Err(why),
            Lift::Transparent(words) => {
                if has_pattern(simple, at, words) {
                    return Err(AskReason::DynamicWord);
                }
                if because.is_none() {
                    wrappers.extend(all.get(at).cloned());
                }
                at += words;
                // Inside a wrapper that must be spelled, so must be what is around the program.
                match because {
                    None => from = at,
                    Some(_) => spelled_min = at - from + 1,
                }
            }
            Lift::Spelled {
                words,
                because: why,
                inner,
            } => {
                if has_pattern(simple, at, words) {
                    return Err(AskReason::DynamicWord);
                }
                spelled_min = spelled_min.max(at - from + words);
                because = because.or(Some(why));
                match inner {
                    Some(inner) => at += inner,
                    None => {
                        return Ok(AllowView {
                            view: View::of(all.get(from..).unwrap_or_default().to_vec()),
                            spelled_min,
                            because,
                            wrappers,
                        });
                    }
                }
            }
        }
    }
    Err(AskReason::TooMuch)
}
