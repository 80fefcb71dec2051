//! How a call can end badly, in one enum.
//!
//! A code is never renamed or reused; the words around it may improve. The `Display` text is what the
//! model reads; what operators need stands in [`CallError::detail`]. Never chooses a gRPC status.

use std::borrow::Cow;
use std::sync::Arc;

use super::json::JsonError;
use super::schema::ArgumentError;

/// Which part of the system an error comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorLayer {
    /// Registration.
    Config,
    /// Reading the call.
    Decode,
    /// The tool or its arguments.
    Tool,
    /// Risk and approvals.
    Permission,
    /// Hooks.
    Hook,
    /// Cancellation.
    Cancelled,
    /// The run and its limits.
    Runtime,
    /// The way to the executor.
    Transport,
    /// The store.
    Store,
}

/// Why a call did not succeed, as the sidecar says it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No tool of that name in the turn's toolset. Never asks for approval.
    #[error("tool not found: `{name}`")]
    ToolNotFound {
        /// As the model wrote it.
        name: String,
    },
    /// The arguments cannot be read.
    #[error(transparent)]
    Arguments(#[from] JsonError),
    /// The model was cut off inside the call.
    #[error("the call was cut off before its arguments were complete")]
    CutOff,
    /// The arguments do not fit the tool's schema.
    #[error(transparent)]
    Schema(#[from] ArgumentError),
    /// The tool's definition is not the one that was checked or shown to the model.
    #[error("tool `{name}` has changed since the call was made")]
    ToolChanged {
        /// The tool.
        name: String,
    },
    /// A deny rule matched.
    #[error(transparent)]
    DeniedByRule(Box<RuleDenial>),
    /// The mode forbids it.
    #[error("tool `{name}` may not run in mode `{mode}`")]
    DeniedByMode {
        /// The tool.
        name: String,
        /// The mode.
        mode: &'static str,
    },
    /// The tool's own check said no.
    #[error("{}", refused_by_tool(name, message))]
    DeniedByTool {
        /// The tool.
        name: String,
        /// What the tool tells the model. Empty: nothing.
        message: String,
    },
    /// It had to be asked and nobody can answer.
    #[error("tool `{name}` needs an approval and no approver is available")]
    ApprovalUnavailable {
        /// The tool.
        name: String,
    },
    /// An approver said no.
    #[error("{}", refused_by_user(name, message))]
    DeniedByUser {
        /// The tool.
        name: String,
        /// What the approver tells the model. Empty: nothing.
        message: String,
    },
    /// Nobody decided in time.
    #[error("nobody answered in time whether tool `{name}` may run")]
    ApprovalExpired {
        /// The tool.
        name: String,
    },
    /// Another call of the same message was refused.
    #[error("tool `{name}` was not run because another call of the same message was refused")]
    BatchRejected {
        /// The tool.
        name: String,
    },
    /// A hook said no.
    #[error("{}", refused_by_hook(name, reason))]
    DeniedByHook {
        /// The tool.
        name: String,
        /// What the hook tells the model. Empty: nothing.
        reason: String,
    },
    /// A hook that must agree did not answer in time.
    #[error("tool `{name}` was not run: hook `{hook}` did not answer in time")]
    HookTimeout {
        /// The tool.
        name: String,
        /// The hook.
        hook: String,
    },
    /// A hook that must agree failed or answered nonsense.
    #[error("tool `{name}` was not run: hook `{hook}` failed")]
    HookFailed {
        /// The tool.
        name: String,
        /// The hook.
        hook: String,
    },
    /// A hook that must agree is not there.
    #[error("tool `{name}` was not run: hook `{hook}` is not there")]
    HookUnavailable {
        /// The tool.
        name: String,
        /// The hook.
        hook: String,
    },
    /// What a hook put in place of the arguments does not pass.
    #[error(
        "the arguments that hook `{hook}` put in place of the call's own do not pass: {problem}"
    )]
    HookModifiedArgsInvalid {
        /// The hook.
        hook: String,
        /// What is wrong.
        problem: String,
    },
    /// The tool answered, and the hook that was to look at the answer did not.
    #[error("the result is kept back because hook `{hook}` failed; the tool has acted")]
    ResultWithheld {
        /// The hook.
        hook: String,
    },
    /// A hook ended the run.
    #[error("the run was ended: {reason}")]
    RunAborted {
        /// Why, in the hook's words.
        reason: String,
    },
    /// As many approvals wait as may.
    #[error("too many calls wait for an approval; try again later")]
    TooManyApprovals,
    /// The call, its turn or its run was cancelled.
    #[error("{reason}")]
    Cancelled {
        /// Why, in the canceller's words.
        reason: String,
    },
    /// The run is in a loop.
    #[error("the run was ended because it is in a loop: {reason}")]
    LoopDetected {
        /// What repeats.
        reason: String,
    },
    /// No executor took the call in time.
    #[error(
        "no executor of tool `{name}` took the call in time: none is connected, or all are full"
    )]
    ToolUnavailable {
        /// The tool.
        name: String,
    },
    /// The tool ran longer than it may.
    #[error("tool `{name}` did not answer within {timeout_ms} ms; it may still have acted")]
    ToolTimeout {
        /// The tool.
        name: String,
        /// How long it had.
        timeout_ms: u64,
    },
    /// The executor was lost and may or may not have acted.
    #[error("the executor of tool `{name}` was lost; whether it acted is not known")]
    OutcomeUnknown {
        /// The tool.
        name: String,
    },
    /// The executor refused what it had agreed to take.
    #[error("the executor of tool `{name}` could not read the call")]
    ExecutorProtocol {
        /// The tool.
        name: String,
    },
    /// Larger than the executor takes.
    #[error("the call is larger than its executor takes")]
    ExecutorLimit,
    /// As many calls wait for executors as may.
    #[error("too many calls wait for executors; try again later")]
    QueueFull,
    /// The result cannot be read.
    #[error("tool `{name}` gave an invalid result: {problem}")]
    ResultInvalid {
        /// The tool.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// The result is larger than allowed and cannot be cut.
    #[error("tool `{name}` gave a result of {actual} bytes; at most {allowed} are taken")]
    ResultTooLarge {
        /// The tool.
        name: String,
        /// The limit, in bytes.
        allowed: u64,
        /// What came, in bytes.
        actual: u64,
    },
    /// The store cannot record the call, so it was not executed.
    #[error("the call could not be recorded and was not executed")]
    StoreUnavailable,
}

fn refused_by_tool(name: &str, message: &str) -> String {
    match message.is_empty() {
        true => format!("tool `{name}` does not do that"),
        false => message.to_owned(),
    }
}

fn refused_by_hook(name: &str, reason: &str) -> String {
    match reason.is_empty() {
        true => format!("tool `{name}` is not permitted to do that"),
        false => reason.to_owned(),
    }
}

fn refused_by_user(name: &str, message: &str) -> String {
    match message.is_empty() {
        true => format!("the user did not let tool `{name}` run"),
        false => format!("the user did not let tool `{name}` run: {message}"),
    }
}

/// A call that a deny rule met.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.for_model())]
pub struct RuleDenial {
    /// The tool.
    pub name: String,
    /// What the rule's author tells the model. None: nothing.
    pub message: Option<String>,
    /// The rule as written.
    pub rule: String,
    /// Where the rule stands.
    pub origin: String,
    /// The part of a command, or the path, that it met.
    pub segment: Option<String>,
}

impl RuleDenial {
    fn for_model(&self) -> String {
        match &self.message {
            Some(message) => message.clone(),
            None => format!("tool `{}` is not allowed to do that", self.name),
        }
    }

    fn detail(&self) -> String {
        let of = format!("deny rule `{}` of {}", self.rule, self.origin);
        match &self.segment {
            None => of,
            Some(segment) => format!("{of}, because of `{segment}`"),
        }
    }
}

impl Refusal {
    /// The stable code that clients match on.
    pub fn code(&self) -> &'static str {
        match self {
            Refusal::ToolNotFound { .. } => "tool_not_found",
            Refusal::Arguments(error) => error.code(),
            Refusal::CutOff => "json_truncated",
            Refusal::Schema(error) => error.code(),
            Refusal::ToolChanged { .. } => "tool_changed",
            Refusal::DeniedByRule(_) => "tool_denied_by_rule",
            Refusal::DeniedByMode { .. } => "tool_denied_by_mode",
            Refusal::DeniedByTool { .. } => "tool_denied_by_tool",
            Refusal::ApprovalUnavailable { .. } => "approval_unavailable",
            Refusal::DeniedByUser { .. } => "tool_denied_by_user",
            Refusal::ApprovalExpired { .. } => "approval_expired",
            Refusal::BatchRejected { .. } => "tool_batch_rejected",
            Refusal::DeniedByHook { .. } => "tool_denied_by_hook",
            Refusal::HookTimeout { .. } => "hook_timeout",
            Refusal::HookFailed { .. } | Refusal::ResultWithheld { .. } => "hook_failed",
            Refusal::HookUnavailable { .. } => "hook_unavailable",
            Refusal::HookModifiedArgsInvalid { .. } => "hook_modified_args_invalid",
            Refusal::RunAborted { .. } => "run_aborted",
            Refusal::Cancelled { .. } => "tool_cancelled",
            Refusal::LoopDetected { .. } => "loop_detected",
            Refusal::ToolUnavailable { .. } => "tool_unavailable",
            Refusal::ToolTimeout { .. } => "tool_timeout",
            Refusal::OutcomeUnknown { .. } => "tool_outcome_unknown",
            Refusal::ExecutorProtocol { .. } => "executor_protocol_error",
            Refusal::ExecutorLimit | Refusal::QueueFull | Refusal::TooManyApprovals => {
                "limit_exceeded"
            }
            Refusal::ResultInvalid { .. } => "result_invalid",
            Refusal::ResultTooLarge { .. } => "result_too_large",
            Refusal::StoreUnavailable => "store_unavailable",
        }
    }

    /// The part of the system that it comes from.
    pub fn layer(&self) -> ErrorLayer {
        match self {
            Refusal::Arguments(_) | Refusal::CutOff => ErrorLayer::Decode,
            Refusal::ToolNotFound { .. }
            | Refusal::Schema(_)
            | Refusal::ToolChanged { .. }
            | Refusal::ResultInvalid { .. }
            | Refusal::ResultTooLarge { .. } => ErrorLayer::Tool,
            Refusal::DeniedByRule(_)
            | Refusal::DeniedByMode { .. }
            | Refusal::DeniedByTool { .. }
            | Refusal::ApprovalUnavailable { .. }
            | Refusal::DeniedByUser { .. }
            | Refusal::ApprovalExpired { .. }
            | Refusal::BatchRejected { .. } => ErrorLayer::Permission,
            Refusal::DeniedByHook { .. }
            | Refusal::HookTimeout { .. }
            | Refusal::HookFailed { .. }
            | Refusal::HookUnavailable { .. }
            | Refusal::HookModifiedArgsInvalid { .. }
            | Refusal::ResultWithheld { .. } => ErrorLayer::Hook,
            Refusal::Cancelled { .. } => ErrorLayer::Cancelled,
            Refusal::LoopDetected { .. }
            | Refusal::ExecutorLimit
            | Refusal::QueueFull
            | Refusal::TooManyApprovals
            | Refusal::RunAborted { .. } => ErrorLayer::Runtime,
            Refusal::ToolUnavailable { .. }
            | Refusal::ToolTimeout { .. }
            | Refusal::OutcomeUnknown { .. }
            | Refusal::ExecutorProtocol { .. } => ErrorLayer::Transport,
            Refusal::StoreUnavailable => ErrorLayer::Store,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Refusal::ToolUnavailable { .. }
                | Refusal::QueueFull
                | Refusal::StoreUnavailable
                | Refusal::ApprovalUnavailable { .. }
                | Refusal::ApprovalExpired { .. }
                | Refusal::BatchRejected { .. }
                | Refusal::TooManyApprovals
                | Refusal::HookTimeout { .. }
                | Refusal::HookUnavailable { .. }
        )
    }

    /// Where in the arguments, from `$`. Empty: nowhere in particular.
    fn path(&self) -> String {
        if let Refusal::Arguments(error) = self {
            return error.path().to_owned();
        }
        if let Refusal::Schema(error) = self {
            return error.path().to_owned();
        }
        String::new()
    }

    /// What only operators read.
    fn detail(&self) -> String {
        if let Refusal::DeniedByRule(denial) = self {
            return denial.detail();
        }
        String::new()
    }

    /// The refusal as a call's error.
    pub fn into_error(self) -> CallError {
        CallError {
            code: Cow::Borrowed(self.code()),
            layer: self.layer(),
            message_for_model: self.to_string(),
            detail: self.detail(),
            path: self.path(),
            retryable: self.is_retryable(),
            retry_after_ms: None,
        }
    }
}

/// The error of one call, ours or the executor's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallError {
    /// Stable code.
    pub code: Cow<'static, str>,
    /// Where it comes from.
    pub layer: ErrorLayer,
    /// What the model reads.
    pub message_for_model: String,
    /// For operators. Never shown to the model.
    pub detail: String,
    /// Where in the arguments, from `$`. Empty: nowhere in particular.
    pub path: String,
    /// The same call may succeed later.
    pub retryable: bool,
    /// With `retryable`: not before this span.
    pub retry_after_ms: Option<u32>,
}

/// A shared error, since one may stand in an event, a result and a record.
pub type SharedError = Arc<CallError>;

/// Every code that a call's error or a registration can carry by the sidecar's own doing.
///
/// An executor that sends one of them as its own gets `tool_execution_failed` instead.
pub const RESERVED_CODES: &[&str] = &[
    "tool_name_empty",
    "tool_name_duplicate",
    "tool_name_invalid",
    "tool_definition_invalid",
    "schema_unsupported_keyword",
    "schema_invalid_required",
    "schema_missing_type",
    "schema_unknown_type",
    "schema_invalid_properties",
    "schema_invalid_items",
    "schema_root_not_object",
    "schema_too_deep",
    "schema_too_large",
    "schema_invalid",
    "schema_unresolved_ref",
    "schema_dialect_not_admitted",
    "json_invalid",
    "json_not_object",
    "json_truncated",
    "json_duplicate_key",
    "json_invalid_unicode",
    "json_number_out_of_range",
    "json_too_large",
    "json_too_deep",
    "tool_not_found",
    "tool_argument_required",
    "tool_argument_type_mismatch",
    "tool_argument_enum",
    "tool_argument_range",
    "tool_argument_pattern",
    "tool_argument_unknown",
    "tool_argument_invalid",
    "tool_changed",
    "tool_execution_failed",
    "result_too_large",
    "result_invalid",
    "tool_denied_by_rule",
    "tool_denied_by_mode",
    "tool_denied_by_tool",
    "tool_denied_by_user",
    "tool_batch_rejected",
    "approval_expired",
    "approval_unavailable",
    "tool_denied_by_hook",
    "hook_timeout",
    "hook_failed",
    "hook_unavailable",
    "hook_modified_args_invalid",
    "run_aborted",
    "tool_cancelled",
    "loop_detected",
    "limit_exceeded",
    "tool_unavailable",
    "tool_timeout",
    "tool_outcome_unknown",
    "executor_protocol_error",
    "store_unavailable",
];

/// Whether an executor may send `code`: one of its own domain, or the one of ours that only it can know.
pub fn is_executor_code(code: &str) -> bool {
    code == "result_too_large" || is_domain_code(code)
}

/// Whether `code` is of an executor's own domain.
fn is_domain_code(code: &str) -> bool {
    let mut bytes = code.bytes();
    let starts_well = bytes.next().is_some_and(|first| first.is_ascii_lowercase());
    starts_well
        && code.len() <= 64
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
        && !RESERVED_CODES.contains(&code)
}
