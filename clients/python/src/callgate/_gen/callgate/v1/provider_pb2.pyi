from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProviderFormat(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PROVIDER_FORMAT_UNSPECIFIED: _ClassVar[ProviderFormat]
    PROVIDER_FORMAT_OPENAI_CHAT: _ClassVar[ProviderFormat]

class ExportAction(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXPORT_ACTION_UNSPECIFIED: _ClassVar[ExportAction]
    EXPORT_ACTION_PLACEHOLDER: _ClassVar[ExportAction]
PROVIDER_FORMAT_UNSPECIFIED: ProviderFormat
PROVIDER_FORMAT_OPENAI_CHAT: ProviderFormat
EXPORT_ACTION_UNSPECIFIED: ExportAction
EXPORT_ACTION_PLACEHOLDER: ExportAction

class ProviderMessage(_message.Message):
    __slots__ = ("format", "message_json", "finish_reason")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_JSON_FIELD_NUMBER: _ClassVar[int]
    FINISH_REASON_FIELD_NUMBER: _ClassVar[int]
    format: ProviderFormat
    message_json: bytes
    finish_reason: str
    def __init__(self, format: _Optional[_Union[ProviderFormat, str]] = ..., message_json: _Optional[bytes] = ..., finish_reason: _Optional[str] = ...) -> None: ...

class ProviderMessages(_message.Message):
    __slots__ = ("format", "messages_json", "losses")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_JSON_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    format: ProviderFormat
    messages_json: _containers.RepeatedScalarFieldContainer[bytes]
    losses: _containers.RepeatedCompositeFieldContainer[ExportLoss]
    def __init__(self, format: _Optional[_Union[ProviderFormat, str]] = ..., messages_json: _Optional[_Iterable[bytes]] = ..., losses: _Optional[_Iterable[_Union[ExportLoss, _Mapping]]] = ...) -> None: ...

class ToolExport(_message.Message):
    __slots__ = ("format", "tools_json", "aliases", "losses")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    TOOLS_JSON_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    format: ProviderFormat
    tools_json: bytes
    aliases: _containers.RepeatedCompositeFieldContainer[ToolAlias]
    losses: _containers.RepeatedCompositeFieldContainer[ExportLoss]
    def __init__(self, format: _Optional[_Union[ProviderFormat, str]] = ..., tools_json: _Optional[bytes] = ..., aliases: _Optional[_Iterable[_Union[ToolAlias, _Mapping]]] = ..., losses: _Optional[_Iterable[_Union[ExportLoss, _Mapping]]] = ...) -> None: ...

class ToolAlias(_message.Message):
    __slots__ = ("alias", "tool")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    alias: str
    tool: str
    def __init__(self, alias: _Optional[str] = ..., tool: _Optional[str] = ...) -> None: ...

class ExportLoss(_message.Message):
    __slots__ = ("tool", "call_id", "path", "keyword", "action")
    TOOL_FIELD_NUMBER: _ClassVar[int]
    CALL_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    KEYWORD_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    tool: str
    call_id: str
    path: str
    keyword: str
    action: ExportAction
    def __init__(self, tool: _Optional[str] = ..., call_id: _Optional[str] = ..., path: _Optional[str] = ..., keyword: _Optional[str] = ..., action: _Optional[_Union[ExportAction, str]] = ...) -> None: ...
