from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GoAwayReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    GO_AWAY_REASON_UNSPECIFIED: _ClassVar[GoAwayReason]
    GO_AWAY_REASON_SHUTDOWN: _ClassVar[GoAwayReason]
    GO_AWAY_REASON_SUPERSEDED: _ClassVar[GoAwayReason]
    GO_AWAY_REASON_SLOW_READER: _ClassVar[GoAwayReason]
    GO_AWAY_REASON_HEARTBEAT_MISSED: _ClassVar[GoAwayReason]
    GO_AWAY_REASON_PROTOCOL_VIOLATION: _ClassVar[GoAwayReason]
GO_AWAY_REASON_UNSPECIFIED: GoAwayReason
GO_AWAY_REASON_SHUTDOWN: GoAwayReason
GO_AWAY_REASON_SUPERSEDED: GoAwayReason
GO_AWAY_REASON_SLOW_READER: GoAwayReason
GO_AWAY_REASON_HEARTBEAT_MISSED: GoAwayReason
GO_AWAY_REASON_PROTOCOL_VIOLATION: GoAwayReason

class Ping(_message.Message):
    __slots__ = ("nonce",)
    NONCE_FIELD_NUMBER: _ClassVar[int]
    nonce: int
    def __init__(self, nonce: _Optional[int] = ...) -> None: ...

class Pong(_message.Message):
    __slots__ = ("nonce",)
    NONCE_FIELD_NUMBER: _ClassVar[int]
    nonce: int
    def __init__(self, nonce: _Optional[int] = ...) -> None: ...

class Sdk(_message.Message):
    __slots__ = ("name", "version", "language", "language_version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_FIELD_NUMBER: _ClassVar[int]
    LANGUAGE_VERSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: str
    language: str
    language_version: str
    def __init__(self, name: _Optional[str] = ..., version: _Optional[str] = ..., language: _Optional[str] = ..., language_version: _Optional[str] = ...) -> None: ...

class GoAway(_message.Message):
    __slots__ = ("reason", "message", "drain_ms", "reconnect_min_ms", "reconnect_max_ms")
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    DRAIN_MS_FIELD_NUMBER: _ClassVar[int]
    RECONNECT_MIN_MS_FIELD_NUMBER: _ClassVar[int]
    RECONNECT_MAX_MS_FIELD_NUMBER: _ClassVar[int]
    reason: GoAwayReason
    message: str
    drain_ms: int
    reconnect_min_ms: int
    reconnect_max_ms: int
    def __init__(self, reason: _Optional[_Union[GoAwayReason, str]] = ..., message: _Optional[str] = ..., drain_ms: _Optional[int] = ..., reconnect_min_ms: _Optional[int] = ..., reconnect_max_ms: _Optional[int] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("code", "message", "about")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    about: str
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., about: _Optional[str] = ...) -> None: ...

class StreamTiming(_message.Message):
    __slots__ = ("ping_interval_ms", "ping_misses", "accept_timeout_ms", "resume_window_ms", "send_stall_ms")
    PING_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    PING_MISSES_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    RESUME_WINDOW_MS_FIELD_NUMBER: _ClassVar[int]
    SEND_STALL_MS_FIELD_NUMBER: _ClassVar[int]
    ping_interval_ms: int
    ping_misses: int
    accept_timeout_ms: int
    resume_window_ms: int
    send_stall_ms: int
    def __init__(self, ping_interval_ms: _Optional[int] = ..., ping_misses: _Optional[int] = ..., accept_timeout_ms: _Optional[int] = ..., resume_window_ms: _Optional[int] = ..., send_stall_ms: _Optional[int] = ...) -> None: ...

class StreamLimits(_message.Message):
    __slots__ = ("max_message_bytes", "max_arguments_bytes", "max_result_bytes", "max_output_chunk_bytes", "max_metadata_bytes", "max_tools_per_message")
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_ARGUMENTS_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_RESULT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_CHUNK_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_METADATA_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_TOOLS_PER_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    max_message_bytes: int
    max_arguments_bytes: int
    max_result_bytes: int
    max_output_chunk_bytes: int
    max_metadata_bytes: int
    max_tools_per_message: int
    def __init__(self, max_message_bytes: _Optional[int] = ..., max_arguments_bytes: _Optional[int] = ..., max_result_bytes: _Optional[int] = ..., max_output_chunk_bytes: _Optional[int] = ..., max_metadata_bytes: _Optional[int] = ..., max_tools_per_message: _Optional[int] = ...) -> None: ...
