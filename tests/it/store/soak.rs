//! Very many audit records over several segments, written and verified. `make soak` asks for a million.
//!
//! Ends by itself, whatever it finds.

use std::sync::Arc;

use callgate::base::clock::Clock;
use callgate::store::audit::AuditOptions;
use callgate::store::audit_check::{Check, Range};
use callgate::store::signer::Signer;
use callgate::store::{SqliteAudit, SqliteOptions, SqliteStore, Store};

use super::samples::*;

/// Records without a wish for more.
const RECORDS: u64 = 20_000;
/// Turns of one commit, and what the audit says of each: accepted, two ends of calls, ended.
const TURNS: u64 = 50;
const OF_A_TURN: u64 = 4;

#[expect(
    clippy::print_stdout,
    reason = "`make soak` is asked for how long it took"
)]
fn tell(text: &str) {
    println!("{text}");
}

#[test]
fn very_many_records_are_written_and_verified() {
    let wanted = std::env::var("CALLGATE_SOAK_RECORDS").ok();
    let wanted = wanted.map_or(RECORDS, |text| text.parse().unwrap());
    let (place, clock) = (Place::new(), Clock::system());
    let signer = Signer::open(&place.path().with_file_name("audit.key")).unwrap();
    let trusted = [signer.public_key()];
    let options = SqliteOptions {
        audit: AuditOptions {
            segment_records_max: wanted / 4,
            signer: Some(Arc::new(signer)),
            ..AuditOptions::default()
        },
        ..SqliteOptions::default()
    };
    let (store, _) = SqliteStore::open(&place.path(), options).unwrap();
    let begun = clock.now_ms();
    let mut written = 0;
    while written < wanted {
        let turns = (0..TURNS).map(|n| spec("soak", &format!("t{written}-{n}"), "r", n));
        let records: Vec<_> = turns
            .flat_map(|turn| [accepted(&turn), ended(&turn, 1)])
            .collect();
        good(store.commit(&records));
        written += TURNS * OF_A_TURN;
    }
    good(store.close());
    let write_ms = clock.now_ms().saturating_sub(begun);
    let begun = clock.now_ms();
    let audit = SqliteAudit::open(&place.path()).unwrap();
    let checkpoints = audit.checkpoints(u64::MAX, 1_000_000).unwrap();
    let mut check = Check::new(Range::default(), &checkpoints, &trusted);
    while let Some(ask) = check.ask() {
        check.take(&audit.read(&ask).unwrap());
    }
    let report = check.report();
    let verify_ms = clock.now_ms().saturating_sub(begun);
    assert_eq!((report.broken, report.checked), (None, written));
    assert_eq!(report.signed_to, written);
    tell(&format!(
        "{written} audit records: written in {write_ms} ms, verified in {verify_ms} ms, {} checkpoints",
        report.checkpoints
    ));
}
