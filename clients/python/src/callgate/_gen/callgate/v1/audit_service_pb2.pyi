from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AuditProblem(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AUDIT_PROBLEM_UNSPECIFIED: _ClassVar[AuditProblem]
    AUDIT_PROBLEM_ALTERED: _ClassVar[AuditProblem]
    AUDIT_PROBLEM_GAP: _ClassVar[AuditProblem]
    AUDIT_PROBLEM_UNLINKED: _ClassVar[AuditProblem]
    AUDIT_PROBLEM_TRUNCATED: _ClassVar[AuditProblem]
    AUDIT_PROBLEM_CHECKPOINT_MISMATCH: _ClassVar[AuditProblem]
AUDIT_PROBLEM_UNSPECIFIED: AuditProblem
AUDIT_PROBLEM_ALTERED: AuditProblem
AUDIT_PROBLEM_GAP: AuditProblem
AUDIT_PROBLEM_UNLINKED: AuditProblem
AUDIT_PROBLEM_TRUNCATED: AuditProblem
AUDIT_PROBLEM_CHECKPOINT_MISMATCH: AuditProblem

class AuditRecord(_message.Message):
    __slots__ = ("sequence", "recorded_at_ms", "kind", "principal", "session_id", "run_id", "turn_id", "call_id", "tool", "record_json", "previous_hash", "record_hash")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RECORDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    RECORD_JSON_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_HASH_FIELD_NUMBER: _ClassVar[int]
    RECORD_HASH_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    recorded_at_ms: int
    kind: str
    principal: str
    session_id: str
    run_id: str
    turn_id: str
    call_id: str
    tool: str
    record_json: bytes
    previous_hash: bytes
    record_hash: bytes
    def __init__(self, sequence: _Optional[int] = ..., recorded_at_ms: _Optional[int] = ..., kind: _Optional[str] = ..., principal: _Optional[str] = ..., session_id: _Optional[str] = ..., run_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., call_id: _Optional[str] = ..., tool: _Optional[str] = ..., record_json: _Optional[bytes] = ..., previous_hash: _Optional[bytes] = ..., record_hash: _Optional[bytes] = ...) -> None: ...

class AuditFilter(_message.Message):
    __slots__ = ("session_id", "run_id", "turn_id", "call_id", "tool", "principal", "kinds", "since_ms", "until_ms", "text")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNTIL_MS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    run_id: str
    turn_id: str
    call_id: str
    tool: str
    principal: str
    kinds: _containers.RepeatedScalarFieldContainer[str]
    since_ms: int
    until_ms: int
    text: str
    def __init__(self, session_id: _Optional[str] = ..., run_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., call_id: _Optional[str] = ..., tool: _Optional[str] = ..., principal: _Optional[str] = ..., kinds: _Optional[_Iterable[str]] = ..., since_ms: _Optional[int] = ..., until_ms: _Optional[int] = ..., text: _Optional[str] = ...) -> None: ...

class ListAuditRecordsRequest(_message.Message):
    __slots__ = ("filter", "page_size", "page_token")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    filter: AuditFilter
    page_size: int
    page_token: str
    def __init__(self, filter: _Optional[_Union[AuditFilter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAuditRecordsResponse(_message.Message):
    __slots__ = ("records", "next_page_token")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[AuditRecord]
    next_page_token: str
    def __init__(self, records: _Optional[_Iterable[_Union[AuditRecord, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class WatchAuditRecordsRequest(_message.Message):
    __slots__ = ("filter", "after_sequence")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    AFTER_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    filter: AuditFilter
    after_sequence: int
    def __init__(self, filter: _Optional[_Union[AuditFilter, _Mapping]] = ..., after_sequence: _Optional[int] = ...) -> None: ...

class WatchAuditRecordsResponse(_message.Message):
    __slots__ = ("records", "last_sequence")
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[AuditRecord]
    last_sequence: int
    def __init__(self, records: _Optional[_Iterable[_Union[AuditRecord, _Mapping]]] = ..., last_sequence: _Optional[int] = ...) -> None: ...

class VerifyAuditRequest(_message.Message):
    __slots__ = ("first_sequence", "last_sequence", "checkpoint")
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    first_sequence: int
    last_sequence: int
    checkpoint: AuditCheckpoint
    def __init__(self, first_sequence: _Optional[int] = ..., last_sequence: _Optional[int] = ..., checkpoint: _Optional[_Union[AuditCheckpoint, _Mapping]] = ...) -> None: ...

class VerifyAuditResponse(_message.Message):
    __slots__ = ("intact", "first_bad_sequence", "problem", "checked_records", "head_sequence", "head_hash", "first_kept_sequence", "signed_to_sequence")
    INTACT_FIELD_NUMBER: _ClassVar[int]
    FIRST_BAD_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    CHECKED_RECORDS_FIELD_NUMBER: _ClassVar[int]
    HEAD_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    HEAD_HASH_FIELD_NUMBER: _ClassVar[int]
    FIRST_KEPT_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SIGNED_TO_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    intact: bool
    first_bad_sequence: int
    problem: AuditProblem
    checked_records: int
    head_sequence: int
    head_hash: bytes
    first_kept_sequence: int
    signed_to_sequence: int
    def __init__(self, intact: bool = ..., first_bad_sequence: _Optional[int] = ..., problem: _Optional[_Union[AuditProblem, str]] = ..., checked_records: _Optional[int] = ..., head_sequence: _Optional[int] = ..., head_hash: _Optional[bytes] = ..., first_kept_sequence: _Optional[int] = ..., signed_to_sequence: _Optional[int] = ...) -> None: ...

class ExportAuditRequest(_message.Message):
    __slots__ = ("filter", "first_sequence", "last_sequence")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    filter: AuditFilter
    first_sequence: int
    last_sequence: int
    def __init__(self, filter: _Optional[_Union[AuditFilter, _Mapping]] = ..., first_sequence: _Optional[int] = ..., last_sequence: _Optional[int] = ...) -> None: ...

class ExportAuditResponse(_message.Message):
    __slots__ = ("lines", "last_sequence", "checkpoint")
    LINES_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
    lines: bytes
    last_sequence: int
    checkpoint: AuditCheckpoint
    def __init__(self, lines: _Optional[bytes] = ..., last_sequence: _Optional[int] = ..., checkpoint: _Optional[_Union[AuditCheckpoint, _Mapping]] = ...) -> None: ...

class AuditCheckpoint(_message.Message):
    __slots__ = ("sequence", "record_hash", "signed_at_ms", "key_id", "signature")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    RECORD_HASH_FIELD_NUMBER: _ClassVar[int]
    SIGNED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    KEY_ID_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    record_hash: bytes
    signed_at_ms: int
    key_id: str
    signature: bytes
    def __init__(self, sequence: _Optional[int] = ..., record_hash: _Optional[bytes] = ..., signed_at_ms: _Optional[int] = ..., key_id: _Optional[str] = ..., signature: _Optional[bytes] = ...) -> None: ...

class ListAuditCheckpointsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListAuditCheckpointsResponse(_message.Message):
    __slots__ = ("checkpoints", "next_page_token", "public_key")
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    checkpoints: _containers.RepeatedCompositeFieldContainer[AuditCheckpoint]
    next_page_token: str
    public_key: bytes
    def __init__(self, checkpoints: _Optional[_Iterable[_Union[AuditCheckpoint, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., public_key: _Optional[bytes] = ...) -> None: ...
