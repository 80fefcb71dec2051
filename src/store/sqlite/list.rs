//! One page of turns, newest first, from all places where turns are.
//!
//! Heads are gathered first and bodies are read for the page only. A position never changes, so that
//! what comes between two pages moves nothing. Never decodes a turn that it does not show.

use std::collections::BTreeMap;

use super::live::{self, Located};
use super::reader::{ReadError, Snapshot};
use super::restore::fold_frames;
use super::{chunk, index};
use crate::gate::record::StoredTurn;
use crate::store::frame;
use crate::store::{TurnFilter, TurnPage};

/// Most turns of a page.
const PAGE_TURNS_MAX: usize = 1_000;
/// Bytes of records from which a page takes no further turn.
const PAGE_BYTES: usize = 16 << 20;

/// Where a turn's records are.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// In the journal, in the open tables, or in both.
    Live,
    Chunk(i64),
}

/// Turns that pass the filter, by position; never more than are needed.
struct Found {
    by_position: BTreeMap<u64, Place>,
    most: usize,
}

impl Found {
    fn add(&mut self, position: u64, place: Place) {
        self.by_position.insert(position, place);
        if self.by_position.len() > self.most {
            self.by_position.pop_first();
        }
    }

    /// Whether nothing at or below `position` has a place any more.
    fn is_above(&self, position: u64) -> bool {
        let lowest = self.by_position.first_key_value();
        self.by_position.len() >= self.most && lowest.is_some_and(|(lowest, _)| *lowest > position)
    }
}

/// A live turn without its settled records.
struct Live<'a> {
    session_hash: u64,
    run_hash: u64,
    ended: bool,
    /// Its records in the journal.
    records: Vec<Located<'a>>,
}

/// Reads one page.
pub(super) fn list(state: &Snapshot<'_>, filter: &TurnFilter) -> Result<TurnPage, ReadError> {
    let wanted = filter.limit.clamp(1, PAGE_TURNS_MAX);
    let mut found = Found {
        by_position: BTreeMap::new(),
        most: wanted + 1,
    };
    let filter = Filter::new(filter);
    let live = live_turns(state)?;
    for (position, turn) in &live {
        if filter.passes(*position, turn.session_hash, turn.run_hash, turn.ended) {
            found.add(*position, Place::Live);
        }
    }
    if filter.ended != Some(false) {
        search_chunks(state, &filter, &mut found)?;
    }
    page(state, &live, found, wanted)
}

/// The filter by what heads hold.
struct Filter {
    session: Option<u64>,
    run: Option<u64>,
    ended: Option<bool>,
    before: u64,
}

impl Filter {
    fn new(filter: &TurnFilter) -> Self {
        let session = filter.session.as_ref();
        let run = filter.run.as_ref();
        Self {
            session: session.map(|session| frame::session_hash(session.as_str().as_bytes())),
            run: run.map(|run| frame::run_hash(run.as_str().as_bytes())),
            ended: filter.ended,
            before: filter.before.unwrap_or(i64::MAX.cast_unsigned()),
        }
    }

    fn passes(&self, position: u64, session_hash: u64, run_hash: u64, ended: bool) -> bool {
        position < self.before
            && self.session.is_none_or(|session| session == session_hash)
            && self.run.is_none_or(|run| run == run_hash)
            && self.ended.is_none_or(|wanted| wanted == ended)
    }
}

/// Every turn that is open in the tables or has records in the journal, by position.
fn live_turns<'a>(state: &Snapshot<'a>) -> Result<BTreeMap<u64, Live<'a>>, ReadError> {
    let mut turns = BTreeMap::new();
    let mut open_by_key = BTreeMap::new();
    let sql = "SELECT position, key_hash, session_hash, run_hash FROM open_turns";
    let mut select = state.connection.prepare_cached(sql)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
        let (position, key_hash) = (number(0)?, number(1)?);
        open_by_key.insert(key_hash, position);
        turns.insert(
            position,
            Live {
                session_hash: number(2)?,
                run_hash: number(3)?,
                ended: false,
                records: Vec::new(),
            },
        );
    }
    let of_turns = |record: &Located<'_>| record.head.kind.is_of_turn();
    let records: Vec<_> = state.in_journal().filter(of_turns).collect();
    let sorted = live::by_turn(&records);
    for of_key in live::turns(&sorted) {
        let open_at = of_key
            .first()
            .and_then(|first| open_by_key.get(&first.hash));
        for stretch in live::stretches(of_key, open_at.is_some()) {
            let position = stretch.accepted.or(open_at.copied());
            if let (Some(position), Some(first)) = (position, stretch.records.first()) {
                turns.insert(
                    position,
                    Live {
                        session_hash: frame::session_hash(first.head.session),
                        run_hash: frame::run_hash(first.head.run),
                        ended: stretch.ended_at.is_some(),
                        records: stretch.records.to_vec(),
                    },
                );
            }
        }
    }
    Ok(turns)
}

fn search_chunks(
    state: &Snapshot<'_>,
    filter: &Filter,
    found: &mut Found,
) -> Result<(), ReadError> {
    let named = filter.session.or(filter.run);
    let Some(hash) = named else {
        let sql = "SELECT id, last FROM chunks WHERE first < ?1 ORDER BY last DESC";
        let mut select = state.connection.prepare_cached(sql)?;
        let mut rows = select.query([filter.before.cast_signed()])?;
        while let Some(row) = rows.next()? {
            if found.is_above(row.get::<_, i64>(1)?.cast_unsigned()) {
                break;
            }
            search_chunk(state, filter, row.get(0)?, found)?;
        }
        return Ok(());
    };
    let mut chunks: Vec<(i64, i64)> = Vec::new();
    let sql = "SELECT last, id FROM chunks WHERE id = ?1 AND first < ?2";
    let mut select = state.connection.prepare_cached(sql)?;
    for id in index::look_up(state.connection, hash)? {
        let rows = select.query_map([id, filter.before.cast_signed()], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
        for row in rows {
            chunks.push(row?);
        }
    }
    chunks.sort_unstable();
    for (last, id) in chunks.into_iter().rev() {
        if found.is_above(last.cast_unsigned()) {
            break;
        }
        search_chunk(state, filter, id, found)?;
    }
    Ok(())
}

fn search_chunk(
    state: &Snapshot<'_>,
    filter: &Filter,
    id: i64,
    found: &mut Found,
) -> Result<(), ReadError> {
    for head in chunk::heads(state.connection, id)? {
        if filter.passes(head.position, head.session_hash, head.run_hash, true) {
            found.add(head.position, Place::Chunk(id));
        }
    }
    Ok(())
}

/// Reads the bodies of a page.
fn page(
    state: &Snapshot<'_>,
    live: &BTreeMap<u64, Live<'_>>,
    found: Found,
    wanted: usize,
) -> Result<TurnPage, ReadError> {
    let mut page = TurnPage::default();
    let mut bytes = 0;
    let mut last_shown = 0;
    let mut chunk = (0, BTreeMap::new());
    for (position, place) in found.by_position.into_iter().rev() {
        if page.turns.len() == wanted || bytes >= PAGE_BYTES {
            page.next = Some(last_shown);
            break;
        }
        let turn = match place {
            Place::Live => read_live(state, position, live.get(&position), &mut bytes)?,
            Place::Chunk(id) => {
                if chunk.0 != id {
                    let turns = chunk::turns(state.connection, id)?.into_iter();
                    chunk = (
                        id,
                        turns.map(|(head, body)| (head.position, body)).collect(),
                    );
                }
                let body = chunk
                    .1
                    .get(&position)
                    .map(Vec::as_slice)
                    .unwrap_or_default();
                bytes += body.len();
                fold_frames(frame::frames(body).flatten())?
            }
        };
        page.turns.extend(turn);
        last_shown = position;
    }
    Ok(page)
}

fn read_live(
    state: &Snapshot<'_>,
    position: u64,
    turn: Option<&Live<'_>>,
    bytes: &mut usize,
) -> Result<Option<StoredTurn>, ReadError> {
    let settled = state.open_records(position)?;
    let settled = settled.iter().map(|(_, frame)| frame.as_slice());
    let unsettled = turn
        .iter()
        .flat_map(|turn| &turn.records)
        .map(|record| record.frame);
    let frames = settled
        .chain(unsettled)
        .inspect(|frame| *bytes += frame.len());
    Ok(fold_frames(frames)?)
}
