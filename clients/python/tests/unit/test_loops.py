"""Loops: what a tool says of itself, and how a loop is told."""

from __future__ import annotations

import pytest

from callgate import LoopDetected, Tool, ToolDefinitionError
from callgate._gen.callgate.v1 import turn_service_pb2 as tu
from callgate._gen.callgate.v1 import types_pb2 as ty
from callgate._wire import convert, convert_turns


def find(path: str) -> str:
    """Finds."""
    return path


def test_a_tool_is_exempt_or_names_what_counts() -> None:
    definition = convert.definition(Tool(find, loop_exempt=True, loop_key=["/path"]))
    assert definition.loop_exempt
    assert list(definition.loop_key) == ["/path"]
    plain = convert.definition(Tool(find))
    assert not plain.loop_exempt
    assert list(plain.loop_key) == []


@pytest.mark.parametrize("key", ["/path", ["path"], [""]])
def test_what_is_no_list_of_pointers_is_refused(key: list[str]) -> None:
    with pytest.raises(ToolDefinitionError, match="loop_key must hold pointers"):
        Tool(find, loop_key=key)


def event(**found: object) -> object:
    message = tu.TurnEvent(sequence=3, occurred_at_ms=7, loop_detected=tu.LoopDetected(**found))  # type: ignore[arg-type]
    return convert_turns.turn_event("t", 1, message)


def test_a_loop_is_an_event() -> None:
    told = event(
        detector=ty.LOOP_DETECTOR_CYCLE, reason="the same 2 calls", call_ids=["a", "b"], period=2, repetitions=5
    )
    assert told == LoopDetected("t", 1, 3, 7, "cycle", "the same 2 calls", ("a", "b"), 2, 5, None)
    told = event(detector=ty.LOOP_DETECTOR_LLM, reason="circles", confidence=0.9)
    assert told == LoopDetected("t", 1, 3, 7, "llm", "circles", (), 0, 0, 0.9)


def test_a_detector_that_is_newer_than_this_is_unknown() -> None:
    told = event(detector=99)
    assert isinstance(told, LoopDetected)
    assert told.detector == "unknown"


def test_a_turn_and_a_run_end_loop_detected() -> None:
    run = ty.Run(run_id="r", state=ty.RUN_STATE_LOOP_DETECTED, end_code="loop_detected")
    ended = convert_turns.turn_result("t", tu.TurnCompleted(outcome=tu.TURN_OUTCOME_LOOP_DETECTED, stop=True, run=run))
    assert (ended.outcome, ended.stop) == ("loop_detected", True)
    assert ended.run is not None
    assert ended.run.state == "loop_detected"
