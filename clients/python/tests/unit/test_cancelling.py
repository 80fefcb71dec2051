"""Every cancellation is answered by exactly one result."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

import callgate.executor
from callgate import ToolCancelled, ToolContext
from callgate._gen.callgate.v1 import executor_service_pb2 as ex
from callgate.testing import FakeSidecar


async def test_async_def_tool_is_cancelled_and_answers_once(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()
    seen: list[str | None] = []

    @client.tool
    async def slow(ctx: ToolContext) -> None:
        """Waits."""
        ctx.progress("began")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append(ctx.cancellation.reason)
            raise

    async with client:
        call = await fake_sidecar.start_call("slow")
        await call.until(lambda: call.progress)
        call.cancel("turn_cancelled", "the user left")
        call.cancel("turn_cancelled", "the user left")
        result = await call.result()
        await call.until(lambda: call.cancel_acks == 2)
    assert (result.outcome, call.results) == ("cancelled", 1)
    assert seen == ["turn_cancelled"]


async def test_def_tool_sees_flag_reason_and_message(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()
    seen: list[tuple[str | None, str]] = []

    @client.tool
    def slow(ctx: ToolContext) -> None:
        """Waits."""
        ctx.progress("began")
        assert ctx.cancellation.wait(10)
        seen.append((ctx.cancellation.reason, ctx.cancellation.message))
        ctx.check_cancelled()

    async with client:
        call = await fake_sidecar.start_call("slow")
        await call.until(lambda: call.progress)
        call.cancel("deadline", "took too long")
        assert (await call.result()).outcome == "cancelled"
    assert seen == [("deadline", "took too long")]


async def test_effect_that_the_handler_knows_is_told(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    def slow(ctx: ToolContext) -> None:
        """Waits."""
        ctx.progress("began")
        ctx.cancellation.wait(10)
        raise ToolCancelled("nothing was written", effect="not_executed")

    async with client:
        call = await fake_sidecar.start_call("slow")
        await call.until(lambda: call.progress)
        call.cancel()
        assert (await call.result()).effect == "not_executed"


async def test_handler_that_has_finished_wins_the_race(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    def stubborn(ctx: ToolContext) -> str:
        """Finishes all the same."""
        ctx.progress("began")
        ctx.cancellation.wait(10)
        return "finished"

    @client.tool
    async def stubborn_too(ctx: ToolContext) -> str:
        """Swallows the cancellation."""
        ctx.progress("began")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "finished"

    async with client:
        for tool in ("stubborn", "stubborn_too"):
            call = await fake_sidecar.start_call(tool)
            await call.until(lambda call=call: call.progress)
            call.cancel()
            result = await call.result()
            assert (result.outcome, result.text, call.results) == ("success", "finished", 1)


async def test_cancelled_error_that_nobody_asked_for_is_a_failure(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    async def raises() -> None:
        """Raises what a cancellation raises."""
        raise asyncio.CancelledError

    @client.tool
    def raises_too() -> None:
        """Says that it was cancelled."""
        raise ToolCancelled("not true")

    async with client:
        for tool in ("raises", "raises_too"):
            result = await fake_sidecar.call(tool)
            assert result.outcome == "error"
            assert result.error is not None
            assert result.error.code == "tool_execution_failed"


async def test_call_cancelled_while_it_waits_for_a_slot_never_begins(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(max_concurrency=1)
    gate = threading.Event()
    began: list[int] = []

    @client.tool
    def wait(number: int, ctx: ToolContext) -> None:
        """Waits."""
        began.append(number)
        gate.wait(10)

    async with client:
        first = await fake_sidecar.start_call("wait", {"number": 1})
        second = await fake_sidecar.start_call("wait", {"number": 2})
        await second.until(lambda: second.accepted == [True])
        second.cancel()
        result = await second.result()
        gate.set()
        await first.result()
    assert (result.outcome, result.effect) == ("cancelled", "not_executed")
    assert began == [1]


async def test_cancellation_that_comes_with_the_call_is_answered(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    async def slow() -> None:
        """Waits."""
        await asyncio.Event().wait()

    async with client:
        for _ in range(20):
            call = await fake_sidecar.start_call("slow")
            call.cancel()
            assert (await call.result()).outcome == "cancelled"


async def test_unknown_execution_is_acknowledged_and_nothing_else(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    def nothing() -> None:
        """Does nothing."""

    async with client:
        await client.wait_ready()
        ref = ex.ExecutionRef(execution_id="never-seen", attempt=1)
        fake_sidecar.send_raw(ex.ConnectResponse(cancel=ex.CancelExecution(execution=ref)))
        (instance,) = fake_sidecar.executors.instances.values()
        stream = instance.stream
        assert stream is not None
        await fake_sidecar.until(lambda: "cancel_ack" in stream.received)
        assert stream.received == ["cancel_ack"]


@pytest.mark.parametrize("takes_context", [True, False])
def test_def_tool_can_be_cancelled_exactly_if_it_takes_a_context(takes_context: bool) -> None:
    from callgate import Tool

    def with_context(ctx: ToolContext) -> None: ...

    def without() -> None: ...

    assert Tool(with_context if takes_context else without).cancellable is takes_context


class Records(logging.Handler):
    """What the package logs, and a way to wait for it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, str]] = []
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append((record.levelname, record.getMessage()))
        self._loop.call_soon_threadsafe(self._changed.set)

    async def until(self, level: str, text: str) -> None:
        while not any(level == known and text in message for known, message in self.seen):
            await self._changed.wait()
            self._changed.clear()


async def test_slots_of_handlers_that_were_given_up_are_told(
    fake_sidecar: FakeSidecar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(callgate.executor, "GIVE_UP_SECONDS", 0.0)
    caplog.set_level(logging.INFO, "callgate")
    client = fake_sidecar.client(max_concurrency=2)
    gate = threading.Event()

    @client.tool
    def hang(ctx: ToolContext) -> None:
        """Hears nothing."""
        ctx.progress("began")
        gate.wait(20)

    records = Records()
    logging.getLogger("callgate").addHandler(records)
    try:
        async with client:
            calls = [await fake_sidecar.start_call("hang", call_id=name) for name in ("a", "b")]
            for call in calls:
                await call.until(lambda call=call: call.progress)
            calls[0].cancel("deadline", "took too long", grace=0)
            await records.until("WARNING", "1 of 2 slots are held by handlers that were given up: hang")
            calls[1].cancel("turn_cancelled", "the user left", grace=0)
            await records.until("ERROR", "2 of 2 slots are held by handlers that were given up: hang, hang; no call")
            gate.set()
            await records.until("INFO", "0 of 2 slots are held by handlers that were given up")
    finally:
        gate.set()
        logging.getLogger("callgate").removeHandler(records)
    told = [level for level, message in records.seen if "slots are held" in message]
    assert told == ["WARNING", "ERROR", "INFO", "INFO"]


async def test_handler_that_stops_in_time_is_not_given_up(
    fake_sidecar: FakeSidecar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(callgate.executor, "GIVE_UP_SECONDS", 0.0)
    noted: list[object] = []
    give_up = callgate.executor.Executor._give_up

    def note(self: callgate.executor.Executor, execution: callgate.executor.Execution) -> None:
        give_up(self, execution)
        noted.append(execution)
        fake_sidecar.executors.notify()

    monkeypatch.setattr(callgate.executor.Executor, "_give_up", note)
    client = fake_sidecar.client()

    @client.tool
    def polite(ctx: ToolContext) -> None:
        """Stops when told."""
        ctx.progress("began")
        ctx.cancellation.wait(10)
        ctx.check_cancelled()

    async with client:
        call = await fake_sidecar.start_call("polite")
        await call.until(lambda: call.progress)
        call.cancel("turn_cancelled", "the user left", grace=0.2)
        assert (await call.result()).outcome == "cancelled"
        await call.until(lambda: noted)
    assert "given up" not in caplog.text
