//! Approvals over the wire: what waits, who decides, and that an answer survives everything.
//!
//! What a decision does inside a turn is the turn machine's tests' business.

mod command_line;
mod deciding;
mod events;
mod generations;
mod listing;
mod many;
mod restarting;
mod secrets;
mod sessions;
mod together;

use callgate_client::pb::v1 as pb;

use crate::support::approver::Approver;
use crate::support::executor::Executor;
use crate::support::orchestrator::{Following, Orchestrator, call, turn};
use crate::support::sidecar::{Setup, Sidecar};
use crate::support::{set_up, tools};

/// A sidecar with an executor, an orchestrator and an approver, and everything that tests register.
async fn with_approver(setup: Setup) -> (Sidecar, Executor, Orchestrator, Approver) {
    let all = [
        tools::echo(),
        tools::write(),
        tools::edit(),
        tools::erase(),
        shell(),
    ];
    let (sidecar, executor, orchestrator) = set_up(setup, all).await;
    let approver = Approver::connect(&sidecar).await;
    (sidecar, executor, orchestrator, approver)
}

/// Runs commands; needs an approval.
fn shell() -> pb::ToolDefinition {
    pb::ToolDefinition {
        name: "shell".to_owned(),
        kind: pb::ToolKind::Execute as i32,
        risk_level: pb::RiskLevel::Sensitive as i32,
        parameters_json:
            r#"{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}"#
                .into(),
        subject: Some(pb::Subject {
            pointer: "/command".to_owned(),
            subject_type: pb::SubjectType::Command as i32,
            dialect: String::new(),
        }),
        ..tools::erase()
    }
}

/// A turn of these calls, read until only people are awaited.
async fn frozen(orchestrator: &Orchestrator, request: pb::RunTurnRequest) -> Following {
    let mut events = orchestrator.run(request).await;
    let is_suspended =
        |body: &pb::turn_event::Body| matches!(body, pb::turn_event::Body::TurnSuspended(_));
    events.until(is_suspended).await;
    events
}

/// One call of `erase`.
fn erasing(turn_id: &str) -> pb::RunTurnRequest {
    turn(turn_id, [call("c", "erase", r#"{"text":"x"}"#)])
}
