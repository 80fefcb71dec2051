//! `ExecutorService` over gRPC: one carrier of the executor session.
//!
//! The headers go out before anything is read, since the session runs in its own task. Never looks
//! into a message.

use std::pin::Pin;
use std::sync::Arc;

use tokio_stream::{Stream, StreamExt};
use tonic::{Request, Response, Status, Streaming};

use super::access::Caller;
use super::message_size::TooLarge;
use super::status::Failure;
use crate::executor::{Broken, Identity, NameBinding, Sessions};
use crate::pb::v1 as pb;
use crate::pb::v1::executor_service_server::ExecutorService;

/// Serves executors.
#[derive(Clone)]
pub struct Executors {
    /// Runs the streams.
    pub sessions: Arc<Sessions>,
}

#[tonic::async_trait]
impl ExecutorService for Executors {
    type ConnectStream = Pin<Box<dyn Stream<Item = Result<pb::ConnectResponse, Status>> + Send>>;

    async fn connect(
        &self,
        request: Request<Streaming<pb::ConnectRequest>>,
    ) -> Result<Response<Self::ConnectStream>, Status> {
        let principal = request
            .extensions()
            .get::<Caller>()
            .map_or_else(String::new, |caller| caller.principal.to_string());
        // Local sockets and the roles' own tokens are bound to no name: the hello's name holds.
        let identity = Identity {
            principal,
            binding: NameBinding { owner: None },
        };
        let inbound = request.into_inner().map(|message| message.map_err(broken));
        let out = self.sessions.open(inbound, identity);
        let out = out.map(|message| message.map_err(|end| Failure::from(end).into()));
        Ok(Response::new(Box::pin(out)))
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
