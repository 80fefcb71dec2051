//! From errors to gRPC status and details: the one mapper.
//!
//! Every failure carries an `ErrorDetail`; over gRPC it travels in `grpc-status-details-bin`. Never
//! used for what became of a call: that is a result.

use bytes::Bytes;
use prost::Message;
use tonic::{Code, Status};

use super::access::Refused;
use crate::engine::{EngineError, PolicyError};
use crate::executor::SessionEnd;
use crate::gate::admission::AdmissionError;
use crate::gate::ids::IdError;
use crate::gate::provider::MessageError;
use crate::gate::toolset::ToolsetError;
use crate::pb::v1::{self as pb, ErrorReason};

/// A failure before it takes a form.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    code: Code,
    message: String,
    detail: Box<pb::ErrorDetail>,
}

/// `google.rpc.Status`, as much as details need.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<AnyMessage>,
}

/// `google.protobuf.Any`.
#[derive(Clone, PartialEq, prost::Message)]
struct AnyMessage {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

/// `google.rpc.RetryInfo`.
#[derive(Clone, PartialEq, prost::Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Span>,
}

/// `google.protobuf.Duration`.
#[derive(Clone, PartialEq, prost::Message)]
struct Span {
    #[prost(int64, tag = "1")]
    seconds: i64,
    #[prost(int32, tag = "2")]
    nanos: i32,
}

/// Advice to those who come back later, in milliseconds.
const RETRY_AFTER_MS: u32 = 1_000;

impl Failure {
    /// A failure for `reason`.
    pub fn new(reason: ErrorReason, message: impl Into<String>) -> Self {
        let code = code_of(reason);
        let retries = matches!(code, Code::ResourceExhausted | Code::Unavailable);
        Self {
            code,
            message: message.into(),
            detail: Box::new(pb::ErrorDetail {
                reason: reason as i32,
                code: word_of(reason),
                retry_after_ms: retries.then_some(RETRY_AFTER_MS),
                ..pb::ErrorDetail::default()
            }),
        }
    }

    /// A wrong field.
    pub fn field(field: impl Into<String>, message: impl Into<String>) -> Self {
        let (field, message) = (field.into(), message.into());
        let mut failure = Self::new(ErrorReason::InvalidRequest, format!("`{field}` {message}"));
        failure.detail.violations.push(pb::FieldViolation {
            field,
            code: String::new(),
            message,
        });
        failure
    }

    /// A field that is no id.
    pub fn id(field: &str, error: IdError) -> Self {
        Self::field(field, error.to_string())
    }

    /// Beyond a limit; `may_pass_later` if a retry can help.
    pub fn limit(name: &str, allowed: u64, actual: u64, may_pass_later: bool) -> Self {
        let message = format!("`{name}` allows {allowed}, got {actual}");
        let mut failure = Self::new(ErrorReason::LimitExceeded, message);
        failure.code = match may_pass_later {
            true => Code::ResourceExhausted,
            false => Code::InvalidArgument,
        };
        failure.detail.retry_after_ms = may_pass_later.then_some(RETRY_AFTER_MS);
        failure.detail.limit = Some(pb::LimitViolation {
            name: name.to_owned(),
            allowed,
            actual,
        });
        failure
    }

    /// No such thing.
    pub fn not_found(kind: &str, id: &str) -> Self {
        let mut failure = Self::new(ErrorReason::NotFound, format!("no {kind} `{id}`"));
        failure.detail.resource_kind = kind.to_owned();
        failure.detail.resource_id = id.to_owned();
        failure
    }

    /// Rules that cannot be read, each with its field, code and what is wrong.
    pub fn rules(problems: Vec<(String, &'static str, String)>) -> Self {
        let message = match problems.first() {
            Some((field, _, problem)) => format!("`{field}`: {problem}"),
            None => "rules cannot be read".to_owned(),
        };
        let mut failure = Self::new(ErrorReason::RuleInvalid, message);
        let each = problems.into_iter();
        failure.detail.violations = each
            .map(|(field, code, message)| pb::FieldViolation {
                field,
                code: code.to_owned(),
                message,
            })
            .collect();
        failure
    }

    /// As a message on a stream.
    pub fn into_rpc_error(self) -> pb::RpcError {
        pb::RpcError {
            status: u32::try_from(self.code as i32).unwrap_or(2),
            message: self.message,
            detail: Some(*self.detail),
        }
    }
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        let mut details = vec![AnyMessage {
            type_url: "type.googleapis.com/callgate.v1.ErrorDetail".to_owned(),
            value: failure.detail.encode_to_vec().into(),
        }];
        if let Some(span_ms) = failure.detail.retry_after_ms {
            let info = RetryInfo {
                retry_delay: Some(Span {
                    seconds: i64::from(span_ms / 1_000),
                    nanos: i32::try_from(span_ms % 1_000).unwrap_or(0) * 1_000_000,
                }),
            };
            details.push(AnyMessage {
                type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
                value: info.encode_to_vec().into(),
            });
        }
        let status = RpcStatus {
            code: failure.code as i32,
            message: failure.message.clone(),
            details,
        };
        Status::with_details(failure.code, failure.message, status.encode_to_vec().into())
    }
}

/// The gRPC status of each reason, as `errors.proto` says.
fn code_of(reason: ErrorReason) -> Code {
    match reason {
        ErrorReason::Unspecified | ErrorReason::Internal => Code::Internal,
        ErrorReason::CredentialInvalid => Code::Unauthenticated,
        ErrorReason::RoleMissing | ErrorReason::NameForbidden => Code::PermissionDenied,
        ErrorReason::InvalidRequest
        | ErrorReason::CallIdEmpty
        | ErrorReason::CallIdDuplicate
        | ErrorReason::ProviderMessageInvalid
        | ErrorReason::HelloRequired
        | ErrorReason::ApprovalChoiceNotAllowed
        | ErrorReason::ApprovalEditInvalid
        | ErrorReason::RuleInvalid
        | ErrorReason::ProtocolViolation => Code::InvalidArgument,
        ErrorReason::LimitExceeded | ErrorReason::Overloaded | ErrorReason::SlowReader => {
            Code::ResourceExhausted
        }
        ErrorReason::Draining | ErrorReason::StoreUnavailable => Code::Unavailable,
        ErrorReason::NotFound | ErrorReason::ApprovalNotFound => Code::NotFound,
        ErrorReason::EtagMismatch | ErrorReason::Superseded => Code::Aborted,
        ErrorReason::CursorExpired => Code::OutOfRange,
        ErrorReason::CallConflict
        | ErrorReason::ToolNameDuplicate
        | ErrorReason::AlreadyExists
        | ErrorReason::DecisionIdReused => Code::AlreadyExists,
        ErrorReason::RunNotActive
        | ErrorReason::SnapshotExpired
        | ErrorReason::RunBusy
        | ErrorReason::SessionClosed
        | ErrorReason::ApprovalAlreadyDecided
        | ErrorReason::ApprovalNotPending
        | ErrorReason::ApprovalDigestMismatch
        | ErrorReason::ModeNotAllowed
        | ErrorReason::ProtocolUnsupported
        | ErrorReason::ToolsetInUse => Code::FailedPrecondition,
        ErrorReason::HelloTimeout | ErrorReason::HeartbeatMissed => Code::DeadlineExceeded,
    }
}

/// The reason's code: its name in lower case without the prefix.
pub fn word_of(reason: ErrorReason) -> String {
    reason
        .as_str_name()
        .trim_start_matches("ERROR_REASON_")
        .to_lowercase()
}

impl From<AdmissionError> for Failure {
    fn from(error: AdmissionError) -> Self {
        match &error {
            AdmissionError::CallIdEmpty { index } => {
                call_id(ErrorReason::CallIdEmpty, *index, &error)
            }
            AdmissionError::CallIdDuplicate { index, .. } => {
                call_id(ErrorReason::CallIdDuplicate, *index, &error)
            }
            AdmissionError::LimitExceeded {
                limit,
                allowed,
                actual,
            } => Failure::limit(limit, *allowed, *actual, false),
        }
    }
}

fn call_id(reason: ErrorReason, index: usize, error: &AdmissionError) -> Failure {
    let mut failure = Failure::new(reason, error.to_string());
    failure.detail.violations.push(pb::FieldViolation {
        field: format!("calls[{index}].call_id"),
        code: word_of(reason),
        message: error.to_string(),
    });
    failure
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let message = error.to_string();
        match error {
            EngineError::Admission(error) => error.into(),
            EngineError::Draining => Failure::new(ErrorReason::Draining, message),
            EngineError::Overloaded => Failure::new(ErrorReason::Overloaded, message),
            EngineError::Conflict { .. } => Failure::new(ErrorReason::CallConflict, message),
            EngineError::RunNotActive { .. } => Failure::new(ErrorReason::RunNotActive, message),
            EngineError::RunBusy { .. } => Failure::new(ErrorReason::RunBusy, message),
            EngineError::NotFound {
                kind: "approval", ..
            } => Failure::new(ErrorReason::ApprovalNotFound, message),
            EngineError::NotFound { kind, id } => Failure::not_found(kind, &id),
            EngineError::Ambiguous { .. } => Failure::field("session_id", message),
            EngineError::SnapshotExpired => Failure::new(ErrorReason::SnapshotExpired, message),
            EngineError::SessionClosed { .. } => Failure::new(ErrorReason::SessionClosed, message),
            EngineError::AlreadyExists { .. } => Failure::new(ErrorReason::AlreadyExists, message),
            EngineError::ModeNotAllowed { .. } => {
                Failure::new(ErrorReason::ModeNotAllowed, message)
            }
            EngineError::VersionMismatch => Failure::new(ErrorReason::EtagMismatch, message),
            EngineError::TooDeep => Failure::field("parent_session_id", message),
            EngineError::Store(_) => Failure::new(ErrorReason::StoreUnavailable, message),
        }
    }
}

impl From<PolicyError> for Failure {
    fn from(error: PolicyError) -> Self {
        let message = error.to_string();
        match error {
            PolicyError::Rules(error) => {
                let problems = error.problems().into_iter().map(|problem| {
                    let place = problem.origin.map(|origin| origin.to_string());
                    let place = place.unwrap_or_else(|| problem.source.to_string());
                    (place, problem.code, problem.message)
                });
                let mut failure = Failure::rules(problems.collect());
                failure.message = message;
                failure
            }
            PolicyError::NoWorkspace { workspace } => Failure::not_found("workspace", &workspace),
            PolicyError::TrustNotKept { .. } => {
                Failure::new(ErrorReason::StoreUnavailable, message)
            }
            PolicyError::Interrupted => Failure::new(ErrorReason::Internal, message),
        }
    }
}

impl From<MessageError> for Failure {
    fn from(error: MessageError) -> Self {
        let mut failure = Failure::new(ErrorReason::ProviderMessageInvalid, error.to_string());
        failure.detail.violations.push(pb::FieldViolation {
            field: format!(
                "provider_message.message_json{}",
                error.path.trim_start_matches('$')
            ),
            code: String::new(),
            message: error.problem,
        });
        failure
    }
}

impl From<ToolsetError> for Failure {
    fn from(error: ToolsetError) -> Self {
        let message = error.to_string();
        match error {
            ToolsetError::NameInvalid { .. } => Failure::field("toolset.name", message),
            ToolsetError::BasesTooDeep { .. } => Failure::field("toolset.base", message),
            ToolsetError::ToolHidden { .. } => Failure::field("target", message),
            ToolsetError::Unknown { name } => Failure::not_found("toolset", &name),
            ToolsetError::VersionMismatch { .. } => {
                Failure::new(ErrorReason::EtagMismatch, message)
            }
            ToolsetError::InUse { .. } => Failure::new(ErrorReason::ToolsetInUse, message),
            ToolsetError::ToolDuplicate { .. } => {
                Failure::new(ErrorReason::ToolNameDuplicate, message)
            }
        }
    }
}

impl From<SessionEnd> for Failure {
    fn from(end: SessionEnd) -> Self {
        let message = end.to_string();
        match end {
            SessionEnd::HelloRequired => Failure::new(ErrorReason::HelloRequired, message),
            SessionEnd::HelloTimeout => Failure::new(ErrorReason::HelloTimeout, message),
            SessionEnd::ProtocolUnsupported => {
                let mut failure = Failure::new(ErrorReason::ProtocolUnsupported, message);
                failure.detail.protocol = Some(pb::ProtocolRange { min: 1, max: 1 });
                failure
            }
            SessionEnd::Invalid { field, problem } => Failure::field(field, problem),
            SessionEnd::NameForbidden { .. } => Failure::new(ErrorReason::NameForbidden, message),
            SessionEnd::LimitExceeded {
                limit,
                allowed,
                actual,
            } => Failure::limit(limit, allowed, actual, limit == "executors_max"),
            SessionEnd::Superseded => Failure::new(ErrorReason::Superseded, message),
            SessionEnd::HeartbeatMissed => Failure::new(ErrorReason::HeartbeatMissed, message),
            SessionEnd::SlowReader => Failure::new(ErrorReason::SlowReader, message),
            SessionEnd::ProtocolViolation { .. } => {
                Failure::new(ErrorReason::ProtocolViolation, message)
            }
            SessionEnd::Draining => Failure::new(ErrorReason::Draining, message),
        }
    }
}

impl From<Refused> for Status {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Unknown => Status::unimplemented("no such method"),
            Refused::Unauthenticated => {
                Failure::new(ErrorReason::CredentialInvalid, "no or no valid credential").into()
            }
            Refused::RoleMissing => {
                let message = "the credential lacks the role for this method";
                Failure::new(ErrorReason::RoleMissing, message).into()
            }
        }
    }
}
