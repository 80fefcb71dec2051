"""Tests of tools, hooks, orchestrators and approvers, without a sidecar and without a network.

`call_tool` runs one tool directly, `ask_hook` asks one hook. `FakeSidecar` goes the whole way over a
socket, with progress, output, cancellation, lost streams and calls that wait. For its pytest
fixture put `pytest_plugins = ["callgate.pytest_plugin"]` into `conftest.py`.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ._wire.fake_sidecar import FakeCall, FakeSidecar
from .approval import CHOICES, Approval
from .client import Client
from .context import Cancellation, SessionState, SilentReporter, ToolContext, ToolServiceRegistry
from .errors import ToolCancelled, ToolNotFound
from .hook import MoreTime, allow_more_time
from .hook_points import ONLY_TOLD, HookAnswer, HookQuestion, answer_of
from .hooks import Hooks
from .permission import PermissionVerdict
from .result import CallResult, ToolResult, from_exception, seal, to_json
from .tool import Tool, is_async
from .turns import ToolCall

__all__ = ["FakeCall", "FakeSidecar", "ask_hook", "call_tool", "waiting_approval"]


async def call_tool(
    client: Client | Tool,
    name: str = "",
    arguments: Mapping[str, Any] | str | bytes | None = None,
    *,
    call_id: str = "call",
    session_id: str = "session",
    metadata: Mapping[str, Any] | None = None,
    services: tuple[str, ...] | None = None,
    cwd: str = "",
    cancellation: Cancellation | None = None,
    timeout: float | None = None,
) -> CallResult:
    """Runs a tool as the executor would, in this process and on this loop.

    The arguments go through JSON and the handler's types; the schema itself is
    checked by the sidecar, and so not here. `services` None: those that the tool
    declares. `cancellation` lets a test tell the handler to stop.

    Raises:
        ToolNotFound: The client has no such tool.
    """
    tool = client if isinstance(client, Tool) else _find(client, name)
    registry = client.services if isinstance(client, Client) else ToolServiceRegistry()
    context = ToolContext(
        session_id=session_id,
        state=SessionState.from_json(1, session_id, to_json(dict(metadata or {})).encode()),
        batch_call_id="batch",
        cancellation=cancellation or Cancellation(),
        services=registry.allowing(tool.services if services is None else services),
        call_id=call_id,
        reporter=SilentReporter(),
        cwd=cwd,
        timeout=timeout,
    )
    document = arguments if isinstance(arguments, (str, bytes)) else to_json(dict(arguments or {}))
    raw = document.encode() if isinstance(document, str) else document
    try:
        if tool.is_async:
            result = await tool.run_async(raw, context)
        else:
            result = await asyncio.to_thread(tool.run_sync, raw, context)
    except ToolCancelled as error:
        if not context.cancelled:
            return _record(tool, call_id, from_exception(error))
        return CallResult(call_id, tool.name, "cancelled", is_error=True, effect=error.effect)  # type: ignore[arg-type]
    except (Exception, SystemExit) as error:  # noqa: BLE001 - as in the executor: a failing tool is a result
        result = from_exception(error)
    return _record(tool, call_id, result)


def _record(tool: Tool, call_id: str, result: ToolResult) -> CallResult:
    # Sealed first, so that what could not be sent is an error here too.
    sent = seal(result)
    sealed = sent.result
    return CallResult(
        call_id=call_id,
        tool=tool.name,
        outcome="error" if sealed.is_error else "success",
        is_error=sealed.is_error,
        stop_flag=sealed.stop_flag,
        error=sealed.error,
        contents=sealed.contents,
        structured=_decoded(sent.structured_json),
        metadata=_decoded(sent.metadata_json),
        sanitised=sent.sanitised,
        effect="executed",
        attempts=1,
    )


def _decoded(document: bytes) -> Any:
    return json.loads(document) if document else None


def _find(client: Client, name: str) -> Tool:
    for tool in client.tools:
        if tool.name == name:
            return tool
    raise ToolNotFound(f"the client has no tool `{name}`")


async def ask_hook(hooks: Hooks | Client, asked: HookQuestion) -> HookAnswer:
    """Asks a hook as the sidecar would, in this process and on this loop, and returns what it says.

    A question without `hook_id` is for the only hook of its point. Matchers are the
    sidecar's own work and so not looked at here, and neither is how long it takes; more
    time may be asked for as ever. What the handler raises, this raises.

    Raises:
        LookupError: There is no such hook, or several.
        TypeError, ValueError: It answered something else, which is a failure.
    """
    spec, handler = (hooks.hooks if isinstance(hooks, Client) else hooks).hook_of(asked)
    if not spec.observe and asked.point not in ONLY_TOLD:
        # A copy: the same question may be asked again, and then has more time again.
        asked = replace(asked)
        allow_more_time(asked, MoreTime(spec.timeout, lambda seconds: None))
    said = await handler(asked) if is_async(handler) else await asyncio.to_thread(handler, asked)
    return answer_of(asked.point, said)


def waiting_approval(tool: str, arguments: Mapping[str, Any] | None = None, **fields: Any) -> Approval:
    """An approval that waits, to ask a hook or an approver about. `fields` are those of `Approval`."""
    text = to_json(dict(arguments or {}))
    made = Approval(
        approval_id="approval",
        batch_id="batch",
        session_id="session",
        root_session_id="session",
        run_id="run",
        turn_id="turn",
        call=ToolCall("call", tool, text),
        tool=tool,
        owner="test",
        tool_digest=b"",
        risk="dangerous",
        kind="other",
        effective_arguments_json=text.encode(),
        display_arguments=text,
        arguments_cut=False,
        digest=hashlib.sha256(text.encode()).digest(),
        verdict=PermissionVerdict("ask", "mode_default"),
        allowed_choices=CHOICES,
        grant_candidates=(),
        state="pending",
        created_at_ms=0,
        expires_at_ms=None,
        decision=None,
        pending_in_batch=1,
        mode="default",
        call_outcome=None,
        etag="",
    )
    return replace(made, **fields)
