"""Every test has a time limit, and a coroutine is a test."""

from __future__ import annotations

import asyncio
import faulthandler
import inspect
import signal
import sys
from collections.abc import Iterator
from types import FrameType

import pytest

pytest_plugins = ["callgate.pytest_plugin"]

SECONDS = 30.0


@pytest.fixture(autouse=True)
def _time_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    """Ends a test that hangs, wherever it hangs."""

    def on_alarm(number: int, frame: FrameType | None) -> None:
        faulthandler.dump_traceback(file=sys.__stderr__)
        raise TimeoutError(f"{request.node.name} took longer than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs `async def` tests, each on a loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    asyncio.run(asyncio.wait_for(pyfuncitem.obj(**arguments), SECONDS - 5))
    return True
