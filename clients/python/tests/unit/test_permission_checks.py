"""What a tool says of calls before they run."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from callgate import Client, Permission, PermissionContext, Tool, ToolDefinitionError
from callgate._gen.callgate.v1 import executor_service_pb2 as ex
from callgate._gen.callgate.v1 import permission_pb2 as pe
from callgate._gen.callgate.v1 import types_pb2 as ty
from callgate._wire.fake_executors import digest
from callgate.testing import FakeSidecar
from unit.raising import NAMES, RAISED, raising


def spend(amount: int, to: str = "me") -> str:
    """Spends money."""
    return f"{amount} for {to}"


@asynccontextmanager
async def serving(sidecar: FakeSidecar, *tools: Tool) -> AsyncIterator[Client]:
    client = sidecar.client()
    for tool in tools:
        client.add_tool(tool)
    async with client:
        await client.wait_ready(10)
        yield client


async def ask(
    sidecar: FakeSidecar, tool: str = "spend", arguments: bytes = b'{"amount":3}', **fields: Any
) -> ex.PermissionCheckResult:
    """What the tool says, as the sidecar hears it."""
    instance = sidecar.executors.owner_of(tool)
    assert instance is not None
    assert instance.stream is not None
    words = instance.stream.words
    before = len(words)
    request = ex.PermissionCheckRequest(
        check_id=f"check {before}", tool_name=tool, call_id="c", arguments_json=arguments, **fields
    )
    request.tool_digest = request.tool_digest or digest(instance.tools[tool])
    sidecar.send_raw(ex.ConnectResponse(permission_check=request))
    await sidecar.until(lambda: len(words) > before)
    assert words[-1].check_id == request.check_id
    return words[-1]


@pytest.mark.parametrize(
    ("said", "verdict", "for_user", "for_model"),
    [
        (Permission.deny("too much"), ex.PERMISSION_CHECK_VERDICT_DENY, "", "too much"),
        (Permission.ask("rather a lot"), ex.PERMISSION_CHECK_VERDICT_ASK, "rather a lot", ""),
        (Permission.ask_firm("a lot"), ex.PERMISSION_CHECK_VERDICT_ASK_FIRM, "a lot", ""),
        (Permission.allow(), ex.PERMISSION_CHECK_VERDICT_ALLOW, "", ""),
        (Permission.passthrough(), ex.PERMISSION_CHECK_VERDICT_PASSTHROUGH, "", ""),
    ],
)
async def test_what_a_check_says_reaches_the_sidecar(
    fake_sidecar: FakeSidecar, said: Permission, verdict: int, for_user: str, for_model: str
) -> None:
    tool = Tool(spend, permission_check=lambda arguments, context: said)
    async with serving(fake_sidecar, tool):
        heard = await ask(fake_sidecar)
    assert (heard.verdict, heard.reason_for_user, heard.reason_for_model) == (verdict, for_user, for_model)


async def test_a_check_sees_converted_arguments_and_what_the_sidecar_knows(fake_sidecar: FakeSidecar) -> None:
    seen: list[tuple[Mapping[str, Any], PermissionContext]] = []
    tool = Tool(spend)

    @tool.permission_check
    def check(arguments: Mapping[str, Any], context: PermissionContext) -> Permission:
        seen.append((arguments, context))
        return Permission.passthrough()

    async with serving(fake_sidecar, tool):
        definition = fake_sidecar.executors.owner_of("spend")
        assert definition is not None
        assert definition.tools["spend"].has_permission_check
        await ask(
            fake_sidecar,
            mode=pe.MODE_ACCEPT_EDITS,
            matched_rule="spend",
            matched_source=ty.RULE_SOURCE_USER_SETTINGS,
            facts=[pe.SubjectFact(pointer="/to", value="a", canonical="/a", exists=True)],
            context=ty.CallContext(session_id="s", run_id="r", turn_id="t", cwd="/data"),
        )
    ((arguments, context),) = seen
    assert arguments["amount"] == 3
    assert (context.mode, context.matched_rule, context.matched_source) == ("accept_edits", "spend", "user_settings")
    assert (context.session_id, context.run_id, context.turn_id, context.cwd) == ("s", "r", "t", "/data")
    assert (context.tool_name, context.call_id) == ("spend", "c")
    assert [(fact.pointer, fact.canonical, fact.exists) for fact in context.facts] == [("/to", "/a", True)]


async def test_a_def_check_runs_on_a_thread_and_an_async_def_check_on_the_loop(fake_sidecar: FakeSidecar) -> None:
    seen: dict[str, object] = {}

    def plain(arguments: Mapping[str, Any], context: PermissionContext) -> Permission:
        seen["thread"] = threading.current_thread()
        return Permission.passthrough()

    async def waiting(arguments: Mapping[str, Any], context: PermissionContext) -> Permission:
        await asyncio.sleep(0)
        seen["loop"] = asyncio.get_running_loop()
        return Permission.ask_firm()

    tools = (Tool(spend, name="plain", permission_check=plain), Tool(spend, name="waiting", permission_check=waiting))
    async with serving(fake_sidecar, *tools):
        await ask(fake_sidecar, "plain")
        heard = await ask(fake_sidecar, "waiting")
    assert heard.verdict == ex.PERMISSION_CHECK_VERDICT_ASK_FIRM
    assert seen["thread"] is not threading.current_thread()
    assert seen["loop"] is asyncio.get_running_loop()


def _raises(arguments: Mapping[str, Any], context: PermissionContext) -> Permission:
    raise RuntimeError("secret")


async def _raises_later(arguments: Mapping[str, Any], context: PermissionContext) -> Permission:
    raise SystemExit("secret")


def _forgets(arguments: Mapping[str, Any], context: PermissionContext) -> Any:
    return True


@pytest.mark.parametrize("check", [_raises, _raises_later, _forgets])
async def test_a_check_that_fails_asks_and_is_logged(
    fake_sidecar: FakeSidecar, caplog: pytest.LogCaptureFixture, check: Callable[..., Any]
) -> None:
    async with serving(fake_sidecar, Tool(spend, permission_check=check)):
        with caplog.at_level(logging.ERROR, "callgate"):
            heard = await ask(fake_sidecar)
        assert heard.verdict == ex.PERMISSION_CHECK_VERDICT_ASK
        assert "the permission check of tool `spend`" in caplog.text
        assert "secret" not in caplog.text
        # And the process answers on.
        heard = await ask(fake_sidecar)
        assert heard.verdict == ex.PERMISSION_CHECK_VERDICT_ASK


@pytest.mark.parametrize("make", RAISED, ids=NAMES)
async def test_whatever_a_check_raises_asks_at_once_and_the_process_answers_on(
    fake_sidecar: FakeSidecar, make: Callable[[], BaseException]
) -> None:
    on_thread, on_loop = raising(make)
    tools = (
        Tool(spend, name="thread", permission_check=on_thread),
        Tool(spend, name="loop", permission_check=on_loop),  # type: ignore[arg-type]
    )
    async with serving(fake_sidecar, *tools):
        for name in ("thread", "loop") * 2:
            assert (await ask(fake_sidecar, name)).verdict == ex.PERMISSION_CHECK_VERDICT_ASK
        assert [len(instance.hellos) for instance in fake_sidecar.executors.instances.values()] == [1]


async def test_arguments_that_do_not_convert_another_definition_and_no_check_ask(fake_sidecar: FakeSidecar) -> None:
    allows = Tool(spend, permission_check=lambda arguments, context: Permission.passthrough())
    async with serving(fake_sidecar, allows, Tool(spend, name="without")):
        asked = [
            await ask(fake_sidecar, arguments=b'{"amount":"many"}'),
            await ask(fake_sidecar, tool_digest=b"another"),
            await ask(fake_sidecar, "without"),
        ]
        assert [heard.verdict for heard in asked] == [ex.PERMISSION_CHECK_VERDICT_ASK] * 3
        without = fake_sidecar.executors.owner_of("without")
        assert without is not None
        assert not without.tools["without"].has_permission_check


async def test_a_raw_tool_is_asked_with_the_dict_and_reasons_are_cut(fake_sidecar: FakeSidecar) -> None:
    seen: list[Any] = []

    def check(arguments: Mapping[str, Any], context: PermissionContext) -> Permission:
        seen.append(arguments)
        return Permission.deny("x" * 1_025)

    raw = Tool(lambda arguments: None, name="raw", raw=True, schema={"type": "object"}, permission_check=check)
    async with serving(fake_sidecar, raw):
        heard = await ask(fake_sidecar, "raw", b'{"a":[1]}')
    assert seen == [{"a": [1]}]
    assert len(heard.reason_for_model) <= 1_024


async def test_a_slow_check_holds_up_nothing(fake_sidecar: FakeSidecar) -> None:
    release = threading.Event()

    def slow(arguments: Mapping[str, Any], context: PermissionContext) -> Permission:
        release.wait(10)
        return Permission.passthrough()

    async with serving(fake_sidecar, Tool(spend, permission_check=slow)):
        slow_answer = asyncio.ensure_future(ask(fake_sidecar))
        assert (await fake_sidecar.call("spend", {"amount": 1})).text == "1 for me"
        assert not slow_answer.done()
        release.set()
        heard = await slow_answer
        assert heard.verdict == ex.PERMISSION_CHECK_VERDICT_PASSTHROUGH


async def test_a_number_of_questions_is_answered_at_once(
    fake_sidecar: FakeSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("callgate.questions.QUESTIONS_MAX", 2)
    release = threading.Event()

    def slow(arguments: Mapping[str, Any], context: PermissionContext) -> Permission:
        release.wait(10)
        return Permission.passthrough()

    async with serving(fake_sidecar, Tool(spend, permission_check=slow)):
        instance = fake_sidecar.executors.owner_of("spend")
        assert instance is not None
        assert instance.stream is not None
        words = instance.stream.words
        for number in range(3):
            request = ex.PermissionCheckRequest(check_id=str(number), tool_name="spend", arguments_json=b'{"amount":1}')
            fake_sidecar.send_raw(ex.ConnectResponse(permission_check=request))
        await fake_sidecar.until(lambda: len(words) == 1)
        assert (words[0].check_id, words[0].verdict) == ("2", ex.PERMISSION_CHECK_VERDICT_ASK)
        release.set()
        await fake_sidecar.until(lambda: len(words) == 3)
        assert {word.verdict for word in words[1:]} == {ex.PERMISSION_CHECK_VERDICT_PASSTHROUGH}


def test_a_check_that_cannot_be_called_is_refused() -> None:
    with pytest.raises(ToolDefinitionError):
        Tool(spend, permission_check="no")  # type: ignore[arg-type]
