"""Calls that go the whole way over a stream."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from callgate import (
    Backoff,
    Client,
    ErrorInfo,
    Subject,
    Tool,
    ToolContext,
    ToolDefinitionError,
    ToolError,
    ToolResult,
)
from callgate._gen.callgate.v1 import executor_service_pb2 as ex
from callgate._gen.callgate.v1 import stream_pb2 as st
from callgate._gen.callgate.v1 import types_pb2 as ty
from callgate._wire.fake_executors import FakeInstance
from callgate.executor import Execution
from callgate.testing import FakeSidecar
from unit.raising import NAMES, RAISED, raising

QUICK = Backoff(initial=0.01, cap=0.05, stable_after=60)


@asynccontextmanager
async def serving(client: Client) -> AsyncIterator[Client]:
    async with client:
        await client.wait_ready(10)
        yield client


async def test_def_and_async_def_tools_answer(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    def double(n: int) -> int:
        """Doubles."""
        return 2 * n

    @client.tool
    async def triple(n: int) -> int:
        """Triples."""
        await asyncio.sleep(0)
        return 3 * n

    async with serving(client):
        assert (await fake_sidecar.call("double", {"n": 21})).text == "42"
        assert (await fake_sidecar.call("triple", {"n": 14})).text == "42"


async def test_async_def_tool_runs_on_the_loop_of_its_user_and_def_tool_on_a_thread(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()
    seen: dict[str, object] = {}

    @client.tool
    async def here() -> None:
        """Notes its loop."""
        seen["loop"] = asyncio.get_running_loop()

    @client.tool
    def there() -> None:
        """Notes its thread."""
        seen["thread"] = threading.current_thread()

    async with serving(client):
        await fake_sidecar.call("here")
        await fake_sidecar.call("there")
    assert seen["loop"] is asyncio.get_running_loop()
    assert seen["thread"] is not threading.current_thread()


async def test_integers_beyond_2_to_the_53_arrive_digit_for_digit(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    def echo(n: int) -> dict[str, int]:
        """Gives it back."""
        return {"n": n}

    async with serving(client):
        result = await fake_sidecar.call("echo", '{"n":9007199254740993}')
    assert result.text == '{"n":9007199254740993}'
    assert result.structured == {"n": 9007199254740993}


async def test_context_carries_what_the_sidecar_sent(fake_sidecar: FakeSidecar) -> None:
    @dataclass
    class Service:
        service_id: str

    client = fake_sidecar.client()
    client.services.register(Service("db"))
    client.services.register(Service("mail"))
    seen: list[ToolContext] = []

    @client.tool(services=["db", "mail"])
    def look(ctx: ToolContext) -> None:
        """Keeps its context."""
        seen.append(ctx)

    async with serving(client):
        await fake_sidecar.call(
            "look", call_id="c9", session_id="s9", metadata={"plan": "a"}, services=("db",), cwd="/work", timeout=60
        )
    (ctx,) = seen
    assert (ctx.session_id, ctx.call_id, ctx.cwd, ctx.batch_call_id) == ("s9", "c9", "/work", "batch")
    assert ctx.state.metadata == {"plan": "a"}
    assert ctx.services.get("db") == Service("db")
    assert ctx.services.get("mail") is None
    remaining = ctx.time_remaining()
    assert remaining is not None
    assert 0 < remaining <= 60


async def test_one_handlers_context_variables_do_not_reach_another(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(max_concurrency=1)
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="clean")

    @client.tool
    def mark() -> str:
        """Sets a variable and tells what it was."""
        before = variable.get()
        variable.set("dirty")
        return before

    async with serving(client):
        assert [(await fake_sidecar.call("mark")).text for _ in range(2)] == ["clean", "clean"]


async def test_domain_error_keeps_its_code(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    def bake() -> str:
        """Fails."""
        raise ToolError("out_of_flour", "no flour is left", retryable=True, retry_after=2)

    async with serving(client):
        result = await fake_sidecar.call("bake")
    assert result.error == ErrorInfo("out_of_flour", "no flour is left", retryable=True, retry_after=2.0, layer="tool")
    assert result.text == "no flour is left"


async def test_thrown_exception_and_system_exit_are_results(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    def throws() -> None:
        """Throws."""
        raise RuntimeError("the oven is cold")

    @client.tool
    async def leaves() -> None:
        """Wants to end the process."""
        raise SystemExit(3)

    @client.tool
    def leaves_too() -> None:
        """Wants to end the process."""
        raise SystemExit(3)

    async with serving(client):
        result = await fake_sidecar.call("throws")
        assert result.error is not None
        assert (result.error.code, result.error.message) == ("tool_execution_failed", "the oven is cold")
        assert "RuntimeError" in result.error.detail
        assert (await fake_sidecar.call("leaves")).is_error
        assert (await fake_sidecar.call("leaves_too")).is_error


@pytest.mark.parametrize("make", RAISED, ids=NAMES)
async def test_whatever_a_handler_raises_is_its_error_at_once_and_the_executor_goes_on(
    fake_sidecar: FakeSidecar, make: Callable[[], BaseException]
) -> None:
    client = fake_sidecar.client()
    on_thread, on_loop = raising(make)

    @client.tool
    def thread() -> None:
        """Raises."""
        on_thread()

    @client.tool
    async def loop() -> None:
        """Raises."""
        await on_loop()

    async with serving(client):
        for name in ("thread", "loop") * 2:
            result = await fake_sidecar.call(name)
            assert result.error is not None
            assert (result.outcome, result.error.code) == ("error", "tool_execution_failed")
        assert [len(instance.hellos) for instance in fake_sidecar.executors.instances.values()] == [1]


async def test_arguments_that_do_not_fit_the_types_never_reach_the_handler(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()
    reached: list[int] = []

    @client.tool
    def find(index: int) -> None:
        """Notes."""
        reached.append(index)

    async with serving(client):
        result = await fake_sidecar.call("find", {"index": 1.5})
    assert result.error is not None
    assert (result.error.code, result.error.path) == ("arguments_rejected", "$.index")
    assert reached == []


async def test_stop_flag_goes_with_the_answer(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    def finish() -> ToolResult:
        """Ends."""
        return ToolResult.of("done", stop=True, metadata={"loaves": 3})

    async with serving(client):
        result = await fake_sidecar.call("finish")
    assert (result.stop_flag, result.text, result.metadata) == (True, "done", {"loaves": 3})


async def test_result_beyond_the_agreed_size_is_an_error_and_the_stream_goes_on() -> None:
    async with FakeSidecar(max_result_bytes=1_000) as sidecar:
        client = sidecar.client()

        @client.tool
        def text(size: int) -> str:
            """Makes text."""
            return "x" * size

        async with serving(client):
            assert (await sidecar.call("text", {"size": 1_000})).text == "x" * 1_000
            result = await sidecar.call("text", {"size": 1_001})
            assert result.error is not None
            assert result.error.code == "result_too_large"
            assert len(sidecar.executors.instances) == 1


async def test_broken_text_is_replaced_and_marked(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    def broken() -> str:
        """Returns half a character."""
        return "a\ud800b"

    async with serving(client):
        result = await fake_sidecar.call("broken")
    assert (result.text, result.sanitised) == ("a\ufffdb", True)


async def test_progress_is_coalesced_and_the_newest_wins(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()
    release = threading.Event()

    @client.tool
    def count(ctx: ToolContext) -> None:
        """Reports much."""
        for step in range(1_000):
            ctx.progress(f"step {step}", step / 999)
        release.wait(10)

    async with serving(client):
        call = await fake_sidecar.start_call("count")
        await call.until(lambda: call.progress and call.progress[-1] == ("step 999", 1.0))
        release.set()
        await call.result()
    assert len(call.progress) <= 4


async def test_output_beyond_its_credit_is_dropped_and_counted(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()
    more = threading.Event()
    taken: list[int] = []

    @client.tool
    def shout(ctx: ToolContext) -> None:
        """Prints much."""
        taken.append(ctx.output("x" * 10, "stdout"))
        more.wait(10)
        taken.append(ctx.output("y" * 3))

    async with serving(client):
        call = await fake_sidecar.start_call("shout", output_credit=4)
        await call.until(lambda: call.output == b"xxxx")
        call.add_credit(3)
        # The credit is there before the handler goes on: an echo has passed behind it.
        await fake_sidecar.until(lambda: True)
        fake_sidecar.send_raw(ex.ConnectResponse(ping={"nonce": 7}))
        (instance,) = fake_sidecar.executors.instances.values()
        stream = instance.stream
        assert stream is not None
        await fake_sidecar.until(lambda: stream.pongs == 1)
        more.set()
        await call.result()
    assert taken == [4, 3]
    assert call.output == b"xxxxyyy"
    assert call.dropped_bytes == 6


async def test_output_is_cut_into_chunks_of_the_agreed_size(fake_sidecar: FakeSidecar) -> None:
    fake_sidecar.executors.limits.max_output_chunk_bytes = 5
    client = fake_sidecar.client()

    @client.tool
    def shout(ctx: ToolContext) -> None:
        """Prints."""
        ctx.output(b"abcdefghijkl")

    async with serving(client):
        call = await fake_sidecar.start_call("shout")
        await call.result()
    assert [chunk.data for chunk in call._execution.output] == [b"abcde", b"fghij", b"kl"]
    assert [chunk.chunk_sequence for chunk in call._execution.output] == [1, 2, 3]


async def test_call_beyond_the_slots_is_accepted_as_queued_and_runs_later(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(max_concurrency=1)
    gate = threading.Event()

    @client.tool
    def wait() -> str:
        """Waits."""
        gate.wait(10)
        return "done"

    async with serving(client):
        first = await fake_sidecar.start_call("wait")
        second = await fake_sidecar.start_call("wait")
        await second.until(lambda: second.accepted == [True])
        gate.set()
        assert (await first.result()).text == (await second.result()).text == "done"
    assert first.accepted == [False]
    assert second.accepted == [True, False]


async def test_tools_own_limit_holds_back_only_that_tool(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(max_concurrency=8)
    gate = threading.Event()

    @client.tool(max_concurrency=1)
    def narrow() -> None:
        """Waits."""
        gate.wait(10)

    @client.tool
    def wide() -> str:
        """Does not."""
        return "free"

    async with serving(client):
        first = await fake_sidecar.start_call("narrow")
        second = await fake_sidecar.start_call("narrow")
        assert (await fake_sidecar.call("wide")).text == "free"
        await second.until(lambda: second.accepted == [True])
        gate.set()
        await first.result()
        await second.result()


async def test_call_beyond_slots_and_queue_is_rejected_as_busy(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(max_concurrency=1)
    gate = threading.Event()

    @client.tool
    def wait() -> None:
        """Waits."""
        gate.wait(10)

    async with serving(client):
        calls = [await fake_sidecar.start_call("wait") for _ in range(66)]
        await calls[-1].result()
        assert calls[-1].rejected == "busy"
        gate.set()
        for call in calls[:-1]:
            await call.result()


async def test_same_execution_again_never_begins_twice(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()
    began: list[int] = []
    gate = threading.Event()

    @client.tool
    def once() -> str:
        """Counts."""
        began.append(1)
        gate.wait(10)
        return "once"

    async with serving(client):
        call = await fake_sidecar.start_call("once")
        await call.until(lambda: call.accepted)
        fake_sidecar.send_raw(ex.ConnectResponse(execute=call._execution.request))
        await call.until(lambda: len(call.accepted) == 2)
        gate.set()
        assert (await call.result()).text == "once"
    assert began == [1]


async def test_unknown_tool_and_another_definition_are_rejected(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    def known() -> None:
        """Is known."""

    async with serving(client):
        (instance,) = fake_sidecar.executors.instances.values()
        instance.tools["ghost"] = ty.ToolDefinition(name="ghost")
        call = await fake_sidecar.start_call("ghost")
        await call.result()
        assert call.rejected == "unknown_tool"
        instance.tools["known"] = ty.ToolDefinition(name="known", description="changed")
        call = await fake_sidecar.start_call("known")
        await call.result()
        assert call.rejected == "unknown_tool"


async def test_unknown_message_is_ignored_and_the_stream_goes_on(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    def hello() -> str:
        """Greets."""
        return "hello"

    async with serving(client):
        newer = ex.ConnectResponse.FromString(b"\xea\x02\x03new")  # field 45, unknown to every version
        assert newer.WhichOneof("body") is None
        fake_sidecar.send_raw(newer)
        assert (await fake_sidecar.call("hello")).text == "hello"
        assert len(fake_sidecar.executors.instances) == 1
        (instance,) = fake_sidecar.executors.instances.values()
        assert len(instance.hellos) == 1


async def test_tools_come_change_and_go_while_connected(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    def one() -> str:
        """First."""
        return "1"

    def other() -> str:
        """Second."""
        return "2"

    async with serving(client):
        (answer,) = await client.update_tools(add=[one])
        assert answer.active
        assert (await fake_sidecar.call("one")).text == "1"
        await client.update_tools(add=[Tool(other, name="one")])
        assert (await fake_sidecar.call("one")).text == "2"
        await client.update_tools(remove=["one"])
        assert fake_sidecar.executors.owner_of("one") is None
        assert not client.registrations["one"].active
        assert client.tools == ()


def numbered(count: int) -> list[Tool]:
    def nothing() -> None:
        """Does nothing."""

    return [Tool(nothing, name=f"tool_{number}") for number in range(count)]


async def test_more_tools_than_one_message_takes_are_all_answered_in_order(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()
    tools = numbered(2_001)
    names = [tool.name for tool in tools]
    fake_sidecar.executors.refuse = {"tool_0": "schema_unsupported_keyword", "tool_2000": "schema_unsupported_keyword"}
    async with serving(client):
        added = await client.update_tools(add=tools)
        assert [item.name for item in added] == names
        assert [item.name for item in client.refused] == ["tool_0", "tool_2000"]
        removed = await client.update_tools(add=tools[:1], remove=names[1:])
        assert [(item.name, item.error is None) for item in removed] == [(name, name != "tool_0") for name in names]
        (instance,) = fake_sidecar.executors.instances.values()
        assert instance.tools == {}
        assert (len(instance.hellos), instance.updates) == (1, 6)


async def test_sidecar_says_how_many_tools_one_message_takes(fake_sidecar: FakeSidecar) -> None:
    executors = fake_sidecar.executors
    executors.limits = st.StreamLimits(max_tools_per_message=2)
    client = fake_sidecar.client(backoff=QUICK)
    for tool in numbered(5):
        client.add_tool(tool)
    async with serving(client):
        # The first hello could not know; the refusal said it.
        (instance,) = executors.instances.values()
        assert ([len(hello.tools) for hello in instance.hellos], instance.updates) == ([2], 2)
        answers = await client.update_tools(add=numbered(3), remove=["tool_3", "tool_4"])
        assert [item.name for item in answers] == [f"tool_{number}" for number in range(5)]
        assert instance.updates == 5
        assert sorted(instance.tools) == ["tool_0", "tool_1", "tool_2"]


async def test_update_cut_for_a_larger_limit_is_answered_by_the_pieces_of_the_next_hello(
    fake_sidecar: FakeSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    executors = fake_sidecar.executors
    client = fake_sidecar.client(backoff=QUICK)
    async with serving(client):
        lost: list[object] = []
        with monkeypatch.context() as patch:
            patch.setattr(executors, "_update", lambda *update: lost.append(update))
            added = asyncio.ensure_future(client.update_tools(add=numbered(5)))
            await fake_sidecar.until(lambda: len(lost) == 1)
            removed = asyncio.ensure_future(client.update_tools(remove=["tool_4"]))
            await fake_sidecar.until(lambda: len(lost) == 2)
        executors.limits = st.StreamLimits(max_tools_per_message=2)
        fake_sidecar.drop_streams()
        assert [(item.name, item.active) for item in await added] == [
            (f"tool_{number}", number < 4) for number in range(5)
        ]
        assert not (await removed)[0].active
        (instance,) = executors.instances.values()
        assert sorted(instance.tools) == [f"tool_{number}" for number in range(4)]


async def test_ready_means_that_every_piece_of_the_hello_is_answered(
    fake_sidecar: FakeSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    executors = fake_sidecar.executors
    executors.refuse = {"tool_0": "schema_unsupported_keyword"}
    answer = executors._update
    held: list[tuple[FakeInstance, ex.ToolUpdate]] = []
    monkeypatch.setattr(executors, "_update", lambda *update: held.append(update))
    client = fake_sidecar.client()
    for tool in numbered(1_001):
        client.add_tool(tool)
    async with client:
        waiting = asyncio.ensure_future(client.wait_ready())
        await fake_sidecar.until(lambda: held)
        stream = client._stream
        assert stream is not None
        assert not stream.ready.is_set()
        fake_sidecar._post(answer, *held[0])
        await waiting
        assert client.registrations["tool_1000"].active
        assert [item.name for item in client.refused] == ["tool_0"]


async def test_update_that_is_lost_with_a_long_hello_is_answered_whole(
    fake_sidecar: FakeSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    executors = fake_sidecar.executors
    client = fake_sidecar.client(backoff=QUICK)
    async with serving(client):
        lost: list[object] = []
        with monkeypatch.context() as patch:
            patch.setattr(executors, "_update", lambda *update: lost.append(update))
            update = asyncio.ensure_future(client.update_tools(add=numbered(1_001)))
            await fake_sidecar.until(lambda: len(lost) == 2)
        fake_sidecar.drop_streams()
        assert [item.name for item in await update] == [f"tool_{number}" for number in range(1_001)]


async def test_refused_tool_is_visible_and_does_not_refuse_the_others(
    fake_sidecar: FakeSidecar, caplog: pytest.LogCaptureFixture
) -> None:
    client = fake_sidecar.client()
    fake_sidecar.executors.refuse["bad"] = "schema_unsupported_keyword"

    @client.tool
    def good() -> str:
        """Is good."""
        return "good"

    @client.tool
    def bad() -> None:
        """Is bad."""

    async with serving(client):
        assert client.registrations["good"].active
        assert not client.registrations["bad"].active
        assert [item.name for item in client.refused] == ["bad"]
        assert (await fake_sidecar.call("good")).text == "good"
    assert "refused tool `bad`: schema_unsupported_keyword" in caplog.text


async def test_more_tools_than_a_hello_takes_are_all_registered(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    def nothing() -> None:
        """Does nothing."""

    for number in range(1_001):
        client.add_tool(Tool(nothing, name=f"tool_{number}"))
    async with serving(client):
        assert (await fake_sidecar.call("tool_1000")).outcome == "success"
        assert len(client.registrations) == 1_001


async def test_definition_says_what_the_decorator_said(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool(
        risk="dangerous",
        kind="edit",
        subject=Subject("/path", "path"),
        skip_permission=True,
        timeout=1.5,
        idempotent=True,
        exclusive=True,
        max_concurrency=2,
        services=["db"],
        version="7",
        annotations={"team": "bread"},
    )
    def write(path: str) -> None:
        """Writes."""

    async with serving(client):
        definition = fake_sidecar.executors.owner_of("write").tools["write"]  # type: ignore[union-attr]
    assert definition == ty.ToolDefinition(
        name="write",
        description="Writes.",
        parameters_json=b'{"properties":{"path":{"type":"string"}},"required":["path"],"type":"object"}',
        schema_dialect=ty.SCHEMA_DIALECT_CORE,
        risk_level=ty.RISK_LEVEL_DANGEROUS,
        kind=ty.TOOL_KIND_EDIT,
        subject=ty.Subject(pointer="/path", subject_type=ty.SUBJECT_TYPE_PATH),
        skip_permission=True,
        idempotent=True,
        exclusive=True,
        timeout_ms=1_500,
        max_concurrency=2,
        supports_cancellation=False,
        services=["db"],
        version="7",
        annotations_json=b'{"team":"bread"}',
    )


@pytest.mark.parametrize(("pointer", "type_"), [("path", "path"), ("/", "path"), ("", "path"), ("/path", "file")])
def test_subject_that_points_nowhere_is_refused_where_it_is_declared(pointer: str, type_: Any) -> None:
    with pytest.raises(ToolDefinitionError):
        Subject(pointer, type_)


async def test_capacity_of_zero_is_told_and_kept_through_a_loss(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(backoff=QUICK)

    @client.tool
    def here() -> str:
        """Is here."""
        return "here"

    async with serving(client):
        (instance,) = fake_sidecar.executors.instances.values()
        await client.resize(0)
        await fake_sidecar.until(lambda: instance.stream and "capacity_update" in instance.stream.received)
        fake_sidecar.drop_streams()
        await fake_sidecar.until(lambda: len(instance.hellos) == 2)
        await fake_sidecar.until(lambda: instance.stream and "capacity_update" in instance.stream.received)
        call = await fake_sidecar.start_call("here")
        await call.until(lambda: call.accepted == [True])
        await client.resize(1)
        assert (await call.result()).text == "here"


async def test_of_two_tools_with_one_name_the_first_is_active(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool(name="twice")
    def first() -> str:
        """Is first."""
        return "first"

    @client.tool(name="twice")
    def second() -> str:
        """Is second."""
        return "second"

    async with serving(client):
        assert client.registrations["twice"].active
        assert [item.error.code for item in client.refused if item.error] == ["tool_name_duplicate"]
        assert (await fake_sidecar.call("twice")).text == "first"


async def test_execution_that_the_sidecar_does_not_know_is_muted(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()
    muted = threading.Event()

    @client.tool
    def chatter(ctx: ToolContext) -> str:
        """Prints on."""
        ctx.output("a")
        muted.wait(10)
        ctx.output("b")
        ctx.progress("late")
        return "done"

    async with serving(client):
        call = await fake_sidecar.start_call("chatter")
        await call.until(lambda: call.output)
        notice = st.Notice(code="execution_unknown", about=call._execution.execution_id)
        fake_sidecar.send_raw(ex.ConnectResponse(notice=notice))
        fake_sidecar.send_raw(ex.ConnectResponse(ping=st.Ping(nonce=1)))
        (instance,) = fake_sidecar.executors.instances.values()
        stream = instance.stream
        assert stream is not None
        await fake_sidecar.until(lambda: stream.pongs)
        muted.set()
        assert (await call.result()).text == "done"
    assert (call.output, call.progress) == (b"a", [])


async def test_control_goes_ahead_of_work(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()
    gate = threading.Event()

    @client.tool
    def shout(ctx: ToolContext) -> None:
        """Prints much at once."""
        ctx.output(b"x" * 20_000_000)
        gate.wait(10)

    async with serving(client):
        call = await fake_sidecar.start_call("shout", output_credit=20_000_000)
        await call.until(lambda: call.output)
        fake_sidecar.send_raw(ex.ConnectResponse(ping=st.Ping(nonce=1)))
        (instance,) = fake_sidecar.executors.instances.values()
        stream = instance.stream
        assert stream is not None
        await fake_sidecar.until(lambda: stream.pongs)
        gate.set()
        await call.result()
        received = stream.received
    assert "output" in received[received.index("pong") :]


async def test_handler_may_use_the_client_while_it_drains(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()
    began, go_on = asyncio.Event(), asyncio.Event()

    @client.tool
    async def ask() -> str:
        """Asks the sidecar."""
        began.set()
        await go_on.wait()
        return await client.health()

    await client.wait_ready()
    call = await fake_sidecar.start_call("ask")
    await began.wait()
    closing = asyncio.ensure_future(client.aclose())
    (instance,) = fake_sidecar.executors.instances.values()
    await fake_sidecar.until(lambda: instance.drained)
    go_on.set()
    assert (await call.result()).text == "serving"
    await closing


async def test_nothing_is_kept_of_an_acknowledged_execution(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()

    @client.tool
    def quick() -> str:
        """Is quick."""
        return "done"

    @client.tool
    async def quick_too() -> str:
        """Is quick."""
        return "done"

    async with serving(client):
        for tool in ("quick", "quick_too") * 10:
            await fake_sidecar.call(tool)
        # An answered update has passed behind every acknowledgement.
        await client.update_tools()
        gc.collect()
        stream = client._stream
        assert stream is not None
        mine = stream._executor
        assert not [item for item in gc.get_objects() if type(item) is Execution and item._host is mine]
