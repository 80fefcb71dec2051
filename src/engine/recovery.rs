//! Takes up the turns that had not ended when the process died.
//!
//! Each goes on under a new epoch, recorded before anything is announced. Never runs a hook or asks a
//! person again by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;

use super::turn::{Turn, stored_calls};
use super::verbs::{active_summary, answer};
use super::{Engine, EngineError, turn_task};
use crate::gate::event::{RunState, RunSummary};
use crate::gate::loop_detector::LoopCheck;
use crate::gate::record::{Record, StoredTurn};
use crate::gate::turn::{Input, TurnMachine};

impl Engine {
    /// Takes up every turn that had not ended. Call once, before the first request.
    ///
    /// # Errors
    /// [`EngineError::Store`]: the new epochs cannot be recorded.
    pub async fn recover(
        self: &Arc<Self>,
        open_turns: Vec<StoredTurn>,
        has_history: bool,
    ) -> Result<usize, EngineError> {
        self.history
            .store(has_history || !open_turns.is_empty(), Ordering::Relaxed);
        // What is decided from here on names a revision of these.
        self.note_policy(&self.permissions());
        let mut records = Vec::with_capacity(open_turns.len());
        let mut recovered = Vec::with_capacity(open_turns.len());
        for mut stored in open_turns {
            let run = self.run_of(&stored).await?;
            if matches!(run.state, RunState::Cancelled | RunState::Aborted) {
                // The turn had not learned of it yet.
                stored.cancelling.get_or_insert(run.end_reason.clone());
            }
            let machine = TurnMachine::restore(&stored);
            let epoch = stored.epoch.saturating_add(1);
            records.push(Record::TurnRecovered {
                turn: machine.spec().clone(),
                epoch,
            });
            let turn = Turn::new(
                machine.spec().clone(),
                self.session(machine.spec().session()).await?,
                self.rules_of_turn(machine.spec()),
                self.runs.resume_turn(run.clone(), self.now()),
                epoch,
                stored_calls(&stored),
            );
            recovered.push((Arc::new(turn), machine, run));
        }
        if records.is_empty() {
            return Ok(0);
        }
        answer(self.store.commit(&records)).await?;
        let count = recovered.len();
        for (turn, machine, run) in recovered {
            if self.settings.turn.loops.check == LoopCheck::AfterResults {
                let spec = machine.spec();
                self.learn_loops(spec.session(), spec.run()).await?;
            }
            self.take_up(turn, machine, run);
        }
        Ok(count)
    }

    /// The run of a turn as the store has it.
    async fn run_of(&self, stored: &StoredTurn) -> Result<RunSummary, EngineError> {
        let spec = &stored.spec;
        let known = self
            .store
            .read_run(spec.session().clone(), spec.run().clone());
        let known = answer(known).await?;
        Ok(known.unwrap_or_else(|| active_summary(spec)))
    }

    fn take_up(self: &Arc<Self>, turn: Arc<Turn>, machine: TurnMachine, run: RunSummary) {
        let mut first = Vec::new();
        if run.state != RunState::Active {
            first.push(Input::RunEnded(run));
        }
        first.push(Input::Recovered);
        if self.turns.insert(turn.clone()).is_err() {
            return;
        }
        let task = turn_task::run(self.clone(), turn, machine, first, Bytes::new());
        self.tasks.spawn("turn", task);
    }
}
