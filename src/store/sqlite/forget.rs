//! Forgets turns that ended long ago, a slice at a time.
//!
//! The space is used again by later rows; the file does not shrink, since keeping it able to shrink
//! would cost every write. Never touches a turn that runs.

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::chunk::{self, ChunkBuilder};
use super::index;
use super::sessions;
use crate::store::frame;

/// Chunks that one slice looks at.
const CHUNKS: i64 = 32;
/// Runs that one slice looks at.
const RUNS: i64 = 512;

/// How far the forgetting is.
#[derive(Debug)]
pub(super) struct Forgetting {
    ended_before: u64,
    /// Turns forgotten so far.
    pub(super) turns: u64,
    /// The last run that was looked at, once the turns are done.
    after_run: Option<(String, String)>,
}

impl Forgetting {
    pub(super) fn new(ended_before: u64) -> Self {
        Self {
            ended_before: ended_before.min(i64::MAX.cast_unsigned()),
            turns: 0,
            after_run: None,
        }
    }

    /// Forgets a slice. True: nothing is left.
    pub(super) fn slice(&mut self, connection: &mut Connection) -> rusqlite::Result<bool> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if let Some(after) = &self.after_run {
            let last = forget_runs(&transaction, self.ended_before, after)?;
            if last.is_none() {
                sessions::forget(&transaction, self.ended_before)?;
            }
            transaction.commit()?;
            self.after_run = last.clone().or(self.after_run.take());
            return Ok(last.is_none());
        }
        let (chunks, turns) = forget_turns(&transaction, self.ended_before)?;
        if chunks == 0 {
            index::delete_dead(&transaction)?;
        }
        transaction.commit()?;
        self.turns += turns;
        if chunks == 0 {
            self.after_run = Some(Default::default());
        }
        Ok(false)
    }
}

/// Forgets in the next chunks. Answers how many chunks and turns.
fn forget_turns(connection: &Transaction<'_>, before: u64) -> rusqlite::Result<(usize, u64)> {
    let sql = "SELECT id, ended_last FROM chunks WHERE ended_first < ?1 ORDER BY ended_first
               LIMIT ?2";
    let found: Vec<(i64, i64)> = connection
        .prepare_cached(sql)?
        .query_map([before.cast_signed(), CHUNKS], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?
        .collect::<Result<_, _>>()?;
    let mut turns = 0;
    for (id, ended_last) in &found {
        turns += match ended_last.cast_unsigned() < before {
            true => delete(connection, *id)?,
            false => thin_out(connection, *id, before)?,
        };
    }
    Ok((found.len(), turns))
}

fn delete(connection: &Connection, id: i64) -> rusqlite::Result<u64> {
    let turns = chunk::heads(connection, id)?.len() as u64;
    connection
        .prepare_cached("DELETE FROM chunks WHERE id = ?1")?
        .execute([id])?;
    Ok(turns)
}

/// Writes a chunk again without the turns that are forgotten.
fn thin_out(connection: &Connection, id: i64, before: u64) -> rusqlite::Result<u64> {
    let mut kept = ChunkBuilder::default();
    let mut forgotten = 0;
    for (head, records) in chunk::turns(connection, id)? {
        match head.ended_at < before {
            true => forgotten += 1,
            false => kept.push(head, &records, std::iter::empty()),
        }
    }
    kept.write(connection, id)?;
    Ok(forgotten)
}

/// Forgets runs whose turns are all forgotten: nothing touched them since, and none is open.
fn forget_runs(
    connection: &Transaction<'_>,
    before: u64,
    after: &(String, String),
) -> rusqlite::Result<Option<(String, String)>> {
    let sql = "SELECT session, run, touched_at FROM runs WHERE (session, run) > (?1, ?2)
               ORDER BY session, run LIMIT ?3";
    let found: Vec<(String, String, i64)> = connection
        .prepare_cached(sql)?
        .query_map(params![after.0, after.1, RUNS], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?))
        })?
        .collect::<Result<_, _>>()?;
    let mut open = connection.prepare_cached(
        "SELECT 1 FROM open_turns WHERE session_hash = ?1 AND run_hash = ?2 LIMIT 1",
    )?;
    let mut delete =
        connection.prepare_cached("DELETE FROM runs WHERE session = ?1 AND run = ?2")?;
    for (session, run, touched_at) in &found {
        let hashes = [
            frame::session_hash(session.as_bytes()),
            frame::run_hash(run.as_bytes()),
        ];
        if touched_at.cast_unsigned() < before && !open.exists(hashes.map(u64::cast_signed))? {
            delete.execute([session, run])?;
        }
    }
    Ok(found
        .into_iter()
        .next_back()
        .map(|(session, run, _)| (session, run)))
}
