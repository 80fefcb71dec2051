//! The audit in a store: written with its facts, verified, tampered with, signed, dropped.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use callgate::gate::audit::{Broken, Checkpoint, Filter, Problem};
use callgate::gate::ids::{CallIndex, UnixMillis};
use callgate::gate::mask::MASK;
use callgate::gate::record::{CallWay, Fresh, Record};
use callgate::gate::registry::Registry;
use callgate::gate::result::Digest;
use callgate::store::audit::{AuditAsk, AuditOptions, AuditRow};
use callgate::store::audit_check::{Check, Range, Report};
use callgate::store::signer::Signer;
use callgate::store::{SqliteAudit, SqliteOptions, SqliteStore, Store, StoreError};

use super::open::copy_of;
use super::samples::*;

fn signer(place: &Place) -> Arc<Signer> {
    Arc::new(Signer::open(&place.path().with_file_name("audit.key")).unwrap())
}

fn open(place: &Place, audit: AuditOptions) -> SqliteStore {
    let options = SqliteOptions {
        audit,
        ..SqliteOptions::default()
    };
    SqliteStore::open(&place.path(), options).unwrap().0
}

/// A store that signs after every `records` records.
fn signing(place: &Place, records: u64) -> SqliteStore {
    let audit = AuditOptions {
        checkpoint_records: records,
        signer: Some(signer(place)),
        ..AuditOptions::default()
    };
    open(place, audit)
}

fn all(path: &Path) -> Vec<AuditRow> {
    let audit = SqliteAudit::open(path).unwrap();
    let mut ask = AuditAsk {
        limit: 3,
        bytes_max: usize::MAX,
        ..AuditAsk::default()
    };
    let mut rows = Vec::new();
    loop {
        let slice = audit.read(&ask).unwrap();
        rows.extend(slice.rows);
        match slice.next {
            Some(next) => ask.from = next,
            None => return rows,
        }
    }
}

fn kinds(path: &Path) -> Vec<String> {
    let rows = all(path).into_iter();
    rows.map(|row| row.members().unwrap().kind).collect()
}

fn verify_with(path: &Path, extra: &[Checkpoint], trusted: &[[u8; 32]]) -> Report {
    let audit = SqliteAudit::open(path).unwrap();
    let mut checkpoints = audit.checkpoints(u64::MAX, 1_000).unwrap();
    checkpoints.extend_from_slice(extra);
    let mut check = Check::new(Range::default(), &checkpoints, trusted);
    while let Some(ask) = check.ask() {
        check.take(&audit.read(&ask).unwrap());
    }
    check.report()
}

fn verify(place: &Place) -> Report {
    verify_with(&place.path(), &[], &[signer(place).public_key()])
}

fn broken(report: &Report) -> Option<(u64, Problem)> {
    report
        .broken
        .map(|Broken { sequence, problem }| (sequence, problem))
}

/// A store with the audit of `turns` turns of five records each, one commit for each turn.
fn filled(turns: u64, every: u64) -> Place {
    let place = Place::new();
    let store = signing(&place, every);
    for turn in 0..turns {
        let turn = spec("s", &format!("t{turn}"), "r", turn);
        good(store.commit(&[accepted(&turn), ended(&turn, 5)]));
    }
    good(store.close());
    place
}

/// Changes the body of the block that begins with that record.
fn change_block(place: &Place, first: i64, change: impl FnOnce(&mut Vec<u8>)) {
    let file = rusqlite::Connection::open(place.path()).unwrap();
    let sql = "SELECT body FROM audit_blocks WHERE first = ?1";
    let mut body: Vec<u8> = file.query_row(sql, [first], |row| row.get(0)).unwrap();
    change(&mut body);
    let sql = "UPDATE audit_blocks SET body = ?2 WHERE first = ?1";
    assert_eq!(
        file.execute(sql, rusqlite::params![first, body]).unwrap(),
        1
    );
}

/// The records of a block, each with its length and hash.
fn split(body: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    let mut rest = body;
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest[..4].try_into().unwrap()) as usize;
        let (record, after) = rest.split_at(36 + length);
        records.push(record.to_vec());
        rest = after;
    }
    records
}

#[test]
fn facts_and_what_the_audit_says_of_them_are_written_together() {
    let place = Place::new();
    let store = signing(&place, 1_000);
    let turn = spec("s", "t", "r", 1);
    store.append(&[accepted(&turn)]).unwrap();
    good(store.commit(&[dispatched(&turn, 0, 1)]));
    good(store.commit(&[call_ended(&turn, 0, 5)]));
    let mut registry = Registry::default();
    good(store.commit(&tools(&mut registry, &["one"], "text")));
    good(store.commit(&tools(&mut registry, &["one"], "another text")));
    good(store.commit(&[Record::By("uid:7".into()), toolset("view", "", 1)]));
    // As a kill would leave it.
    let copy = copy_of(&place);
    let expected = [
        "turn.accepted",
        "call.dispatched",
        "call.ended",
        "tool.registered",
        "tool.changed",
        "toolset.changed",
    ];
    assert_eq!(kinds(&copy.path()), expected);
    let rows = all(&copy.path());
    assert_eq!(rows[5].members().unwrap().principal, "uid:7");
    let report = verify_with(&copy.path(), &[], &[]);
    assert_eq!((broken(&report), report.checked), (None, 6));
    // The next process goes on with the chain.
    let (again, _) = copy.open();
    good(again.commit(&[ended(&turn, 9)]));
    good(again.close());
    let report = verify_with(&copy.path(), &[], &[]);
    assert_eq!((broken(&report), report.first), (None, 1));
    assert!(report.checked > 6);
}

#[test]
fn a_call_is_recorded_as_it_was_made_and_as_it_ran() {
    let place = Place::new();
    let (store, _) = place.open();
    let turn = spec("s", "t", "r", 1);
    let text = Bytes::from_static(br#"{"path":"other"}"#);
    let way = CallWay {
        call: CallIndex(0),
        tool: None,
        arguments: Some((text.clone(), Digest::of(&text))),
        rewritten: true,
        hidden: false,
        hook: None,
        ground: None,
        grants: Vec::new(),
        approval: None,
        by: "uid:1".to_owned(),
    };
    let record = Record::TurnEnded {
        turn: turn.clone(),
        completed: completed(&turn, callgate::gate::event::RunState::Active, 5),
        fresh: Fresh {
            decided: vec![way],
            ended: vec![CallIndex(0)],
        },
    };
    good(store.commit(&[accepted(&turn), record]));
    good(store.close());
    let rows = all(&place.path());
    let decided = String::from_utf8(rows[1].record_json.to_vec()).unwrap();
    let part = format!(
        r#""effective_call":{{"arguments":{{"path":"other"}},"arguments_digest":"{}"}}"#,
        Digest::of(&text)
    );
    assert!(decided.contains(&part), "{decided}");
    assert!(
        decided.contains(r#""original_call":{"arguments":{"path":"t"}"#),
        "{decided}"
    );
    let ended = String::from_utf8(rows[2].record_json.to_vec()).unwrap();
    assert!(ended.contains(r#""result_digest":""#), "{ended}");
    assert_eq!(kinds(&place.path()).len(), 4);
}

#[test]
fn secrets_are_not_in_the_audit() {
    let place = Place::new();
    let store = signing(&place, 1_000);
    let mut registry = Registry::default();
    let Some(Record::ToolRegistered(tool)) = tools(&mut registry, &["read_file"], "x").pop() else {
        panic!("no tool");
    };
    drop(registry);
    let mut tool = Arc::into_inner(tool).unwrap();
    tool.definition.secret_pointers = vec!["/token".to_owned(), "/missing/0".to_owned()];
    let tool = Arc::new(tool);
    let secret = "hunter2-not-for-the-audit";
    let text = Bytes::from(format!(r#"{{"path":"p","token":"{secret}"}}"#));
    let mut turn = Arc::unwrap_or_clone(spec("s", "t", "r", 1));
    turn.request.calls[0].call.arguments = text.clone();
    // One that is no JSON shows nothing at all.
    turn.request.calls[1].call.arguments = Bytes::from(format!(r#"{{"token":"{secret}""#));
    let turn = Arc::new(turn);
    let way = |call: u16, arguments: Option<Bytes>, rewritten| CallWay {
        call: CallIndex(call),
        tool: Some(tool.clone()),
        arguments: arguments.map(|text| (text.clone(), Digest::of(&text))),
        rewritten,
        hidden: false,
        hook: None,
        ground: None,
        grants: Vec::new(),
        approval: None,
        by: String::new(),
    };
    let fresh = Fresh {
        decided: vec![way(0, Some(text), true), way(1, None, false)],
        ended: Vec::new(),
    };
    let record = Record::TurnEnded {
        turn: turn.clone(),
        completed: completed(&turn, callgate::gate::event::RunState::Active, 5),
        fresh,
    };
    good(store.commit(&[accepted(&turn), record]));
    good(store.close());
    let file = rusqlite::Connection::open(place.path()).unwrap();
    let sql = "SELECT body FROM audit_blocks";
    let mut select = file.prepare(sql).unwrap();
    let bodies = select
        .query_map([], |row| row.get::<_, Vec<u8>>(0))
        .unwrap();
    let bodies: Vec<u8> = bodies.flat_map(Result::unwrap).collect();
    let holds = |text: &str| {
        bodies
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    assert!(holds(MASK) && holds(r#""path":"p""#));
    assert!(!holds(secret));
    // The test can fail: what the turn goes on from after a restart does hold it.
    let raw = std::fs::read(place.path()).unwrap();
    assert!(
        raw.windows(secret.len())
            .any(|part| part == secret.as_bytes())
    );
}

#[test]
fn whatever_is_changed_is_found_and_named() {
    // Blocks of one turn each begin with records 1, 5, 9.
    let count = all(&filled(1, 1_000).path()).len() as i64;
    let first_of_second = count + 1;
    let edited = filled(3, 1_000);
    change_block(&edited, first_of_second, |body| {
        let at = body
            .windows(6)
            .position(|part| part == b"\"kind\"")
            .unwrap();
        body[at + 8] ^= 1;
    });
    let second = first_of_second as u64;
    assert_eq!(broken(&verify(&edited)), Some((second, Problem::Altered)));
    let deleted = filled(3, 1_000);
    change_block(&deleted, first_of_second, |body| {
        *body = [split(body)[..1].concat(), split(body)[2..].concat()].concat();
    });
    assert_eq!(broken(&verify(&deleted)), Some((second + 1, Problem::Gap)));
    let swapped = filled(3, 1_000);
    change_block(&swapped, first_of_second, |body| {
        let mut records = split(body);
        records.swap(0, 1);
        *body = records.concat();
    });
    assert_eq!(broken(&verify(&swapped)), Some((second, Problem::Gap)));
    let hash = filled(3, 1_000);
    change_block(&hash, first_of_second, |body| body[4] ^= 1);
    assert_eq!(broken(&verify(&hash)), Some((second, Problem::Altered)));
    let gone = filled(3, 1_000);
    let file = rusqlite::Connection::open(gone.path()).unwrap();
    let sql = "DELETE FROM audit_blocks WHERE first = ?1";
    file.execute(sql, [first_of_second]).unwrap();
    assert_eq!(broken(&verify(&gone)), Some((second, Problem::Gap)));
    let begin = filled(3, 1_000);
    let file = rusqlite::Connection::open(begin.path()).unwrap();
    let sql = "UPDATE audit_blocks SET previous = zeroblob(32) WHERE first = ?1";
    file.execute(sql, [first_of_second]).unwrap();
    assert_eq!(broken(&verify(&begin)), Some((second, Problem::Unlinked)));
}

#[test]
fn every_changed_byte_of_a_block_is_found() {
    let place = filled(2, 1_000);
    let file = rusqlite::Connection::open(place.path()).unwrap();
    let sql = "SELECT body FROM audit_blocks WHERE first = 1";
    let body: Vec<u8> = file.query_row(sql, [], |row| row.get(0)).unwrap();
    drop(file);
    for at in (0..body.len()).step_by(7) {
        change_block(&place, 1, |changed| {
            changed.clone_from(&body);
            changed[at] ^= 0x10;
        });
        assert!(verify(&place).broken.is_some(), "byte {at}");
    }
    change_block(&place, 1, |changed| changed.clone_from(&body));
    assert_eq!(verify(&place).broken, None);
}

#[test]
fn a_cut_off_end_is_found_by_the_checkpoint_of_the_close() {
    let place = filled(3, 1_000);
    let count = verify(&place).checked;
    let file = rusqlite::Connection::open(place.path()).unwrap();
    let sql = "DELETE FROM audit_blocks WHERE first = (SELECT max(first) FROM audit_blocks)";
    file.execute(sql, []).unwrap();
    let of_a_turn = count / 3;
    let expected = Some((count - of_a_turn + 1, Problem::Truncated));
    assert_eq!(broken(&verify(&place)), expected);
    // Without checkpoints nothing shows it.
    file.execute("DELETE FROM audit_checkpoints", []).unwrap();
    assert_eq!(verify(&place).broken, None);
}

#[test]
fn signed_heads_must_be_ours_and_fit() {
    let place = filled(2, 1);
    let trusted = [signer(&place).public_key()];
    let report = verify(&place);
    assert_eq!(report.broken, None);
    assert_eq!(report.signed_to, report.head.sequence);
    assert_eq!(report.checkpoints, 2);
    // A key of somebody else's signs just the same: it shows nothing and refutes nothing.
    let other = Place::new();
    let foreign = signer(&other).sign(report.head, UnixMillis(1));
    let found = verify_with(&place.path(), std::slice::from_ref(&foreign), &trusted);
    let mismatch = Some((report.head.sequence, Problem::CheckpointMismatch));
    assert_eq!((broken(&found), found.signed_to), (None, report.signed_to));
    assert!(found.untold().unwrap().contains(&foreign.key_id()));
    let both = [trusted[0], foreign.public_key];
    let found = verify_with(&place.path(), &[foreign], &both);
    assert_eq!((found.broken, found.untold()), (None, None));
    // A forged signature under the right key.
    let mut forged = signer(&place).sign(report.head, UnixMillis(1));
    forged.signature[0] ^= 1;
    let found = verify_with(&place.path(), &[forged], &trusted);
    assert_eq!(broken(&found), mismatch);
    // A head that the chain does not have.
    let mut head = report.head;
    head.hash = Digest([3; 32]);
    let other = signer(&place).sign(head, UnixMillis(1));
    let found = verify_with(&place.path(), &[other], &trusted);
    assert_eq!(broken(&found), mismatch);
}

#[test]
fn checkpoints_are_kept_outside_as_well() {
    let place = Place::new();
    let outside = place.path().with_file_name("outside.jsonl");
    let audit = AuditOptions {
        checkpoint_records: 1,
        checkpoint_file: Some(outside.clone()),
        signer: Some(signer(&place)),
        ..AuditOptions::default()
    };
    let store = open(&place, audit);
    let turn = spec("s", "t", "r", 1);
    good(store.commit(&[accepted(&turn)]));
    good(store.commit(&[ended(&turn, 2)]));
    good(store.close());
    let text = std::fs::read_to_string(outside).unwrap();
    let lines: Vec<_> = text
        .lines()
        .map(|line| Checkpoint::from_json(line.as_bytes()).unwrap())
        .collect();
    let audit = SqliteAudit::open(&place.path()).unwrap();
    let mut kept = audit.checkpoints(u64::MAX, 9).unwrap();
    kept.reverse();
    assert_eq!(lines, kept);
    assert_eq!(lines.len(), 2);
}

/// How many records each segment has.
fn segments(place: &Place) -> Vec<i64> {
    let file = rusqlite::Connection::open(place.path()).unwrap();
    let sql = "SELECT sum(last - first + 1) FROM audit_blocks GROUP BY segment ORDER BY segment";
    let mut select = file.prepare(sql).unwrap();
    let rows = select.query_map([], |row| row.get(0)).unwrap();
    rows.map(Result::unwrap).collect()
}

#[test]
fn a_segment_takes_as_many_records_as_it_may_and_no_more() {
    for (records, expected) in [(2, vec![2]), (3, vec![2, 1]), (5, vec![2, 2, 1])] {
        let place = Place::new();
        let audit = AuditOptions {
            segment_records_max: 2,
            ..AuditOptions::default()
        };
        let store = open(&place, audit);
        let all: Vec<_> = (0..records)
            .map(|n| accepted(&spec("s", &format!("t{n}"), "r", n)))
            .collect();
        good(store.commit(&all));
        good(store.close());
        assert_eq!(segments(&place), expected);
        assert_eq!(verify(&place).broken, None);
    }
}

#[test]
fn a_segment_takes_as_many_bytes_as_it_may_and_no_more() {
    let one = spec("s", "t1", "r", 1);
    let size = |records: &[Record], max: u64| {
        let place = Place::new();
        let audit = AuditOptions {
            segment_bytes_max: max,
            ..AuditOptions::default()
        };
        let store = open(&place, audit);
        good(store.commit(records));
        good(store.close());
        let file = rusqlite::Connection::open(place.path()).unwrap();
        let sql = "SELECT sum(length(body)) FROM audit_blocks";
        let bytes: i64 = file.query_row(sql, [], |row| row.get(0)).unwrap();
        (segments(&place), bytes.cast_unsigned())
    };
    let records = [accepted(&one), accepted(&spec("s", "t2", "r", 2))];
    let (_, both) = size(&records, u64::MAX >> 1);
    assert_eq!(size(&records, both).0, [2]);
    assert_eq!(size(&records, both - 1).0, [1, 1]);
    // One that is larger than a segment has one of its own.
    assert_eq!(size(&records, 1).0, [1, 1]);
}

#[test]
fn old_segments_are_dropped_whole_and_the_rest_still_verifies() {
    let place = Place::new();
    let audit = AuditOptions {
        segment_records_max: 2,
        signer: Some(signer(&place)),
        ..AuditOptions::default()
    };
    let store = open(&place, audit.clone());
    for n in 0..5 {
        good(store.commit(&[accepted(&spec("s", &format!("t{n}"), "r", n))]));
    }
    assert_eq!(good(store.forget_audit(UnixMillis(1))), 0);
    // All that is over is old, what the dropping itself fills included; what is being filled stays.
    assert_eq!(good(store.forget_audit(UnixMillis(u64::MAX >> 1))), 3);
    good(store.close());
    let report = verify(&place);
    assert_eq!((report.broken, report.first), (None, 7));
    let kinds = kinds(&place.path());
    assert_eq!(kinds, ["audit.segment_dropped", "audit.segment_dropped"]);
    // Where the rest begins is signed.
    let kept = SqliteAudit::open(&place.path()).unwrap();
    let checkpoints = kept.checkpoints(u64::MAX, 9).unwrap();
    assert!(checkpoints.iter().any(|one| one.head.sequence == 6));
    let file = rusqlite::Connection::open(place.path()).unwrap();
    let sql = "UPDATE audit_blocks SET previous = zeroblob(32) WHERE first = 7";
    file.execute(sql, []).unwrap();
    assert_eq!(broken(&verify(&place)), Some((7, Problem::Altered)));
    // One who makes the rest fit a begin of their own is found by the signature.
    file.execute("DELETE FROM audit_blocks WHERE first = 7", [])
        .unwrap();
    drop(file);
    let found = broken(&verify(&place)).unwrap();
    assert_eq!(found, (7, Problem::Gap));
    // The numbers go on after a restart.
    let store = open(&place, audit);
    assert_eq!(*store.audit_head().borrow(), 8);
    drop(store);
}

#[test]
fn a_refused_commit_leaves_no_word_in_the_audit() {
    let place = Place::new();
    let options = SqliteOptions {
        busy_timeout: std::time::Duration::from_millis(1),
        ..SqliteOptions::default()
    };
    let (store, _) = SqliteStore::open(&place.path(), options).unwrap();
    let turn = |n: u64| spec("s", &format!("t{n}"), "r", n);
    good(store.commit(&[accepted(&turn(0))]));
    let other = rusqlite::Connection::open(place.path()).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    store.append(&[accepted(&turn(1))]).unwrap();
    let refused = store.commit(&[accepted(&turn(2))]).blocking_recv().unwrap();
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })));
    other.execute_batch("ROLLBACK").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let mut availability = store.availability();
    runtime.block_on(async {
        availability.wait_for(|now| *now).await.unwrap();
    });
    good(store.commit(&[accepted(&turn(3))]));
    good(store.close());
    let turns: Vec<_> = all(&place.path())
        .into_iter()
        .map(|row| row.members().unwrap().turn)
        .collect();
    assert_eq!(turns, ["t0", "t1", "t3"]);
    assert_eq!(verify(&place).broken, None);
}

#[test]
fn records_are_found_from_both_ends_and_by_what_they_say() {
    let place = filled(4, 1_000);
    let audit = SqliteAudit::open(&place.path()).unwrap();
    let count = all(&place.path()).len() as u64;
    let mut ask = AuditAsk {
        newest_first: true,
        limit: 3,
        bytes_max: usize::MAX,
        ..AuditAsk::default()
    };
    let mut places = Vec::new();
    loop {
        let slice = audit.read(&ask).unwrap();
        assert!(slice.rows.len() <= 3);
        places.extend(slice.rows.iter().map(|row| row.place));
        match slice.next {
            Some(next) => ask.from = next,
            None => break,
        }
    }
    assert_eq!(places, (1..=count).rev().collect::<Vec<_>>());
    let of_one = AuditAsk {
        filter: Filter {
            turn: "t2".to_owned(),
            kinds: vec!["turn".to_owned()],
            ..Filter::default()
        },
        limit: 99,
        bytes_max: usize::MAX,
        ..AuditAsk::default()
    };
    let found = audit.read(&of_one).unwrap().rows;
    let kinds: Vec<_> = found
        .iter()
        .map(|row| row.members().unwrap().kind)
        .collect();
    assert_eq!(kinds, ["turn.accepted", "turn.ended"]);
}

#[test]
fn nothing_is_recorded_where_the_audit_is_off() {
    let place = Place::new();
    let audit = AuditOptions {
        enabled: false,
        ..AuditOptions::default()
    };
    let store = open(&place, audit);
    let turn = spec("s", "t", "r", 1);
    good(store.commit(&[accepted(&turn), ended(&turn, 2)]));
    good(store.close());
    assert_eq!(all(&place.path()), []);
}

#[test]
fn an_old_store_gets_an_audit_that_begins_now() {
    let place = Place::new();
    let frozen = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/vectors/store/v1.db");
    std::fs::copy(frozen, place.path()).unwrap();
    let store = signing(&place, 1_000);
    good(store.commit(&[accepted(&spec("s", "t", "r", 1))]));
    good(store.close());
    let report = verify(&place);
    assert_eq!((report.broken, report.checked), (None, 1));
}
