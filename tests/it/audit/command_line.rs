//! `callgate audit` as people and scripts see it.

use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use tokio::process::Command;

use super::{admin, until_kind};
use crate::support::orchestrator::{call, turn};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{set_up, soon, tools};

/// Exit code, standard output, standard error.
pub(super) type Ran = (i32, String, String);

pub(super) async fn run(sidecar: &Sidecar, arguments: &[&str]) -> Ran {
    let child = Command::new(env!("CARGO_BIN_EXE_callgate"))
        .arg("audit")
        .args(arguments)
        .env_clear()
        .env("HOME", sidecar.home())
        .env("CALLGATE_DATA_DIR", sidecar.data_dir())
        .env("CALLGATE_SOCKET_DIR", sidecar.home().join("s"))
        .stdin(Stdio::null())
        .output();
    let output = soon("the command to end", child).await.unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let code = output.status.code().unwrap();
    (code, text(output.stdout), text(output.stderr))
}

/// A sidecar with the audit of a turn.
pub(super) async fn with_a_turn() -> Sidecar {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [tools::echo()]).await;
    let mut following = orchestrator
        .run(turn("t", [call("c", "echo", "{\"text\":\"\\u202ex\"}")]))
        .await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    following.completed().await;
    until_kind(&mut admin(&sidecar).await, "turn.ended").await;
    sidecar
}

pub(super) fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn records_are_shown_and_found() {
    let sidecar = with_a_turn().await;
    let (code, out, _) = run(&sidecar, &["tail", "-n", "1"]).await;
    assert_eq!((code, out.lines().count()), (0, 1));
    assert!(out.contains("turn.ended"), "{out}");
    let (code, out, _) = run(&sidecar, &["search", "--kind", "call", "--json"]).await;
    assert_eq!(code, 0);
    let kinds: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["kind"].clone())
        .collect();
    assert_eq!(kinds, ["call.ended", "call.decided"]);
    let (code, out, err) = run(&sidecar, &["search", "--session", "nobody"]).await;
    assert_eq!((code, out.as_str()), (1, ""));
    assert!(err.contains("no such record"), "{err}");
}

#[tokio::test]
async fn a_whole_audit_verifies_online_offline_and_as_an_export() {
    let mut sidecar = with_a_turn().await;
    let (code, out, err) = run(&sidecar, &["verify", "--online"]).await;
    assert_eq!(code, 0, "{out}{err}");
    assert!(out.starts_with("intact"), "{out}");
    // Beside a sidecar that writes.
    let (code, out, err) = run(&sidecar, &["verify"]).await;
    assert_eq!(code, 0, "{out}{err}");
    let export = sidecar.home().join("export.jsonl");
    let (code, _, err) = run(&sidecar, &["export", "--out", path(&export)]).await;
    assert_eq!(code, 0, "{err}");
    let (code, out, err) = run(&sidecar, &["verify", "--file", path(&export), "--json"]).await;
    assert_eq!(code, 0, "{out}{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["intact"], true);
    assert_eq!(report["signed_to_sequence"], report["head_sequence"]);
    sidecar.terminate().await;
    sidecar.exited().await;
    let (code, out, err) = run(&sidecar, &["verify", "--json"]).await;
    assert_eq!(code, 0, "{out}{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["signed_to_sequence"], report["head_sequence"]);
}

#[tokio::test]
async fn every_change_of_an_export_is_found() {
    let sidecar = with_a_turn().await;
    let export = sidecar.home().join("export.jsonl");
    run(&sidecar, &["export", "--out", path(&export)]).await;
    let text = std::fs::read_to_string(&export).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let joined = |lines: &[&str]| format!("{}\n", lines.join("\n"));
    let mut deleted = lines.clone();
    deleted.remove(1);
    let mut swapped = lines.clone();
    swapped.swap(1, 2);
    let mut cut = lines.clone();
    cut.remove(lines.len() - 2);
    let edited = text.replacen("turn.accepted", "turn.accepteD", 1);
    let spaced = text.replacen("\"record\":{", "\"record\": {", 1);
    let cases = [
        (joined(&deleted), "gap"),
        (joined(&swapped), "gap"),
        (joined(&cut), "truncated"),
        (edited, "altered"),
        (spaced, "altered"),
    ];
    let changed = sidecar.home().join("changed.jsonl");
    for (text, problem) in cases {
        std::fs::write(&changed, text).unwrap();
        let (code, out, err) = run(&sidecar, &["verify", "--file", path(&changed), "--json"]).await;
        assert_eq!(code, 1, "{problem}: {out}{err}");
        let report: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(report["problem"], problem, "{report}");
        assert!(report["first_bad_sequence"].as_u64().unwrap() > 0);
    }
    // What does not say how it ends cannot be told, and a checkpoint is whole or wrong.
    let unsigned = joined(&lines[..lines.len() - 1]);
    let beginning = joined(&lines[..2]);
    let last = lines.len() - 1;
    let blank = format!("{}{} \n", joined(&lines[..last]), lines[last]);
    let half = &text[..text.len() - 20];
    let behind = format!("{text}{}\n", lines[0]);
    let junk = text.replacen('\n', "\n{\"checkpoint\":junk}\n", 1);
    let cases = [
        (unsigned.as_str(), 2),
        (&beginning, 2),
        ("", 2),
        (&blank, 1),
        (half, 1),
        (&behind, 1),
        (&junk, 1),
    ];
    for (text, expected) in cases {
        std::fs::write(&changed, text).unwrap();
        let (code, out, err) = run(&sidecar, &["verify", "--file", path(&changed)]).await;
        assert_eq!(code, expected, "{text}: {out}{err}");
    }
    std::fs::write(&changed, &unsigned).unwrap();
    let part = ["verify", "--part", "--file", path(&changed)];
    assert_eq!(run(&sidecar, &part).await.0, 0);
    let nothing = sidecar.home().join("nothing");
    std::fs::write(&nothing, "\n").unwrap();
    let outside = ["verify", "--checkpoint", path(&nothing)];
    assert_eq!(run(&sidecar, &outside).await.0, 2);
    // A byte anywhere.
    for at in (0..text.len()).step_by(97) {
        let mut bytes = text.clone().into_bytes();
        bytes[at] ^= 1;
        std::fs::write(&changed, bytes).unwrap();
        let (code, out, err) = run(&sidecar, &["verify", "--file", path(&changed)]).await;
        assert_eq!(code, 1, "byte {at}: {out}{err}");
    }
}

#[tokio::test]
async fn what_cannot_be_told_and_wrong_usage_have_codes_of_their_own() {
    let sidecar = with_a_turn().await;
    let missing = sidecar.home().join("missing.jsonl");
    let (code, _, _) = run(&sidecar, &["verify", "--file", path(&missing)]).await;
    assert_eq!(code, 2);
    let (code, _, err) = run(&sidecar, &["verify", "--public-key", "abc"]).await;
    assert_eq!(code, 64, "{err}");
    let (code, _, _) = run(&sidecar, &["tail", "-n", "1001"]).await;
    assert_eq!(code, 64);
    let (code, _, _) = run(&sidecar, &["tail", "-n", "1000"]).await;
    assert_eq!(code, 0);
}
