//! Finds where tokens end.
//!
//! Never allocates and never looks at nesting.

use super::error::{Fault, JsonError};

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Most significant digits of an exponent. Longer ones are refused as out of range: the exact
/// decimal value must fit a 64-bit exponent.
const EXPONENT_DIGITS_MAX: usize = 18;

/// Integers shorter than this cannot exceed a double.
const SAFE_DIGITS: usize = 308;

/// The first byte at or after `from` that ends a run of plain string text: a quote, a backslash
/// or a control character. The length of the text if there is none.
#[inline]
pub(super) fn plain_run(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(chunk) = text.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
        let hits = ends_run(u64::from_le_bytes(*chunk));
        if hits != 0 {
            return at + (hits.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    while let Some(byte) = text.get(at) {
        if *byte < 0x20 || matches!(byte, b'"' | b'\\') {
            break;
        }
        at += 1;
    }
    at
}

/// Marks the bytes of a word that end a run. Only the lowest mark is exact, which is the first.
#[inline]
fn ends_run(word: u64) -> u64 {
    let control = word.wrapping_sub(LOW * 0x20) & !word;
    let quote = word ^ (LOW * 0x22);
    let backslash = word ^ (LOW * 0x5c);
    let quote = quote.wrapping_sub(LOW) & !quote;
    let backslash = backslash.wrapping_sub(LOW) & !backslash;
    (control | quote | backslash) & HIGH
}

/// The end of the number that starts at `start`, by the grammar of RFC 8259.
///
/// # Errors
/// `Truncated` if the text ends where a digit must stand, `Invalid`, `NumberOutOfRange`.
#[inline]
pub(super) fn number(text: &[u8], start: usize) -> Result<usize, Fault> {
    let mut at = start;
    if text.get(at) == Some(&b'-') {
        at += 1;
    }
    let whole = at;
    at = match text.get(at) {
        Some(b'0') => at + 1,
        Some(b'1'..=b'9') => digits(text, at),
        Some(b'I') => return Err(literal_error(text, at, b"Infinity", start)),
        other => return Err(digit_missing(at, other)),
    };
    let long = at - whole > SAFE_DIGITS;
    if text.get(at) == Some(&b'.') {
        at = some_digits(text, at + 1)?;
    }
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at = exponent(text, at + 1, start)?;
    } else if !long {
        return Ok(at);
    }
    check_range(text, start, at)?;
    Ok(at)
}

#[inline]
fn digits(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while matches!(text.get(at), Some(b'0'..=b'9')) {
        at += 1;
    }
    at
}

fn some_digits(text: &[u8], from: usize) -> Result<usize, Fault> {
    let end = digits(text, from);
    if end == from {
        return Err(digit_missing(from, text.get(from)));
    }
    Ok(end)
}

fn exponent(text: &[u8], from: usize, start: usize) -> Result<usize, Fault> {
    let from = match text.get(from) {
        Some(b'+' | b'-') => from + 1,
        _ => from,
    };
    let end = some_digits(text, from)?;
    let token = text.get(from..end).unwrap_or_default();
    let zeros = token.iter().take_while(|digit| **digit == b'0').count();
    if token.len() - zeros > EXPONENT_DIGITS_MAX {
        return Err(Box::new(JsonError::NumberOutOfRange { offset: start }));
    }
    Ok(end)
}

#[cold]
fn check_range(text: &[u8], start: usize, end: usize) -> Result<(), Fault> {
    let token = text.get(start..end).unwrap_or_default();
    let value = str::from_utf8(token)
        .ok()
        .and_then(|token| token.parse::<f64>().ok());
    match value {
        Some(value) if value.is_finite() => Ok(()),
        _ => Err(Box::new(JsonError::NumberOutOfRange { offset: start })),
    }
}

#[cold]
fn digit_missing(at: usize, found: Option<&u8>) -> Fault {
    match found {
        None => Box::new(JsonError::Truncated { offset: at }),
        Some(_) => Box::new(JsonError::Invalid {
            offset: at,
            reason: "expected a digit",
        }),
    }
}

/// What to say of a text that should read `word` at `at` and does not, or must not.
#[cold]
pub(super) fn literal_error(text: &[u8], at: usize, word: &[u8], start: usize) -> Fault {
    let rest = text.get(at..).unwrap_or_default();
    if rest.starts_with(word) {
        return Box::new(JsonError::NumberOutOfRange { offset: start });
    }
    if word.starts_with(rest) {
        return Box::new(JsonError::Truncated { offset: text.len() });
    }
    Box::new(JsonError::Invalid {
        offset: at,
        reason: "expected a value",
    })
}
