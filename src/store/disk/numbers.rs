//! Our enums as numbers on the disk.
//!
//! A number is never reused and none is zero, so that a field that is absent never reads as a value.
//! Never guesses: an unknown number is an error.

use super::{Kind, Unreadable};
use crate::gate::approval::{ApprovalState, BatchPolicy, Choice};
use crate::gate::event::{RunState, StopReason, TurnOutcome};
use crate::gate::hooks::{BeforeAction, MessageRole};
use crate::gate::permission::{GroundKind, Mode, Source, Verdict};
use crate::gate::provider::ProviderFormat;
use crate::gate::refusal::ErrorLayer;
use crate::gate::result::{CallEffect, CallOutcome, NotExecuted};
use crate::gate::schema::SchemaDialect;
use crate::gate::session::Approvers;
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
        Kind::ApprovalsAsked = 13,
        Kind::ApprovalsChanged = 14,
        Kind::SessionPut = 15,
        Kind::GrantsPut = 16,
        Kind::HooksHeard = 20,
        Kind::HookRegistered = 21,
        Kind::HookRemoved = 22,
    }
    "run_state" RunState, run_state_to, run_state_from {
        RunState::Active = 1,
        RunState::Completed = 2,
        RunState::Cancelled = 3,
        RunState::Error = 4,
        RunState::Aborted = 5,
        RunState::LoopDetected = 6,
    }
    "format" ProviderFormat, format_to, format_from {
        ProviderFormat::OpenAiChat = 1,
    }
    "turn_outcome" TurnOutcome, turn_outcome_to, turn_outcome_from {
        TurnOutcome::Completed = 1,
        TurnOutcome::Cancelled = 2,
        TurnOutcome::Error = 3,
        TurnOutcome::Aborted = 4,
        TurnOutcome::LoopDetected = 5,
    }
    "stop" StopReason, stop_to, stop_from {
        StopReason::Tool = 1,
        StopReason::RunEnded = 2,
        StopReason::Hook = 3,
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
        NotExecuted::DeniedByUser = 8,
        NotExecuted::ApprovalExpired = 9,
        NotExecuted::BatchRejected = 10,
        NotExecuted::AnsweredByApprover = 11,
        NotExecuted::DeniedByTool = 12,
        NotExecuted::DeniedByHook = 13,
        NotExecuted::AnsweredByHook = 14,
        NotExecuted::RunAborted = 15,
        NotExecuted::Loop = 17,
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
        ErrorLayer::Hook = 9,
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
    "batch_policy" BatchPolicy, batch_policy_to, batch_policy_from {
        BatchPolicy::FreezeAtomic = 1,
        BatchPolicy::FreezePartial = 2,
        BatchPolicy::EagerSafe = 3,
    }
    "choice" Choice, choice_to, choice_from {
        Choice::Once = 1,
        Choice::Session = 2,
        Choice::Deny = 3,
        Choice::Edit = 4,
        Choice::Respond = 5,
        Choice::CancelTurn = 6,
    }
    "approval_state" ApprovalState, approval_state_to, approval_state_from {
        ApprovalState::Pending = 1,
        ApprovalState::Approved = 2,
        ApprovalState::Denied = 3,
        ApprovalState::Answered = 4,
        ApprovalState::Expired = 5,
        ApprovalState::Cancelled = 6,
        ApprovalState::Withdrawn = 7,
        ApprovalState::Superseded = 8,
    }
    "approvers" Approvers, approvers_to, approvers_from {
        Approvers::Expected = 1,
        Approvers::Connected = 2,
        Approvers::None = 3,
    }
    "mode" Mode, mode_to, mode_from {
        Mode::Plan = 1,
        Mode::Default = 2,
        Mode::AcceptEdits = 3,
        Mode::Auto = 4,
    }
    "verdict" Verdict, verdict_to, verdict_from {
        Verdict::Allow = 1,
        Verdict::Ask = 2,
        Verdict::Deny = 3,
    }
    "ground" GroundKind, ground_to, ground_from {
        GroundKind::DenyRule = 1,
        GroundKind::AskRule = 2,
        GroundKind::Unclear = 3,
        GroundKind::Hook = 4,
        GroundKind::ModeBlock = 5,
        GroundKind::ToolCheck = 6,
        GroundKind::AllowRule = 7,
        GroundKind::Grant = 8,
        GroundKind::SkipPermission = 9,
        GroundKind::ModeAndRisk = 10,
        GroundKind::NoApprover = 11,
    }
    "source" Source, source_to, source_from {
        Source::Policy = 1,
        Source::User = 2,
        Source::Project = 3,
        Source::Local = 4,
        Source::Flag = 5,
        Source::CliArg = 6,
        Source::Command = 7,
        Source::Session = 8,
    }
    "before_action" BeforeAction, before_action_to, before_action_from {
        BeforeAction::Proceed = 1,
        BeforeAction::Allow = 2,
        BeforeAction::Ask = 3,
        BeforeAction::Defer = 4,
        BeforeAction::Deny = 5,
        BeforeAction::Abort = 6,
    }
    "role" MessageRole, role_to, role_from {
        MessageRole::System = 1,
        MessageRole::User = 2,
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
