"""Turns what grpc raises into the SDK's errors, in one place."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from .. import errors
from .._gen.callgate.v1 import errors_pb2

_DETAILS_KEY = "grpc-status-details-bin"
_DETAIL_URL = "type.googleapis.com/callgate.v1.ErrorDetail"

_BY_REASON: dict[int, type[errors.CallgateError]] = {
    errors_pb2.ERROR_REASON_CREDENTIAL_INVALID: errors.Unauthenticated,
    errors_pb2.ERROR_REASON_ROLE_MISSING: errors.PermissionDenied,
    errors_pb2.ERROR_REASON_NAME_FORBIDDEN: errors.PermissionDenied,
    errors_pb2.ERROR_REASON_LIMIT_EXCEEDED: errors.LimitExceeded,
    errors_pb2.ERROR_REASON_OVERLOADED: errors.LimitExceeded,
    errors_pb2.ERROR_REASON_SLOW_READER: errors.LimitExceeded,
    errors_pb2.ERROR_REASON_DRAINING: errors.Unavailable,
    errors_pb2.ERROR_REASON_STORE_UNAVAILABLE: errors.Unavailable,
    errors_pb2.ERROR_REASON_NOT_FOUND: errors.NotFound,
    errors_pb2.ERROR_REASON_APPROVAL_NOT_FOUND: errors.NotFound,
    errors_pb2.ERROR_REASON_ALREADY_EXISTS: errors.Conflict,
    errors_pb2.ERROR_REASON_ETAG_MISMATCH: errors.Conflict,
    errors_pb2.ERROR_REASON_SESSION_CLOSED: errors.Conflict,
    errors_pb2.ERROR_REASON_APPROVAL_ALREADY_DECIDED: errors.DecisionConflict,
    errors_pb2.ERROR_REASON_APPROVAL_NOT_PENDING: errors.DecisionConflict,
    errors_pb2.ERROR_REASON_APPROVAL_DIGEST_MISMATCH: errors.Conflict,
    errors_pb2.ERROR_REASON_DECISION_ID_REUSED: errors.Conflict,
    errors_pb2.ERROR_REASON_MODE_NOT_ALLOWED: errors.Conflict,
    errors_pb2.ERROR_REASON_CALL_CONFLICT: errors.Conflict,
    errors_pb2.ERROR_REASON_RUN_BUSY: errors.Conflict,
    errors_pb2.ERROR_REASON_TOOLSET_IN_USE: errors.Conflict,
    errors_pb2.ERROR_REASON_TOOL_NAME_DUPLICATE: errors.Conflict,
    errors_pb2.ERROR_REASON_SNAPSHOT_EXPIRED: errors.Conflict,
    errors_pb2.ERROR_REASON_RUN_NOT_ACTIVE: errors.RunNotActive,
    errors_pb2.ERROR_REASON_PROTOCOL_UNSUPPORTED: errors.ProtocolError,
    errors_pb2.ERROR_REASON_PROTOCOL_VIOLATION: errors.ProtocolError,
    errors_pb2.ERROR_REASON_HELLO_REQUIRED: errors.ProtocolError,
    errors_pb2.ERROR_REASON_HELLO_TIMEOUT: errors.DeadlineExceeded,
    errors_pb2.ERROR_REASON_HEARTBEAT_MISSED: errors.ConnectionLost,
    errors_pb2.ERROR_REASON_SUPERSEDED: errors.Superseded,
}

# Where there is no detail, or one that is newer than this SDK.
_BY_STATUS: dict[int, type[errors.CallgateError]] = {
    1: errors.Cancelled,
    3: errors.InvalidRequest,
    4: errors.DeadlineExceeded,
    5: errors.NotFound,
    6: errors.Conflict,
    7: errors.PermissionDenied,
    8: errors.LimitExceeded,
    9: errors.Conflict,
    10: errors.Conflict,
    11: errors.InvalidRequest,
    12: errors.ProtocolError,
    14: errors.ConnectionLost,
    16: errors.Unauthenticated,
}

# What grpc makes of a write that meets the end of its stream. It hides the true status,
# which the next try will show.
_LOST_WHILE_WRITING = "error from Core"
INTERNAL = 13

_NOT_A_PEER = (
    "received http2 header with status: 5",
    "Trying to connect an http1.x server",
    "larger than max (1752460652",
)


def from_grpc(error: BaseException) -> errors.CallgateError:
    """The SDK's error for a failed rpc."""
    if not isinstance(error, grpc.aio.AioRpcError):
        return errors.ConnectionLost(str(error))
    status = int(error.code().value[0])
    text = error.details() or error.code().name.lower()
    if status == INTERNAL and text.endswith(_LOST_WHILE_WRITING):
        return errors.ConnectionLost("the stream ended while it was written to")
    if any(sign in text for sign in _NOT_A_PEER):
        return errors.ProtocolError(f"there is no gRPC server at this address: {text}")
    return _error(status, text, _detail(error.trailing_metadata()))


def from_message(error: errors_pb2.RpcError) -> errors.CallgateError:
    """The SDK's error for a status that travelled as a message."""
    return _error(error.status, error.message, error.detail if error.HasField("detail") else None)


def _error(status: int, text: str, detail: errors_pb2.ErrorDetail | None) -> errors.CallgateError:
    kind = _BY_STATUS.get(status, errors.CallgateError)
    if detail is None:
        return kind(text)
    kind = _BY_REASON.get(detail.reason, kind)
    if kind is errors.NotFound and detail.resource_kind == "tool":
        kind = errors.ToolNotFound
    return kind(
        text,
        code=detail.code or None,
        violations=tuple(
            errors.FieldViolation(item.field, item.code or "invalid_request", item.message)
            for item in detail.violations
        ),
        limit=errors.LimitViolation(detail.limit.name, detail.limit.allowed, detail.limit.actual)
        if detail.HasField("limit")
        else None,
        retry_after=detail.retry_after_ms / 1000 if detail.HasField("retry_after_ms") else None,
        resource_kind=detail.resource_kind,
        resource_id=detail.resource_id,
    )


def _detail(metadata: grpc.aio.Metadata | None) -> errors_pb2.ErrorDetail | None:
    for key, value in metadata or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            return _find_detail(value)
    return None


def _find_detail(status: bytes) -> errors_pb2.ErrorDetail | None:
    """Looks through a serialized google.rpc.Status.

    Read by hand: its module is not in protobuf, and four fields are no reason for
    one more dependency.
    """
    try:
        for number, value in _fields(status):
            if number != 3:
                continue
            entry = dict(_fields(value))
            if entry.get(1) == _DETAIL_URL.encode():
                return errors_pb2.ErrorDetail.FromString(entry.get(2, b""))
    except (DecodeError, ValueError, IndexError):
        return None
    return None


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The length-delimited fields of a message; others are skipped."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 2:
            length, at = _varint(message, at)
            if at + length > len(message):
                raise ValueError("truncated")
            yield tag >> 3, message[at : at + length]
            at += length
        elif kind == 0:
            _, at = _varint(message, at)
        elif kind in {1, 5}:
            at += 8 if kind == 1 else 4
        else:
            raise ValueError("not a message")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
