"""Protobuf messages to the SDK's types and back. No decisions are made here."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar, cast

from .._gen.callgate.v1 import executor_service_pb2 as ex
from .._gen.callgate.v1 import stream_pb2 as st
from .._gen.callgate.v1 import types_pb2 as ty
from ..context import SessionState
from ..executor import Dispatch, Key
from ..registration import Registration, RegistrationState, ToolWarning
from ..result import (
    Audio,
    CallResult,
    CallTiming,
    ContentPart,
    Effect,
    Encoded,
    ErrorInfo,
    Image,
    Json,
    Outcome,
    Resource,
    ResourceLink,
    Sealed,
    Text,
)
from ..tool import Kind, Risk, Tool

Name = TypeVar("Name", bound=str)

RISKS = {
    "safe": ty.RISK_LEVEL_SAFE,
    "sensitive": ty.RISK_LEVEL_SENSITIVE,
    "dangerous": ty.RISK_LEVEL_DANGEROUS,
}
RISK_NAMES: dict[int, str] = {number: name for name, number in RISKS.items()}
KINDS: dict[str, Any] = {
    name: ty.ToolKind.Value(f"TOOL_KIND_{name.upper()}")
    for name in ("read", "fetch", "edit", "delete", "execute", "interact", "other")
}
SUBJECT_TYPES: dict[str, Any] = {
    name: ty.SubjectType.Value(f"SUBJECT_TYPE_{name.upper()}") for name in ("command", "path", "url", "text")
}
KIND_NAMES = {number: name for name, number in KINDS.items()}
DIALECTS = {
    "core": ty.SCHEMA_DIALECT_CORE,
    "json-schema-2020-12": ty.SCHEMA_DIALECT_JSON_SCHEMA_2020_12,
}
DIALECT_NAMES = {number: name for name, number in DIALECTS.items()}
EFFECTS = {
    "not_executed": ty.CALL_EFFECT_NOT_EXECUTED,
    "executed": ty.CALL_EFFECT_EXECUTED,
    "unknown": ty.CALL_EFFECT_UNKNOWN,
}
EFFECT_NAMES = {number: name for name, number in EFFECTS.items()}
CHANNELS = {
    "text": ty.OUTPUT_CHANNEL_TEXT,
    "stdout": ty.OUTPUT_CHANNEL_STDOUT,
    "stderr": ty.OUTPUT_CHANNEL_STDERR,
    "data": ty.OUTPUT_CHANNEL_DATA,
}
CHANNEL_NAMES = {number: name for name, number in CHANNELS.items()}
REJECTIONS = {
    "busy": ex.REJECT_REASON_BUSY,
    "draining": ex.REJECT_REASON_DRAINING,
    "unknown_tool": ex.REJECT_REASON_UNKNOWN_TOOL,
    "bad_arguments": ex.REJECT_REASON_BAD_ARGUMENTS,
    "too_large": ex.REJECT_REASON_TOO_LARGE,
}
UNKNOWN_CONTENT = "[content of an unknown kind]"


def by_number(numbers: Mapping[Name, Any]) -> dict[int, Name]:
    """The names of a table of numbers."""
    return {number: name for name, number in numbers.items()}


def enum_name(enum: Any, number: int, prefix: str, unknown: str) -> str:
    """The lower-case name of a value without its prefix; `unknown` for a newer one, "" for 0."""
    if number == 0:
        return ""
    try:
        return cast(str, enum.Name(number)).removeprefix(prefix).lower()
    except ValueError:
        return unknown


def risk(number: int) -> Risk:
    """How much harm a tool can do. Unknown: "dangerous"."""
    return cast(Risk, RISK_NAMES.get(number, "safe" if number == 0 else "dangerous"))


def kind(number: int) -> Kind:
    """What a tool does. Unknown: "other"."""
    return cast(Kind, KIND_NAMES.get(number, "other"))


def milliseconds(seconds: float) -> int:
    """A span, rounded up, so that a short one does not become none."""
    return max(1, int(seconds * 1000 + 0.999))


def parsed(document: bytes) -> Any:
    """The value of a JSON field. None if it is absent or, against the contract, no JSON."""
    if not document:
        return None
    try:
        return json.loads(document)
    except ValueError:
        return None


# Executor side.


def definition(tool: Tool) -> ty.ToolDefinition:
    """What is registered of a tool."""
    message = ty.ToolDefinition(
        name=tool.name,
        description=tool.description,
        parameters_json=tool.schema_json.encode("utf-8", "replace"),
        schema_dialect=DIALECTS[tool.dialect],
        risk_level=RISKS[tool.risk] if tool.risk else ty.RISK_LEVEL_UNSPECIFIED,
        kind=KINDS[tool.kind] if tool.kind else ty.TOOL_KIND_UNSPECIFIED,
        skip_permission=tool.skip_permission,
        loop_exempt=tool.loop_exempt,
        loop_key=tool.loop_key,
        secret_pointers=tool.secret_pointers,
        idempotent=tool.idempotent,
        exclusive=tool.exclusive,
        max_concurrency=tool.max_concurrency,
        supports_cancellation=tool.cancellable,
        has_permission_check=tool.check is not None,
        services=tool.services,
        version=tool.version,
        annotations_json=tool.annotations_json.encode("utf-8", "replace"),
    )
    if tool.subject is not None:
        message.subject.pointer = tool.subject.pointer
        message.subject.subject_type = SUBJECT_TYPES[tool.subject.type]
        message.subject.dialect = tool.subject.dialect
    if tool.timeout is not None:
        message.timeout_ms = milliseconds(tool.timeout)
    return message


def registration(message: ty.ToolRegistration) -> Registration:
    """What became of a tool."""
    state = {
        ty.REGISTRATION_STATE_ACTIVE: RegistrationState.ACTIVE,
        ty.REGISTRATION_STATE_REMOVED: RegistrationState.REMOVED,
    }.get(message.state, RegistrationState.REFUSED)
    return Registration(
        name=message.name,
        state=state,
        error=error_info(message.error) if message.HasField("error") else None,
        digest=message.tool_digest,
        generation=message.generation,
        warnings=tuple(ToolWarning(item.code, item.path, item.message) for item in message.warnings),
    )


def key(ref: ex.ExecutionRef) -> Key:
    """What an execution is known by."""
    return (ref.execution_id, ref.attempt)


def dispatch(message: ex.ExecuteRequest, now_ms: float) -> Dispatch:
    """A call as the executor takes it. `now_ms` is Unix time."""
    spans: list[float] = []
    if message.timeout_ms:
        spans.append(message.timeout_ms / 1000)
    if message.deadline_at_ms:
        spans.append(max(0.0, (message.deadline_at_ms - now_ms) / 1000))
    context = message.context
    return Dispatch(
        key=key(message.execution),
        ref=message.execution,
        tool_name=message.tool_name,
        arguments_json=message.arguments_json or b"{}",
        tool_digest=message.tool_digest,
        call_id=message.call_id,
        session_id=context.session_id,
        run_id=context.run_id,
        turn_id=context.turn_id,
        batch_call_id=context.batch_call_id,
        state=SessionState.from_json(
            context.state.schema_version, context.state.session_id or context.session_id, context.state.metadata_json
        ),
        services=tuple(context.services),
        cwd=context.cwd,
        traceparent=context.trace.traceparent,
        timeout=min(spans) if spans else None,
        output_credit=message.output_credit_bytes,
    )


def tool_result(sealed: Sealed) -> ty.ToolResult:
    """A handler's answer."""
    result = sealed.result
    message = ty.ToolResult(
        contents=[content(part) for part in result.contents],
        is_error=result.is_error,
        stop_flag=result.stop_flag,
        structured_json=sealed.structured_json,
        metadata_json=sealed.metadata_json,
        sanitised=sealed.sanitised,
    )
    if result.error is not None:
        error = result.error
        message.error.CopyFrom(
            ty.ToolError(
                code=error.code,
                message_for_model=error.message,
                detail=error.detail,
                path=error.path,
                retryable=error.retryable,
            )
        )
        if error.retry_after is not None:
            message.error.retry_after_ms = milliseconds(error.retry_after)
    return message


def content(part: ContentPart) -> ty.ContentPart:
    """One part of an answer; its JSON is text already."""
    if isinstance(part, Text):
        return ty.ContentPart(text=part.text)
    if isinstance(part, Json):
        return ty.ContentPart(value_json=cast(Encoded, part.value).text.encode())
    if isinstance(part, Image):
        return ty.ContentPart(image=ty.Media(data=part.data, mime_type=part.mime_type))
    if isinstance(part, Audio):
        return ty.ContentPart(audio=ty.Media(data=part.data, mime_type=part.mime_type))
    if isinstance(part, Resource):
        resource = ty.Resource(uri=part.uri, mime_type=part.mime_type)
        if isinstance(part.data, str):
            resource.text = part.data
        else:
            resource.blob = part.data
        return ty.ContentPart(resource=resource)
    link = ty.ResourceLink(
        uri=part.uri, name=part.name, title=part.title, description=part.description, mime_type=part.mime_type
    )
    if part.size_bytes is not None:
        link.size_bytes = part.size_bytes
    return ty.ContentPart(resource_link=link)


# Orchestrator side.


def error_info(message: ty.ToolError) -> ErrorInfo:
    """An error of a call or a registration."""
    return ErrorInfo(
        code=message.code,
        message=message.message_for_model,
        detail=message.detail,
        path=message.path,
        retryable=message.retryable,
        retry_after=message.retry_after_ms / 1000 if message.HasField("retry_after_ms") else None,
        layer=enum_name(ty.ErrorLayer, message.layer, "ERROR_LAYER_", "runtime"),
    )


def content_part(message: ty.ContentPart) -> ContentPart:
    """One part of a result."""
    kind = message.WhichOneof("content")
    if kind == "text":
        return Text(message.text)
    if kind == "value_json":
        return Json(parsed(message.value_json))
    if kind == "image":
        return Image(message.image.data, message.image.mime_type or "application/octet-stream")
    if kind == "audio":
        return Audio(message.audio.data, message.audio.mime_type or "application/octet-stream")
    if kind == "resource":
        resource = message.resource
        data = resource.text if resource.WhichOneof("data") == "text" else resource.blob
        return Resource(resource.uri, data, resource.mime_type)
    if kind == "resource_link":
        link = message.resource_link
        size = link.size_bytes if link.HasField("size_bytes") else None
        return ResourceLink(link.uri, link.name, link.title or link.name, link.description, link.mime_type, size)
    return Text(UNKNOWN_CONTENT)


_OUTCOMES: dict[int, Outcome] = {
    ty.CALL_OUTCOME_SUCCESS: "success",
    ty.CALL_OUTCOME_ERROR: "error",
    ty.CALL_OUTCOME_CANCELLED: "cancelled",
}


def outcome(number: int) -> Outcome:
    """How a call ended. Unknown: "error"."""
    return _OUTCOMES.get(number, "error")


def call_result(message: ty.CallResult) -> CallResult:
    """How a call ended."""
    timing = message.timing
    return CallResult(
        call_id=message.call_id,
        tool=message.tool,
        outcome=outcome(message.outcome),
        is_error=message.is_error,
        stop_flag=message.stop_flag,
        error=error_info(message.error) if message.HasField("error") else None,
        contents=tuple(content_part(part) for part in message.contents),
        structured=parsed(message.structured_json),
        metadata=parsed(message.metadata_json),
        not_executed_reason=enum_name(
            ty.NotExecutedReason, message.not_executed_reason, "NOT_EXECUTED_REASON_", "not_executed"
        ),
        effect=cast(Effect, EFFECT_NAMES.get(message.effect, "unknown")),
        truncated=message.truncated,
        original_bytes=message.original_bytes if message.HasField("original_bytes") else None,
        sanitised=message.sanitised,
        suppressed=message.suppressed,
        attempts=message.attempts,
        timing=CallTiming(
            timing.received_at_ms,
            timing.started_at_ms if timing.HasField("started_at_ms") else None,
            timing.finished_at_ms,
            timing.queue_ms,
            timing.approval_ms,
        )
        if message.HasField("timing")
        else None,
        approval_id=message.approval_id,
        arguments_digest=message.arguments_digest,
    )


# Stream settings; absent or zero means the default that the contract names.


def timing_of(message: st.StreamTiming) -> tuple[float, int]:
    """Ping interval in seconds, and how many may stay unanswered."""
    return (message.ping_interval_ms or 5_000) / 1000, message.ping_misses or 3
