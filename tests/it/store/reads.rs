//! What reads see, and when.

use callgate::gate::event::RunState;
use callgate::gate::ids::{RunId, SessionId, TurnId, UnixMillis};
use callgate::gate::record::Record;
use callgate::store::{SqliteOptions, SqliteStore, Store, TurnFilter};

use super::samples::*;

fn run_of(store: &dyn Store) -> Option<callgate::gate::event::RunSummary> {
    good(store.read_run(SessionId::trusted("s"), RunId::trusted("r")))
}

#[test]
fn a_read_sees_what_was_appended_before_it() {
    let place = Place::new();
    let (store, _) = place.open();
    let turn = spec("s", "t", "r", 1);
    store.append(&[accepted(&turn)]).unwrap();
    assert_eq!(read(&store, "s", "t").unwrap().spec, *turn);
    store.append(&[ended(&turn, 4)]).unwrap();
    assert!(read(&store, "s", "t").unwrap().completed.is_some());
    assert_eq!(store.figures().settled_records, 0);
    assert_eq!(read(&store, "other", "t"), None);
}

#[test]
fn a_turn_reads_the_same_wherever_its_records_are() {
    let turn = spec("s", "t", "r", 1);
    let records = [
        accepted(&turn),
        dispatched(&turn, 0, 1),
        call_ended(&turn, 0, 3),
        ended(&turn, 4),
    ];
    let mut seen = Vec::new();
    for settled_after in 0..=records.len() {
        let place = Place::new();
        let (store, _) = place.open();
        for (written, record) in records.iter().enumerate() {
            if written == settled_after {
                settle(&store);
            }
            good(store.commit(std::slice::from_ref(record)));
        }
        if settled_after == records.len() {
            settle(&store);
        }
        seen.push(read(&store, "s", "t").unwrap());
        drop(store);
        seen.push(read(&place.open().0, "s", "t").unwrap());
    }
    seen.dedup();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].results.len(), 1);
}

#[test]
fn what_is_committed_carries_everything_appended_before_it() {
    let place = Place::new();
    let (store, _) = place.open();
    let turns: Vec<_> = (0..50)
        .map(|n| spec("s", &format!("t{n}"), "r", n))
        .collect();
    for turn in &turns {
        store.append(&[accepted(turn)]).unwrap();
    }
    good(store.commit(&[ended(&turns[0], 99)]));
    let (_copy, restored) = super::open::copy_of(&place).open();
    let names: Vec<_> = restored
        .open_turns
        .iter()
        .map(|turn| turn.spec.accepted_at.0)
        .collect();
    assert_eq!(names, (1..50).collect::<Vec<_>>());
}

#[test]
fn a_turn_id_is_found_in_every_session_newest_first() {
    let place = Place::new();
    let (store, _) = place.open();
    for session in 0..6 {
        let turn = spec(&format!("s{session}"), "t", "r", session);
        good(store.commit(&[accepted(&turn), ended(&turn, session)]));
    }
    settle(&store);
    for session in 6..10 {
        let turn = spec(&format!("s{session}"), "t", "r", session);
        good(store.commit(&[accepted(&turn)]));
        if session == 7 {
            settle(&store);
        }
    }
    let found = good(store.find_turn(TurnId::trusted("t")));
    let expected: Vec<_> = (2..10)
        .rev()
        .map(|session| key(&format!("s{session}"), "t"))
        .collect();
    assert_eq!(found, expected);
    assert_eq!(good(store.find_turn(TurnId::trusted("u"))), []);
}

#[test]
fn a_key_that_is_taken_again_after_its_end_names_the_newer_turn() {
    let place = Place::new();
    let (store, _) = place.open();
    let (old, new) = (spec("s", "t", "r", 1), spec("s", "t", "r", 50));
    good(store.commit(&[accepted(&old), ended(&old, 2)]));
    settle(&store);
    good(store.commit(&[accepted(&new)]));
    assert_eq!(read(&store, "s", "t").unwrap().spec, *new);
    good(store.commit(&[ended(&new, 51)]));
    settle(&store);
    assert_eq!(read(&store, "s", "t").unwrap().spec, *new);
    assert_eq!(good(store.find_turn(TurnId::trusted("t"))), [key("s", "t")]);
}

#[test]
fn a_run_counts_the_highest_round_and_keeps_its_end() {
    let place = Place::new();
    let (store, _) = place.open();
    assert_eq!(run_of(&store), None);
    let round = |round| {
        let mut turn = (*spec("s", &format!("t{round}"), "r", 1)).clone();
        turn.round = round;
        std::sync::Arc::new(turn)
    };
    good(store.commit(&[accepted(&round(1)), accepted(&round(3))]));
    settle(&store);
    good(store.commit(&[accepted(&round(2))]));
    let run = run_of(&store).unwrap();
    assert_eq!((run.state, run.rounds), (RunState::Active, 3));
    good(store.commit(&[cancelling(&round(3), "enough", 8)]));
    settle(&store);
    good(store.commit(&[ended(&round(2), 9)]));
    let run = run_of(&store).unwrap();
    assert_eq!(
        (run.state, run.rounds, run.ended_at),
        (RunState::Cancelled, 3, Some(UnixMillis(8)))
    );
    settle(&store);
    assert_eq!(run_of(&store), Some(run));
}

#[test]
fn a_run_that_ended_outside_of_a_turn_is_over() {
    let place = Place::new();
    let (store, _) = place.open();
    let turn = spec("s", "t", "r", 1);
    good(store.commit(&[accepted(&turn), ended(&turn, 2)]));
    good(store.commit(&[Record::RunEnded(run(&turn, RunState::Completed, 5))]));
    for _ in 0..2 {
        let found = run_of(&store).unwrap();
        assert_eq!(
            (found.state, found.ended_at),
            (RunState::Completed, Some(UnixMillis(5)))
        );
        settle(&store);
    }
}

#[test]
fn pages_leave_nothing_out_while_turns_come_and_end() {
    let place = Place::new();
    let (store, _) = place.open();
    let turns: Vec<_> = (0..60)
        .map(|n| spec("s", &format!("t{n}"), "r", n))
        .collect();
    for turn in &turns[..40] {
        store.append(&[accepted(turn)]).unwrap();
        if turn.accepted_at.0 % 3 == 0 {
            store.append(&[ended(turn, 70)]).unwrap();
        }
        if turn.accepted_at.0 % 16 == 0 {
            settle(&store);
        }
    }
    let mut filter = TurnFilter {
        limit: 7,
        ..TurnFilter::default()
    };
    let mut seen = Vec::new();
    let mut coming = turns[40..].iter();
    let mut ending = turns[..40]
        .iter()
        .filter(|turn| turn.accepted_at.0 % 3 != 0);
    loop {
        let page = good(store.list_turns(filter.clone()));
        seen.extend(page.turns.iter().map(|turn| turn.spec.accepted_at.0));
        let Some(next) = page.next else { break };
        filter.before = Some(next);
        let begun: Vec<_> = coming.by_ref().take(3).map(accepted).collect();
        store.append(&begun).unwrap();
        let done: Vec<_> = ending
            .by_ref()
            .take(5)
            .map(|turn| ended(turn, 80))
            .collect();
        store.append(&done).unwrap();
        if seen.len() % 2 == 0 {
            settle(&store);
        }
    }
    assert_eq!(seen, (0..40).rev().collect::<Vec<_>>());
}

#[test]
fn a_list_is_filtered_by_session_run_and_end() {
    let place = Place::new();
    let (store, _) = place.open();
    for n in 0..24 {
        let turn = spec(
            &format!("s{}", n % 2),
            &format!("t{n}"),
            &format!("r{}", n % 3),
            n,
        );
        good(store.commit(&[accepted(&turn)]));
        if n % 4 < 2 {
            good(store.commit(&[ended(&turn, n)]));
        }
        if n == 11 {
            settle(&store);
        }
    }
    let listed = |session: Option<&str>, run: Option<&str>, ended| {
        let page = good(store.list_turns(TurnFilter {
            session: session.map(SessionId::trusted),
            run: run.map(RunId::trusted),
            ended,
            before: None,
            limit: 100,
        }));
        page.turns
            .iter()
            .map(|turn| turn.spec.accepted_at.0)
            .collect::<Vec<_>>()
    };
    let expected =
        |passes: &dyn Fn(u64) -> bool| (0..24).rev().filter(|n| passes(*n)).collect::<Vec<_>>();
    for _ in 0..2 {
        assert_eq!(listed(Some("s1"), None, None), expected(&|n| n % 2 == 1));
        assert_eq!(listed(None, Some("r2"), None), expected(&|n| n % 3 == 2));
        assert_eq!(
            listed(Some("s0"), Some("r1"), None),
            expected(&|n| n % 2 == 0 && n % 3 == 1)
        );
        assert_eq!(listed(None, None, Some(true)), expected(&|n| n % 4 < 2));
        assert_eq!(
            listed(Some("s0"), None, Some(false)),
            expected(&|n| n % 2 == 0 && n % 4 >= 2)
        );
        assert_eq!(listed(Some("none"), None, None), [0; 0]);
        settle(&store);
    }
}

#[test]
fn turns_that_ended_long_ago_are_forgotten_with_their_runs() {
    let place = Place::new();
    let (store, _) = place.open();
    let turns: Vec<_> = (0..300)
        .map(|n| spec("s", &format!("t{n}"), &format!("r{n}"), n))
        .collect();
    for turn in &turns {
        let mut records = vec![accepted(turn)];
        if turn.accepted_at.0 != 5 {
            records.push(ended(turn, turn.accepted_at.0 + 1));
        }
        store.append(&records).unwrap();
        if turn.accepted_at.0 == 250 {
            settle(&store);
        }
    }
    // Ended before 201: all that were accepted before 200, but the one that goes on.
    assert_eq!(good(store.forget_turns(UnixMillis(201))), 199);
    assert_eq!(good(store.forget_turns(UnixMillis(201))), 0);
    let there = |n: u64| read(&store, "s", &format!("t{n}")).is_some();
    let run_there = |n: u64| {
        good(store.read_run(SessionId::trusted("s"), RunId::trusted(format!("r{n}")))).is_some()
    };
    for (n, expected) in [
        (0, false),
        (4, false),
        (5, true),
        (6, false),
        (199, false),
        (200, true),
        (299, true),
    ] {
        assert_eq!((there(n), run_there(n)), (expected, expected), "turn {n}");
    }
    let page = good(store.list_turns(TurnFilter {
        limit: 1_000,
        ..TurnFilter::default()
    }));
    assert_eq!(page.turns.len(), 101);
    drop(store);
    let (store, restored) = place.open();
    assert_eq!(restored.open_turns.len(), 1);
    assert_eq!(good(store.forget_turns(UnixMillis(1_000))), 100);
    let page = good(store.list_turns(TurnFilter {
        limit: 1_000,
        ..TurnFilter::default()
    }));
    assert_eq!(page.turns.len(), 1);
}

#[test]
fn a_large_journal_opens_without_being_settled() {
    let place = Place::new();
    let options = SqliteOptions {
        waiting_bytes_max: 1 << 30,
        waiting_records_max: 1 << 20,
        ..SqliteOptions::default()
    };
    let (store, _) = SqliteStore::open(&place.path(), options).unwrap();
    for n in 0..50_000 {
        let turn = spec("s", &format!("t{n}"), "r", n);
        let mut records = vec![accepted(&turn)];
        if n % 1_000 != 0 {
            records.push(ended(&turn, n));
        }
        store.append(&records).unwrap();
    }
    good(store.commit(&[]));
    let copy = super::open::copy_of(&place);
    drop(store);
    let (store, restored) = copy.open();
    assert_eq!(restored.open_turns.len(), 50);
    let at_start = store.figures();
    assert!(at_start.settled_records <= 5_000, "{at_start:?}");
    settle(&store);
    let after = store.figures();
    assert_eq!((after.backlog_records, after.backlog_bytes), (0, 0));
    let newest = good(store.list_turns(TurnFilter {
        limit: 1,
        ..TurnFilter::default()
    }));
    assert_eq!(newest.turns[0].spec.accepted_at.0, 49_999);
    assert_eq!(read(&store, "s", "t1000").unwrap().completed, None);
    assert!(read(&store, "s", "t25001").unwrap().completed.is_some());
}
