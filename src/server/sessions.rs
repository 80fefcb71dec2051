//! `SessionService`: settings, grants and children of sessions.
//!
//! Translates and hands over to the engine. Never keeps state of its own.

use std::sync::Arc;

use tonic::{Request, Response, Status};

use super::access::{Caller, Role, principal};
use super::convert_approval as convert;
use super::convert_permission::mode_number;
use super::status::Failure;
use crate::engine::{Engine, Session};
use crate::gate::ids::{SessionId, UnixMillis};
use crate::gate::permission::{Grant, GrantId};
use crate::gate::session::SessionSettings;
use crate::pb::v1 as pb;
use crate::pb::v1::session_service_server::SessionService;

/// Entries of a page that names no size, and the most that one may name.
const SESSIONS_DEFAULT: u32 = 50;
const SESSIONS_MAX: u32 = 500;
const GRANTS_DEFAULT: u32 = 100;
const GRANTS_PAGE_MAX: u32 = 1_000;

/// Serves sessions.
#[derive(Clone)]
pub struct SessionsApi {
    /// Does the work.
    pub engine: Arc<Engine>,
}

impl SessionsApi {
    fn show(&self, session: &Session) -> Option<pb::Session> {
        Some(convert::session(&self.engine, session))
    }

    async fn find(&self, id: &str) -> Result<Arc<Session>, Failure> {
        let id = super::convert::session_id(id)?;
        Ok(self.engine.find_session(&id).await?)
    }

    async fn list(
        &self,
        request: pb::ListSessionsRequest,
    ) -> Result<pb::ListSessionsResponse, Failure> {
        let limit = page_size(request.page_size, SESSIONS_DEFAULT, SESSIONS_MAX)?;
        let after = match request.page_token.is_empty() {
            true => None,
            false => Some(read_token(&request.page_token)?),
        };
        let mut response = pb::ListSessionsResponse::default();
        let known = self.engine.list_sessions().await?;
        let later = known.into_iter().filter(|(id, at)| match &after {
            None => true,
            Some((last_at, last_id)) => {
                (std::cmp::Reverse(*at), id) > (std::cmp::Reverse(*last_at), last_id)
            }
        });
        let mut last: Option<(SessionId, UnixMillis)> = None;
        for (id, at) in later {
            let session = self.engine.session(&id).await?;
            let is_closed = session.state().record.closed_at.is_some();
            let of_line = request.root_session_id.is_empty()
                || session.root().as_str() == request.root_session_id;
            if !of_line || (is_closed && !request.include_closed) {
                continue;
            }
            if response.sessions.len() == limit {
                response.next_page_token = last.as_ref().map(token).unwrap_or_default();
                break;
            }
            response.sessions.extend(self.show(&session));
            last = Some((id, at));
        }
        Ok(response)
    }

    async fn update(
        &self,
        request: pb::UpdateSessionRequest,
        may_set_all: bool,
        by: &Arc<str>,
    ) -> Result<pb::UpdateSessionResponse, Failure> {
        let id = super::convert::session_id(&request.session_id)?;
        let settings = convert::settings(request.settings)?;
        let only_mode = SessionSettings {
            mode: settings.mode,
            ..SessionSettings::default()
        };
        if !may_set_all && settings != only_mode {
            let problem = "an approver may set the mode only";
            return Err(Failure::field("settings", problem));
        }
        let version = convert::version(&request.etag)?;
        let change = self
            .engine
            .update_session(&id, version, settings, by)
            .await?;
        Ok(pb::UpdateSessionResponse {
            session: self.show(&change.session),
            released: change.released,
            denied: change.denied,
        })
    }

    async fn grants(
        &self,
        request: pb::ListGrantsRequest,
    ) -> Result<pb::ListGrantsResponse, Failure> {
        let limit = page_size(request.page_size, GRANTS_DEFAULT, GRANTS_PAGE_MAX)?;
        let session = self.find(&request.session_id).await?;
        let before = match request.page_token.as_str() {
            "" => GrantId(u64::MAX),
            token => GrantId::parse(token).ok_or_else(none_of_ours)?,
        };
        let state = session.state();
        let mut grants: Vec<&Grant> = state.grants.iter().collect();
        grants.sort_unstable_by_key(|grant| std::cmp::Reverse(grant.id));
        let now = self.engine.now();
        let shown = grants.into_iter().filter(|grant| grant.id < before);
        let shown = shown.map(|grant| convert::grant(grant, &session, now));
        let mut shown = shown.filter(|grant| request.state == 0 || grant.state == request.state);
        let page: Vec<pb::Grant> = shown.by_ref().take(limit).collect();
        let more = shown.next().is_some();
        Ok(pb::ListGrantsResponse {
            next_page_token: match page.last().filter(|_| more) {
                Some(last) => last.grant_id.clone(),
                None => String::new(),
            },
            grants: page,
        })
    }

    async fn revoke(
        &self,
        request: pb::RevokeGrantsRequest,
        by: String,
    ) -> Result<pb::RevokeGrantsResponse, Failure> {
        let id = super::convert::session_id(&request.session_id)?;
        let ids = request.grant_ids.iter().map(|id| {
            let parsed = GrantId::parse(id);
            parsed.ok_or_else(|| Failure::not_found("grant", id))
        });
        let ids = ids.collect::<Result<Vec<_>, _>>()?;
        let (session, grants) = self.engine.revoke_grants(&id, ids, by).await?;
        let now = self.engine.now();
        let grants = grants.iter();
        Ok(pb::RevokeGrantsResponse {
            grants: grants
                .map(|grant| convert::grant(grant, &session, now))
                .collect(),
            mode: mode_number(self.engine.mode_of(&session)),
        })
    }
}

pub(super) fn page_size(named: u32, default: u32, max: u32) -> Result<usize, Failure> {
    match named {
        0 => Ok(default as usize),
        named if named <= max => Ok(named as usize),
        _ => {
            let problem = format!("must be at most {max}");
            Err(Failure::field("page_size", problem))
        }
    }
}

fn token((id, at): &(SessionId, UnixMillis)) -> String {
    format!("{}.{id}", at.0)
}

fn read_token(token: &str) -> Result<(UnixMillis, SessionId), Failure> {
    let parts = token.split_once('.').and_then(|(at, id)| {
        let id = SessionId::parse(id).ok()?;
        Some((UnixMillis(at.parse().ok()?), id))
    });
    parts.ok_or_else(none_of_ours)
}

fn none_of_ours() -> Failure {
    Failure::field("page_token", "is none of ours")
}

fn optional_id(id: &str) -> Result<Option<SessionId>, Failure> {
    super::convert::optional_session(id)
}

fn has_one_of<T>(request: &Request<T>, roles: &[Role]) -> bool {
    let caller = request.extensions().get::<Caller>();
    caller.is_some_and(|caller| caller.roles.iter().any(|role| roles.contains(role)))
}

#[tonic::async_trait]
impl SessionService for SessionsApi {
    async fn create_session(
        &self,
        request: Request<pb::CreateSessionRequest>,
    ) -> Result<Response<pb::CreateSessionResponse>, Status> {
        let by = principal(&request);
        let request = request.into_inner();
        let id = optional_id(&request.session_id)?;
        let settings = convert::settings(request.settings)?;
        let session = self.engine.create_session(id, settings, &by).await;
        let session = session.map_err(Failure::from)?;
        Ok(Response::new(pb::CreateSessionResponse {
            session: self.show(&session),
        }))
    }

    async fn get_session(
        &self,
        request: Request<pb::GetSessionRequest>,
    ) -> Result<Response<pb::GetSessionResponse>, Status> {
        let session = self.find(&request.into_inner().session_id).await?;
        Ok(Response::new(pb::GetSessionResponse {
            session: self.show(&session),
        }))
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Result<Response<pb::ListSessionsResponse>, Status> {
        Ok(Response::new(self.list(request.into_inner()).await?))
    }

    async fn update_session(
        &self,
        request: Request<pb::UpdateSessionRequest>,
    ) -> Result<Response<pb::UpdateSessionResponse>, Status> {
        let may_set_all = has_one_of(&request, &[Role::Orchestrator, Role::Admin]);
        let by = principal(&request);
        let updated = self.update(request.into_inner(), may_set_all, &by).await?;
        Ok(Response::new(updated))
    }

    async fn fork_session(
        &self,
        request: Request<pb::ForkSessionRequest>,
    ) -> Result<Response<pb::ForkSessionResponse>, Status> {
        let by = principal(&request);
        let request = request.into_inner();
        let parent = super::convert::session_id(&request.parent_session_id)?;
        let id = optional_id(&request.session_id)?;
        let settings = convert::settings(request.settings)?;
        let inherits = request.inherit_grants;
        let child = self
            .engine
            .fork_session(&parent, id, settings, inherits, &by);
        let child = child.await.map_err(Failure::from)?;
        Ok(Response::new(pb::ForkSessionResponse {
            session: self.show(&child),
        }))
    }

    async fn close_session(
        &self,
        request: Request<pb::CloseSessionRequest>,
    ) -> Result<Response<pb::CloseSessionResponse>, Status> {
        let by = principal(&request);
        let request = request.into_inner();
        let allowed = self.engine.limits().reason_bytes_max;
        if request.reason.len() as u64 > allowed {
            let actual = request.reason.len() as u64;
            return Err(Failure::limit("reason_bytes_max", allowed, actual, false).into());
        }
        let id = super::convert::session_id(&request.session_id)?;
        let session = self.engine.close_session(&id, &request.reason, &by).await;
        let session = session.map_err(Failure::from)?;
        Ok(Response::new(pb::CloseSessionResponse {
            session: self.show(&session),
        }))
    }

    async fn list_grants(
        &self,
        request: Request<pb::ListGrantsRequest>,
    ) -> Result<Response<pb::ListGrantsResponse>, Status> {
        Ok(Response::new(self.grants(request.into_inner()).await?))
    }

    async fn revoke_grants(
        &self,
        request: Request<pb::RevokeGrantsRequest>,
    ) -> Result<Response<pb::RevokeGrantsResponse>, Status> {
        let by = principal(&request).to_string();
        let revoked = self.revoke(request.into_inner(), by).await?;
        Ok(Response::new(revoked))
    }
}
