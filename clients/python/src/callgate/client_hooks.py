"""Hooks that belong to a client: made with first use, started and closed with it.

Never connects anything for a client that uses none.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ._wire.endpoint import TLS, Endpoint, control_endpoint_beside
from .backoff import Backoff
from .errors import CallgateError
from .hooks import Hooks


class ClientHooks:
    """The part of `Client` that has hooks. Its connection is a second one, with other rights."""

    def __init__(
        self, beside: Endpoint, endpoint: str | None, token: str | None, tls: TLS | None, backoff: Backoff | None
    ) -> None:
        self._hooks: Hooks | None = None
        self._hooks_sealed = False
        self._hooks_of: tuple[str, str | None, TLS | None, Backoff | None] = (
            endpoint or control_endpoint_beside(beside.text),
            token,
            tls,
            backoff,
        )

    @property
    def hooks(self) -> Hooks:
        """The hooks of this process. A connection of their own, since hooks are only heard at the control socket.

        Add them before the client is started. Its `start`, `wait_ready`, `run` and `aclose` are
        theirs, too.
        """
        if self._hooks is None:
            endpoint, token, tls, backoff = self._hooks_of
            self._hooks = Hooks(endpoint, token, tls=tls, backoff=backoff)
            if self._hooks_sealed:
                self._hooks.seal()
        return self._hooks

    def before_tool_call(self, handler: Any = None, **options: Any) -> Any:
        """Asks the function before calls of every executor. See `Hooks.before_tool_call`."""
        return self.hooks.before_tool_call(handler, **options)

    def after_tool_call(self, handler: Any = None, **options: Any) -> Any:
        """Asks the function after calls of every executor. See `Hooks.after_tool_call`."""
        return self.hooks.after_tool_call(handler, **options)

    @property
    def _has_hooks(self) -> bool:
        return self._hooks is not None and bool(self._hooks.specs)

    def _check_hooks(self) -> None:
        """Refuses to run turns past hooks that nobody would ask."""
        if self._has_hooks and not self._hooks_sealed:
            raise CallgateError("the client has hooks: start it before its turns", code="client_not_started")

    async def _start_hooks(self) -> None:
        self._hooks_sealed = True
        if self._hooks is None:
            return
        if self._hooks.specs:
            await self._hooks.start()
        else:
            self._hooks.seal()

    async def _hooks_ready(self) -> None:
        if self._hooks is not None and self._hooks.specs:
            await self._hooks.wait_ready(None)

    @property
    def _hooks_serving(self) -> asyncio.Future[None] | None:
        """Ends when the hooks do."""
        return None if self._hooks is None else self._hooks._serving

    async def _close_hooks(self) -> None:
        if self._hooks is not None:
            await self._hooks.aclose()
