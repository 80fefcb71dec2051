//! What happens over all turns and sessions, for panels and monitors.
//!
//! Kept only while somebody listens, and a little longer, so that a turn that nobody watches pays
//! nothing. A listener that is too slow misses events; it holds nobody up. Never the only place where
//! something stands.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::approvals::ShownApproval;
use super::sessions::Session;
use super::turn::Turn;
use super::turn_log::Stamped;
use crate::base::clock::Clock;
use crate::gate::event::Event;
use crate::gate::ids::{SessionId, UnixMillis};
use crate::gate::permission::Grant;
use crate::gate::record::TurnSpec;
use crate::gate::result::{CallResult, Content};
use crate::gate::turn::HookRun;

/// Events that are kept, and the contents of results in them in bytes.
const EVENTS_MAX: usize = 8_192;
const EVENTS_BYTES_MAX: usize = 16 << 20;
/// How long events are kept after the last listener went, in milliseconds.
const KEPT_AFTER_MS: u64 = 60_000;

/// One thing that happened.
#[derive(Clone)]
pub enum Happened {
    /// Something in a turn of that epoch.
    Turn(Arc<TurnSpec>, u32, Stamped),
    /// A session was made, changed or closed.
    Session(Arc<Session>),
    /// An approval began to wait, changed or ended.
    Approval(Box<ShownApproval>),
    /// A grant was given or ended.
    Grant(Arc<Session>, Box<Grant>),
    /// A hook ran.
    HookRan(Arc<TurnSpec>, Box<HookRun>),
    /// Rules changed.
    Policy {
        /// The rules after it.
        revision: u64,
    },
}

/// One thing that happened, and when.
#[derive(Clone)]
pub struct EventRecord {
    /// From 1, without gaps.
    pub number: u64,
    /// When.
    pub at: UnixMillis,
    /// Its session and the root of that. None: it has none.
    pub session: Option<(SessionId, SessionId)>,
    /// What.
    pub body: Happened,
}

#[derive(Default)]
struct Ring {
    events: VecDeque<EventRecord>,
    bytes: usize,
    last: u64,
}

impl EventRecord {
    /// What it keeps in memory besides itself.
    fn bytes(&self) -> usize {
        let of = |result: &CallResult| -> usize {
            let contents: usize = result.contents.iter().map(Content::size_bytes).sum();
            contents + result.structured.len() + result.metadata.len()
        };
        match &self.body {
            Happened::Turn(_, _, stamped) => match &stamped.event {
                Event::CallCompleted(_, result) => of(result),
                Event::TurnCompleted(completed) => {
                    completed.results.iter().map(|result| of(result)).sum()
                }
                Event::Accepted(_)
                | Event::CallMoved(_)
                | Event::ApprovalRequired(_)
                | Event::Suspended(_)
                | Event::LoopDetected(_)
                | Event::Progress(..)
                | Event::Output(..)
                | Event::Heartbeat(_) => 0,
            },
            Happened::Approval(shown) => shown.approval.arguments.len(),
            Happened::Session(_)
            | Happened::Grant(..)
            | Happened::HookRan(..)
            | Happened::Policy { .. } => 0,
        }
    }
}

/// What a listener takes at once.
pub enum Heard {
    /// In order; may be empty.
    Events(Vec<EventRecord>),
    /// That many were missed; the listener can go on after the number only from a snapshot.
    Missed(u64),
}

/// What happens over all turns and sessions.
pub(super) struct Events {
    ring: Mutex<Ring>,
    changed: watch::Sender<u64>,
    listeners: AtomicUsize,
    kept_until_ms: AtomicU64,
    clock: Clock,
}

impl Events {
    pub(super) fn new(clock: Clock) -> Self {
        Self {
            ring: Mutex::default(),
            changed: watch::channel(0).0,
            listeners: AtomicUsize::new(0),
            kept_until_ms: AtomicU64::new(0),
            clock,
        }
    }

    /// Whether anybody would ever hear of an event of now.
    pub(super) fn is_kept(&self) -> bool {
        if self.listeners.load(Ordering::Relaxed) > 0 {
            return true;
        }
        let until = self.kept_until_ms.load(Ordering::Relaxed);
        until > 0 && self.clock.now_ms() < until
    }

    fn add(&self, session: Option<(SessionId, SessionId)>, body: Happened) {
        let mut ring = self.ring.lock();
        ring.last += 1;
        let number = ring.last;
        let event = EventRecord {
            number,
            at: UnixMillis(self.clock.now_ms()),
            session,
            body,
        };
        ring.bytes += event.bytes();
        ring.events.push_back(event);
        while ring.events.len() > EVENTS_MAX || ring.bytes > EVENTS_BYTES_MAX {
            let Some(oldest) = ring.events.pop_front() else {
                break;
            };
            ring.bytes -= oldest.bytes();
        }
        drop(ring);
        self.changed.send_replace(number);
    }

    /// Something happened in a turn.
    pub(super) fn turn(&self, turn: &Arc<Turn>, event: Stamped) {
        let session = Some((turn.spec.session().clone(), turn.session.root()));
        let body = Happened::Turn(turn.spec.clone(), turn.epoch, event);
        self.add(session, body);
    }

    /// An approval is shown as it is now.
    pub(super) fn approval(&self, shown: impl FnOnce() -> Option<ShownApproval>) {
        if self.is_kept()
            && let Some(shown) = shown()
        {
            let session = Some((shown.spec.session().clone(), shown.root.clone()));
            self.add(session, Happened::Approval(Box::new(shown)));
        }
    }

    /// A session was made, changed or closed.
    pub(super) fn session_changed(&self, session: &Arc<Session>) {
        if self.is_kept() {
            let of = Some((session.id().clone(), session.root()));
            self.add(of, Happened::Session(session.clone()));
        }
    }

    /// A grant was given or taken back.
    pub(super) fn grant_changed(&self, session: &Arc<Session>, grant: &Grant) {
        if self.is_kept() {
            let of = Some((session.id().clone(), session.root()));
            self.add(
                of,
                Happened::Grant(session.clone(), Box::new(grant.clone())),
            );
        }
    }

    /// A hook ran for a turn.
    pub(super) fn hook_ran(&self, turn: &Arc<Turn>, run: HookRun) {
        if self.is_kept() {
            let session = Some((turn.spec.session().clone(), turn.session.root()));
            let body = Happened::HookRan(turn.spec.clone(), Box::new(run));
            self.add(session, body);
        }
    }

    /// Rules changed.
    pub(super) fn policy_changed(&self, revision: u64) {
        if self.is_kept() {
            self.add(None, Happened::Policy { revision });
        }
    }
}

/// Somebody who listens. Events are kept as long as it lives, and a little longer.
pub struct Listener {
    events: Arc<Events>,
    /// The last event taken.
    after: u64,
    changed: watch::Receiver<u64>,
}

impl Listener {
    fn new(events: Arc<Events>, after: Option<u64>) -> Option<Self> {
        events.listeners.fetch_add(1, Ordering::Relaxed);
        let changed = events.changed.subscribe();
        let ring = events.ring.lock();
        let first = ring
            .events
            .front()
            .map_or(ring.last + 1, |event| event.number);
        let (after, known) = match after {
            None => (ring.last, true),
            Some(after) => (after, after <= ring.last && after + 1 >= first),
        };
        drop(ring);
        let listener = Self {
            events,
            after,
            changed,
        };
        // Dropped, it is not counted any more.
        known.then_some(listener)
    }

    /// The number of the last event taken.
    pub fn position(&self) -> u64 {
        self.after
    }

    /// What happened since the last time.
    pub fn take(&mut self) -> Heard {
        self.changed.borrow_and_update();
        let ring = self.events.ring.lock();
        let first = ring
            .events
            .front()
            .map_or(ring.last + 1, |event| event.number);
        if self.after + 1 < first {
            return Heard::Missed(first - self.after - 1);
        }
        let skip = usize::try_from(self.after + 1 - first).unwrap_or(usize::MAX);
        let new: Vec<EventRecord> = ring.events.iter().skip(skip).cloned().collect();
        self.after = ring.last;
        Heard::Events(new)
    }

    /// Waits until something happened.
    pub async fn changed(&mut self) {
        // The sender lives as long as the events, which this holds.
        let _ = self.changed.changed().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let events = &self.events;
        let until = events.clock.now_ms().saturating_add(KEPT_AFTER_MS);
        events.kept_until_ms.store(until, Ordering::Relaxed);
        events.listeners.fetch_sub(1, Ordering::Relaxed);
    }
}

impl super::Engine {
    /// Listens after that event, or from now on. None: events after it are no longer kept.
    pub fn listen(self: &Arc<Self>, after: Option<u64>) -> Option<Listener> {
        Listener::new(self.events.clone(), after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(listener: &mut Listener) -> Result<Vec<u64>, u64> {
        match listener.take() {
            Heard::Events(events) => Ok(events.iter().map(|event| event.number).collect()),
            Heard::Missed(missed) => Err(missed),
        }
    }

    #[test]
    fn events_are_kept_for_listeners_and_a_little_longer() {
        let events = Arc::new(Events::new(Clock::system()));
        events.policy_changed(1);
        let mut first = Listener::new(events.clone(), None).unwrap();
        events.policy_changed(2);
        assert_eq!(heard(&mut first), Ok(vec![1]));
        let place = first.position();
        drop(first);
        events.policy_changed(3);
        let mut again = Listener::new(events.clone(), Some(place)).unwrap();
        assert_eq!(heard(&mut again), Ok(vec![2]));
        assert_eq!(heard(&mut again), Ok(Vec::new()));
        assert!(Listener::new(events, Some(7)).is_none());
    }

    #[test]
    fn a_listener_that_is_too_slow_learns_how_much_it_missed() {
        let events = Arc::new(Events::new(Clock::system()));
        let mut listener = Listener::new(events.clone(), None).unwrap();
        (0..EVENTS_MAX).for_each(|_| events.policy_changed(1));
        let all = heard(&mut listener).unwrap();
        assert_eq!(all.len(), EVENTS_MAX);
        (0..=EVENTS_MAX).for_each(|_| events.policy_changed(1));
        assert_eq!(heard(&mut listener), Err(1));
        assert!(Listener::new(events, Some(listener.position())).is_none());
    }
}
