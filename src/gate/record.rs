//! What is written down about turns, runs, sessions and tools.
//!
//! Records fold back into a [`StoredTurn`], from which a turn machine goes on after a restart. Never
//! knows the disk's form: that is `store::disk`.

use std::sync::Arc;

use bytes::Bytes;

use super::admission::TurnRequest;
use super::approval::{Approval, ApprovalChange, ApprovalState, BatchPolicy};
use super::audit::note::Note;
use super::event::{RunSummary, TurnCompleted};
use super::hooks::{BeforeAction, Heard, KeptHook};

use super::ids::{
    ApprovalId, BatchId, CallIndex, HookId, InstanceId, RunId, SessionId, TurnKey, UnixMillis,
};
use super::permission::{Grant, GrantId, Ground};
use super::result::{CallResult, Digest};
use super::session::SessionRecord;
use super::tool::SharedTool;

/// One fact, written once.
#[derive(Debug, Clone)]
pub enum Record {
    /// A turn was taken.
    TurnAccepted(Arc<TurnSpec>),
    /// Calls are about to be sent.
    CallsDispatched {
        /// The turn.
        turn: Arc<TurnSpec>,
        /// Which calls, where to.
        calls: Vec<DispatchIntent>,
        /// Why they may run, for the audit.
        decided: Vec<CallWay>,
    },
    /// Calls have ended while their turn goes on.
    CallsEnded {
        /// The turn.
        turn: Arc<TurnSpec>,
        /// Position and result.
        results: Vec<(CallIndex, Arc<CallResult>)>,
        /// Those of them whose decision the audit does not have yet.
        decided: Vec<CallWay>,
    },
    /// A turn is being cancelled; whatever has not ended will not go on.
    TurnCancelling {
        /// The turn.
        turn: Arc<TurnSpec>,
        /// Why.
        reason: String,
        /// The run as it is from now on.
        run: RunSummary,
    },
    /// A turn has ended, with everything that its readers want.
    TurnEnded {
        /// The turn.
        turn: Arc<TurnSpec>,
        /// How.
        completed: Arc<TurnCompleted>,
        /// What the audit does not have yet.
        fresh: Fresh,
    },
    /// A turn was taken up after a restart.
    TurnRecovered {
        /// The turn.
        turn: Arc<TurnSpec>,
        /// Its epoch from now on.
        epoch: u32,
    },
    /// What hooks said before calls, of those about which they said anything.
    HooksHeard {
        /// The turn.
        turn: Arc<TurnSpec>,
        /// Position and words.
        heard: Vec<(CallIndex, Arc<Heard>)>,
    },
    /// Calls of a turn wait for approvers.
    ApprovalsAsked {
        /// The turn.
        turn: Arc<TurnSpec>,
        /// What waits, in call order.
        approvals: Vec<Arc<Approval>>,
        /// The calls that they are about, for the audit.
        asked: Vec<CallWay>,
    },
    /// Approvals of a turn were decided or ended.
    ApprovalsChanged {
        /// The turn.
        turn: Arc<TurnSpec>,
        /// How.
        changes: Vec<ApprovalChange>,
    },
    /// A session was made or changed.
    SessionPut(Arc<SessionRecord>),
    /// Approvers gave grants, or took them back.
    GrantsPut {
        /// The session.
        session: SessionId,
        /// The grants as they are now.
        grants: Vec<Grant>,
    },
    /// A run has ended outside of a turn.
    RunEnded(RunSummary),
    /// A tool was registered or changed.
    ToolRegistered(SharedTool),
    /// A tool was removed.
    ToolRemoved(super::ids::ToolName),
    /// A process registered a hook, anew or with other words.
    HookRegistered(Arc<KeptHook>),
    /// A hook of a process is gone.
    HookRemoved(super::ids::HookId),
    /// A toolset was made or replaced.
    ToolsetPut(Arc<super::toolset::Toolset>),
    /// A toolset was removed.
    ToolsetDeleted(String),
    /// Who asked for what follows in the same write. Only the audit keeps it.
    By(Arc<str>),
    /// A fact that only the audit keeps.
    Noted(Note),
}

impl Record {
    /// Whether nothing but the audit keeps it.
    pub fn is_for_audit_only(&self) -> bool {
        matches!(self, Record::By(_) | Record::Noted(_))
    }
}

/// The way of a call up to its decision, as only the audit keeps it.
#[derive(Debug, Clone)]
pub struct CallWay {
    /// Its position.
    pub call: CallIndex,
    /// The tool. None: there is none of that name.
    pub tool: Option<SharedTool>,
    /// What would run, in dispatch form, with its digest. None: the arguments did not parse.
    pub arguments: Option<(Bytes, Digest)>,
    /// Those are not the model's own.
    pub rewritten: bool,
    /// Nobody can say which of the arguments are secret.
    pub hidden: bool,
    /// What decided. None: the call did not get that far.
    pub ground: Option<Arc<Ground>>,
    /// The strictest word of its hooks, and the hook that said it. None: none said more than PROCEED.
    pub hook: Option<(BeforeAction, HookId)>,
    /// The grants without which it would have been asked.
    pub grants: Vec<GrantId>,
    /// What became of its approval. None: nobody was asked.
    pub approval: Option<ApprovalState>,
    /// Who decided that. Empty: the sidecar.
    pub by: String,
}

impl CallWay {
    /// Pointers to arguments that nobody may see.
    pub fn secrets(&self) -> &[String] {
        static EVERYTHING: [String; 1] = [String::new()];
        if self.hidden {
            return &EVERYTHING;
        }
        let definition = self.tool.as_ref().map(|tool| &tool.definition);
        definition.map_or(&[], |definition| &definition.secret_pointers)
    }

    /// Whether there are any.
    pub fn has_secrets(&self) -> bool {
        !self.secrets().is_empty()
    }
}

/// What the audit does not have of a turn yet when it ends.
#[derive(Debug, Clone, Default)]
pub struct Fresh {
    /// Calls whose decision is not there.
    pub decided: Vec<CallWay>,
    /// Calls whose end is not there.
    pub ended: Vec<CallIndex>,
}

/// What is fixed about a turn once it is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnSpec {
    /// As asked.
    pub request: TurnRequest,
    /// The batch of its calls.
    pub batch: BatchId,
    /// Which turn of its run this is, from 1.
    pub round: u32,
    /// What happens while calls wait.
    pub batch_policy: BatchPolicy,
    /// The session's toolset, for a turn that names none.
    pub session_toolset: Option<String>,
    /// The session's bound, for a turn that names none.
    pub session_max_parallel: Option<u32>,
    /// When its run began.
    pub run_started_at: UnixMillis,
    /// When it was taken.
    pub accepted_at: UnixMillis,
    /// Who asked for it. Empty: unknown, as after a restart.
    pub principal: Arc<str>,
}

impl TurnSpec {
    /// What names the turn.
    pub fn key(&self) -> TurnKey {
        TurnKey {
            session: self.request.session.clone(),
            turn: self.request.turn.clone(),
        }
    }

    /// Its session.
    pub fn session(&self) -> &SessionId {
        &self.request.session
    }

    /// What the model could call. None: every tool.
    pub fn toolset(&self) -> Option<&str> {
        let own = self.request.toolset.as_deref();
        own.or(self.session_toolset.as_deref())
    }

    /// Most calls that execute at once. None: no limit.
    pub fn max_parallel(&self) -> Option<u32> {
        self.request.max_parallel.or(self.session_max_parallel)
    }

    /// What names the approval of one of its calls.
    pub fn approval_id(&self, call: CallIndex) -> ApprovalId {
        ApprovalId::of(&self.batch, call, self.key().mark())
    }

    /// Its run.
    pub fn run(&self) -> &RunId {
        &self.request.run
    }
}

/// A call that is about to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DispatchIntent {
    /// Its position.
    pub call: CallIndex,
    /// From 1.
    pub attempt: u32,
    /// The executor process.
    pub instance: InstanceId,
}

/// Everything that is written about one turn.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredTurn {
    /// What is fixed about it.
    pub spec: TurnSpec,
    /// Restarts so far, from 1.
    pub epoch: u32,
    /// The last intent per call.
    pub dispatched: Vec<DispatchIntent>,
    /// What waited for approvers, in call order.
    pub approvals: Vec<Arc<Approval>>,
    /// What hooks said before its calls.
    pub heard: Vec<(CallIndex, Arc<Heard>)>,
    /// Results so far.
    pub results: Vec<(CallIndex, Arc<CallResult>)>,
    /// Why it is being cancelled. None: it is not.
    pub cancelling: Option<String>,
    /// How it ended. None: it has not.
    pub completed: Option<Arc<TurnCompleted>>,
    /// When something was last written.
    pub updated_at: UnixMillis,
}

impl StoredTurn {
    /// A turn of which nothing but its acceptance is known.
    pub fn new(spec: TurnSpec) -> Self {
        Self {
            epoch: 1,
            dispatched: Vec::new(),
            approvals: Vec::new(),
            heard: Vec::new(),
            results: Vec::new(),
            cancelling: None,
            completed: None,
            updated_at: spec.accepted_at,
            spec,
        }
    }
}
