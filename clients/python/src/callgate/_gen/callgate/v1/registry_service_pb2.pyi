from . import provider_pb2 as _provider_pb2
from . import stream_pb2 as _stream_pb2
from . import types_pb2 as _types_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ToolState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TOOL_STATE_UNSPECIFIED: _ClassVar[ToolState]
    TOOL_STATE_ACTIVE: _ClassVar[ToolState]
    TOOL_STATE_UNAVAILABLE: _ClassVar[ToolState]
    TOOL_STATE_REMOVED: _ClassVar[ToolState]

class ExecutorState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXECUTOR_STATE_UNSPECIFIED: _ClassVar[ExecutorState]
    EXECUTOR_STATE_READY: _ClassVar[ExecutorState]
    EXECUTOR_STATE_DRAINING: _ClassVar[ExecutorState]
    EXECUTOR_STATE_RECONNECTING: _ClassVar[ExecutorState]
    EXECUTOR_STATE_CLOSED: _ClassVar[ExecutorState]
TOOL_STATE_UNSPECIFIED: ToolState
TOOL_STATE_ACTIVE: ToolState
TOOL_STATE_UNAVAILABLE: ToolState
TOOL_STATE_REMOVED: ToolState
EXECUTOR_STATE_UNSPECIFIED: ExecutorState
EXECUTOR_STATE_READY: ExecutorState
EXECUTOR_STATE_DRAINING: ExecutorState
EXECUTOR_STATE_RECONNECTING: ExecutorState
EXECUTOR_STATE_CLOSED: ExecutorState

class Tool(_message.Message):
    __slots__ = ("definition", "tool_digest", "generation", "owner", "state", "instances", "in_flight", "registered_at_ms", "changed_fields")
    DEFINITION_FIELD_NUMBER: _ClassVar[int]
    TOOL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    REGISTERED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_FIELDS_FIELD_NUMBER: _ClassVar[int]
    definition: _types_pb2.ToolDefinition
    tool_digest: bytes
    generation: int
    owner: str
    state: ToolState
    instances: int
    in_flight: int
    registered_at_ms: int
    changed_fields: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, definition: _Optional[_Union[_types_pb2.ToolDefinition, _Mapping]] = ..., tool_digest: _Optional[bytes] = ..., generation: _Optional[int] = ..., owner: _Optional[str] = ..., state: _Optional[_Union[ToolState, str]] = ..., instances: _Optional[int] = ..., in_flight: _Optional[int] = ..., registered_at_ms: _Optional[int] = ..., changed_fields: _Optional[_Iterable[str]] = ...) -> None: ...

class ListToolsRequest(_message.Message):
    __slots__ = ("format", "toolset", "page_size", "page_token")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    TOOLSET_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    format: _provider_pb2.ProviderFormat
    toolset: str
    page_size: int
    page_token: str
    def __init__(self, format: _Optional[_Union[_provider_pb2.ProviderFormat, str]] = ..., toolset: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListToolsResponse(_message.Message):
    __slots__ = ("tools", "tool_export", "tool_snapshot_id", "next_page_token")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    TOOL_EXPORT_FIELD_NUMBER: _ClassVar[int]
    TOOL_SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    tool_export: _provider_pb2.ToolExport
    tool_snapshot_id: str
    next_page_token: str
    def __init__(self, tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., tool_export: _Optional[_Union[_provider_pb2.ToolExport, _Mapping]] = ..., tool_snapshot_id: _Optional[str] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetToolRequest(_message.Message):
    __slots__ = ("name", "tool_digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    tool_digest: bytes
    def __init__(self, name: _Optional[str] = ..., tool_digest: _Optional[bytes] = ...) -> None: ...

class GetToolResponse(_message.Message):
    __slots__ = ("tool",)
    TOOL_FIELD_NUMBER: _ClassVar[int]
    tool: Tool
    def __init__(self, tool: _Optional[_Union[Tool, _Mapping]] = ...) -> None: ...

class WatchToolsRequest(_message.Message):
    __slots__ = ("toolset", "after_cursor")
    TOOLSET_FIELD_NUMBER: _ClassVar[int]
    AFTER_CURSOR_FIELD_NUMBER: _ClassVar[int]
    toolset: str
    after_cursor: str
    def __init__(self, toolset: _Optional[str] = ..., after_cursor: _Optional[str] = ...) -> None: ...

class WatchToolsResponse(_message.Message):
    __slots__ = ("tools", "snapshot_complete", "cursor")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_COMPLETE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    snapshot_complete: bool
    cursor: str
    def __init__(self, tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., snapshot_complete: bool = ..., cursor: _Optional[str] = ...) -> None: ...

class UnregisterToolRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class UnregisterToolResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListExecutorsRequest(_message.Message):
    __slots__ = ("executor_name", "page_size", "page_token")
    EXECUTOR_NAME_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    executor_name: str
    page_size: int
    page_token: str
    def __init__(self, executor_name: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListExecutorsResponse(_message.Message):
    __slots__ = ("executors", "next_page_token")
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    executors: _containers.RepeatedCompositeFieldContainer[ExecutorInfo]
    next_page_token: str
    def __init__(self, executors: _Optional[_Iterable[_Union[ExecutorInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ExecutorInfo(_message.Message):
    __slots__ = ("executor_name", "instance_id", "connection_id", "state", "tools", "max_concurrent_executions", "in_flight", "sdk", "connected_at_ms", "last_seen_at_ms", "round_trip_ms")
    EXECUTOR_NAME_FIELD_NUMBER: _ClassVar[int]
    INSTANCE_ID_FIELD_NUMBER: _ClassVar[int]
    CONNECTION_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    MAX_CONCURRENT_EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    SDK_FIELD_NUMBER: _ClassVar[int]
    CONNECTED_AT_MS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEEN_AT_MS_FIELD_NUMBER: _ClassVar[int]
    ROUND_TRIP_MS_FIELD_NUMBER: _ClassVar[int]
    executor_name: str
    instance_id: str
    connection_id: str
    state: ExecutorState
    tools: _containers.RepeatedScalarFieldContainer[str]
    max_concurrent_executions: int
    in_flight: int
    sdk: _stream_pb2.Sdk
    connected_at_ms: int
    last_seen_at_ms: int
    round_trip_ms: int
    def __init__(self, executor_name: _Optional[str] = ..., instance_id: _Optional[str] = ..., connection_id: _Optional[str] = ..., state: _Optional[_Union[ExecutorState, str]] = ..., tools: _Optional[_Iterable[str]] = ..., max_concurrent_executions: _Optional[int] = ..., in_flight: _Optional[int] = ..., sdk: _Optional[_Union[_stream_pb2.Sdk, _Mapping]] = ..., connected_at_ms: _Optional[int] = ..., last_seen_at_ms: _Optional[int] = ..., round_trip_ms: _Optional[int] = ...) -> None: ...

class Toolset(_message.Message):
    __slots__ = ("name", "base", "include", "exclude", "etag")
    NAME_FIELD_NUMBER: _ClassVar[int]
    BASE_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_FIELD_NUMBER: _ClassVar[int]
    EXCLUDE_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    name: str
    base: str
    include: _containers.RepeatedScalarFieldContainer[str]
    exclude: _containers.RepeatedScalarFieldContainer[str]
    etag: str
    def __init__(self, name: _Optional[str] = ..., base: _Optional[str] = ..., include: _Optional[_Iterable[str]] = ..., exclude: _Optional[_Iterable[str]] = ..., etag: _Optional[str] = ...) -> None: ...

class PutToolsetRequest(_message.Message):
    __slots__ = ("toolset",)
    TOOLSET_FIELD_NUMBER: _ClassVar[int]
    toolset: Toolset
    def __init__(self, toolset: _Optional[_Union[Toolset, _Mapping]] = ...) -> None: ...

class PutToolsetResponse(_message.Message):
    __slots__ = ("toolset",)
    TOOLSET_FIELD_NUMBER: _ClassVar[int]
    toolset: Toolset
    def __init__(self, toolset: _Optional[_Union[Toolset, _Mapping]] = ...) -> None: ...

class CopyToolsetRequest(_message.Message):
    __slots__ = ("source", "target", "excluding")
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    EXCLUDING_FIELD_NUMBER: _ClassVar[int]
    source: str
    target: str
    excluding: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, source: _Optional[str] = ..., target: _Optional[str] = ..., excluding: _Optional[_Iterable[str]] = ...) -> None: ...

class CopyToolsetResponse(_message.Message):
    __slots__ = ("toolset",)
    TOOLSET_FIELD_NUMBER: _ClassVar[int]
    toolset: Toolset
    def __init__(self, toolset: _Optional[_Union[Toolset, _Mapping]] = ...) -> None: ...

class ListToolsetsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListToolsetsResponse(_message.Message):
    __slots__ = ("toolsets", "next_page_token")
    TOOLSETS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    toolsets: _containers.RepeatedCompositeFieldContainer[Toolset]
    next_page_token: str
    def __init__(self, toolsets: _Optional[_Iterable[_Union[Toolset, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteToolsetRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteToolsetResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
