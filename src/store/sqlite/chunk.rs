//! Ended turns, some dozens in one row: short heads in one blob, their records in another.
//!
//! A search reads heads; bodies are read only for what is shown. Never holds a turn that runs.

use rusqlite::{Connection, OptionalExtension, params};

use crate::store::frame;

/// Bytes from which a chunk takes no further turn: what reading one turn costs at most.
const BODY_BYTES: usize = 64 << 10;
/// Turns from which a chunk takes no further one.
const TURNS: usize = 128;
const HEAD_BYTES: usize = 52;

/// What is known of an ended turn without its records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TurnHead {
    pub(super) position: u64,
    pub(super) ended_at: u64,
    pub(super) key_hash: u64,
    pub(super) turn_hash: u64,
    pub(super) session_hash: u64,
    pub(super) run_hash: u64,
    /// Bytes of its records.
    pub(super) length: u32,
}

/// A chunk that is being filled.
#[derive(Debug, Default)]
pub(super) struct ChunkBuilder {
    heads: Vec<TurnHead>,
    bodies: Vec<u8>,
}

impl ChunkBuilder {
    pub(super) fn is_empty(&self) -> bool {
        self.heads.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.heads.len() >= TURNS || self.bodies.len() >= BODY_BYTES
    }

    /// Adds a turn; its length is set here. `framed` stands before `records` and has lengths already.
    pub(super) fn push<'a>(
        &mut self,
        head: TurnHead,
        framed: &[u8],
        records: impl Iterator<Item = &'a [u8]>,
    ) {
        let before = self.bodies.len();
        self.bodies.extend_from_slice(framed);
        for record in records {
            frame::push(&mut self.bodies, |out| out.extend_from_slice(record));
        }
        let length = u32::try_from(self.bodies.len() - before).unwrap_or(u32::MAX);
        self.heads.push(TurnHead { length, ..head });
    }

    /// Writes the chunk in place of any other of that id, and empties the builder.
    pub(super) fn write(&mut self, connection: &Connection, id: i64) -> rusqlite::Result<()> {
        let least = |of: fn(&TurnHead) -> u64| self.heads.iter().map(of).min().unwrap_or(0);
        let most = |of: fn(&TurnHead) -> u64| self.heads.iter().map(of).max().unwrap_or(0);
        let sql = "INSERT OR REPLACE INTO chunks VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        connection.prepare_cached(sql)?.execute(params![
            id,
            least(|head| head.position).cast_signed(),
            most(|head| head.position).cast_signed(),
            least(|head| head.ended_at).cast_signed(),
            most(|head| head.ended_at).cast_signed(),
            heads_to_bytes(&self.heads),
            &self.bodies,
        ])?;
        self.heads.clear();
        self.bodies.clear();
        Ok(())
    }
}

/// The heads of a chunk; none if the chunk is gone.
pub(super) fn heads(connection: &Connection, id: i64) -> rusqlite::Result<Vec<TurnHead>> {
    let sql = "SELECT heads FROM chunks WHERE id = ?1";
    let heads = connection
        .prepare_cached(sql)?
        .query_row([id], |row| {
            row.get_ref(0)?
                .as_blob()
                .map(heads_from)
                .map_err(Into::into)
        })
        .optional()?;
    Ok(heads.unwrap_or_default())
}

/// The chunks after `after` with their heads, oldest first.
pub(super) fn heads_after(
    connection: &Connection,
    after: i64,
) -> rusqlite::Result<Vec<(i64, Vec<TurnHead>)>> {
    let sql = "SELECT id, heads FROM chunks WHERE id > ?1 ORDER BY id";
    let mut select = connection.prepare_cached(sql)?;
    let rows = select.query_map([after], |row| {
        Ok((row.get(0)?, heads_from(row.get_ref(1)?.as_blob()?)))
    })?;
    rows.collect()
}

/// Every turn of a chunk with its records.
pub(super) fn turns(
    connection: &Connection,
    id: i64,
) -> rusqlite::Result<Vec<(TurnHead, Vec<u8>)>> {
    let sql = "SELECT heads, bodies FROM chunks WHERE id = ?1";
    let turns = connection
        .prepare_cached(sql)?
        .query_row([id], |row| {
            let mut rest = row.get_ref(1)?.as_blob()?;
            let heads = heads_from(row.get_ref(0)?.as_blob()?).into_iter();
            let with_body = heads.map_while(|head| {
                let (body, after) = rest.split_at_checked(head.length as usize)?;
                rest = after;
                Some((head, body.to_vec()))
            });
            Ok(with_body.collect())
        })
        .optional()?;
    Ok(turns.unwrap_or_default())
}

fn heads_to_bytes(heads: &[TurnHead]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(heads.len() * HEAD_BYTES);
    for head in heads {
        for number in [
            head.position,
            head.ended_at,
            head.key_hash,
            head.turn_hash,
            head.session_hash,
            head.run_hash,
        ] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&head.length.to_le_bytes());
    }
    bytes
}

fn heads_from(bytes: &[u8]) -> Vec<TurnHead> {
    let (heads, _) = bytes.as_chunks::<HEAD_BYTES>();
    heads.iter().filter_map(head_from).collect()
}

fn head_from(bytes: &[u8; HEAD_BYTES]) -> Option<TurnHead> {
    let (numbers, length) = bytes.as_chunks::<8>();
    let mut numbers = numbers.iter().map(|number| u64::from_le_bytes(*number));
    Some(TurnHead {
        position: numbers.next()?,
        ended_at: numbers.next()?,
        key_hash: numbers.next()?,
        turn_hash: numbers.next()?,
        session_hash: numbers.next()?,
        run_hash: numbers.next()?,
        length: u32::from_le_bytes(length.try_into().ok()?),
    })
}
