//! The store on the disk: SQLite as a log first and as tables afterwards.
//!
//! Records are encoded where they come from and queued; one thread writes what is queued as one row
//! and syncs the disk once. Later, in slices, it moves what rows hold into the tables. Never makes a
//! caller wait for the disk.
//!
//! ```text
//! append ─┐            ┌─ journal ── settle ─┬─► open_turns, open_records   turns that run
//!         ├─► queue ───┤  (a row per group)  ├─► chunks ◄── segments        turns that have ended
//! commit ─┘   (groups) └─ one fdatasync      └─► runs, sessions, tools, toolsets
//! ```

mod audit;
mod audit_read;
mod catalog;
mod chunk;
mod forget;
mod index;
mod list;
mod live;
mod log_file;
mod queue;
mod reader;
mod restore;
mod runs;
mod schema;
mod sessions;
mod settle;
mod writer;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{oneshot, watch};

use self::queue::{Bounds, Buffers, Job, Queue};
use self::reader::Read;
use super::audit::{AuditAsk, AuditOptions, AuditSlice};
use super::{Answer, Restored, Store, StoreError, TurnFilter, TurnPage, disk, frame};
use crate::base::clock::Clock;
use crate::gate::audit::{Checkpoint, derive};
use crate::gate::event::RunSummary;
use crate::gate::ids::{BatchId, RunId, SessionId, TurnId, TurnKey, UnixMillis};
use crate::gate::record::{Record, StoredTurn};
use crate::gate::session::StoredSession;

/// How the store is run.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// Most bytes of appended records that wait for the disk. Default 16 MiB.
    pub waiting_bytes_max: usize,
    /// Most appended records that wait for the disk. Default 65 536.
    pub waiting_records_max: usize,
    /// How long the file may be held by a foreign program, such as a backup, before a write fails.
    /// Default 2 s.
    pub busy_timeout: Duration,
    /// How the audit is kept.
    pub audit: AuditOptions,
}

impl Default for SqliteOptions {
    fn default() -> Self {
        Self {
            waiting_bytes_max: 16 << 20,
            waiting_records_max: 65_536,
            busy_timeout: Duration::from_secs(2),
            audit: AuditOptions::default(),
        }
    }
}

/// How much the store has done and has before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Figures {
    /// Groups committed since the start.
    pub groups: u64,
    /// Records committed since the start.
    pub records: u64,
    /// Records settled since the start.
    pub settled_records: u64,
    /// Ended turns settled since the start.
    pub settled_turns: u64,
    /// Turns that never stood in the journal, since they began and ended in one group.
    pub direct_turns: u64,
    /// Records that are durable and not settled yet.
    pub backlog_records: u64,
    /// Their bytes.
    pub backlog_bytes: u64,
}

/// [`Figures`] as they grow.
#[derive(Debug, Default)]
struct Counters {
    groups: AtomicU64,
    records: AtomicU64,
    settled_records: AtomicU64,
    settled_turns: AtomicU64,
    direct_turns: AtomicU64,
    backlog_records: AtomicU64,
    backlog_bytes: AtomicU64,
}

/// A store in one file. Closes in order when it is dropped, which then waits for the disk.
pub struct SqliteStore {
    queue: Arc<Queue>,
    reader: SyncSender<Read>,
    available: watch::Receiver<bool>,
    counters: Arc<Counters>,
    audit_head: watch::Receiver<u64>,
    checkpoints_not_kept: Arc<AtomicU64>,
    is_audited: bool,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("SqliteStore")
            .field("figures", &self.figures())
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the file, makes it if there is none, and reads what goes on after a restart.
    ///
    /// Blocks for the disk: call it before the runtime has other work, or from a blocking task.
    ///
    /// # Errors
    /// - [`StoreError::Locked`]: another process has it.
    /// - [`StoreError::VersionUnsupported`]: a newer program wrote it. Nothing was changed.
    /// - [`StoreError::Corrupt`]: it cannot be read. Nothing was changed.
    /// - [`StoreError::Unavailable`]: anything else, such as a missing directory.
    pub fn open(path: &Path, options: SqliteOptions) -> Result<(Self, Restored), StoreError> {
        let lock = schema::lock(path)?;
        let connection = schema::open_writer(path, &options)?;
        let found = restore::restore(&connection)?;
        let settler = settle::Settler::load(&connection, found.in_journal)
            .map_err(|error| schema::store_error(&error))?;
        let is_audited = options.audit.enabled;
        let now = Clock::system().now_ms();
        let audit = audit::Audit::load(&connection, options.audit.clone(), now)?;
        let checkpoints_not_kept = audit.not_kept.clone();
        let (audit_head, audit_head_for_readers) = watch::channel(audit.head().sequence);
        let reading = schema::open_reader(path, &options)?;
        let queue = Arc::new(Queue::new(Bounds {
            bytes: options.waiting_bytes_max,
            records: options.waiting_records_max,
        }));
        let (available, available_for_readers) = watch::channel(true);
        let counters = Arc::new(Counters::default());
        let (reader, questions) = sync_channel(reader::READS_MAX);
        let reader_thread = start("callgate-read", move || reader::run(reading, &questions))?;
        let writer = writer::Writer {
            connection,
            queue: queue.clone(),
            reader: reader.clone(),
            reader_thread,
            available,
            counters: counters.clone(),
            settler,
            audit,
            audit_head,
            next_seq: found.next_seq,
            settled_seq: found.settled_seq,
            backlog_records: found.backlog_records,
            backlog_bytes: found.backlog_bytes,
            // Not counted at start: the first slice looks.
            unindexed_turns: 1,
            busy_timeout: options.busy_timeout,
            lock,
        };
        let writer = start("callgate-write", move || writer.run())?;
        let store = Self {
            queue,
            reader,
            available: available_for_readers,
            counters,
            audit_head: audit_head_for_readers,
            checkpoints_not_kept,
            is_audited,
            writer: Mutex::new(Some(writer)),
        };
        Ok((store, found.restored))
    }

    /// How much the store has done and has before it.
    pub fn figures(&self) -> Figures {
        let read = |number: &AtomicU64| number.load(Ordering::Relaxed);
        Figures {
            groups: read(&self.counters.groups),
            records: read(&self.counters.records),
            settled_records: read(&self.counters.settled_records),
            settled_turns: read(&self.counters.settled_turns),
            direct_turns: read(&self.counters.direct_turns),
            backlog_records: read(&self.counters.backlog_records),
            backlog_bytes: read(&self.counters.backlog_bytes),
        }
    }

    /// Puts a question behind what waits to be written; with nothing waiting, asks at once.
    fn read(&self, read: Read) {
        match self.queue.is_quiet() {
            true => reader::ask(&self.reader, read),
            false => self.queue.push_job(Job::Read(read)),
        }
    }
}

impl Store for SqliteStore {
    fn append(&self, records: &[Record]) -> Result<(), StoreError> {
        let write = |out: &mut Buffers| encode(records, self.is_audited, out);
        self.queue.append(records.len(), write)
    }

    fn commit(&self, records: &[Record]) -> Answer<()> {
        let (reply, answer) = oneshot::channel();
        let write = |out: &mut Buffers| encode(records, self.is_audited, out);
        self.queue.commit(records.len(), write, reply);
        answer
    }

    fn availability(&self) -> watch::Receiver<bool> {
        self.available.clone()
    }

    fn read_turn(&self, key: TurnKey) -> Answer<Option<StoredTurn>> {
        let (reply, answer) = oneshot::channel();
        self.read(Read::Turn(key, reply));
        answer
    }

    fn find_turn(&self, turn: TurnId) -> Answer<Vec<TurnKey>> {
        let (reply, answer) = oneshot::channel();
        self.read(Read::Find(turn, reply));
        answer
    }

    fn list_turns(&self, filter: TurnFilter) -> Answer<TurnPage> {
        let (reply, answer) = oneshot::channel();
        self.read(Read::List(filter, reply));
        answer
    }

    fn read_run(&self, session: SessionId, run: RunId) -> Answer<Option<RunSummary>> {
        let (reply, answer) = oneshot::channel();
        self.read(Read::Run(session, run, reply));
        answer
    }

    fn read_marked(&self, mark: u64, batch: BatchId) -> Answer<Option<StoredTurn>> {
        let (reply, answer) = oneshot::channel();
        self.read(Read::Marked(mark, batch, reply));
        answer
    }

    fn read_session(&self, session: SessionId) -> Answer<Option<StoredSession>> {
        let (reply, answer) = oneshot::channel();
        self.read(Read::Session(session, reply));
        answer
    }

    fn list_sessions(&self) -> Answer<Vec<(SessionId, UnixMillis)>> {
        let (reply, answer) = oneshot::channel();
        self.read(Read::Sessions(reply));
        answer
    }

    fn forget_turns(&self, ended_before: UnixMillis) -> Answer<u64> {
        let (reply, answer) = oneshot::channel();
        self.queue.push_job(Job::Forget {
            ended_before,
            reply,
        });
        answer
    }

    fn audit_head(&self) -> watch::Receiver<u64> {
        self.audit_head.clone()
    }

    fn read_audit(&self, ask: AuditAsk) -> Answer<AuditSlice> {
        let (reply, answer) = oneshot::channel();
        // What waits to be written is not waited for: whoever follows would hurry the writer.
        reader::ask(&self.reader, Read::Audit(Box::new(ask), reply));
        answer
    }

    fn read_checkpoints(&self, up_to: u64, limit: usize) -> Answer<Vec<Checkpoint>> {
        let (reply, answer) = oneshot::channel();
        reader::ask(&self.reader, Read::Checkpoints(up_to, limit, reply));
        answer
    }

    fn sign_audit(&self) -> Answer<Option<Checkpoint>> {
        let (reply, answer) = oneshot::channel();
        self.queue.push_job(Job::SignAudit(reply));
        answer
    }

    fn checkpoints_not_kept(&self) -> u64 {
        self.checkpoints_not_kept.load(Ordering::Relaxed)
    }

    fn forget_audit(&self, written_before: UnixMillis) -> Answer<u64> {
        let (reply, answer) = oneshot::channel();
        self.queue.push_job(Job::ForgetAudit(written_before, reply));
        answer
    }

    fn close(&self) -> Answer<()> {
        let (reply, answer) = oneshot::channel();
        self.queue.push_job(Job::Close(reply));
        answer
    }
}

impl Drop for SqliteStore {
    fn drop(&mut self) {
        drop(self.close());
        if let Some(writer) = self.writer.lock().take() {
            let _ = writer.join();
        }
    }
}

impl Counters {
    fn add_group(&self, records: usize, direct_turns: usize) {
        self.direct_turns
            .fetch_add(direct_turns as u64, Ordering::Relaxed);
        self.groups.fetch_add(1, Ordering::Relaxed);
        self.records.fetch_add(records as u64, Ordering::Relaxed);
    }

    fn add_settled(&self, records: usize, turns: usize) {
        self.settled_records
            .fetch_add(records as u64, Ordering::Relaxed);
        self.settled_turns
            .fetch_add(turns as u64, Ordering::Relaxed);
    }

    fn set_backlog(&self, records: usize, bytes: usize) {
        self.backlog_records
            .store(records as u64, Ordering::Relaxed);
        self.backlog_bytes.store(bytes as u64, Ordering::Relaxed);
    }
}

/// The audit of a store that somebody else may be writing.
#[derive(Debug)]
pub struct SqliteAudit(rusqlite::Connection);

impl SqliteAudit {
    /// Opens the file for reading. Nothing of it is changed, made or locked.
    ///
    /// # Errors
    /// [`StoreError`]: there is no store, or it has no audit that this program can read.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        schema::open_beside(path).map(Self)
    }

    /// Reads some records.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn read(&self, ask: &AuditAsk) -> Result<AuditSlice, StoreError> {
        audit_read::slice(&self.0, ask).map_err(|error| schema::store_error(&error))
    }

    /// Checkpoints up to that sequence, newest first.
    ///
    /// # Errors
    /// [`StoreError`].
    pub fn checkpoints(&self, up_to: u64, limit: usize) -> Result<Vec<Checkpoint>, StoreError> {
        let found = audit_read::checkpoints(&self.0, up_to, limit);
        found.map_err(|error| schema::store_error(&error))
    }
}

/// Appends records, each behind its length, and what the audit says of them.
fn encode(records: &[Record], is_audited: bool, out: &mut Buffers) -> Result<(), StoreError> {
    if is_audited {
        derive(records, &mut out.audit);
    }
    for record in records.iter().filter(|record| !record.is_for_audit_only()) {
        out.records += 1;
        let length = frame::push(&mut out.bytes, |out| disk::encode(record, out));
        if length > frame::RECORD_BYTES_MAX {
            return Err(StoreError::Unavailable {
                problem: format!("a record of {length} bytes is larger than the store takes"),
            });
        }
    }
    Ok(())
}

fn start(
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, StoreError> {
    // Threads, not tasks: both block on the disk for as long as they live.
    let thread = std::thread::Builder::new().name(String::from(name));
    thread.spawn(work).map_err(|error| StoreError::Unavailable {
        problem: format!("thread `{name}`: {error}"),
    })
}
