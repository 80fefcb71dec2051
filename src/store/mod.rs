//! Remembers: turns, runs, sessions, tools, toolsets. Records go in, folded state comes out.
//!
//! One writer; what it takes together it commits together. Never decides what must be durable before
//! it has effect: the caller picks `append` or `commit`.

pub mod audit;
pub mod audit_check;
mod disk;
mod fold;
mod frame;
mod memory;
pub mod signer;
mod sqlite;

pub use memory::MemoryStore;
pub use sqlite::{Figures, SqliteAudit, SqliteOptions, SqliteStore};

use std::sync::Arc;

use tokio::sync::{oneshot, watch};

use self::audit::{AuditAsk, AuditSlice};
use crate::gate::audit::Checkpoint;
use crate::gate::event::RunSummary;
use crate::gate::hooks::RestoredHook;
use crate::gate::ids::{BatchId, RunId, SessionId, TurnId, TurnKey, UnixMillis};
use crate::gate::record::{Record, StoredTurn};
use crate::gate::session::StoredSession;
use crate::gate::tool::ToolDefinition;
use crate::gate::toolset::Toolset;

/// Why the store did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// It cannot write or read now: disk full, read-only, failing.
    #[error("the store is unavailable: {problem}")]
    Unavailable {
        /// What the disk says.
        problem: String,
    },
    /// What stands there is of a newer version than this program.
    #[error("the store has version {found}, this program knows {known}")]
    VersionUnsupported {
        /// On the disk.
        found: u32,
        /// The newest that is known here.
        known: u32,
    },
    /// Another process has it.
    #[error("the store is in use by another process")]
    Locked,
    /// What stands there cannot be read.
    #[error("the store is corrupt: {problem}")]
    Corrupt {
        /// What is wrong.
        problem: String,
    },
}

/// An answer that comes when the disk is done. Dropping it takes nothing back.
pub type Answer<T> = oneshot::Receiver<Result<T, StoreError>>;

/// What is there at start.
#[derive(Debug, Default)]
pub struct Restored {
    /// Turns that had not ended, oldest first.
    pub open_turns: Vec<StoredTurn>,
    /// Tools with their owner, generation, and when that generation came.
    pub tools: Vec<RestoredTool>,
    /// Toolsets, bases before those that narrow them.
    pub toolsets: Vec<Toolset>,
    /// Hooks of processes, in the order in which they were first registered.
    pub hooks: Vec<RestoredHook>,
    /// Something is kept of some session.
    pub has_sessions: bool,
}

/// A tool as it was last registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredTool {
    /// The definition.
    pub definition: ToolDefinition,
    /// Who owns it.
    pub owner: String,
    /// Counts the definitions seen under this name.
    pub generation: u32,
    /// When this generation came.
    pub registered_at: UnixMillis,
}

/// Which turns to list. Newest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TurnFilter {
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only of this run.
    pub run: Option<RunId>,
    /// Only ended, or only not ended.
    pub ended: Option<bool>,
    /// Only before this position, from the page before.
    pub before: Option<u64>,
    /// How many at most.
    pub limit: usize,
}

/// One page of turns.
#[derive(Debug, Default)]
pub struct TurnPage {
    /// Newest first.
    pub turns: Vec<StoredTurn>,
    /// Where the next page begins. None: this is the last one.
    pub next: Option<u64>,
}

/// Remembers. May be called from any task; no call waits for the disk.
pub trait Store: Send + Sync {
    /// Writes records some time soon, in order with everything else that is written.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: too much waits already; use [`commit`](Self::commit), which waits.
    fn append(&self, records: &[Record]) -> Result<(), StoreError>;

    /// Writes records, and everything appended before them; answers once they are durable.
    fn commit(&self, records: &[Record]) -> Answer<()>;

    /// Whether the last write went well; changes wake the receiver.
    fn availability(&self) -> watch::Receiver<bool>;

    /// Reads one turn.
    fn read_turn(&self, key: TurnKey) -> Answer<Option<StoredTurn>>;

    /// The keys of all turns with that id, newest first, at most 8.
    fn find_turn(&self, turn: TurnId) -> Answer<Vec<TurnKey>>;

    /// Reads one page of turns.
    fn list_turns(&self, filter: TurnFilter) -> Answer<TurnPage>;

    /// Reads one run. None: it has had no turn.
    fn read_run(&self, session: SessionId, run: RunId) -> Answer<Option<RunSummary>>;

    /// Reads the turn whose key has that mark and whose batch it is, running or ended.
    fn read_marked(&self, mark: u64, batch: BatchId) -> Answer<Option<StoredTurn>>;

    /// Reads what is kept of one session. None: nothing was set and nothing granted.
    fn read_session(&self, session: SessionId) -> Answer<Option<StoredSession>>;

    /// Every session that is kept or had a turn, with when it was last used, in no order.
    fn list_sessions(&self) -> Answer<Vec<(SessionId, UnixMillis)>>;

    /// Forgets turns that ended before that moment, and runs without turns. Answers how many turns.
    fn forget_turns(&self, ended_before: UnixMillis) -> Answer<u64>;

    /// The sequence of the last audit record that is durable; changes wake the receiver.
    fn audit_head(&self) -> watch::Receiver<u64>;

    /// Reads some audit records among those that are durable. One answer looks at a bounded number.
    fn read_audit(&self, ask: AuditAsk) -> Answer<AuditSlice>;

    /// Reads signed heads up to that sequence, newest first.
    fn read_checkpoints(&self, up_to: u64, limit: usize) -> Answer<Vec<Checkpoint>>;

    /// Signs the audit's head, unless it is. Answers the last signed head; None: nothing was signed.
    fn sign_audit(&self) -> Answer<Option<Checkpoint>>;

    /// Signed heads that could not be kept outside since the store was opened.
    fn checkpoints_not_kept(&self) -> u64;

    /// Forgets whole segments of the audit that were over before that moment. Answers how many.
    fn forget_audit(&self, written_before: UnixMillis) -> Answer<u64>;

    /// Writes what waits and ends. Answers when the file is closed.
    fn close(&self) -> Answer<()>;
}

/// A store that several may hold.
pub type SharedStore = Arc<dyn Store>;
