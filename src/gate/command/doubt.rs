//! Forms of text that shells read otherwise than both parsers do.
//!
//! Two parsers that agree can be wrong together. Nothing here says what such a text means: it is asked
//! about, and searched piece by piece for what is denied. Linear; never understands quotes, so that it
//! finds too much.

use super::reason::Opaque;

/// Why a text must not be trusted although both parsers may agree on it.
///
/// # Errors
/// [`Opaque::Unsupported`] for a here-document whose end is not certain, for a name in braces before a
/// redirection, which is a variable and may hold a subscript that runs something, and for a quote in an
/// expansion, which is one or is none by what stands around the expansion.
pub(super) fn check(text: &str) -> Result<(), Opaque> {
    let joined = text.replace("\\\n", "");
    let names_descriptor = joined.contains("}<") || joined.contains("}>");
    if names_descriptor || quotes_in_expansion(&joined) || !here_documents_end_plainly(text) {
        return Err(Opaque::Unsupported);
    }
    Ok(())
}

/// Whether a quote stands between `${`, `$((` or `$[` and what may be its end.
fn quotes_in_expansion(text: &str) -> bool {
    let mut ends: Vec<char> = Vec::new();
    let mut before = [' ', ' '];
    for character in text.chars() {
        match (before, character) {
            ([_, '$'], '{') => ends.push('}'),
            ([_, '$'], '[') => ends.push(']'),
            (['$', '('], '(') => ends.push(')'),
            (_, '\'' | '"') if !ends.is_empty() => return true,
            (_, end) if ends.last() == Some(&end) => {
                ends.pop();
            }
            _ => {}
        }
        before = [before[1], character];
    }
    false
}

/// Whether every here-document ends at a plain word that no joined line can make.
fn here_documents_end_plainly(text: &str) -> bool {
    let mut rest = text;
    while let Some(at) = rest.find("<<") {
        let behind = rest.get(at + 2..).unwrap_or_default();
        if let Some(here_string) = behind.strip_prefix('<') {
            rest = here_string;
            continue;
        }
        let start = behind.strip_prefix('-').unwrap_or(behind);
        let start = start.trim_start_matches([' ', '\t']);
        let is_plain = match start.chars().next() {
            Some(quote @ ('\'' | '"')) => ends_in_quotes(start, quote),
            _ => is_plain_end(start) && !behind.contains("\\\n"),
        };
        if !is_plain {
            return false;
        }
        rest = behind;
    }
    true
}

/// A word in quotes, with nothing attached.
fn ends_in_quotes(start: &str, quote: char) -> bool {
    let inner = start.get(1..).unwrap_or_default();
    inner.split_once(quote).is_some_and(|(word, behind)| {
        !word.is_empty() && word.chars().all(is_word) && is_cut(behind)
    })
}

fn is_plain_end(start: &str) -> bool {
    let behind = start.trim_start_matches(is_word);
    behind.len() < start.len() && is_cut(behind)
}

fn is_word(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Whether a word has ended.
fn is_cut(behind: &str) -> bool {
    let cuts = [' ', '\t', '\n', ';', '&', '|', '<', '>', ')'];
    behind.is_empty() || behind.starts_with(cuts)
}
