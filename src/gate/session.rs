//! What is kept about one conversation besides its runs: settings, lineage, grants.
//!
//! A session comes into being with its first turn; one of which nothing was set is not kept. Never
//! decides: settings come into decisions through the view.

use super::approval::BatchPolicy;
use super::ids::{SessionId, UnixMillis};
use super::permission::{Grants, Mode};

/// Longest line of sessions, the root counted as 0.
pub const DEPTH_MAX: u32 = 8;
/// Longest working directory, in bytes.
pub const CWD_BYTES_MAX: usize = 4 << 10;
/// Most grants of one session that count.
pub const GRANTS_MAX: usize = 1_000;

/// Whether somebody can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Approvers {
    /// Now or later: an ask waits, for days if need be.
    #[default]
    Expected,
    /// Only while an approver watches.
    Connected,
    /// Nobody.
    None,
}

/// What was set about a session. None: the configured default holds.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SessionSettings {
    /// How much runs unasked.
    pub mode: Option<Mode>,
    /// For turns that name none.
    pub batch_policy: Option<BatchPolicy>,
    /// Most calls of a turn that execute at once.
    pub max_parallel: Option<u32>,
    /// For turns that name none.
    pub toolset: Option<String>,
    /// Working directory of its tools.
    pub cwd: Option<String>,
    /// Whether somebody can be asked.
    pub approvers: Option<Approvers>,
    /// How long an approval waits, in milliseconds. Zero: for ever.
    pub approval_ttl_ms: Option<u64>,
}

impl SessionSettings {
    /// Takes over what `other` sets.
    pub fn take(&mut self, other: SessionSettings) {
        fn set<T>(one: &mut Option<T>, other: Option<T>) {
            if other.is_some() {
                *one = other;
            }
        }
        set(&mut self.mode, other.mode);
        set(&mut self.batch_policy, other.batch_policy);
        set(&mut self.max_parallel, other.max_parallel);
        set(&mut self.toolset, other.toolset);
        set(&mut self.cwd, other.cwd);
        set(&mut self.approvers, other.approvers);
        set(&mut self.approval_ttl_ms, other.approval_ttl_ms);
    }
}

/// One session as it is written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionRecord {
    /// Its id.
    pub id: SessionId,
    /// The session that it was forked from.
    pub parent: Option<SessionId>,
    /// The first of its line.
    pub root: SessionId,
    /// Steps from the root.
    pub depth: u32,
    /// What was set.
    pub settings: SessionSettings,
    /// It has its parent's grants too.
    pub inherits_grants: bool,
    /// When it came into being.
    pub created_at: UnixMillis,
    /// When it last changed.
    pub updated_at: UnixMillis,
    /// When it was closed. None: it is open.
    pub closed_at: Option<UnixMillis>,
    /// Counts its changes, from 1.
    pub version: u32,
}

impl SessionRecord {
    /// A session of its own of which nothing was set.
    pub fn new(id: SessionId, now: UnixMillis) -> Self {
        Self {
            parent: None,
            root: id.clone(),
            id,
            depth: 0,
            settings: SessionSettings::default(),
            inherits_grants: false,
            created_at: now,
            updated_at: now,
            closed_at: None,
            version: 1,
        }
    }
}

/// Everything that is kept about one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSession {
    /// The session.
    pub record: SessionRecord,
    /// What approvers gave it.
    pub grants: Grants,
    /// When something was last written.
    pub touched_at: UnixMillis,
}
