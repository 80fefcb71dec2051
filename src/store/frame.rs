//! Records in a row: each behind its length, and heads that are read without bodies.
//!
//! The settler looks at a hundred thousand heads a second and at no body. Never decodes a body.

use super::disk::Kind;
use crate::gate::stable_hash::stable_hash as hash;

/// Most bytes of one record; a larger one is refused before it is queued.
pub(super) const RECORD_BYTES_MAX: usize = 128 << 20;

/// What stands before a record's body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head<'a> {
    pub(super) kind: Kind,
    /// Names stay bytes: they are compared and hashed far more often than they are read.
    pub(super) session: &'a [u8],
    pub(super) turn: &'a [u8],
    pub(super) run: &'a [u8],
    /// The latest moment that the record names.
    pub(super) at: u64,
    /// The run as the record leaves it.
    pub(super) run_state: Option<&'a [u8]>,
}

/// Reads only how a run stands, from the bytes of [`Head::run_state`]: whether it goes on, and its
/// rounds. None: unreadable.
pub(super) fn run_progress(mut state: &[u8]) -> Option<(bool, u32)> {
    let mut progress = (false, 0);
    while !state.is_empty() {
        match field(&mut state)? {
            (1, Field::Number(number)) => progress.0 = number == Kind::RUN_ACTIVE,
            (2, Field::Number(number)) => progress.1 = u32::try_from(number).ok()?,
            _ => break,
        }
    }
    Some(progress)
}

/// A length as it stands before each record.
pub(super) const LENGTH_BYTES: usize = 4;

/// Appends one record, written by `write`, behind its length. Returns the bytes that were added.
pub(super) fn push(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) -> usize {
    let before = out.len();
    out.extend_from_slice(&[0; LENGTH_BYTES]);
    write(out);
    let start = before + LENGTH_BYTES;
    let length = u32::try_from(out.len() - start).unwrap_or(u32::MAX);
    if let Some(place) = out.get_mut(before..start) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    out.len() - before
}

/// The records of a row, in order. None in place of one that is cut off; nothing follows it.
pub(super) fn frames(row: &[u8]) -> impl Iterator<Item = Option<&[u8]>> {
    let mut rest = row;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let split = rest.split_first_chunk::<LENGTH_BYTES>();
        let frame = split.and_then(|(length, after)| {
            after.split_at_checked(u32::from_le_bytes(*length) as usize)
        });
        match frame {
            Some((frame, after)) => {
                rest = after;
                Some(Some(frame))
            }
            None => {
                rest = &[];
                Some(None)
            }
        }
    })
}

impl<'a> Head<'a> {
    /// Reads the head of a record. None: it is not one that this program can read.
    pub(super) fn read(frame: &'a [u8]) -> Option<Self> {
        let mut rest = frame;
        let mut kind = None;
        let mut head = Head {
            kind: Kind::Accepted,
            session: &[],
            turn: &[],
            run: &[],
            at: 0,
            run_state: None,
        };
        while !rest.is_empty() {
            // Fields stand in the order of their numbers; the body begins at 10.
            match (field(&mut rest)?, kind) {
                ((1, Field::Number(number)), None) => kind = Some(Kind::from_number(number)?),
                ((2, Field::Bytes(bytes)), Some(_)) => head.session = bytes,
                ((3, Field::Bytes(bytes)), Some(_)) => head.turn = bytes,
                ((4, Field::Bytes(bytes)), Some(_)) => head.run = bytes,
                ((5, Field::Number(number)), Some(_)) => head.at = number,
                ((6, Field::Bytes(bytes)), Some(_)) => head.run_state = Some(bytes),
                ((10.., _), Some(_)) => break,
                _ => return None,
            }
        }
        head.kind = kind?;
        Some(head)
    }

    /// What the index knows the turn by.
    pub(super) fn key_hash(&self) -> u64 {
        key_hash(self.session, self.turn)
    }
}

/// What the index knows a turn by.
pub(super) fn key_hash(session: &[u8], turn: &[u8]) -> u64 {
    crate::gate::ids::turn_mark(session, turn)
}

/// What the index knows all turns with that id by.
pub(super) fn turn_hash(turn: &[u8]) -> u64 {
    hash(&[b"t", turn])
}

/// What the index knows the turns of a session by.
pub(super) fn session_hash(session: &[u8]) -> u64 {
    hash(&[b"s", session])
}

/// What the index knows the turns of a run by.
pub(super) fn run_hash(run: &[u8]) -> u64 {
    hash(&[b"r", run])
}

enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

#[inline]
fn field<'a>(rest: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let key = number(rest)?;
    match key & 7 {
        0 => Some((key >> 3, Field::Number(number(rest)?))),
        2 => {
            let length = usize::try_from(number(rest)?).ok()?;
            let (bytes, after) = rest.split_at_checked(length)?;
            *rest = after;
            Some((key >> 3, Field::Bytes(bytes)))
        }
        _ => None,
    }
}

#[inline]
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, after) = rest.split_first()?;
        *rest = after;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A name as text. None: it is none, which no record of ours has.
pub(super) fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_never_change() {
        assert_eq!(key_hash(b"session", b"turn"), 6_387_048_488_009_910_151);
        assert_eq!(turn_hash(b""), 15_290_183_629_903_469_246);
    }

    #[test]
    fn a_cut_row_ends_in_none() {
        let mut row = Vec::new();
        push(&mut row, |out| out.extend_from_slice(b"one"));
        push(&mut row, |out| out.extend_from_slice(b"two"));
        row.pop();
        let found: Vec<_> = frames(&row).collect();
        assert_eq!(found, [Some(b"one".as_slice()), None]);
    }

    #[test]
    fn a_row_gives_back_its_records() {
        let mut row = Vec::new();
        let added = push(&mut row, |out| out.extend_from_slice(b"one"));
        push(&mut row, |_| {});
        assert_eq!(added, LENGTH_BYTES + 3);
        let found: Vec<_> = frames(&row).collect();
        assert_eq!(found, [Some(b"one".as_slice()), Some(b"".as_slice())]);
    }
}
