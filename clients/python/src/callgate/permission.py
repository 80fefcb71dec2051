"""What decides whether a call runs: modes, rules, grants, and the verdict that they come to.

Plain data. Knows neither protobuf nor sockets, and decides nothing: the sidecar does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Mode = Literal["plan", "default", "accept_edits", "auto"]
BatchPolicy = Literal["freeze_atomic", "freeze_partial", "eager_safe"]
PermissionEffect = Literal["allow", "ask", "deny"]
RuleSource = Literal[
    "policy_settings",
    "user_settings",
    "project_settings",
    "local_settings",
    "flag_settings",
    "cli_arg",
    "command",
    "session",
]
DecisionStage = Literal[
    "validation",
    "deny_rule",
    "safety_floor",
    "hook",
    "ask_rule",
    "mode_block",
    "tool_check",
    "allow_rule",
    "grant",
    "skip_permission",
    "mode_default",
    "no_approver",
]
# "unknown" is one that is newer than this SDK: such a grant gives nothing and does not count.
GrantKind = Literal["tool", "command_prefix", "command_exact", "accept_edits", "unknown"]
GrantState = Literal["active", "revoked", "void", "expired", "unknown"]


@dataclass(frozen=True, slots=True)
class RuleSpec:
    """A rule as someone writes it.

    Attributes:
        effect: What it says of a call that it matches.
        rule: `Tool` or `Tool(spec)`, e.g. `run_shell(git status*)`.
        matches: Examples that must match, tried before the rule counts.
        not_matches: Examples that must not.
        message: Shown with every verdict of this rule; for "deny" the model reads it too.
        expires_at_ms: Unix time. None: never.
        modes: Modes in which it counts. Empty: all.
    """

    effect: PermissionEffect
    rule: str
    matches: tuple[str, ...] = ()
    not_matches: tuple[str, ...] = ()
    message: str = ""
    expires_at_ms: int | None = None
    modes: tuple[Mode, ...] = ()


@dataclass(frozen=True, slots=True)
class PermissionVerdict:
    """Why a call may run, must be asked for or must not run.

    `stage` and `source` are a number as text where the sidecar is newer than this
    SDK, and empty where there is none. `segment` is the part of a command that
    decided, `hook_id` the hook that did. `message` is for people and never text from the
    model.
    """

    effect: PermissionEffect | None
    stage: DecisionStage | str
    rule: str = ""
    source: RuleSource | str = ""
    origin: str = ""
    segment: str = ""
    segment_index: int | None = None
    message: str = ""
    policy_revision: int = 0
    hook_id: str = ""


@dataclass(frozen=True, slots=True)
class GrantCandidate:
    """What approving for the session would store, to be shown word for word.

    Candidates of one `segment_index` exclude each other, and each segment needs
    one. `also_covers` counts other pending approvals that it would cover as well.
    """

    candidate_id: str
    kind: GrantKind
    rule: str
    summary: str
    segment: str = ""
    segment_index: int | None = None
    also_covers: int = 0


@dataclass(frozen=True, slots=True)
class Grant:
    """A permission that an approver gave for a session. `ended_at_ms` is None while it counts."""

    grant_id: str
    session_id: str
    kind: GrantKind
    rule: str
    tool: str
    owner: str
    tool_digest: bytes
    approval_id: str
    granted_by: str
    granted_at_ms: int
    expires_at_ms: int | None
    uses: int
    state: GrantState
    revoked_by: str = ""
    ended_at_ms: int | None = None

    @property
    def active(self) -> bool:
        """Whether it counts."""
        return self.state == "active"
