//! Why a part of the benchmark could not go on.
//!
//! Texts are for the person who runs it; nothing matches on them.

use std::time::Duration;

/// Why a part of the benchmark could not go on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Problem {
    /// The system refused something.
    #[error("{doing}: {cause}")]
    Io {
        /// What was tried.
        doing: String,
        /// What the system says.
        cause: std::io::Error,
    },
    /// A peer refused a request.
    #[error("request failed: {0}")]
    Rpc(Box<tonic::Status>),
    /// Nobody answers.
    #[error(transparent)]
    Unreachable(#[from] callgate_client::connect::ConnectError),
    /// A peer answered something that makes the measurement worthless.
    #[error("{0}")]
    Unexpected(String),
    /// Something took too long.
    #[error("{what} took longer than {limit:?}")]
    Late {
        /// What was awaited.
        what: String,
        /// How long.
        limit: Duration,
    },
    /// Goals are missed, and the caller wanted to know.
    #[error("{0} goals are missed")]
    Missed(usize),
    /// A signal asked the benchmark to end.
    #[error("interrupted")]
    Interrupted,
}

impl From<tonic::Status> for Problem {
    fn from(status: tonic::Status) -> Self {
        Self::Rpc(Box::new(status))
    }
}

/// Makes an I/O error say what was tried.
pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Problem {
    let doing = doing.into();
    move |cause| Problem::Io { doing, cause }
}
