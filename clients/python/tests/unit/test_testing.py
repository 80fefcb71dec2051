"""What `callgate.testing` promises to those who test their tools."""

from __future__ import annotations

import pytest

from callgate import Cancellation, Client, ToolContext, ToolError, ToolNotFound
from callgate.testing import FakeSidecar, call_tool

client = Client("unix:///tmp/callgate-nobody.sock", executor_name="test")


@client.tool
def greet(name: str, ctx: ToolContext) -> dict[str, str]:
    """Greets."""
    ctx.progress("greeting")
    ctx.output("hm")
    return {"text": f"hello {name}", "session": ctx.session_id}


@client.tool
async def fail(code: str) -> None:
    """Fails."""
    raise ToolError(code, "why")


@client.tool
def stop(ctx: ToolContext) -> None:
    """Stops."""
    ctx.check_cancelled()


@client.tool
def nan() -> float:
    """Is not a number."""
    return float("nan")


async def test_tool_is_called_without_any_network() -> None:
    result = await call_tool(client, "greet", {"name": "you"}, session_id="s")
    assert result.structured == {"text": "hello you", "session": "s"}
    assert result.outcome == "success"


async def test_arguments_go_through_the_types_of_the_handler() -> None:
    result = await call_tool(client, "greet", {"name": 1})
    assert result.error is not None
    assert result.error.code == "arguments_rejected"


async def test_failures_are_results_as_in_the_executor() -> None:
    for arguments, name, code in (({"code": "own"}, "fail", "own"), ({}, "nan", "result_not_json")):
        result = await call_tool(client, name, arguments)
        assert result.error is not None
        assert result.error.code == code


async def test_handler_can_be_told_to_stop() -> None:
    cancellation = Cancellation()
    cancellation.request("call_cancelled")
    assert (await call_tool(client, "stop", cancellation=cancellation)).outcome == "cancelled"
    assert (await call_tool(client, "stop")).outcome == "success"


async def test_unknown_tool_is_the_tests_own_mistake() -> None:
    with pytest.raises(ToolNotFound):
        await call_tool(client, "nowhere")


def test_decorated_function_is_still_that_function() -> None:
    assert greet.__name__ == "greet"


def test_fixture_serves_code_without_an_event_loop(fake_sidecar: FakeSidecar) -> None:
    from callgate import SyncClient

    with SyncClient(fake_sidecar.endpoint, executor_name="test") as caller:

        def double(n: int) -> int:
            """Doubles."""
            return 2 * n

        caller.update_tools(add=[double])
        assert fake_sidecar.call_sync("double", {"n": 4}).text == "8"
