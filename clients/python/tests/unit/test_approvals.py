"""What an approver sees, and what becomes of its decisions."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, get_args

import pytest

import callgate._wire.approval_watch as watching
from callgate import (
    Approval,
    ApprovalDecision,
    ApprovalRef,
    ApprovalRequired,
    Approvals,
    ApprovalUpdate,
    Backoff,
    CallgateError,
    CallStateChanged,
    Client,
    ClientClosed,
    ConnectionLost,
    DecisionConflict,
    DecisionRefused,
    NotFound,
    PermissionDenied,
    ProtocolError,
    RuleSpec,
    Suspended,
    SyncApprovals,
    SyncClient,
    Text,
    ToolCall,
    ToolResult,
    Turn,
    TurnAccepted,
    TurnResult,
    TurnSuspended,
)
from callgate import approval as ap
from callgate import permission as pm
from callgate._gen.callgate.v1 import approval_service_pb2 as av
from callgate._gen.callgate.v1 import errors_pb2 as er
from callgate._gen.callgate.v1 import permission_pb2 as pe
from callgate._gen.callgate.v1 import turn_service_pb2 as tu
from callgate._gen.callgate.v1 import types_pb2 as ty
from callgate._wire import convert, convert_approvals, convert_permission
from callgate._wire.endpoint import resolve_control_endpoint
from callgate._wire.fake_approvals import error
from callgate._wire.turn_stream import TurnReader
from callgate.testing import FakeSidecar

QUICK = Backoff(initial=0.01, cap=0.05)
REMOVE = ToolCall("r", "remove", {"path": "/tmp/x"})


@asynccontextmanager
async def guarded(sidecar: FakeSidecar, **options: Any) -> AsyncIterator[tuple[Client, Approvals, list[str]]]:
    """A tool that is asked for, one that is not, and an approver."""
    client = sidecar.client(backoff=QUICK)
    removed: list[str] = []

    @client.tool(risk="dangerous", kind="delete")
    def remove(path: str) -> str:
        """Removes."""
        removed.append(path)
        return f"removed {path}"

    @client.tool(risk="safe", kind="read")
    def look() -> str:
        """Looks."""
        removed.append("looked")
        return "seen"

    sidecar.ask("remove")
    async with client, sidecar.approver(**{"backoff": QUICK, **options}) as approvals:
        await client.wait_ready()
        yield client, approvals, removed


@asynccontextmanager
async def waiting(
    sidecar: FakeSidecar, *calls: ToolCall, **options: Any
) -> AsyncIterator[tuple[Approvals, tuple[Approval, ...], asyncio.Future[TurnResult], list[str]]]:
    """A turn whose calls wait."""
    made = calls or (REMOVE,)
    async with guarded(sidecar, **options) as (client, approvals, removed):
        turn = asyncio.ensure_future(result_of(client.run_turn("s", made, turn_id="t")))
        try:
            found = await sidecar.asked(sum(call.name == "remove" for call in made))
            yield approvals, found, turn, removed
        finally:
            turn.cancel()


async def result_of(turn: Turn) -> TurnResult:
    return await turn


async def all_of(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def on_wire(sidecar: FakeSidecar, change: Callable[[], None]) -> None:
    """Changes the fake where it lives."""
    done = threading.Event()
    sidecar._post(lambda: (change(), done.set()))
    assert done.wait(5)


# Deciding.


async def test_approved_once_the_call_runs_with_its_own_arguments(fake_sidecar: FakeSidecar) -> None:
    async with waiting(fake_sidecar) as (approvals, (approval,), turn, removed):
        assert removed == []
        outcome = await approvals.approve_once(approval, "go on")
        result = await turn
    assert (outcome.status, outcome.error) == ("taken", None)
    assert outcome.approval is not None
    assert outcome.approval.state == "approved"
    assert outcome.approval.decision is not None
    assert (outcome.approval.decision.choice, outcome.approval.decision.message) == ("once", "go on")
    assert removed == ["/tmp/x"]
    assert result["r"].text == "removed /tmp/x"
    assert "r" in result
    assert "another" not in result
    assert result["r"].approval_id == approval.approval_id


async def test_denied_call_does_not_run_and_its_message_reaches_the_model(fake_sidecar: FakeSidecar) -> None:
    async with waiting(fake_sidecar) as (approvals, (approval,), turn, removed):
        await approvals.deny(approval, "not this one")
        result = await turn
    call = result["r"]
    assert removed == []
    assert call.error is not None
    assert (call.error.code, call.error.message) == ("tool_denied_by_user", "not this one")
    assert (call.not_executed_reason, call.effect) == ("denied_by_user", "not_executed")
    with pytest.raises(PermissionDenied, match="not this one"):
        call.raise_for_error()


async def test_one_refusal_ends_an_atomic_batch(fake_sidecar: FakeSidecar) -> None:
    calls = (REMOVE, ToolCall("q", "remove", {"path": "/tmp/y"}), ToolCall("l", "look"))
    async with waiting(fake_sidecar, *calls) as (approvals, (first, second), turn, removed):
        await approvals.deny(first)
        result = await turn
        with pytest.raises(DecisionConflict) as caught:
            await approvals.approve_once(ApprovalRef(second.approval_id, second.digest))
    assert removed == []
    codes = [item.error.code for item in result.results if item.error is not None]
    assert codes == ["tool_denied_by_user", "tool_batch_rejected", "tool_batch_rejected"]
    assert isinstance(result["q"].failure(), PermissionDenied)
    assert caught.value.code == "approval_not_pending"
    assert caught.value.approval is not None
    assert (caught.value.approval.state, caught.value.approval.decision) == ("withdrawn", None)


async def test_session_grant_lets_the_next_call_run_unasked(fake_sidecar: FakeSidecar) -> None:
    async with guarded(fake_sidecar) as (client, approvals, removed):
        turn = asyncio.ensure_future(result_of(client.run_turn("s", [REMOVE])))
        (approval,) = await fake_sidecar.asked()
        outcome = await approvals.approve_session(approval, approval.grant_candidates)
        await turn
        assert outcome.approval is not None
        assert outcome.approval.decision is not None
        (grant,) = outcome.approval.decision.grants
        assert (grant.kind, grant.tool, grant.active) == ("tool", "remove", True)
        await client.run_turn("s", [REMOVE])
        # Revoked, it asks again.
        revoked = await approvals.sessions.revoke("s", [grant])
        assert [(item.grant_id, item.state) for item in revoked.grants] == [(grant.grant_id, "revoked")]
        again = asyncio.ensure_future(result_of(client.run_turn("s", [REMOVE])))
        await approvals.deny((await fake_sidecar.asked())[0])
        assert (await again)["r"].is_error
    assert removed == ["/tmp/x", "/tmp/x"]


async def test_edited_arguments_run_in_place_of_the_models(fake_sidecar: FakeSidecar) -> None:
    async with waiting(fake_sidecar) as (approvals, (approval,), turn, removed):
        with pytest.raises(DecisionRefused) as caught:
            await approvals.edit(approval, "[1]")
        assert (caught.value.code, turn.done()) == ("approval_edit_invalid", False)
        outcome = await approvals.edit(approval, {"path": "/tmp/other"})
        result = await turn
    assert removed == ["/tmp/other"]
    assert result["r"].text == "removed /tmp/other"
    assert outcome.approval is not None
    assert outcome.approval.decision is not None
    assert outcome.approval.decision.edited_arguments_json == b'{"path":"/tmp/other"}'


@pytest.mark.parametrize(
    ("answer", "text", "structured"),
    [
        ("it is gone already", "it is gone already", None),
        ({"gone": True}, '{"gone":true}', {"gone": True}),
        (ToolResult((Text("as a result"),)), "as a result", None),
        (None, "", None),
    ],
)
async def test_answer_of_an_approver_is_the_result(
    fake_sidecar: FakeSidecar, answer: Any, text: str, structured: Any
) -> None:
    async with waiting(fake_sidecar) as (approvals, (approval,), turn, removed):
        await approvals.respond(approval, answer)
        result = await turn
    call = result["r"]
    assert removed == []
    assert (call.outcome, call.text, call.structured) == ("success", text, structured)
    assert call.not_executed_reason == "answered_by_approver"


async def test_approver_may_answer_with_an_error_but_not_by_accident(fake_sidecar: FakeSidecar) -> None:
    async with waiting(fake_sidecar) as (approvals, (approval,), turn, _):
        for wrong in (float("nan"), b"bytes", {"n": object()}, ToolResult(structured={"n": float("inf")})):
            with pytest.raises(ValueError, match=r"."):
                await approvals.respond(approval, wrong)
        assert fake_sidecar.approvals.decides == []
        await approvals.respond(approval, ToolResult.failure("record_gone", "there is nothing"))
        result = await turn
    assert result["r"].error is not None
    assert result["r"].error.code == "record_gone"


async def test_approver_can_cancel_the_whole_turn(fake_sidecar: FakeSidecar) -> None:
    async with waiting(fake_sidecar, REMOVE, ToolCall("l", "look")) as (approvals, (approval,), turn, removed):
        outcome = await approvals.cancel_turn(approval, "wrong direction")
        result = await turn
    assert outcome.approval is not None
    assert outcome.approval.state == "cancelled"
    assert (result.outcome, result.results, removed) == ("cancelled", (), [])
    assert [item.outcome for item in result.closing_results] == ["cancelled", "cancelled"]


async def test_decision_carries_what_the_approver_held(fake_sidecar: FakeSidecar) -> None:
    async with waiting(fake_sidecar) as (approvals, (approval,), _, _):
        await approvals.approve_once(approval)
        (sent,) = fake_sidecar.approvals.decides[0].decisions
    assert (sent.approval_id, sent.approval_digest, sent.etag) == (
        approval.approval_id,
        approval.digest,
        approval.etag,
    )
    assert len(approval.digest) == 32
    assert sent.decision_id


async def test_lost_answer_is_asked_for_again_as_the_same_decision(fake_sidecar: FakeSidecar) -> None:
    async with waiting(fake_sidecar) as (approvals, (approval,), turn, removed):
        on_wire(fake_sidecar, lambda: setattr(fake_sidecar.approvals, "lose_answers", 2))
        outcome = await approvals.approve_once(approval)
        await turn
        ids = [request.decisions[0].decision_id for request in fake_sidecar.approvals.decides]
    assert outcome.status == "repeated"
    assert len(ids) == 3
    assert len(set(ids)) == 1
    assert removed == ["/tmp/x"]


async def test_sidecar_that_stays_away_is_told_and_the_same_object_is_sent_again(fake_sidecar: FakeSidecar) -> None:
    async with waiting(fake_sidecar, reconnect_timeout=0.0) as (approvals, (approval,), turn, _):
        on_wire(fake_sidecar, lambda: setattr(fake_sidecar.approvals, "lose_answers", 1))
        decision = ApprovalDecision(approval, "once")
        with pytest.raises(ConnectionLost):
            await approvals.decide([decision])
        (outcome,) = await approvals.decide([decision])
        await turn
        ids = {request.decisions[0].decision_id for request in fake_sidecar.approvals.decides}
    assert (outcome.status, ids) == ("repeated", {decision.decision_id})


async def test_second_decision_gets_the_winner(fake_sidecar: FakeSidecar) -> None:
    async with waiting(fake_sidecar) as (approvals, (approval,), turn, _):
        await approvals.deny(approval, "no")
        assert (await approvals.deny(approval)).status == "repeated"
        with pytest.raises(DecisionConflict) as caught:
            await approvals.approve_once(approval)
        await turn
    assert caught.value.code == "approval_already_decided"
    assert caught.value.approval is not None
    assert caught.value.approval.decision is not None
    assert (caught.value.approval.decision.choice, caught.value.approval.decision.message) == ("deny", "no")


async def test_same_choice_with_another_answer_is_another_decision(fake_sidecar: FakeSidecar) -> None:
    async with waiting(fake_sidecar) as (approvals, (approval,), turn, _):
        await approvals.respond(approval, "gone")
        assert (await approvals.respond(approval, "gone")).status == "repeated"
        with pytest.raises(DecisionConflict) as caught:
            await approvals.respond(approval, "still there")
        await turn
    assert caught.value.code == "approval_already_decided"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda ref: ApprovalRef("nowhere", ref.digest), "approval_not_found"),
        (lambda ref: ApprovalRef(ref.approval_id, b""), "approval_digest_mismatch"),
        (lambda ref: ApprovalRef(ref.approval_id, ref.digest, "old"), "etag_mismatch"),
    ],
)
async def test_refused_decision_changes_nothing(
    fake_sidecar: FakeSidecar, change: Callable[[ApprovalRef], ApprovalRef], code: str
) -> None:
    async with waiting(fake_sidecar) as (approvals, (approval,), turn, _):
        with pytest.raises(DecisionRefused) as caught:
            await approvals.approve_once(change(approval.ref))
        assert caught.value.code == code
        assert (await approvals.get(approval.approval_id)).pending
        assert not turn.done()
    assert (caught.value.approval is None) == (code == "approval_not_found")


async def test_several_decisions_stand_on_their_own(fake_sidecar: FakeSidecar) -> None:
    calls = [ToolCall(f"c{n}", "remove", {"path": str(n)}) for n in range(3)]
    async with waiting(fake_sidecar, *calls) as (approvals, (one, two, three), turn, removed):
        outcomes = await approvals.decide(
            [
                ApprovalDecision(one, "once"),
                ApprovalDecision(ApprovalRef(two.approval_id, b"other"), "once"),
                ApprovalDecision(three, "edit", arguments={"path": "three"}),
            ]
        )
        assert [item.status for item in outcomes] == ["taken", "refused", "taken"]
        assert [item.approval_id for item in outcomes] == [one.approval_id, two.approval_id, three.approval_id]
        assert outcomes[0].raise_for_error() is outcomes[0]
        with pytest.raises(DecisionRefused, match="approval_digest_mismatch"):
            outcomes[1].raise_for_error()
        assert removed == []
        await approvals.approve_once(two)
        await turn
    assert sorted(removed) == ["0", "1", "three"]


async def test_more_decisions_than_one_message_holds_are_sent_in_pieces(fake_sidecar: FakeSidecar) -> None:
    async with fake_sidecar.approver() as approvals:
        decisions = [ApprovalDecision(ApprovalRef(f"a{n}", b"d"), "once") for n in range(101)]
        outcomes = await approvals.decide(decisions)
        assert [item.approval_id for item in outcomes] == [f"a{n}" for n in range(101)]
        assert [len(request.decisions) for request in fake_sidecar.approvals.decides] == [100, 1]
        with pytest.raises(ValueError, match="one approval"):
            await approvals.decide([decisions[0], decisions[0]])


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"choice": "yes"}, ValueError),
        ({"choice": "edit"}, ValueError),
        ({"choice": "once", "arguments": {}}, ValueError),
        ({"choice": "deny", "response": "x"}, ValueError),
        ({"choice": "once", "candidates": ("c",)}, ValueError),
        ({"choice": "once", "message": b"x"}, TypeError),
        ({"choice": "once", "approval": "id"}, TypeError),
        ({"choice": "edit", "arguments": 1}, TypeError),
    ],
)
def test_decision_that_makes_no_sense_is_refused_where_it_is_made(wrong: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        ApprovalDecision(**{"approval": ApprovalRef("a", b"d"), **wrong})


def test_every_decision_has_an_id_of_its_own() -> None:
    ref = ApprovalRef("a", b"d")
    assert ApprovalDecision(ref, "once").decision_id != ApprovalDecision(ref, "once").decision_id


def test_outcome_that_is_newer_than_the_sdk_is_no_success() -> None:
    outcome = convert_approvals.outcome(av.DecisionOutcome(approval_id="a", status=99))  # type: ignore[arg-type]
    assert outcome.status == "unknown"
    with pytest.raises(ProtocolError):
        outcome.raise_for_error()


def test_conflict_without_a_reason_is_still_one() -> None:
    outcome = convert_approvals.outcome(av.DecisionOutcome(approval_id="a", status=av.DECISION_STATUS_CONFLICT))
    with pytest.raises(DecisionConflict):
        outcome.raise_for_error()


# Looking.


async def test_list_walks_all_pages_and_get_shows_one(fake_sidecar: FakeSidecar) -> None:
    calls = [ToolCall(f"c{n}", "remove", {"path": str(n)}) for n in range(5)]
    async with waiting(fake_sidecar, *calls) as (approvals, found, _, _):
        on_wire(fake_sidecar, lambda: setattr(fake_sidecar.approvals, "page_size", 2))
        listed = await all_of(approvals.list())
        assert listed == list(found)
        assert [request.page_token for request in fake_sidecar.approvals.lists] == ["", "2", "4"]
        assert await approvals.get(found[3].approval_id) == found[3]
        with pytest.raises(NotFound) as caught:
            await approvals.get("nowhere")
    assert (caught.value.code, caught.value.resource_id) == ("approval_not_found", "nowhere")
    first = listed[0]
    assert (first.tool, first.owner, first.risk, first.session_id, first.turn_id) == (
        "remove",
        "test",
        "dangerous",
        "s",
        "t",
    )
    assert first.call == ToolCall("c0", "remove", b'{"path":"0"}')
    assert first.arguments == {"path": "0"}
    assert '"path": "0"' in first.display_arguments
    assert (first.state, first.pending, first.decision, first.call_outcome) == ("pending", True, None, None)
    assert (first.verdict.effect, first.verdict.stage) == ("ask", "mode_default")
    assert first.allowed_choices == ap.CHOICES
    assert first.pending_in_batch == 5


async def test_conditions_are_sent_as_they_are_given(fake_sidecar: FakeSidecar) -> None:
    async with waiting(fake_sidecar) as (approvals, found, _, _):
        conditions: Any = {
            "root_session_ids": ["s"],
            "session_id": "s",
            "turn_id": "t",
            "states": ["pending", "denied"],
            "min_risk": "sensitive",
            "tools": ["remove"],
        }
        assert await all_of(approvals.list(**conditions)) == list(found)
        async with approvals.watch(**conditions) as watch:
            assert (await anext(watch)).approvals == found
        listed, watched = fake_sidecar.approvals.lists[0].filter, fake_sidecar.approvals.watches[0].filter
        assert await all_of(approvals.list(session_id="other")) == []
    assert listed == watched
    assert listed == av.ApprovalFilter(
        root_session_ids=["s"],
        session_id="s",
        turn_id="t",
        states=[av.APPROVAL_STATE_PENDING, av.APPROVAL_STATE_DENIED],
        min_risk_level=ty.RISK_LEVEL_SENSITIVE,
        tools=["remove"],
    )


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [({"states": ["waiting"]}, ValueError), ({"min_risk": "huge"}, ValueError), ({"tools": "remove"}, TypeError)],
)
async def test_wrong_condition_is_refused_before_anything_is_sent(wrong: Any, kind: type[Exception]) -> None:
    approvals = Approvals("unix:///tmp/callgate-nobody.sock")
    with pytest.raises(kind):
        await all_of(approvals.list(**wrong))
    with pytest.raises(kind):
        approvals.watch(**wrong)


def test_cut_arguments_are_not_taken_for_whole_ones() -> None:
    message = av.Approval(effective_arguments_json=b'{"a":', arguments_cut=True)
    with pytest.raises(ValueError, match="cut"):
        _ = convert_approvals.approval(message).arguments


def test_values_that_are_newer_than_the_sdk_are_the_safe_ones() -> None:
    newer: Any = 99
    message = av.Approval(
        risk_level=newer,
        kind=newer,
        state=newer,
        mode=newer,
        call_outcome=newer,
        allowed_choices=[newer, av.APPROVAL_CHOICE_DENY],
        grant_candidates=[pe.GrantCandidate(kind=newer)],
        verdict=ty.PermissionVerdict(effect=newer, stage=newer, source=newer),
        decision=av.Decision(choice=newer, grants=[pe.Grant(state=newer)]),
    )
    approval = convert_approvals.approval(message)
    assert (approval.risk, approval.kind, approval.state, approval.pending) == ("dangerous", "other", "unknown", False)
    assert (approval.mode, approval.call_outcome, approval.allowed_choices) == ("plan", "error", ("deny",))
    assert approval.grant_candidates[0].kind == "unknown"
    assert (approval.verdict.effect, approval.verdict.stage, approval.verdict.source) == ("deny", "99", "99")
    assert approval.decision is not None
    assert approval.decision.choice == "unknown"
    assert not approval.decision.grants[0].active


@pytest.mark.parametrize(
    ("names", "enum", "prefix"),
    [
        (ap.ApprovalChoice, av.ApprovalChoice, "APPROVAL_CHOICE_"),
        (ap.ApprovalState, av.ApprovalState, "APPROVAL_STATE_"),
        (ap.DecisionStatus, av.DecisionStatus, "DECISION_STATUS_"),
        (pm.Mode, pe.Mode, "MODE_"),
        (pm.BatchPolicy, ty.BatchPolicy, "BATCH_POLICY_"),
        (pm.PermissionEffect, ty.PermissionEffect, "PERMISSION_EFFECT_"),
        (pm.RuleSource, ty.RuleSource, "RULE_SOURCE_"),
        (pm.DecisionStage, ty.DecisionStage, "DECISION_STAGE_"),
        (pm.GrantKind, pe.GrantKind, "GRANT_KIND_"),
        (pm.GrantState, pe.GrantState, "GRANT_STATE_"),
    ],
)
def test_every_value_of_the_contract_has_its_name(names: Any, enum: Any, prefix: str) -> None:
    said = {name.removeprefix(prefix).lower() for name in enum.keys()} - {"unspecified"}  # noqa: SIM118
    assert said == set(get_args(names)) - {"unknown"}


def test_each_name_travels_as_its_number() -> None:
    for name, number in convert_approvals.STATES.items():
        assert convert_approvals.approval(av.Approval(state=number)).state == name
    for name, number in convert_approvals.CHOICES.items():
        assert convert_approvals.decision(av.Decision(choice=number)).choice == name
    for name, number in convert_permission.MODES.items():
        assert convert_permission.mode(convert_permission.mode_number(name)) == name == convert_permission.mode(number)
    for name in convert_permission.BATCH_POLICIES:
        assert convert_permission.batch_policy(convert_permission.batch_policy_number(name)) == name


# Watching.


def drop(sidecar: FakeSidecar) -> None:
    """Breaks every watch, and nothing else."""
    on_wire(sidecar, sidecar.approvals.drop_streams)


async def test_watch_tells_what_waits_as_one_snapshot_then_changes(fake_sidecar: FakeSidecar) -> None:
    calls = (REMOVE, ToolCall("q", "remove", {"path": "/tmp/y"}))
    async with waiting(fake_sidecar, *calls) as (approvals, found, turn, _), approvals.watch() as watch:
        assert watch.cursor == ""
        snapshot = await anext(watch)
        assert (snapshot.snapshot, snapshot.approvals) == (True, found)
        assert watch.cursor == snapshot.cursor != ""
        await approvals.approve_once(found[0])
        change = await anext(watch)
        assert (change.snapshot, [item.approval_id for item in change.approvals]) == (False, [found[0].approval_id])
        assert change.approvals[0].state == "approved"
        await approvals.approve_once(found[1])
        await turn
        assert (await anext(watch)).approvals[0].approval_id == found[1].approval_id


async def test_snapshot_that_was_cut_is_read_from_its_beginning(fake_sidecar: FakeSidecar) -> None:
    calls = (REMOVE, ToolCall("q", "remove", {"path": "/tmp/y"}))
    async with waiting(fake_sidecar, *calls) as (approvals, found, _, _), approvals.watch() as watch:
        on_wire(fake_sidecar, lambda: setattr(fake_sidecar.approvals, "cut_snapshots", 2))
        snapshot = await anext(watch)
        assert (snapshot.snapshot, snapshot.approvals) == (True, found)
        assert [request.after_cursor for request in fake_sidecar.approvals.watches] == ["", "", ""]


async def test_watch_of_nothing_has_an_empty_snapshot(fake_sidecar: FakeSidecar) -> None:
    async with fake_sidecar.approver() as approvals, approvals.watch() as watch:
        assert (await anext(watch)).approvals == ()


async def test_watch_resumes_behind_what_was_received(fake_sidecar: FakeSidecar) -> None:
    async with guarded(fake_sidecar) as (client, approvals, _), approvals.watch() as watch:
        snapshot = await anext(watch)
        drop(fake_sidecar)
        turn = asyncio.ensure_future(result_of(client.run_turn("s", [REMOVE])))
        (approval,) = await fake_sidecar.asked()
        update = await anext(watch)
        assert (update.snapshot, update.approvals) == (False, (approval,))
        assert fake_sidecar.approvals.watches[-1].after_cursor == snapshot.cursor
        await approvals.approve_once(approval)
        assert (await anext(watch)).approvals[0].state == "approved"
        await turn


async def test_watch_begins_with_a_snapshot_when_its_cursor_is_too_old(fake_sidecar: FakeSidecar) -> None:
    async with guarded(fake_sidecar) as (client, approvals, _), approvals.watch() as watch:
        await anext(watch)
        on_wire(fake_sidecar, lambda: setattr(fake_sidecar.approvals, "expire_cursors", True))
        turn = asyncio.ensure_future(result_of(client.run_turn("s", [REMOVE])))
        found = await fake_sidecar.asked()
        drop(fake_sidecar)
        updates = [await anext(watch)]
        while not updates[-1].snapshot:
            # The change may have come before the stream broke.
            updates.append(await anext(watch))
        assert updates[-1].approvals == found
        await approvals.deny(found[0])
        await turn
    cursors = [request.after_cursor for request in fake_sidecar.approvals.watches]
    assert cursors[0] == cursors[-1] == ""
    assert any(cursors)


async def test_watch_of_another_process_is_taken_up_without_a_snapshot(fake_sidecar: FakeSidecar) -> None:
    async with guarded(fake_sidecar) as (client, approvals, _):
        async with approvals.watch() as watch:
            cursor = (await anext(watch)).cursor
        turn = asyncio.ensure_future(result_of(client.run_turn("s", [REMOVE])))
        (approval,) = await fake_sidecar.asked()
        async with approvals.watch(after_cursor=cursor) as watch:
            assert await anext(watch) == ApprovalUpdate((approval,), False, watch.cursor)
        await approvals.deny(approval)
        await turn


async def test_wait_that_was_cancelled_loses_no_update(fake_sidecar: FakeSidecar) -> None:
    async with guarded(fake_sidecar) as (client, approvals, _), approvals.watch() as watch:
        await anext(watch)
        for _ in range(3):
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(watch), 0.02)
        turn = asyncio.ensure_future(result_of(client.run_turn("s", [REMOVE])))
        (approval,) = await fake_sidecar.asked()
        assert (await anext(watch)).approvals == (approval,)
        await approvals.deny(approval)
        await turn


async def test_update_that_was_lost_on_its_way_to_the_reader_is_told_again(fake_sidecar: FakeSidecar) -> None:
    async with waiting(fake_sidecar) as (approvals, (approval,), turn, _), approvals.watch() as watch:
        snapshot = await anext(watch)
        await approvals.deny(approval)
        await turn
        # Read on the wire, and the one who waited for it was gone.
        lost = await watch._link.open().run(watch._reader.next(snapshot))
        assert await anext(watch) == lost


async def test_silent_stream_is_given_up_and_opened_anew(
    fake_sidecar: FakeSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "SILENCE_SECONDS", 0.05)
    async with fake_sidecar.approver(backoff=QUICK) as approvals, approvals.watch() as watch:
        on_wire(fake_sidecar, lambda: setattr(fake_sidecar.approvals, "silent", True))
        first = asyncio.ensure_future(anext(watch))
        await fake_sidecar.until(lambda: len(fake_sidecar.approvals.watches) >= 2)
        on_wire(fake_sidecar, lambda: setattr(fake_sidecar.approvals, "silent", False))
        assert (await first).snapshot


async def test_watch_survives_a_restart_of_the_sidecar(fake_sidecar: FakeSidecar) -> None:
    async with fake_sidecar.approver(backoff=QUICK) as approvals, approvals.watch() as watch:
        cursor = (await anext(watch)).cursor
        update = asyncio.ensure_future(anext(watch))
        await asyncio.to_thread(fake_sidecar.restart)
        await fake_sidecar.until(lambda: len(fake_sidecar.approvals.watches) >= 2)
        assert fake_sidecar.approvals.watches[-1].after_cursor == cursor
        update.cancel()


async def test_watch_fails_when_the_sidecar_stays_away() -> None:
    async with Approvals("unix:///tmp/callgate-nobody.sock", reconnect_timeout=0.05, backoff=QUICK) as approvals:
        with pytest.raises(ConnectionLost):
            await anext(approvals.watch())


async def test_refusal_ends_a_watch_and_every_other_question(fake_sidecar: FakeSidecar) -> None:
    refusal = error(7, er.ERROR_REASON_ROLE_MISSING, "role_missing")
    on_wire(fake_sidecar, lambda: setattr(fake_sidecar.approvals, "refuse", refusal))
    async with fake_sidecar.approver() as approvals:
        with pytest.raises(PermissionDenied):
            await anext(approvals.watch())
        with pytest.raises(PermissionDenied):
            await approvals.get("a")
        with pytest.raises(PermissionDenied):
            await approvals.deny(ApprovalRef("a", b"d"))


async def test_closed_watch_ends_its_loop_and_its_stream(fake_sidecar: FakeSidecar) -> None:
    async with fake_sidecar.approver() as approvals:
        watch = approvals.watch()
        await anext(watch)
        reading = asyncio.ensure_future(all_of(watch))
        await asyncio.sleep(0)
        watch.close()
        watch.close()
        assert await reading == []
        await fake_sidecar.until(lambda: fake_sidecar.approvals.watchers == 0)


async def test_forgotten_watch_does_not_stay_attached(fake_sidecar: FakeSidecar) -> None:
    async with fake_sidecar.approver() as approvals:
        async for _ in approvals.watch():
            break
        await fake_sidecar.until(lambda: fake_sidecar.approvals.watchers == 0)


async def test_closing_the_approver_ends_its_watches_and_refuses_more(fake_sidecar: FakeSidecar) -> None:
    approvals = fake_sidecar.approver()
    watch = approvals.watch()
    await anext(watch)
    reading = asyncio.ensure_future(anext(watch))
    await asyncio.sleep(0)
    await approvals.aclose()
    await approvals.aclose()
    with pytest.raises(ClientClosed):
        await reading
    with pytest.raises(ClientClosed):
        await approvals.get("a")


# Turns that wait.


@pytest.mark.parametrize("carrier", ["stream", "rpc"])
async def test_turn_tells_what_waits_and_that_it_is_suspended(fake_sidecar: FakeSidecar, carrier: Any) -> None:
    async with guarded(fake_sidecar) as (client, approvals, _):
        turn = client.run_turn("s", [REMOVE, ToolCall("l", "look")], carrier=carrier)
        events: list[Any] = []
        async for event in turn:
            events.append(event)
            if isinstance(event, TurnSuspended):
                (approval,) = await all_of(approvals.list(turn_id=turn.turn_id))
                info = await client.get_turn(turn.turn_id)
                await approvals.approve_once(approval)
    required = next(event for event in events if isinstance(event, ApprovalRequired))
    suspended = next(event for event in events if isinstance(event, TurnSuspended))
    (summary,) = required.approvals
    assert (summary.approval_id, summary.call_id, summary.tool) == (approval.approval_id, "r", "remove")
    assert (summary.risk, summary.verdict, summary.expires_at_ms) == ("dangerous", approval.verdict, None)
    assert (suspended.batch_id, suspended.approval_ids) == (required.batch_id, (approval.approval_id,))
    states = [event.state for event in events if isinstance(event, CallStateChanged) and event.call_id == "r"]
    assert states == ["awaiting_approval", "scheduled", "executing", "success"]
    assert (info.state, info.calls[0].approval_id, info.calls[1].approval_id) == (
        "suspended",
        approval.approval_id,
        "",
    )


@pytest.mark.parametrize("carrier", ["stream", "rpc"])
async def test_turn_that_need_not_wait_ends_its_events_and_is_taken_up_later(
    fake_sidecar: FakeSidecar, carrier: Any
) -> None:
    async with guarded(fake_sidecar) as (client, approvals, _):
        turn = client.run_turn("s", [REMOVE], turn_id="t", on_suspend="end", carrier=carrier)
        events = [event async for event in turn]
        assert isinstance(events[-1], TurnSuspended)
        with pytest.raises(Suspended) as caught:
            await turn
        assert (caught.value.code, caught.value.turn_id) == ("turn_suspended", "t")
        (approval,) = await fake_sidecar.asked()
        assert caught.value.approval_ids == (approval.approval_id,)
        # Taken up too early, it says the same.
        with pytest.raises(Suspended):
            await client.attach_turn("t", on_suspend="end")
        await approvals.approve_once(approval)
        assert (await client.attach_turn("t"))["r"].text == "removed /tmp/x"


async def test_turn_that_is_suspended_and_waited_for_goes_on_after_a_lost_stream(fake_sidecar: FakeSidecar) -> None:
    async with waiting(fake_sidecar) as (approvals, (approval,), turn, _):
        on_wire(fake_sidecar, fake_sidecar.turns.drop_streams)
        await fake_sidecar.until(lambda: fake_sidecar.turns.attaches)
        await approvals.approve_once(approval)
        assert (await turn)["r"].text == "removed /tmp/x"
    assert fake_sidecar.turns.attaches[0].on_suspend == tu.ON_SUSPEND_WAIT


async def test_suspended_turn_without_its_event_is_known_by_its_snapshot() -> None:
    reader = TurnReader("t")
    call = tu.TurnCall(state=ty.CALL_STATE_AWAITING_APPROVAL, approval_id="a")
    other = tu.TurnCall(state=ty.CALL_STATE_SUCCESS, approval_id="b")
    snapshot = tu.Turn(turn_id="t", state=tu.TURN_STATE_SUSPENDED, calls=[call, other])
    reader.take(tu.TurnEvents(turn_id="t", epoch=2, snapshot=snapshot))
    suspended = reader.suspended()
    assert suspended is not None
    assert suspended.approval_ids == ("a",)
    moved = tu.TurnEvent(sequence=9, call_state_changed=tu.CallStateChanged(call_id="c"))
    reader.take(tu.TurnEvents(turn_id="t", epoch=2, events=[moved]))
    assert reader.suspended() is None


async def test_turn_carries_its_policy_and_its_rules(fake_sidecar: FakeSidecar) -> None:
    rules = [
        RuleSpec("deny", "run_shell(rm *)", ("rm -rf x",), ("ls",), "never", 5, ("auto",)),
        RuleSpec("allow", "look"),
    ]
    async with guarded(fake_sidecar) as (client, _, _):
        turn = client.run_turn("s", [ToolCall("l", "look")], batch_policy="freeze_partial", command_rules=rules)
        accepted, *_ = [event async for event in turn]
        await client.run_turn("s", [ToolCall("l", "look")], turn_id="plain")
    assert isinstance(accepted, TurnAccepted)
    assert accepted.batch_policy == "freeze_partial"
    sent = fake_sidecar.turns.turns[turn.turn_id].request
    assert (sent.batch_policy, sent.on_suspend) == (ty.BATCH_POLICY_FREEZE_PARTIAL, tu.ON_SUSPEND_WAIT)
    first, second = sent.command_rules
    assert first == pe.RuleSpec(
        effect=ty.PERMISSION_EFFECT_DENY,
        rule="run_shell(rm *)",
        matches=["rm -rf x"],
        not_matches=["ls"],
        message="never",
        expires_at_ms=5,
        modes=[pe.MODE_AUTO],
    )
    assert second == pe.RuleSpec(effect=ty.PERMISSION_EFFECT_ALLOW, rule="look")
    plain = fake_sidecar.turns.turns["plain"].request
    assert (plain.batch_policy, list(plain.command_rules)) == (ty.BATCH_POLICY_UNSPECIFIED, [])


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"batch_policy": "thaw"}, ValueError),
        ({"on_suspend": "never"}, ValueError),
        ({"command_rules": ["deny x"]}, TypeError),
        ({"command_rules": [RuleSpec("forbid", "x")]}, ValueError),  # type: ignore[arg-type]
    ],
)
async def test_wrong_turn_option_is_refused_where_it_is_given(wrong: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        Client("unix:///tmp/callgate-nobody.sock").run_turn("s", [REMOVE], **wrong)


async def test_partial_batch_runs_what_was_approved(fake_sidecar: FakeSidecar) -> None:
    async with guarded(fake_sidecar) as (client, approvals, removed):
        calls = [REMOVE, ToolCall("q", "remove", {"path": "/tmp/y"})]
        turn = asyncio.ensure_future(result_of(client.run_turn("s", calls, batch_policy="freeze_partial")))
        first, second = await fake_sidecar.asked(2)
        await approvals.deny(first)
        assert removed == []
        await approvals.approve_once(second)
        result = await turn
    assert [item.is_error for item in result.results] == [True, False]
    assert removed == ["/tmp/y"]


def test_result_tells_how_long_people_took_and_what_ran() -> None:
    message = ty.CallResult(
        call_id="c", approval_id="a", arguments_digest=b"d" * 32, timing=ty.CallTiming(approval_ms=7, queue_ms=3)
    )
    result = convert.call_result(message)
    assert result.timing is not None
    assert (result.approval_id, result.arguments_digest) == ("a", b"d" * 32)
    assert (result.timing.approval_ms, result.timing.queue_ms) == (7, 3)


async def test_approver_in_another_thread_needs_no_loop(fake_sidecar: FakeSidecar) -> None:
    decided: list[str] = []

    def approve() -> None:
        with SyncApprovals(fake_sidecar.control_endpoint, backoff=QUICK) as approvals:
            for update in approvals.watch():
                for approval in update.approvals:
                    if approval.pending:
                        assert approvals.get(approval.approval_id).ref == approval.ref
                        assert [item.approval_id for item in approvals.list()] == [approval.approval_id]
                        decided.append(approvals.approve_session(approval).status)
                        assert [item.kind for item in approvals.sessions.grants("s")] == ["tool"]
                        return

    async with guarded(fake_sidecar) as (client, _, removed):
        thread = threading.Thread(target=approve)
        thread.start()
        await client.run_turn("s", [REMOVE])
        await asyncio.to_thread(thread.join)
        await fake_sidecar.until(lambda: fake_sidecar.approvals.watchers == 0)
    assert (decided, removed) == (["taken"], ["/tmp/x"])


@pytest.mark.parametrize(
    ("decide", "choice"),
    [
        (lambda it, ref: it.approve_once(ref, "m"), av.APPROVAL_CHOICE_ONCE),
        (lambda it, ref: it.approve_session(ref, "tool", "m"), av.APPROVAL_CHOICE_SESSION),
        (lambda it, ref: it.deny(ref, "m"), av.APPROVAL_CHOICE_DENY),
        (lambda it, ref: it.edit(ref, {}, "m"), av.APPROVAL_CHOICE_EDIT),
        (lambda it, ref: it.respond(ref, "x", "m"), av.APPROVAL_CHOICE_RESPOND),
        (lambda it, ref: it.cancel_turn(ref, "m"), av.APPROVAL_CHOICE_CANCEL_TURN),
        (lambda it, ref: it.decide([ApprovalDecision(ref, "deny", "m")])[0].raise_for_error(), av.APPROVAL_CHOICE_DENY),
    ],
)
def test_every_decision_blocks_in_the_sync_twin(fake_sidecar: FakeSidecar, decide: Any, choice: int) -> None:
    ref = ApprovalRef("a", b"d", "e")
    with (
        SyncApprovals(fake_sidecar.control_endpoint) as approvals,
        pytest.raises(CallgateError, match="approval_not_found"),
    ):
        decide(approvals, ref)
    (sent,) = fake_sidecar.approvals.decides[0].decisions
    assert (sent.approval_id, sent.choice, sent.message) == ("a", choice, "m")


def test_sync_client_reads_turns_that_wait(fake_sidecar: FakeSidecar) -> None:
    client = SyncClient(fake_sidecar.endpoint, executor_name="sync")

    @client.tool(risk="dangerous", kind="delete")
    def remove(path: str) -> str:
        """Removes."""
        return path

    fake_sidecar.ask("remove")
    with client, SyncApprovals(fake_sidecar.control_endpoint) as approvals:
        client.wait_ready()
        for event in client.iter_turn("s", [REMOVE]):
            if isinstance(event, ApprovalRequired):
                approvals.deny(approvals.get(event.approvals[0].approval_id), "no")
        assert [item.state for item in approvals.list(session_id="s", states=["denied"])] == ["denied"]


# Where approvers are served.


@pytest.mark.parametrize(
    ("argument", "environ", "endpoint"),
    [
        (None, {"CALLGATE_SOCKET_DIR": "/s"}, "unix:///s/control.sock"),
        (None, {"CALLGATE_ENDPOINT": "unix:///r/callgate.sock"}, "unix:///r/control.sock"),
        (None, {"CALLGATE_ENDPOINT": "unix:///r/other.sock"}, "unix:///r/other.sock"),
        (None, {"CALLGATE_ENDPOINT": "http://127.0.0.1:50551"}, "http://127.0.0.1:50551"),
        ("unix:///r/callgate.sock", {"CALLGATE_ENDPOINT": "http://127.0.0.1:1"}, "unix:///r/callgate.sock"),
    ],
)
def test_approvers_go_to_the_control_socket_beside(
    argument: str | None, environ: dict[str, str], endpoint: str
) -> None:
    assert resolve_control_endpoint(argument, environ).text == endpoint
