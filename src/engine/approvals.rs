//! What waits for approvers, over all turns, and what changed about it.
//!
//! Pending approvals and those of turns that run are here; the store has the rest. Turns tell of each
//! change once it is durable. Never decides.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::turn::Turn;
use crate::gate::approval::{Approval, ApprovalState};
use crate::gate::ids::{ApprovalId, BatchId, CallIndex, SessionId, UnixMillis};
use crate::gate::limits::Limits;
use crate::gate::record::{StoredTurn, TurnSpec};
use crate::gate::result::CallOutcome;

/// Changes that are kept for watchers that come back, and their arguments in bytes.
const CHANGES_MAX: usize = 10_000;
const CHANGES_BYTES_MAX: usize = 16 << 20;

/// One approval with what is around it.
#[derive(Debug, Clone)]
pub struct ShownApproval {
    /// Its id.
    pub id: ApprovalId,
    /// Its turn.
    pub spec: Arc<TurnSpec>,
    /// The root of its session.
    pub root: SessionId,
    /// The approval.
    pub approval: Arc<Approval>,
    /// How many of its batch wait.
    pub pending_in_batch: u32,
    /// How the call ended. None: it has not.
    pub outcome: Option<CallOutcome>,
}

struct Entry {
    id: ApprovalId,
    spec: Arc<TurnSpec>,
    root: SessionId,
    /// A change that is kept must not keep its turn.
    turn: Weak<Turn>,
    approval: Arc<Approval>,
}

/// Which approvals are wanted.
#[derive(Clone, Copy)]
pub enum Wanted<'a> {
    /// All of them, counted already.
    All,
    /// Those for which this holds, with the root of their session.
    Those(&'a dyn Fn(&TurnSpec, &Approval, &SessionId) -> bool),
}

impl Wanted<'_> {
    fn takes(self, entry: &Entry) -> bool {
        match self {
            Self::All => true,
            Self::Those(takes) => takes(&entry.spec, &entry.approval, &entry.root),
        }
    }
}

/// Where a page goes on: after the moment and the id of the last one shown.
pub type Place = (UnixMillis, ApprovalId);

#[derive(Default)]
struct Inner {
    by_id: BTreeMap<ApprovalId, Arc<Entry>>,
    /// Those that wait, oldest first.
    pending: BTreeMap<Place, Arc<Entry>>,
    per_session: BTreeMap<SessionId, usize>,
    per_batch: BTreeMap<BatchId, u32>,
    changes: VecDeque<Arc<Entry>>,
    changes_bytes: usize,
    /// Number of the last change.
    last_change: u64,
}

/// Everything that waits for approvers.
pub(super) struct Approvals {
    inner: Mutex<Inner>,
    changed: watch::Sender<u64>,
    per_session_max: usize,
    max: usize,
    /// How many approvals wait.
    pending: AtomicUsize,
    /// Approvers that watch now.
    watchers: AtomicUsize,
}

/// What a watcher takes at once.
#[derive(Debug)]
pub enum Changes {
    /// As they are now, with the number of the last change that is in them.
    New(Vec<ShownApproval>, u64),
    /// Changes were missed that are no longer kept.
    Missed,
}

impl Approvals {
    pub(super) fn new(limits: &Limits) -> Self {
        let bound = |number| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            inner: Mutex::default(),
            changed: watch::channel(0).0,
            per_session_max: bound(limits.session_approvals_max),
            max: bound(limits.approvals_max),
            pending: AtomicUsize::new(0),
            watchers: AtomicUsize::new(0),
        }
    }

    /// How many more calls of that session may begin to wait.
    pub(super) fn room(&self, session: &SessionId) -> usize {
        // Asked at every step of every turn, and nearly always nothing waits.
        if self.pending.load(Ordering::Relaxed) == 0 {
            return self.per_session_max.min(self.max);
        }
        let inner = self.inner.lock();
        let of_session = inner.per_session.get(session).copied().unwrap_or_default();
        let left = self.per_session_max.saturating_sub(of_session);
        left.min(self.max.saturating_sub(inner.pending.len()))
    }

    /// Takes approvals in as they are now.
    pub(super) fn show(&self, turn: &Arc<Turn>, approvals: Vec<Arc<Approval>>) {
        let mut inner = self.inner.lock();
        for approval in approvals {
            inner.put(Arc::new(Entry {
                id: turn.spec.approval_id(approval.call),
                spec: turn.spec.clone(),
                root: turn.session.root(),
                turn: Arc::downgrade(turn),
                approval,
            }));
        }
        let last = inner.last_change;
        self.pending.store(inner.pending.len(), Ordering::Relaxed);
        drop(inner);
        self.changed.send_replace(last);
    }

    /// A turn has ended: what is left of its approvals is in the store.
    pub(super) fn forget(&self, turn: &Turn) {
        let mut inner = self.inner.lock();
        for position in 0..turn.spec.request.calls.len() {
            let index = CallIndex(u16::try_from(position).unwrap_or(u16::MAX));
            let id = turn.spec.approval_id(index);
            if let Some(entry) = inner.by_id.remove(&id) {
                inner.remove_pending(&entry);
            }
        }
        self.pending.store(inner.pending.len(), Ordering::Relaxed);
    }

    /// The turn that the approval belongs to, if it runs.
    pub(super) fn turn_of(&self, id: &ApprovalId) -> Option<Arc<Turn>> {
        let inner = self.inner.lock();
        inner.by_id.get(id).and_then(|entry| entry.turn.upgrade())
    }

    /// The approval, if its turn runs.
    pub(super) fn get(&self, id: &ApprovalId) -> Option<ShownApproval> {
        let inner = self.inner.lock();
        inner.by_id.get(id).map(|entry| inner.shown(entry))
    }

    /// Those that wait after a place, oldest first, and where the next page begins.
    pub(super) fn page(
        &self,
        after: Option<&Place>,
        limit: usize,
        wanted: Wanted<'_>,
    ) -> (Vec<ShownApproval>, Option<Place>) {
        let inner = self.inner.lock();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = inner.pending.range((from, Bound::Unbounded));
        let mut rest = rest.map(|(_, entry)| entry);
        let mut rest = rest.by_ref().filter(|entry| wanted.takes(entry));
        let page: Vec<_> = rest.by_ref().take(limit).collect();
        let goes_on = rest.next().is_some();
        let next = page.last().filter(|_| goes_on).map(|last| last.place());
        let shown = page.into_iter().map(|entry| inner.shown(entry));
        (shown.collect(), next)
    }

    /// How many wait.
    pub(super) fn count(&self, wanted: Wanted<'_>) -> u32 {
        let inner = self.inner.lock();
        let count = match wanted {
            Wanted::All => inner.pending.len(),
            Wanted::Those(_) => {
                let entries = inner.pending.values();
                entries.filter(|entry| wanted.takes(entry)).count()
            }
        };
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// How many wait in sessions of that line.
    pub(super) fn pending_of_line(&self, root: &SessionId) -> u32 {
        self.count(Wanted::Those(&|_, _, own| own == root))
    }

    /// How many approvals of that line were approved and how many denied after that change.
    pub(super) fn decided_since(&self, number: u64, root: &SessionId) -> (u32, u32) {
        let Changes::New(changed, _) = self.changes_after(number) else {
            return (0, 0);
        };
        let count = |state: ApprovalState| {
            let of_line = changed.iter().filter(|shown| shown.root == *root);
            let count = of_line
                .filter(|shown| shown.approval.state == state)
                .count();
            u32::try_from(count).unwrap_or(u32::MAX)
        };
        (count(ApprovalState::Approved), count(ApprovalState::Denied))
    }

    /// The number of the last change.
    pub(super) fn last_change(&self) -> u64 {
        self.inner.lock().last_change
    }

    /// Wakes whenever something changed.
    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// What changed after that number, each approval once.
    pub(super) fn changes_after(&self, number: u64) -> Changes {
        let inner = self.inner.lock();
        let missed = inner.last_change.saturating_sub(number);
        let missed = usize::try_from(missed).unwrap_or(usize::MAX);
        if missed > inner.changes.len() || number > inner.last_change {
            return Changes::Missed;
        }
        let new = inner.changes.iter().skip(inner.changes.len() - missed);
        let mut latest: BTreeMap<&ApprovalId, &Arc<Entry>> = BTreeMap::new();
        let mut order: Vec<&ApprovalId> = Vec::new();
        for entry in new {
            if latest.insert(&entry.id, entry).is_none() {
                order.push(&entry.id);
            }
        }
        let shown = order.into_iter().filter_map(|id| latest.get(id));
        Changes::New(
            shown.map(|entry| inner.shown(entry)).collect(),
            inner.last_change,
        )
    }

    /// Whether an approver watches.
    pub(super) fn is_watched(&self) -> bool {
        self.watchers.load(Ordering::Relaxed) > 0
    }

    pub(super) fn approver_came(&self) {
        self.watchers.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn approver_went(&self) {
        self.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Entry {
    /// What it keeps in memory.
    fn bytes(&self) -> usize {
        let calls = self.spec.request.calls.iter();
        let arguments: usize = calls.map(|asked| asked.call.arguments.len()).sum();
        arguments + self.approval.arguments.len()
    }

    fn place(&self) -> Place {
        (self.approval.created_at, self.id.clone())
    }
}

impl Inner {
    fn put(&mut self, entry: Arc<Entry>) {
        if let Some(before) = self.by_id.insert(entry.id.clone(), entry.clone()) {
            self.remove_pending(&before);
        }
        if entry.approval.is_pending() {
            self.pending.insert(entry.place(), entry.clone());
            let session = entry.spec.session().clone();
            *self.per_session.entry(session).or_default() += 1;
            *self.per_batch.entry(entry.spec.batch.clone()).or_default() += 1;
        }
        self.changes_bytes += entry.bytes();
        self.changes.push_back(entry);
        while self.changes.len() > CHANGES_MAX || self.changes_bytes > CHANGES_BYTES_MAX {
            let Some(oldest) = self.changes.pop_front() else {
                break;
            };
            self.changes_bytes -= oldest.bytes();
        }
        self.last_change += 1;
    }

    fn remove_pending(&mut self, entry: &Entry) {
        if self.pending.remove(&entry.place()).is_none() {
            return;
        }
        let (session, batch) = (entry.spec.session(), &entry.spec.batch);
        if let Some(count) = self.per_session.get_mut(session) {
            *count -= 1;
            if *count == 0 {
                self.per_session.remove(session);
            }
        }
        if let Some(count) = self.per_batch.get_mut(batch) {
            *count -= 1;
            if *count == 0 {
                self.per_batch.remove(batch);
            }
        }
    }

    fn shown(&self, entry: &Entry) -> ShownApproval {
        let pending = self.per_batch.get(&entry.spec.batch);
        ShownApproval {
            id: entry.id.clone(),
            spec: entry.spec.clone(),
            root: entry.root.clone(),
            approval: entry.approval.clone(),
            pending_in_batch: pending.copied().unwrap_or_default(),
            outcome: entry
                .turn
                .upgrade()
                .and_then(|turn| turn.log.outcome_of(entry.approval.call)),
        }
    }
}

/// An approval as the store has it.
pub(super) fn stored_approval(
    stored: &StoredTurn,
    call: CallIndex,
    root: SessionId,
) -> Option<ShownApproval> {
    let mut approvals = stored.approvals.iter();
    let approval = approvals.find(|approval| approval.call == call)?.clone();
    let pending = stored
        .approvals
        .iter()
        .filter(|one| one.is_pending())
        .count();
    let ended = stored.completed.as_ref();
    let results = ended.and_then(|completed| completed.results.get(call.get()));
    let partial = stored.results.iter().find(|(index, _)| *index == call);
    let outcome = results.or(partial.map(|(_, result)| result));
    Some(ShownApproval {
        id: stored.spec.approval_id(call),
        spec: Arc::new(stored.spec.clone()),
        root,
        approval,
        pending_in_batch: u32::try_from(pending).unwrap_or(u32::MAX),
        outcome: outcome.map(|result| result.outcome),
    })
}
