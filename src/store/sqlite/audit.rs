//! Writes the audit: blocks of chained records, in the transaction of the facts that they are about.
//!
//! The head moves only with a commit. Segments are what retention drops, whole. Never reads a record.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rusqlite::{Connection, OptionalExtension, params};

use super::audit_read;
use super::schema::store_error;
use crate::gate::audit::{Checkpoint, Head, drafts, segment_dropped};
use crate::gate::ids::UnixMillis;
use crate::gate::result::Digest;
use crate::store::StoreError;
use crate::store::audit::{AuditOptions, open_outside};

/// Bytes from which a block takes no further record: what reading one record costs at most.
const BLOCK_BYTES: usize = 256 << 10;
/// Blocks that one slice of forgetting deletes.
const FORGET_BLOCKS: i64 = 32;
/// Bytes of a record in its block besides its text.
pub(super) const FRAME_BYTES: usize = 4 + 32;

/// The audit as the writing thread has it.
#[derive(Debug)]
pub(super) struct Audit {
    pub(super) options: AuditOptions,
    /// Signed heads that could not be kept outside.
    pub(super) not_kept: Arc<AtomicU64>,
    standing: Standing,
}

/// What changes with a commit.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    pub(super) head: Head,
    segment: i64,
    segment_bytes: u64,
    segment_records: u64,
    /// Records behind the last checkpoint.
    unsigned: u64,
    /// When the first of those was written, in Unix milliseconds.
    unsigned_since: u64,
    /// What this write signed; told once it is committed.
    signed: Option<Checkpoint>,
}

impl Audit {
    /// Learns where the chain stands.
    pub(super) fn load(
        connection: &Connection,
        options: AuditOptions,
        now: u64,
    ) -> Result<Self, StoreError> {
        let sql = |error: rusqlite::Error| store_error(&error);
        let head = audit_read::head(connection)?;
        let segment: Option<(i64, i64)> = connection
            .query_row(
                "SELECT segment, first FROM audit_segments ORDER BY segment DESC LIMIT 1",
                [],
                |row| Ok((row.get(0)?, row.get(1)?)),
            )
            .optional()
            .map_err(sql)?;
        let (segment, first) = segment.unwrap_or((0, 1));
        let of_segment = "SELECT coalesce(sum(length(body)), 0), coalesce(sum(last - first + 1), 0)
                          FROM audit_blocks WHERE first >= ?1";
        let (bytes, records): (i64, i64) = connection
            .query_row(of_segment, [first], |row| Ok((row.get(0)?, row.get(1)?)))
            .map_err(sql)?;
        let signed = "SELECT coalesce(max(sequence), 0) FROM audit_checkpoints";
        let signed: i64 = connection
            .query_row(signed, [], |row| row.get(0))
            .map_err(sql)?;
        Ok(Self {
            options,
            not_kept: Arc::default(),
            standing: Standing {
                head,
                segment,
                segment_bytes: bytes.cast_unsigned(),
                segment_records: records.cast_unsigned(),
                unsigned: head.sequence.saturating_sub(signed.cast_unsigned()),
                unsigned_since: now,
                signed: None,
            },
        })
    }

    /// The last record that is committed.
    pub(super) fn head(&self) -> Head {
        self.standing.head
    }

    /// Writes records behind the head, and a checkpoint if one is due. [`take`](Self::take) what it
    /// returns once that is committed.
    pub(super) fn write(
        &self,
        connection: &Connection,
        bytes: &[u8],
        now: u64,
    ) -> rusqlite::Result<Standing> {
        let mut next = self.standing.clone();
        if bytes.is_empty() {
            return Ok(next);
        }
        if next.unsigned == 0 {
            next.unsigned_since = now;
        }
        let mut block = Block::after(&next.head);
        for draft in drafts(bytes) {
            let start = block.body.len();
            block.body.extend_from_slice(&[0; FRAME_BYTES]);
            let before = next.head;
            next.head.extend(&draft, UnixMillis(now), &mut block.body);
            let added = (block.body.len() - start) as u64;
            if self.is_segment_full(&next, added) {
                // The record goes into a block of the next segment.
                let record = block.body.split_off(start);
                block.write(connection, next.segment)?;
                block = Block::after(&before);
                block.body = record;
                self.begin_segment(connection, &mut next, now)?;
            }
            block.fill_frame(block.body.len() - added as usize, &next.head);
            next.segment_bytes += added;
            next.segment_records += 1;
            next.unsigned += 1;
            if block.body.len() >= BLOCK_BYTES {
                block.write(connection, next.segment)?;
                block = Block::after(&next.head);
            }
        }
        block.write(connection, next.segment)?;
        if next.unsigned >= self.options.checkpoint_records {
            self.sign(connection, &mut next, now)?;
        }
        Ok(next)
    }

    fn is_segment_full(&self, next: &Standing, added: u64) -> bool {
        let options = &self.options;
        next.segment == 0
            || (next.segment_records > 0
                && (next.segment_records >= options.segment_records_max
                    || next.segment_bytes + added > options.segment_bytes_max))
    }

    fn begin_segment(
        &self,
        connection: &Connection,
        next: &mut Standing,
        now: u64,
    ) -> rusqlite::Result<()> {
        next.segment += 1;
        next.segment_bytes = 0;
        next.segment_records = 0;
        let sql = "INSERT INTO audit_segments VALUES (?1, ?2, ?3)";
        connection.prepare_cached(sql)?.execute([
            next.segment,
            next.head.sequence.cast_signed(),
            now.cast_signed(),
        ])?;
        Ok(())
    }

    fn sign(&self, connection: &Connection, next: &mut Standing, now: u64) -> rusqlite::Result<()> {
        next.unsigned = 0;
        if let Some(signer) = &self.options.signer {
            let checkpoint = signer.sign(next.head, UnixMillis(now));
            insert_checkpoint(connection, &checkpoint)?;
            next.signed = Some(checkpoint);
        }
        Ok(())
    }

    /// Takes over what was committed, and tells of what was signed.
    pub(super) fn take(&mut self, next: Standing) {
        self.standing = next;
        if let Some(checkpoint) = self.standing.signed.take() {
            self.tell(&checkpoint);
        }
    }

    fn tell(&self, checkpoint: &Checkpoint) {
        let line = checkpoint.to_json();
        tracing::info!(
            checkpoint = %String::from_utf8_lossy(&line),
            "the audit's head is signed"
        );
        let Some(path) = &self.options.checkpoint_file else {
            return;
        };
        let append = || open_outside(path)?.write_all(&[line.as_slice(), b"\n"].concat());
        if let Err(error) = append() {
            self.not_kept.fetch_add(1, Ordering::Relaxed);
            tracing::error!(%error, path = %path.display(), "the checkpoint is not kept outside");
        }
    }

    /// When the head must be signed at the latest, in Unix milliseconds. None: it is.
    pub(super) fn sign_at(&self) -> Option<u64> {
        let span = u64::try_from(self.options.checkpoint_interval.as_millis()).unwrap_or(u64::MAX);
        let wanted = self.standing.unsigned > 0 && self.options.signer.is_some();
        wanted.then(|| self.standing.unsigned_since.saturating_add(span))
    }

    /// The head could not be signed: it is tried again after the usual time.
    pub(super) fn sign_later(&mut self, now: u64) {
        self.standing.unsigned_since = now;
    }

    /// Signs the head, unless it is signed. The last checkpoint; None without a signer or a record.
    pub(super) fn sign_now(
        &mut self,
        connection: &mut Connection,
        now: u64,
    ) -> rusqlite::Result<Option<Checkpoint>> {
        if self.standing.unsigned > 0 {
            let transaction = connection.transaction()?;
            let mut next = self.standing.clone();
            self.sign(&transaction, &mut next, now)?;
            transaction.commit()?;
            self.take(next);
        }
        Ok(audit_read::checkpoints(connection, u64::MAX, 1)?.pop())
    }

    /// Forgets a slice of what was written before that moment, whole segments only.
    pub(super) fn forget(
        &mut self,
        connection: &mut Connection,
        before: u64,
        now: u64,
    ) -> rusqlite::Result<Forgot> {
        let kept_from = audit_read::first_kept(connection)?;
        let transaction = connection.transaction()?;
        let sql = "DELETE FROM audit_blocks WHERE first IN
                   (SELECT first FROM audit_blocks WHERE first < ?1 ORDER BY first LIMIT ?2)";
        let deleted = transaction
            .prepare_cached(sql)?
            .execute([kept_from.cast_signed(), FORGET_BLOCKS])?;
        if deleted > 0 {
            transaction.commit()?;
            return Ok(Forgot::Blocks);
        }
        let Some(old) = oldest(&transaction, before)? else {
            return Ok(Forgot::Nothing);
        };
        let next = self.drop_segment(&transaction, &old, now)?;
        transaction.commit()?;
        self.take(next);
        Ok(Forgot::Segment)
    }

    /// Signs where the segment ended, and records that it is gone.
    fn drop_segment(
        &self,
        connection: &Connection,
        old: &Segment,
        now: u64,
    ) -> rusqlite::Result<Standing> {
        if let Some(signer) = &self.options.signer {
            insert_checkpoint(connection, &signer.sign(old.last, UnixMillis(now)))?;
        }
        let mut drafts = Vec::new();
        segment_dropped(old.first, &old.last, &mut drafts);
        let next = self.write(connection, &drafts, now)?;
        connection.execute(
            "DELETE FROM audit_segments WHERE segment = ?1",
            [old.segment],
        )?;
        // What was signed inside of it says nothing any more.
        connection.execute(
            "DELETE FROM audit_checkpoints WHERE sequence < ?1",
            [old.last.sequence.cast_signed()],
        )?;
        connection.execute(
            "INSERT OR REPLACE INTO meta VALUES ('audit_first', ?1)",
            [(old.last.sequence + 1).cast_signed()],
        )?;
        Ok(next)
    }
}

/// What a slice of forgetting did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Forgot {
    /// Took records away that count no more.
    Blocks,
    /// A segment counts no more.
    Segment,
    /// Nothing is left to forget.
    Nothing,
}

/// A segment that is over.
struct Segment {
    segment: i64,
    first: u64,
    last: Head,
}

/// The oldest segment, if it was over before that moment.
fn oldest(connection: &Connection, before: u64) -> rusqlite::Result<Option<Segment>> {
    let sql = "SELECT segment, first, since_ms FROM audit_segments ORDER BY segment LIMIT 2";
    let found: Vec<(i64, i64, i64)> = connection
        .prepare_cached(sql)?
        .query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
        .collect::<Result<_, _>>()?;
    // The next one began when this one was over.
    let [(segment, first, _), (_, next_first, ended_at)] = found.as_slice() else {
        return Ok(None);
    };
    if ended_at.cast_unsigned() >= before {
        return Ok(None);
    }
    let sql = "SELECT previous FROM audit_blocks WHERE first = ?1";
    let hash: Option<Vec<u8>> = connection
        .query_row(sql, [next_first], |row| row.get(0))
        .optional()?;
    let hash = hash.and_then(|hash| Digest::from_slice(&hash));
    Ok(hash.map(|hash| Segment {
        segment: *segment,
        first: first.cast_unsigned(),
        last: Head {
            sequence: next_first.cast_unsigned() - 1,
            hash,
        },
    }))
}

fn insert_checkpoint(connection: &Connection, checkpoint: &Checkpoint) -> rusqlite::Result<()> {
    let sql = "INSERT OR REPLACE INTO audit_checkpoints VALUES (?1, ?2, ?3)";
    connection.prepare_cached(sql)?.execute(params![
        checkpoint.head.sequence.cast_signed(),
        checkpoint.signed_at.0.cast_signed(),
        checkpoint.to_json(),
    ])?;
    Ok(())
}

/// A row of records that is being filled: each behind its length and its hash.
struct Block {
    before: Head,
    last: u64,
    body: Vec<u8>,
}

impl Block {
    fn after(head: &Head) -> Self {
        Self {
            before: *head,
            last: head.sequence,
            body: Vec::new(),
        }
    }

    /// Fills in what stands before the record that begins at `start`, now that it is hashed.
    fn fill_frame(&mut self, start: usize, head: &Head) {
        self.last = head.sequence;
        let length = self.body.len() - start - FRAME_BYTES;
        let length = u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
        let frame = self.body.get_mut(start..start + FRAME_BYTES);
        let parts = length.iter().chain(&head.hash.0);
        for (to, from) in frame.unwrap_or_default().iter_mut().zip(parts) {
            *to = *from;
        }
    }

    fn write(&self, connection: &Connection, segment: i64) -> rusqlite::Result<()> {
        if self.body.is_empty() {
            return Ok(());
        }
        let sql = "INSERT INTO audit_blocks VALUES (?1, ?2, ?3, ?4, ?5)";
        connection.prepare_cached(sql)?.execute(params![
            (self.before.sequence + 1).cast_signed(),
            self.last.cast_signed(),
            segment,
            self.before.hash.0.as_slice(),
            self.body,
        ])?;
        Ok(())
    }
}
