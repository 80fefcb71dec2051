"""Loops against the real sidecar."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from callgate import LoopDetected, RunNotActive, ToolCall, TurnEvent

if TYPE_CHECKING:
    from conftest import Sidecar


async def test_the_fifth_identical_call_ends_the_run(sidecar: Sidecar) -> None:
    client = sidecar.client(executor_name="looker")
    ran: list[str] = []

    @client.tool(risk="safe", kind="read")
    def look(path: str) -> str:
        """Looks."""
        ran.append(path)
        return "the same as before"

    @client.tool(risk="safe", kind="read", loop_exempt=True)
    def poll() -> str:
        """Polls."""
        return "not yet"

    async with client:
        await client.wait_ready()
        for _ in range(6):
            polled = await client.run_turn("s", [ToolCall("c", "poll", {})], run_id="r")
            assert polled.outcome == "completed"
        for _ in range(4):
            await client.run_turn("s", [ToolCall("c", "look", {"path": "a"})], run_id="r")
        turn = client.run_turn("s", [ToolCall("c", "look", {"path": "a"})], run_id="r", history=[{"role": "user"}])
        events: list[TurnEvent] = [event async for event in turn]
        found = next(event for event in events if isinstance(event, LoopDetected))
        assert (found.detector, found.call_ids, found.period, found.repetitions) == ("tool_signature", ("c",), 1, 5)
        ended = await turn
        assert ended.outcome == "loop_detected"
        assert ended.results[0].error is not None
        assert ended.results[0].error.code == "loop_detected"
        assert len(ran) == 4
        with pytest.raises(RunNotActive):
            await client.run_turn("s", [ToolCall("c", "look", {"path": "b"})], run_id="r")
