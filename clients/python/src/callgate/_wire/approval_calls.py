"""The rpcs about approvals that ask once and answer once. Runs on the wire's loop."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from .. import errors
from .._gen.callgate.v1 import approval_service_pb2 as av
from .._gen.callgate.v1 import approval_service_pb2_grpc as av_rpc
from ..approval import Approval, DecisionOutcome
from ..backoff import Backoff, BackoffState
from . import convert_approvals
from .calls import UnaryCalls

log = logging.getLogger("callgate")

# The answer may be lost while the decision is taken; its id makes a repeat harmless.
_LOST = (errors.ConnectionLost, errors.DeadlineExceeded, errors.Unavailable)


class ApprovalCalls(UnaryCalls):
    """The unary rpcs of ApprovalService."""

    @property
    def _stub(self) -> Any:
        return av_rpc.ApprovalServiceStub(self._channel.get())

    async def list_page(self, wanted: av.ApprovalFilter, page_token: str) -> tuple[tuple[Approval, ...], str]:
        """One page, and the token of the next."""
        request = av.ListApprovalsRequest(filter=wanted, page_token=page_token)
        answer = await self._ask(self._stub.ListApprovals, request)
        return tuple(convert_approvals.approval(item) for item in answer.approvals), answer.next_page_token

    async def get(self, approval_id: str) -> Approval:
        """One approval, whole."""
        answer = await self._ask(self._stub.GetApproval, av.GetApprovalRequest(approval_id=approval_id))
        return convert_approvals.approval(answer.approval)

    async def decide(
        self, decisions: Sequence[av.ApprovalDecision], backoff: Backoff, give_up_after: float | None
    ) -> tuple[DecisionOutcome, ...]:
        """Sends the same decisions until there is an answer, for at most `give_up_after` seconds."""
        request = av.DecideApprovalsRequest(decisions=decisions)
        waits = BackoffState(backoff)
        loop = asyncio.get_running_loop()
        began = loop.time()
        while True:
            try:
                answer = await self._ask(self._stub.DecideApprovals, request)
                break
            except _LOST as error:
                wait = max(waits.lost(), error.retry_after or 0.0)
                if give_up_after is not None and loop.time() - began + wait >= give_up_after:
                    raise
                log.info("a decision is sent again: %s", error)
                await asyncio.sleep(wait)
        if len(answer.outcomes) != len(decisions):
            raise errors.ProtocolError(f"{len(decisions)} decisions have {len(answer.outcomes)} outcomes")
        return tuple(convert_approvals.outcome(item) for item in answer.outcomes)
