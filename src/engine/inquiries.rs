//! What others say of arguments that an approver put in place of the model's own.
//!
//! They are asked before the turn takes the decision, as they were about the model's own arguments
//! before it began. Never asks about arguments that do not fit the tool's schema.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::Engine;
use super::turn::Turn;
use crate::executor::Mailbox;
use crate::gate::approval::Deciding;
use crate::gate::ids::{ApprovalId, CallIndex};
use crate::gate::json::Document;
use crate::gate::permission::{Facts, ToolWord};
use crate::gate::tool::SharedTool;
use crate::gate::turn::{About, Answers, Input, Inquiry, command_in, keep_about, paths_in};

/// Takes one answer.
struct Once(Mutex<Option<oneshot::Sender<Input>>>);

impl Mailbox for Once {
    fn deliver(&self, input: Input) {
        if let Some(waiter) = self.0.lock().take() {
            // Whoever asked may be gone.
            let _ = waiter.send(input);
        }
    }
}

/// Edited arguments and whose they are.
struct Edited<'a> {
    turn: &'a Turn,
    call: CallIndex,
    tool: SharedTool,
    arguments: Bytes,
    cwd: Option<String>,
}

impl Engine {
    /// Everything that the decision about edited arguments needs. Nothing if none were edited.
    pub(super) async fn ask_about_edit(
        &self,
        turn: &Turn,
        id: &ApprovalId,
        deciding: &Deciding,
    ) -> Answers {
        let Some((edited, document)) = self.read_edited(turn, id, deciding) else {
            return Answers::default();
        };
        let tool = &edited.tool;
        let command = match command_in(tool, &document) {
            Some(text) => Some(self.analyser.read(text).await),
            None => None,
        };
        let facts = self.facts_about(&edited, &document).await;
        let word = match tool.definition.has_permission_check {
            true => self.word_about(&edited, facts.as_ref()).await,
            false => None,
        };
        Answers {
            command,
            facts,
            word,
        }
    }

    fn read_edited<'a>(
        &self,
        turn: &'a Turn,
        id: &ApprovalId,
        deciding: &Deciding,
    ) -> Option<(Edited<'a>, Document)> {
        if deciding.edited.is_empty() {
            return None;
        }
        let (_, call, _) = id.parts()?;
        let shown = self.approvals.get(id)?;
        let registry = self.directory.registry();
        let tool = registry.look_up(&shown.approval.tool.name, turn.spec.toolset())?;
        let document = Document::parse_object(&deciding.edited, &self.json_limits).ok()?;
        tool.schema.check(&document).ok()?;
        let edited = Edited {
            turn,
            call,
            tool: tool.clone(),
            arguments: document.dispatch_form(),
            cwd: turn.session.state().record.settings.cwd.clone(),
        };
        Some((edited, document))
    }

    async fn facts_about(&self, edited: &Edited<'_>, document: &Document) -> Option<Facts> {
        let pointers = paths_in(&edited.tool, document);
        if pointers.is_empty() || pointers.len() as u64 > self.settings.limits.call_facts_max {
            return None;
        }
        let timeout_ms = self.settings.turn.facts_timeout_ms;
        let answer = self
            .inquire(edited, About::Facts { pointers }, timeout_ms)
            .await?;
        let Input::FactsResolved { mut facts, .. } = answer else {
            return None;
        };
        keep_about(&mut facts, &edited.tool, document);
        Some(Facts::new(edited.cwd.as_deref(), facts))
    }

    async fn word_about(&self, edited: &Edited<'_>, facts: Option<&Facts>) -> Option<ToolWord> {
        let permissions = self.permissions();
        let max_mode = permissions.policy.max_mode();
        let session = &edited.turn.session;
        let about = About::Check {
            mode: session.effective(permissions.mode, max_mode, self.now()),
            facts: facts.into_iter().flat_map(Facts::iter).cloned().collect(),
            // An approver lets them run, no rule.
            matched: None,
        };
        let timeout_ms = self.settings.turn.check_timeout_ms;
        let answer = self.inquire(edited, about, timeout_ms).await?;
        let Input::ToolChecked { word, .. } = answer else {
            return None;
        };
        word.map(|word| *word)
    }

    /// Asks and waits. None: no answer came in time.
    async fn inquire(&self, edited: &Edited<'_>, about: About, timeout_ms: u64) -> Option<Input> {
        let (waiter, answer) = oneshot::channel();
        let mailbox = Arc::new(Once(Mutex::new(Some(waiter))));
        let inquiry = Inquiry {
            call: edited.call,
            tool: edited.tool.clone(),
            turn: edited.turn.spec.clone(),
            arguments: edited.arguments.clone(),
            cwd: edited.cwd.clone(),
            until: self.now().plus(timeout_ms),
            timeout_ms,
            about,
        };
        self.pool.inquire(inquiry, mailbox);
        let answer = tokio::time::timeout(Duration::from_millis(timeout_ms), answer).await;
        answer.ok()?.ok()
    }
}
