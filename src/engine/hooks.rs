//! Where the engine's questions to hooks go, and what comes of them.
//!
//! Who talks to hook processes implements [`HookDesk`]; the engine only hands questions in. Never
//! waits for an answer: it comes through the turn's mailbox.

use std::sync::Arc;

use bytes::Bytes;

use super::Engine;
use super::approvals::ShownApproval;
use super::turn::Turn;
use super::verbs::answer;
use crate::executor::SharedMailbox;
use crate::gate::hooks::HookList;
use crate::gate::ids::{BatchId, SessionId, ToolName};
use crate::gate::record::Record;
use crate::gate::turn::{AskHook, HookAbout, HookRun, HookTicket};
use crate::store::SharedStore;

/// A question with what is around it.
pub struct HookQuestion {
    /// The question.
    pub ask: AskHook,
    /// The root of its session.
    pub root: SessionId,
    /// The approval that it is about, as approvers see it. None: it is about none.
    pub shown: Option<ShownApproval>,
    /// The arguments of the turn's calls as observers may see them. Empty: it is not about the turn.
    pub arguments: Vec<Bytes>,
    /// The history of the run that is to be diagnosed. Empty: it is about something else.
    pub history: Bytes,
}

/// Keeps hooks and asks them. May be used from any task; nothing of it waits.
pub trait HookDesk: Send + Sync {
    /// All hooks as they are now.
    fn list(&self) -> Arc<HookList>;

    /// Asks a hook. If the answer is awaited, `mailbox` gets exactly one, unless it is forgotten.
    fn ask(&self, question: HookQuestion, mailbox: SharedMailbox);

    /// Nobody waits for the answer to that question of that batch any more.
    fn forget(&self, batch: &BatchId, ticket: HookTicket);

    /// A hook ran.
    fn ran(&self, run: &HookRun);
}

/// Remembers hooks of processes over a restart. May be used from any task.
pub struct HookKeeper {
    store: SharedStore,
}

impl HookKeeper {
    /// A keeper that writes there.
    #[must_use]
    pub fn new(store: SharedStore) -> Self {
        Self { store }
    }

    /// Returns once these are durable, or cannot be. A hook holds either way; a restart would forget it.
    pub async fn keep(&self, records: &[Record]) {
        if !records.is_empty()
            && let Err(error) = answer(self.store.commit(records)).await
        {
            tracing::warn!(%error, "hooks are not kept over a restart");
        }
    }

    /// Writes some time soon that hooks are gone.
    pub fn forget(&self, records: &[Record]) {
        if !records.is_empty()
            && let Err(error) = self.store.append(records)
        {
            tracing::warn!(%error, "hooks that are gone will fail again after a restart");
        }
    }
}

impl Engine {
    /// Asks a hook. `history`: of the run, where it is to be diagnosed.
    pub(super) fn ask_hook(&self, turn: &Turn, ask: AskHook, history: Bytes) {
        let shown = match &ask.about {
            HookAbout::Approval { approval } => {
                let id = turn.spec.approval_id(approval.call);
                self.approvals.get(&id)
            }
            HookAbout::Before { .. }
            | HookAbout::After { .. }
            | HookAbout::TurnStarted { .. }
            | HookAbout::TurnFinished { .. }
            | HookAbout::LoopSuspected { .. }
            | HookAbout::Diagnosis { .. } => None,
        };
        let arguments = match &ask.about {
            HookAbout::TurnStarted { .. } | HookAbout::TurnFinished { .. } => {
                let calls = ask.turn.request.calls.iter();
                let shown = calls.map(|asked| {
                    let registry = self.directory.registry();
                    let name = ToolName::trusted(asked.tool_name());
                    let known = registry.look_up(&name, ask.turn.toolset());
                    let tool = known.map_or("", |tool| tool.definition.name.as_str());
                    self.shown_arguments(tool, &asked.call.arguments)
                });
                shown.collect()
            }
            HookAbout::Before { .. }
            | HookAbout::After { .. }
            | HookAbout::Approval { .. }
            | HookAbout::LoopSuspected { .. }
            | HookAbout::Diagnosis { .. } => Vec::new(),
        };
        let question = HookQuestion {
            ask,
            arguments,
            root: turn.session.root(),
            shown,
            history,
        };
        self.hooks.ask(question, turn.inbox.clone());
    }

    pub(super) fn hook_ran(&self, turn: &Arc<Turn>, run: HookRun) {
        self.hooks.ran(&run);
        self.events.hook_ran(turn, run);
    }
}
