//! A tool call as the model made it, and where it stands.
//!
//! Never decides what happens to a call: that is the turn machine.

use bytes::Bytes;

use super::ids::{CallId, ToolName};

/// One tool call as the model made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    /// The model's id, or a minted one.
    pub call_id: CallId,
    /// The name as it came, aliases not resolved.
    pub name: ToolName,
    /// JSON text as it came. Empty stands for `{}`.
    pub arguments: Bytes,
    /// The model was cut off inside this call.
    pub truncated: bool,
}

/// Where a call stands.
///
/// ```text
/// validating ─► awaiting_approval ─► scheduled ─► executing ─► success
///     │ ╰─────────────────────────────►┘  │           ├──────► error
///     ├──► error                          ├──► error  ╰──────► cancelled
///     ╰──► cancelled                      ╰──► cancelled
/// ```
/// `awaiting_approval` also ends in error or cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallState {
    /// Being parsed and checked.
    Validating,
    /// Waits for an approver.
    AwaitingApproval,
    /// May run; waits for its batch or for a free slot.
    Scheduled,
    /// An executor accepted it.
    Executing,
    /// Ended with a result that is not an error.
    Success,
    /// Ended with an error.
    Error,
    /// Ended by a cancellation.
    Cancelled,
}

impl CallState {
    /// Every state, in the order of a call's life.
    pub const ALL: [CallState; 7] = [
        CallState::Validating,
        CallState::AwaitingApproval,
        CallState::Scheduled,
        CallState::Executing,
        CallState::Success,
        CallState::Error,
        CallState::Cancelled,
    ];

    /// The one table of legal moves. Anything absent is a bug.
    pub fn can_become(self, next: CallState) -> bool {
        use CallState::{
            AwaitingApproval, Cancelled, Error, Executing, Scheduled, Success, Validating,
        };
        match self {
            Validating => matches!(next, AwaitingApproval | Scheduled | Error | Cancelled),
            AwaitingApproval => matches!(next, Scheduled | Error | Cancelled),
            Scheduled => matches!(next, Executing | Error | Cancelled),
            Executing => matches!(next, Success | Error | Cancelled),
            Success | Error | Cancelled => false,
        }
    }

    /// Whether nothing follows.
    pub fn is_final(self) -> bool {
        matches!(
            self,
            CallState::Success | CallState::Error | CallState::Cancelled
        )
    }

    /// The word that people and logs see.
    pub fn as_str(self) -> &'static str {
        match self {
            CallState::Validating => "validating",
            CallState::AwaitingApproval => "awaiting_approval",
            CallState::Scheduled => "scheduled",
            CallState::Executing => "executing",
            CallState::Success => "success",
            CallState::Error => "error",
            CallState::Cancelled => "cancelled",
        }
    }
}
