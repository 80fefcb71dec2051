//! How long ended turns are kept, over the wire.
//!
//! A sidecar's clock cannot be set, so old turns are written into its store while none runs. Never waits
//! for time to pass.

use callgate::base::clock::Clock;
use callgate::store::{SqliteOptions, SqliteStore, Store};

use super::store::samples::{accepted, ended, spec};
use super::support::failure::code;
use super::support::orchestrator::Orchestrator;
use super::support::sidecar::{Setup, Sidecar};
use super::support::soon;

const DAY_MS: u64 = 24 * 3_600_000;
const MINUTE_MS: u64 = 60_000;

/// Writes turns that ended so many milliseconds ago into the store of a sidecar that has left.
async fn write_down(sidecar: &Sidecar, turns: &[(&str, u64)]) {
    let path = sidecar.data_dir().join("callgate.db");
    let (store, _) = SqliteStore::open(&path, SqliteOptions::default()).unwrap();
    let now = Clock::system().now_ms();
    for (id, age_ms) in turns {
        let turn = spec("s", id, id, now - age_ms);
        let records = vec![accepted(&turn), ended(&turn, now - age_ms)];
        store.commit(&records).await.unwrap().unwrap();
    }
    let _ = store.close().await;
}

#[tokio::test]
async fn turns_are_kept_for_their_days_after_their_end() {
    let of_days = |days: u32| Setup::default().set("retention.turns_days", days);
    let mut sidecar = of_days(3).start().await;
    sidecar.terminate().await;
    sidecar.exited().await;
    let turns = [
        ("young", 2 * DAY_MS - 10 * MINUTE_MS),
        ("old", 2 * DAY_MS + MINUTE_MS),
    ];
    write_down(&sidecar, &turns).await;
    let sidecar = sidecar.restart(of_days(3)).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    for (id, _) in turns {
        orchestrator.get_turn(id).await.unwrap();
    }
    sidecar.terminate().await;
    let sidecar = sidecar.restart(of_days(2)).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let forgotten = async {
        loop {
            if let Err(status) = orchestrator.get_turn("old").await {
                return status;
            }
        }
    };
    let status = soon("the old turn to be forgotten", forgotten).await;
    assert_eq!(code(&status), "not_found");
    let status = orchestrator.get_result("old", "one").await.unwrap_err();
    assert_eq!(code(&status), "not_found");
    orchestrator.get_turn("young").await.unwrap();
    orchestrator.get_result("young", "one").await.unwrap();
}
