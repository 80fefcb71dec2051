//! Cuts a run of records into turns.
//!
//! The one place that says where a turn begins and ends in the order of records; the settler and the
//! lists both ask it. Never decodes a body.

use crate::store::disk::Kind;
use crate::store::frame::{self, Head};

/// A record with its place in the store's order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Located<'a> {
    pub(super) position: u64,
    pub(super) hash: u64,
    pub(super) head: Head<'a>,
    pub(super) frame: &'a [u8],
}

impl<'a> Located<'a> {
    /// Reads a record. None: it is unreadable.
    pub(super) fn read(position: u64, frame: &'a [u8]) -> Option<Self> {
        let head = Head::read(frame)?;
        Some(Self {
            position,
            hash: head.key_hash(),
            head,
            frame,
        })
    }

    fn same_turn(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.head.turn == other.head.turn
            && self.head.session == other.head.session
    }
}

/// A turn among records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stretch<'b, 'a> {
    /// Where it was accepted. None: before these records.
    pub(super) accepted: Option<u64>,
    /// Its records among these, in order; at least one. Folding leaves out what says nothing.
    pub(super) records: &'b [Located<'a>],
    /// When it ended. None: it has not.
    pub(super) ended_at: Option<u64>,
}

/// Sorts records by turn, and within a turn by position.
pub(super) fn by_turn<'a>(records: &[Located<'a>]) -> Vec<Located<'a>> {
    // Numbers first: texts are only compared where hashes are the same.
    let mut order: Vec<_> = (0..)
        .zip(records)
        .map(|(n, it)| (it.hash, it.position, n))
        .collect();
    order.sort_unstable();
    let sorted = order
        .iter()
        .filter_map(|(_, _, n): &(_, _, usize)| records.get(*n).copied());
    let mut sorted: Vec<_> = sorted.collect();
    for same in sorted.chunk_by_mut(|one, other| one.hash == other.hash) {
        if !same
            .windows(2)
            .all(|pair| matches!(pair, [one, other] if one.same_turn(other)))
        {
            same.sort_by_key(|record| (record.head.session, record.head.turn));
        }
    }
    sorted
}

/// The records of one turn after the other, out of sorted ones.
pub(super) fn turns<'b, 'a>(sorted: &'b [Located<'a>]) -> impl Iterator<Item = &'b [Located<'a>]> {
    sorted.chunk_by(Located::same_turn)
}

/// Cuts the records of one key, in order, into turns: all but the last have ended.
///
/// `is_open`: an earlier record accepted the turn and none ended it. Records of a turn that is not
/// open say nothing, as does a second acceptance.
pub(super) fn stretches<'b, 'a>(
    records: &'b [Located<'a>],
    is_open: bool,
) -> impl Iterator<Item = Stretch<'b, 'a>> {
    let mut rest = records;
    let mut continues = is_open;
    std::iter::from_fn(move || {
        let is_begin = |record: &Located<'_>| record.head.kind == Kind::Accepted;
        let begun_before = std::mem::take(&mut continues);
        let begun = match begun_before {
            true => rest,
            false => rest.get(rest.iter().position(is_begin)?..)?,
        };
        let accepted = begun
            .first()
            .filter(|_| !begun_before)
            .map(|record| record.position);
        let end = begun
            .iter()
            .position(|record| record.head.kind == Kind::Ended);
        let (turn, after) = begun.split_at_checked(end.map_or(begun.len(), |end| end + 1))?;
        rest = after;
        Some(Stretch {
            accepted,
            records: turn,
            ended_at: turn
                .last()
                .filter(|_| end.is_some())
                .map(|record| record.head.at),
        })
        .filter(|stretch| !stretch.records.is_empty())
    })
}

/// Where record `ordinal` of journal row `seq` stands in the store's order.
fn position(seq: i64, ordinal: usize) -> u64 {
    seq.cast_unsigned() << 20 | (ordinal as u64 & 0xf_ffff)
}

/// The row of that position.
pub(super) fn seq(position: u64) -> i64 {
    (position >> 20).cast_signed()
}

/// Which record of its row stands at that position.
pub(super) fn ordinal(position: u64) -> usize {
    (position & 0xf_ffff) as usize
}

/// The records of a journal row. None in place of an unreadable one.
///
/// An empty one holds the place of a record that went straight into a chunk.
pub(super) fn records(seq: i64, row: &[u8]) -> impl Iterator<Item = Option<Located<'_>>> {
    frame::frames(row)
        .enumerate()
        .filter(|(_, frame)| frame.is_none_or(|frame| !frame.is_empty()))
        .map(move |(ordinal, frame)| Located::read(position(seq, ordinal), frame?))
}
