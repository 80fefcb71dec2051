from . import approval_service_pb2 as _approval_service_pb2
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

class HookPoint(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HOOK_POINT_UNSPECIFIED: _ClassVar[HookPoint]
    HOOK_POINT_BEFORE_TOOL_CALL: _ClassVar[HookPoint]
    HOOK_POINT_AFTER_TOOL_CALL: _ClassVar[HookPoint]
    HOOK_POINT_AFTER_TOOL_FAILURE: _ClassVar[HookPoint]
    HOOK_POINT_APPROVAL_REQUESTED: _ClassVar[HookPoint]
    HOOK_POINT_TURN_STARTED: _ClassVar[HookPoint]
    HOOK_POINT_TURN_FINISHED: _ClassVar[HookPoint]
    HOOK_POINT_LOOP_SUSPECTED: _ClassVar[HookPoint]
    HOOK_POINT_LOOP_DIAGNOSE: _ClassVar[HookPoint]

class HookFailureMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HOOK_FAILURE_MODE_UNSPECIFIED: _ClassVar[HookFailureMode]
    HOOK_FAILURE_MODE_DENY: _ClassVar[HookFailureMode]
    HOOK_FAILURE_MODE_ASK: _ClassVar[HookFailureMode]
    HOOK_FAILURE_MODE_IGNORE: _ClassVar[HookFailureMode]

class HookRunStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    HOOK_RUN_STATUS_UNSPECIFIED: _ClassVar[HookRunStatus]
    HOOK_RUN_STATUS_ANSWERED: _ClassVar[HookRunStatus]
    HOOK_RUN_STATUS_TIMEOUT: _ClassVar[HookRunStatus]
    HOOK_RUN_STATUS_FAILED: _ClassVar[HookRunStatus]
    HOOK_RUN_STATUS_UNAVAILABLE: _ClassVar[HookRunStatus]
    HOOK_RUN_STATUS_CANCELLED: _ClassVar[HookRunStatus]

class BeforeAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BEFORE_ACTION_UNSPECIFIED: _ClassVar[BeforeAction]
    BEFORE_ACTION_PROCEED: _ClassVar[BeforeAction]
    BEFORE_ACTION_ALLOW: _ClassVar[BeforeAction]
    BEFORE_ACTION_ASK: _ClassVar[BeforeAction]
    BEFORE_ACTION_DEFER: _ClassVar[BeforeAction]
    BEFORE_ACTION_DENY: _ClassVar[BeforeAction]
    BEFORE_ACTION_ABORT: _ClassVar[BeforeAction]

class AfterAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AFTER_ACTION_UNSPECIFIED: _ClassVar[AfterAction]
    AFTER_ACTION_PROCEED: _ClassVar[AfterAction]
    AFTER_ACTION_STOP: _ClassVar[AfterAction]
    AFTER_ACTION_ABORT: _ClassVar[AfterAction]

class ApprovalAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    APPROVAL_ACTION_UNSPECIFIED: _ClassVar[ApprovalAction]
    APPROVAL_ACTION_LEAVE: _ClassVar[ApprovalAction]
    APPROVAL_ACTION_APPROVE: _ClassVar[ApprovalAction]
    APPROVAL_ACTION_DENY: _ClassVar[ApprovalAction]
HOOK_POINT_UNSPECIFIED: HookPoint
HOOK_POINT_BEFORE_TOOL_CALL: HookPoint
HOOK_POINT_AFTER_TOOL_CALL: HookPoint
HOOK_POINT_AFTER_TOOL_FAILURE: HookPoint
HOOK_POINT_APPROVAL_REQUESTED: HookPoint
HOOK_POINT_TURN_STARTED: HookPoint
HOOK_POINT_TURN_FINISHED: HookPoint
HOOK_POINT_LOOP_SUSPECTED: HookPoint
HOOK_POINT_LOOP_DIAGNOSE: HookPoint
HOOK_FAILURE_MODE_UNSPECIFIED: HookFailureMode
HOOK_FAILURE_MODE_DENY: HookFailureMode
HOOK_FAILURE_MODE_ASK: HookFailureMode
HOOK_FAILURE_MODE_IGNORE: HookFailureMode
HOOK_RUN_STATUS_UNSPECIFIED: HookRunStatus
HOOK_RUN_STATUS_ANSWERED: HookRunStatus
HOOK_RUN_STATUS_TIMEOUT: HookRunStatus
HOOK_RUN_STATUS_FAILED: HookRunStatus
HOOK_RUN_STATUS_UNAVAILABLE: HookRunStatus
HOOK_RUN_STATUS_CANCELLED: HookRunStatus
BEFORE_ACTION_UNSPECIFIED: BeforeAction
BEFORE_ACTION_PROCEED: BeforeAction
BEFORE_ACTION_ALLOW: BeforeAction
BEFORE_ACTION_ASK: BeforeAction
BEFORE_ACTION_DEFER: BeforeAction
BEFORE_ACTION_DENY: BeforeAction
BEFORE_ACTION_ABORT: BeforeAction
AFTER_ACTION_UNSPECIFIED: AfterAction
AFTER_ACTION_PROCEED: AfterAction
AFTER_ACTION_STOP: AfterAction
AFTER_ACTION_ABORT: AfterAction
APPROVAL_ACTION_UNSPECIFIED: ApprovalAction
APPROVAL_ACTION_LEAVE: ApprovalAction
APPROVAL_ACTION_APPROVE: ApprovalAction
APPROVAL_ACTION_DENY: ApprovalAction

class ConnectHookRequest(_message.Message):
    __slots__ = ("hello", "verdict", "need_more_time", "leave", "ping", "pong")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    NEED_MORE_TIME_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    hello: HookHello
    verdict: HookVerdict
    need_more_time: NeedMoreTime
    leave: HookLeave
    ping: _stream_pb2.Ping
    pong: _stream_pb2.Pong
    def __init__(self, hello: _Optional[_Union[HookHello, _Mapping]] = ..., verdict: _Optional[_Union[HookVerdict, _Mapping]] = ..., need_more_time: _Optional[_Union[NeedMoreTime, _Mapping]] = ..., leave: _Optional[_Union[HookLeave, _Mapping]] = ..., ping: _Optional[_Union[_stream_pb2.Ping, _Mapping]] = ..., pong: _Optional[_Union[_stream_pb2.Pong, _Mapping]] = ...) -> None: ...

class HookLeave(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ConnectHookResponse(_message.Message):
    __slots__ = ("welcome", "invocation", "invocation_cancelled", "ping", "pong", "go_away", "notice")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    INVOCATION_FIELD_NUMBER: _ClassVar[int]
    INVOCATION_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    PING_FIELD_NUMBER: _ClassVar[int]
    PONG_FIELD_NUMBER: _ClassVar[int]
    GO_AWAY_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    welcome: HookWelcome
    invocation: HookInvocation
    invocation_cancelled: InvocationCancelled
    ping: _stream_pb2.Ping
    pong: _stream_pb2.Pong
    go_away: _stream_pb2.GoAway
    notice: _stream_pb2.Notice
    def __init__(self, welcome: _Optional[_Union[HookWelcome, _Mapping]] = ..., invocation: _Optional[_Union[HookInvocation, _Mapping]] = ..., invocation_cancelled: _Optional[_Union[InvocationCancelled, _Mapping]] = ..., ping: _Optional[_Union[_stream_pb2.Ping, _Mapping]] = ..., pong: _Optional[_Union[_stream_pb2.Pong, _Mapping]] = ..., go_away: _Optional[_Union[_stream_pb2.GoAway, _Mapping]] = ..., notice: _Optional[_Union[_stream_pb2.Notice, _Mapping]] = ...) -> None: ...

class HookHello(_message.Message):
    __slots__ = ("hooks", "instance_id", "protocol", "max_message_bytes", "max_concurrent_invocations", "sdk")
    HOOKS_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENT_INVOCATIONS_FIELD_NUMBER: _ClassVar[int]
    SDK_FIELD_NUMBER: _ClassVar[int]
    hooks: _containers.RepeatedCompositeFieldContainer[HookRegistration]
    instance_id: str
    protocol: _errors_pb2.ProtocolRange
    max_message_bytes: int
    max_concurrent_invocations: int
    sdk: _stream_pb2.Sdk
    def __init__(self, hooks: _Optional[_Iterable[_Union[HookRegistration, _Mapping]]] = ..., instance_id: _Optional[str] = ..., protocol: _Optional[_Union[_errors_pb2.ProtocolRange, _Mapping]] = ..., max_message_bytes: _Optional[int] = ..., max_concurrent_invocations: _Optional[int] = ..., sdk: _Optional[_Union[_stream_pb2.Sdk, _Mapping]] = ...) -> None: ...

class HookRegistration(_message.Message):
    __slots__ = ("hook_id", "points", "order", "matcher", "timeout_ms", "on_failure", "observe", "description", "withhold_on_failure")
    HOOK_ID_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    MATCHER_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ON_FAILURE_FIELD_NUMBER: _ClassVar[int]
    OBSERVE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    WITHHOLD_ON_FAILURE_FIELD_NUMBER: _ClassVar[int]
    hook_id: str
    points: _containers.RepeatedScalarFieldContainer[HookPoint]
    order: int
    matcher: HookMatcher
    timeout_ms: int
    on_failure: HookFailureMode
    observe: bool
    description: str
    withhold_on_failure: bool
    def __init__(self, hook_id: _Optional[str] = ..., points: _Optional[_Iterable[_Union[HookPoint, str]]] = ..., order: _Optional[int] = ..., matcher: _Optional[_Union[HookMatcher, _Mapping]] = ..., timeout_ms: _Optional[int] = ..., on_failure: _Optional[_Union[HookFailureMode, str]] = ..., observe: bool = ..., description: _Optional[str] = ..., withhold_on_failure: bool = ...) -> None: ...

class HookMatcher(_message.Message):
    __slots__ = ("tools", "risk_levels", "kinds", "rules", "argument_pointers")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    RISK_LEVELS_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    ARGUMENT_POINTERS_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedScalarFieldContainer[str]
    risk_levels: _containers.RepeatedScalarFieldContainer[_types_pb2.RiskLevel]
    kinds: _containers.RepeatedScalarFieldContainer[_types_pb2.ToolKind]
    rules: _containers.RepeatedScalarFieldContainer[str]
    argument_pointers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tools: _Optional[_Iterable[str]] = ..., risk_levels: _Optional[_Iterable[_Union[_types_pb2.RiskLevel, str]]] = ..., kinds: _Optional[_Iterable[_Union[_types_pb2.ToolKind, str]]] = ..., rules: _Optional[_Iterable[str]] = ..., argument_pointers: _Optional[_Iterable[str]] = ...) -> None: ...

class HookWelcome(_message.Message):
    __slots__ = ("protocol", "connection_id", "instance_id", "registered", "timing", "limits")
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    protocol: int
    connection_id: str
    instance_id: str
    registered: _containers.RepeatedCompositeFieldContainer[HookRegistered]
    timing: _stream_pb2.StreamTiming
    limits: _stream_pb2.StreamLimits
    def __init__(self, protocol: _Optional[int] = ..., connection_id: _Optional[str] = ..., instance_id: _Optional[str] = ..., registered: _Optional[_Iterable[_Union[HookRegistered, _Mapping]]] = ..., timing: _Optional[_Union[_stream_pb2.StreamTiming, _Mapping]] = ..., limits: _Optional[_Union[_stream_pb2.StreamLimits, _Mapping]] = ...) -> None: ...

class HookRegistered(_message.Message):
    __slots__ = ("hook_id", "error")
    HOOK_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    hook_id: str
    error: _errors_pb2.RpcError
    def __init__(self, hook_id: _Optional[str] = ..., error: _Optional[_Union[_errors_pb2.RpcError, _Mapping]] = ...) -> None: ...

class HookInvocation(_message.Message):
    __slots__ = ("invocation_id", "hook_id", "point", "invoked_at_ms", "timeout_ms", "attempt", "session_id", "root_session_id", "run_id", "turn_id", "batch_id", "cwd", "mode", "trace", "before", "after", "approval", "turn", "loop_suspected", "diagnosis")
    INVOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    HOOK_ID_FIELD_NUMBER: _ClassVar[int]
    POINT_FIELD_NUMBER: _ClassVar[int]
    INVOKED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ROOT_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_ID_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    LOOP_SUSPECTED_FIELD_NUMBER: _ClassVar[int]
    DIAGNOSIS_FIELD_NUMBER: _ClassVar[int]
    invocation_id: str
    hook_id: str
    point: HookPoint
    invoked_at_ms: int
    timeout_ms: int
    attempt: int
    session_id: str
    root_session_id: str
    run_id: str
    turn_id: str
    batch_id: str
    cwd: str
    mode: _permission_pb2.Mode
    trace: _types_pb2.TraceContext
    before: BeforeToolCall
    after: AfterToolCall
    approval: ApprovalRequested
    turn: TurnObserved
    loop_suspected: LoopSuspected
    diagnosis: LoopDiagnosis
    def __init__(self, invocation_id: _Optional[str] = ..., hook_id: _Optional[str] = ..., point: _Optional[_Union[HookPoint, str]] = ..., invoked_at_ms: _Optional[int] = ..., timeout_ms: _Optional[int] = ..., attempt: _Optional[int] = ..., session_id: _Optional[str] = ..., root_session_id: _Optional[str] = ..., run_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., batch_id: _Optional[str] = ..., cwd: _Optional[str] = ..., mode: _Optional[_Union[_permission_pb2.Mode, str]] = ..., trace: _Optional[_Union[_types_pb2.TraceContext, _Mapping]] = ..., before: _Optional[_Union[BeforeToolCall, _Mapping]] = ..., after: _Optional[_Union[AfterToolCall, _Mapping]] = ..., approval: _Optional[_Union[ApprovalRequested, _Mapping]] = ..., turn: _Optional[_Union[TurnObserved, _Mapping]] = ..., loop_suspected: _Optional[_Union[LoopSuspected, _Mapping]] = ..., diagnosis: _Optional[_Union[LoopDiagnosis, _Mapping]] = ...) -> None: ...

class BeforeToolCall(_message.Message):
    __slots__ = ("call", "arguments_json", "arguments_generation", "validation", "tool", "earlier")
    CALL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_GENERATION_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    call: _types_pb2.ToolCall
    arguments_json: bytes
    arguments_generation: int
    validation: _types_pb2.ToolError
    tool: HookTool
    earlier: _containers.RepeatedCompositeFieldContainer[HookOutcome]
    def __init__(self, call: _Optional[_Union[_types_pb2.ToolCall, _Mapping]] = ..., arguments_json: _Optional[bytes] = ..., arguments_generation: _Optional[int] = ..., validation: _Optional[_Union[_types_pb2.ToolError, _Mapping]] = ..., tool: _Optional[_Union[HookTool, _Mapping]] = ..., earlier: _Optional[_Iterable[_Union[HookOutcome, _Mapping]]] = ...) -> None: ...

class HookTool(_message.Message):
    __slots__ = ("name", "owner", "tool_digest", "risk_level", "kind")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TOOL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    RISK_LEVEL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    name: str
    owner: str
    tool_digest: bytes
    risk_level: _types_pb2.RiskLevel
    kind: _types_pb2.ToolKind
    def __init__(self, name: _Optional[str] = ..., owner: _Optional[str] = ..., tool_digest: _Optional[bytes] = ..., risk_level: _Optional[_Union[_types_pb2.RiskLevel, str]] = ..., kind: _Optional[_Union[_types_pb2.ToolKind, str]] = ...) -> None: ...

class HookOutcome(_message.Message):
    __slots__ = ("hook_id", "status", "action", "modified")
    HOOK_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_FIELD_NUMBER: _ClassVar[int]
    hook_id: str
    status: HookRunStatus
    action: BeforeAction
    modified: bool
    def __init__(self, hook_id: _Optional[str] = ..., status: _Optional[_Union[HookRunStatus, str]] = ..., action: _Optional[_Union[BeforeAction, str]] = ..., modified: bool = ...) -> None: ...

class AfterToolCall(_message.Message):
    __slots__ = ("call", "arguments_json", "result", "tool")
    CALL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    call: _types_pb2.ToolCall
    arguments_json: bytes
    result: _types_pb2.CallResult
    tool: HookTool
    def __init__(self, call: _Optional[_Union[_types_pb2.ToolCall, _Mapping]] = ..., arguments_json: _Optional[bytes] = ..., result: _Optional[_Union[_types_pb2.CallResult, _Mapping]] = ..., tool: _Optional[_Union[HookTool, _Mapping]] = ...) -> None: ...

class ApprovalRequested(_message.Message):
    __slots__ = ("approval",)
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    approval: _approval_service_pb2.Approval
    def __init__(self, approval: _Optional[_Union[_approval_service_pb2.Approval, _Mapping]] = ...) -> None: ...

class TurnObserved(_message.Message):
    __slots__ = ("calls", "results", "run")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[_types_pb2.ToolCall]
    results: _containers.RepeatedCompositeFieldContainer[_types_pb2.CallResult]
    run: _types_pb2.Run
    def __init__(self, calls: _Optional[_Iterable[_Union[_types_pb2.ToolCall, _Mapping]]] = ..., results: _Optional[_Iterable[_Union[_types_pb2.CallResult, _Mapping]]] = ..., run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ...) -> None: ...

class LoopSuspected(_message.Message):
    __slots__ = ("detector", "reason", "call_ids", "run")
    DETECTOR_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CALL_IDS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    detector: _types_pb2.LoopDetector
    reason: str
    call_ids: _containers.RepeatedScalarFieldContainer[str]
    run: _types_pb2.Run
    def __init__(self, detector: _Optional[_Union[_types_pb2.LoopDetector, str]] = ..., reason: _Optional[str] = ..., call_ids: _Optional[_Iterable[str]] = ..., run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ...) -> None: ...

class LoopDiagnosis(_message.Message):
    __slots__ = ("history_json", "run")
    HISTORY_JSON_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    history_json: bytes
    run: _types_pb2.Run
    def __init__(self, history_json: _Optional[bytes] = ..., run: _Optional[_Union[_types_pb2.Run, _Mapping]] = ...) -> None: ...

class InvocationCancelled(_message.Message):
    __slots__ = ("invocation_id",)
    INVOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    invocation_id: str
    def __init__(self, invocation_id: _Optional[str] = ...) -> None: ...

class NeedMoreTime(_message.Message):
    __slots__ = ("invocation_id", "extra_ms")
    INVOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    EXTRA_MS_FIELD_NUMBER: _ClassVar[int]
    invocation_id: str
    extra_ms: int
    def __init__(self, invocation_id: _Optional[str] = ..., extra_ms: _Optional[int] = ...) -> None: ...

class HookVerdict(_message.Message):
    __slots__ = ("invocation_id", "before", "after", "approval", "loop_verdict", "failure")
    INVOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    LOOP_VERDICT_FIELD_NUMBER: _ClassVar[int]
    FAILURE_FIELD_NUMBER: _ClassVar[int]
    invocation_id: str
    before: BeforeVerdict
    after: AfterVerdict
    approval: ApprovalVerdict
    loop_verdict: LoopVerdict
    failure: HookFailure
    def __init__(self, invocation_id: _Optional[str] = ..., before: _Optional[_Union[BeforeVerdict, _Mapping]] = ..., after: _Optional[_Union[AfterVerdict, _Mapping]] = ..., approval: _Optional[_Union[ApprovalVerdict, _Mapping]] = ..., loop_verdict: _Optional[_Union[LoopVerdict, _Mapping]] = ..., failure: _Optional[_Union[HookFailure, _Mapping]] = ...) -> None: ...

class BeforeVerdict(_message.Message):
    __slots__ = ("action", "modified_args_json", "additional_context", "suppress_output", "reason_for_user", "reason_for_model", "synthetic_result")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_ARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SUPPRESS_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    REASON_FOR_USER_FIELD_NUMBER: _ClassVar[int]
    REASON_FOR_MODEL_FIELD_NUMBER: _ClassVar[int]
    SYNTHETIC_RESULT_FIELD_NUMBER: _ClassVar[int]
    action: BeforeAction
    modified_args_json: bytes
    additional_context: str
    suppress_output: bool
    reason_for_user: str
    reason_for_model: str
    synthetic_result: _types_pb2.ToolResult
    def __init__(self, action: _Optional[_Union[BeforeAction, str]] = ..., modified_args_json: _Optional[bytes] = ..., additional_context: _Optional[str] = ..., suppress_output: bool = ..., reason_for_user: _Optional[str] = ..., reason_for_model: _Optional[str] = ..., synthetic_result: _Optional[_Union[_types_pb2.ToolResult, _Mapping]] = ...) -> None: ...

class AfterVerdict(_message.Message):
    __slots__ = ("action", "modified_result", "injected_messages", "additional_context", "suppress_output", "reason_for_user")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_RESULT_FIELD_NUMBER: _ClassVar[int]
    INJECTED_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    ADDITIONAL_CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SUPPRESS_OUTPUT_FIELD_NUMBER: _ClassVar[int]
    REASON_FOR_USER_FIELD_NUMBER: _ClassVar[int]
    action: AfterAction
    modified_result: _types_pb2.ToolResult
    injected_messages: _containers.RepeatedCompositeFieldContainer[_types_pb2.InjectedMessage]
    additional_context: str
    suppress_output: bool
    reason_for_user: str
    def __init__(self, action: _Optional[_Union[AfterAction, str]] = ..., modified_result: _Optional[_Union[_types_pb2.ToolResult, _Mapping]] = ..., injected_messages: _Optional[_Iterable[_Union[_types_pb2.InjectedMessage, _Mapping]]] = ..., additional_context: _Optional[str] = ..., suppress_output: bool = ..., reason_for_user: _Optional[str] = ...) -> None: ...

class ApprovalVerdict(_message.Message):
    __slots__ = ("action", "message", "approval_digest")
    ACTION_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    action: ApprovalAction
    message: str
    approval_digest: bytes
    def __init__(self, action: _Optional[_Union[ApprovalAction, str]] = ..., message: _Optional[str] = ..., approval_digest: _Optional[bytes] = ...) -> None: ...

class LoopVerdict(_message.Message):
    __slots__ = ("is_loop", "reason", "confidence")
    IS_LOOP_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    is_loop: bool
    reason: str
    confidence: float
    def __init__(self, is_loop: bool = ..., reason: _Optional[str] = ..., confidence: _Optional[float] = ...) -> None: ...

class HookFailure(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: str
    def __init__(self, message: _Optional[str] = ...) -> None: ...

class ListHooksRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListHooksResponse(_message.Message):
    __slots__ = ("hooks",)
    HOOKS_FIELD_NUMBER: _ClassVar[int]
    hooks: _containers.RepeatedCompositeFieldContainer[HookInfo]
    def __init__(self, hooks: _Optional[_Iterable[_Union[HookInfo, _Mapping]]] = ...) -> None: ...

class HookInfo(_message.Message):
    __slots__ = ("registration", "built_in", "connected", "required", "runs", "failures")
    REGISTRATION_FIELD_NUMBER: _ClassVar[int]
    BUILT_IN_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    registration: HookRegistration
    built_in: bool
    connected: bool
    required: bool
    runs: int
    failures: int
    def __init__(self, registration: _Optional[_Union[HookRegistration, _Mapping]] = ..., built_in: bool = ..., connected: bool = ..., required: bool = ..., runs: _Optional[int] = ..., failures: _Optional[int] = ...) -> None: ...

class RemoveHookRequest(_message.Message):
    __slots__ = ("hook_id",)
    HOOK_ID_FIELD_NUMBER: _ClassVar[int]
    hook_id: str
    def __init__(self, hook_id: _Optional[str] = ...) -> None: ...

class RemoveHookResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
