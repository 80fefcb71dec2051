from . import errors_pb2 as _errors_pb2
from . import provider_pb2 as _provider_pb2
from . import stream_pb2 as _stream_pb2
from . import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ServerState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SERVER_STATE_UNSPECIFIED: _ClassVar[ServerState]
    SERVER_STATE_SERVING: _ClassVar[ServerState]
    SERVER_STATE_DRAINING: _ClassVar[ServerState]
    SERVER_STATE_STORE_UNAVAILABLE: _ClassVar[ServerState]
SERVER_STATE_UNSPECIFIED: ServerState
SERVER_STATE_SERVING: ServerState
SERVER_STATE_DRAINING: ServerState
SERVER_STATE_STORE_UNAVAILABLE: ServerState

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "protocol", "process_id", "state", "store", "features", "dialects", "formats", "limits", "timing", "stream_limits", "caller_roles", "caller_principal", "started_at_ms", "checkpoints_not_kept")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    PROCESS_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    STORE_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    DIALECTS_FIELD_NUMBER: _ClassVar[int]
    FORMATS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    TIMING_FIELD_NUMBER: _ClassVar[int]
    STREAM_LIMITS_FIELD_NUMBER: _ClassVar[int]
    CALLER_ROLES_FIELD_NUMBER: _ClassVar[int]
    CALLER_PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_NOT_KEPT_FIELD_NUMBER: _ClassVar[int]
    version: str
    protocol: _errors_pb2.ProtocolRange
    process_id: str
    state: ServerState
    store: str
    features: _containers.RepeatedScalarFieldContainer[str]
    dialects: _containers.RepeatedScalarFieldContainer[_types_pb2.SchemaDialect]
    formats: _containers.RepeatedScalarFieldContainer[_provider_pb2.ProviderFormat]
    limits: _containers.RepeatedCompositeFieldContainer[Limit]
    timing: _stream_pb2.StreamTiming
    stream_limits: _stream_pb2.StreamLimits
    caller_roles: _containers.RepeatedScalarFieldContainer[_types_pb2.Role]
    caller_principal: str
    started_at_ms: int
    checkpoints_not_kept: int
    def __init__(self, version: _Optional[str] = ..., protocol: _Optional[_Union[_errors_pb2.ProtocolRange, _Mapping]] = ..., process_id: _Optional[str] = ..., state: _Optional[_Union[ServerState, str]] = ..., store: _Optional[str] = ..., features: _Optional[_Iterable[str]] = ..., dialects: _Optional[_Iterable[_Union[_types_pb2.SchemaDialect, str]]] = ..., formats: _Optional[_Iterable[_Union[_provider_pb2.ProviderFormat, str]]] = ..., limits: _Optional[_Iterable[_Union[Limit, _Mapping]]] = ..., timing: _Optional[_Union[_stream_pb2.StreamTiming, _Mapping]] = ..., stream_limits: _Optional[_Union[_stream_pb2.StreamLimits, _Mapping]] = ..., caller_roles: _Optional[_Iterable[_Union[_types_pb2.Role, str]]] = ..., caller_principal: _Optional[str] = ..., started_at_ms: _Optional[int] = ..., checkpoints_not_kept: _Optional[int] = ...) -> None: ...

class Limit(_message.Message):
    __slots__ = ("name", "value", "unit", "ceiling")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    UNIT_FIELD_NUMBER: _ClassVar[int]
    CEILING_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: int
    unit: str
    ceiling: int
    def __init__(self, name: _Optional[str] = ..., value: _Optional[int] = ..., unit: _Optional[str] = ..., ceiling: _Optional[int] = ...) -> None: ...

class StartDrainRequest(_message.Message):
    __slots__ = ("drain_ms",)
    DRAIN_MS_FIELD_NUMBER: _ClassVar[int]
    drain_ms: int
    def __init__(self, drain_ms: _Optional[int] = ...) -> None: ...

class StartDrainResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
