//! `HookService`: the streams of hook processes, and the list of all hooks.
//!
//! `desk` keeps the hooks and asks them, `asking` is one question on its way, `session` runs one stream,
//! `convert` knows both forms. Never folds what hooks say: that is the gate's.

mod asking;
mod convert;
mod desk;
mod session;

use std::pin::Pin;
use std::sync::Arc;

use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::message_size::TooLarge;
use super::status::Failure;
use crate::executor::Broken;
use crate::pb::v1 as pb;
use crate::pb::v1::hook_service_server::HookService;

pub(super) use convert::{before_number, hook_ran};
pub use desk::{Desk, DeskParts};
pub use session::HookSessions;

/// Serves hook processes.
#[derive(Clone)]
pub struct Hooks {
    /// Runs the streams.
    pub sessions: Arc<HookSessions>,
}

#[tonic::async_trait]
impl HookService for Hooks {
    type ConnectHookStream =
        Pin<Box<dyn Stream<Item = Result<pb::ConnectHookResponse, Status>> + Send>>;

    async fn connect_hook(
        &self,
        request: Request<Streaming<pb::ConnectHookRequest>>,
    ) -> Result<Response<Self::ConnectHookStream>, Status> {
        let inbound = request.into_inner().map(|message| message.map_err(broken));
        let out = self.sessions.open(inbound);
        let out = out.map(|message| message.map_err(|end| Failure::from(end).into()));
        Ok(Response::new(Box::pin(out)))
    }

    async fn list_hooks(
        &self,
        _request: Request<pb::ListHooksRequest>,
    ) -> Result<Response<pb::ListHooksResponse>, Status> {
        let hooks = self.sessions.desk.infos();
        Ok(Response::new(pb::ListHooksResponse { hooks }))
    }

    async fn remove_hook(
        &self,
        request: Request<pb::RemoveHookRequest>,
    ) -> Result<Response<pb::RemoveHookResponse>, Status> {
        let hook_id = request.into_inner().hook_id;
        self.sessions.desk.remove(&hook_id)?;
        Ok(Response::new(pb::RemoveHookResponse {}))
    }
}

/// Why nothing more comes.
fn broken(status: Status) -> Broken {
    match TooLarge::behind(&status) {
        Some(&TooLarge {
            allowed, actual, ..
        }) => Broken::TooLarge { allowed, actual },
        None => Broken::Lost(status.to_string()),
    }
}
