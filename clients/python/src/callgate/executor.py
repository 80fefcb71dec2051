"""Runs what the sidecar dispatches, and remembers it until the sidecar has the result.

Everything here except `Execution`'s reporter and the handlers themselves happens
on the wire's loop, so nothing is locked and no handler can hold it up. Knows
neither protobuf nor sockets: what has to be said goes to a `Link`.

An execution moves QUEUED → RUNNING → FINISHED and is forgotten when the sidecar
acknowledges its result. It never moves back, and its handler begins at most once.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, Protocol

from .context import Cancellation, OutputChannel, SessionState, ToolContext, ToolServiceRegistry
from .errors import ToolCancelled, ToolError
from .result import Sealed, Stopped, from_exception, seal
from .tool import Tool

log = logging.getLogger("callgate")

Key = tuple[str, int]
Outcome = Sealed | Stopped
RejectReason = Literal["busy", "draining", "unknown_tool", "bad_arguments", "too_large"]

PROGRESS_INTERVAL = 0.1
QUEUE_MIN = 64
# What a hello can list; more could not be resumed.
IN_FLIGHT_MAX = 1_024
# What a handler that was told to stop gets beyond its grace before it counts as given up.
GIVE_UP_SECONDS = 2.0
GIVEN_UP_SHOWN_MAX = 16
LAG_CHECK_INTERVAL = 1.0
LAG_WARNING = 0.5


class ExecutionState(Enum):
    """How far an execution is."""

    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One attempt of one call, as the sidecar sent it. `ref` is the wire's and returned as it is."""

    key: Key
    ref: Any
    tool_name: str
    arguments_json: bytes
    tool_digest: bytes = b""
    call_id: str = ""
    session_id: str = ""
    run_id: str = ""
    turn_id: str = ""
    batch_call_id: str = ""
    state: SessionState = field(default_factory=SessionState)
    services: tuple[str, ...] = ()
    cwd: str = ""
    traceparent: str = ""
    timeout: float | None = None
    output_credit: int = 0


class Link(Protocol):
    """What the executor says. Called on the wire's loop; must not block."""

    def accepted(self, execution: Execution, *, queued: bool) -> None:
        """It is here."""
        ...

    def rejected(self, dispatch: Dispatch, reason: RejectReason, message: str) -> None:
        """It is not taken."""
        ...

    def abandoned(self, execution: Execution, message: str) -> None:
        """It is given back before it began."""
        ...

    def result(self, execution: Execution) -> None:
        """It has an outcome. Kept by the executor until acknowledged."""
        ...

    def cancel_ack(self, ref: Any, *, unknown: bool) -> None:
        """Its handler has been told."""
        ...

    def progress(self, execution: Execution, message: str, fraction: float | None, details: bytes) -> None:
        """It reports."""
        ...

    def output(self, execution: Execution, channel: OutputChannel, sequence: int, data: bytes, dropped: int) -> None:
        """It prints."""
        ...


class Execution:
    """One dispatched call, from its arrival until its result is acknowledged."""

    def __init__(self, dispatch: Dispatch, tool: Tool, host: Executor) -> None:
        self.dispatch = dispatch
        self.tool = tool
        self.state = ExecutionState.QUEUED
        self.outcome: Outcome | None = None
        self.cancellation = Cancellation()
        self.forgotten = False
        self.finish_number = 0
        self.task: asyncio.Task[Outcome] | None = None
        self.began = False
        # The stream that has carried the result, so that each carries it once. The link's own.
        self.sent_on: object | None = None
        self._host = host
        # Progress and output come from the handler's thread.
        self._lock = threading.Lock()
        self._credit = dispatch.output_credit
        self._dropped = 0
        self._sequence = 0
        self._chunks: deque[tuple[OutputChannel, bytes, int]] = deque()
        self._output_posted = False
        self._report: tuple[str, float | None, bytes] | None = None
        self._progress_posted = False
        self._progress_at = 0.0
        self._closed = False

    def context(self, services: ToolServiceRegistry) -> ToolContext:
        """What the handler gets."""
        sent = self.dispatch
        return ToolContext(
            session_id=sent.session_id,
            state=sent.state,
            batch_call_id=sent.batch_call_id,
            cancellation=self.cancellation,
            services=services.allowing(sent.services),
            call_id=sent.call_id,
            reporter=self,
            run_id=sent.run_id,
            turn_id=sent.turn_id,
            cwd=sent.cwd,
            execution_id=sent.key[0],
            attempt=sent.key[1],
            traceparent=sent.traceparent,
            timeout=sent.timeout,
        )

    # Called by the handler, from any thread.

    def progress(self, message: str, fraction: float | None, details: bytes) -> None:
        """Keeps the newest report; an older one that was not sent yet is replaced."""
        with self._lock:
            if self._closed:
                return
            self._report = (message, fraction, details)
            if self._progress_posted:
                return
            self._progress_posted = True
        self._host.post(self._send_progress)

    def output(self, data: bytes, channel: OutputChannel) -> int:
        """Takes what credit allows, so that what waits to be sent is bounded by credit."""
        with self._lock:
            taken = 0 if self._closed else min(self._credit, len(data))
            self._credit -= taken
            if taken:
                self._chunks.append((channel, data[:taken], self._dropped))
                self._dropped = 0
            self._dropped += len(data) - taken
            if not taken or self._output_posted:
                return taken
            self._output_posted = True
        self._host.post(self.flush_output)
        return taken

    # Called on the wire's loop.

    def add_credit(self, added: int, *, stop: bool) -> None:
        """More may be printed, or nobody listens any more."""
        with self._lock:
            self._credit = 0 if stop else self._credit + added

    def note_lost_output(self, count: int) -> None:
        """Output that was taken and went down with a stream."""
        with self._lock:
            self._dropped += count

    def flush_output(self) -> None:
        """Sends everything that was taken."""
        with self._lock:
            chunks, self._chunks = self._chunks, deque()
            self._output_posted = False
        for channel, data, dropped in chunks:
            for start in range(0, len(data), self._host.chunk_max):
                self._sequence += 1
                piece = data[start : start + self._host.chunk_max]
                self._host.link.output(self, channel, self._sequence, piece, dropped if start == 0 else 0)

    def _send_progress(self) -> None:
        wait = self._progress_at - time.monotonic()
        if wait > 0:
            self._host.later(wait, self._send_progress)
            return
        with self._lock:
            report, self._report = self._report, None
            self._progress_posted = False
            if report is None or self._closed:
                return
        self._progress_at = time.monotonic() + PROGRESS_INTERVAL
        self._host.link.progress(self, *report)

    def close_reports(self) -> None:
        """Nothing may follow a result."""
        self.flush_output()
        with self._lock:
            self._closed = True
            self._report = None


class Executor:
    """The executions of one process.

    Args:
        services: What handlers may be given.
        max_concurrency: Most handlers that run at once. The rest waits here,
            accepted, up to as many again and at least 64.
    """

    def __init__(self, services: ToolServiceRegistry, max_concurrency: int) -> None:
        self.services = services
        self.max_concurrency = max_concurrency
        self.chunk_max = 64 * 1024
        self.draining = False
        self.link: Link
        self._active: dict[str, tuple[Tool, bytes]] = {}
        self._executions: dict[Key, Execution] = {}
        self._queue: deque[Execution] = deque()
        self._running: set[Execution] = set()
        self._running_by_tool: Counter[str] = Counter()
        # Told to stop, and still in their slots: a thread cannot be taken from its handler.
        self._given_up: list[Execution] = []
        self._finished = 0
        self._wire: asyncio.AbstractEventLoop | None = None
        self._handlers: asyncio.AbstractEventLoop | None = None
        self._threads = DaemonPool()
        self._changed: set[asyncio.Future[None]] = set()

    # Life.

    def start(self, wire: asyncio.AbstractEventLoop, handlers: asyncio.AbstractEventLoop | None) -> None:
        """Names the loops: one that nothing may block, and one that runs `async def` handlers."""
        self._wire = wire
        self._handlers = handlers

    def post(self, action: Callable[..., None], *args: Any) -> None:
        """Runs something on the wire's loop. From any thread; dropped after the end."""
        if self._wire is not None:
            try:
                self._wire.call_soon_threadsafe(action, *args)
            except RuntimeError:
                log.debug("dropped a report: the client is closed")

    def later(self, seconds: float, action: Callable[[], None]) -> None:
        """Runs something on the wire's loop after a while."""
        if self._wire is not None:
            self._wire.call_later(seconds, action)

    # Tools.

    def activate(self, tool: Tool, digest: bytes) -> None:
        """The sidecar took the tool; calls of it come from now on."""
        self._active[tool.name] = (tool, digest)

    def deactivate(self, name: str) -> None:
        """The tool is gone. Executions of it go on."""
        self._active.pop(name, None)

    def keep_only(self, names: Iterable[str]) -> None:
        """Forgets tools that the sidecar does not have any more."""
        wanted = set(names)
        for name in self._active.keys() - wanted:
            del self._active[name]

    def find(self, name: str, digest: bytes) -> Tool | None:
        """The tool that the sidecar means, if it is still this definition."""
        tool, own = self._active.get(name, (None, b""))
        return None if own and digest and own != digest else tool

    def in_thread(self, action: Callable[..., None], *args: Any) -> None:
        """Runs something on a thread. The caller bounds how much runs at once."""
        self._threads.submit(action, *args)

    def in_loop(self, action: Callable[..., None], *args: Any) -> bool:
        """Runs something on the loop of `async def` handlers. False: there is none."""
        try:
            if self._handlers is None:
                return False
            self._handlers.call_soon_threadsafe(action, *args)
        except RuntimeError:
            return False
        return True

    # What the sidecar says.

    def execute(self, dispatch: Dispatch) -> None:
        """Takes a call, or says why not. The same one again never begins twice."""
        known = self._executions.get(dispatch.key)
        if known is not None:
            if known.state is ExecutionState.FINISHED:
                self.link.result(known)
            else:
                self.link.accepted(known, queued=known.state is ExecutionState.QUEUED)
            return
        if self.draining:
            self.link.rejected(dispatch, "draining", "the executor shuts down")
            return
        tool = self.find(dispatch.tool_name, dispatch.tool_digest)
        if tool is None:
            self.link.rejected(dispatch, "unknown_tool", "no such tool, or another definition of it")
            return
        execution = Execution(dispatch, tool, self)
        if self._can_start(execution) and len(self._executions) < IN_FLIGHT_MAX:
            self._executions[dispatch.key] = execution
            self.link.accepted(execution, queued=False)
            self._start(execution)
        elif len(self._queue) < max(QUEUE_MIN, self.max_concurrency) and len(self._executions) < IN_FLIGHT_MAX:
            self._executions[dispatch.key] = execution
            self._queue.append(execution)
            self.link.accepted(execution, queued=True)
        else:
            self.link.rejected(dispatch, "busy", "all slots and the queue are taken")

    def cancel(self, key: Key, ref: Any, reason: str, message: str, grace: float = 0.0) -> None:
        """Tells a handler to stop. Its one result follows, whatever it turns out to be."""
        execution = self._executions.get(key)
        self.link.cancel_ack(ref, unknown=execution is None)
        if execution is not None:
            self._request_stop(execution, reason, message, grace)

    def credit(self, key: Key, added: int, *, stop: bool) -> None:
        """More output may be sent, or none."""
        execution = self._executions.get(key)
        if execution is not None:
            execution.add_credit(added, stop=stop)

    def acknowledge(self, key: Key) -> None:
        """The sidecar is done with a result."""
        execution = self._executions.get(key)
        if execution is not None and execution.state is ExecutionState.FINISHED:
            self._drop(execution)

    def forget(self, key: Key) -> None:
        """The sidecar wants to hear nothing more of an execution."""
        execution = self._executions.get(key)
        if execution is None:
            return
        self._drop(execution)
        if execution.state is ExecutionState.QUEUED:
            self._queue.remove(execution)
        elif execution.state is ExecutionState.RUNNING:
            self._request_stop(execution, "call_cancelled", "the sidecar has given this execution up")

    def mute(self, execution_id: str) -> None:
        """Nobody takes progress or output of an execution any more. Its result is sent all the same."""
        for execution in self._executions.values():
            if execution.dispatch.key[0] == execution_id:
                execution.close_reports()

    def resize(self, max_concurrency: int) -> None:
        """Takes more or fewer at once from now on; what runs goes on."""
        self.max_concurrency = max_concurrency
        self._start_waiting()

    # What the client asks.

    def in_flight(self) -> list[Execution]:
        """Everything that runs or is held, in order of arrival."""
        return list(self._executions.values())

    def unacknowledged(self) -> list[Execution]:
        """Held results in the order in which they came about."""
        held = [item for item in self._executions.values() if item.state is ExecutionState.FINISHED]
        return sorted(held, key=lambda item: item.finish_number)

    def abandon_waiting(self, message: str) -> None:
        """Gives back everything whose handler has not begun."""
        while self._queue:
            execution = self._queue.popleft()
            self._drop(execution)
            self.link.abandoned(execution, message)

    def stop_all(self, reason: str, message: str) -> None:
        """Tells every handler to stop."""
        for execution in list(self._executions.values()):
            self._request_stop(execution, reason, message)

    async def wait_idle(self) -> None:
        """Returns when nothing runs and every result is acknowledged."""
        while self._executions:
            changed = asyncio.get_running_loop().create_future()
            self._changed.add(changed)
            try:
                await changed
            finally:
                self._changed.discard(changed)

    # Inside.

    def _can_start(self, execution: Execution) -> bool:
        tool = execution.tool
        return len(self._running) < self.max_concurrency and (
            tool.max_concurrency == 0 or self._running_by_tool[tool.name] < tool.max_concurrency
        )

    def _start_waiting(self) -> None:
        for execution in list(self._queue):
            if len(self._running) >= self.max_concurrency:
                return
            if self._can_start(execution):
                self._queue.remove(execution)
                self.link.accepted(execution, queued=False)
                self._start(execution)

    def _start(self, execution: Execution) -> None:
        execution.state = ExecutionState.RUNNING
        self._running.add(execution)
        self._running_by_tool[execution.tool.name] += 1
        context = execution.context(self.services)
        if execution.tool.is_async:
            try:
                if self._handlers is None:
                    raise RuntimeError("there is no event loop for `async def` tools")
                self._handlers.call_soon_threadsafe(self._begin_async, execution, context)
            except RuntimeError as error:
                self._finish(execution, seal(from_exception(error)))
        else:
            self._threads.submit(self._run_sync, execution, context)

    def _begin_async(self, execution: Execution, context: ToolContext) -> None:
        """On the handlers' loop."""
        task = asyncio.get_running_loop().create_task(self._run_async(execution, context))
        execution.task = task
        task.add_done_callback(lambda done: self.post(self._finish, execution, _outcome_of(execution, done)))

    async def _run_async(self, execution: Execution, context: ToolContext) -> Outcome:
        execution.began = True
        try:
            return seal(await execution.tool.run_async(execution.dispatch.arguments_json, context))
        except (asyncio.CancelledError, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a SystemExit would end the user's event loop
            return _outcome_of_error(execution, error)

    def _run_sync(self, execution: Execution, context: ToolContext) -> None:
        """On a thread of the pool."""
        execution.began = True
        try:
            outcome: Outcome = seal(execution.tool.run_sync(execution.dispatch.arguments_json, context))
        except BaseException as error:  # noqa: BLE001 - a handler's SystemExit is its failure, not ours
            outcome = _outcome_of_error(execution, error)
        self.post(self._finish, execution, outcome)

    def _request_stop(self, execution: Execution, reason: str, message: str, grace: float = 0.0) -> None:
        if execution.state is ExecutionState.FINISHED or not execution.cancellation.request(reason, message):
            return
        if execution.state is ExecutionState.QUEUED:
            if execution in self._queue:
                self._queue.remove(execution)
            self._settle(execution, Stopped("not_executed", "cancelled before it began"))
            return
        self.later(grace + GIVE_UP_SECONDS, lambda: self._give_up(execution))
        if execution.tool.is_async and self._handlers is not None:
            try:
                # Behind _begin_async in the same queue, so the task exists by then.
                self._handlers.call_soon_threadsafe(_cancel_task, execution, reason)
            except RuntimeError:
                log.debug("the event loop of the handlers is closed")

    def _give_up(self, execution: Execution) -> None:
        """Says that a slot is lost until its handler returns, which may be never."""
        if execution not in self._running:
            return
        self._given_up.append(execution)
        held = self._held()
        if len(self._given_up) < self.max_concurrency:
            log.warning("%s", held)
        else:
            log.error("%s; no call can run until one of them returns or the process is started anew", held)

    def _held(self) -> str:
        names = [execution.tool.name for execution in self._given_up[:GIVEN_UP_SHOWN_MAX]]
        count = len(self._given_up)
        what = f": {', '.join(names)}{', ...' if count > len(names) else ''}" if names else ""
        return f"{count} of {self.max_concurrency} slots are held by handlers that were given up{what}"

    def _finish(self, execution: Execution, outcome: Outcome) -> None:
        self._running.discard(execution)
        if execution in self._given_up:
            self._given_up.remove(execution)
            log.info("tool `%s` has returned after it was given up; %s", execution.tool.name, self._held())
        self._running_by_tool[execution.tool.name] -= 1
        self._settle(execution, outcome)
        self._start_waiting()

    def _settle(self, execution: Execution, outcome: Outcome) -> None:
        """The one place where an execution gets its outcome."""
        execution.close_reports()
        self._finished += 1
        execution.finish_number = self._finished
        execution.outcome = outcome
        execution.state = ExecutionState.FINISHED
        if not execution.forgotten:
            self.link.result(execution)

    def _drop(self, execution: Execution) -> None:
        execution.forgotten = True
        self._executions.pop(execution.dispatch.key, None)
        if not self._executions:
            for changed in self._changed:
                if not changed.done():
                    changed.set_result(None)

    async def watch_lag(self) -> None:
        """Warns when the handlers' loop does not get a turn: a handler blocks it.

        Only other `async def` handlers suffer; the stream lives on the wire's loop.
        Without such tools the loop is the program's own, and none of our business.
        """
        warned = False
        while self._handlers is not None:
            await asyncio.sleep(LAG_CHECK_INTERVAL)
            answered = threading.Event()
            sent = time.monotonic()
            try:
                self._handlers.call_soon_threadsafe(answered.set)
            except RuntimeError:
                return
            await asyncio.sleep(LAG_WARNING)
            if answered.is_set():
                warned = False
            elif not warned and self._has_async():
                warned = True
                log.warning(
                    "an `async def` tool has blocked the event loop for %.1f s; "
                    "make it a `def` tool, or await something",
                    time.monotonic() - sent,
                )

    def _has_async(self) -> bool:
        """Whether an `async def` tool can be called, or runs on after its removal."""
        callable_now = (tool for tool, _ in self._active.values())
        return any(tool.is_async for tool in (*callable_now, *(item.tool for item in self._running)))


def _cancel_task(execution: Execution, reason: str) -> None:
    if execution.task is not None:
        execution.task.cancel(reason)


def _outcome_of(execution: Execution, task: asyncio.Task[Outcome]) -> Outcome:
    if task.cancelled():
        return _outcome_of_error(execution, asyncio.CancelledError())
    error = task.exception()
    return task.result() if error is None else _outcome_of_error(execution, error)


def _outcome_of_error(execution: Execution, error: BaseException) -> Outcome:
    """A stop counts as one only if it was asked for; else it is the handler's failure."""
    if execution.cancellation.cancelled:
        if isinstance(error, ToolCancelled):
            return Stopped(error.effect, error.message)  # type: ignore[arg-type]
        if isinstance(error, asyncio.CancelledError):
            return Stopped("unknown" if execution.began else "not_executed", "the handler was cancelled")
    if isinstance(error, asyncio.CancelledError):
        error = RuntimeError("the tool cancelled itself")
    if not isinstance(error, ToolError):
        # The message may quote arguments, and so may the stack; the sidecar has both.
        log.warning("tool `%s` failed with %s", execution.tool.name, type(error).__name__)
    return seal(from_exception(error))


class DaemonPool:
    """Threads for `def` handlers; as many as run at once, kept for the next ones.

    Daemons, unlike those of `concurrent.futures`: a handler that never ends must
    not keep the process from exiting after a drain.
    """

    _IDLE_SECONDS = 30.0

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._work: deque[tuple[Callable[..., None], tuple[Any, ...], contextvars.Context]] = deque()
        self._idle = 0
        self._started = 0

    def submit(self, action: Callable[..., None], *args: Any) -> None:
        """Runs something on a thread of its own. The caller bounds how much runs at once."""
        with self._lock:
            self._work.append((action, args, contextvars.copy_context()))
            if self._idle >= len(self._work):
                self._lock.notify()
                return
            self._started += 1
            name = f"callgate-tool-{self._started}"
        threading.Thread(target=self._serve, name=name, daemon=True).start()

    def _serve(self) -> None:
        while True:
            with self._lock:
                self._idle += 1
                has_work = self._lock.wait_for(lambda: bool(self._work), self._IDLE_SECONDS)
                self._idle -= 1
                if not has_work:
                    return
                action, args, context = self._work.popleft()
            context.run(action, *args)
            # An idle thread must not keep what it ran last alive.
            del action, args, context
