//! What is said of calls that nobody makes, and of the same calls when they are made.
//!
//! Never about what a rule matches.

use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::explain_decision_request::Question;
use pb::{DecisionStage, PermissionEffect, RuleSource};
use serde_json::json;
use tonic::Code;

use super::{Policy, about, about_call, explain, policy, refusal, refused, spec, with_file};
use crate::rules::{command, connect, shell};
use crate::support::orchestrator::{code_of, turn};
use crate::support::sidecar::{Setup, Sidecar, home};
use crate::support::{soon, tools};

#[tokio::test]
async fn a_call_is_explained_with_what_the_tool_declared() {
    let dir = home();
    let file = dir.path().join("settings.json");
    let rules = json!({
        "allow": ["run_shell(git *)"],
        "deny": [{"rule": "run_shell(git push *)", "message": "pushing is for people"}],
    });
    let sidecar = with_file(&file, &rules).start().await;
    let (_executor, _orchestrator) = connect(&sidecar).await;
    let mut policy = policy(&sidecar).await;
    let asked = about("run_shell(git log && timeout 9 git push origin)");
    let answer = explain(&mut policy, asked).await;
    let expected = pb::PermissionVerdict {
        effect: PermissionEffect::Deny as i32,
        stage: DecisionStage::DenyRule as i32,
        rule: "run_shell(git push *)".to_owned(),
        source: RuleSource::FlagSettings as i32,
        origin: "settings.json, rule 1".to_owned(),
        segment: "git push origin".to_owned(),
        segment_index: Some(1),
        message: "pushing is for people".to_owned(),
        hook_id: String::new(),
        policy_revision: 1,
    };
    assert_eq!(answer.verdict, Some(expected));
    assert_eq!(answer.error, None);
    let parts: Vec<_> = answer
        .segments
        .iter()
        .map(|part| {
            (
                part.text.as_str(),
                part.words.join(" "),
                part.wrappers.join(" "),
                part.effect(),
            )
        })
        .collect();
    let expected = [
        (
            "git log",
            "git log".to_owned(),
            String::new(),
            PermissionEffect::Allow,
        ),
        (
            "timeout 9 git push origin",
            "git push origin".to_owned(),
            "timeout".to_owned(),
            PermissionEffect::Deny,
        ),
    ];
    assert_eq!(parts, expected);
    // The same as a model would make it.
    let call = about_call(
        "run_shell",
        r#"{"command":"git log && timeout 9 git push origin"}"#,
    );
    let again = explain(&mut policy, call).await;
    assert_eq!(again.verdict, answer.verdict);
    // What cannot be read says so, and asks.
    let answer = explain(&mut policy, about("run_shell(git log; $x)")).await;
    let verdict = answer.verdict.unwrap();
    assert_eq!(
        (verdict.effect(), verdict.stage()),
        (PermissionEffect::Ask, DecisionStage::SafetyFloor)
    );
    assert_eq!(verdict.message, "what it would do cannot be told");
    assert_ne!(answer.segments[1].opaque_reason, "");
}

#[tokio::test]
async fn a_call_that_ends_before_any_decision_says_why() {
    let sidecar = Sidecar::start().await;
    let (_executor, _orchestrator) = connect(&sidecar).await;
    let mut policy = policy(&sidecar).await;
    let cut_off = pb::ExplainDecisionRequest {
        question: Some(Question::Call(pb::ToolCall {
            name: "echo".to_owned(),
            truncated: true,
            ..pb::ToolCall::default()
        })),
        ..pb::ExplainDecisionRequest::default()
    };
    let definition = pb::ToolDefinition {
        name: "later".to_owned(),
        timeout_ms: Some(0),
        ..tools::echo()
    };
    let broken = pb::ExplainDecisionRequest {
        definition: Some(definition),
        ..about("later(x)")
    };
    let cases = [
        (about("gone(x)"), "tool_not_found"),
        (about_call("gone", "{}"), "tool_not_found"),
        (about_call("echo", "{]"), "json_invalid"),
        (
            about_call("echo", r#"{"text":1}"#),
            "tool_argument_type_mismatch",
        ),
        (cut_off, "json_truncated"),
        (broken, "tool_definition_invalid"),
    ];
    for (request, expected) in cases {
        let answer = explain(&mut policy, request).await;
        let verdict = answer.verdict.unwrap();
        assert_eq!(
            (
                answer.error.unwrap().code.as_str(),
                verdict.effect(),
                verdict.stage()
            ),
            (expected, PermissionEffect::Deny, DecisionStage::Validation)
        );
        assert_eq!(answer.steps.len(), 1, "nothing else was asked");
    }
}

#[tokio::test]
async fn mode_extra_rules_and_definition_count_for_one_question() {
    let sidecar = Sidecar::start().await;
    let mut policy = policy(&sidecar).await;
    let base = || pb::ExplainDecisionRequest {
        definition: Some(shell()),
        session_id: "s".to_owned(),
        ..about("run_shell(make)")
    };
    let decided = async |policy: &mut Policy, request| {
        let verdict = explain(policy, request).await.verdict.unwrap();
        (verdict.effect(), verdict.stage())
    };
    let asked = decided(&mut policy, base()).await;
    assert_eq!(asked, (PermissionEffect::Ask, DecisionStage::ModeDefault));
    let planned = pb::ExplainDecisionRequest {
        mode: pb::Mode::Plan as i32,
        ..base()
    };
    let asked = decided(&mut policy, planned).await;
    assert_eq!(asked, (PermissionEffect::Deny, DecisionStage::ModeBlock));
    let allowed = pb::ExplainDecisionRequest {
        extra_rules: vec![spec(PermissionEffect::Allow, "run_shell(make)")],
        ..base()
    };
    let verdict = explain(&mut policy, allowed).await.verdict.unwrap();
    assert_eq!(
        (verdict.effect(), verdict.source(), verdict.origin.as_str()),
        (PermissionEffect::Allow, RuleSource::Command, "rule 1")
    );
    // Nothing of it stays.
    let asked = decided(&mut policy, base()).await;
    assert_eq!(asked, (PermissionEffect::Ask, DecisionStage::ModeDefault));
}

#[tokio::test]
async fn questions_have_bounds() {
    let setup = Setup::default().set("limits.args_bytes_max", 1_024);
    let sidecar = setup.start().await;
    let mut policy = policy(&sidecar).await;
    let extra = |count: usize| pb::ExplainDecisionRequest {
        extra_rules: vec![spec(PermissionEffect::Deny, "a"); count],
        ..about("echo(x)")
    };
    let text = |bytes: usize| about(&"e".repeat(bytes));
    for (at, above, field) in [
        (extra(256), extra(257), "extra_rules"),
        (text(1_024), text(1_025), "text"),
    ] {
        explain(&mut policy, at).await;
        let answered = soon("a refusal", policy.explain_decision(above)).await;
        let expected = refused(Code::InvalidArgument, "limit_exceeded", field);
        assert_eq!(refusal(answered), expected);
    }
    let misnamed = pb::ExplainDecisionRequest {
        definition: Some(shell()),
        ..about("echo(x)")
    };
    let broken = |effect| pb::ExplainDecisionRequest {
        extra_rules: vec![spec(PermissionEffect::Deny, "a"), spec(effect, "b(")],
        ..about("echo(x)")
    };
    let no_id = pb::ExplainDecisionRequest {
        session_id: "\u{7}".to_owned(),
        ..about("echo(x)")
    };
    for (request, word, field) in [
        (
            pb::ExplainDecisionRequest::default(),
            "invalid_request",
            "question",
        ),
        (misnamed, "invalid_request", "definition.name"),
        (no_id, "invalid_request", "session_id"),
        (
            broken(PermissionEffect::Deny),
            "rule_invalid",
            "extra_rules[1]",
        ),
        (
            broken(PermissionEffect::Allow),
            "rule_invalid",
            "extra_rules[1]",
        ),
    ] {
        let answered = soon("a refusal", policy.explain_decision(request)).await;
        assert_eq!(
            refusal(answered),
            refused(Code::InvalidArgument, word, field)
        );
    }
}

#[tokio::test]
async fn what_is_explained_is_what_happens() {
    let dir = home();
    let file = dir.path().join("settings.json");
    let rules = json!({
        "allow": ["run_shell(git *)"], "deny": ["run_shell(git push *)"],
    });
    let sidecar = with_file(&file, &rules).start().await;
    let (mut executor, orchestrator) = connect(&sidecar).await;
    let mut policy = policy(&sidecar).await;
    let texts = [
        "git log",
        "git log && git diff",
        "git push origin",
        "bash -c 'git push -f'",
        "nice git status",
    ];
    for text in texts {
        let arguments = json!({ "command": text }).to_string();
        let answer = explain(&mut policy, about_call("run_shell", &arguments)).await;
        let allows = answer.verdict.unwrap().effect() == PermissionEffect::Allow;
        let mut events = orchestrator
            .run(turn(text.replace(' ', "-").as_str(), [command("c", text)]))
            .await;
        if allows {
            let work = executor.work().await;
            executor.answer_text(&work, "").await;
        }
        let code = code_of(&events.completed().await, "c").to_owned();
        let expected = if allows { "" } else { "tool_denied_by_rule" };
        assert_eq!(code, expected, "{text}");
    }
}
