//! The demo's dangerous call: its batch waits, the sidecar is killed and comes back, a person decides.
//!
//! The decisions come over the socket of approvers, as they would from a panel.

use std::path::Path;

use callgate_client::connect::{AuthorizedChannel, Target};
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::approval_service_client::ApprovalServiceClient;
use callgate_client::pb::v1::turn_service_client::TurnServiceClient;
use pb::turn_event::Body;
use tonic::Streaming;

use super::processes::Running;
use super::{message_request, show_results};
use crate::cli::client::failed;
use crate::cli::output::{Outcome, data};
use crate::cli::running::event_line;

/// The recorded message of both.
const FILE: &str = "dangerous_batch.json";

/// Plays both scenarios. The sidecar that comes back takes the place of the one that was killed.
pub(super) async fn play(
    sidecar: &mut Running,
    dir: &Path,
    examples: &Path,
) -> Result<(), Outcome> {
    data(
        "\na dangerous call freezes its batch, outlives the sidecar, and runs once it is approved",
    );
    let first = freeze(sidecar, examples, "approved").await?;
    data("  (kill -9)");
    sidecar.kill().await?;
    *sidecar = Running::sidecar(dir).await?;
    data(&format!("  {} again", sidecar.endpoint));
    let after = waiting(sidecar).await?;
    if after.approval_id != first.approval_id || after.approval_digest != first.approval_digest {
        return Err(Outcome::failed("another approval waits after the restart"));
    }
    data(&format!("  still waits: {}", line_of(&after)));
    decide(sidecar, &after, pb::ApprovalChoice::Once, "").await?;
    let completed = end_of(sidecar, &first.turn_id).await?;
    for result in &completed.results {
        if result.is_error || result.attempts != 1 {
            let tool = &result.tool;
            return Err(Outcome::failed(format!(
                "`{tool}` did not run exactly once"
            )));
        }
    }
    data("\nanother one is denied, and nothing of its batch runs");
    let second = freeze(sidecar, examples, "denied").await?;
    let words = "not while the ovens are hot";
    decide(sidecar, &second, pb::ApprovalChoice::Deny, words).await?;
    let completed = end_of(sidecar, &second.turn_id).await?;
    let codes: Vec<&str> = completed
        .results
        .iter()
        .map(|result| {
            result
                .error
                .as_ref()
                .map_or("", |error| error.code.as_str())
        })
        .collect();
    match codes.as_slice() {
        ["tool_denied_by_user", "tool_batch_rejected"] => Ok(()),
        other => Err(Outcome::failed(format!("the calls ended {other:?}"))),
    }
}

async fn connect(endpoint: &str) -> Result<AuthorizedChannel, Outcome> {
    let target = Target {
        endpoint: Some(endpoint.to_owned()),
        token: None,
    };
    let channel = target.connect().await;
    channel.map_err(|error| Outcome::failed(error.to_string()))
}

/// Runs a turn until only people are awaited, and shows what waits.
async fn freeze(sidecar: &Running, examples: &Path, name: &str) -> Result<pb::Approval, Outcome> {
    let request = pb::RunTurnRequest {
        run_id: name.to_owned(),
        turn_id: name.to_owned(),
        on_suspend: pb::OnSuspend::End as i32,
        ..message_request(examples, FILE)?
    };
    let mut turns = TurnServiceClient::new(connect(&sidecar.endpoint).await?);
    let events = turns.run_turn(request).await;
    let mut events = events.map_err(|status| failed(&status))?.into_inner();
    while let Some(message) = events.message().await.map_err(|status| failed(&status))? {
        show(message.turn.unwrap_or_default().events);
    }
    let approval = waiting(sidecar).await?;
    data(&format!("  waits: {}", line_of(&approval)));
    Ok(approval)
}

fn line_of(approval: &pb::Approval) -> String {
    let verdict = approval.verdict.clone().unwrap_or_default();
    let arguments = String::from_utf8_lossy(&approval.effective_arguments_json);
    format!(
        "{} {arguments}, because of {}",
        approval.tool, verdict.message
    )
}

fn show(events: Vec<pb::TurnEvent>) -> Option<pb::TurnCompleted> {
    let mut completed = None;
    for event in events {
        if let Some(line) = event_line(&event) {
            data(&format!("  {line}"));
        }
        if let Some(Body::TurnCompleted(end)) = event.body {
            completed = Some(end);
        }
    }
    completed
}

async fn approvals(sidecar: &Running) -> Result<ApprovalServiceClient<AuthorizedChannel>, Outcome> {
    let endpoint = sidecar.endpoint.replace("callgate.sock", "control.sock");
    Ok(ApprovalServiceClient::new(connect(&endpoint).await?))
}

/// The one approval that waits.
async fn waiting(sidecar: &Running) -> Result<pb::Approval, Outcome> {
    let mut approvals = approvals(sidecar).await?;
    let listed = approvals.list_approvals(pb::ListApprovalsRequest::default());
    let listed = listed.await.map_err(|status| failed(&status))?.into_inner();
    match listed.approvals.as_slice() {
        [only] => Ok(only.clone()),
        others => Err(Outcome::failed(format!("{} approvals wait", others.len()))),
    }
}

async fn decide(
    sidecar: &Running,
    approval: &pb::Approval,
    choice: pb::ApprovalChoice,
    message: &str,
) -> Result<(), Outcome> {
    data(&format!("  (an approver says {})", choice.as_str_name()));
    let decision = pb::ApprovalDecision {
        approval_id: approval.approval_id.clone(),
        approval_digest: approval.approval_digest.clone(),
        etag: approval.etag.clone(),
        choice: choice as i32,
        message: message.to_owned(),
        ..pb::ApprovalDecision::default()
    };
    let request = pb::DecideApprovalsRequest {
        decisions: vec![decision],
    };
    let decided = approvals(sidecar).await?.decide_approvals(request).await;
    let decided = decided.map_err(|status| failed(&status))?.into_inner();
    match decided.outcomes.first().map(pb::DecisionOutcome::status) {
        Some(pb::DecisionStatus::Taken) => Ok(()),
        other => Err(Outcome::failed(format!("the decision ended {other:?}"))),
    }
}

/// Follows a turn to its end.
async fn end_of(sidecar: &Running, turn: &str) -> Result<pb::TurnCompleted, Outcome> {
    let mut turns = TurnServiceClient::new(connect(&sidecar.endpoint).await?);
    let request = pb::AttachTurnRequest {
        turn_id: turn.to_owned(),
        ..pb::AttachTurnRequest::default()
    };
    let events = turns.attach_turn(request).await;
    let mut events: Streaming<_> = events.map_err(|status| failed(&status))?.into_inner();
    while let Some(message) = events.message().await.map_err(|status| failed(&status))? {
        if let Some(completed) = show(message.turn.unwrap_or_default().events) {
            show_results(&completed.results);
            return Ok(completed);
        }
    }
    Err(Outcome::failed("the stream ended before the turn did"))
}
