"""One stream to the sidecar while it lasts: who writes, whether it lives, and how it ends.

What the streams of executors and of hooks have in common. Never opens a stream, and
knows nothing of what is said on it besides pings and the go-away.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, NoReturn

import grpc
import grpc.aio

from .. import errors
from .._gen.callgate.v1 import stream_pb2 as st
from .channel import EOF

log = logging.getLogger("callgate")

HELLO_SECONDS = 10.0
END_SECONDS = 2.0

# Another try cannot help: the configuration is wrong, or the peer is.
_FATAL_AT_FIRST = (errors.Unauthenticated, errors.PermissionDenied, errors.ProtocolError, errors.InvalidRequest)
_FATAL_ALWAYS = (errors.Superseded,)


@dataclass(slots=True)
class Connection:
    """What belongs to one stream and ends with it. Confined to the loop of the stream."""

    call: Any
    control: deque[Any] = field(default_factory=deque)
    # With what each is about, if that must be known should it not be sent.
    work: deque[tuple[Any, Any]] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    half_closed: bool = False
    unanswered: int = 0
    go_away: st.GoAway | None = None

    def say(self, message: Any) -> None:
        """Goes ahead of work."""
        self.control.append(message)
        self.wake.set()

    def say_work(self, message: Any, about: Any = None) -> None:
        """Goes in order, behind what was said before."""
        self.work.append((message, about))
        self.wake.set()

    def half_close(self) -> None:
        """Says what is still to be said, and ends our half."""
        self.half_closed = True
        self.wake.set()

    async def greet(self, hello: Any) -> Any:
        """Sends the first message, and returns the sidecar's welcome.

        Raises:
            CallgateError, grpc.RpcError: None comes.
        """
        try:
            await self.call.write(hello)
        except (asyncio.InvalidStateError, grpc.RpcError):
            # The write only knows that the rpc has ended; the status says why.
            await self.raise_end()
        try:
            first = await asyncio.wait_for(self.call.read(), HELLO_SECONDS)
        except asyncio.TimeoutError as error:
            raise errors.ConnectionLost("no welcome came") from error
        if first is EOF:
            await self.raise_end()
        if first.WhichOneof("body") == "go_away":
            self.go_away = first.go_away
            raise errors.ConnectionLost(first.go_away.message or "the sidecar is going away")
        if first.WhichOneof("body") != "welcome":
            raise errors.ProtocolError("the first message of the sidecar was no welcome")
        return first.welcome

    async def serve(
        self,
        take: Callable[[Any], None],
        ping: Callable[[st.Ping], Any],
        timing: tuple[float, int],
        begin: Callable[[], None],
    ) -> None:
        """Writes, reads and pings until the stream ends; the reader waits for nothing else.

        `begin` runs once all that it says is sent. Returns when our half has ended in order.

        Raises:
            CallgateError, grpc.RpcError: Why it has ended.
        """
        # The writer starts first, so that what the beginning brings about is sent.
        writer: asyncio.Future[None] = asyncio.ensure_future(self._write())
        reader: asyncio.Future[None] = asyncio.ensure_future(self._read(take))
        pinger: asyncio.Future[None] = asyncio.ensure_future(self._ping(ping, *timing))
        tasks = (writer, reader, pinger)
        try:
            begin()
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if writer.done():
                # Our half has ended, properly or not. Only the reader learns why.
                await asyncio.wait((reader, pinger), timeout=END_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            for task in (reader, pinger, writer):
                if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                    raise error
        finally:
            self.call.cancel()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _write(self) -> None:
        while True:
            while self.control or self.work:
                message = self.control.popleft() if self.control else self.work.popleft()[0]
                await self.call.write(message)
            if self.half_closed:
                await self.call.done_writing()
                return
            self.wake.clear()
            await self.wake.wait()

    async def _read(self, take: Callable[[Any], None]) -> None:
        while (message := await self.call.read()) is not EOF:
            take(message)
        await self.raise_end()

    async def _ping(self, message: Callable[[st.Ping], Any], interval: float, misses: int) -> None:
        nonce = 0
        while True:
            await asyncio.sleep(interval)
            if self.unanswered >= misses:
                raise errors.ConnectionLost(f"{misses} pings were not answered")
            self.unanswered += 1
            nonce = (nonce + 1) & 0xFFFFFFFF
            self.say(message(st.Ping(nonce=nonce)))

    def take_go_away(self, go_away: st.GoAway, end_if_done: Callable[[], None]) -> None:
        """The sidecar closes the stream: it ends once `end_if_done` finds nothing left to finish on it."""
        self.go_away = go_away
        log.info("the sidecar closes the stream: %s", go_away.message or st.GoAwayReason.Name(go_away.reason))
        if self.is_superseded():
            self.half_close()
            return
        if go_away.drain_ms:
            asyncio.get_running_loop().call_later(go_away.drain_ms / 1000, self.half_close)
        end_if_done()

    def is_superseded(self) -> bool:
        """Whether a newer stream of the same instance took over: nothing is left to do here."""
        return self.go_away is not None and self.go_away.reason == st.GO_AWAY_REASON_SUPERSEDED

    def wait_before_next(self, backoff: float) -> float:
        """Seconds until the next connection: as the go-away says, else the back-off's.

        Raises:
            Superseded, Unavailable: The sidecar said not to come back.
        """
        go_away = self.go_away
        if go_away is None:
            return backoff
        if self.is_superseded():
            raise errors.Superseded(go_away.message or "another process connected as this instance")
        if go_away.reconnect_max_ms == 0:
            raise errors.Unavailable(go_away.message or "the sidecar said not to come back")
        return random.uniform(min(go_away.reconnect_min_ms, go_away.reconnect_max_ms), go_away.reconnect_max_ms) / 1000

    async def raise_end(self) -> NoReturn:
        """Raises why the sidecar has ended the stream."""
        code = await self.call.code()
        if code is not grpc.StatusCode.OK:
            raise grpc.aio.AioRpcError(
                code,
                await self.call.initial_metadata(),
                await self.call.trailing_metadata(),
                details=await self.call.details(),
            )
        raise errors.ConnectionLost("the sidecar ended the stream")


def is_fatal(failure: errors.CallgateError, *, opened: bool, was_ready: bool) -> bool:
    """Whether another try cannot help. What was right once may be so again, whatever a sidecar says now."""
    if isinstance(failure, _FATAL_ALWAYS):
        return True
    return not was_ready and (not opened or isinstance(failure, _FATAL_AT_FIRST))


async def within(work: Coroutine[Any, Any, Any], seconds: float) -> bool:
    """Awaits something for a while; says whether it came."""
    try:
        await asyncio.wait_for(work, max(0.0, seconds))
    except asyncio.TimeoutError:
        return False
    return True
