"""Hook messages to the SDK's types and back. No decisions are made here."""

from __future__ import annotations

import json
from typing import Any

from .._gen.callgate.v1 import hook_service_pb2 as hk
from .._gen.callgate.v1 import types_pb2 as ty
from ..approval import answer_of
from ..hook import After, Before, EarlierHook, HookInput, HookPoint, HookSpec
from ..hook_points import (
    ApprovalAnswer,
    ApprovalRequested,
    HookQuestion,
    LoopDiagnosis,
    LoopOpinion,
    LoopSuspected,
    TurnObserved,
)
from ..hook_runner import HookFailed, HookSaid
from ..result import ToolResult
from ..turns import ToolCall
from . import convert_approvals
from .convert import KINDS, RISKS, call_result, enum_name, error_info, kind, milliseconds, risk, tool_result
from .convert_permission import mode
from .convert_turns import DETECTORS, run

POINTS: dict[HookPoint, Any] = {
    "before_tool_call": hk.HOOK_POINT_BEFORE_TOOL_CALL,
    "after_tool_call": hk.HOOK_POINT_AFTER_TOOL_CALL,
    "after_tool_failure": hk.HOOK_POINT_AFTER_TOOL_FAILURE,
    "approval_requested": hk.HOOK_POINT_APPROVAL_REQUESTED,
    "turn_started": hk.HOOK_POINT_TURN_STARTED,
    "turn_finished": hk.HOOK_POINT_TURN_FINISHED,
    "loop_suspected": hk.HOOK_POINT_LOOP_SUSPECTED,
    "loop_diagnose": hk.HOOK_POINT_LOOP_DIAGNOSE,
}
_POINT_NAMES: dict[int, HookPoint] = {number: name for name, number in POINTS.items()}
_FAILURES = {
    "deny": hk.HOOK_FAILURE_MODE_DENY,
    "ask": hk.HOOK_FAILURE_MODE_ASK,
    "ignore": hk.HOOK_FAILURE_MODE_IGNORE,
}
_BEFORE: dict[str, Any] = {
    name: hk.BeforeAction.Value(f"BEFORE_ACTION_{name.upper()}")
    for name in ("proceed", "allow", "ask", "defer", "deny", "abort")
}
_AFTER: dict[str, Any] = {
    name: hk.AfterAction.Value(f"AFTER_ACTION_{name.upper()}") for name in ("proceed", "stop", "abort")
}
_APPROVAL: dict[str, Any] = {
    name: hk.ApprovalAction.Value(f"APPROVAL_ACTION_{name.upper()}") for name in ("approve", "deny", "leave")
}
_ROLES = {"user": ty.MESSAGE_ROLE_USER, "system": ty.MESSAGE_ROLE_SYSTEM}
FAILURE_CHARACTERS_MAX = 1_024


def registration(spec: HookSpec) -> hk.HookRegistration:
    """One hook as the sidecar is told of it."""
    matcher = spec.matcher
    return hk.HookRegistration(
        hook_id=spec.hook_id,
        points=[POINTS[point] for point in spec.points],
        order=spec.order,
        matcher=hk.HookMatcher(
            tools=matcher.tools,
            risk_levels=[RISKS[one] for one in matcher.risks],
            kinds=[KINDS[one] for one in matcher.kinds],
            rules=matcher.rules,
            argument_pointers=matcher.arguments,
        ),
        timeout_ms=milliseconds(spec.timeout),
        on_failure=_FAILURES[spec.on_failure],
        observe=spec.observe,
        withhold_on_failure=spec.withhold_on_failure,
        description=spec.description.encode()[:1_024].decode(errors="ignore"),
    )


def question(message: hk.HookInvocation) -> HookQuestion | None:
    """What a hook is asked or told; None for a point that is newer than this SDK."""
    point = _POINT_NAMES.get(message.point)
    if point is None:
        return None
    if point in ("before_tool_call", "after_tool_call", "after_tool_failure"):
        return _about_call(message, point)
    common: dict[str, Any] = {
        "hook_id": message.hook_id,
        "point": point,
        "timestamp_ms": message.invoked_at_ms,
        "session_id": message.session_id,
        "root_session_id": message.root_session_id,
        "run_id": message.run_id,
        "turn_id": message.turn_id,
        "batch_id": message.batch_id,
        "cwd": message.cwd,
        "mode": mode(message.mode),
        "attempt": message.attempt,
    }
    if point == "approval_requested":
        return ApprovalRequested(**common, approval=convert_approvals.approval(message.approval.approval))
    if point == "loop_suspected":
        found = message.loop_suspected
        detector = DETECTORS.get(found.detector, "unknown")
        return LoopSuspected(
            **common, detector=detector, reason=found.reason, call_ids=tuple(found.call_ids), run=run(found.run)
        )
    if point == "loop_diagnose":
        due = message.diagnosis
        return LoopDiagnosis(**common, history_json=due.history_json, run=run(due.run))
    turn = message.turn
    calls = tuple(ToolCall(call.call_id, call.name, call.arguments_json, call.truncated) for call in turn.calls)
    return TurnObserved(
        **common, calls=calls, run=run(turn.run), results=tuple(call_result(one) for one in turn.results)
    )


def _about_call(message: hk.HookInvocation, point: HookPoint) -> HookInput:
    before = point == "before_tool_call"
    about: Any = message.before if before else message.after
    tool = about.tool if about.HasField("tool") else None
    return HookInput(
        hook_id=message.hook_id,
        point=point,
        timestamp_ms=message.invoked_at_ms,
        session_id=message.session_id,
        root_session_id=message.root_session_id,
        run_id=message.run_id,
        turn_id=message.turn_id,
        batch_id=message.batch_id,
        call_id=about.call.call_id,
        tool_name=about.call.name,
        tool_args=_object(about.arguments_json),
        tool_args_json=about.arguments_json,
        cwd=message.cwd,
        mode=mode(message.mode),
        risk=risk(tool.risk_level) if tool is not None else None,
        kind=kind(tool.kind) if tool is not None else None,
        tool_digest=tool.tool_digest if tool is not None else b"",
        validation=error_info(about.validation) if before and about.HasField("validation") else None,
        earlier=tuple(_earlier(item) for item in about.earlier) if before else (),
        result=None if before else call_result(about.result),
        attempt=message.attempt,
    )


def _object(document: bytes) -> dict[str, Any] | None:
    if not document:
        return {}
    try:
        value = json.loads(document)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _earlier(message: hk.HookOutcome) -> EarlierHook:
    return EarlierHook(
        hook_id=message.hook_id,
        status=enum_name(hk.HookRunStatus, message.status, "HOOK_RUN_STATUS_", "failed"),
        says=enum_name(hk.BeforeAction, message.action, "BEFORE_ACTION_", "proceed"),
        modified=message.modified,
    )


def verdict(invocation_id: str, said: HookSaid, approval_digest: bytes = b"") -> hk.HookVerdict:
    """What a hook says; of an approval, about the one of that digest.

    Raises:
        ValueError: A result in it cannot be sent, or nothing is said.
    """
    if isinstance(said, HookFailed):
        return failure(invocation_id, said)
    if isinstance(said, Before):
        return hk.HookVerdict(invocation_id=invocation_id, before=_before(said))
    if isinstance(said, After):
        return hk.HookVerdict(invocation_id=invocation_id, after=_after(said))
    if isinstance(said, ApprovalAnswer):
        approval = hk.ApprovalVerdict(
            action=_APPROVAL[said.says], message=said.message, approval_digest=approval_digest
        )
        return hk.HookVerdict(invocation_id=invocation_id, approval=approval)
    if isinstance(said, LoopOpinion):
        opinion = hk.LoopVerdict(is_loop=said.is_loop, reason=said.reason, confidence=said.confidence)
        return hk.HookVerdict(invocation_id=invocation_id, loop_verdict=opinion)
    raise ValueError("nobody waits for an answer at this point")


def failure(invocation_id: str, failed: HookFailed) -> hk.HookVerdict:
    """The hook's code failed."""
    text = failed.message[:FAILURE_CHARACTERS_MAX]
    return hk.HookVerdict(invocation_id=invocation_id, failure=hk.HookFailure(message=text))


def _before(said: Before) -> hk.BeforeVerdict:
    return hk.BeforeVerdict(
        action=_BEFORE[said.says],
        modified_args_json=_document(said.args),
        additional_context=said.context,
        suppress_output=said.suppress,
        reason_for_user=said.reason,
        reason_for_model=said.reason_for_model,
        synthetic_result=_result(said.result),
    )


def _after(said: After) -> hk.AfterVerdict:
    return hk.AfterVerdict(
        action=_AFTER[said.says],
        modified_result=_result(said.result),
        injected_messages=[ty.InjectedMessage(role=_ROLES[item.role], text=item.text) for item in said.messages],
        additional_context=said.context,
        suppress_output=said.suppress,
        reason_for_user=said.reason,
    )


def _document(args: Any) -> bytes:
    if args is None:
        return b""
    return json.dumps(args, ensure_ascii=False, allow_nan=False).encode()


def _result(result: ToolResult | None) -> ty.ToolResult | None:
    return None if result is None else tool_result(answer_of(result))
