//! The store on the disk does what the store in memory does, whatever is written in whatever order.

use std::sync::Arc;

use callgate::gate::event::RunState;
use callgate::gate::ids::{RunId, SessionId, TurnId, UnixMillis};
use callgate::gate::record::{Record, TurnSpec};
use callgate::store::{MemoryStore, Restored, Store, TurnFilter};
use proptest::prelude::*;

use super::samples::*;

#[derive(Debug, Clone)]
enum Step {
    Write {
        what: u8,
        turn: u8,
        durable: bool,
    },
    /// Many turns in one group, in one of these ways each.
    Burst(Vec<u8>),
    Settle,
    Reopen,
    Forget(u64),
    Compare,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0_u8..9, 0_u8..8, any::<bool>())
            .prop_map(|(what, turn, durable)| Step::Write { what, turn, durable }),
        3 => proptest::collection::vec(0_u8..12, 30..60).prop_map(Step::Burst),
        3 => Just(Step::Settle),
        2 => Just(Step::Reopen),
        1 => (0_u64..60).prop_map(Step::Forget),
        3 => Just(Step::Compare),
    ]
}

/// Turn `n`: ids repeat over sessions, and two turns share a run, which began once.
fn turn(n: u8, at: u64) -> Arc<TurnSpec> {
    let (session, turn, run) = (n % 2, n / 2, n / 4);
    let spec = spec(
        &format!("s{session}"),
        &format!("t{turn}"),
        &format!("r{run}"),
        at,
    );
    Arc::new(TurnSpec {
        run_started_at: UnixMillis(0),
        ..Arc::unwrap_or_clone(spec)
    })
}

fn record(what: u8, turn: &Arc<TurnSpec>, at: u64) -> Record {
    match what {
        0..3 => accepted(turn),
        3 => dispatched(turn, (at % 2) as u16, 1),
        4 => call_ended(turn, (at % 2) as u16, at),
        5 => cancelling(turn, "enough", at),
        6 => ended(turn, at),
        7 => ended_with(turn, RunState::Completed, at),
        _ => Record::RunEnded(run(turn, RunState::Cancelled, at)),
    }
}

/// The records of a burst, those of all turns among each other.
fn burst(ways: &[u8], at: u64) -> Vec<Record> {
    let mut records = Vec::new();
    for stage in 0..3 {
        for (n, way) in (0..).zip(ways) {
            let turn = turn(n, at);
            let what: &[u8] = match (way, stage) {
                (0..6, 0) => &[0],
                (0..6, 1) => &[3, 4],
                (0..6, _) => &[6],
                (6, 0) => &[0, 0],
                (7, 2) => &[7],
                (8, 0) | (9, 1) => &[0],
                (10, 0) => &[0, 6, 0],
                (11, 1) => &[8],
                _ => &[],
            };
            records.extend(what.iter().map(|what| record(*what, &turn, at)));
        }
    }
    records
}

/// Everything that can be asked, asked.
fn everything(store: &dyn Store) -> Vec<String> {
    let mut seen = Vec::new();
    for n in 0..8 {
        let turn = turn(n, 0);
        seen.push(format!("{:?}", good(store.read_turn(turn.key()))));
        let run = good(store.read_run(turn.session().clone(), turn.run().clone()));
        seen.push(format!("{run:?}"));
        seen.push(format!(
            "{:?}",
            good(store.find_turn(TurnId::trusted(format!("t{n}"))))
        ));
    }
    for session in [None, Some("s1")] {
        for run in [None, Some("r0")] {
            for ended in [None, Some(true), Some(false)] {
                let filter = TurnFilter {
                    session: session.map(SessionId::trusted),
                    run: run.map(RunId::trusted),
                    ended,
                    before: None,
                    limit: 3,
                };
                seen.push(format!("{:?}", pages(store, filter)));
            }
        }
    }
    seen
}

fn pages(store: &dyn Store, mut filter: TurnFilter) -> Vec<(usize, String)> {
    let mut seen = Vec::new();
    for number in 0.. {
        let page = good(store.list_turns(filter.clone()));
        seen.extend(page.turns.iter().map(|turn| (number, format!("{turn:?}"))));
        match page.next {
            Some(next) => filter.before = Some(next),
            None => break,
        }
    }
    seen
}

/// The first answer in which they differ.
fn difference(store: &dyn Store, model: &dyn Store) -> Option<(String, String)> {
    let mut both = everything(store).into_iter().zip(everything(model));
    both.find(|(one, other)| one != other)
}

fn open_turns(restored: &Restored) -> String {
    format!("{:?}", restored.open_turns)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, ..ProptestConfig::default() })]

    #[test]
    fn both_stores_answer_the_same(steps in proptest::collection::vec(step(), 1..60)) {
        let place = Place::new();
        let model = MemoryStore::new();
        let (mut store, _) = place.open();
        for (at, step) in (1..).zip(steps) {
            match step {
                Step::Write { what, turn: n, durable } => {
                    let record = record(what, &turn(n, at), at);
                    good(model.commit(std::slice::from_ref(&record)));
                    match durable {
                        true => good(store.commit(&[record])),
                        false => store.append(&[record]).unwrap(),
                    }
                }
                Step::Burst(ways) => {
                    good(model.commit(&burst(&ways, at)));
                    good(store.commit(&burst(&ways, at)));
                }
                Step::Settle => settle(&store),
                Step::Reopen => {
                    drop(store);
                    let (opened, restored) = place.open();
                    store = opened;
                    prop_assert_eq!(open_turns(&restored), open_turns(&model.restored()));
                }
                Step::Forget(before) => {
                    let forgotten = good(store.forget_turns(UnixMillis(before)));
                    prop_assert_eq!(forgotten, good(model.forget_turns(UnixMillis(before))));
                }
                Step::Compare => prop_assert_eq!(difference(&store, &model), None),
            }
        }
        prop_assert_eq!(difference(&store, &model), None);
    }
}
