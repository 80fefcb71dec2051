"""The approver half of the fake sidecar: calls that wait, and decisions about them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from dataclasses import dataclass, field
from typing import Any

import grpc

from .._gen.callgate.v1 import approval_service_pb2 as av
from .._gen.callgate.v1 import approval_service_pb2_grpc as av_rpc
from .._gen.callgate.v1 import errors_pb2 as er
from .._gen.callgate.v1 import permission_pb2 as pe
from .._gen.callgate.v1 import types_pb2 as ty
from .fake_executors import FakeExecutors, details

PAGE = 50

_FINAL = {
    av.APPROVAL_CHOICE_ONCE: av.APPROVAL_STATE_APPROVED,
    av.APPROVAL_CHOICE_SESSION: av.APPROVAL_STATE_APPROVED,
    av.APPROVAL_CHOICE_DENY: av.APPROVAL_STATE_DENIED,
    av.APPROVAL_CHOICE_EDIT: av.APPROVAL_STATE_APPROVED,
    av.APPROVAL_CHOICE_RESPOND: av.APPROVAL_STATE_ANSWERED,
    av.APPROVAL_CHOICE_CANCEL_TURN: av.APPROVAL_STATE_CANCELLED,
}


@dataclass(eq=False)
class FakeApproval:
    """One approval, and those who wait for its end."""

    message: av.Approval
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    decision: av.ApprovalDecision | None = None


class FakeApprovals(av_rpc.ApprovalServiceServicer):
    """Speaks ApprovalService. Confined to the wire's loop.

    What a test may set: `tools`, whose calls are asked for, with the risk that is
    shown; `refuse`, an error for every rpc; `lose_answers`, how many decisions are
    taken and not answered; `expire_cursors`, refuses to resume; `cut_snapshots`, how many
    snapshots break off behind their first approval; `silent`, watches hear nothing more.
    """

    def __init__(self, executors: FakeExecutors) -> None:
        self.tools: dict[str, int] = {}
        self.approvals: dict[str, FakeApproval] = {}
        self.grants: list[pe.Grant] = []
        self.decides: list[av.DecideApprovalsRequest] = []
        self.watches: list[av.WatchApprovalsRequest] = []
        self.lists: list[av.ListApprovalsRequest] = []
        self.watchers = 0
        self.refuse: er.RpcError | None = None
        self.lose_answers = 0
        self.expire_cursors = False
        self.cut_snapshots = 0
        self.silent = False
        self.page_size = PAGE
        self._executors = executors
        self._changes: list[av.Approval] = []
        self._streams: list[asyncio.Event] = []
        self._news: list[asyncio.Event] = []

    # For the turns.

    def asks(self, session_id: str, tool: str) -> bool:
        """Whether a call must wait."""
        granted = any(
            item.session_id == session_id and item.tool == tool and item.state == pe.GRANT_STATE_ACTIVE
            for item in self.grants
        )
        return tool in self.tools and not granted

    def open(
        self, *, session_id: str, run_id: str, turn_id: str, call: ty.ToolCall, owner: str, in_batch: int
    ) -> FakeApproval:
        """A call begins to wait."""
        arguments = call.arguments_json or b"{}"
        digest = hashlib.sha256(b"\0".join([turn_id.encode(), call.call_id.encode(), arguments])).digest()
        approval_id = f"approval-{len(self.approvals) + 1}"
        made = FakeApproval(
            av.Approval(
                approval_id=approval_id,
                batch_id=f"batch-{turn_id}",
                session_id=session_id,
                root_session_id=session_id,
                run_id=run_id,
                turn_id=turn_id,
                call=call,
                tool=call.name,
                owner=owner,
                risk_level=self.tools[call.name],  # type: ignore[arg-type]
                effective_arguments_json=arguments,
                display_arguments=json.dumps(json.loads(arguments), indent=2),
                approval_digest=digest,
                verdict=ty.PermissionVerdict(
                    effect=ty.PERMISSION_EFFECT_ASK,
                    stage=ty.DECISION_STAGE_MODE_DEFAULT,
                    message="the test asks for it",
                ),
                allowed_choices=list(_FINAL),
                grant_candidates=[
                    pe.GrantCandidate(
                        candidate_id="tool", kind=pe.GRANT_KIND_TOOL, rule=call.name, summary="this tool, this session"
                    )
                ],
                created_at_ms=_now(),
                pending_in_batch=in_batch,
                mode=pe.MODE_DEFAULT,
                state=av.APPROVAL_STATE_PENDING,
            )
        )
        self.approvals[approval_id] = made
        self._changed(made)
        return made

    def end(self, approval: FakeApproval, state: int) -> None:
        """It ends without a decision."""
        if approval.message.state == av.APPROVAL_STATE_PENDING:
            approval.message.state = state  # type: ignore[assignment]
            approval.ended.set()
            self._changed(approval)

    # The rpcs.

    async def ListApprovals(self, request: av.ListApprovalsRequest, context: Any) -> av.ListApprovalsResponse:  # noqa: N802
        """One page of them."""
        await self._check(context)
        self.lists.append(request)
        found = [item.message for item in self.approvals.values() if _fits(request.filter, item.message)]
        begin = int(request.page_token or 0)
        end = begin + self.page_size
        return av.ListApprovalsResponse(
            approvals=found[begin:end], next_page_token=str(end) if end < len(found) else "", total=len(found)
        )

    async def GetApproval(self, request: av.GetApprovalRequest, context: Any) -> av.GetApprovalResponse:  # noqa: N802
        """One of them."""
        await self._check(context)
        found = self.approvals.get(request.approval_id)
        if found is None:
            await self._abort(context, _not_found(request.approval_id))
        assert found is not None
        return av.GetApprovalResponse(approval=found.message)

    async def WatchApprovals(self, request: av.WatchApprovalsRequest, context: Any) -> None:  # noqa: N802
        """What waits, then every change."""
        await self._check(context)
        self.watches.append(request)
        if request.after_cursor and self.expire_cursors:
            await self._abort(context, error(11, er.ERROR_REASON_CURSOR_EXPIRED, "cursor_expired"))
        dropped, news = asyncio.Event(), asyncio.Event()
        self._streams.append(dropped)
        self._news.append(news)
        self.watchers += 1
        self._executors.notify()
        tell = asyncio.ensure_future(self._tell(request, news, context))
        waiting = asyncio.ensure_future(dropped.wait())
        try:
            await asyncio.wait([tell, waiting], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._streams.remove(dropped)
            self._news.remove(news)
            self.watchers -= 1
            self._executors.notify()
            tell.cancel()
            waiting.cancel()
            await asyncio.gather(tell, waiting, return_exceptions=True)
        if tell.done() and not tell.cancelled():
            tell.result()
        if dropped.is_set():
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the stream was dropped")

    async def _tell(self, request: av.WatchApprovalsRequest, news: asyncio.Event, context: Any) -> None:
        told = int(request.after_cursor or len(self._changes))
        if self.silent:
            await asyncio.Event().wait()
        if not request.after_cursor:
            waiting = [item.message for item in self.approvals.values() if _fits(request.filter, item.message)]
            # One message each, so that a reader must put the snapshot together.
            for item in waiting:
                await context.write(av.WatchApprovalsResponse(approvals=[item], cursor=str(told)))
                if self.cut_snapshots > 0:
                    self.cut_snapshots -= 1
                    await context.abort(grpc.StatusCode.UNAVAILABLE, "the snapshot was cut")
            await context.write(av.WatchApprovalsResponse(snapshot_complete=True, cursor=str(told)))
        while True:
            changes = [item for item in self._changes[told:] if _fits(request.filter, item, state=False)]
            told = len(self._changes)
            if changes:
                await context.write(av.WatchApprovalsResponse(approvals=changes, cursor=str(told)))
            news.clear()
            await news.wait()

    async def DecideApprovals(self, request: av.DecideApprovalsRequest, context: Any) -> av.DecideApprovalsResponse:  # noqa: N802
        """Decides each on its own."""
        await self._check(context)
        self.decides.append(request)
        outcomes = [self._decide(item) for item in request.decisions]
        if self.lose_answers > 0:
            self.lose_answers -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "the answer was lost")
        return av.DecideApprovalsResponse(outcomes=outcomes)

    def drop_streams(self) -> None:
        """Breaks every watch."""
        for dropped in self._streams:
            dropped.set()

    # The decisions.

    def _decide(self, decision: av.ApprovalDecision) -> av.DecisionOutcome:
        found = self.approvals.get(decision.approval_id)
        if found is None:
            return _outcome(decision, av.DECISION_STATUS_REFUSED, None, _not_found(decision.approval_id))
        message = found.message
        if found.decision is not None and _same(found.decision, decision, message):
            return _outcome(decision, av.DECISION_STATUS_REPEATED, message, None)
        if found.decision is not None:
            decided = error(9, er.ERROR_REASON_APPROVAL_ALREADY_DECIDED, "approval_already_decided")
            return _outcome(decision, av.DECISION_STATUS_CONFLICT, message, decided)
        if message.state != av.APPROVAL_STATE_PENDING:
            ended = error(9, er.ERROR_REASON_APPROVAL_NOT_PENDING, "approval_not_pending")
            return _outcome(decision, av.DECISION_STATUS_CONFLICT, message, ended)
        refusal = _refusal(decision, message)
        if refusal is not None:
            return _outcome(decision, av.DECISION_STATUS_REFUSED, message, refusal)
        self._take(found, decision)
        return _outcome(decision, av.DECISION_STATUS_TAKEN, message, None)

    def _take(self, found: FakeApproval, decision: av.ApprovalDecision) -> None:
        message = found.message
        found.decision = decision
        message.state = _FINAL[decision.choice]
        message.decision.CopyFrom(
            av.Decision(
                decision_id=decision.decision_id,
                choice=decision.choice,
                decided_by="approver",
                decided_at_ms=_now(),
                message=decision.message,
                edited_arguments_json=decision.edited_arguments_json,
            )
        )
        if decision.choice == av.APPROVAL_CHOICE_SESSION:
            grant = pe.Grant(
                grant_id=f"grant-{len(self.grants) + 1}",
                session_id=message.session_id,
                kind=pe.GRANT_KIND_TOOL,
                rule=message.tool,
                tool=message.tool,
                owner=message.owner,
                approval_id=message.approval_id,
                granted_by="approver",
                granted_at_ms=_now(),
                state=pe.GRANT_STATE_ACTIVE,
            )
            self.grants.append(grant)
            message.decision.grants.append(grant)
        found.ended.set()
        self._changed(found)

    def _changed(self, approval: FakeApproval) -> None:
        approval.message.etag = str(int(approval.message.etag or 0) + 1)
        now = av.Approval()
        now.CopyFrom(approval.message)
        self._changes.append(now)
        if not self.silent:
            for news in self._news:
                news.set()
        self._executors.notify()

    async def _check(self, context: Any) -> None:
        if self.refuse is not None:
            await self._abort(context, self.refuse)

    @staticmethod
    async def _abort(context: Any, why: er.RpcError) -> None:
        code = next(code for code in grpc.StatusCode if code.value[0] == why.status)
        await context.abort(code, why.message, details(why))


def error(status: int, reason: int, code: str) -> er.RpcError:
    """A failure with its detail."""
    detail = er.ErrorDetail(reason=reason, code=code)  # type: ignore[arg-type]
    return er.RpcError(status=status, message=code.replace("_", " "), detail=detail)


def _refusal(decision: av.ApprovalDecision, message: av.Approval) -> er.RpcError | None:
    if decision.approval_digest != message.approval_digest:
        return error(9, er.ERROR_REASON_APPROVAL_DIGEST_MISMATCH, "approval_digest_mismatch")
    if decision.etag not in {"", message.etag}:
        return error(10, er.ERROR_REASON_ETAG_MISMATCH, "etag_mismatch")
    known = {item.candidate_id for item in message.grant_candidates}
    allowed = decision.choice in message.allowed_choices and set(decision.grant_candidate_ids) <= known
    if not allowed or (decision.choice == av.APPROVAL_CHOICE_RESPOND and not decision.HasField("response")):
        return error(3, er.ERROR_REASON_APPROVAL_CHOICE_NOT_ALLOWED, "approval_choice_not_allowed")
    if decision.choice == av.APPROVAL_CHOICE_EDIT and not _is_object(decision.edited_arguments_json):
        return error(3, er.ERROR_REASON_APPROVAL_EDIT_INVALID, "approval_edit_invalid")
    return None


def _same(one: av.ApprovalDecision, other: av.ApprovalDecision, message: av.Approval) -> bool:
    """Whether both say the same, texts aside."""
    if one.choice != other.choice:
        return False
    if one.choice == av.APPROVAL_CHOICE_SESSION:
        # The only candidate need not be named.
        only = [item.candidate_id for item in message.grant_candidates][:1]
        return sorted(one.grant_candidate_ids or only) == sorted(other.grant_candidate_ids or only)
    if one.choice == av.APPROVAL_CHOICE_RESPOND:
        return one.response == other.response
    return one.choice != av.APPROVAL_CHOICE_EDIT or one.edited_arguments_json == other.edited_arguments_json


def _is_object(document: bytes) -> bool:
    try:
        return isinstance(json.loads(document), dict)
    except ValueError:
        return False


def _outcome(
    decision: av.ApprovalDecision, status: int, message: av.Approval | None, why: er.RpcError | None
) -> av.DecisionOutcome:
    return av.DecisionOutcome(
        approval_id=decision.approval_id,
        status=status,  # type: ignore[arg-type]
        approval=message,
        error=why,
    )


def _not_found(approval_id: str) -> er.RpcError:
    made = error(5, er.ERROR_REASON_APPROVAL_NOT_FOUND, "approval_not_found")
    made.detail.resource_kind = "approval"
    made.detail.resource_id = approval_id
    return made


def _fits(wanted: av.ApprovalFilter, message: av.Approval, *, state: bool = True) -> bool:
    return (
        (not wanted.root_session_ids or message.root_session_id in wanted.root_session_ids)
        and wanted.session_id in {"", message.session_id}
        and wanted.turn_id in {"", message.turn_id}
        and (not state or message.state in (list(wanted.states) or [av.APPROVAL_STATE_PENDING]))
        and message.risk_level >= wanted.min_risk_level
        and (not wanted.tools or message.tool in wanted.tools)
    )


def _now() -> int:
    return int(time.time() * 1000)
