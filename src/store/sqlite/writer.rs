//! Writes: one thread, one connection, one transaction per group.
//!
//! A failing disk fails who waits and keeps what was appended; the writer tries again by itself until
//! it works. Settling, forgetting and checkpoints happen in slices between groups. Never reads for
//! others.

use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use rusqlite::{Connection, params};
use tokio::sync::watch;

use super::Counters;
use super::forget::Forgetting;
use super::queue::{Background, Group, Job, Next, Pause, Queue, Reply, refuse};
use super::reader::{self, Read};
use super::schema::store_error;
use super::settle::Settler;
use crate::base::clock::Clock;
use crate::base::failpoint;
use crate::store::StoreError;

/// What the journal may hold before it is settled at full load: what one read must look through.
const BACKLOG_BYTES: usize = 1 << 20;
const BACKLOG_RECORDS: usize = 4_096;
/// Bytes of one settling slice: about 4 ms.
const SLICE_BYTES: usize = 1 << 20;
/// Silence after which the rest is settled and the log is emptied.
const IDLE: Duration = Duration::from_secs(1);
/// Bytes in the log from which they are moved into the file.
const LOG_BYTES: usize = 8 << 20;
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
    pub(super) next_seq: i64,
    pub(super) backlog_records: usize,
    pub(super) backlog_bytes: usize,
    /// Held until the file is closed.
    pub(super) lock: File,
}

/// What goes on besides groups.
#[derive(Default)]
struct Work {
    forgetting: Option<(Forgetting, Reply<u64>)>,
    forgetting_next: Vec<(Forgetting, Reply<u64>)>,
    /// Bytes written since the log was last moved into the file.
    log_bytes: usize,
    /// The log was emptied since the last write.
    tidy: bool,
    /// Settling failed; not before the next silence.
    settling_rests: bool,
    closing: Option<Reply<()>>,
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
            Ok(()) => {
                self.wrote(&group, work);
                group.succeed();
                self.start_all(&mut group.then, work);
            }
            Err(error) => self.fail(group, store_error(&error), work),
        }
    }

    /// One group, one row, one sync of the disk.
    fn commit(&mut self, group: &Group) -> rusqlite::Result<()> {
        if group.bytes.is_empty() {
            return Ok(());
        }
        failpoint::pass("store.before_commit");
        let sql = "INSERT INTO journal VALUES (?1, ?2)";
        let mut insert = self.connection.prepare_cached(sql)?;
        insert.execute(params![self.next_seq, group.bytes.as_slice()])?;
        failpoint::pass("store.after_commit");
        Ok(())
    }

    fn wrote(&mut self, group: &Group, work: &mut Work) {
        if group.bytes.is_empty() {
            return;
        }
        self.next_seq += 1;
        self.backlog_records += group.records;
        self.backlog_bytes += group.bytes.len();
        work.log_bytes += group.bytes.len();
        work.tidy = false;
        self.counters.add_group(group.records);
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
                    let next = (Forgetting::new(ended_before.0), reply);
                    match work.forgetting {
                        None => work.forgetting = Some(next),
                        Some(_) => work.forgetting_next.push(next),
                    }
                }
                Job::Close(reply) => work.closing = Some(reply),
            }
        }
    }

    fn background(&self, work: &Work) -> Background {
        let backlog_is_large =
            self.backlog_bytes >= BACKLOG_BYTES || self.backlog_records >= BACKLOG_RECORDS;
        if work.forgetting.is_some()
            || work.log_bytes >= LOG_BYTES
            || (backlog_is_large && !work.settling_rests)
        {
            return Background::Now;
        }
        match work.tidy && self.backlog_records == 0 {
            true => Background::Nothing,
            false => Background::After(IDLE),
        }
    }

    /// One slice of whatever is due.
    fn in_background(&mut self, work: &mut Work) {
        let outcome = if work.log_bytes >= LOG_BYTES {
            self.checkpoint("PASSIVE", work)
        } else if self.backlog_records > 0 && !work.settling_rests {
            self.settle(work)
        } else if work.forgetting.is_some() {
            self.forget(work)
        } else {
            work.settling_rests = false;
            work.tidy = true;
            self.checkpoint("TRUNCATE", work)
        };
        if let Err(error) = outcome {
            tracing::warn!(%error, "the store cannot be tidied up now");
            work.settling_rests = true;
            work.log_bytes = 0;
            if let Some((_, reply)) = work.forgetting.take() {
                let _ = reply.send(Err(store_error(&error)));
                work.forgetting = work.forgetting_next.pop();
            }
        }
    }

    fn settle(&mut self, work: &mut Work) -> rusqlite::Result<()> {
        let moved = self.settler.slice(&mut self.connection, SLICE_BYTES)?;
        self.backlog_records = self.backlog_records.saturating_sub(moved.records);
        self.backlog_bytes = self.backlog_bytes.saturating_sub(moved.bytes);
        work.log_bytes += moved.bytes;
        work.tidy = false;
        self.counters.add_settled(moved.records, moved.turns);
        self.publish();
        while self.settler.merge(&mut self.connection)? {}
        Ok(())
    }

    fn forget(&mut self, work: &mut Work) -> rusqlite::Result<()> {
        let Some((forgetting, _)) = &mut work.forgetting else {
            return Ok(());
        };
        work.tidy = false;
        if forgetting.slice(&mut self.connection)?
            && let Some((forgotten, reply)) = work.forgetting.take()
        {
            let _ = reply.send(Ok(forgotten.turns));
            work.forgetting = work.forgetting_next.pop();
        }
        Ok(())
    }

    fn checkpoint(&mut self, mode: &str, work: &mut Work) -> rusqlite::Result<()> {
        work.log_bytes = 0;
        let sql = format!("PRAGMA wal_checkpoint({mode})");
        self.connection.query_row(&sql, [], |_| Ok(()))?;
        if mode == "TRUNCATE" {
            self.connection.execute_batch("PRAGMA shrink_memory")?;
        }
        Ok(())
    }

    /// Tells everybody that nothing can be written, and tries until something can.
    fn fail(&mut self, mut group: Group, error: StoreError, work: &mut Work) {
        tracing::error!(%error, "the store cannot be written");
        self.available.send_replace(false);
        group.fail(&error);
        self.start_reads(&mut group.then, &error, work);
        if !group.bytes.is_empty() {
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
                Ok(Some(group)) => {
                    self.wrote(&group, work);
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
                Job::Forget { .. } => refuse(job, error),
            }
        }
    }

    /// Writes the oldest group that was kept; without one, something small.
    fn try_again(&mut self) -> Result<Option<Group>, StoreError> {
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
            Ok(()) => {
                group.succeed();
                Ok(Some(group))
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
        self.counters
            .set_backlog(self.backlog_records, self.backlog_bytes);
    }

    /// Ends the reader first, so that the last connection to go empties the log.
    fn close(self, work: Work) {
        self.queue.close();
        let lost = self.queue.take_front().is_some();
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
        for (_, reply) in work.forgetting.into_iter().chain(work.forgetting_next) {
            let _ = reply.send(Err(super::queue::closed()));
        }
        if let Some(reply) = work.closing {
            let _ = reply.send(outcome);
        }
    }
}
