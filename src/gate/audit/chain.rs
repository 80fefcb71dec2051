//! The chain: what a record is numbered, and what binds it to the one before.
//!
//! Never knows what a record says.

use super::object::write_number;
use crate::gate::ids::UnixMillis;
use crate::gate::result::Digest;

/// What every hash begins with.
const DOMAIN: &[u8] = b"callgate-audit-1\0";

/// The hash before the first record.
pub const GENESIS: Digest = Digest([0; 32]);

/// Where a chain ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// The last record's sequence. Zero: there is none.
    pub sequence: u64,
    /// Its hash.
    pub hash: Digest,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            sequence: 0,
            hash: GENESIS,
        }
    }
}

/// The hash of a record behind another.
pub fn link(previous: &Digest, record_json: &[u8]) -> Digest {
    use sha2::Digest as _;
    let mut hasher = sha2::Sha256::new_with_prefix(DOMAIN);
    hasher.update(previous.0);
    hasher.update(record_json);
    Digest(hasher.finalize().into())
}

impl Head {
    /// Puts one record behind the head: its JSON is appended to `out`.
    pub fn extend(&mut self, draft: &Draft<'_>, now: UnixMillis, out: &mut Vec<u8>) {
        let start = out.len();
        self.sequence += 1;
        out.extend_from_slice(draft.before_time);
        write_number(now.0, out);
        out.extend_from_slice(draft.before_sequence);
        write_number(self.sequence, out);
        out.extend_from_slice(draft.rest);
        self.hash = link(&self.hash, out.get(start..).unwrap_or_default());
    }
}

/// A record that lacks its moment and its sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draft<'a> {
    before_time: &'a [u8],
    before_sequence: &'a [u8],
    rest: &'a [u8],
}

/// Bytes before each draft: its length, and where its moment and its sequence belong.
const HEADER_BYTES: usize = 12;

/// Appends a draft; `write` appends its JSON and says where the two places are, from its start.
pub(super) fn push_draft(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>, usize) -> (usize, usize),
) {
    let header = out.len();
    out.extend_from_slice(&[0; HEADER_BYTES]);
    let start = out.len();
    let (time, sequence) = write(out, start);
    let length = out.len() - start;
    let numbers = [length, time, sequence];
    let places = out.get_mut(header..start).unwrap_or_default();
    for (place, number) in places.chunks_exact_mut(4).zip(numbers) {
        place.copy_from_slice(&u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
    }
}

/// The drafts that were appended one after the other.
pub fn drafts(mut bytes: &[u8]) -> impl Iterator<Item = Draft<'_>> {
    std::iter::from_fn(move || {
        let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        let (numbers, _) = header.as_chunks::<4>();
        let mut numbers = numbers
            .iter()
            .map(|bytes| u32::from_le_bytes(*bytes) as usize);
        let (length, time, sequence) = (numbers.next()?, numbers.next()?, numbers.next()?);
        let (json, after) = rest.split_at_checked(length)?;
        bytes = after;
        let (before_time, rest) = json.split_at_checked(time)?;
        let (before_sequence, rest) = rest.split_at_checked(sequence.checked_sub(time)?)?;
        Some(Draft {
            before_time,
            before_sequence,
            rest,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_never_changes() {
        // As Python's hashlib gives it.
        assert_eq!(
            link(&GENESIS, b"{}").to_string(),
            "6f194c366de89ec89a44ce9ed151d68feaf15ee528cdd1807cd5c18410e4f3ed"
        );
    }

    #[test]
    fn drafts_get_their_moment_and_their_sequence() {
        let mut bytes = Vec::new();
        for name in ["a", "b"] {
            push_draft(&mut bytes, |out, start| {
                out.extend_from_slice(format!("{{\"{name}\":").as_bytes());
                let time = out.len() - start;
                out.extend_from_slice(b",\"s\":");
                let sequence = out.len() - start;
                out.extend_from_slice(b"}");
                (time, sequence)
            });
        }
        let mut head = Head::default();
        let mut texts = Vec::new();
        for draft in drafts(&bytes) {
            let mut out = Vec::new();
            let before = head.hash;
            head.extend(&draft, UnixMillis(7), &mut out);
            assert_eq!(head.hash, link(&before, &out));
            texts.push(String::from_utf8(out).unwrap());
        }
        assert_eq!(texts, [r#"{"a":7,"s":1}"#, r#"{"b":7,"s":2}"#]);
    }
}
