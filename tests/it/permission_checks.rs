//! Tools that are asked about calls, and executors that say what paths are, over the wire.
//!
//! What an answer does inside a turn is the turn machine's tests' business. Never trusts an executor to
//! be polite.

use callgate_client::pb::v1 as pb;
use pb::PermissionCheckVerdict as Says;
use serde_json::json;

use super::support::approver::{Approver, choose};
use super::support::executor::{Executor, hello, resuming};
use super::support::orchestrator::{
    Following, Orchestrator, call, code_of, result_of, text_of, turn,
};
use super::support::sidecar::{Setup, Sidecar};
use super::support::{set_up, tools, until_no_executor};

fn own() -> pb::ToolDefinition {
    pb::ToolDefinition {
        has_permission_check: true,
        ..tools::named("own", tools::write())
    }
}

fn reads_paths() -> pb::ToolDefinition {
    pb::ToolDefinition {
        risk_level: pb::RiskLevel::Sensitive as i32,
        parameters_json: r#"{"type":"object","properties":{"path":{"type":"string"}}}"#.into(),
        subject: Some(pb::Subject {
            pointer: "/path".to_owned(),
            subject_type: pb::SubjectType::Path as i32,
            dialect: String::new(),
        }),
        ..tools::named("read_file", tools::echo())
    }
}

fn knows_paths(name: &str) -> pb::Hello {
    let mut hello = resuming(name, "i", [reads_paths()]);
    let capability = pb::ExecutorCapability::ResolveFacts as i32;
    hello.capabilities.push(capability);
    hello
}

/// Nobody can be asked, so an ask shows at once.
fn alone() -> Setup {
    Setup::default().set("approvals.approvers", "none")
}

fn one() -> pb::RunTurnRequest {
    turn("t", [call("c", "own", "{}")])
}

fn reading(path: &str) -> pb::RunTurnRequest {
    let arguments = json!({ "path": path }).to_string();
    turn("t", [call("c", "read_file", &arguments)])
}

async fn suspended(events: &mut Following) {
    let is_suspended =
        |body: &pb::turn_event::Body| matches!(body, pb::turn_event::Body::TurnSuspended(_));
    events.until(is_suspended).await;
}

#[tokio::test]
async fn a_tool_that_denies_ends_the_call() {
    let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [own()]).await;
    let mut events = orchestrator.run(one()).await;
    let asked = executor.checks().await;
    assert_eq!(asked.tool_name, "own");
    assert_eq!(asked.call_id, "c");
    assert_eq!(&asked.arguments_json[..], b"{}");
    assert_eq!(asked.mode(), pb::Mode::Default);
    assert_eq!(asked.timeout_ms, 2_000);
    assert_eq!(asked.context.unwrap().turn_id, "t");
    executor.verdict(&asked.check_id, Says::Deny).await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "c"), "tool_denied_by_tool");
    let result = result_of(&completed, "c");
    let reason = result.not_executed_reason();
    assert_eq!(reason, pb::NotExecutedReason::DeniedByTool);
    let error = result.error.clone().unwrap();
    assert_eq!(error.layer(), pb::ErrorLayer::Permission);
    assert_eq!(error.message_for_model, "for the model");
    executor.has_no_work().await;
}

#[tokio::test]
async fn a_tool_that_asks_has_its_words_shown_and_an_approver_lets_it_run() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [own()]).await;
    let approver = Approver::connect(&sidecar).await;
    let mut events = orchestrator.run(one()).await;
    let asked = executor.checks().await;
    executor.verdict(&asked.check_id, Says::Ask).await;
    suspended(&mut events).await;
    let approval = approver.only().await;
    assert_eq!(approval.tool_reason, "for the user");
    let verdict = approval.verdict.clone().unwrap();
    assert_eq!(verdict.stage(), pb::DecisionStage::ToolCheck);
    let once = choose(&approval, pb::ApprovalChoice::Once);
    approver.decide(once).await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    assert_eq!(text_of(result_of(&events.completed().await, "c")), "done");
}

#[tokio::test]
async fn an_allow_rule_lifts_an_ask_and_not_a_firm_one() {
    for (says, expected) in [(Says::Ask, ""), (Says::AskFirm, "approval_unavailable")] {
        let setup = alone().set("permissions.allow", r#"["own"]"#);
        let (_sidecar, mut executor, orchestrator) = set_up(setup, [own()]).await;
        let mut events = orchestrator.run(one()).await;
        let asked = executor.checks().await;
        assert_eq!(asked.matched_rule, "own");
        assert_ne!(asked.matched_source(), pb::RuleSource::Unspecified);
        executor.verdict(&asked.check_id, says).await;
        if expected.is_empty() {
            let work = executor.work().await;
            executor.answer_text(&work, "done").await;
        }
        assert_eq!(code_of(&events.completed().await, "c"), expected);
    }
}

#[tokio::test]
async fn what_a_tool_allows_counts_where_the_configuration_trusts_its_executor() {
    for (trusted, is_trusted) in [(r#"["other"]"#, false), (r#"["box"]"#, true)] {
        let setup = alone().set("permissions.trusted_executors", trusted);
        let risky = pb::ToolDefinition {
            risk_level: pb::RiskLevel::Sensitive as i32,
            ..own()
        };
        let (_sidecar, mut executor, orchestrator) = set_up(setup, [risky]).await;
        let mut events = orchestrator.run(one()).await;
        let asked = executor.checks().await;
        executor.verdict(&asked.check_id, Says::Allow).await;
        if is_trusted {
            let work = executor.work().await;
            executor.answer_text(&work, "done").await;
        }
        let completed = events.completed().await;
        assert_eq!(code_of(&completed, "c").is_empty(), is_trusted);
    }
}

#[tokio::test]
async fn a_late_answer_is_dropped_with_a_notice() {
    let setup = alone().set("turn.check_timeout_ms", 20);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [own()]).await;
    let mut events = orchestrator.run(one()).await;
    let asked = executor.checks().await;
    assert_eq!(asked.timeout_ms, 20);
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "c"), "approval_unavailable");
    executor.verdict(&asked.check_id, Says::Passthrough).await;
    assert_eq!(executor.noticed().await, "answer_unknown");
}

#[tokio::test]
async fn an_executor_that_is_lost_while_it_is_asked_asks() {
    let (_sidecar, mut executor, orchestrator) = set_up(alone(), [own()]).await;
    let mut events = orchestrator.run(one()).await;
    executor.checks().await;
    executor.hang_up();
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "c"), "approval_unavailable");
}

#[tokio::test]
async fn an_executor_that_comes_back_is_not_asked_what_its_old_stream_was() {
    let setup = alone();
    let sidecar = setup.start().await;
    let mut first = Executor::join(&sidecar, resuming("box", "i", [own()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(one()).await;
    let asked = first.checks().await;
    let mut second = Executor::join(&sidecar, resuming("box", "i", [own()])).await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "c"), "approval_unavailable");
    second.verdict(&asked.check_id, Says::Passthrough).await;
    assert_eq!(second.noticed().await, "answer_unknown");
}

#[tokio::test]
async fn nobody_else_can_answer_for_a_tool() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [own()]).await;
    let mut other = Executor::join(&sidecar, hello("other", [tools::echo()])).await;
    let mut twin = Executor::join(&sidecar, hello("box", [tools::echo()])).await;
    let mut events = orchestrator.run(one()).await;
    let asked = executor.checks().await;
    for foreign in [&mut other, &mut twin] {
        foreign.verdict(&asked.check_id, Says::Passthrough).await;
        assert_eq!(foreign.noticed().await, "answer_unknown");
    }
    // Nor does an answer of another kind answer it.
    executor.facts(&asked.check_id, &[]).await;
    assert_eq!(executor.noticed().await, "answer_unknown");
    executor.verdict(&asked.check_id, Says::Deny).await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "c"), "tool_denied_by_tool");
    executor.verdict(&asked.check_id, Says::Deny).await;
    assert_eq!(executor.noticed().await, "answer_unknown");
}

#[tokio::test]
async fn a_tools_reasons_are_cut() {
    for (bytes, shown) in [(1_024, 1_024), (1_025, 1_024)] {
        let (_sidecar, mut executor, orchestrator) = set_up(Setup::default(), [own()]).await;
        let mut events = orchestrator.run(one()).await;
        let asked = executor.checks().await;
        let result = pb::PermissionCheckResult {
            check_id: asked.check_id,
            verdict: Says::Deny as i32,
            reason_for_model: "x".repeat(bytes),
            ..pb::PermissionCheckResult::default()
        };
        let word = pb::connect_request::Body::PermissionCheckResult(result);
        executor.say(word).await;
        let completed = events.completed().await;
        let error = result_of(&completed, "c").error.clone().unwrap();
        assert_eq!(error.message_for_model.len(), shown);
    }
}

#[tokio::test]
async fn an_executor_has_a_number_of_open_questions() {
    let setup = alone().set("limits.executor_questions_max", 2);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [own()]).await;
    let calls = ["a", "b", "c"].map(|id| call(id, "own", "{}"));
    let mut events = orchestrator.run(turn("t", calls)).await;
    let asked = [executor.checks().await, executor.checks().await];
    let ids = asked.each_ref().map(|one| one.call_id.clone());
    assert_eq!(ids, ["a", "b"]);
    for one in &asked {
        executor.verdict(&one.check_id, Says::Passthrough).await;
    }
    for _ in 0..2 {
        let work = executor.work().await;
        executor.answer_text(&work, "done").await;
    }
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "a"), "");
    assert_eq!(code_of(&completed, "b"), "");
    assert_eq!(code_of(&completed, "c"), "approval_unavailable");
}

/// What becomes of a call that reads `/data/a`, which really is `canonical`, under these rules.
async fn read(setup: Setup, canonical: &str) -> String {
    let sidecar = setup.start().await;
    let mut executor = Executor::join(&sidecar, knows_paths("box")).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(reading("/data/a")).await;
    let asked = executor.resolves().await;
    assert_eq!(asked.pointers, ["/path"]);
    assert_eq!(asked.cwd, "");
    assert_eq!(&asked.arguments_json[..], br#"{"path":"/data/a"}"#);
    let facts = [("/path", "/data/a", canonical)];
    executor.facts(&asked.request_id, &facts).await;
    let is_over = |body: &pb::turn_event::Body| {
        use pb::turn_event::Body;
        matches!(body, Body::TurnCompleted(_))
            || matches!(body, Body::CallStateChanged(moved) if moved.state() == pb::CallState::Scheduled)
    };
    let last = events.until(is_over).await;
    if let pb::turn_event::Body::TurnCompleted(completed) = last {
        return code_of(&completed, "c").to_owned();
    }
    executor.work().await;
    String::new()
}

#[tokio::test]
async fn a_link_out_of_the_allowed_directory_is_not_allowed() {
    let allow = || alone().set("permissions.allow", r#"["read_file(//data/**)"]"#);
    assert_eq!(read(allow(), "/data/a").await, "");
    assert_eq!(read(allow(), "/etc/passwd").await, "approval_unavailable");
    let deny = |rule: &str| alone().set("permissions.deny", json!([rule]));
    for rule in ["read_file(//data/**)", "read_file(//etc/**)"] {
        assert_eq!(read(deny(rule), "/etc/passwd").await, "tool_denied_by_rule");
    }
}

#[tokio::test]
async fn a_path_that_is_longer_than_allowed_is_not_known() {
    let allow = || {
        alone()
            .set("permissions.allow", r#"["read_file(//data/**)"]"#)
            .set("limits.fact_bytes_max", 16)
    };
    assert_eq!(read(allow(), "/data/0123456789").await, "");
    let beyond = read(allow(), "/data/0123456789a").await;
    assert_eq!(beyond, "approval_unavailable");
}

#[tokio::test]
async fn an_allow_rule_for_paths_does_not_hold_where_nobody_says_what_they_are() {
    let setup = alone().set("permissions.allow", r#"["read_file(//data/**)"]"#);
    let (_sidecar, mut executor, orchestrator) = set_up(setup, [reads_paths()]).await;
    let completed = orchestrator.run_to_end(reading("/data/a")).await;
    assert_eq!(code_of(&completed, "c"), "approval_unavailable");
    executor.has_no_work().await;
}

#[tokio::test]
async fn the_sidecar_says_that_it_asks_about_paths() {
    let (_sidecar, executor, _orchestrator) = set_up(Setup::default(), []).await;
    let capability = pb::ExecutorCapability::ResolveFacts as i32;
    assert!(executor.welcome.capabilities.contains(&capability));
}

#[tokio::test]
async fn a_tool_is_asked_again_about_arguments_that_an_approver_edited() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [own()]).await;
    let approver = Approver::connect(&sidecar).await;
    let mut events = orchestrator.run(one()).await;
    let asked = executor.checks().await;
    executor.verdict(&asked.check_id, Says::Ask).await;
    suspended(&mut events).await;
    let approval = approver.only().await;
    for (says, code) in [
        (Says::Deny, "approval_edit_invalid"),
        (Says::Passthrough, ""),
    ] {
        let mut edit = choose(&approval, pb::ApprovalChoice::Edit);
        edit.edited_arguments_json = r#"{"text":"other"}"#.into();
        let answers = async {
            let asked = executor.checks().await;
            assert_eq!(&asked.arguments_json[..], br#"{"text":"other"}"#);
            executor.verdict(&asked.check_id, says).await;
        };
        let (outcome, ()) = tokio::join!(approver.decide(edit), answers);
        assert_eq!(super::support::approver::code(&outcome), code);
    }
    let work = executor.work().await;
    assert_eq!(&work.arguments_json[..], br#"{"text":"other"}"#);
    executor.answer_text(&work, "done").await;
    events.completed().await;
}

#[tokio::test]
async fn silence_after_a_restart_does_not_loosen_what_the_tool_said() {
    let setup = || Setup::default().set("permissions.allow", r#"["own"]"#);
    let (sidecar, mut executor, orchestrator) = set_up(setup(), [own()]).await;
    let mut events = orchestrator.run(one()).await;
    let asked = executor.checks().await;
    executor.verdict(&asked.check_id, Says::AskFirm).await;
    suspended(&mut events).await;
    drop(executor);
    let sidecar: Sidecar = sidecar.crash_and_restart(setup()).await;
    let approver = Approver::connect(&sidecar).await;
    let approval = approver.only().await;
    assert_eq!(approval.tool_reason, "for the user");
}

#[tokio::test]
async fn a_question_waits_for_an_executor_that_comes_in_time() {
    let (sidecar, executor, orchestrator) = set_up(alone(), [own()]).await;
    executor.hang_up();
    until_no_executor(&orchestrator).await;
    let mut events = orchestrator.run(one()).await;
    // Another executor is not asked for it.
    let other = Executor::join(&sidecar, hello("other", [tools::echo()])).await;
    let mut executor = Executor::join(&sidecar, hello("box", [own()])).await;
    let asked = executor.checks().await;
    executor.verdict(&asked.check_id, Says::Passthrough).await;
    let work = executor.work().await;
    executor.answer_text(&work, "done").await;
    assert_eq!(text_of(result_of(&events.completed().await, "c")), "done");
    drop(other);
}

#[tokio::test]
async fn a_question_without_an_executor_ends_by_its_time() {
    let setup = alone().set("turn.check_timeout_ms", 100);
    let (sidecar, executor, orchestrator) = set_up(setup, [own()]).await;
    executor.hang_up();
    until_no_executor(&orchestrator).await;
    let completed = orchestrator.run_to_end(one()).await;
    assert_eq!(code_of(&completed, "c"), "approval_unavailable");
    let mut executor = Executor::join(&sidecar, hello("box", [own()])).await;
    let mut events = orchestrator.run(turn("t2", [call("c", "own", "{}")])).await;
    // The first question is not asked any more.
    let asked = executor.checks().await;
    assert_eq!(asked.context.unwrap().turn_id, "t2");
    executor.verdict(&asked.check_id, Says::Deny).await;
    assert_eq!(
        code_of(&events.completed().await, "c"),
        "tool_denied_by_tool"
    );
}

#[tokio::test]
async fn after_a_restart_a_call_can_be_approved_before_its_executor_is_back() {
    let (sidecar, mut executor, orchestrator) = set_up(Setup::default(), [own()]).await;
    let mut events = orchestrator.run(one()).await;
    let asked = executor.checks().await;
    executor.verdict(&asked.check_id, Says::Ask).await;
    suspended(&mut events).await;
    drop((events, executor, orchestrator));
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    let approver = Approver::connect(&sidecar).await;
    let approval = approver.only().await;
    approver
        .decide(choose(&approval, pb::ApprovalChoice::Once))
        .await;
    let mut executor = Executor::join(&sidecar, hello("box", [own()])).await;
    let asked = executor.checks().await;
    executor.verdict(&asked.check_id, Says::AskFirm).await;
    let work = executor.work().await;
    assert_eq!(work.call_id, "c");
}

#[tokio::test]
async fn after_a_restart_a_path_is_asked_about_again() {
    let approved = |rules: &str| Setup::default().set("permissions.allow", rules);
    let sidecar = approved("[]").start().await;
    let mut executor = Executor::join(&sidecar, knows_paths("box")).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    let mut events = orchestrator.run(reading("/data/a")).await;
    let asked = executor.resolves().await;
    executor
        .facts(&asked.request_id, &[("/path", "/data/a", "/data/a")])
        .await;
    suspended(&mut events).await;
    drop((events, executor, orchestrator));
    let allow = r#"["read_file(//data/**)"]"#;
    let sidecar = sidecar.crash_and_restart(approved(allow)).await;
    let mut executor = Executor::join(&sidecar, knows_paths("box")).await;
    let asked = executor.resolves().await;
    executor
        .facts(&asked.request_id, &[("/path", "/data/a", "/data/a")])
        .await;
    // The rules of now allow it, so nobody is asked.
    let work = executor.work().await;
    assert_eq!(work.call_id, "c");
}
