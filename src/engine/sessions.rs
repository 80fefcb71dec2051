//! Sessions in memory: settings, lineage and grants as they hold now.
//!
//! One that is not here is read from the store; one of which nothing is kept has the defaults. What
//! must be durable is written before it is put here. Never lets a session go that a turn or a child
//! uses.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use parking_lot::Mutex;

use crate::gate::ids::{SessionId, UnixMillis};
use crate::gate::permission::{Grant, GrantId, Grants, Mode, ModeBounds};
use crate::gate::session::{SessionRecord, StoredSession};

/// Marks the name of a grant that a session has from its parent.
const INHERITED: u64 = 1 << 63;

/// One session as it is now.
#[derive(Debug, Clone)]
pub struct SessionState {
    /// What is kept of it.
    pub record: SessionRecord,
    /// What approvers gave it.
    pub grants: Grants,
}

/// One session.
#[derive(Debug)]
pub struct Session {
    id: SessionId,
    parent: Option<Arc<Session>>,
    state: ArcSwap<SessionState>,
    /// Held while a change is written down.
    pub(super) changing: tokio::sync::Mutex<()>,
    last_grant: AtomicU64,
    /// When it last had a turn, a decision or a change, in Unix milliseconds.
    used_at: AtomicU64,
}

impl Session {
    pub(super) fn new(parent: Option<Arc<Session>>, stored: StoredSession) -> Self {
        Self {
            id: stored.record.id.clone(),
            parent,
            last_grant: AtomicU64::new(stored.grants.last_id().0),
            used_at: AtomicU64::new(stored.touched_at.0),
            state: ArcSwap::from_pointee(SessionState {
                record: stored.record,
                grants: stored.grants,
            }),
            changing: tokio::sync::Mutex::new(()),
        }
    }

    /// Its id.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// The session that it was forked from.
    pub fn parent(&self) -> Option<&Arc<Session>> {
        self.parent.as_ref()
    }

    /// As it is now.
    pub fn state(&self) -> Arc<SessionState> {
        self.state.load_full()
    }

    /// The first of its line.
    pub fn root(&self) -> SessionId {
        self.state.load().record.root.clone()
    }

    /// When it was last used.
    pub fn used_at(&self) -> UnixMillis {
        UnixMillis(self.used_at.load(Ordering::Relaxed))
    }

    pub(super) fn use_now(&self, now: UnixMillis) {
        self.used_at.fetch_max(now.0, Ordering::Relaxed);
    }

    /// What bounds its mode. `default`: of sessions for which none was set; `max`: of the rules.
    pub fn bounds(&self, default: Mode, max: Option<Mode>, now: UnixMillis) -> ModeBounds {
        let parent = self.parent.as_ref();
        let parent = parent.map(|parent| parent.effective(default, max, now));
        let own = self.state.load().record.settings.mode;
        ModeBounds {
            session: own.or(parent).unwrap_or(default),
            parent,
            max,
        }
    }

    /// The mode that holds.
    pub fn effective(&self, default: Mode, max: Option<Mode>, now: UnixMillis) -> Mode {
        let edits_granted = self.state.load().grants.edits_granted(now);
        self.bounds(default, max, now).effective(edits_granted)
    }

    /// Its own grants and, where it has them, those of its parents. None: only its own.
    pub(super) fn inherited(&self, state: &SessionState) -> Option<Grants> {
        let parent = self
            .parent
            .as_ref()
            .filter(|_| state.record.inherits_grants)?;
        let parent_state = parent.state();
        let theirs = parent.inherited(&parent_state);
        let theirs = theirs.unwrap_or_else(|| parent_state.grants.clone());
        let theirs = theirs.iter().map(|grant| Grant {
            // Names are each session's own: these must not be taken for one of its own.
            id: GrantId(grant.id.0 | INHERITED),
            ..grant.clone()
        });
        let own = state.grants.iter().cloned();
        Some(Grants::restore(own.chain(theirs).collect()))
    }

    /// Names for that many grants; the first is returned.
    pub(super) fn reserve_grants(&self, count: usize) -> GrantId {
        let before = self.last_grant.fetch_add(count as u64, Ordering::Relaxed);
        GrantId(before + 1)
    }

    /// Puts a change in place that is written down.
    pub(super) fn put(&self, record: SessionRecord) {
        self.change(|state| state.record = record.clone());
    }

    /// Puts grants in place that are written down.
    pub(super) fn put_grants(&self, grants: &[Grant]) {
        self.change(|state| {
            for grant in grants {
                state.grants.take(grant.clone());
            }
        });
    }

    /// Counts one call against these grants. What is not this session's own is not counted.
    pub(super) fn count_use(&self, ids: &[GrantId]) {
        self.change(|state| state.grants.record_use(ids));
    }

    fn change(&self, change: impl Fn(&mut SessionState)) {
        self.state.rcu(|state| {
            let mut state = (**state).clone();
            change(&mut state);
            state
        });
    }
}

/// The sessions in memory.
pub(super) struct Sessions {
    by_id: Mutex<BTreeMap<SessionId, Arc<Session>>>,
    max: usize,
    /// The store keeps something of some session.
    any_kept: AtomicBool,
}

impl Sessions {
    pub(super) fn new(max: u64) -> Self {
        Self {
            by_id: Mutex::default(),
            max: usize::try_from(max).unwrap_or(usize::MAX),
            any_kept: AtomicBool::new(false),
        }
    }

    /// The store keeps something of a session from now on.
    pub(super) fn note_kept(&self) {
        self.any_kept.store(true, Ordering::Relaxed);
    }

    pub(super) fn may_be_kept(&self) -> bool {
        self.any_kept.load(Ordering::Relaxed)
    }

    pub(super) fn get(&self, id: &SessionId) -> Option<Arc<Session>> {
        self.by_id.lock().get(id).cloned()
    }

    /// Puts a session in, unless somebody was faster: then that one is returned.
    pub(super) fn insert(&self, session: Session) -> Arc<Session> {
        let mut sessions = self.by_id.lock();
        if sessions.len() >= self.max && !sessions.contains_key(session.id()) {
            // What nobody uses is in the store, or has only defaults.
            sessions.retain(|_, session| Arc::strong_count(session) > 1);
        }
        let id = session.id().clone();
        sessions
            .entry(id)
            .or_insert_with(|| Arc::new(session))
            .clone()
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Arc<Session>> {
        self.by_id.lock().values().cloned().collect()
    }
}
