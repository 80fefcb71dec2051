"""Sessions as the sidecar keeps them: settings, and what a change of them did.

Plain data. Knows neither protobuf nor sockets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .permission import BatchPolicy, Grant, Mode

ApproverAvailability = Literal["expected", "connected", "none"]


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """What can be set about a session. What is None stays as it is, or gets the configured default.

    Attributes:
        mode: How much runs unasked.
        batch_policy: For turns that name none.
        max_parallel: Most calls of a turn that execute at once.
        toolset: For turns that name none. Empty: the whole registry.
        cwd: Working directory of its tools, for relative paths in rules.
        approvers: Whether somebody can be asked: "expected" now or later,
            "connected" only while an approver watches, "none" nobody.
        approval_ttl: Seconds after which an approval expires. 0: never.
    """

    mode: Mode | None = None
    batch_policy: BatchPolicy | None = None
    max_parallel: int | None = None
    toolset: str | None = None
    cwd: str | None = None
    approvers: ApproverAvailability | None = None
    approval_ttl: float | None = None


@dataclass(frozen=True, slots=True)
class Session:
    """One conversation.

    Attributes:
        parent_session_id: What it was forked from. Empty: nothing.
        root_session_id: The first of its line; its own id if it has no parent.
        settings: All of them, as they hold.
        max_mode: The freest mode that it may have.
        closed_at_ms: None: it is open.
        pending_approvals: Those that wait, child sessions included.
        etag: Changes with every change.
    """

    session_id: str
    parent_session_id: str
    root_session_id: str
    depth: int
    settings: SessionSettings
    max_mode: Mode
    created_at_ms: int
    used_at_ms: int
    closed_at_ms: int | None
    pending_approvals: int
    etag: str

    @property
    def mode(self) -> Mode:
        """How much runs unasked."""
        # A session as the sidecar shows it has all settings; without a mode it would be the strictest.
        return self.settings.mode or "plan"

    @property
    def open(self) -> bool:
        """Whether it takes turns."""
        return self.closed_at_ms is None


@dataclass(frozen=True, slots=True)
class SessionUpdate:
    """A changed session, and how many calls that waited may run now or are denied now."""

    session: Session
    released: int
    denied: int


@dataclass(frozen=True, slots=True)
class RevokedGrants:
    """The grants that were meant, as they are now, and the session's mode.

    Revoking an "accept_edits" grant restores the mode before it.
    """

    grants: tuple[Grant, ...]
    mode: Mode
