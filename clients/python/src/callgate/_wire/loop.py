"""The event loop that carries all traffic of a process, on a thread of its own.

One for all clients of the process, because grpc's asyncio support wakes every
loop that uses it for every event. Made when the first client starts, ended when
the last one closes. Never survives a fork: the child gets a new one.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, TypeVar

T = TypeVar("T")

_JOIN_SECONDS = 5.0


class WireLoop:
    """A running event loop. All methods may be called from any thread."""

    _lock: ClassVar[threading.Lock] = threading.Lock()
    _shared: ClassVar[WireLoop | None] = None

    def __init__(self) -> None:
        self._users = 0
        # Not the policy's: whatever loop the user prefers, grpc's asyncio support is at home on this one.
        self.loop = asyncio.new_event_loop() if sys.platform == "win32" else asyncio.SelectorEventLoop()
        quieten(self.loop)
        self._thread = threading.Thread(target=self._run, name="callgate-wire", daemon=True)
        self._thread.start()

    @classmethod
    def acquire(cls) -> WireLoop:
        """The loop of this process. Give it back with `release`."""
        with cls._lock:
            if cls._shared is None:
                cls._shared = cls()
            cls._shared._users += 1
            return cls._shared

    def release(self) -> None:
        """Ends the loop when nobody uses it any more. Must not be called on the loop itself."""
        with WireLoop._lock:
            self._users -= 1
            if self._users > 0:
                return
            if WireLoop._shared is self:
                WireLoop._shared = None
        self._stop()

    def submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Starts a coroutine on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def post(self, action: Callable[[], None]) -> None:
        """Runs something on the loop, soon. A loop that has ended has nothing left to run it on."""
        try:
            self.loop.call_soon_threadsafe(action)
        except RuntimeError:
            return

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Awaits a coroutine that runs on the loop. Cancelling this cancels it."""
        if asyncio.get_running_loop() is self.loop:
            return await work
        return await asyncio.wrap_future(self.submit(work))

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        pending = asyncio.all_tasks(self.loop)
        for task in pending:
            task.cancel()
        if pending:
            self.loop.run_until_complete(asyncio.wait(pending, timeout=1.0))
        self.loop.close()

    def _stop(self) -> None:
        try:
            self.loop.call_soon_threadsafe(self.loop.stop)
        except RuntimeError:
            return
        if threading.current_thread() is not self._thread:
            self._thread.join(_JOIN_SECONDS)


def quieten(loop: asyncio.AbstractEventLoop) -> None:
    """Keeps to itself what grpc does to a loop of ours when there is another. Never for a loop of the user's."""
    loop.set_exception_handler(_handle)


def _handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    # A program that uses grpc.aio on a loop of its own shares grpc's wake-up
    # socket with this one; the loop that comes second finds it empty.
    if isinstance(context.get("exception"), BlockingIOError):
        return
    loop.default_exception_handler(context)


def _after_fork() -> None:
    WireLoop._lock = threading.Lock()
    WireLoop._shared = None


def _at_exit() -> None:
    shared = WireLoop._shared
    if shared is not None:
        shared._stop()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
