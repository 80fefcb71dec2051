"""Where handlers of hooks run, and that none of them can hold up the stream of another."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from callgate import Backoff, Before, HookInput, Hooks, Unavailable
from callgate._gen.callgate.v1 import hook_service_pb2 as hk
from callgate._wire.loop import WireLoop
from unit.hook_server import HookServer
from unit.raising import NAMES, RAISED, raising

QUICK = Backoff(initial=0.01, cap=0.05)
BEFORE = hk.HOOK_POINT_BEFORE_TOOL_CALL


@asynccontextmanager
async def running(server: HookServer, hooks: Hooks) -> AsyncIterator[None]:
    """`Hooks.run`, on a thread in place of the main one. It ends with the go-away of the sidecar."""
    run = asyncio.ensure_future(asyncio.to_thread(hooks.run))
    await server.until(lambda: server.hellos)
    yield
    await server.go_away(drain_ms=1)
    with pytest.raises(Unavailable):
        await asyncio.wait_for(run, 20)


def places() -> tuple[dict[str, Any], Any]:
    """Notes the thread and the loop of whoever calls it under a name."""
    seen: dict[str, Any] = {}

    def note(name: str) -> None:
        try:
            seen[name] = (threading.current_thread(), asyncio.get_running_loop())
        except RuntimeError:
            seen[name] = (threading.current_thread(), None)

    return seen, note


async def test_run_with_async_def_handlers_only_has_stream_and_handlers_on_one_loop() -> None:
    seen, note = places()
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)

        @hooks.before_tool_call(hook_id="h")
        async def guard(_: HookInput) -> Before:
            note("handler")
            await asyncio.sleep(0)
            return Before.deny("no")

        async with running(server, hooks):
            await server.ask("1", hook_id="h", point=BEFORE)
            await server.until(lambda: server.verdicts)
            thread, loop = seen["handler"]
            assert loop is hooks._stream_loop is hooks._home
            assert thread is not threading.current_thread()
    assert server.verdicts[0].before.reason_for_user == "no"


async def test_run_with_a_def_handler_has_the_stream_on_the_wires_loop() -> None:
    seen, note = places()
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)
        hooks.before_tool_call(lambda _: note("thread"), hook_id="thread")

        @hooks.before_tool_call(hook_id="loop")
        async def on_loop(_: HookInput) -> None:
            note("loop")

        async with running(server, hooks):
            for name in ("thread", "loop"):
                await server.ask(name, hook_id=name, point=BEFORE)
            await server.until(lambda: len(server.verdicts) == 2)
            assert WireLoop._shared is not None
            assert hooks._stream_loop is WireLoop._shared.loop
            assert seen["loop"][1] is hooks._home
            assert seen["thread"][1] is None
            assert seen["thread"][0] is not seen["loop"][0]


async def test_a_loop_of_the_user_is_never_the_streams() -> None:
    seen, note = places()
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)

        @hooks.before_tool_call(hook_id="h")
        async def guard(_: HookInput) -> None:
            note("handler")

        async with hooks:
            await server.ask("1", hook_id="h", point=BEFORE)
            await server.until(lambda: server.verdicts)
            assert WireLoop._shared is not None
            assert hooks._stream_loop is WireLoop._shared.loop
    assert seen["handler"] == (threading.current_thread(), asyncio.get_running_loop())


@pytest.mark.parametrize("form", ["def", "async def"])
async def test_a_handler_that_blocks_beside_a_def_handler_does_not_stop_the_pings(form: str) -> None:
    began, gate = threading.Event(), threading.Event()
    async with HookServer(ping_interval=0.1, ping_misses=3) as server:
        hooks = Hooks(server.endpoint, backoff=QUICK)

        def blocks(_: HookInput) -> None:
            began.set()
            gate.wait(20)

        async def blocks_the_loop(asked: HookInput) -> None:
            blocks(asked)

        hooks.before_tool_call(blocks if form == "def" else blocks_the_loop, hook_id="blocks")
        hooks.before_tool_call(lambda _: None, hook_id="other")
        async with running(server, hooks):
            await server.ask("1", hook_id="blocks", point=BEFORE)
            await asyncio.to_thread(began.wait, 20)
            before = server.pings
            # Longer than three streams without an answer would last, both ways.
            await server.until(lambda: server.pings >= before + 10)
            await server.say(ping={"nonce": 1})
            await server.ask("2", hook_id="other", point=BEFORE)
            await server.until(lambda: server.pongs == 1 and server.verdicts)
            assert [verdict.invocation_id for verdict in server.verdicts] == ["2"]
            gate.set()
            await server.until(lambda: len(server.verdicts) == 2)
            assert len(server.hellos) == 1


@pytest.mark.parametrize("make", RAISED, ids=NAMES)
async def test_whatever_a_handler_on_the_streams_own_loop_raises_is_its_failure_at_once(make: Any) -> None:
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)
        hooks.before_tool_call(raising(make)[1], hook_id="h")
        async with running(server, hooks):
            for name in ("1", "2"):
                await server.ask(name, hook_id="h", point=BEFORE)
            await server.until(lambda: len(server.verdicts) == 2)
        assert len(server.hellos) == 1
    assert {verdict.WhichOneof("verdict") for verdict in server.verdicts} == {"failure"}


async def test_a_question_taken_back_on_the_streams_own_loop_ends_its_handler() -> None:
    began, ended = threading.Event(), threading.Event()
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)

        @hooks.before_tool_call(hook_id="slow")
        async def slow(asked: HookInput) -> None:
            if asked.attempt > 1:
                return
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        async with running(server, hooks):
            await server.ask("1", hook_id="slow", point=BEFORE, attempt=1)
            await asyncio.to_thread(began.wait, 20)
            await server.take_back("1")
            assert await asyncio.to_thread(ended.wait, 20)
            await server.ask("2", hook_id="slow", point=BEFORE, attempt=2)
            await server.until(lambda: server.verdicts)
    assert [verdict.invocation_id for verdict in server.verdicts] == ["2"]


@pytest.mark.parametrize("form", ["def", "async def"])
async def test_a_question_and_an_error_that_a_handler_keeps_keep_no_stream(form: str) -> None:
    kept: list[HookInput] = []
    error = RuntimeError("the same every time")

    def on_thread(asked: HookInput) -> None:
        kept.append(asked)
        raise error

    async def on_loop(asked: HookInput) -> None:
        on_thread(asked)

    async def use(server: HookServer) -> weakref.ref[object]:
        hooks = Hooks(server.endpoint)
        hooks.before_tool_call(on_thread if form == "def" else on_loop, hook_id="h")
        async with hooks:
            await server.ask("1", hook_id="h", point=BEFORE)
            await server.until(lambda: server.verdicts)
            assert hooks._stream is not None
            return weakref.ref(hooks._stream)

    async with HookServer() as server:
        stream = await use(server)
        # The thread that has run the handler may be about to let go of it.
        await asyncio.to_thread(lambda: [thread.join() for thread in threading.enumerate() if "hook" in thread.name])
        gc.collect()
        assert stream() is None
    assert len(kept) == 1
    assert error.__traceback__ is not None


async def test_a_handler_whose_loop_has_ended_has_failed_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "callgate")
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)

        @hooks.before_tool_call(hook_id="h")
        async def guard(_: HookInput) -> None:
            return None

        await asyncio.to_thread(lambda: asyncio.run(hooks.wait_ready(10)))
        await server.ask("1", hook_id="h", point=BEFORE)
        await server.until(lambda: server.verdicts)
        assert server.verdicts[0].failure.message.startswith("RuntimeError: Event loop is closed")
        assert hooks._stream is not None
        wire = hooks._link.open()
        wire.post(hooks._stream.close)
        await server.until(lambda: server.left)
        await hooks._link.close()
