//! The store without a disk, for tests and for running without durability.
//!
//! Folds with the same code as the store on the disk and answers at once. Never fails, and forgets
//! everything with its process.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use super::audit::{AuditAsk, AuditRow, AuditSlice};
use super::disk;
use super::fold::{Catalog, Fact, TurnFact, fold_run, fold_session, fold_turn, newest_of_each};
use super::{Answer, Restored, Store, StoreError, TurnFilter, TurnPage};
use crate::base::clock::Clock;
use crate::gate::audit::{Checkpoint, Head, derive, drafts};
use crate::gate::event::RunSummary;
use crate::gate::ids::{BatchId, RunId, SessionId, TurnId, TurnKey, UnixMillis};
use crate::gate::record::{Record, StoredTurn};
use crate::gate::session::StoredSession;

/// A store in memory.
#[derive(Debug)]
pub struct MemoryStore {
    state: Mutex<State>,
    available: watch::Sender<bool>,
    audit_head: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    next: u64,
    /// By the position of their acceptance.
    turns: BTreeMap<u64, StoredTurn>,
    /// The newest turn of each key.
    newest: BTreeMap<TurnKey, u64>,
    /// With the latest moment that a record of each names.
    runs: BTreeMap<(SessionId, RunId), (RunSummary, UnixMillis)>,
    catalog: Catalog,
    sessions: BTreeMap<SessionId, Option<StoredSession>>,
    closed: bool,
    audit: Vec<AuditRow>,
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self {
            state: Mutex::new(State::default()),
            available: watch::Sender::new(true),
            audit_head: watch::Sender::new(0),
        }
    }

    /// What a store on the disk would restore if the process ended now.
    pub fn restored(&self) -> Restored {
        let state = self.state.lock();
        let open = state.turns.values().filter(|turn| turn.completed.is_none());
        let (tools, toolsets) = state.catalog.restored();
        Restored {
            open_turns: open.cloned().collect(),
            tools,
            toolsets,
            hooks: state.catalog.hooks(),
            has_sessions: !state.sessions.is_empty(),
        }
    }
}

impl State {
    fn audit(&mut self, records: &[Record]) {
        let mut bytes = Vec::new();
        derive(records, &mut bytes);
        for draft in drafts(&bytes) {
            let mut head = self.audit.last().map_or_else(Head::default, |row| Head {
                sequence: row.place,
                hash: row.hash,
            });
            let previous = head.hash;
            let mut record_json = Vec::new();
            let now = UnixMillis(Clock::system().now_ms());
            head.extend(&draft, now, &mut record_json);
            self.audit.push(AuditRow {
                place: head.sequence,
                record_json: record_json.into(),
                previous,
                hash: head.hash,
            });
        }
    }

    fn read_audit(&self, ask: &AuditAsk) -> AuditSlice {
        let mut answer = AuditSlice::default();
        let mut bytes = 0;
        let covered = self.audit.iter().filter(|row| ask.covers(row.place));
        let mut rows: Vec<_> = covered.collect();
        if ask.newest_first {
            rows.reverse();
        }
        for row in rows {
            if ask.is_full(&answer.rows, bytes) {
                answer.next = Some(row.place);
                break;
            }
            if ask.wants(row) {
                bytes += row.record_json.len();
                answer.rows.push(row.clone());
            }
        }
        answer
    }

    fn take(&mut self, records: &[Record]) -> Result<(), StoreError> {
        if self.closed {
            return Err(StoreError::Unavailable {
                problem: String::from("the store is closed"),
            });
        }
        self.audit(records);
        for record in records {
            if let Some(fact) = Fact::of(record) {
                self.next += 1;
                self.fold(fact);
            }
        }
        Ok(())
    }

    fn fold(&mut self, fact: Fact) {
        let run = fact.run();
        let mut touched_at = run
            .as_ref()
            .and_then(|run| run.ended_at)
            .unwrap_or_default();
        match fact {
            Fact::Turn { key, at, fact } => {
                touched_at = touched_at.max(at);
                self.fold_turn(key, at, fact);
            }
            Fact::SessionPut(_) | Fact::GrantsPut { .. } => {
                if let Some(session) = fact.session().cloned() {
                    fold_session(self.sessions.entry(session).or_default(), fact);
                }
            }
            Fact::Run(_)
            | Fact::ToolRegistered(_)
            | Fact::ToolRemoved(_)
            | Fact::HookRegistered(_)
            | Fact::HookRemoved(_)
            | Fact::ToolsetPut(_)
            | Fact::ToolsetDeleted(_) => {
                self.catalog.fold(self.next, fact);
            }
        }
        if let Some(run) = run {
            let name = (run.session.clone(), run.run.clone());
            let known = self
                .runs
                .entry(name)
                .or_insert_with(|| (run.clone(), touched_at));
            fold_run(&mut known.0, run);
            known.1 = known.1.max(touched_at);
        }
    }

    fn fold_turn(&mut self, key: TurnKey, at: UnixMillis, fact: TurnFact) {
        let mut position = self.newest.get(&key).copied();
        let mut turn = position.and_then(|position| self.turns.get(&position).cloned());
        let anew = matches!(fact, TurnFact::Accepted(_))
            && turn.as_ref().is_none_or(|turn| turn.completed.is_some());
        if anew {
            (position, turn) = (Some(self.next), None);
        }
        fold_turn(&mut turn, at, fact);
        if let (Some(position), Some(turn)) = (position, turn) {
            self.turns.insert(position, turn);
            self.newest.insert(key, position);
        }
    }

    fn list(&self, filter: &TurnFilter) -> TurnPage {
        let limit = filter.limit.clamp(1, 1_000);
        let before = filter.before.unwrap_or(u64::MAX);
        let passes = |turn: &StoredTurn| {
            let spec = &turn.spec;
            filter
                .session
                .as_ref()
                .is_none_or(|session| session == spec.session())
                && filter.run.as_ref().is_none_or(|run| run == spec.run())
                && filter
                    .ended
                    .is_none_or(|ended| ended == turn.completed.is_some())
        };
        let found = self
            .turns
            .range(..before)
            .rev()
            .filter(|(_, turn)| passes(turn));
        let mut page = TurnPage::default();
        let mut last_shown = 0;
        for (position, turn) in found {
            if page.turns.len() == limit {
                page.next = Some(last_shown);
                break;
            }
            page.turns.push(turn.clone());
            last_shown = *position;
        }
        page
    }

    fn forget(&mut self, ended_before: UnixMillis) -> u64 {
        let all = self.turns.len();
        self.turns.retain(|_, turn| match &turn.completed {
            None => true,
            Some(completed) => disk::ended_at(&turn.spec, completed) >= ended_before,
        });
        let turns = &self.turns;
        self.newest
            .retain(|_, position| turns.contains_key(position));
        self.runs.retain(|(session, run), (_, touched_at)| {
            *touched_at >= ended_before
                || turns
                    .values()
                    .any(|turn| turn.spec.session() == session && turn.spec.run() == run)
        });
        (all - turns.len()) as u64
    }
}

impl Store for MemoryStore {
    fn append(&self, records: &[Record]) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        let taken = state.take(records);
        self.audit_head.send_replace(state.audit.len() as u64);
        taken
    }

    fn commit(&self, records: &[Record]) -> Answer<()> {
        ready(self.append(records))
    }

    fn availability(&self) -> watch::Receiver<bool> {
        self.available.subscribe()
    }

    fn read_turn(&self, key: TurnKey) -> Answer<Option<StoredTurn>> {
        let state = self.state.lock();
        let position = state.newest.get(&key);
        ready(Ok(
            position.and_then(|position| state.turns.get(position).cloned())
        ))
    }

    fn find_turn(&self, turn: TurnId) -> Answer<Vec<TurnKey>> {
        let state = self.state.lock();
        let newest_first = state.turns.values().rev();
        let mut keys: Vec<TurnKey> = Vec::new();
        for key in newest_first
            .map(|turn| turn.spec.key())
            .filter(|key| key.turn == turn)
        {
            if keys.len() < 8 && !keys.contains(&key) {
                keys.push(key);
            }
        }
        ready(Ok(keys))
    }

    fn list_turns(&self, filter: TurnFilter) -> Answer<TurnPage> {
        ready(Ok(self.state.lock().list(&filter)))
    }

    fn read_run(&self, session: SessionId, run: RunId) -> Answer<Option<RunSummary>> {
        let state = self.state.lock();
        let found = state.runs.get(&(session, run));
        ready(Ok(found.map(|(run, _)| run.clone())))
    }

    fn read_marked(&self, mark: u64, batch: BatchId) -> Answer<Option<StoredTurn>> {
        let state = self.state.lock();
        let mut turns = state.turns.values().rev();
        let found = turns.find(|turn| turn.spec.key().mark() == mark && turn.spec.batch == batch);
        ready(Ok(found.cloned()))
    }

    fn read_session(&self, session: SessionId) -> Answer<Option<StoredSession>> {
        let state = self.state.lock();
        ready(Ok(state.sessions.get(&session).cloned().flatten()))
    }

    fn list_sessions(&self) -> Answer<Vec<(SessionId, UnixMillis)>> {
        let state = self.state.lock();
        let kept = state.sessions.values().flatten();
        let kept = kept.map(|session| (session.record.id.clone(), session.touched_at));
        let runs = state.runs.iter();
        let runs = runs.map(|((session, _), (_, touched_at))| (session.clone(), *touched_at));
        ready(Ok(newest_of_each(kept.chain(runs))))
    }

    fn forget_turns(&self, ended_before: UnixMillis) -> Answer<u64> {
        ready(Ok(self.state.lock().forget(ended_before)))
    }

    fn audit_head(&self) -> watch::Receiver<u64> {
        self.audit_head.subscribe()
    }

    fn read_audit(&self, ask: AuditAsk) -> Answer<AuditSlice> {
        ready(Ok(self.state.lock().read_audit(&ask)))
    }

    /// None: what is forgotten with the process needs no signature.
    fn read_checkpoints(&self, _up_to: u64, _limit: usize) -> Answer<Vec<Checkpoint>> {
        ready(Ok(Vec::new()))
    }

    fn sign_audit(&self) -> Answer<Option<Checkpoint>> {
        ready(Ok(None))
    }

    /// None: nothing is in segments.
    fn checkpoints_not_kept(&self) -> u64 {
        0
    }

    fn forget_audit(&self, _written_before: UnixMillis) -> Answer<u64> {
        ready(Ok(0))
    }

    fn close(&self) -> Answer<()> {
        self.state.lock().closed = true;
        ready(Ok(()))
    }
}

fn ready<T>(value: Result<T, StoreError>) -> Answer<T> {
    let (reply, answer) = oneshot::channel();
    let _ = reply.send(value);
    answer
}
