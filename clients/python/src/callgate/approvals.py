"""The approver: sees what waits, and decides it.

Never decides anything by itself.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any

from . import errors
from ._wire import convert_approvals
from ._wire.approval_calls import ApprovalCalls
from ._wire.approval_watch import WatchReader
from ._wire.channel import Dialer
from ._wire.endpoint import TLS, resolve_control_endpoint
from ._wire.link import Link
from .approval import Approval, ApprovalDecision, ApprovalRef, ApprovalState, ApprovalUpdate, DecisionOutcome
from .backoff import Backoff
from .permission import GrantCandidate
from .sessions import Sessions
from .tool import Risk
from .turns import check_type

log = logging.getLogger("callgate")

DECISIONS_MAX = 100


class ApprovalWatch(AsyncIterator[ApprovalUpdate]):
    """What waits, then every change. Iterate it; one task at a time.

    A lost connection is taken up behind the last update that the reader has
    received: none is lost, and none comes twice. Waiting for an update may be
    cancelled, e.g. by a timeout, and begun again.

    Leaving the loop does not end it at once: use it as `async with`, or `close` it.
    As long as it is open, an approver counts as attached.
    """

    def __init__(self, link: Link, reader: WatchReader) -> None:
        self._link = link
        self._reader = reader
        self._last: ApprovalUpdate | None = None
        self._closed = False

    @property
    def cursor(self) -> str:
        """Behind the last update that was received; for `Approvals.watch(after_cursor=…)`."""
        return self._last.cursor if self._last is not None else ""

    def __aiter__(self) -> ApprovalWatch:
        return self

    async def __anext__(self) -> ApprovalUpdate:
        if self._closed:
            raise StopAsyncIteration
        try:
            self._last = await self._link.open().run(self._reader.next(self._last))
        except errors.ClientClosed:
            if self._closed:
                raise StopAsyncIteration from None
            raise
        return self._last

    def close(self) -> None:
        """Ends it, soon and in the background. May be called twice, and from any thread."""
        self._closed = True
        wire = self._link.wire
        if wire is not None:
            wire.post(self._reader.close)

    async def __aenter__(self) -> ApprovalWatch:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()


class Approvals:
    """An approver's connection to the sidecar.

    May be used from any thread and any event loop. Nothing is connected before it is
    used. Ends with `aclose` or `async with`.

    Args:
        endpoint: As for `Client`. None: `CALLGATE_ENDPOINT`, else the sidecar's default
            Unix socket; where either is the socket `callgate.sock`, the `control.sock`
            beside it, which is the one for approvers.
        token: As for `Client`; over TCP the credential of an approver.
        request_timeout: Seconds for one answer of the sidecar.
        reconnect_timeout: Seconds after which a decision or a watch fails with
            `ConnectionLost` if the sidecar stays away. None: never.
        tls: Certificates for `https`.
        backoff: Waits between connections.

    Attributes:
        sessions: The sidecar's sessions, with the rights of an approver.

    Raises:
        CallgateError: `endpoint_invalid`.
    """

    def __init__(
        self,
        endpoint: str | None = None,
        token: str | None = None,
        *,
        request_timeout: float = 15.0,
        reconnect_timeout: float | None = 30.0,
        tls: TLS | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.endpoint = resolve_control_endpoint(endpoint)
        if not self.endpoint.secure and not self.endpoint.local:
            log.warning("the connection to %s is not encrypted", self.endpoint.text)
        self._link = Link(Dialer(self.endpoint, token, tls), request_timeout)
        self._calls = ApprovalCalls(self._link.channel, request_timeout)
        self._reconnect_timeout = reconnect_timeout
        self._backoff = backoff or Backoff()
        self._readers: weakref.WeakSet[WatchReader] = weakref.WeakSet()
        self.sessions = Sessions(self._link)

    async def aclose(self) -> None:
        """Ends every watch and disconnects. May be called twice. What waits, waits on."""
        if not self._link.forked:
            await self._link.close(self._close_watches)

    async def _close_watches(self) -> None:
        for reader in list(self._readers):
            reader.close()

    async def __aenter__(self) -> Approvals:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    # Looking.

    async def list(
        self,
        *,
        root_session_ids: Sequence[str] = (),
        session_id: str = "",
        turn_id: str = "",
        states: Sequence[ApprovalState] = (),
        min_risk: Risk | None = None,
        tools: Sequence[str] = (),
    ) -> AsyncIterator[Approval]:
        """Approvals, oldest first, page by page. Long arguments are cut.

        All given conditions must hold.

        Args:
            root_session_ids: Of these sessions and their child sessions.
            session_id: Of this session alone.
            turn_id: Of this turn.
            states: In these states. Empty: "pending". Any other needs `session_id` or
                `turn_id`.
            min_risk: At least this risk.
            tools: Of these tools, names or globs.
        """
        wanted = _filter(root_session_ids, session_id, turn_id, states, min_risk, tools)
        token = ""
        while True:
            page, token = await self._link.open().run(self._calls.list_page(wanted, token))
            for item in page:
                yield item
            if not token:
                return

    async def get(self, approval_id: str) -> Approval:
        """One approval, whole.

        Raises:
            NotFound: `approval_not_found`.
        """
        check_type("approval_id", approval_id, str)
        return await self._link.open().run(self._calls.get(approval_id))

    def watch(
        self,
        *,
        after_cursor: str = "",
        root_session_ids: Sequence[str] = (),
        session_id: str = "",
        turn_id: str = "",
        states: Sequence[ApprovalState] = (),
        min_risk: Risk | None = None,
        tools: Sequence[str] = (),
    ) -> ApprovalWatch:
        """What waits, then every change. The conditions are those of `list`; a change out of them is told once.

        The first update is a snapshot, and so is one after a loss that was too long
        to be told change by change. `after_cursor` resumes a watch of another
        process: without a first snapshot, unless the cursor is too old.

        Raises (while it is iterated):
            ConnectionLost: The sidecar stayed away for `reconnect_timeout`.
            PermissionDenied, Unauthenticated: Another try cannot help.
        """
        check_type("after_cursor", after_cursor, str)
        wanted = _filter(root_session_ids, session_id, turn_id, states, min_risk, tools)
        reader = WatchReader(self._link.channel, self._backoff, self._reconnect_timeout, wanted, after_cursor)
        self._readers.add(reader)
        return ApprovalWatch(self._link, reader)

    # Deciding.

    async def approve_once(self, approval: Approval | ApprovalRef, message: str = "") -> DecisionOutcome:
        """Lets the call run, this once, with exactly the arguments that the approval shows.

        This and the other decisions return "taken" or "repeated", once that is
        durable. A lost answer is asked for again, as the same decision.

        Raises:
            DecisionConflict: Decided otherwise before, or no longer pending; has the winner.
            DecisionRefused: Not taken for another reason; nothing changed.
            ConnectionLost: No answer within `reconnect_timeout`. It may have been taken.
        """
        return await self._decide_one(ApprovalDecision(approval, "once", message))

    async def approve_session(
        self,
        approval: Approval | ApprovalRef,
        candidates: Sequence[GrantCandidate | str] = (),
        message: str = "",
    ) -> DecisionOutcome:
        """Lets the call run, and stores the picked grants for the session.

        `candidates` are of `approval.grant_candidates`, or their ids, one per
        segment; empty is enough if there is one in all. Raises as `approve_once`.
        """
        picked = (candidates,) if isinstance(candidates, str) else tuple(candidates)
        return await self._decide_one(ApprovalDecision(approval, "session", message, picked))

    async def deny(self, approval: Approval | ApprovalRef, message: str = "") -> DecisionOutcome:
        """Does not let the call run; the model reads `message`, and the turn goes on. Raises as `approve_once`."""
        return await self._decide_one(ApprovalDecision(approval, "deny", message))

    async def edit(
        self, approval: Approval | ApprovalRef, arguments: Mapping[str, Any] | str | bytes, message: str = ""
    ) -> DecisionOutcome:
        """Lets the call run with other arguments, this once. They are the whole of them, and checked again.

        Raises as `approve_once`; `DecisionRefused` with `approval_edit_invalid` if they
        do not pass, and the approval waits on.
        """
        return await self._decide_one(ApprovalDecision(approval, "edit", message, arguments=arguments))

    async def respond(self, approval: Approval | ApprovalRef, result: Any, message: str = "") -> DecisionOutcome:
        """Does not let the call run; `result` is its result, anything that a handler could return.

        Raises as `approve_once`, and `ValueError` if the result cannot be sent.
        """
        return await self._decide_one(ApprovalDecision(approval, "respond", message, response=result))

    async def cancel_turn(self, approval: Approval | ApprovalRef, message: str = "") -> DecisionOutcome:
        """Cancels the whole turn, and with it its run. Raises as `approve_once`."""
        return await self._decide_one(ApprovalDecision(approval, "cancel_turn", message))

    async def decide(self, decisions: Sequence[ApprovalDecision]) -> tuple[DecisionOutcome, ...]:
        """Takes several decisions, each on its own, and returns an outcome for each, in order.

        One that fails changes nothing and does not touch the others; nothing is raised
        for it. Sent again after a `ConnectionLost`, the same objects are the same decisions.

        Raises:
            ConnectionLost: No answer within `reconnect_timeout`. Any of them may have been taken.
            ValueError: Two are about one approval, or a response cannot be sent.
        """
        check_type("decisions", decisions, Sequence)
        for index, item in enumerate(decisions):
            check_type(f"decisions[{index}]", item, ApprovalDecision)
        if len({item.ref.approval_id for item in decisions}) != len(decisions):
            raise ValueError("two decisions are about one approval")
        messages = [convert_approvals.approval_decision(item) for item in decisions]
        outcomes: tuple[DecisionOutcome, ...] = ()
        for begin in range(0, len(messages), DECISIONS_MAX):
            part = messages[begin : begin + DECISIONS_MAX]
            outcomes += await self._link.open().run(self._calls.decide(part, self._backoff, self._reconnect_timeout))
        return outcomes

    async def _decide_one(self, decision: ApprovalDecision) -> DecisionOutcome:
        (outcome,) = await self.decide([decision])
        return outcome.raise_for_error()


def _filter(
    root_session_ids: Sequence[str],
    session_id: str,
    turn_id: str,
    states: Sequence[ApprovalState],
    min_risk: Risk | None,
    tools: Sequence[str],
) -> Any:
    for what, value in (("root_session_ids", root_session_ids), ("states", states), ("tools", tools)):
        if isinstance(value, str):
            raise TypeError(f"{what} must be a sequence of str, not str")
    return convert_approvals.approval_filter(
        root_session_ids=root_session_ids,
        session_id=session_id,
        turn_id=turn_id,
        states=states,
        min_risk=min_risk,
        tools=tools,
    )
