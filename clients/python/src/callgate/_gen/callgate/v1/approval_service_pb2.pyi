from . import errors_pb2 as _errors_pb2
from . import permission_pb2 as _permission_pb2
from . import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ApprovalChoice(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    APPROVAL_CHOICE_UNSPECIFIED: _ClassVar[ApprovalChoice]
    APPROVAL_CHOICE_ONCE: _ClassVar[ApprovalChoice]
    APPROVAL_CHOICE_SESSION: _ClassVar[ApprovalChoice]
    APPROVAL_CHOICE_DENY: _ClassVar[ApprovalChoice]
    APPROVAL_CHOICE_EDIT: _ClassVar[ApprovalChoice]
    APPROVAL_CHOICE_RESPOND: _ClassVar[ApprovalChoice]
    APPROVAL_CHOICE_CANCEL_TURN: _ClassVar[ApprovalChoice]

class ApprovalState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    APPROVAL_STATE_UNSPECIFIED: _ClassVar[ApprovalState]
    APPROVAL_STATE_PENDING: _ClassVar[ApprovalState]
    APPROVAL_STATE_APPROVED: _ClassVar[ApprovalState]
    APPROVAL_STATE_DENIED: _ClassVar[ApprovalState]
    APPROVAL_STATE_ANSWERED: _ClassVar[ApprovalState]
    APPROVAL_STATE_EXPIRED: _ClassVar[ApprovalState]
    APPROVAL_STATE_CANCELLED: _ClassVar[ApprovalState]
    APPROVAL_STATE_WITHDRAWN: _ClassVar[ApprovalState]
    APPROVAL_STATE_SUPERSEDED: _ClassVar[ApprovalState]

class DecisionStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECISION_STATUS_UNSPECIFIED: _ClassVar[DecisionStatus]
    DECISION_STATUS_TAKEN: _ClassVar[DecisionStatus]
    DECISION_STATUS_REPEATED: _ClassVar[DecisionStatus]
    DECISION_STATUS_CONFLICT: _ClassVar[DecisionStatus]
    DECISION_STATUS_REFUSED: _ClassVar[DecisionStatus]
APPROVAL_CHOICE_UNSPECIFIED: ApprovalChoice
APPROVAL_CHOICE_ONCE: ApprovalChoice
APPROVAL_CHOICE_SESSION: ApprovalChoice
APPROVAL_CHOICE_DENY: ApprovalChoice
APPROVAL_CHOICE_EDIT: ApprovalChoice
APPROVAL_CHOICE_RESPOND: ApprovalChoice
APPROVAL_CHOICE_CANCEL_TURN: ApprovalChoice
APPROVAL_STATE_UNSPECIFIED: ApprovalState
APPROVAL_STATE_PENDING: ApprovalState
APPROVAL_STATE_APPROVED: ApprovalState
APPROVAL_STATE_DENIED: ApprovalState
APPROVAL_STATE_ANSWERED: ApprovalState
APPROVAL_STATE_EXPIRED: ApprovalState
APPROVAL_STATE_CANCELLED: ApprovalState
APPROVAL_STATE_WITHDRAWN: ApprovalState
APPROVAL_STATE_SUPERSEDED: ApprovalState
DECISION_STATUS_UNSPECIFIED: DecisionStatus
DECISION_STATUS_TAKEN: DecisionStatus
DECISION_STATUS_REPEATED: DecisionStatus
DECISION_STATUS_CONFLICT: DecisionStatus
DECISION_STATUS_REFUSED: DecisionStatus

class Approval(_message.Message):
    __slots__ = ("approval_id", "batch_id", "session_id", "root_session_id", "run_id", "turn_id", "call", "tool", "owner", "tool_digest", "risk_level", "kind", "effective_arguments_json", "display_arguments", "approval_digest", "arguments_cut", "verdict", "tool_reason", "allowed_choices", "grant_candidates", "deferred", "additional_contexts", "state", "created_at_ms", "expires_at_ms", "decision", "pending_in_batch", "mode", "call_outcome", "etag")
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ROOT_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TOOL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    RISK_LEVEL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    DISPLAY_ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_CUT_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    TOOL_REASON_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_CHOICES_FIELD_NUMBER: _ClassVar[int]
    GRANT_CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    PENDING_IN_BATCH_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    CALL_OUTCOME_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    approval_id: str
    batch_id: str
    session_id: str
    root_session_id: str
    run_id: str
    turn_id: str
    call: _types_pb2.ToolCall
    tool: str
    owner: str
    tool_digest: bytes
    risk_level: _types_pb2.RiskLevel
    kind: _types_pb2.ToolKind
    effective_arguments_json: bytes
    display_arguments: str
    approval_digest: bytes
    arguments_cut: bool
    verdict: _types_pb2.PermissionVerdict
    tool_reason: str
    allowed_choices: _containers.RepeatedScalarFieldContainer[ApprovalChoice]
    grant_candidates: _containers.RepeatedCompositeFieldContainer[_permission_pb2.GrantCandidate]
    deferred: bool
    additional_contexts: _containers.RepeatedCompositeFieldContainer[_types_pb2.AdditionalContext]
    state: ApprovalState
    created_at_ms: int
    expires_at_ms: int
    decision: Decision
    pending_in_batch: int
    mode: _permission_pb2.Mode
    call_outcome: _types_pb2.CallOutcome
    etag: str
    def __init__(self, approval_id: _Optional[str] = ..., batch_id: _Optional[str] = ..., session_id: _Optional[str] = ..., root_session_id: _Optional[str] = ..., run_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., call: _Optional[_Union[_types_pb2.ToolCall, _Mapping]] = ..., tool: _Optional[str] = ..., owner: _Optional[str] = ..., tool_digest: _Optional[bytes] = ..., risk_level: _Optional[_Union[_types_pb2.RiskLevel, str]] = ..., kind: _Optional[_Union[_types_pb2.ToolKind, str]] = ..., effective_arguments_json: _Optional[bytes] = ..., display_arguments: _Optional[str] = ..., approval_digest: _Optional[bytes] = ..., arguments_cut: bool = ..., verdict: _Optional[_Union[_types_pb2.PermissionVerdict, _Mapping]] = ..., tool_reason: _Optional[str] = ..., allowed_choices: _Optional[_Iterable[_Union[ApprovalChoice, str]]] = ..., grant_candidates: _Optional[_Iterable[_Union[_permission_pb2.GrantCandidate, _Mapping]]] = ..., deferred: bool = ..., additional_contexts: _Optional[_Iterable[_Union[_types_pb2.AdditionalContext, _Mapping]]] = ..., state: _Optional[_Union[ApprovalState, str]] = ..., created_at_ms: _Optional[int] = ..., expires_at_ms: _Optional[int] = ..., decision: _Optional[_Union[Decision, _Mapping]] = ..., pending_in_batch: _Optional[int] = ..., mode: _Optional[_Union[_permission_pb2.Mode, str]] = ..., call_outcome: _Optional[_Union[_types_pb2.CallOutcome, str]] = ..., etag: _Optional[str] = ...) -> None: ...

class Decision(_message.Message):
    __slots__ = ("decision_id", "choice", "decided_by", "surface", "decided_at_ms", "message", "edited_arguments_json", "grants", "verdict")
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    SURFACE_FIELD_NUMBER: _ClassVar[int]
    DECIDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EDITED_ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    decision_id: str
    choice: ApprovalChoice
    decided_by: str
    surface: str
    decided_at_ms: int
    message: str
    edited_arguments_json: bytes
    grants: _containers.RepeatedCompositeFieldContainer[_permission_pb2.Grant]
    verdict: _types_pb2.PermissionVerdict
    def __init__(self, decision_id: _Optional[str] = ..., choice: _Optional[_Union[ApprovalChoice, str]] = ..., decided_by: _Optional[str] = ..., surface: _Optional[str] = ..., decided_at_ms: _Optional[int] = ..., message: _Optional[str] = ..., edited_arguments_json: _Optional[bytes] = ..., grants: _Optional[_Iterable[_Union[_permission_pb2.Grant, _Mapping]]] = ..., verdict: _Optional[_Union[_types_pb2.PermissionVerdict, _Mapping]] = ...) -> None: ...

class ApprovalFilter(_message.Message):
    __slots__ = ("root_session_ids", "session_id", "turn_id", "states", "min_risk_level", "tools")
    ROOT_SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    STATES_FIELD_NUMBER: _ClassVar[int]
    MIN_RISK_LEVEL_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    root_session_ids: _containers.RepeatedScalarFieldContainer[str]
    session_id: str
    turn_id: str
    states: _containers.RepeatedScalarFieldContainer[ApprovalState]
    min_risk_level: _types_pb2.RiskLevel
    tools: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, root_session_ids: _Optional[_Iterable[str]] = ..., session_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., states: _Optional[_Iterable[_Union[ApprovalState, str]]] = ..., min_risk_level: _Optional[_Union[_types_pb2.RiskLevel, str]] = ..., tools: _Optional[_Iterable[str]] = ...) -> None: ...

class ListApprovalsRequest(_message.Message):
    __slots__ = ("filter", "page_size", "page_token")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    filter: ApprovalFilter
    page_size: int
    page_token: str
    def __init__(self, filter: _Optional[_Union[ApprovalFilter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListApprovalsResponse(_message.Message):
    __slots__ = ("approvals", "next_page_token", "total")
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    approvals: _containers.RepeatedCompositeFieldContainer[Approval]
    next_page_token: str
    total: int
    def __init__(self, approvals: _Optional[_Iterable[_Union[Approval, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class GetApprovalRequest(_message.Message):
    __slots__ = ("approval_id",)
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    approval_id: str
    def __init__(self, approval_id: _Optional[str] = ...) -> None: ...

class GetApprovalResponse(_message.Message):
    __slots__ = ("approval",)
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    approval: Approval
    def __init__(self, approval: _Optional[_Union[Approval, _Mapping]] = ...) -> None: ...

class WatchApprovalsRequest(_message.Message):
    __slots__ = ("filter", "after_cursor")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    AFTER_CURSOR_FIELD_NUMBER: _ClassVar[int]
    filter: ApprovalFilter
    after_cursor: str
    def __init__(self, filter: _Optional[_Union[ApprovalFilter, _Mapping]] = ..., after_cursor: _Optional[str] = ...) -> None: ...

class WatchApprovalsResponse(_message.Message):
    __slots__ = ("approvals", "snapshot_complete", "cursor")
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    approvals: _containers.RepeatedCompositeFieldContainer[Approval]
    snapshot_complete: bool
    cursor: str
    def __init__(self, approvals: _Optional[_Iterable[_Union[Approval, _Mapping]]] = ..., snapshot_complete: bool = ..., cursor: _Optional[str] = ...) -> None: ...

class DecideApprovalsRequest(_message.Message):
    __slots__ = ("decisions",)
    DECISIONS_FIELD_NUMBER: _ClassVar[int]
    decisions: _containers.RepeatedCompositeFieldContainer[ApprovalDecision]
    def __init__(self, decisions: _Optional[_Iterable[_Union[ApprovalDecision, _Mapping]]] = ...) -> None: ...

class ApprovalDecision(_message.Message):
    __slots__ = ("approval_id", "decision_id", "approval_digest", "etag", "choice", "message", "grant_candidate_ids", "edited_arguments_json", "response")
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    DECISION_ID_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    CHOICE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    GRANT_CANDIDATE_IDS_FIELD_NUMBER: _ClassVar[int]
    EDITED_ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    approval_id: str
    decision_id: str
    approval_digest: bytes
    etag: str
    choice: ApprovalChoice
    message: str
    grant_candidate_ids: _containers.RepeatedScalarFieldContainer[str]
    edited_arguments_json: bytes
    response: _types_pb2.ToolResult
    def __init__(self, approval_id: _Optional[str] = ..., decision_id: _Optional[str] = ..., approval_digest: _Optional[bytes] = ..., etag: _Optional[str] = ..., choice: _Optional[_Union[ApprovalChoice, str]] = ..., message: _Optional[str] = ..., grant_candidate_ids: _Optional[_Iterable[str]] = ..., edited_arguments_json: _Optional[bytes] = ..., response: _Optional[_Union[_types_pb2.ToolResult, _Mapping]] = ...) -> None: ...

class DecideApprovalsResponse(_message.Message):
    __slots__ = ("outcomes",)
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedCompositeFieldContainer[DecisionOutcome]
    def __init__(self, outcomes: _Optional[_Iterable[_Union[DecisionOutcome, _Mapping]]] = ...) -> None: ...

class DecisionOutcome(_message.Message):
    __slots__ = ("approval_id", "status", "approval", "error")
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    approval_id: str
    status: DecisionStatus
    approval: Approval
    error: _errors_pb2.RpcError
    def __init__(self, approval_id: _Optional[str] = ..., status: _Optional[_Union[DecisionStatus, str]] = ..., approval: _Optional[_Union[Approval, _Mapping]] = ..., error: _Optional[_Union[_errors_pb2.RpcError, _Mapping]] = ...) -> None: ...
