//! `ServerService`: what this sidecar is and allows, and how to make it leave.
//!
//! Never drains by itself: it tells whoever owns the process.

use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status};

use super::access::{Caller, Role};
use super::convert::ms32;
use crate::config::Config;
use crate::engine::Engine;
use crate::pb::v1 as pb;
use crate::pb::v1::server_service_server::ServerService;

/// How the process is told to leave. Cheap to clone; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Drain {
    asked: CancellationToken,
    span_ms: Arc<OnceLock<u64>>,
}

impl Drain {
    /// Tells the process to leave, within that span if one is named. Only the first one counts.
    pub fn ask(&self, span_ms: Option<u32>) {
        if let Some(span_ms) = span_ms
            && !self.asked.is_cancelled()
        {
            // Two at once: either is first.
            let _ = self.span_ms.set(u64::from(span_ms));
        }
        self.asked.cancel();
    }

    /// Resolves when somebody has asked.
    pub async fn asked(&self) {
        self.asked.cancelled().await;
    }

    /// The span that was named.
    pub fn span_ms(&self) -> Option<u64> {
        self.span_ms.get().copied()
    }
}

/// Serves facts about the sidecar.
#[derive(Clone)]
pub struct Info {
    /// Knows whether the sidecar leaves.
    pub engine: Arc<Engine>,
    /// What holds here.
    pub config: Arc<Config>,
    /// Begins the drain.
    pub drain: Drain,
    /// When the process began, in Unix milliseconds.
    pub started_at_ms: u64,
}

impl Info {
    fn state(&self) -> pb::ServerState {
        if self.engine.is_draining() {
            return pb::ServerState::Draining;
        }
        match *self.engine.store_availability().borrow() {
            true => pb::ServerState::Serving,
            false => pb::ServerState::StoreUnavailable,
        }
    }

    fn timing(&self) -> pb::StreamTiming {
        let stream = &self.config.stream;
        pb::StreamTiming {
            ping_interval_ms: ms32(stream.ping_interval_ms),
            ping_misses: stream.ping_misses,
            accept_timeout_ms: ms32(stream.accept_timeout_ms),
            resume_window_ms: ms32(stream.resume_window_ms),
            send_stall_ms: ms32(stream.send_stall_ms),
        }
    }

    fn stream_limits(&self) -> pb::StreamLimits {
        let limits = &self.config.limits;
        pb::StreamLimits {
            max_message_bytes: ms32(limits.message_bytes_max),
            max_arguments_bytes: ms32(limits.args_bytes_max),
            max_result_bytes: ms32(limits.result_bytes_max),
            max_output_chunk_bytes: ms32(limits.output_chunk_bytes_max),
            max_metadata_bytes: ms32(limits.result_metadata_bytes_max),
            max_tools_per_message: ms32(limits.tools_per_message_max),
        }
    }
}

fn role(role: Role) -> i32 {
    let role = match role {
        Role::Orchestrator => pb::Role::Orchestrator,
        Role::Executor => pb::Role::Executor,
        Role::Hook => pb::Role::Hook,
        Role::Approver => pb::Role::Approver,
        Role::Admin => pb::Role::Admin,
        Role::Observer => pb::Role::Observer,
    };
    role as i32
}

#[tonic::async_trait]
impl ServerService for Info {
    async fn get_server_info(
        &self,
        request: Request<pb::GetServerInfoRequest>,
    ) -> Result<Response<pb::GetServerInfoResponse>, Status> {
        let caller = request.extensions().get::<Caller>();
        let limits = self.config.limits.rows().into_iter();
        let dialects = self.config.dialects().unwrap_or_default();
        Ok(Response::new(pb::GetServerInfoResponse {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol: Some(pb::ProtocolRange { min: 1, max: 1 }),
            process_id: self.engine.process_id().to_owned(),
            state: self.state() as i32,
            store: "sqlite".to_owned(),
            features: match self.config.server.reflection {
                true => vec!["reflection".to_owned()],
                false => Vec::new(),
            },
            dialects: dialects
                .into_iter()
                .map(|dialect| match dialect {
                    crate::gate::schema::SchemaDialect::Core => pb::SchemaDialect::Core as i32,
                    crate::gate::schema::SchemaDialect::JsonSchema202012 => {
                        pb::SchemaDialect::JsonSchema202012 as i32
                    }
                })
                .collect(),
            formats: vec![pb::ProviderFormat::OpenaiChat as i32],
            limits: limits
                .map(|row| pb::Limit {
                    name: row.name.to_owned(),
                    value: row.value,
                    unit: row.unit.to_owned(),
                    ceiling: row.ceiling,
                })
                .collect(),
            timing: Some(self.timing()),
            stream_limits: Some(self.stream_limits()),
            caller_roles: caller.map_or_else(Vec::new, |caller| {
                caller.roles.iter().map(|held| role(*held)).collect()
            }),
            caller_principal: caller
                .map_or_else(String::new, |caller| caller.principal.to_string()),
            started_at_ms: self.started_at_ms,
            checkpoints_not_kept: self.engine.checkpoints_not_kept(),
        }))
    }

    async fn start_drain(
        &self,
        request: Request<pb::StartDrainRequest>,
    ) -> Result<Response<pb::StartDrainResponse>, Status> {
        self.engine.start_drain();
        self.drain.ask(request.get_ref().drain_ms);
        Ok(Response::new(pb::StartDrainResponse {}))
    }
}
