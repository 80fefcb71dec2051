//! What an opened store knows, and what it refuses to open.

use std::fs;

use callgate::gate::event::RunState;
use callgate::gate::record::Record;
use callgate::gate::registry::Registry;
use callgate::store::{SqliteStore, Store, StoreError};

use super::samples::*;

#[test]
fn a_new_store_is_empty_and_private() {
    let place = Place::new();
    let (store, restored) = place.open();
    assert!(restored.open_turns.is_empty());
    good(store.commit(&[accepted(&spec("s", "t", "r", 1))]));
    for ending in ["", "-wal", ".lock"] {
        let path = format!("{}{ending}", place.path().display());
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&fs::metadata(path).unwrap().permissions());
        assert_eq!(mode & 0o777, 0o600, "`{ending}`");
    }
}

#[test]
fn an_open_turn_comes_back_with_everything_known_of_it() {
    let place = Place::new();
    let turn = spec("s", "t", "r", 5);
    for settled in [false, true] {
        let (store, _) = place.open();
        good(store.commit(&[accepted(&turn), dispatched(&turn, 0, 1)]));
        if settled {
            settle(&store);
        }
        good(store.commit(&[
            dispatched(&turn, 0, 2),
            dispatched(&turn, 1, 1),
            call_ended(&turn, 0, 9),
            cancelling(&turn, "enough", 11),
            Record::TurnRecovered {
                turn: turn.clone(),
                epoch: 2,
            },
        ]));
        drop(store);
        let (_store, restored) = place.open();
        assert_eq!(restored.open_turns.len(), 1);
        let found = &restored.open_turns[0];
        assert_eq!(found.spec, *turn);
        assert_eq!(found.epoch, 2);
        let attempts: Vec<_> = found
            .dispatched
            .iter()
            .map(|it| (it.call.0, it.attempt))
            .collect();
        assert_eq!(attempts, [(0, 2), (1, 1)]);
        assert_eq!(found.results.len(), 1);
        assert_eq!(found.cancelling.as_deref(), Some("enough"));
        assert_eq!(found.completed, None);
        assert_eq!(found.updated_at.0, 11);
    }
}

#[test]
fn only_turns_that_have_not_ended_are_restored_oldest_first() {
    let place = Place::new();
    let (store, _) = place.open();
    let turns: Vec<_> = (0..6)
        .map(|n| spec("s", &format!("t{n}"), "r", n))
        .collect();
    let first: Vec<_> = turns.iter().take(3).map(accepted).collect();
    good(store.commit(&first));
    good(store.commit(&[ended(&turns[1], 20)]));
    settle(&store);
    let rest: Vec<_> = turns.iter().skip(3).map(accepted).collect();
    good(store.commit(&rest));
    good(store.commit(&[ended(&turns[0], 21), ended(&turns[4], 22)]));
    drop(store);
    let (_store, restored) = place.open();
    let names: Vec<_> = restored
        .open_turns
        .iter()
        .map(|turn| turn.spec.request.turn.as_str())
        .collect();
    assert_eq!(names, ["t2", "t3", "t5"]);
}

#[test]
fn tools_come_back_in_order_with_generations() {
    let place = Place::new();
    let mut registry = Registry::default();
    let (store, _) = place.open();
    good(store.commit(&tools(&mut registry, &["write", "read", "gone"], "first")));
    settle(&store);
    good(store.commit(&tools(&mut registry, &["read"], "second")));
    good(store.commit(
        &[Record::ToolRemoved(callgate::gate::ids::ToolName::trusted(
            "gone",
        ))],
    ));
    for settled in [false, true] {
        if settled {
            settle(&store);
        }
        let restored = copy_of(&place).open().1;
        let found: Vec<_> = restored
            .tools
            .iter()
            .map(|tool| {
                (
                    tool.definition.name.as_str(),
                    tool.definition.description.as_str(),
                    tool.generation,
                )
            })
            .collect();
        assert_eq!(found, [("write", "first", 1), ("read", "second", 2)]);
        assert_eq!(
            (
                restored.tools[0].owner.as_str(),
                restored.tools[0].registered_at.0
            ),
            ("executor", 7)
        );
    }
}

#[test]
fn toolsets_come_back_with_bases_first() {
    let place = Place::new();
    let (store, _) = place.open();
    good(store.commit(&[
        toolset("z", "", 1),
        toolset("m", "z", 2),
        toolset("gone", "", 3),
    ]));
    settle(&store);
    good(store.commit(&[toolset("a", "m", 4), toolset("z", "", 5)]));
    good(store.commit(&[Record::ToolsetDeleted(String::from("gone"))]));
    drop(store);
    let (_store, restored) = place.open();
    let found: Vec<_> = restored
        .toolsets
        .iter()
        .map(|it| (it.name.as_str(), it.version))
        .collect();
    assert_eq!(found, [("z", 5), ("m", 2), ("a", 4)]);
    assert_eq!(restored.toolsets[0].include, ["read_*", ""]);
}

#[test]
fn a_newer_version_is_refused_and_left_alone() {
    let place = Place::new();
    drop(place.open());
    let file = rusqlite::Connection::open(place.path()).unwrap();
    file.pragma_update(None, "user_version", 99).unwrap();
    file.close().unwrap();
    let before = fs::read(place.path()).unwrap();
    assert_eq!(
        place.problem(),
        StoreError::VersionUnsupported {
            found: 99,
            known: 4
        }
    );
    assert_eq!(fs::read(place.path()).unwrap(), before);
}

#[test]
fn a_second_opener_is_refused_until_the_first_has_closed() {
    let place = Place::new();
    let (store, _) = place.open();
    assert_eq!(place.problem(), StoreError::Locked);
    good(store.close());
    drop(place.open());
}

#[test]
fn what_is_no_store_is_refused_and_left_alone() {
    let foreign = || {
        let place = Place::new();
        let file = rusqlite::Connection::open(place.path()).unwrap();
        file.execute_batch("CREATE TABLE other (x)").unwrap();
        file.close().unwrap();
        fs::read(place.path()).unwrap()
    };
    let broken_header = || {
        let place = Place::new();
        drop(place.open());
        let mut bytes = fs::read(place.path()).unwrap();
        bytes[..16].fill(b'x');
        bytes
    };
    for bytes in [
        Vec::new(),
        vec![0; 8192],
        b"text".repeat(4_000),
        foreign(),
        broken_header(),
    ] {
        let place = Place::new();
        fs::write(place.path(), &bytes).unwrap();
        let problem = place.problem();
        assert!(matches!(problem, StoreError::Corrupt { .. }), "{problem}");
        assert_eq!(fs::read(place.path()).unwrap(), bytes);
    }
}

#[test]
fn a_log_without_its_store_is_refused() {
    let place = Place::new();
    fs::write(format!("{}-wal", place.path().display()), b"").unwrap();
    assert!(matches!(place.problem(), StoreError::Corrupt { .. }));
}

#[test]
fn a_creation_that_was_cut_off_is_begun_anew() {
    let place = Place::new();
    fs::write(format!("{}.new", place.path().display()), b"half").unwrap();
    let (store, _) = place.open();
    good(store.commit(&[accepted(&spec("s", "t", "r", 1))]));
}

#[test]
fn a_missing_directory_makes_it_unavailable() {
    let place = Place::new();
    let path = place.path().join("deeper").join("callgate.db");
    let problem = SqliteStore::open(&path, Default::default()).unwrap_err();
    assert!(
        matches!(problem, StoreError::Unavailable { .. }),
        "{problem}"
    );
}

#[test]
fn a_store_of_version_1_stays_readable() {
    let place = Place::new();
    let frozen = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/store/v1.db");
    fs::copy(frozen, place.path()).unwrap();
    check_sample(&place);
}

#[test]
fn todays_version_writes_what_is_read_of_version_1() {
    let place = Place::new();
    write_sample(&place);
    check_sample(&place);
}

fn check_sample(place: &Place) {
    let (store, restored) = place.open();
    let names = |turns: &[callgate::gate::record::StoredTurn]| -> Vec<String> {
        turns
            .iter()
            .map(|turn| turn.spec.request.turn.to_string())
            .collect()
    };
    assert_eq!(names(&restored.open_turns), ["open-settled", "open"]);
    assert_eq!(restored.tools.len(), 2);
    assert_eq!(restored.toolsets.len(), 2);
    let page = good(store.list_turns(callgate::store::TurnFilter {
        limit: 9,
        ..Default::default()
    }));
    assert_eq!(
        names(&page.turns),
        ["open", "ended", "open-settled", "ended-settled"]
    );
    let turn = spec("session", "ended-settled", "run", 10);
    let found = read(&store, "session", "ended-settled").unwrap();
    assert_eq!(found.spec, *turn);
    assert_eq!(
        found.completed,
        Some(completed(&turn, RunState::Active, 12))
    );
}

/// A store as of now, as a kill would leave it.
pub(crate) fn copy_of(place: &Place) -> Place {
    let copy = Place::new();
    let wal = |place: &Place| format!("{}-wal", place.path().display());
    // A kill leaves both files as of one moment: nobody may write between the two copies.
    let file = rusqlite::Connection::open(place.path()).unwrap();
    file.busy_timeout(std::time::Duration::from_secs(60))
        .unwrap();
    file.execute_batch("BEGIN IMMEDIATE").unwrap();
    fs::copy(place.path(), copy.path()).unwrap();
    fs::copy(wal(place), wal(&copy)).unwrap();
    file.execute_batch("ROLLBACK").unwrap();
    copy
}

/// Writes the store that is frozen once per version.
fn write_sample(place: &Place) {
    let mut registry = Registry::default();
    let (store, _) = place.open();
    let turn = |name, at| spec("session", name, "run", at);
    let (ended_settled, open_settled) = (turn("ended-settled", 10), turn("open-settled", 20));
    let (ended_now, open) = (turn("ended", 30), turn("open", 40));
    good(store.commit(&tools(&mut registry, &["read", "write"], "text")));
    good(store.commit(&[toolset("view", "", 1), accepted(&ended_settled)]));
    good(store.commit(&[accepted(&open_settled), ended(&ended_settled, 12)]));
    settle(&store);
    good(store.commit(&[toolset("narrow", "view", 2), accepted(&ended_now)]));
    good(store.commit(&[dispatched(&open_settled, 0, 1), ended(&ended_now, 32)]));
    good(store.commit(&[accepted(&open)]));
    good(store.close());
}
