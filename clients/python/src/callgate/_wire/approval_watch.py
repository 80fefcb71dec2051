"""Reads `WatchApprovals` across lost streams. Confined to the wire's loop.

Never loses an update and never passes one on twice: where the watch stands is what
its reader has received, not what has been read here.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import grpc

from .. import errors
from .._gen.callgate.v1 import approval_service_pb2 as av
from .._gen.callgate.v1 import approval_service_pb2_grpc as av_rpc
from ..approval import Approval, ApprovalUpdate
from ..backoff import Backoff, BackoffState
from . import convert_approvals
from .channel import EOF, SharedChannel
from .status import from_grpc

log = logging.getLogger("callgate")

# The sidecar says something every 15 s; a stream that is silent for three times that is dead.
SILENCE_SECONDS = 45.0
EXPIRED = "cursor_expired"

_TRANSIENT = (errors.ConnectionLost, errors.Unavailable, errors.LimitExceeded, errors.DeadlineExceeded)


class WatchReader:
    """One watch, from stream to stream.

    Args:
        give_up_after: Seconds that the sidecar may stay away. None: for ever.
    """

    def __init__(
        self,
        channel: SharedChannel,
        backoff: Backoff,
        give_up_after: float | None,
        wanted: av.ApprovalFilter,
        after_cursor: str,
    ) -> None:
        self._channel = channel
        self._backoff = BackoffState(backoff)
        self._give_up_after = give_up_after
        self._filter = wanted
        self._began_after = after_cursor
        self._cursor = after_cursor
        self._given: ApprovalUpdate | None = None
        self._call: Any = None
        self._in_snapshot = False
        self._snapshot: list[Approval] = []
        self._away_since: float | None = None
        self._closing = asyncio.Event()

    def close(self) -> None:
        """Ends the stream, and a `next` that waits."""
        self._closing.set()
        self._drop()

    async def next(self, seen: ApprovalUpdate | None) -> ApprovalUpdate:
        """The update after `seen`, which is the one that was returned last unless it was lost on its way."""
        if seen is not self._given:
            self._drop()
            self._given = seen
            self._cursor = self._began_after if seen is None else seen.cursor
        while True:
            self._check_open()
            try:
                update = await self._read()
            except (grpc.RpcError, errors.CallgateError) as error:
                self._drop()
                self._check_open()
                failure = error if isinstance(error, errors.CallgateError) else from_grpc(error)
                await self._recover(failure)
            except BaseException:
                # Whoever waited has gone; the next one opens a stream of its own.
                self._drop()
                raise
            else:
                if update is not None:
                    self._given = update
                    return update

    def _check_open(self) -> None:
        if self._closing.is_set():
            raise errors.ClientClosed("the watch was closed")

    async def _read(self) -> ApprovalUpdate | None:
        """One message; None if it says nothing yet."""
        if self._call is None:
            stub: Any = av_rpc.ApprovalServiceStub(self._channel.get())
            request = av.WatchApprovalsRequest(filter=self._filter, after_cursor=self._cursor)
            self._call = stub.WatchApprovals(request, metadata=self._channel.dialer.metadata())
            self._in_snapshot = not self._cursor
            self._snapshot = []
        message = await self._message(self._call)
        self._away_since = None
        self._backoff.ready_once()
        return self._take(message)

    async def _message(self, call: Any) -> av.WatchApprovalsResponse:
        reading = asyncio.ensure_future(call.read())
        closing = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait([reading, closing], timeout=SILENCE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            if not reading.done():
                reading.cancel()
        self._check_open()
        if not reading.done() or reading.cancelled():
            raise errors.ConnectionLost(f"nothing came for {SILENCE_SECONDS:g} s")
        message = reading.result()
        if message is EOF:
            raise errors.ConnectionLost("the sidecar ended the watch")
        return message

    def _take(self, message: av.WatchApprovalsResponse) -> ApprovalUpdate | None:
        approvals = tuple(convert_approvals.approval(item) for item in message.approvals)
        if self._in_snapshot:
            # A snapshot is all or nothing: one that was cut is read from its beginning.
            self._snapshot.extend(approvals)
            if not message.snapshot_complete:
                return None
            self._in_snapshot = False
            approvals, self._snapshot = tuple(self._snapshot), []
            self._cursor = message.cursor or self._cursor
            return ApprovalUpdate(approvals, True, self._cursor)
        self._cursor = message.cursor or self._cursor
        return ApprovalUpdate(approvals, False, self._cursor) if approvals else None

    def _drop(self) -> None:
        call, self._call = self._call, None
        if call is not None:
            call.cancel()

    async def _recover(self, failure: errors.CallgateError) -> None:
        """Returns when another try may help, and raises if none can."""
        if failure.code == EXPIRED and self._cursor:
            log.info("the watch of approvals begins anew: %s", failure)
            self._cursor = self._began_after = ""
            return
        if not isinstance(failure, _TRANSIENT):
            raise failure
        now = asyncio.get_running_loop().time()
        self._away_since = now if self._away_since is None else self._away_since
        if self._give_up_after is not None and now - self._away_since >= self._give_up_after:
            self._away_since = None
            raise failure
        log.info("the watch of approvals ended: %s", failure)
        wait = max(self._backoff.lost(), failure.retry_after or 0.0)
        waiting = asyncio.ensure_future(self._closing.wait())
        try:
            await asyncio.wait([waiting], timeout=wait)
        finally:
            waiting.cancel()
