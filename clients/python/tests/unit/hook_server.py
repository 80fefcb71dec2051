"""A hook service that asks what a test tells it to ask, and keeps what came back."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from types import TracebackType
from typing import Any

import grpc.aio

from callgate._gen.callgate.v1 import errors_pb2 as er
from callgate._gen.callgate.v1 import hook_service_pb2 as hk
from callgate._gen.callgate.v1 import hook_service_pb2_grpc as hk_rpc
from callgate._gen.callgate.v1 import stream_pb2 as st
from callgate._wire.loop import WireLoop


class HookServer(hk_rpc.HookServiceServicer):
    """One socket. `verdicts` holds every answer in the order in which they came.

    `refuse` takes no hook, `mute` sends nothing at all, not even a welcome, and without `answer_pings`
    no pong. `order` is that of verdicts and askings for more time. `closed` counts streams whose client
    ended its half, `left` those that it left in order.
    """

    def __init__(self, ping_interval: float = 5.0, ping_misses: int = 3) -> None:
        self.timing = st.StreamTiming(ping_interval_ms=int(ping_interval * 1_000), ping_misses=ping_misses)
        self.folder = tempfile.mkdtemp(prefix="cgh-", dir="/tmp")
        self.endpoint = f"unix://{self.folder}/control.sock"
        self.hellos: list[hk.HookHello] = []
        self.verdicts: list[hk.HookVerdict] = []
        self.more_time: list[hk.NeedMoreTime] = []
        self.order: list[str] = []
        self.pings = 0
        self.pongs = 0
        self.closed = 0
        self.left = 0
        self.refuse = False
        self.mute = False
        self.answer_pings = True
        self._call: Any = None
        self._news = asyncio.Event()

    async def ConnectHook(self, requests: Any, call: Any) -> None:
        hello = await call.read()
        welcome = hk.HookWelcome(timing=self.timing)
        for one in hello.hello.hooks:
            error = er.RpcError(message="not today") if self.refuse else None
            welcome.registered.append(hk.HookRegistered(hook_id=one.hook_id, error=error))
        if not self.mute:
            await call.write(hk.ConnectHookResponse(welcome=welcome))
        self._call = call
        self.hellos.append(hello.hello)
        self._news.set()
        while (message := await call.read()) is not grpc.aio.EOF:
            self.order += [body for body in (message.WhichOneof("body"),) if body in ("verdict", "need_more_time")]
            if message.HasField("need_more_time"):
                self.more_time.append(message.need_more_time)
            if message.HasField("verdict"):
                self.verdicts.append(message.verdict)
            if message.HasField("ping") and self.answer_pings and not self.mute:
                await call.write(hk.ConnectHookResponse(pong=st.Pong(nonce=message.ping.nonce)))
            self.pings += message.HasField("ping")
            self.pongs += message.HasField("pong")
            self.left += message.HasField("leave")
            self._news.set()
        self.closed += 1
        self._news.set()

    async def ask(self, name: str, timeout_ms: int = 5_000, **invocation: Any) -> None:
        """Asks, or only tells with 0 ms."""
        await self.until(lambda: self.hellos)
        asked = hk.HookInvocation(invocation_id=name, timeout_ms=timeout_ms, **invocation)
        await self.say(invocation=asked)

    async def take_back(self, name: str) -> None:
        await self.say(invocation_cancelled=hk.InvocationCancelled(invocation_id=name))

    async def go_away(self, reason: Any = st.GO_AWAY_REASON_SHUTDOWN, **fields: int) -> None:
        await self.say(go_away=st.GoAway(reason=reason, **fields))

    async def say(self, **body: Any) -> None:
        """Says something on the newest stream."""
        await self._wire.run(self._call.write(hk.ConnectHookResponse(**body)))

    async def until(self, condition: Any) -> None:
        """Returns when something is so; looks again after every message."""
        await self._wire.run(asyncio.wait_for(self._until(condition), 10.0))

    async def _until(self, condition: Any) -> None:
        while not condition():
            self._news.clear()
            await self._news.wait()

    async def __aenter__(self) -> HookServer:
        self._wire = WireLoop.acquire()
        await self._wire.run(self._listen())
        return self

    async def _listen(self) -> None:
        self._server = grpc.aio.server()
        add: Any = hk_rpc.add_HookServiceServicer_to_server
        add(self, self._server)
        self._server.add_insecure_port(self.endpoint.replace("unix://", "unix:"))
        await self._server.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._wire.run(self._server.stop(grace=0))
        await asyncio.to_thread(self._wire.release)
        shutil.rmtree(self.folder, ignore_errors=True)
