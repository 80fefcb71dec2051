"""Approvals and sessions against the real sidecar."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from proxy import Proxy

from callgate import (
    Approval,
    ApprovalRef,
    ApprovalRequired,
    Approvals,
    CallStateChanged,
    Client,
    DecisionConflict,
    DecisionRefused,
    PermissionDenied,
    RuleSpec,
    Suspended,
    ToolCall,
    Turn,
    TurnResult,
    TurnSuspended,
)

if TYPE_CHECKING:
    from conftest import Sidecar


@asynccontextmanager
async def office(sidecar: Sidecar) -> AsyncIterator[tuple[Client, Approvals, list[str]]]:
    """A tool that asks in default mode, one that does not, and an approver at the control socket."""
    client = sidecar.client(executor_name="office")
    sent: list[str] = []

    @client.tool(risk="sensitive", kind="other")
    def send_note(to: str) -> str:
        """Sends a note."""
        sent.append(to)
        return f"sent to {to}"

    @client.tool(risk="safe", kind="read")
    def read_note() -> str:
        """Reads a note."""
        sent.append("read")
        return "a note"

    async with client, sidecar.approver() as approvals:
        await client.wait_ready()
        yield client, approvals, sent


def note(call_id: str = "n", to: str = "ann") -> ToolCall:
    return ToolCall(call_id, "send_note", {"to": to})


async def result_of(turn: Turn) -> TurnResult:
    return await turn


async def pending(approvals: Approvals, turn_id: str, count: int = 1) -> list[Approval]:
    """The approvals of a turn, in call order, as soon as so many wait."""
    known: dict[str, Approval] = {}
    async with approvals.watch(turn_id=turn_id) as watch:
        async for update in watch:
            known = {} if update.snapshot else known
            known.update({item.approval_id: item for item in update.approvals})
            waiting = [item for item in known.values() if item.pending]
            if len(waiting) >= count:
                return sorted(waiting, key=lambda item: item.call.call_id)
    raise AssertionError("the watch ended")


async def all_of(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


async def test_batch_is_frozen_until_its_call_is_approved_once(sidecar: Sidecar) -> None:
    async with office(sidecar) as (client, approvals, sent):
        turn = client.run_turn("once", [note(), ToolCall("r", "read_note")])
        events: list[Any] = []
        async for event in turn:
            events.append(event)
            if isinstance(event, TurnSuspended):
                assert sent == []
                info = await client.get_turn(turn.turn_id)
                assert (info.state, info.calls[0].state) == ("suspended", "awaiting_approval")
                (approval,) = await all_of(approvals.list(session_id="once"))
                assert event.approval_ids == (approval.approval_id,)
                assert (await approvals.approve_once(approval)).status == "taken"
        result = await turn
        required = next(event for event in events if isinstance(event, ApprovalRequired))
        assert (required.approvals[0].call_id, required.approvals[0].risk) == ("n", "sensitive")
        assert (approval.tool, approval.owner, approval.arguments) == ("send_note", "office", {"to": "ann"})
        assert (approval.mode, approval.verdict.effect, approval.verdict.stage) == ("default", "ask", "mode_default")
        assert {"once", "deny"} <= set(approval.allowed_choices)
        assert sorted(sent) == ["ann", "read"]
        assert (result["n"].text, result["n"].approval_id) == ("sent to ann", approval.approval_id)
        assert result["r"].approval_id == ""
        states = [event.state for event in events if isinstance(event, CallStateChanged) and event.call_id == "n"]
        assert states == ["awaiting_approval", "scheduled", "executing", "success"]
        assert await all_of(approvals.list(session_id="once")) == []
        decided = await approvals.get(approval.approval_id)
        assert decided.decision is not None
        assert (decided.state, decided.decision.choice, decided.call_outcome) == ("approved", "once", "success")


async def test_denial_reaches_the_model_and_ends_the_batch(sidecar: Sidecar) -> None:
    async with office(sidecar) as (client, approvals, sent):
        calls = [note("a"), note("b", "bob"), ToolCall("r", "read_note")]
        turn = asyncio.ensure_future(result_of(client.run_turn("deny", calls, turn_id="deny-1")))
        first, second = await pending(approvals, "deny-1", 2)
        await approvals.deny(first, "not on a Sunday")
        result = await turn
        assert (await approvals.deny(first)).status == "repeated"
        with pytest.raises(DecisionConflict) as caught:
            await approvals.approve_once(first)
        assert caught.value.code == "approval_already_decided"
        assert caught.value.approval is not None
        assert caught.value.approval.decision is not None
        assert caught.value.approval.decision.message == "not on a Sunday"
        assert (await approvals.get(second.approval_id)).state == "withdrawn"
    assert sent == []
    codes = [item.error.code for item in result.results if item.error is not None]
    assert codes == ["tool_denied_by_user", "tool_batch_rejected", "tool_batch_rejected"]
    assert result["a"].error is not None
    assert "not on a Sunday" in result["a"].error.message
    assert [item.not_executed_reason for item in result.results] == [
        "denied_by_user",
        "batch_rejected",
        "batch_rejected",
    ]
    with pytest.raises(PermissionDenied):
        result["a"].raise_for_error()


async def test_session_grant_lets_the_next_call_run_until_it_is_revoked(sidecar: Sidecar) -> None:
    async with office(sidecar) as (client, approvals, sent):
        first = asyncio.ensure_future(result_of(client.run_turn("grant", [note()], turn_id="grant-1")))
        (approval,) = await pending(approvals, "grant-1")
        (candidate,) = approval.grant_candidates
        assert candidate.kind == "tool"
        await approvals.approve_session(approval, [candidate])
        await first
        unasked = await client.run_turn("grant", [note("m", "bob")])
        assert (unasked["m"].text, unasked["m"].approval_id) == ("sent to bob", "")
        assert sent == ["ann", "bob"]
        (grant,) = await all_of(approvals.sessions.grants("grant", state="active"))
        assert (grant.tool, grant.owner, grant.approval_id) == ("send_note", "office", approval.approval_id)
        revoked = await approvals.sessions.revoke("grant", [grant])
        assert [item.state for item in revoked.grants] == ["revoked"]
        again = asyncio.ensure_future(result_of(client.run_turn("grant", [note()], turn_id="grant-2")))
        (asked,) = await pending(approvals, "grant-2")
        await approvals.deny(asked)
        assert (await again)["n"].is_error
    assert sent == ["ann", "bob"]


async def test_edited_arguments_are_checked_and_run(sidecar: Sidecar) -> None:
    async with office(sidecar) as (client, approvals, sent):
        turn = asyncio.ensure_future(result_of(client.run_turn("edit", [note()], turn_id="edit-1")))
        (approval,) = await pending(approvals, "edit-1")
        with pytest.raises(DecisionRefused) as caught:
            await approvals.edit(approval, {"to": 5})
        assert caught.value.code == "approval_edit_invalid"
        assert (await approvals.get(approval.approval_id)).pending
        await approvals.edit(approval, {"to": "eve"})
        result = await turn
        assert (await client.get_turn("edit-1")).calls[0].effective_arguments_json == b'{"to":"eve"}'
    assert (sent, result["n"].text) == (["eve"], "sent to eve")


async def test_answer_of_an_approver_is_the_result(sidecar: Sidecar) -> None:
    async with office(sidecar) as (client, approvals, sent):
        turn = asyncio.ensure_future(result_of(client.run_turn("respond", [note()], turn_id="respond-1")))
        (approval,) = await pending(approvals, "respond-1")
        await approvals.respond(approval, {"sent": "by hand"})
        result = await turn
        assert (await approvals.get(approval.approval_id)).state == "answered"
    call = result["n"]
    assert sent == []
    assert (call.outcome, call.structured, call.not_executed_reason, call.effect) == (
        "success",
        {"sent": "by hand"},
        "answered_by_approver",
        "not_executed",
    )


async def test_approver_cancels_the_turn(sidecar: Sidecar) -> None:
    async with office(sidecar) as (client, approvals, sent):
        turn = asyncio.ensure_future(result_of(client.run_turn("cancel", [note()], turn_id="acancel", run_id="ar")))
        (approval,) = await pending(approvals, "acancel")
        await approvals.cancel_turn(approval, "wrong direction")
        result = await turn
    assert (result.outcome, result.results, sent) == ("cancelled", (), [])
    assert [item.outcome for item in result.closing_results] == ["cancelled"]


async def test_decision_for_something_else_is_refused(sidecar: Sidecar) -> None:
    async with office(sidecar) as (client, approvals, sent):
        turn = asyncio.ensure_future(result_of(client.run_turn("digest", [note()], turn_id="digest-1")))
        (approval,) = await pending(approvals, "digest-1")
        for wrong, code in (
            (ApprovalRef(approval.approval_id, bytes(32)), "approval_digest_mismatch"),
            (ApprovalRef(approval.approval_id, approval.digest, "old"), "etag_mismatch"),
            (ApprovalRef("nowhere", approval.digest), "approval_not_found"),
        ):
            with pytest.raises(DecisionRefused) as caught:
                await approvals.approve_once(wrong)
            assert caught.value.code == code
        assert sent == []
        await approvals.deny(approval)
        await turn


async def test_orchestrator_cannot_decide(sidecar: Sidecar) -> None:
    async with office(sidecar) as (client, approvals, _), Approvals(sidecar.endpoint) as own:
        turn = asyncio.ensure_future(result_of(client.run_turn("roles", [note()], turn_id="roles-1")))
        (approval,) = await pending(approvals, "roles-1")
        with pytest.raises(PermissionDenied):
            await own.approve_once(approval)
        await approvals.deny(approval)
        await turn


async def test_watch_resumes_after_a_cut_line(sidecar: Sidecar) -> None:
    async with (
        office(sidecar) as (client, approvals, _),
        Proxy(sidecar.port) as proxy,
        sidecar.approver(endpoint=proxy.endpoint, token=sidecar.token("approver")) as distant,
        distant.watch(root_session_ids=["resume"]) as watch,
    ):
        snapshot = await anext(watch)
        assert (snapshot.snapshot, snapshot.approvals) == (True, ())
        await proxy.cut()
        turn = asyncio.ensure_future(result_of(client.run_turn("resume", [note()], turn_id="resume-1")))
        (approval,) = await pending(approvals, "resume-1")
        update = await anext(watch)
        assert not update.snapshot
        assert [item.approval_id for item in update.approvals] == [approval.approval_id]
        await proxy.cut()
        await distant.approve_once(update.approvals[0])
        changed = await anext(watch)
        assert (changed.snapshot, changed.approvals[0].state) == (False, "approved")
        await turn


async def test_freer_mode_releases_what_waits(sidecar: Sidecar) -> None:
    async with office(sidecar) as (client, approvals, sent):
        session = await client.sessions.create("mode", cwd="/tmp")
        assert (session.mode, session.settings.cwd) == ("default", "/tmp")
        turn = asyncio.ensure_future(result_of(client.run_turn("mode", [note()], turn_id="mode-1")))
        (approval,) = await pending(approvals, "mode-1")
        changed = await approvals.sessions.set_mode("mode", "auto")
        assert (changed.session.mode, changed.released, changed.denied) == ("auto", 1, 0)
        assert (await turn)["n"].text == "sent to ann"
        decided = await approvals.get(approval.approval_id)
        assert decided.decision is not None
        assert (decided.state, decided.decision.choice) == ("approved", None)
    assert sent == ["ann"]


async def test_rule_of_the_turn_denies_without_asking(sidecar: Sidecar) -> None:
    async with office(sidecar) as (client, _, sent):
        rule = RuleSpec("deny", "send_note", message="no notes today")
        result = await client.run_turn("rules", [note()], command_rules=[rule])
        assert result["n"].error is not None
        assert result["n"].error.code == "tool_denied_by_rule"
        assert "no notes today" in result["n"].error.message
    assert sent == []


async def test_turn_that_need_not_wait_is_taken_up_after_the_decision(sidecar: Sidecar) -> None:
    async with office(sidecar) as (client, approvals, _):
        for carrier in ("stream", "rpc"):
            turn_id = f"parked-{carrier}"
            with pytest.raises(Suspended) as caught:
                await client.run_turn("parked", [note()], turn_id=turn_id, on_suspend="end", carrier=carrier)
            (approval,) = await pending(approvals, turn_id)
            assert caught.value.approval_ids == (approval.approval_id,)
            await approvals.approve_once(approval)
            assert (await client.attach_turn(turn_id))["n"].text == "sent to ann"


async def test_approval_outlives_the_sidecar_that_asked(own_sidecar: Sidecar) -> None:
    async with office(own_sidecar) as (client, approvals, sent):
        turn = asyncio.ensure_future(result_of(client.run_turn("kill", [note()], turn_id="kill-1")))
        (before,) = await pending(approvals, "kill-1")
        await asyncio.to_thread(own_sidecar.restart, signal.SIGKILL)
        after = await approvals.get(before.approval_id)
        assert (after.pending, after.digest) == (True, before.digest)
        await client.wait_ready()
        await approvals.approve_once(after)
        assert (await turn)["n"].text == "sent to ann"
    assert sent == ["ann"]
