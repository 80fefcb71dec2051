//! Our enums as numbers on the disk.
//!
//! A number is never reused and none is zero, so that a field that is absent never reads as a value.
//! Never guesses: an unknown number is an error.

use super::{Kind, Unreadable};
use crate::gate::event::{RunState, StopReason, TurnOutcome};
use crate::gate::provider::ProviderFormat;
use crate::gate::refusal::ErrorLayer;
use crate::gate::result::{CallEffect, CallOutcome, NotExecuted};
use crate::gate::schema::SchemaDialect;
use crate::gate::tool;

macro_rules! numbers {
    ($($field:literal $type:ty, $to:ident, $from:ident { $($variant:path = $number:literal,)* })*) => {
        $(
            pub(super) fn $to(value: $type) -> u32 {
                match value { $($variant => $number,)* }
            }

            pub(super) fn $from(number: u32) -> Result<$type, Unreadable> {
                match number {
                    $($number => Ok($variant),)*
                    other => Err(Unreadable::Unknown { field: $field, value: u64::from(other) }),
                }
            }
        )*
    };
}

numbers! {
    "kind" Kind, kind_to, kind_from {
        Kind::Accepted = 1,
        Kind::Dispatched = 2,
        Kind::CallsEnded = 3,
        Kind::Cancelling = 4,
        Kind::Ended = 5,
        Kind::Recovered = 6,
        Kind::RunEnded = 7,
        Kind::ToolRegistered = 8,
        Kind::ToolRemoved = 9,
        Kind::ToolsetPut = 10,
        Kind::ToolsetDeleted = 11,
        Kind::RunSeen = 12,
    }
    "run_state" RunState, run_state_to, run_state_from {
        RunState::Active = 1,
        RunState::Completed = 2,
        RunState::Cancelled = 3,
        RunState::Error = 4,
    }
    "format" ProviderFormat, format_to, format_from {
        ProviderFormat::OpenAiChat = 1,
    }
    "turn_outcome" TurnOutcome, turn_outcome_to, turn_outcome_from {
        TurnOutcome::Completed = 1,
        TurnOutcome::Cancelled = 2,
        TurnOutcome::Error = 3,
    }
    "stop" StopReason, stop_to, stop_from {
        StopReason::Tool = 1,
        StopReason::RunEnded = 2,
    }
    "call_outcome" CallOutcome, call_outcome_to, call_outcome_from {
        CallOutcome::Success = 1,
        CallOutcome::Error = 2,
        CallOutcome::Cancelled = 3,
    }
    "not_executed" NotExecuted, not_executed_to, not_executed_from {
        NotExecuted::ApprovalUnavailable = 1,
        NotExecuted::InvalidCall = 2,
        NotExecuted::NotFound = 3,
        NotExecuted::CancelledBeforeStart = 4,
        NotExecuted::ToolUnavailable = 5,
        NotExecuted::DeniedByRule = 6,
        NotExecuted::DeniedByMode = 7,
    }
    "effect" CallEffect, effect_to, effect_from {
        CallEffect::NotExecuted = 1,
        CallEffect::Executed = 2,
        CallEffect::Unknown = 3,
    }
    "layer" ErrorLayer, layer_to, layer_from {
        ErrorLayer::Config = 1,
        ErrorLayer::Decode = 2,
        ErrorLayer::Tool = 3,
        ErrorLayer::Permission = 4,
        ErrorLayer::Cancelled = 5,
        ErrorLayer::Runtime = 6,
        ErrorLayer::Transport = 7,
        ErrorLayer::Store = 8,
    }
    "dialect" SchemaDialect, dialect_to, dialect_from {
        SchemaDialect::Core = 1,
        SchemaDialect::JsonSchema202012 = 2,
    }
    "risk" tool::Risk, risk_to, risk_from {
        tool::Risk::Safe = 1,
        tool::Risk::Sensitive = 2,
        tool::Risk::Dangerous = 3,
    }
    "tool_kind" tool::Kind, tool_kind_to, tool_kind_from {
        tool::Kind::Read = 1,
        tool::Kind::Fetch = 2,
        tool::Kind::Edit = 3,
        tool::Kind::Delete = 4,
        tool::Kind::Execute = 5,
        tool::Kind::Interact = 6,
        tool::Kind::Other = 7,
    }
    "subject_kind" tool::SubjectKind, subject_kind_to, subject_kind_from {
        tool::SubjectKind::Command = 1,
        tool::SubjectKind::Path = 2,
        tool::SubjectKind::Url = 3,
        tool::SubjectKind::Text = 4,
    }
}

/// The number of `RunState::Active`.
pub(super) const RUN_ACTIVE: u64 = 1;

/// Numbers of the kinds of content.
pub(super) mod content {
    pub(crate) const TEXT: u32 = 1;
    pub(crate) const JSON: u32 = 2;
    pub(crate) const IMAGE: u32 = 3;
    pub(crate) const AUDIO: u32 = 4;
    pub(crate) const RESOURCE_TEXT: u32 = 5;
    pub(crate) const RESOURCE_BLOB: u32 = 6;
    pub(crate) const LINK: u32 = 7;
}
