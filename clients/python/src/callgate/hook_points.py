"""What hooks are asked or told besides calls: approvals, turns and loops, and what they may say.

Plain data. Decides nothing: the sidecar weighs it against rules and people.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Union

from .approval import Approval
from .hook import After, Before, HookInput, HookPoint, Question, after_of, before_of
from .permission import Mode
from .result import CallResult
from .turns import LoopDetector, Run, ToolCall, check_type

ApprovalSays = Literal["approve", "deny", "leave"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HookEvent(Question):
    """What a hook learns of everything that is no call. Its fields are those of `HookInput`.

    `batch_id` is empty where the turn has no calls.
    """

    hook_id: str = ""
    point: HookPoint
    timestamp_ms: int = 0
    session_id: str = ""
    root_session_id: str = ""
    run_id: str = ""
    turn_id: str = ""
    batch_id: str = ""
    cwd: str = ""
    mode: Mode | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRequested(HookEvent):
    """An approval that begins to wait, with its arguments whole. Answered with `ApprovalAnswer`."""

    point: HookPoint = "approval_requested"
    approval: Approval


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnObserved(HookEvent):
    """A turn that begins or has ended, by `point`. Not answered.

    Attributes:
        calls: As the model made them, in its order.
        run: As it is then.
        results: How each call ended, without contents. Only of an ended turn.
    """

    calls: tuple[ToolCall, ...] = ()
    run: Run
    results: tuple[CallResult, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSuspected(HookEvent):
    """A run that was found to be in a loop, and has ended. Not answered.

    Attributes:
        detector: What found it.
        reason: For people.
        call_ids: The calls of this turn that belong to it.
        run: As it ended.
    """

    point: HookPoint = "loop_suspected"
    detector: LoopDetector
    reason: str = ""
    call_ids: tuple[str, ...] = ()
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopDiagnosis(HookEvent):
    """Is this run in a loop? Answered with `LoopOpinion`.

    Attributes:
        history_json: As it was given to `run_turn`; else what the run called, as an array
            of `{tool, arguments, outcome}`.
        run: As it is now.
    """

    point: HookPoint = "loop_diagnose"
    history_json: bytes = b"[]"
    run: Run

    @property
    def history(self) -> Any:
        """The history as values.

        Raises:
            ValueError: It is no JSON.
        """
        return json.loads(self.history_json)


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """What a hook says to an approval. Made by the methods named as what they say.

    `message` is read by the model of a denied call, else it is for the record.
    """

    says: ApprovalSays
    message: str = ""

    @classmethod
    def approve(cls, message: str = "") -> ApprovalAnswer:
        """Runs, this once. Does not count where a rule, an unclear command or the tool firmly asks."""
        return cls("approve", message)

    @classmethod
    def deny(cls, message: str = "") -> ApprovalAnswer:
        """Does not run."""
        return cls("deny", message)

    @classmethod
    def leave(cls) -> ApprovalAnswer:
        """Waits on, for the next hook or for people."""
        return cls("leave")


@dataclass(frozen=True, slots=True)
class LoopOpinion:
    """Whether a run is in a loop.

    It counts only if it is surer than the sidecar's `loop.diagnosis.threshold` (0.8).

    Attributes:
        is_loop: It is.
        reason: For people, at most 1 KiB.
        confidence: 0 to 1.

    Raises:
        TypeError, ValueError: A field is of the wrong type or out of its range.
    """

    is_loop: bool
    reason: str = ""
    confidence: float = 1.0

    def __post_init__(self) -> None:
        check_type("is_loop", self.is_loop, bool)
        check_type("reason", self.reason, str)
        check_type("confidence", self.confidence, float, int)
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"confidence must be 0 to 1, not {self.confidence}")


HookQuestion = Union[HookInput, ApprovalRequested, TurnObserved, LoopSuspected, LoopDiagnosis]
HookAnswer = Union[Before, After, ApprovalAnswer, LoopOpinion, None]
ApprovalHandler = Callable[[ApprovalRequested], Union[ApprovalAnswer, Awaitable[Union[ApprovalAnswer, None]], None]]
TurnHandler = Callable[[TurnObserved], Any]
LoopHandler = Callable[[LoopSuspected], Any]
DiagnosisAnswer = Union[LoopOpinion, Mapping[str, Any], None]
DiagnosisHandler = Callable[[LoopDiagnosis], Union[DiagnosisAnswer, Awaitable[DiagnosisAnswer]]]


def approval_of(answer: Any) -> ApprovalAnswer:
    """What a handler returned, as one thing.

    Raises:
        TypeError: It returned something else. Nothing but the very word approves.
    """
    if answer is None:
        return ApprovalAnswer.leave()
    if not isinstance(answer, ApprovalAnswer):
        raise TypeError(f"a hook of approvals must return ApprovalAnswer or None, not {type(answer).__name__}")
    return answer


def opinion_of(answer: Any) -> LoopOpinion:
    """What a handler returned, as one thing.

    Raises:
        TypeError, ValueError: It returned something else.
    """
    if answer is None:
        return LoopOpinion(is_loop=False)
    if isinstance(answer, Mapping):
        answer = LoopOpinion(**answer)
    if not isinstance(answer, LoopOpinion):
        raise TypeError(f"a hook that diagnoses must return LoopOpinion or None, not {type(answer).__name__}")
    return answer


def _nothing(answer: Any) -> None:
    """Who is only told may return whatever it likes."""


_READERS: dict[HookPoint, Callable[[Any], HookAnswer]] = {
    "before_tool_call": before_of,
    "after_tool_call": after_of,
    "after_tool_failure": after_of,
    "approval_requested": approval_of,
    "turn_started": _nothing,
    "turn_finished": _nothing,
    "loop_suspected": _nothing,
    "loop_diagnose": opinion_of,
}
HOOK_POINTS = tuple(_READERS)
ONLY_TOLD: tuple[HookPoint, ...] = ("turn_started", "turn_finished", "loop_suspected")


def answer_of(point: HookPoint, answer: Any) -> HookAnswer:
    """What a handler at a point returned, as one thing. None: nothing is awaited there.

    Raises:
        TypeError, ValueError: It returned something else.
    """
    return _READERS[point](answer)
