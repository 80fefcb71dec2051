//! What one hook says, or that it failed to.
//!
//! Never says what several together mean: that is `before` and `after`.

use bytes::Bytes;

use super::words::MessageRole;
use crate::gate::loop_detector::Diagnosis;
use crate::gate::result::{Digest, ToolResult};

/// Most messages that one hook injects after one call.
pub const INJECTED_MAX: usize = 16;

/// What a hook decides before a call, the weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum BeforeAction {
    /// No opinion.
    #[default]
    Proceed,
    /// An ordinary ask is not needed.
    Allow,
    /// An approver must be asked.
    Ask,
    /// Waits for an approver, however long it takes until there is one.
    Defer,
    /// Does not run.
    Deny,
    /// The run ends; nothing of the batch runs.
    Abort,
}

/// What a hook says before a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BeforeVerdict {
    /// What it decides.
    pub action: BeforeAction,
    /// The whole new arguments. Empty: unchanged.
    pub modified: Bytes,
    /// For the conversation. Empty: none.
    pub context: String,
    /// Keep the result from the model.
    pub suppress: bool,
    /// For people. Empty: none.
    pub reason_for_user: String,
    /// For the model. Empty: as for people.
    pub reason_for_model: String,
    /// With DENY: the call's result.
    pub synthetic: Option<ToolResult>,
}

impl BeforeVerdict {
    /// Whether it puts new arguments in the place of the call's.
    #[must_use]
    pub fn rewrites(&self) -> bool {
        !self.modified.is_empty() && self.action < BeforeAction::Deny
    }

    /// Why it does not count. None: it does.
    ///
    /// Blank arguments of a model stand for `{}`; a hook that means that says so.
    #[must_use]
    pub fn find_problem(&self) -> Option<&'static str> {
        let is_blank = self.modified.iter().all(u8::is_ascii_whitespace);
        (self.rewrites() && is_blank).then_some("its new arguments are blank, which is no JSON")
    }
}

/// What a hook decides after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AfterAction {
    /// Go on.
    #[default]
    Proceed,
    /// The result is kept and the loop ends after this turn.
    Stop,
    /// The run ends.
    Abort,
}

/// What a hook says after a call.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AfterVerdict {
    /// What it decides.
    pub action: AfterAction,
    /// In place of the result.
    pub modified: Option<ToolResult>,
    /// For the conversation: who speaks, and what.
    pub injected: Vec<(MessageRole, String)>,
    /// For the conversation. Empty: none.
    pub context: String,
    /// Keep the result from the model.
    pub suppress: bool,
    /// For people. Empty: none.
    pub reason_for_user: String,
}

/// What a hook decides about an approval that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ApprovalAction {
    /// It waits on.
    #[default]
    Leave,
    /// Run it, this once.
    Approve,
    /// Do not run it.
    Deny,
}

/// What a hook says to an approval that waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApprovalVerdict {
    /// What it decides.
    pub action: ApprovalAction,
    /// With DENY for the model, otherwise for the record.
    pub message: String,
    /// The digest that it saw.
    pub digest: Option<Digest>,
}

/// How a hook failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// It took too long.
    Timeout,
    /// It says so, or answered nonsense.
    Failed,
    /// It is not there.
    Unavailable,
}

impl FailureKind {
    /// The stable code.
    #[must_use]
    pub fn code(self) -> &'static str {
        match self {
            FailureKind::Timeout => "hook_timeout",
            FailureKind::Failed => "hook_failed",
            FailureKind::Unavailable => "hook_unavailable",
        }
    }
}

/// A hook that gave no answer that counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookFailure {
    /// How.
    pub kind: FailureKind,
    /// For operators.
    pub message: String,
}

impl HookFailure {
    /// An answer that does not fit.
    #[must_use]
    pub fn nonsense(message: &str) -> Self {
        Self {
            kind: FailureKind::Failed,
            message: message.to_owned(),
        }
    }
}

/// What came back from a hook.
#[derive(Debug, Clone, PartialEq)]
pub enum HookAnswer {
    /// Before a call.
    Before(Box<BeforeVerdict>),
    /// After a call.
    After(Box<AfterVerdict>),
    /// About an approval.
    Approval(ApprovalVerdict),
    /// Whether a run is in a loop.
    Diagnosis(Diagnosis),
    /// Nothing that counts.
    Failed(HookFailure),
}

/// How the run of a hook went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// It answered, or was told what needs no answer.
    Answered,
    /// `hook_timeout`.
    Timeout,
    /// `hook_failed`.
    Failed,
    /// `hook_unavailable`.
    Unavailable,
    /// The call or the turn ended first.
    Cancelled,
}

impl RunStatus {
    /// As a failure shows itself.
    #[must_use]
    pub fn of_failure(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Timeout => RunStatus::Timeout,
            FailureKind::Failed => RunStatus::Failed,
            FailureKind::Unavailable => RunStatus::Unavailable,
        }
    }

    /// The word that people see.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            RunStatus::Answered => "answered",
            RunStatus::Timeout => "timeout",
            RunStatus::Failed => "failed",
            RunStatus::Unavailable => "unavailable",
            RunStatus::Cancelled => "cancelled",
        }
    }
}
