//! The task of one turn: next inputs, a step, its effects in order, until the turn has ended.
//!
//! The machine decides; this performs. A panic of the machine ends its turn and nothing else. Never
//! announces what the list put behind a record that is not durable yet.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use super::Engine;
use super::inbox::Item;
use super::turn::Turn;
use super::turn_log::Stamped;
use crate::base::failpoint;
use crate::executor::DispatchContext;
use crate::gate::approval::{Approval, Outcome};
use crate::gate::event::Event;
use crate::gate::ids::{CallIndex, UnixMillis};
use crate::gate::permission::Grant;
use crate::gate::record::{Record, TurnSpec};
use crate::gate::turn::{
    Analyse, AskHook, Claimed, Durability, Effect, HookAbout, Input, SessionView, TurnMachine, View,
};
use crate::store::StoreError;

/// First wait before a record is tried again, in milliseconds. Doubles up to [`RETRY_MAX_MS`].
const RETRY_MIN_MS: u64 = 50;
const RETRY_MAX_MS: u64 = 2_000;

/// A moment that is nearer than this gets a timer, in milliseconds. More than two sweeps.
pub(super) const NEAR_MS: u64 = 2_500;

/// How long the record of a turn's beginning may wait for the next one, in milliseconds.
pub(super) const LATER_MS: u64 = 3_000;

/// A list of effects on its way.
struct Performing {
    effects: std::vec::IntoIter<Effect>,
    claimed: Vec<Claimed>,
    unrecorded: Vec<CallIndex>,
    /// The record that protects what follows does not stand.
    unprotected: bool,
}

/// Runs a turn to its end.
pub(super) fn run(
    engine: Arc<Engine>,
    turn: Arc<Turn>,
    machine: TurnMachine,
    first: Vec<Input>,
    history: Bytes,
) -> impl Future<Output = ()> + Send + 'static {
    let mut task = TurnTask {
        engine,
        turn,
        machine,
        later: Vec::new(),
        later_until: u64::MAX,
        deciding: None,
        history,
    };
    let inputs = first.into_iter();
    let items = inputs.map(Item::of).collect();
    // A turn's memory is cold when it comes and when it goes, so a task is kept small: nothing lives
    // across a wait but what must, and rare waits have a box of their own.
    async move { task.run(items).await }
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
    /// Who waits for what becomes of the decision that is being taken.
    deciding: Option<oneshot::Sender<Outcome>>,
    /// The conversation so far, for a diagnosis. Empty: it was not sent, or is not needed.
    history: Bytes,
}

impl TurnTask {
    async fn run(&mut self, mut items: VecDeque<Item>) {
        loop {
            let mut done = Vec::new();
            while let Some(effects) = self.next_effects(&mut items, &mut done) {
                self.carry_out(effects).await;
            }
            self.turn.log.wake();
            if !done.is_empty() {
                // Whoever waits for the turn may look at the record next.
                self.write_later().await;
            }
            tell(done);
            if self.machine.has_ended() {
                break;
            }
            self.next(&mut items).await;
        }
        // Whoever still waits learns that there is nothing left to do.
        self.turn.inbox.close_into(&mut items);
        tell(items.drain(..).filter_map(|item| item.done).collect());
        self.engine.turn_ended(&self.turn);
    }

    /// What the next item asks for; who waits for it goes to `done`.
    fn next_effects(
        &mut self,
        items: &mut VecDeque<Item>,
        done: &mut Vec<oneshot::Sender<()>>,
    ) -> Option<Vec<Effect>> {
        let item = items.pop_front()?;
        done.extend(item.done);
        self.deciding = item.outcome;
        Some(self.step(item.input))
    }

    /// Performs effects and everything that they lead to at once.
    async fn carry_out(&mut self, effects: Vec<Effect>) {
        let mut follows = VecDeque::new();
        let mut next = Some(effects);
        while let Some(effects) = next.take() {
            self.perform(effects, &mut follows).await;
            next = follows.pop_front().map(|input| self.step(input));
        }
    }

    fn step(&mut self, input: Input) -> Vec<Effect> {
        let registry = self.engine.directory.registry();
        let permissions = self.engine.permissions.load();
        let hooks = self.engine.hooks.list();
        let session = &self.turn.session;
        let state = session.state();
        let inherited = session.inherited(&state);
        let now = self.now();
        let mut loops = self.turn.loops.lock();
        let view = View {
            registry: &registry,
            limits: &self.engine.settings.limits,
            json: &self.engine.json_limits,
            settings: &self.engine.settings.turn,
            permissions: &permissions,
            hooks: &hooks,
            turn_rules: self.turn.rules.as_deref(),
            loop_window: &loops.window,
            session: SessionView {
                mode: session.bounds(permissions.mode, permissions.policy.max_mode(), now),
                grants: inherited.as_ref().unwrap_or(&state.grants),
                approver: self.engine.approver_of(&state),
                approval_ttl_ms: self.engine.approval_ttl_of(&state),
                cwd: state.record.settings.cwd.as_deref(),
                approvals_room: self.engine.approvals.room(session.id()),
            },
        };
        let effects = self.machine.step(now, input, &view);
        if let Some(steps) = self.machine.take_new_steps() {
            // Under the same lock, so that no other turn of the run is judged without them.
            loops.window.put(steps, &self.engine.settings.turn.loops);
        }
        effects
    }

    fn now(&self) -> UnixMillis {
        UnixMillis(self.engine.clock.now_ms())
    }

    /// The next inputs: what came, or that a moment has come.
    ///
    /// Nearly every turn ends long before anything is due, so a timer of its own is only set for a
    /// moment that is near; the sweep nudges the turn when one that was far comes near.
    async fn next(&mut self, items: &mut VecDeque<Item>) {
        loop {
            self.turn.inbox.take_into(items);
            if !items.is_empty() {
                return;
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
                items.push_back(Item::of(Input::DeadlineReached));
                return;
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

    /// Performs effects from front to back. What they lead to goes to `follows`.
    async fn perform(&mut self, effects: Vec<Effect>, follows: &mut VecDeque<Input>) {
        let mut performing = Performing {
            effects: effects.into_iter(),
            claimed: Vec::new(),
            unrecorded: Vec::new(),
            unprotected: false,
        };
        while let Some((records, when)) = self.perform_to_record(&mut performing) {
            performing.unprotected |= self.persist(records, when).await.is_err();
        }
        if !performing.unrecorded.is_empty() {
            follows.push_back(Input::DispatchUnrecorded(performing.unrecorded));
        }
        if !performing.claimed.is_empty() {
            follows.push_back(Input::Claimed(performing.claimed));
        }
    }

    /// Performs effects up to the next records, which must be written before anything else. None: all
    /// are performed.
    fn perform_to_record(
        &mut self,
        performing: &mut Performing,
    ) -> Option<(Vec<Record>, Durability)> {
        let mut records = Vec::new();
        let mut strictest = Durability::After;
        while let Some(effect) = performing.effects.next() {
            failpoint::pass("engine.effect");
            match effect {
                Effect::Persist { record, when } => {
                    self.note(&record);
                    records.push(record);
                    strictest = stricter(strictest, when);
                    let next = performing.effects.as_slice().first();
                    if !matches!(next, Some(Effect::Persist { .. })) {
                        return Some((records, strictest));
                    }
                }
                Effect::Dispatch(dispatch) if performing.unprotected => {
                    performing.unrecorded.push(dispatch.call);
                }
                Effect::Claim(claim) => {
                    let mailbox = self.turn.inbox.clone();
                    let claimed = self.engine.pool.claim(claim, mailbox);
                    performing.claimed.extend(claimed);
                }
                Effect::Grant(grants) => self.grant(&grants),
                Effect::Answer(outcome) => {
                    if let Some(waiter) = self.deciding.take() {
                        // An approver that went away asks again.
                        let _ = waiter.send(*outcome);
                    }
                }
                Effect::Announce(_)
                | Effect::ShowApprovals(_)
                | Effect::Analyse(_)
                | Effect::Inquire(_)
                | Effect::AskDiagnosis { .. }
                | Effect::AskHook(_)
                | Effect::ForgetHook(_)
                | Effect::HookRan(_)
                | Effect::Expect(_)
                | Effect::Dispatch(_)
                | Effect::Withdraw(_)
                | Effect::Acknowledge { .. }
                | Effect::Finish => self.act(effect),
            }
        }
        None
    }

    /// Performs an effect that leads to nothing at once.
    fn act(&self, effect: Effect) {
        match effect {
            Effect::Announce(event) => self.announce(event),
            Effect::ShowApprovals(approvals) => self.show(approvals),
            Effect::Expect(expect) => self.engine.pool.expect(expect, self.turn.inbox.clone()),
            Effect::Dispatch(dispatch) => {
                self.engine
                    .count_grants(&self.turn.session, dispatch.permit.grants());
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
            Effect::Analyse(analyse) => self.analyse(analyse),
            Effect::Inquire(inquiry) => {
                self.engine.pool.inquire(*inquiry, self.turn.inbox.clone());
            }
            Effect::AskDiagnosis { turn, timeout_ms } => {
                self.turn.note_diagnosis();
                self.diagnose(turn, timeout_ms);
            }
            Effect::AskHook(ask) => match &ask.about {
                HookAbout::Diagnosis { .. } => {
                    self.turn.note_diagnosis();
                    self.diagnose_by_hook(*ask);
                }
                HookAbout::Before { .. }
                | HookAbout::After { .. }
                | HookAbout::Approval { .. }
                | HookAbout::TurnStarted { .. }
                | HookAbout::TurnFinished { .. }
                | HookAbout::LoopSuspected { .. } => {
                    self.engine.ask_hook(&self.turn, *ask, Bytes::new());
                }
            },
            Effect::ForgetHook(ticket) => {
                self.engine.hooks.forget(&self.turn.spec.batch, ticket);
            }
            Effect::HookRan(run) => self.engine.hook_ran(&self.turn, run),
            Effect::Finish => self.turn.log.end(),
            // Those that lead to something are performed where that is kept.
            Effect::Persist { .. } | Effect::Claim(_) | Effect::Grant(_) | Effect::Answer(_) => {}
        }
    }

    /// Has a command cut up; the answer comes through the inbox.
    fn analyse(&self, analyse: Analyse) {
        let inbox = self.turn.inbox.clone();
        let Analyse { call, text } = analyse;
        let analyser = self.engine.analyser.clone();
        self.engine.tasks.spawn("command analysis", async move {
            let command = Box::new(analyser.read(text).await);
            inbox.push(Input::CommandAnalysed { call, command }, None);
        });
    }

    /// Has a model asked about the run; the answer comes through the inbox.
    fn diagnose(&self, turn: Arc<TurnSpec>, timeout_ms: u64) {
        let (engine, inbox) = (self.engine.clone(), self.turn.inbox.clone());
        let history = self.history.clone();
        self.engine.tasks.spawn("loop diagnosis", async move {
            let said = engine.diagnose(&turn, history, timeout_ms).await;
            inbox.push(Input::Diagnosed(said.map(Box::new)), None);
        });
    }

    /// Has a hook asked about the run, once its history is there; the answer comes through the inbox.
    fn diagnose_by_hook(&self, ask: AskHook) {
        let (engine, turn) = (self.engine.clone(), self.turn.clone());
        let history = self.history.clone();
        self.engine.tasks.spawn("loop diagnosis", async move {
            engine.diagnose_by_hook(&turn, ask, history).await;
        });
    }

    fn announce(&self, event: Event) {
        let at = self.now();
        let is_heard = event.is_kept() && self.engine.events.is_kept();
        let heard = is_heard.then(|| event.clone());
        let sequence = self.turn.log.add(at, event);
        if let Some(event) = heard {
            let stamped = Stamped {
                sequence,
                at,
                event,
            };
            self.engine.events.turn(&self.turn, stamped);
        }
    }

    fn show(&self, approvals: Vec<Arc<Approval>>) {
        self.turn.log.show(&approvals);
        let ids: Vec<_> = approvals
            .iter()
            .map(|approval| self.turn.spec.approval_id(approval.call))
            .collect();
        self.engine.approvals.show(&self.turn, approvals);
        for id in ids {
            self.engine
                .events
                .approval(|| self.engine.approvals.get(&id));
        }
    }

    /// Grants hold from now on, for every turn of the session.
    fn grant(&self, grants: &[Grant]) {
        let session = &self.turn.session;
        self.engine.sessions.note_kept();
        session.put_grants(grants);
        for grant in grants {
            self.engine.events.grant_changed(session, grant);
        }
        self.engine.nudge_line(session);
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
            | Record::HooksHeard { .. }
            | Record::ApprovalsAsked { .. }
            | Record::ApprovalsChanged { .. }
            | Record::SessionPut(_)
            | Record::GrantsPut { .. }
            | Record::TurnRecovered { .. }
            | Record::RunEnded(_)
            | Record::ToolRegistered(_)
            | Record::ToolRemoved(_)
            | Record::HookRegistered(_)
            | Record::HookRemoved(_)
            | Record::ToolsetPut(_)
            | Record::ToolsetDeleted(_)
            | Record::By(_)
            | Record::Noted(_) => {}
        }
    }

    /// Writes records, waiting as long as `when` asks.
    async fn persist(&mut self, records: Vec<Record>, when: Durability) -> Result<(), StoreError> {
        let mut records = records;
        if !self.later.is_empty() {
            records.splice(0..0, self.later.drain(..));
            self.later_until = u64::MAX;
        }
        match when {
            Durability::After => {
                if let [Record::TurnAccepted(_)] = records.as_slice() {
                    // Most turns end at once: then one entry says it all.
                    self.later = records;
                    self.later_until = self.engine.clock.now_ms().saturating_add(LATER_MS);
                } else {
                    self.write_after(records).await;
                }
                Ok(())
            }
            Durability::BeforeDispatch => {
                self.turn.log.wake();
                Box::pin(self.persist_before_dispatch(records)).await
            }
            Durability::BeforeAnnounce => {
                self.turn.log.wake();
                Box::pin(self.commit_until_done(records)).await;
                Ok(())
            }
        }
    }

    async fn persist_before_dispatch(
        &mut self,
        mut records: Vec<Record>,
    ) -> Result<(), StoreError> {
        let written = commit(&self.engine, &records).await;
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
        if self.engine.store.append(&records).is_err() {
            // Too much waits: this turn waits with it. What need not be durable is not lost by a store
            // that fails: it is tried like the rest.
            Box::pin(self.commit_until_done(records)).await;
        }
    }

    /// Tries until the records are durable, or the process leaves.
    async fn commit_until_done(&self, records: Vec<Record>) {
        let mut wait_ms = RETRY_MIN_MS;
        while let Err(error) = commit(&self.engine, &records).await {
            tracing::warn!(turn = %self.turn.spec.request.turn, %error, "record waits for the store");
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(wait_ms)) => {}
                () = self.engine.tasks.stopped() => return,
            }
            wait_ms = (wait_ms * 2).min(RETRY_MAX_MS);
        }
    }
}

async fn commit(engine: &Engine, records: &[Record]) -> Result<(), StoreError> {
    engine.store.commit(records).await.unwrap_or_else(|_| {
        Err(StoreError::Unavailable {
            problem: "the store is closed".to_owned(),
        })
    })
}

/// A dispatch that must be durable makes the whole list wait, and may fail it.
fn stricter(one: Durability, other: Durability) -> Durability {
    let rank = |durability: Durability| match durability {
        Durability::After => 0,
        Durability::BeforeAnnounce => 1,
        Durability::BeforeDispatch => 2,
    };
    match rank(one) >= rank(other) {
        true => one,
        false => other,
    }
}
