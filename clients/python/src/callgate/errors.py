"""What can go wrong, as exceptions that a program can act on.

Two families that never mix: `CallgateError` is raised *to* the program that uses
the SDK, `ToolError` and `ToolCancelled` are raised *by* the handlers of tools.
A failing tool is a result (`CallResult.error`), not an exception, unless
`CallResult.raise_for_error` is asked to make one of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .approval import Approval


@dataclass(frozen=True, slots=True)
class FieldViolation:
    """One wrong field of a request.

    `field` is a path from the request, e.g. `calls[1].call_id`.
    """

    field: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class LimitViolation:
    """One limit that was passed; `actual` is 0 where it was not measured."""

    name: str
    allowed: int
    actual: int


class CallgateError(Exception):
    """The root of everything that the SDK raises.

    `code` is stable and never renamed; the text is for people.
    `retry_after` is in seconds and None where the sidecar gave no advice.
    """

    code = "internal"

    def __init__(
        self,
        message: str,
        *,
        code: str | None = None,
        violations: tuple[FieldViolation, ...] = (),
        limit: LimitViolation | None = None,
        retry_after: float | None = None,
        resource_kind: str = "",
        resource_id: str = "",
    ) -> None:
        super().__init__(message)
        if code:
            self.code = code
        self.message = message
        self.violations = violations
        self.limit = limit
        self.retry_after = retry_after
        self.resource_kind = resource_kind
        self.resource_id = resource_id

    def __str__(self) -> str:
        return f"{self.message} [{self.code}]"


class ConnectionLost(CallgateError):
    """The sidecar cannot be reached, or went away and did not come back in time.

    Says nothing about a turn that ran: take it up with `Client.attach_turn`.
    """

    code = "connection_lost"


class Unauthenticated(CallgateError):
    """There is no credential, or the sidecar does not know it."""

    code = "credential_invalid"


class PermissionDenied(CallgateError):
    """The credential, a rule or a person said no."""

    code = "role_missing"


class InvalidRequest(CallgateError):
    """A request is wrong; see `violations`."""

    code = "invalid_request"


class InvalidArguments(InvalidRequest):
    """The arguments of a call do not parse or do not fit the tool's schema."""

    code = "tool_argument_invalid"


class NotFound(CallgateError):
    """There is no such thing, or it is not the caller's to see."""

    code = "not_found"


class ToolNotFound(NotFound):
    """There is no such tool."""

    code = "tool_not_found"


class Conflict(CallgateError):
    """The state does not allow it: an id used twice, an ended run, a busy run."""

    code = "call_conflict"


class RunNotActive(Conflict):
    """The run has ended and takes no more turns."""

    code = "run_not_active"


class DecisionConflict(Conflict):
    """A decision came too late: decided otherwise before, or no longer pending.

    `approval` is the approval now; `approval.decision` is the winner, and None if it
    ended without one. None if the sidecar did not say.
    """

    code = "approval_already_decided"
    approval: Approval | None = None


class DecisionRefused(CallgateError):
    """A decision was not taken, and nothing changed: it is not allowed, or meant something else.

    `code` says which, e.g. `approval_not_found`, `approval_digest_mismatch`,
    `etag_mismatch`, `approval_choice_not_allowed`, `approval_edit_invalid`.
    `approval` is the approval now, None if there is none.
    """

    code = "decision_refused"
    approval: Approval | None = None


class Suspended(CallgateError):
    """A turn with `on_suspend="end"` has no result yet: it waits for people.

    The turn goes on. Take it up with `Client.attach_turn` once `approval_ids` are decided.
    """

    code = "turn_suspended"

    def __init__(self, message: str, *, turn_id: str = "", approval_ids: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.turn_id = turn_id
        self.approval_ids = approval_ids


class LimitExceeded(CallgateError):
    """Beyond a limit, or the sidecar sheds load; see `limit` and `retry_after`."""

    code = "limit_exceeded"


class Unavailable(CallgateError):
    """The sidecar is there and cannot do it now: draining, or its store is down."""

    code = "unavailable"


class DeadlineExceeded(CallgateError):
    """Something took too long."""

    code = "deadline_exceeded"


class Cancelled(CallgateError):
    """A call, turn or run was cancelled. Not `asyncio.CancelledError`: nobody cancelled *this* code."""

    code = "cancelled"


class ProtocolError(CallgateError):
    """The two sides do not understand each other: versions, or a broken peer."""

    code = "protocol_violation"


class Superseded(CallgateError):
    """Another process connected as the same instance. This one stays away."""

    code = "superseded"


class CallFailed(CallgateError):
    """A call ended with an error that no other class stands for, e.g. the tool's own."""

    code = "tool_execution_failed"


class RegistrationRefused(CallgateError):
    """The sidecar refused one or more tools; `refused` has a registration for each."""

    code = "registration_refused"

    def __init__(self, message: str, *, refused: tuple[object, ...] = (), code: str | None = None) -> None:
        super().__init__(message, code=code)
        self.refused = refused


class ToolDefinitionError(CallgateError, ValueError):
    """A tool cannot be made of this function or schema. Raised where the tool is defined."""

    code = "tool_definition_invalid"


class ClientForked(CallgateError):
    """The client was started in the parent of this process and cannot be used here.

    Threads and connections do not survive a fork. Make the client after the
    fork, e.g. in the worker hook of a pre-fork server.
    """

    code = "client_forked"


class ClientClosed(CallgateError):
    """The client has been closed."""

    code = "client_closed"


class MoreTimeRefused(CallgateError):
    """A hook cannot have more time for its answer.

    By `code`: `need_more_time_twice`, it has asked for this answer before;
    `invocation_unknown`, nobody waits for its answer, or not any more.
    """

    code = "invocation_unknown"


class ToolError(Exception):
    """Raised by a handler to answer with an error of its own domain.

    Args:
        code: Stable, `[a-z][a-z0-9_]{0,63}`. A code of the sidecar's own, or one
            of another form, arrives as `tool_execution_failed`.
        message: What the model reads. At most 4 KiB, then cut.
        retryable: The same call may succeed later.
        detail: For operators only, never shown to the model.
        retry_after: With `retryable`: not before this many seconds.
        path: Where in the arguments, from `$`.
        stop: End the loop after this turn all the same.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        retryable: bool = False,
        detail: str = "",
        retry_after: float | None = None,
        path: str = "",
        stop: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.retryable = retryable
        self.detail = detail
        self.retry_after = retry_after
        self.path = path
        self.stop = stop


class ToolCancelled(Exception):
    """The handler stopped because it was told to. `ToolContext.check_cancelled` raises it.

    A handler that knows whether it had acted says so with `effect`:
    "not_executed", "executed" or "unknown". Raised without a cancellation having
    been asked for, it is an ordinary failure.
    """

    def __init__(self, message: str = "", *, effect: str = "unknown") -> None:
        super().__init__(message)
        if effect not in {"not_executed", "executed", "unknown"}:
            raise ValueError(f"effect must be not_executed, executed or unknown, not {effect!r}")
        self.message = message
        self.effect = effect


def for_call(code: str, message: str) -> CallgateError:
    """The exception that stands for the error of one call."""
    if code == "tool_not_found":
        return ToolNotFound(message, code=code)
    if code.startswith(("json_", "tool_argument_")) or code == "arguments_rejected":
        return InvalidArguments(message, code=code)
    if code.startswith(("approval_", "tool_denied_")) or code == "tool_batch_rejected":
        return PermissionDenied(message, code=code)
    if code == "tool_cancelled":
        return Cancelled(message, code=code)
    if code == "tool_timeout":
        return DeadlineExceeded(message, code=code)
    if code == "limit_exceeded":
        return LimitExceeded(message, code=code)
    if code in {"tool_unavailable", "store_unavailable"}:
        return Unavailable(message, code=code)
    return CallFailed(message, code=code)
