"""The orchestrator half of the fake sidecar: turns over rpcs and over one stream."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

import grpc

from .._gen.callgate.v1 import approval_service_pb2 as av
from .._gen.callgate.v1 import errors_pb2 as er
from .._gen.callgate.v1 import executor_service_pb2 as ex
from .._gen.callgate.v1 import provider_pb2 as pr
from .._gen.callgate.v1 import stream_pb2 as st
from .._gen.callgate.v1 import turn_service_pb2 as tu
from .._gen.callgate.v1 import turn_service_pb2_grpc as tu_rpc
from .._gen.callgate.v1 import types_pb2 as ty
from .channel import EOF
from .fake_approvals import FakeApproval, FakeApprovals
from .fake_executors import FakeExecution, FakeExecutors, call_context, details

OUTPUT_CREDIT = 64 * 1024


@dataclass(eq=False)
class FakeTurn:
    """One turn, its events, and those who read them."""

    request: tu.RunTurnRequest
    calls: list[ty.ToolCall]
    epoch: int = 1
    events: list[tu.TurnEvent] = field(default_factory=list)
    readers: list[asyncio.Queue[tu.TurnEvent]] = field(default_factory=list)
    executions: dict[str, FakeExecution] = field(default_factory=dict)
    results: dict[str, ty.CallResult] = field(default_factory=dict)
    states: dict[str, int] = field(default_factory=dict)
    approvals: dict[str, FakeApproval] = field(default_factory=dict)
    cancelled: str | None = None
    cancelled_calls: set[str] = field(default_factory=set)
    completed: tu.TurnCompleted | None = None
    task: asyncio.Task[None] | None = None

    def say(self, *, kept: bool = True, **body: Any) -> None:
        """Tells every reader."""
        event = tu.TurnEvent(occurred_at_ms=int(time.time() * 1000), **body)
        if kept:
            event.sequence = len(self.events) + 1
            self.events.append(event)
        for reader in self.readers:
            reader.put_nowait(event)

    @property
    def suspended(self) -> bool:
        """Whether only people are awaited."""
        return bool(self.events) and self.events[-1].WhichOneof("body") == "turn_suspended"

    def message(self, events: list[tu.TurnEvent]) -> tu.TurnEvents:
        """Events on their way."""
        return tu.TurnEvents(turn_id=self.request.turn_id, epoch=self.epoch, events=events)


class FakeTurns(tu_rpc.TurnServiceServicer):
    """Speaks TurnService. Confined to the wire's loop. Checks no schema and decides nothing."""

    def __init__(self, executors: FakeExecutors, approvals: FakeApprovals) -> None:
        self.turns: dict[str, FakeTurn] = {}
        self.runs_seen: list[str] = []
        self.attaches: list[tu.AttachTurnRequest] = []
        self.cancels: list[tu.CancelTurnRequest] = []
        self.refuse: er.RpcError | None = None
        self.forget_turns = False
        self.streams_opened = 0
        self._executors = executors
        self._approvals = approvals
        self._streams: list[asyncio.Event] = []
        self._go_aways: list[asyncio.Queue[tu.StreamTurnsResponse]] = []
        self._cancelled_early: set[str] = set()

    def drop_streams(self) -> None:
        """Breaks every stream of turns."""
        for dropped in self._streams:
            dropped.set()

    def go_away(self, min_ms: int, max_ms: int) -> None:
        """Asks every shared stream to move."""
        message = st.GoAway(
            reason=st.GO_AWAY_REASON_SHUTDOWN, reconnect_min_ms=min_ms, reconnect_max_ms=max_ms, drain_ms=10_000
        )
        for outbox in self._go_aways:
            outbox.put_nowait(tu.StreamTurnsResponse(go_away=message))

    # The rpcs.

    async def RunTurn(self, request: tu.RunTurnRequest, context: Any) -> None:  # noqa: N802
        """A turn on a stream of its own."""
        if self.refuse is not None:
            await context.abort(_status(self.refuse.status), self.refuse.message, details(self.refuse))
        await self._stream(self._begin(request), 0, request.on_suspend, tu.RunTurnResponse, context)

    async def AttachTurn(self, request: tu.AttachTurnRequest, context: Any) -> None:  # noqa: N802
        """The rest of a turn."""
        self.attaches.append(request)
        self._executors.notify()
        turn = self.turns.get(request.turn_id)
        if turn is None or self.forget_turns:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such turn", details(_not_found(request.turn_id)))
        assert turn is not None
        after = request.after_sequence if request.epoch in {0, turn.epoch} else 0
        await self._stream(turn, after, request.on_suspend, tu.AttachTurnResponse, context)

    async def StreamTurns(self, request_iterator: Any, context: Any) -> None:  # noqa: N802
        """Many turns at once."""
        await context.send_initial_metadata(())
        self.streams_opened += 1
        dropped = asyncio.Event()
        outbox: asyncio.Queue[tu.StreamTurnsResponse] = asyncio.Queue()
        self._streams.append(dropped)
        self._go_aways.append(outbox)
        forwards: dict[str, asyncio.Task[None]] = {}
        tasks: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(self._write(outbox, context)),
            asyncio.ensure_future(self._read(outbox, forwards, context)),
            asyncio.ensure_future(dropped.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.remove(dropped)
            self._go_aways.remove(outbox)
            everything = [*tasks, *forwards.values()]
            for task in everything:
                task.cancel()
            await asyncio.gather(*everything, return_exceptions=True)
        if dropped.is_set():
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the stream was dropped")

    async def CancelTurn(self, request: tu.CancelTurnRequest, context: Any) -> tu.CancelTurnResponse:  # noqa: N802
        """Cancels a turn."""
        self.cancels.append(request)
        self._executors.notify()
        turn = self.turns.get(request.turn_id)
        if turn is None:
            self._cancelled_early.add(request.turn_id)
            return tu.CancelTurnResponse()
        self.cancel(turn, request.reason or "cancelled")
        return tu.CancelTurnResponse(state=tu.TURN_STATE_COMPLETED if turn.completed else tu.TURN_STATE_RUNNING)

    async def CancelCall(self, request: tu.CancelCallRequest, context: Any) -> tu.CancelCallResponse:  # noqa: N802
        """Cancels a call."""
        turn = self.turns.get(request.turn_id)
        if turn is None or request.call_id not in turn.states:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such call", details(_not_found(request.call_id)))
        assert turn is not None
        turn.cancelled_calls.add(request.call_id)
        execution = turn.executions.get(request.call_id)
        if execution is not None:
            self._executors.cancel(execution, ex.CANCEL_REASON_CALL_CANCELLED, request.reason, 5_000)
        return tu.CancelCallResponse(state=turn.states[request.call_id])  # type: ignore[arg-type]

    async def GetTurn(self, request: tu.GetTurnRequest, context: Any) -> tu.GetTurnResponse:  # noqa: N802
        """One turn."""
        turn = self.turns.get(request.turn_id)
        if turn is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such turn", details(_not_found(request.turn_id)))
        assert turn is not None
        return tu.GetTurnResponse(turn=self.snapshot(turn))

    async def ListTurns(self, request: tu.ListTurnsRequest, context: Any) -> tu.ListTurnsResponse:  # noqa: N802
        """All turns, newest first."""
        turns = [turn for turn in self.turns.values() if request.session_id in {"", turn.request.session_id}]
        return tu.ListTurnsResponse(turns=[self.snapshot(turn) for turn in reversed(turns)])

    async def GetCallResult(self, request: Any, context: Any) -> tu.GetCallResultResponse:  # noqa: N802
        """One result."""
        turn = self.turns.get(request.turn_id)
        result = turn.results.get(request.call_id) if turn is not None else None
        if result is None:
            await context.abort(grpc.StatusCode.NOT_FOUND, "no such result", details(_not_found(request.call_id)))
        return tu.GetCallResultResponse(result=result)

    async def EndRun(self, request: tu.EndRunRequest, context: Any) -> tu.EndRunResponse:  # noqa: N802
        """Completes a run."""
        return tu.EndRunResponse(run=_run(request.session_id, request.run_id, ty.RUN_STATE_COMPLETED))

    async def CancelRun(self, request: tu.CancelRunRequest, context: Any) -> tu.CancelRunResponse:  # noqa: N802
        """Cancels a run."""
        for turn in self.turns.values():
            if turn.request.session_id == request.session_id and turn.completed is None:
                self.cancel(turn, request.reason)
        return tu.CancelRunResponse(run=_run(request.session_id, request.run_id, ty.RUN_STATE_CANCELLED))

    # The streams.

    async def _stream(self, turn: FakeTurn, after: int, on_suspend: int, response: Any, context: Any) -> None:
        async def send(message: tu.TurnEvents) -> None:
            await context.write(response(turn=message))

        dropped = asyncio.Event()
        self._streams.append(dropped)
        forward = asyncio.ensure_future(self._forward(turn, after, on_suspend, send))
        waiting = asyncio.ensure_future(dropped.wait())
        try:
            await asyncio.wait([forward, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.remove(dropped)
            forward.cancel()
            waiting.cancel()
        if dropped.is_set():
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the stream was dropped")

    async def _forward(self, turn: FakeTurn, after: int, on_suspend: int, send: Any) -> None:
        queue: asyncio.Queue[tu.TurnEvent] = asyncio.Queue()
        events = turn.events[after:]
        turn.readers.append(queue)
        try:
            while True:
                if events:
                    await send(turn.message(events))
                    if any(event.WhichOneof("body") == "turn_completed" for event in events):
                        return
                if on_suspend == tu.ON_SUSPEND_END and turn.suspended:
                    return
                # What happened together leaves together.
                events = [await queue.get()]
                while not queue.empty():
                    events.append(queue.get_nowait())
        finally:
            turn.readers.remove(queue)

    async def _write(self, outbox: asyncio.Queue[tu.StreamTurnsResponse], context: Any) -> None:
        while True:
            await context.write(await outbox.get())

    async def _read(
        self, outbox: asyncio.Queue[tu.StreamTurnsResponse], forwards: dict[str, asyncio.Task[None]], context: Any
    ) -> None:
        while (message := await context.read()) is not EOF:
            body = message.WhichOneof("body")
            if body == "run":
                if self.refuse is not None:
                    self._refuse(outbox, message.run.turn_id, self.refuse)
                    continue
                self._follow(outbox, forwards, self._begin(message.run), 0, message.run.on_suspend)
            elif body == "attach":
                self.attaches.append(message.attach)
                self._executors.notify()
                turn = self.turns.get(message.attach.turn_id)
                if turn is None or self.forget_turns:
                    self._refuse(outbox, message.attach.turn_id, _not_found(message.attach.turn_id))
                    continue
                after = message.attach.after_sequence if message.attach.epoch in {0, turn.epoch} else 0
                self._follow(outbox, forwards, turn, after, message.attach.on_suspend)
            elif body == "cancel_turn":
                await self.CancelTurn(message.cancel_turn, context)
            elif body == "detach":
                task = forwards.pop(message.detach.turn_id, None)
                if task is not None:
                    task.cancel()

    def _follow(
        self,
        outbox: asyncio.Queue[tu.StreamTurnsResponse],
        forwards: dict[str, asyncio.Task[None]],
        turn: FakeTurn,
        after: int,
        on_suspend: int,
    ) -> None:
        async def send(message: tu.TurnEvents) -> None:
            outbox.put_nowait(tu.StreamTurnsResponse(turn=message))

        async def forward() -> None:
            await self._forward(turn, after, on_suspend, send)
            if turn.completed is None:
                detached = tu.TurnDetached(turn_id=turn.request.turn_id, last_sequence=len(turn.events))
                outbox.put_nowait(tu.StreamTurnsResponse(detached=detached))

        forwards[turn.request.turn_id] = asyncio.ensure_future(forward())

    @staticmethod
    def _refuse(outbox: asyncio.Queue[tu.StreamTurnsResponse], turn_id: str, error: er.RpcError) -> None:
        outbox.put_nowait(tu.StreamTurnsResponse(refused=tu.TurnRefused(turn_id=turn_id, error=error)))

    # The turns.

    def _begin(self, request: tu.RunTurnRequest) -> FakeTurn:
        """Begins a turn, or finds the one that has begun."""
        known = self.turns.get(request.turn_id)
        if known is not None:
            return known
        if not request.turn_id:
            request.turn_id = str(uuid.uuid4())
        calls = list(request.calls) or _calls_of(request.provider_message)
        turn = FakeTurn(request, calls)
        self.turns[request.turn_id] = turn
        self.runs_seen.append(request.turn_id)
        turn.task = asyncio.ensure_future(self._run(turn))
        self._executors.notify()
        if request.turn_id in self._cancelled_early:
            self.cancel(turn, "cancelled before it came")
        return turn

    def cancel(self, turn: FakeTurn, reason: str) -> None:
        """Ends a turn as cancelled, once what runs has answered."""
        if turn.completed is not None or turn.cancelled is not None:
            return
        turn.cancelled = reason
        for approval in turn.approvals.values():
            self._approvals.end(approval, av.APPROVAL_STATE_CANCELLED)
        for execution in turn.executions.values():
            if not execution.done:
                self._executors.cancel(execution, ex.CANCEL_REASON_TURN_CANCELLED, reason, 5_000)

    async def _run(self, turn: FakeTurn) -> None:
        request = turn.request
        run_id = request.run_id or request.session_id
        turn.say(
            turn_accepted=tu.TurnAccepted(
                session_id=request.session_id,
                run_id=run_id,
                batch_id=f"batch-{request.turn_id}",
                calls=[tu.AcceptedCall(call_id=call.call_id, tool=call.name) for call in turn.calls],
                round=1,
                batch_policy=request.batch_policy or ty.BATCH_POLICY_FREEZE_ATOMIC,
            )
        )
        await self._ask(turn, run_id)
        await asyncio.gather(*(self._call(turn, call) for call in turn.calls))
        self._executors.notify()
        ordered = [turn.results[call.call_id] for call in turn.calls]
        completed = tu.TurnCompleted(
            run=_run(
                request.session_id,
                run_id,
                ty.RUN_STATE_ACTIVE if turn.cancelled is None else ty.RUN_STATE_CANCELLED,
            )
        )
        if turn.cancelled is not None:
            completed.outcome = tu.TURN_OUTCOME_CANCELLED
            completed.stop = True
            completed.stop_reason = tu.STOP_REASON_RUN_ENDED
            completed.error.CopyFrom(ty.ToolError(code="tool_cancelled", message_for_model=turn.cancelled))
            completed.closing_results.CopyFrom(tu.ClosingResults(history_only=True, results=ordered))
        else:
            completed.outcome = tu.TURN_OUTCOME_COMPLETED
            completed.results.extend(ordered)
            if any(result.stop_flag for result in ordered):
                completed.stop = True
                completed.stop_reason = tu.STOP_REASON_TOOL
            if request.HasField("provider_message"):
                completed.provider_messages.CopyFrom(_messages_of(ordered))
        turn.completed = completed
        turn.say(turn_completed=completed)

    async def _ask(self, turn: FakeTurn, run_id: str) -> None:
        """Holds the whole batch until every call that is asked for is decided, or one is refused."""
        session_id = turn.request.session_id
        asked = [
            (call, instance)
            for call in turn.calls
            if (instance := self._executors.owner_of(call.name)) is not None
            and self._approvals.asks(session_id, call.name)
        ]
        for call, instance in asked:
            turn.approvals[call.call_id] = self._approvals.open(
                session_id=session_id,
                run_id=run_id,
                turn_id=turn.request.turn_id,
                call=call,
                owner=instance.name,
                in_batch=len(asked),
            )
            self._move(turn, call.call_id, ty.CALL_STATE_AWAITING_APPROVAL)
        waiting = list(turn.approvals.values())
        if not waiting:
            return
        batch_id = waiting[0].message.batch_id
        turn.say(
            approval_required=tu.ApprovalRequired(
                batch_id=batch_id,
                approvals=[
                    tu.ApprovalSummary(
                        approval_id=item.message.approval_id,
                        call_id=item.message.call.call_id,
                        tool=item.message.tool,
                        risk_level=item.message.risk_level,
                        verdict=item.message.verdict,
                    )
                    for item in waiting
                ],
            )
        )
        ids = [item.message.approval_id for item in waiting]
        turn.say(turn_suspended=tu.TurnSuspended(batch_id=batch_id, approval_ids=ids))
        if turn.cancelled is not None:
            # It was cancelled before it came.
            for item in waiting:
                self._approvals.end(item, av.APPROVAL_STATE_CANCELLED)
        await asyncio.gather(*(self._decided(turn, item) for item in waiting))

    async def _decided(self, turn: FakeTurn, approval: FakeApproval) -> None:
        await approval.ended.wait()
        state = approval.message.state
        if approval.message.decision.choice == av.APPROVAL_CHOICE_CANCEL_TURN:
            self.cancel(turn, approval.message.decision.message or "an approver cancelled the turn")
        elif state == av.APPROVAL_STATE_DENIED and _is_atomic(turn):
            for other in turn.approvals.values():
                self._approvals.end(other, av.APPROVAL_STATE_WITHDRAWN)

    def _undispatched(self, turn: FakeTurn, call: ty.ToolCall) -> ty.CallResult | None:
        """The result of a call that approvers did not let run. None: it may run."""
        approval = turn.approvals.get(call.call_id)
        state = approval.message.state if approval is not None else av.APPROVAL_STATE_UNSPECIFIED
        if turn.approvals and turn.cancelled is not None:
            return _cancelled(call)
        if approval is not None and state == av.APPROVAL_STATE_DENIED:
            said = approval.message.decision.message or "an approver said no"
            return _failed(call, "tool_denied_by_user", said, ty.NOT_EXECUTED_REASON_DENIED_BY_USER)
        if approval is not None and state == av.APPROVAL_STATE_ANSWERED:
            assert approval.decision is not None
            result = answered(call, approval.decision.response)
            result.effect = ty.CALL_EFFECT_NOT_EXECUTED
            result.not_executed_reason = ty.NOT_EXECUTED_REASON_ANSWERED_BY_APPROVER
            return result
        denied = any(item.message.state == av.APPROVAL_STATE_DENIED for item in turn.approvals.values())
        if denied and _is_atomic(turn):
            said = "another call of the batch was refused"
            return _failed(call, "tool_batch_rejected", said, ty.NOT_EXECUTED_REASON_BATCH_REJECTED)
        return None

    def _move(self, turn: FakeTurn, call_id: str, state: int, code: str = "") -> None:
        previous = turn.states.get(call_id, 0)
        turn.states[call_id] = state
        turn.say(
            call_state_changed=tu.CallStateChanged(
                call_id=call_id,
                state=state,  # type: ignore[arg-type]
                previous_state=previous,  # type: ignore[arg-type]
                code=code,
            )
        )

    async def _call(self, turn: FakeTurn, call: ty.ToolCall) -> None:
        result = self._undispatched(turn, call) or await self._result_of(turn, call)
        approval = turn.approvals.get(call.call_id)
        if approval is not None:
            result.approval_id = approval.message.approval_id
            approval.message.call_outcome = result.outcome
        turn.results[call.call_id] = result
        if result.outcome == ty.CALL_OUTCOME_CANCELLED:
            self._move(turn, call.call_id, ty.CALL_STATE_CANCELLED, "tool_cancelled")
        elif result.is_error:
            self._move(turn, call.call_id, ty.CALL_STATE_ERROR, result.error.code)
        else:
            self._move(turn, call.call_id, ty.CALL_STATE_SUCCESS)
        turn.say(call_completed=tu.CallCompleted(result=result))

    async def _result_of(self, turn: FakeTurn, call: ty.ToolCall) -> ty.CallResult:
        instance = self._executors.owner_of(call.name)
        if instance is None:
            return _failed(call, "tool_not_found", f"tool not found: `{call.name}`", ty.NOT_EXECUTED_REASON_NOT_FOUND)
        try:
            parsed = json.loads(call.arguments_json or b"{}")
        except ValueError:
            return _failed(call, "json_invalid", "the arguments are not JSON", ty.NOT_EXECUTED_REASON_INVALID_CALL)
        if not isinstance(parsed, dict):
            return _failed(call, "json_not_object", "the arguments are no object", ty.NOT_EXECUTED_REASON_INVALID_CALL)
        approval = turn.approvals.get(call.call_id)
        edited = approval.message.decision.edited_arguments_json if approval is not None else b""
        self._move(turn, call.call_id, ty.CALL_STATE_SCHEDULED)
        execution = self._executors.dispatch(
            instance,
            call.name,
            edited or call.arguments_json or b"{}",
            call_id=call.call_id,
            context=call_context(
                session_id=turn.request.session_id,
                run_id=turn.request.run_id or turn.request.session_id,
                turn_id=turn.request.turn_id,
                batch_call_id=f"batch-{turn.request.turn_id}",
                services=tuple(instance.tools[call.name].services),
            ),
            timeout_ms=120_000,
            output_credit=OUTPUT_CREDIT if turn.request.view.include_output else 0,
        )
        turn.executions[call.call_id] = execution
        if turn.cancelled is not None:
            self._executors.cancel(execution, ex.CANCEL_REASON_TURN_CANCELLED, turn.cancelled, 5_000)
        await self._watch(turn, call, execution)
        return result_of(call, execution)

    async def _watch(self, turn: FakeTurn, call: ty.ToolCall, execution: FakeExecution) -> None:
        """Passes on what happens until the execution has ended."""
        seen_progress = seen_output = 0
        executing = False

        def news() -> bool:
            return (
                execution.done
                or len(execution.progress) > seen_progress
                or len(execution.output) > seen_output
                or (bool(execution.accepted) and not executing)
            )

        while True:
            await self._executors.until(news, 600.0)
            if execution.accepted and not executing:
                executing = True
                self._move(turn, call.call_id, ty.CALL_STATE_EXECUTING)
            for message, fraction in execution.progress[seen_progress:]:
                progress = tu.CallProgress(call_id=call.call_id, message=message)
                if fraction is not None:
                    progress.fraction = fraction
                turn.say(kept=False, call_progress=progress)
            seen_progress = len(execution.progress)
            for chunk in execution.output[seen_output:]:
                output = tu.CallOutput(
                    call_id=call.call_id,
                    channel=chunk.channel,
                    chunk_sequence=chunk.chunk_sequence,
                    data=chunk.data,
                    dropped_bytes=chunk.dropped_bytes,
                )
                turn.say(kept=False, call_output=output)
            seen_output = len(execution.output)
            if execution.done:
                return

    def snapshot(self, turn: FakeTurn) -> tu.Turn:
        """A turn as it stands."""
        message = tu.Turn(
            turn_id=turn.request.turn_id,
            session_id=turn.request.session_id,
            run_id=turn.request.run_id or turn.request.session_id,
            state=_turn_state(turn),
            calls=[
                tu.TurnCall(
                    call=call,
                    tool=call.name,
                    state=turn.states.get(call.call_id, 0),  # type: ignore[arg-type]
                    approval_id=turn.approvals[call.call_id].message.approval_id
                    if call.call_id in turn.approvals
                    else "",
                )
                for call in turn.calls
            ],
            epoch=turn.epoch,
            last_sequence=len(turn.events),
            model_message=turn.request.model_message,
        )
        if turn.completed is not None:
            message.completed.CopyFrom(turn.completed)
        return message


def result_of(call: ty.ToolCall, execution: FakeExecution) -> ty.CallResult:
    """The record of how an execution ended."""
    if execution.rejected is not None:
        code = ex.RejectReason.Name(execution.rejected.reason).removeprefix("REJECT_REASON_").lower()
        return _failed(call, "tool_unavailable", f"not taken: {code}", ty.NOT_EXECUTED_REASON_TOOL_UNAVAILABLE)
    if execution.abandoned:
        return _failed(call, "tool_unavailable", "given back", ty.NOT_EXECUTED_REASON_TOOL_UNAVAILABLE)
    message = execution.results[0]
    result = ty.CallResult(call_id=call.call_id, tool=call.name, attempts=1)
    if message.WhichOneof("outcome") == "cancelled":
        result.outcome = ty.CALL_OUTCOME_CANCELLED
        result.is_error = True
        result.effect = message.cancelled.effect
        result.error.CopyFrom(
            ty.ToolError(
                code="tool_cancelled",
                layer=ty.ERROR_LAYER_CANCELLED,
                message_for_model="the call was cancelled",
                detail=message.cancelled.message,
            )
        )
        return result
    result = answered(call, message.result)
    result.attempts = 1
    result.effect = ty.CALL_EFFECT_EXECUTED
    return result


def answered(call: ty.ToolCall, answer: ty.ToolResult) -> ty.CallResult:
    """The record of an answer."""
    result = ty.CallResult(call_id=call.call_id, tool=call.name)
    result.outcome = ty.CALL_OUTCOME_ERROR if answer.is_error else ty.CALL_OUTCOME_SUCCESS
    result.is_error = answer.is_error
    result.stop_flag = answer.stop_flag
    result.contents.extend(answer.contents)
    result.structured_json = answer.structured_json
    result.metadata_json = answer.metadata_json
    result.sanitised = answer.sanitised
    if answer.is_error:
        result.error.CopyFrom(answer.error)
        result.error.layer = ty.ERROR_LAYER_TOOL
        if not result.error.code:
            result.error.code = "tool_execution_failed"
    return result


def _failed(call: ty.ToolCall, code: str, message: str, reason: int) -> ty.CallResult:
    return ty.CallResult(
        call_id=call.call_id,
        tool=call.name,
        outcome=ty.CALL_OUTCOME_ERROR,
        is_error=True,
        error=ty.ToolError(code=code, layer=ty.ERROR_LAYER_TOOL, message_for_model=message),
        not_executed_reason=reason,  # type: ignore[arg-type]
        effect=ty.CALL_EFFECT_NOT_EXECUTED,
    )


def _cancelled(call: ty.ToolCall) -> ty.CallResult:
    result = _failed(call, "tool_cancelled", "the call was cancelled", ty.NOT_EXECUTED_REASON_CANCELLED_BEFORE_START)
    result.outcome = ty.CALL_OUTCOME_CANCELLED
    return result


def _is_atomic(turn: FakeTurn) -> bool:
    return turn.request.batch_policy in {ty.BATCH_POLICY_UNSPECIFIED, ty.BATCH_POLICY_FREEZE_ATOMIC}


def _turn_state(turn: FakeTurn) -> tu.TurnState:
    if turn.completed is not None:
        return tu.TURN_STATE_COMPLETED
    return tu.TURN_STATE_SUSPENDED if turn.suspended else tu.TURN_STATE_RUNNING


def _calls_of(message: pr.ProviderMessage) -> list[ty.ToolCall]:
    if not message.message_json:
        return []
    calls = json.loads(message.message_json).get("tool_calls") or []
    return [
        ty.ToolCall(
            call_id=call["id"],
            name=call["function"]["name"],
            arguments_json=call["function"]["arguments"].encode("utf-8", "surrogatepass"),
        )
        for call in calls
    ]


def _messages_of(results: list[ty.CallResult]) -> pr.ProviderMessages:
    def text(result: ty.CallResult) -> str:
        parts = [part.text for part in result.contents if part.WhichOneof("content") == "text"]
        return "\n".join(parts) or result.error.message_for_model

    return pr.ProviderMessages(
        format=pr.PROVIDER_FORMAT_OPENAI_CHAT,
        messages_json=[
            json.dumps({"role": "tool", "tool_call_id": result.call_id, "content": text(result)}).encode()
            for result in results
        ],
    )


def _run(session_id: str, run_id: str, state: int) -> ty.Run:
    return ty.Run(run_id=run_id or session_id, session_id=session_id, state=state, rounds=1)  # type: ignore[arg-type]


def _not_found(what: str) -> er.RpcError:
    return er.RpcError(
        status=5,
        message="not found",
        detail=er.ErrorDetail(
            reason=er.ERROR_REASON_NOT_FOUND, code="not_found", resource_kind="turn", resource_id=what
        ),
    )


def _status(number: int) -> grpc.StatusCode:
    return next(code for code in grpc.StatusCode if code.value[0] == number)
