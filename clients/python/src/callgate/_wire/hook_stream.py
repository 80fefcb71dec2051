"""The stream of a hook process: opened again and again until it is told to stop.

Every question is answered exactly once, by what the handler says or by its failure;
one that is taken back is not, and neither is what is only told. Never decides anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import grpc

from .. import errors
from .._gen.callgate.v1 import hook_service_pb2 as hk
from .._gen.callgate.v1 import hook_service_pb2_grpc as hk_rpc
from .._gen.callgate.v1 import stream_pb2 as st
from .._version import __version__
from ..backoff import Backoff, BackoffState
from ..hook import HookSpec, MoreTime, allow_more_time
from ..hook_points import ApprovalRequested, HookQuestion
from ..hook_runner import Asking, HookFailed, HookSaid
from . import convert, convert_hooks
from .channel import MESSAGE_BYTES_MAX, Dialer
from .connection import Connection, is_fatal, within
from .status import from_grpc

log = logging.getLogger("callgate")

# Asks the handler; what it says goes to the function, once, on the stream's loop.
Ask = Callable[[HookQuestion, Callable[[HookSaid], None]], Asking]


class HookStream:
    """Keeps one hook process connected. Confined to the loop that it runs on: the wire's, or that of `Hooks.run`."""

    def __init__(
        self,
        dialer: Dialer,
        specs: Sequence[HookSpec],
        ask: Ask,
        *,
        instance_id: str,
        max_concurrency: int,
        backoff: Backoff,
    ) -> None:
        self._dialer = dialer
        self._specs = specs
        self._ask = ask
        self._instance_id = instance_id
        self._max_concurrency = max_concurrency
        self._backoff = BackoffState(backoff)
        self._ready = asyncio.Event()
        self._wakeup = asyncio.Event()
        self._closing = False
        self._was_ready = False
        self._connection: Connection | None = None
        # By invocation id. Ends with its stream: nobody else waits for the answer.
        self._asked: dict[str, _Waiting] = {}
        # Whoever is only told goes on, whatever becomes of the stream.
        self._told: dict[str, Asking] = {}

    async def wait_ready(self) -> None:
        """Returns when the sidecar has taken the hooks."""
        await self._ready.wait()

    def close(self) -> None:
        """Takes the hooks along, and does not come back."""
        self._closing = True
        self._wakeup.set()
        if self._connection is not None and self._ready.is_set():
            self._leave(self._connection)

    async def run(self) -> None:
        """Connects again and again. Returns after `close`.

        Raises:
            CallgateError: A hook was refused, or another try cannot help.
        """
        try:
            while not self._closing:
                wait = await self._attempt()
                if not self._closing:
                    await within(self._wakeup.wait(), wait)
        finally:
            for asking in self._told.values():
                asking.cancel()

    async def _attempt(self) -> float:
        """One connection, from dialling to its end. Returns how long to wait before the next."""
        connection: Connection | None = None
        try:
            async with self._dialer.open() as channel:
                stub: Any = hk_rpc.HookServiceStub(channel)
                connection = Connection(stub.ConnectHook(metadata=self._dialer.metadata()))
                self._connection = connection
                await self._serve(connection)
        except (grpc.RpcError, asyncio.InvalidStateError, errors.CallgateError) as error:
            failure = error if isinstance(error, errors.CallgateError) else from_grpc(error)
            if not self._closing and is_fatal(failure, opened=connection is not None, was_ready=self._was_ready):
                raise failure from error
            if not self._closing:
                log.info("the hook stream ended: %s", failure)
        except Exception:
            # A fault of this package must not leave the hooks deaf for good.
            log.exception("the hook stream failed")
        finally:
            self._connection = None
            self._ready.clear()
            asked, self._asked = self._asked, {}
            for waiting in asked.values():
                waiting.give_up()
        wait = self._backoff.lost()
        return wait if connection is None or self._closing else connection.wait_before_next(wait)

    async def _serve(self, connection: Connection) -> None:
        welcome = await connection.greet(hk.ConnectHookRequest(hello=self._hello()))
        await connection.serve(
            lambda message: self._take(connection, message),
            lambda ping: hk.ConnectHookRequest(ping=ping),
            convert.timing_of(welcome.timing),
            lambda: self._take_welcome(connection, welcome),
        )

    def _hello(self) -> hk.HookHello:
        return hk.HookHello(
            hooks=[convert_hooks.registration(spec) for spec in self._specs],
            instance_id=self._instance_id,
            max_message_bytes=MESSAGE_BYTES_MAX,
            max_concurrent_invocations=self._max_concurrency,
            sdk=st.Sdk(name="callgate-python", version=__version__, language="python"),
        )

    def _take_welcome(self, connection: Connection, welcome: hk.HookWelcome) -> None:
        refused = [item for item in welcome.registered if item.HasField("error")]
        if refused and not self._was_ready:
            what = ", ".join(f"`{item.hook_id}`: {item.error.message}" for item in refused)
            raise errors.InvalidRequest(f"the sidecar refused {what}")
        for item in refused:
            log.error("the sidecar refused the hook %s: %s", item.hook_id, item.error.message)
        self._was_ready = True
        self._backoff.ready()
        self._ready.set()
        if self._closing:
            self._leave(connection)

    @staticmethod
    def _leave(connection: Connection) -> None:
        # Said, since the hooks of a stream that only ends stay behind and fail.
        connection.say_work(hk.ConnectHookRequest(leave=hk.HookLeave()))
        connection.half_close()

    # What the sidecar says.

    def _take(self, connection: Connection, message: hk.ConnectHookResponse) -> None:
        body = message.WhichOneof("body")
        if body == "invocation":
            self._begin(connection, message.invocation)
        elif body == "invocation_cancelled":
            waiting = self._asked.pop(message.invocation_cancelled.invocation_id, None)
            if waiting is not None:
                waiting.give_up()
                self._end_if_done(connection)
        elif body == "ping":
            connection.say(hk.ConnectHookRequest(pong=st.Pong(nonce=message.ping.nonce)))
        elif body == "pong":
            connection.unanswered = 0
        elif body == "go_away":
            connection.take_go_away(message.go_away, lambda: self._end_if_done(connection))
        elif body == "notice":
            log.info("the sidecar ignored a message: %s", message.notice.message)

    def _end_if_done(self, connection: Connection) -> None:
        """After a go-away the stream ends as soon as nobody waits for an answer on it."""
        if connection.go_away is not None and not self._asked:
            connection.half_close()

    def _begin(self, connection: Connection, invocation: hk.HookInvocation) -> None:
        if invocation.timeout_ms == 0:
            self._tell(invocation)
            return
        name = invocation.invocation_id
        waiting = _Waiting(self._more_time(connection, name, invocation.timeout_ms / 1_000))
        self._asked[name] = waiting
        try:
            asked = _question(invocation)
            allow_more_time(asked, waiting.more_time)
            digest = asked.approval.digest if isinstance(asked, ApprovalRequested) else b""
            waiting.asking = self._ask(asked, lambda said: self._answer(connection, invocation, said, digest))
        except Exception as error:
            log.exception("the hook %s cannot be asked", invocation.hook_id)
            self._answer(connection, invocation, HookFailed.of(error), b"")

    def _answer(self, connection: Connection, invocation: hk.HookInvocation, said: HookSaid, digest: bytes) -> None:
        name = invocation.invocation_id
        waiting = self._asked.pop(name, None)
        if waiting is None:
            return
        waiting.more_time.end()
        try:
            verdict = convert_hooks.verdict(name, said, digest)
        except BaseException as error:
            # It runs a little of the user's code.
            log.exception("the hook %s said what cannot be sent", invocation.hook_id)
            verdict = convert_hooks.failure(name, HookFailed.of(error))
        connection.say_work(hk.ConnectHookRequest(verdict=verdict))
        self._end_if_done(connection)

    def _tell(self, invocation: hk.HookInvocation) -> None:
        def heard(_: HookSaid) -> None:
            self._told.pop(name, None)

        name = invocation.invocation_id
        try:
            self._told[name] = self._ask(_question(invocation), heard)
        except Exception:
            log.exception("the hook %s cannot be told", invocation.hook_id)

    def _more_time(self, connection: Connection, name: str, limit: float) -> MoreTime:
        loop = asyncio.get_running_loop()

        def ask(seconds: float) -> None:
            # Its answer may have overtaken it.
            if name in self._asked:
                wanted = hk.NeedMoreTime(invocation_id=name, extra_ms=convert.milliseconds(seconds))
                connection.say(hk.ConnectHookRequest(need_more_time=wanted))

        def post(seconds: float) -> None:
            # A loop that has ended has nobody who waits.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(ask, seconds)

        return MoreTime(limit, post)


@dataclass(slots=True)
class _Waiting:
    """A question that somebody waits for an answer to."""

    more_time: MoreTime
    asking: Asking | None = None

    def give_up(self) -> None:
        """Nobody waits any more."""
        self.more_time.end()
        if self.asking is not None:
            self.asking.cancel()


def _question(invocation: hk.HookInvocation) -> HookQuestion:
    asked = convert_hooks.question(invocation)
    if asked is None:
        raise LookupError("this SDK does not know that point")
    return asked
