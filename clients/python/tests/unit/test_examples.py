"""The examples do what they say."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from callgate import Cancellation, Client, ToolCall, TurnSuspended
from callgate.testing import FakeSidecar, call_tool

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
GENERATED = ROOT / "src" / "callgate" / "_gen" / "callgate"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def bakery() -> Client:
    return load("baking_tools").client


def arguments_of(message: str) -> tuple[str, str]:
    call = json.loads((EXAMPLES / "messages" / f"{message}.json").read_text())["tool_calls"][0]["function"]
    return call["name"], call["arguments"]


def test_every_baking_tool_is_in_the_core_dialect_with_a_description_risk_and_kind(bakery: Client) -> None:
    for tool in bakery.tools:
        assert tool.dialect == "core", tool
        assert tool.description
        assert tool.risk
        assert tool.kind
    assert {tool.name for tool in bakery.tools} == {
        "read_baking_records",
        "clear_baking_cache",
        "find_record",
        "proof_dough",
        "bake_batch",
        "broken_oven",
        "finish_baking",
    }


@pytest.mark.parametrize(
    ("message", "code"),
    [
        ("good_call", ""),
        ("wrong_type", "arguments_rejected"),
        ("missing_argument", "arguments_rejected"),
        ("fraction_for_integer", "arguments_rejected"),
        ("broken_json", "arguments_rejected"),
        ("thrown_exception", "tool_execution_failed"),
        ("domain_error", "record_not_found"),
        ("dangerous_call", ""),
    ],
)
async def test_recorded_message_ends_as_its_name_says(bakery: Client, message: str, code: str) -> None:
    # Without a sidecar the handler's types are the only check; its own codes come with it.
    name, arguments = arguments_of(message)
    result = await call_tool(bakery, name, arguments)
    assert (result.error.code if result.error else "") == code


async def test_finish_baking_sets_the_stop_flag(bakery: Client) -> None:
    assert (await call_tool(bakery, *arguments_of("stop_flag"))).stop_flag


async def test_proof_dough_stops_when_it_is_told_to(bakery: Client) -> None:
    cancellation = Cancellation()
    cancellation.request("call_cancelled")
    result = await call_tool(bakery, *arguments_of("slow_call"), cancellation=cancellation)
    assert (result.outcome, result.effect) == ("cancelled", "executed")


def test_every_recorded_message_is_an_assistant_message_with_calls() -> None:
    for path in sorted((EXAMPLES / "messages").glob("*.json")):
        message = json.loads(path.read_text())
        assert message["role"] == "assistant"
        for call in message["tool_calls"]:
            assert call["type"] == "function"
            assert set(call["function"]) == {"name", "arguments"}
            assert isinstance(call["function"]["arguments"], str)


def run(name: str, endpoint: str, **environ: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-u", str(EXAMPLES / name)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "CALLGATE_ENDPOINT": endpoint, **environ},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


async def test_quickstart_tool_serves_quickstart_turn(fake_sidecar: FakeSidecar) -> None:
    tool = run("quickstart_tool.py", fake_sidecar.endpoint)
    await fake_sidecar.until(lambda: fake_sidecar.executors.owner_of("add"), 20)
    turn = run("quickstart_turn.py", fake_sidecar.endpoint)
    output, errors = await asyncio.to_thread(turn.communicate)
    tool.terminate()
    _, tool_errors = await asyncio.to_thread(tool.communicate)
    assert output.splitlines()[0] == "1 TurnAccepted", errors
    assert output.splitlines()[-1] == "5"
    assert (turn.returncode, tool.returncode) == (0, 0), tool_errors


async def test_approve_shows_what_waits_and_takes_the_answer(fake_sidecar: FakeSidecar) -> None:
    ran: list[str] = []

    def remove(path: str) -> str:
        """Removes."""
        ran.append(path)
        return "removed"

    fake_sidecar.ask("remove")
    client = fake_sidecar.client()
    client.add_tool(remove)
    async with client:
        await client.wait_ready()
        # The endpoint is that of everybody else: the example finds the socket of approvers by itself.
        approver = run("approve.py", fake_sidecar.endpoint)
        assert approver.stdin is not None
        results = []
        for path, answer in (("/a", "y"), ("/b", "not that one")):
            turn = client.run_turn("s", [ToolCall("c", "remove", {"path": path})])
            async for event in turn:
                if isinstance(event, TurnSuspended):
                    approver.stdin.write(f"{answer}\n")
                    approver.stdin.flush()
            results.append((await turn)["c"])
    approver.terminate()
    output, _ = await asyncio.to_thread(approver.communicate)
    assert ran == ["/a"]
    assert results[0].text == "removed"
    assert results[1].error is not None
    assert results[1].error.message == "not that one"
    assert "remove, dangerous: the test asks for it" in output
    assert '"path": "/b"' in output


@pytest.mark.parametrize("name", ["quickstart_tool.py", "quickstart_turn.py", "approve.py"])
def test_first_example_is_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text().splitlines()) <= 30


async def test_contract_alone_is_enough_for_a_tool(fake_sidecar: FakeSidecar, tmp_path: Path) -> None:
    shutil.copytree(GENERATED, tmp_path / "callgate")
    process = run("raw_grpcio.py", fake_sidecar.tcp_endpoint, PYTHONPATH=str(tmp_path))
    assert (await fake_sidecar.call("raw_add", {"a": 2, "b": 3}, wait=20)).text == "5"
    assert (await fake_sidecar.call("raw_add", {})).is_error
    fake_sidecar.go_away(min_ms=0, max_ms=0)
    output, errors = await asyncio.to_thread(process.communicate)
    assert output == "raw_add REGISTRATION_STATE_ACTIVE \n"
    assert process.returncode == 0, errors
