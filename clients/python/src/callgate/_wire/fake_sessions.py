"""The sessions of the fake sidecar: kept in memory, and nothing follows from their settings."""

from __future__ import annotations

import time
import uuid
from typing import Any

import grpc

from .._gen.callgate.v1 import errors_pb2 as er
from .._gen.callgate.v1 import permission_pb2 as pe
from .._gen.callgate.v1 import session_service_pb2 as sv
from .._gen.callgate.v1 import session_service_pb2_grpc as sv_rpc
from .._gen.callgate.v1 import types_pb2 as ty
from .fake_approvals import FakeApprovals, error
from .fake_executors import details

PAGE = 50


class FakeSessions(sv_rpc.SessionServiceServicer):
    """Speaks SessionService. Confined to the wire's loop."""

    def __init__(self, approvals: FakeApprovals) -> None:
        self.sessions: dict[str, sv.Session] = {}
        self.updates: list[sv.UpdateSessionRequest] = []
        self.page_size = PAGE
        self._approvals = approvals

    async def CreateSession(self, request: sv.CreateSessionRequest, context: Any) -> sv.CreateSessionResponse:  # noqa: N802
        """A new one."""
        defaults = sv.SessionSettings(
            mode=pe.MODE_DEFAULT,
            batch_policy=ty.BATCH_POLICY_FREEZE_ATOMIC,
            max_parallel=32,
            toolset="",
            cwd="",
            approvers=sv.APPROVER_AVAILABILITY_EXPECTED,
            approval_ttl_ms=0,
        )
        return sv.CreateSessionResponse(session=await self._add(request.session_id, None, defaults, request, context))

    async def _add(
        self, session_id: str, parent: sv.Session | None, defaults: sv.SessionSettings, request: Any, context: Any
    ) -> sv.Session:
        if session_id in self.sessions:
            await _abort(context, error(6, er.ERROR_REASON_ALREADY_EXISTS, "already_exists"))
        made = sv.Session(
            session_id=session_id or str(uuid.uuid4()),
            settings=defaults,
            max_mode=pe.MODE_AUTO if parent is None else parent.settings.mode,
            created_at_ms=_now(),
            used_at_ms=_now(),
            etag="1",
        )
        made.settings.MergeFrom(request.settings)
        made.root_session_id = made.session_id if parent is None else parent.root_session_id
        if parent is not None:
            made.parent_session_id = parent.session_id
            made.depth = parent.depth + 1
        if made.settings.mode > made.max_mode:
            await _abort(context, error(9, er.ERROR_REASON_MODE_NOT_ALLOWED, "mode_not_allowed"))
        self.sessions[made.session_id] = made
        return made

    async def GetSession(self, request: sv.GetSessionRequest, context: Any) -> sv.GetSessionResponse:  # noqa: N802
        """One of them."""
        return sv.GetSessionResponse(session=await self._find(request.session_id, context))

    async def ListSessions(self, request: sv.ListSessionsRequest, context: Any) -> sv.ListSessionsResponse:  # noqa: N802
        """One page of them."""
        found = [
            item
            for item in reversed(self.sessions.values())
            if request.root_session_id in {"", item.root_session_id}
            and (request.include_closed or not item.HasField("closed_at_ms"))
        ]
        page, token = self._page(found, request.page_token)
        return sv.ListSessionsResponse(sessions=page, next_page_token=token)

    async def UpdateSession(self, request: sv.UpdateSessionRequest, context: Any) -> sv.UpdateSessionResponse:  # noqa: N802
        """Changed settings."""
        self.updates.append(request)
        session = await self._find(request.session_id, context)
        if request.etag not in {"", session.etag}:
            await _abort(context, error(10, er.ERROR_REASON_ETAG_MISMATCH, "etag_mismatch"))
        if session.HasField("closed_at_ms"):
            await _abort(context, error(9, er.ERROR_REASON_SESSION_CLOSED, "session_closed"))
        if request.settings.mode > session.max_mode:
            await _abort(context, error(9, er.ERROR_REASON_MODE_NOT_ALLOWED, "mode_not_allowed"))
        session.settings.MergeFrom(request.settings)
        session.etag = str(int(session.etag) + 1)
        return sv.UpdateSessionResponse(session=session)

    async def ForkSession(self, request: sv.ForkSessionRequest, context: Any) -> sv.ForkSessionResponse:  # noqa: N802
        """A child."""
        parent = await self._find(request.parent_session_id, context)
        return sv.ForkSessionResponse(
            session=await self._add(request.session_id, parent, parent.settings, request, context)
        )

    async def CloseSession(self, request: sv.CloseSessionRequest, context: Any) -> sv.CloseSessionResponse:  # noqa: N802
        """One that takes no more turns."""
        session = await self._find(request.session_id, context)
        if not session.HasField("closed_at_ms"):
            session.closed_at_ms = _now()
        return sv.CloseSessionResponse(session=session)

    async def ListGrants(self, request: sv.ListGrantsRequest, context: Any) -> sv.ListGrantsResponse:  # noqa: N802
        """One page of a session's grants."""
        found = [
            item
            for item in reversed(self._approvals.grants)
            if item.session_id == request.session_id and request.state in {0, item.state}
        ]
        page, token = self._page(found, request.page_token)
        return sv.ListGrantsResponse(grants=page, next_page_token=token)

    async def RevokeGrants(self, request: sv.RevokeGrantsRequest, context: Any) -> sv.RevokeGrantsResponse:  # noqa: N802
        """Grants that do not count any more."""
        own = {item.grant_id: item for item in self._approvals.grants if item.session_id == request.session_id}
        meant = list(request.grant_ids) or list(own)
        if not set(meant) <= set(own):
            await _abort(context, error(5, er.ERROR_REASON_NOT_FOUND, "not_found"))
        for grant_id in meant:
            own[grant_id].state = pe.GRANT_STATE_REVOKED
            own[grant_id].revoked_by = "approver"
            own[grant_id].ended_at_ms = _now()
        return sv.RevokeGrantsResponse(grants=[own[grant_id] for grant_id in meant], mode=pe.MODE_DEFAULT)

    async def _find(self, session_id: str, context: Any) -> sv.Session:
        found = self.sessions.get(session_id)
        if found is None:
            await _abort(context, error(5, er.ERROR_REASON_NOT_FOUND, "not_found"))
        assert found is not None
        return found

    def _page(self, found: list[Any], page_token: str) -> tuple[list[Any], str]:
        begin = int(page_token or 0)
        end = begin + self.page_size
        return found[begin:end], str(end) if end < len(found) else ""


async def _abort(context: Any, why: er.RpcError) -> None:
    code = next(code for code in grpc.StatusCode if code.value[0] == why.status)
    await context.abort(code, why.message, details(why))


def _now() -> int:
    return int(time.time() * 1000)
