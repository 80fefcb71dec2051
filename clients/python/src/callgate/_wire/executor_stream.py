"""The stream of an executor: opened again and again until it is told to stop.

What must not be lost is not in the queue of a `Connection` but in the `Executor`: a
result is there until it is acknowledged, the tools are there for every hello.
So a new stream begins with an empty queue and loses nothing.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import grpc

from .. import errors
from .._gen.callgate.v1 import executor_service_pb2 as ex
from .._gen.callgate.v1 import executor_service_pb2_grpc as ex_rpc
from .._gen.callgate.v1 import stream_pb2 as st
from .._version import __version__
from ..backoff import Backoff, BackoffState
from ..context import OutputChannel
from ..executor import Dispatch, Execution, ExecutionState, Executor, RejectReason
from ..permission_check import PathFact, Permission
from ..questions import Questions
from ..registration import Registration, RegistrationState
from ..result import ErrorInfo, Sealed, Stopped, ToolResult, cut, too_large
from ..tool import Tool
from . import convert, convert_questions
from .channel import MESSAGE_BYTES_MAX, Dialer
from .connection import Connection, is_fatal, within
from .status import from_grpc

log = logging.getLogger("callgate")

DEFAULT_TOOLS_MAX = 1_000
TOOLS_BYTES_MAX = 3 * 1024 * 1024
DRAIN_ANSWER_SECONDS = 5.0
CANCEL_GRACE_SECONDS = 2.0
PROGRESS_MESSAGE_BYTES_MAX = 1_024
PROGRESS_DETAILS_BYTES_MAX = 16 * 1024
DEFAULT_RESULT_BYTES_MAX = 1024 * 1024
DEFAULT_METADATA_BYTES_MAX = 64 * 1024
DEFAULT_CHUNK_BYTES_MAX = 64 * 1024

_CAPABILITIES = (ex.EXECUTOR_CAPABILITY_RESUME, ex.EXECUTOR_CAPABILITY_OUTPUT)
_RESOLVES = (*_CAPABILITIES, ex.EXECUTOR_CAPABILITY_RESOLVE_FACTS)
_STATES = {
    ExecutionState.QUEUED: ex.IN_FLIGHT_STATE_QUEUED,
    ExecutionState.RUNNING: ex.IN_FLIGHT_STATE_RUNNING,
    ExecutionState.FINISHED: ex.IN_FLIGHT_STATE_FINISHED,
}


class StreamState(Enum):
    """Where the stream of an executor stands."""

    IDLE = "idle"
    CONNECTING = "connecting"
    READY = "ready"
    RECONNECTING = "reconnecting"
    DRAINING = "draining"
    CLOSED = "closed"


@dataclass(slots=True)
class _Connection(Connection):
    """What belongs to one stream of an executor and ends with it. `work` says which execution prints."""

    welcomed: bool = False
    drain_started: asyncio.Event = field(default_factory=asyncio.Event)
    noted_unknown: bool = False
    # What the hello of this stream has said; the client may have changed it since.
    tools: list[list[Tool]] = field(default_factory=list)
    updates: frozenset[str] = frozenset()
    sent_updates: set[str] = field(default_factory=set)
    # Pieces of the hello that are not answered yet, and the answers to the others.
    rest: set[str] = field(default_factory=set)
    answers: list[Registration] = field(default_factory=list)


@dataclass(slots=True)
class _Update:
    """A change of tools that the sidecar has not answered yet."""

    upsert: tuple[Tool, ...]
    remove: tuple[str, ...]
    answer: asyncio.Future[tuple[Registration, ...]]


class ExecutorStream:
    """Keeps one executor connected. Confined to the wire's loop; implements `executor.Link`."""

    def __init__(
        self,
        dialer: Dialer,
        executor: Executor,
        *,
        executor_name: str,
        instance_id: str | None = None,
        backoff: Backoff | None = None,
        resolve_facts: bool = True,
        on_state: Callable[[StreamState], None] = lambda state: None,
        on_registrations: Callable[[tuple[Registration, ...]], None] = lambda answers: None,
    ) -> None:
        self._dialer = dialer
        self._executor = executor
        self._name = executor_name
        self._instance_id = instance_id or str(uuid.uuid4())
        self._on_state = on_state
        self._on_registrations = on_registrations
        self._backoff = BackoffState(backoff or Backoff())
        self._questions = Questions(executor)
        self._capabilities = _RESOLVES if resolve_facts else _CAPABILITIES
        self._tools: list[Tool] = []
        self._updates: dict[str, _Update] = {}
        self._resume_token = ""
        self._connection: _Connection | None = None
        self._closing = False
        self._was_ready = False
        self._result_max = DEFAULT_RESULT_BYTES_MAX
        self._metadata_max = DEFAULT_METADATA_BYTES_MAX
        self._tools_max = DEFAULT_TOOLS_MAX
        self._drain_request: ex.ConnectRequest | None = None
        self._wakeup = asyncio.Event()
        self.state = StreamState.IDLE
        self.ready = asyncio.Event()
        executor.link = self

    # Asked by the client.

    def set_tools(self, tools: Sequence[Tool]) -> None:
        """The tools of the first hello."""
        self._tools = list(tools)

    async def update(self, upsert: Sequence[Tool], remove: Sequence[str]) -> tuple[Registration, ...]:
        """Changes the tools; returns when the sidecar has answered, after a reconnect if need be."""
        changed = {tool.name for tool in upsert} | set(remove)
        self._tools = [tool for tool in self._tools if tool.name not in changed] + list(upsert)
        if self.state is StreamState.CLOSED:
            raise errors.ClientClosed("the client is closed")
        pieces = [self._begin_update(*piece) for piece in update_pieces(upsert, remove, self._tools_max)]
        answers = [answer for piece in pieces for answer in await piece.answer]
        if len(pieces) > 1:
            # Each piece has told only its own.
            self._on_registrations(tuple(answers))
        return tuple(answers)

    def _begin_update(self, upsert: Sequence[Tool], remove: Sequence[str]) -> _Update:
        update = _Update(tuple(upsert), tuple(remove), asyncio.get_running_loop().create_future())
        update_id = str(uuid.uuid4())
        self._updates[update_id] = update
        connection = self._connection
        if connection is not None and connection.welcomed:
            self._send_update(connection, update_id, upsert, remove)
        return update

    def resize(self, max_concurrency: int) -> None:
        """Takes more or fewer executions at once from now on."""
        self._executor.resize(max_concurrency)
        if self._connection is not None and self._connection.welcomed:
            self._connection.say(
                ex.ConnectRequest(capacity_update=ex.CapacityUpdate(max_concurrent_executions=max_concurrency))
            )

    async def drain(self, seconds: float, reason: str) -> None:
        """Takes nothing new, finishes what runs, gives back what has not begun, and ends.

        What still runs after `seconds` is told to stop.
        """
        if self._closing:
            return
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        self._executor.draining = True
        self._drain_request = ex.ConnectRequest(
            drain_request=ex.DrainRequest(reason=reason, drain_ms=convert.milliseconds(seconds))
        )
        self._set_state(StreamState.DRAINING)
        connection = self._connection
        if connection is not None and connection.welcomed and not connection.half_closed:
            connection.say(self._drain_request)
            # A sidecar that never answers must not hold up the end.
            await within(connection.drain_started.wait(), min(seconds, DRAIN_ANSWER_SECONDS))
        self._executor.abandon_waiting("the executor shuts down")
        if not await within(self._executor.wait_idle(), end - loop.time()):
            self._executor.stop_all("shutdown", reason)
            await within(self._executor.wait_idle(), CANCEL_GRACE_SECONDS)
        self.close()

    def close(self) -> None:
        """Ends the stream and does not come back."""
        self._closing = True
        self._wakeup.set()
        connection = self._connection
        if connection is not None:
            connection.half_close()

    # The life of the stream.

    async def run(self) -> None:
        """Connects again and again. Returns after `close`.

        Raises:
            CallgateError: Another try cannot help.
        """
        self._set_state(StreamState.CONNECTING)
        try:
            while not self._closing:
                wait = await self._attempt()
                if self._closing:
                    return
                self._set_state(StreamState.RECONNECTING if self._was_ready else StreamState.CONNECTING)
                await within(self._wakeup.wait(), wait)
        finally:
            self._fail_updates()
            self._set_state(StreamState.CLOSED)

    async def _attempt(self) -> float:
        """One connection, from dialling to its end. Returns how long to wait before the next."""
        connection: _Connection | None = None
        try:
            async with self._dialer.open() as channel:
                stub: Any = ex_rpc.ExecutorServiceStub(channel)
                connection = _Connection(stub.Connect(metadata=self._dialer.metadata()))
                self._connection = connection
                await self._serve(connection)
        except (grpc.RpcError, asyncio.InvalidStateError, errors.CallgateError) as error:
            failure = error if isinstance(error, errors.CallgateError) else from_grpc(error)
            if self._learns_tools_max(failure):
                return 0.0
            if not self._closing and is_fatal(failure, opened=connection is not None, was_ready=self._was_ready):
                raise failure from error
            if not self._closing:
                log.info("the executor stream ended: %s", failure)
        except Exception:
            # A fault of this package must not leave the tools deaf for good.
            log.exception("the executor stream failed")
        finally:
            self._connection = None
            self.ready.clear()
            if connection is not None:
                # The next hello has pieces of its own.
                for update_id in connection.rest:
                    self._updates.pop(update_id, None)
                self._count_lost_output(connection)
        wait = self._backoff.lost()
        return wait if connection is None or self._closing else connection.wait_before_next(wait)

    def _learns_tools_max(self, failure: errors.CallgateError) -> bool:
        """Whether a hello was refused only because its size had to be guessed: nobody tells before the welcome."""
        limit = failure.limit
        if limit is None or limit.name != "tools_per_message_max" or not 0 < limit.allowed < self._tools_max:
            return False
        self._tools_max = limit.allowed
        return True

    async def _serve(self, connection: _Connection) -> None:
        listed = self._executor.in_flight()
        connection.tools = batches(self._tools, self._tools_max)
        connection.updates = frozenset(self._updates)
        welcome = await connection.greet(ex.ConnectRequest(hello=self._hello(connection, listed)))
        await connection.serve(
            lambda message: self._take(connection, message),
            lambda ping: ex.ConnectRequest(ping=ping),
            convert.timing_of(welcome.timing),
            lambda: self._take_welcome(connection, welcome),
        )

    def _hello(self, connection: _Connection, listed: Sequence[Execution]) -> ex.Hello:
        return ex.Hello(
            executor_name=self._name,
            instance_id=self._instance_id,
            tools=[convert.definition(tool) for tool in connection.tools[0]],
            # Zero would mean the default here, so that is said after the welcome.
            max_concurrent_executions=max(1, self._executor.max_concurrency),
            capabilities=self._capabilities,
            in_flight=[ex.InFlightExecution(execution=item.dispatch.ref, state=_STATES[item.state]) for item in listed],
            resume_token=self._resume_token,
            max_message_bytes=MESSAGE_BYTES_MAX,
            sdk=st.Sdk(
                name="callgate-python",
                version=__version__,
                language="python",
                language_version=platform.python_version(),
            ),
        )

    def _take_welcome(self, connection: _Connection, welcome: ex.Welcome) -> None:
        self._resume_token = welcome.resume_token
        self._instance_id = welcome.instance_id or self._instance_id
        limits = welcome.limits
        self._result_max = limits.max_result_bytes or DEFAULT_RESULT_BYTES_MAX
        self._metadata_max = limits.max_metadata_bytes or DEFAULT_METADATA_BYTES_MAX
        self._executor.chunk_max = limits.max_output_chunk_bytes or DEFAULT_CHUNK_BYTES_MAX
        self._tools_max = limits.max_tools_per_message or DEFAULT_TOOLS_MAX
        connection.welcomed = True
        self._was_ready = True
        self._backoff.ready()
        sent, *rest = connection.tools
        answers = [convert.registration(item) for item in welcome.registrations]
        self._executor.keep_only(
            [answer.name for answer in answers if answer.active] + [tool.name for batch in rest for tool in batch]
        )
        for tool, answer in zip(sent, answers, strict=False):
            self._apply(tool, answer)
        connection.answers = answers
        self._on_registrations(tuple(answers))
        for batch in rest:
            self._send_rest(connection, batch)
        self._answer_updates_from_hello(connection)
        for update_id, update in self._updates.items():
            if update_id not in connection.sent_updates and update_id not in connection.updates:
                self._send_update(connection, update_id, update.upsert, update.remove)
        self._obey(welcome.in_flight)
        # Finished while there was no stream, or asked for: once each, in the order of finishing.
        for execution in self._executor.unacknowledged():
            self.result(execution)
        if self._executor.max_concurrency == 0:
            connection.say(ex.ConnectRequest(capacity_update=ex.CapacityUpdate()))
        if self._drain_request is not None:
            connection.say(self._drain_request)
        self._set_state(StreamState.READY)
        if not connection.rest:
            self.ready.set()

    def _obey(self, decisions: Sequence[ex.InFlightDecision]) -> None:
        for decision in decisions:
            key = convert.key(decision.execution)
            if decision.action == ex.IN_FLIGHT_ACTION_FORGET:
                self._executor.forget(key)
            elif decision.action == ex.IN_FLIGHT_ACTION_CANCEL:
                self._executor.cancel(key, decision.execution, "call_cancelled", "cancelled while disconnected")
            # CONTINUE and SEND_RESULT, and whatever is newer: every held result is sent anyway.

    # What the sidecar says.

    def _take(self, connection: _Connection, message: ex.ConnectResponse) -> None:
        body = message.WhichOneof("body")
        if body == "execute":
            self._executor.execute(convert.dispatch(message.execute, time.time() * 1000))
        elif body == "result_ack":
            self._executor.acknowledge(convert.key(message.result_ack.execution))
            self._end_if_done(connection)
        elif body == "cancel":
            cancel = message.cancel
            reason = convert.enum_name(ex.CancelReason, cancel.reason, "CANCEL_REASON_", "turn_cancelled")
            self._executor.cancel(
                convert.key(cancel.execution),
                cancel.execution,
                reason or "turn_cancelled",
                cancel.message,
                cancel.grace_ms / 1000,
            )
        elif body == "output_credit":
            credit = message.output_credit
            self._executor.credit(convert.key(credit.execution), credit.added_bytes, stop=credit.stop)
        elif body == "permission_check":
            self._take_check(connection, message.permission_check)
        elif body == "resolve_facts":
            self._take_resolve(connection, message.resolve_facts)
        elif body == "ping":
            connection.say(ex.ConnectRequest(pong=st.Pong(nonce=message.ping.nonce)))
        elif body == "pong":
            connection.unanswered = 0
        elif body == "tool_update_result":
            self._take_update_result(connection, message.tool_update_result)
        elif body == "drain_started":
            connection.drain_started.set()
        elif body == "go_away":
            self._take_go_away(connection, message.go_away)
        elif body == "notice":
            self._take_notice(message.notice)
        elif not connection.noted_unknown:
            connection.noted_unknown = True
            log.info("the sidecar sent a message that this version does not know; ignored")

    def _take_check(self, connection: _Connection, request: ex.PermissionCheckRequest) -> None:
        def answer(said: Permission) -> None:
            # A question of a stream that has ended is nobody's.
            if self._connection is connection:
                connection.say(convert_questions.check_result(request.check_id, said))

        self._questions.check(convert_questions.check_question(request), answer)

    def _take_resolve(self, connection: _Connection, request: ex.ResolveFactsRequest) -> None:
        def answer(facts: Sequence[PathFact]) -> None:
            if self._connection is connection:
                connection.say(convert_questions.path_facts(request.request_id, facts))

        self._questions.resolve(convert_questions.path_question(request), answer)

    def _take_notice(self, notice: st.Notice) -> None:
        log.warning("the sidecar ignored a message: %s %s", notice.code, notice.message)
        if notice.code in {"execution_unknown", "execution_not_yours"}:
            # A handler that reports on would use up the sidecar's patience with this stream.
            self._executor.mute(notice.about)

    def _take_go_away(self, connection: _Connection, go_away: st.GoAway) -> None:
        connection.take_go_away(go_away, lambda: self._end_if_done(connection))
        if connection.is_superseded():
            self._executor.stop_all("shutdown", "another process took over")

    def _end_if_done(self, connection: _Connection) -> None:
        """After a go-away the stream ends as soon as nothing is left to finish on it."""
        if connection.go_away is not None and not self._executor.in_flight():
            connection.half_close()

    # What the executor says.

    def accepted(self, execution: Execution, *, queued: bool) -> None:
        """See `executor.Link`."""
        self._control(ex.ConnectRequest(accepted=ex.ExecuteAccepted(execution=execution.dispatch.ref, queued=queued)))

    def rejected(self, dispatch: Dispatch, reason: RejectReason, message: str) -> None:
        """See `executor.Link`."""
        self._control(
            ex.ConnectRequest(
                rejected=ex.ExecuteRejected(execution=dispatch.ref, reason=convert.REJECTIONS[reason], message=message)
            )
        )

    def abandoned(self, execution: Execution, message: str) -> None:
        """See `executor.Link`."""
        self._control(
            ex.ConnectRequest(abandoned=ex.ExecuteAbandoned(execution=execution.dispatch.ref, message=message))
        )

    def cancel_ack(self, ref: Any, *, unknown: bool) -> None:
        """See `executor.Link`."""
        self._control(ex.ConnectRequest(cancel_ack=ex.CancelAck(execution=ref, unknown_execution=unknown)))

    def progress(self, execution: Execution, message: str, fraction: float | None, details: bytes) -> None:
        """See `executor.Link`."""
        if len(details) > min(PROGRESS_DETAILS_BYTES_MAX, self._metadata_max):
            details = b""
        report = ex.ExecutionProgress(
            execution=execution.dispatch.ref,
            message=cut(message, PROGRESS_MESSAGE_BYTES_MAX),
            details_json=details,
        )
        if fraction is not None:
            report.fraction = fraction
        self._work(ex.ConnectRequest(progress=report))

    def output(self, execution: Execution, channel: OutputChannel, sequence: int, data: bytes, dropped: int) -> None:
        """See `executor.Link`."""
        chunk = ex.OutputChunk(
            execution=execution.dispatch.ref,
            channel=convert.CHANNELS[channel],
            chunk_sequence=sequence,
            data=data,
            dropped_bytes=dropped,
        )
        if not self._work(ex.ConnectRequest(output=chunk), execution):
            execution.note_lost_output(len(data) + dropped)

    def result(self, execution: Execution) -> None:
        """See `executor.Link`. Sent once per stream; without one it waits for the next welcome."""
        connection = self._connection
        if connection is None or not connection.welcomed or execution.sent_on is connection:
            return
        execution.sent_on = connection
        # In order behind the execution's own output.
        connection.say_work(ex.ConnectRequest(result=self._result_message(execution)))

    def _result_message(self, execution: Execution) -> ex.ExecuteResult:
        message = ex.ExecuteResult(execution=execution.dispatch.ref)
        outcome = execution.outcome
        if isinstance(outcome, Stopped):
            message.cancelled.CopyFrom(
                ex.ExecutionCancelled(effect=convert.EFFECTS[outcome.effect], message=outcome.message)
            )
            return message
        sealed = outcome or Sealed(ToolResult(is_error=True, error=ErrorInfo("tool_execution_failed")))
        if sealed.size > self._result_max:
            log.warning("a result of `%s` is too large: %d bytes", execution.tool.name, sealed.size)
            sealed = too_large(sealed.size, self._result_max, stop=sealed.result.stop_flag)
        encoded = convert.tool_result(sealed)
        if len(encoded.metadata_json) > self._metadata_max:
            log.warning("the metadata of a result of `%s` is too large and was left out", execution.tool.name)
            encoded.ClearField("metadata_json")
        message.result.CopyFrom(encoded)
        return message

    def _control(self, message: ex.ConnectRequest) -> None:
        connection = self._connection
        if connection is not None and connection.welcomed:
            connection.say(message)

    def _work(self, message: ex.ConnectRequest, execution: Execution | None = None) -> bool:
        connection = self._connection
        if connection is None or not connection.welcomed:
            return False
        connection.say_work(message, execution)
        return True

    # Tools.

    def _send_rest(self, connection: _Connection, tools: Sequence[Tool]) -> None:
        update_id = str(uuid.uuid4())
        answer: asyncio.Future[tuple[Registration, ...]] = asyncio.get_running_loop().create_future()
        self._updates[update_id] = _Update(tuple(tools), (), answer)
        connection.rest.add(update_id)
        self._send_update(connection, update_id, tools, ())

    def _send_update(
        self, connection: _Connection, update_id: str, upsert: Sequence[Tool], remove: Sequence[str]
    ) -> None:
        connection.sent_updates.add(update_id)
        connection.say_work(
            ex.ConnectRequest(
                tool_update=ex.ToolUpdate(
                    update_id=update_id, upsert=[convert.definition(tool) for tool in upsert], remove=remove
                )
            )
        )

    def _take_update_result(self, connection: _Connection, message: ex.ToolUpdateResult) -> None:
        update = self._updates.pop(message.update_id, None)
        answers = tuple(convert.registration(item) for item in message.registrations)
        if update is None:
            return
        for tool, answer in zip(update.upsert, answers, strict=False):
            self._apply(tool, answer)
        for name in update.remove:
            self._executor.deactivate(name)
        if message.update_id in connection.rest:
            connection.rest.discard(message.update_id)
            connection.answers.extend(answers)
            self._on_registrations(tuple(connection.answers))
            self._answer_updates_from_hello(connection)
            if not connection.rest:
                self.ready.set()
        else:
            self._on_registrations(answers)
        _settle(update.answer, answers)

    def _answer_updates_from_hello(self, connection: _Connection) -> None:
        """Updates that were lost with an earlier stream: the hello has said the same.

        One whose tools are in a later piece of the hello waits for the answer to that piece. It is not sent
        again: it may have been cut for another limit than the one that holds now.
        """
        by_name = {answer.name: answer for answer in connection.answers}
        for update_id in connection.updates & self._updates.keys():
            update = self._updates[update_id]
            if connection.rest and any(tool.name not in by_name for tool in update.upsert):
                continue
            del self._updates[update_id]
            # A tool that is not in the hello was taken back by a later update.
            names = [*(tool.name for tool in update.upsert), *update.remove]
            gone = {name: Registration(name, RegistrationState.REMOVED) for name in names}
            removed = [gone[name] for name in update.remove]
            _settle(update.answer, (*(by_name.get(tool.name, gone[tool.name]) for tool in update.upsert), *removed))

    def _fail_updates(self) -> None:
        for update in self._updates.values():
            if not update.answer.done():
                update.answer.set_exception(errors.ConnectionLost("the client was closed before the sidecar answered"))
                # Seen here, so that an update nobody awaits makes no noise.
                update.answer.exception()
        self._updates.clear()

    def _apply(self, tool: Tool, answer: Registration) -> None:
        if answer.active:
            self._executor.activate(tool, answer.digest)
            for warning in answer.warnings:
                log.warning("tool `%s`: %s %s", answer.name, warning.code, warning.message)
        else:
            error = answer.error or ErrorInfo("unknown")
            log.error("the sidecar refused tool `%s`: %s %s %s", answer.name, error.code, error.path, error.message)

    # Inside.

    def _count_lost_output(self, connection: _Connection) -> None:
        for message, execution in connection.work:
            if execution is not None:
                execution.note_lost_output(len(message.output.data) + message.output.dropped_bytes)

    def _set_state(self, state: StreamState) -> None:
        # A drain only ends in CLOSED.
        if self.state is state or (self.state is StreamState.DRAINING and state is not StreamState.CLOSED):
            return
        self.state = state
        self._on_state(state)


def batches(tools: Sequence[Tool], count_max: int) -> list[list[Tool]]:
    """The tools in pieces that one message takes each; at least one piece."""
    pieces: list[list[Tool]] = [[]]
    size = 0
    for tool in tools:
        own = len(tool.schema_json) + len(tool.description) + len(tool.annotations_json) + 1_024
        if pieces[-1] and (len(pieces[-1]) == count_max or size + own > TOOLS_BYTES_MAX):
            pieces.append([])
            size = 0
        pieces[-1].append(tool)
        size += own
    return pieces


def update_pieces(
    upsert: Sequence[Tool], remove: Sequence[str], count_max: int
) -> list[tuple[Sequence[Tool], Sequence[str]]]:
    """A change of tools in pieces that one message takes each: tools first, at least one piece."""
    tools = batches(upsert, count_max)
    if len(tools) == 1 and len(tools[0]) + len(remove) <= count_max:
        return [(tools[0], remove)]
    names = [remove[start : start + count_max] for start in range(0, len(remove), count_max)]
    return [*((piece, ()) for piece in tools if piece), *(((), piece) for piece in names)]


def _settle(answer: asyncio.Future[tuple[Registration, ...]], value: tuple[Registration, ...]) -> None:
    if not answer.done():
        answer.set_result(value)
