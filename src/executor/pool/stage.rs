//! Where one execution is.
//!
//! ```text
//! waiting ─► claimed ─► sent ─► answered ─► (gone)
//!    ▲          │         │
//!    ╰──────────╯         ╰─► (gone: rejected, lost, forgotten)      expected ─► sent | (gone)
//! ```
//! Never moves by itself.

use crate::gate::ids::InstanceId;

/// Where one execution is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    /// Looks for room.
    Waiting,
    /// Has room, nothing was sent.
    Claimed {
        /// Where.
        instance: InstanceId,
    },
    /// Was sent.
    Sent {
        /// Where to.
        instance: InstanceId,
        /// From 1.
        attempt: u32,
        /// It was told to stop.
        cancelled: bool,
    },
    /// Was answered; the answer is being recorded. The slot is free again.
    Answered {
        /// By whom.
        instance: InstanceId,
        /// From 1.
        attempt: u32,
    },
    /// Was sent before a restart of ours, and not heard of since.
    Expected {
        /// Where to.
        instance: InstanceId,
        /// From 1.
        attempt: u32,
    },
}

impl Stage {
    /// The instance that it is at.
    pub(super) fn instance(&self) -> Option<&InstanceId> {
        match self {
            Stage::Waiting => None,
            Stage::Claimed { instance }
            | Stage::Sent { instance, .. }
            | Stage::Answered { instance, .. }
            | Stage::Expected { instance, .. } => Some(instance),
        }
    }

    /// Whether a slot of its instance is taken.
    pub(super) fn holds_slot(&self) -> bool {
        match self {
            Stage::Claimed { .. } | Stage::Sent { .. } => true,
            Stage::Waiting | Stage::Answered { .. } | Stage::Expected { .. } => false,
        }
    }

    /// Whether it was sent to `instance` in this attempt and not answered.
    pub(super) fn is_sent(&self, at: &InstanceId, of: u32) -> bool {
        match self {
            Stage::Sent {
                instance, attempt, ..
            } => instance == at && *attempt == of,
            Stage::Waiting
            | Stage::Claimed { .. }
            | Stage::Answered { .. }
            | Stage::Expected { .. } => false,
        }
    }
}
