//! Answers questions, on a thread and a connection of its own.
//!
//! Every question sees one state of the file: what was committed before it came, settled or not.
//! Never writes, so it answers when the disk is full.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError};

use rusqlite::{Connection, OptionalExtension, Transaction};

use super::audit_read;
use super::list;
use super::live::{self, Located};
use super::queue::{Reply, closed};
use super::restore::{corrupt, fold_frames, read_journal};
use super::schema::store_error;
use super::sessions;
use super::{chunk, index};
use crate::gate::audit::Checkpoint;
use crate::gate::event::RunSummary;
use crate::gate::ids::{BatchId, RunId, SessionId, TurnId, TurnKey, UnixMillis};
use crate::gate::record::StoredTurn;
use crate::gate::session::StoredSession;
use crate::store::audit::{AuditAsk, AuditSlice};
use crate::store::disk;
use crate::store::fold::fold_run;
use crate::store::frame;
use crate::store::{StoreError, TurnFilter, TurnPage};

/// Most questions that wait.
pub(super) const READS_MAX: usize = 1024;
/// Most keys that a search by turn id answers.
const KEYS_MAX: usize = 8;

/// A question, and where its answer goes.
pub(super) enum Read {
    Turn(TurnKey, Reply<Option<StoredTurn>>),
    Find(TurnId, Reply<Vec<TurnKey>>),
    List(TurnFilter, Reply<TurnPage>),
    Run(SessionId, RunId, Reply<Option<RunSummary>>),
    Marked(u64, BatchId, Reply<Option<StoredTurn>>),
    Session(SessionId, Reply<Option<StoredSession>>),
    Sessions(Reply<Vec<(SessionId, UnixMillis)>>),
    Audit(Box<AuditAsk>, Reply<AuditSlice>),
    Checkpoints(u64, usize, Reply<Vec<Checkpoint>>),
    /// No question: the thread ends.
    Stop,
}

impl Read {
    pub(super) fn refuse(self, error: StoreError) {
        match self {
            Read::Turn(_, reply) => drop(reply.send(Err(error))),
            Read::Find(_, reply) => drop(reply.send(Err(error))),
            Read::List(_, reply) => drop(reply.send(Err(error))),
            Read::Run(_, _, reply) => drop(reply.send(Err(error))),
            Read::Marked(_, _, reply) => drop(reply.send(Err(error))),
            Read::Session(_, reply) => drop(reply.send(Err(error))),
            Read::Sessions(reply) => drop(reply.send(Err(error))),
            Read::Audit(_, reply) => drop(reply.send(Err(error))),
            Read::Checkpoints(_, _, reply) => drop(reply.send(Err(error))),
            Read::Stop => {}
        }
    }
}

/// Hands a question to the reader.
pub(super) fn ask(reader: &SyncSender<Read>, read: Read) {
    match reader.try_send(read) {
        Ok(()) => {}
        Err(TrySendError::Full(read)) => read.refuse(StoreError::Unavailable {
            problem: String::from("too many reads wait"),
        }),
        Err(TrySendError::Disconnected(read)) => read.refuse(closed()),
    }
}

/// Answers until it is told to stop.
pub(super) fn run(mut connection: Connection, questions: &Receiver<Read>) {
    while let Ok(read) = questions.recv() {
        // An answer that nobody waits for any more is dropped.
        match read {
            Read::Turn(key, reply) => {
                drop(reply.send(answer(&mut connection, |state| read_turn(state, &key))));
            }
            Read::Find(turn, reply) => {
                drop(reply.send(answer(&mut connection, |state| find_turn(state, &turn))));
            }
            Read::List(filter, reply) => {
                drop(reply.send(answer(&mut connection, |state| list::list(state, &filter))));
            }
            Read::Run(session, run, reply) => {
                let run = answer(&mut connection, |state| read_run(state, &session, &run));
                drop(reply.send(run));
            }
            Read::Marked(mark, batch, reply) => {
                let turn = answer(&mut connection, |state| read_marked(state, mark, &batch));
                drop(reply.send(turn));
            }
            Read::Session(session, reply) => {
                let session = answer(&mut connection, |state| sessions::read(state, &session));
                drop(reply.send(session));
            }
            Read::Sessions(reply) => {
                drop(reply.send(answer(&mut connection, sessions::list)));
            }
            // The journal holds nothing of the audit.
            Read::Audit(ask, reply) => {
                let found = audit_read::slice(&connection, &ask);
                drop(reply.send(found.map_err(|error| store_error(&error))));
            }
            Read::Checkpoints(up_to, limit, reply) => {
                let found = audit_read::checkpoints(&connection, up_to, limit);
                drop(reply.send(found.map_err(|error| store_error(&error))));
            }
            Read::Stop => return,
        }
    }
}

/// Why a read gave no answer.
pub(super) enum ReadError {
    Sql(rusqlite::Error),
    Unreadable(disk::Unreadable),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> Self {
        ReadError::Sql(error)
    }
}

impl From<disk::Unreadable> for ReadError {
    fn from(error: disk::Unreadable) -> Self {
        ReadError::Unreadable(error)
    }
}

/// One state of the file.
pub(super) struct Snapshot<'a> {
    pub(super) connection: &'a Transaction<'a>,
    /// What the journal holds.
    pub(super) journal: &'a [(i64, Vec<u8>)],
}

fn answer<T>(
    connection: &mut Connection,
    read: impl FnOnce(&Snapshot<'_>) -> Result<T, ReadError>,
) -> Result<T, StoreError> {
    let attempt = || -> Result<T, ReadError> {
        let transaction = connection.transaction()?;
        let mut journal = Vec::new();
        read_journal(&transaction, &mut journal)?;
        read(&Snapshot {
            connection: &transaction,
            journal: &journal,
        })
    };
    attempt().map_err(|error| match error {
        ReadError::Sql(error) => store_error(&error),
        ReadError::Unreadable(error) => corrupt(&error),
    })
}

impl<'a> Snapshot<'a> {
    /// What the journal holds, in order. Unreadable records are the settler's to report.
    pub(super) fn in_journal(&self) -> impl Iterator<Item = Located<'a>> {
        let rows = self.journal.iter();
        rows.flat_map(|(seq, row)| live::records(*seq, row))
            .flatten()
    }

    /// The settled records of an open turn.
    pub(super) fn open_records(&self, position: u64) -> rusqlite::Result<Vec<(u64, Vec<u8>)>> {
        let sql = "SELECT position, body FROM open_records WHERE turn = ?1 ORDER BY position";
        let mut select = self.connection.prepare_cached(sql)?;
        let rows = select.query_map([position.cast_signed()], |row| {
            Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
        })?;
        rows.collect()
    }

    /// The positions of open turns in the tables by one of their hashes.
    fn open_positions(&self, column: &str, hash: u64) -> rusqlite::Result<Vec<u64>> {
        let sql = format!("SELECT position FROM open_turns WHERE {column} = ?1");
        let mut select = self.connection.prepare_cached(&sql)?;
        let rows = select.query_map([hash.cast_signed()], |row| {
            Ok(row.get::<_, i64>(0)?.cast_unsigned())
        })?;
        rows.collect()
    }
}

fn read_turn(state: &Snapshot<'_>, key: &TurnKey) -> Result<Option<StoredTurn>, ReadError> {
    let hash = frame::key_hash(
        key.session.as_str().as_bytes(),
        key.turn.as_str().as_bytes(),
    );
    let is_it = |record: &Located<'_>| {
        record.head.kind.is_of_turn()
            && record.head.turn == key.turn.as_str().as_bytes()
            && record.head.session == key.session.as_str().as_bytes()
    };
    match read_present(state, hash, is_it)? {
        Some(turn) => Ok(Some(turn)),
        None => read_ended(state, hash, |turn| turn.spec.key() == *key),
    }
}

fn read_marked(
    state: &Snapshot<'_>,
    mark: u64,
    batch: &BatchId,
) -> Result<Option<StoredTurn>, ReadError> {
    let is_it = |record: &Located<'_>| record.head.kind.is_of_turn() && record.hash == mark;
    let present = read_present(state, mark, is_it)?;
    match present.filter(|turn| turn.spec.batch == *batch) {
        Some(turn) => Ok(Some(turn)),
        None => read_ended(state, mark, |turn| turn.spec.batch == *batch),
    }
}

/// The newest turn of records that are no chunk's yet.
fn read_present(
    state: &Snapshot<'_>,
    hash: u64,
    is_it: impl Fn(&Located<'_>) -> bool,
) -> Result<Option<StoredTurn>, ReadError> {
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for position in state.open_positions("key_hash", hash)? {
        let records = state.open_records(position)?.into_iter();
        frames.extend(records.filter_map(|(position, frame)| {
            Located::read(position, &frame)
                .is_some_and(|record| is_it(&record))
                .then_some(frame)
        }));
    }
    let in_journal = state.in_journal().filter(&is_it);
    let in_journal = in_journal.map(|record| record.frame);
    let settled = frames.iter().map(Vec::as_slice);
    Ok(fold_frames(settled.chain(in_journal))?)
}

/// The newest ended turn that is wanted.
fn read_ended(
    state: &Snapshot<'_>,
    hash: u64,
    is_wanted: impl Fn(&StoredTurn) -> bool,
) -> Result<Option<StoredTurn>, ReadError> {
    let mut newest: Option<(u64, StoredTurn)> = None;
    for id in index::look_up(state.connection, hash)? {
        let heads = chunk::heads(state.connection, id)?;
        if !heads.iter().any(|head| head.key_hash == hash) {
            continue;
        }
        for (head, records) in chunk::turns(state.connection, id)? {
            if head.key_hash != hash || newest.as_ref().is_some_and(|(at, _)| *at > head.position) {
                continue;
            }
            let turn = fold_frames(frame::frames(&records).flatten())?;
            newest = match turn {
                Some(turn) if is_wanted(&turn) => Some((head.position, turn)),
                Some(_) | None => newest,
            };
        }
    }
    Ok(newest.map(|(_, turn)| turn))
}

fn find_turn(state: &Snapshot<'_>, turn: &TurnId) -> Result<Vec<TurnKey>, ReadError> {
    let hash = frame::turn_hash(turn.as_str().as_bytes());
    let key = |session: &[u8]| TurnKey {
        session: SessionId::trusted(frame::text(session).unwrap_or_default()),
        turn: turn.clone(),
    };
    let mut found: Vec<(u64, TurnKey)> = Vec::new();
    for position in state.open_positions("turn_hash", hash)? {
        let first = state.open_records(position)?.into_iter().next();
        if let Some((_, frame)) = first
            && let Some(head) = frame::Head::read(&frame)
            && head.turn == turn.as_str().as_bytes()
        {
            found.push((position, key(head.session)));
        }
    }
    let records: Vec<_> = state
        .in_journal()
        .filter(|record| {
            record.head.kind.is_of_turn() && record.head.turn == turn.as_str().as_bytes()
        })
        .collect();
    let sorted = live::by_turn(&records);
    for of_key in live::turns(&sorted) {
        let Some(key) = of_key.first().map(|first| key(first.head.session)) else {
            continue;
        };
        let is_open = found.iter().any(|(_, open)| *open == key);
        let begun = live::stretches(of_key, is_open);
        found.extend(begun.filter_map(|stretch| Some((stretch.accepted?, key.clone()))));
    }
    for id in index::look_up(state.connection, hash)? {
        for (at, records) in chunk::turns(state.connection, id)? {
            let first = frame::frames(&records).flatten().next();
            if let Some(head) = first.and_then(frame::Head::read)
                && head.turn == turn.as_str().as_bytes()
            {
                found.push((at.position, key(head.session)));
            }
        }
    }
    found.sort_unstable_by_key(|(position, _)| std::cmp::Reverse(*position));
    let mut keys: Vec<TurnKey> = Vec::new();
    for (_, key) in found {
        if keys.len() < KEYS_MAX && !keys.contains(&key) {
            keys.push(key);
        }
    }
    Ok(keys)
}

fn read_run(
    state: &Snapshot<'_>,
    session: &SessionId,
    run: &RunId,
) -> Result<Option<RunSummary>, ReadError> {
    let (session, run) = (session.as_str(), run.as_str());
    let sql = "SELECT body FROM runs WHERE session = ?1 AND run = ?2";
    let body: Option<Vec<u8>> = state
        .connection
        .prepare_cached(sql)?
        .query_row([session, run], |row| row.get(0))
        .optional()?;
    let mut known = match body {
        Some(body) => Some(disk::run_summary(&body, session, run)?),
        None => None,
    };
    for record in state.in_journal() {
        let head = &record.head;
        let Some(bytes) = head
            .run_state
            .filter(|_| head.run == run.as_bytes() && head.session == session.as_bytes())
        else {
            continue;
        };
        let next = disk::run_summary(bytes, session, run)?;
        match &mut known {
            Some(known) => fold_run(known, next),
            None => known = Some(next),
        }
    }
    Ok(known)
}
