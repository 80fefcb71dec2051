"""The rpcs about sessions and their grants. Runs on the wire's loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import session as se
from .._gen.callgate.v1 import session_service_pb2 as sv
from .._gen.callgate.v1 import session_service_pb2_grpc as sv_rpc
from ..permission import BatchPolicy, Grant, GrantState
from . import convert_permission
from .calls import UnaryCalls
from .convert import by_number
from .convert_turns import span

APPROVERS: dict[se.ApproverAvailability, sv.ApproverAvailability] = {
    "expected": sv.APPROVER_AVAILABILITY_EXPECTED,
    "connected": sv.APPROVER_AVAILABILITY_CONNECTED,
    "none": sv.APPROVER_AVAILABILITY_NONE,
}
_APPROVER_NAMES = by_number(APPROVERS)


def settings_message(settings: se.SessionSettings) -> sv.SessionSettings:
    """Settings on their way; what is None is not sent.

    Raises:
        ValueError: There is no such mode, policy or availability.
    """
    message = sv.SessionSettings(
        mode=convert_permission.mode_number(settings.mode),
        batch_policy=convert_permission.batch_policy_number(settings.batch_policy),
        max_parallel=settings.max_parallel,
        toolset=settings.toolset,
        cwd=settings.cwd,
        approval_ttl_ms=span(settings.approval_ttl),
    )
    if settings.approvers is not None:
        message.approvers = convert_permission.chosen("approvers", APPROVERS, settings.approvers)
    return message


def settings_of(message: sv.SessionSettings) -> se.SessionSettings:
    """Settings as they hold. Unknown values are the strictest."""
    policy: BatchPolicy | None = convert_permission.batch_policy(message.batch_policy)
    return se.SessionSettings(
        mode=None if message.mode == 0 else convert_permission.mode(message.mode),
        batch_policy=policy,
        max_parallel=message.max_parallel if message.HasField("max_parallel") else None,
        toolset=message.toolset if message.HasField("toolset") else None,
        cwd=message.cwd if message.HasField("cwd") else None,
        approvers=None if message.approvers == 0 else _APPROVER_NAMES.get(message.approvers, "none"),
        approval_ttl=message.approval_ttl_ms / 1000 if message.HasField("approval_ttl_ms") else None,
    )


def session(message: sv.Session) -> se.Session:
    """One session."""
    return se.Session(
        session_id=message.session_id,
        parent_session_id=message.parent_session_id,
        root_session_id=message.root_session_id,
        depth=message.depth,
        settings=settings_of(message.settings),
        max_mode=convert_permission.mode(message.max_mode),
        created_at_ms=message.created_at_ms,
        used_at_ms=message.used_at_ms,
        closed_at_ms=message.closed_at_ms if message.HasField("closed_at_ms") else None,
        pending_approvals=message.pending_approvals,
        etag=message.etag,
    )


class SessionCalls(UnaryCalls):
    """The rpcs of SessionService."""

    @property
    def _stub(self) -> Any:
        return sv_rpc.SessionServiceStub(self._channel.get())

    async def create(self, session_id: str, settings: sv.SessionSettings) -> se.Session:
        """The new session."""
        request = sv.CreateSessionRequest(session_id=session_id, settings=settings)
        return session((await self._ask(self._stub.CreateSession, request)).session)

    async def get(self, session_id: str) -> se.Session:
        """One session."""
        request = sv.GetSessionRequest(session_id=session_id)
        return session((await self._ask(self._stub.GetSession, request)).session)

    async def list_page(self, request: sv.ListSessionsRequest) -> tuple[tuple[se.Session, ...], str]:
        """One page, and the token of the next."""
        answer = await self._ask(self._stub.ListSessions, request)
        return tuple(session(item) for item in answer.sessions), answer.next_page_token

    async def update(self, session_id: str, etag: str, settings: sv.SessionSettings) -> se.SessionUpdate:
        """The changed session."""
        request = sv.UpdateSessionRequest(session_id=session_id, etag=etag, settings=settings)
        answer = await self._ask(self._stub.UpdateSession, request)
        return se.SessionUpdate(session(answer.session), answer.released, answer.denied)

    async def fork(
        self, parent_session_id: str, session_id: str, settings: sv.SessionSettings, inherit_grants: bool
    ) -> se.Session:
        """The child."""
        request = sv.ForkSessionRequest(
            parent_session_id=parent_session_id,
            session_id=session_id,
            settings=settings,
            inherit_grants=inherit_grants,
        )
        return session((await self._ask(self._stub.ForkSession, request)).session)

    async def close(self, session_id: str, reason: str) -> se.Session:
        """The session, closed."""
        request = sv.CloseSessionRequest(session_id=session_id, reason=reason)
        return session((await self._ask(self._stub.CloseSession, request)).session)

    async def grants_page(self, request: sv.ListGrantsRequest) -> tuple[tuple[Grant, ...], str]:
        """One page, and the token of the next."""
        answer = await self._ask(self._stub.ListGrants, request)
        return tuple(convert_permission.grant(item) for item in answer.grants), answer.next_page_token

    async def revoke(self, session_id: str, grant_ids: Sequence[str]) -> se.RevokedGrants:
        """The grants that were meant; without ids, all of the session."""
        request = sv.RevokeGrantsRequest(session_id=session_id, grant_ids=grant_ids)
        answer = await self._ask(self._stub.RevokeGrants, request)
        grants = tuple(convert_permission.grant(item) for item in answer.grants)
        return se.RevokedGrants(grants, convert_permission.mode(answer.mode))


def list_request(root_session_id: str, include_closed: bool, page_token: str) -> sv.ListSessionsRequest:
    """Asks for a page of sessions."""
    return sv.ListSessionsRequest(root_session_id=root_session_id, include_closed=include_closed, page_token=page_token)


def grants_request(session_id: str, state: GrantState | None, page_token: str) -> sv.ListGrantsRequest:
    """Asks for a page of grants.

    Raises:
        ValueError: There is no such state.
    """
    request = sv.ListGrantsRequest(session_id=session_id, page_token=page_token)
    if state is not None:
        request.state = convert_permission.chosen("state", convert_permission.GRANT_STATES, state)
    return request
