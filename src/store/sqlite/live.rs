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
#[derive(Debug)]
pub(super) struct Stretch<'a> {
    /// Where it was accepted. None: before these records.
    pub(super) accepted: Option<u64>,
    /// Its records among these, in order; at least one.
    pub(super) records: Vec<Located<'a>>,
    /// When it ended. None: it has not.
    pub(super) ended_at: Option<u64>,
}

/// Sorts records by turn, and within a turn by position.
pub(super) fn by_turn<'a, 'b>(
    records: &'b mut [Located<'a>],
) -> impl Iterator<Item = &'b [Located<'a>]> {
    records.sort_unstable_by(|one, other| {
        let order = |record: &Located<'a>| (record.hash, record.head.session, record.head.turn);
        let turns = one.hash.cmp(&other.hash);
        let turns = turns.then_with(|| order(one).cmp(&order(other)));
        turns.then(one.position.cmp(&other.position))
    });
    records.chunk_by(Located::same_turn)
}

/// Cuts the records of one key, in order, into turns: all but the last have ended.
///
/// `is_open`: an earlier record accepted the turn and none ended it. Records of a turn that is not
/// open say nothing, as does a second acceptance.
pub(super) fn stretches<'a>(records: &[Located<'a>], is_open: bool) -> Vec<Stretch<'a>> {
    let mut done = Vec::new();
    let mut current = is_open.then(|| Stretch {
        accepted: None,
        records: Vec::new(),
        ended_at: None,
    });
    for record in records {
        match (&mut current, record.head.kind) {
            (None, Kind::Accepted) => {
                current = Some(Stretch {
                    accepted: Some(record.position),
                    records: vec![*record],
                    ended_at: None,
                });
            }
            (Some(stretch), Kind::Ended) => {
                stretch.records.push(*record);
                stretch.ended_at = Some(record.head.at);
                done.extend(current.take());
            }
            (None, _) | (Some(_), Kind::Accepted) => {}
            (Some(stretch), _) => stretch.records.push(*record),
        }
    }
    done.extend(current.filter(|stretch| !stretch.records.is_empty()));
    done
}

/// Where record `ordinal` of journal row `seq` stands in the store's order.
pub(super) fn position(seq: i64, ordinal: usize) -> u64 {
    seq.cast_unsigned() << 20 | (ordinal as u64 & 0xf_ffff)
}

/// The records of a journal row. None in place of an unreadable one.
pub(super) fn records(seq: i64, row: &[u8]) -> impl Iterator<Item = Option<Located<'_>>> {
    frame::frames(row)
        .enumerate()
        .map(move |(ordinal, frame)| Located::read(position(seq, ordinal), frame?))
}
