"""What tests of hooks share: hooks, tools that say what they got, and one call."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from callgate import Client, Hooks, ToolCall

if TYPE_CHECKING:
    from conftest import Sidecar


def hooks_of(sidecar: Sidecar) -> Hooks:
    return Hooks(sidecar.control_endpoint)


def echo(text: str = "", path: str = "", timeout: int = 0) -> str:
    """Says what it got."""
    return json.dumps({"text": text, "path": path, "timeout": timeout})


async def with_tools(sidecar: Sidecar, *names: str, risk: Any = "safe") -> Client:
    client = sidecar.client(executor_name="tools")
    for name in names:
        client.tool(name=name, risk=risk, kind="read")(echo)
    await client.start()
    await client.wait_ready(10)
    return client


async def run(client: Client, tool: str, **arguments: Any) -> Any:
    call = ToolCall("c", tool, json.dumps(arguments))
    return await client.run_turn(os.urandom(4).hex(), [call])
