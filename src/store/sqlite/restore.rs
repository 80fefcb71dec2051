//! What is there at start: open turns, tools, hooks, toolsets.
//!
//! Reads the open tables and what the journal still holds, however large the rest is. Never changes
//! anything.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::live::{self, Located};
use super::sessions;
use crate::gate::record::StoredTurn;
use crate::store::disk::{self, Unreadable};
use crate::store::fold::{Catalog, Fact, fold_turn};
use crate::store::{Restored, StoreError};

/// What the store holds at start, besides what is restored.
pub(super) struct Found {
    pub(super) restored: Restored,
    /// The next journal row.
    pub(super) next_seq: i64,
    /// The last journal row that is settled.
    pub(super) settled_seq: i64,
    /// Hashes of the keys in the journal, each with its last row.
    pub(super) in_journal: BTreeMap<u64, i64>,
    /// Records and bytes that the journal holds.
    pub(super) backlog_records: usize,
    pub(super) backlog_bytes: usize,
}

/// Reads what there is.
pub(super) fn restore(connection: &Connection) -> Result<Found, StoreError> {
    let sql = |error: rusqlite::Error| super::schema::store_error(&error);
    let mut rows = Vec::new();
    read_journal(connection, &mut rows).map_err(sql)?;
    let mut catalog = Catalog::default();
    read_catalog(connection, &mut catalog)?;
    let mut records = Vec::new();
    let mut backlog_records = 0;
    let mut has_sessions = false;
    for record in rows.iter().flat_map(|(seq, row)| live::records(*seq, row)) {
        backlog_records += 1;
        let record = record.ok_or_else(|| corrupt(&"a record of the journal is unreadable"))?;
        has_sessions |= sessions::is_of_session(record.head.kind);
        match record.head.kind.is_of_turn() {
            true => records.push(record),
            false => {
                let fact = disk::decode(record.frame).map_err(|error| corrupt(&error))?;
                catalog.fold(record.position, fact);
            }
        }
    }
    let open_turns = open_turns(connection, &records)?;
    let (tools, toolsets) = catalog.restored();
    let settled = "SELECT coalesce((SELECT value FROM meta WHERE name = 'settled'), 0)";
    let settled: i64 = connection
        .query_row(settled, [], |row| row.get(0))
        .map_err(sql)?;
    let last = rows.last().map_or(settled, |(seq, _)| settled.max(*seq));
    Ok(Found {
        restored: Restored {
            open_turns,
            tools,
            toolsets,
            hooks: catalog.hooks(),
            has_sessions: has_sessions || sessions::any(connection).map_err(sql)?,
        },
        next_seq: last + 1,
        settled_seq: rows.first().map_or(last, |(first, _)| first - 1),
        in_journal: records
            .iter()
            .map(|record| (record.hash, live::seq(record.position)))
            .collect(),
        backlog_records,
        backlog_bytes: rows.iter().map(|(_, row)| row.len()).sum(),
    })
}

/// Folds the records of one turn, in order.
pub(super) fn fold_frames<'a>(
    frames: impl Iterator<Item = &'a [u8]>,
) -> Result<Option<StoredTurn>, Unreadable> {
    let mut turn = None;
    for frame in frames {
        if let Fact::Turn { at, fact, .. } = disk::decode(frame)? {
            fold_turn(&mut turn, at, fact);
        }
    }
    Ok(turn)
}

/// Every row of the journal.
pub(super) fn read_journal(
    connection: &Connection,
    rows: &mut Vec<(i64, Vec<u8>)>,
) -> rusqlite::Result<()> {
    let mut select = connection.prepare_cached("SELECT seq, body FROM journal ORDER BY seq")?;
    let found = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    for row in found {
        rows.push(row?);
    }
    Ok(())
}

fn read_catalog(connection: &Connection, catalog: &mut Catalog) -> Result<(), StoreError> {
    let sql = |error: rusqlite::Error| super::schema::store_error(&error);
    let mut select = connection
        .prepare("SELECT position, body FROM tools")
        .map_err(sql)?;
    let mut rows = select.query([]).map_err(sql)?;
    while let Some(row) = rows.next().map_err(sql)? {
        let position: i64 = row.get(0).map_err(sql)?;
        let body: Vec<u8> = row.get(1).map_err(sql)?;
        let tool = disk::restored_tool(&body).map_err(|error| corrupt(&error))?;
        catalog.fold(
            position.cast_unsigned(),
            Fact::ToolRegistered(Box::new(tool)),
        );
    }
    let mut select = connection
        .prepare("SELECT body FROM toolsets")
        .map_err(sql)?;
    let mut rows = select.query([]).map_err(sql)?;
    while let Some(row) = rows.next().map_err(sql)? {
        let body: Vec<u8> = row.get(0).map_err(sql)?;
        let toolset = disk::restored_toolset(&body).map_err(|error| corrupt(&error))?;
        catalog.fold(0, Fact::ToolsetPut(toolset));
    }
    let mut select = connection.prepare("SELECT body FROM hooks").map_err(sql)?;
    let mut rows = select.query([]).map_err(sql)?;
    while let Some(row) = rows.next().map_err(sql)? {
        let body: Vec<u8> = row.get(0).map_err(sql)?;
        let hook = disk::restored_hook(&body).map_err(|error| corrupt(&error))?;
        catalog.fold(0, Fact::HookRegistered(hook));
    }
    Ok(())
}

/// Turns that have not ended, oldest first. Only these are decoded.
fn open_turns(
    connection: &Connection,
    in_journal: &[Located<'_>],
) -> Result<Vec<StoredTurn>, StoreError> {
    let sql = |error: rusqlite::Error| super::schema::store_error(&error);
    let kept = read_open(connection).map_err(sql)?;
    let mut records = in_journal.to_vec();
    for (position, frame) in &kept {
        let record = Located::read(*position, frame);
        records.push(record.ok_or_else(|| corrupt(&"a record of an open turn is unreadable"))?);
    }
    let mut open = BTreeMap::new();
    let sorted = live::by_turn(&records);
    for of_key in live::turns(&sorted) {
        for stretch in live::stretches(of_key, false) {
            let Some(position) = stretch.accepted.filter(|_| stretch.ended_at.is_none()) else {
                continue;
            };
            let frames = stretch.records.iter().map(|record| record.frame);
            let turn = fold_frames(frames).map_err(|error| corrupt(&error))?;
            open.extend(turn.map(|turn| (position, turn)));
        }
    }
    Ok(open.into_values().collect())
}

/// Every record of the open turns with its position.
fn read_open(connection: &Connection) -> rusqlite::Result<Vec<(u64, Vec<u8>)>> {
    let sql = "SELECT position, body FROM open_records ORDER BY position";
    let mut select = connection.prepare(sql)?;
    let rows = select.query_map([], |row| {
        Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
    })?;
    rows.collect()
}

pub(super) fn corrupt(problem: &dyn std::fmt::Display) -> StoreError {
    StoreError::Corrupt {
        problem: problem.to_string(),
    }
}
