//! What a turn machine is told.
//!
//! Never holds a handle or a promise: inputs are data.

use bytes::Bytes;

use super::decide::Decided;
use super::hooking::HookTicket;
use crate::gate::event::{Attempt, OutputChunk, Progress, RunSummary};
use crate::gate::hooks::HookAnswer;
use crate::gate::ids::{CallIndex, InstanceId};
use crate::gate::loop_detector::Diagnosis;
use crate::gate::permission::{CommandSubject, PathFact, ToolWord};
use crate::gate::result::ToolResult;

/// One thing that the outside world did.
#[derive(Debug, Clone)]
pub enum Input {
    /// The turn was taken. First, once; only a cancellation that came too early may precede it.
    Started,
    /// The turn was taken up after a restart. First, once, in place of `Started`.
    Recovered,
    /// Executors have room for these calls.
    Claimed(Vec<Claimed>),
    /// A command was cut up, as [`Effect::Analyse`](super::Effect::Analyse) asked.
    CommandAnalysed {
        /// The call.
        call: CallIndex,
        /// What became of it.
        command: Box<CommandSubject>,
    },
    /// An executor said what paths are, as [`Effect::Inquire`](super::Effect::Inquire) asked.
    FactsResolved {
        /// The call.
        call: CallIndex,
        /// What it knows. Empty: nothing, or nobody can be asked.
        facts: Vec<PathFact>,
    },
    /// A tool said what it thinks of a call, as [`Effect::Inquire`](super::Effect::Inquire) asked.
    ToolChecked {
        /// The call.
        call: CallIndex,
        /// What it says. None: nobody can be asked, or who was is gone.
        word: Option<Box<ToolWord>>,
    },
    /// A hook answered, as [`Effect::AskHook`](super::Effect::AskHook) asked, or failed to.
    HookAnswered {
        /// The question.
        ticket: HookTicket,
        /// What came back.
        answer: HookAnswer,
        /// How long it took, in milliseconds.
        took_ms: u64,
    },
    /// Too many calls wait for executors; this one does not.
    QueueFull(CallIndex),
    /// The dispatch of these calls could not be recorded; nothing was sent.
    DispatchUnrecorded(Vec<CallIndex>),
    /// The executor has the call.
    ExecutorAccepted {
        /// Which.
        of: Attempt,
        /// The handler has not begun.
        queued: bool,
    },
    /// The executor came back after a restart of ours and still has the call.
    ExecutorResumed {
        /// Which.
        of: Attempt,
    },
    /// The executor reports.
    ExecutorProgressed {
        /// Which.
        of: Attempt,
        /// What.
        progress: Progress,
    },
    /// The executor prints.
    ExecutorPrinted {
        /// Which.
        of: Attempt,
        /// What.
        chunk: OutputChunk,
    },
    /// The executor answered.
    ExecutorReplied {
        /// Which.
        of: Attempt,
        /// What.
        reply: Reply,
    },
    /// The executor did not take the call; its handler will not begin.
    ExecutorRejected {
        /// Which.
        of: Attempt,
        /// Why.
        reason: RejectReason,
    },
    /// The executor is gone, or gave the call up.
    ExecutorLost {
        /// Which.
        of: Attempt,
        /// Whether the handler surely never began.
        proof: Proof,
    },
    /// Somebody wants a call or the turn to stop.
    CancelRequested(Cancel),
    /// Something else has ended the turn's run.
    RunEnded(RunSummary),
    /// An approver decided.
    Decided(Box<Decided>),
    /// Tools came, changed or went, or rules, mode or grants are others now.
    ToolsChanged,
    /// A model said whether the run is in a loop, as
    /// [`Effect::AskDiagnosis`](super::Effect::AskDiagnosis) asked. None: it said nothing that counts.
    Diagnosed(Option<Box<Diagnosis>>),
    /// A moment that [`deadline`](super::TurnMachine::deadline) named has come.
    DeadlineReached,
}

/// An executor has room for a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimed {
    /// The call.
    pub call: CallIndex,
    /// The executor process.
    pub instance: InstanceId,
    /// It says when it has a call, so that silence means something.
    pub accepts: bool,
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// The handler answered.
    Result(ToolResult),
    /// The handler stopped because it was told to.
    Cancelled {
        /// It surely had not acted.
        not_executed: bool,
        /// It surely had acted.
        executed: bool,
        /// For operators.
        message: String,
    },
    /// The executor sent neither.
    Empty,
}

/// Whether a lost call may be sent again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    /// The handler surely never began.
    NeverStarted,
    /// Nobody knows.
    None,
}

/// Why an executor did not take a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectReason {
    /// No slot, or it shuts down: another instance may take it.
    Busy,
    /// No such tool, or another definition.
    UnknownTool,
    /// The arguments cannot be read.
    BadArguments,
    /// Too large for it.
    TooLarge,
}

/// What a cancellation is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelScope {
    /// One call; the turn goes on.
    Call(CallIndex),
    /// The turn, and its run with it.
    Turn,
    /// The run, and every turn of it.
    Run,
}

/// A wish to stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cancel {
    /// What should stop.
    pub scope: CancelScope,
    /// Why, in the canceller's words. Empty: a sentence of ours.
    pub reason: String,
    /// How long executing calls may take, in milliseconds.
    pub grace_ms: u32,
}

/// Why an execution must stop, as its executor learns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// One call was cancelled.
    CallCancelled,
    /// Its turn was cancelled.
    TurnCancelled,
    /// Its run ended.
    RunEnded,
    /// It timed out.
    Deadline,
    /// The sidecar shuts down.
    Shutdown,
}

/// What an execution may know besides its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedArguments {
    /// Dispatch form.
    pub text: Bytes,
    /// SHA-256 of it.
    pub digest: crate::gate::result::Digest,
}
