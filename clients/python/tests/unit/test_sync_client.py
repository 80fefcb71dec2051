"""The client without an event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

from callgate import CallProgress, NotFound, SyncClient, ToolCall, ToolContext, TurnCompleted
from callgate.testing import FakeSidecar


def test_turn_runs_and_its_events_can_be_read(fake_sidecar: FakeSidecar) -> None:
    client = SyncClient(fake_sidecar.endpoint, executor_name="sync")

    @client.tool
    async def add(a: int, b: int, ctx: ToolContext) -> int:
        """Adds."""
        ctx.progress("adding")
        await asyncio.sleep(0)
        return a + b

    with client:
        client.wait_ready()
        assert client.run_turn("s", [ToolCall("a", "add", {"a": 1, "b": 2})])["a"].text == "3"
        events = list(client.iter_turn("s", [ToolCall("a", "add", {"a": 1, "b": 2})]))
        assert isinstance(events[-1], TurnCompleted)
        assert any(isinstance(event, CallProgress) for event in events)
        assert [tool.name for tool in client.list_tools().tools] == ["add"]
        assert client.health() == "serving"
        with pytest.raises(NotFound):
            client.get_turn("nowhere")
    assert not [thread for thread in threading.enumerate() if thread.name == "callgate-sync"]


def test_several_threads_may_use_it_at_once(fake_sidecar: FakeSidecar) -> None:
    with SyncClient(fake_sidecar.endpoint, executor_name="sync") as client:

        def double(n: int) -> int:
            """Doubles."""
            return 2 * n

        client.update_tools(add=[double])
        answers: dict[int, str] = {}

        def work(n: int) -> None:
            answers[n] = client.run_turn("s", [ToolCall("a", "double", {"n": n})])["a"].text

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert answers == {n: str(2 * n) for n in range(8)}


def test_closing_twice_and_closing_unused_are_harmless(fake_sidecar: FakeSidecar) -> None:
    client = SyncClient(fake_sidecar.endpoint)
    client.close()
    client.health()
    client.close()
    client.close()


def test_wire_ends_with_its_last_client() -> None:
    with FakeSidecar() as sidecar, SyncClient(sidecar.endpoint) as client:
        assert client.health() == "serving"
    assert not [thread for thread in threading.enumerate() if thread.name == "callgate-wire"]
