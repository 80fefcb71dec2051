"""Protobuf messages of approvals to the SDK's types and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import approval as ap
from .. import errors
from .._gen.callgate.v1 import approval_service_pb2 as av
from .._gen.callgate.v1 import types_pb2 as ty
from ..tool import Risk
from ..turns import ToolCall
from . import convert, convert_permission
from .status import from_message

CHOICES: dict[ap.ApprovalChoice, av.ApprovalChoice] = {
    "once": av.APPROVAL_CHOICE_ONCE,
    "session": av.APPROVAL_CHOICE_SESSION,
    "deny": av.APPROVAL_CHOICE_DENY,
    "edit": av.APPROVAL_CHOICE_EDIT,
    "respond": av.APPROVAL_CHOICE_RESPOND,
    "cancel_turn": av.APPROVAL_CHOICE_CANCEL_TURN,
}
_CHOICE_NAMES = convert.by_number(CHOICES)
STATES: dict[ap.ApprovalState, av.ApprovalState] = {
    "pending": av.APPROVAL_STATE_PENDING,
    "approved": av.APPROVAL_STATE_APPROVED,
    "denied": av.APPROVAL_STATE_DENIED,
    "answered": av.APPROVAL_STATE_ANSWERED,
    "expired": av.APPROVAL_STATE_EXPIRED,
    "cancelled": av.APPROVAL_STATE_CANCELLED,
    "withdrawn": av.APPROVAL_STATE_WITHDRAWN,
    "superseded": av.APPROVAL_STATE_SUPERSEDED,
}
_STATE_NAMES = convert.by_number(STATES)
_STATUS_NAMES: dict[int, ap.DecisionStatus] = {
    av.DECISION_STATUS_TAKEN: "taken",
    av.DECISION_STATUS_REPEATED: "repeated",
    av.DECISION_STATUS_CONFLICT: "conflict",
    av.DECISION_STATUS_REFUSED: "refused",
}


def approval(message: av.Approval) -> ap.Approval:
    """One approval. An unknown state is final; an unknown choice cannot be chosen."""
    call = message.call
    return ap.Approval(
        approval_id=message.approval_id,
        batch_id=message.batch_id,
        session_id=message.session_id,
        root_session_id=message.root_session_id,
        run_id=message.run_id,
        turn_id=message.turn_id,
        call=ToolCall(call.call_id, call.name, call.arguments_json, call.truncated),
        tool=message.tool,
        owner=message.owner,
        tool_digest=message.tool_digest,
        risk=convert.risk(message.risk_level),
        kind=convert.kind(message.kind),
        effective_arguments_json=message.effective_arguments_json,
        display_arguments=message.display_arguments,
        arguments_cut=message.arguments_cut,
        digest=message.approval_digest,
        verdict=convert_permission.verdict(message.verdict),
        allowed_choices=tuple(_CHOICE_NAMES[item] for item in message.allowed_choices if item in _CHOICE_NAMES),
        grant_candidates=tuple(convert_permission.candidate(item) for item in message.grant_candidates),
        state=_STATE_NAMES.get(message.state, "unknown"),
        created_at_ms=message.created_at_ms,
        expires_at_ms=message.expires_at_ms if message.HasField("expires_at_ms") else None,
        decision=decision(message.decision) if message.HasField("decision") else None,
        pending_in_batch=message.pending_in_batch,
        mode=convert_permission.mode(message.mode),
        call_outcome=None if message.call_outcome == 0 else convert.outcome(message.call_outcome),
        etag=message.etag,
        tool_reason=message.tool_reason,
    )


def decision(message: av.Decision) -> ap.Decision:
    """A decision as it was recorded."""
    return ap.Decision(
        decision_id=message.decision_id,
        choice=None if message.choice == 0 else _CHOICE_NAMES.get(message.choice, "unknown"),
        decided_by=message.decided_by,
        surface=message.surface,
        decided_at_ms=message.decided_at_ms,
        message=message.message,
        edited_arguments_json=message.edited_arguments_json,
        grants=tuple(convert_permission.grant(item) for item in message.grants),
        verdict=convert_permission.verdict(message.verdict) if message.HasField("verdict") else None,
    )


def approval_filter(
    *,
    root_session_ids: Sequence[str],
    session_id: str,
    turn_id: str,
    states: Sequence[ap.ApprovalState],
    min_risk: Risk | None,
    tools: Sequence[str],
) -> av.ApprovalFilter:
    """Which approvals.

    Raises:
        ValueError: There is no such state or risk.
    """
    risks: dict[Any, Any] = {None: ty.RISK_LEVEL_UNSPECIFIED, **convert.RISKS}
    if min_risk not in risks:
        raise ValueError(f"min_risk must be one of {', '.join(convert.RISKS)}, not {min_risk!r}")
    return av.ApprovalFilter(
        root_session_ids=root_session_ids,
        session_id=session_id,
        turn_id=turn_id,
        states=[convert_permission.chosen("states", STATES, item) for item in states],
        min_risk_level=risks[min_risk],
        tools=tools,
    )


def approval_decision(made: ap.ApprovalDecision) -> av.ApprovalDecision:
    """One decision on its way.

    Raises:
        ValueError: Its response cannot be sent.
    """
    ref = made.ref
    message = av.ApprovalDecision(
        approval_id=ref.approval_id,
        decision_id=made.decision_id,
        approval_digest=ref.digest,
        etag=ref.etag,
        choice=CHOICES[made.choice],
        message=made.message,
        grant_candidate_ids=made.candidate_ids,
        edited_arguments_json=made.arguments_json,
    )
    if made.choice == "respond":
        message.response.CopyFrom(convert.tool_result(ap.answer_of(made.response)))
    return message


def outcome(message: av.DecisionOutcome) -> ap.DecisionOutcome:
    """What became of a decision. A status that is newer than this SDK is an error: read the approval."""
    status = _STATUS_NAMES.get(message.status, "unknown")
    now = approval(message.approval) if message.HasField("approval") else None
    error: errors.CallgateError | None = None
    if status == "unknown":
        error = errors.ProtocolError("the sidecar's answer is newer than this package; read the approval")
    elif status in {"conflict", "refused"}:
        error = _failure(status, message, now)
    return ap.DecisionOutcome(message.approval_id, status, now, error)


def _failure(status: str, message: av.DecisionOutcome, now: ap.Approval | None) -> errors.CallgateError:
    kind = errors.DecisionConflict if status == "conflict" else errors.DecisionRefused
    if not message.HasField("error"):
        why = errors.CallgateError("the sidecar did not say why", code=kind.code)
    else:
        why = from_message(message.error)
    made = kind(
        why.message,
        code=why.code,
        violations=why.violations,
        limit=why.limit,
        retry_after=why.retry_after,
        resource_kind=why.resource_kind,
        resource_id=why.resource_id,
    )
    made.approval = now
    return made
