"""Turns as an orchestrator sees them: events, results, and a handle for both.

Plain data, and `Turn`, which can be awaited for its result or iterated for its
events. Knows neither protobuf nor sockets.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, cast

from .context import OutputChannel
from .errors import CallgateError, Suspended
from .permission import BatchPolicy, PermissionVerdict, RuleSpec
from .result import CallResult, ErrorInfo, to_json
from .tool import Risk

CallState = Literal["validating", "awaiting_approval", "scheduled", "executing", "success", "error", "cancelled"]
TurnOutcome = Literal["completed", "cancelled", "aborted", "loop_detected", "error"]
TurnState = Literal["running", "suspended", "completed"]
RunState = Literal["active", "completed", "cancelled", "aborted", "loop_detected", "error"]
LoopDetector = Literal["tool_signature", "cycle", "llm", "unknown"]
Results = Literal["at_end", "as_completed", "both"]
OnSuspend = Literal["wait", "end"]

LOSSY_EVENTS_MAX = 1_024


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the model made it.

    `arguments` may be the model's own text, which is sent as it is, or a value.
    `truncated`: the model was cut off inside this call.
    """

    call_id: str
    name: str
    arguments: Mapping[str, Any] | str | bytes = field(default_factory=dict)
    truncated: bool = False

    @property
    def arguments_json(self) -> bytes:
        """The arguments as they travel. Text is not checked: the sidecar does that."""
        if isinstance(self.arguments, bytes):
            return self.arguments
        if isinstance(self.arguments, str):
            # A lone surrogate must arrive as what it is, broken, and be refused there.
            return self.arguments.encode("utf-8", "surrogatepass")
        return to_json(dict(self.arguments)).encode("utf-8", "surrogatepass")


def check_type(what: str, value: object, *allowed: type) -> None:
    """Raises a TypeError that names the argument, in place of one from deep inside protobuf."""
    if not isinstance(value, allowed):
        names = " or ".join("None" if kind is type(None) else kind.__name__ for kind in allowed)
        raise TypeError(f"{what} must be {names}, not {type(value).__name__}")


def check_calls(calls: object) -> None:
    """Raises a TypeError unless these are calls."""
    check_type("calls", calls, Sequence)
    for index, call in enumerate(cast("Sequence[object]", calls)):
        where = f"calls[{index}]"
        check_type(where, call, ToolCall)
        made = cast(ToolCall, call)
        check_type(f"{where}.call_id", made.call_id, str)
        check_type(f"{where}.name", made.name, str)
        check_type(f"{where}.arguments", made.arguments, Mapping, str, bytes)


def check_rules(rules: object) -> None:
    """Raises a TypeError unless these are rules."""
    check_type("command_rules", rules, Sequence)
    for index, rule in enumerate(cast("Sequence[object]", rules)):
        check_type(f"command_rules[{index}]", rule, RuleSpec)


@dataclass(frozen=True, slots=True)
class Run:
    """One agent loop inside a session. `end_code` is empty while active or completed."""

    run_id: str
    session_id: str
    state: RunState
    rounds: int = 0
    end_code: str = ""
    end_reason: str = ""
    started_at_ms: int = 0
    ended_at_ms: int | None = None


# Events. `sequence` is 0 for those that are not kept and may be thinned out.


@dataclass(frozen=True, slots=True)
class TurnEvent:
    """One thing that happened in a turn; `occurred_at_ms` is Unix time."""

    turn_id: str
    epoch: int
    sequence: int
    occurred_at_ms: int


@dataclass(frozen=True, slots=True)
class AcceptedCall:
    """One call as the sidecar reads it, aliases resolved."""

    call_id: str
    tool: str
    minted: bool = False


@dataclass(frozen=True, slots=True)
class TurnAccepted(TurnEvent):
    """The turn is recorded and begins. Always the first."""

    session_id: str
    run_id: str
    batch_id: str
    calls: tuple[AcceptedCall, ...]
    round: int
    batch_policy: BatchPolicy | None = None


@dataclass(frozen=True, slots=True)
class CallStateChanged(TurnEvent):
    """A call moved. `code` is that of its error, for "error" and "cancelled"."""

    call_id: str
    state: CallState
    previous: CallState | None
    code: str


@dataclass(frozen=True, slots=True)
class ApprovalSummary:
    """Enough of an approval to show that one waits; `Approvals.get` has it whole."""

    approval_id: str
    call_id: str
    tool: str
    risk: Risk
    verdict: PermissionVerdict
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ApprovalRequired(TurnEvent):
    """Approvals wait. They are durable: whatever dies now, they can be decided."""

    batch_id: str
    approvals: tuple[ApprovalSummary, ...]


@dataclass(frozen=True, slots=True)
class TurnSuspended(TurnEvent):
    """Every call that could run has ended; only people are awaited."""

    batch_id: str
    approval_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LoopDetected(TurnEvent):
    """The run is in a loop and has ended; `TurnCompleted` follows with a result for every call.

    `period` is the length of the repeated sequence and `repetitions` how often it came;
    both are 0, and `call_ids` is empty, where a model said so, which `confidence` belongs to.
    """

    detector: LoopDetector
    reason: str
    call_ids: tuple[str, ...]
    period: int
    repetitions: int
    confidence: float | None


@dataclass(frozen=True, slots=True)
class CallCompleted(TurnEvent):
    """A call ended. In order of completion; without contents unless they were asked for here."""

    result: CallResult


@dataclass(frozen=True, slots=True)
class CallProgress(TurnEvent):
    """An executing call reports how far it is; `fraction` is 0 to 1 or None."""

    call_id: str
    message: str
    fraction: float | None
    details: Any


@dataclass(frozen=True, slots=True)
class CallOutput(TurnEvent):
    """An executing call prints. `data` may cut a character; a gap in `chunk` was dropped."""

    call_id: str
    channel: OutputChannel
    chunk: int
    data: bytes
    dropped_bytes: int


@dataclass(frozen=True, slots=True)
class TurnHeartbeat(TurnEvent):
    """Nothing happened for a while."""

    waiting_for: str


@dataclass(frozen=True, slots=True)
class TurnSnapshot(TurnEvent):
    """The turn as it stands, in place of events that are lost or no longer kept."""

    turn: TurnInfo


@dataclass(frozen=True, slots=True)
class TurnCompleted(TurnEvent):
    """The turn ended. Always the last."""

    result: TurnResult


@dataclass(frozen=True, slots=True)
class HookText:
    """What a hook adds to the conversation. `role` is set for a message, empty for a context."""

    text: str
    hook_id: str
    call_id: str
    role: str = ""


@dataclass(frozen=True, slots=True)
class TurnResult:
    """How a turn ended.

    Attributes:
        outcome: "completed" means that every call has its result.
        results: One per call, in call order. Empty if the turn was cancelled.
        messages: What to append to the history, in the provider's form. Empty if
            no form was asked for, or the turn was cancelled.
        stop: The loop must end: do not ask the model again in this run.
        hook_contexts: To append behind all results, in order.
        hook_messages: The same, each in its `role`.
        closing_results: Set exactly if the turn was cancelled or aborted: one per call, so
            that a history stays valid. Never go on with them.
        closing_messages: The same in the provider's form.
    """

    turn_id: str
    outcome: TurnOutcome
    results: tuple[CallResult, ...] = ()
    messages: tuple[dict[str, Any], ...] = ()
    stop: bool = False
    stop_reason: str = ""
    run: Run | None = None
    error: ErrorInfo | None = None
    closing_results: tuple[CallResult, ...] = ()
    closing_messages: tuple[dict[str, Any], ...] = ()
    hook_contexts: tuple[HookText, ...] = ()
    hook_messages: tuple[HookText, ...] = ()

    def __getitem__(self, call_id: str) -> CallResult:
        """The result of one call, a cancelled turn's included."""
        for result in (*self.results, *self.closing_results):
            if result.call_id == call_id:
                return result
        raise KeyError(call_id)

    def __contains__(self, call_id: object) -> bool:
        """Whether there is a result of that call."""
        results = (*self.results, *self.closing_results)
        return any(result.call_id == call_id for result in results)


@dataclass(frozen=True, slots=True)
class TurnCallInfo:
    """A call as it stands.

    `approval_id` is the approval that it waits for or had, `effective_arguments_json`
    what an approver put in place of its arguments; both may be empty.
    """

    call: ToolCall
    tool: str
    state: CallState
    approval_id: str = ""
    effective_arguments_json: bytes = b""


@dataclass(frozen=True, slots=True)
class TurnInfo:
    """A turn as it stands. `completed` is None while it runs."""

    turn_id: str
    session_id: str
    run_id: str
    batch_id: str
    state: TurnState
    calls: tuple[TurnCallInfo, ...] = ()
    epoch: int = 1
    last_sequence: int = 0
    model_message: bytes = b""
    completed: TurnResult | None = None
    accepted_at_ms: int = 0
    updated_at_ms: int = 0


def message_json(message: Any) -> bytes:
    """A provider's message as bytes: a mapping, text, or an object of the provider's own SDK."""
    if isinstance(message, bytes):
        return message
    if isinstance(message, str):
        return message.encode("utf-8", "surrogatepass")
    if hasattr(message, "model_dump_json"):
        return message.model_dump_json(exclude_none=True).encode("utf-8")
    return json.dumps(message, ensure_ascii=False, allow_nan=False).encode("utf-8", "surrogatepass")


class TurnSource(Protocol):
    """What carries the events of one turn to its handle."""

    def start(self, feed: TurnFeed) -> None:
        """Begins; events go to `feed`."""
        ...

    def cancel(self, reason: str) -> None:
        """Cancels the turn, soon and in the background."""
        ...

    def detach(self) -> None:
        """Wants no more events; the turn goes on."""
        ...


class TurnFeed:
    """Events on their way from the wire's loop to the reader's.

    Never holds up the wire: events that are not kept are dropped when the reader
    falls behind; kept ones are few by their nature, and none is ever dropped.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._events: deque[TurnEvent] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._lost_bytes: dict[str, int] = {}
        self.result: TurnResult | None = None
        self.error: CallgateError | None = None
        self.suspended: Suspended | None = None

    def put(self, events: list[TurnEvent]) -> None:
        """From the wire's loop."""
        self._post(self._add, events)

    def fail(self, error: CallgateError) -> None:
        """From the wire's loop: no more will come."""
        self._post(self._end, error)

    def suspend(self, why: Suspended) -> None:
        """From the wire's loop: no more will come here, and the turn goes on."""
        self._post(self._park, why)

    def _post(self, action: Callable[..., None], *args: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(action, *args)
        except RuntimeError:
            # The reader's loop is gone, and with it the reader.
            return

    def _add(self, events: list[TurnEvent]) -> None:
        for event in events:
            if event.sequence == 0 and len(self._events) >= LOSSY_EVENTS_MAX:
                if isinstance(event, CallOutput):
                    lost = self._lost_bytes.get(event.call_id, 0)
                    self._lost_bytes[event.call_id] = lost + len(event.data) + event.dropped_bytes
                continue
            self._events.append(self._with_lost(event))
            if isinstance(event, TurnCompleted):
                self.result = event.result
        self._wake()

    def _with_lost(self, event: TurnEvent) -> TurnEvent:
        """Counts what was dropped here into the next output that is kept."""
        if not isinstance(event, CallOutput) or event.call_id not in self._lost_bytes:
            return event
        return replace(event, dropped_bytes=event.dropped_bytes + self._lost_bytes.pop(event.call_id))

    def _end(self, error: CallgateError) -> None:
        if self.result is None and self.error is None:
            self.error = error
        self._wake()

    def _park(self, why: Suspended) -> None:
        if self.result is None and self.error is None:
            self.suspended = why
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self) -> TurnEvent | None:
        """The next event; None when there are no more."""
        while not self._events:
            if self.result is not None or self.suspended is not None:
                return None
            if self.error is not None:
                raise self.error
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        return self._events.popleft()


class Turn(Awaitable[TurnResult]):
    """One turn. Begins with the first `await` or `async for`, on the loop that runs it.

    `await turn` gives the result, `async for event in turn` the events; after the
    loop, `await turn` gives the result at once. One task may use it at a time.

    With `on_suspend="end"` the events end after `TurnSuspended` if people are awaited,
    and `await turn` raises `Suspended`.

    Cancelling the task that awaits or iterates cancels the turn. Leaving the loop
    early does not: the turn goes on in the sidecar. Call `cancel` or `detach`.
    """

    def __init__(self, turn_id: str, source: Callable[[], TurnSource]) -> None:
        self.turn_id = turn_id
        self._make_source = source
        self._source: TurnSource | None = None
        self._feed: TurnFeed | None = None

    def __await__(self) -> Generator[Any, None, TurnResult]:
        return self._result().__await__()

    def __aiter__(self) -> AsyncIterator[TurnEvent]:
        return self._iterate()

    async def _iterate(self) -> AsyncIterator[TurnEvent]:
        while (event := await self._next()) is not None:
            yield event

    def cancel(self, reason: str = "") -> None:
        """Cancels the turn and its run. Its last event tells when that is done."""
        self._start()
        assert self._source is not None
        self._source.cancel(reason)

    def detach(self) -> None:
        """Wants no more events here; the turn goes on. `Client.attach_turn` takes it up again."""
        if self._source is not None:
            self._source.detach()

    def _start(self) -> TurnFeed:
        if self._feed is None:
            self._feed = TurnFeed(asyncio.get_running_loop())
            self._source = self._make_source()
            self._source.start(self._feed)
        return self._feed

    async def _result(self) -> TurnResult:
        while await self._next() is not None:
            pass
        feed = self._start()
        if feed.result is not None:
            return feed.result
        raise feed.suspended or CallgateError("the turn ended without a result")

    async def _next(self) -> TurnEvent | None:
        feed = self._start()
        try:
            return await feed.next()
        except asyncio.CancelledError:
            if self._source is not None:
                self._source.cancel("the orchestrator cancelled")
                self._source.detach()
            raise
