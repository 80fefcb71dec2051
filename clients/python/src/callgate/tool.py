"""The definition of a tool: what the model sees, and the handler behind it."""

from __future__ import annotations

import inspect
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, cast

from .context import ToolContext
from .errors import ToolDefinitionError, ToolError
from .permission_check import PermissionCheck, PermissionContext
from .result import ToolResult, from_value, to_json
from .schema import Dialect, Signature, dialect_of

log = logging.getLogger("callgate")

Risk = Literal["safe", "sensitive", "dangerous"]
Kind = Literal["read", "fetch", "edit", "delete", "execute", "interact", "other"]
SubjectType = Literal["command", "path", "url", "text"]
Handler = Callable[..., Any]
C = TypeVar("C", bound=PermissionCheck)

_RISKS = ("safe", "sensitive", "dangerous")
# The sidecar's own rule: names longer than usual only if its operator allows them, up to the ceiling.
NAME_LENGTH_MAX = 64
NAME_LENGTH_CEILING = 128
_NAME = re.compile(rf"[A-Za-z0-9_.-]{{1,{NAME_LENGTH_CEILING}}}")
NAME_SHOWN_MAX = 80
_UINT32_MAX = 2**32 - 1
_SUBJECT_TYPES = ("command", "path", "url", "text")
_KINDS = ("read", "fetch", "edit", "delete", "execute", "interact", "other")


@dataclass(frozen=True)
class Subject:
    """The argument that a rule's `(…)` is about, as in `run_shell(git *)`.

    Args:
        pointer: Where it stands in the arguments, e.g. `/command`; for a path also a
            list of them.
        type: How it is read. Commands are split, paths matched as in .gitignore, URLs
            by their host.
        dialect: Of a command: the shell that runs it. Empty: bash.
    """

    pointer: str
    type: SubjectType
    dialect: str = ""

    def __post_init__(self) -> None:
        if self.type not in _SUBJECT_TYPES:
            raise ToolDefinitionError(
                f"the type of a subject must be one of {', '.join(_SUBJECT_TYPES)}, not {self.type!r}"
            )
        if not self.pointer.startswith("/") or len(self.pointer) == 1:
            raise ToolDefinitionError(f"a subject needs a pointer such as /command, not {self.pointer!r}")


class Tool:
    """A tool, made of a function with type hints.

    Immutable once registered, and callable like the function that it was made of.

    Args:
        handler: `def` or `async def`. A parameter annotated `ToolContext` is filled
            in. Its return value becomes the result; see `result.from_value`.
        name: What the model calls: 1 to 64 of `A-Za-z0-9_.-`. None: the function's name.
        description: For the model. None: the function's docstring.
        risk: "safe" reads only, "sensitive" can be undone, "dangerous" cannot.
            None: left to the sidecar's configuration.
        kind: What the tool does; permission modes decide by it.
        subject: The argument that rules are about. None: only rules about the whole
            tool or a parameter match.
        skip_permission: Lifts an ask that comes from mode or risk. Never for a
            dangerous tool, never in plan mode, and no rule.
        loop_exempt: May be called again and again: the loop detector does not see it.
        loop_key: Pointers, such as "/path", to the only arguments that the loop
            detector compares. Empty: all of them.
        secret_pointers: Pointers, such as "/token", to arguments that the audit masks.
        timeout: Longest execution in seconds. None: the sidecar's default, 120.
        idempotent: A second execution does no harm, so a lost one may be repeated.
        exclusive: No other call of its batch executes meanwhile.
        max_concurrency: Most executions at once in this process, at least 1. None:
            only the client's limit.
        cancellable: Stops early when told to. None: yes for `async def`, and for
            `def` exactly if it takes a `ToolContext`, without which it could not know.
        services: Ids of the services that the handler may use.
        version: The author's version, for people.
        annotations: Free data, a JSON object. Kept and shown, never acted on.
        schema: What the sidecar checks, in place of the derived schema. The
            handler's types still convert what passed.
        dialect: How `schema` is read. None: "core" if it is written in that.
        raw: The handler takes the arguments as one dict. Needs `schema`.
        permission_check: Asked before each call; see the method of that name.

    Raises:
        ToolDefinitionError: No tool can be made of this, or the sidecar would
            refuse it whatever it allows; a wrong name has the sidecar's own code.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        name: str | None = None,
        description: str | None = None,
        risk: Risk | None = None,
        kind: Kind | None = None,
        subject: Subject | None = None,
        skip_permission: bool = False,
        loop_exempt: bool = False,
        loop_key: Sequence[str] = (),
        secret_pointers: Sequence[str] = (),
        timeout: float | None = None,
        idempotent: bool = False,
        exclusive: bool = False,
        max_concurrency: int | None = None,
        cancellable: bool | None = None,
        services: Sequence[str] = (),
        version: str = "",
        annotations: Mapping[str, Any] | None = None,
        schema: Mapping[str, Any] | str | bytes | None = None,
        dialect: Dialect | None = None,
        raw: bool = False,
        permission_check: PermissionCheck | None = None,
    ) -> None:
        if risk is not None and risk not in _RISKS:
            raise ToolDefinitionError(f"risk must be one of {', '.join(_RISKS)}, not {risk!r}")
        if kind is not None and kind not in _KINDS:
            raise ToolDefinitionError(f"kind must be one of {', '.join(_KINDS)}, not {kind!r}")
        if dialect is not None and dialect not in ("core", "json-schema-2020-12"):
            raise ToolDefinitionError(f"dialect must be core or json-schema-2020-12, not {dialect!r}")
        if raw and schema is None:
            raise ToolDefinitionError("a raw handler needs a schema")
        if timeout is not None and timeout <= 0:
            raise ToolDefinitionError("timeout must be more than 0 seconds")
        if max_concurrency is not None and not 1 <= max_concurrency <= _UINT32_MAX:
            raise ToolDefinitionError(
                f"max_concurrency must be 1 to {_UINT32_MAX}, not {max_concurrency!r}; leave it out for no limit"
            )
        for field, pointers in (("loop_key", loop_key), ("secret_pointers", secret_pointers)):
            if isinstance(pointers, str) or not all(pointer.startswith("/") for pointer in pointers):
                raise ToolDefinitionError(f"{field} must hold pointers such as /path, not {pointers!r}")
        self.handler = handler
        self.name = _checked_name(name if name is not None else getattr(handler, "__name__", ""))
        self.description = description if description is not None else inspect.getdoc(handler) or ""
        self.risk = risk
        self.kind = kind
        self.subject = subject
        self.skip_permission = skip_permission
        self.loop_exempt = loop_exempt
        self.loop_key = tuple(loop_key)
        self.secret_pointers = tuple(secret_pointers)
        self.timeout = timeout
        self.idempotent = idempotent
        self.exclusive = exclusive
        self.max_concurrency = max_concurrency or 0
        self.services = tuple(services)
        self.version = version
        self.annotations_json = to_json(dict(annotations)) if annotations else ""
        self.is_async = is_async(handler)
        self.raw = raw
        self._signature = None if raw else Signature(handler)
        self._context_parameter = _raw_context(handler) if raw else cast(Signature, self._signature).context_parameter
        self.cancellable = (
            cancellable if cancellable is not None else (self.is_async or self._context_parameter is not None)
        )
        self.check: PermissionCheck | None = None
        self.is_check_async = False
        if permission_check is not None:
            self.permission_check(permission_check)
        self.schema_json, self.dialect = self._schema(schema, dialect)
        self.__doc__ = self.description

    def _schema(self, given: Mapping[str, Any] | str | bytes | None, dialect: Dialect | None) -> tuple[str, Dialect]:
        if given is None:
            signature = cast("Signature", self._signature)
            return to_json(signature.schema), dialect or signature.dialect
        if isinstance(given, Mapping):
            return to_json(dict(given)), dialect or dialect_of(dict(given))
        text = given.decode("utf-8") if isinstance(given, bytes) else given
        if dialect is not None:
            # Sent as it is: whether it is a schema at all is for the sidecar to say.
            return text, dialect
        try:
            return text, dialect_of(json.loads(text))
        except ValueError as error:
            raise ToolDefinitionError(f"the schema of `{self.name}` is not JSON: {error}") from error

    def permission_check(self, check: C) -> C:
        """Has the tool asked about each call before it may run. A decorator; before the tool is registered.

        `check(arguments, context)`, `def` or `async def`, gets the arguments by name as the
        handler would, and a `PermissionContext`; it returns a `Permission`. It has 2 seconds.
        What it raises is logged and counts as `Permission.ask()`.
        """
        if not callable(check):
            raise ToolDefinitionError(f"the permission check of `{self.name}` cannot be called")
        self.check = check
        self.is_check_async = is_async(check)
        return check

    @property
    def schema(self) -> dict[str, Any]:
        """The schema that the sidecar checks arguments against."""
        return cast("dict[str, Any]", json.loads(self.schema_json))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the handler as the function that it is."""
        return self.handler(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r}, risk={self.risk!r}, dialect={self.dialect!r})"

    def bind(self, arguments_json: bytes, context: ToolContext) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What to call the handler with.

        Raises:
            ToolError: `arguments_rejected`; the handler must not be called.
        """
        if self._signature is None:
            try:
                parsed = json.loads(arguments_json)
            except ValueError as error:
                raise ToolError("arguments_rejected", f"the arguments cannot be read: {error}", path="$") from error
            positional, named = (parsed,), {}
        else:
            positional, named = (), self._signature.read(arguments_json)
        if self._context_parameter is not None:
            named[self._context_parameter] = context
        return positional, named

    def run_check(self, arguments_json: bytes, context: PermissionContext) -> Any:
        """What the tool's own check returns: a `Permission`, or something to await for it."""
        assert self.check is not None
        if self._signature is None:
            return self.check(json.loads(arguments_json), context)
        return self.check(self._signature.read(arguments_json), context)

    def run_sync(self, arguments_json: bytes, context: ToolContext) -> ToolResult:
        """Runs a `def` handler in this thread. What it raises passes through."""
        positional, named = self.bind(arguments_json, context)
        return from_value(self.handler(*positional, **named))

    async def run_async(self, arguments_json: bytes, context: ToolContext) -> ToolResult:
        """Runs an `async def` handler in this loop. What it raises passes through."""
        positional, named = self.bind(arguments_json, context)
        return from_value(await self.handler(*positional, **named))


def _checked_name(name: str) -> str:
    """The name, if the sidecar would take it."""
    if not isinstance(cast(object, name), str):
        raise ToolDefinitionError(f"the name of a tool must be a str, not {type(name).__name__}")
    # In ASCII, so that a name with hidden or turning characters cannot play with a log.
    shown = ascii(name if len(name) <= NAME_SHOWN_MAX else name[:NAME_SHOWN_MAX] + "...")
    rule = f"must be 1 to {NAME_LENGTH_MAX} of A-Z a-z 0-9 _ . -"
    if not _NAME.fullmatch(name):
        raise ToolDefinitionError(
            f"the name of a tool {rule}, not {shown} ({len(name)} characters)",
            code="tool_name_invalid" if name.strip() else "tool_name_empty",
        )
    if len(name) > NAME_LENGTH_MAX:
        log.warning("the name of a tool %s unless the sidecar's `tool_name_bytes_max` is higher: %s", rule, shown)
    return name


def is_async(handler: Handler) -> bool:
    """Whether it runs on a loop. A callable object does if its `__call__` does."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))  # noqa: B004


def _raw_context(handler: Handler) -> str | None:
    """The name of the parameter after the arguments, if there is one."""
    names = list(inspect.signature(handler).parameters)
    if not 1 <= len(names) <= 2:
        raise ToolDefinitionError("a raw handler takes the arguments and, if it likes, a ToolContext")
    return names[1] if len(names) == 2 else None
