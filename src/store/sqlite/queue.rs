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
use crate::gate::audit::Checkpoint;
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

/// What records become.
#[derive(Debug, Default)]
pub(super) struct Buffers {
    /// Records, each behind its length.
    pub(super) bytes: Vec<u8>,
    /// How many stand there.
    pub(super) records: usize,
    /// What the audit says of them.
    pub(super) audit: Vec<u8>,
}

/// Records that are committed together, and who waits for them.
#[derive(Default)]
pub(super) struct Group {
    pub(super) written: Buffers,
    /// Records that were given, those for the audit only included.
    taken: usize,
    commits: Vec<Commit>,
    /// What happens after the commit, or after its failure.
    pub(super) then: Vec<Job>,
}

struct Commit {
    bytes: Range<usize>,
    audit: Range<usize>,
    records: usize,
    taken: usize,
    reply: Reply<()>,
}

/// What is to be done once everything before it is written.
pub(super) enum Job {
    Read(Read),
    Forget {
        ended_before: UnixMillis,
        reply: Reply<u64>,
    },
    /// Forgets old segments of the audit. Answers how many.
    ForgetAudit(UnixMillis, Reply<u64>),
    /// Signs the audit's head.
    SignAudit(Reply<Option<Checkpoint>>),
    Close(Reply<()>),
}

impl Buffers {
    /// Whether there is nothing to write.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.audit.is_empty()
    }

    /// How long bytes and audit are, and how many records there are.
    fn lengths(&self) -> (usize, usize, usize) {
        (self.bytes.len(), self.audit.len(), self.records)
    }

    fn cut_to(&mut self, (bytes, audit, records): (usize, usize, usize)) {
        self.bytes.truncate(bytes);
        self.audit.truncate(audit);
        self.records = records;
    }

    /// Bytes of all.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.audit.len()
    }
}

/// Takes the ranges out, which are in order.
fn cut(bytes: &mut Vec<u8>, gone: impl Iterator<Item = Range<usize>>) {
    let mut kept = Vec::new();
    let mut at = 0;
    for range in gone {
        kept.extend_from_slice(bytes.get(at..range.start).unwrap_or_default());
        at = range.end;
    }
    if at > 0 {
        kept.extend_from_slice(bytes.get(at..).unwrap_or_default());
        *bytes = kept;
    }
}

impl Group {
    fn is_empty(&self) -> bool {
        self.written.is_empty() && self.commits.is_empty() && self.then.is_empty()
    }

    fn takes_more(&self) -> bool {
        self.written.size() < GROUP_BYTES
            && self.commits.len() < GROUP_COMMITS
            && self.then.is_empty()
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
        let bytes = self.commits.iter().map(|commit| commit.bytes.clone());
        cut(&mut self.written.bytes, bytes);
        let audit = self.commits.iter().map(|commit| commit.audit.clone());
        cut(&mut self.written.audit, audit);
        for commit in self.commits.drain(..) {
            self.written.records -= commit.records;
            self.taken -= commit.taken;
            let _ = commit.reply.send(Err(error.clone()));
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
    /// Buffers of a group that is written, for the next one.
    spare: Buffers,
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
pub(super) trait Write: FnOnce(&mut Buffers) -> Result<(), StoreError> {}

impl<F: FnOnce(&mut Buffers) -> Result<(), StoreError>> Write for F {}

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
                spare: Buffers::default(),
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
        let group = state.push(records, write, self.bounds.bytes)?;
        let full = group.written.size() >= GROUP_FULL_BYTES;
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
        let before = state.open_group().written.lengths();
        if let Err(error) = state.push(records, write, usize::MAX) {
            let _ = reply.send(Err(error));
            return;
        }
        let after = state.open.written.lengths();
        state.open.commits.push(Commit {
            bytes: before.0..after.0,
            audit: before.1..after.1,
            records: after.2 - before.2,
            taken: records,
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
        state.full.retain(|group| !group.written.is_empty());
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
        let mut written = group.written;
        written.cut_to((0, 0, 0));
        let mut state = self.state.lock();
        let spare = &mut state.spare;
        for (had, has) in [
            (written.bytes, &mut spare.bytes),
            (written.audit, &mut spare.audit),
        ] {
            if had.capacity() <= GROUP_BYTES && had.capacity() > has.capacity() {
                *has = had;
            }
        }
    }

    /// Gives buffers back that nothing needs now.
    pub(super) fn shrink(&self) {
        let mut state = self.state.lock();
        state.spare = Buffers::default();
        state.open.written.bytes.shrink_to_fit();
        state.open.written.audit.shrink_to_fit();
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
        let (before, size) = (group.written.lengths(), group.written.size());
        let mut written = write(&mut group.written);
        let added = group.written.size() - size;
        if waiting + added > bytes_max {
            written = written.and(Err(too_much()));
        }
        if let Err(error) = written {
            group.written.cut_to(before);
            return Err(error);
        }
        group.taken += records;
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
        self.bytes -= group.written.size();
        self.records -= group.taken;
        self.urgent &= !self.is_empty();
        self.writing = true;
        Some(group)
    }

    fn take_open(&mut self) -> Group {
        let next = Group {
            written: std::mem::take(&mut self.spare),
            ..Group::default()
        };
        std::mem::replace(&mut self.open, next)
    }

    fn recount(&mut self) {
        let groups = || self.full.iter().chain([&self.open]);
        self.bytes = groups().map(|group| group.written.size()).sum();
        self.records = groups().map(|group| group.taken).sum();
    }
}

/// Tells who waits for a job that it will not be done.
pub(super) fn refuse(job: Job, error: &StoreError) {
    match job {
        Job::Read(read) => read.refuse(error.clone()),
        Job::Forget { reply, .. } | Job::ForgetAudit(_, reply) => {
            drop(reply.send(Err(error.clone())));
        }
        Job::SignAudit(reply) => drop(reply.send(Err(error.clone()))),
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
