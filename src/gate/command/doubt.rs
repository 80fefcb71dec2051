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
/// expansion, which is one or is none by what stands around the expansion; and for what evaluates the
/// value of a variable once more, which may hold a command: arithmetic, subscripts, `${!x}`, `${x@P}`.
pub(super) fn check(text: &str) -> Result<(), Opaque> {
    let joined = text.replace("\\\n", "");
    let names_descriptor = joined.contains("}<") || joined.contains("}>");
    if names_descriptor
        || quotes_in_expansion(&joined)
        || evaluates_values(&joined)
        || !here_documents_end_plainly(text)
    {
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

/// Whether an expansion evaluates or sets a variable.
fn evaluates_values(text: &str) -> bool {
    if text.contains("${!") || text.contains("@P}") {
        return true;
    }
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let holds_name =
        |content: &str| content.contains(|letter| is_name(letter) && !letter.is_numeric());
    let until = |content: &str, end: char| holds_name(content.split(end).next().unwrap_or(content));
    let mut openings = text
        .match_indices('$')
        .filter_map(|(at, _)| text.get(at + 1..));
    openings.any(|behind| match behind.chars().next() {
        Some('[') => until(behind, ']'),
        Some('(') if behind.starts_with("((") => until(behind, ')') || behind.contains('$'),
        Some('{') => {
            let inner = behind.get(1..).unwrap_or_default().trim_start_matches('#');
            let operator = inner.trim_start_matches(is_name);
            let content = operator.get(1..).unwrap_or_default();
            match operator.chars().next() {
                Some('[') => {
                    !content.starts_with(['@', '*'])
                        && (until(content, ']') || content.starts_with('$'))
                }
                Some('=') => true,
                Some(':') => {
                    content.starts_with('=')
                        || !content.starts_with(['-', '+', '?'])
                            && (until(content, '}') || content.contains('$'))
                }
                _ => false,
            }
        }
        _ => false,
    })
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
