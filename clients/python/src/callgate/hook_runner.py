"""Runs the handler of a hook, and says what came of it.

Most of what a hook costs is the way to its handler and back: one turn of each loop, with no
future between them, and of one loop only where the stream lives on the handlers'. Nothing
that a handler raises gets further than its answer: a SystemExit would end the loop or the
thread that it reached. Never answers anything itself.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from .hook_points import HookAnswer, HookQuestion, answer_of
from .result import clean, text_of

log = logging.getLogger("callgate")


@dataclass(frozen=True, slots=True)
class HookFailed:
    """A handler raised, or said something that its point has no meaning for. For people."""

    message: str

    @classmethod
    def of(cls, error: BaseException) -> HookFailed:
        """With the kind of the error, and its text where it has one that can be read."""
        return cls(clean(f"{type(error).__name__}: {text_of(error)}")[0])


HookSaid = HookAnswer | HookFailed


class Asking:
    """One question on its way to its handler and back.

    `wire` is the loop of the stream. `answer` is called once, there; not at all once it was cancelled.
    """

    def __init__(
        self,
        handler: Callable[[Any], Any],
        asked: HookQuestion,
        answer: Callable[[HookSaid], None],
        wire: asyncio.AbstractEventLoop,
    ) -> None:
        self._handler = handler
        self._asked = asked
        # None: it is over. Written on the wire's loop only, and let go there: an error that its raiser
        # keeps must not keep the stream.
        self._answer: Callable[[HookSaid], None] | None = answer
        self._wire = wire
        self._home: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._thread: Future[None] | None = None

    def on_loop(self, home: asyncio.AbstractEventLoop) -> None:
        """Begins an `async def` handler there. On the wire's loop."""
        self._home = home
        if home is self._wire:
            self._begin()
            return
        try:
            home.call_soon_threadsafe(self._begin)
        except RuntimeError as error:
            self._deliver_soon(_failed(self._asked, error))

    def on_thread(self, threads: ThreadPoolExecutor) -> None:
        """Begins a `def` handler there. On the wire's loop."""
        try:
            self._thread = threads.submit(self._run_sync)
        except RuntimeError as error:
            self._deliver_soon(_failed(self._asked, error))

    def cancel(self) -> None:
        """Nobody waits for the answer any more. A handler on a thread runs on. On the wire's loop."""
        if self._answer is None:
            return
        self._answer = None
        if self._thread is not None:
            self._thread.cancel()
        if self._home is not None:
            with contextlib.suppress(RuntimeError):
                # Behind _begin in the same queue, so the task exists by then.
                self._home.call_soon_threadsafe(self._stop)

    def _begin(self) -> None:
        """On the handlers' loop."""
        if self._answer is not None:
            self._task = asyncio.get_running_loop().create_task(self._run_async())
            self._task.add_done_callback(self._note_cancelled)

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _run_sync(self) -> None:
        """On a thread."""
        asked = self._asked
        try:
            said: HookSaid = answer_of(asked.point, self._handler(asked))
        except BaseException as error:  # noqa: BLE001 - a handler's SystemExit is its failure, not ours
            said = _failed(asked, error)
        self._deliver_soon(said)

    async def _run_async(self) -> None:
        asked = self._asked
        try:
            said: HookSaid = answer_of(asked.point, await self._handler(asked))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # noqa: BLE001 - a SystemExit would end the user's event loop
            said = _failed(asked, error)
        if self._home is self._wire:
            self._deliver(said)
        else:
            self._deliver_soon(said)

    def _note_cancelled(self, task: asyncio.Task[None]) -> None:
        # Of one that was asked for, nobody hears.
        if task.cancelled() and self._answer is not None:
            self._deliver_soon(_failed(self._asked, asyncio.CancelledError()))

    def _deliver_soon(self, said: HookSaid) -> None:
        with contextlib.suppress(RuntimeError):
            # A loop that has ended has nobody who waits.
            self._wire.call_soon_threadsafe(self._deliver, said)

    def _deliver(self, said: HookSaid) -> None:
        answer, self._answer = self._answer, None
        if answer is not None:
            answer(said)


def _failed(asked: HookQuestion, error: BaseException) -> HookFailed:
    log.error("the hook %s failed", asked.hook_id, exc_info=error)
    return HookFailed.of(error)
