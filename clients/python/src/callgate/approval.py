"""Approvals as an approver sees them: what waits, what can be chosen, what became of it.

Plain data. Knows neither protobuf nor sockets.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import CallgateError
from .permission import Grant, GrantCandidate, Mode, PermissionVerdict
from .result import Outcome, Sealed, ToolResult, from_value, seal, to_json
from .tool import Kind, Risk
from .turns import ToolCall, check_type

ApprovalChoice = Literal["once", "session", "deny", "edit", "respond", "cancel_turn"]
# All but "pending" are final. "unknown" is one that is newer than this SDK.
ApprovalState = Literal[
    "pending", "approved", "denied", "answered", "expired", "cancelled", "withdrawn", "superseded", "unknown"
]
DecisionStatus = Literal["taken", "repeated", "conflict", "refused", "unknown"]

CHOICES: tuple[ApprovalChoice, ...] = ("once", "session", "deny", "edit", "respond", "cancel_turn")


@dataclass(frozen=True, slots=True)
class ApprovalRef:
    """What a decision needs of the approval that a person saw.

    Small enough to travel in a button or a link. The digest binds the decision to
    exactly these arguments, so keep it from what was shown; read anew, it would
    be that of something nobody has seen. An empty `etag` takes the approval as it
    is by then.
    """

    approval_id: str
    digest: bytes
    etag: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision as it was recorded.

    Attributes:
        choice: None: nobody chose; `verdict` says which rule, mode or grant did.
        decided_by: The approver, or the sidecar.
        surface: What the approver used, by its own word.
        edited_arguments_json: What it put in. Empty: unchanged.
        grants: What was stored for the session.
    """

    decision_id: str
    choice: ApprovalChoice | Literal["unknown"] | None
    decided_by: str = ""
    surface: str = ""
    decided_at_ms: int = 0
    message: str = ""
    edited_arguments_json: bytes = b""
    grants: tuple[Grant, ...] = ()
    verdict: PermissionVerdict | None = None


@dataclass(frozen=True, slots=True)
class Approval:
    """A call that waits for a decision, or had one.

    Attributes:
        call: The call as the model made it.
        effective_arguments_json: The arguments that would run.
        display_arguments: The same for people; characters that could mislead are
            written as escapes. Show this, not the raw text.
        arguments_cut: Both are cut; `Approvals.get` has them whole. Who has not
            seen the end should not approve.
        digest: Over everything that would run. A decision carries it.
        verdict: Why it is asked.
        tool_reason: The tool's own words, if its permission check asked. Empty: none.
        allowed_choices: What can be chosen.
        grant_candidates: What "session" would store.
        expires_at_ms: Unix time. None: never.
        decision: None while undecided.
        pending_in_batch: How many of its batch still wait, this one included.
        mode: The session's when it began to wait.
        call_outcome: How the call ended. None: it has not.
        etag: Changes with every change.
    """

    approval_id: str
    batch_id: str
    session_id: str
    root_session_id: str
    run_id: str
    turn_id: str
    call: ToolCall
    tool: str
    owner: str
    tool_digest: bytes
    risk: Risk
    kind: Kind
    effective_arguments_json: bytes
    display_arguments: str
    arguments_cut: bool
    digest: bytes
    verdict: PermissionVerdict
    allowed_choices: tuple[ApprovalChoice, ...]
    grant_candidates: tuple[GrantCandidate, ...]
    state: ApprovalState
    created_at_ms: int
    expires_at_ms: int | None
    decision: Decision | None
    pending_in_batch: int
    mode: Mode
    call_outcome: Outcome | None
    etag: str
    tool_reason: str = ""

    @property
    def pending(self) -> bool:
        """Whether it waits."""
        return self.state == "pending"

    @property
    def arguments(self) -> Any:
        """The arguments that would run, as values.

        Raises:
            ValueError: They are cut; ask `Approvals.get`.
        """
        if self.arguments_cut:
            raise ValueError("the arguments are cut; Approvals.get has them whole")
        return json.loads(self.effective_arguments_json or b"{}")

    @property
    def ref(self) -> ApprovalRef:
        """What a decision needs of it."""
        return ApprovalRef(self.approval_id, self.digest, self.etag)


@dataclass(frozen=True, slots=True)
class ApprovalUpdate:
    """What a watch tells.

    `snapshot`: these are all that wait, in place of whatever was held before;
    otherwise they are those that changed, as they are now. `cursor` resumes behind
    this update.
    """

    approvals: tuple[Approval, ...]
    snapshot: bool
    cursor: str


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """One decision, before it is taken.

    Sent twice, the same object is known as one decision: its id stays.

    Attributes:
        approval: The approval as its approver saw it.
        choice: What it chooses.
        message: With "deny" and "cancel_turn" for the model and the record,
            otherwise for the record. At most 4 KiB.
        candidates: With "session": candidates of the approval, or their ids, one per
            undecided segment. Empty is enough if there is one in all.
        arguments: With "edit": the whole new arguments, as a value or as text.
        response: With "respond": the call's result, anything that a handler could return.

    Raises:
        TypeError, ValueError: A field is of the wrong type, missing, or of another choice.
    """

    approval: Approval | ApprovalRef
    choice: ApprovalChoice
    message: str = ""
    candidates: tuple[GrantCandidate | str, ...] = ()
    arguments: Mapping[str, Any] | str | bytes | None = None
    response: Any = None
    decision_id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def __post_init__(self) -> None:
        check_type("approval", self.approval, Approval, ApprovalRef)
        check_type("message", self.message, str)
        check_type("candidates", self.candidates, tuple)
        check_type("arguments", self.arguments, Mapping, str, bytes, type(None))
        check_type("decision_id", self.decision_id, str)
        if self.choice not in CHOICES:
            raise ValueError(f"choice must be one of {', '.join(CHOICES)}, not {self.choice!r}")
        if self.candidates and self.choice != "session":
            raise ValueError(f"candidates belong to `session`, not to `{self.choice}`")
        if (self.arguments is not None) != (self.choice == "edit"):
            raise ValueError("arguments belong to `edit`, and it needs them")
        if self.response is not None and self.choice != "respond":
            raise ValueError(f"response belongs to `respond`, not to `{self.choice}`")

    @property
    def ref(self) -> ApprovalRef:
        """What it is about."""
        return self.approval.ref if isinstance(self.approval, Approval) else self.approval

    @property
    def candidate_ids(self) -> tuple[str, ...]:
        """The candidates by their ids."""
        return tuple(item if isinstance(item, str) else item.candidate_id for item in self.candidates)

    @property
    def arguments_json(self) -> bytes:
        """The new arguments as they travel. Text is not checked: the sidecar does that."""
        if self.arguments is None:
            return b""
        if isinstance(self.arguments, bytes):
            return self.arguments
        text = self.arguments if isinstance(self.arguments, str) else to_json(dict(self.arguments))
        return text.encode("utf-8", "surrogatepass")


def answer_of(response: Any) -> Sealed:
    """The result that an approver gives in the tool's place, ready to send.

    Raises:
        ValueError: It cannot be sent. An approver must never answer with an error by accident.
    """
    sealed = seal(from_value(response))
    error = sealed.result.error
    meant = isinstance(response, ToolResult) and response.is_error
    if error is not None and not meant:
        raise ValueError(error.message)
    return sealed


@dataclass(frozen=True, slots=True)
class DecisionOutcome:
    """What became of one decision.

    Attributes:
        status: "taken": it holds. "repeated": the same was decided before, by this or
            another approver. "conflict": decided otherwise before, or no longer
            pending. "refused": not taken for another reason, and nothing changed.
        approval: The approval now; for "conflict" with the winner in `decision`. None
            if it is unknown.
        error: Why it was not taken: `DecisionConflict` or `DecisionRefused`. None with
            "taken" and "repeated".
    """

    approval_id: str
    status: DecisionStatus
    approval: Approval | None = None
    error: CallgateError | None = None

    def raise_for_error(self) -> DecisionOutcome:
        """Returns the outcome, or raises its error.

        Raises:
            DecisionConflict, DecisionRefused: It was not taken.
        """
        if self.error is not None:
            raise self.error
        return self
