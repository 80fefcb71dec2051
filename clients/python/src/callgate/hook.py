"""What hooks are asked about calls, and what they may say.

Plain data; approvals, turns and loops are in `hook_points`. What several hooks mean
together, the sidecar decides.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Union

from .errors import MoreTimeRefused
from .permission import Mode
from .result import CallResult, ErrorInfo, ToolResult, from_value
from .tool import Kind, Risk

HookPoint = Literal[
    "before_tool_call",
    "after_tool_call",
    "after_tool_failure",
    "approval_requested",
    "turn_started",
    "turn_finished",
    "loop_suspected",
    "loop_diagnose",
]
AfterPoint = Literal["after_tool_call", "after_tool_failure"]
OnFailure = Literal["deny", "ask", "ignore"]
BeforeSays = Literal["proceed", "allow", "ask", "defer", "deny", "abort"]
AfterSays = Literal["proceed", "stop", "abort"]


@dataclass(frozen=True, slots=True)
class EarlierHook:
    """What a hook said that was asked about the same call before this one.

    `status` is "answered" or how it failed; `says` what it said or counts as.
    """

    hook_id: str
    status: str
    says: str
    modified: bool = False


class MoreTime:
    """The more time that the handler of one question may ask for. May be used from any thread.

    `limit` is the hook's own timeout in seconds, `ask` tells the sidecar and must not block.
    """

    def __init__(self, limit: float, ask: Callable[[float], None]) -> None:
        self._lock = threading.Lock()
        self._limit = limit
        # None: nobody waits any more. A question that its handler keeps must not keep the stream.
        self._ask: Callable[[float], None] | None = ask
        self._asked = False

    def take(self, seconds: float) -> float:
        """See `Question.need_more_time`."""
        if not seconds > 0:
            raise ValueError(f"seconds must be more than 0, not {seconds}")
        with self._lock:
            ask = self._ask
            if ask is None:
                raise MoreTimeRefused("nobody waits for the answer of this hook any more")
            if self._asked:
                raise MoreTimeRefused(
                    "this hook has asked for more time before; it may once for each answer",
                    code="need_more_time_twice",
                )
            self._asked = True
        granted = min(float(seconds), self._limit)
        ask(granted)
        return granted

    def end(self) -> None:
        """Nobody waits for the answer any more."""
        with self._lock:
            self._ask = None


class Question:
    """What a hook is asked or told."""

    # No field: a question is compared, copied and written down without it.
    __slots__ = ("_more_time",)

    def need_more_time(self, seconds: float) -> float:
        """Asks the sidecar to wait longer for this answer, once, before the hook's time is over.

        For `def` and `async def` handlers alike: it does not block and is not awaited.
        Returns the seconds that there are more; beyond the hook's own `timeout` they are cut.

        Raises:
            MoreTimeRefused: It was asked before, or nobody waits for the answer: who is only told has
                all the time there is.
            ValueError: `seconds` is no span.
        """
        more: MoreTime | None = getattr(self, "_more_time", None)
        if more is None:
            raise MoreTimeRefused("nobody waits for an answer to this question")
        return more.take(seconds)


def allow_more_time(asked: Question, more: MoreTime) -> None:
    """Lets the handler of a question ask for more time."""
    object.__setattr__(asked, "_more_time", more)


@dataclass(frozen=True, slots=True)
class HookInput(Question):
    """A call, before it is decided or after its executor answered.

    Every field has a default, so that a test names only those that it is about.

    Attributes:
        timestamp_ms: When the sidecar asked, in Unix time.
        cwd: The session's working directory. Empty: none was set.
        tool_name: The tool as the model named it.
        tool_args: The arguments as hooks before this one left them; after a call,
            as it ran. None: they are no JSON object.
        tool_args_json: The same as text.
        risk: None: there is no tool of that name.
        kind: None: there is no tool of that name.
        tool_digest: Of the tool's definition. Empty: there is no tool of that name.
        validation: What is wrong with the call so far. A hook may mend it.
        earlier: What hooks before this one said.
        result: Set after a call only.
        attempt: From 1; after a crash of the sidecar it may ask again.
    """

    hook_id: str = ""
    point: HookPoint = "before_tool_call"
    timestamp_ms: int = 0
    session_id: str = ""
    run_id: str = ""
    turn_id: str = ""
    batch_id: str = ""
    call_id: str = ""
    tool_name: str = ""
    tool_args: Mapping[str, Any] | None = None
    tool_args_json: bytes = b""
    root_session_id: str = ""
    cwd: str = ""
    mode: Mode | None = None
    risk: Risk | None = None
    kind: Kind | None = None
    tool_digest: bytes = b""
    validation: ErrorInfo | None = None
    earlier: tuple[EarlierHook, ...] = ()
    result: CallResult | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class HookOutput:
    """What a hook says before a call, field by field. Returning None changes nothing.

    Attributes:
        permission_decision: None: no opinion.
        permission_decision_reason: Of a denial for the user and the model, of an ask
            for the approver.
        modified_args: The whole new arguments. None: unchanged.
        additional_context: For the conversation, at most 10 000 characters.
        suppress_output: The model sees a placeholder in place of the result.
    """

    permission_decision: Literal["allow", "deny", "ask"] | None = None
    permission_decision_reason: str | None = None
    modified_args: Mapping[str, Any] | None = None
    additional_context: str | None = None
    suppress_output: bool = False


@dataclass(frozen=True, slots=True)
class Before:
    """What a hook says before a call. Made by the methods named as what they say."""

    says: BeforeSays
    args: Mapping[str, Any] | None = None
    context: str = ""
    suppress: bool = False
    reason: str = ""
    reason_for_model: str = ""
    result: ToolResult | None = None

    @classmethod
    def proceed(cls, args: Mapping[str, Any] | None = None, *, context: str = "", suppress: bool = False) -> Before:
        """No opinion. `args` replace the arguments as a whole."""
        return cls("proceed", args, context, suppress)

    @classmethod
    def allow(cls, args: Mapping[str, Any] | None = None, *, context: str = "", suppress: bool = False) -> Before:
        """Lifts an ask that comes from mode, risk or the tool's check, and no other."""
        return cls("allow", args, context, suppress)

    @classmethod
    def ask(cls, reason: str = "", args: Mapping[str, Any] | None = None, *, context: str = "") -> Before:
        """An approver must be asked, and sees `reason`."""
        return cls("ask", args, context, reason=reason)

    @classmethod
    def defer(cls, reason: str = "", args: Mapping[str, Any] | None = None, *, context: str = "") -> Before:
        """Waits for an approver, also where none is expected. No further hook is asked."""
        return cls("defer", args, context, reason=reason)

    @classmethod
    def deny(cls, reason: str = "", *, result: ToolResult | None = None, context: str = "") -> Before:
        """Does not run. `result` stands in the tool's place, an error or not."""
        return cls("deny", context=context, reason=reason, result=result)

    @classmethod
    def abort(cls, reason: str = "") -> Before:
        """Ends the run; nothing of the batch runs."""
        return cls("abort", reason=reason)

    def replaced(self, **changes: Any) -> Before:
        """The same with other fields."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Injected:
    """A message for the conversation, behind all results of the batch."""

    text: str
    role: Literal["user", "system"] = "user"


@dataclass(frozen=True, slots=True)
class After:
    """What a hook says after a call. Made by the methods named as what they say."""

    says: AfterSays
    result: ToolResult | None = None
    messages: tuple[Injected, ...] = ()
    context: str = ""
    suppress: bool = False
    reason: str = ""

    @classmethod
    def proceed(
        cls,
        result: ToolResult | None = None,
        *,
        messages: Sequence[Injected] = (),
        context: str = "",
        suppress: bool = False,
    ) -> After:
        """Goes on. `result` takes the place of the tool's; an error stays an error."""
        return cls("proceed", result, tuple(messages), context, suppress)

    @classmethod
    def stop(
        cls,
        reason: str = "",
        *,
        result: ToolResult | None = None,
        messages: Sequence[Injected] = (),
        context: str = "",
    ) -> After:
        """Keeps the result, and ends the loop after this turn."""
        return cls("stop", result, tuple(messages), context, reason=reason)

    @classmethod
    def abort(cls, reason: str = "") -> After:
        """Ends the run."""
        return cls("abort", reason=reason)


@dataclass(frozen=True, slots=True)
class AfterOutput:
    """What a hook says after a call, field by field. Returning None changes nothing.

    Attributes:
        modified_result: In place of the tool's, anything that a handler of a tool could
            return; an error stays an error. None: unchanged.
        additional_context: For the conversation, at most 10 000 characters.
        suppress_output: The model sees a placeholder in place of the result.
    """

    modified_result: Any = None
    additional_context: str | None = None
    suppress_output: bool = False


@dataclass(frozen=True, slots=True)
class HookMatcher:
    """For which calls a hook is asked. All that are given must hold; what cannot be told holds.

    Attributes:
        tools: Names or globs.
        risks: Risks of tools.
        kinds: Kinds of tools.
        rules: As in permissions, `Tool(spec)`; one must mean the call.
        arguments: Pointers to arguments that must be there.
    """

    tools: Sequence[str] = ()
    risks: Sequence[Risk] = ()
    kinds: Sequence[Kind] = ()
    rules: Sequence[str] = ()
    arguments: Sequence[str] = ()


BeforeAnswer = Union[Before, HookOutput, Mapping[str, Any], None]
BeforeHandler = Callable[[HookInput], Union[BeforeAnswer, Awaitable[BeforeAnswer]]]
AfterAnswer = Union[After, AfterOutput, Mapping[str, Any], None]
AfterHandler = Callable[[HookInput], Union[AfterAnswer, Awaitable[AfterAnswer]]]


@dataclass(frozen=True, slots=True)
class HookSpec:
    """One hook of this process, as the sidecar is told of it.

    Attributes:
        timeout: Seconds for an answer, from each question; see `Question.need_more_time`.
        on_failure: What a failure before a call means.
        withhold_on_failure: After a call, a failure keeps the result back.
        observe: Only told; what it answers does not count.
    """

    hook_id: str
    points: tuple[HookPoint, ...]
    order: int = 0
    matcher: HookMatcher = field(default_factory=HookMatcher)
    timeout: float = 5.0
    on_failure: OnFailure = "deny"
    withhold_on_failure: bool = False
    observe: bool = False
    description: str = ""


def before_of(answer: Any) -> Before:
    """What a handler returned, as one thing.

    Raises:
        TypeError, ValueError: It returned something else.
    """
    if answer is None:
        return Before.proceed()
    if isinstance(answer, Before):
        return answer
    if isinstance(answer, Mapping):
        answer = HookOutput(**answer)
    if not isinstance(answer, HookOutput):
        raise TypeError(f"a hook before a call must return Before, HookOutput or None, not {type(answer).__name__}")
    says = answer.permission_decision or "proceed"
    if says not in ("proceed", "allow", "deny", "ask"):
        raise ValueError(f"permission_decision must be allow, deny, ask or None, not {says!r}")
    return Before(
        says,
        answer.modified_args,
        answer.additional_context or "",
        answer.suppress_output,
        answer.permission_decision_reason or "",
    )


def after_of(answer: Any) -> After:
    """What a handler returned, as one thing.

    Raises:
        TypeError, ValueError: It returned something else.
    """
    if answer is None:
        return After.proceed()
    if isinstance(answer, After):
        return answer
    if isinstance(answer, Mapping):
        answer = AfterOutput(**answer)
    if not isinstance(answer, AfterOutput):
        raise TypeError(f"a hook after a call must return After, AfterOutput or None, not {type(answer).__name__}")
    return After.proceed(
        None if answer.modified_result is None else _result_of(answer.modified_result),
        context=answer.additional_context or "",
        suppress=answer.suppress_output,
    )


def _result_of(value: Any) -> ToolResult:
    made = from_value(value)
    if made.error is not None and not isinstance(value, ToolResult):
        # No value becomes an error by accident: the tool's own result is better than that.
        raise ValueError(made.error.message)
    return made
