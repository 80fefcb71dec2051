"""The stream of a hook process: opened again and again until it is told to stop.

Every question is answered exactly once, by what the handler says or by its failure;
one that is taken back is not, and neither is what is only told. Never decides anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import grpc
import grpc.aio

from .. import errors
from .._gen.callgate.v1 import hook_service_pb2 as hk
from .._gen.callgate.v1 import hook_service_pb2_grpc as hk_rpc
from .._gen.callgate.v1 import stream_pb2 as st
from .._version import __version__
from ..backoff import Backoff, BackoffState
from ..hook import HookSpec
from ..hook_points import ApprovalRequested, HookQuestion
from ..hook_runner import HookFailed, HookSaid
from . import convert, convert_hooks
from .channel import EOF, MESSAGE_BYTES_MAX, Dialer
from .status import from_grpc

log = logging.getLogger("callgate")

_FATAL = (errors.Unauthenticated, errors.PermissionDenied, errors.ProtocolError, errors.InvalidRequest)

Answer = Callable[[HookQuestion], Awaitable[HookSaid]]


class HookStream:
    """Keeps one hook process connected. Confined to the wire's loop."""

    def __init__(
        self,
        dialer: Dialer,
        specs: Sequence[HookSpec],
        answer: Answer,
        *,
        instance_id: str,
        max_concurrency: int,
        backoff: Backoff,
    ) -> None:
        self._dialer = dialer
        self._specs = specs
        self._answer = answer
        self._instance_id = instance_id
        self._max_concurrency = max_concurrency
        self._backoff = BackoffState(backoff)
        self._ready = asyncio.Event()
        self._closing = asyncio.Event()
        self._was_ready = False
        self._asked: dict[str, asyncio.Task[None]] = {}
        self._out: asyncio.Queue[hk.ConnectHookRequest] = asyncio.Queue()

    async def wait_ready(self) -> None:
        """Returns when the sidecar has taken the hooks."""
        await self._ready.wait()

    def close(self) -> None:
        """Takes the hooks along, and does not come back."""
        self._closing.set()

    async def run(self) -> None:
        """Connects again and again. Returns after `close`.

        Raises:
            CallgateError: A hook was refused, or another try cannot help.
        """
        while not self._closing.is_set():
            wait = await self._attempt()
            if self._closing.is_set():
                return
            try:
                await asyncio.wait_for(self._closing.wait(), wait)
            except asyncio.TimeoutError:
                continue

    async def _attempt(self) -> float:
        try:
            async with self._dialer.open() as channel:
                stub: Any = hk_rpc.HookServiceStub(channel)
                await self._serve(stub.ConnectHook(metadata=self._dialer.metadata()))
        except (grpc.RpcError, asyncio.InvalidStateError, errors.CallgateError) as error:
            failure = error if isinstance(error, errors.CallgateError) else from_grpc(error)
            if not self._closing.is_set() and not self._was_ready and isinstance(failure, _FATAL):
                raise failure from error
            if not self._closing.is_set():
                log.info("the hook stream ended: %s", failure)
        finally:
            self._ready.clear()
            asked, self._asked = self._asked, {}
            for task in asked.values():
                task.cancel()
        return self._backoff.lost()

    async def _serve(self, call: Any) -> None:
        self._out = asyncio.Queue()
        await call.write(hk.ConnectHookRequest(hello=self._hello()))
        interval, _ = await self._read_welcome(call)
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._write(call)),
            asyncio.ensure_future(self._read(call)),
            asyncio.ensure_future(self._ping(interval)),
        ]
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait([*tasks, closing], return_when=asyncio.FIRST_COMPLETED)
            if self._closing.is_set():
                # In order: the sidecar unregisters the hooks.
                tasks[0].cancel()
                await asyncio.wait([tasks[0]])
                await call.write(hk.ConnectHookRequest(leave=hk.HookLeave()))
                await call.done_writing()
                await asyncio.wait([tasks[1]], timeout=2.0)
                return
            for task in tasks:
                if task.done() and not task.cancelled() and (error := task.exception()) is not None:
                    raise error
        finally:
            for task in (*tasks, closing):
                task.cancel()
            call.cancel()

    def _hello(self) -> hk.HookHello:
        return hk.HookHello(
            hooks=[convert_hooks.registration(spec) for spec in self._specs],
            instance_id=self._instance_id,
            max_message_bytes=MESSAGE_BYTES_MAX,
            max_concurrent_invocations=self._max_concurrency,
            sdk=st.Sdk(name="callgate-python", version=__version__, language="python"),
        )

    async def _read_welcome(self, call: Any) -> tuple[float, int]:
        message = await call.read()
        if message is EOF:
            raise from_grpc(await _end_of(call))
        if message.WhichOneof("body") != "welcome":
            raise errors.ProtocolError("the sidecar did not begin with a welcome")
        refused = [item for item in message.welcome.registered if item.HasField("error")]
        if refused and not self._was_ready:
            what = ", ".join(f"`{item.hook_id}`: {item.error.message}" for item in refused)
            raise errors.InvalidRequest(f"the sidecar refused {what}")
        for item in refused:
            log.error("the sidecar refused the hook %s: %s", item.hook_id, item.error.message)
        self._was_ready = True
        self._backoff.ready()
        self._ready.set()
        return convert.timing_of(message.welcome.timing)

    async def _write(self, call: Any) -> None:
        while True:
            await call.write(await self._out.get())

    async def _ping(self, interval: float) -> None:
        nonce = 0
        while True:
            await asyncio.sleep(interval)
            nonce += 1
            self._out.put_nowait(hk.ConnectHookRequest(ping=st.Ping(nonce=nonce)))

    async def _read(self, call: Any) -> None:
        while (message := await call.read()) is not EOF:
            body = message.WhichOneof("body")
            if body == "invocation":
                self._take(message.invocation)
            elif body == "invocation_cancelled":
                task = self._asked.pop(message.invocation_cancelled.invocation_id, None)
                if task is not None:
                    task.cancel()
            elif body == "ping":
                self._out.put_nowait(hk.ConnectHookRequest(pong=st.Pong(nonce=message.ping.nonce)))
            elif body == "notice":
                log.info("the sidecar ignored a message: %s", message.notice.message)

    def _take(self, invocation: hk.HookInvocation) -> None:
        task = asyncio.ensure_future(self._handle(invocation))
        self._asked[invocation.invocation_id] = task

    async def _handle(self, invocation: hk.HookInvocation) -> None:
        name = invocation.invocation_id
        # Who is only told answers to nobody.
        is_awaited = invocation.timeout_ms > 0
        verdict: hk.HookVerdict | None = None
        try:
            asked = convert_hooks.question(invocation)
            if asked is None:
                raise LookupError("this SDK does not know that point")
            said = await self._answer(asked)
            if is_awaited:
                digest = asked.approval.digest if isinstance(asked, ApprovalRequested) else b""
                verdict = convert_hooks.verdict(name, said, digest)
        except asyncio.CancelledError as error:
            if name not in self._asked:
                raise  # Taken back.
            log.warning("the hook %s cancelled itself", invocation.hook_id)
            verdict = convert_hooks.failure(name, HookFailed.of(error))
        except BaseException as error:
            # Of this package, or of what a handler said: it cannot be sent.
            log.exception("the hook %s failed", invocation.hook_id)
            verdict = convert_hooks.failure(name, HookFailed.of(error))
        finally:
            self._asked.pop(name, None)
        if verdict is not None and is_awaited:
            self._out.put_nowait(hk.ConnectHookRequest(verdict=verdict))


async def _end_of(call: Any) -> Any:
    return grpc.aio.AioRpcError(
        await call.code(),
        grpc.aio.Metadata(),
        await call.trailing_metadata() or grpc.aio.Metadata(),
        details=await call.details(),
    )
