//! Translates between the wire and the engine: services, credentials, listeners, health.
//!
//! Never decides anything about a call.

pub mod access;
mod approvals;
mod audit;
mod convert;
mod convert_approval;
mod convert_permission;
mod events;
mod executors;
mod happenings;
mod hooks;
mod info;
mod listener;
mod message_size;
mod policy;
mod registry;
mod secrets;
mod sessions;
pub mod status;
mod turn_stream;
mod turns;
mod watch;
mod words;

use message_size::hook_stream_bytes_max;
use tonic::service::{Routes, RoutesBuilder};
use tonic_health::server::HealthReporter;

use crate::config::Config;
use crate::pb::DESCRIPTORS;
use crate::pb::v1::approval_service_server::ApprovalServiceServer;
use crate::pb::v1::audit_service_server::AuditServiceServer;
use crate::pb::v1::event_service_server::EventServiceServer;
use crate::pb::v1::executor_service_server::ExecutorServiceServer;
use crate::pb::v1::hook_service_server::HookServiceServer;
use crate::pb::v1::policy_service_server::PolicyServiceServer;
use crate::pb::v1::registry_service_server::RegistryServiceServer;
use crate::pb::v1::server_service_server::ServerServiceServer;
use crate::pb::v1::session_service_server::SessionServiceServer;
use crate::pb::v1::turn_service_server::TurnServiceServer;

pub use approvals::Approvals;
pub use audit::Audit;
pub(crate) use convert_permission::source_word;
pub use convert_permission::{Sight, explanation, rule_message};
pub use executors::Executors;
pub use happenings::Happenings;
pub use hooks::{Desk, DeskParts, HookSessions, Hooks};
pub use info::{Drain, Info};
pub use listener::{ListenError, Listener, Served, listen_tcp, listen_unix, socket_paths};
pub use policy::Policy;
pub use registry::Tools;
pub use sessions::SessionsApi;
pub use turns::Turns;

/// Names under which health is told, beside the whole under the empty name.
pub const HEALTH_NAMES: [&str; 12] = [
    "liveness",
    "readiness",
    "callgate.v1.TurnService",
    "callgate.v1.ExecutorService",
    "callgate.v1.RegistryService",
    "callgate.v1.PolicyService",
    "callgate.v1.ServerService",
    "callgate.v1.ApprovalService",
    "callgate.v1.SessionService",
    "callgate.v1.EventService",
    "callgate.v1.AuditService",
    "callgate.v1.HookService",
];

/// Largest message sent, in bytes: a reader may ask for messages of up to this size.
const ENCODED_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The services of one sidecar.
pub struct Services {
    /// Turns.
    pub turns: Turns,
    /// Executors.
    pub executors: Executors,
    /// The registry.
    pub tools: Tools,
    /// Approvals.
    pub approvals: Approvals,
    /// Sessions.
    pub sessions: SessionsApi,
    /// Events.
    pub happenings: Happenings,
    /// Hooks.
    pub hooks: Hooks,
    /// Rules and explanations.
    pub policy: Policy,
    /// The audit.
    pub audit: Audit,
    /// The sidecar itself.
    pub info: Info,
}

impl Services {
    /// Puts the services behind their paths, with message limits, health, and reflection if asked for.
    ///
    /// # Errors
    /// The descriptors cannot be read: the build is broken.
    pub fn into_routes(self, config: &Config) -> Result<(Routes, HealthReporter), String> {
        let taken = config.limits.message_bytes_max;
        let [taken, of_hooks] = [taken, hook_stream_bytes_max(taken)]
            .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let (health, health_service) = tonic_health::server::health_reporter();
        let mut routes = RoutesBuilder::default();
        macro_rules! add {
            ($taken:expr; $($service:expr),*) => {$(
                routes.add_service(
                    $service
                        .max_decoding_message_size($taken)
                        .max_encoding_message_size(ENCODED_BYTES_MAX),
                );
            )*};
        }
        add!(
            taken;
            TurnServiceServer::new(self.turns),
            ExecutorServiceServer::new(self.executors),
            RegistryServiceServer::new(self.tools),
            ApprovalServiceServer::new(self.approvals),
            SessionServiceServer::new(self.sessions),
            EventServiceServer::new(self.happenings),
            PolicyServiceServer::new(self.policy),
            AuditServiceServer::new(self.audit),
            ServerServiceServer::new(self.info)
        );
        add!(of_hooks; HookServiceServer::new(self.hooks));
        routes.add_service(health_service);
        if config.server.reflection {
            let reflection = tonic_reflection::server::Builder::configure()
                .register_encoded_file_descriptor_set(DESCRIPTORS)
                .build_v1()
                .map_err(|error| error.to_string())?;
            routes.add_service(reflection);
        }
        Ok((routes.routes(), health))
    }
}
