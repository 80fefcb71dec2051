//! Ending runs: completed, or cancelled with every turn of them.
//!
//! Each verb may be called at the same time as itself and as any other. Never ends a run of which it
//! cannot write the end down.

use std::sync::Arc;

use super::verbs::{answer, deliver};
use super::{Engine, EngineError};
use crate::gate::event::{RunState, RunSummary};
use crate::gate::ids::{RunId, SessionId};
use crate::gate::record::Record;
use crate::gate::turn::{Cancel, CancelScope, Input};

impl Engine {
    /// Completes a run.
    ///
    /// # Errors
    /// [`EngineError::RunBusy`] while a turn of it runs, [`EngineError::NotFound`],
    /// [`EngineError::Store`].
    pub async fn end_run(
        &self,
        session: &SessionId,
        run: &RunId,
        by: &Arc<str>,
    ) -> Result<RunSummary, EngineError> {
        let (summary, running) = self.find_run(session, run).await?;
        if summary.state != RunState::Active {
            return Ok(summary);
        }
        if running > 0 {
            return Err(EngineError::RunBusy {
                run: run.to_string(),
            });
        }
        self.close_run(
            summary,
            RunState::Completed,
            ("", "ended by the orchestrator"),
            by,
        )
        .await
    }

    /// A run as it stands.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]: it has had no turn; [`EngineError::Store`].
    pub async fn get_run(
        &self,
        session: &SessionId,
        run: &RunId,
    ) -> Result<RunSummary, EngineError> {
        let (summary, _) = self.find_run(session, run).await?;
        Ok(summary)
    }

    /// Cancels a run with all its turns. Returns once that is durable.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::Store`].
    pub async fn cancel_run(
        &self,
        session: &SessionId,
        run: &RunId,
        reason: String,
        grace_ms: Option<u32>,
        by: &Arc<str>,
    ) -> Result<RunSummary, EngineError> {
        let (summary, _) = self.find_run(session, run).await?;
        if summary.state != RunState::Active {
            return Ok(summary);
        }
        let reason = match reason.is_empty() {
            true => "the run was cancelled".to_owned(),
            false => reason,
        };
        let closed = self
            .close_run(
                summary,
                RunState::Cancelled,
                ("tool_cancelled", &reason),
                by,
            )
            .await?;
        let cancel = Cancel {
            scope: CancelScope::Run,
            reason,
            grace_ms: grace_ms.unwrap_or(self.settings.cancel_grace_ms),
        };
        for turn in self.turns.running_turns(Some((session, run))) {
            deliver(&turn, Input::CancelRequested(cancel.clone())).await;
        }
        Ok(closed)
    }

    async fn find_run(
        &self,
        session: &SessionId,
        run: &RunId,
    ) -> Result<(RunSummary, u32), EngineError> {
        if let Some(found) = self.runs.get(session, run) {
            return Ok(found);
        }
        let found = answer(self.store.read_run(session.clone(), run.clone())).await?;
        let summary = found.ok_or_else(|| EngineError::NotFound {
            kind: "run",
            id: run.to_string(),
        })?;
        self.runs.learn(summary.clone(), self.now());
        Ok((summary, 0))
    }

    async fn close_run(
        &self,
        summary: RunSummary,
        state: RunState,
        (code, reason): (&str, &str),
        by: &Arc<str>,
    ) -> Result<RunSummary, EngineError> {
        let closed = RunSummary {
            state,
            end_code: code.to_owned(),
            end_reason: reason.to_owned(),
            ended_at: Some(self.now()),
            ..summary
        };
        let records = [Record::By(by.clone()), Record::RunEnded(closed.clone())];
        answer(self.store.commit(&records)).await?;
        self.runs.set(&closed);
        Ok(closed)
    }
}
