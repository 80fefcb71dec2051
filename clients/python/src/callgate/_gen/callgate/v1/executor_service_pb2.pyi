from . import errors_pb2 as _errors_pb2
from . import permission_pb2 as _permission_pb2
from . import stream_pb2 as _stream_pb2
from . import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExecutorCapability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXECUTOR_CAPABILITY_UNSPECIFIED: _ClassVar[ExecutorCapability]
    EXECUTOR_CAPABILITY_RESUME: _ClassVar[ExecutorCapability]
    EXECUTOR_CAPABILITY_OUTPUT: _ClassVar[ExecutorCapability]
    EXECUTOR_CAPABILITY_RESOLVE_FACTS: _ClassVar[ExecutorCapability]

class InFlightState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IN_FLIGHT_STATE_UNSPECIFIED: _ClassVar[InFlightState]
    IN_FLIGHT_STATE_QUEUED: _ClassVar[InFlightState]
    IN_FLIGHT_STATE_RUNNING: _ClassVar[InFlightState]
    IN_FLIGHT_STATE_FINISHED: _ClassVar[InFlightState]

class InFlightAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    IN_FLIGHT_ACTION_UNSPECIFIED: _ClassVar[InFlightAction]
    IN_FLIGHT_ACTION_CONTINUE: _ClassVar[InFlightAction]
    IN_FLIGHT_ACTION_CANCEL: _ClassVar[InFlightAction]
    IN_FLIGHT_ACTION_SEND_RESULT: _ClassVar[InFlightAction]
    IN_FLIGHT_ACTION_FORGET: _ClassVar[InFlightAction]

class RejectReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REJECT_REASON_UNSPECIFIED: _ClassVar[RejectReason]
    REJECT_REASON_BUSY: _ClassVar[RejectReason]
    REJECT_REASON_DRAINING: _ClassVar[RejectReason]
    REJECT_REASON_UNKNOWN_TOOL: _ClassVar[RejectReason]
    REJECT_REASON_BAD_ARGUMENTS: _ClassVar[RejectReason]
    REJECT_REASON_TOO_LARGE: _ClassVar[RejectReason]

class ResultAckStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RESULT_ACK_STATUS_UNSPECIFIED: _ClassVar[ResultAckStatus]
    RESULT_ACK_STATUS_RECORDED: _ClassVar[ResultAckStatus]
    RESULT_ACK_STATUS_ALREADY_RECORDED: _ClassVar[ResultAckStatus]
    RESULT_ACK_STATUS_LATE: _ClassVar[ResultAckStatus]
    RESULT_ACK_STATUS_STALE: _ClassVar[ResultAckStatus]
    RESULT_ACK_STATUS_UNKNOWN_EXECUTION: _ClassVar[ResultAckStatus]

class CancelReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CANCEL_REASON_UNSPECIFIED: _ClassVar[CancelReason]
    CANCEL_REASON_CALL_CANCELLED: _ClassVar[CancelReason]
    CANCEL_REASON_TURN_CANCELLED: _ClassVar[CancelReason]
    CANCEL_REASON_RUN_ENDED: _ClassVar[CancelReason]
    CANCEL_REASON_DEADLINE: _ClassVar[CancelReason]
    CANCEL_REASON_SHUTDOWN: _ClassVar[CancelReason]

class PermissionCheckVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PERMISSION_CHECK_VERDICT_UNSPECIFIED: _ClassVar[PermissionCheckVerdict]
    PERMISSION_CHECK_VERDICT_DENY: _ClassVar[PermissionCheckVerdict]
    PERMISSION_CHECK_VERDICT_ASK: _ClassVar[PermissionCheckVerdict]
    PERMISSION_CHECK_VERDICT_ASK_FIRM: _ClassVar[PermissionCheckVerdict]
    PERMISSION_CHECK_VERDICT_ALLOW: _ClassVar[PermissionCheckVerdict]
    PERMISSION_CHECK_VERDICT_PASSTHROUGH: _ClassVar[PermissionCheckVerdict]
EXECUTOR_CAPABILITY_UNSPECIFIED: ExecutorCapability
EXECUTOR_CAPABILITY_RESUME: ExecutorCapability
EXECUTOR_CAPABILITY_OUTPUT: ExecutorCapability
EXECUTOR_CAPABILITY_RESOLVE_FACTS: ExecutorCapability
IN_FLIGHT_STATE_UNSPECIFIED: InFlightState
IN_FLIGHT_STATE_QUEUED: InFlightState
IN_FLIGHT_STATE_RUNNING: InFlightState
IN_FLIGHT_STATE_FINISHED: InFlightState
IN_FLIGHT_ACTION_UNSPECIFIED: InFlightAction
IN_FLIGHT_ACTION_CONTINUE: InFlightAction
IN_FLIGHT_ACTION_CANCEL: InFlightAction
IN_FLIGHT_ACTION_SEND_RESULT: InFlightAction
IN_FLIGHT_ACTION_FORGET: InFlightAction
REJECT_REASON_UNSPECIFIED: RejectReason
REJECT_REASON_BUSY: RejectReason
REJECT_REASON_DRAINING: RejectReason
REJECT_REASON_UNKNOWN_TOOL: RejectReason
REJECT_REASON_BAD_ARGUMENTS: RejectReason
REJECT_REASON_TOO_LARGE: RejectReason
RESULT_ACK_STATUS_UNSPECIFIED: ResultAckStatus
RESULT_ACK_STATUS_RECORDED: ResultAckStatus
RESULT_ACK_STATUS_ALREADY_RECORDED: ResultAckStatus
RESULT_ACK_STATUS_LATE: ResultAckStatus
RESULT_ACK_STATUS_STALE: ResultAckStatus
RESULT_ACK_STATUS_UNKNOWN_EXECUTION: ResultAckStatus
CANCEL_REASON_UNSPECIFIED: CancelReason
CANCEL_REASON_CALL_CANCELLED: CancelReason
CANCEL_REASON_TURN_CANCELLED: CancelReason
CANCEL_REASON_RUN_ENDED: CancelReason
CANCEL_REASON_DEADLINE: CancelReason
CANCEL_REASON_SHUTDOWN: CancelReason
PERMISSION_CHECK_VERDICT_UNSPECIFIED: PermissionCheckVerdict
PERMISSION_CHECK_VERDICT_DENY: PermissionCheckVerdict
PERMISSION_CHECK_VERDICT_ASK: PermissionCheckVerdict
PERMISSION_CHECK_VERDICT_ASK_FIRM: PermissionCheckVerdict
PERMISSION_CHECK_VERDICT_ALLOW: PermissionCheckVerdict
PERMISSION_CHECK_VERDICT_PASSTHROUGH: PermissionCheckVerdict

class ConnectRequest(_message.Message):
    __slots__ = ("hello", "accepted", "result", "progress", "output", "rejected", "abandoned", "cancel_ack", "permission_check_result", "resolve_facts_result", "ping", "pong", "tool_update", "capacity_update", "drain_request")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    ACCEPTED_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_FIELD_NUMBER: _ClassVar[int]
    CANCEL_ACK_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_CHECK_RESULT_FIELD_NUMBER: _ClassVar[int]
    RESOLVE_FACTS_RESULT_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    TOOL_UPDATE_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_UPDATE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_REQUEST_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    accepted: ExecuteAccepted
    result: ExecuteResult
    progress: ExecutionProgress
    output: OutputChunk
    rejected: ExecuteRejected
    abandoned: ExecuteAbandoned
    cancel_ack: CancelAck
    permission_check_result: PermissionCheckResult
    resolve_facts_result: ResolveFactsResult
    ping: _stream_pb2.Ping
    pong: _stream_pb2.Pong
    tool_update: ToolUpdate
    capacity_update: CapacityUpdate
    drain_request: DrainRequest
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., accepted: _Optional[_Union[ExecuteAccepted, _Mapping]] = ..., result: _Optional[_Union[ExecuteResult, _Mapping]] = ..., progress: _Optional[_Union[ExecutionProgress, _Mapping]] = ..., output: _Optional[_Union[OutputChunk, _Mapping]] = ..., rejected: _Optional[_Union[ExecuteRejected, _Mapping]] = ..., abandoned: _Optional[_Union[ExecuteAbandoned, _Mapping]] = ..., cancel_ack: _Optional[_Union[CancelAck, _Mapping]] = ..., permission_check_result: _Optional[_Union[PermissionCheckResult, _Mapping]] = ..., resolve_facts_result: _Optional[_Union[ResolveFactsResult, _Mapping]] = ..., ping: _Optional[_Union[_stream_pb2.Ping, _Mapping]] = ..., pong: _Optional[_Union[_stream_pb2.Pong, _Mapping]] = ..., tool_update: _Optional[_Union[ToolUpdate, _Mapping]] = ..., capacity_update: _Optional[_Union[CapacityUpdate, _Mapping]] = ..., drain_request: _Optional[_Union[DrainRequest, _Mapping]] = ...) -> None: ...

class ConnectResponse(_message.Message):
    __slots__ = ("welcome", "execute", "result_ack", "cancel", "output_credit", "permission_check", "resolve_facts", "ping", "pong", "tool_update_result", "drain_started", "go_away", "notice")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    EXECUTE_FIELD_NUMBER: _ClassVar[int]
    RESULT_ACK_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_CREDIT_FIELD_NUMBER: _ClassVar[int]
    PERMISSION_CHECK_FIELD_NUMBER: _ClassVar[int]
    RESOLVE_FACTS_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    TOOL_UPDATE_RESULT_FIELD_NUMBER: _ClassVar[int]
    DRAIN_STARTED_FIELD_NUMBER: _ClassVar[int]
    GO_AWAY_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    execute: ExecuteRequest
    result_ack: ResultAck
    cancel: CancelExecution
    output_credit: OutputCredit
    permission_check: PermissionCheckRequest
    resolve_facts: ResolveFactsRequest
    ping: _stream_pb2.Ping
    pong: _stream_pb2.Pong
    tool_update_result: ToolUpdateResult
    drain_started: DrainStarted
    go_away: _stream_pb2.GoAway
    notice: _stream_pb2.Notice
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., execute: _Optional[_Union[ExecuteRequest, _Mapping]] = ..., result_ack: _Optional[_Union[ResultAck, _Mapping]] = ..., cancel: _Optional[_Union[CancelExecution, _Mapping]] = ..., output_credit: _Optional[_Union[OutputCredit, _Mapping]] = ..., permission_check: _Optional[_Union[PermissionCheckRequest, _Mapping]] = ..., resolve_facts: _Optional[_Union[ResolveFactsRequest, _Mapping]] = ..., ping: _Optional[_Union[_stream_pb2.Ping, _Mapping]] = ..., pong: _Optional[_Union[_stream_pb2.Pong, _Mapping]] = ..., tool_update_result: _Optional[_Union[ToolUpdateResult, _Mapping]] = ..., drain_started: _Optional[_Union[DrainStarted, _Mapping]] = ..., go_away: _Optional[_Union[_stream_pb2.GoAway, _Mapping]] = ..., notice: _Optional[_Union[_stream_pb2.Notice, _Mapping]] = ...) -> None: ...

class ExecutionRef(_message.Message):
    __slots__ = ("execution_id", "attempt")
    EXECUTION_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    execution_id: str
    attempt: int
    def __init__(self, execution_id: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("executor_name", "instance_id", "tools", "max_concurrent_executions", "protocol", "capabilities", "in_flight", "resume_token", "max_message_bytes", "sdk")
    EXECUTOR_NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENT_EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SDK_FIELD_NUMBER: _ClassVar[int]
    executor_name: str
    instance_id: str
    tools: _containers.RepeatedCompositeFieldContainer[_types_pb2.ToolDefinition]
    max_concurrent_executions: int
    protocol: _errors_pb2.ProtocolRange
    capabilities: _containers.RepeatedScalarFieldContainer[ExecutorCapability]
    in_flight: _containers.RepeatedCompositeFieldContainer[InFlightExecution]
    resume_token: str
    max_message_bytes: int
    sdk: _stream_pb2.Sdk
    def __init__(self, executor_name: _Optional[str] = ..., instance_id: _Optional[str] = ..., tools: _Optional[_Iterable[_Union[_types_pb2.ToolDefinition, _Mapping]]] = ..., max_concurrent_executions: _Optional[int] = ..., protocol: _Optional[_Union[_errors_pb2.ProtocolRange, _Mapping]] = ..., capabilities: _Optional[_Iterable[_Union[ExecutorCapability, str]]] = ..., in_flight: _Optional[_Iterable[_Union[InFlightExecution, _Mapping]]] = ..., resume_token: _Optional[str] = ..., max_message_bytes: _Optional[int] = ..., sdk: _Optional[_Union[_stream_pb2.Sdk, _Mapping]] = ...) -> None: ...

class InFlightExecution(_message.Message):
    __slots__ = ("execution", "state")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    execution: ExecutionRef
    state: InFlightState
    def __init__(self, execution: _Optional[_Union[ExecutionRef, _Mapping]] = ..., state: _Optional[_Union[InFlightState, str]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("protocol", "connection_id", "instance_id", "resume_token", "capabilities", "registrations", "in_flight", "timing", "limits")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    RESUME_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CAPABILITIES_FIELD_NUMBER: _ClassVar[int]
    REGISTRATIONS_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    connection_id: str
    instance_id: str
    resume_token: str
    capabilities: _containers.RepeatedScalarFieldContainer[ExecutorCapability]
    registrations: _containers.RepeatedCompositeFieldContainer[_types_pb2.ToolRegistration]
    in_flight: _containers.RepeatedCompositeFieldContainer[InFlightDecision]
    timing: _stream_pb2.StreamTiming
    limits: _stream_pb2.StreamLimits
    def __init__(self, protocol: _Optional[int] = ..., connection_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., resume_token: _Optional[str] = ..., capabilities: _Optional[_Iterable[_Union[ExecutorCapability, str]]] = ..., registrations: _Optional[_Iterable[_Union[_types_pb2.ToolRegistration, _Mapping]]] = ..., in_flight: _Optional[_Iterable[_Union[InFlightDecision, _Mapping]]] = ..., timing: _Optional[_Union[_stream_pb2.StreamTiming, _Mapping]] = ..., limits: _Optional[_Union[_stream_pb2.StreamLimits, _Mapping]] = ...) -> None: ...

class InFlightDecision(_message.Message):
    __slots__ = ("execution", "action")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    execution: ExecutionRef
    action: InFlightAction
    def __init__(self, execution: _Optional[_Union[ExecutionRef, _Mapping]] = ..., action: _Optional[_Union[InFlightAction, str]] = ...) -> None: ...

class ExecuteRequest(_message.Message):
    __slots__ = ("execution", "tool_name", "tool_digest", "call_id", "arguments_json", "arguments_digest", "context", "deadline_at_ms", "timeout_ms", "output_credit_bytes")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_AT_MS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    execution: ExecutionRef
    tool_name: str
    tool_digest: bytes
    call_id: str
    arguments_json: bytes
    arguments_digest: bytes
    context: _types_pb2.CallContext
    deadline_at_ms: int
    timeout_ms: int
    output_credit_bytes: int
    def __init__(self, execution: _Optional[_Union[ExecutionRef, _Mapping]] = ..., tool_name: _Optional[str] = ..., tool_digest: _Optional[bytes] = ..., call_id: _Optional[str] = ..., arguments_json: _Optional[bytes] = ..., arguments_digest: _Optional[bytes] = ..., context: _Optional[_Union[_types_pb2.CallContext, _Mapping]] = ..., deadline_at_ms: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., output_credit_bytes: _Optional[int] = ...) -> None: ...

class ExecuteAccepted(_message.Message):
    __slots__ = ("execution", "queued")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    QUEUED_FIELD_NUMBER: _ClassVar[int]
    execution: ExecutionRef
    queued: bool
    def __init__(self, execution: _Optional[_Union[ExecutionRef, _Mapping]] = ..., queued: bool = ...) -> None: ...

class ExecuteRejected(_message.Message):
    __slots__ = ("execution", "reason", "message", "retry_after_ms")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    execution: ExecutionRef
    reason: RejectReason
    message: str
    retry_after_ms: int
    def __init__(self, execution: _Optional[_Union[ExecutionRef, _Mapping]] = ..., reason: _Optional[_Union[RejectReason, str]] = ..., message: _Optional[str] = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class ExecuteAbandoned(_message.Message):
    __slots__ = ("execution", "message")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    execution: ExecutionRef
    message: str
    def __init__(self, execution: _Optional[_Union[ExecutionRef, _Mapping]] = ..., message: _Optional[str] = ...) -> None: ...

class ExecutionProgress(_message.Message):
    __slots__ = ("execution", "message", "fraction", "details_json")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FRACTION_FIELD_NUMBER: _ClassVar[int]
    DETAILS_JSON_FIELD_NUMBER: _ClassVar[int]
    execution: ExecutionRef
    message: str
    fraction: float
    details_json: bytes
    def __init__(self, execution: _Optional[_Union[ExecutionRef, _Mapping]] = ..., message: _Optional[str] = ..., fraction: _Optional[float] = ..., details_json: _Optional[bytes] = ...) -> None: ...

class OutputChunk(_message.Message):
    __slots__ = ("execution", "channel", "chunk_sequence", "data", "dropped_bytes")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    CHUNK_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    DROPPED_BYTES_FIELD_NUMBER: _ClassVar[int]
    execution: ExecutionRef
    channel: _types_pb2.OutputChannel
    chunk_sequence: int
    data: bytes
    dropped_bytes: int
    def __init__(self, execution: _Optional[_Union[ExecutionRef, _Mapping]] = ..., channel: _Optional[_Union[_types_pb2.OutputChannel, str]] = ..., chunk_sequence: _Optional[int] = ..., data: _Optional[bytes] = ..., dropped_bytes: _Optional[int] = ...) -> None: ...

class OutputCredit(_message.Message):
    __slots__ = ("execution", "added_bytes", "stop")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    ADDED_BYTES_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    execution: ExecutionRef
    added_bytes: int
    stop: bool
    def __init__(self, execution: _Optional[_Union[ExecutionRef, _Mapping]] = ..., added_bytes: _Optional[int] = ..., stop: bool = ...) -> None: ...

class ExecuteResult(_message.Message):
    __slots__ = ("execution", "result", "cancelled")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    execution: ExecutionRef
    result: _types_pb2.ToolResult
    cancelled: ExecutionCancelled
    def __init__(self, execution: _Optional[_Union[ExecutionRef, _Mapping]] = ..., result: _Optional[_Union[_types_pb2.ToolResult, _Mapping]] = ..., cancelled: _Optional[_Union[ExecutionCancelled, _Mapping]] = ...) -> None: ...

class ExecutionCancelled(_message.Message):
    __slots__ = ("effect", "message")
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    effect: _types_pb2.CallEffect
    message: str
    def __init__(self, effect: _Optional[_Union[_types_pb2.CallEffect, str]] = ..., message: _Optional[str] = ...) -> None: ...

class ResultAck(_message.Message):
    __slots__ = ("execution", "status")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    execution: ExecutionRef
    status: ResultAckStatus
    def __init__(self, execution: _Optional[_Union[ExecutionRef, _Mapping]] = ..., status: _Optional[_Union[ResultAckStatus, str]] = ...) -> None: ...

class CancelExecution(_message.Message):
    __slots__ = ("execution", "reason", "message", "grace_ms")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    GRACE_MS_FIELD_NUMBER: _ClassVar[int]
    execution: ExecutionRef
    reason: CancelReason
    message: str
    grace_ms: int
    def __init__(self, execution: _Optional[_Union[ExecutionRef, _Mapping]] = ..., reason: _Optional[_Union[CancelReason, str]] = ..., message: _Optional[str] = ..., grace_ms: _Optional[int] = ...) -> None: ...

class CancelAck(_message.Message):
    __slots__ = ("execution", "unknown_execution")
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_EXECUTION_FIELD_NUMBER: _ClassVar[int]
    execution: ExecutionRef
    unknown_execution: bool
    def __init__(self, execution: _Optional[_Union[ExecutionRef, _Mapping]] = ..., unknown_execution: bool = ...) -> None: ...

class PermissionCheckRequest(_message.Message):
    __slots__ = ("check_id", "tool_name", "tool_digest", "call_id", "arguments_json", "context", "mode", "facts", "matched_rule", "matched_source", "timeout_ms")
    CHECK_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    MATCHED_RULE_FIELD_NUMBER: _ClassVar[int]
    MATCHED_SOURCE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    check_id: str
    tool_name: str
    tool_digest: bytes
    call_id: str
    arguments_json: bytes
    context: _types_pb2.CallContext
    mode: _permission_pb2.Mode
    facts: _containers.RepeatedCompositeFieldContainer[_permission_pb2.SubjectFact]
    matched_rule: str
    matched_source: _types_pb2.RuleSource
    timeout_ms: int
    def __init__(self, check_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., tool_digest: _Optional[bytes] = ..., call_id: _Optional[str] = ..., arguments_json: _Optional[bytes] = ..., context: _Optional[_Union[_types_pb2.CallContext, _Mapping]] = ..., mode: _Optional[_Union[_permission_pb2.Mode, str]] = ..., facts: _Optional[_Iterable[_Union[_permission_pb2.SubjectFact, _Mapping]]] = ..., matched_rule: _Optional[str] = ..., matched_source: _Optional[_Union[_types_pb2.RuleSource, str]] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class PermissionCheckResult(_message.Message):
    __slots__ = ("check_id", "verdict", "reason_for_user", "reason_for_model")
    CHECK_ID_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    REASON_FOR_USER_FIELD_NUMBER: _ClassVar[int]
    REASON_FOR_MODEL_FIELD_NUMBER: _ClassVar[int]
    check_id: str
    verdict: PermissionCheckVerdict
    reason_for_user: str
    reason_for_model: str
    def __init__(self, check_id: _Optional[str] = ..., verdict: _Optional[_Union[PermissionCheckVerdict, str]] = ..., reason_for_user: _Optional[str] = ..., reason_for_model: _Optional[str] = ...) -> None: ...

class ResolveFactsRequest(_message.Message):
    __slots__ = ("request_id", "tool_name", "call_id", "arguments_json", "pointers", "cwd", "timeout_ms")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    POINTERS_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    tool_name: str
    call_id: str
    arguments_json: bytes
    pointers: _containers.RepeatedScalarFieldContainer[str]
    cwd: str
    timeout_ms: int
    def __init__(self, request_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., call_id: _Optional[str] = ..., arguments_json: _Optional[bytes] = ..., pointers: _Optional[_Iterable[str]] = ..., cwd: _Optional[str] = ..., timeout_ms: _Optional[int] = ...) -> None: ...

class ResolveFactsResult(_message.Message):
    __slots__ = ("request_id", "facts")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    facts: _containers.RepeatedCompositeFieldContainer[_permission_pb2.SubjectFact]
    def __init__(self, request_id: _Optional[str] = ..., facts: _Optional[_Iterable[_Union[_permission_pb2.SubjectFact, _Mapping]]] = ...) -> None: ...

class ToolUpdate(_message.Message):
    __slots__ = ("update_id", "upsert", "remove")
    UPDATE_ID_FIELD_NUMBER: _ClassVar[int]
    UPSERT_FIELD_NUMBER: _ClassVar[int]
    REMOVE_FIELD_NUMBER: _ClassVar[int]
    update_id: str
    upsert: _containers.RepeatedCompositeFieldContainer[_types_pb2.ToolDefinition]
    remove: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, update_id: _Optional[str] = ..., upsert: _Optional[_Iterable[_Union[_types_pb2.ToolDefinition, _Mapping]]] = ..., remove: _Optional[_Iterable[str]] = ...) -> None: ...

class ToolUpdateResult(_message.Message):
    __slots__ = ("update_id", "registrations")
    UPDATE_ID_FIELD_NUMBER: _ClassVar[int]
    REGISTRATIONS_FIELD_NUMBER: _ClassVar[int]
    update_id: str
    registrations: _containers.RepeatedCompositeFieldContainer[_types_pb2.ToolRegistration]
    def __init__(self, update_id: _Optional[str] = ..., registrations: _Optional[_Iterable[_Union[_types_pb2.ToolRegistration, _Mapping]]] = ...) -> None: ...

class CapacityUpdate(_message.Message):
    __slots__ = ("max_concurrent_executions",)
    MAX_CONCURRENT_EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    max_concurrent_executions: int
    def __init__(self, max_concurrent_executions: _Optional[int] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("reason", "drain_ms")
    REASON_FIELD_NUMBER: _ClassVar[int]
    DRAIN_MS_FIELD_NUMBER: _ClassVar[int]
    reason: str
    drain_ms: int
    def __init__(self, reason: _Optional[str] = ..., drain_ms: _Optional[int] = ...) -> None: ...

class DrainStarted(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
