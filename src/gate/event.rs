//! What happens in a turn, as its readers learn it.
//!
//! Kept events have a sequence and are the same for every reader; transient ones have none and may be
//! thinned out. Never says how an event travels.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::approval::{Approval, BatchPolicy};
use super::call::CallState;
use super::ids::{BatchId, CallId, CallIndex, RunId, SessionId, ToolName, UnixMillis};
use super::loop_detector::LoopFound;
use super::refusal::CallError;
use super::result::CallResult;

/// One thing that happened in a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The turn begins. Always the first of its first epoch.
    Accepted(Arc<TurnAccepted>),
    /// A call moved.
    CallMoved(CallMoved),
    /// Approvals wait. They are durable.
    ApprovalRequired(Arc<[Arc<Approval>]>),
    /// Only people are awaited now.
    Suspended(Arc<[CallIndex]>),
    /// The run is in a loop. Its end is durable.
    LoopDetected(Arc<LoopFound>),
    /// A call ended.
    CallCompleted(CallIndex, Arc<CallResult>),
    /// The turn ended. Always the last.
    TurnCompleted(Arc<TurnCompleted>),
    /// An executing call reports. Transient.
    Progress(CallIndex, Arc<Progress>),
    /// An executing call prints. Transient.
    Output(CallIndex, Arc<OutputChunk>),
    /// Nothing happened for a while; says what is awaited. Transient.
    Heartbeat(&'static str),
}

impl Event {
    /// Whether the event has a sequence and is kept.
    pub fn is_kept(&self) -> bool {
        match self {
            Event::Accepted(_)
            | Event::CallMoved(_)
            | Event::ApprovalRequired(_)
            | Event::Suspended(_)
            | Event::LoopDetected(_)
            | Event::CallCompleted(..)
            | Event::TurnCompleted(_) => true,
            Event::Progress(..) | Event::Output(..) | Event::Heartbeat(_) => false,
        }
    }
}

/// The turn is taken and begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnAccepted {
    /// Its session.
    pub session: SessionId,
    /// Its run.
    pub run: RunId,
    /// Its batch. None: no calls.
    pub batch: Option<BatchId>,
    /// The calls as the gate reads them, in order.
    pub calls: Vec<AcceptedCall>,
    /// Which turn of its run this is, from 1.
    pub round: u32,
    /// What happens while calls wait.
    pub batch_policy: BatchPolicy,
}

/// One call as the gate reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AcceptedCall {
    /// As it came, or minted.
    pub call_id: CallId,
    /// The tool, aliases resolved.
    pub tool: ToolName,
    /// The id was minted.
    pub minted: bool,
}

/// A call moved from one state to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallMoved {
    /// The call.
    pub call: CallIndex,
    /// Where it was.
    pub from: CallState,
    /// Where it is now.
    pub to: CallState,
    /// The code of its error. Empty: none.
    pub code: Cow<'static, str>,
}

/// How far an execution is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// For people. Empty: none.
    pub message: String,
    /// Done part, 0 to 1.
    pub fraction: Option<f64>,
    /// Free data. Empty: none.
    pub details: Bytes,
}

/// What a piece of output is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputChannel {
    /// Text that the tool wants to show.
    Text,
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
    /// Anything else.
    Data,
}

/// A piece of output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutputChunk {
    /// What it is.
    pub channel: OutputChannel,
    /// Position in the call, from 1.
    pub chunk_sequence: u64,
    /// The bytes. May cut a character.
    pub data: Bytes,
    /// Bytes dropped just before.
    pub dropped_bytes: u64,
}

/// How a turn ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnOutcome {
    /// Every call has its result.
    Completed,
    /// Cancelled.
    Cancelled,
    /// A hook ended the run.
    Aborted,
    /// The sidecar could not go on.
    Error,
    /// The run is in a loop.
    LoopDetected,
}

/// Why the loop must end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopReason {
    /// A result had its stop flag set.
    Tool,
    /// A hook said so.
    Hook,
    /// The run ended otherwise.
    RunEnded,
}

/// The turn ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TurnCompleted {
    /// How.
    pub outcome: TurnOutcome,
    /// One per call, in call order. In a cancelled turn these only close the history.
    pub results: Vec<Arc<CallResult>>,
    /// Why the loop must end. None: go on.
    pub stop: Option<StopReason>,
    /// The run after this turn.
    pub run: RunSummary,
    /// Why, for every outcome but completed.
    pub error: Option<CallError>,
}

/// Where a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    /// Takes turns.
    Active,
    /// Ended by EndRun, by a stop flag or by a hook's STOP.
    Completed,
    /// Ended by a cancellation.
    Cancelled,
    /// Ended by a hook's ABORT.
    Aborted,
    /// The sidecar could not go on.
    Error,
    /// Ended by the loop detector.
    LoopDetected,
}

/// A run as its turns show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSummary {
    /// Its session.
    pub session: SessionId,
    /// The run.
    pub run: RunId,
    /// Where it stands.
    pub state: RunState,
    /// Turns so far.
    pub rounds: u32,
    /// Code of the end. Empty while active or completed.
    pub end_code: String,
    /// For people. Empty while active.
    pub end_reason: String,
    /// When its first turn came.
    pub started_at: UnixMillis,
    /// When it ended.
    pub ended_at: Option<UnixMillis>,
}

/// Position of a call together with its attempt: what every word of an executor names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The call.
    pub call: CallIndex,
    /// From 1.
    pub attempt: u32,
}
