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
pub(super) fn shell() -> pb::ToolDefinition {
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

/// A sidecar that nobody can be asked by.
fn alone() -> Setup {
    Setup::default().set("approvals.approvers", "none")
}

pub(super) fn write(path: &Path, permissions: &serde_json::Value) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, json!({ "permissions": permissions }).to_string()).unwrap();
}

pub(super) async fn connect(sidecar: &Sidecar) -> (Executor, Orchestrator) {
    let executor = Executor::join(sidecar, hello("box", [shell(), tools::echo()])).await;
    (executor, Orchestrator::connect(sidecar).await)
}

pub(super) fn command(id: &str, command: &str) -> pb::ToolCall {
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
    let setup = alone().set("permissions.settings_file", file.display());
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
    let setup = alone().set("permissions.settings_file", file.display());
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
    let setup = alone().set("permissions.settings_file", file.display());
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
    let setup = alone()
        .set("loop.enabled", false)
        .set("permissions.workspace", workspace.path().display());
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
    let setup = alone().set("permissions.default_mode", "plan");
    let sidecar = setup.start().await;
    let (_executor, orchestrator) = connect(&sidecar).await;
    let completed = orchestrator
        .run_to_end(turn("t", [command("a", "ls")]))
        .await;
    assert_eq!(code_of(&completed, "a"), "tool_denied_by_mode");
}

/// What a command prints to standard output, and its exit code.
fn callgate(arguments: &[&str], home: &Path) -> (String, Option<i32>) {
    let ran = Command::new(env!("CARGO_BIN_EXE_callgate"))
        .args(arguments)
        .env_clear()
        .env("HOME", home)
        .output()
        .unwrap();
    (String::from_utf8(ran.stdout).unwrap(), ran.status.code())
}

#[test]
fn a_call_is_explained_by_stage_rule_and_source() {
    let dir = home();
    let file = dir.path().join("settings.json");
    write(
        &file,
        &json!({
            "allow": ["run_shell(git *)", "write(//data/**)"],
            "deny": ["run_shell(git push *)"],
        }),
    );
    let settings = file.to_str().unwrap();
    let explain = |call: &str, more: &[&str]| {
        let base = ["explain", call, "--json", "--settings", settings];
        let (out, code) = callgate(&[&base[..], more].concat(), dir.path());
        assert_eq!(code, Some(0), "{out}");
        serde_json::from_str::<serde_json::Value>(&out).unwrap()
    };
    let denied = explain("run_shell(git push origin main)", &[]);
    assert_eq!(denied["verdict"], "deny");
    assert_eq!(denied["asked"], "files");
    let decided = &denied["decided_by"];
    let told = ["stage", "rule", "source", "segment", "because"].map(|key| &decided[key]);
    let reason = format!(
        "deny rule `run_shell(git push *)` of flagSettings `{settings}`, rule 1, \
         met by `git push origin main`"
    );
    let expected = [
        "deny_rule",
        "run_shell(git push *)",
        "flagSettings",
        "git push origin main",
        &reason,
    ];
    assert_eq!(told, expected);
    assert_eq!(explain("run_shell(git log)", &[])["verdict"], "allow");
    assert_eq!(explain("run_shell(make)", &[])["verdict"], "ask");
    // Every part counts: one that is denied denies all, one that nobody allows asks.
    for (command, verdict) in [
        ("git log && sudo git push", "deny"),
        ("git log | grep \"$(git push origin)\"", "deny"),
        ("bash -c 'git push -f'", "deny"),
        ("git log && git diff", "allow"),
        ("git log | sh", "ask"),
        ("cd /elsewhere && git log", "ask"),
        ("git log > /etc/passwd", "ask"),
    ] {
        let call = format!("run_shell({command})");
        assert_eq!(explain(&call, &[])["verdict"], verdict, "{command}");
    }
    // What only an executor can say is told.
    let path = ["--subject", "path", "--kind", "edit"];
    let asked = explain("write(/data/a)", &path);
    assert_eq!(asked["verdict"], "ask");
    let mut steps = asked["steps"].as_array().unwrap().iter();
    let allow = steps.find(|step| step["stage"] == "allow_rule").unwrap();
    let note = allow["note"].as_str().unwrap();
    assert!(
        note.contains("`write(//data/**)`") && note.contains("no link"),
        "{note}"
    );
    let other = explain("write(/etc/a)", &path);
    assert!(!other.to_string().contains("no link"), "{other}");
    let planned = explain("run_shell(make)", &["--mode", "plan"]);
    assert_eq!(planned["decided_by"]["stage"], "mode_block");
    let (_, code) = callgate(&["explain", "run_shell(ls)", "--mode", "none"], dir.path());
    assert_eq!(code, Some(64));
}

#[test]
fn rules_are_checked_and_listed() {
    let dir = home();
    let file = dir.path().join("settings.json");
    let path = file.to_str().unwrap();
    write(
        &file,
        &json!({ "allow": ["run_shell(bash *)"], "deny": ["delete_*"] }),
    );
    let (out, code) = callgate(&["rules", "check", path], dir.path());
    assert_eq!(code, Some(0), "{out}");
    assert!(out.contains("rule_prefix_too_wide"), "{out}");
    let set = format!("permissions.settings_file={path}");
    let (out, code) = callgate(&["rules", "list", "--json", "--set", &set], dir.path());
    assert_eq!(code, Some(0));
    let listed: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let texts: Vec<_> = listed
        .iter()
        .map(|rule| rule["rule"].as_str().unwrap())
        .collect();
    assert_eq!(texts, ["run_shell(bash *)", "delete_*"]);
    write(&file, &json!({ "allow": ["echo("] }));
    let (out, code) = callgate(&["rules", "check", path], dir.path());
    assert_eq!(code, Some(1));
    assert!(
        out.starts_with("invalid: allow `echo(` of flagSettings"),
        "{out}"
    );
    write(&file, &json!({ "deny": ["echo("] }));
    let (out, code) = callgate(&["rules", "check", path], dir.path());
    assert_eq!(code, Some(1));
    assert!(
        out.starts_with("invalid: deny `echo(` of flagSettings"),
        "{out}"
    );
}
