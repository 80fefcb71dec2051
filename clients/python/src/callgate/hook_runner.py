"""Runs the handler of a hook, and says what came of it.

Nothing that a handler raises gets further than its answer: a SystemExit would end the
loop or the thread that it reached. Never answers anything itself.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
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


def run_sync(handler: Callable[[Any], Any], asked: HookQuestion) -> HookSaid:
    """Asks a `def` handler on this thread. Raises nothing."""
    try:
        return answer_of(asked.point, handler(asked))
    except BaseException as error:  # noqa: BLE001 - a handler's SystemExit is its failure, not ours
        return _failed(asked, error)


async def run_async(handler: Callable[[Any], Any], asked: HookQuestion) -> HookSaid:
    """Asks an `async def` handler on this loop. Raises nothing but what cancels the task."""
    try:
        return answer_of(asked.point, await handler(asked))
    except asyncio.CancelledError:
        raise
    except BaseException as error:  # noqa: BLE001 - a SystemExit would end the user's event loop
        return _failed(asked, error)


def _failed(asked: HookQuestion, error: BaseException) -> HookFailed:
    log.error("the hook %s failed", asked.hook_id, exc_info=error)
    return HookFailed.of(error)
