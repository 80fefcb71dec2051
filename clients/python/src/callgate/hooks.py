"""A process of hooks: is asked before and after calls of every executor, and told of turns and loops.

Decides nothing by itself: what its handlers say is one voice among rules, the mode and
people. A handler that raises is a failure that the sidecar is told of.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, TypeVar

from . import errors
from ._wire.channel import Dialer
from ._wire.endpoint import TLS, resolve_control_endpoint
from ._wire.hook_stream import HookStream
from ._wire.link import Link
from ._wire.loop import quieten
from ._wire.signals import handle_signals
from .backoff import Backoff
from .hook import AfterHandler, AfterPoint, BeforeHandler, HookMatcher, HookPoint, HookSpec, OnFailure
from .hook_points import (
    HOOK_POINTS,
    ONLY_TOLD,
    ApprovalHandler,
    DiagnosisHandler,
    HookQuestion,
    LoopHandler,
    TurnHandler,
)
from .hook_runner import Asking, HookSaid
from .tool import is_async

log = logging.getLogger("callgate")

F = TypeVar("F", bound=Callable[..., Any])

CLOSE_SECONDS = 5.0


class Hooks:
    """A hook process's connection to the sidecar.

    Add hooks, then `start`, `async with` or `run`. `async def` handlers run on the loop
    that starts it, `def` ones on threads. A lost connection is made again, and so is one
    that no longer answers; until then the sidecar counts these hooks as failing. `aclose`
    takes them along.

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
        self._handlers: dict[tuple[str, HookPoint], Callable[[Any], Any]] = {}
        self._sealed = False
        self._threads: ThreadPoolExecutor | None = None
        # Of their own, so that what is only told holds up no question.
        self._told_threads: ThreadPoolExecutor | None = None
        self._home: asyncio.AbstractEventLoop | None = None
        # `run` made the loop, so nobody else has something on it that could hold the stream up.
        self._owns_home = False
        self._stream_loop: asyncio.AbstractEventLoop | None = None
        self._stream: HookStream | None = None
        self._serving: asyncio.Future[None] | None = None

    # Hooks.

    @property
    def specs(self) -> tuple[HookSpec, ...]:
        """The hooks of this process, registered or not."""
        return tuple(self._specs.values())

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
        return self._adding(
            handler,
            ("before_tool_call",),
            hook_id,
            order=order,
            matcher=matcher or HookMatcher(tools=tools),
            timeout=timeout,
            on_failure=on_failure,
            observe=observe,
        )

    def after_tool_call(
        self,
        handler: AfterHandler | None = None,
        *,
        hook_id: str | None = None,
        order: int = 0,
        tools: Sequence[str] = (),
        matcher: HookMatcher | None = None,
        timeout: float = 5.0,
        on: Sequence[AfterPoint] = ("after_tool_call",),
        withhold_on_failure: bool = False,
        observe: bool = False,
    ) -> Any:
        """Asks the function after every call that an executor answered; it returns `After`, `AfterOutput` or None.

        `on` may name "after_tool_failure" too, for answers that are errors.
        """
        return self._adding(
            handler,
            tuple(on),
            hook_id,
            order=order,
            matcher=matcher or HookMatcher(tools=tools),
            timeout=timeout,
            withhold_on_failure=withhold_on_failure,
            observe=observe,
        )

    def approval_requested(
        self,
        handler: ApprovalHandler | None = None,
        *,
        hook_id: str | None = None,
        order: int = 0,
        tools: Sequence[str] = (),
        matcher: HookMatcher | None = None,
        timeout: float = 5.0,
        observe: bool = False,
    ) -> Any:
        """Asks the function about every such approval that begins to wait; it returns `ApprovalAnswer` or None.

        Whatever it does wrong, the approval waits on.
        """
        return self._adding(
            handler,
            ("approval_requested",),
            hook_id,
            order=order,
            matcher=matcher or HookMatcher(tools=tools),
            timeout=timeout,
            observe=observe,
        )

    def turn_started(self, handler: TurnHandler | None = None, *, hook_id: str | None = None) -> Any:
        """Tells the function of every turn that begins."""
        return self._adding(handler, ("turn_started",), hook_id)

    def turn_finished(self, handler: TurnHandler | None = None, *, hook_id: str | None = None) -> Any:
        """Tells the function of every turn that ended."""
        return self._adding(handler, ("turn_finished",), hook_id)

    def loop_suspected(self, handler: LoopHandler | None = None, *, hook_id: str | None = None) -> Any:
        """Tells the function of every run that was found to be in a loop."""
        return self._adding(handler, ("loop_suspected",), hook_id)

    def loop_diagnose(
        self,
        handler: DiagnosisHandler | None = None,
        *,
        hook_id: str | None = None,
        order: int = 0,
        timeout: float = 5.0,
        observe: bool = False,
    ) -> Any:
        """Asks the function whether a run is in a loop; it returns `LoopOpinion` or None, which is no loop.

        Of several hooks the first is asked. Whatever it does wrong, it is no loop.
        """
        return self._adding(handler, ("loop_diagnose",), hook_id, order=order, timeout=timeout, observe=observe)

    def add(self, hook: Any, *, hook_id: str | None = None, order: int = 0, **options: Any) -> None:
        """Adds an object as one hook: of every point that it has a method of the same name for.

        `options` are fields of `HookSpec`. A matcher is looked at where there is a call.

        Raises:
            ValueError: It has no such method.
        """
        handlers: dict[HookPoint, Callable[[Any], Any]] = {
            point: getattr(hook, point) for point in HOOK_POINTS if hasattr(hook, point)
        }
        if not handlers:
            raise ValueError(f"a hook needs a method named as a point: {', '.join(HOOK_POINTS)}")
        name = hook_id or type(hook).__name__
        self._add(HookSpec(name, tuple(handlers), order, **options), handlers)

    def _adding(
        self, handler: Callable[[Any], Any] | None, points: tuple[HookPoint, ...], hook_id: str | None, **fields: Any
    ) -> Any:
        """Adds the function, or returns the decorator that does."""

        def register(function: F) -> F:
            name = hook_id or getattr(function, "__name__", "hook")
            spec = HookSpec(name, points, description=inspect.getdoc(function) or "", **fields)
            self._add(spec, dict.fromkeys(points, function))
            return function

        return register if handler is None else register(handler)

    def _add(self, spec: HookSpec, handlers: Mapping[HookPoint, Callable[[Any], Any]]) -> None:
        if self._stream is not None or self._sealed:
            raise errors.CallgateError("the hooks have started", code="client_started")
        if spec.hook_id in self._specs:
            raise ValueError(f"there is a hook {spec.hook_id!r} already")
        self._specs[spec.hook_id] = spec
        for point, handler in handlers.items():
            self._handlers[(spec.hook_id, point)] = handler

    def hook_of(self, asked: HookQuestion) -> tuple[HookSpec, Callable[[Any], Any]]:
        """The hook that is asked, and its function. Without `hook_id` the only one of that point.

        Raises:
            LookupError: There is no such hook, or several.
        """
        names = [name for name, point in self._handlers if point == asked.point]
        wanted = [name for name in names if asked.hook_id in ("", name)]
        if len(wanted) != 1:
            which = f"`{asked.hook_id}`" if asked.hook_id else "one hook"
            raise LookupError(f"{which} at {asked.point} is wanted, and there are: {', '.join(names) or 'none'}")
        return self._specs[wanted[0]], self._handlers[(wanted[0], asked.point)]

    def seal(self) -> None:
        """Takes no more hooks: whoever owns these has started without them, and nobody would ask a new one."""
        self._sealed = True

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
        self._threads = ThreadPoolExecutor(self._max_concurrency, "callgate-hook")
        self._told_threads = ThreadPoolExecutor(None, "callgate-told")
        self._stream = HookStream(
            self._link.dialer,
            self.specs,
            self._ask,
            instance_id=self._instance_id,
            max_concurrency=self._max_concurrency,
            backoff=self._backoff,
        )
        self._stream_loop = self._home if self._shares_home() else wire.loop
        serving = self._stream.run()
        self._serving = (
            asyncio.ensure_future(serving)
            if self._stream_loop is self._home
            else asyncio.wrap_future(wire.submit(serving))
        )
        self._serving.add_done_callback(_note_end)

    def _shares_home(self) -> bool:
        """Whether the stream lives on the handlers' loop, which saves a question two changes of thread.

        There, what blocks the loop stops the pings. So only if that could not answer questions
        either: all handlers are `async def`, and the loop is there for nothing else.
        """
        # Not any loop: grpc's asyncio support is at home on this one.
        fits = self._owns_home and isinstance(self._home, asyncio.SelectorEventLoop)
        return fits and all(is_async(handler) for handler in self._handlers.values())

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
        wire = self._link.open()
        is_here = self._stream_loop is asyncio.get_running_loop()
        ready = asyncio.ensure_future(stream.wait_ready() if is_here else wire.run(stream.wait_ready()))
        try:
            await asyncio.wait([ready, serving], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()
                raise errors.ClientClosed("the hooks were closed")
            if not ready.done():
                raise errors.DeadlineExceeded(f"the sidecar did not take the hooks within {timeout} s")
        finally:
            ready.cancel()

    def _ask(self, asked: HookQuestion, answer: Callable[[HookSaid], None]) -> Asking:
        """On the stream's loop: begins the handler where it belongs."""
        spec, handler = self.hook_of(asked)
        assert self._home is not None
        assert self._threads is not None
        assert self._told_threads is not None
        asking = Asking(handler, asked, answer, asyncio.get_running_loop())
        if is_async(handler):
            asking.on_loop(self._home)
        else:
            asking.on_thread(self._told_threads if spec.observe or asked.point in ONLY_TOLD else self._threads)
        return asking

    async def aclose(self) -> None:
        """Takes the hooks along and disconnects. May be called twice."""
        if self._link.forked:
            return
        wire = self._link.wire
        if wire is not None and self._stream is not None and self._serving is not None:
            if self._stream_loop is self._home:
                self._stream.close()
            else:
                wire.post(self._stream.close)
            await asyncio.wait([self._serving], timeout=CLOSE_SECONDS)
        for threads in (self._threads, self._told_threads):
            if threads is not None:
                threads.shutdown(wait=False, cancel_futures=True)
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

        The quickest way: if all handlers are `async def`, no question changes its thread. What
        blocks their loop then stops the pings too.

        Raises:
            CallgateError: A hook was refused, or another try cannot help.
        """
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._owns_home = True
        quieten(asyncio.get_running_loop())
        await self.serve()

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
