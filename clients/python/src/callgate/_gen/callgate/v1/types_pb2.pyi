from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RiskLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RISK_LEVEL_UNSPECIFIED: _ClassVar[RiskLevel]
    RISK_LEVEL_SAFE: _ClassVar[RiskLevel]
    RISK_LEVEL_SENSITIVE: _ClassVar[RiskLevel]
    RISK_LEVEL_DANGEROUS: _ClassVar[RiskLevel]

class ToolKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOOL_KIND_UNSPECIFIED: _ClassVar[ToolKind]
    TOOL_KIND_READ: _ClassVar[ToolKind]
    TOOL_KIND_FETCH: _ClassVar[ToolKind]
    TOOL_KIND_EDIT: _ClassVar[ToolKind]
    TOOL_KIND_DELETE: _ClassVar[ToolKind]
    TOOL_KIND_EXECUTE: _ClassVar[ToolKind]
    TOOL_KIND_INTERACT: _ClassVar[ToolKind]
    TOOL_KIND_OTHER: _ClassVar[ToolKind]

class SubjectType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUBJECT_TYPE_UNSPECIFIED: _ClassVar[SubjectType]
    SUBJECT_TYPE_COMMAND: _ClassVar[SubjectType]
    SUBJECT_TYPE_PATH: _ClassVar[SubjectType]
    SUBJECT_TYPE_URL: _ClassVar[SubjectType]
    SUBJECT_TYPE_TEXT: _ClassVar[SubjectType]

class SchemaDialect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SCHEMA_DIALECT_UNSPECIFIED: _ClassVar[SchemaDialect]
    SCHEMA_DIALECT_CORE: _ClassVar[SchemaDialect]
    SCHEMA_DIALECT_JSON_SCHEMA_2020_12: _ClassVar[SchemaDialect]

class CallState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CALL_STATE_UNSPECIFIED: _ClassVar[CallState]
    CALL_STATE_VALIDATING: _ClassVar[CallState]
    CALL_STATE_AWAITING_APPROVAL: _ClassVar[CallState]
    CALL_STATE_SCHEDULED: _ClassVar[CallState]
    CALL_STATE_EXECUTING: _ClassVar[CallState]
    CALL_STATE_SUCCESS: _ClassVar[CallState]
    CALL_STATE_ERROR: _ClassVar[CallState]
    CALL_STATE_CANCELLED: _ClassVar[CallState]

class CallOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CALL_OUTCOME_UNSPECIFIED: _ClassVar[CallOutcome]
    CALL_OUTCOME_SUCCESS: _ClassVar[CallOutcome]
    CALL_OUTCOME_ERROR: _ClassVar[CallOutcome]
    CALL_OUTCOME_CANCELLED: _ClassVar[CallOutcome]

class NotExecutedReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NOT_EXECUTED_REASON_UNSPECIFIED: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_DENIED_BY_USER: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_DENIED_BY_RULE: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_DENIED_BY_HOOK: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_DENIED_BY_MODE: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_APPROVAL_EXPIRED: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_APPROVAL_UNAVAILABLE: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_BATCH_REJECTED: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_INVALID_CALL: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_NOT_FOUND: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_CANCELLED_BEFORE_START: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_LOOP: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_ANSWERED_BY_APPROVER: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_DENIED_BY_TOOL: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_ANSWERED_BY_HOOK: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_RUN_ABORTED: _ClassVar[NotExecutedReason]
    NOT_EXECUTED_REASON_TOOL_UNAVAILABLE: _ClassVar[NotExecutedReason]

class CallEffect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CALL_EFFECT_UNSPECIFIED: _ClassVar[CallEffect]
    CALL_EFFECT_NOT_EXECUTED: _ClassVar[CallEffect]
    CALL_EFFECT_EXECUTED: _ClassVar[CallEffect]
    CALL_EFFECT_UNKNOWN: _ClassVar[CallEffect]

class ErrorLayer(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_LAYER_UNSPECIFIED: _ClassVar[ErrorLayer]
    ERROR_LAYER_CONFIG: _ClassVar[ErrorLayer]
    ERROR_LAYER_DECODE: _ClassVar[ErrorLayer]
    ERROR_LAYER_TOOL: _ClassVar[ErrorLayer]
    ERROR_LAYER_PERMISSION: _ClassVar[ErrorLayer]
    ERROR_LAYER_CANCELLED: _ClassVar[ErrorLayer]
    ERROR_LAYER_HOOK: _ClassVar[ErrorLayer]
    ERROR_LAYER_RUNTIME: _ClassVar[ErrorLayer]
    ERROR_LAYER_TRANSPORT: _ClassVar[ErrorLayer]
    ERROR_LAYER_STORE: _ClassVar[ErrorLayer]

class MessageRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MESSAGE_ROLE_UNSPECIFIED: _ClassVar[MessageRole]
    MESSAGE_ROLE_SYSTEM: _ClassVar[MessageRole]
    MESSAGE_ROLE_USER: _ClassVar[MessageRole]

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATE_UNSPECIFIED: _ClassVar[RunState]
    RUN_STATE_ACTIVE: _ClassVar[RunState]
    RUN_STATE_COMPLETED: _ClassVar[RunState]
    RUN_STATE_CANCELLED: _ClassVar[RunState]
    RUN_STATE_ERROR: _ClassVar[RunState]
    RUN_STATE_ABORTED: _ClassVar[RunState]
    RUN_STATE_LOOP_DETECTED: _ClassVar[RunState]

class BatchPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BATCH_POLICY_UNSPECIFIED: _ClassVar[BatchPolicy]
    BATCH_POLICY_FREEZE_ATOMIC: _ClassVar[BatchPolicy]
    BATCH_POLICY_FREEZE_PARTIAL: _ClassVar[BatchPolicy]
    BATCH_POLICY_EAGER_SAFE: _ClassVar[BatchPolicy]

class LoopDetector(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOOP_DETECTOR_UNSPECIFIED: _ClassVar[LoopDetector]
    LOOP_DETECTOR_TOOL_SIGNATURE: _ClassVar[LoopDetector]
    LOOP_DETECTOR_CYCLE: _ClassVar[LoopDetector]
    LOOP_DETECTOR_LLM: _ClassVar[LoopDetector]

class OutputChannel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTPUT_CHANNEL_UNSPECIFIED: _ClassVar[OutputChannel]
    OUTPUT_CHANNEL_TEXT: _ClassVar[OutputChannel]
    OUTPUT_CHANNEL_STDOUT: _ClassVar[OutputChannel]
    OUTPUT_CHANNEL_STDERR: _ClassVar[OutputChannel]
    OUTPUT_CHANNEL_DATA: _ClassVar[OutputChannel]

class Role(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ROLE_UNSPECIFIED: _ClassVar[Role]
    ROLE_ORCHESTRATOR: _ClassVar[Role]
    ROLE_EXECUTOR: _ClassVar[Role]
    ROLE_HOOK: _ClassVar[Role]
    ROLE_APPROVER: _ClassVar[Role]
    ROLE_ADMIN: _ClassVar[Role]
    ROLE_OBSERVER: _ClassVar[Role]

class RegistrationState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REGISTRATION_STATE_UNSPECIFIED: _ClassVar[RegistrationState]
    REGISTRATION_STATE_ACTIVE: _ClassVar[RegistrationState]
    REGISTRATION_STATE_REFUSED: _ClassVar[RegistrationState]
    REGISTRATION_STATE_REMOVED: _ClassVar[RegistrationState]

class PermissionEffect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PERMISSION_EFFECT_UNSPECIFIED: _ClassVar[PermissionEffect]
    PERMISSION_EFFECT_ALLOW: _ClassVar[PermissionEffect]
    PERMISSION_EFFECT_ASK: _ClassVar[PermissionEffect]
    PERMISSION_EFFECT_DENY: _ClassVar[PermissionEffect]

class RuleSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RULE_SOURCE_UNSPECIFIED: _ClassVar[RuleSource]
    RULE_SOURCE_POLICY_SETTINGS: _ClassVar[RuleSource]
    RULE_SOURCE_USER_SETTINGS: _ClassVar[RuleSource]
    RULE_SOURCE_PROJECT_SETTINGS: _ClassVar[RuleSource]
    RULE_SOURCE_LOCAL_SETTINGS: _ClassVar[RuleSource]
    RULE_SOURCE_FLAG_SETTINGS: _ClassVar[RuleSource]
    RULE_SOURCE_CLI_ARG: _ClassVar[RuleSource]
    RULE_SOURCE_COMMAND: _ClassVar[RuleSource]
    RULE_SOURCE_SESSION: _ClassVar[RuleSource]

class DecisionStage(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DECISION_STAGE_UNSPECIFIED: _ClassVar[DecisionStage]
    DECISION_STAGE_VALIDATION: _ClassVar[DecisionStage]
    DECISION_STAGE_DENY_RULE: _ClassVar[DecisionStage]
    DECISION_STAGE_SAFETY_FLOOR: _ClassVar[DecisionStage]
    DECISION_STAGE_ASK_RULE: _ClassVar[DecisionStage]
    DECISION_STAGE_HOOK: _ClassVar[DecisionStage]
    DECISION_STAGE_MODE_BLOCK: _ClassVar[DecisionStage]
    DECISION_STAGE_TOOL_CHECK: _ClassVar[DecisionStage]
    DECISION_STAGE_ALLOW_RULE: _ClassVar[DecisionStage]
    DECISION_STAGE_GRANT: _ClassVar[DecisionStage]
    DECISION_STAGE_SKIP_PERMISSION: _ClassVar[DecisionStage]
    DECISION_STAGE_MODE_DEFAULT: _ClassVar[DecisionStage]
    DECISION_STAGE_NO_APPROVER: _ClassVar[DecisionStage]
RISK_LEVEL_UNSPECIFIED: RiskLevel
RISK_LEVEL_SAFE: RiskLevel
RISK_LEVEL_SENSITIVE: RiskLevel
RISK_LEVEL_DANGEROUS: RiskLevel
TOOL_KIND_UNSPECIFIED: ToolKind
TOOL_KIND_READ: ToolKind
TOOL_KIND_FETCH: ToolKind
TOOL_KIND_EDIT: ToolKind
TOOL_KIND_DELETE: ToolKind
TOOL_KIND_EXECUTE: ToolKind
TOOL_KIND_INTERACT: ToolKind
TOOL_KIND_OTHER: ToolKind
SUBJECT_TYPE_UNSPECIFIED: SubjectType
SUBJECT_TYPE_COMMAND: SubjectType
SUBJECT_TYPE_PATH: SubjectType
SUBJECT_TYPE_URL: SubjectType
SUBJECT_TYPE_TEXT: SubjectType
SCHEMA_DIALECT_UNSPECIFIED: SchemaDialect
SCHEMA_DIALECT_CORE: SchemaDialect
SCHEMA_DIALECT_JSON_SCHEMA_2020_12: SchemaDialect
CALL_STATE_UNSPECIFIED: CallState
CALL_STATE_VALIDATING: CallState
CALL_STATE_AWAITING_APPROVAL: CallState
CALL_STATE_SCHEDULED: CallState
CALL_STATE_EXECUTING: CallState
CALL_STATE_SUCCESS: CallState
CALL_STATE_ERROR: CallState
CALL_STATE_CANCELLED: CallState
CALL_OUTCOME_UNSPECIFIED: CallOutcome
CALL_OUTCOME_SUCCESS: CallOutcome
CALL_OUTCOME_ERROR: CallOutcome
CALL_OUTCOME_CANCELLED: CallOutcome
NOT_EXECUTED_REASON_UNSPECIFIED: NotExecutedReason
NOT_EXECUTED_REASON_DENIED_BY_USER: NotExecutedReason
NOT_EXECUTED_REASON_DENIED_BY_RULE: NotExecutedReason
NOT_EXECUTED_REASON_DENIED_BY_HOOK: NotExecutedReason
NOT_EXECUTED_REASON_DENIED_BY_MODE: NotExecutedReason
NOT_EXECUTED_REASON_APPROVAL_EXPIRED: NotExecutedReason
NOT_EXECUTED_REASON_APPROVAL_UNAVAILABLE: NotExecutedReason
NOT_EXECUTED_REASON_BATCH_REJECTED: NotExecutedReason
NOT_EXECUTED_REASON_INVALID_CALL: NotExecutedReason
NOT_EXECUTED_REASON_NOT_FOUND: NotExecutedReason
NOT_EXECUTED_REASON_CANCELLED_BEFORE_START: NotExecutedReason
NOT_EXECUTED_REASON_LOOP: NotExecutedReason
NOT_EXECUTED_REASON_ANSWERED_BY_APPROVER: NotExecutedReason
NOT_EXECUTED_REASON_DENIED_BY_TOOL: NotExecutedReason
NOT_EXECUTED_REASON_ANSWERED_BY_HOOK: NotExecutedReason
NOT_EXECUTED_REASON_RUN_ABORTED: NotExecutedReason
NOT_EXECUTED_REASON_TOOL_UNAVAILABLE: NotExecutedReason
CALL_EFFECT_UNSPECIFIED: CallEffect
CALL_EFFECT_NOT_EXECUTED: CallEffect
CALL_EFFECT_EXECUTED: CallEffect
CALL_EFFECT_UNKNOWN: CallEffect
ERROR_LAYER_UNSPECIFIED: ErrorLayer
ERROR_LAYER_CONFIG: ErrorLayer
ERROR_LAYER_DECODE: ErrorLayer
ERROR_LAYER_TOOL: ErrorLayer
ERROR_LAYER_PERMISSION: ErrorLayer
ERROR_LAYER_CANCELLED: ErrorLayer
ERROR_LAYER_HOOK: ErrorLayer
ERROR_LAYER_RUNTIME: ErrorLayer
ERROR_LAYER_TRANSPORT: ErrorLayer
ERROR_LAYER_STORE: ErrorLayer
MESSAGE_ROLE_UNSPECIFIED: MessageRole
MESSAGE_ROLE_SYSTEM: MessageRole
MESSAGE_ROLE_USER: MessageRole
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_ACTIVE: RunState
RUN_STATE_COMPLETED: RunState
RUN_STATE_CANCELLED: RunState
RUN_STATE_ERROR: RunState
RUN_STATE_ABORTED: RunState
RUN_STATE_LOOP_DETECTED: RunState
BATCH_POLICY_UNSPECIFIED: BatchPolicy
BATCH_POLICY_FREEZE_ATOMIC: BatchPolicy
BATCH_POLICY_FREEZE_PARTIAL: BatchPolicy
BATCH_POLICY_EAGER_SAFE: BatchPolicy
LOOP_DETECTOR_UNSPECIFIED: LoopDetector
LOOP_DETECTOR_TOOL_SIGNATURE: LoopDetector
LOOP_DETECTOR_CYCLE: LoopDetector
LOOP_DETECTOR_LLM: LoopDetector
OUTPUT_CHANNEL_UNSPECIFIED: OutputChannel
OUTPUT_CHANNEL_TEXT: OutputChannel
OUTPUT_CHANNEL_STDOUT: OutputChannel
OUTPUT_CHANNEL_STDERR: OutputChannel
OUTPUT_CHANNEL_DATA: OutputChannel
ROLE_UNSPECIFIED: Role
ROLE_ORCHESTRATOR: Role
ROLE_EXECUTOR: Role
ROLE_HOOK: Role
ROLE_APPROVER: Role
ROLE_ADMIN: Role
ROLE_OBSERVER: Role
REGISTRATION_STATE_UNSPECIFIED: RegistrationState
REGISTRATION_STATE_ACTIVE: RegistrationState
REGISTRATION_STATE_REFUSED: RegistrationState
REGISTRATION_STATE_REMOVED: RegistrationState
PERMISSION_EFFECT_UNSPECIFIED: PermissionEffect
PERMISSION_EFFECT_ALLOW: PermissionEffect
PERMISSION_EFFECT_ASK: PermissionEffect
PERMISSION_EFFECT_DENY: PermissionEffect
RULE_SOURCE_UNSPECIFIED: RuleSource
RULE_SOURCE_POLICY_SETTINGS: RuleSource
RULE_SOURCE_USER_SETTINGS: RuleSource
RULE_SOURCE_PROJECT_SETTINGS: RuleSource
RULE_SOURCE_LOCAL_SETTINGS: RuleSource
RULE_SOURCE_FLAG_SETTINGS: RuleSource
RULE_SOURCE_CLI_ARG: RuleSource
RULE_SOURCE_COMMAND: RuleSource
RULE_SOURCE_SESSION: RuleSource
DECISION_STAGE_UNSPECIFIED: DecisionStage
DECISION_STAGE_VALIDATION: DecisionStage
DECISION_STAGE_DENY_RULE: DecisionStage
DECISION_STAGE_SAFETY_FLOOR: DecisionStage
DECISION_STAGE_ASK_RULE: DecisionStage
DECISION_STAGE_HOOK: DecisionStage
DECISION_STAGE_MODE_BLOCK: DecisionStage
DECISION_STAGE_TOOL_CHECK: DecisionStage
DECISION_STAGE_ALLOW_RULE: DecisionStage
DECISION_STAGE_GRANT: DecisionStage
DECISION_STAGE_SKIP_PERMISSION: DecisionStage
DECISION_STAGE_MODE_DEFAULT: DecisionStage
DECISION_STAGE_NO_APPROVER: DecisionStage

class ToolDefinition(_message.Message):
    __slots__ = ("name", "description", "parameters_json", "schema_dialect", "risk_level", "kind", "subject", "skip_permission", "idempotent", "exclusive", "loop_exempt", "loop_key", "timeout_ms", "max_concurrency", "supports_cancellation", "has_permission_check", "secret_pointers", "services", "version", "annotations_json")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_JSON_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_DIALECT_FIELD_NUMBER: _ClassVar[int]
    RISK_LEVEL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    SKIP_PERMISSION_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENT_FIELD_NUMBER: _ClassVar[int]
    EXCLUSIVE_FIELD_NUMBER: _ClassVar[int]
    LOOP_EXEMPT_FIELD_NUMBER: _ClassVar[int]
    LOOP_KEY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    SUPPORTS_CANCELLATION_FIELD_NUMBER: _ClassVar[int]
    HAS_PERMISSION_CHECK_FIELD_NUMBER: _ClassVar[int]
    SECRET_POINTERS_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    parameters_json: bytes
    schema_dialect: SchemaDialect
    risk_level: RiskLevel
    kind: ToolKind
    subject: Subject
    skip_permission: bool
    idempotent: bool
    exclusive: bool
    loop_exempt: bool
    loop_key: _containers.RepeatedScalarFieldContainer[str]
    timeout_ms: int
    max_concurrency: int
    supports_cancellation: bool
    has_permission_check: bool
    secret_pointers: _containers.RepeatedScalarFieldContainer[str]
    services: _containers.RepeatedScalarFieldContainer[str]
    version: str
    annotations_json: bytes
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., parameters_json: _Optional[bytes] = ..., schema_dialect: _Optional[_Union[SchemaDialect, str]] = ..., risk_level: _Optional[_Union[RiskLevel, str]] = ..., kind: _Optional[_Union[ToolKind, str]] = ..., subject: _Optional[_Union[Subject, _Mapping]] = ..., skip_permission: bool = ..., idempotent: bool = ..., exclusive: bool = ..., loop_exempt: bool = ..., loop_key: _Optional[_Iterable[str]] = ..., timeout_ms: _Optional[int] = ..., max_concurrency: _Optional[int] = ..., supports_cancellation: bool = ..., has_permission_check: bool = ..., secret_pointers: _Optional[_Iterable[str]] = ..., services: _Optional[_Iterable[str]] = ..., version: _Optional[str] = ..., annotations_json: _Optional[bytes] = ...) -> None: ...

class Subject(_message.Message):
    __slots__ = ("pointer", "subject_type", "dialect")
    POINTER_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_TYPE_FIELD_NUMBER: _ClassVar[int]
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    pointer: str
    subject_type: SubjectType
    dialect: str
    def __init__(self, pointer: _Optional[str] = ..., subject_type: _Optional[_Union[SubjectType, str]] = ..., dialect: _Optional[str] = ...) -> None: ...

class ToolRegistration(_message.Message):
    __slots__ = ("name", "state", "error", "tool_digest", "generation", "warnings")
    NAME_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOOL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    name: str
    state: RegistrationState
    error: ToolError
    tool_digest: bytes
    generation: int
    warnings: _containers.RepeatedCompositeFieldContainer[ToolWarning]
    def __init__(self, name: _Optional[str] = ..., state: _Optional[_Union[RegistrationState, str]] = ..., error: _Optional[_Union[ToolError, _Mapping]] = ..., tool_digest: _Optional[bytes] = ..., generation: _Optional[int] = ..., warnings: _Optional[_Iterable[_Union[ToolWarning, _Mapping]]] = ...) -> None: ...

class ToolWarning(_message.Message):
    __slots__ = ("code", "path", "message")
    CODE_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    code: str
    path: str
    message: str
    def __init__(self, code: _Optional[str] = ..., path: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class ToolCall(_message.Message):
    __slots__ = ("call_id", "name", "arguments_json", "truncated")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    name: str
    arguments_json: bytes
    truncated: bool
    def __init__(self, call_id: _Optional[str] = ..., name: _Optional[str] = ..., arguments_json: _Optional[bytes] = ..., truncated: bool = ...) -> None: ...

class ToolResult(_message.Message):
    __slots__ = ("contents", "is_error", "stop_flag", "error", "structured_json", "metadata_json", "sanitised")
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    STOP_FLAG_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_JSON_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    SANITISED_FIELD_NUMBER: _ClassVar[int]
    contents: _containers.RepeatedCompositeFieldContainer[ContentPart]
    is_error: bool
    stop_flag: bool
    error: ToolError
    structured_json: bytes
    metadata_json: bytes
    sanitised: bool
    def __init__(self, contents: _Optional[_Iterable[_Union[ContentPart, _Mapping]]] = ..., is_error: bool = ..., stop_flag: bool = ..., error: _Optional[_Union[ToolError, _Mapping]] = ..., structured_json: _Optional[bytes] = ..., metadata_json: _Optional[bytes] = ..., sanitised: bool = ...) -> None: ...

class CallResult(_message.Message):
    __slots__ = ("call_id", "tool", "outcome", "is_error", "stop_flag", "error", "contents", "structured_json", "metadata_json", "not_executed_reason", "effect", "suppressed", "truncated", "original_bytes", "sanitised", "attempts", "timing", "approval_id", "arguments_digest")
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    STOP_FLAG_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_JSON_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    NOT_EXECUTED_REASON_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    SUPPRESSED_FIELD_NUMBER: _ClassVar[int]
    TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    ORIGINAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    SANITISED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    call_id: str
    tool: str
    outcome: CallOutcome
    is_error: bool
    stop_flag: bool
    error: ToolError
    contents: _containers.RepeatedCompositeFieldContainer[ContentPart]
    structured_json: bytes
    metadata_json: bytes
    not_executed_reason: NotExecutedReason
    effect: CallEffect
    suppressed: bool
    truncated: bool
    original_bytes: int
    sanitised: bool
    attempts: int
    timing: CallTiming
    approval_id: str
    arguments_digest: bytes
    def __init__(self, call_id: _Optional[str] = ..., tool: _Optional[str] = ..., outcome: _Optional[_Union[CallOutcome, str]] = ..., is_error: bool = ..., stop_flag: bool = ..., error: _Optional[_Union[ToolError, _Mapping]] = ..., contents: _Optional[_Iterable[_Union[ContentPart, _Mapping]]] = ..., structured_json: _Optional[bytes] = ..., metadata_json: _Optional[bytes] = ..., not_executed_reason: _Optional[_Union[NotExecutedReason, str]] = ..., effect: _Optional[_Union[CallEffect, str]] = ..., suppressed: bool = ..., truncated: bool = ..., original_bytes: _Optional[int] = ..., sanitised: bool = ..., attempts: _Optional[int] = ..., timing: _Optional[_Union[CallTiming, _Mapping]] = ..., approval_id: _Optional[str] = ..., arguments_digest: _Optional[bytes] = ...) -> None: ...

class CallTiming(_message.Message):
    __slots__ = ("received_at_ms", "started_at_ms", "finished_at_ms", "approval_ms", "queue_ms")
    RECEIVED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_MS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_MS_FIELD_NUMBER: _ClassVar[int]
    received_at_ms: int
    started_at_ms: int
    finished_at_ms: int
    approval_ms: int
    queue_ms: int
    def __init__(self, received_at_ms: _Optional[int] = ..., started_at_ms: _Optional[int] = ..., finished_at_ms: _Optional[int] = ..., approval_ms: _Optional[int] = ..., queue_ms: _Optional[int] = ...) -> None: ...

class ToolError(_message.Message):
    __slots__ = ("code", "layer", "message_for_model", "detail", "path", "retryable", "retry_after_ms")
    CODE_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FOR_MODEL_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    code: str
    layer: ErrorLayer
    message_for_model: str
    detail: str
    path: str
    retryable: bool
    retry_after_ms: int
    def __init__(self, code: _Optional[str] = ..., layer: _Optional[_Union[ErrorLayer, str]] = ..., message_for_model: _Optional[str] = ..., detail: _Optional[str] = ..., path: _Optional[str] = ..., retryable: bool = ..., retry_after_ms: _Optional[int] = ...) -> None: ...

class ContentPart(_message.Message):
    __slots__ = ("text", "value_json", "image", "audio", "resource", "resource_link")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    VALUE_JSON_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    AUDIO_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_LINK_FIELD_NUMBER: _ClassVar[int]
    text: str
    value_json: bytes
    image: Media
    audio: Media
    resource: Resource
    resource_link: ResourceLink
    def __init__(self, text: _Optional[str] = ..., value_json: _Optional[bytes] = ..., image: _Optional[_Union[Media, _Mapping]] = ..., audio: _Optional[_Union[Media, _Mapping]] = ..., resource: _Optional[_Union[Resource, _Mapping]] = ..., resource_link: _Optional[_Union[ResourceLink, _Mapping]] = ...) -> None: ...

class Media(_message.Message):
    __slots__ = ("data", "mime_type")
    DATA_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    mime_type: str
    def __init__(self, data: _Optional[bytes] = ..., mime_type: _Optional[str] = ...) -> None: ...

class Resource(_message.Message):
    __slots__ = ("uri", "mime_type", "text", "blob")
    URI_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BLOB_FIELD_NUMBER: _ClassVar[int]
    uri: str
    mime_type: str
    text: str
    blob: bytes
    def __init__(self, uri: _Optional[str] = ..., mime_type: _Optional[str] = ..., text: _Optional[str] = ..., blob: _Optional[bytes] = ...) -> None: ...

class ResourceLink(_message.Message):
    __slots__ = ("uri", "name", "title", "description", "mime_type", "size_bytes")
    URI_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    uri: str
    name: str
    title: str
    description: str
    mime_type: str
    size_bytes: int
    def __init__(self, uri: _Optional[str] = ..., name: _Optional[str] = ..., title: _Optional[str] = ..., description: _Optional[str] = ..., mime_type: _Optional[str] = ..., size_bytes: _Optional[int] = ...) -> None: ...

class CallContext(_message.Message):
    __slots__ = ("session_id", "run_id", "turn_id", "batch_call_id", "state", "services", "cwd", "trace")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    BATCH_CALL_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    TRACE_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    run_id: str
    turn_id: str
    batch_call_id: str
    state: SessionState
    services: _containers.RepeatedScalarFieldContainer[str]
    cwd: str
    trace: TraceContext
    def __init__(self, session_id: _Optional[str] = ..., run_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., batch_call_id: _Optional[str] = ..., state: _Optional[_Union[SessionState, _Mapping]] = ..., services: _Optional[_Iterable[str]] = ..., cwd: _Optional[str] = ..., trace: _Optional[_Union[TraceContext, _Mapping]] = ...) -> None: ...

class SessionState(_message.Message):
    __slots__ = ("schema_version", "session_id", "metadata_json")
    SCHEMA_VERSION_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    METADATA_JSON_FIELD_NUMBER: _ClassVar[int]
    schema_version: int
    session_id: str
    metadata_json: bytes
    def __init__(self, schema_version: _Optional[int] = ..., session_id: _Optional[str] = ..., metadata_json: _Optional[bytes] = ...) -> None: ...

class TraceContext(_message.Message):
    __slots__ = ("traceparent", "tracestate")
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    traceparent: str
    tracestate: str
    def __init__(self, traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("run_id", "session_id", "state", "rounds", "end_code", "end_reason", "started_at_ms", "ended_at_ms")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    ROUNDS_FIELD_NUMBER: _ClassVar[int]
    END_CODE_FIELD_NUMBER: _ClassVar[int]
    END_REASON_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    session_id: str
    state: RunState
    rounds: int
    end_code: str
    end_reason: str
    started_at_ms: int
    ended_at_ms: int
    def __init__(self, run_id: _Optional[str] = ..., session_id: _Optional[str] = ..., state: _Optional[_Union[RunState, str]] = ..., rounds: _Optional[int] = ..., end_code: _Optional[str] = ..., end_reason: _Optional[str] = ..., started_at_ms: _Optional[int] = ..., ended_at_ms: _Optional[int] = ...) -> None: ...

class InjectedMessage(_message.Message):
    __slots__ = ("role", "text", "hook_id", "call_id")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    HOOK_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    role: MessageRole
    text: str
    hook_id: str
    call_id: str
    def __init__(self, role: _Optional[_Union[MessageRole, str]] = ..., text: _Optional[str] = ..., hook_id: _Optional[str] = ..., call_id: _Optional[str] = ...) -> None: ...

class AdditionalContext(_message.Message):
    __slots__ = ("text", "hook_id", "call_id")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    HOOK_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    text: str
    hook_id: str
    call_id: str
    def __init__(self, text: _Optional[str] = ..., hook_id: _Optional[str] = ..., call_id: _Optional[str] = ...) -> None: ...

class PermissionVerdict(_message.Message):
    __slots__ = ("effect", "stage", "rule", "source", "origin", "segment", "segment_index", "hook_id", "message", "policy_revision")
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    STAGE_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    HOOK_ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    POLICY_REVISION_FIELD_NUMBER: _ClassVar[int]
    effect: PermissionEffect
    stage: DecisionStage
    rule: str
    source: RuleSource
    origin: str
    segment: str
    segment_index: int
    hook_id: str
    message: str
    policy_revision: int
    def __init__(self, effect: _Optional[_Union[PermissionEffect, str]] = ..., stage: _Optional[_Union[DecisionStage, str]] = ..., rule: _Optional[str] = ..., source: _Optional[_Union[RuleSource, str]] = ..., origin: _Optional[str] = ..., segment: _Optional[str] = ..., segment_index: _Optional[int] = ..., hook_id: _Optional[str] = ..., message: _Optional[str] = ..., policy_revision: _Optional[int] = ...) -> None: ...
