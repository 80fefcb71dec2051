//! The disk's form of a record, version 1.
//!
//! Protocol-buffer wire format in messages of our own, so that a field can be added and an old file
//! stays readable; numbers are never reused. Writing goes by hand and copies nothing twice
//! (`encode`), reading goes by these messages (`decode`). Never knows how records are kept.

mod approval;
mod decode;
mod encode;
mod hooks;
mod numbers;
mod wire;

#[cfg(test)]
mod tests;

pub(super) use approval::{session_bytes, stored_session};
pub(super) use decode::{decode, restored_tool, restored_toolset, run_summary};
pub(super) use encode::{
    as_restored, encode, ended_at, grants_changed_at, latest, run_at_acceptance, run_bytes,
    run_seen, tool_bytes, toolset_bytes,
};
pub(super) use hooks::{as_restored_hook, hook_bytes, restored_hook};

/// Why bytes are not a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unreadable {
    /// Not of the wire format.
    #[error("{0}")]
    Wire(#[from] prost::DecodeError),
    /// Something that a record of this kind has is not there.
    #[error("`{0}` is missing")]
    Missing(&'static str),
    /// A number that stands for nothing known.
    #[error("`{field}` has the unknown value {value}")]
    Unknown {
        /// The field.
        field: &'static str,
        /// What stands there.
        value: u64,
    },
}

/// What a record says, as a number that is never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Accepted,
    Dispatched,
    CallsEnded,
    Cancelling,
    Ended,
    Recovered,
    RunEnded,
    ToolRegistered,
    ToolRemoved,
    ToolsetPut,
    ToolsetDeleted,
    ApprovalsAsked,
    ApprovalsChanged,
    SessionPut,
    GrantsPut,
    HooksHeard,
    HookRegistered,
    HookRemoved,
    /// A run as turns left it that are not in the journal themselves. The store's own note.
    RunSeen,
}

impl Kind {
    /// How a run that goes on is numbered.
    pub(super) const RUN_ACTIVE: u64 = numbers::RUN_ACTIVE;

    /// The kind with that number; None for one that a newer program wrote.
    pub(super) fn from_number(number: u64) -> Option<Self> {
        let number = u32::try_from(number).ok()?;
        numbers::kind_from(number).ok()
    }

    /// Whether it is about one turn.
    pub(super) fn is_of_turn(self) -> bool {
        match self {
            Kind::Accepted
            | Kind::Dispatched
            | Kind::CallsEnded
            | Kind::Cancelling
            | Kind::Ended
            | Kind::Recovered
            | Kind::HooksHeard
            | Kind::ApprovalsAsked
            | Kind::ApprovalsChanged => true,
            Kind::RunEnded
            | Kind::ToolRegistered
            | Kind::ToolRemoved
            | Kind::HookRegistered
            | Kind::HookRemoved
            | Kind::ToolsetPut
            | Kind::ToolsetDeleted
            | Kind::SessionPut
            | Kind::GrantsPut
            | Kind::RunSeen => false,
        }
    }
}

/// One record. The fields up to 6 are its head, which is read without the rest (`frame::Head`).
#[derive(Clone, PartialEq, prost::Message)]
struct Entry {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    session: String,
    #[prost(string, tag = "3")]
    turn: String,
    #[prost(string, tag = "4")]
    run: String,
    /// The latest moment that the record names. Zero: it names none.
    #[prost(uint64, tag = "5")]
    at: u64,
    /// The run as this record leaves it.
    #[prost(message, optional, tag = "6")]
    run_state: Option<Run>,
    #[prost(message, optional, tag = "10")]
    accepted: Option<Accepted>,
    #[prost(message, repeated, tag = "11")]
    intents: Vec<Intent>,
    #[prost(message, repeated, tag = "12")]
    ended_calls: Vec<EndedCall>,
    #[prost(string, tag = "13")]
    reason: String,
    #[prost(message, optional, tag = "14")]
    completed: Option<Completed>,
    #[prost(uint32, tag = "15")]
    epoch: u32,
    #[prost(message, optional, tag = "16")]
    tool: Option<Tool>,
    #[prost(message, optional, tag = "17")]
    toolset: Option<Toolset>,
    /// Of the tool, hook or toolset that is gone.
    #[prost(string, tag = "18")]
    name: String,
    #[prost(message, repeated, tag = "19")]
    approvals: Vec<approval::Approval>,
    #[prost(message, repeated, tag = "20")]
    approval_changes: Vec<approval::Change>,
    #[prost(message, optional, tag = "21")]
    session_record: Option<approval::Session>,
    #[prost(message, repeated, tag = "22")]
    grants: Vec<approval::Grant>,
    #[prost(message, repeated, tag = "23")]
    heard: Vec<hooks::Heard>,
    #[prost(message, optional, tag = "24")]
    hook: Option<hooks::Hook>,
}

/// A run without its names, which stand in the head.
#[derive(Clone, PartialEq, prost::Message)]
struct Run {
    #[prost(uint32, tag = "1")]
    state: u32,
    #[prost(uint32, tag = "2")]
    rounds: u32,
    #[prost(string, tag = "3")]
    end_code: String,
    #[prost(string, tag = "4")]
    end_reason: String,
    #[prost(uint64, tag = "5")]
    started_at: u64,
    #[prost(uint64, optional, tag = "6")]
    ended_at: Option<u64>,
}

/// What is fixed about a turn, except what stands in the head: names, round, moments.
#[derive(Clone, PartialEq, prost::Message)]
struct Accepted {
    #[prost(string, tag = "1")]
    batch: String,
    #[prost(message, repeated, tag = "2")]
    calls: Vec<Call>,
    #[prost(uint32, optional, tag = "3")]
    format: Option<u32>,
    #[prost(string, optional, tag = "4")]
    toolset: Option<String>,
    #[prost(string, optional, tag = "5")]
    snapshot: Option<String>,
    #[prost(uint32, optional, tag = "6")]
    max_parallel: Option<u32>,
    #[prost(uint32, optional, tag = "7")]
    timeout_ms: Option<u32>,
    #[prost(bytes = "bytes", tag = "8")]
    model_message: bytes::Bytes,
    #[prost(message, optional, tag = "9")]
    trace: Option<Trace>,
    #[prost(uint32, optional, tag = "10")]
    requested_policy: Option<u32>,
    /// Absent: the first of the policies.
    #[prost(uint32, optional, tag = "11")]
    batch_policy: Option<u32>,
    #[prost(string, optional, tag = "12")]
    session_toolset: Option<String>,
    #[prost(uint32, optional, tag = "13")]
    session_max_parallel: Option<u32>,
    #[prost(message, repeated, tag = "14")]
    command_rules: Vec<approval::TurnRule>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Call {
    #[prost(string, tag = "1")]
    call_id: String,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(bytes = "bytes", tag = "3")]
    arguments: bytes::Bytes,
    #[prost(bool, tag = "4")]
    truncated: bool,
    #[prost(bool, tag = "5")]
    minted: bool,
    #[prost(string, tag = "6")]
    seen_tool: String,
    #[prost(bytes = "bytes", tag = "7")]
    seen_digest: bytes::Bytes,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Trace {
    #[prost(string, tag = "1")]
    parent: String,
    #[prost(string, tag = "2")]
    state: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Intent {
    #[prost(uint32, tag = "1")]
    call: u32,
    #[prost(uint32, tag = "2")]
    attempt: u32,
    #[prost(string, tag = "3")]
    instance: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct EndedCall {
    #[prost(uint32, tag = "1")]
    call: u32,
    #[prost(message, optional, tag = "2")]
    result: Option<CallResult>,
}

/// How a turn ended, except its run, which stands in the head.
#[derive(Clone, PartialEq, prost::Message)]
struct Completed {
    #[prost(uint32, tag = "1")]
    outcome: u32,
    #[prost(message, repeated, tag = "2")]
    results: Vec<CallResult>,
    #[prost(uint32, optional, tag = "3")]
    stop: Option<u32>,
    #[prost(message, optional, tag = "4")]
    error: Option<CallError>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct CallResult {
    #[prost(string, tag = "1")]
    call_id: String,
    #[prost(string, tag = "2")]
    tool: String,
    #[prost(uint32, tag = "3")]
    outcome: u32,
    #[prost(bool, tag = "4")]
    stop_flag: bool,
    #[prost(message, optional, tag = "5")]
    error: Option<CallError>,
    #[prost(message, repeated, tag = "6")]
    contents: Vec<Content>,
    #[prost(bytes = "bytes", tag = "7")]
    structured: bytes::Bytes,
    #[prost(bytes = "bytes", tag = "8")]
    metadata: bytes::Bytes,
    #[prost(uint32, optional, tag = "9")]
    not_executed: Option<u32>,
    #[prost(uint32, tag = "10")]
    effect: u32,
    #[prost(uint64, optional, tag = "11")]
    cut_from_bytes: Option<u64>,
    #[prost(bool, tag = "12")]
    sanitised: bool,
    #[prost(uint32, tag = "13")]
    attempts: u32,
    #[prost(uint64, tag = "14")]
    received_at: u64,
    #[prost(uint64, optional, tag = "15")]
    started_at: Option<u64>,
    #[prost(uint64, tag = "16")]
    finished_at: u64,
    #[prost(uint64, tag = "17")]
    queue_ms: u64,
    #[prost(bytes = "bytes", optional, tag = "18")]
    arguments_digest: Option<bytes::Bytes>,
    #[prost(string, optional, tag = "19")]
    approval: Option<String>,
    #[prost(uint64, tag = "20")]
    approval_ms: u64,
    #[prost(message, optional, tag = "21")]
    hooks: Option<hooks::Words>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct CallError {
    #[prost(string, tag = "1")]
    code: String,
    #[prost(uint32, tag = "2")]
    layer: u32,
    #[prost(string, tag = "3")]
    message_for_model: String,
    #[prost(string, tag = "4")]
    detail: String,
    #[prost(string, tag = "5")]
    path: String,
    #[prost(bool, tag = "6")]
    retryable: bool,
    #[prost(uint32, optional, tag = "7")]
    retry_after_ms: Option<u32>,
}

/// One piece of a result: `kind` says which fields count.
#[derive(Clone, PartialEq, prost::Message)]
struct Content {
    #[prost(uint32, tag = "1")]
    kind: u32,
    #[prost(string, tag = "2")]
    text: String,
    #[prost(bytes = "bytes", tag = "3")]
    data: bytes::Bytes,
    #[prost(string, tag = "4")]
    mime_type: String,
    #[prost(string, tag = "5")]
    uri: String,
    #[prost(string, tag = "6")]
    name: String,
    #[prost(string, tag = "7")]
    title: String,
    #[prost(string, tag = "8")]
    description: String,
    #[prost(uint64, optional, tag = "9")]
    size_bytes: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Tool {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(bytes = "bytes", tag = "3")]
    parameters: bytes::Bytes,
    #[prost(uint32, tag = "4")]
    dialect: u32,
    #[prost(uint32, optional, tag = "5")]
    risk: Option<u32>,
    #[prost(uint32, tag = "6")]
    kind: u32,
    #[prost(bool, tag = "7")]
    idempotent: bool,
    #[prost(bool, tag = "8")]
    exclusive: bool,
    #[prost(uint32, optional, tag = "9")]
    timeout_ms: Option<u32>,
    #[prost(uint32, tag = "10")]
    max_concurrency: u32,
    #[prost(bool, tag = "11")]
    supports_cancellation: bool,
    #[prost(string, repeated, tag = "12")]
    services: Vec<String>,
    #[prost(string, tag = "13")]
    version: String,
    #[prost(bytes = "bytes", tag = "14")]
    annotations: bytes::Bytes,
    #[prost(string, tag = "15")]
    owner: String,
    #[prost(uint32, tag = "16")]
    generation: u32,
    #[prost(uint64, tag = "17")]
    registered_at: u64,
    #[prost(message, optional, tag = "18")]
    subject: Option<Subject>,
    #[prost(bool, tag = "19")]
    skip_permission: bool,
    #[prost(bool, tag = "20")]
    has_permission_check: bool,
    #[prost(string, repeated, tag = "21")]
    secret_pointers: Vec<String>,
    #[prost(bool, tag = "24")]
    loop_exempt: bool,
    #[prost(string, repeated, tag = "25")]
    loop_key: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Subject {
    #[prost(string, tag = "1")]
    pointer: String,
    #[prost(uint32, optional, tag = "2")]
    kind: Option<u32>,
    #[prost(string, tag = "3")]
    dialect: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Toolset {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    base: String,
    #[prost(string, repeated, tag = "3")]
    include: Vec<String>,
    #[prost(string, repeated, tag = "4")]
    exclude: Vec<String>,
    #[prost(uint64, tag = "5")]
    version: u64,
}
