//! Reads the audit: records in either order, the head, checkpoints.
//!
//! Never verifies and never hides: a record that cannot be read is given as it is.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension};

use super::audit::FRAME_BYTES;
use super::restore::corrupt;
use super::schema::store_error;
use crate::gate::audit::{Checkpoint, GENESIS, Head};
use crate::gate::result::Digest;
use crate::store::StoreError;
use crate::store::audit::{AuditAsk, AuditRow, AuditSlice};

/// Blocks that one answer looks at.
const BLOCKS: i64 = 8;
/// Bytes of blocks from which one answer looks at no further one.
const LOOK_BYTES: usize = 1 << 20;

/// The first record that is kept, or would be.
pub(super) fn first_kept(connection: &Connection) -> rusqlite::Result<u64> {
    let sql = "SELECT value FROM meta WHERE name = 'audit_first'";
    let found: Option<i64> = connection
        .prepare_cached(sql)?
        .query_row([], |row| row.get(0))
        .optional()?;
    Ok(found.map_or(1, i64::cast_unsigned))
}

/// Where the chain ends.
pub(super) fn head(connection: &Connection) -> Result<Head, StoreError> {
    let sql = "SELECT last, body FROM audit_blocks ORDER BY first DESC LIMIT 1";
    let block: Option<(i64, Vec<u8>)> = connection
        .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))
        .optional()
        .map_err(|error| store_error(&error))?;
    let Some((last, body)) = block else {
        return Ok(Head::default());
    };
    let hash = frames(&body).last().flatten().map(|(hash, _)| hash);
    let hash = hash.ok_or_else(|| corrupt(&"the end of the audit is unreadable"))?;
    Ok(Head {
        sequence: last.cast_unsigned(),
        hash,
    })
}

/// Reads some records.
pub(super) fn slice(connection: &Connection, ask: &AuditAsk) -> rusqlite::Result<AuditSlice> {
    let kept = first_kept(connection)?;
    let sql = match ask.newest_first {
        true => {
            "SELECT first, last, previous, body FROM audit_blocks
             WHERE first <= ?1 AND last >= ?2 ORDER BY first DESC LIMIT ?3"
        }
        false => {
            "SELECT first, last, previous, body FROM audit_blocks
             WHERE first >= ?2 AND first <= ?1 ORDER BY first LIMIT ?3"
        }
    };
    let (low, high) = match ask.newest_first {
        true => (ask.to.max(kept), bound(ask.from)),
        false => (block_of(connection, ask.from.max(kept))?, bound(ask.to)),
    };
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query([high, low.cast_signed(), BLOCKS])?;
    let mut answer = AuditSlice::default();
    let (mut looked, mut bytes, mut blocks) = (0, 0, 0);
    while let Some(row) = rows.next()? {
        let body = row.get_ref(3)?.as_blob()?;
        let mut records = records(
            row.get::<_, i64>(0)?.cast_unsigned(),
            row.get_ref(2)?.as_blob()?,
            body,
        );
        looked += body.len();
        blocks += 1;
        if ask.newest_first {
            records.reverse();
        }
        for record in records {
            if !ask.covers(record.place) || record.place < kept {
                continue;
            }
            if ask.is_full(&answer.rows, bytes) {
                answer.next = Some(record.place);
                return Ok(answer);
            }
            if ask.wants(&record) {
                bytes += record.record_json.len();
                answer.rows.push(record);
            }
        }
        let next = match ask.newest_first {
            true => row.get::<_, i64>(0)? - 1,
            false => row.get::<_, i64>(1)? + 1,
        };
        answer.next = Some(next.cast_unsigned());
        if looked >= LOOK_BYTES {
            break;
        }
    }
    let is_last = blocks < BLOCKS && looked < LOOK_BYTES;
    let is_out = answer
        .next
        .is_some_and(|next| next == 0 || !ask.covers(next) || next < kept);
    if is_last || is_out {
        answer.next = None;
    }
    Ok(answer)
}

fn bound(sequence: u64) -> i64 {
    match sequence {
        0 => i64::MAX,
        some => i64::try_from(some).unwrap_or(i64::MAX),
    }
}

/// Where the block begins that holds the record, or the first one after it.
fn block_of(connection: &Connection, sequence: u64) -> rusqlite::Result<u64> {
    let sql = "SELECT first FROM audit_blocks WHERE first <= ?1 ORDER BY first DESC LIMIT 1";
    let sequence = i64::try_from(sequence).unwrap_or(i64::MAX);
    let found: Option<i64> = connection
        .prepare_cached(sql)?
        .query_row([sequence], |row| row.get(0))
        .optional()?;
    Ok(found.unwrap_or(sequence).cast_unsigned())
}

/// Checkpoints up to that sequence, newest first.
pub(super) fn checkpoints(
    connection: &Connection,
    up_to: u64,
    limit: usize,
) -> rusqlite::Result<Vec<Checkpoint>> {
    let sql = "SELECT body FROM audit_checkpoints WHERE sequence <= ?1
               ORDER BY sequence DESC, signed_at DESC LIMIT ?2";
    let up_to = i64::try_from(up_to).unwrap_or(i64::MAX);
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut select = connection.prepare_cached(sql)?;
    let rows = select.query_map([up_to, limit], |row| row.get::<_, Vec<u8>>(0))?;
    let mut found = Vec::new();
    for row in rows {
        match Checkpoint::from_json(&row?) {
            Ok(checkpoint) => found.push(checkpoint),
            Err(error) => return Err(unreadable(error)),
        }
    }
    Ok(found)
}

fn unreadable(error: crate::gate::audit::CheckpointError) -> rusqlite::Error {
    let text = rusqlite::types::Type::Blob;
    rusqlite::Error::FromSqlConversionFailure(0, text, Box::new(error))
}

/// The records of a block with their places.
fn records(first: u64, previous: &[u8], body: &[u8]) -> Vec<AuditRow> {
    let mut previous = Digest::from_slice(previous).unwrap_or(GENESIS);
    let mut rows = Vec::new();
    for (place, frame) in (first..).zip(frames(body)) {
        // What follows a length that leads nowhere is one unreadable record.
        let (hash, json) = frame.unwrap_or((GENESIS, &[]));
        rows.push(AuditRow {
            place,
            record_json: Bytes::copy_from_slice(json),
            previous,
            hash,
        });
        previous = hash;
    }
    rows
}

/// Hash and text of each record. None in place of one that is cut off; nothing follows it.
fn frames(body: &[u8]) -> impl Iterator<Item = Option<(Digest, &[u8])>> {
    let mut rest = body;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let frame = rest
            .split_at_checked(FRAME_BYTES)
            .and_then(|(frame, after)| {
                let (length, hash) = frame.split_first_chunk::<4>()?;
                let length = u32::from_le_bytes(*length) as usize;
                let (json, after) = after.split_at_checked(length)?;
                Some((Digest::from_slice(hash)?, json, after))
            });
        match frame {
            Some((hash, json, after)) => {
                rest = after;
                Some(Some((hash, json)))
            }
            None => {
                rest = &[];
                Some(None)
            }
        }
    })
}
