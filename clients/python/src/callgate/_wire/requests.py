"""Builds the request of a turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._gen.callgate.v1 import provider_pb2 as pr
from .._gen.callgate.v1 import turn_service_pb2 as tu
from .._gen.callgate.v1 import types_pb2 as ty
from ..permission import BatchPolicy, RuleSpec
from ..result import to_json
from ..turns import OnSuspend, ToolCall, message_json
from . import convert_permission, convert_turns


def run_request(
    *,
    session_id: str,
    turn_id: str,
    calls: Sequence[ToolCall],
    openai_message: Any,
    finish_reason: str,
    run_id: str,
    toolset: str,
    tool_snapshot_id: str,
    max_parallel: int | None,
    timeout: float | None,
    model_message: bytes,
    view: tu.TurnView,
    cancel_on_disconnect: bool,
    batch_policy: BatchPolicy | None,
    command_rules: Sequence[RuleSpec],
    on_suspend: OnSuspend,
    history: Sequence[Any] | None,
    traceparent: str,
) -> tu.RunTurnRequest:
    """One model message and its calls."""
    request = tu.RunTurnRequest(
        session_id=session_id,
        turn_id=turn_id,
        calls=[convert_turns.tool_call(call) for call in calls],
        run_id=run_id,
        toolset=toolset,
        tool_snapshot_id=tool_snapshot_id,
        view=view,
        on_disconnect=tu.ON_DISCONNECT_CANCEL if cancel_on_disconnect else tu.ON_DISCONNECT_UNSPECIFIED,
        model_message=model_message,
        on_suspend=convert_permission.chosen("on_suspend", convert_turns.ON_SUSPEND, on_suspend),
        command_rules=[convert_permission.rule_spec(rule) for rule in command_rules],
        batch_policy=convert_permission.batch_policy_number(batch_policy),
    )
    if openai_message is not None:
        request.provider_message.CopyFrom(
            pr.ProviderMessage(
                format=pr.PROVIDER_FORMAT_OPENAI_CHAT,
                message_json=message_json(openai_message),
                finish_reason=finish_reason,
            )
        )
    if max_parallel is not None:
        request.max_parallel = max_parallel
    milliseconds = convert_turns.span(timeout)
    if milliseconds is not None:
        request.timeout_ms = milliseconds
    if history is not None:
        request.history_json = to_json(list(history)).encode("utf-8", "surrogatepass")
    if traceparent:
        request.trace.CopyFrom(ty.TraceContext(traceparent=traceparent))
    return request
