"""What ends a process that serves."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable


def handle_signals(loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> list[int]:
    if threading.current_thread() is not threading.main_thread():
        return []
    handled: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        try:
            loop.add_signal_handler(number, action)
        except NotImplementedError:
            # Windows: KeyboardInterrupt ends the loop instead.
            continue
        handled.append(number)
    return handled
