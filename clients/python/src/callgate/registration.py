"""What became of a tool when it was registered."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .result import ErrorInfo


class RegistrationState(Enum):
    """Whether a tool may be called."""

    ACTIVE = "active"
    REFUSED = "refused"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class ToolWarning:
    """Something dubious in a definition that was taken all the same."""

    code: str
    path: str
    message: str


@dataclass(frozen=True, slots=True)
class Registration:
    """The sidecar's answer about one tool. With REFUSED, `error` says why."""

    name: str
    state: RegistrationState
    error: ErrorInfo | None = None
    digest: bytes = b""
    generation: int = 0
    warnings: tuple[ToolWarning, ...] = ()

    @property
    def active(self) -> bool:
        """Whether the tool may be called."""
        return self.state is RegistrationState.ACTIVE
