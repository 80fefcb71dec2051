"""Hooks that belong to a client: nothing of them is there before the first one, and they live as long as it."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

import pytest

from callgate import After, Before, Client, HookInput, SyncClient
from callgate._gen.callgate.v1 import hook_service_pb2 as hk
from callgate.errors import CallgateError, DeadlineExceeded
from callgate.testing import FakeSidecar, ask_hook
from unit.hook_server import HookServer


async def test_hooks_of_a_client_start_and_close_with_it() -> None:
    async with HookServer() as server, Client("unix:///tmp/none/callgate.sock", hooks_endpoint=server.endpoint) as idle:
        assert not server.hellos
        await idle.aclose()
        client = Client("unix:///tmp/none/callgate.sock", hooks_endpoint=server.endpoint)

        @client.before_tool_call(tools=["shell"], order=2)
        async def guard(_: HookInput) -> Before:
            return Before.deny("no")

        @client.after_tool_call
        def done(_: HookInput) -> After:
            return After.stop()

        async with client:
            await client.wait_ready(10)
            await server.ask("1", hook_id="guard", point=hk.HOOK_POINT_BEFORE_TOOL_CALL)
            await server.ask("2", hook_id="done", point=hk.HOOK_POINT_AFTER_TOOL_CALL)
            await server.until(lambda: len(server.verdicts) == 2)
        await server.until(lambda: server.closed)
    assert {one.invocation_id for one in server.verdicts} == {"1", "2"}
    assert [(one.hook_id, one.order, list(one.matcher.tools)) for one in server.hellos[0].hooks] == [
        ("guard", 2, ["shell"]),
        ("done", 0, []),
    ]


async def test_a_client_with_tools_and_hooks_is_ready_with_both(fake_sidecar: FakeSidecar) -> None:
    async with HookServer() as server:
        client = fake_sidecar.client(hooks_endpoint=server.endpoint)
        client.before_tool_call(lambda _: None, hook_id="h")
        client.add_tool(repr_of)
        async with client:
            await client.wait_ready(10)
            assert server.hellos
            assert client.registrations["repr_of"].error is None
            assert (await fake_sidecar.call("repr_of", {"text": "a"})).text == "'a'"
        assert server.closed == 1


def repr_of(text: str) -> str:
    """Says what it got."""
    return repr(text)


async def test_a_client_whose_hooks_are_not_taken_is_not_ready(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(hooks_endpoint="unix:///tmp/none/control.sock")
    client.before_tool_call(lambda _: None, hook_id="h")
    async with client:
        with pytest.raises(DeadlineExceeded):
            await client.wait_ready(0.2)


def test_hooks_go_to_the_sidecar_of_their_client() -> None:
    # Not to the one of the environment, which may be another.
    assert Client("unix:///run/a/callgate.sock").hooks.endpoint.text == "unix:///run/a/control.sock"
    assert Client("http://127.0.0.1:50551").hooks.endpoint.text == "http://127.0.0.1:50551"
    named = Client("unix:///run/a/callgate.sock", hooks_endpoint="unix:///run/b/callgate.sock")
    assert named.hooks.endpoint.text == "unix:///run/b/callgate.sock"
    with pytest.raises(CallgateError, match="no-scheme"):
        _ = Client(hooks_endpoint="no-scheme").hooks


def test_without_an_endpoint_hooks_are_where_hooks_of_their_own_would_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLGATE_ENDPOINT", "unix:///run/env/callgate.sock")
    assert Client().hooks.endpoint.text == "unix:///run/env/control.sock"


@pytest.mark.parametrize("looked_at", [False, True])
async def test_a_hook_that_comes_after_the_start_is_refused_and_not_forgotten(looked_at: bool) -> None:
    client = Client("unix:///tmp/none/callgate.sock")
    if looked_at:
        assert client.hooks.specs == ()
    async with client:
        with pytest.raises(CallgateError, match="started"):
            client.before_tool_call(lambda _: None, hook_id="late")
        assert client.hooks.specs == ()


async def test_no_turn_runs_past_hooks_that_were_not_started(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(executor_name=None)
    client.before_tool_call(lambda _: None, hook_id="h")
    with pytest.raises(CallgateError, match="start it") as caught:
        await client.run_turn("s")
    assert caught.value.code == "client_not_started"
    await client.aclose()


async def test_hooks_of_a_client_can_be_asked_directly() -> None:
    client = Client("unix:///tmp/none/callgate.sock")
    client.before_tool_call(lambda _: {"permission_decision": "ask"}, hook_id="h")
    assert await ask_hook(client, HookInput(tool_name="x")) == Before.ask()


async def test_a_client_with_nothing_but_hooks_can_be_run_until_it_is_told_to_end() -> None:
    async with HookServer() as server:
        client = Client("unix:///tmp/none/callgate.sock", hooks_endpoint=server.endpoint)
        client.after_tool_call(lambda _: None, hook_id="h")
        running = asyncio.ensure_future(client._run())
        await server.until(lambda: server.hellos)
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(running, 10)
        await server.until(lambda: server.closed)


async def test_run_ends_with_what_ended_the_hooks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "callgate")
    async with HookServer() as server:
        server.refuse = True
        client = Client("unix:///tmp/none/callgate.sock", hooks_endpoint=server.endpoint)
        client.before_tool_call(lambda _: None, hook_id="h")
        with pytest.raises(CallgateError, match="`h`"):
            await asyncio.wait_for(client._run(), 10)


def test_a_client_without_a_loop_has_hooks_too() -> None:
    async def serve() -> None:
        async with HookServer() as server:
            await asyncio.to_thread(use, server)
            await server.until(lambda: server.closed)

    def use(server: HookServer) -> None:
        client = SyncClient("unix:///tmp/none/callgate.sock", hooks_endpoint=server.endpoint)

        @client.before_tool_call
        async def guard(_: HookInput) -> None:
            return None

        with client:
            client.wait_ready(10)
            assert [one.hook_id for one in server.hellos[0].hooks] == ["guard"]

    asyncio.run(serve())
