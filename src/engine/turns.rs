//! The turns in memory: those that run, and the ones that ended last.
//!
//! Never forgets a turn that runs. A turn that is not here may still be in the store.

use std::collections::VecDeque;
use std::hash::BuildHasher;
use std::sync::Arc;

use foldhash::fast::RandomState;
use parking_lot::Mutex;

use super::turn::Turn;
use crate::gate::ids::{RunId, SessionId, TurnId, TurnKey};
use crate::gate::limits::Limits;
use crate::gate::turn::Cancel;

#[expect(
    clippy::disallowed_types,
    reason = "looked up by id only; its order is never seen"
)]
type ById<T> = std::collections::HashMap<TurnId, T>;

#[derive(Default)]
struct Inner {
    by_id: ById<Vec<Arc<Turn>>>,
    running: usize,
    /// Ended turns, the oldest first, with the memory that each costs in bytes.
    ended: VecDeque<(Arc<Turn>, u64)>,
    ended_bytes: u64,
    /// Cancellations of turns that were not seen yet, the oldest first.
    early_cancels: VecDeque<EarlyCancel>,
}

/// The turns in memory.
pub(super) struct Turns {
    inner: Mutex<Inner>,
    seen: Mutex<Seen>,
    running_max: usize,
    ended_max: usize,
    ended_bytes_max: u64,
}

/// Turn ids that were used, so that a repeated one is looked for in the store and a new one is not.
///
/// Two generations of hashes: an id is remembered for one to two spans. Whoever makes two ids of one
/// hash makes us look in the store once more, so the hash is a fast one.
struct Seen {
    hasher: RandomState,
    present: Hashes,
    past: Hashes,
    /// When the present generation becomes the past one, in Unix milliseconds.
    turns_at_ms: u64,
    span_ms: u64,
    /// A generation was full: what it could not hold must be looked for.
    overflowed: bool,
}

/// Under what an id is remembered as used.
#[derive(Debug, Clone, Copy)]
pub(super) struct SeenMark(u64);

#[expect(
    clippy::disallowed_types,
    reason = "asked for membership only; its order is never seen"
)]
type Hashes = std::collections::HashSet<u64, RandomState>;

/// Most ids of one generation; about 32 MB. Beyond it every unknown id is looked for.
const SEEN_MAX: usize = 2_000_000;

impl Seen {
    fn new(span_ms: u64) -> Self {
        Self {
            hasher: RandomState::default(),
            present: Hashes::default(),
            past: Hashes::default(),
            turns_at_ms: 0,
            span_ms,
            overflowed: false,
        }
    }

    fn contains(&self, hash: u64) -> bool {
        self.overflowed || self.present.contains(&hash) || self.past.contains(&hash)
    }

    fn note(&mut self, hash: u64, now_ms: u64) {
        if now_ms >= self.turns_at_ms {
            self.past = std::mem::take(&mut self.present);
            self.turns_at_ms = now_ms.saturating_add(self.span_ms);
        }
        if self.present.len() >= SEEN_MAX {
            self.overflowed = true;
            return;
        }
        self.present.insert(hash);
    }
}

/// How many turns that are followed are passed over at one turn's end, in search of one that is not.
const SPARED_MAX: usize = 4;
/// Most cancellations that are remembered for turns not seen yet.
const EARLY_CANCELS_MAX: usize = 1_024;

/// The cancellation of a turn that was not seen yet.
pub(super) struct EarlyCancel {
    pub(super) turn: TurnId,
    /// None: whichever session it belongs to.
    pub(super) session: Option<SessionId>,
    /// Until when it holds, in Unix milliseconds.
    pub(super) until_ms: u64,
    pub(super) cancel: Cancel,
}

/// What there is under a turn's key.
pub(super) enum Found {
    /// This turn.
    Turn(Arc<Turn>),
    /// Nothing in memory.
    Nothing,
    /// Several, and no session was named.
    Several,
}

impl Turns {
    pub(super) fn new(limits: &Limits, seen_span_ms: u64) -> Self {
        let as_usize = |number| usize::try_from(number).unwrap_or(usize::MAX);
        let running_max = limits.turns_running_max;
        let ended_max = limits.finished_turns_max;
        let ended_bytes_max = limits.finished_turns_bytes_max;
        Self {
            inner: Mutex::default(),
            seen: Mutex::new(Seen::new(seen_span_ms)),
            running_max: as_usize(running_max),
            ended_max: as_usize(ended_max),
            ended_bytes_max,
        }
    }

    /// The turn of that id; without a session, the only one of that id.
    pub(super) fn find(&self, turn: &TurnId, session: Option<&SessionId>) -> Found {
        let inner = self.inner.lock();
        let Some(turns) = inner.by_id.get(turn) else {
            return Found::Nothing;
        };
        match (session, turns.as_slice()) {
            (None, [only]) => Found::Turn(only.clone()),
            (None, _) => Found::Several,
            (Some(session), turns) => turns
                .iter()
                .find(|turn| turn.spec.session() == session)
                .map_or(Found::Nothing, |turn| Found::Turn(turn.clone())),
        }
    }

    /// The turn of that key.
    pub(super) fn get(&self, key: &TurnKey) -> Option<Arc<Turn>> {
        match self.find(&key.turn, Some(&key.session)) {
            Found::Turn(turn) => Some(turn),
            Found::Nothing | Found::Several => None,
        }
    }

    /// Takes a turn in. Gives the other one back if its key is taken.
    ///
    /// # Errors
    /// The turn that has the key.
    pub(super) fn insert(&self, turn: Arc<Turn>) -> Result<(), Arc<Turn>> {
        let mut inner = self.inner.lock();
        let turns = inner
            .by_id
            .entry(turn.spec.request.turn.clone())
            .or_default();
        let taken = turns
            .iter()
            .find(|other| other.spec.session() == turn.spec.session());
        if let Some(other) = taken {
            return Err(other.clone());
        }
        turns.push(turn);
        inner.running += 1;
        Ok(())
    }

    /// Under what an id is remembered as used.
    pub(super) fn mark_of(&self, key: &TurnKey) -> SeenMark {
        SeenMark(self.seen.lock().hasher.hash_one(key))
    }

    /// Whether the id may have been used by a turn that is not in memory any more.
    pub(super) fn was_seen(&self, mark: SeenMark) -> bool {
        self.seen.lock().contains(mark.0)
    }

    /// Remembers that the id is used.
    pub(super) fn note(&self, mark: SeenMark, now_ms: u64) {
        self.seen.lock().note(mark.0, now_ms);
    }

    /// Whether one more turn may run.
    pub(super) fn has_room(&self) -> bool {
        self.inner.lock().running < self.running_max
    }

    /// How many turns run.
    pub(super) fn running(&self) -> usize {
        self.inner.lock().running
    }

    /// A turn has ended; older ones make room.
    pub(super) fn end(&self, turn: &Arc<Turn>, bytes: u64) {
        let mut inner = self.inner.lock();
        inner.running = inner.running.saturating_sub(1);
        self.make_room(&mut inner, bytes);
        // Whatever its size: its readers have not had its end yet.
        inner.ended.push_back((turn.clone(), bytes));
        inner.ended_bytes += bytes;
    }

    /// Lets ended turns go until one more of `bytes` fits, the oldest first.
    fn make_room(&self, inner: &mut Inner, bytes: u64) {
        let mut spared = 0;
        loop {
            let too_large = inner.ended_bytes + bytes > self.ended_bytes_max;
            if !too_large && inner.ended.len() < self.ended_max {
                return;
            }
            let Some((oldest, its_bytes)) = inner.ended.pop_front() else {
                return;
            };
            // However many end after it, a reader that is a little late gets its turn's end.
            if !too_large && oldest.is_followed() {
                inner.ended.push_back((oldest, its_bytes));
                spared += 1;
                if spared == SPARED_MAX {
                    return;
                }
                continue;
            }
            inner.ended_bytes = inner.ended_bytes.saturating_sub(its_bytes);
            inner.forget(&oldest);
        }
    }

    /// Every turn that has not ended, of one run or of all.
    pub(super) fn running_turns(&self, of: Option<(&SessionId, &RunId)>) -> Vec<Arc<Turn>> {
        let inner = self.inner.lock();
        let turns = inner.by_id.values().flatten();
        turns
            .filter(|turn| !turn.log.has_ended())
            .filter(|turn| match of {
                None => true,
                Some((session, run)) => turn.spec.session() == session && turn.spec.run() == run,
            })
            .cloned()
            .collect()
    }

    /// Remembers the cancellation of a turn that was not seen yet.
    pub(super) fn cancel_early(&self, early: EarlyCancel) {
        let mut inner = self.inner.lock();
        if inner.early_cancels.len() >= EARLY_CANCELS_MAX {
            inner.early_cancels.pop_front();
        }
        inner.early_cancels.push_back(early);
    }

    /// The cancellation that came before its turn, if one did and still holds.
    pub(super) fn take_early_cancel(&self, key: &TurnKey, now_ms: u64) -> Option<Cancel> {
        let mut inner = self.inner.lock();
        if inner.early_cancels.is_empty() {
            return None;
        }
        inner.early_cancels.retain(|early| early.until_ms > now_ms);
        let mut known = inner.early_cancels.iter();
        let position = known.position(|early| early.is_of(key))?;
        inner
            .early_cancels
            .remove(position)
            .map(|early| early.cancel)
    }
}

impl EarlyCancel {
    fn is_of(&self, key: &TurnKey) -> bool {
        let same_session = self
            .session
            .as_ref()
            .is_none_or(|named| *named == key.session);
        self.turn == key.turn && same_session
    }
}

impl Inner {
    fn forget(&mut self, turn: &Arc<Turn>) {
        turn.log.drop_events();
        let id = &turn.spec.request.turn;
        if let Some(turns) = self.by_id.get_mut(id) {
            turns.retain(|other| !Arc::ptr_eq(other, turn));
            if turns.is_empty() {
                self.by_id.remove(id);
            }
        }
    }
}
