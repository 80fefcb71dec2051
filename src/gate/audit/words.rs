//! The words that records use for what the gate knows as enums. Stable: records are kept for years.
//!
//! Never a text for people.

use crate::gate::approval::{ApprovalState, BatchPolicy, Choice};
use crate::gate::event::{RunState, TurnOutcome};
use crate::gate::hooks::{BeforeAction, OnFailure};
use crate::gate::permission::GroundKind;
use crate::gate::result::{CallEffect, CallOutcome, NotExecuted};
use crate::gate::session::Approvers;

pub(super) fn ground(kind: GroundKind) -> &'static str {
    match kind {
        GroundKind::DenyRule => "deny_rule",
        GroundKind::AskRule => "ask_rule",
        GroundKind::Unclear => "unclear",
        GroundKind::Hook => "hook",
        GroundKind::ModeBlock => "mode_block",
        GroundKind::ToolCheck => "tool_check",
        GroundKind::AllowRule => "allow_rule",
        GroundKind::Grant => "grant",
        GroundKind::SkipPermission => "skip_permission",
        GroundKind::ModeAndRisk => "mode_and_risk",
        GroundKind::NoApprover => "no_approver",
    }
}

pub(super) fn before(action: BeforeAction) -> &'static str {
    match action {
        BeforeAction::Proceed => "proceed",
        BeforeAction::Allow => "allow",
        BeforeAction::Ask => "ask",
        BeforeAction::Defer => "defer",
        BeforeAction::Deny => "deny",
        BeforeAction::Abort => "abort",
    }
}

pub(super) fn choice(choice: Choice) -> &'static str {
    match choice {
        Choice::Once => "once",
        Choice::Session => "session",
        Choice::Deny => "deny",
        Choice::Edit => "edit",
        Choice::Respond => "respond",
        Choice::CancelTurn => "cancel_turn",
    }
}

pub(super) fn approvers(approvers: Approvers) -> &'static str {
    match approvers {
        Approvers::Expected => "expected",
        Approvers::Connected => "connected",
        Approvers::None => "none",
    }
}

pub(super) fn batch_policy(policy: BatchPolicy) -> &'static str {
    match policy {
        BatchPolicy::FreezeAtomic => "freeze_atomic",
        BatchPolicy::FreezePartial => "freeze_partial",
        BatchPolicy::EagerSafe => "eager_safe",
    }
}

pub(super) fn approval(state: ApprovalState) -> &'static str {
    match state {
        ApprovalState::Pending => "pending",
        ApprovalState::Approved => "approved",
        ApprovalState::Denied => "denied",
        ApprovalState::Answered => "answered",
        ApprovalState::Expired => "expired",
        ApprovalState::Cancelled => "cancelled",
        ApprovalState::Withdrawn => "withdrawn",
        ApprovalState::Superseded => "superseded",
    }
}

pub(super) fn outcome(outcome: CallOutcome) -> &'static str {
    match outcome {
        CallOutcome::Success => "success",
        CallOutcome::Error => "error",
        CallOutcome::Cancelled => "cancelled",
    }
}

pub(super) fn effect(effect: CallEffect) -> &'static str {
    match effect {
        CallEffect::NotExecuted => "not_executed",
        CallEffect::Executed => "executed",
        CallEffect::Unknown => "unknown",
    }
}

pub(super) fn on_failure(mode: OnFailure) -> &'static str {
    match mode {
        OnFailure::Deny => "deny",
        OnFailure::Ask => "ask",
        OnFailure::Ignore => "ignore",
    }
}

pub(super) fn not_executed(why: NotExecuted) -> &'static str {
    match why {
        NotExecuted::ApprovalUnavailable => "approval_unavailable",
        NotExecuted::DeniedByUser => "denied_by_user",
        NotExecuted::ApprovalExpired => "approval_expired",
        NotExecuted::BatchRejected => "batch_rejected",
        NotExecuted::AnsweredByApprover => "answered_by_approver",
        NotExecuted::DeniedByRule => "denied_by_rule",
        NotExecuted::DeniedByMode => "denied_by_mode",
        NotExecuted::DeniedByTool => "denied_by_tool",
        NotExecuted::DeniedByHook => "denied_by_hook",
        NotExecuted::AnsweredByHook => "answered_by_hook",
        NotExecuted::RunAborted => "run_aborted",
        NotExecuted::Loop => "loop",
        NotExecuted::InvalidCall => "invalid_call",
        NotExecuted::NotFound => "not_found",
        NotExecuted::CancelledBeforeStart => "cancelled_before_start",
        NotExecuted::ToolUnavailable => "tool_unavailable",
    }
}

pub(super) fn turn(outcome: TurnOutcome) -> &'static str {
    match outcome {
        TurnOutcome::Completed => "completed",
        TurnOutcome::Cancelled => "cancelled",
        TurnOutcome::Aborted => "aborted",
        TurnOutcome::LoopDetected => "loop_detected",
        TurnOutcome::Error => "error",
    }
}

pub(super) fn run(state: RunState) -> &'static str {
    match state {
        RunState::Active => "active",
        RunState::Completed => "completed",
        RunState::Cancelled => "cancelled",
        RunState::Aborted => "aborted",
        RunState::LoopDetected => "loop_detected",
        RunState::Error => "error",
    }
}
