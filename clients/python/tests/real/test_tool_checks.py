"""Tools that are asked about calls, and paths that are what they really are, with the real sidecar."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from callgate import CallResult, Permission, PermissionContext, Subject, Tool, ToolCall

if TYPE_CHECKING:
    from conftest import Sidecar


def read_file(path: str) -> str:
    """Reads."""
    return Path(path).read_text()


def spend(amount: int) -> str:
    """Spends."""
    return str(amount)


async def with_rules(sidecar: Sidecar, **rules: list[str]) -> None:
    file = sidecar.folder / "c" / "callgate" / "settings.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"permissions": rules}))
    await asyncio.to_thread(sidecar.restart, signal.SIGTERM)


async def run(sidecar: Sidecar, tool: Tool, *arguments: dict[str, Any]) -> list[CallResult]:
    client = sidecar.client(executor_name="files")
    client.add_tool(tool)
    async with client:
        await client.wait_ready(10)
        calls = [ToolCall(str(number), tool.name, json.dumps(one)) for number, one in enumerate(arguments)]
        turn = await client.run_turn("s", calls, batch_policy="freeze_partial", on_suspend="end")
        return list(turn.results)


async def test_a_link_does_not_lead_out_of_an_allowed_folder(own_sidecar: Sidecar, tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    (inside / "a").write_text("allowed")
    (outside / "b").write_text("denied")
    (inside / "link").symlink_to(outside / "b")
    await with_rules(own_sidecar, allow=[f"read_file(/{inside}/**)"], deny=[f"read_file(/{outside}/**)"])
    tool = Tool(read_file, risk="sensitive", kind="read", subject=Subject("/path", "path"))
    allowed, denied = await run(own_sidecar, tool, {"path": str(inside / "a")}, {"path": str(inside / "link")})
    assert allowed.text == "allowed"
    assert denied.error is not None
    assert denied.error.code == "tool_denied_by_rule"


async def test_what_a_tool_says_of_a_call_holds(own_sidecar: Sidecar) -> None:
    tool = Tool(spend, risk="safe", kind="other")

    @tool.permission_check
    def check(arguments: Mapping[str, Any], context: PermissionContext) -> Permission:
        return Permission.deny("at most 10") if arguments["amount"] > 10 else Permission.passthrough()

    cheap, dear = await run(own_sidecar, tool, {"amount": 10}, {"amount": 11})
    assert cheap.text == "10"
    assert dear.error is not None
    assert (dear.error.code, dear.error.message) == ("tool_denied_by_tool", "at most 10")
    assert dear.not_executed_reason == "denied_by_tool"
