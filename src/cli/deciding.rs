//! Sends a decision of a person to the sidecar, for the commands and the panel alike.
//!
//! A lost answer is asked for again under the same decision id, which decides nothing twice. Never makes
//! a decision and never changes one.

use std::time::Duration;

use callgate_client::connect::AuthorizedChannel;
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::approval_service_client::ApprovalServiceClient;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request, Status};

use super::client::word;

/// Approvals with arguments of any size that the sidecar takes.
const MESSAGE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// How often one decision is sent.
const ATTEMPTS_MAX: u32 = 5;

/// Wait before the second attempt; it doubles.
const RETRY: Duration = Duration::from_millis(200);

/// The sidecar's desk of approvals.
pub(super) type Desk = ApprovalServiceClient<AuthorizedChannel>;

/// What the person used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Surface {
    /// A command.
    Command,
    /// The panel.
    Panel,
}

/// Approvals over this channel.
pub(super) fn desk(channel: AuthorizedChannel) -> Desk {
    ApprovalServiceClient::new(channel).max_decoding_message_size(MESSAGE_BYTES_MAX)
}

/// A decision on an approval as it was seen. It gets its id when it is sent.
pub(super) fn decision_on(
    seen: &pb::Approval,
    choice: pb::ApprovalChoice,
    message: &str,
) -> pb::ApprovalDecision {
    pb::ApprovalDecision {
        approval_id: seen.approval_id.clone(),
        approval_digest: seen.approval_digest.clone(),
        etag: seen.etag.clone(),
        choice: choice as i32,
        message: message.to_owned(),
        ..pb::ApprovalDecision::default()
    }
}

/// Sends one decision until there is an answer, at most five times.
///
/// Given up on, it may have been recorded or not: read the approval.
///
/// # Errors
/// How the last attempt failed.
pub(super) async fn send(
    desk: &mut Desk,
    mut decision: pb::ApprovalDecision,
    surface: Surface,
) -> Result<pb::DecisionOutcome, Status> {
    // Made once: every further attempt is the same decision.
    decision.decision_id = uuid::Uuid::now_v7().to_string();
    let name = match surface {
        Surface::Command => concat!("callgate-cli/", env!("CARGO_PKG_VERSION")),
        Surface::Panel => concat!("callgate-panel/", env!("CARGO_PKG_VERSION")),
    };
    let mut wait = RETRY;
    for attempt in 1.. {
        let mut request = Request::new(pb::DecideApprovalsRequest {
            decisions: vec![decision.clone()],
        });
        let client = MetadataValue::from_static(name);
        request.metadata_mut().insert("callgate-client", client);
        match desk.decide_approvals(request).await {
            Ok(answer) => {
                let outcomes = answer.into_inner().outcomes;
                let first = outcomes.into_iter().next();
                return first.ok_or_else(|| Status::internal("an answer without an outcome"));
            }
            Err(status) if attempt < ATTEMPTS_MAX && is_lost(status.code()) => {}
            Err(status) => return Err(status),
        }
        tokio::time::sleep(wait).await;
        wait *= 2;
    }
    Err(Status::unavailable("no answer"))
}

/// Whether the sidecar may have had the request, or may have it later.
fn is_lost(code: Code) -> bool {
    // A connection that breaks is `Unknown` to tonic, or `Unavailable`.
    code == Code::Unavailable || code == Code::Unknown
}

/// Why a decision was not taken, on one line. None: it holds.
pub(super) fn refusal(outcome: &pb::DecisionOutcome) -> Option<String> {
    let status = match pb::DecisionStatus::try_from(outcome.status) {
        Ok(pb::DecisionStatus::Taken | pb::DecisionStatus::Repeated) => return None,
        Ok(status @ (pb::DecisionStatus::Conflict | pb::DecisionStatus::Refused)) => {
            word(status.as_str_name(), "DECISION_STATUS_")
        }
        Ok(pb::DecisionStatus::Unspecified) | Err(_) => format!("status {}", outcome.status),
    };
    let error = outcome.error.as_ref();
    let code = error.and_then(|error| error.detail.as_ref());
    let code = code.map_or("no code", |detail| detail.code.as_str());
    let message = error.map_or("", |error| error.message.as_str());
    let mut text = format!("{status}: {code}");
    if !message.is_empty() {
        text.push_str(&format!(": {}", super::visible::visible(message)));
    }
    let winner = outcome.approval.as_ref();
    if let Some(winner) = winner.filter(|approval| approval.state() != pb::ApprovalState::Pending) {
        let state = super::approval_text::approval_state_word(winner.state);
        text.push_str(&format!("; it is {state}"));
        if let Some(decision) = &winner.decision {
            let line = super::approval_text::decision_line(decision);
            text.push_str(&format!(", {line}"));
        }
    }
    Some(text)
}
