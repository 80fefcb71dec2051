"""The clients for code without an event loop: the same, thinly, on loops of their own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from .approval import Approval, ApprovalDecision, ApprovalRef, ApprovalUpdate, DecisionOutcome
from .approvals import Approvals
from .client import Client
from .permission import Grant, GrantCandidate, GrantState, Mode
from .registration import Registration
from .registry import ProviderFormat, ServerInfo, ToolList
from .result import CallResult
from .session import RevokedGrants, Session, SessionUpdate
from .sessions import Sessions
from .tool import Handler, Tool
from .turns import CallState, Run, ToolCall, Turn, TurnEvent, TurnInfo, TurnResult, TurnState

T = TypeVar("T")


class _Loop:
    """An event loop on a thread of its own, begun with first use. May be used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine and waits for it. An interrupt of the waiting thread cancels it."""
        future = asyncio.run_coroutine_threadsafe(work, self._running())
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise
        except BaseException:
            # An interrupt of this thread; what it waited for must not go on unseen.
            future.cancel()
            raise

    def iterate(self, items: AsyncIterator[T]) -> Iterator[T]:
        """Each item, as it comes."""
        while True:
            try:
                yield self.do(_next(items))
            except StopAsyncIteration:  # noqa: PERF203 - the end of the items
                return

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs `last` and ends the loop. Nothing to do if it was never used."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        self.do(last())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
        self._loop = self._thread = None

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="callgate-sync", daemon=True)
                self._thread.start()
            return self._loop


class SyncClient:
    """A `Client` whose methods block. May be used from any thread, and from several at once.

    Takes the arguments of `Client`. `client` is the one behind it: its `tool`, `hooks`,
    `services`, `state` and `registrations` need no loop and are used as they are.
    `async def` tools and hooks run on the private loop.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self.client = Client(*args, **options)
        self.tool = self.client.tool
        self.before_tool_call = self.client.before_tool_call
        self.after_tool_call = self.client.after_tool_call
        self.services = self.client.services
        self._loop = _Loop()
        self._do = self._loop.do
        self.sessions = SyncSessions(self.client.sessions, self._loop)

    def start(self) -> None:
        """See `Client.start`."""
        self._do(self.client.start())

    def wait_ready(self, timeout: float | None = 30.0) -> None:
        """See `Client.wait_ready`."""
        self._do(self.client.wait_ready(timeout))

    def close(self, drain_timeout: float | None = None) -> None:
        """See `Client.aclose`."""
        self._loop.close(lambda: self.client.aclose(drain_timeout))

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
        return self._loop.iterate(self.client.run_turn(session_id, calls, **options).__aiter__())

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


class SyncSessions:
    """`Sessions` whose methods block. Taken from `SyncClient.sessions` or `SyncApprovals.sessions`."""

    def __init__(self, sessions: Sessions, loop: _Loop) -> None:
        self._sessions = sessions
        self._loop = loop

    def create(self, session_id: str = "", **settings: Any) -> Session:
        """See `Sessions.create`."""
        return self._loop.do(self._sessions.create(session_id, **settings))

    def get(self, session: Session | str) -> Session:
        """See `Sessions.get`."""
        return self._loop.do(self._sessions.get(session))

    def list(self, *, root_session_id: str = "", include_closed: bool = False) -> Iterator[Session]:
        """See `Sessions.list`."""
        items = self._sessions.list(root_session_id=root_session_id, include_closed=include_closed)
        return self._loop.iterate(items)

    def set_mode(self, session: Session | str, mode: Mode, *, etag: str = "") -> SessionUpdate:
        """See `Sessions.set_mode`."""
        return self._loop.do(self._sessions.set_mode(session, mode, etag=etag))

    def update(self, session: Session | str, *, etag: str = "", **settings: Any) -> SessionUpdate:
        """See `Sessions.update`."""
        return self._loop.do(self._sessions.update(session, etag=etag, **settings))

    def fork(
        self, parent: Session | str, session_id: str = "", *, inherit_grants: bool = False, **settings: Any
    ) -> Session:
        """See `Sessions.fork`."""
        return self._loop.do(self._sessions.fork(parent, session_id, inherit_grants=inherit_grants, **settings))

    def close(self, session: Session | str, *, reason: str = "") -> Session:
        """See `Sessions.close`."""
        return self._loop.do(self._sessions.close(session, reason=reason))

    def grants(self, session: Session | str, *, state: GrantState | None = None) -> Iterator[Grant]:
        """See `Sessions.grants`."""
        return self._loop.iterate(self._sessions.grants(session, state=state))

    def revoke(self, session: Session | str, grants: Sequence[Grant | str] | None) -> RevokedGrants:
        """See `Sessions.revoke`."""
        return self._loop.do(self._sessions.revoke(session, grants))


class SyncApprovals:
    """`Approvals` whose methods block. Takes its arguments; `approvals` is the one behind it."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.approvals = Approvals(*args, **options)
        self._loop = _Loop()
        self._do = self._loop.do
        self.sessions = SyncSessions(self.approvals.sessions, self._loop)

    def close(self) -> None:
        """See `Approvals.aclose`."""
        self._loop.close(self.approvals.aclose)

    def __enter__(self) -> SyncApprovals:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def list(self, **conditions: Any) -> Iterator[Approval]:
        """See `Approvals.list`."""
        return self._loop.iterate(self.approvals.list(**conditions))

    def get(self, approval_id: str) -> Approval:
        """See `Approvals.get`."""
        return self._do(self.approvals.get(approval_id))

    def watch(self, **conditions: Any) -> Iterator[ApprovalUpdate]:
        """See `Approvals.watch`. Ends with the loop that reads it."""
        watch = self.approvals.watch(**conditions)
        try:
            yield from self._loop.iterate(watch)
        finally:
            watch.close()

    def approve_once(self, approval: Approval | ApprovalRef, message: str = "") -> DecisionOutcome:
        """See `Approvals.approve_once`."""
        return self._do(self.approvals.approve_once(approval, message))

    def approve_session(
        self,
        approval: Approval | ApprovalRef,
        candidates: Sequence[GrantCandidate | str] = (),
        message: str = "",
    ) -> DecisionOutcome:
        """See `Approvals.approve_session`."""
        return self._do(self.approvals.approve_session(approval, candidates, message))

    def deny(self, approval: Approval | ApprovalRef, message: str = "") -> DecisionOutcome:
        """See `Approvals.deny`."""
        return self._do(self.approvals.deny(approval, message))

    def edit(
        self, approval: Approval | ApprovalRef, arguments: Mapping[str, Any] | str | bytes, message: str = ""
    ) -> DecisionOutcome:
        """See `Approvals.edit`."""
        return self._do(self.approvals.edit(approval, arguments, message))

    def respond(self, approval: Approval | ApprovalRef, result: Any, message: str = "") -> DecisionOutcome:
        """See `Approvals.respond`."""
        return self._do(self.approvals.respond(approval, result, message))

    def cancel_turn(self, approval: Approval | ApprovalRef, message: str = "") -> DecisionOutcome:
        """See `Approvals.cancel_turn`."""
        return self._do(self.approvals.cancel_turn(approval, message))

    def decide(self, decisions: Sequence[ApprovalDecision]) -> tuple[DecisionOutcome, ...]:
        """See `Approvals.decide`."""
        return self._do(self.approvals.decide(decisions))


async def _awaited(turn: Turn) -> TurnResult:
    return await turn


async def _next(items: AsyncIterator[T]) -> T:
    return await items.__anext__()
