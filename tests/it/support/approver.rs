//! An approver: sees what waits, and decides.
//!
//! Connects to the socket of approvers. Never an orchestrator at the same time.

use callgate_client::connect::{AuthorizedChannel, Target};
use callgate_client::pb::v1 as pb;
use callgate_client::pb::v1::approval_service_client::ApprovalServiceClient;
use callgate_client::pb::v1::event_service_client::EventServiceClient;
use callgate_client::pb::v1::session_service_client::SessionServiceClient;
use tonic::{Status, Streaming};

use super::sidecar::Sidecar;
use super::soon;

/// Talks to a sidecar over one channel.
#[derive(Clone)]
pub(crate) struct Approver {
    pub(crate) approvals: ApprovalServiceClient<AuthorizedChannel>,
    pub(crate) sessions: SessionServiceClient<AuthorizedChannel>,
    pub(crate) events: EventServiceClient<AuthorizedChannel>,
}

impl Approver {
    pub(crate) async fn connect(sidecar: &Sidecar) -> Self {
        Self::over(sidecar.control_channel().await)
    }

    /// Connects if anybody is there.
    pub(crate) async fn try_connect(sidecar: &Sidecar) -> Option<Self> {
        let target = Target {
            endpoint: Some(format!("unix://{}", sidecar.control_socket().display())),
            token: None,
        };
        target.connect().await.ok().map(Self::over)
    }

    pub(crate) fn over(channel: AuthorizedChannel) -> Self {
        Self {
            approvals: ApprovalServiceClient::new(channel.clone())
                .max_decoding_message_size(64 << 20),
            sessions: SessionServiceClient::new(channel.clone()),
            events: EventServiceClient::new(channel),
        }
    }

    /// One page.
    pub(crate) async fn page(
        &self,
        request: pb::ListApprovalsRequest,
    ) -> Result<pb::ListApprovalsResponse, Status> {
        let mut approvals = self.approvals.clone();
        let listed = soon("approvals", approvals.list_approvals(request)).await?;
        Ok(listed.into_inner())
    }

    /// Everything that waits, up to a page.
    pub(crate) async fn pending(&self) -> Vec<pb::Approval> {
        let page = self.page(pb::ListApprovalsRequest::default()).await;
        page.unwrap().approvals
    }

    /// The only one that waits.
    pub(crate) async fn only(&self) -> pb::Approval {
        let mut pending = self.pending().await;
        assert_eq!(pending.len(), 1, "{pending:?}");
        pending.remove(0)
    }

    pub(crate) async fn get(&self, id: &str) -> Result<pb::Approval, Status> {
        let mut approvals = self.approvals.clone();
        let request = pb::GetApprovalRequest {
            approval_id: id.to_owned(),
        };
        let got = soon("the approval", approvals.get_approval(request)).await?;
        Ok(got.into_inner().approval.unwrap())
    }

    /// Decides one.
    pub(crate) async fn decide(&self, decision: pb::ApprovalDecision) -> pb::DecisionOutcome {
        self.try_decide(decision).await.unwrap()
    }

    pub(crate) async fn try_decide(
        &self,
        decision: pb::ApprovalDecision,
    ) -> Result<pb::DecisionOutcome, Status> {
        let mut approvals = self.approvals.clone();
        let request = pb::DecideApprovalsRequest {
            decisions: vec![decision],
        };
        let decided = soon("the decision", approvals.decide_approvals(request)).await?;
        let mut outcomes = decided.into_inner().outcomes;
        assert_eq!(outcomes.len(), 1);
        Ok(outcomes.remove(0))
    }

    pub(crate) async fn watch(
        &self,
        request: pb::WatchApprovalsRequest,
    ) -> Result<Streaming<pb::WatchApprovalsResponse>, Status> {
        let mut approvals = self.approvals.clone();
        let watched = soon("the watch", approvals.watch_approvals(request)).await?;
        Ok(watched.into_inner())
    }
}

/// A decision about what was shown.
pub(crate) fn choose(approval: &pb::Approval, choice: pb::ApprovalChoice) -> pb::ApprovalDecision {
    pb::ApprovalDecision {
        approval_id: approval.approval_id.clone(),
        approval_digest: approval.approval_digest.clone(),
        etag: approval.etag.clone(),
        choice: choice as i32,
        ..pb::ApprovalDecision::default()
    }
}

/// The code of an outcome that is none.
pub(crate) fn code(outcome: &pb::DecisionOutcome) -> String {
    let error = outcome.error.as_ref();
    let detail = error.and_then(|error| error.detail.clone());
    detail.map(|detail| detail.code).unwrap_or_default()
}
