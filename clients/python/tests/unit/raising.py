"""What handlers may raise besides exceptions proper, and what none of it may do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class Own(BaseException):
    """No Exception, and nothing that Python itself knows."""


class Unreadable(Exception):
    """Its text raises in turn."""

    def __str__(self) -> str:
        raise SystemExit("unreadable")


RAISED: tuple[Callable[[], BaseException], ...] = (
    lambda: SystemExit(3),
    KeyboardInterrupt,
    GeneratorExit,
    StopIteration,
    asyncio.CancelledError,
    Own,
    Unreadable,
    lambda: ValueError("half a pair: \ud800"),
)
NAMES = [type(make()).__name__ for make in RAISED]


def raising(make: Callable[[], BaseException]) -> tuple[Callable[..., Any], Callable[..., Awaitable[Any]]]:
    """A `def` and an `async def` function that raise it."""

    def on_thread(*_: Any) -> Any:
        """Raises."""
        raise make()

    async def on_loop(*_: Any) -> Any:
        """Raises, in the middle."""
        await asyncio.sleep(0)
        raise make()

    return on_thread, on_loop
