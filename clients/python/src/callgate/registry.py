"""What the registry shows: tools, and their export for a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from .schema import Dialect
from .tool import Kind, Risk

ProviderFormat = Literal["openai_chat"]
ToolState = Literal["active", "unavailable", "removed"]


@dataclass(frozen=True, slots=True)
class ToolInfo:
    """A tool as the registry has it. `timeout` is in seconds; None: the sidecar's default."""

    name: str
    description: str
    schema: Any
    dialect: Dialect | str
    risk: Risk | str
    kind: Kind | str
    idempotent: bool
    exclusive: bool
    timeout: float | None
    version: str
    annotations: Any
    owner: str
    state: ToolState
    generation: int
    digest: bytes
    instances: int
    in_flight: int


@dataclass(frozen=True, slots=True)
class ExportLoss:
    """One thing that a provider's form could not hold, and what became of it."""

    tool: str
    call_id: str
    path: str
    keyword: str
    action: str


@dataclass(frozen=True, slots=True)
class ToolList:
    """What a model may see.

    Attributes:
        tools: Without a format: the tools by name.
        exported: With one: the provider's `tools` value. Empty: leave it out of
            the request.
        aliases: Names that the model sees to the tools that they stand for.
        snapshot_id: Names this very list; goes into `run_turn(tool_snapshot_id=…)`.
    """

    snapshot_id: str
    tools: tuple[ToolInfo, ...] = ()
    exported: tuple[dict[str, Any], ...] = ()
    aliases: dict[str, str] | None = None
    losses: tuple[ExportLoss, ...] = ()


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit that holds in the sidecar; `unit` is `bytes`, `ms`, `count` or `per_second`."""

    name: str
    value: int
    unit: str
    ceiling: int


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What the sidecar is and allows. `state`: "serving", "draining" or "store_unavailable"."""

    version: str
    process_id: str
    state: str
    store: str
    features: tuple[str, ...]
    dialects: tuple[str, ...]
    formats: tuple[str, ...]
    limits: tuple[Limit, ...]
    caller_roles: tuple[str, ...]
    caller_principal: str
    started_at_ms: int
