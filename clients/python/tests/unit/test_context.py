"""What a handler may know and use."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from callgate import Cancellation, SessionState, ToolCancelled, ToolContext, ToolServiceRegistry
from callgate.context import SilentReporter


@dataclass
class Service:
    service_id: str


def context(**options: object) -> ToolContext:
    registry = ToolServiceRegistry()
    registry.register(Service("allowed"))
    registry.register(Service("other"))
    settings: dict[str, object] = {
        "session_id": "s",
        "state": SessionState(),
        "batch_call_id": "b",
        "cancellation": Cancellation(),
        "services": registry.allowing(("allowed", "absent")),
        "call_id": "c",
        "reporter": SilentReporter(),
    }
    return ToolContext(**{**settings, **options})  # type: ignore[arg-type]


def test_registering_a_service_twice_returns_false_and_keeps_the_first() -> None:
    registry, first = ToolServiceRegistry(), Service("a")
    assert registry.register(first)
    assert not registry.register(Service("a"))
    assert registry.get("a") is first


def test_services_are_a_white_list() -> None:
    services = context().services
    assert services.get("allowed") == Service("allowed")
    assert services.get("other") is None
    assert services.get("absent") is None
    assert "allowed" in services
    assert "other" not in services


def test_state_is_immutable_all_the_way_down() -> None:
    state = SessionState.from_json(2, "s", b'{"a":{"b":[1]}}')
    assert state.metadata["a"]["b"] == (1,)
    with pytest.raises(TypeError):
        state.metadata["a"] = 1  # type: ignore[index]
    with pytest.raises(TypeError):
        state.metadata["a"]["b"] = 1
    with pytest.raises(AttributeError):
        state.session_id = "t"  # type: ignore[misc]


@pytest.mark.parametrize("document", [b"", b"[1]", b"{", b"\xff"])
def test_metadata_that_is_no_object_reads_as_empty(document: bytes) -> None:
    assert SessionState.from_json(0, "s", document).metadata == {}


def test_first_cancellation_stands() -> None:
    cancellation = Cancellation()
    assert cancellation.request("deadline", "too slow")
    assert not cancellation.request("turn_cancelled", "again")
    assert (cancellation.cancelled, cancellation.reason, cancellation.message) == (True, "deadline", "too slow")


def test_check_cancelled_raises_only_after_a_cancellation() -> None:
    ctx = context()
    ctx.check_cancelled()
    ctx.cancellation.request("call_cancelled", "enough")
    with pytest.raises(ToolCancelled, match="enough"):
        ctx.check_cancelled()


def test_context_offers_no_credentials_and_no_way_to_change_the_session() -> None:
    names = {name for name in dir(context()) if not name.startswith("_")}
    assert names == {
        "attempt",
        "batch_call_id",
        "call_id",
        "cancellation",
        "cancelled",
        "check_cancelled",
        "cwd",
        "execution_id",
        "output",
        "progress",
        "run_id",
        "services",
        "session_id",
        "state",
        "time_remaining",
        "traceparent",
        "turn_id",
    }


def test_time_remaining_never_goes_below_zero() -> None:
    assert context().time_remaining() is None
    assert context(timeout=-1.0).time_remaining() == 0.0
