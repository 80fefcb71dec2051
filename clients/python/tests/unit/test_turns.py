"""Turns, their events and their ends."""

from __future__ import annotations

import asyncio
import statistics
import threading
import time
from typing import Literal

import pytest

from callgate import (
    Backoff,
    CallCompleted,
    CallgateError,
    CallOutput,
    CallProgress,
    CallStateChanged,
    Client,
    ClientClosed,
    Conflict,
    ConnectionLost,
    LimitExceeded,
    NotFound,
    RunNotActive,
    ToolCall,
    ToolContext,
    TurnAccepted,
    TurnCompleted,
    TurnEvent,
    TurnSnapshot,
)
from callgate._gen.callgate.v1 import errors_pb2 as er
from callgate._gen.callgate.v1 import turn_service_pb2 as tu
from callgate._wire.turn_stream import TurnReader
from callgate.testing import FakeSidecar
from callgate.turns import LOSSY_EVENTS_MAX, TurnFeed, message_json

QUICK = Backoff(initial=0.01, cap=0.05)
Carrier = Literal["stream", "rpc"]
BOTH = pytest.mark.parametrize("carrier", ["stream", "rpc"])


def bakery(sidecar: FakeSidecar, **options: object) -> tuple[Client, threading.Event]:
    client = sidecar.client(**{"backoff": QUICK, **options})
    gate = threading.Event()

    @client.tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    @client.tool
    def wait(ctx: ToolContext) -> str:
        """Waits."""
        ctx.progress("began")
        while not gate.is_set():
            ctx.check_cancelled()
            ctx.cancellation.wait(0.005)
        return "done"

    @client.tool
    def speak(ctx: ToolContext) -> None:
        """Prints."""
        ctx.output("hello", "stdout")

    return client, gate


def kept(events: list[TurnEvent]) -> list[int]:
    return [event.sequence for event in events if event.sequence]


@BOTH
async def test_await_gives_results_in_call_order(fake_sidecar: FakeSidecar, carrier: Carrier) -> None:
    client, _ = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        result = await client.run_turn(
            "s",
            [ToolCall("a", "add", {"a": 1, "b": 2}), ToolCall("b", "nowhere"), ToolCall("c", "add", '{"a":3,"b":4}')],
            turn_id="t1",
            carrier=carrier,
        )
    assert (result.turn_id, result.outcome, result.stop) == ("t1", "completed", False)
    assert [item.call_id for item in result.results] == ["a", "b", "c"]
    assert result["a"].text == "3"
    assert result["b"].error is not None
    assert result["b"].error.code == "tool_not_found"
    assert result["c"].raise_for_error().text == "7"
    with pytest.raises(KeyError):
        result["d"]


@BOTH
async def test_events_come_without_gaps_and_the_result_after_them(fake_sidecar: FakeSidecar, carrier: Carrier) -> None:
    client, gate = bakery(fake_sidecar)
    gate.set()
    async with client:
        await client.wait_ready()
        turn = client.run_turn("s", [ToolCall("a", "wait")], carrier=carrier)
        events = [event async for event in turn]
        result = await turn
    assert isinstance(events[0], TurnAccepted)
    assert isinstance(events[-1], TurnCompleted)
    assert events[-1].result is result
    assert kept(events) == list(range(1, len(kept(events)) + 1))
    assert [event.state for event in events if isinstance(event, CallStateChanged)] == [
        "scheduled",
        "executing",
        "success",
    ]
    assert any(isinstance(event, CallProgress) and event.message == "began" for event in events)
    assert any(isinstance(event, CallCompleted) for event in events)


async def test_output_comes_only_if_it_is_wanted(fake_sidecar: FakeSidecar) -> None:
    client, _ = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        for wanted, texts in ((True, [b"hello"]), (False, [])):
            events = [event async for event in client.run_turn("s", [ToolCall("a", "speak")], output=wanted)]
            assert [event.data for event in events if isinstance(event, CallOutput)] == texts


async def test_openai_message_comes_back_as_messages_to_append(fake_sidecar: FakeSidecar) -> None:
    client, _ = bakery(fake_sidecar)
    message = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "add", "arguments": '{"a":1,"b":2}'}}],
    }
    async with client:
        await client.wait_ready()
        result = await client.run_turn("s", openai_message=message)
    assert result.messages == ({"role": "tool", "tool_call_id": "call_1", "content": "3"},)


def test_message_of_the_providers_own_sdk_is_taken() -> None:
    class Message:
        def model_dump_json(self, *, exclude_none: bool) -> str:
            assert exclude_none
            return '{"role":"assistant"}'

    assert message_json(Message()) == message_json('{"role":"assistant"}') == b'{"role":"assistant"}'


async def test_many_turns_share_one_stream(fake_sidecar: FakeSidecar) -> None:
    client, _ = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        results = await asyncio.gather(
            *(client.run_turn("s", [ToolCall("a", "add", {"a": n, "b": 0})]) for n in range(50))
        )
    assert [result["a"].text for result in results] == [str(n) for n in range(50)]
    assert fake_sidecar.turns.streams_opened == 1


@BOTH
async def test_lost_stream_is_taken_up_without_gaps_or_repeats(fake_sidecar: FakeSidecar, carrier: Carrier) -> None:
    client, gate = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        turn = client.run_turn("s", [ToolCall("a", "wait")], turn_id="t1", carrier=carrier)
        events: list[TurnEvent] = []
        losses = 0
        async for event in turn:
            events.append(event)
            executing = isinstance(event, CallStateChanged) and event.state == "executing"
            if isinstance(event, TurnAccepted) or executing:
                losses += 1
                fake_sidecar._post(fake_sidecar.turns.drop_streams)
                await fake_sidecar.until(lambda n=losses: len(fake_sidecar.turns.attaches) >= n)
            if len(fake_sidecar.turns.attaches) >= 2:
                gate.set()
        assert (await turn)["a"].text == "done"
    assert kept(events) == list(range(1, len(kept(events)) + 1))
    assert fake_sidecar.turns.runs_seen == ["t1"]
    assert losses == 2


@BOTH
async def test_turn_that_was_lost_with_its_process_is_sent_again_as_it_was(
    fake_sidecar: FakeSidecar, carrier: Carrier
) -> None:
    client, gate = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        turn = client.run_turn("s", [ToolCall("a", "wait")], turn_id="t1", carrier=carrier)
        accepted = 0
        async for event in turn:
            if not isinstance(event, TurnAccepted):
                continue
            accepted += 1
            if accepted == 1:
                fake_sidecar._post(fake_sidecar.turns.turns.clear)
                fake_sidecar._post(fake_sidecar.turns.drop_streams)
            else:
                gate.set()
        assert (await turn)["a"].text == "done"
    assert accepted == 2
    assert fake_sidecar.turns.runs_seen == ["t1", "t1"]


@BOTH
async def test_turn_that_was_never_accepted_is_sent_again_as_it_was(
    fake_sidecar: FakeSidecar, carrier: Carrier
) -> None:
    client, gate = bakery(fake_sidecar)
    gate.set()
    async with client:
        await client.wait_ready()
        begun = threading.Event()
        loop = asyncio.get_running_loop()
        turns: list[asyncio.Future[object]] = []

        def begin() -> None:
            turns.append(asyncio.ensure_future(client.run_turn("s", [ToolCall("a", "wait")], carrier=carrier)))
            loop.call_soon(begun.set)

        def while_down() -> None:
            loop.call_soon_threadsafe(begin)
            begun.wait(5)

        await asyncio.to_thread(fake_sidecar.restart, down=while_down)
        await fake_sidecar.until(lambda: fake_sidecar.executors.owner_of("wait"))
        await turns[0]
    assert len(fake_sidecar.turns.runs_seen) == 1


@BOTH
async def test_cancelling_the_task_cancels_the_turn(fake_sidecar: FakeSidecar, carrier: Carrier) -> None:
    client, _ = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        accepted = asyncio.Event()

        async def work() -> None:
            async for event in client.run_turn("s", [ToolCall("a", "wait")], turn_id="t1", carrier=carrier):
                if isinstance(event, CallProgress):
                    accepted.set()

        task = asyncio.ensure_future(work())
        await accepted.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await fake_sidecar.until(lambda: fake_sidecar.turns.cancels)
        result = await client.attach_turn("t1")
    assert fake_sidecar.turns.cancels[0].turn_id == "t1"
    assert (result.outcome, result.results, result.stop) == ("cancelled", (), True)
    assert [item.outcome for item in result.closing_results] == ["cancelled"]
    assert result["a"].outcome == "cancelled"


async def test_task_cancelled_before_the_turn_was_seen_cancels_it_all_the_same(fake_sidecar: FakeSidecar) -> None:
    client, _ = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        task = asyncio.ensure_future(client.run_turn("s", [ToolCall("a", "wait")], turn_id="t1"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await fake_sidecar.until(lambda: fake_sidecar.turns.cancels)
    assert fake_sidecar.turns.cancels[0].turn_id == "t1"


async def test_leaving_the_loop_early_does_not_cancel_the_turn(fake_sidecar: FakeSidecar) -> None:
    client, gate = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        turn = client.run_turn("s", [ToolCall("a", "wait")], turn_id="t1")
        async for _ in turn:
            break
        turn.detach()
        gate.set()
        result = await client.attach_turn("t1")
    assert result["a"].text == "done"
    assert fake_sidecar.turns.cancels == []


async def test_cancel_of_the_handle_ends_with_closing_results(fake_sidecar: FakeSidecar) -> None:
    client, _ = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        turn = client.run_turn("s", [ToolCall("a", "wait")])
        async for event in turn:
            if isinstance(event, CallProgress):
                turn.cancel("the user left")
        result = await turn
    assert result.outcome == "cancelled"
    assert result.error is not None
    assert result.error.message == "the user left"


async def test_attach_after_an_event_gives_only_what_follows(fake_sidecar: FakeSidecar) -> None:
    client, _ = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        await client.run_turn("s", [ToolCall("a", "add", {"a": 1, "b": 1})], turn_id="t1")
        events = [event async for event in client.attach_turn("t1", after_sequence=3, epoch=1)]
    assert kept(events)[0] == 4
    assert isinstance(events[-1], TurnCompleted)


async def test_attach_to_an_unknown_turn_is_not_found(fake_sidecar: FakeSidecar) -> None:
    async with fake_sidecar.client() as client:
        with pytest.raises(NotFound) as caught:
            await client.attach_turn("nowhere")
    assert caught.value.resource_id == "nowhere"


@BOTH
async def test_refused_turn_raises_what_the_sidecar_said(fake_sidecar: FakeSidecar, carrier: Carrier) -> None:
    fake_sidecar.turns.refuse = er.RpcError(
        status=9,
        message="the run has ended",
        detail=er.ErrorDetail(reason=er.ERROR_REASON_RUN_NOT_ACTIVE, code="run_not_active", retry_after_ms=1_500),
    )
    async with fake_sidecar.client() as client:
        with pytest.raises(RunNotActive, match="the run has ended") as caught:
            await client.run_turn("s", [ToolCall("a", "add")], carrier=carrier)
    assert (caught.value.code, caught.value.retry_after) == ("run_not_active", 1.5)


@BOTH
async def test_turn_gives_up_when_the_sidecar_stays_away(carrier: Carrier) -> None:
    client = Client("unix:///tmp/callgate-nobody.sock", backoff=QUICK, reconnect_timeout=0.1)
    async with client:
        with pytest.raises(ConnectionLost):
            await client.run_turn("s", [ToolCall("a", "add")], carrier=carrier)


@BOTH
async def test_closing_the_client_settles_every_turn(fake_sidecar: FakeSidecar, carrier: Carrier) -> None:
    client, _ = bakery(fake_sidecar)
    await client.wait_ready()
    caller = fake_sidecar.client()
    turn = asyncio.ensure_future(caller.run_turn("s", [ToolCall("a", "wait")], turn_id="t1", carrier=carrier))
    await fake_sidecar.until(lambda: "t1" in fake_sidecar.turns.turns)
    await caller.aclose()
    with pytest.raises(ClientClosed):
        await turn
    await client.aclose(drain_timeout=0.01)


async def test_same_turn_twice_on_one_client_is_a_conflict(fake_sidecar: FakeSidecar) -> None:
    client, gate = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        first = asyncio.ensure_future(client.run_turn("s", [ToolCall("a", "wait")], turn_id="t1"))
        await fake_sidecar.until(lambda: "t1" in fake_sidecar.turns.turns)
        with pytest.raises(Conflict, match="follows turn 't1' already") as caught:
            await client.run_turn("s", [ToolCall("a", "wait")], turn_id="t1")
        assert caught.value.code == "turn_already_followed"
        second = asyncio.ensure_future(client.attach_turn("t1"))
        gate.set()
        assert (await second)["a"].text == (await first)["a"].text == "done"


@pytest.mark.parametrize(
    ("calls", "options", "message"),
    [
        ([("a", "shout", {})], {}, r"calls\[0\] must be ToolCall, not tuple"),
        ("shout", {}, r"calls\[0\] must be ToolCall, not str"),
        (ToolCall("a", "shout"), {}, "calls must be Sequence, not ToolCall"),
        ([ToolCall(1, "shout")], {}, r"calls\[0\].call_id must be str, not int"),  # type: ignore[arg-type]
        ([ToolCall("a", None)], {}, r"calls\[0\].name must be str, not NoneType"),  # type: ignore[arg-type]
        ([ToolCall("a", "shout", [1])], {}, r"calls\[0\].arguments must be Mapping or str or bytes, not list"),  # type: ignore[arg-type]
        ([], {"turn_id": 5}, "turn_id must be str or None, not int"),
        ([], {"session_id": None}, "session_id must be str, not NoneType"),
        ([], {"run_id": 5}, "run_id must be str, not int"),
        ([], {"timeout": "5"}, "timeout must be int or float or None, not str"),
        ([], {"model_message": "x"}, "model_message must be bytes, not str"),
    ],
)
def test_wrong_type_is_refused_where_it_is_given(calls: object, options: dict[str, object], message: str) -> None:
    client = Client("unix:///nowhere")
    with pytest.raises(TypeError, match=message):
        client.run_turn(**{"session_id": "s", "calls": calls, **options})  # type: ignore[arg-type]


async def test_go_away_moves_running_turns_to_a_new_stream(fake_sidecar: FakeSidecar) -> None:
    client, gate = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        turn = client.run_turn("s", [ToolCall("a", "wait")])
        events: list[TurnEvent] = []
        async for event in turn:
            events.append(event)
            if isinstance(event, CallProgress):
                fake_sidecar._post(fake_sidecar.turns.go_away, 1, 5)
                await fake_sidecar.until(lambda: fake_sidecar.turns.attaches)
                gate.set()
        assert (await turn)["a"].text == "done"
    assert kept(events) == list(range(1, len(kept(events)) + 1))
    assert fake_sidecar.turns.streams_opened == 2


async def test_unary_questions_are_answered(fake_sidecar: FakeSidecar) -> None:
    client, gate = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        turn = asyncio.ensure_future(client.run_turn("s", [ToolCall("a", "wait")], turn_id="t1"))
        await fake_sidecar.until(
            lambda: fake_sidecar.turns.turns.get("t1") and fake_sidecar.turns.turns["t1"].executions
        )
        assert (await client.get_turn("t1")).state == "running"
        assert [item.turn_id for item in (await client.list_turns(session_id="s"))[0]] == ["t1"]
        assert await client.cancel_call("t1", "a") in {"scheduled", "executing"}
        assert (await turn)["a"].outcome == "cancelled"
        assert (await client.get_turn("t1")).state == "completed"
        assert (await client.get_call_result("t1", "a")).outcome == "cancelled"
        assert await client.cancel_turn("never-seen") is None
        assert (await client.end_run("s")).state == "completed"
        assert (await client.cancel_run("s")).state == "cancelled"
        assert await client.health() == "serving"
        assert (await client.server_info()).store == "memory"
        assert [tool.name for tool in (await client.list_tools()).tools] == ["add", "speak", "wait"]
        exported = await client.list_tools(format="openai_chat")
        assert exported.exported[0]["function"]["name"] == "add"
        assert exported.snapshot_id
    gate.set()


@BOTH
async def test_turn_on_loopback_tcp_waits_for_no_delayed_packet(fake_sidecar: FakeSidecar, carrier: Carrier) -> None:
    # A missing TCP_NODELAY on either side costs 44 ms.
    client, _ = bakery(fake_sidecar, endpoint=fake_sidecar.tcp_endpoint)
    async with client:
        await client.wait_ready()
        spans: list[float] = []
        for _ in range(100):
            before = time.perf_counter()
            await client.run_turn("s", [ToolCall("a", "add", {"a": 1, "b": 2})], carrier=carrier)
            spans.append(time.perf_counter() - before)
    # The fake sidecar is Python too, so the limit of 5 ms is held in tests/real only.
    assert statistics.median(spans) < 0.025


def accepted(sequence: int) -> tu.TurnEvent:
    return tu.TurnEvent(sequence=sequence, turn_accepted=tu.TurnAccepted())


def test_reader_passes_no_event_on_twice() -> None:
    reader = TurnReader("t")
    assert len(reader.take(tu.TurnEvents(epoch=1, events=[accepted(1), accepted(2)]))) == 2
    assert len(reader.take(tu.TurnEvents(epoch=1, events=[accepted(2), accepted(3)]))) == 1
    assert reader.last_sequence == 3


def test_new_epoch_begins_with_its_snapshot_and_old_ones_are_stale() -> None:
    reader = TurnReader("t")
    reader.take(tu.TurnEvents(epoch=1, events=[accepted(7)]))
    events = reader.take(tu.TurnEvents(epoch=2, snapshot=tu.Turn(turn_id="t"), events=[accepted(1)]))
    assert isinstance(events[0], TurnSnapshot)
    assert (events[1].epoch, events[1].sequence) == (2, 1)
    assert reader.take(tu.TurnEvents(epoch=1, events=[accepted(8)])) == []


def test_end_that_is_only_in_the_snapshot_is_told() -> None:
    reader = TurnReader("t")
    snapshot = tu.Turn(turn_id="t", last_sequence=9, completed=tu.TurnCompleted(outcome=tu.TURN_OUTCOME_COMPLETED))
    events = reader.take(tu.TurnEvents(epoch=1, snapshot=snapshot))
    assert [type(event) for event in events] == [TurnSnapshot, TurnCompleted]
    assert reader.completed


def test_event_with_a_newer_body_is_skipped_and_counted() -> None:
    reader = TurnReader("t")
    newer = tu.TurnEvent.FromString(b"\x08\x01\xea\x02\x03new")
    assert reader.take(tu.TurnEvents(epoch=1, events=[newer, accepted(2)]))[0].sequence == 2


async def test_slow_reader_loses_only_what_is_not_kept_and_is_told() -> None:
    feed = TurnFeed(asyncio.get_running_loop())

    def output(number: int) -> TurnEvent:
        return CallOutput("t", 1, 0, 0, "a", "text", number, b"xx", 0)

    feed._add([output(number) for number in range(LOSSY_EVENTS_MAX + 10)])
    feed._add([TurnAccepted("t", 1, 1, 0, "s", "r", "b", (), 1)])
    events = [await feed.next() for _ in range(LOSSY_EVENTS_MAX + 1)]
    assert isinstance(events[-1], TurnAccepted)
    feed._add([output(99)])
    after = await feed.next()
    assert isinstance(after, CallOutput)
    assert after.dropped_bytes == 20


@BOTH
async def test_turn_that_no_sidecar_takes_fails_alone(fake_sidecar: FakeSidecar, carrier: Carrier) -> None:
    client, gate = bakery(fake_sidecar)
    async with client:
        await client.wait_ready()
        other = asyncio.ensure_future(client.run_turn("s", [ToolCall("a", "wait")]))
        await fake_sidecar.until(lambda: fake_sidecar.turns.turns)
        with pytest.raises(LimitExceeded):
            await client.run_turn("s", [ToolCall("a", "add", "x" * 5_000_000)], carrier=carrier)
        gate.set()
        assert (await other)["a"].text == "done"
    assert fake_sidecar.turns.streams_opened == 1


@BOTH
async def test_fault_in_the_reader_settles_the_turn(
    fake_sidecar: FakeSidecar, monkeypatch: pytest.MonkeyPatch, carrier: Carrier
) -> None:
    client, gate = bakery(fake_sidecar)
    gate.set()
    async with client:
        await client.wait_ready()
        monkeypatch.setattr(TurnReader, "take", None)
        with pytest.raises(CallgateError, match="failed"):
            await client.run_turn("s", [ToolCall("a", "wait")], carrier=carrier)
