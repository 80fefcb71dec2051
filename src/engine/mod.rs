//! Does what the gate decides: owns turns, their tasks, the clock, and what is in memory.
//!
//! Verbs for servers: start, attach, cancel, look, list. Never decides whether a call may run, and
//! never knows protobuf.

mod analyser;
mod approval_verbs;
mod approvals;
mod audit;
mod diagnoser;
mod events;
mod explain;
mod hooks;
mod inbox;
mod inquiries;
mod loops;
mod policy;
mod recovery;
mod rule_book;
mod rules;
mod run_verbs;
mod runs;
mod session_verbs;
mod sessions;
mod snapshots;
mod sweep;
mod tools;
mod turn;
mod turn_log;
mod turn_task;
mod turns;
mod verbs;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;

use crate::base::clock::Clock;
use crate::base::mint::Mint;
use crate::base::tasks::Tasks;
use crate::executor::{Directory, Pool};
use crate::gate::admission::AdmissionError;
use crate::gate::approval::BatchPolicy;
use crate::gate::event::{RunState, RunSummary};
use crate::gate::hooks::Point;
use crate::gate::ids::UnixMillis;
use crate::gate::json::JsonLimits;
use crate::gate::limits::Limits;
use crate::gate::permission::{Approver, CommandSubject, GrantId, Mode, Permissions};
use crate::gate::record::Record;
use crate::gate::session::Approvers;
use crate::gate::turn::{Cancel, CancelScope, Input, TurnSettings};
use crate::store::SharedStore;

use analyser::Analyser;
use approvals::Approvals;
use audit::Refusals;
use events::Events;
use runs::Runs;
use sessions::Sessions;
use snapshots::Snapshots;
use turns::Turns;

pub use crate::store::TurnFilter;
pub use approval_verbs::Watching;
pub use approvals::{Changes, Place, ShownApproval, Wanted};
pub use audit::{AuditAsk, AuditRow, AuditSlice, Range, Report};
pub use diagnoser::DiagnosisEndpoint;
pub use events::{EventRecord, Happened, Heard, Listener};
pub use explain::{Asked, Explained, ExplainedPart, Explanation, Question};
pub use hooks::{HookDesk, HookKeeper, HookQuestion};
pub use policy::{CheckedRules, PolicyError, Problem};
pub use rule_book::{ListedRule, RuleBook, RuleMark, RuleStanding, RuleState, mark};
pub use rules::{RulesError, load_rules, tell};
pub use session_verbs::SessionChange;
pub use sessions::{Session, SessionState};
pub use turn::{Turn, TurnReader, stored_calls};
pub use turn_log::{CallStanding, Stamped, Standing, Taken};
pub use verbs::{Attached, CancelAnswer, Looked};

/// What the engine is told at start.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The bounds.
    pub limits: Limits,
    /// How long calls wait for what.
    pub turn: TurnSettings,
    /// An empty call id is minted instead of refused.
    pub mint_call_ids: bool,
    /// How long a cancellation is remembered for a turn that was not seen yet, in milliseconds.
    pub early_cancel_ms: u64,
    /// Silence of a turn after which readers get a heartbeat, in milliseconds.
    pub heartbeat_ms: u64,
    /// How long a tool list can be named after its last use, in milliseconds.
    pub snapshot_keep_ms: u64,
    /// How long a repeated turn id finds its turn, in milliseconds.
    pub attach_ms: u64,
    /// How long ended turns are kept, in milliseconds.
    pub turns_keep_ms: u64,
    /// How long audit records are kept, in milliseconds.
    pub audit_keep_ms: u64,
    /// Public keys whose signatures under the audit hold; the first is that of the present signer.
    pub audit_keys: Vec<[u8; 32]>,
    /// Grace of a cancellation that names none, in milliseconds.
    pub cancel_grace_ms: u32,
    /// What happens while calls wait, where neither turn nor session says so.
    pub batch_policy: BatchPolicy,
    /// Whether somebody can be asked, where the session does not say so.
    pub approvers: Approvers,
    /// How long an approval waits, where the session does not say so, in milliseconds. Zero: for ever.
    pub approval_ttl_ms: u64,
    /// The model that is asked whether a run is in a loop. None: none.
    pub diagnosis: Option<DiagnosisEndpoint>,
}

/// Why a request is refused as a whole.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum EngineError {
    /// The turn is not taken.
    #[error(transparent)]
    Admission(#[from] AdmissionError),
    /// The sidecar leaves.
    #[error("the sidecar is shutting down")]
    Draining,
    /// As much runs as may.
    #[error("as many turns run as may")]
    Overloaded,
    /// The turn id was used with other contents.
    #[error("turn `{turn}` was used with other contents")]
    Conflict {
        /// The turn.
        turn: String,
    },
    /// The run has ended.
    #[error("run `{run}` has ended")]
    RunNotActive {
        /// The run.
        run: String,
    },
    /// A turn of the run still runs.
    #[error("a turn of run `{run}` still runs")]
    RunBusy {
        /// The run.
        run: String,
    },
    /// No such thing.
    #[error("no {kind} `{id}`")]
    NotFound {
        /// What kind of thing.
        kind: &'static str,
        /// As asked.
        id: String,
    },
    /// Several turns have that id.
    #[error("several sessions have a turn `{turn}`; name the session")]
    Ambiguous {
        /// The turn.
        turn: String,
    },
    /// The tool list is no longer kept.
    #[error("the tool snapshot is no longer kept; list the tools again")]
    SnapshotExpired,
    /// The session is closed.
    #[error("session `{session}` is closed")]
    SessionClosed {
        /// The session.
        session: String,
    },
    /// The id is taken.
    #[error("`{id}` is taken")]
    AlreadyExists {
        /// As asked.
        id: String,
    },
    /// Above what the session may have.
    #[error("mode `{}` is above what this session may have", .mode.as_str())]
    ModeNotAllowed {
        /// The mode.
        mode: Mode,
    },
    /// It changed since it was looked at.
    #[error("the session changed since it was looked at")]
    VersionMismatch,
    /// A line of sessions is as long as it may be.
    #[error(
        "a line of sessions has at most {} children below its root",
        crate::gate::session::DEPTH_MAX
    )]
    TooDeep,
    /// The store cannot do it now.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
}

/// Owns turns and everything that they need.
pub struct Engine {
    pub(crate) directory: Arc<Directory>,
    pub(crate) pool: Arc<Pool>,
    store: SharedStore,
    clock: Clock,
    mint: Arc<Mint>,
    tasks: Tasks,
    settings: Settings,
    json_limits: JsonLimits,
    turns: Turns,
    runs: Runs,
    sessions: Sessions,
    approvals: Approvals,
    events: Arc<Events>,
    snapshots: Snapshots,
    permissions: ArcSwap<Permissions>,
    rules: RuleBook,
    refusals: Refusals,
    analyser: Arc<Analyser>,
    hooks: Arc<dyn HookDesk>,
    draining: AtomicBool,
    /// The store may hold turns that this process has not seen, so unknown ids are asked for there.
    history: AtomicBool,
}

/// What an engine is made of.
pub struct Parts {
    /// The registry.
    pub directory: Arc<Directory>,
    /// The executors.
    pub pool: Arc<Pool>,
    /// The store.
    pub store: SharedStore,
    /// The time.
    pub clock: Clock,
    /// Mints ids.
    pub mint: Arc<Mint>,
    /// Owns every turn's task.
    pub tasks: Tasks,
    /// The numbers.
    pub settings: Settings,
    /// The rules and the mode to begin with.
    pub permissions: Permissions,
    /// Where the rules come from.
    pub rules: RuleBook,
    /// The hooks.
    pub hooks: Arc<dyn HookDesk>,
}

impl Engine {
    /// An engine without turns. [`recover`](Self::recover) takes up what the store has.
    pub fn new(parts: Parts) -> Arc<Self> {
        let limits = &parts.settings.limits;
        let bytes = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Arc::new(Self {
            json_limits: JsonLimits {
                bytes_max: bytes(limits.args_bytes_max),
                depth_max: u16::try_from(limits.json_depth_max).unwrap_or(u16::MAX),
                nodes_max: bytes(limits.json_nodes_max),
            },
            turns: Turns::new(limits, parts.settings.attach_ms),
            runs: Runs::new(limits.sessions_max),
            sessions: Sessions::new(limits.sessions_max),
            approvals: Approvals::new(limits),
            events: Arc::new(Events::new(parts.clock)),
            snapshots: Snapshots::new(limits.tool_snapshots_max, parts.settings.snapshot_keep_ms),
            directory: parts.directory,
            pool: parts.pool,
            store: parts.store,
            clock: parts.clock,
            mint: parts.mint,
            tasks: parts.tasks,
            settings: parts.settings,
            permissions: ArcSwap::from_pointee(parts.permissions),
            rules: parts.rules,
            hooks: parts.hooks,
            refusals: Refusals::default(),
            analyser: Arc::new(Analyser::new(CommandSubject::read, analyser::BUDGET)),
            draining: AtomicBool::new(false),
            history: AtomicBool::new(false),
        })
    }

    /// The bounds that hold here.
    pub fn limits(&self) -> &Limits {
        &self.settings.limits
    }

    /// How many turns run.
    pub fn running(&self) -> usize {
        self.turns.running()
    }

    /// Refuses new turns from now on; what runs goes on.
    pub fn start_drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether new turns are refused.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Whether the store can write.
    pub fn store_availability(&self) -> tokio::sync::watch::Receiver<bool> {
        self.store.availability()
    }

    /// Turns that have not ended.
    pub fn unfinished_turns(&self) -> Vec<Arc<Turn>> {
        self.turns.running_turns(None)
    }

    /// The moment that decisions of now are made at.
    pub fn now(&self) -> UnixMillis {
        UnixMillis(self.clock.now_ms())
    }

    /// A turn's task has ended.
    fn turn_ended(&self, turn: &Arc<Turn>) {
        let standing = turn.log.standing();
        let bytes: usize = turn
            .spec
            .request
            .calls
            .iter()
            .map(|requested| requested.call.arguments.len() + 256)
            .sum();
        let results: usize = standing
            .calls
            .iter()
            .filter_map(|call| call.result.as_ref())
            .map(|result| {
                let contents: usize = result.contents.iter().map(|part| part.size_bytes()).sum();
                contents + result.structured.len() + result.metadata.len() + 256
            })
            .sum();
        if let Some(completed) = &standing.completed {
            self.runs.end_turn(&completed.run);
        }
        if !standing.approvals.is_empty() {
            self.approvals.forget(turn);
        }
        self.turns.end(turn, (bytes + results + 1_024) as u64);
    }

    /// Something is kept of some session, so that unknown ones are asked for in the store.
    pub fn know_sessions(&self) {
        self.sessions.note_kept();
    }

    /// How many turns run and wait only for people.
    pub fn suspended(&self) -> usize {
        let turns = self.turns.running_turns(None);
        turns.iter().filter(|turn| turn.log.is_suspended()).count()
    }

    /// What holds in sessions for which nothing was set.
    pub fn session_defaults(&self) -> &Settings {
        &self.settings
    }

    /// Whether somebody can be asked in a session.
    fn approver_of(&self, session: &SessionState) -> Approver {
        let set = session.record.settings.approvers;
        match set.unwrap_or(self.settings.approvers) {
            Approvers::Expected => Approver::Expected,
            Approvers::Connected if self.is_anybody_there() => Approver::Expected,
            Approvers::Connected | Approvers::None => Approver::None,
        }
    }

    /// Whether an approver watches, or a hook may answer approvals.
    fn is_anybody_there(&self) -> bool {
        self.approvals.is_watched() || self.hooks.list().has(Point::ApprovalRequested)
    }

    fn approval_ttl_of(&self, session: &SessionState) -> u64 {
        let set = session.record.settings.approval_ttl_ms;
        set.unwrap_or(self.settings.approval_ttl_ms)
    }

    /// A call runs because of these grants.
    fn count_grants(&self, session: &Arc<Session>, grants: &[GrantId]) {
        if grants.is_empty() {
            return;
        }
        session.count_use(grants);
        let state = session.state();
        let used = grants
            .iter()
            .filter_map(|id| state.grants.get(*id).cloned());
        let record = Record::GrantsPut {
            session: session.id().clone(),
            grants: used.collect(),
        };
        // A count that is lost with the process gives nobody more than was granted.
        if let Err(error) = self.store.append(&[record]) {
            tracing::warn!(%error, "the use of a grant is not written down");
        }
    }

    /// A turn has ended its run. Another turn of it learns that, and does not go on if it is cancelled.
    fn run_ended(&self, run: &RunSummary, by: &Arc<Turn>) {
        if run.state == RunState::Active {
            return;
        }
        self.runs.set(run);
        for turn in self.turns.running_turns(Some((&run.session, &run.run))) {
            if Arc::ptr_eq(&turn, by) {
                continue;
            }
            let input = match run.state {
                RunState::Cancelled => Input::CancelRequested(Cancel {
                    scope: CancelScope::Run,
                    reason: run.end_reason.clone(),
                    grace_ms: self.settings.cancel_grace_ms,
                }),
                RunState::Active
                | RunState::Completed
                | RunState::Aborted
                | RunState::Error
                | RunState::LoopDetected => Input::RunEnded(run.clone()),
            };
            turn.inbox.push(input, None);
            if run.state == RunState::Aborted {
                // Nothing of an aborted run goes on; it stays aborted all the same.
                let cancel = Cancel {
                    scope: CancelScope::Run,
                    reason: run.end_reason.clone(),
                    grace_ms: self.settings.cancel_grace_ms,
                };
                turn.inbox.push(Input::CancelRequested(cancel), None);
            }
        }
    }
}
