"""What a handler may know about its call besides the arguments.

Handed over explicitly: there is no ambient current call. Holds no credentials,
and nothing in it changes the session.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal, Protocol, runtime_checkable

from .errors import ToolCancelled

OutputChannel = Literal["text", "stdout", "stderr", "data"]


@runtime_checkable
class ToolService(Protocol):
    """Something of the process that handlers may share, e.g. a database pool."""

    @property
    def service_id(self) -> str:
        """Names the service in `services=[…]` of a tool."""
        ...


class ToolServiceRegistry:
    """The services of a process. May be used from any thread."""

    def __init__(self) -> None:
        self._services: dict[str, ToolService] = {}
        self._lock = threading.Lock()

    def register(self, service: ToolService) -> bool:
        """Adds a service. Returns False, and changes nothing, if its id is taken."""
        with self._lock:
            if service.service_id in self._services:
                return False
            self._services[service.service_id] = service
            return True

    def get(self, service_id: str) -> Any | None:
        """The service of that id, or None."""
        with self._lock:
            return self._services.get(service_id)

    def allowing(self, ids: tuple[str, ...]) -> AllowedServices:
        """A view that shows only these ids."""
        return AllowedServices(self, ids)


class AllowedServices:
    """The services that one call may use; every other id reads as absent."""

    __slots__ = ("_allowed", "_registry")

    def __init__(self, registry: ToolServiceRegistry, ids: tuple[str, ...]) -> None:
        self._registry = registry
        self._allowed = frozenset(ids)

    def get(self, service_id: str) -> Any | None:
        """The service of that id; None if the call may not use it or nobody registered it."""
        return self._registry.get(service_id) if service_id in self._allowed else None

    def __contains__(self, service_id: object) -> bool:
        return isinstance(service_id, str) and self.get(service_id) is not None

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._allowed))


def _frozen(value: Any) -> Any:
    """A copy of a JSON value that cannot be changed."""
    if isinstance(value, dict):
        return MappingProxyType({key: _frozen(item) for key, item in value.items()})
    if isinstance(value, list):
        return tuple(_frozen(item) for item in value)
    return value


@dataclass(frozen=True, slots=True)
class SessionState:
    """A read-only copy of the session's state.

    `metadata` is as the orchestrator set it: mappings and tuples all the way
    down. `schema_version` is its form, counted by the orchestrator; 0: not used.
    """

    schema_version: int = 0
    session_id: str = ""
    metadata: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @classmethod
    def from_json(cls, schema_version: int, session_id: str, metadata_json: bytes) -> SessionState:
        """Reads the metadata; text that is no object reads as empty."""
        try:
            parsed = json.loads(metadata_json) if metadata_json else {}
        except ValueError:
            parsed = {}
        return cls(schema_version, session_id, _frozen(parsed if isinstance(parsed, dict) else {}))


class Cancellation:
    """Whether a call has been told to stop, and why. May be read from any thread."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._reason: str | None = None
        self._message = ""

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop."""
        return self._event.is_set()

    @property
    def reason(self) -> str | None:
        """`call_cancelled`, `turn_cancelled`, `run_ended`, `deadline` or `shutdown`; None: go on."""
        return self._reason

    @property
    def message(self) -> str:
        """What the one who cancelled said. Empty: nothing."""
        return self._message

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks the thread until cancelled, at most `timeout` seconds. For `def` tools.

        Use it in place of `time.sleep`: it returns True at once when cancelled.
        """
        return self._event.wait(timeout)

    def request(self, reason: str, message: str = "") -> bool:
        """Records the first request; later ones change nothing and return False."""
        if self._event.is_set():
            return False
        self._reason, self._message = reason, message
        self._event.set()
        return True


class Reporter(Protocol):
    """Where progress and output of one execution go. Methods never block."""

    def progress(self, message: str, fraction: float | None, details: bytes) -> None:
        """Keeps the newest report."""
        ...

    def output(self, data: bytes, channel: OutputChannel) -> int:
        """Takes what credit allows and returns how many bytes that were."""
        ...


class ToolContext:
    """One call as its handler sees it.

    A parameter annotated with this class is filled in and is not part of the
    schema. All methods may be called from any thread and never block.
    """

    __slots__ = (
        "_deadline",
        "_reporter",
        "attempt",
        "batch_call_id",
        "call_id",
        "cancellation",
        "cwd",
        "execution_id",
        "run_id",
        "services",
        "session_id",
        "state",
        "traceparent",
        "turn_id",
    )

    def __init__(
        self,
        *,
        session_id: str,
        state: SessionState,
        batch_call_id: str,
        cancellation: Cancellation,
        services: AllowedServices,
        call_id: str,
        reporter: Reporter,
        run_id: str = "",
        turn_id: str = "",
        cwd: str = "",
        execution_id: str = "",
        attempt: int = 1,
        traceparent: str = "",
        timeout: float | None = None,
    ) -> None:
        self.session_id = session_id
        self.state = state
        self.batch_call_id = batch_call_id
        self.cancellation = cancellation
        self.services = services
        self.call_id = call_id
        self.run_id = run_id
        self.turn_id = turn_id
        self.cwd = cwd
        # The same for all attempts of a call: an idempotency key.
        self.execution_id = execution_id
        self.attempt = attempt
        self.traceparent = traceparent
        self._reporter = reporter
        self._deadline = None if timeout is None else time.monotonic() + timeout

    @property
    def cancelled(self) -> bool:
        """Whether the handler should stop. Poll it in long work."""
        return self.cancellation.cancelled

    def check_cancelled(self) -> None:
        """Raises `ToolCancelled` if the handler should stop.

        Anything else that the handler answers after a cancellation is its real
        result: it won the race.
        """
        if self.cancellation.cancelled:
            raise ToolCancelled(self.cancellation.message)

    def time_remaining(self) -> float | None:
        """Seconds until the call times out, never below 0; None: no limit.

        Advice by the local clock. The sidecar enforces the limit.
        """
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def progress(self, message: str = "", fraction: float | None = None, details: Any = None) -> None:
        """Reports how far the work is.

        Args:
            message: For people. At most 1 KiB, then cut.
            fraction: Done part, 0 to 1; beyond is moved to the nearer end.
            details: Any JSON value. Dropped beyond 16 KiB.

        About 10 a second are passed on; of more, the newest wins.
        """
        if fraction is not None:
            fraction = min(1.0, max(0.0, float(fraction)))
        encoded = b"" if details is None else json.dumps(details, allow_nan=False).encode()
        self._reporter.progress(message, fraction, encoded)

    def output(self, data: str | bytes, channel: OutputChannel = "text") -> int:
        """Prints something that is worth seeing while the call runs.

        Sent as far as readers have given credit; the rest is dropped and counted.
        Returns how many bytes were taken. Output is no part of the result.
        """
        raw = data.encode("utf-8", "replace") if isinstance(data, str) else data
        return self._reporter.output(raw, channel)


class SilentReporter:
    """Keeps nothing. For calls without a sidecar."""

    def progress(self, message: str, fraction: float | None, details: bytes) -> None:
        """Does nothing."""

    def output(self, data: bytes, channel: OutputChannel) -> int:
        """Takes nothing."""
        return 0


# Told to a handler that runs when the cancellation arrives, from the wire's thread.
OnCancel = Callable[[], None]
