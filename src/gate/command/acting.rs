//! Options with which a program that mostly reads deletes, writes or runs.
//!
//! Never says what an option does, only that a rule must spell it.

use super::builtins::{ACTING, SHELLS};
use super::peel::{Lift, Peel, basename, program};
use super::reason::AskReason;

/// Options with which a reading program acts.
pub(super) fn acting(argv: &[String], names: &[String]) -> Peel {
    let known = ACTING.iter();
    let known = known.filter(|(program, _)| names.iter().any(|name| name == program));
    let acts = |word: &String| {
        let mut options = known.clone().flat_map(|(_, options)| options.iter());
        options.any(|option| is_option(word, option))
    };
    if known.clone().next().is_none() {
        return Peel::plain();
    }
    let found = argv
        .iter()
        .enumerate()
        .skip(1)
        .filter(|(_, word)| acts(word));
    match found.map(|(at, _)| at).max() {
        Some(at) => Peel::new(
            Vec::new(),
            Lift::Spelled {
                words: at + 1,
                because: AskReason::ActingOption,
                inner: None,
            },
        ),
        None => Peel::plain(),
    }
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
    let acts = ACTING
        .iter()
        .any(|(program, _)| names.iter().any(|name| name == program));
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
