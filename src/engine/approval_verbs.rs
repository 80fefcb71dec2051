//! What approvers ask of the engine: look, watch, decide.
//!
//! Each verb may be called at the same time as itself and as any other. A decision is answered once it
//! is durable; the task of its turn takes decisions one after the other. Never changes an approval.

use std::sync::Arc;

use tokio::sync::oneshot;

use super::approvals::{Changes, Place, ShownApproval, Wanted, stored_approval};
use super::turn::Turn;
use super::verbs::answer;
use super::{Engine, EngineError};
use crate::gate::approval::{self, DecideError, Deciding, Outcome};
use crate::gate::ids::{ApprovalId, SessionId};
use crate::gate::record::StoredTurn;
use crate::gate::turn::{Decided, Input};
use crate::store::{StoreError, TurnFilter};

/// Turns of a session that one page of decided approvals looks at.
const TURNS_AT_ONCE: usize = 100;

/// An approver that watches. Counts as long as it lives.
pub struct Watching(Arc<Engine>);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.approvals.approver_went();
    }
}

impl Engine {
    /// What waits, oldest first, after where the page before ended; and where the next one begins. None:
    /// this is the last one.
    pub fn pending_approvals(
        &self,
        after: Option<&Place>,
        limit: usize,
        wanted: Wanted<'_>,
    ) -> (Vec<ShownApproval>, Option<Place>) {
        self.approvals.page(after, limit, wanted)
    }

    /// How many wait.
    pub fn count_approvals(&self, wanted: Wanted<'_>) -> u32 {
        self.approvals.count(wanted)
    }

    /// Every approval of the turns of one session, decided ones included: the newest turn first, then
    /// in call order. `before`: where the page before ended.
    ///
    /// # Errors
    /// [`EngineError::Store`].
    pub async fn approvals_of_session(
        &self,
        session: &SessionId,
        before: Option<u64>,
    ) -> Result<(Vec<ShownApproval>, Option<u64>), EngineError> {
        let root = self.session(session).await?.root();
        let filter = TurnFilter {
            session: Some(session.clone()),
            before,
            limit: TURNS_AT_ONCE,
            ..TurnFilter::default()
        };
        let page = self.list_turns(filter).await?;
        let approvals = page.turns.iter().flat_map(|stored| {
            let calls = stored.approvals.iter().map(|approval| approval.call);
            calls.filter_map(|call| {
                let id = stored.spec.approval_id(call);
                let live = self.approvals.get(&id);
                live.or_else(|| stored_approval(stored, call, root.clone()))
            })
        });
        Ok((approvals.collect(), page.next))
    }

    /// One approval.
    ///
    /// # Errors
    /// [`EngineError::NotFound`], [`EngineError::Store`].
    pub async fn look_at_approval(&self, id: &ApprovalId) -> Result<ShownApproval, EngineError> {
        if let Some(shown) = self.approvals.get(id) {
            return Ok(shown);
        }
        let not_found = || EngineError::NotFound {
            kind: "approval",
            id: id.to_string(),
        };
        let (_, call, _) = id.parts().ok_or_else(not_found)?;
        let stored = self.stored_turn_of(id).await?.ok_or_else(not_found)?;
        let root = self.session(stored.spec.session()).await?.root();
        stored_approval(&stored, call, root).ok_or_else(not_found)
    }

    async fn stored_turn_of(&self, id: &ApprovalId) -> Result<Option<StoredTurn>, EngineError> {
        let Some((batch, _, mark)) = id.parts() else {
            return Ok(None);
        };
        answer(self.store.read_marked(mark, batch)).await
    }

    /// The number of the last change of any approval, and what wakes at the next one.
    pub fn watch_approvals(&self) -> (u64, tokio::sync::watch::Receiver<u64>) {
        (self.approvals.last_change(), self.approvals.watch())
    }

    /// What changed after that number.
    pub fn approval_changes(&self, after: u64) -> Changes {
        self.approvals.changes_after(after)
    }

    /// Somebody who can decide is there as long as the answer lives.
    pub fn approver_watches(self: &Arc<Self>) -> Watching {
        self.approvals.approver_came();
        Watching(self.clone())
    }

    /// Decides one approval. Returns once the outcome is durable.
    ///
    /// # Errors
    /// [`EngineError::NotFound`]; [`EngineError::Store`]: nothing changed.
    pub async fn decide(
        &self,
        id: &ApprovalId,
        mut deciding: Deciding,
    ) -> Result<Outcome, EngineError> {
        if deciding.id.is_empty() {
            deciding.id = format!("decision_{}", self.mint.id());
        }
        if let Some(turn) = self.approvals.turn_of(id)
            && let Some((_, call, _)) = id.parts()
        {
            // A decision that cannot be written down now is not taken, instead of waiting in between.
            if !*self.store.availability().borrow() {
                return Err(EngineError::Store(StoreError::Unavailable {
                    problem: "the decision cannot be recorded".to_owned(),
                }));
            }
            let answers = self.ask_about_edit(&turn, id, &deciding).await;
            let decided = Decided {
                call,
                first_grant: turn
                    .session
                    .reserve_grants(deciding.candidates.len().max(1)),
                deciding: deciding.clone(),
                answers,
            };
            if let Some(outcome) = hand_over(&turn, decided).await {
                turn.session.use_now(self.now());
                return Ok(outcome);
            }
        }
        // The turn has ended, at the latest while the decision was on its way.
        let shown = self.look_at_approval(id).await?;
        Ok(match shown.approval.is_pending() {
            true => Outcome::Refused(shown.approval, DecideError::NotPending),
            false => approval::compare(&shown.approval, &deciding),
        })
    }
}

/// Hands a decision to the turn's task. None: the turn ended before it was read.
async fn hand_over(turn: &Turn, decided: Decided) -> Option<Outcome> {
    let (reply, outcome) = oneshot::channel();
    let input = Input::Decided(Box::new(decided));
    turn.inbox.push_decision(input, reply);
    outcome.await.ok()
}
