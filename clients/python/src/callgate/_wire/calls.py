"""The rpcs that ask once and answer once. Runs on the wire's loop."""

from __future__ import annotations

import json
from collections.abc import Awaitable
from typing import Any, Literal, TypeVar, cast

import grpc

from .. import errors
from .._gen.callgate.v1 import registry_service_pb2 as rg
from .._gen.callgate.v1 import registry_service_pb2_grpc as rg_rpc
from .._gen.callgate.v1 import server_service_pb2 as sv
from .._gen.callgate.v1 import server_service_pb2_grpc as sv_rpc
from .._gen.callgate.v1 import turn_service_pb2 as tu
from .._gen.callgate.v1 import turn_service_pb2_grpc as tu_rpc
from ..registry import ServerInfo, ToolList
from ..result import CallResult
from ..turns import CallState, Run, TurnInfo, TurnState
from . import convert_turns
from .channel import SharedChannel
from .convert import call_result
from .status import from_grpc

T = TypeVar("T")

Health = Literal["unknown", "serving", "not_serving", "service_unknown"]
_HEALTH: tuple[Health, ...] = ("unknown", "serving", "not_serving", "service_unknown")
_HEALTH_METHOD = "/grpc.health.v1.Health/Check"


class UnaryCalls:
    """Unary rpcs. `timeout` is in seconds, for one answer."""

    def __init__(self, channel: SharedChannel, timeout: float) -> None:
        self._channel = channel
        self._timeout = timeout

    async def _ask(self, method: Any, request: Any) -> Any:
        metadata = self._channel.dialer.metadata()
        return await _answer(method(request, metadata=metadata, timeout=self._timeout))


class Calls(UnaryCalls):
    """The rpcs about turns, the registry and the sidecar itself."""

    @property
    def _turns(self) -> Any:
        return tu_rpc.TurnServiceStub(self._channel.get())

    async def cancel_turn(self, turn_id: str, session_id: str, reason: str, grace: float | None) -> TurnState | None:
        """None: the turn was not seen yet; the cancellation is remembered."""
        request = tu.CancelTurnRequest(turn_id=turn_id, session_id=session_id, reason=reason)
        _set_grace(request, grace)
        answer = await self._ask(self._turns.CancelTurn, request)
        if answer.state == tu.TURN_STATE_UNSPECIFIED:
            return None
        return convert_turns.turn_state(answer.state)

    async def cancel_call(
        self, turn_id: str, session_id: str, call_id: str, reason: str, grace: float | None
    ) -> CallState:
        """Where the call stands."""
        request = tu.CancelCallRequest(turn_id=turn_id, session_id=session_id, call_id=call_id, reason=reason)
        _set_grace(request, grace)
        return convert_turns.call_state((await self._ask(self._turns.CancelCall, request)).state)

    async def get_turn(self, turn_id: str, session_id: str) -> TurnInfo:
        """One turn."""
        request = tu.GetTurnRequest(turn_id=turn_id, session_id=session_id)
        return convert_turns.turn_info((await self._ask(self._turns.GetTurn, request)).turn)

    async def list_turns(
        self, session_id: str, run_id: str, state: TurnState | None, page_size: int, page_token: str
    ) -> tuple[tuple[TurnInfo, ...], str]:
        """One page, and the token of the next."""
        request = tu.ListTurnsRequest(session_id=session_id, run_id=run_id, page_size=page_size, page_token=page_token)
        if state is not None:
            request.state = convert_turns.TURN_STATES[state]  # type: ignore[assignment]
        answer = await self._ask(self._turns.ListTurns, request)
        return tuple(convert_turns.turn_info(item) for item in answer.turns), answer.next_page_token

    async def get_call_result(self, turn_id: str, session_id: str, call_id: str) -> CallResult:
        """One result, whole."""
        request = tu.GetCallResultRequest(turn_id=turn_id, session_id=session_id, call_id=call_id)
        return call_result((await self._ask(self._turns.GetCallResult, request)).result)

    async def end_run(self, session_id: str, run_id: str) -> Run:
        """The run, completed."""
        answer = await self._ask(self._turns.EndRun, tu.EndRunRequest(session_id=session_id, run_id=run_id))
        return convert_turns.run(answer.run)

    async def cancel_run(self, session_id: str, run_id: str, reason: str, grace: float | None) -> Run:
        """The run, cancelled."""
        request = tu.CancelRunRequest(session_id=session_id, run_id=run_id, reason=reason)
        _set_grace(request, grace)
        return convert_turns.run((await self._ask(self._turns.CancelRun, request)).run)

    async def list_tools(self, toolset: str, export: str | None) -> ToolList:
        """All pages of one snapshot."""
        stub: Any = rg_rpc.RegistryServiceStub(self._channel.get())
        request = rg.ListToolsRequest(toolset=toolset)
        if export is not None:
            request.format = convert_turns.FORMATS[export]  # type: ignore[assignment]
        tools: list[Any] = []
        exported: list[dict[str, Any]] = []
        aliases: dict[str, str] = {}
        losses: list[Any] = []
        while True:
            answer = await self._ask(stub.ListTools, request)
            tools.extend(convert_turns.tool_info(item) for item in answer.tools)
            if answer.HasField("tool_export") and answer.tool_export.tools_json:
                exported.extend(json.loads(answer.tool_export.tools_json))
                aliases.update({item.alias: item.tool for item in answer.tool_export.aliases})
                losses.extend(convert_turns.export_loss(item) for item in answer.tool_export.losses)
            if not answer.next_page_token:
                return ToolList(answer.tool_snapshot_id, tuple(tools), tuple(exported), aliases, tuple(losses))
            request.page_token = answer.next_page_token

    async def server_info(self) -> ServerInfo:
        """What the sidecar is."""
        stub: Any = sv_rpc.ServerServiceStub(self._channel.get())
        return convert_turns.server_info(await self._ask(stub.GetServerInfo, sv.GetServerInfoRequest()))

    async def health(self, service: str) -> Health:
        """Asks `grpc.health.v1`. Two fields, so its generated module is not worth a dependency."""
        method = cast(Any, self._channel.get()).unary_unary(
            _HEALTH_METHOD, request_serializer=_health_request, response_deserializer=_health_response
        )
        try:
            return await self._ask(method, service)
        except errors.NotFound:
            return "service_unknown"


def _set_grace(request: Any, grace: float | None) -> None:
    milliseconds = convert_turns.span(grace)
    if milliseconds is not None:
        request.grace_ms = milliseconds


async def _answer(call: Awaitable[T]) -> T:
    try:
        return await call
    except grpc.RpcError as error:
        raise from_grpc(error) from error


def _health_request(service: str) -> bytes:
    name = service.encode("utf-8")
    # Field 1, text. Names of services are far below 128 bytes.
    return b"\x0a" + bytes([len(name)]) + name if name else b""


def _health_response(message: bytes) -> Health:
    # Field 1, an enum; absent means 0.
    number = message[1] if len(message) >= 2 and message[0] == 0x08 else 0
    return _HEALTH[number] if number < len(_HEALTH) else "unknown"
