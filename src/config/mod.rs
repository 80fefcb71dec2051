//! The configuration: one struct per part, defaults < file < environment < flags.
//!
//! A key that nobody knows stops the start. Plain data: never opens a socket or a store.

pub mod hooks;
mod loops;
pub mod rule_files;
mod sources;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::gate::approval::BatchPolicy;
use crate::gate::audit::parse_hex;
use crate::gate::ids::OwnerName;
use crate::gate::limits::Limits;
use crate::gate::permission::{Aliases, Mode};
use crate::gate::schema::{SchemaDialect, SchemaOptions, UnknownProperties};
use crate::gate::session::Approvers;
use crate::gate::tool::{Risk, ToolRules};
use crate::gate::turn::TurnSettings;

pub use hooks::HooksConfig;
pub use loops::{DiagnosisConfig, EndpointAddress, LoopConfig};
pub use sources::{Environment, ProcessEnvironment, Sources};

/// Why there is no configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("config `{path}`: {problem}")]
    Unreadable {
        /// The file.
        path: String,
        /// What happened.
        problem: String,
    },
    /// A key is unknown.
    #[error("config: `{key}` is no key")]
    UnknownKey {
        /// Its path.
        key: String,
    },
    /// A value is not of its type.
    #[error("config: {problem}")]
    Invalid {
        /// What is wrong.
        problem: String,
    },
    /// A value is out of its range.
    #[error("config: `{key}` {problem}")]
    OutOfRange {
        /// The key.
        key: String,
        /// What is wrong.
        problem: String,
    },
}

/// Everything that can be set.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where state is kept. Default: `$XDG_STATE_HOME/callgate`, else `~/.local/state/callgate`.
    pub data_dir: PathBuf,
    /// Where the Unix sockets are. Default: `$XDG_RUNTIME_DIR/callgate`, else `run` in the data
    /// directory.
    pub socket_dir: PathBuf,
    /// Listeners and connections.
    pub server: ServerConfig,
    /// What tools may register.
    pub registry: RegistryConfig,
    /// Which calls may run.
    pub permissions: PermissionsConfig,
    /// What happens to calls that must be asked.
    pub approvals: ApprovalsConfig,
    /// Who is asked before and after calls.
    pub hooks: HooksConfig,
    /// How long calls and turns wait.
    pub turn: TurnConfig,
    /// What ends a run as a loop.
    #[serde(rename = "loop")]
    pub loops: LoopConfig,
    /// The streams of executors.
    pub stream: StreamConfig,
    /// How the audit is kept.
    pub audit: AuditConfig,
    /// How long things are kept.
    pub retention: RetentionConfig,
    /// What is logged.
    pub log: LogConfig,
    /// Bounds on what peers send.
    pub limits: Limits,
}

/// Listeners and connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ServerConfig {
    /// Address of the TCP listener; loopback only. Default `127.0.0.1:50551`. Empty: none.
    pub tcp: String,
    /// Listen on the two Unix sockets. Default true.
    pub unix: bool,
    /// Answer `grpc.reflection`. Default false.
    pub reflection: bool,
    /// Longest time for what runs when the sidecar leaves, in milliseconds. Default 25 000. Zero: do
    /// not wait.
    pub drain_ms: u64,
    /// Idle time after which an HTTP/2 connection is pinged, in milliseconds. Default 20 000.
    pub keepalive_interval_ms: u64,
    /// How long that ping may take, in milliseconds. Default 10 000.
    pub keepalive_timeout_ms: u64,
    /// Longest time for the headers of a connection's first request, in milliseconds. Default 5 000.
    pub handshake_timeout_ms: u64,
    /// Worker threads. Default 0: one thread for everything on at most 2 cores, else one per core.
    pub worker_threads: usize,
}

/// What tools may register.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RegistryConfig {
    /// Risk of a tool that names none. Default `safe`.
    pub unspecified_risk: Risk,
    /// Dialects that tools may use: `core`, `json-schema-2020-12`. Default both.
    pub dialects: Vec<String>,
    /// What the core dialect does with undeclared properties: `pass` or `refuse`. Default `pass`.
    pub core_unknown: CoreUnknown,
    /// Longest execution of a tool that names none, in milliseconds. Default 120 000. Zero is refused.
    pub default_timeout_ms: u32,
}

/// What the core dialect does with undeclared properties.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CoreUnknown {
    /// They pass unchecked.
    Pass,
    /// They are `tool_argument_unknown`.
    Refuse,
}

/// Which calls may run: where rules come from, and the mode.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PermissionsConfig {
    /// Mode of every session: `plan`, `default`, `accept_edits`, `auto`. Default `default`.
    pub default_mode: String,
    /// The administrator's file of rules. Default `/etc/callgate/settings.json`. Empty: none.
    pub policy_file: PathBuf,
    /// The user's file of rules. Default `$XDG_CONFIG_HOME/callgate/settings.json`.
    pub user_file: PathBuf,
    /// The directory whose `.callgate/settings.json` and `settings.local.json` hold rules. Default:
    /// none.
    pub workspace: PathBuf,
    /// A further file of rules, which must be there. Default: none.
    pub settings_file: PathBuf,
    /// Allow rules besides those of the files. Default none.
    pub allow: Vec<String>,
    /// Ask rules besides those of the files. Default none.
    pub ask: Vec<String>,
    /// Deny rules besides those of the files. Default none.
    pub deny: Vec<String>,
    /// Executors whose tools may let their own calls run by their permission check. Never counts for a
    /// dangerous tool. Default none.
    pub trusted_executors: Vec<String>,
    /// Names that rules may use for tools, e.g. `Bash = ["run_shell"]`. Default none.
    pub aliases: Aliases,
}

/// What happens to calls that must be asked, where a session does not say so.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ApprovalsConfig {
    /// Whether somebody can be asked: `expected`, `connected`, `none`. Default `expected`.
    pub approvers: Approvers,
    /// What happens to a batch while a call waits: `freeze_atomic`, `freeze_partial`, `eager_safe`.
    /// Default `freeze_atomic`.
    pub batch_policy: BatchPolicy,
    /// How long an approval waits, in milliseconds. Default 0: for ever.
    pub ttl_ms: u64,
}

/// How long calls and turns wait. Milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TurnConfig {
    /// For an executor with room; then `tool_unavailable`. Default 30 000.
    pub queue_timeout_ms: u64,
    /// For a cancelled call to stop, where the canceller names no span. Default 5 000.
    pub cancel_grace_ms: u32,
    /// How often a call is sent at most. Default 3. Zero is refused.
    pub attempts_max: u32,
    /// For a tool's own permission check to answer; then the call must be asked. Default 2 000. Zero is
    /// refused.
    pub check_timeout_ms: u64,
    /// For an executor to say what a call's paths are; then allow rules for paths do not hold. Default
    /// 2 000. Zero is refused.
    pub facts_timeout_ms: u64,
    /// Silence after which readers get a heartbeat. Default 15 000.
    pub heartbeat_ms: u64,
    /// How long a cancellation is remembered for a turn that was not seen yet. Default 60 000.
    pub early_cancel_ms: u64,
    /// Mint an id for a call without one, instead of refusing the turn. Default false.
    pub mint_call_ids: bool,
}

/// The streams of executors. Milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StreamConfig {
    /// Each side pings this often. Default 5 000. Zero is refused.
    pub ping_interval_ms: u64,
    /// Unanswered pings after which a stream ends. Default 3. Zero is refused.
    pub ping_misses: u32,
    /// For the hello. Default 5 000.
    pub hello_timeout_ms: u64,
    /// For an executor to say that it has a call. Default 5 000.
    pub accept_timeout_ms: u64,
    /// How long what was in flight is kept after a stream broke. Default 30 000.
    pub resume_window_ms: u64,
    /// For a peer to take something of what waits. Default 10 000.
    pub send_stall_ms: u64,
}

/// How long things are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetentionConfig {
    /// Ended turns, in days. Default 30. Zero is refused.
    pub turns_days: u32,
    /// How long a repeated turn id finds its turn, in hours. Default 24. Zero is refused.
    pub attach_hours: u32,
    /// Audit records, in days; whole segments only. Default 365. Zero is refused.
    pub audit_days: u32,
}

/// How the audit is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AuditConfig {
    /// Record at all. Default true.
    pub enabled: bool,
    /// Most bytes of a segment, which is what is dropped whole when it is old. Default 256 MiB. Zero is
    /// refused.
    pub segment_bytes_max: u64,
    /// Most records of a segment. Default 1 000 000. Zero is refused.
    pub segment_records_max: u64,
    /// Records after which the chain's head is signed. Default 10 000. Zero is refused.
    pub checkpoint_records: u64,
    /// How long records stay unsigned at most, in seconds. Default 60. Zero is refused.
    pub checkpoint_secs: u64,
    /// A file to which signed heads are appended, best on another machine's disk. Default: none.
    pub checkpoint_file: PathBuf,
    /// Public keys, 64 hexadecimal digits each, whose signatures hold beside those of the present key.
    /// Default none.
    pub trusted_keys: Vec<String>,
}

/// What is logged, to standard error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LogConfig {
    /// Least level or filter, e.g. `info` or `callgate=debug`. Default `info`.
    pub filter: String,
    /// `text` or `json`. Default `text`.
    pub format: LogFormat,
}

/// How log lines look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            data_dir: PathBuf::new(),
            socket_dir: PathBuf::new(),
            server: ServerConfig::default(),
            registry: RegistryConfig::default(),
            permissions: PermissionsConfig::default(),
            approvals: ApprovalsConfig::default(),
            hooks: HooksConfig::default(),
            turn: TurnConfig::default(),
            loops: LoopConfig::default(),
            stream: StreamConfig::default(),
            audit: AuditConfig::default(),
            retention: RetentionConfig::default(),
            log: LogConfig::default(),
            limits: Limits::default(),
        }
    }
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            tcp: "127.0.0.1:50551".to_owned(),
            unix: true,
            reflection: false,
            drain_ms: 25_000,
            keepalive_interval_ms: 20_000,
            keepalive_timeout_ms: 10_000,
            handshake_timeout_ms: 5_000,
            worker_threads: 0,
        }
    }
}

impl Default for RegistryConfig {
    fn default() -> Self {
        Self {
            unspecified_risk: Risk::Safe,
            dialects: vec![
                SchemaDialect::Core.as_str().to_owned(),
                SchemaDialect::JsonSchema202012.as_str().to_owned(),
            ],
            core_unknown: CoreUnknown::Pass,
            default_timeout_ms: 120_000,
        }
    }
}

impl Default for PermissionsConfig {
    fn default() -> Self {
        Self {
            default_mode: Mode::Default.as_str().to_owned(),
            policy_file: PathBuf::from("/etc/callgate/settings.json"),
            user_file: PathBuf::new(),
            workspace: PathBuf::new(),
            settings_file: PathBuf::new(),
            allow: Vec::new(),
            ask: Vec::new(),
            deny: Vec::new(),
            trusted_executors: Vec::new(),
            aliases: Aliases::new(),
        }
    }
}

impl Default for TurnConfig {
    fn default() -> Self {
        Self {
            queue_timeout_ms: 30_000,
            cancel_grace_ms: 5_000,
            attempts_max: 3,
            check_timeout_ms: 2_000,
            facts_timeout_ms: 2_000,
            heartbeat_ms: 15_000,
            early_cancel_ms: 60_000,
            mint_call_ids: false,
        }
    }
}

impl Default for StreamConfig {
    fn default() -> Self {
        Self {
            ping_interval_ms: 5_000,
            ping_misses: 3,
            hello_timeout_ms: 5_000,
            accept_timeout_ms: 5_000,
            resume_window_ms: 30_000,
            send_stall_ms: 10_000,
        }
    }
}

impl Default for RetentionConfig {
    fn default() -> Self {
        Self {
            turns_days: 30,
            attach_hours: 24,
            audit_days: 365,
        }
    }
}

impl Default for AuditConfig {
    fn default() -> Self {
        Self {
            enabled: true,
            segment_bytes_max: 256 << 20,
            segment_records_max: 1_000_000,
            checkpoint_records: 10_000,
            checkpoint_secs: 60,
            checkpoint_file: PathBuf::new(),
            trusted_keys: Vec::new(),
        }
    }
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            filter: "info".to_owned(),
            format: LogFormat::Text,
        }
    }
}

impl Config {
    /// Checks what types cannot say.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`], naming the key.
    pub fn check(&self) -> Result<(), ConfigError> {
        for row in self.limits.rows() {
            if row.value == 0 || row.value > row.ceiling {
                return Err(out_of_range(
                    &format!("limits.{}", row.name),
                    &format!("must be 1 to {}", row.ceiling),
                ));
            }
        }
        let not_zero = [
            (
                "registry.default_timeout_ms",
                u64::from(self.registry.default_timeout_ms),
            ),
            ("turn.attempts_max", u64::from(self.turn.attempts_max)),
            ("turn.check_timeout_ms", self.turn.check_timeout_ms),
            ("turn.facts_timeout_ms", self.turn.facts_timeout_ms),
            ("stream.ping_interval_ms", self.stream.ping_interval_ms),
            ("stream.ping_misses", u64::from(self.stream.ping_misses)),
            ("retention.turns_days", u64::from(self.retention.turns_days)),
            (
                "retention.attach_hours",
                u64::from(self.retention.attach_hours),
            ),
            ("retention.audit_days", u64::from(self.retention.audit_days)),
            ("audit.segment_bytes_max", self.audit.segment_bytes_max),
            ("audit.segment_records_max", self.audit.segment_records_max),
            ("audit.checkpoint_records", self.audit.checkpoint_records),
            ("audit.checkpoint_secs", self.audit.checkpoint_secs),
            (
                "server.keepalive_interval_ms",
                self.server.keepalive_interval_ms,
            ),
        ];
        for (key, value) in not_zero {
            if value == 0 {
                return Err(out_of_range(key, "must not be zero"));
            }
        }
        self.dialects()?;
        self.mode()?;
        self.trusted_executors()?;
        self.loops.check()?;
        self.hooks.built_in(&self.permissions.aliases)?;
        self.hooks.required()?;
        self.trusted_keys()?;
        Ok(())
    }

    /// Public keys whose checkpoints hold beside those of the present key.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`]: a text is no key.
    pub fn trusted_keys(&self) -> Result<Vec<[u8; 32]>, ConfigError> {
        let keys = self.audit.trusted_keys.iter();
        let parsed = keys.map(|key| parse_hex::<32>(key));
        parsed.collect::<Option<_>>().ok_or_else(|| {
            out_of_range(
                "audit.trusted_keys",
                "must be keys of 64 hexadecimal digits each",
            )
        })
    }

    /// The mode of every session.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`]: the name stands for no mode.
    pub fn mode(&self) -> Result<Mode, ConfigError> {
        Mode::parse(&self.permissions.default_mode).ok_or_else(|| {
            out_of_range(
                "permissions.default_mode",
                "must be `plan`, `default`, `accept_edits` or `auto`",
            )
        })
    }

    /// Executors whose tools may let their own calls run.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`]: a name can stand for no executor.
    pub fn trusted_executors(&self) -> Result<Vec<OwnerName>, ConfigError> {
        let names = self.permissions.trusted_executors.iter();
        let parsed = names.map(|name| OwnerName::parse(name));
        parsed
            .collect::<Result<_, _>>()
            .map_err(|error| out_of_range("permissions.trusted_executors", &error.to_string()))
    }

    /// Dialects that tools may use.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`]: a name stands for no dialect.
    pub fn dialects(&self) -> Result<Vec<SchemaDialect>, ConfigError> {
        let known = [SchemaDialect::Core, SchemaDialect::JsonSchema202012];
        let names = self.registry.dialects.iter();
        names
            .map(|name| {
                known
                    .into_iter()
                    .find(|dialect| dialect.as_str() == name)
                    .ok_or_else(|| {
                        out_of_range(
                            "registry.dialects",
                            "may hold `core` and `json-schema-2020-12`",
                        )
                    })
            })
            .collect()
    }

    /// How definitions are judged.
    ///
    /// # Errors
    /// As [`dialects`](Self::dialects).
    pub fn tool_rules(&self) -> Result<ToolRules, ConfigError> {
        let as_usize = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Ok(ToolRules {
            unspecified_risk: self.registry.unspecified_risk,
            default_timeout_ms: self.registry.default_timeout_ms,
            dialects: self.dialects()?,
            schema: SchemaOptions {
                core_unknown: match self.registry.core_unknown {
                    CoreUnknown::Pass => UnknownProperties::Pass,
                    CoreUnknown::Refuse => UnknownProperties::Refuse,
                },
                bytes_max: as_usize(self.limits.schema_bytes_max),
                depth_max: u16::try_from(self.limits.schema_depth_max).unwrap_or(u16::MAX),
                properties_max: as_usize(self.limits.schema_properties_max),
            },
        })
    }

    /// How long a turn's calls wait for what.
    pub fn turn_settings(&self) -> TurnSettings {
        TurnSettings {
            queue_timeout_ms: self.turn.queue_timeout_ms,
            accept_timeout_ms: self.stream.accept_timeout_ms,
            resume_window_ms: self.stream.resume_window_ms,
            cancel_grace_ms: self.turn.cancel_grace_ms,
            attempts_max: self.turn.attempts_max,
            check_timeout_ms: self.turn.check_timeout_ms,
            facts_timeout_ms: self.turn.facts_timeout_ms,
            loops: self.loops.settings(),
        }
    }
}

fn out_of_range(key: &str, problem: &str) -> ConfigError {
    ConfigError::OutOfRange {
        key: key.to_owned(),
        problem: problem.to_owned(),
    }
}
