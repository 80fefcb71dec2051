"""What a handler gives back, and what became of a call.

`ToolResult` is the handler's answer; `CallResult` is the sidecar's record of how
the call ended. Making an answer of any Python value is here too, and never
fails silently: what cannot be expressed becomes an explicit error.
"""

from __future__ import annotations

import dataclasses
import json
import re
import traceback
from collections import deque
from collections.abc import Iterator, Mapping, Sequence, ValuesView
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Literal, cast

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from .errors import CallgateError, ToolError, for_call

Outcome = Literal["success", "error", "cancelled"]
Effect = Literal["not_executed", "executed", "unknown"]

MESSAGE_BYTES_MAX = 4 * 1024
DETAIL_BYTES_MAX = 16 * 1024
PARTS_MAX = 64
FAILED = "tool_execution_failed"

_CODE = re.compile(r"[a-z][a-z0-9_]{0,63}")
# The sidecar answers with these; from an executor they would become FAILED.
# The two that an executor is told to send itself are not among them.
_SIDECAR_CODES = frozenset(
    {
        "approval_expired",
        "approval_unavailable",
        "executor_protocol_error",
        "limit_exceeded",
        "loop_detected",
        "result_invalid",
        "run_not_active",
        "store_unavailable",
        "tool_argument_enum",
        "tool_argument_invalid",
        "tool_argument_pattern",
        "tool_argument_range",
        "tool_argument_required",
        "tool_argument_type_mismatch",
        "tool_argument_unknown",
        "tool_batch_rejected",
        "tool_cancelled",
        "tool_changed",
        "tool_definition_invalid",
        "tool_denied_by_mode",
        "tool_denied_by_tool",
        "tool_denied_by_rule",
        "tool_denied_by_user",
        "tool_name_duplicate",
        "tool_name_empty",
        "tool_name_invalid",
        "tool_not_found",
        "tool_outcome_unknown",
        "tool_timeout",
        "tool_unavailable",
    }
)


@dataclass(frozen=True, slots=True)
class Text:
    """Plain text."""

    text: str


@dataclass(frozen=True, slots=True)
class Json:
    """Any JSON value; the model reads it as text."""

    value: Any


@dataclass(frozen=True, slots=True)
class Image:
    """A picture. `data` is the bytes as they are, not base64."""

    data: bytes
    mime_type: str = "image/png"


@dataclass(frozen=True, slots=True)
class Audio:
    """A sound. `data` is the bytes as they are, not base64."""

    data: bytes
    mime_type: str = "audio/wav"


@dataclass(frozen=True, slots=True)
class Resource:
    """A document inside the result: text or bytes."""

    uri: str
    data: str | bytes
    mime_type: str = ""


@dataclass(frozen=True, slots=True)
class ResourceLink:
    """A document elsewhere. Never fetched by the sidecar."""

    uri: str
    name: str = ""
    title: str = ""
    description: str = ""
    mime_type: str = ""
    size_bytes: int | None = None


ContentPart = Text | Json | Image | Audio | Resource | ResourceLink
_PARTS = (Text, Json, Image, Audio, Resource, ResourceLink)
_BYTES = (bytes, bytearray, memoryview)


@dataclass(frozen=True, slots=True)
class ErrorInfo:
    """What went wrong with one call or one registration. `retry_after` is in seconds."""

    code: str
    message: str = ""
    detail: str = ""
    path: str = ""
    retryable: bool = False
    retry_after: float | None = None
    layer: str = ""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A handler's answer, for those that need more than a plain value.

    Attributes:
        contents: For the model, in order. At most 64 parts.
        is_error: The tool did not do what was asked. Never fake success.
        stop_flag: The loop ends after this turn and the run completes.
        error: With `is_error`: what went wrong.
        structured: The same result for programs, a JSON object.
        metadata: A JSON object that is never shown to the model.
    """

    contents: tuple[ContentPart, ...] = ()
    is_error: bool = False
    stop_flag: bool = False
    error: ErrorInfo | None = None
    structured: Any = None
    metadata: Any = None

    @classmethod
    def of(cls, value: Any, *, stop: bool = False, metadata: Any = None) -> ToolResult:
        """The answer that returning `value` would be, with a stop flag or metadata."""
        return replace(from_value(value), stop_flag=stop, metadata=metadata)

    @classmethod
    def failure(
        cls, code: str, message: str, *, retryable: bool = False, stop: bool = False, path: str = ""
    ) -> ToolResult:
        """An error of the handler's own domain, as `ToolError` makes one."""
        return from_error(ToolError(code, message, retryable=retryable, stop=stop, path=path))

    @property
    def text(self) -> str:
        """All text parts, joined by line ends."""
        return joined_text(self.contents)


@dataclass(frozen=True, slots=True)
class CallResult:
    """How one call ended; exactly one for every call id that came in.

    `approval_id` is the approval that let it run or refused it; empty: nobody was
    asked. `arguments_digest` is over the arguments that ran, or would have. Of a
    `suppressed` result a hook keeps the content back.
    """

    call_id: str
    tool: str
    outcome: Outcome
    is_error: bool = False
    stop_flag: bool = False
    error: ErrorInfo | None = None
    contents: tuple[ContentPart, ...] = ()
    structured: Any = None
    metadata: Any = None
    not_executed_reason: str = ""
    effect: Effect = "unknown"
    truncated: bool = False
    original_bytes: int | None = None
    sanitised: bool = False
    suppressed: bool = False
    attempts: int = 0
    timing: CallTiming | None = None
    approval_id: str = ""
    arguments_digest: bytes = b""

    @property
    def text(self) -> str:
        """All text parts, joined by line ends."""
        return joined_text(self.contents)

    def raise_for_error(self) -> CallResult:
        """Returns the result, or raises what its error stands for.

        Raises:
            ToolNotFound, InvalidArguments, PermissionDenied, Cancelled,
            DeadlineExceeded, Unavailable, CallFailed: by the error's code.
        """
        failure = self.failure()
        if failure is not None:
            raise failure
        return self

    def failure(self) -> CallgateError | None:
        """What `raise_for_error` would raise."""
        if not self.is_error:
            return None
        error = self.error or ErrorInfo(FAILED)
        return for_call(error.code, error.message or self.text or error.code)


@dataclass(frozen=True, slots=True)
class CallTiming:
    """When things happened, Unix time in milliseconds.

    `approval_ms` and `queue_ms` are the spans that it waited for approvers and for a slot.
    """

    received_at_ms: int = 0
    started_at_ms: int | None = None
    finished_at_ms: int = 0
    queue_ms: int = 0
    approval_ms: int = 0


def joined_text(contents: tuple[ContentPart, ...]) -> str:
    """The text parts, joined by line ends."""
    return "\n".join(part.text for part in contents if isinstance(part, Text))


def clean(text: str) -> tuple[str, bool]:
    """The text with lone surrogates replaced by U+FFFD, and whether there were any."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        # Through UTF-16, so that two halves of a pair become the character they are.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"), True
    return text, False


def cut(text: str, limit: int) -> str:
    """The longest beginning that has at most `limit` bytes as UTF-8."""
    raw = text.encode("utf-8", "replace")
    return text if len(raw) <= limit else raw[:limit].decode("utf-8", "ignore")


def to_json(value: Any) -> str:
    """One JSON document, compact, with every digit of every number.

    Raises:
        ValueError: NaN, an infinity, or something that JSON cannot hold.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    except _BytesFound as error:
        path = _path_of_bytes(value, "$") or "a value in it"
        raise ValueError(f"{path} is bytes; write it as text, or return Image, Audio or Resource") from error
    except (TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


class _BytesFound(ValueError):
    """Bytes where JSON is wanted. Taken for text they would pass or fail by chance."""


def _plain(value: Any) -> Any:
    """One level of a value in types that JSON knows, so that bytes are met wherever they are."""
    if isinstance(value, _BYTES):
        raise _BytesFound
    if isinstance(value, BaseModel):
        return value.model_dump(mode="python", by_alias=True)
    if hasattr(type(value), "__pydantic_serializer__"):
        return type(value).__pydantic_serializer__.to_python(value, mode="python", by_alias=True)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    if isinstance(value, (AbstractSet, ValuesView, Iterator, deque)):
        return list(cast("AbstractSet[Any]", value))
    return to_jsonable_python(value)


def _path_of_bytes(value: Any, path: str) -> str | None:
    """Where the first bytes in a value are; None if an iterator has taken them along."""
    if isinstance(value, _BYTES):
        return path
    if value is None or isinstance(value, (str, int, float)):
        return None
    inner = value if isinstance(value, (dict, list, tuple)) else _plain(value)
    if isinstance(inner, dict):
        steps = [(_step(key), item) for key, item in cast("dict[Any, Any]", inner).items()]
    elif isinstance(inner, (list, tuple)):
        steps = [(f"[{index}]", item) for index, item in enumerate(cast("Sequence[Any]", inner))]
    else:
        steps = [("", inner)]
    found = (_path_of_bytes(item, path + step) for step, item in steps)
    return next((item for item in found if item is not None), None)


def _step(key: Any) -> str:
    name = str(key)
    return f".{name}" if re.fullmatch(r"[A-Za-z0-9_$-]+", name) else f"[{json.dumps(name)}]"


def from_value(value: Any) -> ToolResult:
    """The answer that a handler means by returning `value`.

    str is text; None is an empty answer; a content part is taken as it is, and so
    is a list of parts, in which a str is text; anything else is the text of its
    JSON, and an object is also the structured result.
    """
    if isinstance(value, ToolResult):
        return value
    if value is None:
        return ToolResult()
    if isinstance(value, str):
        return ToolResult((Text(str(value)),))
    if isinstance(value, _PARTS):
        return ToolResult((value,))
    if isinstance(value, _BYTES):
        return from_error(
            ToolError(
                "result_not_json",
                "the tool returned bytes without saying what they are",
                detail="wrap them in Image, Audio or Resource",
            )
        )
    if isinstance(value, (list, tuple)) and any(isinstance(item, _PARTS) for item in cast("Sequence[Any]", value)):
        return _from_parts(cast("Sequence[Any]", value))
    try:
        text = to_json(value)
    except ValueError as error:
        return from_error(
            ToolError(
                "result_not_json",
                f"the tool's result is not valid JSON: {error}",
                detail=f"returned {type(value).__name__}",
            )
        )
    return ToolResult((Text(text),), structured=Encoded(text) if text.startswith("{") else None)


def _from_parts(items: Sequence[Any]) -> ToolResult:
    """One content part in a list makes it a list of parts: as JSON its bytes would become text."""
    for index, item in enumerate(items):
        if not isinstance(item, (str, *_PARTS)):
            return from_error(
                ToolError(
                    "result_not_json",
                    f"item {index} of the tool's result is a {type(item).__name__}; beside content parts "
                    f"only str and {', '.join(part.__name__ for part in _PARTS)} are allowed",
                )
            )
    return ToolResult(tuple(Text(str(item)) if isinstance(item, str) else item for item in items))


@dataclass(frozen=True, slots=True)
class Encoded:
    """JSON that is text already, so that it is not written twice."""

    text: str = field(repr=False)


def from_error(error: ToolError) -> ToolResult:
    """The answer that stands for an error of the handler's own domain."""
    code, detail = error.code, error.detail
    if not _CODE.fullmatch(code) or code in _SIDECAR_CODES:
        detail = f"the handler's code was {code!r}, which executors may not send\n{detail}"
        code = FAILED
    message, _ = clean(error.message)
    message = cut(message, MESSAGE_BYTES_MAX)
    return ToolResult(
        (Text(message),) if message else (),
        is_error=True,
        stop_flag=error.stop,
        error=ErrorInfo(
            code,
            message,
            cut(clean(detail)[0], DETAIL_BYTES_MAX),
            clean(error.path)[0],
            error.retryable,
            error.retry_after,
        ),
    )


def from_exception(error: BaseException) -> ToolResult:
    """The answer for anything that a handler threw.

    The model gets the message, bounded; type and stack are for operators.
    """
    if isinstance(error, ToolError):
        return from_error(error)
    message = cut(clean(text_of(error))[0], MESSAGE_BYTES_MAX) or "the tool failed without a message"
    stack = clean("".join(traceback.format_exception(error)))[0]
    # The end of a stack says most, so a long one loses its beginning.
    raw = stack.encode("utf-8")
    if len(raw) > DETAIL_BYTES_MAX:
        stack = raw[-DETAIL_BYTES_MAX:].decode("utf-8", "ignore")
    return ToolResult((Text(message),), is_error=True, error=ErrorInfo(FAILED, message, stack))


def text_of(error: BaseException) -> str:
    """What an error says. Empty: nothing, or nothing that can be read."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - a broken __str__ must not lose the failure itself
        return ""


@dataclass(frozen=True, slots=True)
class Sealed:
    """An answer that needs no more code of the user to be sent: all JSON is text, all text is clean."""

    result: ToolResult
    structured_json: bytes = b""
    metadata_json: bytes = b""
    sanitised: bool = False

    @property
    def size(self) -> int:
        """Bytes that count towards the limit of results."""
        return len(self.structured_json) + sum(_size(part) for part in self.result.contents)


@dataclass(frozen=True, slots=True)
class Stopped:
    """The handler stopped because it was told to."""

    effect: Effect = "unknown"
    message: str = ""


def seal(result: ToolResult) -> Sealed:
    """Makes an answer ready to send. Runs where the handler ran, since it may call the user's code."""
    try:
        return _seal(result)
    except BaseException as error:  # noqa: BLE001 - whatever the values do, a call gets its answer
        failure = ToolError("result_not_json", f"the tool's result cannot be sent: {text_of(error)}")
        return _seal(replace(from_error(failure), stop_flag=result.stop_flag))


def _seal(result: ToolResult) -> Sealed:
    if len(result.contents) > PARTS_MAX:
        raise ValueError(f"{len(result.contents)} parts, at most {PARTS_MAX} are allowed")
    dirty = False
    for part in result.contents:
        if not isinstance(cast(object, part), _PARTS):
            raise TypeError(f"{type(part).__name__} is not a content part")

    def tidy(text: str) -> str:
        nonlocal dirty
        cleaned, changed = clean(text)
        dirty = dirty or changed
        return cleaned

    def document(value: Any, what: str) -> bytes:
        if value is None:
            return b""
        text = tidy(value.text if isinstance(value, Encoded) else to_json(value))
        if not text.startswith("{"):
            raise ValueError(f"{what} must be an object")
        return text.encode("utf-8")

    parts: list[ContentPart] = []
    for part in result.contents:
        if isinstance(part, Text):
            parts.append(Text(tidy(part.text)))
        elif isinstance(part, Json):
            parts.append(Json(Encoded(tidy(to_json(part.value)))))
        elif isinstance(part, Resource) and isinstance(part.data, str):
            parts.append(replace(part, data=tidy(part.data)))
        else:
            parts.append(part)
    structured = document(result.structured, "structured")
    metadata = document(result.metadata, "metadata")
    return Sealed(replace(result, contents=tuple(parts)), structured, metadata, dirty)


def too_large(size: int, limit: int, *, stop: bool = False) -> Sealed:
    """The answer in place of one that is beyond the agreed size."""
    message = f"the result has {size} bytes, at most {limit} are allowed"
    return Sealed(
        ToolResult((Text(message),), True, stop, ErrorInfo("result_too_large", message)),
    )


def _size(part: ContentPart) -> int:
    if isinstance(part, Text):
        return len(part.text.encode("utf-8"))
    if isinstance(part, Json):
        return len(part.value.text.encode("utf-8"))
    if isinstance(part, (Image, Audio)):
        return len(part.data)
    if isinstance(part, Resource):
        return len(part.data.encode("utf-8") if isinstance(part.data, str) else part.data)
    return len(part.uri) + len(part.name) + len(part.title) + len(part.description)
