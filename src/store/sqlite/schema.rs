//! The tables, their versions, and how a file is opened.
//!
//! A file is made aside and moved into place whole, so that an empty or half-made one is never taken
//! for a new store. Never reads what the tables hold.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::SqliteOptions;
use crate::store::StoreError;

/// The newest version that this program knows.
pub(super) const VERSION: u32 = 4;

/// Marks the file as ours: `CGst`.
const APPLICATION_ID: i32 = 0x4347_7374;

/// Bytes of a page. Records travel in groups, and large pages cost fewer writes per group.
pub(super) const PAGE_BYTES: usize = 8_192;

/// Step n brings a file from version n to n + 1. Steps are only ever added.
const MIGRATIONS: [&str; VERSION as usize] = [TABLES_1, TABLES_2, TABLES_3, TABLES_4];

/// Why the tables are these: every turn passes `journal` as part of a group, one row per group. The
/// settler moves what a turn left there: into `open_turns` while it runs, then once into `chunks`,
/// which hold some dozens of turns each. `segments` say which chunks hold a key; they are written
/// sorted and merged, so that no insert ever lands on a random page.
const TABLES_1: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE journal (seq INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE open_turns (
    position INTEGER PRIMARY KEY,
    key_hash INTEGER NOT NULL,
    turn_hash INTEGER NOT NULL,
    session_hash INTEGER NOT NULL,
    run_hash INTEGER NOT NULL
);
CREATE INDEX open_turns_by_key ON open_turns (key_hash);
CREATE INDEX open_turns_by_turn ON open_turns (turn_hash);
CREATE TABLE open_records (
    position INTEGER PRIMARY KEY,
    turn INTEGER NOT NULL REFERENCES open_turns (position),
    body BLOB NOT NULL
);
CREATE INDEX open_records_by_turn ON open_records (turn);
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    ended_first INTEGER NOT NULL,
    ended_last INTEGER NOT NULL,
    heads BLOB NOT NULL,
    bodies BLOB NOT NULL
);
CREATE INDEX chunks_by_last ON chunks (last);
CREATE INDEX chunks_by_end ON chunks (ended_first);
CREATE TABLE segments (
    id INTEGER PRIMARY KEY,
    level INTEGER NOT NULL,
    bits INTEGER NOT NULL,
    chunk_last INTEGER NOT NULL
);
CREATE TABLE segment_parts (id INTEGER PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE runs (
    session TEXT NOT NULL,
    run TEXT NOT NULL,
    touched_at INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (session, run)
) WITHOUT ROWID;
CREATE TABLE tools (name TEXT PRIMARY KEY, position INTEGER NOT NULL, body BLOB NOT NULL)
    WITHOUT ROWID;
CREATE TABLE toolsets (name TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
";

/// What is kept of sessions: settings and grants. Few sessions have any.
const TABLES_2: &str = "
CREATE TABLE sessions (
    session TEXT PRIMARY KEY,
    touched_at INTEGER NOT NULL,
    body BLOB NOT NULL
) WITHOUT ROWID;
";

/// The audit: chained records in blocks, the segments that retention drops, and signed heads.
const TABLES_3: &str = "
CREATE TABLE audit_blocks (
    first INTEGER PRIMARY KEY,
    last INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    previous BLOB NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE audit_segments (
    segment INTEGER PRIMARY KEY,
    first INTEGER NOT NULL,
    since_ms INTEGER NOT NULL
);
CREATE TABLE audit_checkpoints (
    sequence INTEGER NOT NULL,
    signed_at INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (sequence, signed_at)
) WITHOUT ROWID;
";

/// Hooks of processes. Few, and read once.
const TABLES_4: &str = "
CREATE TABLE hooks (id TEXT PRIMARY KEY, body BLOB NOT NULL) WITHOUT ROWID;
";

/// The tables without which a file is not ours, whatever its header says.
const TABLES: [&str; 15] = [
    "audit_blocks",
    "audit_checkpoints",
    "audit_segments",
    "chunks",
    "hooks",
    "journal",
    "meta",
    "open_records",
    "open_turns",
    "runs",
    "segment_parts",
    "segments",
    "sessions",
    "tools",
    "toolsets",
];

/// The store is this process's as long as this lives.
#[derive(Debug)]
pub(super) struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing is not enough: a child that is being started may hold the file a moment longer.
        if let Err(error) = self.0.unlock() {
            tracing::warn!(%error, "the store stays locked until the process ends");
        }
    }
}

/// Takes the store for this process.
pub(super) fn lock(path: &Path) -> Result<Lock, StoreError> {
    let lock_path = beside(path, ".lock");
    let file = private()
        .create(true)
        .truncate(false)
        .open(&lock_path)
        .map_err(|error| unavailable(&lock_path, &error))?;
    match file.try_lock() {
        Ok(()) => Ok(Lock(file)),
        Err(std::fs::TryLockError::WouldBlock) => Err(StoreError::Locked),
        Err(std::fs::TryLockError::Error(error)) => Err(unavailable(&lock_path, &error)),
    }
}

/// Opens the file for writing, makes it if there is none, and brings it to the newest version.
pub(super) fn open_writer(path: &Path, options: &SqliteOptions) -> Result<Connection, StoreError> {
    if !exists(path)? {
        create(path)?;
    }
    let connection = connect(path, options)?;
    check(&connection)?;
    // Nothing is written before the version is known to be ours.
    prepare_writer(&connection).map_err(|error| store_error(&error))?;
    migrate(&connection)?;
    check_tables(&connection)?;
    Ok(connection)
}

/// Opens the file for reading beside the writer.
pub(super) fn open_reader(path: &Path, options: &SqliteOptions) -> Result<Connection, StoreError> {
    let connection = connect(path, options)?;
    let set = || -> rusqlite::Result<()> {
        connection.pragma_update(None, "query_only", true)?;
        connection.pragma_update(None, "cache_size", -1024)
    };
    set().map_err(|error| store_error(&error))?;
    Ok(connection)
}

/// Opens the file for reading only, whoever writes it. Nothing is made, migrated or locked.
pub(super) fn open_beside(path: &Path) -> Result<Connection, StoreError> {
    let open = || -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(std::time::Duration::from_secs(2))?;
        Ok(connection)
    };
    let connection = open().map_err(|error| store_error(&error))?;
    check(&connection)?;
    check_tables(&connection)?;
    Ok(connection)
}

/// What the disk's error means for the caller.
pub(super) fn store_error(error: &rusqlite::Error) -> StoreError {
    let problem = error.to_string();
    match error.sqlite_error_code() {
        Some(rusqlite::ErrorCode::DatabaseCorrupt | rusqlite::ErrorCode::NotADatabase) => {
            StoreError::Corrupt { problem }
        }
        _ => StoreError::Unavailable { problem },
    }
}

fn exists(path: &Path) -> Result<bool, StoreError> {
    if path
        .try_exists()
        .map_err(|error| unavailable(path, &error))?
    {
        return Ok(true);
    }
    let wal = beside(path, "-wal");
    match wal
        .try_exists()
        .map_err(|error| unavailable(&wal, &error))?
    {
        true => Err(StoreError::Corrupt {
            problem: format!("`{}` is there without its store", wal.display()),
        }),
        false => Ok(false),
    }
}

fn create(path: &Path) -> Result<(), StoreError> {
    let aside = beside(path, ".new");
    let io = |error: std::io::Error| unavailable(&aside, &error);
    // Left by a process that died in the middle.
    for name in [aside.clone(), beside(&aside, "-journal")] {
        match std::fs::remove_file(&name) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(unavailable(&name, &error)),
        }
    }
    private().create_new(true).open(&aside).map_err(io)?;
    let make = || -> rusqlite::Result<()> {
        let connection = Connection::open_with_flags(&aside, flags())?;
        connection.pragma_update(None, "page_size", PAGE_BYTES as i64)?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch("BEGIN")?;
        for step in MIGRATIONS {
            connection.execute_batch(step)?;
        }
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
        connection.pragma_update(None, "user_version", VERSION)?;
        connection.execute_batch("COMMIT")?;
        connection.close().map_err(|(_, error)| error)
    };
    make().map_err(|error| store_error(&error))?;
    std::fs::rename(&aside, path).map_err(io)?;
    let directory = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.map_err(|error| unavailable(directory, &error))
}

fn connect(path: &Path, options: &SqliteOptions) -> Result<Connection, StoreError> {
    let open = || -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(path, flags())?;
        connection.busy_timeout(options.busy_timeout)?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "temp_store", "MEMORY")?;
        // Mapped pages would count as the process's memory.
        connection.pragma_update(None, "mmap_size", 0)?;
        connection.set_prepared_statement_cache_capacity(64);
        Ok(connection)
    };
    open().map_err(|error| store_error(&error))
}

fn prepare_writer(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "cache_size", -4096)?;
    // The writer chooses the moment itself.
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "journal_size_limit", 16 << 20)
}

fn check(connection: &Connection) -> Result<(), StoreError> {
    let number = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let read = || -> rusqlite::Result<(i64, i64)> {
        Ok((number("application_id")?, number("user_version")?))
    };
    let (application, version) = read().map_err(|error| store_error(&error))?;
    if application != i64::from(APPLICATION_ID) {
        return Err(StoreError::Corrupt {
            problem: String::from("the file is not a store of this program"),
        });
    }
    let found = u32::try_from(version).unwrap_or(u32::MAX);
    if found > VERSION {
        let known = VERSION;
        return Err(StoreError::VersionUnsupported { found, known });
    }
    Ok(())
}

fn check_tables(connection: &Connection) -> Result<(), StoreError> {
    let names = || -> rusqlite::Result<Vec<String>> {
        let sql = "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name";
        connection
            .prepare(sql)?
            .query_map([], |row| row.get(0))?
            .collect()
    };
    let names = names().map_err(|error| store_error(&error))?;
    match TABLES
        .iter()
        .find(|table| !names.iter().any(|name| name == *table))
    {
        None => Ok(()),
        Some(missing) => Err(StoreError::Corrupt {
            problem: format!("table `{missing}` is missing"),
        }),
    }
}

fn migrate(connection: &Connection) -> Result<(), StoreError> {
    let run = || -> rusqlite::Result<()> {
        let from: u32 = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        for (step, sql) in (0..VERSION)
            .zip(MIGRATIONS)
            .filter(|(step, _)| *step >= from)
        {
            connection.execute_batch("BEGIN IMMEDIATE")?;
            connection.execute_batch(sql)?;
            connection.pragma_update(None, "user_version", step + 1)?;
            connection.execute_batch("COMMIT")?;
        }
        Ok(())
    };
    run().map_err(|error| store_error(&error))
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// Files that only their owner may read: arguments may hold secrets.
fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

fn unavailable(path: &Path, error: &std::io::Error) -> StoreError {
    StoreError::Unavailable {
        problem: format!("`{}`: {error}", path.display()),
    }
}
