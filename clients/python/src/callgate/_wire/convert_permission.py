"""Protobuf messages of modes, rules and grants to the SDK's types and back."""

from __future__ import annotations

from typing import Any, cast

from .. import permission as pm
from .._gen.callgate.v1 import permission_pb2 as pe
from .._gen.callgate.v1 import types_pb2 as ty
from .convert import by_number, enum_name

MODES: dict[pm.Mode, pe.Mode] = {
    "plan": pe.MODE_PLAN,
    "default": pe.MODE_DEFAULT,
    "accept_edits": pe.MODE_ACCEPT_EDITS,
    "auto": pe.MODE_AUTO,
}
_MODE_NAMES = by_number(MODES)
BATCH_POLICIES: dict[pm.BatchPolicy, ty.BatchPolicy] = {
    "freeze_atomic": ty.BATCH_POLICY_FREEZE_ATOMIC,
    "freeze_partial": ty.BATCH_POLICY_FREEZE_PARTIAL,
    "eager_safe": ty.BATCH_POLICY_EAGER_SAFE,
}
_BATCH_POLICY_NAMES = by_number(BATCH_POLICIES)
EFFECTS: dict[pm.PermissionEffect, ty.PermissionEffect] = {
    "allow": ty.PERMISSION_EFFECT_ALLOW,
    "ask": ty.PERMISSION_EFFECT_ASK,
    "deny": ty.PERMISSION_EFFECT_DENY,
}
_EFFECT_NAMES = by_number(EFFECTS)
GRANT_STATES: dict[pm.GrantState, pe.GrantState] = {
    "active": pe.GRANT_STATE_ACTIVE,
    "revoked": pe.GRANT_STATE_REVOKED,
    "void": pe.GRANT_STATE_VOID,
    "expired": pe.GRANT_STATE_EXPIRED,
}


def chosen(what: str, names: dict[Any, Any], value: object) -> Any:
    """The number of a name.

    Raises:
        ValueError: There is no such name.
    """
    if value not in names:
        raise ValueError(f"{what} must be one of {', '.join(names)}, not {value!r}")
    return names[value]


def mode(number: int) -> pm.Mode:
    """Unknown ones are the strictest."""
    return _MODE_NAMES.get(number, "plan")


def mode_number(value: pm.Mode | None) -> pe.Mode:
    """None: not set."""
    return pe.MODE_UNSPECIFIED if value is None else chosen("mode", MODES, value)


def batch_policy(number: int) -> pm.BatchPolicy | None:
    """None: not told. Unknown ones are the strictest."""
    if number == ty.BATCH_POLICY_UNSPECIFIED:
        return None
    return _BATCH_POLICY_NAMES.get(number, "freeze_atomic")


def batch_policy_number(value: pm.BatchPolicy | None) -> ty.BatchPolicy:
    """None: not set."""
    return ty.BATCH_POLICY_UNSPECIFIED if value is None else chosen("batch_policy", BATCH_POLICIES, value)


def rule_spec(rule: pm.RuleSpec) -> pe.RuleSpec:
    """A rule as someone writes it."""
    message = pe.RuleSpec(
        effect=chosen("effect", EFFECTS, rule.effect),
        rule=rule.rule,
        matches=rule.matches,
        not_matches=rule.not_matches,
        message=rule.message,
        modes=[chosen("modes", MODES, item) for item in rule.modes],
    )
    if rule.expires_at_ms is not None:
        message.expires_at_ms = rule.expires_at_ms
    return message


def verdict(message: ty.PermissionVerdict) -> pm.PermissionVerdict:
    """Why a call may run, must be asked for or must not run."""
    return pm.PermissionVerdict(
        effect=None if message.effect == 0 else _EFFECT_NAMES.get(message.effect, "deny"),
        stage=enum_name(ty.DecisionStage, message.stage, "DECISION_STAGE_", str(message.stage)),
        rule=message.rule,
        source=enum_name(ty.RuleSource, message.source, "RULE_SOURCE_", str(message.source)),
        origin=message.origin,
        segment=message.segment,
        segment_index=message.segment_index if message.HasField("segment_index") else None,
        message=message.message,
        policy_revision=message.policy_revision,
        hook_id=message.hook_id,
    )


def grant_kind(number: int) -> pm.GrantKind:
    """What kind of permission a grant gives."""
    return cast(pm.GrantKind, enum_name(pe.GrantKind, number, "GRANT_KIND_", "unknown") or "unknown")


def candidate(message: pe.GrantCandidate) -> pm.GrantCandidate:
    """What approving for the session would store."""
    return pm.GrantCandidate(
        candidate_id=message.candidate_id,
        kind=grant_kind(message.kind),
        rule=message.rule,
        summary=message.summary,
        segment=message.segment,
        segment_index=message.segment_index if message.HasField("segment_index") else None,
        also_covers=message.also_covers,
    )


def grant(message: pe.Grant) -> pm.Grant:
    """A permission that was given for a session."""
    return pm.Grant(
        grant_id=message.grant_id,
        session_id=message.session_id,
        kind=grant_kind(message.kind),
        rule=message.rule,
        tool=message.tool,
        owner=message.owner,
        tool_digest=message.tool_digest,
        approval_id=message.approval_id,
        granted_by=message.granted_by,
        granted_at_ms=message.granted_at_ms,
        expires_at_ms=message.expires_at_ms if message.HasField("expires_at_ms") else None,
        uses=message.uses,
        state=cast(pm.GrantState, enum_name(pe.GrantState, message.state, "GRANT_STATE_", "unknown") or "unknown"),
        revoked_by=message.revoked_by,
        ended_at_ms=message.ended_at_ms if message.HasField("ended_at_ms") else None,
    )
