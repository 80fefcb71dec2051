"""Approvals, turns and loops as hooks see them, and what travels back. No sidecar."""

from __future__ import annotations

import asyncio
import json
import queue
from typing import Any

import pytest

from callgate import (
    ApprovalAnswer,
    ApprovalRequested,
    Before,
    HookInput,
    Hooks,
    LoopDiagnosis,
    LoopOpinion,
    LoopSuspected,
    Run,
    TurnObserved,
)
from callgate._gen.callgate.v1 import approval_service_pb2 as av
from callgate._gen.callgate.v1 import hook_service_pb2 as hk
from callgate._gen.callgate.v1 import permission_pb2 as pe
from callgate._gen.callgate.v1 import types_pb2 as ty
from callgate._wire import convert_hooks
from callgate.errors import CallgateError
from callgate.hook_points import HOOK_POINTS, ONLY_TOLD, answer_of
from callgate.testing import ask_hook, waiting_approval
from unit.hook_server import HookServer
from unit.raising import NAMES, RAISED, raising

RUN = Run("r", "s", "active", rounds=3)
WIRE_RUN = ty.Run(run_id="r", session_id="s", state=ty.RUN_STATE_ACTIVE, rounds=3)


def nowhere() -> Hooks:
    return Hooks("unix:///tmp/none/control.sock")


# What is asked.


def invocation(point: Any, **payload: Any) -> hk.HookInvocation:
    return hk.HookInvocation(
        invocation_id="i",
        hook_id="h",
        point=point,
        invoked_at_ms=7,
        attempt=2,
        session_id="s",
        root_session_id="root",
        run_id="r",
        turn_id="t",
        batch_id="b",
        cwd="/work",
        mode=pe.MODE_PLAN,
        **payload,
    )


COMMON: dict[str, Any] = {
    "hook_id": "h",
    "timestamp_ms": 7,
    "attempt": 2,
    "session_id": "s",
    "root_session_id": "root",
    "run_id": "r",
    "turn_id": "t",
    "batch_id": "b",
    "cwd": "/work",
    "mode": "plan",
}


def test_an_approval_comes_whole_and_is_the_one_that_approvers_see() -> None:
    shown = av.Approval(approval_id="a", tool="remove", approval_digest=b"d", state=av.APPROVAL_STATE_PENDING)
    asked = invocation(hk.HOOK_POINT_APPROVAL_REQUESTED, approval=hk.ApprovalRequested(approval=shown))
    read = convert_hooks.question(asked)
    assert isinstance(read, ApprovalRequested)
    assert (read.approval.approval_id, read.approval.tool, read.approval.digest) == ("a", "remove", b"d")
    assert read.approval.pending
    assert read == ApprovalRequested(approval=read.approval, **COMMON)


@pytest.mark.parametrize("point", ["turn_started", "turn_finished"])
def test_a_turn_comes_with_its_calls_and_how_they_ended(point: Any) -> None:
    turn = hk.TurnObserved(
        calls=[ty.ToolCall(call_id="c", name="read", arguments_json=b"{}")],
        results=[ty.CallResult(call_id="c", tool="read", outcome=ty.CALL_OUTCOME_SUCCESS)],
        run=WIRE_RUN,
    )
    read = convert_hooks.question(invocation(convert_hooks.POINTS[point], turn=turn))
    assert isinstance(read, TurnObserved)
    assert [(call.call_id, call.name) for call in read.calls] == [("c", "read")]
    assert [(one.call_id, one.outcome) for one in read.results] == [("c", "success")]
    assert read == TurnObserved(point=point, calls=read.calls, results=read.results, run=RUN, **COMMON)


def test_a_loop_comes_with_its_detector_and_the_run_that_it_ended() -> None:
    found = hk.LoopSuspected(detector=ty.LOOP_DETECTOR_CYCLE, reason="again", call_ids=["c"], run=WIRE_RUN)
    read = convert_hooks.question(invocation(hk.HOOK_POINT_LOOP_SUSPECTED, loop_suspected=found))
    assert read == LoopSuspected(detector="cycle", reason="again", call_ids=("c",), run=RUN, **COMMON)
    newer = hk.LoopSuspected(detector=77, run=WIRE_RUN)  # type: ignore[arg-type]
    read = convert_hooks.question(invocation(hk.HOOK_POINT_LOOP_SUSPECTED, loop_suspected=newer))
    assert isinstance(read, LoopSuspected)
    assert read.detector == "unknown"


def test_a_diagnosis_comes_with_a_history_that_can_be_read() -> None:
    due = hk.LoopDiagnosis(history_json=b'[{"tool":"read"}]', run=WIRE_RUN)
    read = convert_hooks.question(invocation(hk.HOOK_POINT_LOOP_DIAGNOSE, diagnosis=due))
    assert read == LoopDiagnosis(history_json=b'[{"tool":"read"}]', run=RUN, **COMMON)
    assert isinstance(read, LoopDiagnosis)
    assert read.history == [{"tool": "read"}]
    with pytest.raises(ValueError, match="Expecting"):
        _ = LoopDiagnosis(history_json=b"{", run=RUN).history


def test_every_point_of_the_contract_is_known() -> None:
    assert set(convert_hooks.POINTS) == set(HOOK_POINTS)
    assert set(convert_hooks.POINTS.values()) == set(hk.HookPoint.values()) - {hk.HOOK_POINT_UNSPECIFIED}


# What is said.


def test_none_leaves_an_approval_and_is_no_loop() -> None:
    assert answer_of("approval_requested", None) == ApprovalAnswer.leave()
    assert answer_of("loop_diagnose", None) == LoopOpinion(is_loop=False)


@pytest.mark.parametrize("answer", [True, "approve", Before.allow(), {"says": "approve"}, LoopOpinion(is_loop=True)])
def test_nothing_but_the_very_word_approves(answer: Any) -> None:
    with pytest.raises(TypeError, match="ApprovalAnswer"):
        answer_of("approval_requested", answer)


def test_an_opinion_may_be_a_dict_as_a_model_writes_it() -> None:
    said = {"is_loop": True, "reason": "again", "confidence": 0.9}
    assert answer_of("loop_diagnose", said) == LoopOpinion(is_loop=True, reason="again", confidence=0.9)


@pytest.mark.parametrize(
    "answer",
    [
        True,
        "no",
        ApprovalAnswer.leave(),
        {"is_loop": "false"},
        {"is_loop": True, "reason": None},
        {"is_loop": True, "confidence": "0.9"},
        {"is_loop": True, "confidence": 1.5},
        {"is_loop": True, "confidence": float("nan")},
        {"reason": "again"},
        {"is_loop": True, "sure": True},
    ],
)
def test_an_opinion_that_cannot_be_meant_is_an_error(answer: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        answer_of("loop_diagnose", answer)


def test_who_is_only_told_may_return_anything_and_says_nothing() -> None:
    for point in ONLY_TOLD:
        assert answer_of(point, "whatever") is None
    with pytest.raises(ValueError, match="nobody"):
        convert_hooks.verdict("i", None)


@pytest.mark.parametrize(
    ("said", "action", "message"),
    [
        (ApprovalAnswer.approve("as always"), hk.APPROVAL_ACTION_APPROVE, "as always"),
        (ApprovalAnswer.deny("never"), hk.APPROVAL_ACTION_DENY, "never"),
        (ApprovalAnswer.leave(), hk.APPROVAL_ACTION_LEAVE, ""),
    ],
)
def test_an_answer_to_an_approval_carries_the_digest_of_what_was_seen(
    said: ApprovalAnswer, action: Any, message: str
) -> None:
    verdict = convert_hooks.verdict("i", said, b"seen").approval
    assert verdict == hk.ApprovalVerdict(action=action, message=message, approval_digest=b"seen")


def test_an_opinion_carries_every_field() -> None:
    verdict = convert_hooks.verdict("i", LoopOpinion(is_loop=True, reason="again", confidence=0.5)).loop_verdict
    assert verdict == hk.LoopVerdict(is_loop=True, reason="again", confidence=0.5)


# Adding.


def test_each_decorator_adds_a_hook_of_its_point_and_leaves_the_function() -> None:
    hooks = nowhere()
    for point in ("approval_requested", "turn_started", "turn_finished", "loop_suspected", "loop_diagnose"):

        def handler(_: Any) -> None:
            """Does nothing."""

        add = getattr(hooks, point)
        assert add(handler, hook_id=point) is handler
        assert add(hook_id=f"{point}-2")(handler) is handler
    assert [(spec.hook_id, spec.points, spec.description) for spec in hooks.specs[:2]] == [
        ("approval_requested", ("approval_requested",), "Does nothing."),
        ("approval_requested-2", ("approval_requested",), "Does nothing."),
    ]
    assert {spec.points for spec in hooks.specs} == {(point,) for point in HOOK_POINTS[3:]}


def test_options_of_an_approver_and_of_a_diagnosis_reach_the_registration() -> None:
    hooks = nowhere()
    hooks.approval_requested(print, order=3, timeout=0.5, observe=True)
    hooks.loop_diagnose(repr, order=4, timeout=1.5)
    first, second = (convert_hooks.registration(spec) for spec in hooks.specs)
    assert (first.order, first.timeout_ms, first.observe) == (3, 500, True)
    assert (second.order, second.timeout_ms, second.observe) == (4, 1_500, False)


def test_an_object_is_a_hook_of_every_point_that_it_has_a_method_for() -> None:
    class Everything:
        pass

    for point in HOOK_POINTS:
        setattr(Everything, point, lambda self, asked: None)
    hooks = nowhere()
    hooks.add(Everything())
    assert [(spec.hook_id, spec.points) for spec in hooks.specs] == [("Everything", HOOK_POINTS)]


# Asking without a sidecar.


async def test_a_hook_can_be_asked_directly() -> None:
    hooks = nowhere()

    @hooks.before_tool_call
    async def guard(asked: HookInput) -> Before | None:
        return Before.deny("no") if asked.tool_name == "shell" else None

    @hooks.approval_requested
    def approver(asked: ApprovalRequested) -> ApprovalAnswer | None:
        return ApprovalAnswer.approve() if asked.approval.arguments == {"id": 1} else None

    assert await ask_hook(hooks, HookInput(tool_name="shell")) == Before.deny("no")
    assert await ask_hook(hooks, HookInput(tool_name="read")) == Before.proceed()
    waiting = waiting_approval("read_mail", {"id": 1})
    assert await ask_hook(hooks, ApprovalRequested(approval=waiting)) == ApprovalAnswer.approve()
    other = waiting_approval("read_mail", risk="safe")
    assert other.risk == "safe"
    assert await ask_hook(hooks, ApprovalRequested(approval=other)) == ApprovalAnswer.leave()


async def test_asking_directly_names_what_is_wrong() -> None:
    hooks = nowhere()
    hooks.before_tool_call(lambda _: "yes", hook_id="a")
    with pytest.raises(TypeError, match="not str"):
        await ask_hook(hooks, HookInput())
    hooks.before_tool_call(lambda _: None, hook_id="b")
    assert await ask_hook(hooks, HookInput(hook_id="b")) == Before.proceed()
    with pytest.raises(LookupError, match="a, b"):
        await ask_hook(hooks, HookInput())
    with pytest.raises(LookupError, match="`c`"):
        await ask_hook(hooks, HookInput(hook_id="c"))
    with pytest.raises(LookupError, match="none"):
        await ask_hook(hooks, LoopDiagnosis(run=RUN))


# Over the stream.


async def test_each_question_gets_its_answer_or_its_failure() -> None:
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)

        class AsyncCall:
            async def __call__(self, asked: LoopDiagnosis) -> LoopOpinion:
                return LoopOpinion(is_loop=True, confidence=0.9)

        def nonsense(_: Any) -> Any:
            return True

        async def broken(_: Any) -> Any:
            raise RuntimeError("broken")

        async def gone(_: Any) -> Any:
            raise asyncio.CancelledError

        hooks.approval_requested(lambda _: ApprovalAnswer.approve(), hook_id="approve")
        for name, handler in (("nonsense", nonsense), ("broken", broken), ("gone", gone)):
            hooks.approval_requested(handler, hook_id=name)
        hooks.loop_diagnose(AsyncCall(), hook_id="diagnose")
        async with hooks:
            about = hk.ApprovalRequested(approval=av.Approval(approval_digest=b"d"))
            for name in ("approve", "nonsense", "broken", "gone"):
                await server.ask(name, hook_id=name, point=hk.HOOK_POINT_APPROVAL_REQUESTED, approval=about)
            await server.ask("diagnose", hook_id="diagnose", point=hk.HOOK_POINT_LOOP_DIAGNOSE)
            await server.until(lambda: len(server.verdicts) == 5)
    said = {verdict.invocation_id: verdict for verdict in server.verdicts}
    assert said["approve"].approval == hk.ApprovalVerdict(action=hk.APPROVAL_ACTION_APPROVE, approval_digest=b"d")
    assert said["nonsense"].failure.message.startswith("TypeError: a hook of approvals must return")
    assert said["broken"].failure.message == "RuntimeError: broken"
    assert said["gone"].failure.message.startswith("CancelledError")
    assert said["diagnose"].loop_verdict == hk.LoopVerdict(is_loop=True, confidence=0.9)
    assert server.closed == 1


@pytest.mark.parametrize("make", RAISED, ids=NAMES)
async def test_whatever_a_handler_raises_is_its_failure_at_once_and_the_process_answers_on(make: Any) -> None:
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)
        for name, handler in zip(("thread", "loop"), raising(make), strict=True):
            hooks.before_tool_call(handler, hook_id=name)
            # Nobody hears of these, and nothing else may come of them.
            hooks.turn_started(handler, hook_id=f"told on the {name}")
        async with hooks:
            for name in ("thread", "loop"):
                await server.ask(f"told {name}", 0, hook_id=f"told on the {name}", point=hk.HOOK_POINT_TURN_STARTED)
            for number in range(2):
                for name in ("thread", "loop"):
                    await server.ask(f"{name} {number}", hook_id=name, point=hk.HOOK_POINT_BEFORE_TOOL_CALL)
                await server.until(lambda number=number: len(server.verdicts) == 2 * number + 2)
        assert len(server.hellos) == server.closed == 1
    # A coroutine cannot raise StopIteration; Python makes another error of it.
    kinds = ("StopIteration", "RuntimeError") if make is StopIteration else (type(make()).__name__,)
    for verdict in server.verdicts:
        assert verdict.failure.message.startswith(kinds)


async def test_an_answer_that_cannot_be_sent_is_a_failure_and_the_process_answers_on() -> None:
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)
        hooks.before_tool_call(lambda _: Before.deny("half a pair: \ud800"), hook_id="h")
        hooks.loop_diagnose(lambda _: None, hook_id="last")
        async with hooks:
            await server.ask("1", hook_id="h", point=hk.HOOK_POINT_BEFORE_TOOL_CALL)
            await server.ask("2", hook_id="last", point=hk.HOOK_POINT_LOOP_DIAGNOSE)
            await server.until(lambda: len(server.verdicts) == 2)
    said = {verdict.invocation_id: verdict.WhichOneof("verdict") for verdict in server.verdicts}
    assert said == {"1": "failure", "2": "loop_verdict"}


async def test_who_is_only_told_never_answers_whatever_it_does() -> None:
    told: queue.SimpleQueue[str] = queue.SimpleQueue()
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)

        @hooks.turn_started
        def starts(asked: TurnObserved) -> Any:
            told.put(asked.point)
            return Before.deny()

        @hooks.turn_finished
        async def finishes(asked: TurnObserved) -> None:
            told.put(asked.point)
            raise RuntimeError("nobody hears this")

        @hooks.approval_requested(observe=True)
        async def watches(asked: ApprovalRequested) -> Any:
            told.put(asked.point)
            return "nonsense"

        @hooks.before_tool_call
        def last(_: HookInput) -> None:
            return None

        async with hooks:
            await server.ask("1", 0, hook_id="starts", point=hk.HOOK_POINT_TURN_STARTED)
            await server.ask("2", 0, hook_id="finishes", point=hk.HOOK_POINT_TURN_FINISHED)
            await server.ask("3", 0, hook_id="watches", point=hk.HOOK_POINT_APPROVAL_REQUESTED)
            heard = {await asyncio.to_thread(told.get) for _ in range(3)}
            await server.ask("4", hook_id="last", point=hk.HOOK_POINT_BEFORE_TOOL_CALL)
            await server.until(lambda: server.verdicts)
        # The stream is over: what was to come has come.
    assert heard == {"approval_requested", "turn_finished", "turn_started"}
    assert [verdict.invocation_id for verdict in server.verdicts] == ["4"]


async def test_what_is_only_told_holds_up_no_question() -> None:
    release = asyncio.Event()
    loop = asyncio.get_running_loop()
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)

        @hooks.turn_started
        def slow(_: TurnObserved) -> None:
            asyncio.run_coroutine_threadsafe(release.wait(), loop).result(20)

        @hooks.before_tool_call
        def quick(_: HookInput) -> None:
            return None

        async with hooks:
            # More than there are threads for what is told.
            for number in range(40):
                await server.ask(f"t{number}", 0, hook_id="slow", point=hk.HOOK_POINT_TURN_STARTED)
            await server.ask("q", hook_id="quick", point=hk.HOOK_POINT_BEFORE_TOOL_CALL)
            await server.until(lambda: server.verdicts)
            release.set()
    assert [verdict.invocation_id for verdict in server.verdicts] == ["q"]


async def test_a_question_that_is_taken_back_ends_its_handler_and_is_not_answered() -> None:
    begun, ended = asyncio.Event(), asyncio.Event()
    async with HookServer() as server:
        hooks = Hooks(server.endpoint)

        @hooks.approval_requested
        async def slow(_: ApprovalRequested) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        hooks.loop_diagnose(lambda _: None, hook_id="last")
        async with hooks:
            await server.ask("1", hook_id="slow", point=hk.HOOK_POINT_APPROVAL_REQUESTED)
            await begun.wait()
            await server.take_back("1")
            await ended.wait()
            await server.ask("2", hook_id="last", point=hk.HOOK_POINT_LOOP_DIAGNOSE)
            await server.until(lambda: server.verdicts)
    assert [verdict.invocation_id for verdict in server.verdicts] == ["2"]


async def test_no_hook_can_be_added_once_they_have_started() -> None:
    async with HookServer() as server, Hooks(server.endpoint) as hooks:
        with pytest.raises(CallgateError, match="started"):
            hooks.turn_started(print)


async def test_the_hello_names_every_hook_with_its_points() -> None:
    class Both:
        def turn_started(self, _: TurnObserved) -> None: ...

        def before_tool_call(self, _: HookInput) -> None: ...

    async with HookServer() as server:
        hooks = Hooks(server.endpoint)
        hooks.add(Both(), hook_id="both", order=2)
        hooks.loop_suspected(json.dumps, hook_id="loops")
        async with hooks:
            await hooks.wait_ready(10)
    (hello,) = server.hellos
    assert [(one.hook_id, list(one.points), one.order) for one in hello.hooks] == [
        ("both", [hk.HOOK_POINT_BEFORE_TOOL_CALL, hk.HOOK_POINT_TURN_STARTED], 2),
        ("loops", [hk.HOOK_POINT_LOOP_SUSPECTED], 0),
    ]
