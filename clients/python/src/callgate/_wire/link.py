"""How one client reaches the sidecar: the wire's loop and a channel, both begun with first use.

Does not survive a fork, and says so.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections.abc import Callable, Coroutine
from typing import Any

from .. import errors
from .channel import Dialer
from .loop import WireLoop

_links: weakref.WeakSet[Link] = weakref.WeakSet()


class Link:
    """One client's use of the wire. May be used from any thread and any loop.

    `timeout` is in seconds, for one answer.
    """

    def __init__(self, dialer: Dialer, timeout: float) -> None:
        self.dialer = dialer
        self.channel = dialer.shared()
        self.timeout = timeout
        self.lock = threading.Lock()
        self.closed = False
        self.forked = False
        self.wire: WireLoop | None = None
        _links.add(self)

    def open(self) -> WireLoop:
        """The wire, started if need be.

        Raises:
            ClientForked, ClientClosed: It cannot be used here any more.
        """
        if self.forked:
            raise errors.ClientForked(
                "this client was started before the process forked; make one in the child "
                "(for a pre-fork server: in its post-fork hook)"
            )
        if self.closed:
            raise errors.ClientClosed("the client is closed")
        with self.lock:
            if self.wire is None:
                self.wire = WireLoop.acquire()
            return self.wire

    async def close(self, last: Callable[[], Coroutine[Any, Any, None]] | None = None) -> None:
        """Runs `last` on the wire, closes the channel and gives the wire back. May be called twice."""
        self.closed = True
        wire = self.wire
        if wire is None:
            return
        await wire.run(self._close(last))
        self.wire = None
        await asyncio.get_running_loop().run_in_executor(None, wire.release)

    async def _close(self, last: Callable[[], Coroutine[Any, Any, None]] | None) -> None:
        if last is not None:
            await last()
        await self.channel.close()

    def after_fork(self) -> None:
        """In the child."""
        if self.wire is not None:
            self.forked = True
            self.wire = None
        self.lock = threading.Lock()


def _after_fork_in_child() -> None:
    for link in list(_links):
        link.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork_in_child)
