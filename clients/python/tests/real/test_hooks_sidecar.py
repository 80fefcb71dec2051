"""Hooks in Python with the real sidecar: the examples of a pre-tool-use hook, and what goes wrong."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from callgate import (
    After,
    AfterOutput,
    Before,
    HookInput,
    HookOutput,
    Hooks,
    Injected,
    MoreTimeRefused,
    ToolCall,
    ToolResult,
)
from callgate.errors import InvalidRequest
from real.hooking import hooks_of, run, with_tools

if TYPE_CHECKING:
    from conftest import Sidecar

SHELL = "shell"
SRC = Path(__file__).parents[2] / "src"


async def test_every_call_is_logged_and_allowed(own_sidecar: Sidecar) -> None:
    seen: list[HookInput] = []
    hooks = hooks_of(own_sidecar)

    @hooks.before_tool_call
    async def log_all(asked: HookInput) -> HookOutput:
        seen.append(asked)
        return HookOutput(permission_decision="allow")

    begun_ms = time.time() * 1_000
    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "read", risk="sensitive") as client:
            session = await client.sessions.create(cwd="/work")
            result = await client.run_turn(session.session_id, [ToolCall("c", "read", {"text": "x"})])
    assert json.loads(result["c"].text)["text"] == "x"
    assert [(one.tool_name, one.tool_args, one.risk) for one in seen] == [("read", {"text": "x"}, "sensitive")]
    assert (seen[0].cwd, seen[0].session_id, seen[0].mode) == ("/work", session.session_id, "default")
    assert begun_ms - 1 <= seen[0].timestamp_ms <= time.time() * 1_000 + 1


async def test_some_tools_are_blocked(own_sidecar: Sidecar) -> None:
    hooks = hooks_of(own_sidecar)

    @hooks.before_tool_call
    def block(asked: HookInput) -> HookOutput:
        if asked.tool_name in (SHELL, "bash"):
            reason = f"Tool '{asked.tool_name}' is not permitted in this environment"
            return HookOutput(permission_decision="deny", permission_decision_reason=reason)
        return HookOutput(permission_decision="allow")

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, SHELL, "read") as client:
            denied = await run(client, SHELL)
            allowed = await run(client, "read")
    assert denied["c"].error.code == "tool_denied_by_hook"
    assert denied["c"].error.message == "Tool 'shell' is not permitted in this environment"
    assert allowed["c"].outcome == "success"


async def test_arguments_are_modified(own_sidecar: Sidecar) -> None:
    hooks = hooks_of(own_sidecar)

    @hooks.before_tool_call(tools=[SHELL])
    def default_timeout(asked: HookInput) -> dict[str, Any]:
        args = dict(asked.tool_args or {})
        return {"permission_decision": "allow", "modified_args": {**args, "timeout": args.get("timeout", 30_000)}}

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, SHELL) as client:
            result = await run(client, SHELL, text="ls")
    assert json.loads(result["c"].text) == {"text": "ls", "path": "", "timeout": 30_000}


async def test_files_stay_inside_directories(own_sidecar: Sidecar) -> None:
    hooks = hooks_of(own_sidecar)
    allowed = ("/srv/projects", "/tmp")

    @hooks.before_tool_call(tools=["read_file", "write_file"])
    def confine(asked: HookInput) -> HookOutput | None:
        path = os.path.normpath((asked.tool_args or {}).get("path", ""))
        if any(os.path.commonpath([path, folder]) == folder for folder in allowed if path.startswith("/")):
            return None
        return HookOutput(permission_decision="deny", permission_decision_reason=f"Access to '{path}' is not permitted")

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "read_file") as client:
            inside = await run(client, "read_file", path="/tmp/x")
            outside = await run(client, "read_file", path="/tmpx")
    assert inside["c"].outcome == "success"
    assert outside["c"].error.message == "Access to '/tmpx' is not permitted"


async def test_verbose_output_is_suppressed(own_sidecar: Sidecar) -> None:
    hooks = hooks_of(own_sidecar)

    @hooks.before_tool_call
    def quiet(asked: HookInput) -> HookOutput:
        return HookOutput("allow", suppress_output=asked.tool_name in ("list_directory", "search_files"))

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "list_directory") as client:
            result = await run(client, "list_directory", text="long")
    assert result["c"].suppressed
    assert "long" not in result["c"].text


async def test_a_context_is_added(own_sidecar: Sidecar) -> None:
    hooks = hooks_of(own_sidecar)

    @hooks.before_tool_call(tools=["query_database"])
    def remind(asked: HookInput) -> HookOutput:
        return HookOutput("allow", additional_context="This database speaks PostgreSQL.")

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "query_database") as client:
            result = await run(client, "query_database")
    assert [(one.text, one.hook_id) for one in result.hook_contexts] == [("This database speaks PostgreSQL.", "remind")]


async def test_a_hook_is_an_object_with_methods_before_and_after(own_sidecar: Sidecar) -> None:
    class Audit:
        async def before_tool_call(self, asked: HookInput) -> Before:
            return (
                Before.deny("not twice", result=ToolResult.of("cached")) if asked.tool_name == "a" else Before.proceed()
            )

        def after_tool_call(self, asked: HookInput) -> After:
            assert asked.result is not None
            return After.stop(result=ToolResult.of("polished"), messages=[Injected("that will do")])

    hooks = hooks_of(own_sidecar)
    hooks.add(Audit(), hook_id="audit")
    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "a", "b") as client:
            cached = await run(client, "a")
            polished = await run(client, "b")
    assert (cached["c"].text, cached["c"].not_executed_reason) == ("cached", "answered_by_hook")
    assert polished["c"].text == "polished"
    assert (polished.stop, polished.stop_reason) == (True, "hook")
    assert [(one.role, one.text) for one in polished.hook_messages] == [("user", "that will do")]


@pytest.mark.parametrize("form", [AfterOutput, dict])
async def test_a_result_is_modified_and_a_context_added_field_by_field(own_sidecar: Sidecar, form: Any) -> None:
    hooks = hooks_of(own_sidecar)

    @hooks.after_tool_call
    def shorten(asked: HookInput) -> Any:
        if asked.tool_name == "quiet":
            return form(suppress_output=True)
        return form(modified_result={"short": True}, additional_context="It was longer.")

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "read", "quiet") as client:
            shortened = await run(client, "read", text="long")
            quiet = await run(client, "quiet", text="long")
    assert (shortened["c"].structured, json.loads(shortened["c"].text)) == ({"short": True}, {"short": True})
    assert [(one.text, one.hook_id) for one in shortened.hook_contexts] == [("It was longer.", "shorten")]
    assert quiet["c"].suppressed
    assert "long" not in quiet["c"].text


async def test_after_a_call_a_broken_hook_leaves_the_result_as_it_was(own_sidecar: Sidecar) -> None:
    hooks = hooks_of(own_sidecar)

    @hooks.after_tool_call(on=["after_tool_call", "after_tool_failure"])
    def broken(asked: HookInput) -> Any:
        return {"modified_result": b"bytes"} if asked.tool_name == "a" else "nonsense"

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "a", "b") as client:
            for tool in ("a", "b"):
                assert json.loads((await run(client, tool, text="x"))["c"].text)["text"] == "x"


async def test_defer_waits_for_an_approver_and_abort_ends_the_run(own_sidecar: Sidecar) -> None:
    hooks = hooks_of(own_sidecar)

    @hooks.before_tool_call
    def decide(asked: HookInput) -> Before:
        return Before.defer("look at it") if asked.tool_name == "a" else Before.abort("enough")

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "a", "b") as client:
            aborted = await run(client, "b")
            waiting = asyncio.ensure_future(run(client, "a"))
            async with own_sidecar.approver() as approver, approver.watch() as watch:
                async for update in watch:
                    if update.approvals:
                        await approver.deny(update.approvals[0])
                        break
            denied = await waiting
    assert (aborted.outcome, aborted.run.state) == ("aborted", "aborted")
    assert aborted["c"].error.code == "run_aborted"
    assert denied["c"].error.code == "tool_denied_by_user"


async def test_a_handler_that_raises_or_says_nonsense_has_failed(own_sidecar: Sidecar) -> None:
    hooks = hooks_of(own_sidecar)

    @hooks.before_tool_call
    def broken(asked: HookInput) -> Any:
        if asked.tool_name == "a":
            raise RuntimeError("broken")
        return "yes"

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "a", "b") as client:
            for tool in ("a", "b"):
                assert (await run(client, tool))["c"].error.code == "hook_failed"


@pytest.mark.parametrize("make", [lambda: SystemExit(3), KeyboardInterrupt, GeneratorExit, StopIteration])
async def test_a_handler_that_raises_to_end_the_process_has_failed_at_once(own_sidecar: Sidecar, make: Any) -> None:
    hooks = hooks_of(own_sidecar)

    # Longer than the test may take: a hook that does not answer holds it up.
    @hooks.before_tool_call(tools=["a"], timeout=600)
    def on_thread(_: HookInput) -> None:
        raise make()

    @hooks.before_tool_call(tools=["b"], timeout=600)
    async def on_loop(_: HookInput) -> None:
        raise make()

    @hooks.before_tool_call(tools=["c"], timeout=600, on_failure="ignore")
    async def ignored(_: HookInput) -> None:
        raise make()

    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "a", "b", "c") as client:
            for tool in ("a", "b", "a", "b"):
                assert (await run(client, tool))["c"].error.code == "hook_failed"
            assert (await run(client, "c"))["c"].outcome == "success"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_hooks_come_back_after_the_sidecar_did(own_sidecar: Sidecar, number: int) -> None:
    asked = asyncio.Event()
    hooks = Hooks(own_sidecar.control_endpoint, backoff=own_sidecar.client()._backoff)

    @hooks.before_tool_call
    async def note(_: HookInput) -> None:
        asked.set()

    async with hooks:
        await hooks.wait_ready(10)
        await asyncio.to_thread(own_sidecar.restart, number)
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, "a") as client:
            await run(client, "a")
    assert asked.is_set()


@pytest.mark.parametrize("form", ["def", "async def"])
async def test_a_handler_that_takes_longer_than_its_time_passes_if_it_asks_for_more(
    own_sidecar: Sidecar, form: str
) -> None:
    seconds, longer = 1.0, 1.5
    said: dict[str, list[Any]] = {}
    hooks = hooks_of(own_sidecar)

    def asks(asked: HookInput) -> None:
        if asked.tool_name == "impatient":
            return
        try:
            # Far more than there is: cut to the hook's own time.
            said[asked.tool_name] = [asked.need_more_time(600)]
            if asked.tool_name == "twice":
                asked.need_more_time(600)
        except MoreTimeRefused as refused:
            said[asked.tool_name].append(refused.code)

    def on_thread(asked: HookInput) -> Before:
        asks(asked)
        threading.Event().wait(longer if asked.tool_name != "endless" else 3 * seconds)
        return Before.allow()

    async def on_loop(asked: HookInput) -> Before:
        asks(asked)
        await asyncio.sleep(longer if asked.tool_name != "endless" else 3 * seconds)
        return Before.allow()

    hooks.before_tool_call(on_thread if form == "def" else on_loop, hook_id="slow", timeout=seconds)
    tools = ("patient", "twice", "impatient", "endless")
    async with hooks:
        await hooks.wait_ready(10)
        async with await with_tools(own_sidecar, *tools) as client:
            ended = await asyncio.gather(*(run(client, tool) for tool in tools))
    results = {tool: one["c"] for tool, one in zip(tools, ended, strict=True)}
    assert {tool: results[tool].error and results[tool].error.code for tool in tools} == {
        "patient": None,
        "twice": None,
        "impatient": "hook_timeout",
        "endless": "hook_timeout",
    }
    assert said == {
        "patient": [seconds],
        "twice": [seconds, "need_more_time_twice"],
        "endless": [seconds],
    }


PROGRAM = """
import sys
from callgate import Before, Hooks

hooks = Hooks(sys.argv[1])

@hooks.before_tool_call
async def guard(asked):
    asked.need_more_time(1)
    return Before.deny("no")

hooks.run()
print("left", flush=True)
"""


async def test_a_process_of_async_def_hooks_serves_until_sigterm_and_takes_them_along(own_sidecar: Sidecar) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-c", PROGRAM, own_sidecar.control_endpoint]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        async with await with_tools(own_sidecar, "a") as client:
            while (denied := (await run(client, "a"))["c"]).outcome == "success":
                assert process.poll() is None
            assert denied.error.code == "tool_denied_by_hook"
            process.send_signal(signal.SIGTERM)
            assert await asyncio.to_thread(process.communicate, timeout=20) == ("left\n", None)
            assert process.returncode == 0
            assert (await run(client, "a"))["c"].outcome == "success"


async def test_a_hook_that_cannot_be_is_refused_at_once(own_sidecar: Sidecar) -> None:
    hooks = hooks_of(own_sidecar)

    @hooks.before_tool_call(tools=["a("])
    def never(_: HookInput) -> None:
        return None

    async with hooks:
        with pytest.raises(InvalidRequest, match="never"):
            await hooks.wait_ready(10)
