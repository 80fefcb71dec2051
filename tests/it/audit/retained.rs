//! An audit whose begin retention dropped, verified as a store and as an export.
//!
//! A sidecar's clock cannot be set, so segments are dropped from its store while none runs. Never waits for
//! time to pass.

use std::sync::Arc;

use callgate::gate::ids::UnixMillis;
use callgate::store::audit::AuditOptions;
use callgate::store::signer::Signer;
use callgate::store::{SqliteOptions, SqliteStore, Store};
use serde_json::Value;

use super::command_line::{path, run, with_a_turn};
use crate::store::samples::{accepted, good, spec};
use crate::support::sidecar::{Setup, Sidecar};

/// A running sidecar whose retention dropped segments, more than once.
async fn retained() -> Sidecar {
    let mut sidecar = with_a_turn().await;
    sidecar.terminate().await;
    sidecar.exited().await;
    let dir = sidecar.data_dir();
    let audit = AuditOptions {
        segment_records_max: 2,
        signer: Some(Arc::new(Signer::open(&dir.join("audit.key")).unwrap())),
        ..AuditOptions::default()
    };
    let options = SqliteOptions {
        audit,
        ..SqliteOptions::default()
    };
    let store = dir.join("callgate.db");
    let drop_old = move || {
        let (store, _) = SqliteStore::open(&store, options).unwrap();
        for n in 0..5 {
            let turn = spec("s", &format!("t{n}"), "r", n);
            good(store.commit(&[accepted(&turn)]));
        }
        let dropped = good(store.forget_audit(UnixMillis(u64::MAX >> 1)));
        assert!(dropped > 1, "{dropped}");
        for n in 5..8 {
            let turn = spec("s", &format!("t{n}"), "r", n);
            good(store.commit(&[accepted(&turn)]));
        }
        good(store.close());
    };
    tokio::task::spawn_blocking(drop_old).await.unwrap();
    sidecar.restart(Setup::default()).await
}

/// What `verify` says of an export with these lines.
async fn verified(sidecar: &Sidecar, lines: &[&str], more: &[&str]) -> (i32, Value) {
    let file = sidecar.home().join("changed.jsonl");
    std::fs::write(&file, format!("{}\n", lines.join("\n"))).unwrap();
    let arguments = [&["verify", "--json", "--file", path(&file)], more].concat();
    let (code, out, err) = run(sidecar, &arguments).await;
    let report = serde_json::from_str(&out).unwrap_or_else(|_| Value::from(err));
    (code, report)
}

fn sequence_of(line: &str) -> u64 {
    let line: Value = serde_json::from_str(line).unwrap();
    line["sequence"].as_u64().unwrap()
}

/// Everything that is kept, as `export` writes it.
async fn exported(sidecar: &Sidecar) -> String {
    let export = sidecar.home().join("export.jsonl");
    run(sidecar, &["export", "--out", path(&export)]).await;
    std::fs::read_to_string(&export).unwrap()
}

#[tokio::test]
async fn what_retention_dropped_is_missed_nowhere_and_told_everywhere() {
    let sidecar = retained().await;
    let export = sidecar.home().join("export.jsonl");
    let (code, _, err) = run(&sidecar, &["export", "--out", path(&export)]).await;
    assert_eq!(code, 0, "{err}");
    let text = std::fs::read_to_string(&export).unwrap();
    let dropped = sequence_of(text.lines().next().unwrap()) - 1;
    assert!(dropped > 2, "{dropped}");
    let said = format!("older records, 1 to {dropped}, were dropped by retention");
    for which in [
        &["verify", "--file", path(&export)] as &[&str],
        &["verify"],
        &["verify", "--online"],
    ] {
        let (code, out, err) = run(&sidecar, which).await;
        assert_eq!(code, 0, "{which:?}: {out}{err}");
        assert!(out.starts_with("intact"), "{out}");
        assert!(out.contains(&said), "{out}");
        let (_, out, _) = run(&sidecar, &[which, &["--json"]].concat()).await;
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(report["intact"], true);
        assert_eq!(report["first_kept_sequence"], dropped + 1);
        assert_eq!(report["dropped_to_sequence"], dropped);
    }
}

#[tokio::test]
async fn a_cut_off_begin_is_no_retention() {
    let sidecar = retained().await;
    let text = exported(&sidecar).await;
    let lines: Vec<&str> = text.lines().collect();
    let first = sequence_of(lines[0]);
    // Every head of it may have been signed and kept by whoever cuts.
    let signer = Signer::open(&sidecar.data_dir().join("audit.key")).unwrap();
    let kept = sidecar.home().join("kept.jsonl");
    let heads = lines[..lines.len() - 1].iter().map(|line| {
        let line = callgate::gate::audit::Line::read(&(*line).to_owned().into()).unwrap();
        let head = callgate::gate::audit::Head {
            sequence: line.sequence,
            hash: line.hash,
        };
        [signer.sign(head, UnixMillis(1)).to_json(), b"\n".to_vec()].concat()
    });
    std::fs::write(&kept, heads.collect::<Vec<_>>().concat()).unwrap();
    let outside = ["--checkpoint", path(&kept)];
    for cut in 1..lines.len() - 1 {
        let (code, report) = verified(&sidecar, &lines[cut..], &[]).await;
        assert_eq!(code, 1, "{cut}: {report}");
        assert_eq!(report["problem"], "gap", "{report}");
        let missing = report["first_bad_sequence"].as_u64().unwrap();
        assert!(missing == 1 || missing == first, "{report}");
        assert_eq!(report["dropped_to_sequence"], 0);
        // With signed heads from before the cut it is what it is.
        let (code, report) = verified(&sidecar, &lines[cut..], &outside).await;
        assert_eq!(code, 1, "{cut}: {report}");
        let (code, report) = verified(&sidecar, &lines[cut..], &["--part"]).await;
        assert_eq!(
            (code, &report["intact"]),
            (0, &Value::from(true)),
            "{report}"
        );
        assert_eq!(report["dropped_to_sequence"], 0);
    }
    // Nor can it be told where nothing is signed.
    let (code, report) = verified(&sidecar, &lines[..lines.len() - 1], &[]).await;
    assert_eq!(code, 2, "{report}");
}

#[tokio::test]
async fn a_record_has_its_own_number_wherever_the_export_begins() {
    let sidecar = retained().await;
    let text = exported(&sidecar).await;
    let lines: Vec<&str> = text.lines().collect();
    let first = sequence_of(lines[0]);
    for place in [0, 2] {
        let spaced = lines[place].replacen("\"record\":{", "\"record\": {", 1);
        let mut changed = lines.clone();
        changed[place] = &spaced;
        let (code, report) = verified(&sidecar, &changed, &[]).await;
        assert_eq!((code, &report["problem"]), (1, &Value::from("altered")));
        let expected = first + place as u64;
        assert_eq!(report["first_bad_sequence"], expected, "{report}");
    }
}
