//! Sessions and their runs: which take turns, which have ended.
//!
//! Both come into being on first use. What is not in memory is asked of the store once. Never ends a
//! run by itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::loops::{RunLoops, SharedLoops};
use crate::gate::event::{RunState, RunSummary};
use crate::gate::ids::{RunId, SessionId, UnixMillis};

/// What a new turn learns of its run.
#[derive(Debug, Clone)]
pub(super) struct Begun {
    /// Which turn of the run it is, from 1.
    pub(super) round: u32,
    /// When the run began.
    pub(super) run_started_at: UnixMillis,
    /// What the run called.
    pub(super) loops: SharedLoops,
}

struct Run {
    summary: RunSummary,
    /// Turns that have not ended.
    running: u32,
    last_used: UnixMillis,
    loops: SharedLoops,
}

/// How long a run must have been idle before its window is let go, in milliseconds: by then the store has
/// all of it.
const IDLE_MS: u64 = 10_000;

/// All runs that are in use, and the ones used last.
pub(super) struct Runs {
    by_session: Mutex<BTreeMap<SessionId, BTreeMap<RunId, Run>>>,
    sessions_max: usize,
    /// Runs that began since windows were let go.
    fresh_runs: AtomicUsize,
    /// A session was let go, so the store may know a run that is not here.
    let_go: AtomicBool,
}

impl Runs {
    pub(super) fn new(sessions_max: u64) -> Self {
        Self {
            by_session: Mutex::default(),
            let_go: AtomicBool::new(false),
            fresh_runs: AtomicUsize::new(0),
            sessions_max: usize::try_from(sessions_max).unwrap_or(usize::MAX),
        }
    }

    /// Whether the run is in memory, so that the store need not be asked.
    pub(super) fn knows(&self, session: &SessionId, run: &RunId) -> bool {
        let sessions = self.by_session.lock();
        sessions
            .get(session)
            .is_some_and(|runs| runs.contains_key(run))
    }

    /// Whether a run that was used in this process may not be in memory any more.
    pub(super) fn has_let_go(&self) -> bool {
        self.let_go.load(Ordering::Relaxed)
    }

    /// Lets the session go that was idle longest; the store still has it.
    fn make_room(&self, sessions: &mut BTreeMap<SessionId, BTreeMap<RunId, Run>>) {
        if sessions.len() < self.sessions_max {
            return;
        }
        let idle = sessions
            .iter()
            .filter(|(_, runs)| runs.values().all(|run| run.running == 0))
            .min_by_key(|(_, runs)| runs.values().map(|run| run.last_used).max())
            .map(|(session, _)| session.clone());
        if let Some(session) = idle {
            sessions.remove(&session);
            self.let_go.store(true, Ordering::Relaxed);
        }
    }

    /// Takes in a run as the store has it. One that is known already stays as it is.
    pub(super) fn learn(&self, summary: RunSummary, now: UnixMillis) {
        let mut sessions = self.by_session.lock();
        self.make_room(&mut sessions);
        let runs = sessions.entry(summary.session.clone()).or_default();
        runs.entry(summary.run.clone()).or_insert(Run {
            summary,
            running: 0,
            last_used: now,
            loops: SharedLoops::default(),
        });
    }

    /// Begins a turn of a run, which is opened if nobody knows it.
    ///
    /// # Errors
    /// The run as it is, if it has ended.
    pub(super) fn begin_turn(
        &self,
        session: &SessionId,
        run: &RunId,
        now: UnixMillis,
    ) -> Result<Begun, RunSummary> {
        let mut sessions = self.by_session.lock();
        if !sessions.contains_key(session) {
            self.make_room(&mut sessions);
        }
        if self.fresh_runs.load(Ordering::Relaxed) >= self.sessions_max {
            self.fresh_runs.store(0, Ordering::Relaxed);
            let_windows_go(&mut sessions, now);
        }
        let runs = sessions.entry(session.clone()).or_default();
        let entry = runs.entry(run.clone()).or_insert_with(|| {
            self.fresh_runs.fetch_add(1, Ordering::Relaxed);
            let loops = RunLoops {
                is_whole: true,
                ..RunLoops::default()
            };
            Run {
                summary: fresh(session, run, now),
                running: 0,
                last_used: now,
                loops: Arc::new(Mutex::new(loops)),
            }
        });
        if entry.summary.state != RunState::Active {
            return Err(entry.summary.clone());
        }
        entry.summary.rounds = entry.summary.rounds.saturating_add(1);
        entry.running += 1;
        entry.last_used = now;
        Ok(Begun {
            round: entry.summary.rounds,
            run_started_at: entry.summary.started_at,
            loops: entry.loops.clone(),
        })
    }

    /// A turn that was restored counts as running, and its round as seen.
    pub(super) fn resume_turn(&self, summary: RunSummary, now: UnixMillis) -> SharedLoops {
        self.learn(summary.clone(), now);
        let mut sessions = self.by_session.lock();
        let run = sessions
            .get_mut(&summary.session)
            .and_then(|runs| runs.get_mut(&summary.run));
        let Some(run) = run else {
            return SharedLoops::default();
        };
        run.running += 1;
        run.summary.rounds = run.summary.rounds.max(summary.rounds);
        run.loops.clone()
    }

    /// What a run called, if it is in memory and takes turns.
    pub(super) fn loops_of(&self, session: &SessionId, run: &RunId) -> Option<SharedLoops> {
        let sessions = self.by_session.lock();
        let run = sessions.get(session)?.get(run)?;
        (run.summary.state == RunState::Active).then(|| run.loops.clone())
    }

    /// A turn has ended and leaves its run like that.
    pub(super) fn end_turn(&self, after: &RunSummary) {
        self.set(after);
        let mut sessions = self.by_session.lock();
        let run = sessions
            .get_mut(&after.session)
            .and_then(|runs| runs.get_mut(&after.run));
        if let Some(run) = run {
            run.running = run.running.saturating_sub(1);
        }
    }

    /// The run has ended. One that had ended before stays as it is.
    pub(super) fn set(&self, after: &RunSummary) {
        if after.state == RunState::Active {
            return;
        }
        let mut sessions = self.by_session.lock();
        let run = sessions
            .get_mut(&after.session)
            .and_then(|runs| runs.get_mut(&after.run));
        if let Some(run) = run
            && run.summary.state == RunState::Active
        {
            run.summary = RunSummary {
                rounds: run.summary.rounds,
                ..after.clone()
            };
            // It takes no further turn.
            run.loops = SharedLoops::default();
        }
    }

    /// The runs of a session that are in memory.
    pub(super) fn of_session(&self, session: &SessionId) -> Vec<RunSummary> {
        let sessions = self.by_session.lock();
        let runs = sessions.get(session).into_iter().flat_map(BTreeMap::values);
        runs.map(|run| run.summary.clone()).collect()
    }

    /// The run and how many of its turns run. None: it is not in memory.
    pub(super) fn get(&self, session: &SessionId, run: &RunId) -> Option<(RunSummary, u32)> {
        let sessions = self.by_session.lock();
        let run = sessions.get(session)?.get(run)?;
        Some((run.summary.clone(), run.running))
    }
}

/// Lets the windows of idle runs go; they are made again from the store.
fn let_windows_go(sessions: &mut BTreeMap<SessionId, BTreeMap<RunId, Run>>, now: UnixMillis) {
    let runs = sessions.values_mut().flat_map(BTreeMap::values_mut);
    for run in runs.filter(|run| run.running == 0 && now.since(run.last_used) > IDLE_MS) {
        run.loops = SharedLoops::default();
    }
}

fn fresh(session: &SessionId, run: &RunId, now: UnixMillis) -> RunSummary {
    RunSummary {
        session: session.clone(),
        run: run.clone(),
        state: RunState::Active,
        rounds: 0,
        end_code: String::new(),
        end_reason: String::new(),
        started_at: now,
        ended_at: None,
    }
}
