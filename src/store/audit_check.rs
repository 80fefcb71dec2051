//! Verifies an audit slice by slice: the chain, the signed heads, and who signed them.
//!
//! Works on whatever gives slices: a store, a file of one, an export. Never repairs anything.

use super::audit::{AuditAsk, AuditRow, AuditSlice};
use super::signer::holds;
use crate::gate::audit::{
    Begin, Broken, Checkpoint, Head, Known, Problem, SEGMENT_DROPPED, Verifier, dropped_in,
};

/// Bytes of records that are read at once.
const SLICE_BYTES: usize = 512 << 10;
/// Records that are read at once.
const SLICE_RECORDS: usize = 10_000;

/// Which records to verify.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Range {
    /// The first one. Zero: the first that is kept.
    pub first: u64,
    /// The last one. Zero: the last that there is.
    pub last: u64,
}

/// What a verification found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The first record that is wrong. None: all are whole and fit every checkpoint.
    pub broken: Option<Broken>,
    /// Records that were good.
    pub checked: u64,
    /// Where the chain begins. Zero: there is no record.
    pub first: u64,
    /// Why it begins there.
    pub begin: Begin,
    /// The last good record.
    pub head: Head,
    /// Checkpoints that were compared.
    pub checkpoints: usize,
    /// The last record that a checkpoint compared with covers. Zero: none.
    pub signed_to: u64,
    /// Checkpoints of keys that are not trusted, which say nothing. None: there is none.
    pub foreign: Option<Foreign>,
}

/// Checkpoints that hold by a key of their own, which nobody here trusts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The last record that one of them covers.
    pub to: u64,
    /// The key of that one.
    pub key_id: String,
}

impl Report {
    /// Why nobody here can tell whether all is whole. None: it is, or it is broken.
    pub fn untold(&self) -> Option<String> {
        if self.broken.is_some() {
            return None;
        }
        if let Some(Foreign { to, key_id }) = &self.foreign {
            return Some(format!(
                "heads up to record {to} are signed with the key {key_id}, which is not trusted here: \
                 whether they fit cannot be told"
            ));
        }
        if self.begin != Begin::Unsigned {
            return None;
        }
        let before = self.first.saturating_sub(1);
        Some(format!(
            "whether retention dropped records 1 to {before} cannot be told: no signed head says so"
        ))
    }
}

/// A verification that is going on.
#[derive(Debug, Clone)]
pub struct Check {
    verifier: Verifier,
    range: Range,
    next: Option<u64>,
    broken: Option<Broken>,
    checkpoints: usize,
    signed_to: u64,
    foreign: Option<Foreign>,
}

impl Check {
    /// Begins. Signatures hold only if they are of one of these keys.
    pub fn new(range: Range, checkpoints: &[Checkpoint], trusted: &[[u8; 32]]) -> Self {
        let mut check = Self {
            verifier: match range.first {
                0 => Verifier::new(),
                first => Verifier::from(first),
            },
            next: Some(range.first),
            range,
            broken: None,
            checkpoints: 0,
            signed_to: 0,
            foreign: None,
        };
        if range.last > 0 {
            check.verifier.end_anywhere();
        }
        for checkpoint in checkpoints {
            check.expect(checkpoint, trusted);
        }
        check
    }

    /// The same, for a part that may begin with any record.
    #[must_use]
    pub fn of_a_part(mut self) -> Self {
        self.verifier.begin_anywhere();
        self
    }

    fn expect(&mut self, checkpoint: &Checkpoint, trusted: &[[u8; 32]]) {
        let sequence = checkpoint.head.sequence;
        if self.range.last > 0 && sequence > self.range.last {
            return;
        }
        let is_trusted = trusted.contains(&checkpoint.public_key);
        let expected = match (holds(checkpoint), is_trusted) {
            (true, true) => self.verifier.expect(checkpoint.head),
            // Whoever lost a key has not broken the audit.
            (true, false) => return self.hear(checkpoint),
            (false, _) => Err(Broken {
                sequence,
                problem: Problem::CheckpointMismatch,
            }),
        };
        self.checkpoints += 1;
        self.signed_to = self.signed_to.max(sequence);
        if let Err(broken) = expected {
            self.found(broken);
        }
    }

    fn hear(&mut self, checkpoint: &Checkpoint) {
        let to = checkpoint.head.sequence;
        self.verifier.hear(to);
        if self.foreign.as_ref().is_none_or(|known| known.to < to) {
            let key_id = checkpoint.key_id();
            self.foreign = Some(Foreign { to, key_id });
        }
    }

    /// Takes a problem that was found otherwise; the earliest counts.
    pub fn found(&mut self, broken: Broken) {
        let is_earlier = self
            .broken
            .is_none_or(|known| broken.sequence < known.sequence);
        if is_earlier {
            self.broken = Some(broken);
        }
    }

    /// What to read next. None: nothing more.
    pub fn ask(&self) -> Option<AuditAsk> {
        Some(AuditAsk {
            from: self.next?,
            to: self.range.last,
            limit: SLICE_RECORDS,
            bytes_max: SLICE_BYTES,
            ..AuditAsk::default()
        })
    }

    /// Takes what was read.
    pub fn take(&mut self, slice: &AuditSlice) {
        self.next = slice.next;
        for row in &slice.rows {
            if let Err(broken) = self.take_row(row) {
                self.found(broken);
                self.next = None;
                return;
            }
        }
        if self.next.is_none()
            && let Err(broken) = self.end()
        {
            self.found(broken);
        }
    }

    fn take_row(&mut self, row: &AuditRow) -> Result<(), Broken> {
        // One whose text says nothing of its place stands where it stands.
        let members = row.members();
        let sequence = members
            .as_ref()
            .map_or(row.place, |members| members.sequence);
        self.verifier.take(&Known {
            sequence,
            record_json: &row.record_json,
            previous: Some(row.previous),
            hash: row.hash,
        })?;
        if members.is_some_and(|members| members.kind == SEGMENT_DROPPED)
            && let Some(last) = dropped_in(&row.record_json)
        {
            self.verifier.dropped(last);
        }
        match sequence == row.place {
            true => Ok(()),
            // What stands beside the record names another one.
            false => Err(Broken {
                sequence,
                problem: Problem::Altered,
            }),
        }
    }

    /// What should come next. None: nothing came yet.
    pub fn expected(&self) -> Option<u64> {
        let head = self.verifier.head().sequence;
        (head > 0).then_some(head + 1)
    }

    fn end(&self) -> Result<(), Broken> {
        self.verifier.end()?;
        let head = self.verifier.head().sequence;
        match self.range.last > head {
            true => Err(Broken {
                sequence: head + 1,
                problem: Problem::Gap,
            }),
            false => Ok(()),
        }
    }

    /// What was found.
    pub fn report(&self) -> Report {
        Report {
            broken: self.broken,
            checked: self.verifier.checked(),
            first: self.verifier.first(),
            begin: self.verifier.begins(),
            head: self.verifier.head(),
            checkpoints: self.checkpoints,
            signed_to: self.signed_to,
            foreign: self.foreign.clone(),
        }
    }
}
