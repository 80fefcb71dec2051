//! What waits to be written, in groups that are committed together.
//!
//! Wakes the writer as rarely as can be: an append wakes it only from deep sleep, so that at full load
//! no call wakes a thread. Never touches the disk.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

use super::reader::Read;
use crate::gate::ids::UnixMillis;
use crate::store::StoreError;

/// Where an answer goes. Nobody there any more is fine.
pub(super) type Reply<T> = oneshot::Sender<Result<T, StoreError>>;

/// Bytes from which a group takes nothing more.
const GROUP_BYTES: usize = 4 << 20;
/// Commits from which a group takes nothing more: measured, more gained nothing.
const GROUP_COMMITS: usize = 256;
/// Bytes from which a group is written at once, whoever waits.
const GROUP_FULL_BYTES: usize = 1 << 20;
/// How long appended records wait for company. A group costs as much as twenty turns, whatever is in
/// it, and nobody waits for what is appended.
const LINGER: Duration = Duration::from_millis(25);

/// Records that are committed together, and who waits for them.
#[derive(Default)]
pub(super) struct Group {
    /// Records, each behind its length.
    pub(super) bytes: Vec<u8>,
    pub(super) records: usize,
    commits: Vec<Commit>,
    /// What happens after the commit, or after its failure.
    pub(super) then: Vec<Job>,
}

struct Commit {
    bytes: Range<usize>,
    records: usize,
    reply: Reply<()>,
}

/// What is to be done once everything before it is written.
pub(super) enum Job {
    Read(Read),
    Forget {
        ended_before: UnixMillis,
        reply: Reply<u64>,
    },
    Close(Reply<()>),
}

impl Group {
    fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.commits.is_empty() && self.then.is_empty()
    }

    fn takes_more(&self) -> bool {
        self.bytes.len() < GROUP_BYTES && self.commits.len() < GROUP_COMMITS && self.then.is_empty()
    }

    /// Tells who waits that it is written.
    pub(super) fn succeed(&mut self) {
        for commit in self.commits.drain(..) {
            let _ = commit.reply.send(Ok(()));
        }
    }

    /// Tells who waits that it is not written, and takes their records out: they must not appear
    /// after their writer was told that they do not. Appended records stay.
    pub(super) fn fail(&mut self, error: &StoreError) {
        let mut kept = Vec::new();
        let mut at = 0;
        for commit in self.commits.drain(..) {
            kept.extend_from_slice(self.bytes.get(at..commit.bytes.start).unwrap_or_default());
            at = commit.bytes.end;
            self.records -= commit.records;
            let _ = commit.reply.send(Err(error.clone()));
        }
        if at > 0 {
            kept.extend_from_slice(self.bytes.get(at..).unwrap_or_default());
            self.bytes = kept;
        }
    }
}

/// How the writer sleeps, and so what wakes it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sleep {
    Awake,
    /// Has a timer: only what is urgent wakes it.
    Light,
    /// Everything wakes it.
    Deep,
}

struct State {
    /// Groups that take nothing more, oldest first.
    full: VecDeque<Group>,
    /// The group that is being filled.
    open: Group,
    /// A buffer of a group that is written, for the next one.
    spare: Vec<u8>,
    /// Somebody waits, or a group is full.
    urgent: bool,
    sleep: Sleep,
    bytes: usize,
    records: usize,
    /// A group is being written.
    writing: bool,
    closed: bool,
}

/// How much may wait.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) bytes: usize,
    pub(super) records: usize,
}

pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
    bounds: Bounds,
}

/// Appends the bytes of records.
pub(super) trait Write: FnOnce(&mut Vec<u8>) -> Result<(), StoreError> {}

impl<F: FnOnce(&mut Vec<u8>) -> Result<(), StoreError>> Write for F {}

/// What else the writer has to do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Background {
    Nothing,
    /// Once nothing has come for that long.
    After(Duration),
    /// Before groups that nobody waits for.
    Now,
    /// Before everything.
    Overdue,
}

/// What the writer does next.
pub(super) enum Next {
    Write(Group),
    Background,
}

/// Why a wait while the disk fails is over.
pub(super) enum Pause {
    /// It is time to try again.
    Over,
    /// Somebody waits and is to be told.
    Asked,
}

impl Queue {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            state: Mutex::new(State {
                full: VecDeque::new(),
                open: Group::default(),
                spare: Vec::new(),
                urgent: false,
                sleep: Sleep::Awake,
                bytes: 0,
                records: 0,
                writing: false,
                closed: false,
            }),
            wake: Condvar::new(),
            bounds,
        }
    }

    /// Queues records for some time soon. `write` appends their bytes where they will be read from, so
    /// that a large result is not copied once more.
    pub(super) fn append(&self, records: usize, write: impl Write) -> Result<(), StoreError> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(closed());
        }
        if state.records + records > self.bounds.records {
            return Err(too_much());
        }
        let full = state.push(records, write, self.bounds.bytes)?.bytes.len() >= GROUP_FULL_BYTES;
        let wakes = match state.sleep {
            Sleep::Awake => false,
            Sleep::Light => full && !state.urgent,
            Sleep::Deep => true,
        };
        state.urgent |= full;
        self.wake_if(wakes, state);
        Ok(())
    }

    /// Queues records that somebody waits for.
    pub(super) fn commit(&self, records: usize, write: impl Write, reply: Reply<()>) {
        let mut state = self.state.lock();
        if state.closed {
            let _ = reply.send(Err(closed()));
            return;
        }
        let before = state.bytes;
        let group = match state.push(records, write, usize::MAX) {
            Ok(group) => group,
            Err(error) => {
                let _ = reply.send(Err(error));
                return;
            }
        };
        let end = group.bytes.len();
        let added = state.bytes - before;
        state.open.commits.push(Commit {
            bytes: end - added..end,
            records,
            reply,
        });
        self.make_urgent(state);
    }

    /// Queues a job behind everything that waits.
    pub(super) fn push_job(&self, job: Job) {
        let mut state = self.state.lock();
        if state.closed {
            drop(state);
            refuse(job, &closed());
            return;
        }
        let closes = matches!(job, Job::Close(_));
        state.open_group().then.push(job);
        state.closed |= closes;
        self.make_urgent(state);
    }

    /// Whether everything that was queued is written.
    pub(super) fn is_quiet(&self) -> bool {
        let state = self.state.lock();
        state.is_empty() && !state.writing
    }

    /// Waits for something to do. Only the writer calls this.
    pub(super) fn next(&self, background: Background) -> Next {
        let mut state = self.state.lock();
        state.writing = false;
        if background == Background::Overdue {
            return Next::Background;
        }
        let mut lingered = false;
        loop {
            let ready = state.urgent || lingered;
            if ready && let Some(group) = state.pop() {
                return Next::Write(group);
            }
            state.urgent = false;
            let timer = match background {
                Background::Now | Background::Overdue => return Next::Background,
                Background::After(_) | Background::Nothing if !state.is_empty() => Some(LINGER),
                Background::After(idle) => Some(idle),
                Background::Nothing => None,
            };
            let was_empty = state.is_empty();
            let timed_out = self.sleep(&mut state, timer, was_empty);
            if timed_out && was_empty && state.is_empty() {
                return Next::Background;
            }
            lingered = timed_out;
        }
    }

    /// Waits before the next attempt on a failing disk. Only the writer calls this.
    pub(super) fn pause(&self, span: Duration) -> Pause {
        let mut state = self.state.lock();
        state.writing = false;
        if !state.urgent {
            self.sleep(&mut state, Some(span), false);
        }
        match std::mem::take(&mut state.urgent) {
            true => Pause::Asked,
            false => Pause::Over,
        }
    }

    /// Fails every commit that waits and takes out the jobs. Appended records stay.
    pub(super) fn fail_waiting(&self, error: &StoreError) -> Vec<Job> {
        let mut state = self.state.lock();
        let mut jobs = Vec::new();
        let State { full, open, .. } = &mut *state;
        for group in full.iter_mut().chain([open]) {
            group.fail(error);
            jobs.append(&mut group.then);
        }
        state.full.retain(|group| !group.bytes.is_empty());
        state.recount();
        jobs
    }

    /// The oldest group, for another attempt.
    pub(super) fn take_front(&self) -> Option<Group> {
        self.state.lock().pop()
    }

    /// Puts a group back to where it was.
    pub(super) fn put_back(&self, group: Group) {
        let mut state = self.state.lock();
        state.full.push_front(group);
        state.recount();
    }

    /// Takes back the buffer of a group that is written: growing one anew costs more than filling it.
    pub(super) fn recycle(&self, group: Group) {
        let mut bytes = group.bytes;
        bytes.clear();
        let mut state = self.state.lock();
        if bytes.capacity() <= GROUP_BYTES && bytes.capacity() > state.spare.capacity() {
            state.spare = bytes;
        }
    }

    /// Gives buffers back that nothing needs now.
    pub(super) fn shrink(&self) {
        let mut state = self.state.lock();
        state.spare = Vec::new();
        state.open.bytes.shrink_to_fit();
    }

    /// Refuses everything from now on.
    pub(super) fn close(&self) {
        self.state.lock().closed = true;
    }

    fn make_urgent(&self, mut state: parking_lot::MutexGuard<'_, State>) {
        let wakes = state.sleep != Sleep::Awake && !state.urgent;
        state.urgent = true;
        self.wake_if(wakes, state);
    }

    fn wake_if(&self, wakes: bool, mut state: parking_lot::MutexGuard<'_, State>) {
        if wakes {
            state.sleep = Sleep::Awake;
            drop(state);
            self.wake.notify_one();
        }
    }

    /// Sleeps; true: the timer ran out. `deep`: an append wakes, too.
    fn sleep(
        &self,
        state: &mut parking_lot::MutexGuard<'_, State>,
        timer: Option<Duration>,
        deep: bool,
    ) -> bool {
        state.sleep = match deep {
            true => Sleep::Deep,
            false => Sleep::Light,
        };
        let timed_out = match timer {
            Some(span) => self.wake.wait_for(state, span).timed_out(),
            None => {
                self.wake.wait(state);
                false
            }
        };
        state.sleep = Sleep::Awake;
        timed_out
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.full.is_empty() && self.open.is_empty()
    }

    /// The group that is being filled; a new one if it takes nothing more.
    fn open_group(&mut self) -> &mut Group {
        if !self.open.takes_more() {
            let full = self.take_open();
            self.full.push_back(full);
        }
        &mut self.open
    }

    /// Adds records to the open group. What cannot be written, or would make more than `bytes_max`
    /// wait, leaves nothing behind.
    fn push(
        &mut self,
        records: usize,
        write: impl Write,
        bytes_max: usize,
    ) -> Result<&mut Group, StoreError> {
        let waiting = self.bytes;
        let group = self.open_group();
        let before = group.bytes.len();
        let mut written = write(&mut group.bytes);
        let added = group.bytes.len() - before;
        if waiting + added > bytes_max {
            written = written.and(Err(too_much()));
        }
        if let Err(error) = written {
            group.bytes.truncate(before);
            return Err(error);
        }
        group.records += records;
        self.bytes += added;
        self.records += records;
        Ok(&mut self.open)
    }

    fn pop(&mut self) -> Option<Group> {
        let group = match self.full.pop_front() {
            Some(group) => group,
            None if self.open.is_empty() => return None,
            None => self.take_open(),
        };
        self.bytes -= group.bytes.len();
        self.records -= group.records;
        self.urgent &= !self.is_empty();
        self.writing = true;
        Some(group)
    }

    fn take_open(&mut self) -> Group {
        let bytes = std::mem::take(&mut self.spare);
        let next = Group {
            bytes,
            ..Group::default()
        };
        std::mem::replace(&mut self.open, next)
    }

    fn recount(&mut self) {
        let groups = || self.full.iter().chain([&self.open]);
        self.bytes = groups().map(|group| group.bytes.len()).sum();
        self.records = groups().map(|group| group.records).sum();
    }
}

/// Tells who waits for a job that it will not be done.
pub(super) fn refuse(job: Job, error: &StoreError) {
    match job {
        Job::Read(read) => read.refuse(error.clone()),
        Job::Forget { reply, .. } => drop(reply.send(Err(error.clone()))),
        Job::Close(reply) => drop(reply.send(Err(error.clone()))),
    }
}

fn too_much() -> StoreError {
    StoreError::Unavailable {
        problem: String::from("too much waits to be written"),
    }
}

pub(super) fn closed() -> StoreError {
    StoreError::Unavailable {
        problem: String::from("the store is closed"),
    }
}
