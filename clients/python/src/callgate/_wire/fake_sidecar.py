"""A sidecar in this process that decides nothing, for tests of tools and of orchestrators."""

from __future__ import annotations

import concurrent.futures
import os
import shutil
import tempfile
import uuid
from collections.abc import Coroutine, Mapping
from types import TracebackType
from typing import Any, TypeVar

import grpc
import grpc.aio

from .._gen.callgate.v1 import approval_service_pb2_grpc as av_rpc
from .._gen.callgate.v1 import executor_service_pb2 as ex
from .._gen.callgate.v1 import executor_service_pb2_grpc as ex_rpc
from .._gen.callgate.v1 import provider_pb2 as pr
from .._gen.callgate.v1 import registry_service_pb2 as rg
from .._gen.callgate.v1 import registry_service_pb2_grpc as rg_rpc
from .._gen.callgate.v1 import server_service_pb2 as sv
from .._gen.callgate.v1 import server_service_pb2_grpc as sv_rpc
from .._gen.callgate.v1 import session_service_pb2_grpc as se_rpc
from .._gen.callgate.v1 import stream_pb2 as st
from .._gen.callgate.v1 import turn_service_pb2_grpc as tu_rpc
from .._gen.callgate.v1 import types_pb2 as ty
from ..approval import Approval
from ..approvals import Approvals
from ..client import Client
from ..result import CallResult, to_json
from ..tool import Risk
from . import convert, convert_approvals
from .fake_approvals import FakeApprovals
from .fake_executors import FakeExecution, FakeExecutors, call_context, digest
from .fake_sessions import FakeSessions
from .fake_turns import FakeTurns, result_of
from .loop import WireLoop

T = TypeVar("T")

_REASONS = {
    "call_cancelled": ex.CANCEL_REASON_CALL_CANCELLED,
    "turn_cancelled": ex.CANCEL_REASON_TURN_CANCELLED,
    "run_ended": ex.CANCEL_REASON_RUN_ENDED,
    "deadline": ex.CANCEL_REASON_DEADLINE,
    "shutdown": ex.CANCEL_REASON_SHUTDOWN,
}


class FakeCall:
    """One call that the fake sidecar has sent. Methods may be awaited on any loop."""

    def __init__(self, sidecar: FakeSidecar, call: ty.ToolCall, execution: FakeExecution) -> None:
        self._sidecar = sidecar
        self._call = call
        self._execution = execution

    @property
    def progress(self) -> list[tuple[str, float | None]]:
        """The reports that came so far: message and fraction."""
        return list(self._execution.progress)

    @property
    def output(self) -> bytes:
        """What it printed so far."""
        return b"".join(chunk.data for chunk in self._execution.output)

    @property
    def dropped_bytes(self) -> int:
        """What it printed beyond its credit so far, as far as it has told."""
        return sum(chunk.dropped_bytes for chunk in self._execution.output)

    @property
    def accepted(self) -> list[bool]:
        """One per acceptance: whether it had to wait for a slot."""
        return list(self._execution.accepted)

    @property
    def results(self) -> int:
        """How often the result came; more than once only after a reconnect."""
        return len(self._execution.results)

    @property
    def cancel_acks(self) -> int:
        """How often the executor confirmed a cancellation."""
        return self._execution.cancel_acks

    @property
    def rejected(self) -> str:
        """Why the executor did not take it; empty: it did."""
        rejected = self._execution.rejected
        return "" if rejected is None else convert.enum_name(ex.RejectReason, rejected.reason, "REJECT_REASON_", "busy")

    @property
    def abandoned(self) -> bool:
        """Whether the executor gave it back before it began."""
        return self._execution.abandoned

    async def result(self, timeout: float = 10.0) -> CallResult:
        """How it ended."""
        await self.until(lambda: self._execution.done, timeout)
        return convert.call_result(result_of(self._call, self._execution))

    async def until(self, condition: Any, timeout: float = 10.0) -> None:
        """Returns when something about this call is so, e.g. `lambda: call.progress`."""
        await self._sidecar._on_wire(self._sidecar.executors.until(lambda: bool(condition()), timeout))

    def cancel(self, reason: str = "call_cancelled", message: str = "", grace: float = 5.0) -> None:
        """Tells the executor to stop it."""
        self._sidecar._post(
            self._sidecar.executors.cancel, self._execution, _REASONS[reason], message, int(grace * 1000)
        )

    def add_credit(self, added: int, *, stop: bool = False) -> None:
        """Lets it print more, or no more."""
        credit = ex.OutputCredit(execution=self._execution.request.execution, added_bytes=added, stop=stop)
        self._sidecar._post(
            self._sidecar.executors.send, self._execution.instance, ex.ConnectResponse(output_credit=credit)
        )


class FakeSidecar:
    """Speaks to executors, orchestrators and approvers, well enough to test them.

    Checks no schema, asks only for what `ask` names, keeps nothing. `async with`, `with`, or
    `start` and `stop`; the methods may be used from any loop.
    """

    def __init__(self, *, ping_interval: float = 5.0, ping_misses: int = 3, max_result_bytes: int = 0) -> None:
        self._wire: WireLoop | None = None
        self._server: grpc.aio.Server | None = None
        self._folder = ""
        self._tcp = ""
        self._ping = (ping_interval, ping_misses)
        self._max_result_bytes = max_result_bytes
        self.executors: FakeExecutors
        self.turns: FakeTurns
        self.approvals: FakeApprovals
        self.sessions: FakeSessions

    @property
    def endpoint(self) -> str:
        """Its Unix socket."""
        return f"unix://{self._folder}/callgate.sock"

    @property
    def control_endpoint(self) -> str:
        """Its Unix socket for approvers."""
        return f"unix://{self._folder}/control.sock"

    @property
    def tcp_endpoint(self) -> str:
        """The same over loopback TCP."""
        return self._tcp

    def client(self, **options: Any) -> Client:
        """A client of it, with an executor name."""
        options.setdefault("endpoint", self.endpoint)
        options.setdefault("executor_name", "test")
        return Client(**options)

    def approver(self, **options: Any) -> Approvals:
        """An approver's connection to it."""
        options.setdefault("endpoint", self.control_endpoint)
        return Approvals(**options)

    def ask(self, tool: str, *, risk: Risk = "dangerous") -> None:
        """Lets every call of a tool wait for a decision from now on."""
        self._post(self.approvals.tools.__setitem__, tool, convert.RISKS[risk])

    async def asked(self, count: int = 1, timeout: float = 10.0) -> tuple[Approval, ...]:
        """What waits, as soon as so many do. Decide it with an `approver`."""

        def waiting() -> list[Any]:
            return [item.message for item in self.approvals.approvals.values() if not item.ended.is_set()]

        await self.until(lambda: len(waiting()) >= count, timeout)
        return tuple(convert_approvals.approval(item) for item in waiting())

    def start(self) -> FakeSidecar:
        """Begins to serve."""
        # Short, because the path of a socket is.
        self._folder = tempfile.mkdtemp(prefix="cg-", dir="/tmp" if os.path.isdir("/tmp") else None)
        self._wire = WireLoop.acquire()
        self._wire.submit(self._serve()).result(10.0)
        return self

    def stop(self) -> None:
        """Ends every stream."""
        if self._wire is None:
            return
        self._wire.submit(self._close()).result(10.0)
        self._wire.release()
        self._wire = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def restart(self, *, down: Any = None) -> None:
        """Goes away and comes back at the same addresses, with its memory of executions.

        `down`, if given, is called while nothing listens.
        """
        assert self._wire is not None
        self._wire.submit(self._close()).result(10.0)
        if down is not None:
            down()
        self._wire.submit(self._listen()).result(10.0)

    async def _serve(self) -> None:
        self.executors = FakeExecutors()
        self.executors.timing = st.StreamTiming(ping_interval_ms=int(self._ping[0] * 1000), ping_misses=self._ping[1])
        if self._max_result_bytes:
            self.executors.limits = st.StreamLimits(max_result_bytes=self._max_result_bytes)
        self.approvals = FakeApprovals(self.executors)
        self.sessions = FakeSessions(self.approvals)
        self.turns = FakeTurns(self.executors, self.approvals)
        await self._listen()

    async def _listen(self) -> None:
        server = grpc.aio.server(options=(("grpc.max_receive_message_length", 8 * 1024 * 1024),))
        add: Any = ex_rpc.add_ExecutorServiceServicer_to_server
        add(self.executors, server)
        add = tu_rpc.add_TurnServiceServicer_to_server
        add(self.turns, server)
        add = av_rpc.add_ApprovalServiceServicer_to_server
        add(self.approvals, server)
        add = se_rpc.add_SessionServiceServicer_to_server
        add(self.sessions, server)
        add = rg_rpc.add_RegistryServiceServicer_to_server
        add(_Registry(self.executors), server)
        add = sv_rpc.add_ServerServiceServicer_to_server
        add(_Server(), server)
        server.add_generic_rpc_handlers((_health(),))
        server.add_insecure_port(f"unix:{self._folder}/callgate.sock")
        server.add_insecure_port(f"unix:{self._folder}/control.sock")
        port = server.add_insecure_port(self._tcp.removeprefix("http://") or "127.0.0.1:0")
        self._tcp = f"http://127.0.0.1:{port}"
        await server.start()
        self._server = server

    async def _close(self) -> None:
        if self._server is not None:
            self.executors.drop_streams()
            self.turns.drop_streams()
            self.approvals.drop_streams()
            await self._server.stop(grace=0)
            self._server = None

    def __enter__(self) -> FakeSidecar:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> FakeSidecar:
        return self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def until(self, condition: Any, timeout: float = 10.0) -> None:
        """Returns when something is so; looks again after everything that executors say."""
        await self._on_wire(self.executors.until(lambda: bool(condition()), timeout))

    async def start_call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | str | bytes | None = None,
        *,
        call_id: str = "call",
        session_id: str = "session",
        metadata: Mapping[str, Any] | None = None,
        services: tuple[str, ...] | None = None,
        cwd: str = "",
        timeout: float = 120.0,
        output_credit: int = 64 * 1024,
        wait: float = 10.0,
    ) -> FakeCall:
        """Sends a call, after waiting at most `wait` seconds for an executor with the tool.

        `arguments` as text are sent as they are. `services` None: those that the
        tool declares.
        """
        return await self._on_wire(
            self._start_call(
                tool, _arguments(arguments), call_id, session_id, metadata, services, cwd, timeout, output_credit, wait
            )
        )

    async def _start_call(
        self,
        tool: str,
        arguments_json: bytes,
        call_id: str,
        session_id: str,
        metadata: Mapping[str, Any] | None,
        services: tuple[str, ...] | None,
        cwd: str,
        timeout: float,
        output_credit: int,
        wait: float,
    ) -> FakeCall:
        await self.executors.until(lambda: self.executors.owner_of(tool) is not None, wait)
        instance = self.executors.owner_of(tool)
        assert instance is not None
        allowed = tuple(instance.tools[tool].services) if services is None else services
        execution = self.executors.dispatch(
            instance,
            tool,
            arguments_json,
            call_id=call_id,
            context=call_context(session_id=session_id, metadata=metadata, services=allowed, cwd=cwd),
            timeout_ms=int(timeout * 1000),
            output_credit=output_credit,
        )
        return FakeCall(self, ty.ToolCall(call_id=call_id, name=tool, arguments_json=arguments_json), execution)

    async def call(
        self, tool: str, arguments: Mapping[str, Any] | str | bytes | None = None, **options: Any
    ) -> CallResult:
        """Sends a call and waits for its end. Options as in `start_call`."""
        return await (await self.start_call(tool, arguments, **options)).result()

    def call_sync(
        self, tool: str, arguments: Mapping[str, Any] | str | bytes | None = None, **options: Any
    ) -> CallResult:
        """`call` for code without an event loop. Not on the loop of `async def` tools."""
        return self._submit(self.call(tool, arguments, **options)).result()

    def drop_streams(self) -> None:
        """Breaks every stream of executors, turns and watches, as a lost connection would."""
        self._post(self.executors.drop_streams)
        self._post(self.turns.drop_streams)
        self._post(self.approvals.drop_streams)

    def hold_acks(self) -> None:
        """Acknowledges no result from now on."""
        self.executors.hold_acks = True

    def release_acks(self) -> None:
        """Acknowledges again, what was held back included."""
        self._post(self.executors.release_acks)

    def go_away(self, *, reason: str = "shutdown", min_ms: int = 0, max_ms: int = 100, drain_ms: int = 10_000) -> None:
        """Announces the end of every executor stream."""
        message = st.GoAway(
            reason=f"GO_AWAY_REASON_{reason.upper()}",
            drain_ms=drain_ms,
            reconnect_min_ms=min_ms,
            reconnect_max_ms=max_ms,
        )
        self.send_raw(ex.ConnectResponse(go_away=message))

    def send_raw(self, message: Any) -> None:
        """Sends any message of the contract to every executor."""

        def send() -> None:
            for instance in self.executors.instances.values():
                self.executors.send(instance, message)

        self._post(send)

    def _post(self, action: Any, *args: Any) -> None:
        assert self._wire is not None
        self._wire.loop.call_soon_threadsafe(action, *args)

    def _submit(self, work: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        assert self._wire is not None
        return self._wire.submit(work)

    async def _on_wire(self, work: Coroutine[Any, Any, T]) -> T:
        assert self._wire is not None
        return await self._wire.run(work)


class _Registry(rg_rpc.RegistryServiceServicer):
    def __init__(self, executors: FakeExecutors) -> None:
        self._executors = executors

    async def ListTools(self, request: rg.ListToolsRequest, context: Any) -> rg.ListToolsResponse:  # noqa: N802
        definitions = [
            (definition, instance)
            for instance in self._executors.instances.values()
            for definition in instance.tools.values()
        ]
        definitions.sort(key=lambda pair: pair[0].name)
        snapshot = str(uuid.uuid4())
        if request.format == pr.PROVIDER_FORMAT_OPENAI_CHAT:
            export = [
                {
                    "type": "function",
                    "function": {
                        "name": definition.name,
                        "description": definition.description,
                        "parameters": convert.parsed(definition.parameters_json),
                    },
                }
                for definition, _ in definitions
            ]
            return rg.ListToolsResponse(
                tool_export=pr.ToolExport(format=request.format, tools_json=to_json(export).encode()),
                tool_snapshot_id=snapshot,
            )
        tools = [
            rg.Tool(
                definition=definition,
                tool_digest=digest(definition),
                generation=1,
                owner=instance.name,
                state=rg.TOOL_STATE_ACTIVE,
                instances=1,
            )
            for definition, instance in definitions
        ]
        return rg.ListToolsResponse(tools=tools, tool_snapshot_id=snapshot)


class _Server(sv_rpc.ServerServiceServicer):
    async def GetServerInfo(self, request: Any, context: Any) -> sv.GetServerInfoResponse:  # noqa: N802
        return sv.GetServerInfoResponse(
            version="0.0.0-fake",
            process_id="fake",
            state=sv.SERVER_STATE_SERVING,
            store="memory",
            dialects=[ty.SCHEMA_DIALECT_CORE, ty.SCHEMA_DIALECT_JSON_SCHEMA_2020_12],
            formats=[pr.PROVIDER_FORMAT_OPENAI_CHAT],
            limits=[sv.Limit(name="calls_max", value=128, unit="count")],
            caller_roles=[ty.ROLE_ORCHESTRATOR, ty.ROLE_EXECUTOR],
        )


def _health() -> grpc.GenericRpcHandler:
    async def check(request: bytes, context: Any) -> bytes:
        return b"\x08\x01"

    return grpc.method_handlers_generic_handler(
        "grpc.health.v1.Health", {"Check": grpc.unary_unary_rpc_method_handler(check)}
    )


def _arguments(arguments: Mapping[str, Any] | str | bytes | None) -> bytes:
    if isinstance(arguments, bytes):
        return arguments
    if isinstance(arguments, str):
        return arguments.encode("utf-8", "surrogatepass")
    return to_json(dict(arguments or {})).encode()
