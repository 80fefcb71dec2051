"""The client: registers and runs tools, runs turns, asks the sidecar.

One object for both halves. Nothing is connected before it is used, so a client
may be made at import time and in the parent of a fork.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, TypeVar, overload

from . import errors
from ._wire import convert_turns
from ._wire.calls import Calls, Health
from ._wire.channel import Dialer
from ._wire.endpoint import TLS, resolve_endpoint
from ._wire.executor_stream import ExecutorStream
from ._wire.executor_stream import StreamState as ClientState
from ._wire.link import Link
from ._wire.loop import WireLoop
from ._wire.requests import run_request
from ._wire.signals import handle_signals
from ._wire.turn_stream import MuxSource, RpcSource, RpcTurns, TurnCanceller, TurnMux, TurnReader
from .backoff import Backoff
from .client_hooks import ClientHooks
from .context import ToolServiceRegistry
from .executor import Executor
from .permission import BatchPolicy, RuleSpec
from .permission_check import PermissionCheck
from .registration import Registration
from .registry import ProviderFormat, ServerInfo, ToolList
from .result import CallResult
from .schema import Dialect
from .sessions import Sessions
from .tool import Handler, Kind, Risk, Subject, Tool
from .turns import (
    CallState,
    OnSuspend,
    Results,
    Run,
    ToolCall,
    Turn,
    TurnInfo,
    TurnState,
    check_calls,
    check_rules,
    check_type,
)

log = logging.getLogger("callgate")

F = TypeVar("F", bound=Callable[..., Any])

READY_POLL_SECONDS = 0.05
CLOSE_SECONDS = 5.0


class Client(ClientHooks):
    """A connection to the sidecar, for tools, for turns, or for both, and for hooks beside them.

    May be used from any thread and any event loop, except that `start`, `aclose`
    and `async with` belong to one loop: the one that runs `async def` tools.
    `def` tools run on threads. All traffic is on a thread of its own, which
    neither can block.

    Args:
        endpoint: `unix:///…`, `http://host:port` or `https://host:port`. None:
            `CALLGATE_ENDPOINT`, else the sidecar's default Unix socket.
        token: The bearer token. None: `CALLGATE_TOKEN`, else the file that
            `CALLGATE_TOKEN_FILE` names, read anew for every connection.
        executor_name: Owns the tools. Needed if there are any; instances of one
            executor share it.
        max_concurrency: Most executions at once.
        instance_id: This process. None: minted. Two processes with the same one
            drive each other away.
        drain_timeout: Seconds that running tools get at the end.
        request_timeout: Seconds for one answer of the sidecar, turns aside.
        reconnect_timeout: Seconds after which a turn fails with `ConnectionLost`
            if the sidecar stays away. Executors try for ever.
        strict_registration: A refused tool ends `run` and `wait_ready` with
            `RegistrationRefused`, in place of a line in the log.
        resolve_facts: Tells the sidecar what paths in arguments really are, which rules
            that allow paths need. False where the tools see another file system
            than this process.
        tls: Certificates for `https`.
        backoff: Waits between connections.
        on_state: Told every change of `state`, on the wire's thread; must not block.
        hooks_endpoint: Where `hooks` connect. None: the same sidecar; where that is its
            socket `callgate.sock`, the `control.sock` beside it.
        hooks_token: As for `Hooks`; over TCP the credential of a hook.

    Attributes:
        sessions: The sidecar's sessions.

    Raises:
        CallgateError: `endpoint_invalid`.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        token: str | None = None,
        *,
        executor_name: str | None = None,
        max_concurrency: int = 16,
        instance_id: str | None = None,
        drain_timeout: float = 20.0,
        request_timeout: float = 15.0,
        reconnect_timeout: float = 30.0,
        strict_registration: bool = False,
        resolve_facts: bool = True,
        tls: TLS | None = None,
        backoff: Backoff | None = None,
        on_state: Callable[[ClientState], None] | None = None,
        hooks_endpoint: str | None = None,
        hooks_token: str | None = None,
    ) -> None:
        if max_concurrency < 1:
            raise ValueError("max_concurrency must be at least 1")
        self.endpoint = resolve_endpoint(endpoint)
        if not self.endpoint.secure and not self.endpoint.local:
            log.warning("the connection to %s is not encrypted", self.endpoint.text)
        ClientHooks.__init__(self, self.endpoint, hooks_endpoint, hooks_token, tls, backoff)
        self.executor_name = executor_name
        self.services = ToolServiceRegistry()
        self.drain_timeout = drain_timeout
        self._link = Link(Dialer(self.endpoint, token, tls), request_timeout)
        self.sessions = Sessions(self._link)
        self._max_concurrency = max_concurrency
        self._instance_id = instance_id
        self._reconnect_timeout = reconnect_timeout
        self._strict = strict_registration
        self._resolve_facts = resolve_facts
        self._backoff = backoff or Backoff()
        self._on_state = on_state
        self._tools: list[Tool] = []
        self._registrations: dict[str, Registration] = {}
        self._refused: tuple[Registration, ...] = ()
        self._calls: Calls | None = None
        self._mux: TurnMux | None = None
        self._rpc_turns = RpcTurns()
        self._canceller: TurnCanceller | None = None
        self._stream: ExecutorStream | None = None
        self._serving: asyncio.Future[None] | None = None
        self._lag: asyncio.Future[None] | None = None
        self._closing = False

    # Tools.

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools of this process, registered or not."""
        return tuple(self._tools)

    @property
    def registrations(self) -> Mapping[str, Registration]:
        """What the sidecar last said about each tool, by name."""
        return dict(self._registrations)

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        description: str | None = None,
        risk: Risk | None = None,
        kind: Kind | None = None,
        subject: Subject | None = None,
        skip_permission: bool = False,
        loop_exempt: bool = False,
        loop_key: Sequence[str] = (),
        secret_pointers: Sequence[str] = (),
        timeout: float | None = None,
        idempotent: bool = False,
        exclusive: bool = False,
        max_concurrency: int | None = None,
        cancellable: bool | None = None,
        services: Sequence[str] = (),
        version: str = "",
        annotations: Mapping[str, Any] | None = None,
        schema: Mapping[str, Any] | str | bytes | None = None,
        dialect: Dialect | None = None,
        raw: bool = False,
        permission_check: PermissionCheck | None = None,
    ) -> Callable[[F], F]: ...

    def tool(self, function: F | None = None, /, **options: Any) -> F | Callable[[F], F]:
        """Makes a tool of a function, and leaves the function as it is.

        The options are those of `Tool`. Before the client is started.
        """

        def register(handler: F) -> F:
            self.add_tool(Tool(handler, **options))
            return handler

        return register if function is None else register(function)

    def add_tool(self, tool: Tool | Handler) -> Tool:
        """Adds a tool before the client is started; afterwards use `update_tools`.

        A name twice is not refused here: the sidecar refuses the second and says so.
        """
        made = tool if isinstance(tool, Tool) else Tool(tool)
        if self._stream is not None:
            raise errors.CallgateError("the client has started; use update_tools", code="client_started")
        self._tools.append(made)
        return made

    async def update_tools(
        self, add: Sequence[Tool | Handler] = (), remove: Sequence[str] = ()
    ) -> tuple[Registration, ...]:
        """Adds, replaces and removes tools while connected.

        Returns what the sidecar said, `add` first; waits for a reconnect if need be.

        Raises:
            ClientClosed, ConnectionLost: The client was closed meanwhile.
        """
        made = [tool if isinstance(tool, Tool) else Tool(tool) for tool in add]
        changed = {tool.name for tool in made} | set(remove)
        with self._link.lock:
            self._tools = [tool for tool in self._tools if tool.name not in changed] + made
        stream = self._stream
        if stream is None:
            await self.start()
            await self.wait_ready()
            return tuple(self._registrations[tool.name] for tool in made if tool.name in self._registrations)
        return await self._open().run(stream.update(made, remove))

    async def resize(self, max_concurrency: int) -> None:
        """Takes more or fewer executions at once from now on. 0: none for now."""
        self._max_concurrency = max_concurrency
        stream = self._stream
        if stream is not None:
            self._open().loop.call_soon_threadsafe(stream.resize, max_concurrency)

    @property
    def refused(self) -> tuple[Registration, ...]:
        """What the sidecar refused in the last registration, each with its `error`."""
        return self._refused

    # Life.

    @property
    def state(self) -> ClientState:
        """Where the executor's stream stands; IDLE without tools."""
        if self._stream is not None:
            return self._stream.state
        return ClientState.CLOSED if self._link.closed else ClientState.IDLE

    async def start(self) -> None:
        """Begins to connect, and returns at once. `async def` tools and hooks run on this loop.

        Without tools, hooks and `executor_name` there is nothing to begin.

        Raises:
            ValueError: There are tools and no `executor_name`.
            ClientForked, ClientClosed: It cannot be used here any more.
        """
        wire = self._open()
        if self._tools and not self.executor_name:
            raise ValueError("a client with tools needs an executor_name")
        await self._start_hooks()
        if not self.executor_name:
            return
        with self._link.lock:
            if self._stream is not None:
                return
            executor = Executor(self.services, self._max_concurrency)
            executor.start(wire.loop, asyncio.get_running_loop())
            self._stream = ExecutorStream(
                self._link.dialer,
                executor,
                executor_name=self.executor_name,
                instance_id=self._instance_id,
                backoff=self._backoff,
                resolve_facts=self._resolve_facts,
                on_state=self._tell_state,
                on_registrations=self._take_registrations,
            )
            self._stream.set_tools(self._tools)
        self._serving = asyncio.wrap_future(wire.submit(self._stream.run()))
        # Whoever does not look at the end of the stream still gets no noise from asyncio.
        self._serving.add_done_callback(_note_end)
        self._lag = asyncio.wrap_future(wire.submit(executor.watch_lag()))

    def _tell_state(self, state: ClientState) -> None:
        """On the wire's thread, where nothing that the user's code throws may end the stream."""
        if self._on_state is None:
            return
        try:
            self._on_state(state)
        except Exception:
            log.exception("on_state failed")

    def _take_registrations(self, answers: tuple[Registration, ...]) -> None:
        """On the wire's thread. Replaces the whole table, so that readers need no lock."""
        refused = tuple(answer for answer in answers if answer.error is not None)
        # Of two tools with one name the second is refused, and the first is the one that can be called.
        said = {answer.name: answer for answer in refused}
        said.update({answer.name: answer for answer in answers if answer.error is None})
        self._registrations = {**self._registrations, **said}
        self._refused = refused
        if refused and self._strict and self._stream is not None:
            self._stream.close()

    async def wait_ready(self, timeout: float | None = 30.0) -> None:
        """Returns when hooks are asked and tools can be called, or, without either, when the sidecar serves.

        Raises:
            DeadlineExceeded: Not within `timeout` seconds.
            RegistrationRefused: With `strict_registration`, a tool was refused.
            CallgateError: A hook was refused, or another try cannot help, e.g. `PermissionDenied`.
        """
        await self.start()
        try:
            await asyncio.wait_for(self._all_ready(), timeout)
        except asyncio.TimeoutError as error:
            raise errors.DeadlineExceeded(f"the sidecar was not ready within {timeout} s") from error

    async def _all_ready(self) -> None:
        await self._hooks_ready()
        if self._stream is not None:
            await self._ready()
        elif not self._has_hooks:
            await self._serves()

    async def _ready(self) -> None:
        stream, serving = self._stream, self._serving
        assert stream is not None
        assert serving is not None
        ready = asyncio.ensure_future(self._open().run(_wait(stream)))
        try:
            await asyncio.wait([ready, serving], return_when=asyncio.FIRST_COMPLETED)
            self._raise_refused()
            if not ready.done():
                serving.result()
                raise errors.ClientClosed("the client was closed")
        finally:
            ready.cancel()

    async def _serves(self) -> None:
        while True:
            try:
                if await self.health() == "serving":
                    return
            except (errors.ConnectionLost, errors.Unavailable, errors.DeadlineExceeded):
                pass
            await asyncio.sleep(READY_POLL_SECONDS)

    def _raise_refused(self) -> None:
        if self._strict and self._refused:
            what = ", ".join(f"`{item.name}` ({item.error.code if item.error else ''})" for item in self._refused)
            raise errors.RegistrationRefused(f"the sidecar refused {what}", refused=self._refused)

    async def aclose(self, drain_timeout: float | None = None) -> None:
        """Finishes what runs, gives back what has not begun, and disconnects. May be called twice.

        `drain_timeout` in seconds, None: that of the client. Handlers that still
        run then are told to stop; `def` handlers that ignore it are left behind.
        """
        if self._closing or self._link.forked:
            return
        self._closing = True
        wire = self._link.wire
        try:
            if wire is not None and self._stream is not None and self._serving is not None:
                if not self._serving.done():
                    seconds = self.drain_timeout if drain_timeout is None else drain_timeout
                    await wire.run(self._stream.drain(seconds, "the client closes"))
                await asyncio.wait([self._serving], timeout=CLOSE_SECONDS)
        finally:
            # Until here a handler that finishes may still use the client, and its calls are still asked about.
            try:
                await self._close_hooks()
            finally:
                await self._disconnect()

    async def _disconnect(self) -> None:
        if self._lag is not None:
            self._lag.cancel()
        if self._serving is not None and not self._serving.done():
            self._serving.cancel()
        await self._link.close(self._close_wire)

    async def _close_wire(self) -> None:
        if self._canceller is not None:
            await self._canceller.close()
        if self._mux is not None:
            await self._mux.close()
        await self._rpc_turns.close()

    async def wait_closed(self) -> None:
        """Returns when the executor's stream has ended for good.

        Raises:
            RegistrationRefused: With `strict_registration`, a tool was refused.
            CallgateError: Another try cannot help, e.g. `Superseded`.
        """
        if self._serving is not None:
            await asyncio.shield(self._serving)
            self._raise_refused()

    async def __aenter__(self) -> Client:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def run(self) -> None:
        """Serves tools and hooks until SIGTERM or SIGINT, then drains. A second signal does not wait.

        For the main program of an executor: has an event loop of its own, on which
        `async def` tools run. Outside the main thread it gets no signals and runs
        until the stream ends for good.

        Raises:
            RegistrationRefused: With `strict_registration`, a tool was refused.
            CallgateError: A hook was refused, or another try cannot help.
        """
        asyncio.run(self._run())

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        signals = 0

        def on_signal() -> None:
            nonlocal signals
            signals += 1
            if signals > 1:
                # Whoever asks twice does not want to wait for anybody.
                os._exit(128 + signal.SIGTERM)
            stop.set()

        handled = handle_signals(loop, on_signal)
        try:
            await self.start()
            serving = [one for one in (self._serving, self._hooks_serving) if one is not None]
            if not serving:
                raise ValueError("a client without tools and hooks has nothing to run")
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait([stopping, *serving], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            self._raise_refused()
            for ended in serving:
                if ended.done():
                    ended.result()
        finally:
            await self.aclose()
            for number in handled:
                loop.remove_signal_handler(number)

    def _open(self) -> WireLoop:
        """The wire, started if need be."""
        return self._link.open()

    def _ask(self) -> tuple[WireLoop, Calls]:
        wire = self._open()
        if self._calls is None:
            self._calls = Calls(self._link.channel, self._link.timeout)
        return wire, self._calls

    # Turns.

    def run_turn(
        self,
        session_id: str,
        calls: Sequence[ToolCall] = (),
        *,
        openai_message: Any = None,
        finish_reason: str = "",
        turn_id: str | None = None,
        run_id: str = "",
        toolset: str = "",
        tool_snapshot_id: str = "",
        max_parallel: int | None = None,
        timeout: float | None = None,
        model_message: bytes = b"",
        results: Results = "at_end",
        output: bool = False,
        progress: bool = True,
        results_format: ProviderFormat | None = None,
        cancel_on_disconnect: bool = False,
        batch_policy: BatchPolicy | None = None,
        command_rules: Sequence[RuleSpec] = (),
        on_suspend: OnSuspend = "wait",
        history: Sequence[Any] | None = None,
        traceparent: str = "",
        carrier: Literal["stream", "rpc"] = "stream",
    ) -> Turn:
        """Runs the calls of one model message. Await it for the result, iterate it for events.

        Args:
            session_id: The session; comes into being on first use.
            calls: The calls in the model's order. Without any, and without a
                message, this is a round in which the model answered without tools.
            openai_message: In place of `calls`: the assistant message of OpenAI
                Chat Completions, as a dict, as text, or as that SDK's own object.
                The result then has `messages` to append.
            finish_reason: The provider's own word, e.g. `length`.
            turn_id: Kept by you before you send, so that a retry in another
                process attaches. None: minted.
            run_id: The run. Empty: the session's default run.
            toolset: What the model could call. Empty: every tool.
            tool_snapshot_id: The `ToolList.snapshot_id` that the model saw.
            max_parallel: Most calls that execute at once.
            timeout: The turn is cancelled when it ran so many seconds.
            model_message: Anything that a new process needs to go on. Kept, never read.
            results: Where contents travel: "at_end", "as_completed" or "both".
            output: Send `CallOutput`.
            progress: Send `CallProgress`.
            results_format: Form of `messages` with `calls`.
            cancel_on_disconnect: A lost connection cancels the turn. By default it
                goes on, and is taken up again here.
            batch_policy: What happens to the batch while a call waits for an
                approver, and when one is refused. None: the session's.
            command_rules: Rules for this turn only. At most 256.
            on_suspend: Once only people are awaited, "wait" for them, or "end": the
                events end after `TurnSuspended`, awaiting raises `Suspended`, and
                `attach_turn` takes the turn up.
            history: The conversation so far, for the sidecar's loop diagnosis, which looks at
                rounds without calls. None: it looks at what the run called.
            traceparent: W3C trace context.
            carrier: "stream" shares one stream among all turns, which is cheaper.

        Raises:
            TypeError, ValueError: An argument is of the wrong type, or two exclude each other.

        Raises (when awaited):
            RunNotActive, Conflict, InvalidRequest, LimitExceeded, Unavailable: The
                sidecar refused the turn; nothing ran.
            ConnectionLost: The sidecar stayed away. The turn may go on.
            Suspended: With `on_suspend="end"`, people are awaited. The turn goes on.
        """
        check_calls(calls)
        check_rules(command_rules)
        check_type("turn_id", turn_id, str, type(None))
        check_type("model_message", model_message, bytes)
        for what, value in (
            ("session_id", session_id),
            ("finish_reason", finish_reason),
            ("run_id", run_id),
            ("toolset", toolset),
            ("tool_snapshot_id", tool_snapshot_id),
            ("traceparent", traceparent),
        ):
            check_type(what, value, str)
        check_type("history", history, Sequence, type(None))
        check_type("max_parallel", max_parallel, int, type(None))
        check_type("timeout", timeout, int, float, type(None))
        if calls and openai_message is not None:
            raise ValueError("give calls or openai_message, not both")
        request = run_request(
            session_id=session_id,
            turn_id=turn_id or str(uuid.uuid4()),
            calls=calls,
            openai_message=openai_message,
            finish_reason=finish_reason,
            run_id=run_id,
            toolset=toolset,
            tool_snapshot_id=tool_snapshot_id,
            max_parallel=max_parallel,
            timeout=timeout,
            model_message=model_message,
            view=convert_turns.view(results=results, output=output, progress=progress, results_format=results_format),
            cancel_on_disconnect=cancel_on_disconnect,
            batch_policy=batch_policy,
            command_rules=command_rules,
            on_suspend=on_suspend,
            history=history,
            traceparent=traceparent,
        )

        def source() -> MuxSource | RpcSource:
            wire, mux, canceller = self._carriers()
            if carrier == "stream":
                return MuxSource(wire, mux, canceller, request)
            return RpcSource(
                wire,
                self._link.channel,
                self._rpc_turns,
                canceller,
                self._backoff,
                self._reconnect_timeout,
                TurnReader(request.turn_id),
                session_id=session_id,
                view=request.view,
                on_suspend=on_suspend,
                request=request,
            )

        return Turn(request.turn_id, source)

    def attach_turn(
        self,
        turn_id: str,
        *,
        session_id: str = "",
        after_sequence: int = 0,
        epoch: int = 0,
        results: Results = "at_end",
        output: bool = False,
        progress: bool = True,
        on_suspend: OnSuspend = "wait",
    ) -> Turn:
        """Takes up a turn that this or another process began.

        `after_sequence` and `epoch` are those of the last event seen; 0: from the
        beginning. `on_suspend` is as in `run_turn`. Raises `NotFound` when awaited if there is no such turn.
        """
        check_type("turn_id", turn_id, str)
        check_type("session_id", session_id, str)
        view = convert_turns.view(results=results, output=output, progress=progress, results_format=None)

        def source() -> RpcSource:
            wire, _, canceller = self._carriers()
            return RpcSource(
                wire,
                self._link.channel,
                self._rpc_turns,
                canceller,
                self._backoff,
                self._reconnect_timeout,
                TurnReader(turn_id, epoch=epoch, after_sequence=after_sequence),
                session_id=session_id,
                view=view,
                on_suspend=on_suspend,
                request=None,
            )

        return Turn(turn_id, source)

    def _carriers(self) -> tuple[WireLoop, TurnMux, TurnCanceller]:
        self._check_hooks()
        wire = self._open()
        with self._link.lock:
            if self._mux is None or self._canceller is None:
                self._mux = TurnMux(self._link.dialer, self._backoff, self._reconnect_timeout)
                self._canceller = TurnCanceller(self._link.channel)
            return wire, self._mux, self._canceller

    async def cancel_turn(
        self, turn_id: str, *, session_id: str = "", reason: str = "", grace: float | None = None
    ) -> TurnState | None:
        """Cancels a turn and ends its run. Returns once that is durable.

        `grace` is how long executing calls may take, in seconds; None: 5, 0: not
        at all. None as the answer: the turn was not seen yet, the cancellation is
        remembered for a minute.
        """
        wire, ask = self._ask()
        return await wire.run(ask.cancel_turn(turn_id, session_id, reason, grace))

    async def cancel_call(
        self, turn_id: str, call_id: str, *, session_id: str = "", reason: str = "", grace: float | None = None
    ) -> CallState:
        """Cancels one call, which gets a `tool_cancelled` result. The turn goes on."""
        wire, ask = self._ask()
        return await wire.run(ask.cancel_call(turn_id, session_id, call_id, reason, grace))

    async def get_turn(self, turn_id: str, *, session_id: str = "") -> TurnInfo:
        """One turn with the state of its calls. Raises `NotFound`."""
        wire, ask = self._ask()
        return await wire.run(ask.get_turn(turn_id, session_id))

    async def list_turns(
        self,
        *,
        session_id: str = "",
        run_id: str = "",
        state: TurnState | None = None,
        page_size: int = 0,
        page_token: str = "",
    ) -> tuple[tuple[TurnInfo, ...], str]:
        """A page of turns, newest first, and the token of the next page; empty: the last."""
        wire, ask = self._ask()
        return await wire.run(ask.list_turns(session_id, run_id, state, page_size, page_token))

    async def get_call_result(self, turn_id: str, call_id: str, *, session_id: str = "") -> CallResult:
        """One result whole, also if it was cut in the turn's. Raises `NotFound`."""
        wire, ask = self._ask()
        return await wire.run(ask.get_call_result(turn_id, session_id, call_id))

    async def end_run(self, session_id: str, run_id: str = "") -> Run:
        """Completes a run. Raises `Conflict` while a turn of it runs."""
        wire, ask = self._ask()
        return await wire.run(ask.end_run(session_id, run_id))

    async def cancel_run(
        self, session_id: str, run_id: str = "", *, reason: str = "", grace: float | None = None
    ) -> Run:
        """Cancels a run with all its turns."""
        wire, ask = self._ask()
        return await wire.run(ask.cancel_run(session_id, run_id, reason, grace))

    # The sidecar.

    async def list_tools(self, *, toolset: str = "", format: ProviderFormat | None = None) -> ToolList:  # noqa: A002
        """What a model may see, or its export in a provider's form."""
        wire, ask = self._ask()
        return await wire.run(ask.list_tools(toolset, format))

    async def health(self, service: str = "readiness") -> Health:
        """`grpc.health.v1` of the sidecar: "", `liveness`, `readiness`, or a service's name."""
        wire, ask = self._ask()
        return await wire.run(ask.health(service))

    async def server_info(self) -> ServerInfo:
        """Version, limits and what is switched on."""
        wire, ask = self._ask()
        return await wire.run(ask.server_info())


async def _wait(stream: ExecutorStream) -> None:
    await stream.ready.wait()


def _note_end(serving: asyncio.Future[None]) -> None:
    if not serving.cancelled() and serving.exception() is not None:
        log.error("the executor has ended: %s", serving.exception())
