"""Turns the signature of a function into a schema and a reader of arguments.

The schema goes out in the core dialect if that says exactly the same, else
openly in JSON Schema 2020-12. The sidecar refuses keywords that it would ignore,
so what only decorates (`title`) is taken out here, and nothing else is.
"""

from __future__ import annotations

import inspect
import json
import typing
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from .context import ToolContext
from .errors import ToolDefinitionError, ToolError

Dialect = Literal["core", "json-schema-2020-12"]

_CORE_KEYWORDS = frozenset({"type", "properties", "required", "items", "description"})
_CORE_TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_VIOLATIONS_SHOWN = 5


class Signature:
    """What a function takes: its schema, its dialect, and how to read arguments for it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        """Reads the signature.

        Raises:
            ToolDefinitionError: A parameter has no type, cannot be given by name,
                or has a type that JSON cannot describe.
        """
        self.context_parameter: str | None = None
        self._fields: dict[str, str] = {}
        self._rest: str | None = None
        fields: dict[str, Any] = {}
        hints = _hints(function)
        for name, parameter in inspect.signature(function).parameters.items():
            if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.VAR_POSITIONAL}:
                raise ToolDefinitionError(f"parameter `{name}` cannot be given by name")
            hint = hints.get(name, parameter.annotation)
            if _is_context(hint):
                self.context_parameter = name
                continue
            if parameter.kind is parameter.VAR_KEYWORD:
                self._rest = name
                continue
            if hint is parameter.empty:
                raise ToolDefinitionError(f"parameter `{name}` has no type")
            default = ... if parameter.default is parameter.empty else parameter.default
            # Names of our own inside the model, so that `schema` or `_x` may be argument names.
            field = f"field_{len(fields)}"
            self._fields[field] = name
            fields[field] = (_named(hint, name), default)
        extra: Literal["allow", "ignore"] = "allow" if self._rest else "ignore"
        try:
            self._model: type[BaseModel] = create_model(
                getattr(function, "__name__", "arguments"),
                __config__=ConfigDict(
                    extra=extra,
                    protected_namespaces=(),
                ),
                **fields,
            )
            generator = _collecting()
            raw = self._model.model_json_schema(schema_generator=generator)
        except (PydanticUserError, TypeError, NameError) as error:
            raise ToolDefinitionError(f"the parameters of `{function}` have no schema: {error}") from error
        self._exact_decimals = generator.saw_decimal
        self.schema: dict[str, Any]
        self.dialect: Dialect
        self.schema, self.dialect = clean(raw)

    def read(self, arguments_json: bytes | str) -> dict[str, Any]:
        """The keyword arguments for the function.

        Integers keep every digit: the sidecar passes none that is beyond the range
        of a double, and so none that is too long for Python.

        Raises:
            ToolError: `arguments_rejected`, with the path of the first problem.
        """
        try:
            if self._exact_decimals:
                # pydantic reads JSON numbers as floats first, which is too few digits.
                parsed = json.loads(arguments_json, parse_float=Decimal)
                model = self._model.model_validate(parsed)
            else:
                model = self._model.model_validate_json(arguments_json)
        except ValidationError as error:
            raise rejected(error) from error
        except ValueError as error:
            raise ToolError("arguments_rejected", f"the arguments cannot be read: {error}", path="$") from error
        values = {name: getattr(model, field) for field, name in self._fields.items()}
        values.update(model.model_extra or {})
        return values


def rejected(error: ValidationError) -> ToolError:
    """The answer to arguments that the sidecar let pass and the handler's types do not."""
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"`{_path(problem['loc'])}`: {problem['msg']}" for problem in problems[:_VIOLATIONS_SHOWN]]
    if len(problems) > _VIOLATIONS_SHOWN:
        lines.append(f"and {len(problems) - _VIOLATIONS_SHOWN} more")
    return ToolError("arguments_rejected", "; ".join(lines), path=_path(problems[0]["loc"]) if problems else "$")


def _path(location: tuple[int | str, ...]) -> str:
    return "$" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in location)


def clean(schema: JsonSchemaValue) -> tuple[dict[str, Any], Dialect]:
    """A schema without decoration, in the smallest dialect that says the same."""
    tidy = _tidy(schema)
    core = _core(tidy, tidy.get("$defs", {}), ())
    return (core, "core") if core is not None else (tidy, "json-schema-2020-12")


def dialect_of(schema: dict[str, Any]) -> Dialect:
    """The dialect that a hand-written schema is in; it is never rewritten."""
    return "core" if _is_core(schema) else "json-schema-2020-12"


def _collecting() -> type[_Generator]:
    """A generator class of its own per use, because pydantic makes the instance."""

    class Collecting(_Generator):
        saw_decimal = False

    return Collecting


class _Generator(GenerateJsonSchema):
    """pydantic's generator, without what the sidecar could not honour."""

    saw_decimal = False

    def decimal_schema(self, schema: Any) -> JsonSchemaValue:
        """Numbers or text, without the look-ahead pattern that not every engine knows."""
        type(self).saw_decimal = True
        made = super().decimal_schema(schema)
        for option in made.get("anyOf", []):
            if str(option.get("pattern", "")).startswith("^(?!"):
                del option["pattern"]
        return made


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    target = function if inspect.isroutine(function) else type(function).__call__
    try:
        return typing.get_type_hints(target, include_extras=True)
    except (NameError, TypeError) as error:
        raise ToolDefinitionError(f"the types of `{function}` cannot be resolved: {error}") from error


def _named(hint: Any, name: str) -> Any:
    """The type with the argument's name as its alias; an alias of the user's own comes later and wins."""
    if typing.get_origin(hint) is Annotated:
        kind, *metadata = typing.get_args(hint)
        return Annotated[(kind, Field(alias=name), *metadata)]
    return Annotated[hint, Field(alias=name)]


def _is_context(hint: Any) -> bool:
    if hint is ToolContext:
        return True
    arguments = typing.get_args(hint)
    return bool(arguments) and any(_is_context(argument) for argument in arguments if argument is not hint)


# `discriminator` is OpenAPI's and repeats what `oneOf` says. The `content…` keywords assert
# nothing in JSON Schema, so the sidecar refuses them; pydantic checks the content itself.
_DECORATION = frozenset({"title", "discriminator", "contentMediaType", "contentEncoding", "contentSchema"})

# Keywords whose value maps names to schemas, is a list of schemas, or is a schema.
_SCHEMA_MAPS = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_SCHEMA_LISTS = frozenset({"anyOf", "allOf", "oneOf", "prefixItems"})
_SCHEMAS = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames", "if", "then", "else"})


def _tidy(node: Any) -> Any:
    """Drops what asserts nothing: see `_DECORATION`."""
    if not isinstance(node, dict):
        return node
    tidy: dict[str, Any] = {}
    for keyword, value in node.items():
        if keyword in _DECORATION:
            continue
        if keyword in _SCHEMA_MAPS and isinstance(value, dict):
            tidy[keyword] = {name: _tidy(child) for name, child in value.items()}
        elif keyword in _SCHEMA_LISTS and isinstance(value, list):
            tidy[keyword] = [_tidy(child) for child in value]
        elif keyword in _SCHEMAS:
            tidy[keyword] = _tidy(value)
        else:
            tidy[keyword] = value
    return tidy


def _core(node: Any, definitions: dict[str, Any], inside: tuple[str, ...]) -> dict[str, Any] | None:
    """The same schema in the core dialect, or None if that would lose something."""
    if not isinstance(node, dict):
        return None
    node = {key: value for key, value in node.items() if key not in {"$defs", "default"}}
    if node.get("additionalProperties") is True:
        del node["additionalProperties"]
    if node.get("items") == {}:
        del node["items"]
    reference = node.pop("$ref", None)
    if reference is not None:
        name = str(reference).removeprefix("#/$defs/")
        # A schema that contains itself cannot be written out.
        if name in inside or name not in definitions:
            return None
        target = _core(definitions[name], definitions, (*inside, name))
        if target is None or node.keys() - {"description"}:
            return None
        return {**target, **node}
    kind = node.get("type")
    if node.keys() - _CORE_KEYWORDS or kind not in _CORE_TYPES:
        return None
    made = dict(node)
    if "properties" in node:
        properties: dict[str, Any] = {}
        for name, child in node["properties"].items():
            converted = _core(child, definitions, inside)
            if converted is None:
                return None
            properties[name] = converted
        made["properties"] = properties
    if "items" in node:
        converted = _core(node["items"], definitions, inside)
        if converted is None:
            return None
        made["items"] = converted
    return made


def _is_core(node: Any) -> bool:
    if not isinstance(node, dict) or node.keys() - _CORE_KEYWORDS:
        return False
    kind = node.get("type")
    if not isinstance(kind, str) or kind not in _CORE_TYPES:
        return False
    properties = node.get("properties", {})
    if not isinstance(properties, dict) or not all(_is_core(child) for child in properties.values()):
        return False
    return "items" not in node or _is_core(node["items"])
