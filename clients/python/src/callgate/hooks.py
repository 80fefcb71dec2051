"""A process of hooks: is asked before and after calls of every executor.

Decides nothing by itself: what its handlers say is one voice among rules, the mode and
people. A handler that raises is a failure that the sidecar is told of.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, TypeVar

from . import errors
from ._wire.channel import Dialer
from ._wire.endpoint import TLS, resolve_control_endpoint
from ._wire.hook_stream import HookStream
from ._wire.link import Link
from ._wire.signals import handle_signals
from .backoff import Backoff
from .hook import (
    AfterHandler,
    BeforeHandler,
    HookInput,
    HookMatcher,
    HookPoint,
    HookSpec,
    OnFailure,
    after_of,
    before_of,
)

log = logging.getLogger("callgate")

F = TypeVar("F", bound=Callable[..., Any])

CLOSE_SECONDS = 5.0


class Hooks:
    """A hook process's connection to the sidecar.

    Add hooks, then `start`, `async with` or `run`. `async def` handlers run on the loop
    that starts it, `def` ones on threads. A lost connection is made again; until then
    the sidecar counts these hooks as failing. `aclose` takes them along.

    Args:
        endpoint: As for `Approvals`: hooks connect to the `control.sock`.
        token: As for `Client`; over TCP the credential of a hook.
        max_concurrency: Most questions at once.
        instance_id: This process. None: minted. It takes the place of a stream of the
            same id.
        tls: Certificates for `https`.
        backoff: Waits between connections.

    Raises:
        CallgateError: `endpoint_invalid`.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        token: str | None = None,
        *,
        max_concurrency: int = 16,
        instance_id: str | None = None,
        tls: TLS | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        if max_concurrency < 1:
            raise ValueError("max_concurrency must be at least 1")
        self.endpoint = resolve_control_endpoint(endpoint)
        if not self.endpoint.secure and not self.endpoint.local:
            log.warning("the connection to %s is not encrypted", self.endpoint.text)
        self._link = Link(Dialer(self.endpoint, token, tls), 15.0)
        self._max_concurrency = max_concurrency
        self._instance_id = instance_id or str(uuid.uuid4())
        self._backoff = backoff or Backoff()
        self._specs: dict[str, HookSpec] = {}
        self._handlers: dict[tuple[str, HookPoint], Callable[[HookInput], Any]] = {}
        self._home: asyncio.AbstractEventLoop | None = None
        self._stream: HookStream | None = None
        self._serving: asyncio.Future[None] | None = None

    # Hooks.

    def before_tool_call(
        self,
        handler: BeforeHandler | None = None,
        *,
        hook_id: str | None = None,
        order: int = 0,
        tools: Sequence[str] = (),
        matcher: HookMatcher | None = None,
        timeout: float = 5.0,
        on_failure: OnFailure = "deny",
        observe: bool = False,
    ) -> Any:
        """Asks the function before every call that is meant; it returns `Before`, `HookOutput` or None.

        `tools` is short for a matcher of names. A security hook has a low `order`.
        """

        def register(function: F) -> F:
            spec = HookSpec(
                hook_id or getattr(function, "__name__", "hook"),
                ("before_tool_call",),
                order,
                matcher or HookMatcher(tools=tools),
                timeout,
                on_failure,
                observe=observe,
                description=inspect.getdoc(function) or "",
            )
            self._add(spec, {"before_tool_call": function})
            return function

        return register if handler is None else register(handler)

    def after_tool_call(
        self,
        handler: AfterHandler | None = None,
        *,
        hook_id: str | None = None,
        order: int = 0,
        tools: Sequence[str] = (),
        matcher: HookMatcher | None = None,
        timeout: float = 5.0,
        on: Sequence[HookPoint] = ("after_tool_call",),
        withhold_on_failure: bool = False,
        observe: bool = False,
    ) -> Any:
        """Asks the function after every call that an executor answered; it returns `After` or None.

        `on` may name "after_tool_failure" too, for answers that are errors.
        """

        def register(function: F) -> F:
            spec = HookSpec(
                hook_id or getattr(function, "__name__", "hook"),
                tuple(on),
                order,
                matcher or HookMatcher(tools=tools),
                timeout,
                withhold_on_failure=withhold_on_failure,
                observe=observe,
                description=inspect.getdoc(function) or "",
            )
            self._add(spec, dict.fromkeys(on, function))
            return function

        return register if handler is None else register(handler)

    def add(self, hook: Any, *, hook_id: str | None = None, order: int = 0, **options: Any) -> None:
        """Adds an object with `before_tool_call`, `after_tool_call` or `after_tool_failure` methods as one hook.

        `options` are fields of `HookSpec`.

        Raises:
            ValueError: It has none of them.
        """
        points: tuple[HookPoint, ...] = ("before_tool_call", "after_tool_call", "after_tool_failure")
        handlers: dict[HookPoint, Callable[[HookInput], Any]] = {
            point: getattr(hook, point) for point in points if hasattr(hook, point)
        }
        if not handlers:
            raise ValueError("a hook needs a method before_tool_call, after_tool_call or after_tool_failure")
        name = hook_id or type(hook).__name__
        self._add(HookSpec(name, tuple(handlers), order, **options), handlers)

    def _add(self, spec: HookSpec, handlers: Mapping[HookPoint, Callable[[HookInput], Any]]) -> None:
        if self._stream is not None:
            raise errors.CallgateError("the hooks have started", code="client_started")
        if spec.hook_id in self._specs:
            raise ValueError(f"there is a hook {spec.hook_id!r} already")
        self._specs[spec.hook_id] = spec
        for point, handler in handlers.items():
            self._handlers[(spec.hook_id, point)] = handler

    # Life.

    async def start(self) -> None:
        """Begins to connect, and returns at once. `async def` handlers run on this loop.

        Raises:
            ClientForked, ClientClosed: It cannot be used here any more.
        """
        wire = self._link.open()
        if self._stream is not None:
            return
        self._home = asyncio.get_running_loop()
        self._stream = HookStream(
            self._link.dialer,
            tuple(self._specs.values()),
            self._answer,
            instance_id=self._instance_id,
            max_concurrency=self._max_concurrency,
            backoff=self._backoff,
        )
        self._serving = asyncio.wrap_future(wire.submit(self._stream.run()))
        self._serving.add_done_callback(_note_end)

    async def wait_ready(self, timeout: float | None = 30.0) -> None:
        """Returns when the sidecar has taken the hooks.

        Raises:
            DeadlineExceeded: Not within `timeout` seconds.
            CallgateError: A hook was refused, or another try cannot help.
        """
        await self.start()
        stream, serving = self._stream, self._serving
        assert stream is not None
        assert serving is not None
        ready = asyncio.ensure_future(self._link.open().run(stream.wait_ready()))
        done, _ = await asyncio.wait([ready, serving], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if serving in done:
            ready.cancel()
            serving.result()
            raise errors.ClientClosed("the hooks were closed")
        if ready not in done:
            ready.cancel()
            raise errors.DeadlineExceeded(f"the sidecar did not take the hooks within {timeout} s")

    async def _answer(self, asked: HookInput) -> Any:
        """On the wire's loop: runs the handler where it belongs, and returns what it says."""
        handler = self._handlers[(asked.hook_id, asked.point)]
        home = self._home
        assert home is not None
        if inspect.iscoroutinefunction(handler):
            said = await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(handler(asked), home))
        else:
            said = await asyncio.get_running_loop().run_in_executor(None, handler, asked)
        return before_of(said) if asked.point == "before_tool_call" else after_of(said)

    async def aclose(self) -> None:
        """Takes the hooks along and disconnects. May be called twice."""
        if self._link.forked:
            return
        wire = self._link.wire
        if wire is not None and self._stream is not None and self._serving is not None:
            wire.post(self._stream.close)
            await asyncio.wait([self._serving], timeout=CLOSE_SECONDS)
        await self._link.close()

    async def __aenter__(self) -> Hooks:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def run(self) -> None:
        """Serves hooks until SIGTERM or SIGINT, or until another try cannot help.

        Raises:
            CallgateError: A hook was refused, or another try cannot help.
        """
        asyncio.run(self.serve())

    async def serve(self) -> None:
        """As `run`, on the loop that runs; only where that is the main thread's are signals heard."""
        loop = asyncio.get_running_loop()
        stop = asyncio.Event()
        handled = handle_signals(loop, stop.set)
        try:
            await self.start()
            assert self._serving is not None
            stopping = asyncio.ensure_future(stop.wait())
            await asyncio.wait([stopping, self._serving], return_when=asyncio.FIRST_COMPLETED)
            stopping.cancel()
            if self._serving.done():
                self._serving.result()
        finally:
            await self.aclose()
            for number in handled:
                loop.remove_signal_handler(number)


def _note_end(serving: asyncio.Future[None]) -> None:
    if not serving.cancelled() and (error := serving.exception()) is not None:
        log.error("the hooks ended: %s", error)
