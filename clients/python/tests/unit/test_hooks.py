"""What handlers return, and how it travels. No sidecar."""

from __future__ import annotations

import json
from typing import Any

import pytest

from callgate import After, AfterOutput, Before, HookInput, HookOutput, Hooks, HookSpec, Injected, Json, ToolResult
from callgate._gen.callgate.v1 import hook_service_pb2 as hk
from callgate._gen.callgate.v1 import types_pb2 as ty
from callgate._wire import convert_hooks
from callgate.errors import CallgateError
from callgate.hook import after_of, before_of
from callgate.hook_runner import HookFailed


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "proceed"),
        ({}, "proceed"),
        (HookOutput(), "proceed"),
        ({"permission_decision": None}, "proceed"),
        ({"permission_decision": "allow"}, "allow"),
        (HookOutput("deny"), "deny"),
        (HookOutput("ask"), "ask"),
        (Before.defer(), "defer"),
        (Before.abort(), "abort"),
    ],
)
def test_none_and_every_form_have_one_meaning(answer: Any, says: str) -> None:
    assert before_of(answer).says == says


@pytest.mark.parametrize(
    "answer",
    ["allow", 1, After.proceed(), AfterOutput("x"), {"permission_decision": "maybe"}, {"modified_result": "x"}],
)
def test_anything_else_is_an_error(answer: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        before_of(answer)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, After.proceed()),
        ({}, After.proceed()),
        (AfterOutput(), After.proceed()),
        ({"modified_result": None}, After.proceed()),
        ({"suppress_output": True}, After.proceed(suppress=True)),
        (AfterOutput("short", "remember"), After.proceed(ToolResult.of("short"), context="remember")),
        (
            {"modified_result": ToolResult.failure("no", "not this")},
            After.proceed(ToolResult.failure("no", "not this")),
        ),
        (After.stop(), After.stop()),
    ],
)
def test_after_a_call_none_and_every_form_have_one_meaning(answer: Any, says: After) -> None:
    assert after_of(answer) == says


def test_a_modified_result_is_what_a_handler_of_a_tool_could_return() -> None:
    made = after_of({"modified_result": {"n": 1}}).result
    assert made is not None
    assert made == ToolResult.of({"n": 1})
    assert json.loads(made.text) == {"n": 1}


@pytest.mark.parametrize(
    "answer",
    [
        "short",
        True,
        Before.proceed(),
        HookOutput("deny"),
        {"permission_decision": "deny"},
        {"modified_result": b"bytes"},
        {"modified_result": float("nan")},
    ],
)
def test_after_a_call_anything_else_is_an_error(answer: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        after_of(answer)


def test_a_result_that_cannot_be_sent_is_a_failure_and_never_an_error_by_accident() -> None:
    broken = ToolResult((Json(float("nan")),))
    for said in (Before.deny(result=broken), After.proceed(broken)):
        with pytest.raises(ValueError, match="cannot be sent"):
            convert_hooks.verdict("i", said)


def test_a_verdict_before_a_call_carries_every_field() -> None:
    output = HookOutput("ask", "look", {"n": 1, "ä": "ö"}, "mind the gap", True)
    message = convert_hooks.verdict("i", before_of(output)).before
    assert message.action == hk.BEFORE_ACTION_ASK
    assert json.loads(message.modified_args_json) == {"n": 1, "ä": "ö"}
    assert (message.reason_for_user, message.additional_context) == ("look", "mind the gap")
    assert message.suppress_output
    assert convert_hooks.verdict("i", Before.proceed()).before.modified_args_json == b""
    assert convert_hooks.verdict("i", Before.proceed({})).before.modified_args_json == b"{}"


def test_a_verdict_after_a_call_carries_every_field() -> None:
    said = After.stop("enough", result=ToolResult.of("x"), messages=[Injected("look", "system")], context="c")
    message = convert_hooks.verdict("i", said).after
    assert message.action == hk.AFTER_ACTION_STOP
    assert message.modified_result.contents[0].text == "x"
    assert message.injected_messages[0].role == ty.MESSAGE_ROLE_SYSTEM
    assert (message.reason_for_user, message.additional_context) == ("enough", "c")


def test_a_failure_says_what_was_raised_and_is_bounded() -> None:
    message = convert_hooks.failure("i", HookFailed.of(ValueError("x" * 9_000))).failure.message
    assert message.startswith("ValueError: x")
    assert len(message) == convert_hooks.FAILURE_CHARACTERS_MAX


def test_a_question_about_text_that_is_no_object_has_no_arguments() -> None:
    asked = hk.HookInvocation(hook_id="h", point=hk.HOOK_POINT_BEFORE_TOOL_CALL)
    asked.before.arguments_json = b"[1"
    read = convert_hooks.question(asked)
    assert isinstance(read, HookInput)
    assert (read.tool_args, read.tool_args_json, read.risk) == (None, b"[1", None)
    newer = hk.HookInvocation(hook_id="h", point=99)  # type: ignore[arg-type]
    assert convert_hooks.question(newer) is None


def test_a_registration_names_its_points_and_its_time() -> None:
    message = convert_hooks.registration(HookSpec("h", ("after_tool_call", "after_tool_failure"), 3, timeout=0.25))
    assert list(message.points) == [hk.HOOK_POINT_AFTER_TOOL_CALL, hk.HOOK_POINT_AFTER_TOOL_FAILURE]
    assert (message.order, message.timeout_ms) == (3, 250)


def test_hooks_have_names_of_their_own_and_something_to_do() -> None:
    hooks = Hooks("unix:///tmp/none/control.sock")

    @hooks.before_tool_call
    def guard(_: HookInput) -> None:
        return None

    with pytest.raises(ValueError, match="guard"):
        hooks.before_tool_call(guard)
    with pytest.raises(ValueError, match="method"):
        hooks.add(object())
    with pytest.raises(CallgateError):
        Hooks("ftp://somewhere")
