from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ErrorReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_REASON_UNSPECIFIED: _ClassVar[ErrorReason]
    ERROR_REASON_CREDENTIAL_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_ROLE_MISSING: _ClassVar[ErrorReason]
    ERROR_REASON_INVALID_REQUEST: _ClassVar[ErrorReason]
    ERROR_REASON_LIMIT_EXCEEDED: _ClassVar[ErrorReason]
    ERROR_REASON_OVERLOADED: _ClassVar[ErrorReason]
    ERROR_REASON_DRAINING: _ClassVar[ErrorReason]
    ERROR_REASON_STORE_UNAVAILABLE: _ClassVar[ErrorReason]
    ERROR_REASON_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_ALREADY_EXISTS: _ClassVar[ErrorReason]
    ERROR_REASON_ETAG_MISMATCH: _ClassVar[ErrorReason]
    ERROR_REASON_CURSOR_EXPIRED: _ClassVar[ErrorReason]
    ERROR_REASON_INTERNAL: _ClassVar[ErrorReason]
    ERROR_REASON_CALL_ID_EMPTY: _ClassVar[ErrorReason]
    ERROR_REASON_CALL_ID_DUPLICATE: _ClassVar[ErrorReason]
    ERROR_REASON_CALL_CONFLICT: _ClassVar[ErrorReason]
    ERROR_REASON_RUN_NOT_ACTIVE: _ClassVar[ErrorReason]
    ERROR_REASON_SESSION_CLOSED: _ClassVar[ErrorReason]
    ERROR_REASON_PROVIDER_MESSAGE_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_SNAPSHOT_EXPIRED: _ClassVar[ErrorReason]
    ERROR_REASON_SLOW_READER: _ClassVar[ErrorReason]
    ERROR_REASON_RUN_BUSY: _ClassVar[ErrorReason]
    ERROR_REASON_HELLO_REQUIRED: _ClassVar[ErrorReason]
    ERROR_REASON_HELLO_TIMEOUT: _ClassVar[ErrorReason]
    ERROR_REASON_PROTOCOL_UNSUPPORTED: _ClassVar[ErrorReason]
    ERROR_REASON_PROTOCOL_VIOLATION: _ClassVar[ErrorReason]
    ERROR_REASON_SUPERSEDED: _ClassVar[ErrorReason]
    ERROR_REASON_HEARTBEAT_MISSED: _ClassVar[ErrorReason]
    ERROR_REASON_NAME_FORBIDDEN: _ClassVar[ErrorReason]
    ERROR_REASON_APPROVAL_NOT_FOUND: _ClassVar[ErrorReason]
    ERROR_REASON_APPROVAL_ALREADY_DECIDED: _ClassVar[ErrorReason]
    ERROR_REASON_APPROVAL_NOT_PENDING: _ClassVar[ErrorReason]
    ERROR_REASON_APPROVAL_DIGEST_MISMATCH: _ClassVar[ErrorReason]
    ERROR_REASON_APPROVAL_CHOICE_NOT_ALLOWED: _ClassVar[ErrorReason]
    ERROR_REASON_APPROVAL_EDIT_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_DECISION_ID_REUSED: _ClassVar[ErrorReason]
    ERROR_REASON_MODE_NOT_ALLOWED: _ClassVar[ErrorReason]
    ERROR_REASON_RULE_INVALID: _ClassVar[ErrorReason]
    ERROR_REASON_TOOLSET_IN_USE: _ClassVar[ErrorReason]
    ERROR_REASON_TOOL_NAME_DUPLICATE: _ClassVar[ErrorReason]
ERROR_REASON_UNSPECIFIED: ErrorReason
ERROR_REASON_CREDENTIAL_INVALID: ErrorReason
ERROR_REASON_ROLE_MISSING: ErrorReason
ERROR_REASON_INVALID_REQUEST: ErrorReason
ERROR_REASON_LIMIT_EXCEEDED: ErrorReason
ERROR_REASON_OVERLOADED: ErrorReason
ERROR_REASON_DRAINING: ErrorReason
ERROR_REASON_STORE_UNAVAILABLE: ErrorReason
ERROR_REASON_NOT_FOUND: ErrorReason
ERROR_REASON_ALREADY_EXISTS: ErrorReason
ERROR_REASON_ETAG_MISMATCH: ErrorReason
ERROR_REASON_CURSOR_EXPIRED: ErrorReason
ERROR_REASON_INTERNAL: ErrorReason
ERROR_REASON_CALL_ID_EMPTY: ErrorReason
ERROR_REASON_CALL_ID_DUPLICATE: ErrorReason
ERROR_REASON_CALL_CONFLICT: ErrorReason
ERROR_REASON_RUN_NOT_ACTIVE: ErrorReason
ERROR_REASON_SESSION_CLOSED: ErrorReason
ERROR_REASON_PROVIDER_MESSAGE_INVALID: ErrorReason
ERROR_REASON_SNAPSHOT_EXPIRED: ErrorReason
ERROR_REASON_SLOW_READER: ErrorReason
ERROR_REASON_RUN_BUSY: ErrorReason
ERROR_REASON_HELLO_REQUIRED: ErrorReason
ERROR_REASON_HELLO_TIMEOUT: ErrorReason
ERROR_REASON_PROTOCOL_UNSUPPORTED: ErrorReason
ERROR_REASON_PROTOCOL_VIOLATION: ErrorReason
ERROR_REASON_SUPERSEDED: ErrorReason
ERROR_REASON_HEARTBEAT_MISSED: ErrorReason
ERROR_REASON_NAME_FORBIDDEN: ErrorReason
ERROR_REASON_APPROVAL_NOT_FOUND: ErrorReason
ERROR_REASON_APPROVAL_ALREADY_DECIDED: ErrorReason
ERROR_REASON_APPROVAL_NOT_PENDING: ErrorReason
ERROR_REASON_APPROVAL_DIGEST_MISMATCH: ErrorReason
ERROR_REASON_APPROVAL_CHOICE_NOT_ALLOWED: ErrorReason
ERROR_REASON_APPROVAL_EDIT_INVALID: ErrorReason
ERROR_REASON_DECISION_ID_REUSED: ErrorReason
ERROR_REASON_MODE_NOT_ALLOWED: ErrorReason
ERROR_REASON_RULE_INVALID: ErrorReason
ERROR_REASON_TOOLSET_IN_USE: ErrorReason
ERROR_REASON_TOOL_NAME_DUPLICATE: ErrorReason

class ErrorDetail(_message.Message):
    __slots__ = ("reason", "code", "violations", "limit", "retry_after_ms", "resource_kind", "resource_id", "protocol")
    REASON_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_MS_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_KIND_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    reason: ErrorReason
    code: str
    violations: _containers.RepeatedCompositeFieldContainer[FieldViolation]
    limit: LimitViolation
    retry_after_ms: int
    resource_kind: str
    resource_id: str
    protocol: ProtocolRange
    def __init__(self, reason: _Optional[_Union[ErrorReason, str]] = ..., code: _Optional[str] = ..., violations: _Optional[_Iterable[_Union[FieldViolation, _Mapping]]] = ..., limit: _Optional[_Union[LimitViolation, _Mapping]] = ..., retry_after_ms: _Optional[int] = ..., resource_kind: _Optional[str] = ..., resource_id: _Optional[str] = ..., protocol: _Optional[_Union[ProtocolRange, _Mapping]] = ...) -> None: ...

class ProtocolRange(_message.Message):
    __slots__ = ("min", "max")
    MIN_FIELD_NUMBER: _ClassVar[int]
    MAX_FIELD_NUMBER: _ClassVar[int]
    min: int
    max: int
    def __init__(self, min: _Optional[int] = ..., max: _Optional[int] = ...) -> None: ...

class FieldViolation(_message.Message):
    __slots__ = ("field", "code", "message")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    field: str
    code: str
    message: str
    def __init__(self, field: _Optional[str] = ..., code: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...

class LimitViolation(_message.Message):
    __slots__ = ("name", "allowed", "actual")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    ACTUAL_FIELD_NUMBER: _ClassVar[int]
    name: str
    allowed: int
    actual: int
    def __init__(self, name: _Optional[str] = ..., allowed: _Optional[int] = ..., actual: _Optional[int] = ...) -> None: ...

class RpcError(_message.Message):
    __slots__ = ("status", "message", "detail")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    status: int
    message: str
    detail: ErrorDetail
    def __init__(self, status: _Optional[int] = ..., message: _Optional[str] = ..., detail: _Optional[_Union[ErrorDetail, _Mapping]] = ...) -> None: ...
