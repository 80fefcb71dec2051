//! The task of one turn: next inputs, a step, its effects in order, until the turn has ended.
//!
//! The machine decides; this performs. A panic of the machine ends its turn and nothing else. Never
//! announces what the list put behind a record that is not durable yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;

use super::Engine;
use super::inbox::Item;
use super::turn::Turn;
use crate::base::failpoint;
use crate::executor::DispatchContext;
use crate::gate::event::Event;
use crate::gate::ids::{CallIndex, UnixMillis};
use crate::gate::record::Record;
use crate::gate::turn::{Claimed, Durability, Effect, Input, TurnMachine, View};
use crate::store::StoreError;

/// First wait before a record is tried again, in milliseconds. Doubles up to [`RETRY_MAX_MS`].
const RETRY_MIN_MS: u64 = 50;
const RETRY_MAX_MS: u64 = 2_000;

/// A moment that is nearer than this gets a timer, in milliseconds. More than two sweeps.
pub(super) const NEAR_MS: u64 = 2_500;

/// How long the record of a turn's beginning may wait for the next one, in milliseconds.
pub(super) const LATER_MS: u64 = 3_000;

/// What performing a list led to at once.
#[derive(Default)]
struct Outcome {
    claimed: Vec<Claimed>,
    unrecorded: Vec<CallIndex>,
}

/// Runs a turn to its end.
pub(super) async fn run(
    engine: Arc<Engine>,
    turn: Arc<Turn>,
    machine: TurnMachine,
    first: Vec<Input>,
) {
    let mut task = TurnTask {
        engine,
        turn,
        machine,
        later: Vec::new(),
        later_until: u64::MAX,
    };
    let mut items: VecDeque<Item> = first
        .into_iter()
        .map(|input| Item { input, done: None })
        .collect();
    loop {
        let mut done = Vec::new();
        while let Some(item) = items.pop_front() {
            task.take(item.input).await;
            done.extend(item.done);
        }
        task.turn.log.wake();
        if !done.is_empty() {
            // Whoever waits for the turn may look at the record next.
            task.write_later().await;
        }
        tell(done);
        if task.machine.has_ended() {
            break;
        }
        items = task.next().await;
    }
    // Whoever still waits learns that there is nothing left to do.
    tell(
        task.turn
            .inbox
            .take()
            .into_iter()
            .filter_map(|item| item.done)
            .collect(),
    );
    task.engine.turn_ended(&task.turn);
}

fn tell(done: Vec<oneshot::Sender<()>>) {
    for waiter in done {
        // A caller that went away needs no answer.
        let _ = waiter.send(());
    }
}

struct TurnTask {
    engine: Arc<Engine>,
    turn: Arc<Turn>,
    machine: TurnMachine,
    /// Records that may follow later, and wait to be written together with the next one.
    later: Vec<Record>,
    /// When they are written at the latest, in Unix milliseconds.
    later_until: u64,
}

impl TurnTask {
    /// One input and everything that it leads to at once.
    async fn take(&mut self, input: Input) {
        let mut next = VecDeque::from([input]);
        while let Some(input) = next.pop_front() {
            let effects = self.step(input);
            let outcome = self.perform(effects).await;
            if !outcome.unrecorded.is_empty() {
                next.push_back(Input::DispatchUnrecorded(outcome.unrecorded));
            }
            if !outcome.claimed.is_empty() {
                next.push_back(Input::Claimed(outcome.claimed));
            }
        }
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        let registry = self.engine.directory.registry();
        let view = View {
            registry: &registry,
            limits: &self.engine.settings.limits,
            json: &self.engine.json_limits,
            settings: &self.engine.settings.turn,
        };
        self.machine.step(self.now(), input, &view)
    }

    fn now(&self) -> UnixMillis {
        UnixMillis(self.engine.clock.now_ms())
    }

    /// The next inputs: what came, or that a moment has come.
    ///
    /// Nearly every turn ends long before anything is due, so a timer of its own is only set for a
    /// moment that is near; the sweep nudges the turn when one that was far comes near.
    async fn next(&mut self) -> VecDeque<Item> {
        loop {
            let items = self.turn.inbox.take();
            if !items.is_empty() {
                return items;
            }
            let due = self
                .machine
                .deadline()
                .map_or(u64::MAX, |deadline| deadline.0);
            let now = self.engine.clock.now_ms();
            if self.later_until <= now {
                self.write_later().await;
            }
            if due <= now {
                let input = Input::DeadlineReached;
                return VecDeque::from([Item { input, done: None }]);
            }
            let due = due.min(self.later_until);
            self.turn.set_due_at(due);
            if due - now > NEAR_MS {
                self.turn.inbox.ready().await;
                continue;
            }
            let sleep = tokio::time::sleep_until(self.engine.clock.instant_of(due));
            tokio::select! {
                () = self.turn.inbox.ready() => {}
                () = sleep => {}
            }
        }
    }

    /// Performs effects from front to back.
    async fn perform(&mut self, effects: Vec<Effect>) -> Outcome {
        let mut outcome = Outcome::default();
        let mut records = Vec::new();
        let mut barrier: Option<Durability> = None;
        let mut unrecorded = false;
        let mut effects = effects.into_iter().peekable();
        while let Some(effect) = effects.next() {
            failpoint::pass("engine.effect");
            match effect {
                Effect::Persist { record, when } => {
                    self.note(&record);
                    records.push(record);
                    barrier = stricter(barrier, when);
                    if matches!(effects.peek(), Some(Effect::Persist { .. })) {
                        continue;
                    }
                    let records = std::mem::take(&mut records);
                    unrecorded |= self.persist(records, barrier.take()).await.is_err();
                }
                Effect::Announce(event) => self.announce(event),
                Effect::Claim(claim) => {
                    let mailbox = self.turn.inbox.clone();
                    outcome
                        .claimed
                        .extend(self.engine.pool.claim(claim, mailbox));
                }
                Effect::Expect(expect) => {
                    self.engine.pool.expect(expect, self.turn.inbox.clone());
                }
                Effect::Dispatch(dispatch) if unrecorded => outcome.unrecorded.push(dispatch.call),
                Effect::Dispatch(dispatch) => {
                    let context = DispatchContext {
                        output_credit: self.output_credit(),
                        now_ms: self.engine.clock.now_ms(),
                    };
                    self.engine.pool.dispatch(dispatch, context);
                }
                Effect::Withdraw(withdraw) => self.engine.pool.withdraw(&withdraw),
                Effect::Acknowledge { execution, attempt } => {
                    self.engine.pool.acknowledge(&execution, attempt);
                }
                Effect::Finish => self.turn.log.end(),
            }
        }
        outcome
    }

    fn announce(&self, event: Event) {
        self.turn.log.add(self.now(), event);
    }

    fn output_credit(&self) -> u32 {
        match self.turn.wants_output() {
            true => {
                u32::try_from(self.engine.settings.limits.output_window_bytes).unwrap_or(u32::MAX)
            }
            false => 0,
        }
    }

    /// A run that ends takes no further turn, from the moment that its end is decided.
    fn note(&self, record: &Record) {
        match record {
            Record::TurnCancelling { run, .. } => self.engine.run_ended(run, &self.turn),
            Record::TurnEnded { completed, .. } => {
                self.engine.run_ended(&completed.run, &self.turn);
            }
            Record::TurnAccepted(_)
            | Record::CallsDispatched { .. }
            | Record::CallsEnded { .. }
            | Record::TurnRecovered { .. }
            | Record::RunEnded(_)
            | Record::ToolRegistered(_)
            | Record::ToolRemoved(_)
            | Record::ToolsetPut(_)
            | Record::ToolsetDeleted(_) => {}
        }
    }

    /// Writes records, waiting as long as the strictest of them asks.
    async fn persist(
        &mut self,
        records: Vec<Record>,
        barrier: Option<Durability>,
    ) -> Result<(), StoreError> {
        let mut records = records;
        if !self.later.is_empty() {
            records.splice(0..0, self.later.drain(..));
            self.later_until = u64::MAX;
        }
        match barrier {
            None | Some(Durability::After) => {
                if let [Record::TurnAccepted(_)] = records.as_slice() {
                    // Most turns end at once: then one entry says it all.
                    self.later = records;
                    self.later_until = self.engine.clock.now_ms().saturating_add(LATER_MS);
                } else {
                    self.write_after(records).await;
                }
                Ok(())
            }
            Some(Durability::BeforeDispatch) => {
                self.turn.log.wake();
                let written = commit(&self.engine, records.clone()).await;
                if written.is_err() {
                    // What stands beside a dispatch holds without it.
                    records.retain(|record| !matches!(record, Record::CallsDispatched { .. }));
                    if let [] | [Record::TurnAccepted(_)] = records.as_slice() {
                        self.later = records;
                    } else {
                        self.commit_until_done(records).await;
                    }
                }
                written
            }
            Some(Durability::BeforeAnnounce) => {
                self.turn.log.wake();
                self.commit_until_done(records).await;
                Ok(())
            }
        }
    }

    /// Writes what waits to be written together with the next record.
    async fn write_later(&mut self) {
        let records = std::mem::take(&mut self.later);
        self.write_after(records).await;
    }

    /// Writes records that nothing waits for.
    async fn write_after(&mut self, records: Vec<Record>) {
        self.later_until = u64::MAX;
        if records.is_empty() {
            return;
        }
        if self.engine.store.append(records.clone()).is_err() {
            // Too much waits: this turn waits with it. What need not be durable is not lost by a store
            // that fails: it is tried like the rest.
            self.commit_until_done(records).await;
        }
    }

    /// Tries until the records are durable, or the process leaves.
    async fn commit_until_done(&self, records: Vec<Record>) {
        let mut wait_ms = RETRY_MIN_MS;
        while let Err(error) = commit(&self.engine, records.clone()).await {
            tracing::warn!(turn = %self.turn.spec.request.turn, %error, "record waits for the store");
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
                () = self.engine.tasks.stopped() => return,
            }
            wait_ms = (wait_ms * 2).min(RETRY_MAX_MS);
        }
    }
}

async fn commit(engine: &Engine, records: Vec<Record>) -> Result<(), StoreError> {
    engine.store.commit(records).await.unwrap_or_else(|_| {
        Err(StoreError::Unavailable {
            problem: "the store is closed".to_owned(),
        })
    })
}

/// Strictest first: a dispatch that must be durable makes the whole list wait, and may fail it.
fn stricter(one: Option<Durability>, other: Durability) -> Option<Durability> {
    let rank = |durability: Durability| match durability {
        Durability::After => 0,
        Durability::BeforeAnnounce => 1,
        Durability::BeforeDispatch => 2,
    };
    match one {
        Some(one) if rank(one) >= rank(other) => Some(one),
        Some(_) | None => Some(other),
    }
}
