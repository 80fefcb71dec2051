//! The names of things: sessions, runs, turns, calls, tools, executors.
//!
//! Each is a type of its own, so that one never stands in another's place. Never mints an id: ids
//! arrive as inputs.

use std::fmt;
use std::sync::Arc;

use super::stable_hash::stable_hash;

/// Longest id, in bytes.
pub const ID_BYTES_MAX: usize = 128;

/// Why text is not an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdError {
    /// Nothing there.
    #[error("must not be empty")]
    Empty,
    /// More than [`ID_BYTES_MAX`] bytes.
    #[error("must have at most {ID_BYTES_MAX} characters")]
    TooLong,
    /// Something else than printable ASCII.
    #[error("must be printable ASCII")]
    NotPrintable,
}

fn check(text: &str) -> Result<(), IdError> {
    if text.is_empty() {
        return Err(IdError::Empty);
    }
    if text.len() > ID_BYTES_MAX {
        return Err(IdError::TooLong);
    }
    if text.bytes().all(|byte| (0x20..=0x7e).contains(&byte)) {
        Ok(())
    } else {
        Err(IdError::NotPrintable)
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Reads an id that came from outside.
            ///
            /// # Errors
            /// [`IdError`]: not 1 to 128 printable ASCII characters.
            pub fn parse(text: &str) -> Result<Self, IdError> {
                check(text)?;
                Ok(Self(Arc::from(text)))
            }

            /// Wraps text that is an id already, or that names nothing and is only shown.
            pub fn trusted(text: impl Into<Arc<str>>) -> Self {
                Self(text.into())
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(out, "{}({:?})", stringify!($name), &*self.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str(&self.0)
            }
        }

        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

id!(
    /// One conversation.
    SessionId
);
id!(
    /// One agent loop inside a session.
    RunId
);
id!(
    /// One model message and its calls.
    TurnId
);
id!(
    /// All calls of one turn.
    BatchId
);
id!(
    /// The model's id of one call; unique in its turn only.
    CallId
);
id!(
    /// What the model calls. May hold any text, since an unknown name is echoed.
    ToolName
);
id!(
    /// Who owns a tool: the executor's name.
    OwnerName
);
id!(
    /// One executor process.
    InstanceId
);
id!(
    /// One call at an executor, the same for all its attempts.
    ExecutionId
);

id!(
    /// One call that waits for an approver, or did.
    ApprovalId
);
id!(
    /// One hook.
    HookId
);

/// Position of a call in its turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallIndex(pub u16);

impl CallIndex {
    /// As an index into the turn's calls.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

/// The two halves that name a turn.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TurnKey {
    /// Its session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
}

impl TurnKey {
    /// What the turn is found by where only a number is at hand.
    pub fn mark(&self) -> u64 {
        turn_mark(
            self.session.as_str().as_bytes(),
            self.turn.as_str().as_bytes(),
        )
    }
}

/// [`TurnKey::mark`] of names that were not read as text.
pub fn turn_mark(session: &[u8], turn: &[u8]) -> u64 {
    stable_hash(&[b"k", session, turn])
}

impl ApprovalId {
    /// The approval of one call. Says where its turn is found, so that no index is needed.
    pub fn of(batch: &BatchId, call: CallIndex, mark: u64) -> Self {
        Self::trusted(format!("{batch}.{}.{mark:016x}", call.0))
    }

    /// The batch, the call and the mark of the turn. None: it is not an id of ours.
    pub fn parts(&self) -> Option<(BatchId, CallIndex, u64)> {
        let mut parts = self.0.rsplitn(3, '.');
        let mark = parts.next().filter(|mark| mark.len() == 16)?;
        let mark = u64::from_str_radix(mark, 16).ok()?;
        let call = parts.next()?.parse().ok()?;
        Some((BatchId::trusted(parts.next()?), CallIndex(call), mark))
    }
}

/// A moment, in whole milliseconds of Unix time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// The moment `span_ms` later.
    pub fn plus(self, span_ms: u64) -> Self {
        Self(self.0.saturating_add(span_ms))
    }

    /// How long after `earlier` this is, in milliseconds; zero if it is before.
    pub fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}
