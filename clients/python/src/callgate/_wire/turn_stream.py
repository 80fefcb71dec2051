"""Carries turns: many over one `StreamTurns`, or each over an rpc of its own.

A turn outlives its stream. Whatever carries it takes it up again after a loss,
behind the last event that was seen, and passes no event on twice. A turn that
was never seen to be accepted is sent again as it was: its id makes that safe.
Confined to the wire's loop, except for the two `TurnSource`s.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio

from .. import errors
from .._gen.callgate.v1 import stream_pb2 as st
from .._gen.callgate.v1 import turn_service_pb2 as tu
from .._gen.callgate.v1 import turn_service_pb2_grpc as tu_rpc
from ..backoff import Backoff, BackoffState
from ..turns import OnSuspend, TurnCompleted, TurnEvent, TurnFeed, TurnSnapshot, TurnSuspended
from . import convert_turns
from .channel import EOF, Dialer, SharedChannel
from .loop import WireLoop
from .status import from_grpc, from_message

log = logging.getLogger("callgate")

REQUEST_BYTES_MAX = 4 * 1024 * 1024
CANCEL_TRIES = 3
CANCEL_SECONDS = 5.0

# Another try may help; everything else is the answer.
_TRANSIENT = (errors.ConnectionLost, errors.Unavailable, errors.LimitExceeded, errors.Superseded)


def too_large(request: tu.RunTurnRequest) -> errors.LimitExceeded | None:
    """What is wrong with a request that no sidecar takes.

    Found here, because on a shared stream it would end the turns of others, again
    and again.
    """
    size = request.ByteSize()
    if size <= REQUEST_BYTES_MAX:
        return None
    return errors.LimitExceeded(
        f"the turn has {size} bytes, at most {REQUEST_BYTES_MAX} are allowed",
        limit=errors.LimitViolation("message_bytes_max", REQUEST_BYTES_MAX, size),
    )


class TurnReader:
    """Where the reading of one turn stands. Survives every stream."""

    def __init__(self, turn_id: str, *, epoch: int = 0, after_sequence: int = 0) -> None:
        self.turn_id = turn_id
        self.epoch = epoch
        self.last_sequence = after_sequence
        self.accepted = after_sequence > 0 or epoch > 0
        self.completed = False
        self.awaited: tuple[str, ...] | None = None

    def take(self, message: tu.TurnEvents) -> list[TurnEvent]:
        """The events that were not seen yet."""
        if self.epoch and message.epoch < self.epoch:
            return []
        if message.epoch != self.epoch:
            if self.epoch:
                self.last_sequence = 0
            self.epoch = message.epoch
        self.accepted = True
        events: list[TurnEvent] = []
        if message.HasField("snapshot"):
            info = convert_turns.turn_info(message.snapshot)
            events.append(TurnSnapshot(self.turn_id, self.epoch, 0, info.updated_at_ms, info))
            waiting = tuple(call.approval_id for call in info.calls if call.state == "awaiting_approval")
            self.awaited = waiting if info.state == "suspended" else None
        for item in message.events:
            if item.sequence:
                if item.sequence <= self.last_sequence:
                    continue
                self.last_sequence = item.sequence
            event = convert_turns.turn_event(self.turn_id, self.epoch, item)
            if event is not None:
                events.append(event)
            if item.sequence:
                # Where the turn stands is what its last kept event says.
                self.awaited = event.approval_ids if isinstance(event, TurnSuspended) else None
            self.completed = self.completed or isinstance(event, TurnCompleted)
        if message.HasField("snapshot") and message.snapshot.HasField("completed") and not self.completed:
            # The end itself is among the events that are no longer kept.
            self.completed = True
            self.last_sequence = max(self.last_sequence, message.snapshot.last_sequence)
            result = convert_turns.turn_result(self.turn_id, message.snapshot.completed)
            events.append(
                TurnCompleted(self.turn_id, self.epoch, self.last_sequence, message.snapshot.updated_at_ms, result)
            )
        return events

    def start_again(self) -> None:
        """Forgets where the reader stands: the turn was lost with a process and begins anew.

        The sidecar records what must not run twice before it is sent, so a turn that it does not know
        has sent nothing of that kind.
        """
        self.epoch = 0
        self.last_sequence = 0
        self.accepted = False
        self.awaited = None

    def suspended(self) -> errors.Suspended | None:
        """What a stream that ended means, if only people are awaited now."""
        if self.awaited is None:
            return None
        message = f"turn {self.turn_id!a} waits for people; attach_turn takes it up"
        return errors.Suspended(message, turn_id=self.turn_id, approval_ids=self.awaited)

    def attach_request(self, session_id: str, view: tu.TurnView, on_suspend: tu.OnSuspend) -> tu.AttachTurnRequest:
        """Takes the turn up where this reader stands."""
        return tu.AttachTurnRequest(
            turn_id=self.turn_id,
            session_id=session_id,
            epoch=self.epoch,
            after_sequence=self.last_sequence,
            view=view,
            on_suspend=on_suspend,
        )


@dataclass(slots=True)
class _Entry:
    """A turn on the shared stream. `away_since` is when its stream was lost; None: it has one."""

    request: tu.RunTurnRequest
    reader: TurnReader
    feed: TurnFeed
    away_since: float | None


@dataclass(slots=True)
class _Stream:
    call: Any
    outbox: deque[tu.StreamTurnsRequest] = field(default_factory=deque)
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    leaving: asyncio.Event = field(default_factory=asyncio.Event)
    wait: float | None = None

    def say(self, message: tu.StreamTurnsRequest) -> None:
        self.outbox.append(message)
        self.wake.set()


class TurnMux:
    """All turns of one client over one long stream.

    Args:
        give_up_after: A turn whose stream is away for longer fails with
            `ConnectionLost`, in seconds. The turn itself goes on.
    """

    def __init__(self, dialer: Dialer, backoff: Backoff, give_up_after: float) -> None:
        self._dialer = dialer
        self._backoff = BackoffState(backoff)
        self._give_up_after = give_up_after
        self._turns: dict[str, _Entry] = {}
        self._stream: _Stream | None = None
        self._task: asyncio.Task[None] | None = None
        self._wanted = asyncio.Event()

    def run_turn(self, request: tu.RunTurnRequest, feed: TurnFeed) -> None:
        """Begins a turn."""
        if (problem := too_large(request)) is not None:
            feed.fail(problem)
            return
        if request.turn_id in self._turns:
            # No conflict of the sidecar's: the turn is well, only its events have a reader.
            message = f"this client follows turn {request.turn_id!a} already; await that `Turn`, or attach_turn"
            feed.fail(errors.Conflict(message, code="turn_already_followed"))
            return
        now = asyncio.get_running_loop().time()
        entry = _Entry(request, TurnReader(request.turn_id), feed, now)
        self._turns[request.turn_id] = entry
        self._wanted.set()
        if self._stream is not None:
            self._ask(self._stream, entry)
        if self._task is None:
            self._task = asyncio.ensure_future(self._serve())

    def detach(self, turn_id: str) -> None:
        """Wants no more events of a turn."""
        if self._turns.pop(turn_id, None) is not None and self._stream is not None:
            self._stream.say(tu.StreamTurnsRequest(detach=tu.DetachTurn(turn_id=turn_id)))

    async def close(self) -> None:
        """Ends the stream. Turns go on; their readers are told that the client is closed."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._fail_all(errors.ClientClosed("the client was closed; the turn goes on"))

    async def _serve(self) -> None:
        async with self._dialer.open() as channel:
            while True:
                await self._wanted.wait()
                try:
                    wait = await self._attempt(channel)
                except Exception as error:
                    # A fault of this package must not leave anybody waiting for ever.
                    log.exception("the stream of turns failed")
                    self._fail_all(errors.CallgateError(f"the stream of turns failed: {error}"))
                    wait = self._backoff.lost()
                if not self._turns:
                    self._wanted.clear()
                await asyncio.sleep(wait)

    async def _attempt(self, channel: grpc.aio.Channel) -> float:
        """One stream, from its opening to its end. Returns how long to wait before the next."""
        stream: _Stream | None = None
        try:
            stub: Any = tu_rpc.TurnServiceStub(channel)
            stream = _Stream(stub.StreamTurns(metadata=self._dialer.metadata()))
            self._stream = stream
            for entry in self._turns.values():
                self._ask(stream, entry)
            await self._carry(stream)
        except (grpc.RpcError, asyncio.InvalidStateError, errors.CallgateError) as error:
            failure = error if isinstance(error, errors.CallgateError) else from_grpc(error)
            log.info("the stream of turns ended: %s", failure)
            if not isinstance(failure, _TRANSIENT):
                self._fail_all(failure)
        finally:
            self._stream = None
            if stream is not None:
                stream.call.cancel()
        now = asyncio.get_running_loop().time()
        for turn_id, entry in list(self._turns.items()):
            if entry.away_since is None:
                entry.away_since = now
            elif now - entry.away_since >= self._give_up_after:
                del self._turns[turn_id]
                entry.feed.fail(errors.ConnectionLost("the sidecar cannot be reached; the turn may go on"))
        wait = self._backoff.lost()
        return wait if stream is None or stream.wait is None else stream.wait

    async def _carry(self, stream: _Stream) -> None:
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._read(stream)),
            asyncio.ensure_future(self._write(stream)),
            asyncio.ensure_future(stream.leaving.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if tasks[1].done() and not tasks[0].done():
                # Only the reader learns why a stream ended.
                await asyncio.wait(tasks[:1], timeout=1.0)
            if tasks[0].done():
                tasks[0].result()
            elif tasks[1].done():
                raise errors.ConnectionLost("the stream of turns cannot be written to")
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, stream: _Stream) -> None:
        while (message := await stream.call.read()) is not EOF:
            self._backoff.ready_once()
            self._take(stream, message)
        code = await stream.call.code()
        if code is not grpc.StatusCode.OK:
            raise grpc.aio.AioRpcError(
                code,
                await stream.call.initial_metadata(),
                await stream.call.trailing_metadata(),
                details=await stream.call.details(),
            )
        raise errors.ConnectionLost("the sidecar ended the stream of turns")

    async def _write(self, stream: _Stream) -> None:
        while True:
            while stream.outbox:
                await stream.call.write(stream.outbox.popleft())
            stream.wake.clear()
            await stream.wake.wait()

    def _ask(self, stream: _Stream, entry: _Entry) -> None:
        if entry.reader.accepted:
            request = entry.request
            attach = entry.reader.attach_request(request.session_id, request.view, request.on_suspend)
            stream.say(tu.StreamTurnsRequest(attach=attach))
        else:
            stream.say(tu.StreamTurnsRequest(run=entry.request))

    def _take(self, stream: _Stream, message: tu.StreamTurnsResponse) -> None:
        body = message.WhichOneof("body")
        if body == "turn":
            entry = self._turns.get(message.turn.turn_id)
            if entry is None:
                return
            entry.away_since = None
            events = entry.reader.take(message.turn)
            if events:
                entry.feed.put(events)
            if entry.reader.completed:
                del self._turns[message.turn.turn_id]
        elif body == "refused":
            entry = self._turns.get(message.refused.turn_id)
            if entry is None:
                return
            refusal = from_message(message.refused.error)
            if isinstance(refusal, errors.NotFound) and entry.reader.accepted:
                entry.reader.start_again()
                self._ask(stream, entry)
                return
            del self._turns[message.refused.turn_id]
            entry.feed.fail(refusal)
        elif body == "detached":
            entry = self._turns.get(message.detached.turn_id)
            if entry is None:
                return
            if message.detached.HasField("error"):
                # We were too slow; nothing is lost, the events are kept.
                self._ask(stream, entry)
            else:
                del self._turns[message.detached.turn_id]
                suspended = entry.reader.suspended()
                if suspended is not None and entry.request.on_suspend == tu.ON_SUSPEND_END:
                    entry.feed.suspend(suspended)
                else:
                    entry.feed.fail(errors.Conflict("another stream took the turn over", code="turn_taken_over"))
        elif body == "go_away":
            self._leave(stream, message.go_away)
        elif body == "notice":
            log.warning("the sidecar ignored a message: %s %s", message.notice.code, message.notice.message)

    def _leave(self, stream: _Stream, go_away: st.GoAway) -> None:
        """Moves to a new stream within the span that the sidecar named."""
        wait = random.uniform(go_away.reconnect_min_ms, max(go_away.reconnect_min_ms, go_away.reconnect_max_ms)) / 1000
        stream.wait = 0.0 if go_away.reconnect_max_ms else None
        asyncio.get_running_loop().call_later(wait, stream.leaving.set)

    def _fail_all(self, error: errors.CallgateError) -> None:
        entries, self._turns = list(self._turns.values()), {}
        for entry in entries:
            entry.feed.fail(error)


class TurnCanceller:
    """Sends CancelTurn in the background, and waits for that at the end."""

    def __init__(self, channel: SharedChannel) -> None:
        self._channel = channel
        self._tasks: set[asyncio.Task[None]] = set()

    def cancel(self, turn_id: str, session_id: str, reason: str) -> None:
        """Begins to cancel."""
        task = asyncio.ensure_future(self._send(turn_id, session_id, reason))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Waits for what was begun, bounded."""
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=CANCEL_SECONDS)

    async def _send(self, turn_id: str, session_id: str, reason: str) -> None:
        request = tu.CancelTurnRequest(turn_id=turn_id, session_id=session_id, reason=reason)
        stub: Any = tu_rpc.TurnServiceStub(self._channel.get())
        for tried in range(CANCEL_TRIES):
            metadata = self._channel.dialer.metadata()
            try:
                await stub.CancelTurn(request, metadata=metadata, timeout=CANCEL_SECONDS)
                return
            except grpc.RpcError as error:
                failure = from_grpc(error)
                if not isinstance(failure, _TRANSIENT) or tried + 1 == CANCEL_TRIES:
                    log.warning("turn %s could not be cancelled: %s", turn_id, failure)
                    return
            await asyncio.sleep(0.1 * (tried + 1))


class MuxSource:
    """A turn on the shared stream. Called from the reader's loop."""

    def __init__(self, wire: WireLoop, mux: TurnMux, canceller: TurnCanceller, request: tu.RunTurnRequest) -> None:
        self._wire = wire
        self._mux = mux
        self._canceller = canceller
        self._request = request

    def start(self, feed: TurnFeed) -> None:
        """See `turns.TurnSource`."""
        self._wire.loop.call_soon_threadsafe(self._mux.run_turn, self._request, feed)

    def cancel(self, reason: str) -> None:
        """See `turns.TurnSource`."""
        self._wire.loop.call_soon_threadsafe(
            self._canceller.cancel, self._request.turn_id, self._request.session_id, reason
        )

    def detach(self) -> None:
        """See `turns.TurnSource`."""
        self._wire.loop.call_soon_threadsafe(self._mux.detach, self._request.turn_id)


class RpcTurns:
    """The turns of one client that are read over rpcs of their own."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Reads a turn."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        """Ends the reading of them all. The turns go on."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class RpcSource:
    """A turn on rpcs of its own: RunTurn, or AttachTurn alone, then AttachTurn after each loss."""

    def __init__(
        self,
        wire: WireLoop,
        channel: SharedChannel,
        turns: RpcTurns,
        canceller: TurnCanceller,
        backoff: Backoff,
        give_up_after: float,
        reader: TurnReader,
        *,
        session_id: str,
        view: tu.TurnView,
        on_suspend: OnSuspend,
        request: tu.RunTurnRequest | None,
    ) -> None:
        self._wire = wire
        self._channel = channel
        self._turns = turns
        self._canceller = canceller
        self._backoff = BackoffState(backoff)
        self._give_up_after = give_up_after
        self._reader = reader
        self._session_id = session_id
        self._view = view
        self._on_suspend = convert_turns.ON_SUSPEND[on_suspend]
        self._request = request
        self._task: asyncio.Task[None] | None = None

    def start(self, feed: TurnFeed) -> None:
        """See `turns.TurnSource`."""
        self._wire.loop.call_soon_threadsafe(self._begin, feed)

    def cancel(self, reason: str) -> None:
        """See `turns.TurnSource`."""
        self._wire.loop.call_soon_threadsafe(self._canceller.cancel, self._reader.turn_id, self._session_id, reason)

    def detach(self) -> None:
        """See `turns.TurnSource`."""
        self._wire.loop.call_soon_threadsafe(self._end)

    def _begin(self, feed: TurnFeed) -> None:
        if self._request is not None and (problem := too_large(self._request)) is not None:
            feed.fail(problem)
            return
        self._task = self._turns.begin(self._carry(feed))

    def _end(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _carry(self, feed: TurnFeed) -> None:
        try:
            await self._read_to_the_end(feed)
        except errors.CallgateError as error:
            feed.fail(error)
        except asyncio.CancelledError:
            feed.fail(errors.ClientClosed("this turn is no longer read here; it goes on"))
            raise
        except Exception as error:
            log.exception("the stream of a turn failed")
            feed.fail(errors.CallgateError(f"the stream of the turn failed: {error}"))

    async def _read_to_the_end(self, feed: TurnFeed) -> None:
        loop = asyncio.get_running_loop()
        away_since: float | None = None
        while not self._reader.completed:
            try:
                async for message in self._open():
                    away_since = None
                    self._backoff.ready_once()
                    events = self._reader.take(message.turn)
                    if events:
                        feed.put(events)
                suspended = self._reader.suspended()
                if suspended is not None and self._on_suspend == tu.ON_SUSPEND_END:
                    feed.suspend(suspended)
                    return
                failure: errors.CallgateError = errors.ConnectionLost("the stream of the turn ended")
            except grpc.RpcError as error:
                failure = from_grpc(error)
            if self._reader.completed:
                return
            if isinstance(failure, errors.NotFound) and self._reader.accepted and self._request is not None:
                self._reader.start_again()
                continue
            away_since = loop.time() if away_since is None else away_since
            if not isinstance(failure, _TRANSIENT) or loop.time() - away_since >= self._give_up_after:
                raise failure
            await asyncio.sleep(self._backoff.lost())

    def _open(self) -> Any:
        stub: Any = tu_rpc.TurnServiceStub(self._channel.get())
        metadata = self._channel.dialer.metadata()
        if self._request is not None and not self._reader.accepted:
            return stub.RunTurn(self._request, metadata=metadata)
        attach = self._reader.attach_request(self._session_id, self._view, self._on_suspend)
        return stub.AttachTurn(attach, metadata=metadata)
