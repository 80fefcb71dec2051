//! Cuts a text into pieces that may be commands, without understanding it.
//!
//! For deny and ask rules on a text that no parser understood. It finds too much: a separator in
//! quotes cuts as well.

use std::collections::BTreeSet;

use super::limits;
use super::peel::is_assignment;
use super::view::{Budget, Forms, View};

/// Words behind which a command stands, in a shell or in what debuggers and editors take.
const KEYWORDS: &[&str] = &[
    "if", "then", "elif", "else", "while", "until", "do", "time", "!", "coproc", "function", "$",
    "-p", "in", "shell", ":!",
];

/// The views of a text that was not understood, and of the texts in it. Parses nothing.
pub(super) fn views(text: &str, budget: &mut Budget) -> BTreeSet<View> {
    let mut forms = Forms::default();
    let mut seen = BTreeSet::new();
    let mut open = vec![text.to_owned()];
    while let Some(text) = open.pop() {
        if !seen.insert(text.clone()) {
            continue;
        }
        if seen.len() > limits::SCRIPTS_MAX {
            budget.exhausted = true;
            break;
        }
        for piece in pieces(&text, budget) {
            forms.add(piece, budget);
        }
        open.extend(std::mem::take(&mut forms.scripts));
        open.extend(std::mem::take(&mut forms.foreign));
    }
    forms.views
}

/// The different pieces of the text as words without quotes, in no order.
fn pieces(text: &str, budget: &mut Budget) -> BTreeSet<Vec<String>> {
    let text = text.replace("\\\n", "");
    let mut found = BTreeSet::new();
    let separators: &[char] = &[';', '&', '|', '\n', '(', ')', '{', '}', '`', '\r', '\0'];
    let quotes: &[char] = &['"', '\''];
    for part in text.split(separators) {
        let whole = std::iter::once(part);
        // What stands in quotes may be a script.
        for piece in whole.chain(part.split(quotes).filter(|piece| piece.len() != part.len())) {
            let mut words = words(piece);
            budget.exhausted |= words.len() > limits::RAW_PIECE_WORDS_MAX;
            words.truncate(limits::RAW_PIECE_WORDS_MAX);
            if words.is_empty() || found.contains(&words) {
                continue;
            }
            if found.len() >= limits::RAW_PIECES_MAX {
                budget.exhausted = true;
                return found;
            }
            found.insert(words);
        }
    }
    found
}

fn words(piece: &str) -> Vec<String> {
    let words = piece.split_whitespace().map(|word| {
        let plain = word.replace(['"', '\'', '\\'], "");
        let plain = plain.strip_prefix(":!").unwrap_or(&plain);
        plain.strip_suffix('$').unwrap_or(plain).to_owned()
    });
    let is_noise = |word: &String| {
        word.is_empty()
            || is_assignment(word)
            || KEYWORDS.contains(&word.as_str())
            || is_sed_command(word)
            || word.starts_with(['<', '>'])
    };
    words.skip_while(is_noise).collect()
}

/// Whether it is the command of `sed` that runs what follows, behind the number of a line or not.
fn is_sed_command(word: &str) -> bool {
    let address = word.strip_suffix('e');
    address.is_some_and(|address| {
        let mut characters = address.chars();
        characters.all(|character| character.is_ascii_digit() || "$,~+!".contains(character))
    })
}
