//! Stage A: whether a turn is taken at all.
//!
//! Everything here refuses the whole turn before anything is recorded. Never looks at what one call
//! asks for: that ends in the call's own result.

use std::collections::BTreeSet;

use bytes::Bytes;

use super::approval::BatchPolicy;
use super::call::ToolCall;
use super::ids::{RunId, SessionId, TurnId};
use super::limits::Limits;
use super::permission::{Extras, RuleEntry, Verdict};
use super::provider::{MESSAGE_BYTES_MAX, ProviderFormat};
use super::snapshot::Seen;

/// A turn as an orchestrator asks for it, names checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRequest {
    /// The session.
    pub session: SessionId,
    /// The turn.
    pub turn: TurnId,
    /// The run.
    pub run: RunId,
    /// The calls in the model's order.
    pub calls: Vec<RequestedCall>,
    /// The form in which the calls came. None: as plain calls.
    pub format: Option<ProviderFormat>,
    /// What the model could call. None: every tool.
    pub toolset: Option<String>,
    /// The tool list that the model saw. None: names are taken as they are.
    pub snapshot: Option<String>,
    /// Most calls that execute at once. None: no limit.
    pub max_parallel: Option<u32>,
    /// What happens while calls wait. None: as the session says.
    pub batch_policy: Option<BatchPolicy>,
    /// Rules of this turn only.
    pub command_rules: Vec<TurnRule>,
    /// Longest turn, in milliseconds. None: no limit.
    pub timeout_ms: Option<u32>,
    /// Opaque to us. Empty: none.
    pub model_message: Bytes,
    /// The trace that the turn belongs to.
    pub trace: Option<Trace>,
}

/// A rule that came with a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TurnRule {
    /// The list it stands in.
    pub list: Verdict,
    /// As written.
    pub text: String,
    /// What comes with it.
    pub extras: Extras,
}

impl TurnRule {
    /// The rule as any other that is not yet read.
    pub fn entry(&self) -> (Verdict, RuleEntry) {
        let entry = RuleEntry {
            text: self.text.clone(),
            extras: Ok(self.extras.clone()),
        };
        (self.list, entry)
    }
}

/// A call before its id is known to be one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestedCall {
    /// The call. An id that was empty is minted before admission if the config says so.
    pub call: ToolCall,
    /// The id was minted.
    pub minted: bool,
    /// What the name stood for in the tool list that the turn names, resolved once when the turn is
    /// taken. None: the list has no such name, or the turn names no list.
    pub seen: Option<Seen>,
}

impl RequestedCall {
    /// The tool that it names, as far as its turn's tool list says.
    pub fn tool_name(&self) -> &str {
        let seen = self.seen.as_ref().map(|seen| &seen.tool);
        seen.unwrap_or(&self.call.name).as_str()
    }
}

/// W3C trace context, passed through as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// Version 00 form.
    pub parent: String,
    /// Empty: none.
    pub state: String,
}

/// Why a turn is refused as a whole.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AdmissionError {
    /// A call has no id.
    #[error("`calls[{index}].call_id` must not be empty")]
    CallIdEmpty {
        /// Position of the call.
        index: usize,
    },
    /// Two calls share an id.
    #[error("`calls[{index}].call_id` is taken: `{call_id}`")]
    CallIdDuplicate {
        /// Position of the second one.
        index: usize,
        /// The id.
        call_id: String,
    },
    /// Beyond a limit.
    #[error("`{limit}` allows {allowed}, got {actual}")]
    LimitExceeded {
        /// Name of the limit.
        limit: &'static str,
        /// Its value.
        allowed: u64,
        /// What came.
        actual: u64,
    },
}

/// Checks a turn before anything of it is recorded.
///
/// # Errors
/// The earliest failing check, see [`AdmissionError`].
pub fn admit(request: &TurnRequest, limits: &Limits) -> Result<(), AdmissionError> {
    at_most("calls_max", request.calls.len(), limits.calls_max)?;
    // A provider's message may stand in for it, and is larger.
    let model_message_max = match request.format {
        None => limits.model_message_bytes_max,
        Some(_) => limits.model_message_bytes_max.max(MESSAGE_BYTES_MAX),
    };
    at_most(
        "model_message_bytes_max",
        request.model_message.len(),
        model_message_max,
    )?;
    let bytes: usize = request
        .calls
        .iter()
        .map(|requested| requested.call.arguments.len())
        .sum();
    at_most("batch_args_bytes_max", bytes, limits.batch_args_bytes_max)?;
    check_ids(request)
}

fn at_most(limit: &'static str, actual: usize, allowed: u64) -> Result<(), AdmissionError> {
    let actual = actual as u64;
    if actual <= allowed {
        return Ok(());
    }
    Err(AdmissionError::LimitExceeded {
        limit,
        allowed,
        actual,
    })
}

fn check_ids(request: &TurnRequest) -> Result<(), AdmissionError> {
    if let [only] = request.calls.as_slice() {
        return check_present(0, &only.call);
    }
    let mut seen = BTreeSet::new();
    for (index, requested) in request.calls.iter().enumerate() {
        check_present(index, &requested.call)?;
        if !seen.insert(&requested.call.call_id) {
            return Err(AdmissionError::CallIdDuplicate {
                index,
                call_id: requested.call.call_id.to_string(),
            });
        }
    }
    Ok(())
}

fn check_present(index: usize, call: &ToolCall) -> Result<(), AdmissionError> {
    match call.call_id.as_str().is_empty() {
        true => Err(AdmissionError::CallIdEmpty { index }),
        false => Ok(()),
    }
}
