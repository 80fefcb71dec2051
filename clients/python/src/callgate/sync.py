"""The client for code without an event loop: the same, thinly, on a loop of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Coroutine, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar

from .client import Client
from .registration import Registration
from .registry import ProviderFormat, ServerInfo, ToolList
from .result import CallResult
from .tool import Handler, Tool
from .turns import CallState, Run, ToolCall, Turn, TurnEvent, TurnInfo, TurnResult, TurnState

T = TypeVar("T")


class SyncClient:
    """A `Client` whose methods block. May be used from any thread, and from several at once.

    Takes the arguments of `Client`. `client` is the one behind it: its `tool`,
    `services`, `state` and `registrations` need no loop and are used as they are.
    `async def` tools run on the private loop.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self.client = Client(*args, **options)
        self.tool = self.client.tool
        self.services = self.client.services
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """See `Client.start`."""
        self._do(self.client.start())

    def wait_ready(self, timeout: float | None = 30.0) -> None:
        """See `Client.wait_ready`."""
        self._do(self.client.wait_ready(timeout))

    def close(self, drain_timeout: float | None = None) -> None:
        """See `Client.aclose`."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self._do(self.client.aclose(drain_timeout))
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        self._loop = self._thread = None

    def __enter__(self) -> SyncClient:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run_turn(self, session_id: str, calls: Sequence[ToolCall] = (), **options: Any) -> TurnResult:
        """Runs a turn to its end. Options as in `Client.run_turn`.

        A KeyboardInterrupt while it waits cancels the turn.
        """
        return self._do(_awaited(self.client.run_turn(session_id, calls, **options)))

    def iter_turn(self, session_id: str, calls: Sequence[ToolCall] = (), **options: Any) -> Iterator[TurnEvent]:
        """Runs a turn and yields its events; the last is `TurnCompleted`."""
        events = self.client.run_turn(session_id, calls, **options).__aiter__()
        while True:
            try:
                yield self._do(_next(events))
            except StopAsyncIteration:  # noqa: PERF203 - the end of the events
                return

    def update_tools(self, add: Sequence[Tool | Handler] = (), remove: Sequence[str] = ()) -> tuple[Registration, ...]:
        """See `Client.update_tools`."""
        return self._do(self.client.update_tools(add, remove))

    def cancel_turn(self, turn_id: str, **options: Any) -> TurnState | None:
        """See `Client.cancel_turn`."""
        return self._do(self.client.cancel_turn(turn_id, **options))

    def cancel_call(self, turn_id: str, call_id: str, **options: Any) -> CallState:
        """See `Client.cancel_call`."""
        return self._do(self.client.cancel_call(turn_id, call_id, **options))

    def get_turn(self, turn_id: str, **options: Any) -> TurnInfo:
        """See `Client.get_turn`."""
        return self._do(self.client.get_turn(turn_id, **options))

    def list_turns(self, **options: Any) -> tuple[tuple[TurnInfo, ...], str]:
        """See `Client.list_turns`."""
        return self._do(self.client.list_turns(**options))

    def get_call_result(self, turn_id: str, call_id: str, **options: Any) -> CallResult:
        """See `Client.get_call_result`."""
        return self._do(self.client.get_call_result(turn_id, call_id, **options))

    def end_run(self, session_id: str, run_id: str = "") -> Run:
        """See `Client.end_run`."""
        return self._do(self.client.end_run(session_id, run_id))

    def cancel_run(self, session_id: str, run_id: str = "", **options: Any) -> Run:
        """See `Client.cancel_run`."""
        return self._do(self.client.cancel_run(session_id, run_id, **options))

    def list_tools(self, *, toolset: str = "", format: ProviderFormat | None = None) -> ToolList:  # noqa: A002
        """See `Client.list_tools`."""
        return self._do(self.client.list_tools(toolset=toolset, format=format))

    def health(self, service: str = "readiness") -> str:
        """See `Client.health`."""
        return self._do(self.client.health(service))

    def server_info(self) -> ServerInfo:
        """See `Client.server_info`."""
        return self._do(self.client.server_info())

    def _do(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._running_loop())
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise
        except BaseException:
            # An interrupt of this thread; what it waited for must not go on unseen.
            future.cancel()
            raise

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="callgate-sync", daemon=True)
                self._thread.start()
            return self._loop


async def _awaited(turn: Turn) -> TurnResult:
    return await turn


async def _next(events: Any) -> TurnEvent:
    return await events.__anext__()
