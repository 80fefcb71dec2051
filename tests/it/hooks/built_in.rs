//! Hooks that need no process: the six examples of a pre-tool-use hook, and what else they can say.
//!
//! Declared in the configuration, as a user would.

use callgate_client::pb::v1 as pb;
use serde_json::json;

use super::listed;
use crate::support::approver::{Approver, choose, code};
use crate::support::orchestrator::{call, code_of, result_of, text_of, turn};
use crate::support::sidecar::{Setup, home, refuses_to_start};
use crate::support::{set_up, tools};

fn tool(name: &str, schema: &str) -> pb::ToolDefinition {
    pb::ToolDefinition {
        parameters_json: schema.to_owned().into(),
        ..tools::named(name, tools::edit())
    }
}

fn with(hooks: &str) -> Setup {
    // Nobody can be asked, so that an ask shows at once.
    let setup = Setup::default().set("approvals.approvers", "none");
    setup.set("hooks.builtin", hooks)
}

const ALL: &str = r#"{ then = "allow", order = 9 }"#;

#[tokio::test]
async fn every_tool_is_allowed() {
    let setup = with(&format!("[{ALL}]"));
    let (sidecar, mut executor, orchestrator) = set_up(setup, [tools::edit()]).await;
    let mut events = orchestrator.run(turn("t", [call("c", "edit", "{}")])).await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    assert_eq!(text_of(result_of(&events.completed().await, "c")), "done");
    let hooks = listed(&sidecar).await;
    assert!(hooks[0].built_in && hooks[0].connected);
    assert_eq!((hooks[0].runs, hooks[0].failures), (1, 0));
}

#[tokio::test]
async fn a_dangerous_tool_is_not_allowed_by_a_hook_unless_that_is_configured() {
    for (covers, expected) in [(false, "approval_unavailable"), (true, "")] {
        let setup = with(&format!("[{ALL}]")).set("hooks.allow_covers_dangerous", covers);
        let (_sidecar, mut executor, orchestrator) = set_up(setup, [tools::erase()]).await;
        let mut events = orchestrator
            .run(turn("t", [call("c", "erase", "{}")]))
            .await;
        if covers {
            let work = executor.work().await;
            executor.answer_text(&work, "done").await;
        }
        assert_eq!(code_of(&events.completed().await, "c"), expected);
    }
}

/// Runs commands; nobody need be asked.
fn shell() -> pb::ToolDefinition {
    pb::ToolDefinition {
        risk_level: pb::RiskLevel::Safe as i32,
        kind: pb::ToolKind::Execute as i32,
        subject: Some(pb::Subject {
            pointer: "/command".to_owned(),
            subject_type: pb::SubjectType::Command as i32,
            dialect: String::new(),
        }),
        ..tool(
            "shell",
            r#"{"type":"object","properties":{"command":{"type":"string"}}}"#,
        )
    }
}

/// The code of one call of a shell under these settings. Empty: it was sent.
async fn code_of_command(setup: Setup, command: &str) -> String {
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [shell()]).await;
    let arguments = json!({ "command": command }).to_string();
    let turn = turn("t", [call("c", "shell", &arguments)]);
    let mut events = orchestrator.run(turn).await;
    let completed = tokio::select! {
        completed = events.completed() => completed,
        _ = executor.work() => return String::new(),
    };
    code_of(&completed, "c").to_owned()
}

#[tokio::test]
async fn a_hooks_rules_mean_every_command_that_a_deny_rule_means() {
    let commands = [
        ("rm x", true),
        ("sudo rm x", true),
        ("timeout 5 rm x", true),
        ("busybox rm x", true),
        ("ls && xargs rm", true),
        ("/bin/rm x", true),
        ("bash -c 'rm x'", true),
        ("ssh host rm x", true),
        ("python3 -c \"import os; os.system('rm x')\"", true),
        ("git status", false),
    ];
    for (command, is_denied) in commands {
        let hook = with(r#"[{ rules = ["shell(rm *)"], then = "deny" }]"#);
        let expected = if is_denied { "tool_denied_by_hook" } else { "" };
        assert_eq!(code_of_command(hook, command).await, expected, "{command}");
        let rule = Setup::default()
            .set("approvals.approvers", "none")
            .set("permissions.deny", r#"["shell(rm *)"]"#);
        let expected = if is_denied { "tool_denied_by_rule" } else { "" };
        assert_eq!(code_of_command(rule, command).await, expected, "{command}");
    }
}

#[tokio::test]
async fn rules_see_the_command_that_a_hook_before_them_put_in() {
    let sets = r#"{ tools = ["shell"],
        then = { set_default_argument = { pointer = "/command", value_json = '"sudo rm x"' } } }"#;
    let blocks = r#"{ rules = ["shell(rm *)"], then = "deny" }"#;
    let setup = with(&format!("[{sets}, {blocks}]"));
    let (_sidecar, _executor, orchestrator) = set_up(setup, [shell()]).await;
    let completed = orchestrator
        .run_to_end(turn("t", [call("c", "shell", "{}")]))
        .await;
    assert_eq!(code_of(&completed, "c"), "tool_denied_by_hook");
}

#[tokio::test]
async fn an_approver_does_not_edit_past_a_built_in_hook() {
    let inside = r#"{ tools = ["save"],
        then = { require_path_inside = { pointers = ["/path"], directories = ["/ok"] } } }"#;
    let setup = Setup::default().set("hooks.builtin", format!("[{inside}]"));
    let save = tool(
        "save",
        r#"{"type":"object","properties":{"path":{"type":"string"}}}"#,
    );
    let (sidecar, mut executor, orchestrator) = set_up(setup, [save]).await;
    let asked = turn("t", [call("c", "save", r#"{"path":"/ok/a"}"#)]);
    let mut events = orchestrator.run(asked).await;
    let is_suspended =
        |body: &pb::turn_event::Body| matches!(body, pb::turn_event::Body::TurnSuspended(_));
    events.until(is_suspended).await;
    let approver = Approver::connect(&sidecar).await;
    let approval = approver.only().await;
    let edit = |path: &str| pb::ApprovalDecision {
        edited_arguments_json: json!({ "path": path }).to_string().into(),
        ..choose(&approval, pb::ApprovalChoice::Edit)
    };
    let outcome = approver.decide(edit("/etc/passwd")).await;
    assert_eq!(code(&outcome), "approval_edit_invalid");
    let outcome = approver.decide(edit("/ok/b")).await;
    assert_eq!(outcome.status(), pb::DecisionStatus::Taken);
    let work = executor.work().await;
    assert_eq!(work.arguments_json, r#"{"path":"/ok/b"}"#);
    executor.answer_text(&work, "saved").await;
    events.completed().await;
}

#[tokio::test]
async fn some_tools_are_blocked_for_a_reason() {
    let blocks = r#"{ tools = ["shell", "bash", "delete_*"], then = "deny",
                      reason = "shells are not permitted here" }"#;
    let setup = with(&format!("[{blocks}, {ALL}]").replace('\n', " "));
    let all = [
        tools::named("shell", tools::echo()),
        tools::named("delete_file", tools::echo()),
    ];
    let (_sidecar, _executor, orchestrator) = set_up(setup, all).await;
    let calls = [call("a", "shell", "{}"), call("b", "delete_file", "{}")];
    let completed = orchestrator.run_to_end(turn("t", calls)).await;
    for id in ["a", "b"] {
        let error = result_of(&completed, id).error.clone().unwrap();
        assert_eq!(error.code, "tool_denied_by_hook");
        assert_eq!(error.message_for_model, "shells are not permitted here");
        assert_eq!(error.layer(), pb::ErrorLayer::Hook);
    }
}

#[tokio::test]
async fn an_argument_that_is_left_out_gets_its_default() {
    let sets = r#"{ tools = ["shell"],
        then = { set_default_argument = { pointer = "/timeout", value_json = "30000" } } }"#;
    let setup = with(&format!("[{sets}, {ALL}]").replace('\n', " "));
    let schema = r#"{"type":"object","properties":{"command":{"type":"string"},
                     "timeout":{"type":"integer"}}}"#;
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tool("shell", schema)]).await;
    for (id, arguments, expected) in [
        (
            "a",
            r#"{"command":"ls"}"#,
            r#"{"command":"ls","timeout":30000}"#,
        ),
        ("b", r#"{"timeout":5}"#, r#"{"timeout":5}"#),
    ] {
        let mut events = orchestrator
            .run(turn(id, [call("c", "shell", arguments)]))
            .await;
        let work = executor.work().await;
        assert_eq!(work.arguments_json, expected);
        executor.answer_text(&work, "").await;
        events.completed().await;
    }
}

#[tokio::test]
async fn paths_stay_inside_their_directories_by_component() {
    let confines = r#"{ tools = ["read_file", "write_file"], then = { require_path_inside =
        { pointers = ["/path"], directories = ["/srv/projects", "/tmp"] } } }"#;
    let setup = with(&format!("[{confines}, {ALL}]").replace('\n', " "));
    let schema = r#"{"type":"object","properties":{"path":{"type":"string"}}}"#;
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [tool("read_file", schema)]).await;
    let reads = |path: &str| call("c", "read_file", &json!({ "path": path }).to_string());
    for path in [
        "/srv/projects-secret/x",
        "/tmp/../etc/passwd",
        "notes",
        "~/x",
    ] {
        let completed = orchestrator.run_to_end(turn(path, [reads(path)])).await;
        assert_eq!(code_of(&completed, "c"), "tool_denied_by_hook", "{path}");
    }
    let mut events = orchestrator.run(turn("t", [reads("/tmp/./a")])).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(code_of(&events.completed().await, "c"), "");
}

#[tokio::test]
async fn an_executor_says_where_a_path_really_leads() {
    let confines = r#"{ then = { require_path_inside =
        { pointers = ["/path"], directories = ["/tmp"] } } }"#;
    let setup = with(&format!("[{confines}]").replace('\n', " "));
    let reads_paths = pb::ToolDefinition {
        subject: Some(pb::Subject {
            pointer: "/path".to_owned(),
            subject_type: pb::SubjectType::Path as i32,
            dialect: String::new(),
        }),
        parameters_json: r#"{"type":"object","properties":{"path":{"type":"string"}}}"#.into(),
        ..tools::echo()
    };
    let sidecar = setup.start().await;
    let mut hello = crate::support::executor::resuming("box", "i", [reads_paths]);
    hello
        .capabilities
        .push(pb::ExecutorCapability::ResolveFacts as i32);
    let mut executor = crate::support::executor::Executor::join(&sidecar, hello).await;
    let orchestrator = crate::support::orchestrator::Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator
        .run(turn("t", [call("c", "echo", r#"{"path":"/tmp/link"}"#)]))
        .await;
    let asked = executor.resolves().await;
    executor
        .facts(&asked.request_id, &[("/path", "/tmp/link", "/etc/shadow")])
        .await;
    assert_eq!(
        code_of(&events.completed().await, "c"),
        "tool_denied_by_hook"
    );
}

#[tokio::test]
async fn verbose_output_is_kept_from_the_model() {
    let hides = r#"{ tools = ["list_directory", "search_files"], then = "suppress" }"#;
    let setup = with(&format!("[{hides}]"));
    let all = [tools::named("list_directory", tools::echo())];
    let (_sidecar, mut executor, orchestrator) = set_up(setup, all).await;
    let mut events = orchestrator
        .run(turn("t", [call("c", "list_directory", "{}")]))
        .await;
    let work = executor.work().await;
    executor.answer_text(&work, "ten thousand names").await;
    let completed = events.completed().await;
    let result = result_of(&completed, "c");
    assert!(result.suppressed && !result.is_error);
    assert_eq!(text_of(result), "[a hook keeps this result back]");
}

#[tokio::test]
async fn a_context_comes_with_the_turns_end() {
    let reminds = r#"{ id = "reminder", tools = ["query_database"],
                       then = { context = "This database speaks PostgreSQL." } }"#;
    let setup = with(&format!("[{reminds}]").replace('\n', " "));
    let all = [
        tools::named("query_database", tools::echo()),
        tools::write(),
    ];
    let (_sidecar, mut executor, orchestrator) = set_up(setup, all).await;
    let calls = [call("a", "write", "{}"), call("b", "query_database", "{}")];
    let mut events = orchestrator.run(turn("t", calls)).await;
    for _ in 0..2 {
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
    }
    let expected = pb::AdditionalContext {
        text: "This database speaks PostgreSQL.".to_owned(),
        hook_id: "reminder".to_owned(),
        call_id: "b".to_owned(),
    };
    assert_eq!(events.completed().await.additional_contexts, [expected]);
}

#[tokio::test]
async fn rules_risk_kind_and_arguments_say_which_calls_are_meant() {
    let hooks = [
        r#"{ rules = ["edit(param:/text=stop)"], then = "deny", reason = "rule" }"#,
        r#"{ risk_levels = ["dangerous"], then = "deny", reason = "risk" }"#,
        r#"{ kinds = ["read"], argument_pointers = ["/text"], then = "deny", reason = "both" }"#,
    ];
    let setup = with(&format!("[{}, {ALL}]", hooks.join(", ")));
    let all = [tools::edit(), tools::erase(), tools::echo()];
    let (_sidecar, mut executor, orchestrator) = set_up(setup, all).await;
    let calls = [
        call("a", "edit", r#"{"text":"stop"}"#),
        call("b", "erase", "{}"),
        call("c", "echo", r#"{"text":""}"#),
    ];
    let completed = orchestrator.run_to_end(turn("t", calls)).await;
    let reasons = ["a", "b", "c"].map(|id| {
        let error = result_of(&completed, id).error.clone().unwrap();
        error.message_for_model
    });
    assert_eq!(reasons, ["rule", "risk", "both"]);
    let calls = [
        call("a", "edit", r#"{"text":"go"}"#),
        call("b", "echo", "{}"),
    ];
    let mut events = orchestrator.run(turn("u", calls)).await;
    for _ in 0..2 {
        let work = executor.work().await;
        executor.answer_text(&work, "").await;
    }
    let completed = events.completed().await;
    assert_eq!(
        (code_of(&completed, "a"), code_of(&completed, "b")),
        ("", "")
    );
}

#[tokio::test]
async fn a_hook_that_cannot_be_stops_the_start() {
    let many = vec![r#"{ then = "ask" }"#; 65].join(", ");
    for (hooks, expected) in [
        (r#"[{ tools = ["a("], then = "deny" }]"#, "hooks.builtin[1]"),
        (r#"[{ then = "maybe" }]"#, "maybe"),
        (r#"[{ then = { context = "" } }]"#, "must not be empty"),
        (
            r#"[{ id = "a", then = "ask" }, { id = "a", then = "ask" }]"#,
            "twice",
        ),
        (&format!("[{many}]"), "at most 64"),
    ] {
        let home = home();
        let (status, log) = refuses_to_start(with(hooks), home.path()).await;
        assert_eq!(status, Some(64), "{log}");
        assert!(log.contains(expected), "{log}");
    }
}
