//! Rules that come with a turn: they hold for it alone, beside those of the files.
//!
//! What a rule matches is the permission vectors' business, never this file's.

use callgate_client::pb::v1 as pb;
use tonic::{Code, Status};

use super::support::executor::{Executor, hello};
use super::support::failure;
use super::support::orchestrator::{Orchestrator, call, code_of, result_of, turn};
use super::support::sidecar::Setup;
use super::support::{set_up, tools};

fn rule(effect: pb::PermissionEffect, text: &str) -> pb::RuleSpec {
    pb::RuleSpec {
        effect: effect as i32,
        rule: text.to_owned(),
        ..pb::RuleSpec::default()
    }
}

fn with_rules(id: &str, rules: Vec<pb::RuleSpec>) -> pb::RunTurnRequest {
    pb::RunTurnRequest {
        command_rules: rules,
        ..turn(id, [call("a", "echo", "{}"), call("b", "edit", "{}")])
    }
}

async fn start(setup: Setup) -> (super::support::sidecar::Sidecar, Executor, Orchestrator) {
    set_up(setup, [tools::echo(), tools::edit()]).await
}

#[tokio::test]
async fn they_hold_for_their_turn_alone() {
    let setup = Setup::default().set("approvals.approvers", "none");
    let (_sidecar, mut executor, orchestrator) = start(setup).await;
    let rules = vec![
        rule(pb::PermissionEffect::Deny, "echo"),
        rule(pb::PermissionEffect::Allow, "edit"),
    ];
    let mut events = orchestrator.run(with_rules("t1", rules)).await;
    let work = executor.work().await;
    assert_eq!(work.call_id, "b");
    executor.answer_text(&work, "").await;
    let completed = events.completed().await;
    assert_eq!(code_of(&completed, "a"), "tool_denied_by_rule");
    let detail = result_of(&completed, "a").error.clone().unwrap().detail;
    assert!(detail.contains("command"), "{detail}");
    let mut events = orchestrator.run(with_rules("t2", Vec::new())).await;
    let work = executor.work().await;
    assert_eq!(work.call_id, "a");
    executor.answer_text(&work, "").await;
    assert_eq!(
        code_of(&events.completed().await, "b"),
        "approval_unavailable"
    );
}

#[tokio::test]
async fn a_deny_rule_of_a_file_goes_before_an_allow_rule_of_a_turn() {
    let setup = Setup::default().set("permissions.deny", "[\"edit\"]");
    let (_sidecar, mut executor, orchestrator) = start(setup).await;
    let rules = vec![rule(pb::PermissionEffect::Allow, "edit")];
    let mut events = orchestrator.run(with_rules("t", rules)).await;
    let work = executor.work().await;
    executor.answer_text(&work, "").await;
    assert_eq!(
        code_of(&events.completed().await, "b"),
        "tool_denied_by_rule"
    );
}

fn refused(status: &Status) -> (Code, String) {
    (status.code(), failure::code(status))
}

#[tokio::test]
async fn a_broken_one_refuses_the_turn_and_so_do_too_many() {
    let (_sidecar, _executor, orchestrator) = start(Setup::default()).await;
    for text in ["echo(", "*"] {
        let rules = vec![rule(pb::PermissionEffect::Allow, text)];
        let status = orchestrator.refused(with_rules("t", rules)).await;
        assert_eq!(
            refused(&status),
            (Code::InvalidArgument, "rule_invalid".to_owned()),
            "{text}"
        );
    }
    let many = |count| vec![rule(pb::PermissionEffect::Deny, "nothing_here"); count];
    let status = orchestrator.refused(with_rules("t", many(257))).await;
    assert_eq!(failure::code(&status), "limit_exceeded");
    assert!(
        orchestrator
            .try_run(with_rules("t", many(256)))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn they_hold_after_a_restart_too() {
    let (sidecar, executor, orchestrator) = start(Setup::default()).await;
    let rules = vec![rule(pb::PermissionEffect::Deny, "echo")];
    let mut events = orchestrator.run(with_rules("t", rules.clone())).await;
    let is_suspended =
        |body: &pb::turn_event::Body| matches!(body, pb::turn_event::Body::TurnSuspended(_));
    events.until(is_suspended).await;
    drop(executor);
    let sidecar = sidecar.crash_and_restart(Setup::default()).await;
    let _executor = Executor::join(&sidecar, hello("box", [tools::echo(), tools::edit()])).await;
    let orchestrator = Orchestrator::connect(&sidecar).await;
    // The same turn is the same with its rules, and another one without them.
    let status = orchestrator.refused(with_rules("t", Vec::new())).await;
    assert_eq!(
        refused(&status),
        (Code::AlreadyExists, "call_conflict".to_owned())
    );
    orchestrator.cancel_turn("t", None).await;
    let completed = orchestrator.run_to_end(with_rules("t", rules)).await;
    assert_eq!(code_of(&completed, "a"), "tool_denied_by_rule");
}
