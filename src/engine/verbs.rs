//! What servers ask of the engine.
//!
//! Each verb may be called at the same time as itself and as any other. Never leaves anything half
//! done when the caller goes away: the turn's task goes on.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::turn::{Turn, TurnReader, fresh_calls};
use super::turns::{EarlyCancel, Found, SeenMark};
use super::{Engine, EngineError, turn_task};
use crate::base::mint::Mint;
use crate::gate::admission::{self, TurnRequest};
use crate::gate::call::CallState;
use crate::gate::event::{RunState, RunSummary};
use crate::gate::ids::{BatchId, CallId, CallIndex, RunId, SessionId, TurnId, TurnKey};
use crate::gate::record::{StoredTurn, TurnSpec};
use crate::gate::turn::{Cancel, CancelScope, Input, TurnMachine};
use crate::store::{Answer, StoreError, TurnFilter, TurnPage};

/// How long a listing waits for turns that have just begun to be written down.
const YOUNG_TURNS_LIMIT: Duration = Duration::from_millis(200);

/// What a reader of a turn gets.
pub enum Attached {
    /// The turn is in memory; with a snapshot, the reader begins after it.
    Live {
        /// Follows the events.
        reader: TurnReader,
        /// The turn as it stands, if the reader's place is not known any more.
        snapshot: Option<Box<StoredTurn>>,
    },
    /// The turn has ended and only the store has it.
    Stored(Box<StoredTurn>),
}

/// One turn as it stands.
pub enum Looked {
    /// In memory.
    Live(Arc<Turn>),
    /// Only the store has it.
    Stored(Box<StoredTurn>),
}

/// What a cancellation found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelAnswer {
    /// The turn runs and stops.
    Running,
    /// The turn has ended.
    Ended,
    /// The turn was not seen yet; the cancellation is remembered.
    Remembered,
}

impl Engine {
    /// Starts a turn, or attaches to it if the same one was started before.
    ///
    /// Call ids that are empty are minted if the settings say so; the request's ids are otherwise
    /// checked ones. `history` is the conversation so far, for a diagnosis, and no part of the turn.
    ///
    /// # Errors
    /// [`EngineError`]; nothing was recorded then.
    pub async fn start_turn(
        self: &Arc<Self>,
        mut request: TurnRequest,
        principal: Arc<str>,
        history: Bytes,
        wants_output: bool,
    ) -> Result<Attached, EngineError> {
        self.mint_call_ids(&mut request);
        admission::admit(&request, &self.settings.limits)?;
        let key = TurnKey {
            session: request.session.clone(),
            turn: request.turn.clone(),
        };
        if let Some(turn) = self.turns.get(&key) {
            return self.attach_same(turn, &request, wants_output);
        }
        let mark = self.turns.mark_of(&key);
        let may_be_stored = self.history.load(Ordering::Relaxed) || self.turns.was_seen(mark);
        if may_be_stored && let Some(stored) = answer(self.store.read_turn(key)).await? {
            return same_stored(stored, &request);
        }
        self.begin(request, principal, mark, history, wants_output)
            .await
    }

    fn mint_call_ids(&self, request: &mut TurnRequest) {
        if !self.settings.mint_call_ids {
            return;
        }
        for requested in &mut request.calls {
            if requested.call.call_id.as_str().is_empty() {
                requested.call.call_id = CallId::trusted(format!("call_{}", self.mint.id()));
                requested.minted = true;
            }
        }
    }

    fn attach_same(
        &self,
        turn: Arc<Turn>,
        request: &TurnRequest,
        wants_output: bool,
    ) -> Result<Attached, EngineError> {
        if !same_request(&turn.spec.request, request) {
            return Err(conflict(request));
        }
        if wants_output {
            self.open_output(&turn);
        }
        Ok(self.follow(turn, 0, 0))
    }

    async fn begin(
        self: &Arc<Self>,
        mut request: TurnRequest,
        principal: Arc<str>,
        mark: SeenMark,
        history: Bytes,
        wants_output: bool,
    ) -> Result<Attached, EngineError> {
        if self.is_draining() {
            return Err(EngineError::Draining);
        }
        if !self.turns.has_room() {
            return Err(EngineError::Overloaded);
        }
        if let Some(id) = &request.snapshot {
            let snapshot = self.snapshots.find(id, self.clock.now_ms());
            let snapshot = snapshot.ok_or(EngineError::SnapshotExpired)?;
            // Resolved once and recorded: the list itself does not outlive the process.
            for requested in &mut request.calls {
                requested.seen = snapshot.resolve(&requested.call.name).cloned();
            }
        }
        let session = self.session(&request.session).await?;
        let settings = &session.state().record;
        if settings.closed_at.is_some() {
            return Err(super::session_verbs::closed(&session));
        }
        let settings = settings.settings.clone();
        session.use_now(self.now());
        self.check_toolset(request.toolset.as_ref().or(settings.toolset.as_ref()))?;
        self.learn_run(&request.session, &request.run).await?;
        self.learn_loops(&request.session, &request.run).await?;
        let now = self.now();
        let begun = self
            .runs
            .begin_turn(&request.session, &request.run, now)
            .map_err(|run| EngineError::RunNotActive {
                run: run.run.to_string(),
            })?;
        let spec = Arc::new(TurnSpec {
            batch: BatchId::trusted(self.mint.id()),
            batch_policy: request
                .batch_policy
                .or(settings.batch_policy)
                .unwrap_or(self.settings.batch_policy),
            session_toolset: settings.toolset.filter(|_| request.toolset.is_none()),
            session_max_parallel: settings
                .max_parallel
                .filter(|_| request.max_parallel.is_none()),
            round: begun.round,
            run_started_at: begun.run_started_at,
            accepted_at: now,
            principal,
            request,
        });
        let calls = fresh_calls(&spec);
        let turn = Arc::new(Turn::new(
            spec.clone(),
            session,
            self.rules_of_turn(&spec),
            begun.loops,
            1,
            calls,
        ));
        if let Err(other) = self.turns.insert(turn.clone()) {
            // Somebody else was faster with the same id.
            self.runs.end_turn(&active_summary(&spec));
            return self.attach_same(other, &spec.request, wants_output);
        }
        self.turns.note(mark, self.clock.now_ms());
        if wants_output {
            turn.want_output();
        }
        let early = self
            .turns
            .take_early_cancel(&spec.key(), self.clock.now_ms());
        let early = early.map(Input::CancelRequested);
        let first = early.into_iter().chain([Input::Started]).collect();
        let machine = TurnMachine::new(spec);
        let task = turn_task::run(self.clone(), turn.clone(), machine, first, history);
        self.tasks.spawn_begun("turn", task).await;
        Ok(self.follow(turn, 0, 0))
    }

    fn check_toolset(&self, toolset: Option<&String>) -> Result<(), EngineError> {
        match toolset {
            Some(name) if self.directory.registry().toolsets.get(name).is_none() => {
                Err(EngineError::NotFound {
                    kind: "toolset",
                    id: name.clone(),
                })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Asks the store for a run that is not in memory, if the store may know it.
    async fn learn_run(&self, session: &SessionId, run: &RunId) -> Result<(), EngineError> {
        let may_be_stored = self.history.load(Ordering::Relaxed) || self.runs.has_let_go();
        if self.runs.knows(session, run) || !may_be_stored {
            return Ok(());
        }
        let found = answer(self.store.read_run(session.clone(), run.clone())).await?;
        if let Some(summary) = found {
            self.runs.learn(summary, self.now());
        }
        Ok(())
    }

    /// Follows a turn in memory. Epoch 0 is the present one.
    fn follow(&self, turn: Arc<Turn>, epoch: u32, after_sequence: u64) -> Attached {
        let knows_place = epoch == turn.epoch && after_sequence > 0;
        if turn.epoch == 1 || knows_place {
            return Attached::Live {
                reader: TurnReader::new(turn, self.pool.clone(), after_sequence),
                snapshot: None,
            };
        }
        // What the reader saw, or would have seen, belongs to a sequence that was lost with a process:
        // it begins with how things stand.
        let stored = turn.as_stored();
        let last = turn.log.standing().last_sequence;
        let after = match stored.completed {
            // The end is told once more, so that every reader sees one.
            Some(_) => last.saturating_sub(1),
            None => last,
        };
        Attached::Live {
            reader: TurnReader::new(turn, self.pool.clone(), after),
            snapshot: Some(Box::new(stored)),
        }
    }

    /// Follows a turn after an event that the reader has seen.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::Ambiguous`], [`EngineError::Store`].
    pub async fn attach_turn(
        &self,
        turn: &TurnId,
        session: Option<&SessionId>,
        epoch: u32,
        after_sequence: u64,
        wants_output: bool,
    ) -> Result<Attached, EngineError> {
        let turn = match self.look_up(turn, session).await? {
            Looked::Stored(stored) => return Ok(Attached::Stored(stored)),
            Looked::Live(turn) => turn,
        };
        if wants_output {
            self.open_output(&turn);
        }
        Ok(self.follow(turn, epoch, after_sequence))
    }

    /// The first reader that wants output opens the executors' credit.
    fn open_output(&self, turn: &Arc<Turn>) {
        if !turn.want_output() {
            return;
        }
        let window = self.settings.limits.output_window_bytes;
        for call in turn.log.executing() {
            let bytes = u32::try_from(window).unwrap_or(u32::MAX);
            self.pool.credit(&turn.execution(call), bytes);
        }
    }

    /// One turn as it stands.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::Ambiguous`], [`EngineError::Store`].
    pub async fn look_up(
        &self,
        turn: &TurnId,
        session: Option<&SessionId>,
    ) -> Result<Looked, EngineError> {
        match self.turns.find(turn, session) {
            Found::Turn(turn) => return Ok(Looked::Live(turn)),
            Found::Several => {
                return Err(EngineError::Ambiguous {
                    turn: turn.to_string(),
                });
            }
            Found::Nothing => {}
        }
        let key = match session {
            Some(session) => TurnKey {
                session: session.clone(),
                turn: turn.clone(),
            },
            None => match answer(self.store.find_turn(turn.clone())).await?.as_slice() {
                [] => return Err(turn_not_found(turn)),
                [only] => only.clone(),
                [_, ..] => {
                    return Err(EngineError::Ambiguous {
                        turn: turn.to_string(),
                    });
                }
            },
        };
        let stored = answer(self.store.read_turn(key)).await?;
        stored
            .map(|stored| Looked::Stored(Box::new(stored)))
            .ok_or_else(|| turn_not_found(turn))
    }

    /// Lists turns, newest first.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub async fn list_turns(&self, filter: TurnFilter) -> Result<TurnPage, EngineError> {
        self.write_young_turns().await;
        answer(self.store.list_turns(filter)).await
    }

    /// Has turns written down whose beginning still waits for the next record.
    ///
    /// A turn that waits for the store is not waited for: reads answer all the same.
    async fn write_young_turns(&self) {
        let now = self.now();
        let young = self.turns.running_turns(None).into_iter();
        let young = young.filter(|turn| now.since(turn.spec.accepted_at) <= turn_task::LATER_MS);
        let waits: Vec<_> = young
            .map(|turn| {
                let (done, dealt_with) = oneshot::channel();
                turn.inbox.push(Input::ToolsChanged, Some(done));
                dealt_with
            })
            .collect();
        let all = async {
            for dealt_with in waits {
                // One that has ended meanwhile is written as well.
                let _ = dealt_with.await;
            }
        };
        let _ = tokio::time::timeout(YOUNG_TURNS_LIMIT, all).await;
    }

    /// The turn in memory, if it is there: fresher than what the store has.
    pub fn turn_in_memory(&self, key: &TurnKey) -> Option<Arc<Turn>> {
        self.turns.get(key)
    }

    /// Cancels a turn and its run. Returns once that is durable.
    ///
    /// # Errors
    /// [`EngineError::Ambiguous`], [`EngineError::Store`].
    pub async fn cancel_turn(
        &self,
        turn: TurnId,
        session: Option<&SessionId>,
        reason: String,
        grace_ms: Option<u32>,
    ) -> Result<CancelAnswer, EngineError> {
        let cancel = Cancel {
            scope: CancelScope::Turn,
            reason,
            grace_ms: grace_ms.unwrap_or(self.settings.cancel_grace_ms),
        };
        match self.look_up(&turn, session).await {
            Ok(Looked::Stored(_)) => Ok(CancelAnswer::Ended),
            Ok(Looked::Live(turn)) => {
                deliver(&turn, Input::CancelRequested(cancel)).await;
                Ok(cancel_answer(&turn))
            }
            Err(EngineError::NotFound { .. }) => {
                let now_ms = self.clock.now_ms();
                self.turns.cancel_early(EarlyCancel {
                    turn: turn.clone(),
                    session: session.cloned(),
                    until_ms: now_ms.saturating_add(self.settings.early_cancel_ms),
                    cancel,
                });
                // The turn may have begun meanwhile, and looked before there was something to find.
                let Found::Turn(begun) = self.turns.find(&turn, session) else {
                    return Ok(CancelAnswer::Remembered);
                };
                let missed = self.turns.take_early_cancel(&begun.spec.key(), now_ms);
                if let Some(cancel) = missed {
                    deliver(&begun, Input::CancelRequested(cancel)).await;
                }
                Ok(cancel_answer(&begun))
            }
            Err(error) => Err(error),
        }
    }

    /// Cancels one call. Returns where it stands then.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::Ambiguous`], [`EngineError::Store`].
    pub async fn cancel_call(
        &self,
        turn: &TurnId,
        session: Option<&SessionId>,
        call: &CallId,
        reason: String,
        grace_ms: Option<u32>,
    ) -> Result<CallState, EngineError> {
        let not_found = || EngineError::NotFound {
            kind: "call",
            id: call.to_string(),
        };
        let turn = match self.look_up(turn, session).await? {
            Looked::Live(turn) => turn,
            Looked::Stored(stored) => {
                let calls = super::stored_calls(&stored);
                let position = position_in(&stored.spec, call).ok_or_else(not_found)?;
                let standing = calls.get(position.get()).ok_or_else(not_found)?;
                return Ok(standing.state);
            }
        };
        let position = turn.position_of(call).ok_or_else(not_found)?;
        let cancel = Cancel {
            scope: CancelScope::Call(position),
            reason,
            grace_ms: grace_ms.unwrap_or(self.settings.cancel_grace_ms),
        };
        deliver(&turn, Input::CancelRequested(cancel)).await;
        let standing = turn.log.standing();
        let call = standing.calls.get(position.get());
        call.map(|call| call.state).ok_or_else(not_found)
    }

    /// Mints a turn id for a caller that sent none.
    pub fn mint_turn_id(&self) -> TurnId {
        TurnId::trusted(self.mint.id())
    }

    /// Names this process.
    pub fn process_id(&self) -> &str {
        Mint::process_id(&self.mint)
    }
}

fn cancel_answer(turn: &Turn) -> CancelAnswer {
    match turn.log.has_ended() {
        true => CancelAnswer::Ended,
        false => CancelAnswer::Running,
    }
}

/// Hands an input in and waits until it was dealt with.
pub(super) async fn deliver(turn: &Turn, input: Input) {
    if turn.log.has_ended() {
        return;
    }
    let (done, dealt_with) = oneshot::channel();
    turn.inbox.push(input, Some(done));
    // The task may end with the input unread; then there is nothing left to stop.
    let _ = dealt_with.await;
}

pub(super) async fn answer<T>(answer: Answer<T>) -> Result<T, EngineError> {
    let outcome = answer.await.unwrap_or_else(|_| {
        Err(StoreError::Unavailable {
            problem: "the store is closed".to_owned(),
        })
    });
    Ok(outcome?)
}

fn turn_not_found(turn: &TurnId) -> EngineError {
    EngineError::NotFound {
        kind: "turn",
        id: turn.to_string(),
    }
}

fn conflict(request: &TurnRequest) -> EngineError {
    EngineError::Conflict {
        turn: request.turn.to_string(),
    }
}

fn same_stored(stored: StoredTurn, request: &TurnRequest) -> Result<Attached, EngineError> {
    match same_request(&stored.spec.request, request) {
        true => Ok(Attached::Stored(Box::new(stored))),
        false => Err(conflict(request)),
    }
}

/// Whether a request is a repetition. Ids that were minted differ each time.
fn same_request(first: &TurnRequest, again: &TurnRequest) -> bool {
    if first == again {
        return true;
    }
    let plain = |request: &TurnRequest| {
        let mut request = request.clone();
        request.trace = None;
        for requested in &mut request.calls {
            requested.seen = None;
            if requested.minted {
                requested.call.call_id = CallId::trusted("");
            }
        }
        request
    };
    plain(first) == plain(again)
}

fn position_in(spec: &TurnSpec, call: &CallId) -> Option<CallIndex> {
    let mut calls = spec.request.calls.iter();
    let position = calls.position(|requested| requested.call.call_id == *call)?;
    u16::try_from(position).ok().map(CallIndex)
}

/// The run as a turn that never ran leaves it.
pub(super) fn active_summary(spec: &TurnSpec) -> RunSummary {
    RunSummary {
        session: spec.session().clone(),
        run: spec.run().clone(),
        state: RunState::Active,
        rounds: spec.round,
        end_code: String::new(),
        end_reason: String::new(),
        started_at: spec.run_started_at,
        ended_at: None,
    }
}
