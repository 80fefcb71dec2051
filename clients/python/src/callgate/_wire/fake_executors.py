"""The executor half of the fake sidecar: streams, dispatch, cancel, resume."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import grpc

from .._gen.callgate.v1 import errors_pb2 as er
from .._gen.callgate.v1 import executor_service_pb2 as ex
from .._gen.callgate.v1 import executor_service_pb2_grpc as ex_rpc
from .._gen.callgate.v1 import stream_pb2 as st
from .._gen.callgate.v1 import types_pb2 as ty
from .channel import EOF

# The sidecar's `tools_per_message_max` where its limits name none.
DEFAULT_TOOLS_MAX = 1_000
Condition = Callable[[], bool]


@dataclass(eq=False)
class FakeExecution:
    """One dispatched call, with everything that the executor said about it."""

    request: ex.ExecuteRequest
    instance: FakeInstance
    accepted: list[bool] = field(default_factory=list)
    progress: list[tuple[str, float | None]] = field(default_factory=list)
    output: list[ex.OutputChunk] = field(default_factory=list)
    cancel_acks: int = 0
    rejected: ex.ExecuteRejected | None = None
    abandoned: bool = False
    results: list[ex.ExecuteResult] = field(default_factory=list)
    acknowledged: bool = False

    @property
    def execution_id(self) -> str:
        """Names the execution."""
        return self.request.execution.execution_id

    @property
    def done(self) -> bool:
        """Whether it has ended, one way or another."""
        return bool(self.results) or self.rejected is not None or self.abandoned


@dataclass(eq=False)
class FakeInstance:
    """One executor process."""

    instance_id: str
    name: str
    tools: dict[str, ty.ToolDefinition] = field(default_factory=dict)
    stream: FakeStream | None = None
    hellos: list[ex.Hello] = field(default_factory=list)
    updates: int = 0
    drained: list[ex.DrainRequest] = field(default_factory=list)
    executions: dict[str, FakeExecution] = field(default_factory=dict)


@dataclass(eq=False)
class FakeStream:
    """One stream of an executor."""

    context: Any
    outbox: asyncio.Queue[ex.ConnectResponse | None] = field(default_factory=asyncio.Queue)
    dropped: asyncio.Event = field(default_factory=asyncio.Event)
    pongs: int = 0
    words: list[ex.PermissionCheckResult] = field(default_factory=list)
    facts: list[ex.ResolveFactsResult] = field(default_factory=list)
    received: list[str] = field(default_factory=list)


def digest(definition: ty.ToolDefinition) -> bytes:
    """Something that changes with the definition."""
    return hashlib.sha256(definition.SerializeToString(deterministic=True)).digest()


class FakeExecutors(ex_rpc.ExecutorServiceServicer):
    """Speaks ExecutorService. Confined to the wire's loop."""

    def __init__(self) -> None:
        self.instances: dict[str, FakeInstance] = {}
        self.hold_acks = False
        self.answer_drain = True
        self.answer_pings = True
        self.refuse: dict[str, str] = {}
        self.abort_hello: tuple[grpc.StatusCode, str] | None = None
        self.limits = st.StreamLimits()
        self.timing = st.StreamTiming(ping_interval_ms=5_000, ping_misses=3)
        self.decide: Callable[[ex.InFlightExecution], int] | None = None
        self._changed = asyncio.Event()

    @property
    def tools_max(self) -> int:
        """How many tools one message may hold."""
        return self.limits.max_tools_per_message or DEFAULT_TOOLS_MAX

    async def until(self, condition: Condition, timeout: float) -> None:
        """Returns when something is so; looks again after everything that happens."""

        async def watch() -> None:
            while not condition():
                self._changed.clear()
                await self._changed.wait()

        await asyncio.wait_for(watch(), timeout)

    def notify(self) -> None:
        """Something has happened."""
        self._changed.set()

    def owner_of(self, tool: str) -> FakeInstance | None:
        """A connected instance that has the tool."""
        for instance in self.instances.values():
            if tool in instance.tools and instance.stream is not None:
                return instance
        return None

    def dispatch(
        self,
        instance: FakeInstance,
        tool: str,
        arguments_json: bytes,
        *,
        call_id: str,
        context: ty.CallContext,
        timeout_ms: int,
        output_credit: int,
        attempt: int = 1,
        execution_id: str | None = None,
    ) -> FakeExecution:
        """Sends one call."""
        request = ex.ExecuteRequest(
            execution=ex.ExecutionRef(execution_id=execution_id or str(uuid.uuid4()), attempt=attempt),
            tool_name=tool,
            tool_digest=digest(instance.tools[tool]) if tool in instance.tools else b"",
            call_id=call_id,
            arguments_json=arguments_json,
            arguments_digest=hashlib.sha256(arguments_json).digest(),
            context=context,
            deadline_at_ms=int(time.time() * 1000) + timeout_ms,
            timeout_ms=timeout_ms,
            output_credit_bytes=output_credit,
        )
        execution = FakeExecution(request, instance)
        instance.executions[execution.execution_id] = execution
        self.send(instance, ex.ConnectResponse(execute=request))
        return execution

    def send(self, instance: FakeInstance, message: ex.ConnectResponse) -> None:
        """Sends anything; nothing happens without a stream."""
        if instance.stream is not None:
            instance.stream.outbox.put_nowait(message)

    def cancel(self, execution: FakeExecution, reason: int, message: str, grace_ms: int) -> None:
        """Tells an execution to stop."""
        self.send(
            execution.instance,
            ex.ConnectResponse(
                cancel=ex.CancelExecution(
                    execution=execution.request.execution,
                    reason=reason,  # type: ignore[arg-type]
                    message=message,
                    grace_ms=grace_ms,
                )
            ),
        )

    def drop_streams(self) -> None:
        """Breaks every stream, as a lost connection would."""
        for instance in self.instances.values():
            if instance.stream is not None:
                instance.stream.dropped.set()

    def release_acks(self) -> None:
        """Acknowledges everything that was held back."""
        self.hold_acks = False
        for instance in self.instances.values():
            for execution in instance.executions.values():
                if execution.results and not execution.acknowledged:
                    self._acknowledge(execution)

    async def Connect(self, request_iterator: Any, context: Any) -> None:  # noqa: N802 - the rpc's name
        """One stream."""
        await context.send_initial_metadata(())
        first = await context.read()
        if first is EOF or first.WhichOneof("body") != "hello":
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "the first message is not the hello")
        if self.abort_hello is not None:
            await context.abort(*self.abort_hello)
        if (count := len(first.hello.tools)) > self.tools_max:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "too many", details(_too_many(self.tools_max, count)))
        stream = FakeStream(context)
        instance = self._hello(first.hello, stream)
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._write(stream)),
            asyncio.ensure_future(self._read(instance, stream)),
            asyncio.ensure_future(stream.dropped.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if instance.stream is stream:
                instance.stream = None
            self.notify()
        if stream.dropped.is_set():
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the stream was dropped")

    def _hello(self, hello: ex.Hello, stream: FakeStream) -> FakeInstance:
        instance_id = hello.instance_id or str(uuid.uuid4())
        instance = self.instances.setdefault(instance_id, FakeInstance(instance_id, hello.executor_name))
        instance.hellos.append(hello)
        if instance.stream is not None:
            instance.stream.dropped.set()
        instance.stream = stream
        instance.tools.clear()
        registrations = [self._register(instance, definition) for definition in hello.tools]
        in_flight = hello.in_flight if hello.resume_token == f"resume-{instance_id}" else ()
        welcome = ex.Welcome(
            protocol=1,
            connection_id=str(uuid.uuid4()),
            instance_id=instance_id,
            resume_token=f"resume-{instance_id}",
            capabilities=[ex.EXECUTOR_CAPABILITY_RESUME, ex.EXECUTOR_CAPABILITY_OUTPUT],
            registrations=registrations,
            in_flight=[
                ex.InFlightDecision(execution=item.execution, action=self._decide(item))  # type: ignore[arg-type]
                for item in in_flight
            ],
            timing=self.timing,
            limits=self.limits,
        )
        stream.outbox.put_nowait(ex.ConnectResponse(welcome=welcome))
        self.notify()
        return instance

    def _decide(self, item: ex.InFlightExecution) -> int:
        if self.decide is not None:
            return self.decide(item)
        if item.state == ex.IN_FLIGHT_STATE_FINISHED:
            return ex.IN_FLIGHT_ACTION_SEND_RESULT
        return ex.IN_FLIGHT_ACTION_CONTINUE

    def _register(self, instance: FakeInstance, definition: ty.ToolDefinition) -> ty.ToolRegistration:
        name = definition.name
        code = self.refuse.get(name, "")
        if not name.strip():
            code = "tool_name_empty"
        elif name in instance.tools:
            code = "tool_name_duplicate"
        if code:
            return ty.ToolRegistration(
                name=name,
                state=ty.REGISTRATION_STATE_REFUSED,
                error=ty.ToolError(code=code, layer=ty.ERROR_LAYER_CONFIG, message_for_model=code),
            )
        instance.tools[name] = definition
        warnings = [] if definition.description else [ty.ToolWarning(code="description_empty")]
        return ty.ToolRegistration(
            name=name,
            state=ty.REGISTRATION_STATE_ACTIVE,
            tool_digest=digest(definition),
            generation=1,
            warnings=warnings,
        )

    async def _write(self, stream: FakeStream) -> None:
        while (message := await stream.outbox.get()) is not None:
            await stream.context.write(message)

    async def _read(self, instance: FakeInstance, stream: FakeStream) -> None:
        while (message := await stream.context.read()) is not EOF:
            self._take(instance, stream, message)
            self.notify()

    def _take(self, instance: FakeInstance, stream: FakeStream, message: ex.ConnectRequest) -> None:
        body = message.WhichOneof("body") or ""
        stream.received.append(body)
        if body == "ping":
            if self.answer_pings:
                self.send(instance, ex.ConnectResponse(pong=st.Pong(nonce=message.ping.nonce)))
        elif body == "pong":
            stream.pongs += 1
        elif body == "tool_update":
            if len(message.tool_update.upsert) + len(message.tool_update.remove) > self.tools_max:
                stream.dropped.set()
                return
            self._update(instance, message.tool_update)
        elif body == "permission_check_result":
            stream.words.append(message.permission_check_result)
        elif body == "resolve_facts_result":
            stream.facts.append(message.resolve_facts_result)
        elif body == "drain_request":
            instance.drained.append(message.drain_request)
            if self.answer_drain:
                self.send(instance, ex.ConnectResponse(drain_started=ex.DrainStarted()))
        elif body in {"accepted", "result", "progress", "output", "rejected", "abandoned", "cancel_ack"}:
            part = getattr(message, body)
            execution = instance.executions.get(part.execution.execution_id)
            if execution is not None:
                self._note(execution, body, part)

    def _note(self, execution: FakeExecution, body: str, part: Any) -> None:
        if body == "accepted":
            execution.accepted.append(part.queued)
        elif body == "progress":
            execution.progress.append((part.message, part.fraction if part.HasField("fraction") else None))
        elif body == "output":
            execution.output.append(part)
        elif body == "rejected":
            execution.rejected = part
        elif body == "abandoned":
            execution.abandoned = True
        elif body == "cancel_ack":
            execution.cancel_acks += 1
        else:
            execution.results.append(part)
            if not self.hold_acks:
                self._acknowledge(execution)

    def _acknowledge(self, execution: FakeExecution) -> None:
        first = not execution.acknowledged
        execution.acknowledged = True
        status = ex.RESULT_ACK_STATUS_RECORDED if first else ex.RESULT_ACK_STATUS_ALREADY_RECORDED
        ack = ex.ResultAck(execution=execution.request.execution, status=status)
        self.send(execution.instance, ex.ConnectResponse(result_ack=ack))

    def _update(self, instance: FakeInstance, update: ex.ToolUpdate) -> None:
        instance.updates += 1
        registrations: list[ty.ToolRegistration] = []
        for definition in update.upsert:
            instance.tools.pop(definition.name, None)
            registrations.append(self._register(instance, definition))
        for name in update.remove:
            instance.tools.pop(name, None)
            registrations.append(ty.ToolRegistration(name=name, state=ty.REGISTRATION_STATE_REMOVED))
        answer = ex.ToolUpdateResult(update_id=update.update_id, registrations=registrations)
        self.send(instance, ex.ConnectResponse(tool_update_result=answer))


def call_context(
    *,
    session_id: str,
    run_id: str = "run",
    turn_id: str = "turn",
    batch_call_id: str = "batch",
    metadata: Mapping[str, Any] | None = None,
    services: tuple[str, ...] = (),
    cwd: str = "",
) -> ty.CallContext:
    """What a handler may know about its call."""
    return ty.CallContext(
        session_id=session_id,
        run_id=run_id,
        turn_id=turn_id,
        batch_call_id=batch_call_id,
        state=ty.SessionState(
            schema_version=1, session_id=session_id, metadata_json=json.dumps(dict(metadata or {})).encode()
        ),
        services=services,
        cwd=cwd,
    )


def _too_many(allowed: int, actual: int) -> er.RpcError:
    return er.RpcError(
        status=3,
        message="too many",
        detail=er.ErrorDetail(
            reason=er.ERROR_REASON_LIMIT_EXCEEDED,
            code="limit_exceeded",
            limit=er.LimitViolation(name="tools_per_message_max", allowed=allowed, actual=actual),
        ),
    )


def details(error: er.RpcError) -> tuple[tuple[str, bytes], ...]:
    """A google.rpc.Status with the detail in it."""
    url = b"type.googleapis.com/callgate.v1.ErrorDetail"
    packed = _field(1, url) + _field(2, error.detail.SerializeToString())
    status = b"\x08" + bytes([error.status]) + _field(2, error.message.encode()) + _field(3, packed)
    return (("grpc-status-details-bin", status),)


def _field(number: int, value: bytes) -> bytes:
    length = len(value)
    size = b""
    while length >= 0x80:
        size += bytes([length & 0x7F | 0x80])
        length >>= 7
    return bytes([number << 3 | 2]) + size + bytes([length]) + value
