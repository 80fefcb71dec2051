"""What a handler may return, and what becomes of it."""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel
from pydantic.dataclasses import dataclass as pydantic_dataclass

from callgate import ErrorInfo, Image, Json, Text, ToolError, ToolResult, errors
from callgate.result import (
    DETAIL_BYTES_MAX,
    MESSAGE_BYTES_MAX,
    CallResult,
    clean,
    cut,
    from_error,
    from_exception,
    from_value,
    seal,
    too_large,
)


class Cake(BaseModel):
    name: str
    layers: int


@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        ("hello", "hello", b""),
        ("", "", b""),
        (3, "3", b""),
        (2**70, str(2**70), b""),
        (True, "true", b""),
        (1.5, "1.5", b""),
        ([1, "a"], '[1,"a"]', b""),
        ({"a": 1}, '{"a":1}', b'{"a":1}'),
        ({}, "{}", b"{}"),
        (Cake(name="x", layers=2), '{"name":"x","layers":2}', b'{"name":"x","layers":2}'),
        ({"cakes": [Cake(name="é", layers=1)]}, '{"cakes":[{"name":"é","layers":1}]}', None),
    ],
    ids=str,
)
def test_value_is_text_and_an_object_is_structured_too(value: Any, text: str, structured: bytes | None) -> None:
    sealed = seal(from_value(value))
    assert sealed.result.text == text
    assert not sealed.result.is_error
    assert sealed.structured_json == (text.encode() if structured is None else structured)


def test_none_is_an_empty_answer() -> None:
    assert seal(from_value(None)).result.contents == ()


def test_content_parts_are_taken_as_they_are() -> None:
    parts = [Text("see"), Image(b"\x89PNG", "image/png")]
    assert from_value(parts).contents == tuple(parts)
    assert from_value(parts[1]).contents == (parts[1],)


@pytest.mark.parametrize("data", [b"GIF89a ascii", b"\x89PNG"], ids=["ascii", "binary"])
def test_text_beside_content_parts_is_a_text_part(data: bytes) -> None:
    image = Image(data)
    assert from_value(["caption", image]).contents == (Text("caption"), image)
    assert from_value((image, "caption")).contents == (image, Text("caption"))


@pytest.mark.parametrize("other", [{"a": 1}, 3, None, b"x", ToolResult()], ids=lambda item: type(item).__name__)
def test_what_is_no_part_beside_content_parts_is_an_error_that_names_it(other: Any) -> None:
    result = from_value([Text("see"), other])
    assert result.error is not None
    assert result.error.code == "result_not_json"
    assert f"item 1 of the tool's result is a {type(other).__name__}" in result.text
    assert "Text, Json, Image" in result.text


class Blob(BaseModel):
    data: bytes


@dataclass
class Holder:
    items: list[Any]


@pydantic_dataclass
class Checked:
    data: bytes


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"raw": b"abc"}, "$.raw"),
        ([1, bytearray(b"abc")], "$[1]"),
        ({"a b": memoryview(b"abc")}, '$["a b"]'),
        (Blob(data=b"abc"), "$.data"),
        ({"blobs": [Blob(data=b"abc")]}, "$.blobs[0].data"),
        (Holder([1, b"abc"]), "$.items[1]"),
        (Checked(b"abc"), "$.data"),
        ({"set": {b"abc"}}, "$.set[0]"),
        ({"picture": Image(b"GIF89a")}, "$.picture.data"),
        (iter([b"abc"]), "a value in it"),
    ],
    ids=str,
)
def test_bytes_deep_in_a_result_are_refused_with_their_path(value: Any, path: str) -> None:
    result = from_value(value)
    assert result.error is not None
    assert result.error.code == "result_not_json"
    assert f" {path} is bytes" in result.text


def test_what_json_has_no_type_for_is_written_as_pydantic_does() -> None:
    value = {"day": date(2024, 2, 29), "many": deque([Decimal("1.10")]), "held": Holder([{1}])}
    assert from_value(value).text == '{"day":"2024-02-29","many":["1.10"],"held":{"items":[[1]]}}'


@pytest.mark.parametrize(
    "value", [float("nan"), {"a": [float("inf")]}, {1, float("nan")}, object(), b"bytes"], ids=repr
)
def test_what_json_cannot_hold_is_an_explicit_error(value: Any) -> None:
    result = from_value(value)
    assert result.is_error
    assert result.error is not None
    assert result.error.code == "result_not_json"


def test_nan_deep_inside_a_tool_result_is_an_explicit_error_and_keeps_the_stop_flag() -> None:
    sealed = seal(ToolResult((Json([float("nan")]),), stop_flag=True))
    assert sealed.result.is_error
    assert sealed.result.stop_flag


def test_structured_result_must_be_an_object() -> None:
    assert seal(ToolResult(structured=[1])).result.is_error


def test_lone_surrogates_are_replaced_and_marked() -> None:
    sealed = seal(from_value({"a": "x\ud800y"}))
    assert sealed.sanitised
    assert json.loads(sealed.structured_json) == {"a": "x\ufffdy"}
    assert not seal(from_value("plain")).sanitised


def test_two_halves_of_a_pair_become_their_character() -> None:
    assert clean("\ud83d\ude00") == ("\U0001f600", True)


def test_cut_keeps_characters_whole() -> None:
    assert cut("aé", 2) == "a"
    assert cut("aé", 3) == "aé"


def test_tool_error_keeps_its_code_and_advice() -> None:
    result = from_error(
        ToolError("out_of_flour", "no flour", retryable=True, retry_after=1.5, detail="bin 3", path="$.a")
    )
    assert result.error == ErrorInfo("out_of_flour", "no flour", "bin 3", "$.a", True, 1.5)
    assert result.is_error


@pytest.mark.parametrize("code", ["tool_not_found", "tool_argument_invalid", "Bad Code", "", "x" * 65])
def test_code_that_executors_may_not_send_becomes_the_general_one(code: str) -> None:
    error = from_error(ToolError(code, "m")).error
    assert error is not None
    assert error.code == "tool_execution_failed"
    assert error.message == "m"
    assert repr(code) in error.detail


def test_thrown_exception_has_type_and_stack_only_in_the_detail() -> None:
    def fail() -> None:
        raise KeyError("secret place")

    try:
        fail()
    except KeyError as caught:
        result = from_exception(caught)
    assert result.error is not None
    assert result.error.code == "tool_execution_failed"
    assert result.error.message == "'secret place'"
    assert "KeyError" not in result.error.message + result.text
    assert "KeyError" in result.error.detail
    assert "in fail" in result.error.detail


def test_texts_of_an_exception_are_bounded() -> None:
    result = from_exception(RuntimeError("é" * 100_000))
    assert result.error is not None
    assert len(result.error.message.encode()) <= MESSAGE_BYTES_MAX
    assert len(result.error.detail.encode()) <= DETAIL_BYTES_MAX


def test_exception_that_cannot_be_printed_is_still_an_answer() -> None:
    class Broken(Exception):
        def __str__(self) -> str:
            raise ValueError

    result = from_exception(Broken())
    assert result.is_error
    assert result.text


def test_too_large_result_is_an_error_that_keeps_the_stop_flag() -> None:
    sealed = too_large(10, 5, stop=True)
    assert sealed.result.error is not None
    assert sealed.result.error.code == "result_too_large"
    assert sealed.result.stop_flag


def test_object_counts_as_text_and_as_structured_result() -> None:
    text = '{"a":"' + "x" * 100 + '"}'
    assert seal(from_value(json.loads(text))).size == 2 * len(text)
    assert seal(from_value([json.loads(text)])).size == len(text) + 2


def test_too_many_parts_are_an_error() -> None:
    assert not seal(ToolResult(tuple(Text(str(n)) for n in range(64)))).result.is_error
    assert seal(ToolResult(tuple(Text(str(n)) for n in range(65)))).result.is_error


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("tool_not_found", errors.ToolNotFound),
        ("tool_argument_required", errors.InvalidArguments),
        ("json_invalid", errors.InvalidArguments),
        ("arguments_rejected", errors.InvalidArguments),
        ("approval_unavailable", errors.PermissionDenied),
        ("tool_cancelled", errors.Cancelled),
        ("tool_timeout", errors.DeadlineExceeded),
        ("tool_unavailable", errors.Unavailable),
        ("out_of_flour", errors.CallFailed),
    ],
)
def test_error_of_a_call_is_raised_as_what_it_stands_for(code: str, kind: type[Exception]) -> None:
    result = CallResult("c", "t", "error", is_error=True, error=ErrorInfo(code, "why"))
    with pytest.raises(kind, match="why") as caught:
        result.raise_for_error()
    assert type(caught.value) is kind


def test_success_is_returned_by_raise_for_error() -> None:
    result = CallResult("c", "t", "success")
    assert result.raise_for_error() is result
