//! Which chunks hold a key: sorted segments that are merged as they grow in number.
//!
//! A segment is written once, in parts by the upper bits of the hash, and eight of a size become a
//! larger one. The newest chunks are in no segment yet: every search looks at their heads. A posting
//! may outlive its chunk, so whoever looks up checks what is found. Never changes a segment in place.

use rusqlite::{Connection, OptionalExtension, params};

use super::chunk;

/// Segments of one level that become one of the next: a level is a power of it.
const FAN: i64 = 8;
/// Segments from this level on stay as they are, since merging more would hold the writer for longer
/// than a slice may. They have 32 768 postings or more, those of 8 192 turns.
const LEVEL_LAST: i64 = 5;
/// Postings that a part holds on average, at most.
const PART_POSTINGS: usize = 256;
const POSTING_BYTES: usize = 12;
/// Bits of a part's id below those of its segment's.
const PART_BITS: u32 = 20;

/// A chunk holds something with that hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Posting {
    pub(super) hash: u64,
    pub(super) chunk: u32,
}

/// Writes a segment of the chunks that are in none.
pub(super) fn add_new(connection: &Connection, id: i64) -> rusqlite::Result<()> {
    let chunks = chunk::heads_after(connection, indexed(connection)?)?;
    let Some((last, _)) = chunks.last() else {
        return Ok(());
    };
    let last = *last;
    let mut postings = Vec::new();
    for (id, heads) in chunks {
        let chunk = u32::try_from(id).unwrap_or(u32::MAX);
        for head in heads {
            let hashes = [
                head.key_hash,
                head.turn_hash,
                head.session_hash,
                head.run_hash,
            ];
            postings.extend(hashes.map(|hash| Posting { hash, chunk }));
        }
    }
    write(connection, id, &mut postings)?;
    let sql = "INSERT OR REPLACE INTO meta VALUES ('indexed', ?1)";
    connection.prepare_cached(sql)?.execute([last])?;
    Ok(())
}

/// The last chunk that is in a segment.
pub(super) fn indexed(connection: &Connection) -> rusqlite::Result<i64> {
    let sql = "SELECT coalesce((SELECT value FROM meta WHERE name = 'indexed'), 0)";
    connection
        .prepare_cached(sql)?
        .query_row([], |row| row.get(0))
}

fn write(connection: &Connection, id: i64, postings: &mut Vec<Posting>) -> rusqlite::Result<()> {
    // What is merged is sorted in pieces, which the stable sort takes as they are.
    postings.sort();
    postings.dedup();
    let level = i64::from(postings.len().max(1).ilog2()) / 3;
    let last = postings
        .iter()
        .map(|posting| posting.chunk)
        .max()
        .unwrap_or(0);
    let bits = (postings.len() / PART_POSTINGS)
        .next_power_of_two()
        .trailing_zeros();
    let sql = "INSERT INTO segments VALUES (?1, ?2, ?3, ?4)";
    let mut insert = connection.prepare_cached(sql)?;
    insert.execute(params![id, level, bits, last])?;
    let sql = "INSERT INTO segment_parts VALUES (?1, ?2)";
    let mut insert = connection.prepare_cached(sql)?;
    for part in postings.chunk_by(|one, other| part_of(one.hash, bits) == part_of(other.hash, bits))
    {
        if let Some(first) = part.first() {
            let row = part_id(id, part_of(first.hash, bits));
            insert.execute(params![row, to_bytes(part)])?;
        }
    }
    Ok(())
}

/// The chunks that may hold something with that hash, newest first.
pub(super) fn look_up(connection: &Connection, hash: u64) -> rusqlite::Result<Vec<i64>> {
    let mut found = Vec::new();
    let mut segments = connection.prepare_cached("SELECT id, bits FROM segments")?;
    let mut parts = connection.prepare_cached("SELECT body FROM segment_parts WHERE id = ?1")?;
    let mut rows = segments.query([])?;
    while let Some(row) = rows.next()? {
        let (id, bits) = (row.get(0)?, row.get(1)?);
        parts
            .query_row([part_id(id, part_of(hash, bits))], |row| {
                let postings = from_bytes(row.get_ref(0)?.as_blob()?);
                let same = postings.filter(|posting| posting.hash == hash);
                found.extend(same.map(|posting| i64::from(posting.chunk)));
                Ok(())
            })
            .optional()?;
    }
    for (id, heads) in chunk::heads_after(connection, indexed(connection)?)? {
        let is_there = heads.iter().any(|head| {
            [
                head.key_hash,
                head.turn_hash,
                head.session_hash,
                head.run_hash,
            ]
            .contains(&hash)
        });
        found.extend(is_there.then_some(id));
    }
    found.sort_unstable_by(|one, other| other.cmp(one));
    found.dedup();
    Ok(found)
}

/// The lowest level that has enough segments to be merged.
pub(super) fn due(connection: &Connection) -> rusqlite::Result<Option<i64>> {
    let sql = "SELECT level FROM segments WHERE level < ?1 GROUP BY level HAVING count(*) >= ?2
               ORDER BY level LIMIT 1";
    connection
        .prepare_cached(sql)?
        .query_row(params![LEVEL_LAST, FAN], |row| row.get(0))
        .optional()
}

/// Makes one segment of all of a level, named `id`, without postings of chunks that are gone.
pub(super) fn merge(connection: &Connection, level: i64, id: i64) -> rusqlite::Result<()> {
    let sql = "SELECT id FROM segments WHERE level = ?1 ORDER BY id LIMIT ?2";
    let old: Vec<i64> = connection
        .prepare_cached(sql)?
        .query_map(params![level, FAN], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    let oldest = oldest_chunk(connection)?;
    let mut postings = Vec::new();
    for segment in old {
        read_into(connection, segment, &mut postings)?;
        delete(connection, segment)?;
    }
    postings.retain(|posting: &Posting| oldest.is_some_and(|oldest| posting.chunk >= oldest));
    match postings.is_empty() {
        true => Ok(()),
        false => write(connection, id, &mut postings),
    }
}

/// Deletes segments of which every chunk is gone.
pub(super) fn delete_dead(connection: &Connection) -> rusqlite::Result<()> {
    let oldest = oldest_chunk(connection)?.unwrap_or(u32::MAX);
    let sql = "SELECT id FROM segments WHERE chunk_last < ?1";
    let dead: Vec<i64> = connection
        .prepare_cached(sql)?
        .query_map([oldest], |row| row.get(0))?
        .collect::<Result<_, _>>()?;
    dead.into_iter().try_for_each(|id| delete(connection, id))
}

fn oldest_chunk(connection: &Connection) -> rusqlite::Result<Option<u32>> {
    let sql = "SELECT min(id) FROM chunks";
    connection
        .prepare_cached(sql)?
        .query_row([], |row| row.get(0))
}

fn read_into(
    connection: &Connection,
    segment: i64,
    postings: &mut Vec<Posting>,
) -> rusqlite::Result<()> {
    let sql = "SELECT body FROM segment_parts WHERE id >= ?1 AND id < ?2";
    let mut select = connection.prepare_cached(sql)?;
    let mut rows = select.query([part_id(segment, 0), part_id(segment + 1, 0)])?;
    while let Some(row) = rows.next()? {
        postings.extend(from_bytes(row.get_ref(0)?.as_blob()?));
    }
    Ok(())
}

fn delete(connection: &Connection, segment: i64) -> rusqlite::Result<()> {
    let sql = "DELETE FROM segment_parts WHERE id >= ?1 AND id < ?2";
    let range = [part_id(segment, 0), part_id(segment + 1, 0)];
    connection.prepare_cached(sql)?.execute(range)?;
    let sql = "DELETE FROM segments WHERE id = ?1";
    connection.prepare_cached(sql)?.execute([segment])?;
    Ok(())
}

/// Which part of a segment holds a hash.
fn part_of(hash: u64, bits: u32) -> i64 {
    let part = hash
        .checked_shr(u64::BITS - bits.min(PART_BITS))
        .unwrap_or(0);
    part.cast_signed()
}

fn part_id(segment: i64, part: i64) -> i64 {
    segment << PART_BITS | part
}

fn to_bytes(postings: &[Posting]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(postings.len() * POSTING_BYTES);
    for posting in postings {
        bytes.extend_from_slice(&posting.hash.to_le_bytes());
        bytes.extend_from_slice(&posting.chunk.to_le_bytes());
    }
    bytes
}

fn from_bytes(bytes: &[u8]) -> impl Iterator<Item = Posting> {
    let (postings, _) = bytes.as_chunks::<POSTING_BYTES>();
    postings.iter().filter_map(|posting| {
        let (hash, chunk) = posting.split_first_chunk::<8>()?;
        Some(Posting {
            hash: u64::from_le_bytes(*hash),
            chunk: u32::from_le_bytes(chunk.try_into().ok()?),
        })
    })
}
