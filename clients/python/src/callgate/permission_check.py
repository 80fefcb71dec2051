"""What a tool itself says of a call before it may run, and what it is told for that.

Plain data. Decides nothing: the sidecar weighs it against rules, the mode and people.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from .permission import Mode, RuleSource

PermissionSays = Literal["deny", "ask", "ask_firm", "allow", "passthrough"]


@dataclass(frozen=True, slots=True)
class Permission:
    """What a tool says of one call. Made by `deny`, `ask`, `ask_firm`, `allow` and `passthrough`.

    `reason` is shown to the approver as the tool's words, `message` is read by the
    model of a denied call; each is cut at 1 KiB.
    """

    says: PermissionSays
    reason: str = ""
    message: str = ""

    @classmethod
    def deny(cls, message: str = "") -> Permission:
        """Must not run, whoever would allow it. The model reads `message`."""
        return cls("deny", message=message)

    @classmethod
    def ask(cls, reason: str = "") -> Permission:
        """Somebody should be asked, unless a rule or a grant allows the call."""
        return cls("ask", reason)

    @classmethod
    def ask_firm(cls, reason: str = "") -> Permission:
        """Somebody must be asked, whatever allows the call."""
        return cls("ask_firm", reason)

    @classmethod
    def allow(cls) -> Permission:
        """May run unasked. Counts only if the sidecar trusts this executor, and never for a dangerous tool."""
        return cls("allow")

    @classmethod
    def passthrough(cls) -> Permission:
        """No opinion: rules and the mode decide."""
        return cls("passthrough")


@dataclass(frozen=True, slots=True)
class PathFact:
    """What a path in the arguments really is, as this process told the sidecar.

    Attributes:
        pointer: Where it stands in the arguments.
        value: The path found there.
        canonical: Absolute, links followed. Empty: it could not be told.
        exists: None: nobody looked.
        error: Why `canonical` is empty.
    """

    pointer: str
    value: str
    canonical: str
    exists: bool | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class PermissionContext:
    """What a permission check may know besides the arguments.

    `mode` is the session's. `matched_rule` is the allow rule or grant that matches so
    far and `matched_source` where it comes from, empty if none does. `facts` are as far
    as they are known. `cwd` is the session's working directory; empty: none was set.
    """

    tool_name: str
    call_id: str
    mode: Mode
    facts: tuple[PathFact, ...] = ()
    matched_rule: str = ""
    matched_source: RuleSource | str = ""
    session_id: str = ""
    run_id: str = ""
    turn_id: str = ""
    cwd: str = ""


PermissionCheck = Callable[[Mapping[str, Any], PermissionContext], "Permission | Awaitable[Permission]"]
