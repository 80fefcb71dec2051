from . import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    MODE_PLAN: _ClassVar[Mode]
    MODE_DEFAULT: _ClassVar[Mode]
    MODE_ACCEPT_EDITS: _ClassVar[Mode]
    MODE_AUTO: _ClassVar[Mode]

class RuleState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RULE_STATE_UNSPECIFIED: _ClassVar[RuleState]
    RULE_STATE_ACTIVE: _ClassVar[RuleState]
    RULE_STATE_UNTRUSTED: _ClassVar[RuleState]
    RULE_STATE_INVALID: _ClassVar[RuleState]
    RULE_STATE_EXPIRED: _ClassVar[RuleState]

class GrantKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GRANT_KIND_UNSPECIFIED: _ClassVar[GrantKind]
    GRANT_KIND_TOOL: _ClassVar[GrantKind]
    GRANT_KIND_COMMAND_PREFIX: _ClassVar[GrantKind]
    GRANT_KIND_COMMAND_EXACT: _ClassVar[GrantKind]
    GRANT_KIND_ACCEPT_EDITS: _ClassVar[GrantKind]

class GrantState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GRANT_STATE_UNSPECIFIED: _ClassVar[GrantState]
    GRANT_STATE_ACTIVE: _ClassVar[GrantState]
    GRANT_STATE_REVOKED: _ClassVar[GrantState]
    GRANT_STATE_VOID: _ClassVar[GrantState]
    GRANT_STATE_EXPIRED: _ClassVar[GrantState]
MODE_UNSPECIFIED: Mode
MODE_PLAN: Mode
MODE_DEFAULT: Mode
MODE_ACCEPT_EDITS: Mode
MODE_AUTO: Mode
RULE_STATE_UNSPECIFIED: RuleState
RULE_STATE_ACTIVE: RuleState
RULE_STATE_UNTRUSTED: RuleState
RULE_STATE_INVALID: RuleState
RULE_STATE_EXPIRED: RuleState
GRANT_KIND_UNSPECIFIED: GrantKind
GRANT_KIND_TOOL: GrantKind
GRANT_KIND_COMMAND_PREFIX: GrantKind
GRANT_KIND_COMMAND_EXACT: GrantKind
GRANT_KIND_ACCEPT_EDITS: GrantKind
GRANT_STATE_UNSPECIFIED: GrantState
GRANT_STATE_ACTIVE: GrantState
GRANT_STATE_REVOKED: GrantState
GRANT_STATE_VOID: GrantState
GRANT_STATE_EXPIRED: GrantState

class RuleSpec(_message.Message):
    __slots__ = ("effect", "rule", "matches", "not_matches", "message", "expires_at_ms", "modes")
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    MATCHES_FIELD_NUMBER: _ClassVar[int]
    NOT_MATCHES_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    MODES_FIELD_NUMBER: _ClassVar[int]
    effect: _types_pb2.PermissionEffect
    rule: str
    matches: _containers.RepeatedScalarFieldContainer[str]
    not_matches: _containers.RepeatedScalarFieldContainer[str]
    message: str
    expires_at_ms: int
    modes: _containers.RepeatedScalarFieldContainer[Mode]
    def __init__(self, effect: _Optional[_Union[_types_pb2.PermissionEffect, str]] = ..., rule: _Optional[str] = ..., matches: _Optional[_Iterable[str]] = ..., not_matches: _Optional[_Iterable[str]] = ..., message: _Optional[str] = ..., expires_at_ms: _Optional[int] = ..., modes: _Optional[_Iterable[_Union[Mode, str]]] = ...) -> None: ...

class Rule(_message.Message):
    __slots__ = ("rule_id", "spec", "source", "origin", "state", "problems")
    RULE_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    rule_id: str
    spec: RuleSpec
    source: _types_pb2.RuleSource
    origin: str
    state: RuleState
    problems: _containers.RepeatedCompositeFieldContainer[RuleProblem]
    def __init__(self, rule_id: _Optional[str] = ..., spec: _Optional[_Union[RuleSpec, _Mapping]] = ..., source: _Optional[_Union[_types_pb2.RuleSource, str]] = ..., origin: _Optional[str] = ..., state: _Optional[_Union[RuleState, str]] = ..., problems: _Optional[_Iterable[_Union[RuleProblem, _Mapping]]] = ...) -> None: ...

class RuleProblem(_message.Message):
    __slots__ = ("code", "message", "warning", "rule", "origin")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    WARNING_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    warning: bool
    rule: str
    origin: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., warning: bool = ..., rule: _Optional[str] = ..., origin: _Optional[str] = ...) -> None: ...

class SubjectFact(_message.Message):
    __slots__ = ("pointer", "value", "canonical", "exists", "error")
    POINTER_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    CANONICAL_FIELD_NUMBER: _ClassVar[int]
    EXISTS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    pointer: str
    value: str
    canonical: str
    exists: bool
    error: str
    def __init__(self, pointer: _Optional[str] = ..., value: _Optional[str] = ..., canonical: _Optional[str] = ..., exists: bool = ..., error: _Optional[str] = ...) -> None: ...

class GrantCandidate(_message.Message):
    __slots__ = ("candidate_id", "kind", "rule", "summary", "segment", "segment_index", "also_covers")
    CANDIDATE_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_INDEX_FIELD_NUMBER: _ClassVar[int]
    ALSO_COVERS_FIELD_NUMBER: _ClassVar[int]
    candidate_id: str
    kind: GrantKind
    rule: str
    summary: str
    segment: str
    segment_index: int
    also_covers: int
    def __init__(self, candidate_id: _Optional[str] = ..., kind: _Optional[_Union[GrantKind, str]] = ..., rule: _Optional[str] = ..., summary: _Optional[str] = ..., segment: _Optional[str] = ..., segment_index: _Optional[int] = ..., also_covers: _Optional[int] = ...) -> None: ...

class Grant(_message.Message):
    __slots__ = ("grant_id", "session_id", "kind", "rule", "tool", "owner", "tool_digest", "approval_id", "granted_by", "granted_at_ms", "expires_at_ms", "uses", "state", "revoked_by", "ended_at_ms")
    GRANT_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    TOOL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_ID_FIELD_NUMBER: _ClassVar[int]
    GRANTED_BY_FIELD_NUMBER: _ClassVar[int]
    GRANTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_MS_FIELD_NUMBER: _ClassVar[int]
    USES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REVOKED_BY_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    grant_id: str
    session_id: str
    kind: GrantKind
    rule: str
    tool: str
    owner: str
    tool_digest: bytes
    approval_id: str
    granted_by: str
    granted_at_ms: int
    expires_at_ms: int
    uses: int
    state: GrantState
    revoked_by: str
    ended_at_ms: int
    def __init__(self, grant_id: _Optional[str] = ..., session_id: _Optional[str] = ..., kind: _Optional[_Union[GrantKind, str]] = ..., rule: _Optional[str] = ..., tool: _Optional[str] = ..., owner: _Optional[str] = ..., tool_digest: _Optional[bytes] = ..., approval_id: _Optional[str] = ..., granted_by: _Optional[str] = ..., granted_at_ms: _Optional[int] = ..., expires_at_ms: _Optional[int] = ..., uses: _Optional[int] = ..., state: _Optional[_Union[GrantState, str]] = ..., revoked_by: _Optional[str] = ..., ended_at_ms: _Optional[int] = ...) -> None: ...
