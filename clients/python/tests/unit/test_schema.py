"""Which signature makes which schema in which dialect."""

from __future__ import annotations

import datetime as dt
import enum
import uuid
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, Field, Json
from typing_extensions import TypedDict

from callgate import Tool, ToolContext, ToolDefinitionError, ToolError
from callgate.schema import Signature, clean, dialect_of

CORE, FULL = "core", "json-schema-2020-12"


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Address(BaseModel):
    street: str
    number: int = 1


class Tree(BaseModel):
    children: list[Tree] = []


@dataclass
class Point:
    x: float
    y: float


class Options(TypedDict, total=False):
    fast: bool


# type, dialect, schema of the property (None: only the dialect is claimed)
TABLE: list[tuple[Any, str, dict[str, Any] | None]] = [
    (str, CORE, {"type": "string"}),
    (int, CORE, {"type": "integer"}),
    (float, CORE, {"type": "number"}),
    (bool, CORE, {"type": "boolean"}),
    (None, CORE, {"type": "null"}),
    (list[int], CORE, {"type": "array", "items": {"type": "integer"}}),
    (list, CORE, {"type": "array"}),
    (list[Any], CORE, {"type": "array"}),
    (list[list[str]], CORE, {"type": "array", "items": {"type": "array", "items": {"type": "string"}}}),
    (dict, CORE, {"type": "object"}),
    (dict[str, Any], CORE, {"type": "object"}),
    (Annotated[int, Field(description="how many")], CORE, {"type": "integer", "description": "how many"}),
    (
        Address,
        CORE,
        {
            "type": "object",
            "properties": {"street": {"type": "string"}, "number": {"type": "integer"}},
            "required": ["street"],
        },
    ),
    (
        Point,
        CORE,
        {"type": "object", "properties": {"x": {"type": "number"}, "y": {"type": "number"}}, "required": ["x", "y"]},
    ),
    (Options, CORE, {"type": "object", "properties": {"fast": {"type": "boolean"}}}),
    (Optional[int], FULL, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
    (int | str, FULL, {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
    (Literal["a", "b"], FULL, {"type": "string", "enum": ["a", "b"]}),
    (Colour, FULL, {"$ref": "#/$defs/Colour"}),
    (Annotated[int, Field(ge=0)], FULL, {"type": "integer", "minimum": 0}),
    (Annotated[str, Field(pattern="^a")], FULL, {"type": "string", "pattern": "^a"}),
    (Annotated[str, Field(max_length=3)], FULL, {"type": "string", "maxLength": 3}),
    (dict[str, int], FULL, {"type": "object", "additionalProperties": {"type": "integer"}}),
    (dt.datetime, FULL, {"type": "string", "format": "date-time"}),
    (uuid.UUID, FULL, {"type": "string", "format": "uuid"}),
    (Any, FULL, {}),
    (Tree, FULL, {"$ref": "#/$defs/Tree"}),
    (Decimal, FULL, {"anyOf": [{"type": "number"}, {"type": "string"}]}),
    (Json[int], CORE, {"type": "string"}),
    (tuple[int, str], FULL, None),
    (set[int], FULL, None),
]


def signature_of(kind: Any) -> Signature:
    def function(value: Any) -> None: ...

    function.__annotations__ = {"value": kind}
    return Signature(function)


@pytest.mark.parametrize(("kind", "dialect", "schema"), TABLE, ids=[str(row[0]) for row in TABLE])
def test_type_is_expressed_in_the_smallest_dialect_that_says_the_same(
    kind: Any, dialect: str, schema: dict[str, Any] | None
) -> None:
    signature = signature_of(kind)
    assert signature.dialect == dialect
    assert signature.schema["type"] == "object"
    assert signature.schema["required"] == ["value"]
    if schema is not None:
        assert signature.schema["properties"]["value"] == schema


def test_no_schema_has_a_title_unless_an_argument_is_called_so() -> None:
    def book(title: str, page: Address) -> None: ...

    schema = Signature(book).schema
    assert set(schema["properties"]) == {"title", "page"}
    assert "'title':" not in str(schema["properties"]["page"])


def test_default_makes_an_argument_optional_and_is_left_out_of_core() -> None:
    def function(a: int, b: str = "x") -> None: ...

    signature = Signature(function)
    assert signature.dialect == CORE
    assert signature.schema["required"] == ["a"]
    assert signature.schema["properties"]["b"] == {"type": "string"}


def test_default_is_kept_in_the_full_dialect() -> None:
    def function(a: int | None = 3) -> None: ...

    assert Signature(function).schema["properties"]["a"]["default"] == 3


def test_context_is_not_part_of_the_schema() -> None:
    def function(a: int, ctx: ToolContext) -> None: ...

    signature = Signature(function)
    assert signature.context_parameter == "ctx"
    assert list(signature.schema["properties"]) == ["a"]


def test_argument_names_may_be_those_of_pydantic() -> None:
    def function(schema: str, model_config: int, _hidden: bool, copy: int = 1) -> None: ...

    signature = Signature(function)
    assert list(signature.schema["properties"]) == ["schema", "model_config", "_hidden", "copy"]
    assert signature.read(b'{"schema":"s","model_config":1,"_hidden":true}') == {
        "schema": "s",
        "model_config": 1,
        "_hidden": True,
        "copy": 1,
    }


def test_field_as_default_value_describes_the_argument() -> None:
    def function(a: int = Field(3, description="the a")) -> None: ...

    signature = Signature(function)
    assert signature.schema["properties"]["a"]["description"] == "the a"
    assert signature.read(b"{}") == {"a": 3}


def test_alias_is_the_name_that_the_model_sees() -> None:
    def function(record_id: Annotated[str, Field(alias="recordId")]) -> None: ...

    signature = Signature(function)
    assert list(signature.schema["properties"]) == ["recordId"]
    assert signature.read(b'{"recordId":"r1"}') == {"record_id": "r1"}


def test_keyword_rest_takes_undeclared_arguments() -> None:
    def function(a: int, **rest: Any) -> None: ...

    assert Signature(function).read(b'{"a":1,"b":[2]}') == {"a": 1, "b": [2]}


def test_undeclared_arguments_are_left_out_without_keyword_rest() -> None:
    def function(a: int) -> None: ...

    assert Signature(function).read(b'{"a":1,"b":2}') == {"a": 1}


def test_parameter_without_a_type_is_refused() -> None:
    def function(a) -> None: ...  # type: ignore[no-untyped-def]

    with pytest.raises(ToolDefinitionError, match="`a` has no type"):
        Signature(function)


def test_parameter_that_cannot_be_named_is_refused() -> None:
    def function(*a: int) -> None: ...

    with pytest.raises(ToolDefinitionError, match="cannot be given by name"):
        Signature(function)


def test_type_that_json_cannot_describe_is_refused() -> None:
    def function(a: object, b: threading_lock) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(ToolDefinitionError):
        Signature(function)


@pytest.mark.parametrize("digits", ["9007199254740993", "-9007199254740993", "1" * 400])
def test_integers_of_any_size_arrive_digit_for_digit(digits: str) -> None:
    assert signature_of(int).read(f'{{"value":{digits}}}') == {"value": int(digits)}
    assert signature_of(Any).read(f'{{"value":{digits}}}') == {"value": int(digits)}


def test_decimals_arrive_digit_for_digit() -> None:
    digits = "12345678901234567890.12345678901234567890"
    assert signature_of(Decimal).read(f'{{"value":{digits}}}') == {"value": Decimal(digits)}


def test_whole_number_with_a_fraction_of_zero_is_an_integer() -> None:
    assert signature_of(int).read(b'{"value":1.0}') == {"value": 1}


@pytest.mark.parametrize(
    ("document", "path"),
    [('{"value":1.5}', "$.value"), ("{}", "$.value"), ("{", "$"), ("[]", "$"), ('{"value":' + "1" * 5000 + "}", "$")],
)
def test_unreadable_arguments_are_a_domain_error_with_a_path(document: str, path: str) -> None:
    with pytest.raises(ToolError) as caught:
        signature_of(int).read(document)
    assert caught.value.code == "arguments_rejected"
    assert caught.value.path == path


def test_path_of_a_nested_problem_names_every_step() -> None:
    with pytest.raises(ToolError) as caught:
        signature_of(list[Address]).read('{"value":[{"street":"a"},{"number":1}]}')
    assert caught.value.path == "$.value[1].street"


def test_hand_written_schema_is_sent_as_it_is() -> None:
    text = '{"type": "object", "x-unknown": 1}'
    tool = Tool(lambda: None, name="t", schema=text, dialect="core")
    assert (tool.schema_json, tool.dialect) == (text, "core")


def test_hand_written_schema_names_the_dialect_that_it_needs() -> None:
    assert dialect_of({"type": "object", "properties": {"a": {"type": "string"}}}) == CORE
    assert dialect_of({"type": "object", "properties": {"a": {"enum": [1]}}}) == FULL
    assert dialect_of({"type": ["object", "null"]}) == FULL


def test_openapi_discriminator_is_left_out() -> None:
    tidy, dialect = clean({"oneOf": [{"type": "object"}], "discriminator": {"propertyName": "kind"}})
    assert (tidy, dialect) == ({"oneOf": [{"type": "object"}]}, FULL)


def takes_nothing() -> None:
    """Takes nothing."""


@pytest.mark.parametrize("name", ["a", "a.b", "-", "_9", "x" * 64])
def test_names_that_the_sidecar_takes_are_taken(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert Tool(takes_nothing, name=name).name == name
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", "tool_name_empty"),
        (" ", "tool_name_empty"),
        ("a b", "tool_name_invalid"),
        ("löschen", "tool_name_invalid"),
        ("a\n", "tool_name_invalid"),
        ("a\x1b[31m", "tool_name_invalid"),
        ("a\u202eb", "tool_name_invalid"),
        ("x" * 129, "tool_name_invalid"),
    ],
    ids=ascii,
)
def test_name_that_the_sidecar_would_refuse_is_refused_where_it_is_declared(name: str, code: str) -> None:
    with pytest.raises(ToolDefinitionError) as caught:
        Tool(takes_nothing, name=name)
    assert caught.value.code == code
    assert isinstance(caught.value, ValueError)
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()


def test_name_that_only_some_sidecars_take_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    assert Tool(takes_nothing, name="x" * 65).name == "x" * 65
    assert "must be 1 to 64" in caplog.text


@pytest.mark.parametrize("most", [0, -1, 2**32])
def test_concurrency_that_is_none_is_refused(most: int) -> None:
    with pytest.raises(ToolDefinitionError, match="max_concurrency must be 1 to"):
        Tool(takes_nothing, max_concurrency=most)


def test_only_decimals_keep_every_digit_of_a_fraction() -> None:
    def exact(kept: Decimal, many: dict[str, Decimal], loose: dict[str, Any]) -> None: ...

    def loose(loose: dict[str, Any]) -> None: ...

    digits = "1.000000000000000000000001"
    one = {"a": Decimal(digits)}
    text = f'"loose":{{"a":{digits}}}'
    assert Signature(exact).read(f'{{"kept":{digits},"many":{{"a":{digits}}},{text}}}') == {
        "kept": Decimal(digits),
        "many": one,
        "loose": one,
    }
    (read,) = Signature(loose).read(f"{{{text}}}").values()
    assert read == {"a": 1.0}
    assert type(read["a"]) is float
