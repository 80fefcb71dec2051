//! Rules over the wire: from their files to what becomes of calls.
//!
//! What a rule matches is the permission vectors' business, never this file's.

use std::path::Path;
use std::process::Command;

use callgate_client::pb::v1 as pb;
use serde_json::json;

use super::support::executor::{Executor, hello};
use super::support::orchestrator::{Orchestrator, call, code_of, result_of, turn};
use super::support::sidecar::{Setup, Sidecar, home, refuses_to_start};
use super::support::{soon, tools};

/// A tool of commands.
fn shell() -> pb::ToolDefinition {
    pb::ToolDefinition {
        name: "run_shell".to_owned(),
        risk_level: pb::RiskLevel::Sensitive as i32,
        kind: pb::ToolKind::Execute as i32,
        subject: Some(pb::Subject {
            pointer: "/command".to_owned(),
            subject_type: pb::SubjectType::Command as i32,
            dialect: String::new(),
        }),
        ..tools::echo()
    }
}

fn write(path: &Path, permissions: &serde_json::Value) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, json!({ "permissions": permissions }).to_string()).unwrap();
}

async fn connect(sidecar: &Sidecar) -> (Executor, Orchestrator) {
    let executor = Executor::join(sidecar, hello("box", [shell(), tools::echo()])).await;
    (executor, Orchestrator::connect(sidecar).await)
}

fn command(id: &str, command: &str) -> pb::ToolCall {
    call(id, "run_shell", &json!({ "command": command }).to_string())
}

async fn listed(orchestrator: &Orchestrator) -> Vec<String> {
    let request = pb::ListToolsRequest::default();
    let mut registry = orchestrator.registry.clone();
    let answer = soon("the tools", registry.list_tools(request))
        .await
        .unwrap();
    let tools = answer.into_inner().tools.into_iter();
    tools.map(|tool| tool.definition.unwrap().name).collect()
}

#[tokio::test]
async fn rules_of_a_file_allow_and_deny_commands() {
    let dir = home();
    let file = dir.path().join("settings.json");
    write(
        &file,
        &json!({
            "allow": ["run_shell(git *)"],
            "deny": [{"rule": "run_shell(git push *)", "message": "pushing is for people"}],
        }),
    );
    let setup = Setup::default().set("permissions.settings_file", file.display());
    let sidecar = setup.start().await;
    let (mut executor, orchestrator) = connect(&sidecar).await;
    let mut events = orchestrator
        .run(turn(
            "t",
            [
                command("ok", "git status"),
                command("no", "git push origin main"),
                command("ask", "make"),
            ],
        ))
        .await;
    let work = executor.work().await;
    assert_eq!(work.call_id, "ok");
    executor.answer_text(&work, "clean").await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "ok"), "");
    assert_eq!(code_of(&completed, "no"), "tool_denied_by_rule");
    assert_eq!(code_of(&completed, "ask"), "approval_unavailable");
    let denied = result_of(&completed, "no");
    assert_eq!(
        denied.not_executed_reason(),
        pb::NotExecutedReason::DeniedByRule
    );
    let error = denied.error.clone().unwrap();
    assert_eq!(error.message_for_model, "pushing is for people");
    assert!(
        error.detail.contains("run_shell(git push *)"),
        "{}",
        error.detail
    );
}

#[tokio::test]
async fn a_rule_that_is_added_holds_for_calls_that_wait() {
    let dir = home();
    let file = dir.path().join("settings.json");
    write(&file, &json!({}));
    let setup = Setup::default().set("permissions.settings_file", file.display());
    let sidecar = setup.start().await;
    let narrow = pb::Hello {
        max_concurrent_executions: 1,
        ..hello("box", [tools::echo()])
    };
    let mut executor = Executor::join(&sidecar, narrow).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut first = orchestrator
        .run(turn("first", [call("a", "echo", "{}")]))
        .await;
    let work = executor.work().await;
    let mut waits = orchestrator
        .run(turn("waits", [call("b", "echo", "{}")]))
        .await;
    assert_eq!(listed(&orchestrator).await, ["echo"]);
    write(&file, &json!({ "deny": ["echo"] }));
    assert_eq!(
        code_of(&waits.completed().await, "b"),
        "tool_denied_by_rule"
    );
    // What runs goes on, and nobody is shown the tool any more.
    executor.answer_text(&work, "done").await;
    assert_eq!(code_of(&first.completed().await, "a"), "");
    assert_eq!(listed(&orchestrator).await, Vec::<String>::new());
}

#[tokio::test]
async fn a_broken_deny_rule_leaves_the_last_good_rules_in_place() {
    let dir = home();
    let file = dir.path().join("settings.json");
    write(&file, &json!({ "deny": ["echo"] }));
    let setup = Setup::default().set("permissions.settings_file", file.display());
    let sidecar = setup.start().await;
    let (_executor, orchestrator) = connect(&sidecar).await;
    write(&file, &json!({ "deny": ["echo(", "run_shell"] }));
    let read = async {
        while !sidecar.log().contains("rules are not taken") {
            listed(&orchestrator).await;
        }
    };
    soon("the rules to be read", read).await;
    let completed = orchestrator
        .run_to_end(turn("t", [call("a", "echo", "{}")]))
        .await;
    assert_eq!(code_of(&completed, "a"), "tool_denied_by_rule");
}

#[tokio::test]
async fn a_broken_deny_rule_refuses_the_start_and_a_broken_allow_rule_does_not() {
    let deny = Setup::default().set("permissions.deny", "[\"echo(\"]");
    let dir = home();
    let (code, said) = refuses_to_start(deny, dir.path()).await;
    assert_eq!(code, Some(2));
    assert!(said.contains("deny rule `echo(`"), "{said}");
    let allow = Setup::default().set("permissions.allow", "[\"echo(\"]");
    let sidecar = allow.start().await;
    assert!(sidecar.log().contains("allow rule left out"));
}

#[tokio::test]
async fn allow_rules_of_a_workspace_hold_once_it_is_trusted() {
    let workspace = home();
    write(
        &workspace.path().join(".callgate/settings.json"),
        &json!({ "allow": ["run_shell(git *)"] }),
    );
    let setup = Setup::default().set("permissions.workspace", workspace.path().display());
    let sidecar = setup.start().await;
    let (mut executor, orchestrator) = connect(&sidecar).await;
    let completed = orchestrator
        .run_to_end(turn("t1", [command("a", "git log")]))
        .await;
    assert_eq!(code_of(&completed, "a"), "approval_unavailable");
    let trusted = Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(["rules", "trust"])
        .arg(workspace.path())
        .arg("--data-dir")
        .arg(sidecar.data_dir())
        .status()
        .unwrap();
    assert!(trusted.success());
    let holds = async {
        for number in 2.. {
            let id = format!("t{number}");
            let mut events = orchestrator.run(turn(&id, [command("a", "git log")])).await;
            tokio::select! {
                completed = events.completed() => {
                    assert_eq!(code_of(&completed, "a"), "approval_unavailable");
                }
                work = executor.work() => return work,
            }
        }
        unreachable!("turns do not run out")
    };
    let work = soon("the rule to hold", holds).await;
    assert_eq!(work.tool_name, "run_shell");
}

#[tokio::test]
async fn plan_mode_lets_only_safe_tools_run() {
    let setup = Setup::default().set("permissions.default_mode", "plan");
    let sidecar = setup.start().await;
    let (_executor, orchestrator) = connect(&sidecar).await;
    let completed = orchestrator
        .run_to_end(turn("t", [command("a", "ls")]))
        .await;
    assert_eq!(code_of(&completed, "a"), "tool_denied_by_mode");
}
