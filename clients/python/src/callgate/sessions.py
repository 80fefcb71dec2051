"""Sessions: their mode, settings, child sessions and grants.

A session comes into being with its first turn; making one here is for those that
need other settings than the configured ones.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from ._wire import session_calls
from ._wire.link import Link
from .permission import BatchPolicy, Grant, GrantState, Mode
from .session import ApproverAvailability, RevokedGrants, Session, SessionSettings, SessionUpdate
from .turns import check_type


class Sessions:
    """The sidecar's sessions, over the connection of the client that it is taken from.

    `Client.sessions` has the rights of an orchestrator, `Approvals.sessions` those of
    an approver: the first makes, changes, forks and closes sessions, the second
    changes their mode and takes grants back. Both read.

    Everywhere a session may be given as its id or as a `Session`.

    Raises (all methods):
        NotFound: There is no such session, or it is not the caller's to see.
        PermissionDenied: The credential lacks the role.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._calls = session_calls.SessionCalls(link.channel, link.timeout)

    async def create(
        self,
        session_id: str = "",
        *,
        mode: Mode | None = None,
        batch_policy: BatchPolicy | None = None,
        max_parallel: int | None = None,
        toolset: str | None = None,
        cwd: str | None = None,
        approvers: ApproverAvailability | None = None,
        approval_ttl: float | None = None,
    ) -> Session:
        """Makes a session. Without an id one is minted. The settings are those of `SessionSettings`.

        Raises:
            Conflict: `already_exists`; the id is taken.
        """
        settings = session_calls.settings_message(
            SessionSettings(mode, batch_policy, max_parallel, toolset, cwd, approvers, approval_ttl)
        )
        return await self._link.open().run(self._calls.create(session_id, settings))

    async def get(self, session: Session | str) -> Session:
        """One session as it is now."""
        return await self._link.open().run(self._calls.get(_id_of(session)))

    async def list(self, *, root_session_id: str = "", include_closed: bool = False) -> AsyncIterator[Session]:
        """All sessions, last used first, page by page. `root_session_id`: only this one and its line."""
        token = ""
        while True:
            request = session_calls.list_request(root_session_id, include_closed, token)
            page, token = await self._link.open().run(self._calls.list_page(request))
            for item in page:
                yield item
            if not token:
                return

    async def set_mode(self, session: Session | str, mode: Mode, *, etag: str = "") -> SessionUpdate:
        """Changes how much runs unasked. Everything that waits in the session is decided again.

        With the `etag` of the session as it was looked at, a change in between is refused.

        Raises:
            Conflict: `etag_mismatch`, `mode_not_allowed`, `session_closed`.
        """
        check_type("mode", mode, str)
        return await self.update(session, etag=etag, mode=mode)

    async def update(
        self,
        session: Session | str,
        *,
        etag: str = "",
        mode: Mode | None = None,
        batch_policy: BatchPolicy | None = None,
        max_parallel: int | None = None,
        toolset: str | None = None,
        cwd: str | None = None,
        approvers: ApproverAvailability | None = None,
        approval_ttl: float | None = None,
    ) -> SessionUpdate:
        """Changes settings, those of `SessionSettings`; what is None stays. As `set_mode` otherwise."""
        settings = session_calls.settings_message(
            SessionSettings(mode, batch_policy, max_parallel, toolset, cwd, approvers, approval_ttl)
        )
        return await self._link.open().run(self._calls.update(_id_of(session), etag, settings))

    async def fork(
        self,
        parent: Session | str,
        session_id: str = "",
        *,
        inherit_grants: bool = False,
        mode: Mode | None = None,
        batch_policy: BatchPolicy | None = None,
        max_parallel: int | None = None,
        toolset: str | None = None,
        cwd: str | None = None,
        approvers: ApproverAvailability | None = None,
        approval_ttl: float | None = None,
    ) -> Session:
        """Makes a child session, e.g. for a delegated task. Its mode is never above its parent's.

        The settings are what differs from the parent. `inherit_grants`: it has the
        parent's grants too, as long as they last.

        Raises:
            Conflict: `already_exists`, `mode_not_allowed`, `session_closed`.
        """
        settings = session_calls.settings_message(
            SessionSettings(mode, batch_policy, max_parallel, toolset, cwd, approvers, approval_ttl)
        )
        return await self._link.open().run(self._calls.fork(_id_of(parent), session_id, settings, inherit_grants))

    async def close(self, session: Session | str, *, reason: str = "") -> Session:
        """Closes a session and its child sessions: their runs are cancelled, their grants end."""
        return await self._link.open().run(self._calls.close(_id_of(session), reason))

    async def grants(self, session: Session | str, *, state: GrantState | None = None) -> AsyncIterator[Grant]:
        """A session's grants, newest first, page by page. `state` None: all."""
        token = ""
        while True:
            request = session_calls.grants_request(_id_of(session), state, token)
            page, token = await self._link.open().run(self._calls.grants_page(request))
            for item in page:
                yield item
            if not token:
                return

    async def revoke(self, session: Session | str, grants: Sequence[Grant | str] | None) -> RevokedGrants:
        """Takes grants back, from the next decision on and for everything that waits.

        `grants` are grants or their ids; None: all of the session.

        Raises:
            NotFound: One of them is unknown, and none is taken back.
            ValueError: `grants` is empty. The sidecar would take that for all of them.
        """
        if grants is None:
            ids: tuple[str, ...] = ()
        elif isinstance(grants, str) or not grants:
            raise ValueError("name the grants to take back, as a list, or None for all of the session")
        else:
            ids = tuple(item if isinstance(item, str) else item.grant_id for item in grants)
        return await self._link.open().run(self._calls.revoke(_id_of(session), ids))


def _id_of(session: Session | str) -> str:
    check_type("session", session, Session, str)
    return session if isinstance(session, str) else session.session_id
