"""Which error a failed rpc becomes."""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from callgate import errors
from callgate._gen.callgate.v1 import errors_pb2 as er
from callgate._wire.fake_executors import details
from callgate._wire.status import _find_detail, from_grpc, from_message


def rpc_error(code: grpc.StatusCode, detail: er.ErrorDetail | None = None) -> grpc.aio.AioRpcError:
    trailing = grpc.aio.Metadata()
    if detail is not None:
        error = er.RpcError(status=code.value[0], message="m" * 300, detail=detail)
        trailing = grpc.aio.Metadata(*details(error))
    return grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, details="said so")


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (grpc.StatusCode.UNAVAILABLE, errors.ConnectionLost),
        (grpc.StatusCode.UNAUTHENTICATED, errors.Unauthenticated),
        (grpc.StatusCode.PERMISSION_DENIED, errors.PermissionDenied),
        (grpc.StatusCode.NOT_FOUND, errors.NotFound),
        (grpc.StatusCode.INVALID_ARGUMENT, errors.InvalidRequest),
        (grpc.StatusCode.DEADLINE_EXCEEDED, errors.DeadlineExceeded),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, errors.LimitExceeded),
        (grpc.StatusCode.UNIMPLEMENTED, errors.ProtocolError),
        (grpc.StatusCode.INTERNAL, errors.CallgateError),
    ],
)
def test_status_without_a_detail_decides(code: grpc.StatusCode, kind: type[errors.CallgateError]) -> None:
    assert type(from_grpc(rpc_error(code))) is kind


def test_write_that_meets_the_end_of_its_stream_is_a_lost_connection() -> None:
    error = grpc.aio.AioRpcError(
        grpc.StatusCode.INTERNAL, grpc.aio.Metadata(), grpc.aio.Metadata(), details="Internal error from Core"
    )
    assert type(from_grpc(error)) is errors.ConnectionLost


def test_detail_decides_where_there_is_one() -> None:
    detail = er.ErrorDetail(
        reason=er.ERROR_REASON_LIMIT_EXCEEDED,
        code="limit_exceeded",
        violations=[er.FieldViolation(field="calls[1]", message="too many")],
        limit=er.LimitViolation(name="calls_max", allowed=128, actual=129),
        retry_after_ms=250,
    )
    error = from_grpc(rpc_error(grpc.StatusCode.INVALID_ARGUMENT, detail))
    assert type(error) is errors.LimitExceeded
    assert error.code == "limit_exceeded"
    assert error.limit == errors.LimitViolation("calls_max", 128, 129)
    assert error.violations == (errors.FieldViolation("calls[1]", "invalid_request", "too many"),)
    assert error.retry_after == 0.25


def test_tool_that_is_not_found_has_its_own_class() -> None:
    detail = er.ErrorDetail(reason=er.ERROR_REASON_NOT_FOUND, code="not_found", resource_kind="tool", resource_id="x")
    assert type(from_message(er.RpcError(status=5, detail=detail))) is errors.ToolNotFound


def test_reason_that_is_newer_than_the_sdk_falls_back_to_the_status() -> None:
    detail = er.ErrorDetail(reason=999, code="brand_new")  # type: ignore[arg-type]
    error = from_grpc(rpc_error(grpc.StatusCode.UNAUTHENTICATED, detail))
    assert (type(error), error.code) == (errors.Unauthenticated, "brand_new")


@pytest.mark.parametrize("garbage", [b"", b"\xff", b"\x1a\x05ab", b"\x1a\x02\x0a\x00", b"\x0b"])
def test_garbage_in_the_details_is_no_detail(garbage: bytes) -> None:
    assert _find_detail(garbage) is None


def test_every_reason_of_the_contract_has_a_class() -> None:
    from callgate._wire.status import _BY_REASON

    general = {er.ERROR_REASON_UNSPECIFIED, er.ERROR_REASON_INTERNAL}
    by_status = {
        er.ERROR_REASON_INVALID_REQUEST,
        er.ERROR_REASON_CURSOR_EXPIRED,
        er.ERROR_REASON_CALL_ID_EMPTY,
        er.ERROR_REASON_CALL_ID_DUPLICATE,
        er.ERROR_REASON_PROVIDER_MESSAGE_INVALID,
        er.ERROR_REASON_APPROVAL_CHOICE_NOT_ALLOWED,
        er.ERROR_REASON_APPROVAL_EDIT_INVALID,
        er.ERROR_REASON_RULE_INVALID,
    }
    assert set(er.ErrorReason.values()) - general - by_status == set(_BY_REASON)
