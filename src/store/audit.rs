//! What the audit is asked for, and how it is kept.
//!
//! The chain itself, and what a record says, is `gate::audit`. Never changes a record.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::signer::Signer;
use crate::gate::audit::{Filter, Line, Members};
use crate::gate::result::Digest;

/// How the audit is kept.
#[derive(Debug, Clone)]
pub struct AuditOptions {
    /// Whether anything is recorded.
    pub enabled: bool,
    /// Most bytes of a segment. Default 256 MiB.
    pub segment_bytes_max: u64,
    /// Most records of a segment. Default 1 000 000.
    pub segment_records_max: u64,
    /// Records after which the head is signed. Default 10 000.
    pub checkpoint_records: u64,
    /// How long records stay unsigned at most. Default 60 s.
    pub checkpoint_interval: Duration,
    /// A file outside to which checkpoints are appended as well. None: none.
    pub checkpoint_file: Option<PathBuf>,
    /// Signs checkpoints. None: nothing is signed.
    pub signer: Option<Arc<Signer>>,
}

impl Default for AuditOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            segment_bytes_max: 256 << 20,
            segment_records_max: 1_000_000,
            checkpoint_records: 10_000,
            checkpoint_interval: Duration::from_secs(60),
            checkpoint_file: None,
            signer: None,
        }
    }
}

/// Opens the file outside to which signed heads are appended, making it if it is not there.
///
/// # Errors
/// It cannot be opened for writing.
pub fn open_outside(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().append(true).create(true).open(path)
}

/// Which records to read. One answer ends before it has looked at too many; then it says where to go on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditAsk {
    /// Where to begin; with `newest_first`, where to begin downwards. Zero: at the end.
    pub from: u64,
    /// The last one to look at in the order asked for. Zero: all.
    pub to: u64,
    /// Downwards.
    pub newest_first: bool,
    /// Which of them.
    pub filter: Filter,
    /// Most records of the answer.
    pub limit: usize,
    /// Bytes of records from which the answer takes no further one.
    pub bytes_max: usize,
}

/// Some records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AuditSlice {
    /// In the order asked for.
    pub rows: Vec<AuditRow>,
    /// Where the next answer begins. None: nothing is left.
    pub next: Option<u64>,
}

/// One record as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditRow {
    /// Its position, as it stands beside its neighbours.
    pub place: u64,
    /// Its text.
    pub record_json: Bytes,
    /// The hash that is kept with the record before, or before the first.
    pub previous: Digest,
    /// Its hash.
    pub hash: Digest,
}

impl AuditRow {
    /// What the record says of itself. None: it is unreadable.
    pub fn members(&self) -> Option<Members> {
        Members::read(&self.record_json)
    }

    /// As a line of an export.
    pub fn line(&self) -> Line {
        Line {
            sequence: self.place,
            record_json: self.record_json.clone(),
            previous: self.previous,
            hash: self.hash,
        }
    }
}

impl AuditAsk {
    /// Whether the record is wanted. One that cannot be read always is: who verifies must see it.
    pub(super) fn wants(&self, row: &AuditRow) -> bool {
        if self.filter.is_all() {
            return true;
        }
        match row.members() {
            Some(members) => self.filter.passes(&row.record_json, &members),
            None => true,
        }
    }

    /// Whether the place is among those to look at.
    pub(super) fn covers(&self, place: u64) -> bool {
        match self.newest_first {
            true => (self.from == 0 || place <= self.from) && place >= self.to,
            false => place >= self.from && (self.to == 0 || place <= self.to),
        }
    }

    /// Whether the answer is large enough.
    pub(super) fn is_full(&self, rows: &[AuditRow], bytes: usize) -> bool {
        rows.len() >= self.limit.max(1) || bytes >= self.bytes_max
    }
}
