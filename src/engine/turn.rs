//! One turn as everybody but its task sees it: what is fixed, what happened, where to hand inputs in.
//!
//! Never owns the machine: that is the task's.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use tokio_stream::Stream;

use super::inbox::Inbox;
use super::loops::SharedLoops;
use super::sessions::Session;
use super::turn_log::{CallStanding, Cursor, Standing, Taken, TurnLog};
use crate::executor::Pool;
use crate::gate::call::CallState;
use crate::gate::ids::{CallId, CallIndex, ExecutionId};
use crate::gate::permission::Policy;
use crate::gate::record::{StoredTurn, TurnSpec};
use crate::gate::result::CallOutcome;

/// One turn in memory.
pub struct Turn {
    /// What is fixed about it.
    pub spec: Arc<TurnSpec>,
    /// Restarts of its sequence, from 1.
    pub epoch: u32,
    /// What happened in it.
    pub log: TurnLog,
    /// Its session.
    pub session: Arc<Session>,
    /// The rules that came with it.
    pub(super) rules: Option<Arc<Policy>>,
    /// What its run called.
    pub(super) loops: SharedLoops,
    pub(super) inbox: Arc<Inbox>,
    /// A reader wants output.
    wants_output: AtomicBool,
    /// When the machine wants to be told that a moment has come, in Unix milliseconds.
    due_at: AtomicU64,
    /// Readers that have not had its end.
    readers: AtomicUsize,
}

impl Turn {
    pub(super) fn new(
        spec: Arc<TurnSpec>,
        session: Arc<Session>,
        rules: Option<Arc<Policy>>,
        loops: SharedLoops,
        epoch: u32,
        calls: Vec<CallStanding>,
    ) -> Self {
        Self {
            log: TurnLog::new(calls, spec.accepted_at),
            spec,
            session,
            rules,
            loops,
            epoch,
            inbox: Arc::default(),
            wants_output: AtomicBool::new(false),
            due_at: AtomicU64::new(u64::MAX),
            readers: AtomicUsize::new(0),
        }
    }

    /// Whether somebody follows it and has not had its end.
    pub(super) fn is_followed(&self) -> bool {
        self.readers.load(Ordering::Relaxed) > 0
    }

    /// When something is due, in Unix milliseconds.
    pub(super) fn due_at(&self) -> u64 {
        self.due_at.load(Ordering::Relaxed)
    }

    /// Says when something is due.
    pub(super) fn set_due_at(&self, due_at: u64) {
        self.due_at.store(due_at, Ordering::Relaxed);
    }

    /// The position of the call with that id.
    pub fn position_of(&self, call_id: &CallId) -> Option<CallIndex> {
        let calls = &self.spec.request.calls;
        let position = calls
            .iter()
            .position(|requested| requested.call.call_id == *call_id)?;
        u16::try_from(position).ok().map(CallIndex)
    }

    pub(super) fn wants_output(&self) -> bool {
        self.wants_output.load(Ordering::Relaxed)
    }

    /// True: nobody wanted it before.
    pub(super) fn want_output(&self) -> bool {
        !self.wants_output.swap(true, Ordering::Relaxed)
    }

    /// What names a call at executors.
    pub(super) fn execution(&self, call: CallIndex) -> ExecutionId {
        ExecutionId::trusted(format!("{}.{}", self.spec.batch, call.0))
    }

    /// The turn as it stands, in the form of the store.
    pub fn as_stored(&self) -> StoredTurn {
        let standing = self.log.standing();
        StoredTurn {
            spec: (*self.spec).clone(),
            epoch: self.epoch,
            dispatched: Vec::new(),
            approvals: standing.approvals.clone(),
            heard: Vec::new(),
            results: results_of(&standing),
            cancelling: None,
            completed: standing.completed,
            updated_at: standing.updated_at,
        }
    }
}

fn results_of(standing: &Standing) -> Vec<(CallIndex, Arc<crate::gate::result::CallResult>)> {
    let calls = standing.calls.iter().enumerate();
    calls
        .filter_map(|(position, call)| {
            let index = CallIndex(u16::try_from(position).ok()?);
            call.result.clone().map(|result| (index, result))
        })
        .collect()
}

/// The calls of a turn of which nothing has happened yet.
pub(super) fn fresh_calls(spec: &TurnSpec) -> Vec<CallStanding> {
    let calls = spec.request.calls.iter();
    calls
        .map(|requested| CallStanding {
            tool: requested.call.name.clone(),
            state: CallState::Validating,
            result: None,
        })
        .collect()
}

/// The calls of a turn as the store has them.
pub fn stored_calls(stored: &StoredTurn) -> Vec<CallStanding> {
    let mut calls = fresh_calls(&stored.spec);
    let completed = stored.completed.iter().flat_map(|completed| {
        let results = completed.results.iter().enumerate();
        results.map(|(position, result)| (position, result.clone()))
    });
    let partial = stored
        .results
        .iter()
        .map(|(index, result)| (index.get(), result.clone()));
    for (position, result) in partial.chain(completed) {
        let Some(call) = calls.get_mut(position) else {
            continue;
        };
        call.tool = result.tool.clone();
        call.state = match result.outcome {
            CallOutcome::Success => CallState::Success,
            CallOutcome::Error => CallState::Error,
            CallOutcome::Cancelled => CallState::Cancelled,
        };
        call.result = Some(result);
    }
    calls
}

/// Follows one turn's events.
pub struct TurnReader {
    turn: Arc<Turn>,
    pool: Arc<Pool>,
    cursor: Cursor,
    had_end: bool,
}

impl TurnReader {
    pub(super) fn new(turn: Arc<Turn>, pool: Arc<Pool>, after_sequence: u64) -> Self {
        let cursor = turn.log.cursor_after(after_sequence);
        turn.readers.fetch_add(1, Ordering::Relaxed);
        Self {
            turn,
            pool,
            cursor,
            had_end: false,
        }
    }

    /// The turn.
    pub fn turn(&self) -> &Arc<Turn> {
        &self.turn
    }

    /// The last kept event that was taken.
    pub fn last_sequence(&self) -> u64 {
        self.cursor.sequence
    }

    fn leave(&mut self) {
        if !std::mem::replace(&mut self.had_end, true) {
            self.turn.readers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for TurnReader {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Stream for TurnReader {
    type Item = Taken;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Taken>> {
        let reader = &mut *self;
        let taken = reader.turn.log.poll_take(&mut reader.cursor, context);
        if matches!(taken, Poll::Ready(None)) {
            reader.leave();
        }
        if taken.is_ready() && reader.turn.wants_output() {
            // What was read may be printed again.
            let dropped = reader.turn.inbox.take_owed();
            for (call, bytes) in reader.turn.log.take_owed().into_iter().chain(dropped) {
                reader.pool.credit(&reader.turn.execution(call), bytes);
            }
        }
        taken
    }
}
