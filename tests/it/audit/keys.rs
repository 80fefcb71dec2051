//! What is signed: who may read the key, what is said when it was lost, and where heads are kept outside.
//!
//! Never waits for a clock.

use std::os::unix::fs::PermissionsExt;

use callgate::store::signer::Signer;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::server_service_client::ServerServiceClient;
use serde_json::Value;

use super::admin;
use super::command_line::{run, with_a_turn};
use crate::support::orchestrator::turn;
use crate::support::sidecar::{Setup, Sidecar, home, refuses_to_start};
use crate::support::{set_up, tools};

#[tokio::test]
async fn what_a_lost_key_signed_cannot_be_told_without_its_public_half() {
    let mut sidecar = with_a_turn().await;
    sidecar.terminate().await;
    sidecar.exited().await;
    let path = sidecar.data_dir().join("audit.key");
    let former = Signer::public_key_in(&path).unwrap().unwrap();
    std::fs::remove_file(&path).unwrap();
    // Neither without a key nor with a new one.
    let (code, out, err) = run(&sidecar, &["verify"]).await;
    assert_eq!(code, 2, "{out}{err}");
    let sidecar = sidecar.restart(Setup::default()).await;
    let log = sidecar.log();
    let warned = log
        .lines()
        .find(|line| line.contains("a new audit key was made"));
    assert!(warned.is_some_and(|line| line.contains("WARN")), "{log}");
    for which in [&["verify", "--json"] as &[&str], &["verify"]] {
        let (code, out, err) = run(&sidecar, which).await;
        assert_eq!(code, 2, "{out}{err}");
        assert!(err.contains("not trusted here"), "{err}");
        assert!(!out.contains("broken"), "{out}");
    }
    let (_, out, _) = run(&sidecar, &["verify", "--json"]).await;
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["intact"], false);
    assert_eq!(report["problem"], Value::Null);
    assert_eq!(report["first_bad_sequence"], 0);
    let (code, out, err) = run(&sidecar, &["verify", "--online"]).await;
    assert_eq!(code, 2, "{out}{err}");
    let key: String = former.iter().map(|byte| format!("{byte:02x}")).collect();
    let (code, out, err) = run(&sidecar, &["verify", "--public-key", &key]).await;
    assert_eq!(code, 0, "{out}{err}");
    // Trusted here from now on, and nothing more to warn of.
    sidecar.terminate().await;
    let trusted = format!("[\"{key}\"]");
    let warnings = log.matches("audit key").count();
    let trusting = Setup::default().set("audit.trusted_keys", trusted);
    let sidecar = sidecar.restart(trusting).await;
    let (code, out, err) = run(&sidecar, &["verify", "--online"]).await;
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(sidecar.log().matches("audit key").count(), warnings);
}

#[tokio::test]
async fn a_key_that_others_may_read_stops_the_start() {
    let home = home();
    let data = home.path().join("d");
    std::fs::create_dir(&data).unwrap();
    let path = data.join("audit.key");
    Signer::open(&path).unwrap();
    for mode in [0o644, 0o640] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let (code, log) = refuses_to_start(Setup::default(), home.path()).await;
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains(&format!("has mode {mode:04o}")), "{log}");
        assert!(log.contains("`chmod 600 "), "{log}");
    }
}

#[tokio::test]
async fn a_key_that_only_its_owner_may_read_serves() {
    let mut sidecar = with_a_turn().await;
    let path = sidecar.data_dir().join("audit.key");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    sidecar.terminate().await;
    sidecar.exited().await;
    let sidecar = sidecar.restart(Setup::default()).await;
    let (code, out, err) = run(&sidecar, &["verify", "--online"]).await;
    assert_eq!(code, 0, "{out}{err}");
}

async fn not_kept(sidecar: &Sidecar) -> u64 {
    let mut server = ServerServiceClient::new(sidecar.channel().await);
    let asked = pb::GetServerInfoRequest {};
    let info = server.get_server_info(asked).await.unwrap().into_inner();
    info.checkpoints_not_kept
}

#[tokio::test]
async fn a_file_for_heads_that_cannot_be_written_stops_the_start() {
    let home = home();
    let missing = home.path().join("missing/kept.jsonl");
    for file in [missing.as_path(), home.path()] {
        let setup = Setup::default().set("audit.checkpoint_file", file.display());
        let (code, log) = refuses_to_start(setup, home.path()).await;
        assert_eq!(code, Some(2), "{log}");
        assert!(log.contains("`audit.checkpoint_file`"), "{log}");
        assert!(log.contains(&file.display().to_string()), "{log}");
    }
}

#[tokio::test]
async fn heads_that_cannot_be_kept_any_more_are_counted() {
    let dir = home();
    let folder = dir.path().join("outside");
    std::fs::create_dir(&folder).unwrap();
    let file = folder.join("kept.jsonl");
    let setup = Setup::default().set("audit.checkpoint_file", file.display());
    let (sidecar, _executor, orchestrator) = set_up(setup, [tools::echo()]).await;
    let sign = async |id: &str| {
        orchestrator.run_to_end(turn(id, [])).await;
        let mut client = admin(&sidecar).await;
        let export = client.export_audit(pb::ExportAuditRequest::default()).await;
        let mut export = export.unwrap().into_inner();
        while export.message().await.unwrap().is_some() {}
    };
    sign("a").await;
    assert_eq!(not_kept(&sidecar).await, 0);
    let kept = std::fs::read_to_string(&file).unwrap();
    assert_eq!(kept.lines().count(), 1);
    std::fs::remove_dir_all(&folder).unwrap();
    sign("b").await;
    assert_eq!(not_kept(&sidecar).await, 1);
    let log = sidecar.log();
    let said = log.lines().find(|line| line.contains("not kept outside"));
    assert!(said.is_some_and(|line| line.contains("ERROR")), "{log}");
    // It goes on where it can.
    std::fs::create_dir(&folder).unwrap();
    sign("c").await;
    assert_eq!(not_kept(&sidecar).await, 1);
    let kept = std::fs::read_to_string(&file).unwrap();
    assert_eq!(kept.lines().count(), 1);
}
