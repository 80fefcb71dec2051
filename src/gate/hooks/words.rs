//! What hooks add to the conversation beside a call's result.
//!
//! Kept with the result, so that it is as durable as that. Never stands between a call and its result:
//! whoever shows it puts it behind all results of the batch.

use bytes::Bytes;

use crate::gate::ids::HookId;
use crate::gate::result::Content;

/// Longest text that a hook adds, in characters; the rest is cut.
pub const TEXT_CHARACTERS_MAX: usize = 10_000;

/// A text with the hook that said it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookText {
    /// The hook.
    pub hook: HookId,
    /// What it said.
    pub text: String,
}

/// Who speaks in an injected message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageRole {
    /// The system.
    System,
    /// The user.
    User,
}

/// A message that a hook puts into the conversation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Injected {
    /// The hook.
    pub hook: HookId,
    /// Who speaks.
    pub role: MessageRole,
    /// What is said.
    pub text: String,
}

/// What a tool said and a hook keeps from the model.
#[derive(Clone, PartialEq)]
pub struct KeptBack {
    /// The contents.
    pub contents: Vec<Content>,
    /// For programs. Empty: none.
    pub structured: Bytes,
    /// Of an error. Empty: none.
    pub message: String,
}

impl std::fmt::Debug for KeptBack {
    /// How much it is: what is kept from the model is kept from logs too.
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("KeptBack")
            .field("contents", &self.contents.len())
            .field("structured_bytes", &self.structured.len())
            .field("message_bytes", &self.message.len())
            .finish()
    }
}

/// What the hooks together left with one result.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HookWords {
    /// Contexts, those from before the call first, then in the order of the hooks.
    pub contexts: Vec<HookText>,
    /// Messages, in the order of the hooks.
    pub injected: Vec<Injected>,
    /// The model sees a placeholder in place of the result.
    pub suppressed: bool,
    /// What it does not see. For the audit, and kept nowhere else: gone after a restart.
    pub kept_back: Option<Box<KeptBack>>,
    /// The hook that ended the loop.
    pub stopped_by: Option<HookId>,
}

impl HookWords {
    /// Whether there is nothing to keep.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Cuts a text to [`TEXT_CHARACTERS_MAX`].
pub fn cut_words(text: &mut String) {
    if let Some((at, _)) = text.char_indices().nth(TEXT_CHARACTERS_MAX) {
        text.truncate(at);
    }
}
