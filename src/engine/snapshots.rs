//! The tool lists that models saw lately.
//!
//! The same list is kept once; the one used longest ago makes room. Never outlives the process: a list
//! that is asked for again has the same id.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::gate::snapshot::ToolSnapshot;

/// The tool lists that models saw lately.
pub(super) struct Snapshots {
    kept: Mutex<VecDeque<Kept>>,
    max: usize,
    keep_ms: u64,
}

struct Kept {
    snapshot: Arc<ToolSnapshot>,
    used_ms: u64,
}

impl Snapshots {
    pub(super) fn new(max: u64, keep_ms: u64) -> Self {
        Self {
            kept: Mutex::default(),
            max: usize::try_from(max).unwrap_or(usize::MAX),
            keep_ms,
        }
    }

    /// Keeps a list.
    pub(super) fn keep(&self, snapshot: ToolSnapshot, now_ms: u64) -> Arc<ToolSnapshot> {
        if let Some(known) = self.find(&snapshot.id, now_ms) {
            return known;
        }
        let snapshot = Arc::new(snapshot);
        let mut kept = self.kept.lock();
        if kept.len() >= self.max {
            kept.pop_front();
        }
        kept.push_back(Kept {
            snapshot: snapshot.clone(),
            used_ms: now_ms,
        });
        snapshot
    }

    /// The list of that id, which is used by this.
    pub(super) fn find(&self, id: &str, now_ms: u64) -> Option<Arc<ToolSnapshot>> {
        let mut kept = self.kept.lock();
        let position = kept.iter().position(|entry| {
            entry.snapshot.id == id && entry.used_ms.saturating_add(self.keep_ms) > now_ms
        })?;
        let mut entry = kept.remove(position)?;
        entry.used_ms = now_ms;
        let snapshot = entry.snapshot.clone();
        kept.push_back(entry);
        Some(snapshot)
    }
}
