//! Resolves the escapes of one string, and says whether they are in dispatch form.
//!
//! Never looks beyond the closing quote.

use super::error::{Fault, JsonError};
use super::scan::plain_run;

/// A string with at least one escape.
pub(super) struct Escaped {
    /// Where the closing quote stands.
    pub(super) end: usize,
    /// Whether the raw text already is the dispatch form.
    pub(super) canonical: bool,
}

/// Reads the string whose text starts at `start` and whose first escape stands at `first`;
/// appends its value to `out`.
pub(super) fn unescape(
    text: &str,
    start: usize,
    first: usize,
    out: &mut String,
) -> Result<Escaped, Fault> {
    let bytes = text.as_bytes();
    let mut canonical = true;
    let mut run = start;
    let mut at = first;
    loop {
        out.push_str(text.get(run..at).unwrap_or_default());
        match bytes.get(at) {
            Some(b'"') => return Ok(Escaped { end: at, canonical }),
            Some(b'\\') => {
                let (next, same) = escape(bytes, at, out)?;
                canonical &= same;
                run = next;
                at = plain_run(bytes, next);
            }
            other => return Err(string_error(at, other)),
        }
    }
}

/// Why a string stops where neither a quote nor an escape stands.
#[cold]
pub(super) fn string_error(at: usize, found: Option<&u8>) -> Fault {
    match found {
        None => Box::new(JsonError::Truncated { offset: at }),
        Some(_) => Box::new(JsonError::Invalid {
            offset: at,
            reason: "control character in a string",
        }),
    }
}

/// Resolves the escape at `at`. Returns where the text goes on, and whether the escape is the one
/// that the dispatch form would write.
fn escape(bytes: &[u8], at: usize, out: &mut String) -> Result<(usize, bool), Fault> {
    let simple = match bytes.get(at + 1) {
        Some(b'"') => '"',
        Some(b'\\') => '\\',
        Some(b'n') => '\n',
        Some(b't') => '\t',
        Some(b'r') => '\r',
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'/') => {
            out.push('/');
            return Ok((at + 2, false));
        }
        Some(b'u') => return unicode(bytes, at, out),
        None => return Err(Box::new(JsonError::Truncated { offset: at + 1 })),
        Some(_) => {
            return Err(Box::new(JsonError::Invalid {
                offset: at,
                reason: "unknown escape",
            }));
        }
    };
    out.push(simple);
    Ok((at + 2, true))
}

fn unicode(bytes: &[u8], at: usize, out: &mut String) -> Result<(usize, bool), Fault> {
    let first = hex4(bytes, at + 2)?;
    if let Some(c) = char::from_u32(first) {
        out.push(c);
        return Ok((at + 6, is_canonical_control(bytes, at, first)));
    }
    let lone = Box::new(JsonError::InvalidUnicode { offset: at });
    if first >= 0xDC00 {
        return Err(lone);
    }
    match (bytes.get(at + 6), bytes.get(at + 7)) {
        (None, _) | (Some(b'\\'), None) => {
            return Err(Box::new(JsonError::Truncated {
                offset: bytes.len(),
            }));
        }
        (Some(b'\\'), Some(b'u')) => {}
        (Some(_), _) => return Err(lone),
    }
    let second = hex4(bytes, at + 8)?;
    if !(0xDC00..0xE000).contains(&second) {
        return Err(lone);
    }
    let scalar = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    out.push(char::from_u32(scalar).ok_or(lone)?);
    Ok((at + 12, false))
}

/// The dispatch form keeps `\u00xx` in lower case for controls that have no short escape.
fn is_canonical_control(bytes: &[u8], at: usize, code: u32) -> bool {
    code < 0x20
        && !matches!(code, 0x8 | 0x9 | 0xA | 0xC | 0xD)
        && bytes
            .get(at + 5)
            .is_some_and(|digit| !digit.is_ascii_uppercase())
}

fn hex4(bytes: &[u8], from: usize) -> Result<u32, Fault> {
    let mut code = 0;
    for at in from..from + 4 {
        let digit = match bytes.get(at) {
            None => return Err(Box::new(JsonError::Truncated { offset: at })),
            Some(byte) => char::from(*byte).to_digit(16),
        };
        let digit = digit.ok_or(Box::new(JsonError::Invalid {
            offset: at,
            reason: "expected a hexadecimal digit",
        }))?;
        code = code * 16 + digit;
    }
    Ok(code)
}
