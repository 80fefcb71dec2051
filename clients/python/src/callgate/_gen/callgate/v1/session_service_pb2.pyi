from . import permission_pb2 as _permission_pb2
from . import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ApproverAvailability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    APPROVER_AVAILABILITY_UNSPECIFIED: _ClassVar[ApproverAvailability]
    APPROVER_AVAILABILITY_EXPECTED: _ClassVar[ApproverAvailability]
    APPROVER_AVAILABILITY_CONNECTED: _ClassVar[ApproverAvailability]
    APPROVER_AVAILABILITY_NONE: _ClassVar[ApproverAvailability]
APPROVER_AVAILABILITY_UNSPECIFIED: ApproverAvailability
APPROVER_AVAILABILITY_EXPECTED: ApproverAvailability
APPROVER_AVAILABILITY_CONNECTED: ApproverAvailability
APPROVER_AVAILABILITY_NONE: ApproverAvailability

class Session(_message.Message):
    __slots__ = ("session_id", "parent_session_id", "root_session_id", "depth", "settings", "max_mode", "created_at_ms", "used_at_ms", "closed_at_ms", "pending_approvals", "etag")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    PARENT_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ROOT_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    MAX_MODE_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    USED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    PENDING_APPROVALS_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    parent_session_id: str
    root_session_id: str
    depth: int
    settings: SessionSettings
    max_mode: _permission_pb2.Mode
    created_at_ms: int
    used_at_ms: int
    closed_at_ms: int
    pending_approvals: int
    etag: str
    def __init__(self, session_id: _Optional[str] = ..., parent_session_id: _Optional[str] = ..., root_session_id: _Optional[str] = ..., depth: _Optional[int] = ..., settings: _Optional[_Union[SessionSettings, _Mapping]] = ..., max_mode: _Optional[_Union[_permission_pb2.Mode, str]] = ..., created_at_ms: _Optional[int] = ..., used_at_ms: _Optional[int] = ..., closed_at_ms: _Optional[int] = ..., pending_approvals: _Optional[int] = ..., etag: _Optional[str] = ...) -> None: ...

class SessionSettings(_message.Message):
    __slots__ = ("mode", "batch_policy", "max_parallel", "toolset", "cwd", "approvers", "approval_ttl_ms")
    MODE_FIELD_NUMBER: _ClassVar[int]
    BATCH_POLICY_FIELD_NUMBER: _ClassVar[int]
    MAX_PARALLEL_FIELD_NUMBER: _ClassVar[int]
    TOOLSET_FIELD_NUMBER: _ClassVar[int]
    CWD_FIELD_NUMBER: _ClassVar[int]
    APPROVERS_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_TTL_MS_FIELD_NUMBER: _ClassVar[int]
    mode: _permission_pb2.Mode
    batch_policy: _types_pb2.BatchPolicy
    max_parallel: int
    toolset: str
    cwd: str
    approvers: ApproverAvailability
    approval_ttl_ms: int
    def __init__(self, mode: _Optional[_Union[_permission_pb2.Mode, str]] = ..., batch_policy: _Optional[_Union[_types_pb2.BatchPolicy, str]] = ..., max_parallel: _Optional[int] = ..., toolset: _Optional[str] = ..., cwd: _Optional[str] = ..., approvers: _Optional[_Union[ApproverAvailability, str]] = ..., approval_ttl_ms: _Optional[int] = ...) -> None: ...

class CreateSessionRequest(_message.Message):
    __slots__ = ("session_id", "settings")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    settings: SessionSettings
    def __init__(self, session_id: _Optional[str] = ..., settings: _Optional[_Union[SessionSettings, _Mapping]] = ...) -> None: ...

class CreateSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class GetSessionRequest(_message.Message):
    __slots__ = ("session_id",)
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    def __init__(self, session_id: _Optional[str] = ...) -> None: ...

class GetSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ("root_session_id", "include_closed", "page_size", "page_token")
    ROOT_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_CLOSED_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    root_session_id: str
    include_closed: bool
    page_size: int
    page_token: str
    def __init__(self, root_session_id: _Optional[str] = ..., include_closed: bool = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions", "next_page_token")
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[Session]
    next_page_token: str
    def __init__(self, sessions: _Optional[_Iterable[_Union[Session, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UpdateSessionRequest(_message.Message):
    __slots__ = ("session_id", "etag", "settings")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    etag: str
    settings: SessionSettings
    def __init__(self, session_id: _Optional[str] = ..., etag: _Optional[str] = ..., settings: _Optional[_Union[SessionSettings, _Mapping]] = ...) -> None: ...

class UpdateSessionResponse(_message.Message):
    __slots__ = ("session", "released", "denied")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    DENIED_FIELD_NUMBER: _ClassVar[int]
    session: Session
    released: int
    denied: int
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ..., released: _Optional[int] = ..., denied: _Optional[int] = ...) -> None: ...

class ForkSessionRequest(_message.Message):
    __slots__ = ("parent_session_id", "session_id", "settings", "inherit_grants")
    PARENT_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    INHERIT_GRANTS_FIELD_NUMBER: _ClassVar[int]
    parent_session_id: str
    session_id: str
    settings: SessionSettings
    inherit_grants: bool
    def __init__(self, parent_session_id: _Optional[str] = ..., session_id: _Optional[str] = ..., settings: _Optional[_Union[SessionSettings, _Mapping]] = ..., inherit_grants: bool = ...) -> None: ...

class ForkSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("session_id", "reason")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    reason: str
    def __init__(self, session_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CloseSessionResponse(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: Session
    def __init__(self, session: _Optional[_Union[Session, _Mapping]] = ...) -> None: ...

class ListGrantsRequest(_message.Message):
    __slots__ = ("session_id", "state", "page_size", "page_token")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    state: _permission_pb2.GrantState
    page_size: int
    page_token: str
    def __init__(self, session_id: _Optional[str] = ..., state: _Optional[_Union[_permission_pb2.GrantState, str]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListGrantsResponse(_message.Message):
    __slots__ = ("grants", "next_page_token")
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[_permission_pb2.Grant]
    next_page_token: str
    def __init__(self, grants: _Optional[_Iterable[_Union[_permission_pb2.Grant, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RevokeGrantsRequest(_message.Message):
    __slots__ = ("session_id", "grant_ids")
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    GRANT_IDS_FIELD_NUMBER: _ClassVar[int]
    session_id: str
    grant_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, session_id: _Optional[str] = ..., grant_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class RevokeGrantsResponse(_message.Message):
    __slots__ = ("grants", "mode")
    GRANTS_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    grants: _containers.RepeatedCompositeFieldContainer[_permission_pb2.Grant]
    mode: _permission_pb2.Mode
    def __init__(self, grants: _Optional[_Iterable[_Union[_permission_pb2.Grant, _Mapping]]] = ..., mode: _Optional[_Union[_permission_pb2.Mode, str]] = ...) -> None: ...
