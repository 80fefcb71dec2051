from . import errors_pb2 as _errors_pb2
from . import permission_pb2 as _permission_pb2
from . import provider_pb2 as _provider_pb2
from . import stream_pb2 as _stream_pb2
from . import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ResultDelivery(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESULT_DELIVERY_UNSPECIFIED: _ClassVar[ResultDelivery]
    RESULT_DELIVERY_AT_END: _ClassVar[ResultDelivery]
    RESULT_DELIVERY_AS_COMPLETED: _ClassVar[ResultDelivery]
    RESULT_DELIVERY_BOTH: _ClassVar[ResultDelivery]

class OnDisconnect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_DISCONNECT_UNSPECIFIED: _ClassVar[OnDisconnect]
    ON_DISCONNECT_KEEP: _ClassVar[OnDisconnect]
    ON_DISCONNECT_CANCEL: _ClassVar[OnDisconnect]

class OnSuspend(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ON_SUSPEND_UNSPECIFIED: _ClassVar[OnSuspend]
    ON_SUSPEND_WAIT: _ClassVar[OnSuspend]
    ON_SUSPEND_END: _ClassVar[OnSuspend]

class TurnOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TURN_OUTCOME_UNSPECIFIED: _ClassVar[TurnOutcome]
    TURN_OUTCOME_COMPLETED: _ClassVar[TurnOutcome]
    TURN_OUTCOME_CANCELLED: _ClassVar[TurnOutcome]
    TURN_OUTCOME_ABORTED: _ClassVar[TurnOutcome]
    TURN_OUTCOME_LOOP_DETECTED: _ClassVar[TurnOutcome]
    TURN_OUTCOME_ERROR: _ClassVar[TurnOutcome]

class StopReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_REASON_UNSPECIFIED: _ClassVar[StopReason]
    STOP_REASON_TOOL: _ClassVar[StopReason]
    STOP_REASON_HOOK: _ClassVar[StopReason]
    STOP_REASON_RUN_ENDED: _ClassVar[StopReason]

class TurnState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TURN_STATE_UNSPECIFIED: _ClassVar[TurnState]
    TURN_STATE_RUNNING: _ClassVar[TurnState]
    TURN_STATE_SUSPENDED: _ClassVar[TurnState]
    TURN_STATE_COMPLETED: _ClassVar[TurnState]
RESULT_DELIVERY_UNSPECIFIED: ResultDelivery
RESULT_DELIVERY_AT_END: ResultDelivery
RESULT_DELIVERY_AS_COMPLETED: ResultDelivery
RESULT_DELIVERY_BOTH: ResultDelivery
ON_DISCONNECT_UNSPECIFIED: OnDisconnect
ON_DISCONNECT_KEEP: OnDisconnect
ON_DISCONNECT_CANCEL: OnDisconnect
ON_SUSPEND_UNSPECIFIED: OnSuspend
ON_SUSPEND_WAIT: OnSuspend
ON_SUSPEND_END: OnSuspend
TURN_OUTCOME_UNSPECIFIED: TurnOutcome
TURN_OUTCOME_COMPLETED: TurnOutcome
TURN_OUTCOME_CANCELLED: TurnOutcome
TURN_OUTCOME_ABORTED: TurnOutcome
TURN_OUTCOME_LOOP_DETECTED: TurnOutcome
TURN_OUTCOME_ERROR: TurnOutcome
STOP_REASON_UNSPECIFIED: StopReason
STOP_REASON_TOOL: StopReason
STOP_REASON_HOOK: StopReason
STOP_REASON_RUN_ENDED: StopReason
TURN_STATE_UNSPECIFIED: TurnState
TURN_STATE_RUNNING: TurnState
TURN_STATE_SUSPENDED: TurnState
TURN_STATE_COMPLETED: TurnState

class RunTurnRequest(_message.Message):
    __slots__ = ("session_id", "turn_id", "calls", "provider_message", "run_id", "toolset", "tool_snapshot_id", "view", "on_disconnect", "on_suspend", "command_rules", "batch_policy", "max_parallel", "timeout_ms", "model_message", "history_json", "trace")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOLSET_FIELD_NUMBER: _ClassVar[int]
    TOOL_SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    ON_DISCONNECT_FIELD_NUMBER: _ClassVar[int]
    ON_SUSPEND_FIELD_NUMBER: _ClassVar[int]
    COMMAND_RULES_FIELD_NUMBER: _ClassVar[int]
    BATCH_POLICY_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    MODEL_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HISTORY_JSON_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    turn_id: str
    calls: _containers.RepeatedCompositeFieldContainer[_types_pb2.ToolCall]
    provider_message: _provider_pb2.ProviderMessage
    run_id: str
    toolset: str
    tool_snapshot_id: str
    view: TurnView
    on_disconnect: OnDisconnect
    on_suspend: OnSuspend
    command_rules: _containers.RepeatedCompositeFieldContainer[_permission_pb2.RuleSpec]
    batch_policy: _types_pb2.BatchPolicy
    max_parallel: int
    timeout_ms: int
    model_message: bytes
    history_json: bytes
    trace: _types_pb2.TraceContext
    def __init__(self, session_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., calls: _Optional[_Iterable[_Union[_types_pb2.ToolCall, _Mapping]]] = ..., provider_message: _Optional[_Union[_provider_pb2.ProviderMessage, _Mapping]] = ..., run_id: _Optional[str] = ..., toolset: _Optional[str] = ..., tool_snapshot_id: _Optional[str] = ..., view: _Optional[_Union[TurnView, _Mapping]] = ..., on_disconnect: _Optional[_Union[OnDisconnect, str]] = ..., on_suspend: _Optional[_Union[OnSuspend, str]] = ..., command_rules: _Optional[_Iterable[_Union[_permission_pb2.RuleSpec, _Mapping]]] = ..., batch_policy: _Optional[_Union[_types_pb2.BatchPolicy, str]] = ..., max_parallel: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., model_message: _Optional[bytes] = ..., history_json: _Optional[bytes] = ..., trace: _Optional[_Union[_types_pb2.TraceContext, _Mapping]] = ...) -> None: ...

class TurnView(_message.Message):
    __slots__ = ("result_delivery", "include_output", "exclude_progress", "max_message_bytes", "results_format")
    RESULT_DELIVERY_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FORMAT_FIELD_NUMBER: _ClassVar[int]
    result_delivery: ResultDelivery
    include_output: bool
    exclude_progress: bool
    max_message_bytes: int
    results_format: _provider_pb2.ProviderFormat
    def __init__(self, result_delivery: _Optional[_Union[ResultDelivery, str]] = ..., include_output: bool = ..., exclude_progress: bool = ..., max_message_bytes: _Optional[int] = ..., results_format: _Optional[_Union[_provider_pb2.ProviderFormat, str]] = ...) -> None: ...

class RunTurnResponse(_message.Message):
    __slots__ = ("turn",)
    TURN_FIELD_NUMBER: _ClassVar[int]
    turn: TurnEvents
    def __init__(self, turn: _Optional[_Union[TurnEvents, _Mapping]] = ...) -> None: ...

class TurnEvents(_message.Message):
    __slots__ = ("turn_id", "epoch", "snapshot", "events")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    epoch: int
    snapshot: Turn
    events: _containers.RepeatedCompositeFieldContainer[TurnEvent]
    def __init__(self, turn_id: _Optional[str] = ..., epoch: _Optional[int] = ..., snapshot: _Optional[_Union[Turn, _Mapping]] = ..., events: _Optional[_Iterable[_Union[TurnEvent, _Mapping]]] = ...) -> None: ...

class TurnEvent(_message.Message):
    __slots__ = ("sequence", "occurred_at_ms", "call_state_changed", "call_completed", "turn_accepted", "turn_completed", "approval_required", "turn_suspended", "loop_detected", "call_progress", "call_output", "heartbeat")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CALL_STATE_CHANGED_FIELD_NUMBER: _ClassVar[int]
    CALL_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    TURN_ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    TURN_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    TURN_SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    LOOP_DETECTED_FIELD_NUMBER: _ClassVar[int]
    CALL_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    CALL_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    occurred_at_ms: int
    call_state_changed: CallStateChanged
    call_completed: CallCompleted
    turn_accepted: TurnAccepted
    turn_completed: TurnCompleted
    approval_required: ApprovalRequired
    turn_suspended: TurnSuspended
    loop_detected: LoopDetected
    call_progress: CallProgress
    call_output: CallOutput
    heartbeat: TurnHeartbeat
    def __init__(self, sequence: _Optional[int] = ..., occurred_at_ms: _Optional[int] = ..., call_state_changed: _Optional[_Union[CallStateChanged, _Mapping]] = ..., call_completed: _Optional[_Union[CallCompleted, _Mapping]] = ..., turn_accepted: _Optional[_Union[TurnAccepted, _Mapping]] = ..., turn_completed: _Optional[_Union[TurnCompleted, _Mapping]] = ..., approval_required: _Optional[_Union[ApprovalRequired, _Mapping]] = ..., turn_suspended: _Optional[_Union[TurnSuspended, _Mapping]] = ..., loop_detected: _Optional[_Union[LoopDetected, _Mapping]] = ..., call_progress: _Optional[_Union[CallProgress, _Mapping]] = ..., call_output: _Optional[_Union[CallOutput, _Mapping]] = ..., heartbeat: _Optional[_Union[TurnHeartbeat, _Mapping]] = ...) -> None: ...

class TurnAccepted(_message.Message):
    __slots__ = ("session_id", "run_id", "batch_id", "calls", "batch_policy", "round")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    BATCH_POLICY_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    run_id: str
    batch_id: str
    calls: _containers.RepeatedCompositeFieldContainer[AcceptedCall]
    batch_policy: _types_pb2.BatchPolicy
    round: int
    def __init__(self, session_id: _Optional[str] = ..., run_id: _Optional[str] = ..., batch_id: _Optional[str] = ..., calls: _Optional[_Iterable[_Union[AcceptedCall, _Mapping]]] = ..., batch_policy: _Optional[_Union[_types_pb2.BatchPolicy, str]] = ..., round: _Optional[int] = ...) -> None: ...

class AcceptedCall(_message.Message):
    __slots__ = ("call_id", "tool", "minted")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    MINTED_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    tool: str
    minted: bool
    def __init__(self, call_id: _Optional[str] = ..., tool: _Optional[str] = ..., minted: bool = ...) -> None: ...

class CallStateChanged(_message.Message):
    __slots__ = ("call_id", "state", "previous_state", "code")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_STATE_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    state: _types_pb2.CallState
    previous_state: _types_pb2.CallState
    code: str
    def __init__(self, call_id: _Optional[str] = ..., state: _Optional[_Union[_types_pb2.CallState, str]] = ..., previous_state: _Optional[_Union[_types_pb2.CallState, str]] = ..., code: _Optional[str] = ...) -> None: ...

class ApprovalRequired(_message.Message):
    __slots__ = ("batch_id", "approvals")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    APPROVALS_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    approvals: _containers.RepeatedCompositeFieldContainer[ApprovalSummary]
    def __init__(self, batch_id: _Optional[str] = ..., approvals: _Optional[_Iterable[_Union[ApprovalSummary, _Mapping]]] = ...) -> None: ...

class ApprovalSummary(_message.Message):
    __slots__ = ("approval_id", "call_id", "tool", "risk_level", "verdict", "expires_at_ms")
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    RISK_LEVEL_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    approval_id: str
    call_id: str
    tool: str
    risk_level: _types_pb2.RiskLevel
    verdict: _types_pb2.PermissionVerdict
    expires_at_ms: int
    def __init__(self, approval_id: _Optional[str] = ..., call_id: _Optional[str] = ..., tool: _Optional[str] = ..., risk_level: _Optional[_Union[_types_pb2.RiskLevel, str]] = ..., verdict: _Optional[_Union[_types_pb2.PermissionVerdict, _Mapping]] = ..., expires_at_ms: _Optional[int] = ...) -> None: ...

class TurnSuspended(_message.Message):
    __slots__ = ("batch_id", "approval_ids")
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_IDS_FIELD_NUMBER: _ClassVar[int]
    batch_id: str
    approval_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, batch_id: _Optional[str] = ..., approval_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CallCompleted(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: _types_pb2.CallResult
    def __init__(self, result: _Optional[_Union[_types_pb2.CallResult, _Mapping]] = ...) -> None: ...

class LoopDetected(_message.Message):
    __slots__ = ("detector", "reason", "call_ids", "period", "repetitions", "confidence")
    DETECTOR_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CALL_IDS_FIELD_NUMBER: _ClassVar[int]
    PERIOD_FIELD_NUMBER: _ClassVar[int]
    REPETITIONS_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    detector: _types_pb2.LoopDetector
    reason: str
    call_ids: _containers.RepeatedScalarFieldContainer[str]
    period: int
    repetitions: int
    confidence: float
    def __init__(self, detector: _Optional[_Union[_types_pb2.LoopDetector, str]] = ..., reason: _Optional[str] = ..., call_ids: _Optional[_Iterable[str]] = ..., period: _Optional[int] = ..., repetitions: _Optional[int] = ..., confidence: _Optional[float] = ...) -> None: ...

class CallProgress(_message.Message):
    __slots__ = ("call_id", "message", "fraction", "details_json")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    DETAILS_JSON_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    message: str
    fraction: float
    details_json: bytes
    def __init__(self, call_id: _Optional[str] = ..., message: _Optional[str] = ..., fraction: _Optional[float] = ..., details_json: _Optional[bytes] = ...) -> None: ...

class CallOutput(_message.Message):
    __slots__ = ("call_id", "channel", "chunk_sequence", "data", "dropped_bytes")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    CHUNK_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BYTES_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    channel: _types_pb2.OutputChannel
    chunk_sequence: int
    data: bytes
    dropped_bytes: int
    def __init__(self, call_id: _Optional[str] = ..., channel: _Optional[_Union[_types_pb2.OutputChannel, str]] = ..., chunk_sequence: _Optional[int] = ..., data: _Optional[bytes] = ..., dropped_bytes: _Optional[int] = ...) -> None: ...

class TurnHeartbeat(_message.Message):
    __slots__ = ("waiting_for",)
    WAITING_FOR_FIELD_NUMBER: _ClassVar[int]
    waiting_for: str
    def __init__(self, waiting_for: _Optional[str] = ...) -> None: ...

class TurnCompleted(_message.Message):
    __slots__ = ("outcome", "results", "closing_results", "stop", "stop_reason", "injected_messages", "additional_contexts", "provider_messages", "run", "error")
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    CLOSING_RESULTS_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    INJECTED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_CONTEXTS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    outcome: TurnOutcome
    results: _containers.RepeatedCompositeFieldContainer[_types_pb2.CallResult]
    closing_results: ClosingResults
    stop: bool
    stop_reason: StopReason
    injected_messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.InjectedMessage]
    additional_contexts: _containers.RepeatedCompositeFieldContainer[_types_pb2.AdditionalContext]
    provider_messages: _provider_pb2.ProviderMessages
    run: _types_pb2.Run
    error: _types_pb2.ToolError
    def __init__(self, outcome: _Optional[_Union[TurnOutcome, str]] = ..., results: _Optional[_Iterable[_Union[_types_pb2.CallResult, _Mapping]]] = ..., closing_results: _Optional[_Union[ClosingResults, _Mapping]] = ..., stop: bool = ..., stop_reason: _Optional[_Union[StopReason, str]] = ..., injected_messages: _Optional[_Iterable[_Union[_types_pb2.InjectedMessage, _Mapping]]] = ..., additional_contexts: _Optional[_Iterable[_Union[_types_pb2.AdditionalContext, _Mapping]]] = ..., provider_messages: _Optional[_Union[_provider_pb2.ProviderMessages, _Mapping]] = ..., run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ..., error: _Optional[_Union[_types_pb2.ToolError, _Mapping]] = ...) -> None: ...

class ClosingResults(_message.Message):
    __slots__ = ("history_only", "results", "provider_messages")
    HISTORY_ONLY_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    history_only: bool
    results: _containers.RepeatedCompositeFieldContainer[_types_pb2.CallResult]
    provider_messages: _provider_pb2.ProviderMessages
    def __init__(self, history_only: bool = ..., results: _Optional[_Iterable[_Union[_types_pb2.CallResult, _Mapping]]] = ..., provider_messages: _Optional[_Union[_provider_pb2.ProviderMessages, _Mapping]] = ...) -> None: ...

class Turn(_message.Message):
    __slots__ = ("turn_id", "session_id", "run_id", "batch_id", "state", "calls", "epoch", "last_sequence", "model_message", "completed", "accepted_at_ms", "updated_at_ms")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    MODEL_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COMPLETED_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    session_id: str
    run_id: str
    batch_id: str
    state: TurnState
    calls: _containers.RepeatedCompositeFieldContainer[TurnCall]
    epoch: int
    last_sequence: int
    model_message: bytes
    completed: TurnCompleted
    accepted_at_ms: int
    updated_at_ms: int
    def __init__(self, turn_id: _Optional[str] = ..., session_id: _Optional[str] = ..., run_id: _Optional[str] = ..., batch_id: _Optional[str] = ..., state: _Optional[_Union[TurnState, str]] = ..., calls: _Optional[_Iterable[_Union[TurnCall, _Mapping]]] = ..., epoch: _Optional[int] = ..., last_sequence: _Optional[int] = ..., model_message: _Optional[bytes] = ..., completed: _Optional[_Union[TurnCompleted, _Mapping]] = ..., accepted_at_ms: _Optional[int] = ..., updated_at_ms: _Optional[int] = ...) -> None: ...

class TurnCall(_message.Message):
    __slots__ = ("call", "tool", "state", "approval_id", "effective_arguments_json")
    CALL_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    call: _types_pb2.ToolCall
    tool: str
    state: _types_pb2.CallState
    approval_id: str
    effective_arguments_json: bytes
    def __init__(self, call: _Optional[_Union[_types_pb2.ToolCall, _Mapping]] = ..., tool: _Optional[str] = ..., state: _Optional[_Union[_types_pb2.CallState, str]] = ..., approval_id: _Optional[str] = ..., effective_arguments_json: _Optional[bytes] = ...) -> None: ...

class StreamTurnsRequest(_message.Message):
    __slots__ = ("run", "attach", "cancel_turn", "cancel_call", "detach")
    RUN_FIELD_NUMBER: _ClassVar[int]
    ATTACH_FIELD_NUMBER: _ClassVar[int]
    CANCEL_TURN_FIELD_NUMBER: _ClassVar[int]
    CANCEL_CALL_FIELD_NUMBER: _ClassVar[int]
    DETACH_FIELD_NUMBER: _ClassVar[int]
    run: RunTurnRequest
    attach: AttachTurnRequest
    cancel_turn: CancelTurnRequest
    cancel_call: CancelCallRequest
    detach: DetachTurn
    def __init__(self, run: _Optional[_Union[RunTurnRequest, _Mapping]] = ..., attach: _Optional[_Union[AttachTurnRequest, _Mapping]] = ..., cancel_turn: _Optional[_Union[CancelTurnRequest, _Mapping]] = ..., cancel_call: _Optional[_Union[CancelCallRequest, _Mapping]] = ..., detach: _Optional[_Union[DetachTurn, _Mapping]] = ...) -> None: ...

class DetachTurn(_message.Message):
    __slots__ = ("turn_id",)
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    def __init__(self, turn_id: _Optional[str] = ...) -> None: ...

class StreamTurnsResponse(_message.Message):
    __slots__ = ("turn", "refused", "detached", "go_away", "notice")
    TURN_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    DETACHED_FIELD_NUMBER: _ClassVar[int]
    GO_AWAY_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    turn: TurnEvents
    refused: TurnRefused
    detached: TurnDetached
    go_away: _stream_pb2.GoAway
    notice: _stream_pb2.Notice
    def __init__(self, turn: _Optional[_Union[TurnEvents, _Mapping]] = ..., refused: _Optional[_Union[TurnRefused, _Mapping]] = ..., detached: _Optional[_Union[TurnDetached, _Mapping]] = ..., go_away: _Optional[_Union[_stream_pb2.GoAway, _Mapping]] = ..., notice: _Optional[_Union[_stream_pb2.Notice, _Mapping]] = ...) -> None: ...

class TurnRefused(_message.Message):
    __slots__ = ("turn_id", "error")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    error: _errors_pb2.RpcError
    def __init__(self, turn_id: _Optional[str] = ..., error: _Optional[_Union[_errors_pb2.RpcError, _Mapping]] = ...) -> None: ...

class TurnDetached(_message.Message):
    __slots__ = ("turn_id", "last_sequence", "error")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    last_sequence: int
    error: _errors_pb2.RpcError
    def __init__(self, turn_id: _Optional[str] = ..., last_sequence: _Optional[int] = ..., error: _Optional[_Union[_errors_pb2.RpcError, _Mapping]] = ...) -> None: ...

class AttachTurnRequest(_message.Message):
    __slots__ = ("turn_id", "session_id", "epoch", "after_sequence", "view", "on_suspend")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    ON_SUSPEND_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    session_id: str
    epoch: int
    after_sequence: int
    view: TurnView
    on_suspend: OnSuspend
    def __init__(self, turn_id: _Optional[str] = ..., session_id: _Optional[str] = ..., epoch: _Optional[int] = ..., after_sequence: _Optional[int] = ..., view: _Optional[_Union[TurnView, _Mapping]] = ..., on_suspend: _Optional[_Union[OnSuspend, str]] = ...) -> None: ...

class AttachTurnResponse(_message.Message):
    __slots__ = ("turn",)
    TURN_FIELD_NUMBER: _ClassVar[int]
    turn: TurnEvents
    def __init__(self, turn: _Optional[_Union[TurnEvents, _Mapping]] = ...) -> None: ...

class CancelTurnRequest(_message.Message):
    __slots__ = ("turn_id", "session_id", "reason", "grace_ms")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    session_id: str
    reason: str
    grace_ms: int
    def __init__(self, turn_id: _Optional[str] = ..., session_id: _Optional[str] = ..., reason: _Optional[str] = ..., grace_ms: _Optional[int] = ...) -> None: ...

class CancelTurnResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: TurnState
    def __init__(self, state: _Optional[_Union[TurnState, str]] = ...) -> None: ...

class CancelCallRequest(_message.Message):
    __slots__ = ("turn_id", "session_id", "call_id", "reason", "grace_ms")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    session_id: str
    call_id: str
    reason: str
    grace_ms: int
    def __init__(self, turn_id: _Optional[str] = ..., session_id: _Optional[str] = ..., call_id: _Optional[str] = ..., reason: _Optional[str] = ..., grace_ms: _Optional[int] = ...) -> None: ...

class CancelCallResponse(_message.Message):
    __slots__ = ("state",)
    STATE_FIELD_NUMBER: _ClassVar[int]
    state: _types_pb2.CallState
    def __init__(self, state: _Optional[_Union[_types_pb2.CallState, str]] = ...) -> None: ...

class GetTurnRequest(_message.Message):
    __slots__ = ("turn_id", "session_id")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    session_id: str
    def __init__(self, turn_id: _Optional[str] = ..., session_id: _Optional[str] = ...) -> None: ...

class GetTurnResponse(_message.Message):
    __slots__ = ("turn",)
    TURN_FIELD_NUMBER: _ClassVar[int]
    turn: Turn
    def __init__(self, turn: _Optional[_Union[Turn, _Mapping]] = ...) -> None: ...

class ListTurnsRequest(_message.Message):
    __slots__ = ("session_id", "run_id", "state", "page_size", "page_token")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    run_id: str
    state: TurnState
    page_size: int
    page_token: str
    def __init__(self, session_id: _Optional[str] = ..., run_id: _Optional[str] = ..., state: _Optional[_Union[TurnState, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListTurnsResponse(_message.Message):
    __slots__ = ("turns", "next_page_token")
    TURNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    turns: _containers.RepeatedCompositeFieldContainer[Turn]
    next_page_token: str
    def __init__(self, turns: _Optional[_Iterable[_Union[Turn, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetCallResultRequest(_message.Message):
    __slots__ = ("turn_id", "session_id", "call_id")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    session_id: str
    call_id: str
    def __init__(self, turn_id: _Optional[str] = ..., session_id: _Optional[str] = ..., call_id: _Optional[str] = ...) -> None: ...

class GetCallResultResponse(_message.Message):
    __slots__ = ("result",)
    RESULT_FIELD_NUMBER: _ClassVar[int]
    result: _types_pb2.CallResult
    def __init__(self, result: _Optional[_Union[_types_pb2.CallResult, _Mapping]] = ...) -> None: ...

class EndRunRequest(_message.Message):
    __slots__ = ("session_id", "run_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    run_id: str
    def __init__(self, session_id: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class EndRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ...) -> None: ...

class CancelRunRequest(_message.Message):
    __slots__ = ("session_id", "run_id", "reason", "grace_ms")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    run_id: str
    reason: str
    grace_ms: int
    def __init__(self, session_id: _Optional[str] = ..., run_id: _Optional[str] = ..., reason: _Optional[str] = ..., grace_ms: _Optional[int] = ...) -> None: ...

class CancelRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ("session_id", "run_id")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    run_id: str
    def __init__(self, session_id: _Optional[str] = ..., run_id: _Optional[str] = ...) -> None: ...

class GetRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: _types_pb2.Run
    def __init__(self, run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ...) -> None: ...
