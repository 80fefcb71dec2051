//! A disk that fails, is full, or stops between two writes.

use std::path::Path;
use std::time::Duration;

use callgate::store::{SqliteOptions, SqliteStore, Store, StoreError, TurnFilter};

use super::samples::*;

/// Waits until the store says that it is available, or that it is not.
fn wait_for(store: &dyn Store, available: bool) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut availability = store.availability();
    runtime.block_on(async {
        availability
            .wait_for(|now| *now == available)
            .await
            .unwrap()
            .to_owned()
    });
}

fn impatient() -> SqliteOptions {
    SqliteOptions {
        busy_timeout: Duration::from_millis(1),
        ..SqliteOptions::default()
    }
}

#[test]
fn a_failing_disk_fails_commits_keeps_appends_and_recovers() {
    let place = Place::new();
    let (store, _) = SqliteStore::open(&place.path(), impatient()).unwrap();
    let turns: Vec<_> = (0..5)
        .map(|n| spec("s", &format!("t{n}"), "r", n))
        .collect();
    good(store.commit(&[accepted(&turns[0])]));
    // Another program that writes is as good as a disk that does not.
    let other = rusqlite::Connection::open(place.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.append(&[accepted(&turns[1])]).unwrap();
    let refused = store
        .commit(&[accepted(&turns[2])])
        .blocking_recv()
        .unwrap();
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
    wait_for(&store, false);
    store.append(&[accepted(&turns[3])]).unwrap();
    let refused = store
        .commit(&[accepted(&turns[2])])
        .blocking_recv()
        .unwrap();
    assert!(
        matches!(refused, Err(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
    assert_eq!(read(&store, "s", "t0").unwrap().spec, *turns[0]);
    assert_eq!(read(&store, "s", "t1"), None);
    other.execute_batch("ROLLBACK").unwrap();
    wait_for(&store, true);
    good(store.commit(&[accepted(&turns[4])]));
    let page = good(store.list_turns(TurnFilter {
        limit: 9,
        ..TurnFilter::default()
    }));
    let found: Vec<_> = page
        .turns
        .iter()
        .map(|turn| turn.spec.accepted_at.0)
        .collect();
    assert_eq!(found, [4, 3, 1, 0]);
}

#[test]
fn what_is_refused_was_never_queued() {
    let place = Place::new();
    let options = SqliteOptions {
        waiting_records_max: 3,
        ..impatient()
    };
    let (store, _) = SqliteStore::open(&place.path(), options).unwrap();
    let other = rusqlite::Connection::open(place.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    assert!(
        store
            .commit(&[accepted(&spec("s", "c", "r", 0))])
            .blocking_recv()
            .unwrap()
            .is_err()
    );
    let outcomes: Vec<_> = (0..5)
        .map(|n| {
            store
                .append(&[accepted(&spec("s", &format!("t{n}"), "r", n))])
                .is_ok()
        })
        .collect();
    assert_eq!(outcomes, [true, true, true, false, false]);
    other.execute_batch("ROLLBACK").unwrap();
    wait_for(&store, true);
    let page = good(store.list_turns(TurnFilter {
        limit: 9,
        ..TurnFilter::default()
    }));
    assert_eq!(page.turns.len(), 3);
}

#[test]
fn closing_on_a_failing_disk_says_what_is_lost() {
    let place = Place::new();
    let (store, _) = SqliteStore::open(&place.path(), impatient()).unwrap();
    let other = rusqlite::Connection::open(place.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.append(&[accepted(&spec("s", "t", "r", 1))]).unwrap();
    let closed = store.close().blocking_recv().unwrap();
    assert!(
        matches!(closed, Err(StoreError::Unavailable { .. })),
        "{closed:?}"
    );
}

#[test]
fn a_closed_store_refuses_everything() {
    let place = Place::new();
    let (store, _) = place.open();
    let turn = spec("s", "t", "r", 1);
    store.append(&[accepted(&turn)]).unwrap();
    good(store.close());
    assert!(store.append(&[accepted(&turn)]).is_err());
    assert!(store.commit(&[]).blocking_recv().unwrap().is_err());
    assert!(
        store
            .read_turn(key("s", "t"))
            .blocking_recv()
            .unwrap()
            .is_err()
    );
    assert!(store.close().blocking_recv().unwrap().is_err());
    drop(store);
    assert_eq!(place.open().1.open_turns.len(), 1);
}

#[test]
fn a_kill_after_any_commit_loses_nothing_that_was_committed() {
    let place = Place::new();
    let (store, _) = place.open();
    for n in 0..24 {
        let turn = spec("s", &format!("t{n}"), "r", n);
        good(store.commit(&[accepted(&turn)]));
        if n % 2 == 0 {
            good(store.commit(&[dispatched(&turn, 0, 1), ended(&turn, n + 1)]));
        }
        if n % 7 == 3 {
            settle(&store);
        }
        let copy = super::open::copy_of(&place);
        let (copied, restored) = copy.open();
        assert_eq!(
            restored.open_turns.len() as u64,
            n.div_ceil(2),
            "after turn {n}"
        );
        let page = good(copied.list_turns(TurnFilter {
            limit: 100,
            ..TurnFilter::default()
        }));
        assert_eq!(page.turns.len() as u64, n + 1, "after turn {n}");
        good(copied.commit(&[accepted(&spec("s", "new", "r", n + 1))]));
        assert!(read(&copied, "s", "new").is_some());
    }
}

/// A disk of a few hundred kilobytes. None: this user may not mount one.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(path: &'a Path, size: &str) -> Option<Self> {
        let options = format!("size={size}");
        let mut mount = std::process::Command::new("mount");
        let mount = mount
            .args(["-t", "tmpfs", "-o", &options, "tmpfs"])
            .arg(path);
        let mounted = mount.stderr(std::process::Stdio::null()).status();
        mounted
            .is_ok_and(|status| status.success())
            .then_some(Self(path))
    }

    fn grow(&self, size: &str) {
        let options = format!("remount,size={size}");
        let mut mount = std::process::Command::new("mount");
        assert!(
            mount
                .args(["-o", &options])
                .arg(self.0)
                .status()
                .unwrap()
                .success()
        );
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(self.0)
            .status();
    }
}

/// Runs one test of this binary again, in a namespace of its own in which it may mount.
fn again_in_a_namespace(test: &str) {
    const INSIDE: &str = "CALLGATE_TEST_IN_NAMESPACE";
    assert!(
        std::env::var_os(INSIDE).is_none(),
        "a tmpfs cannot be mounted, not even in a namespace of our own: run the tests as root"
    );
    let ended = std::process::Command::new("unshare")
        .args(["--user", "--map-root-user", "--mount"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test])
        .env(INSIDE, "1")
        .status()
        .expect("`unshare` is missing: install util-linux");
    assert!(ended.success(), "{test} failed in its namespace");
}

#[test]
fn a_full_disk_recovers_when_it_has_room_again() {
    let directory = tempfile::tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(directory.path(), "600k") else {
        return again_in_a_namespace("store::failure::a_full_disk_recovers_when_it_has_room_again");
    };
    let path = directory.path().join("callgate.db");
    let (store, _) = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let mut last_good = 0;
    let refused = (0..).find_map(|n| {
        let turn = spec("s", &format!("t{n}"), "r", n);
        let outcome = store.commit(&[accepted(&turn)]).blocking_recv().unwrap();
        last_good = n;
        outcome.err()
    });
    assert!(
        matches!(refused, Some(StoreError::Unavailable { .. })),
        "{refused:?}"
    );
    wait_for(&store, false);
    assert!(read(&store, "s", &format!("t{}", last_good - 1)).is_some());
    store
        .append(&[accepted(&spec("s", "kept", "r", 1))])
        .unwrap();
    disk.grow("60m");
    wait_for(&store, true);
    assert!(read(&store, "s", "kept").is_some());
    assert_eq!(read(&store, "s", &format!("t{last_good}")), None);
    good(store.commit(&[accepted(&spec("s", "after", "r", 1))]));
    drop(store);
    let (store, restored) = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    assert_eq!(restored.open_turns.len() as u64, last_good + 2);
    drop(store);
    drop(disk);
}
