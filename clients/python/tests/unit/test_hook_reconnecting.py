"""A process of hooks notices that its stream is dead, and goes when it is told to."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from callgate import Backoff, Before, HookInput, Hooks, Superseded, TurnObserved, Unavailable
from callgate._gen.callgate.v1 import hook_service_pb2 as hk
from callgate._gen.callgate.v1 import stream_pb2 as st
from unit.hook_server import HookServer

QUICK = Backoff(initial=0.01, cap=0.05)
# So long that no test sees the end of it.
SLOW = Backoff(initial=60, cap=60)
BEFORE = hk.HOOK_POINT_BEFORE_TOOL_CALL


def hooks_at(server: HookServer, backoff: Backoff = QUICK) -> Hooks:
    hooks = Hooks(server.endpoint, backoff=backoff)
    hooks.before_tool_call(lambda _: Before.deny("no"), hook_id="h")
    return hooks


def gated(hooks: Hooks) -> tuple[threading.Event, threading.Event]:
    """Adds a hook `gated` that says that it began, and waits for an event."""
    began, gate = threading.Event(), threading.Event()

    @hooks.before_tool_call(hook_id="gated")
    def wait(_: HookInput) -> None:
        began.set()
        gate.wait(20)

    return began, gate


async def test_stream_without_pongs_is_given_up_and_opened_again() -> None:
    async with HookServer(ping_interval=0.15, ping_misses=2) as server, hooks_at(server) as hooks:
        await hooks.wait_ready(10)
        server.answer_pings = False
        await server.until(lambda: len(server.hellos) >= 2)
        server.answer_pings = True
        await hooks.wait_ready(10)
        await server.ask("1", hook_id="h", point=BEFORE)
        await server.until(lambda: server.verdicts)
        assert {hello.instance_id for hello in server.hellos} == {hooks._instance_id}
    assert server.left == 1


async def test_stream_whose_pings_are_answered_stays() -> None:
    async with HookServer(ping_interval=0.05, ping_misses=4) as server, hooks_at(server) as hooks:
        await hooks.wait_ready(10)
        # Longer than two streams without an answer would last.
        await server.until(lambda: server.pings >= 10)
        await server.say(ping=st.Ping(nonce=1))
        await server.until(lambda: server.pongs == 1)
        assert len(server.hellos) == 1


async def test_stream_on_which_nothing_comes_is_given_up_and_opened_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("callgate._wire.connection.HELLO_SECONDS", 0.05)
    async with HookServer() as server:
        server.mute = True
        async with hooks_at(server) as hooks:
            await server.until(lambda: len(server.hellos) >= 2)
            server.mute = False
            await hooks.wait_ready(10)


async def test_question_of_a_stream_that_was_given_up_is_not_answered_on_the_next() -> None:
    async with HookServer(ping_interval=0.15, ping_misses=1) as server:
        hooks = hooks_at(server)
        began, gate = gated(hooks)
        async with hooks:
            await hooks.wait_ready(10)
            await server.ask("old", hook_id="gated", point=BEFORE)
            await asyncio.to_thread(began.wait, 10)
            server.answer_pings = False
            await server.until(lambda: len(server.hellos) >= 2)
            server.answer_pings = True
            gate.set()
            await hooks.wait_ready(10)
            await server.ask("new", hook_id="h", point=BEFORE)
            await server.until(lambda: server.verdicts)
    assert [verdict.invocation_id for verdict in server.verdicts] == ["new"]


async def test_go_away_is_obeyed_after_what_runs_is_answered() -> None:
    async with HookServer() as server:
        # The back-off of a minute shows that the named span is used.
        hooks = hooks_at(server, SLOW)
        began, gate = gated(hooks)
        async with hooks:
            await hooks.wait_ready(10)
            await server.ask("1", hook_id="gated", point=BEFORE)
            await asyncio.to_thread(began.wait, 10)
            await server.go_away(reconnect_min_ms=10, reconnect_max_ms=50)
            # A stream that is about to end answers what still comes.
            await server.ask("2", hook_id="h", point=BEFORE)
            await server.until(lambda: len(server.verdicts) == 1)
            assert server.closed == 0
            gate.set()
            await server.until(lambda: len(server.hellos) == 2)
            # Its hooks stay the sidecar's, which a leave would take away.
            assert (server.closed, server.left) == (1, 0)
            await hooks.wait_ready(10)
            await server.ask("3", hook_id="h", point=BEFORE)
            await server.until(lambda: len(server.verdicts) == 3)
    assert [verdict.invocation_id for verdict in server.verdicts] == ["2", "1", "3"]
    assert server.left == 1


async def test_go_away_waits_for_a_question_no_longer_than_the_sidecar_does() -> None:
    async with HookServer() as server:
        hooks = hooks_at(server, SLOW)
        began, gate = gated(hooks)
        async with hooks:
            for name, drain_ms, end in (("1", 20, None), ("2", 0, server.take_back)):
                await hooks.wait_ready(10)
                streams = len(server.hellos)
                await server.ask(name, hook_id="gated", point=BEFORE)
                await asyncio.to_thread(began.wait, 10)
                await server.go_away(drain_ms=drain_ms, reconnect_min_ms=1, reconnect_max_ms=2)
                if end is not None:
                    await end(name)
                await server.until(lambda streams=streams: len(server.hellos) == streams + 1)
            gate.set()
    assert server.verdicts == []


@pytest.mark.parametrize(
    ("reason", "span", "error"),
    [(st.GO_AWAY_REASON_SUPERSEDED, 2, Superseded), (st.GO_AWAY_REASON_SHUTDOWN, 0, Unavailable)],
)
async def test_go_away_for_good_is_the_end(reason: Any, span: int, error: type[Exception]) -> None:
    async with HookServer() as server, hooks_at(server) as hooks:
        await hooks.wait_ready(10)
        await server.go_away(reason, reconnect_min_ms=span, reconnect_max_ms=span)
        assert hooks._serving is not None
        with pytest.raises(error):
            await asyncio.wait_for(hooks._serving, 10)
        with pytest.raises(error):
            await hooks.wait_ready(10)
        assert (len(server.hellos), server.closed) == (1, 1)


async def test_who_is_only_told_goes_on_when_the_stream_does_not() -> None:
    async with HookServer() as server:
        hooks = Hooks(server.endpoint, backoff=QUICK)
        began, release, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

        @hooks.turn_finished(hook_id="told")
        async def journal(_: TurnObserved) -> None:
            began.set()
            await release.wait()
            ended.set()

        async with hooks:
            await server.ask("1", 0, hook_id="told", point=hk.HOOK_POINT_TURN_FINISHED)
            await began.wait()
            # Nobody waits for it, so the next stream does not either.
            await server.go_away(reconnect_min_ms=1, reconnect_max_ms=2)
            await server.until(lambda: len(server.hellos) == 2)
            release.set()
            await asyncio.wait_for(ended.wait(), 10)


async def test_fault_of_a_stream_is_logged_and_it_is_opened_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with HookServer() as server, hooks_at(server) as hooks:
        await hooks.wait_ready(10)
        monkeypatch.setattr(hooks._stream, "_end_if_done", None)
        await server.go_away(reconnect_min_ms=1, reconnect_max_ms=2)
        await server.until(lambda: len(server.hellos) == 2)
    assert "the hook stream failed" in caplog.text
