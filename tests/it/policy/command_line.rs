//! `callgate explain` and `callgate rules` beside a running sidecar.
//!
//! Never about what a rule matches.

use callgate_client::pb::v1 as pb;
use pb::RuleSource;
use serde_json::json;

use super::{get, list, policy, source, texts, with_file};
use crate::rules::{shell, write};
use crate::support::executor::{Executor, hello};
use crate::support::sidecar::{Sidecar, home};
use crate::support::{soon, tools};

/// What a command says to a sidecar's neighbour: output, notes and exit code.
pub(super) async fn callgate(
    sidecar: &Sidecar,
    arguments: &[&str],
) -> (String, String, Option<i32>) {
    let sockets = sidecar.socket();
    let ran = tokio::process::Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(arguments)
        .env_clear()
        .env("HOME", sidecar.home())
        .env("CALLGATE_SOCKET_DIR", sockets.parent().unwrap())
        .output();
    let ran = soon("the command", ran).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(ran.stdout), text(ran.stderr), ran.status.code())
}

#[tokio::test]
async fn the_command_line_asks_a_running_sidecar_and_says_so() {
    let dir = home();
    let file = dir.path().join("settings.json");
    let sidecar = with_file(&file, &json!({ "deny": ["safe_shell(rm *)"] }))
        .start()
        .await;
    let tool = pb::ToolDefinition {
        risk_level: pb::RiskLevel::Safe as i32,
        ..tools::named("safe_shell", shell())
    };
    let _executor = Executor::join(&sidecar, hello("box", [tool])).await;
    // The risk is the registered one, not that of the options.
    let (out, notes, code) = callgate(&sidecar, &["explain", "safe_shell(ls)"]).await;
    assert_eq!(code, Some(0), "{notes}");
    assert!(out.starts_with("allow, by mode `default`\n"), "{out}");
    let asked = format!(
        "answered by the sidecar at unix://{}",
        sidecar.socket().display()
    );
    assert!(notes.contains(&asked), "{notes}");
    let (out, _, _) = callgate(&sidecar, &["explain", "safe_shell(rm -r x)", "--json"]).await;
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    let decided = &told["decided_by"];
    let told = ["stage", "rule", "source", "origin", "segment"].map(|key| &decided[key]);
    let expected = [
        "deny_rule",
        "safe_shell(rm *)",
        "flagSettings",
        "settings.json, rule 1",
        "rm -r x",
    ];
    assert_eq!(told, expected);
    // A tool that nobody registered is taken as the options describe it.
    let unknown = ["explain", "other(x)", "--kind", "read", "--risk", "safe"];
    let (out, notes, _) = callgate(&sidecar, &unknown).await;
    assert!(out.starts_with("allow, by mode"), "{out}");
    assert!(
        notes.contains("the sidecar knows no tool `other`"),
        "{notes}"
    );
    let (out, notes, _) = callgate(&sidecar, &["explain", "safe_shell(rm x)", "--offline"]).await;
    assert!(out.starts_with("ask, by mode"), "{out}");
    assert!(notes.contains("no sidecar was asked"), "{notes}");
    let (out, _, _) = callgate(&sidecar, &["rules", "list", "--json"]).await;
    let rule: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&rule["rule"], &rule["state"]),
        (&json!("safe_shell(rm *)"), &json!("holds"))
    );
    let (_, notes, code) = callgate(
        &sidecar,
        &["explain", "x()", "--endpoint", "unix:///nowhere/x"],
    )
    .await;
    assert_eq!(code, Some(2), "{notes}");
}

#[tokio::test]
async fn the_command_line_reloads_and_trusts_over_the_control_socket() {
    let dir = home();
    let file = dir.path().join("settings.json");
    let sidecar = with_file(&file, &json!({ "deny": ["a"] }))
        .set("permissions.workspace", dir.path().display())
        .start()
        .await;
    write(&file, &json!({ "deny": ["b"] }));
    let (_, notes, code) = callgate(&sidecar, &["rules", "reload"]).await;
    assert_eq!(code, Some(0), "{notes}");
    let listed = list(&mut policy(&sidecar).await, pb::ListRulesRequest::default()).await;
    assert_eq!(texts(&listed), ["b"]);
    write(&file, &json!({ "deny": ["b("] }));
    let (_, notes, code) = callgate(&sidecar, &["rules", "reload"]).await;
    assert_eq!(code, Some(1), "{notes}");
    assert!(notes.contains("deny rule `b(`"), "{notes}");
    write(&file, &json!({}));
    let here = dir.path().to_str().unwrap();
    let (_, notes, code) = callgate(&sidecar, &["rules", "trust", here]).await;
    assert_eq!(code, Some(0), "{notes}");
    let shown = get(&mut policy(&sidecar).await).await;
    assert!(source(&shown, RuleSource::ProjectSettings).trusted);
    let remove = ["rules", "trust", here, "--remove"];
    let (_, notes, code) = callgate(&sidecar, &remove).await;
    assert_eq!(code, Some(0), "{notes}");
    let shown = get(&mut policy(&sidecar).await).await;
    assert!(!source(&shown, RuleSource::ProjectSettings).trusted);
}
