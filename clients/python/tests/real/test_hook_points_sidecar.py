"""Approvals, turns and loops as hooks see them, with the real sidecar."""

from __future__ import annotations

import asyncio
import json
import logging
import queue
from typing import TYPE_CHECKING, Any

import pytest

from callgate import (
    After,
    ApprovalAnswer,
    ApprovalRequested,
    Before,
    Client,
    HookInput,
    LoopDiagnosis,
    LoopOpinion,
    LoopSuspected,
    PermissionDenied,
    RuleSpec,
    RunNotActive,
    ToolCall,
    TurnObserved,
)
from real.hooking import hooks_of, run, with_tools

if TYPE_CHECKING:
    from conftest import Sidecar


async def decide_by_hand(sidecar: Sidecar, turn: asyncio.Future[Any], after: asyncio.Event) -> Any:
    """Denies what waits, as a person would, once hooks have had their say; returns the turn's result."""
    await after.wait()
    async with sidecar.approver() as approver, approver.watch() as watch:
        async for update in watch:
            if update.approvals:
                await approver.deny(update.approvals[0], "by hand")
                break
    return await turn


# Approvals.


async def test_an_approver_of_code_approves_denies_and_leaves(own_sidecar: Sidecar) -> None:
    asked_about: list[ApprovalRequested] = []
    is_left = asyncio.Event()
    hooks = hooks_of(own_sidecar)

    @hooks.approval_requested(tools=["read", "write"])
    async def approver(asked: ApprovalRequested) -> ApprovalAnswer:
        asked_about.append(asked)
        if asked.approval.tool == "read":
            return ApprovalAnswer.approve("read is fine")
        return ApprovalAnswer.deny("not this one")

    @hooks.approval_requested(order=1)
    async def second(_: ApprovalRequested) -> None:
        is_left.set()

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "read", "write", "other", risk="dangerous") as client:
            approved = await run(client, "read", text="x")
            denied = await run(client, "write")
            left = await decide_by_hand(own_sidecar, asyncio.ensure_future(run(client, "other")), is_left)
    assert json.loads(approved["c"].text)["text"] == "x"
    assert denied["c"].error.code == "tool_denied_by_user"
    assert denied["c"].error.message.endswith(": not this one")
    assert left["c"].error.message.endswith(": by hand")
    first = asked_about[0]
    assert (first.approval.arguments, first.approval.risk, first.mode) == ({"text": "x"}, "dangerous", "default")
    assert first.turn_id == first.approval.turn_id


async def test_who_answers_an_approval_wrongly_leaves_it_to_people(own_sidecar: Sidecar) -> None:
    all_asked = asyncio.Event()
    hooks = hooks_of(own_sidecar)

    @hooks.approval_requested(order=1)
    def broken(_: ApprovalRequested) -> ApprovalAnswer:
        raise RuntimeError("broken")

    @hooks.approval_requested(order=2)
    def nonsense(_: ApprovalRequested) -> Any:
        return True

    @hooks.approval_requested(order=3, observe=True)
    def watches(_: ApprovalRequested) -> ApprovalAnswer:
        return ApprovalAnswer.approve()

    @hooks.approval_requested(order=4)
    async def last(_: ApprovalRequested) -> None:
        all_asked.set()

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "write", risk="dangerous") as client:
            turn = asyncio.ensure_future(run(client, "write"))
            result = await decide_by_hand(own_sidecar, turn, all_asked)
    assert result["c"].error.message.endswith(": by hand")


async def test_code_does_not_approve_what_a_rule_asks(own_sidecar: Sidecar) -> None:
    is_left = asyncio.Event()
    hooks = hooks_of(own_sidecar)
    hooks.approval_requested(lambda _: ApprovalAnswer.approve(), hook_id="yes")

    @hooks.approval_requested(order=1)
    async def second(_: ApprovalRequested) -> None:
        is_left.set()

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "read") as client:
            turn = client.run_turn("s", [ToolCall("c", "read", {})], command_rules=[RuleSpec("ask", "read")])
            result = await decide_by_hand(own_sidecar, asyncio.ensure_future(turn), is_left)
    assert result["c"].error.message.endswith(": by hand")


# Turns.


async def test_observers_are_told_of_turns_and_never_answer(
    own_sidecar: Sidecar, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "callgate")
    told: queue.SimpleQueue[TurnObserved] = queue.SimpleQueue()
    hooks = hooks_of(own_sidecar)

    @hooks.turn_started
    def starts(asked: TurnObserved) -> Any:
        told.put(asked)
        return Before.abort("nobody hears this")

    @hooks.turn_finished
    async def finishes(asked: TurnObserved) -> None:
        told.put(asked)
        raise RuntimeError("nor this")

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "read") as client:
            result = await run(client, "read", text="x")
            first, second = [await asyncio.to_thread(told.get) for _ in range(2)]
    assert result["c"].outcome == "success"
    assert (first.point, first.run.state, first.results) == ("turn_started", "active", ())
    assert [(call.name, json.loads(call.arguments_json)) for call in first.calls] == [("read", {"text": "x"})]
    assert (second.point, second.turn_id) == ("turn_finished", first.turn_id)
    assert [(one.call_id, one.outcome, one.contents) for one in second.results] == [("c", "success", ())]
    # The stream is over, so whatever the sidecar had to say about an answer has come.
    assert not [record for record in caplog.records if "ignored a message" in record.message]


# Loops.


async def test_hooks_are_told_of_a_loop(own_sidecar: Sidecar) -> None:
    found: asyncio.Queue[LoopSuspected] = asyncio.Queue()
    hooks = hooks_of(own_sidecar)

    @hooks.loop_suspected
    async def note(asked: LoopSuspected) -> None:
        await found.put(asked)

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "read") as client:
            for _ in range(5):
                last = await client.run_turn("s", [ToolCall("c", "read", {})], run_id="r")
            said = await found.get()
    assert last.outcome == "loop_detected"
    assert (said.detector, said.call_ids, said.run_id) == ("tool_signature", ("c",), "r")
    assert (said.run.run_id, said.run.state) == ("r", "loop_detected")
    assert said.reason


async def test_a_diagnosis_that_is_sure_ends_the_run(diagnosing: Sidecar) -> None:
    seen: list[LoopDiagnosis] = []
    hooks = hooks_of(diagnosing)

    @hooks.loop_diagnose
    async def judge(asked: LoopDiagnosis) -> LoopOpinion:
        seen.append(asked)
        return LoopOpinion(is_loop=len(seen) > 1, reason="it reads in circles", confidence=0.9)

    async with hooks, Client(diagnosing.endpoint) as client:
        await hooks.wait_ready(10)
        history = [{"role": "user", "content": "again"}]
        assert (await client.run_turn("s", run_id="r", history=history)).outcome == "completed"
        ended = await client.run_turn("s", run_id="r")
        assert (ended.outcome, ended.run.end_reason) == ("loop_detected", "it reads in circles")
        with pytest.raises(RunNotActive):
            await client.run_turn("s", run_id="r")
    assert [one.history for one in seen] == [history, []]
    assert (seen[0].run.state, seen[0].run.run_id) == ("active", "r")


@pytest.mark.parametrize(
    "answer",
    [
        None,
        LoopOpinion(is_loop=True, confidence=0.8),
        LoopOpinion(is_loop=False),
        {"is_loop": True, "confidence": 2},
        "yes",
        RuntimeError("broken"),
    ],
    ids=str,
)
async def test_whatever_else_a_diagnosis_says_is_no_loop(diagnosing: Sidecar, answer: Any) -> None:
    asked = asyncio.Event()
    hooks = hooks_of(diagnosing)

    @hooks.loop_diagnose
    async def judge(_: LoopDiagnosis) -> Any:
        asked.set()
        if isinstance(answer, Exception):
            raise answer
        return answer

    async with hooks, Client(diagnosing.endpoint) as client:
        await hooks.wait_ready(10)
        assert (await client.run_turn("s", run_id="r")).outcome == "completed"
    assert asked.is_set()


# Together.


async def test_one_object_may_be_at_every_point(diagnosing: Sidecar) -> None:
    heard: list[str] = []
    over = asyncio.Event()

    class Everything:
        async def before_tool_call(self, asked: HookInput) -> Before:
            heard.append(asked.point)
            return Before.ask("look at it")

        async def after_tool_call(self, asked: HookInput) -> After:
            heard.append(asked.point)
            return After.proceed()

        async def approval_requested(self, asked: ApprovalRequested) -> ApprovalAnswer:
            heard.append(asked.point)
            return ApprovalAnswer.approve()

        async def turn_started(self, asked: TurnObserved) -> None:
            heard.append(asked.point)

        async def turn_finished(self, asked: TurnObserved) -> None:
            heard.append(asked.point)

        async def loop_diagnose(self, asked: LoopDiagnosis) -> dict[str, Any]:
            heard.append(asked.point)
            return {"is_loop": True, "reason": "enough", "confidence": 1}

        async def loop_suspected(self, asked: LoopSuspected) -> None:
            heard.append(asked.point)
            assert asked.detector == "llm"
            over.set()

    hooks = hooks_of(diagnosing)
    hooks.add(Everything())
    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(diagnosing, "read") as client:
            result = await client.run_turn("s", [ToolCall("c", "read", {})], run_id="r")
            assert result["c"].outcome == "success"
            assert (await client.run_turn("s", run_id="r")).outcome == "loop_detected"
            await over.wait()
    assert heard[:5] == [
        "turn_started",
        "before_tool_call",
        "approval_requested",
        "after_tool_call",
        "turn_finished",
    ]
    assert set(heard[5:]) >= {"turn_started", "loop_diagnose", "loop_suspected"}


async def test_hooks_of_a_client_are_asked_about_its_own_tools(own_sidecar: Sidecar) -> None:
    client = own_sidecar.client(executor_name="tools")

    @client.tool(risk="safe", kind="read")
    async def double(number: int) -> int:
        """Doubles."""
        return 2 * number

    @client.before_tool_call(tools=["double"])
    async def add_one(asked: HookInput) -> dict[str, Any]:
        return {"modified_args": {"number": (asked.tool_args or {})["number"] + 1}}

    @client.after_tool_call
    def done(asked: HookInput) -> After:
        assert asked.result is not None
        return After.stop() if asked.result.text == "8" else After.proceed()

    async with client:
        await client.wait_ready(10)
        result = await run(client, "double", number=3)
    assert (result["c"].text, result.stop) == ("8", True)
    # In order: they are gone with their client, and nothing fails for their absence.
    async with await with_tools(own_sidecar, "read") as other:
        assert (await run(other, "read"))["c"].outcome == "success"


async def test_hooks_of_a_client_over_tcp_have_a_credential_of_their_own(own_sidecar: Sidecar) -> None:
    def client(hooks_token: str) -> Client:
        made = own_sidecar.client(
            endpoint=own_sidecar.tcp_endpoint, token=own_sidecar.token("orchestrator"), hooks_token=hooks_token
        )
        made.before_tool_call(lambda _: Before.deny("no"), hook_id="no")
        return made

    async with await with_tools(own_sidecar, "read") as executor:
        async with client(own_sidecar.token("hook")) as guarded:
            await guarded.wait_ready(10)
            assert (await run(guarded, "read"))["c"].error.code == "tool_denied_by_hook"
        async with client(own_sidecar.token("orchestrator")) as refused:
            with pytest.raises(PermissionDenied):
                await refused.wait_ready(10)
        assert (await run(executor, "read"))["c"].outcome == "success"
