"""A hook asks for more time: once for each answer, and only while somebody waits for it."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import pickle
import threading
from typing import Any

import pytest

from callgate import ApprovalRequested, Before, HookInput, Hooks, LoopDiagnosis, MoreTimeRefused, Run, TurnObserved
from callgate._gen.callgate.v1 import hook_service_pb2 as hk
from callgate.hook import MoreTime, allow_more_time
from callgate.testing import ask_hook, waiting_approval
from unit.hook_server import HookServer

BEFORE = hk.HOOK_POINT_BEFORE_TOOL_CALL


def refusal(asked: Any) -> str:
    """The code with which it is refused."""
    with pytest.raises(MoreTimeRefused) as caught:
        asked.need_more_time(1)
    return caught.value.code


@pytest.mark.parametrize(
    ("seconds", "granted", "extra_ms"), [(0.25, 0.25, 250), (5, 5.0, 5_000), (float("inf"), 5.0, 5_000)]
)
@pytest.mark.parametrize("form", ["def", "async def"])
async def test_it_reaches_the_sidecar_before_the_answer_and_once(
    form: str, seconds: float, granted: float, extra_ms: int
) -> None:
    said: list[Any] = []
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)

        def on_thread(asked: HookInput) -> Before:
            said.extend((asked.need_more_time(seconds), refusal(asked)))
            return Before.deny("no")

        async def on_loop(asked: HookInput) -> Before:
            return on_thread(asked)

        hooks.before_tool_call(on_thread if form == "def" else on_loop, hook_id="h")
        async with hooks:
            await server.ask("1", hook_id="h", point=BEFORE)
            await server.until(lambda: server.verdicts)
    assert said == [granted, "need_more_time_twice"]
    assert server.more_time == [hk.NeedMoreTime(invocation_id="1", extra_ms=extra_ms)]
    assert server.order == ["need_more_time", "verdict"]


async def test_every_question_has_more_time_of_its_own() -> None:
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)

        @hooks.before_tool_call(hook_id="h")
        def guard(asked: HookInput) -> None:
            asked.need_more_time(1)

        async with hooks:
            for name in ("1", "2"):
                await server.ask(name, hook_id="h", point=BEFORE)
            await server.until(lambda: len(server.verdicts) == 2)
    assert sorted(one.invocation_id for one in server.more_time) == ["1", "2"]
    assert {verdict.WhichOneof("verdict") for verdict in server.verdicts} == {"before"}


async def test_a_handler_that_does_not_look_at_the_refusal_has_failed() -> None:
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)

        @hooks.before_tool_call(hook_id="h")
        async def guard(asked: HookInput) -> None:
            asked.need_more_time(1)
            asked.need_more_time(1)

        async with hooks:
            await server.ask("1", hook_id="h", point=BEFORE)
            await server.until(lambda: server.verdicts)
    (verdict,) = server.verdicts
    assert verdict.failure.message.startswith("MoreTimeRefused: this hook has asked for more time before")
    assert len(server.more_time) == 1


async def test_a_question_that_was_taken_back_has_no_more_time() -> None:
    began, gate, ended = threading.Event(), threading.Event(), threading.Event()
    codes: list[str] = []
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)

        @hooks.before_tool_call(hook_id="slow")
        def slow(asked: HookInput) -> None:
            began.set()
            gate.wait(20)
            codes.append(refusal(asked))
            ended.set()

        hooks.before_tool_call(lambda _: None, hook_id="last")
        async with hooks:
            await server.ask("1", hook_id="slow", point=BEFORE)
            await asyncio.to_thread(began.wait, 20)
            await server.take_back("1")
            # Behind it on the stream, so that it has been taken back when this is answered.
            await server.ask("2", hook_id="last", point=BEFORE)
            await server.until(lambda: server.verdicts)
            gate.set()
            await asyncio.to_thread(ended.wait, 20)
    assert codes == ["invocation_unknown"]
    assert server.more_time == []


async def test_who_is_only_told_has_nobody_to_ask() -> None:
    codes: list[str] = []
    told = asyncio.Event()
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)

        @hooks.turn_started(hook_id="told")
        async def note(asked: TurnObserved) -> None:
            codes.append(refusal(asked))
            told.set()

        async with hooks:
            await server.ask("1", 0, hook_id="told", point=hk.HOOK_POINT_TURN_STARTED)
            await asyncio.wait_for(told.wait(), 10)
    assert codes == ["invocation_unknown"]
    assert server.more_time == []


def test_a_question_that_nobody_asks_has_no_more_time() -> None:
    assert refusal(HookInput()) == "invocation_unknown"


@pytest.mark.parametrize("seconds", [0, -1.0, float("nan")])
def test_what_is_no_span_is_an_error_and_asks_nothing(seconds: float) -> None:
    asked, granted = HookInput(), list[float]()
    allow_more_time(asked, MoreTime(5.0, granted.append))
    with pytest.raises(ValueError, match="more than 0"):
        asked.need_more_time(seconds)
    assert asked.need_more_time(1) == 1.0
    assert granted == [1.0]


def test_a_question_is_compared_copied_and_written_down_without_it() -> None:
    asked = HookInput(tool_name="read")
    plain = dataclasses.asdict(asked)
    allow_more_time(asked, MoreTime(5.0, lambda _: None))
    assert asked == HookInput(tool_name="read")
    assert dataclasses.asdict(asked) == plain
    assert repr(asked) == repr(HookInput(tool_name="read"))
    assert pickle.loads(pickle.dumps(asked)) == asked
    plain["tool_args_json"] = plain["tool_digest"] = ""
    json.dumps(plain)


async def test_hooks_that_are_asked_directly_have_more_time_too() -> None:
    hooks = Hooks("unix:///tmp/none/control.sock")
    seen: list[Any] = []

    async def patient(asked: Any) -> None:
        seen.extend((asked, asked.need_more_time(1), refusal(asked)))

    hooks.before_tool_call(patient, hook_id="before")
    hooks.approval_requested(patient, hook_id="approval")
    hooks.loop_diagnose(lambda asked: seen.append(asked.need_more_time(60)), hook_id="loop", timeout=2.5)
    hooks.before_tool_call(patient, hook_id="observer", observe=True)
    hooks.turn_started(lambda asked: seen.append(refusal(asked)), hook_id="told")
    asked = HookInput(hook_id="before")
    for _ in range(2):
        await ask_hook(hooks, asked)
        assert seen == [asked, 1.0, "need_more_time_twice"]
        seen.clear()
    await ask_hook(hooks, ApprovalRequested(approval=waiting_approval("read")))
    assert seen[1:] == [1.0, "need_more_time_twice"]
    seen.clear()
    run = Run("r", "s", "active")
    await ask_hook(hooks, LoopDiagnosis(run=run))
    await ask_hook(hooks, TurnObserved(point="turn_started", run=run))
    assert seen == [2.5, "invocation_unknown"]
    with pytest.raises(MoreTimeRefused):
        await ask_hook(hooks, HookInput(hook_id="observer"))
