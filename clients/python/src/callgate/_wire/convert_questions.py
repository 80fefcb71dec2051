"""Protobuf messages of questions about calls to the SDK's types, and the answers back."""

from __future__ import annotations

from collections.abc import Sequence

from .._gen.callgate.v1 import executor_service_pb2 as ex
from .._gen.callgate.v1 import permission_pb2 as pe
from .._gen.callgate.v1 import types_pb2 as ty
from ..permission_check import PathFact, Permission, PermissionContext, PermissionSays
from ..questions import CheckQuestion, PathQuestion
from ..result import cut
from . import convert_permission
from .convert import enum_name

REASON_BYTES_MAX = 1_024

VERDICTS: dict[PermissionSays, ex.PermissionCheckVerdict] = {
    "deny": ex.PERMISSION_CHECK_VERDICT_DENY,
    "ask": ex.PERMISSION_CHECK_VERDICT_ASK,
    "ask_firm": ex.PERMISSION_CHECK_VERDICT_ASK_FIRM,
    "allow": ex.PERMISSION_CHECK_VERDICT_ALLOW,
    "passthrough": ex.PERMISSION_CHECK_VERDICT_PASSTHROUGH,
}


def check_question(message: ex.PermissionCheckRequest) -> CheckQuestion:
    """A question for a tool."""
    context = message.context
    return CheckQuestion(
        tool_digest=message.tool_digest,
        arguments_json=message.arguments_json or b"{}",
        context=PermissionContext(
            tool_name=message.tool_name,
            call_id=message.call_id,
            mode=convert_permission.mode(message.mode),
            facts=tuple(_fact(item) for item in message.facts),
            matched_rule=message.matched_rule,
            matched_source=enum_name(
                ty.RuleSource, message.matched_source, "RULE_SOURCE_", str(message.matched_source)
            ),
            session_id=context.session_id,
            run_id=context.run_id,
            turn_id=context.turn_id,
            cwd=context.cwd,
        ),
    )


def check_result(check_id: str, said: Permission) -> ex.ConnectRequest:
    """What a tool says."""
    result = ex.PermissionCheckResult(
        check_id=check_id,
        verdict=VERDICTS.get(said.says, ex.PERMISSION_CHECK_VERDICT_ASK),
        reason_for_user=cut(said.reason, REASON_BYTES_MAX),
        reason_for_model=cut(said.message, REASON_BYTES_MAX),
    )
    return ex.ConnectRequest(permission_check_result=result)


def path_question(message: ex.ResolveFactsRequest) -> PathQuestion:
    """A question about paths."""
    return PathQuestion(message.arguments_json or b"{}", tuple(message.pointers), message.cwd)


def path_facts(request_id: str, facts: Sequence[PathFact]) -> ex.ConnectRequest:
    """What paths are."""
    result = ex.ResolveFactsResult(request_id=request_id)
    for fact in facts:
        item = result.facts.add(pointer=fact.pointer, value=fact.value, canonical=fact.canonical, error=fact.error)
        if fact.exists is not None:
            item.exists = fact.exists
    return ex.ConnectRequest(resolve_facts_result=result)


def _fact(message: pe.SubjectFact) -> PathFact:
    exists = message.exists if message.HasField("exists") else None
    return PathFact(message.pointer, message.value, message.canonical, exists, message.error)
