"""A lost stream loses nothing, and nothing that a handler does can lose the stream."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import grpc
import pytest

import callgate.executor
from callgate import (
    Backoff,
    Client,
    ClientState,
    ConnectionLost,
    DeadlineExceeded,
    PermissionDenied,
    RegistrationRefused,
    Superseded,
    Tool,
    ToolContext,
    ToolServiceRegistry,
    Unavailable,
)
from callgate._gen.callgate.v1 import executor_service_pb2 as ex
from callgate.testing import FakeSidecar

QUICK = Backoff(initial=0.01, cap=0.05)


def gated(client: Client, name: str = "gated") -> tuple[threading.Event, list[ToolContext]]:
    """Adds a tool that waits for an event; returns it and the contexts of its calls."""
    gate, began = threading.Event(), list[ToolContext]()

    @client.tool(name=name)
    def wait(ctx: ToolContext) -> str:
        """Waits."""
        began.append(ctx)
        ctx.progress("began")
        gate.wait(20)
        return "done"

    return gate, began


def hellos(sidecar: FakeSidecar) -> list[ex.Hello]:
    return [hello for instance in sidecar.executors.instances.values() for hello in instance.hellos]


async def test_execution_that_ran_through_a_loss_answers_afterwards(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(backoff=QUICK)
    gate, began = gated(client)
    async with client:
        call = await fake_sidecar.start_call("gated")
        await call.until(lambda: call.progress)
        fake_sidecar.drop_streams()
        await fake_sidecar.until(lambda: len(hellos(fake_sidecar)) == 2)
        gate.set()
        assert (await call.result()).text == "done"
    first, second = hellos(fake_sidecar)
    assert first.instance_id == second.instance_id
    assert second.resume_token
    assert [(item.execution, item.state) for item in second.in_flight] == [
        (call._execution.request.execution, ex.IN_FLIGHT_STATE_RUNNING)
    ]
    assert len(began) == call.results == 1


async def test_result_is_kept_until_acknowledged_and_sent_again(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(backoff=QUICK)

    @client.tool
    def answer() -> str:
        """Answers."""
        return "42"

    async with client:
        await client.wait_ready()
        fake_sidecar.hold_acks()
        call = await fake_sidecar.start_call("answer")
        await call.result()
        fake_sidecar.drop_streams()
        await call.until(lambda: call.results == 2)
        assert hellos(fake_sidecar)[1].in_flight[0].state == ex.IN_FLIGHT_STATE_FINISHED
        fake_sidecar.release_acks()
        # Acknowledged before the next loss, so it is not in hand any more.
        await client.update_tools()
        fake_sidecar.drop_streams()
        await fake_sidecar.until(lambda: len(hellos(fake_sidecar)) == 3)
        assert list(hellos(fake_sidecar)[2].in_flight) == []
    assert call.results == 2


async def test_result_made_while_disconnected_is_sent_after_the_welcome(fake_sidecar: FakeSidecar) -> None:
    states: list[ClientState] = []
    client = fake_sidecar.client(backoff=QUICK, on_state=states.append)
    gate, began = gated(client)
    async with client:
        call = await fake_sidecar.start_call("gated")
        await call.until(lambda: call.progress)
        released = asyncio.Event()
        loop = asyncio.get_running_loop()

        def while_down() -> None:
            gate.set()
            loop.call_soon_threadsafe(released.set)
            # The handler has ended when its thread has posted its outcome.
            while began[0]._reporter.state.value != "finished":  # type: ignore[attr-defined]
                time.sleep(0.001)

        await asyncio.to_thread(fake_sidecar.restart, down=while_down)
        await released.wait()
        assert (await call.result()).text == "done"
    assert ClientState.RECONNECTING in states


@pytest.mark.parametrize("action", [ex.IN_FLIGHT_ACTION_CANCEL, ex.IN_FLIGHT_ACTION_FORGET])
async def test_decision_about_a_running_execution_is_obeyed(fake_sidecar: FakeSidecar, action: int) -> None:
    client = fake_sidecar.client(backoff=QUICK)
    ended = asyncio.Event()

    @client.tool
    async def slow(ctx: ToolContext) -> None:
        """Waits."""
        ctx.progress("began")
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with client:
        call = await fake_sidecar.start_call("slow")
        await call.until(lambda: call.progress)
        fake_sidecar.executors.decide = lambda item: action
        fake_sidecar.drop_streams()
        await ended.wait()
        if action == ex.IN_FLIGHT_ACTION_CANCEL:
            assert (await call.result()).outcome == "cancelled"
        else:
            # Whatever the executor says now comes behind what it would say of the forgotten one.
            await client.update_tools()
    assert call.results == (1 if action == ex.IN_FLIGHT_ACTION_CANCEL else 0)


async def test_update_that_was_lost_with_a_stream_is_answered_by_the_next_hello(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(backoff=QUICK)

    @client.tool
    def first() -> None:
        """Is first."""

    def second() -> str:
        """Comes later."""
        return "second"

    async with client:
        await client.wait_ready()
        update: list[asyncio.Task[object]] = []
        loop = asyncio.get_running_loop()
        begun = threading.Event()

        def begin() -> None:
            update.append(asyncio.ensure_future(client.update_tools(add=[second])))
            begun.set()

        def while_down() -> None:
            loop.call_soon_threadsafe(begin)
            begun.wait(5)

        await asyncio.to_thread(fake_sidecar.restart, down=while_down)
        (answer,) = await update[0]  # type: ignore[misc]
        assert answer.active
        assert (await fake_sidecar.call("second")).text == "second"


async def test_update_between_hello_and_welcome_is_sent_after_the_welcome(fake_sidecar: FakeSidecar) -> None:
    for _ in range(10):
        async with fake_sidecar.client() as client:

            def late() -> str:
                """Comes late."""
                return "late"

            (answer,) = await client.update_tools(add=[late])
            assert answer.active
            assert (await fake_sidecar.call("late")).text == "late"


async def test_stream_that_ends_with_ok_is_opened_again(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(backoff=QUICK)

    @client.tool
    def here() -> str:
        """Is here."""
        return "here"

    async with client:
        await client.wait_ready()
        for round_ in range(3):
            (instance,) = fake_sidecar.executors.instances.values()
            instance.stream.outbox.put_nowait(None)  # type: ignore[union-attr]
            fake_sidecar._post(fake_sidecar.executors.notify)
            fake_sidecar.drop_streams()
            await fake_sidecar.until(lambda round_=round_: len(hellos(fake_sidecar)) >= round_ + 2)
        assert (await fake_sidecar.call("here")).text == "here"


async def test_blocked_event_loop_does_not_stop_the_pings(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "callgate")
    async with FakeSidecar(ping_interval=0.15, ping_misses=4) as sidecar:
        client = sidecar.client(backoff=QUICK)

        @client.tool
        async def rude(ctx: ToolContext) -> str:
            """Blocks the event loop for longer than three leases, and long enough for the warning."""
            time.sleep(1.9)
            return "awake"

        async with client:
            await client.wait_ready()
            (instance,) = sidecar.executors.instances.values()
            stream = instance.stream
            assert stream is not None
            result = await sidecar.call("rude")
            sidecar.send_raw(ex.ConnectResponse(ping={"nonce": 1}))
            await sidecar.until(lambda: stream.pongs == 1)
            assert result.text == "awake"
            # One stream carried it all: neither side has given it up.
            assert len(instance.hellos) == 1
            assert stream.received.count("ping") >= 9
    assert "has blocked the event loop" in caplog.text


class DeafLoop:
    """An event loop that answers nothing, and is closed after a few questions."""

    def __init__(self) -> None:
        self.asked = 0

    def call_soon_threadsafe(self, action: object) -> None:
        self.asked += 1
        if self.asked > 3:
            raise RuntimeError("closed")


@pytest.mark.parametrize("has_async", [False, True])
async def test_blocked_event_loop_is_blamed_on_tools_only_if_some_run_on_it(
    has_async: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(callgate.executor, "LAG_CHECK_INTERVAL", 0.0)
    monkeypatch.setattr(callgate.executor, "LAG_WARNING", 0.0)

    def on_thread() -> None:
        """Runs on a thread."""

    async def on_loop() -> None:
        """Runs on the loop."""

    executor = callgate.executor.Executor(ToolServiceRegistry(), 1)
    executor.start(asyncio.get_running_loop(), DeafLoop())  # type: ignore[arg-type]
    executor.activate(Tool(on_thread), b"")
    if has_async:
        executor.activate(Tool(on_loop), b"")
    await executor.watch_lag()
    assert ("has blocked the event loop" in caplog.text) is has_async


async def test_stream_without_pongs_is_given_up_and_opened_again() -> None:
    async with FakeSidecar(ping_interval=0.05, ping_misses=2) as sidecar:
        client = sidecar.client(backoff=QUICK)

        @client.tool
        def here() -> str:
            """Is here."""
            return "here"

        async with client:
            await client.wait_ready()
            sidecar.executors.answer_pings = False
            await sidecar.until(lambda: len(hellos(sidecar)) >= 2)
            sidecar.executors.answer_pings = True
            assert (await sidecar.call("here")).text == "here"


async def test_go_away_is_obeyed_after_what_runs_has_finished(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(backoff=Backoff(initial=60, cap=60))
    gate, _ = gated(client)
    async with client:
        call = await fake_sidecar.start_call("gated")
        await call.until(lambda: call.progress)
        fake_sidecar.go_away(min_ms=10, max_ms=50)
        gate.set()
        # On the old stream; the back-off of a minute shows that the named span is used.
        assert (await call.result()).text == "done"
        await fake_sidecar.until(lambda: len(hellos(fake_sidecar)) == 2, 10)
    assert list(hellos(fake_sidecar)[1].in_flight) == []


async def test_superseded_executor_stays_away(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(backoff=QUICK)

    @client.tool
    def here() -> None:
        """Is here."""

    async with client:
        await client.wait_ready()
        fake_sidecar.go_away(reason="superseded", min_ms=1, max_ms=2)
        with pytest.raises(Superseded):
            await client.wait_closed()
        assert client.state is ClientState.CLOSED
    assert len(hellos(fake_sidecar)) == 1


async def test_go_away_for_good_is_the_end(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(backoff=QUICK)

    @client.tool
    def here() -> None:
        """Is here."""

    async with client:
        await client.wait_ready()
        fake_sidecar.go_away(min_ms=0, max_ms=0)
        with pytest.raises(Unavailable):
            await client.wait_closed()


async def test_wrong_credential_at_first_is_an_error_and_not_a_loop(fake_sidecar: FakeSidecar) -> None:
    fake_sidecar.executors.abort_hello = (grpc.StatusCode.PERMISSION_DENIED, "not yours")
    client = fake_sidecar.client(backoff=QUICK)

    @client.tool
    def here() -> None:
        """Is here."""

    async with client:
        with pytest.raises(PermissionDenied, match="not yours"):
            await client.wait_ready()


async def test_credential_that_is_refused_later_is_tried_again(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(backoff=QUICK)

    @client.tool
    def here() -> str:
        """Is here."""
        return "here"

    async with client:
        await client.wait_ready()
        fake_sidecar.executors.abort_hello = (grpc.StatusCode.UNAUTHENTICATED, "expired")
        fake_sidecar.drop_streams()
        await fake_sidecar.until(lambda: fake_sidecar.executors.owner_of("here") is None)
        fake_sidecar.executors.abort_hello = None
        assert (await fake_sidecar.call("here")).text == "here"


async def test_strict_registration_ends_with_what_was_refused(fake_sidecar: FakeSidecar) -> None:
    fake_sidecar.executors.refuse["bad"] = "schema_invalid"
    client = fake_sidecar.client(strict_registration=True)

    @client.tool
    def bad() -> None:
        """Is bad."""

    async with client:
        with pytest.raises(RegistrationRefused, match=r"`bad` \(schema_invalid\)"):
            await client.wait_ready()


async def test_waiting_for_a_sidecar_that_is_not_there_ends_in_time() -> None:
    client = Client("unix:///tmp/callgate-nobody.sock", executor_name="test", backoff=QUICK)

    @client.tool
    def here() -> None:
        """Is here."""

    async with client:
        with pytest.raises(DeadlineExceeded):
            await client.wait_ready(0.1)
        update = asyncio.ensure_future(client.update_tools(remove=["here"]))
        await asyncio.sleep(0)
    # Every promise is settled, this one too.
    with pytest.raises(ConnectionLost):
        await update


async def test_executor_waits_for_a_sidecar_that_comes_later(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(backoff=QUICK)

    @client.tool
    def here() -> str:
        """Is here."""
        return "here"

    begun = threading.Event()
    loop = asyncio.get_running_loop()

    async def begin() -> None:
        await client.start()
        begun.set()

    def while_down() -> None:
        asyncio.run_coroutine_threadsafe(begin(), loop)
        begun.wait(5)

    await asyncio.to_thread(fake_sidecar.restart, down=while_down)
    await client.wait_ready()
    assert (await fake_sidecar.call("here")).text == "here"
    await client.aclose()


async def test_starting_several_times_at_once_makes_one_stream(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    def here() -> str:
        """Is here."""
        return "here"

    await asyncio.gather(*(client.wait_ready() for _ in range(5)))
    assert len(hellos(fake_sidecar)) == 1
    await client.aclose()


async def test_observer_that_fails_does_not_end_the_stream(
    fake_sidecar: FakeSidecar, caplog: pytest.LogCaptureFixture
) -> None:
    def observe(state: ClientState) -> None:
        raise ValueError("not my day")

    client = fake_sidecar.client(on_state=observe)

    @client.tool
    def here() -> str:
        """Is here."""
        return "here"

    async with client:
        assert (await fake_sidecar.call("here")).text == "here"
    assert "on_state failed" in caplog.text


async def test_fault_in_the_reader_is_logged_and_the_stream_is_opened_again(
    fake_sidecar: FakeSidecar, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = fake_sidecar.client(backoff=QUICK)

    @client.tool
    def here() -> str:
        """Is here."""
        return "here"

    async with client:
        await client.wait_ready()
        monkeypatch.setattr(client._stream, "_take_go_away", None)
        fake_sidecar.go_away()
        await fake_sidecar.until(lambda: len(hellos(fake_sidecar)) == 2)
        assert (await fake_sidecar.call("here")).text == "here"
    assert "the executor stream failed" in caplog.text
