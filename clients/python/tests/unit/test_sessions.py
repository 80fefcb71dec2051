"""Sessions: made, changed, forked, closed, and their grants."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, get_args

import pytest

from callgate import Conflict, NotFound, RevokedGrants, Session, SessionSettings, SyncClient
from callgate import session as se
from callgate._gen.callgate.v1 import permission_pb2 as pe
from callgate._gen.callgate.v1 import session_service_pb2 as sv
from callgate._gen.callgate.v1 import types_pb2 as ty
from callgate._wire import session_calls
from callgate.testing import FakeSidecar

ALL = {
    "mode": "plan",
    "batch_policy": "eager_safe",
    "max_parallel": 3,
    "toolset": "small",
    "cwd": "/work",
    "approvers": "connected",
    "approval_ttl": 1.5,
}


async def all_of(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def on_wire(sidecar: FakeSidecar, change: Callable[[], None]) -> None:
    done = threading.Event()
    sidecar._post(lambda: (change(), done.set()))
    assert done.wait(5)


def grant(number: int, session_id: str = "s") -> pe.Grant:
    return pe.Grant(
        grant_id=f"g{number}",
        session_id=session_id,
        kind=pe.GRANT_KIND_COMMAND_PREFIX,
        rule="run_shell(git status*)",
        state=pe.GRANT_STATE_ACTIVE,
        uses=number,
    )


async def test_session_is_made_with_its_settings_and_read_back(fake_sidecar: FakeSidecar) -> None:
    async with fake_sidecar.client() as client:
        made = await client.sessions.create("s", **ALL)
        assert made.settings == SessionSettings(**ALL)
        assert (made.session_id, made.root_session_id, made.parent_session_id, made.depth) == ("s", "s", "", 0)
        assert (made.mode, made.open, made.closed_at_ms) == ("plan", True, None)
        assert await client.sessions.get("s") == await client.sessions.get(made) == made
        plain = await client.sessions.create()
        assert plain.session_id
        assert plain.settings == SessionSettings("default", "freeze_atomic", 32, "", "", "expected", 0.0)
        with pytest.raises(Conflict) as caught:
            await client.sessions.create("s")
        assert caught.value.code == "already_exists"
        with pytest.raises(NotFound):
            await client.sessions.get("nowhere")


async def test_change_leaves_alone_what_it_does_not_name(fake_sidecar: FakeSidecar) -> None:
    async with fake_sidecar.client() as client:
        made = await client.sessions.create("s", **ALL)
        changed = await client.sessions.update(made, max_parallel=9)
        assert changed.session.settings == SessionSettings(**{**ALL, "max_parallel": 9})
        assert (changed.released, changed.denied) == (0, 0)
        (sent,) = fake_sidecar.sessions.updates
        assert sent == sv.UpdateSessionRequest(session_id="s", settings=sv.SessionSettings(max_parallel=9))


async def test_zero_and_empty_are_sent_as_what_they_are(fake_sidecar: FakeSidecar) -> None:
    async with fake_sidecar.client() as client:
        await client.sessions.create("s", **ALL)
        await client.sessions.update("s", toolset="", cwd="", approval_ttl=0)
    settings = fake_sidecar.sessions.updates[0].settings
    for field in ("toolset", "cwd", "approval_ttl_ms"):
        assert settings.HasField(field)
    assert not settings.HasField("max_parallel")
    assert (settings.toolset, settings.cwd, settings.approval_ttl_ms) == ("", "", 0)


async def test_mode_is_changed_only_if_nobody_changed_the_session_meanwhile(fake_sidecar: FakeSidecar) -> None:
    async with fake_sidecar.approver() as approvals, fake_sidecar.client() as client:
        seen = await client.sessions.create("s")
        changed = await approvals.sessions.set_mode(seen, "accept_edits", etag=seen.etag)
        assert (changed.session.mode, changed.session.etag == seen.etag) == ("accept_edits", False)
        with pytest.raises(Conflict) as caught:
            await approvals.sessions.set_mode(seen, "auto", etag=seen.etag)
        assert caught.value.code == "etag_mismatch"
        assert (await approvals.sessions.set_mode("s", "auto")).session.mode == "auto"


async def test_child_session_differs_where_it_is_told_to_and_is_never_freer(fake_sidecar: FakeSidecar) -> None:
    async with fake_sidecar.client() as client:
        parent = await client.sessions.create("p", **ALL)
        child = await client.sessions.fork(parent, "c", inherit_grants=True, cwd="/other")
        assert (child.parent_session_id, child.root_session_id, child.depth, child.max_mode) == ("p", "p", 1, "plan")
        assert child.settings == SessionSettings(**{**ALL, "cwd": "/other"})
        with pytest.raises(Conflict) as caught:
            await client.sessions.fork("p", mode="auto")
        assert caught.value.code == "mode_not_allowed"


async def test_closed_session_is_listed_only_if_it_is_asked_for(fake_sidecar: FakeSidecar) -> None:
    async with fake_sidecar.client() as client:
        for name in ("a", "b", "c", "d", "e"):
            await client.sessions.create(name)
        closed = await client.sessions.close("b", reason="done")
        assert (closed.open, closed.closed_at_ms is None) == (False, False)
        on_wire(fake_sidecar, lambda: setattr(fake_sidecar.sessions, "page_size", 2))
        names = [item.session_id for item in await all_of(client.sessions.list())]
        assert names == ["e", "d", "c", "a"]
        everything = await all_of(client.sessions.list(include_closed=True))
        assert [item.session_id for item in everything] == ["e", "d", "c", "b", "a"]
        assert [item.session_id for item in await all_of(client.sessions.list(root_session_id="d"))] == ["d"]
        with pytest.raises(Conflict) as caught:
            await client.sessions.set_mode("b", "auto")
        assert caught.value.code == "session_closed"


async def test_grants_are_listed_page_by_page_and_taken_back_by_name(fake_sidecar: FakeSidecar) -> None:
    on_wire(fake_sidecar, lambda: fake_sidecar.approvals.grants.extend(grant(n) for n in range(5)))
    on_wire(fake_sidecar, lambda: fake_sidecar.approvals.grants.append(grant(9, "other")))
    on_wire(fake_sidecar, lambda: setattr(fake_sidecar.sessions, "page_size", 2))
    async with fake_sidecar.approver() as approvals:
        found = await all_of(approvals.sessions.grants("s"))
        assert [item.grant_id for item in found] == ["g4", "g3", "g2", "g1", "g0"]
        assert (found[0].kind, found[0].rule, found[0].uses) == ("command_prefix", "run_shell(git status*)", 4)
        revoked = await approvals.sessions.revoke("s", ["g1", found[0]])
        assert isinstance(revoked, RevokedGrants)
        assert [(item.grant_id, item.active, item.revoked_by) for item in revoked.grants] == [
            ("g1", False, "approver"),
            ("g4", False, "approver"),
        ]
        assert revoked.mode == "default"
        left = await all_of(approvals.sessions.grants("s", state="active"))
        assert [item.grant_id for item in left] == ["g3", "g2", "g0"]
        with pytest.raises(NotFound):
            await approvals.sessions.revoke("s", ["g0", "g9"])
        assert len(await all_of(approvals.sessions.grants("s", state="active"))) == 3
        assert len((await approvals.sessions.revoke("s", None)).grants) == 5
        assert await all_of(approvals.sessions.grants("s", state="active")) == []
        assert len(await all_of(approvals.sessions.grants("other", state="active"))) == 1


@pytest.mark.parametrize("nothing", [[], (), "", "g1"])
async def test_empty_list_never_takes_all_grants_back(fake_sidecar: FakeSidecar, nothing: Any) -> None:
    async with fake_sidecar.approver() as approvals:
        with pytest.raises(ValueError, match="None for all"):
            await approvals.sessions.revoke("s", nothing)


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [({"mode": "free"}, ValueError), ({"batch_policy": "thaw"}, ValueError), ({"approvers": "maybe"}, ValueError)],
)
async def test_setting_that_does_not_exist_is_refused_here(
    fake_sidecar: FakeSidecar, wrong: Any, kind: type[Exception]
) -> None:
    async with fake_sidecar.client() as client:
        with pytest.raises(kind):
            await client.sessions.update("s", **wrong)
        with pytest.raises(TypeError):
            await client.sessions.set_mode("s", None)  # type: ignore[arg-type]
        with pytest.raises(TypeError):
            await client.sessions.get(5)  # type: ignore[arg-type]
    assert fake_sidecar.sessions.updates == []


def test_settings_that_are_newer_than_the_sdk_are_the_safe_ones() -> None:
    newer: Any = 99
    settings = session_calls.settings_of(sv.SessionSettings(mode=newer, batch_policy=newer, approvers=newer))
    assert (settings.mode, settings.batch_policy, settings.approvers) == ("plan", "freeze_atomic", "none")


def test_every_availability_of_the_contract_has_its_name() -> None:
    names = {name.removeprefix("APPROVER_AVAILABILITY_").lower() for name in sv.ApproverAvailability.keys()}  # noqa: SIM118
    assert names - {"unspecified"} == set(get_args(se.ApproverAvailability)) == set(session_calls.APPROVERS)


def test_session_tells_all_that_the_sidecar_knows() -> None:
    message = sv.Session(
        session_id="c",
        parent_session_id="p",
        root_session_id="r",
        depth=2,
        settings=sv.SessionSettings(mode=pe.MODE_AUTO, batch_policy=ty.BATCH_POLICY_FREEZE_PARTIAL),
        max_mode=pe.MODE_AUTO,
        created_at_ms=1,
        used_at_ms=2,
        closed_at_ms=3,
        pending_approvals=4,
        etag="e",
    )
    settings = SessionSettings("auto", "freeze_partial")
    assert session_calls.session(message) == Session("c", "p", "r", 2, settings, "auto", 1, 2, 3, 4, "e")


def test_every_question_blocks_in_the_sync_twin(fake_sidecar: FakeSidecar) -> None:
    on_wire(fake_sidecar, lambda: fake_sidecar.approvals.grants.append(grant(1)))
    with SyncClient(fake_sidecar.endpoint) as client:
        sessions = client.sessions
        made = sessions.create("s", mode="plan")
        assert sessions.get("s") == made
        assert sessions.set_mode("s", "auto", etag=made.etag).session.mode == "auto"
        assert sessions.update("s", cwd="/x").session.settings.cwd == "/x"
        assert sessions.fork("s", "c", mode="plan").parent_session_id == "s"
        assert [item.session_id for item in sessions.list()] == ["c", "s"]
        assert [item.grant_id for item in sessions.grants("s", state="active")] == ["g1"]
        assert not sessions.revoke("s", ["g1"]).grants[0].active
        assert not sessions.close("c", reason="done").open
        assert [item.session_id for item in sessions.list(root_session_id="s", include_closed=True)] == ["c", "s"]
