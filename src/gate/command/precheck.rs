//! What a text must be before any parser sees it.
//!
//! Linear, without recursion. Never understands quotes: whatever it counts, it counts everywhere.

use super::limits;
use super::reason::Opaque;

/// Checks length, nesting, number of segments and characters of a command text.
///
/// # Errors
/// The first limit that does not hold. Such a text must not be given to a parser: the parsers
/// recurse, and a stack that overflows takes the process with it.
pub fn precheck(text: &str) -> Result<(), Opaque> {
    if text.len() > limits::TEXT_BYTES_MAX {
        return Err(Opaque::TooLong);
    }
    if text.chars().any(is_forbidden) {
        return Err(Opaque::ForbiddenCharacter);
    }
    check_descriptors(text)?;
    check_nesting(text)?;
    check_segments(text)
}

/// Characters that hide something from whoever reads the command.
fn is_forbidden(character: char) -> bool {
    match character {
        '\t' | '\n' => false,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{3164}' | '\u{feff}' | '\u{ffa0}' => true,
        '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e0fff}' => true,
        other => other.is_control(),
    }
}

/// Looks for a long number where a descriptor may stand: before `<` or `>`, or behind `>&`.
fn check_descriptors(text: &str) -> Result<(), Opaque> {
    let mut digits = 0_usize;
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' => digits += 1,
            b'<' | b'>' if digits > limits::DESCRIPTOR_DIGITS_MAX => {
                return Err(Opaque::HugeDescriptor);
            }
            _ => digits = 0,
        }
    }
    for behind in text.split("&").skip(1) {
        let digits = behind.bytes().take_while(u8::is_ascii_digit).count();
        if digits > limits::DESCRIPTOR_DIGITS_MAX {
            return Err(Opaque::HugeDescriptor);
        }
    }
    Ok(())
}

fn check_nesting(text: &str) -> Result<(), Opaque> {
    let mut depth = 0_usize;
    let mut openers = 0_usize;
    let mut closers = 0_usize;
    let open = |openers: &mut usize, depth: &mut usize| {
        *openers += 1;
        *depth += 1;
    };
    for byte in text.bytes() {
        match byte {
            b'(' | b'{' | b'[' => open(&mut openers, &mut depth),
            b')' | b'}' | b']' => {
                closers += 1;
                depth = depth.saturating_sub(1);
            }
            // Each may open as well as close.
            b'`' | b'!' => openers += 1,
            _ => {}
        }
        if depth > usize::from(limits::NESTING_MAX) {
            return Err(Opaque::TooDeep);
        }
    }
    let mut keywords = 0_usize;
    for word in text.split(|character: char| !character.is_ascii_alphanumeric()) {
        match word {
            "if" | "elif" | "while" | "until" | "for" | "case" | "select" => {
                open(&mut openers, &mut keywords);
            }
            "fi" | "done" | "esac" => keywords = keywords.saturating_sub(1),
            "coproc" | "function" | "time" => openers += 1,
            _ => {}
        }
    }
    let too_deep = keywords > usize::from(limits::NESTING_MAX);
    if too_deep || openers.max(closers) > limits::OPENERS_MAX {
        return Err(Opaque::TooDeep);
    }
    Ok(())
}

/// Counts runs of separators, which is more than there are segments.
fn check_segments(text: &str) -> Result<(), Opaque> {
    let mut runs = 1_usize;
    let mut in_run = true;
    for byte in text.bytes() {
        match byte {
            b';' | b'&' | b'|' | b'\n' => {
                runs += usize::from(!in_run);
                in_run = true;
            }
            b' ' | b'\t' => {}
            _ => in_run = false,
        }
    }
    if runs > limits::SEGMENTS_MAX + 1 {
        return Err(Opaque::TooManySegments);
    }
    Ok(())
}

/// Counts what may double the time of a parser that tries alternatives: round brackets, `${` and
/// `case`. Strings are left out as long as it is certain that they are strings, which it is no
/// longer behind an expansion, a remark or a here-document.
pub(super) fn branches(text: &str) -> usize {
    let plain = surely_plain(text);
    plain.branches + raw_branches(text.get(plain.end..).unwrap_or(text))
}

/// The part of a text in which quotes are certain.
struct Plain {
    end: usize,
    branches: usize,
}

fn surely_plain(text: &str) -> Plain {
    let bytes = text.as_bytes();
    let mut at = 0;
    let mut branches = 0;
    let mut piece_from = 0;
    while let Some(byte) = bytes.get(at) {
        let behind = text.get(at + 1..).unwrap_or_default();
        let string = match byte {
            b'\'' => behind.find('\'').map(|length| length + 2),
            b'"' => plain_double_quoted(behind).map(|length| length + 2),
            b'\\' => behind.chars().next().map(|next| next.len_utf8() + 1),
            b'$' if !behind
                .starts_with(|next: char| next.is_ascii_alphanumeric() || next == '_') =>
            {
                None
            }
            b'`' | b'#' => None,
            b'<' if behind.starts_with('<') => None,
            _ => {
                at += 1;
                continue;
            }
        };
        branches += raw_branches(text.get(piece_from..at).unwrap_or_default());
        let Some(length) = string else {
            return Plain { end: at, branches };
        };
        at += length;
        piece_from = at;
    }
    Plain {
        end: piece_from.min(text.len()),
        branches,
    }
}

/// The length of the rest of a string in double quotes, if nothing in it expands.
fn plain_double_quoted(behind: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in behind.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at),
            b'$' | b'`' => return None,
            _ => {}
        }
    }
    None
}

fn raw_branches(text: &str) -> usize {
    let brackets = text.matches('(').count() + text.matches("${").count();
    let words = text.split(|character: char| !character.is_ascii_alphanumeric());
    brackets + words.filter(|word| *word == "case").count()
}
