from . import approval_service_pb2 as _approval_service_pb2
from . import hook_service_pb2 as _hook_service_pb2
from . import permission_pb2 as _permission_pb2
from . import session_service_pb2 as _session_service_pb2
from . import turn_service_pb2 as _turn_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EVENT_KIND_UNSPECIFIED: _ClassVar[EventKind]
    EVENT_KIND_TURN: _ClassVar[EventKind]
    EVENT_KIND_SESSION: _ClassVar[EventKind]
    EVENT_KIND_APPROVAL: _ClassVar[EventKind]
    EVENT_KIND_GRANT: _ClassVar[EventKind]
    EVENT_KIND_HOOK: _ClassVar[EventKind]
    EVENT_KIND_POLICY: _ClassVar[EventKind]
EVENT_KIND_UNSPECIFIED: EventKind
EVENT_KIND_TURN: EventKind
EVENT_KIND_SESSION: EventKind
EVENT_KIND_APPROVAL: EventKind
EVENT_KIND_GRANT: EventKind
EVENT_KIND_HOOK: EventKind
EVENT_KIND_POLICY: EventKind

class SubscribeRequest(_message.Message):
    __slots__ = ("filter", "after_cursor", "include_snapshot")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    AFTER_CURSOR_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    filter: EventFilter
    after_cursor: str
    include_snapshot: bool
    def __init__(self, filter: _Optional[_Union[EventFilter, _Mapping]] = ..., after_cursor: _Optional[str] = ..., include_snapshot: bool = ...) -> None: ...

class EventFilter(_message.Message):
    __slots__ = ("root_session_ids", "session_id", "kinds")
    ROOT_SESSION_IDS_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    root_session_ids: _containers.RepeatedScalarFieldContainer[str]
    session_id: str
    kinds: _containers.RepeatedScalarFieldContainer[EventKind]
    def __init__(self, root_session_ids: _Optional[_Iterable[str]] = ..., session_id: _Optional[str] = ..., kinds: _Optional[_Iterable[_Union[EventKind, str]]] = ...) -> None: ...

class SubscribeResponse(_message.Message):
    __slots__ = ("events", "snapshot_complete", "cursor", "lagged")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    LAGGED_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[EventRecord]
    snapshot_complete: bool
    cursor: str
    lagged: Lagged
    def __init__(self, events: _Optional[_Iterable[_Union[EventRecord, _Mapping]]] = ..., snapshot_complete: bool = ..., cursor: _Optional[str] = ..., lagged: _Optional[_Union[Lagged, _Mapping]] = ...) -> None: ...

class Lagged(_message.Message):
    __slots__ = ("dropped_events", "resume_cursor")
    DROPPED_EVENTS_FIELD_NUMBER: _ClassVar[int]
    RESUME_CURSOR_FIELD_NUMBER: _ClassVar[int]
    dropped_events: int
    resume_cursor: str
    def __init__(self, dropped_events: _Optional[int] = ..., resume_cursor: _Optional[str] = ...) -> None: ...

class EventRecord(_message.Message):
    __slots__ = ("occurred_at_ms", "session_id", "root_session_id", "turn", "session_changed", "approval_changed", "grant_changed", "hook_ran", "policy_changed", "turn_snapshot")
    OCCURRED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ROOT_SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_FIELD_NUMBER: _ClassVar[int]
    SESSION_CHANGED_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_CHANGED_FIELD_NUMBER: _ClassVar[int]
    GRANT_CHANGED_FIELD_NUMBER: _ClassVar[int]
    HOOK_RAN_FIELD_NUMBER: _ClassVar[int]
    POLICY_CHANGED_FIELD_NUMBER: _ClassVar[int]
    TURN_SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    occurred_at_ms: int
    session_id: str
    root_session_id: str
    turn: TurnEventRecord
    session_changed: SessionChanged
    approval_changed: ApprovalChanged
    grant_changed: GrantChanged
    hook_ran: HookRan
    policy_changed: PolicyChanged
    turn_snapshot: _turn_service_pb2.Turn
    def __init__(self, occurred_at_ms: _Optional[int] = ..., session_id: _Optional[str] = ..., root_session_id: _Optional[str] = ..., turn: _Optional[_Union[TurnEventRecord, _Mapping]] = ..., session_changed: _Optional[_Union[SessionChanged, _Mapping]] = ..., approval_changed: _Optional[_Union[ApprovalChanged, _Mapping]] = ..., grant_changed: _Optional[_Union[GrantChanged, _Mapping]] = ..., hook_ran: _Optional[_Union[HookRan, _Mapping]] = ..., policy_changed: _Optional[_Union[PolicyChanged, _Mapping]] = ..., turn_snapshot: _Optional[_Union[_turn_service_pb2.Turn, _Mapping]] = ...) -> None: ...

class TurnEventRecord(_message.Message):
    __slots__ = ("turn_id", "run_id", "epoch", "event")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    run_id: str
    epoch: int
    event: _turn_service_pb2.TurnEvent
    def __init__(self, turn_id: _Optional[str] = ..., run_id: _Optional[str] = ..., epoch: _Optional[int] = ..., event: _Optional[_Union[_turn_service_pb2.TurnEvent, _Mapping]] = ...) -> None: ...

class SessionChanged(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: _session_service_pb2.Session
    def __init__(self, session: _Optional[_Union[_session_service_pb2.Session, _Mapping]] = ...) -> None: ...

class ApprovalChanged(_message.Message):
    __slots__ = ("approval",)
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    approval: _approval_service_pb2.Approval
    def __init__(self, approval: _Optional[_Union[_approval_service_pb2.Approval, _Mapping]] = ...) -> None: ...

class GrantChanged(_message.Message):
    __slots__ = ("grant",)
    GRANT_FIELD_NUMBER: _ClassVar[int]
    grant: _permission_pb2.Grant
    def __init__(self, grant: _Optional[_Union[_permission_pb2.Grant, _Mapping]] = ...) -> None: ...

class PolicyChanged(_message.Message):
    __slots__ = ("policy_revision",)
    POLICY_REVISION_FIELD_NUMBER: _ClassVar[int]
    policy_revision: int
    def __init__(self, policy_revision: _Optional[int] = ...) -> None: ...

class HookRan(_message.Message):
    __slots__ = ("hook_id", "point", "turn_id", "call_id", "status", "before_action", "after_action", "modified", "duration_ms", "code")
    HOOK_ID_FIELD_NUMBER: _ClassVar[int]
    POINT_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    BEFORE_ACTION_FIELD_NUMBER: _ClassVar[int]
    AFTER_ACTION_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_FIELD_NUMBER: _ClassVar[int]
    DURATION_MS_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    hook_id: str
    point: _hook_service_pb2.HookPoint
    turn_id: str
    call_id: str
    status: _hook_service_pb2.HookRunStatus
    before_action: _hook_service_pb2.BeforeAction
    after_action: _hook_service_pb2.AfterAction
    modified: bool
    duration_ms: int
    code: str
    def __init__(self, hook_id: _Optional[str] = ..., point: _Optional[_Union[_hook_service_pb2.HookPoint, str]] = ..., turn_id: _Optional[str] = ..., call_id: _Optional[str] = ..., status: _Optional[_Union[_hook_service_pb2.HookRunStatus, str]] = ..., before_action: _Optional[_Union[_hook_service_pb2.BeforeAction, str]] = ..., after_action: _Optional[_Union[_hook_service_pb2.AfterAction, str]] = ..., modified: bool = ..., duration_ms: _Optional[int] = ..., code: _Optional[str] = ...) -> None: ...
