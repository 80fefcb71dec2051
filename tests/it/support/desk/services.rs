//! The services of a desk, each answering from what the test put there.
//!
//! Never answers from anything else.

use std::sync::Arc;

use callgate::pb::v1 as pb;
use pb::approval_service_server::ApprovalService;
use pb::event_service_server::EventService;
use pb::session_service_server::SessionService;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

use super::{OUT_MAX, Shared, cut};

/// What the services of one desk have in common.
pub(super) struct Front(pub(super) Arc<Shared>);

type Stream<T> = ReceiverStream<Result<T, Status>>;

#[tonic::async_trait]
impl ApprovalService for Front {
    async fn list_approvals(
        &self,
        request: Request<pb::ListApprovalsRequest>,
    ) -> Result<Response<pb::ListApprovalsResponse>, Status> {
        // One a page, so that a client that reads the first alone is found out.
        let request = request.into_inner();
        let inner = self.0.inner.lock();
        let page: usize = request.page_token.parse().unwrap_or(0);
        let filter = request.filter.unwrap_or_default();
        let approvals: Vec<_> = match filter.states.is_empty() {
            true => inner.pending(),
            false => inner.approvals.values().map(cut).collect(),
        };
        let next = page + 1;
        Ok(Response::new(pb::ListApprovalsResponse {
            total: u32::try_from(approvals.len()).unwrap(),
            next_page_token: match next < approvals.len() {
                true => next.to_string(),
                false => String::new(),
            },
            approvals: approvals.into_iter().skip(page).take(1).collect(),
        }))
    }

    async fn get_approval(
        &self,
        request: Request<pb::GetApprovalRequest>,
    ) -> Result<Response<pb::GetApprovalResponse>, Status> {
        let inner = self.0.inner.lock();
        let approval = inner.approvals.get(&request.into_inner().approval_id);
        let approval = approval.ok_or_else(|| Status::not_found("no such approval"))?;
        Ok(Response::new(pb::GetApprovalResponse {
            approval: Some(approval.clone()),
        }))
    }

    type WatchApprovalsStream = Stream<pb::WatchApprovalsResponse>;

    async fn watch_approvals(
        &self,
        request: Request<pb::WatchApprovalsRequest>,
    ) -> Result<Response<Self::WatchApprovalsStream>, Status> {
        let request = request.into_inner();
        let mut inner = self.0.inner.lock();
        inner.watches.push(request.clone());
        self.0.asked.notify_waiters();
        if inner.refuses {
            return Err(Status::permission_denied("role_missing"));
        }
        if inner.is_away {
            return Err(Status::unavailable("gone for lunch"));
        }
        let is_fresh = request.after_cursor.is_empty();
        if !is_fresh && inner.cursors_expire {
            return Err(Status::out_of_range("the cursor is too old"));
        }
        let (out, messages) = mpsc::channel(OUT_MAX);
        if is_fresh {
            let snapshot = pb::WatchApprovalsResponse {
                approvals: inner.pending(),
                snapshot_complete: true,
                cursor: inner.cursor.to_string(),
            };
            out.try_send(Ok(snapshot)).unwrap();
        }
        inner.watchers.push(out);
        Ok(Response::new(ReceiverStream::new(messages)))
    }

    async fn decide_approvals(
        &self,
        request: Request<pb::DecideApprovalsRequest>,
    ) -> Result<Response<pb::DecideApprovalsResponse>, Status> {
        let client = request.metadata().get("callgate-client");
        let client = client
            .map_or("", |client| client.to_str().unwrap())
            .to_owned();
        let mut inner = self.0.inner.lock();
        let mut outcomes = Vec::new();
        for decision in request.into_inner().decisions {
            inner.decisions.push((decision.clone(), client.clone()));
            self.0.asked.notify_waiters();
            let outcome = match inner.outcomes.pop_front() {
                Some(outcome) => outcome?,
                None => inner.take(&decision)?,
            };
            outcomes.push(outcome);
        }
        Ok(Response::new(pb::DecideApprovalsResponse { outcomes }))
    }
}

fn not_here<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not at this desk"))
}

#[tonic::async_trait]
impl SessionService for Front {
    async fn get_session(
        &self,
        request: Request<pb::GetSessionRequest>,
    ) -> Result<Response<pb::GetSessionResponse>, Status> {
        let inner = self.0.inner.lock();
        let session = inner.sessions.get(&request.into_inner().session_id);
        let session = session.ok_or_else(|| Status::not_found("no such session"))?;
        Ok(Response::new(pb::GetSessionResponse {
            session: Some(session.clone()),
        }))
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        let inner = self.0.inner.lock();
        let page: usize = request.into_inner().page_token.parse().unwrap_or(0);
        let next = page + 1;
        Ok(Response::new(pb::ListSessionsResponse {
            sessions: inner
                .sessions
                .values()
                .skip(page)
                .take(1)
                .cloned()
                .collect(),
            next_page_token: match next < inner.sessions.len() {
                true => next.to_string(),
                false => String::new(),
            },
        }))
    }

    async fn update_session(
        &self,
        request: Request<pb::UpdateSessionRequest>,
    ) -> Result<Response<pb::UpdateSessionResponse>, Status> {
        let request = request.into_inner();
        let mut inner = self.0.inner.lock();
        inner.updates.push(request.clone());
        self.0.asked.notify_waiters();
        let session = inner.sessions.get_mut(&request.session_id);
        let session = session.ok_or_else(|| Status::not_found("no such session"))?;
        if request.etag != session.etag {
            return Err(Status::aborted("the etag is old"));
        }
        let mode = request.settings.unwrap_or_default().mode;
        if mode > session.max_mode {
            return Err(Status::failed_precondition("mode_not_allowed"));
        }
        session.settings.get_or_insert_default().mode = mode;
        Ok(Response::new(pb::UpdateSessionResponse {
            session: Some(session.clone()),
            released: 2,
            denied: 1,
        }))
    }

    async fn list_grants(
        &self,
        request: Request<pb::ListGrantsRequest>,
    ) -> Result<Response<pb::ListGrantsResponse>, Status> {
        let request = request.into_inner();
        let inner = self.0.inner.lock();
        let grants = inner.grants.iter();
        let grants = grants.filter(|grant| request.state == 0 || grant.state == request.state);
        Ok(Response::new(pb::ListGrantsResponse {
            grants: grants.cloned().collect(),
            next_page_token: String::new(),
        }))
    }

    async fn revoke_grants(
        &self,
        request: Request<pb::RevokeGrantsRequest>,
    ) -> Result<Response<pb::RevokeGrantsResponse>, Status> {
        let request = request.into_inner();
        let mut inner = self.0.inner.lock();
        let mut meant = Vec::new();
        for grant in &mut inner.grants {
            let is_meant =
                request.grant_ids.is_empty() || request.grant_ids.contains(&grant.grant_id);
            if is_meant {
                grant.state = pb::GrantState::Revoked as i32;
                meant.push(grant.clone());
            }
        }
        match meant.is_empty() {
            true => Err(Status::not_found("no such grant")),
            false => Ok(Response::new(pb::RevokeGrantsResponse {
                grants: meant,
                mode: pb::Mode::Default as i32,
            })),
        }
    }

    async fn create_session(
        &self,
        _: Request<pb::CreateSessionRequest>,
    ) -> Result<Response<pb::CreateSessionResponse>, Status> {
        not_here()
    }

    async fn fork_session(
        &self,
        _: Request<pb::ForkSessionRequest>,
    ) -> Result<Response<pb::ForkSessionResponse>, Status> {
        not_here()
    }

    async fn close_session(
        &self,
        _: Request<pb::CloseSessionRequest>,
    ) -> Result<Response<pb::CloseSessionResponse>, Status> {
        not_here()
    }
}

#[tonic::async_trait]
impl EventService for Front {
    type SubscribeStream = Stream<pb::SubscribeResponse>;

    async fn subscribe(
        &self,
        _: Request<pb::SubscribeRequest>,
    ) -> Result<Response<Self::SubscribeStream>, Status> {
        let mut inner = self.0.inner.lock();
        if inner.is_away {
            return Err(Status::unavailable("gone for lunch"));
        }
        let (out, messages) = mpsc::channel(OUT_MAX);
        let complete = pb::SubscribeResponse {
            snapshot_complete: true,
            ..pb::SubscribeResponse::default()
        };
        out.try_send(Ok(complete)).unwrap();
        inner.subscribers.push(out);
        self.0.asked.notify_waiters();
        Ok(Response::new(ReceiverStream::new(messages)))
    }
}
