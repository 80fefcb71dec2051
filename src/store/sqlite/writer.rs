//! Writes: one thread, one connection, one transaction per group.
//!
//! A failing disk fails who waits and keeps what was appended; the writer tries again by itself until
//! it works. Settling, forgetting and checkpoints happen in slices between groups. Never reads for
//! others.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use rusqlite::{Connection, Transaction};
use tokio::sync::watch;

use super::audit::{Audit, Forgot};
use super::forget::Forgetting;
use super::queue::{Background, Group, Job, Next, Pause, Queue, Reply, refuse};
use super::reader::{self, Read};
use super::schema::{Lock, PAGE_BYTES, beside, store_error};
use super::settle::{Placed, Settler};
use super::{Counters, log_file};
use crate::base::clock::Clock;
use crate::base::failpoint;
use crate::store::StoreError;

/// What the journal may hold before it is settled at full load: what one read must look through.
const BACKLOG_BYTES: usize = 1 << 20;
const BACKLOG_RECORDS: usize = 4_096;
/// How many times over that is too much, so that groups wait.
const OVERDUE: usize = 8;
/// Bytes of one settling slice: about 4 ms.
const SLICE_BYTES: usize = 1 << 20;
/// Silence after which the rest is settled and the log is moved into the file.
const IDLE: Duration = Duration::from_secs(1);
/// Bytes in the log from which they are moved into the file, and how long its file is made.
const LOG_BYTES: usize = 8 << 20;
/// What a commit adds to the log besides its records: the pages in which they begin and end.
const COMMIT_BYTES: usize = 2 * PAGE_BYTES;
/// Silence after the start after which the log's file is made long.
const SOON: Duration = Duration::from_millis(50);
/// Groups for which settling rests after it failed.
const SETTLING_RESTS: u32 = 64;
/// The first and the longest pause on a failing disk.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Everything that the writing thread owns.
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) queue: Arc<Queue>,
    pub(super) reader: SyncSender<Read>,
    pub(super) reader_thread: std::thread::JoinHandle<()>,
    pub(super) available: watch::Sender<bool>,
    pub(super) counters: Arc<Counters>,
    pub(super) settler: Settler,
    pub(super) audit: Audit,
    /// Sequence of the last audit record that is committed.
    pub(super) audit_head: watch::Sender<u64>,
    pub(super) next_seq: i64,
    /// The last journal row that is settled.
    pub(super) settled_seq: i64,
    pub(super) backlog_records: usize,
    pub(super) backlog_bytes: usize,
    /// Turns in chunks that no segment names.
    pub(super) unindexed_turns: usize,
    pub(super) busy_timeout: Duration,
    /// Held until the file is closed.
    pub(super) lock: Lock,
}

/// What goes on besides groups.
#[derive(Default)]
struct Work {
    forgetting: Option<Forget>,
    forgetting_next: Vec<Forget>,
    /// Old segments of the audit are being forgotten: before when, how many so far.
    audit_forgetting: Option<(u64, u64, Reply<u64>)>,
    /// Bytes written since the log was last moved into the file.
    log_bytes: usize,
    /// The log was moved into the file since the last write.
    tidy: bool,
    /// The log's file was made long, or cannot be.
    log_is_long: bool,
    /// Settling failed: it rests for so many groups, or until the next silence.
    settling_rests: u32,
    closing: Option<Reply<()>>,
}

/// A request to forget. It counts what had ended when it came, so that is settled first.
struct Forget {
    after: i64,
    forgetting: Forgetting,
    reply: Reply<u64>,
}

impl Writer {
    /// Writes until it is told to close.
    pub(super) fn run(mut self) {
        let mut work = Work::default();
        self.publish();
        while work.closing.is_none() {
            match self.queue.next(self.background(&work)) {
                Next::Write(group) => self.write(group, &mut work),
                Next::Background => self.in_background(&mut work),
            }
        }
        self.close(work);
    }

    fn write(&mut self, mut group: Group, work: &mut Work) {
        match self.commit(&group) {
            Ok(placed) => {
                self.wrote(&group, placed, work);
                group.succeed();
                self.start_all(&mut group.then, work);
                self.queue.recycle(group);
            }
            Err(error) => self.fail(group, store_error(&error), work),
        }
    }

    /// One group, one transaction, one sync of the disk.
    fn commit(&mut self, group: &Group) -> rusqlite::Result<Placed> {
        let written = &group.written;
        if written.is_empty() {
            return Ok(Placed::default());
        }
        failpoint::pass("store.before_commit");
        let (connection, seq) = (&mut self.connection, self.next_seq);
        let now = Clock::system().now_ms();
        let mut next = None;
        let audit = |transaction: &Transaction<'_>| {
            next = Some(self.audit.write(transaction, &written.audit, now)?);
            Ok(())
        };
        let placed =
            self.settler
                .write_group(connection, seq, &written.bytes, written.records, audit)?;
        failpoint::pass("store.after_commit");
        if let Some(next) = next {
            self.audit.take(next);
        }
        Ok(placed)
    }

    fn wrote(&mut self, group: &Group, placed: Placed, work: &mut Work) {
        let written = &group.written;
        if written.is_empty() {
            return;
        }
        work.settling_rests = work.settling_rests.saturating_sub(1);
        // Without a record there is no row.
        self.next_seq += i64::from(!written.bytes.is_empty());
        self.backlog_records += placed.records;
        self.backlog_bytes += placed.bytes;
        self.unindexed_turns += placed.turns;
        work.log_bytes += written.size() + COMMIT_BYTES;
        work.tidy = false;
        self.counters.add_group(written.records, placed.turns);
        self.publish();
    }

    fn start_all(&mut self, jobs: &mut Vec<Job>, work: &mut Work) {
        for job in jobs.drain(..) {
            match job {
                Job::Read(read) => reader::ask(&self.reader, read),
                Job::Forget {
                    ended_before,
                    reply,
                } => {
                    let next = Forget {
                        after: self.next_seq - 1,
                        forgetting: Forgetting::new(ended_before.0),
                        reply,
                    };
                    match work.forgetting {
                        None => work.forgetting = Some(next),
                        Some(_) => work.forgetting_next.push(next),
                    }
                }
                Job::ForgetAudit(before, reply) => match work.audit_forgetting {
                    None => work.audit_forgetting = Some((before.0, 0, reply)),
                    Some(_) => drop(reply.send(Ok(0))),
                },
                Job::SignAudit(reply) => {
                    let now = Clock::system().now_ms();
                    let signed = self.audit.sign_now(&mut self.connection, now);
                    drop(reply.send(signed.map_err(|error| store_error(&error))));
                }
                Job::Close(reply) => work.closing = Some(reply),
            }
        }
    }

    fn background(&self, work: &Work) -> Background {
        let backlog = (self.backlog_bytes / BACKLOG_BYTES)
            .max(self.backlog_records / BACKLOG_RECORDS)
            .max(self.unindexed_turns / BACKLOG_RECORDS);
        let log = work.log_bytes / LOG_BYTES;
        if log >= OVERDUE || (backlog >= OVERDUE && work.settling_rests == 0) {
            return Background::Overdue;
        }
        if work.forgetting.is_some()
            || work.audit_forgetting.is_some()
            || log > 0
            || (backlog > 0 && work.settling_rests == 0)
            || self.sign_in().is_some_and(|left| left.is_zero())
        {
            return Background::Now;
        }
        if !work.log_is_long {
            return Background::After(SOON);
        }
        match work.tidy && self.is_settled() {
            true => self
                .sign_in()
                .map_or(Background::Nothing, Background::After),
            false => Background::After(IDLE),
        }
    }

    /// How long until the audit's head must be signed. None: it is.
    fn sign_in(&self) -> Option<Duration> {
        let at = self.audit.sign_at()?;
        let left = at.saturating_sub(Clock::system().now_ms());
        Some(Duration::from_millis(left))
    }

    fn is_settled(&self) -> bool {
        self.backlog_records == 0 && self.unindexed_turns == 0
    }

    /// One slice of whatever is due.
    fn in_background(&mut self, work: &mut Work) {
        let forgets = work.forgetting.as_ref();
        let is_due = self.sign_in().is_some_and(|left| left.is_zero());
        let outcome = if work.log_bytes >= LOG_BYTES {
            self.checkpoint(work)
        } else if is_due {
            self.sign_audit(work)
        } else if work.audit_forgetting.is_some() {
            self.forget_audit(work)
        } else if !work.log_is_long && forgets.is_none() {
            self.lengthen_log(work);
            Ok(())
        } else if forgets.is_some_and(|forget| forget.after <= self.settled_seq) {
            self.forget(work)
        } else if !self.is_settled() && (work.settling_rests == 0 || forgets.is_some()) {
            self.settle(work)
        } else {
            self.tidy_up(work)
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, "the store cannot be tidied up now");
            work.settling_rests = SETTLING_RESTS;
            work.log_bytes = 0;
            if let Some((_, _, reply)) = work.audit_forgetting.take() {
                let _ = reply.send(Err(store_error(&error)));
            }
            if let Some(forget) = work.forgetting.take() {
                let _ = forget.reply.send(Err(store_error(&error)));
                work.forgetting = work.forgetting_next.pop();
            }
        }
    }

    fn settle(&mut self, work: &mut Work) -> rusqlite::Result<()> {
        let moved = self.settler.slice(&mut self.connection, SLICE_BYTES)?;
        self.settled_seq = self.settled_seq.max(moved.last);
        self.backlog_records = self.backlog_records.saturating_sub(moved.records);
        self.backlog_bytes = self.backlog_bytes.saturating_sub(moved.bytes);
        self.unindexed_turns = 0;
        work.log_bytes += moved.bytes;
        work.tidy = false;
        self.counters.add_settled(moved.records, moved.turns);
        self.publish();
        while self.settler.merge(&mut self.connection)? {}
        Ok(())
    }

    fn forget(&mut self, work: &mut Work) -> rusqlite::Result<()> {
        let Some(forget) = &mut work.forgetting else {
            return Ok(());
        };
        work.tidy = false;
        if forget.forgetting.slice(&mut self.connection)?
            && let Some(done) = work.forgetting.take()
        {
            let _ = done.reply.send(Ok(done.forgetting.turns));
            work.forgetting = work.forgetting_next.pop();
        }
        Ok(())
    }

    fn sign_audit(&mut self, work: &mut Work) -> rusqlite::Result<()> {
        work.tidy = false;
        let now = Clock::system().now_ms();
        let signed = self.audit.sign_now(&mut self.connection, now);
        if signed.is_err() {
            self.audit.sign_later(now);
        }
        signed.map(drop)
    }

    fn forget_audit(&mut self, work: &mut Work) -> rusqlite::Result<()> {
        work.tidy = false;
        let Some((before, segments, _)) = &mut work.audit_forgetting else {
            return Ok(());
        };
        let now = Clock::system().now_ms();
        match self.audit.forget(&mut self.connection, *before, now)? {
            Forgot::Blocks => {}
            Forgot::Segment => *segments += 1,
            Forgot::Nothing => {
                if let Some((_, segments, reply)) = work.audit_forgetting.take() {
                    let _ = reply.send(Ok(segments));
                }
            }
        }
        self.publish();
        Ok(())
    }

    /// Moves the log into the file, as far as readers let it: the writer does not wait for them.
    fn checkpoint(&mut self, work: &mut Work) -> rusqlite::Result<()> {
        work.log_bytes = 0;
        self.connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
    }

    /// Commits work without it too, only slower.
    fn lengthen_log(&self, work: &mut Work) {
        work.log_is_long = true;
        if let Some(path) = self.connection.path() {
            let log = beside(Path::new(path), "-wal");
            if let Err(error) = log_file::lengthen(&log, LOG_BYTES as u64) {
                tracing::debug!(%error, "the store's log cannot be made long");
            }
        }
    }

    /// Moves all of the log into the file and gives memory back. The log stays as long as it is and is
    /// written over: a commit that does not make a file longer waits for the disk only once.
    fn tidy_up(&mut self, work: &mut Work) -> rusqlite::Result<()> {
        work.settling_rests = 0;
        work.log_bytes = 0;
        // With a read going on it stays as it is until the next silence.
        self.connection.busy_timeout(Duration::ZERO)?;
        let moved = self
            .connection
            .query_row("PRAGMA wal_checkpoint(RESTART)", [], |row| {
                row.get::<_, i64>(0)
            });
        self.connection.busy_timeout(self.busy_timeout)?;
        work.tidy = moved? == 0;
        self.queue.shrink();
        self.connection.execute_batch("PRAGMA shrink_memory")
    }

    /// Tells everybody that nothing can be written, and tries until something can.
    fn fail(&mut self, mut group: Group, error: StoreError, work: &mut Work) {
        tracing::error!(%error, "the store cannot be written");
        self.available.send_replace(false);
        group.fail(&error);
        self.start_reads(&mut group.then, &error, work);
        if !group.written.is_empty() {
            self.queue.put_back(group);
        }
        let mut error = error;
        let mut pause = PAUSE_MIN;
        let clock = Clock::system();
        while work.closing.is_none() {
            let again_at = clock.now_ms() + pause.as_millis() as u64;
            self.rest_until(again_at, &clock, &error, work);
            match self.try_again() {
                Ok(None) => break,
                Ok(Some((group, placed))) => {
                    self.wrote(&group, placed, work);
                    break;
                }
                Err(again) => error = again,
            }
            pause = (pause * 2).min(PAUSE_MAX);
        }
        if work.closing.is_none() {
            tracing::info!("the store can be written again");
            self.available.send_replace(true);
            self.publish();
        }
    }

    /// Waits, and fails at once whoever comes meanwhile.
    fn rest_until(&mut self, again_at: u64, clock: &Clock, error: &StoreError, work: &mut Work) {
        while work.closing.is_none() {
            let left = again_at.saturating_sub(clock.now_ms());
            if left == 0 {
                return;
            }
            match self.queue.pause(Duration::from_millis(left)) {
                Pause::Over => {}
                Pause::Asked => {
                    let mut jobs = self.queue.fail_waiting(error);
                    self.start_reads(&mut jobs, error, work);
                }
            }
        }
    }

    /// Reads go on; closing is taken up; the rest is refused.
    fn start_reads(&mut self, jobs: &mut Vec<Job>, error: &StoreError, work: &mut Work) {
        for job in jobs.drain(..) {
            match job {
                Job::Read(read) => reader::ask(&self.reader, read),
                Job::Close(reply) => work.closing = Some(reply),
                Job::Forget { .. } | Job::ForgetAudit(..) | Job::SignAudit(_) => {
                    refuse(job, error);
                }
            }
        }
    }

    /// Writes the oldest group that was kept; without one, something small.
    fn try_again(&mut self) -> Result<Option<(Group, Placed)>, StoreError> {
        // What the log holds may have room in the file, and then the log begins anew.
        let _ = self
            .connection
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()));
        let Some(mut group) = self.queue.take_front() else {
            let probe = "INSERT OR REPLACE INTO meta VALUES ('probe', ?1)";
            let probed = self.connection.execute(probe, [self.next_seq]);
            return probed.map(|_| None).map_err(|error| store_error(&error));
        };
        match self.commit(&group) {
            Ok(placed) => {
                group.succeed();
                Ok(Some((group, placed)))
            }
            Err(error) => {
                let error = store_error(&error);
                group.fail(&error);
                self.queue.put_back(group);
                Err(error)
            }
        }
    }

    fn publish(&self) {
        let head = self.audit.head().sequence;
        self.audit_head
            .send_if_modified(|known| std::mem::replace(known, head) != head);
        self.counters
            .set_backlog(self.backlog_records, self.backlog_bytes);
    }

    /// Ends the reader first, so that the last connection to go empties the log.
    fn close(mut self, work: Work) {
        self.queue.close();
        let lost = self.queue.take_front().is_some();
        let now = Clock::system().now_ms();
        if let Err(error) = self.audit.sign_now(&mut self.connection, now) {
            tracing::warn!(%error, "the audit's last records stay unsigned");
        }
        let _ = self.reader.send(Read::Stop);
        let _ = self.reader_thread.join();
        let mut outcome = match lost {
            false => Ok(()),
            true => Err(StoreError::Unavailable {
                problem: String::from("what was appended could not be written"),
            }),
        };
        if let Err((_, error)) = self.connection.close() {
            outcome = Err(store_error(&error));
        }
        drop(self.lock);
        if let Some((_, _, reply)) = work.audit_forgetting {
            let _ = reply.send(Err(super::queue::closed()));
        }
        for forget in work.forgetting.into_iter().chain(work.forgetting_next) {
            let _ = forget.reply.send(Err(super::queue::closed()));
        }
        if let Some(reply) = work.closing {
            let _ = reply.send(outcome);
        }
    }
}
