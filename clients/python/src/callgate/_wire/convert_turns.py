"""Protobuf messages of turns and of the registry to the SDK's types."""

from __future__ import annotations

import json
from typing import Any, cast

from .. import turns
from .._gen.callgate.v1 import provider_pb2 as pr
from .._gen.callgate.v1 import registry_service_pb2 as rg
from .._gen.callgate.v1 import server_service_pb2 as sv
from .._gen.callgate.v1 import turn_service_pb2 as tu
from .._gen.callgate.v1 import types_pb2 as ty
from ..registry import ExportLoss, Limit, ServerInfo, ToolInfo, ToolState
from .convert import (
    CHANNEL_NAMES,
    DIALECT_NAMES,
    by_number,
    call_result,
    enum_name,
    error_info,
    kind,
    milliseconds,
    parsed,
    risk,
)
from .convert_permission import batch_policy, verdict

FORMATS = {"openai_chat": pr.PROVIDER_FORMAT_OPENAI_CHAT}
_DELIVERIES = {
    "at_end": tu.RESULT_DELIVERY_AT_END,
    "as_completed": tu.RESULT_DELIVERY_AS_COMPLETED,
    "both": tu.RESULT_DELIVERY_BOTH,
}
_OUTCOMES: dict[int, turns.TurnOutcome] = {
    tu.TURN_OUTCOME_COMPLETED: "completed",
    tu.TURN_OUTCOME_CANCELLED: "cancelled",
    tu.TURN_OUTCOME_ABORTED: "aborted",
    tu.TURN_OUTCOME_LOOP_DETECTED: "loop_detected",
}
_RUN_STATES: dict[int, turns.RunState] = {
    ty.RUN_STATE_ACTIVE: "active",
    ty.RUN_STATE_CANCELLED: "cancelled",
    ty.RUN_STATE_ABORTED: "aborted",
    ty.RUN_STATE_ERROR: "error",
    ty.RUN_STATE_LOOP_DETECTED: "loop_detected",
}
DETECTORS: dict[int, turns.LoopDetector] = {
    ty.LOOP_DETECTOR_TOOL_SIGNATURE: "tool_signature",
    ty.LOOP_DETECTOR_CYCLE: "cycle",
    ty.LOOP_DETECTOR_LLM: "llm",
}
TURN_STATES: dict[turns.TurnState, int] = {
    "running": tu.TURN_STATE_RUNNING,
    "suspended": tu.TURN_STATE_SUSPENDED,
    "completed": tu.TURN_STATE_COMPLETED,
}
_TURN_STATE_NAMES = by_number(TURN_STATES)
ON_SUSPEND: dict[turns.OnSuspend, tu.OnSuspend] = {"wait": tu.ON_SUSPEND_WAIT, "end": tu.ON_SUSPEND_END}


def view(*, results: turns.Results, output: bool, progress: bool, results_format: str | None) -> tu.TurnView:
    """How events are wanted."""
    return tu.TurnView(
        result_delivery=_DELIVERIES[results],
        include_output=output,
        exclude_progress=not progress,
        results_format=FORMATS[results_format] if results_format else pr.PROVIDER_FORMAT_UNSPECIFIED,
    )


def tool_call(call: turns.ToolCall) -> ty.ToolCall:
    """One call as the model made it."""
    return ty.ToolCall(
        call_id=call.call_id, name=call.name, arguments_json=call.arguments_json, truncated=call.truncated
    )


def span(seconds: float | None) -> int | None:
    """An optional span in milliseconds; 0 stays 0."""
    if seconds is None:
        return None
    return milliseconds(seconds) if seconds > 0 else 0


def call_state(number: int) -> turns.CallState:
    """Unknown ones are shown as running."""
    return cast(turns.CallState, enum_name(ty.CallState, number, "CALL_STATE_", "executing") or "executing")


def turn_state(number: int) -> turns.TurnState:
    """Unknown ones count as running."""
    return _TURN_STATE_NAMES.get(number, "running")


def approval_summary(message: tu.ApprovalSummary) -> turns.ApprovalSummary:
    """Enough of an approval to show that one waits."""
    return turns.ApprovalSummary(
        approval_id=message.approval_id,
        call_id=message.call_id,
        tool=message.tool,
        risk=risk(message.risk_level),
        verdict=verdict(message.verdict),
        expires_at_ms=message.expires_at_ms if message.HasField("expires_at_ms") else None,
    )


def turn_event(turn_id: str, epoch: int, message: tu.TurnEvent) -> turns.TurnEvent | None:
    """One event; None for a body that is newer than this SDK."""
    head = (turn_id, epoch, message.sequence, message.occurred_at_ms)
    body = message.WhichOneof("body")
    if body == "call_state_changed":
        changed = message.call_state_changed
        previous = call_state(changed.previous_state) if changed.previous_state else None
        return turns.CallStateChanged(*head, changed.call_id, call_state(changed.state), previous, changed.code)
    if body == "call_completed":
        return turns.CallCompleted(*head, call_result(message.call_completed.result))
    if body == "turn_accepted":
        accepted = message.turn_accepted
        calls = tuple(turns.AcceptedCall(call.call_id, call.tool, call.minted) for call in accepted.calls)
        return turns.TurnAccepted(
            *head,
            accepted.session_id,
            accepted.run_id,
            accepted.batch_id,
            calls,
            accepted.round,
            batch_policy(accepted.batch_policy),
        )
    if body == "turn_completed":
        return turns.TurnCompleted(*head, turn_result(turn_id, message.turn_completed))
    if body == "approval_required":
        required = message.approval_required
        return turns.ApprovalRequired(
            *head, required.batch_id, tuple(approval_summary(item) for item in required.approvals)
        )
    if body == "turn_suspended":
        suspended = message.turn_suspended
        return turns.TurnSuspended(*head, suspended.batch_id, tuple(suspended.approval_ids))
    if body == "loop_detected":
        found = message.loop_detected
        return turns.LoopDetected(
            *head,
            DETECTORS.get(found.detector, "unknown"),
            found.reason,
            tuple(found.call_ids),
            found.period,
            found.repetitions,
            found.confidence if found.HasField("confidence") else None,
        )
    if body == "call_progress":
        progress = message.call_progress
        fraction = progress.fraction if progress.HasField("fraction") else None
        return turns.CallProgress(*head, progress.call_id, progress.message, fraction, parsed(progress.details_json))
    if body == "call_output":
        output = message.call_output
        return turns.CallOutput(
            *head,
            output.call_id,
            cast(Any, CHANNEL_NAMES.get(output.channel, "text" if output.channel == 0 else "data")),
            output.chunk_sequence,
            output.data,
            output.dropped_bytes,
        )
    if body == "heartbeat":
        return turns.TurnHeartbeat(*head, message.heartbeat.waiting_for)
    return None


def messages(message: pr.ProviderMessages) -> tuple[dict[str, Any], ...]:
    """What to append to the history."""
    return tuple(json.loads(item) for item in message.messages_json)


def turn_result(turn_id: str, message: tu.TurnCompleted) -> turns.TurnResult:
    """How a turn ended."""
    closing = message.closing_results
    return turns.TurnResult(
        turn_id=turn_id,
        outcome=_OUTCOMES.get(message.outcome, "error"),
        results=tuple(call_result(item) for item in message.results),
        messages=messages(message.provider_messages),
        stop=message.stop,
        stop_reason=enum_name(tu.StopReason, message.stop_reason, "STOP_REASON_", "run_ended"),
        run=run(message.run) if message.HasField("run") else None,
        error=error_info(message.error) if message.HasField("error") else None,
        closing_results=tuple(call_result(item) for item in closing.results),
        closing_messages=messages(closing.provider_messages),
        hook_contexts=tuple(
            turns.HookText(item.text, item.hook_id, item.call_id) for item in message.additional_contexts
        ),
        hook_messages=tuple(
            turns.HookText(
                item.text, item.hook_id, item.call_id, enum_name(ty.MessageRole, item.role, "MESSAGE_ROLE_", "user")
            )
            for item in message.injected_messages
        ),
    )


def run(message: ty.Run) -> turns.Run:
    """A run. An unknown state counts as final."""
    return turns.Run(
        run_id=message.run_id,
        session_id=message.session_id,
        state=_RUN_STATES.get(message.state, "completed"),
        rounds=message.rounds,
        end_code=message.end_code,
        end_reason=message.end_reason,
        started_at_ms=message.started_at_ms,
        ended_at_ms=message.ended_at_ms if message.HasField("ended_at_ms") else None,
    )


def turn_info(message: tu.Turn) -> turns.TurnInfo:
    """A turn as it stands."""
    return turns.TurnInfo(
        turn_id=message.turn_id,
        session_id=message.session_id,
        run_id=message.run_id,
        batch_id=message.batch_id,
        state=turn_state(message.state),
        calls=tuple(
            turns.TurnCallInfo(
                turns.ToolCall(call.call.call_id, call.call.name, call.call.arguments_json, call.call.truncated),
                call.tool,
                call_state(call.state),
                call.approval_id,
                call.effective_arguments_json,
            )
            for call in message.calls
        ),
        epoch=message.epoch,
        last_sequence=message.last_sequence,
        model_message=message.model_message,
        completed=turn_result(message.turn_id, message.completed) if message.HasField("completed") else None,
        accepted_at_ms=message.accepted_at_ms,
        updated_at_ms=message.updated_at_ms,
    )


def tool_info(message: rg.Tool) -> ToolInfo:
    """A tool as the registry has it."""
    definition = message.definition
    return ToolInfo(
        name=definition.name,
        description=definition.description,
        schema=parsed(definition.parameters_json) or {"type": "object"},
        dialect=DIALECT_NAMES.get(definition.schema_dialect, "core" if definition.schema_dialect == 0 else "unknown"),
        risk=risk(definition.risk_level),
        kind=kind(definition.kind),
        idempotent=definition.idempotent,
        exclusive=definition.exclusive,
        timeout=definition.timeout_ms / 1000 if definition.HasField("timeout_ms") else None,
        version=definition.version,
        annotations=parsed(definition.annotations_json),
        owner=message.owner,
        state=cast(ToolState, enum_name(rg.ToolState, message.state, "TOOL_STATE_", "unavailable") or "unavailable"),
        generation=message.generation,
        digest=message.tool_digest,
        instances=message.instances,
        in_flight=message.in_flight,
    )


def export_loss(message: pr.ExportLoss) -> ExportLoss:
    """One thing that a form could not hold."""
    action = enum_name(pr.ExportAction, message.action, "EXPORT_ACTION_", "dropped")
    return ExportLoss(message.tool, message.call_id, message.path, message.keyword, action)


def server_info(message: sv.GetServerInfoResponse) -> ServerInfo:
    """What the sidecar is."""
    return ServerInfo(
        version=message.version,
        process_id=message.process_id,
        state=enum_name(sv.ServerState, message.state, "SERVER_STATE_", "serving") or "serving",
        store=message.store,
        features=tuple(message.features),
        dialects=tuple(DIALECT_NAMES.get(item, "unknown") for item in message.dialects),
        formats=tuple(enum_name(pr.ProviderFormat, item, "PROVIDER_FORMAT_", "unknown") for item in message.formats),
        limits=tuple(Limit(item.name, item.value, item.unit, item.ceiling) for item in message.limits),
        caller_roles=tuple(enum_name(ty.Role, item, "ROLE_", "unknown") for item in message.caller_roles),
        caller_principal=message.caller_principal,
        started_at_ms=message.started_at_ms,
    )
