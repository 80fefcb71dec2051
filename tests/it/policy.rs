//! `PolicyService` over the wire: what is shown of rules, what is said of calls, who may change what.
//!
//! What a rule matches is the permission vectors' business, never this file's.

mod changed;
mod checked;
mod command_line;
mod explained;
mod hooked;
mod shown;

use std::path::Path;

use callgate_client::connect::AuthorizedChannel;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::explain_decision_request::Question;
use callgate_client::pb::v1::policy_service_client::PolicyServiceClient;
use pb::{PermissionEffect, RuleSource};
use tonic::{Code, Status};

use super::rules::write;
use super::support::failure::{code, detail};
use super::support::sidecar::{Setup, Sidecar};
use super::support::soon;

type Policy = PolicyServiceClient<AuthorizedChannel>;

/// Asks as an orchestrator.
async fn policy(sidecar: &Sidecar) -> Policy {
    PolicyServiceClient::new(sidecar.channel().await)
}

/// Asks as an administrator.
async fn control(sidecar: &Sidecar) -> Policy {
    PolicyServiceClient::new(sidecar.control_channel().await)
}

/// A sidecar whose flag file holds these rules.
fn with_file(file: &Path, permissions: &serde_json::Value) -> Setup {
    write(file, permissions);
    Setup::default().set("permissions.settings_file", file.display())
}

async fn get(policy: &mut Policy) -> pb::GetPolicyResponse {
    let answered = soon("the policy", policy.get_policy(pb::GetPolicyRequest {})).await;
    answered.unwrap().into_inner()
}

fn source(policy: &pb::GetPolicyResponse, source: RuleSource) -> pb::PolicySource {
    let mut sources = policy.sources.iter();
    let found = sources.find(|own| own.source() == source);
    found.unwrap().clone()
}

async fn list(policy: &mut Policy, request: pb::ListRulesRequest) -> pb::ListRulesResponse {
    let answered = soon("the rules", policy.list_rules(request)).await;
    answered.unwrap().into_inner()
}

fn texts(answer: &pb::ListRulesResponse) -> Vec<String> {
    let rules = answer.rules.iter();
    rules
        .map(|rule| rule.spec.as_ref().unwrap().rule.clone())
        .collect()
}

async fn explain(
    policy: &mut Policy,
    request: pb::ExplainDecisionRequest,
) -> pb::ExplainDecisionResponse {
    let answered = soon("an explanation", policy.explain_decision(request)).await;
    answered.unwrap().into_inner()
}

fn about(text: &str) -> pb::ExplainDecisionRequest {
    pb::ExplainDecisionRequest {
        question: Some(Question::Text(text.to_owned())),
        ..pb::ExplainDecisionRequest::default()
    }
}

fn about_call(name: &str, arguments: &str) -> pb::ExplainDecisionRequest {
    pb::ExplainDecisionRequest {
        question: Some(Question::Call(pb::ToolCall {
            name: name.to_owned(),
            arguments_json: arguments.to_owned().into(),
            ..pb::ToolCall::default()
        })),
        ..pb::ExplainDecisionRequest::default()
    }
}

fn spec(effect: PermissionEffect, rule: &str) -> pb::RuleSpec {
    pb::RuleSpec {
        effect: effect as i32,
        rule: rule.to_owned(),
        ..pb::RuleSpec::default()
    }
}

fn refusal<T: std::fmt::Debug>(answered: Result<T, Status>) -> (Code, String, String) {
    let status = answered.unwrap_err();
    let named = match detail(&status).limit {
        Some(limit) => limit.name,
        None => detail(&status)
            .violations
            .first()
            .map_or_else(String::new, |violation| violation.field.clone()),
    };
    (status.code(), code(&status), named)
}

fn refused(code: Code, word: &str, field: &str) -> (Code, String, String) {
    (code, word.to_owned(), field.to_owned())
}
