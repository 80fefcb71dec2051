//! What a turn machine wants done, in order.
//!
//! The engine performs a list from front to back. `Persist` stands before everything that it protects.
//! Never performs anything itself.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;

use super::hooking::HookTicket;
use super::input::{CancelReason, CheckedArguments};
use crate::gate::approval::{Approval, Outcome};
use crate::gate::event::{Event, RunSummary};
use crate::gate::hooks::{AfterAction, BeforeAction, Earlier, Hook, Point, RunStatus};
use crate::gate::ids::{CallIndex, ExecutionId, HookId, UnixMillis};
use crate::gate::loop_detector::LoopFound;
use crate::gate::permission::{Grant, Mode, PathFact, Permit, Source};
use crate::gate::record::{Record, TurnSpec};
use crate::gate::refusal::CallError;
use crate::gate::result::CallResult;
use crate::gate::tool::SharedTool;

/// One thing to do.
#[derive(Debug)]
pub enum Effect {
    /// Write this down.
    Persist {
        /// What.
        record: Record,
        /// When it must be on the disk.
        when: Durability,
    },
    /// Show approvals as they are now.
    ShowApprovals(Vec<Arc<Approval>>),
    /// Tell the readers.
    Announce(Event),
    /// Cut a command up. Answered by `CommandAnalysed`, whatever becomes of it.
    Analyse(Analyse),
    /// Ask an executor about a call. Answered by `FactsResolved` or `ToolChecked`, or not in time.
    Inquire(Box<Inquiry>),
    /// Ask a model whether the run is in a loop. Answered by `Diagnosed`, or not in time.
    AskDiagnosis {
        /// The turn.
        turn: Arc<TurnSpec>,
        /// How long the answer is awaited, in milliseconds.
        timeout_ms: u64,
    },
    /// Ask or tell a hook. Answered by `HookAnswered`, unless its answer is not awaited.
    AskHook(Box<AskHook>),
    /// A hook's answer is not wanted any more.
    ForgetHook(HookTicket),
    /// A hook ran.
    HookRan(HookRun),
    /// Find an executor with room. Answered by `Claimed`, at once or later.
    Claim(Claim),
    /// Expect an executor to come back with a call that was sent before a restart. Answered by
    /// `ExecutorResumed`, `ExecutorReplied` or `ExecutorLost`.
    Expect(Expect),
    /// Send the call to the executor that was claimed.
    Dispatch(Dispatch),
    /// Stop an execution, or give a claim back.
    Withdraw(Withdraw),
    /// Tell the executor that its result is kept.
    Acknowledge {
        /// The call.
        execution: ExecutionId,
        /// The attempt that answered.
        attempt: u32,
    },
    /// Grants hold from now on; they are recorded.
    Grant(Vec<Grant>),
    /// Tell the approver what became of the decision.
    Answer(Box<Outcome>),
    /// The turn has ended; nothing follows.
    Finish,
}

/// When a record must be on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Some time soon, after what was written before it.
    After,
    /// Before the next effect. If that cannot be, nothing of the list is sent and the machine is told;
    /// the rest of the list holds all the same.
    BeforeDispatch,
    /// Before the next effect. Tried until it can be.
    BeforeAnnounce,
}

/// Cut a command up, so that rules can be held against what it would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Analyse {
    /// The call.
    pub call: CallIndex,
    /// The command as the model wrote it.
    pub text: String,
}

/// A question to a hook.
#[derive(Debug, Clone)]
pub struct AskHook {
    /// By which its answer is known.
    pub ticket: HookTicket,
    /// The hook.
    pub hook: Arc<Hook>,
    /// When it is asked.
    pub point: Point,
    /// An answer is awaited, as long as the hook may take.
    pub is_awaited: bool,
    /// How often processes of ours may have asked, from 1.
    pub attempt: u32,
    /// The turn.
    pub turn: Arc<TurnSpec>,
    /// The session's working directory.
    pub cwd: Option<String>,
    /// The session's mode.
    pub mode: Mode,
    /// Now.
    pub at: UnixMillis,
    /// What it is about.
    pub about: HookAbout,
}

/// What a hook is asked or told about.
#[derive(Debug, Clone)]
pub enum HookAbout {
    /// A call before it is decided.
    Before {
        /// The call.
        call: CallIndex,
        /// As hooks before this one left them.
        arguments: Bytes,
        /// How often hooks replaced them.
        generation: u32,
        /// What is wrong with the call so far.
        validation: Option<Box<CallError>>,
        /// The tool, if there is one of that name.
        tool: Option<SharedTool>,
        /// What hooks before this one said.
        earlier: Vec<Earlier>,
    },
    /// A call after its executor answered.
    After {
        /// The call.
        call: CallIndex,
        /// As it ran.
        arguments: Bytes,
        /// As hooks before this one left it.
        result: Arc<CallResult>,
        /// The tool.
        tool: Option<SharedTool>,
    },
    /// An approval that begins to wait.
    Approval {
        /// As it waits.
        approval: Arc<Approval>,
    },
    /// A turn that begins.
    TurnStarted {
        /// Its run.
        run: RunSummary,
    },
    /// A turn that ended.
    TurnFinished {
        /// How each call ended.
        results: Vec<Arc<CallResult>>,
        /// Its run.
        run: RunSummary,
    },
    /// A run that is in a loop.
    LoopSuspected {
        /// The loop.
        found: Arc<LoopFound>,
        /// The run, ended.
        run: RunSummary,
    },
    /// A run that may be in a loop. Whoever asks adds its history.
    Diagnosis {
        /// The run.
        run: RunSummary,
    },
}

/// One run of one hook, for those who watch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookRun {
    /// The hook.
    pub hook: HookId,
    /// When it was asked.
    pub point: Point,
    /// The call. None: it was about none.
    pub call: Option<CallIndex>,
    /// How it went.
    pub status: RunStatus,
    /// What it said before a call, or counts as.
    pub before: Option<BeforeAction>,
    /// What it said after a call.
    pub after: Option<AfterAction>,
    /// It replaced arguments or result.
    pub is_modified: bool,
    /// How long it took, in milliseconds. Zero for a built-in one.
    pub took_ms: u64,
    /// Code of the failure. Empty: none.
    pub code: Cow<'static, str>,
}

/// A question about a call, for a process that runs its tool.
#[derive(Debug, Clone)]
pub struct Inquiry {
    /// The call.
    pub call: CallIndex,
    /// The tool.
    pub tool: SharedTool,
    /// The turn that the call belongs to.
    pub turn: Arc<TurnSpec>,
    /// What was checked, in dispatch form.
    pub arguments: Bytes,
    /// The session's working directory.
    pub cwd: Option<String>,
    /// When an answer is too late.
    pub until: UnixMillis,
    /// The same as a span from now, in milliseconds.
    pub timeout_ms: u64,
    /// What is asked.
    pub about: About,
}

/// What an executor is asked about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum About {
    /// What these arguments mean on its machine.
    Facts {
        /// Where they stand.
        pointers: Vec<String>,
    },
    /// What the tool itself says.
    Check {
        /// The session's mode.
        mode: Mode,
        /// What is known of its paths.
        facts: Vec<PathFact>,
        /// What allows it so far.
        matched: Option<Matched>,
    },
}

/// A rule or grant that allows a call, as its tool is told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Matched {
    /// As written.
    pub rule: String,
    /// Where it comes from.
    pub source: Source,
}

/// A call that looks for an executor.
#[derive(Debug, Clone)]
pub struct Claim {
    /// Its position.
    pub call: CallIndex,
    /// What names it at executors.
    pub execution: ExecutionId,
    /// The tool.
    pub tool: SharedTool,
}

/// A call that an executor may still have.
#[derive(Debug, Clone)]
pub struct Expect {
    /// Its position.
    pub call: CallIndex,
    /// What names it at executors.
    pub execution: ExecutionId,
    /// The attempt that was sent.
    pub attempt: u32,
    /// The executor process.
    pub instance: crate::gate::ids::InstanceId,
    /// The tool.
    pub tool: SharedTool,
}

/// A call on its way to its executor.
#[derive(Debug)]
pub struct Dispatch {
    /// Leave to send it, used up by sending.
    pub permit: Permit,
    /// Its position.
    pub call: CallIndex,
    /// What names it at executors.
    pub execution: ExecutionId,
    /// From 1.
    pub attempt: u32,
    /// The tool.
    pub tool: SharedTool,
    /// The turn that it belongs to.
    pub turn: Arc<TurnSpec>,
    /// What was checked.
    pub arguments: CheckedArguments,
    /// The session's working directory. None: none was set.
    pub cwd: Option<String>,
    /// Longest execution, in milliseconds, from now.
    pub timeout_ms: u64,
}

/// A call that must stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdraw {
    /// What names it at executors.
    pub execution: ExecutionId,
    /// The attempt that was sent. Zero: it was only claimed.
    pub attempt: u32,
    /// Why.
    pub reason: CancelReason,
    /// In the canceller's words.
    pub message: String,
    /// How long the result is awaited, in milliseconds.
    pub grace_ms: u32,
    /// The tool stops when told to; otherwise it is not told.
    pub tell: bool,
    /// Nobody waits for the result.
    pub forget: bool,
}
