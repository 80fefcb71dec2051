//! Moves what the journal holds into the tables that are read.
//!
//! One slice per transaction: a turn that has ended goes into a chunk, whole; one that runs waits in
//! `open_turns`. Nothing is decoded but runs and tools. Never looks at what is not committed.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior, params};

use super::chunk::{ChunkBuilder, TurnHead};
use super::index::{self, Posting};
use super::live::{self, Located, Stretch};
use crate::gate::event::RunSummary;
use crate::store::disk;
use crate::store::fold::{Catalog, Change, Fact, fold_run};
use crate::store::frame;

/// What a slice moved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Moved {
    pub(super) records: usize,
    pub(super) bytes: usize,
    /// Turns that had ended.
    pub(super) turns: usize,
    /// The last journal row.
    pub(super) last: i64,
}

/// What the settler knows between slices; it changes only with a commit.
#[derive(Debug, Clone, Default)]
pub(super) struct Settler {
    next_chunk: i64,
    next_segment: i64,
    /// Hashes of the keys in `open_turns`.
    open: BTreeSet<u64>,
}

/// Journal rows that are settled together.
struct Slice {
    rows: Vec<(i64, Vec<u8>)>,
    bytes: usize,
}

/// A turn on its way into a chunk.
struct Ended<'a> {
    head: TurnHead,
    turn_hash: u64,
    /// Records from before this slice, each behind its length.
    before: Vec<u8>,
    records: Vec<Located<'a>>,
}

impl Settler {
    /// Learns what the tables hold.
    pub(super) fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        let chunk = number("SELECT coalesce(max(id), 0) FROM chunks")?;
        let indexed = number("SELECT coalesce(max(chunk_last), 0) FROM segments")?;
        let segment = number("SELECT coalesce(max(id), 0) FROM segments")?;
        let open = connection
            .prepare("SELECT key_hash FROM open_turns")?
            .query_map([], |row| row.get::<_, i64>(0).map(i64::cast_unsigned))?
            .collect::<Result<_, _>>()?;
        Ok(Self {
            next_chunk: chunk.max(indexed) + 1,
            next_segment: segment + 1,
            open,
        })
    }

    /// Settles the oldest rows, about `bytes` of them.
    pub(super) fn slice(
        &mut self,
        connection: &mut Connection,
        bytes: usize,
    ) -> rusqlite::Result<Moved> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let slice = Slice::read(&transaction, bytes)?;
        let Some((last, _)) = slice.rows.last() else {
            return Ok(Moved::default());
        };
        let mut next = self.clone();
        let mut moved = next.settle(&transaction, &slice)?;
        moved.last = *last;
        forget_rows(&transaction, *last)?;
        transaction.commit()?;
        *self = next;
        Ok(moved)
    }

    /// Merges one level of the index, if one is due.
    pub(super) fn merge(&mut self, connection: &mut Connection) -> rusqlite::Result<bool> {
        let Some(level) = index::due(connection)? else {
            return Ok(false);
        };
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        index::merge(&transaction, level, self.next_segment)?;
        transaction.commit()?;
        self.next_segment += 1;
        Ok(true)
    }

    fn settle(&mut self, connection: &Transaction<'_>, slice: &Slice) -> rusqlite::Result<Moved> {
        let mut moved = Moved {
            bytes: slice.bytes,
            ..Moved::default()
        };
        let mut of_turns = Vec::new();
        let mut runs = Runs::default();
        for (seq, row) in &slice.rows {
            for record in live::records(*seq, row) {
                moved.records += 1;
                let Some(record) = record else {
                    tracing::error!(seq, "a record of the journal is unreadable and is left out");
                    continue;
                };
                runs.take(&record);
                match record.head.kind.is_of_turn() {
                    true => of_turns.push(record),
                    false => settle_other(connection, &record)?,
                }
            }
        }
        let ended = self.sort_out(connection, &mut of_turns)?;
        moved.turns = ended.len();
        self.write_chunks(connection, ended)?;
        runs.write(connection)?;
        Ok(moved)
    }

    /// Keeps open turns, returns those that have ended.
    fn sort_out<'a>(
        &mut self,
        connection: &Transaction<'_>,
        records: &mut [Located<'a>],
    ) -> rusqlite::Result<Vec<Ended<'a>>> {
        let mut ended = Vec::new();
        for of_key in live::by_turn(records) {
            let Some(first) = of_key.first() else {
                continue;
            };
            let open_at = match self.open.contains(&first.hash) {
                true => find_open(connection, first)?,
                false => None,
            };
            for stretch in live::stretches(of_key, open_at.is_some()) {
                let known = stretch.accepted.is_none();
                let Some(position) = stretch.accepted.or(open_at) else {
                    continue;
                };
                match stretch.ended_at {
                    None => self.keep_open(connection, position, known, &stretch)?,
                    Some(at) => {
                        let before = match known {
                            true => self.take_open(connection, position, first.hash)?,
                            false => Vec::new(),
                        };
                        ended.extend(Ended::new(position, at, before, stretch));
                    }
                }
            }
        }
        ended.sort_unstable_by_key(|turn| turn.head.position);
        Ok(ended)
    }

    fn keep_open(
        &mut self,
        connection: &Transaction<'_>,
        position: u64,
        known: bool,
        stretch: &Stretch<'_>,
    ) -> rusqlite::Result<()> {
        if !known && let Some(first) = stretch.records.first() {
            let head = &first.head;
            let sql = "INSERT INTO open_turns VALUES (?1, ?2, ?3, ?4, ?5)";
            connection.prepare_cached(sql)?.execute([
                position.cast_signed(),
                first.hash.cast_signed(),
                frame::turn_hash(head.turn).cast_signed(),
                frame::session_hash(head.session).cast_signed(),
                frame::run_hash(head.run).cast_signed(),
            ])?;
            self.open.insert(first.hash);
        }
        let sql = "INSERT INTO open_records VALUES (?1, ?2, ?3)";
        let mut insert = connection.prepare_cached(sql)?;
        for record in &stretch.records {
            let (at, turn) = (record.position.cast_signed(), position.cast_signed());
            insert.execute(params![at, turn, record.frame])?;
        }
        Ok(())
    }

    /// Takes an open turn's records out of the tables.
    fn take_open(
        &mut self,
        connection: &Transaction<'_>,
        position: u64,
        hash: u64,
    ) -> rusqlite::Result<Vec<u8>> {
        let position = position.cast_signed();
        let mut bytes = Vec::new();
        let sql = "SELECT body FROM open_records WHERE turn = ?1 ORDER BY position";
        let mut select = connection.prepare_cached(sql)?;
        let mut rows = select.query([position])?;
        while let Some(row) = rows.next()? {
            let body = row.get_ref(0)?.as_blob()?;
            frame::push(&mut bytes, |out| out.extend_from_slice(body));
        }
        let sql = "DELETE FROM open_records WHERE turn = ?1";
        connection.prepare_cached(sql)?.execute([position])?;
        let sql = "DELETE FROM open_turns WHERE position = ?1";
        connection.prepare_cached(sql)?.execute([position])?;
        self.open.remove(&hash);
        Ok(bytes)
    }

    fn write_chunks(
        &mut self,
        connection: &Transaction<'_>,
        ended: Vec<Ended<'_>>,
    ) -> rusqlite::Result<()> {
        if ended.is_empty() {
            return Ok(());
        }
        let mut chunk = ChunkBuilder::default();
        let mut postings = Vec::with_capacity(ended.len() * 4);
        let mut scratch = Vec::new();
        for turn in ended {
            let id = u32::try_from(self.next_chunk).unwrap_or(u32::MAX);
            let head = &turn.head;
            let hashes = [
                head.key_hash,
                turn.turn_hash,
                head.session_hash,
                head.run_hash,
            ];
            postings.extend(hashes.map(|hash| Posting { hash, chunk: id }));
            scratch.clear();
            for record in &turn.records {
                frame::push(&mut scratch, |out| out.extend_from_slice(record.frame));
            }
            chunk.push(*head, [turn.before.as_slice(), &scratch].into_iter());
            if chunk.is_full() {
                chunk.write(connection, self.next_chunk)?;
                self.next_chunk += 1;
            }
        }
        if !chunk.is_empty() {
            chunk.write(connection, self.next_chunk)?;
            self.next_chunk += 1;
        }
        index::write(connection, self.next_segment, 0, &mut postings)?;
        self.next_segment += 1;
        Ok(())
    }
}

impl<'a> Ended<'a> {
    fn new(position: u64, ended_at: u64, before: Vec<u8>, stretch: Stretch<'a>) -> Option<Self> {
        let first = stretch.records.first()?;
        Some(Self {
            head: TurnHead {
                position,
                ended_at,
                key_hash: first.hash,
                session_hash: frame::session_hash(first.head.session),
                run_hash: frame::run_hash(first.head.run),
                length: 0,
            },
            turn_hash: frame::turn_hash(first.head.turn),
            before,
            records: stretch.records,
        })
    }
}

impl Slice {
    fn read(connection: &Connection, bytes_max: usize) -> rusqlite::Result<Self> {
        let mut slice = Self {
            rows: Vec::new(),
            bytes: 0,
        };
        let sql = "SELECT seq, body FROM journal ORDER BY seq";
        let mut select = connection.prepare_cached(sql)?;
        let mut rows = select.query([])?;
        while slice.bytes < bytes_max
            && let Some(row) = rows.next()?
        {
            let body: Vec<u8> = row.get(1)?;
            slice.bytes += body.len();
            slice.rows.push((row.get(0)?, body));
        }
        Ok(slice)
    }
}

fn forget_rows(connection: &Connection, last: i64) -> rusqlite::Result<()> {
    let sql = "DELETE FROM journal WHERE seq <= ?1";
    connection.prepare_cached(sql)?.execute([last])?;
    // Positions must not come twice, also when the journal is empty.
    let sql = "INSERT OR REPLACE INTO meta VALUES ('settled', ?1)";
    connection.prepare_cached(sql)?.execute([last])?;
    Ok(())
}

/// Where the open turn of that key was accepted.
fn find_open(connection: &Connection, record: &Located<'_>) -> rusqlite::Result<Option<u64>> {
    let sql = "SELECT position, (SELECT body FROM open_records WHERE turn = open_turns.position
               ORDER BY position LIMIT 1) FROM open_turns WHERE key_hash = ?1";
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query([record.hash.cast_signed()])?;
    while let Some(row) = rows.next()? {
        let same = row
            .get_ref(1)?
            .as_blob_or_null()?
            .and_then(frame::Head::read);
        if same.is_some_and(|head| {
            head.session == record.head.session && head.turn == record.head.turn
        }) {
            return Ok(Some(row.get::<_, i64>(0)?.cast_unsigned()));
        }
    }
    Ok(None)
}

/// Settles a record that is about no turn.
fn settle_other(connection: &Connection, record: &Located<'_>) -> rusqlite::Result<()> {
    let fact = match disk::decode(record.frame) {
        Ok(
            fact @ (Fact::ToolRegistered(_)
            | Fact::ToolRemoved(_)
            | Fact::ToolsetPut(_)
            | Fact::ToolsetDeleted(_)),
        ) => fact,
        // Runs are taken up by their heads.
        Ok(Fact::Turn { .. } | Fact::RunEnded(_)) => return Ok(()),
        Err(error) => {
            tracing::error!(%error, "a record of the journal is unreadable and is left out");
            return Ok(());
        }
    };
    let mut catalog = Catalog::default();
    match catalog.fold(record.position, fact) {
        Some(Change::Tool(name)) => write_tool(connection, &catalog, &name),
        Some(Change::Toolset(name)) => write_toolset(connection, &catalog, &name),
        None => Ok(()),
    }
}

fn write_tool(
    connection: &Connection,
    catalog: &Catalog,
    name: &crate::gate::ids::ToolName,
) -> rusqlite::Result<()> {
    match catalog.tool(name) {
        Some((position, tool)) => {
            let sql = "INSERT OR REPLACE INTO tools VALUES (?1, ?2, ?3)";
            let (position, body) = (position.cast_signed(), disk::tool_bytes(tool));
            let row = params![name.as_str(), position, body];
            connection.prepare_cached(sql)?.execute(row)?;
        }
        None => {
            let sql = "DELETE FROM tools WHERE name = ?1";
            connection.prepare_cached(sql)?.execute([name.as_str()])?;
        }
    }
    Ok(())
}

fn write_toolset(connection: &Connection, catalog: &Catalog, name: &str) -> rusqlite::Result<()> {
    match catalog.toolset(name) {
        Some(toolset) => {
            let sql = "INSERT OR REPLACE INTO toolsets VALUES (?1, ?2)";
            let row = params![name, disk::toolset_bytes(toolset)];
            connection.prepare_cached(sql)?.execute(row)?;
        }
        None => {
            let sql = "DELETE FROM toolsets WHERE name = ?1";
            connection.prepare_cached(sql)?.execute([name])?;
        }
    }
    Ok(())
}

/// Runs as a slice leaves them.
#[derive(Default)]
struct Runs<'a> {
    by_name: BTreeMap<(&'a str, &'a str), (RunSummary, u64)>,
}

impl<'a> Runs<'a> {
    fn take(&mut self, record: &Located<'a>) {
        let head = &record.head;
        let Some(state) = head.run_state else {
            return;
        };
        let run = match disk::run_summary(state, head.session, head.run) {
            Ok(run) => run,
            Err(error) => {
                tracing::error!(%error, "the run of a record is unreadable and is left out");
                return;
            }
        };
        match self.by_name.entry((head.session, head.run)) {
            std::collections::btree_map::Entry::Vacant(entry) => {
                entry.insert((run, head.at));
            }
            std::collections::btree_map::Entry::Occupied(mut entry) => {
                let (known, touched_at) = entry.get_mut();
                fold_run(known, run);
                *touched_at = (*touched_at).max(head.at);
            }
        }
    }

    fn write(self, connection: &Connection) -> rusqlite::Result<()> {
        let mut select = connection
            .prepare_cached("SELECT body, touched_at FROM runs WHERE session = ?1 AND run = ?2")?;
        let mut write =
            connection.prepare_cached("INSERT OR REPLACE INTO runs VALUES (?1, ?2, ?3, ?4)")?;
        for ((session, name), (run, touched_at)) in self.by_name {
            let known = select
                .query_row([session, name], |row| {
                    let touched_at: i64 = row.get(1)?;
                    let body = row.get_ref(0)?.as_blob()?;
                    Ok((disk::run_summary(body, session, name).ok(), touched_at))
                })
                .optional()?;
            let (run, touched_at) = match known {
                Some((Some(mut known), before)) => {
                    fold_run(&mut known, run);
                    (known, touched_at.max(before.cast_unsigned()))
                }
                Some((None, _)) | None => (run, touched_at),
            };
            let touched_at = touched_at.cast_signed();
            write.execute(params![session, name, touched_at, disk::run_bytes(&run)])?;
        }
        Ok(())
    }
}
