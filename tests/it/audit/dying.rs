//! A sidecar that dies between two steps: the chain stays whole, and no fact lacks its record.

use std::collections::BTreeSet;
use std::path::Path;

use callgate::store::audit::AuditAsk;
use callgate::store::audit_check::{Check, Range};
use callgate::store::{SqliteAudit, SqliteOptions, SqliteStore, Store, TurnFilter};

use crate::support::executor::{Executor, hello};
use crate::support::orchestrator::{Orchestrator, call, turn};
use crate::support::sidecar::Setup;
use crate::support::tools;

/// The turns and calls of which the audit holds that kind of record.
fn said(path: &Path, kind: &str) -> BTreeSet<(String, String)> {
    let audit = SqliteAudit::open(path).unwrap();
    let mut ask = AuditAsk {
        limit: 1_000,
        bytes_max: usize::MAX,
        ..AuditAsk::default()
    };
    let mut found = BTreeSet::new();
    loop {
        let slice = audit.read(&ask).unwrap();
        let members = slice.rows.iter().map(|row| row.members().unwrap());
        let of_kind = members.filter(|members| members.kind == kind);
        found.extend(of_kind.map(|members| (members.turn, members.call)));
        match slice.next {
            Some(next) => ask.from = next,
            None => return found,
        }
    }
}

fn is_whole(path: &Path) -> bool {
    let audit = SqliteAudit::open(path).unwrap();
    let mut check = Check::new(Range::default(), &[], &[]);
    while let Some(ask) = check.ask() {
        check.take(&audit.read(&ask).unwrap());
    }
    check.report().broken.is_none()
}

/// Every turn that the store knows has its records.
async fn facts_have_records(path: &Path) {
    let (accepted, ended) = (said(path, "turn.accepted"), said(path, "turn.ended"));
    let (dispatched, ends) = (said(path, "call.dispatched"), said(path, "call.ended"));
    let (store, _) = SqliteStore::open(path, SqliteOptions::default()).unwrap();
    let all = TurnFilter {
        limit: 1_000,
        ..TurnFilter::default()
    };
    let page = store.list_turns(all).await.unwrap().unwrap();
    for stored in page.turns {
        let id = stored.spec.request.turn.to_string();
        let calls = &stored.spec.request.calls;
        let call = |at: usize| (id.clone(), calls[at].call.call_id.to_string());
        assert!(accepted.contains(&(id.clone(), String::new())), "{id}");
        for intent in &stored.dispatched {
            assert!(dispatched.contains(&call(intent.call.get())), "{id}");
        }
        for (index, _) in &stored.results {
            assert!(ends.contains(&call(index.get())), "{id}");
        }
        if stored.completed.is_some() {
            assert!(ended.contains(&(id.clone(), String::new())), "{id}");
        }
    }
    let _ = store.close().await;
}

/// One that leaves at once, whatever still runs.
fn hasty() -> Setup {
    Setup::default().set("server.drain_ms", 0)
}

#[tokio::test]
async fn the_chain_is_whole_wherever_the_sidecar_dies() {
    for (point, at) in [
        ("store.before_commit", 3),
        ("store.after_commit", 3),
        ("store.before_commit", 5),
        ("store.after_commit", 6),
        ("engine.effect", 9),
    ] {
        let setup = hasty().failpoint(point, at);
        let (mut sidecar, serves) = setup.launch().await;
        let path = sidecar.data_dir().join("callgate.db");
        if serves {
            let mut executor = Executor::join(&sidecar, hello("box", [tools::write()])).await;
            let orchestrator = Orchestrator::connect(&sidecar).await;
            for number in 0..6 {
                let request = turn(&format!("t{number}"), [call("c", "write", "{}")]);
                if orchestrator.try_run(request).await.is_err() {
                    break;
                }
                match executor.hear().await {
                    Ok(_) => {}
                    Err(_) => break,
                }
            }
        }
        sidecar.terminate_if_alive().await;
        sidecar.exited().await;
        assert!(is_whole(&path), "{point} {at}");
        facts_have_records(&path).await;
        // The next process goes on with it.
        let sidecar = sidecar.restart(hasty()).await;
        sidecar.terminate().await;
        let mut sidecar = sidecar;
        sidecar.exited().await;
        assert!(is_whole(&path), "{point} {at} after a restart");
    }
}
