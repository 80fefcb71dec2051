//! Takes up the turns that had not ended when the process died.
//!
//! Each goes on under a new epoch, recorded before anything is announced. Never runs a hook or asks a
//! person again by itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::turn::{Turn, stored_calls};
use super::{Engine, EngineError, turn_task};
use crate::gate::event::{RunState, RunSummary};
use crate::gate::record::{Record, StoredTurn};
use crate::gate::turn::{Input, TurnMachine};
use crate::store::StoreError;

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
        let mut records = Vec::with_capacity(open_turns.len());
        let mut recovered = Vec::with_capacity(open_turns.len());
        for stored in open_turns {
            let machine = TurnMachine::restore(&stored);
            let epoch = stored.epoch.saturating_add(1);
            records.push(Record::TurnRecovered {
                turn: machine.spec().clone(),
                epoch,
            });
            let turn = Turn::new(machine.spec().clone(), epoch, stored_calls(&stored), None);
            recovered.push((Arc::new(turn), machine));
        }
        if records.is_empty() {
            return Ok(0);
        }
        let committed = self.store.commit(records).await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable {
                problem: "the store is closed".to_owned(),
            })
        });
        committed?;
        let count = recovered.len();
        for (turn, machine) in recovered {
            self.take_up(turn, machine);
        }
        Ok(count)
    }

    fn take_up(self: &Arc<Self>, turn: Arc<Turn>, machine: TurnMachine) {
        let spec = turn.spec.clone();
        let run = RunSummary {
            session: spec.session().clone(),
            run: spec.run().clone(),
            state: RunState::Active,
            rounds: spec.round,
            end_code: String::new(),
            end_reason: String::new(),
            started_at: spec.run_started_at,
            ended_at: None,
        };
        self.runs.resume_turn(run, self.now());
        if self.turns.insert(turn.clone()).is_err() {
            return;
        }
        let task = turn_task::run(self.clone(), turn, machine, vec![Input::Recovered]);
        self.tasks.spawn("turn", task);
    }
}
