//! What servers ask of the audit, and the facts that only the audit keeps.
//!
//! Every answer looks at a bounded number of records; verifying goes slice by slice on threads that may
//! block. Never changes a record.

use parking_lot::Mutex;
use tokio::sync::watch;

use super::verbs::answer;
use super::{Engine, EngineError};
use crate::gate::audit::Checkpoint;
use crate::gate::audit::note::{Note, PolicyChange, Refused};
use crate::gate::permission::Permissions;
use crate::gate::record::Record;
use crate::gate::result::Digest;
pub use crate::store::audit::{AuditAsk, AuditRow, AuditSlice};
use crate::store::audit_check::Check;
pub use crate::store::audit_check::{Range, Report};

/// Slices that one page is collected from at most.
const LOOKS_MAX: usize = 64;
/// Checkpoints that are read at once.
const CHECKPOINTS: usize = 1_000;
/// Refused requests that are written at once; then one a second.
const REFUSALS_BURST: u64 = 60;
const REFUSAL_MS: u64 = 1_000;

/// How many refusals may be written, so that whoever is refused cannot fill the disk.
#[derive(Debug, Default)]
pub(super) struct Refusals(Mutex<Bucket>);

#[derive(Debug, Default)]
struct Bucket {
    /// Written of the burst.
    used: u64,
    /// When `used` was last counted down, in Unix milliseconds.
    since: u64,
    /// Not written since the last one that was.
    unwritten: u64,
}

impl Refusals {
    /// Whether one more may be written. Some: how many were not since the last one.
    fn admit(&self, now: u64) -> Option<u64> {
        let mut bucket = self.0.lock();
        let earned = now.saturating_sub(bucket.since) / REFUSAL_MS;
        if earned > 0 {
            bucket.used = bucket.used.saturating_sub(earned);
            bucket.since = now;
        }
        if bucket.used >= REFUSALS_BURST {
            bucket.unwritten += 1;
            return None;
        }
        bucket.used += 1;
        Some(std::mem::take(&mut bucket.unwritten))
    }
}

impl Engine {
    /// Reads one page of records. It may be short, or empty, before the last one.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub async fn list_audit(&self, mut ask: AuditAsk) -> Result<AuditSlice, EngineError> {
        let mut page = AuditSlice::default();
        let (mut left, mut bytes_left) = (ask.limit, ask.bytes_max);
        for _ in 0..LOOKS_MAX {
            (ask.limit, ask.bytes_max) = (left, bytes_left);
            let slice = answer(self.store.read_audit(ask.clone())).await?;
            let bytes: usize = slice.rows.iter().map(|row| row.record_json.len()).sum();
            left = left.saturating_sub(slice.rows.len());
            bytes_left = bytes_left.saturating_sub(bytes);
            page.rows.extend(slice.rows);
            page.next = slice.next;
            let Some(next) = page.next.filter(|_| left > 0 && bytes_left > 0) else {
                break;
            };
            ask.from = next;
        }
        Ok(page)
    }

    /// The sequence of the last record that is durable; changes wake the receiver.
    pub fn audit_head(&self) -> watch::Receiver<u64> {
        self.store.audit_head()
    }

    /// Verifies records, and compares them with the checkpoints that are kept and with `extra`.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub async fn verify_audit(
        &self,
        range: Range,
        extra: Option<Checkpoint>,
    ) -> Result<Report, EngineError> {
        let mut checkpoints = Vec::new();
        let mut up_to = u64::MAX;
        loop {
            let page = answer(self.store.read_checkpoints(up_to, CHECKPOINTS)).await?;
            let last = page.last().map(|last| last.head.sequence);
            let is_last = page.len() < CHECKPOINTS;
            checkpoints.extend(page);
            match last.filter(|last| !is_last && *last > 0) {
                Some(last) => up_to = last - 1,
                None => break,
            }
        }
        checkpoints.extend(extra);
        let mut check = Check::new(range, &checkpoints, &self.settings.audit_keys);
        while let Some(ask) = check.ask() {
            let slice = answer(self.store.read_audit(ask)).await?;
            let taken = self.tasks.block("audit verification", move || {
                check.take(&slice);
                check
            });
            check = taken.await.ok_or(EngineError::Draining)?;
        }
        Ok(check.report())
    }

    /// Signs the head, unless it is signed. None: there is no record, or nobody who signs.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub async fn sign_audit(&self) -> Result<Option<Checkpoint>, EngineError> {
        answer(self.store.sign_audit()).await
    }

    /// Signed heads that could not be kept outside since the process began.
    pub fn checkpoints_not_kept(&self) -> u64 {
        self.store.checkpoints_not_kept()
    }

    /// Signed heads up to that sequence, newest first.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub async fn list_checkpoints(
        &self,
        up_to: u64,
        limit: usize,
    ) -> Result<Vec<Checkpoint>, EngineError> {
        answer(self.store.read_checkpoints(up_to, limit)).await
    }

    /// Public keys whose signatures hold. The first one signs now; none: nothing is signed.
    pub fn audit_keys(&self) -> &[[u8; 32]] {
        &self.settings.audit_keys
    }

    /// Records that a request was refused, unless too many were lately.
    pub fn note_refused(&self, refused: Refused) {
        let now = self.clock.now_ms();
        if let Some(unwritten) = self.refusals.admit(now) {
            self.note(Note::Refused(Box::new(Refused {
                unwritten,
                ..refused
            })));
        }
    }

    /// Records which rules hold.
    pub(super) fn note_policy(&self, permissions: &Permissions) {
        let policy = &permissions.policy;
        let mut text = String::new();
        let mut rules = 0;
        for rule in policy.rules() {
            rules += 1;
            text.push_str(&format!(
                "{} {} {}\n",
                rule.list.as_str(),
                rule.text,
                rule.origin
            ));
        }
        self.note(Note::PolicyChanged(Box::new(PolicyChange {
            revision: policy.revision(),
            rules,
            digest: Digest::of(text.as_bytes()),
        })));
    }

    fn note(&self, note: Note) {
        if let Err(error) = self.store.append(&[Record::Noted(note)]) {
            tracing::warn!(%error, "the audit lacks a note");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_refusals_is_counted_and_not_written() {
        let refusals = Refusals::default();
        let at = 1_000_000;
        for _ in 0..REFUSALS_BURST {
            assert_eq!(refusals.admit(at), Some(0));
        }
        for _ in 0..1_000 {
            assert_eq!(refusals.admit(at + REFUSAL_MS - 1), None);
        }
        assert_eq!(refusals.admit(at + REFUSAL_MS), Some(1_000));
        assert_eq!(refusals.admit(at + REFUSAL_MS), None);
    }
}
