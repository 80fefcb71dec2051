//! The windows of runs: what each called last, for the loop detector.
//!
//! Shared by the turns of a run and made again from the store where this process has not seen them all.
//! Never judges.

use std::sync::Arc;

use parking_lot::Mutex;

use super::turn::Turn;
use super::verbs::answer;
use super::{Engine, EngineError};
use crate::gate::ids::{RunId, SessionId};
use crate::gate::loop_detector::{LoopWindow, ResultMark, Round};
use crate::gate::record::StoredTurn;
use crate::gate::turn::steps_of;
use crate::store::TurnFilter;

/// Turns that are read of a run at once.
const PAGE_TURNS: usize = 64;
/// Turns of a run that are read at most; further back nothing is looked for.
const TURNS_MAX: usize = 512;

/// What is known of a run's calls.
#[derive(Debug, Default)]
pub(super) struct RunLoops {
    pub(super) window: LoopWindow,
    /// Nothing is missing that the store would know.
    pub(super) is_whole: bool,
}

/// What the turns of one run share. Held for one step of a turn and never across a wait.
pub(super) type SharedLoops = Arc<Mutex<RunLoops>>;

impl Engine {
    /// Makes the window of a run that is in memory whole, from the store if need be.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub(super) async fn learn_loops(
        &self,
        session: &SessionId,
        run: &RunId,
    ) -> Result<(), EngineError> {
        let settings = &self.settings.turn.loops;
        let Some(loops) = self.runs.loops_of(session, run) else {
            return Ok(());
        };
        if !settings.compares_calls() || loops.lock().is_whole {
            return Ok(());
        }
        let rounds = self.stored_rounds(session, run).await?;
        let mut loops = loops.lock();
        for round in rounds.into_iter().rev() {
            // What this process saw itself is fresher.
            if !loops.window.has(round.number) {
                loops.window.put(round, settings);
            }
        }
        loops.is_whole = true;
        Ok(())
    }

    /// What the last turns of a run called, newest first.
    async fn stored_rounds(
        &self,
        session: &SessionId,
        run: &RunId,
    ) -> Result<Vec<Round>, EngineError> {
        let needed = self.settings.turn.loops.window_steps();
        let (mut rounds, mut steps, mut turns) = (Vec::new(), 0, 0);
        let mut filter = TurnFilter {
            session: Some(session.clone()),
            run: Some(run.clone()),
            limit: PAGE_TURNS,
            ..TurnFilter::default()
        };
        while steps < needed && turns < TURNS_MAX {
            let page = answer(self.store.list_turns(filter.clone())).await?;
            turns += page.turns.len();
            for stored in page.turns {
                let round = self.round_of(&stored);
                steps += round.steps.len();
                rounds.push(round);
            }
            filter.before = page.next;
            if page.next.is_none() {
                break;
            }
        }
        Ok(rounds)
    }

    fn round_of(&self, stored: &StoredTurn) -> Round {
        let registry = self.directory.registry();
        let mut round = steps_of(&stored.spec, &registry, &self.json_limits);
        if self.settings.turn.loops.compare_results {
            let calls = super::stored_calls(stored);
            for step in &mut round.steps {
                let result = calls.get(step.call.get());
                let result = result.and_then(|call| call.result.as_deref());
                step.result = result.map(ResultMark::of);
            }
        }
        round
    }
}

impl Turn {
    /// A model is asked about the run after this turn.
    pub(super) fn note_diagnosis(&self) {
        self.loops.lock().window.note_diagnosis(self.spec.round);
    }
}
