//! Why a stream ends, and its farewell.
//!
//! Every end that we choose is told to the peer. Never decides to end a stream.

use super::convert;
use super::handshake;
use super::lanes::Lanes;
use crate::pb::v1 as pb;

/// Why a stream ended on our side.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionEnd {
    /// The first message is not the hello.
    #[error("the first message must be the hello")]
    HelloRequired,
    /// No hello came in time.
    #[error("no hello came in time")]
    HelloTimeout,
    /// No common protocol number.
    #[error(
        "no common protocol number; this sidecar speaks {}",
        handshake::PROTOCOL
    )]
    ProtocolUnsupported,
    /// A field is missing or wrong.
    #[error("`{field}` {problem}")]
    Invalid {
        /// The field.
        field: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// The credential may not use this name.
    #[error("the credential may not use the executor name `{name}`")]
    NameForbidden {
        /// The name.
        name: String,
    },
    /// Beyond a limit.
    #[error("`{limit}` allows {allowed}, got {actual}")]
    LimitExceeded {
        /// The limit.
        limit: &'static str,
        /// Its value.
        allowed: u64,
        /// What came.
        actual: u64,
    },
    /// A newer stream of the same process took over.
    #[error("a newer stream of the same process took over")]
    Superseded,
    /// The peer did not answer pings.
    #[error("the peer did not answer pings")]
    HeartbeatMissed,
    /// The peer does not read.
    #[error("the peer does not read what is sent")]
    SlowReader,
    /// The peer broke the protocol too often.
    #[error("the peer broke the protocol: {problem}")]
    ProtocolViolation {
        /// How.
        problem: String,
    },
    /// The sidecar leaves.
    #[error("the sidecar is shutting down")]
    Draining,
}

impl SessionEnd {
    pub(super) fn message_too_large(allowed: u64, actual: u64) -> Self {
        SessionEnd::LimitExceeded {
            limit: "message_bytes_max",
            allowed,
            actual,
        }
    }
}

/// Why a carrier has no more messages.
#[derive(Debug)]
pub enum Broken {
    /// The peer sent a message that is larger than the sidecar takes.
    TooLarge {
        /// Largest message that it takes, in bytes.
        allowed: u64,
        /// The size of what came.
        actual: u64,
    },
    /// The transport broke.
    Lost(String),
}

/// How a stream ended.
#[derive(Debug)]
pub(super) enum Left {
    /// The peer closed its half in order.
    Closed,
    /// The transport broke.
    Broken(String),
    /// We ended it.
    Ended(SessionEnd),
}

impl From<Broken> for Left {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::TooLarge { allowed, actual } => {
                Left::Ended(SessionEnd::message_too_large(allowed, actual))
            }
            Broken::Lost(problem) => Left::Broken(problem),
        }
    }
}

impl std::fmt::Display for Left {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Left::Closed => out.write_str("closed by the executor"),
            Left::Broken(problem) => write!(out, "broken: {problem}"),
            Left::Ended(end) => end.fmt(out),
        }
    }
}

/// Ends a stream with a farewell.
pub(super) fn dismiss(lanes: &Lanes, end: SessionEnd) {
    let farewell = pb::connect_response::Body::GoAway(go_away_of(&end));
    lanes.control(convert::response(farewell));
    lanes.end(Some(end));
}

fn go_away_of(end: &SessionEnd) -> pb::GoAway {
    let (reason, comes_back) = match end {
        SessionEnd::Superseded => (pb::GoAwayReason::Superseded, false),
        SessionEnd::SlowReader => (pb::GoAwayReason::SlowReader, true),
        SessionEnd::HeartbeatMissed => (pb::GoAwayReason::HeartbeatMissed, true),
        SessionEnd::Draining => (pb::GoAwayReason::Shutdown, true),
        SessionEnd::HelloRequired
        | SessionEnd::HelloTimeout
        | SessionEnd::ProtocolUnsupported
        | SessionEnd::Invalid { .. }
        | SessionEnd::NameForbidden { .. }
        | SessionEnd::LimitExceeded { .. }
        | SessionEnd::ProtocolViolation { .. } => (pb::GoAwayReason::ProtocolViolation, true),
    };
    pb::GoAway {
        reason: reason as i32,
        message: end.to_string(),
        drain_ms: 0,
        reconnect_min_ms: if comes_back { 100 } else { 0 },
        reconnect_max_ms: if comes_back { 2_000 } else { 0 },
    }
}
