//! Decides where records go: groups into the journal, the journal into the tables that are read.
//!
//! A turn that has ended goes into a chunk, whole, as soon as a group or a slice of the journal has
//! its end; one that runs waits in `open_turns`. Nothing is decoded but runs and tools. Never keeps
//! what it learned if the transaction fails.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, Transaction, TransactionBehavior, params};

use super::chunk::{ChunkBuilder, TurnHead};
use super::live::{self, Located, Stretch};
use super::runs::Runs;
use super::{catalog, index};
use crate::store::{disk, frame};

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

/// Where a group went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Placed {
    /// Records in the journal's row.
    pub(super) records: usize,
    /// Bytes of the row.
    pub(super) bytes: usize,
    /// Turns that went straight into chunks.
    pub(super) turns: usize,
}

/// Records from which a group is worth being split, or bytes: what is copied costs as much as what is
/// looked up.
const SPLIT_RECORDS: usize = 64;
const SPLIT_BYTES: usize = 64 << 10;

/// What the settler knows between transactions; it changes only with a commit.
#[derive(Debug, Clone, Default)]
pub(super) struct Settler {
    next_chunk: i64,
    next_segment: i64,
    /// Hashes of the keys in `open_turns`.
    open: BTreeSet<u64>,
    /// Hashes of the keys in the journal, each with its last row.
    in_journal: BTreeMap<u64, i64>,
}

/// Journal rows that are settled together.
struct Slice {
    rows: Vec<(i64, Vec<u8>)>,
    bytes: usize,
}

/// A turn on its way into a chunk.
struct Ended<'b, 'a> {
    head: TurnHead,
    /// Records from before this slice, each behind its length.
    before: Vec<u8>,
    records: &'b [Located<'a>],
}

impl Settler {
    /// Learns what the tables hold. `in_journal`: the keys in the journal, each with its last row.
    pub(super) fn load(
        connection: &Connection,
        in_journal: BTreeMap<u64, i64>,
    ) -> rusqlite::Result<Self> {
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0));
        let chunk = number("SELECT coalesce(max(id), 0) FROM chunks")?;
        // Ids that were indexed never come again, also when their chunks are forgotten.
        let indexed = index::indexed(connection)?;
        let segment = number("SELECT coalesce(max(id), 0) FROM segments")?;
        let open = connection
            .prepare("SELECT key_hash FROM open_turns")?
            .query_map([], |row| row.get::<_, i64>(0).map(i64::cast_unsigned))?
            .collect::<Result<_, _>>()?;
        Ok(Self {
            next_chunk: chunk.max(indexed) + 1,
            next_segment: segment + 1,
            open,
            in_journal,
        })
    }

    /// Writes a group as journal row `seq`, and `beside` in the same transaction.
    ///
    /// Of a large group, turns that begin and end in it go straight into chunks: written once instead
    /// of twice, which halves the price of a short turn. The row keeps their places and their runs.
    pub(super) fn write_group(
        &mut self,
        connection: &mut Connection,
        seq: i64,
        bytes: &[u8],
        records: usize,
        beside: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> rusqlite::Result<Placed> {
        let records_of = live::records(seq, bytes).flatten();
        if records < SPLIT_RECORDS && bytes.len() < SPLIT_BYTES {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            if !bytes.is_empty() {
                insert_row(&transaction, seq, bytes)?;
            }
            beside(&transaction)?;
            transaction.commit()?;
            let of_turns = records_of.filter(|record| record.head.kind.is_of_turn());
            self.in_journal
                .extend(of_turns.map(|record| (record.hash, seq)));
            let bytes = bytes.len();
            return Ok(Placed {
                records,
                bytes,
                turns: 0,
            });
        }
        let of_turns: Vec<_> = records_of
            .filter(|record| record.head.kind.is_of_turn())
            .collect();
        let sorted = live::by_turn(&of_turns);
        let mut placed = Placed::default();
        let mut next = self.next_chunk;
        let (whole, left) = self.split(&sorted);
        let mut runs = Runs::default();
        // How the end of a turn leaves its run says all that its begin said.
        for record in whole.iter().filter_map(|turn| turn.records.last()) {
            runs.take(record);
        }
        let row = row_without(bytes, &whole, &runs, &mut placed);
        placed.turns = whole.len();
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        write_chunks(&transaction, &mut next, whole)?;
        insert_row(&transaction, seq, &row)?;
        beside(&transaction)?;
        transaction.commit()?;
        self.next_chunk = next;
        self.in_journal
            .extend(left.into_iter().map(|hash| (hash, seq)));
        Ok(placed)
    }

    /// The turns of a group that are whole, and the keys of all others.
    fn split<'b, 'a>(&self, sorted: &'b [Located<'a>]) -> (Vec<Ended<'b, 'a>>, Vec<u64>) {
        let (mut whole, mut left) = (Vec::new(), Vec::new());
        for of_key in live::turns(sorted) {
            let Some(first) = of_key.first() else {
                continue;
            };
            let begun_before =
                self.open.contains(&first.hash) || self.in_journal.contains_key(&first.hash);
            // Anything but one turn from its begin to its end takes the ordinary way.
            let turn = live::stretches(of_key, false).next();
            let turn = turn.filter(|turn| !begun_before && turn.records.len() == of_key.len());
            let ended =
                turn.and_then(|turn| Ended::new(turn.accepted?, turn.ended_at?, Vec::new(), &turn));
            match ended {
                Some(turn) => whole.push(turn),
                None => left.push(first.hash),
            }
        }
        whole.sort_unstable_by_key(|turn| turn.head.position);
        (whole, left)
    }

    /// Settles the oldest rows, about `bytes` of them.
    pub(super) fn slice(
        &mut self,
        connection: &mut Connection,
        bytes: usize,
    ) -> rusqlite::Result<Moved> {
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let slice = Slice::read(&transaction, bytes)?;
        let mut next = self.clone();
        let mut moved = next.settle(&transaction, &slice)?;
        if let Some((last, _)) = slice.rows.last() {
            moved.last = *last;
            forget_rows(&transaction, *last)?;
            next.in_journal.retain(|_, row| *row > *last);
        }
        index::add_new(&transaction, next.next_segment)?;
        next.next_segment += 1;
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
                    false => catalog::settle(connection, &record)?,
                }
            }
        }
        let sorted = live::by_turn(&of_turns);
        let ended = self.sort_out(connection, &sorted)?;
        moved.turns = ended.len();
        write_chunks(connection, &mut self.next_chunk, ended)?;
        runs.write(connection)?;
        Ok(moved)
    }

    /// Keeps open turns, returns those that have ended.
    fn sort_out<'b, 'a>(
        &mut self,
        connection: &Transaction<'_>,
        sorted: &'b [Located<'a>],
    ) -> rusqlite::Result<Vec<Ended<'b, 'a>>> {
        let mut ended = Vec::new();
        for of_key in live::turns(sorted) {
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
                        ended.extend(Ended::new(position, at, before, &stretch));
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
        stretch: &Stretch<'_, '_>,
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
        for record in stretch.records {
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
}

/// Writes turns into chunks from `next` on.
fn write_chunks(
    connection: &Transaction<'_>,
    next: &mut i64,
    turns: Vec<Ended<'_, '_>>,
) -> rusqlite::Result<()> {
    let mut chunk = ChunkBuilder::default();
    for turn in turns {
        chunk.push(
            turn.head,
            &turn.before,
            turn.records.iter().map(|record| record.frame),
        );
        if chunk.is_full() {
            chunk.write(connection, *next)?;
            *next += 1;
        }
    }
    if !chunk.is_empty() {
        chunk.write(connection, *next)?;
        *next += 1;
    }
    Ok(())
}

fn insert_row(connection: &Connection, seq: i64, row: &[u8]) -> rusqlite::Result<()> {
    let sql = "INSERT INTO journal VALUES (?1, ?2)";
    connection.prepare_cached(sql)?.execute(params![seq, row])?;
    Ok(())
}

/// A group's row without the turns that are written elsewhere, with notes of their runs.
fn row_without(
    bytes: &[u8],
    whole: &[Ended<'_, '_>],
    runs: &Runs<'_>,
    placed: &mut Placed,
) -> Vec<u8> {
    let positions = whole
        .iter()
        .flat_map(|turn| turn.records)
        .map(|record| record.position);
    let mut gone: Vec<usize> = positions.map(live::ordinal).collect();
    gone.sort_unstable();
    let mut gone = gone.into_iter().peekable();
    let mut row = Vec::new();
    for (ordinal, frame) in frame::frames(bytes).flatten().enumerate() {
        let is_gone = gone.next_if_eq(&ordinal).is_some();
        frame::push(&mut row, |out| match is_gone {
            true => {}
            false => {
                placed.records += 1;
                out.extend_from_slice(frame);
            }
        });
    }
    for (run, at) in runs.by_name.values() {
        placed.records += 1;
        frame::push(&mut row, |out| disk::run_seen(run, *at, out));
    }
    placed.bytes = row.len();
    row
}

impl<'b, 'a> Ended<'b, 'a> {
    fn new(
        position: u64,
        ended_at: u64,
        before: Vec<u8>,
        stretch: &Stretch<'b, 'a>,
    ) -> Option<Self> {
        let first = stretch.records.first()?;
        Some(Self {
            head: TurnHead {
                position,
                ended_at,
                key_hash: first.hash,
                turn_hash: frame::turn_hash(first.head.turn),
                session_hash: frame::session_hash(first.head.session),
                run_hash: frame::run_hash(first.head.run),
                length: 0,
            },
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
