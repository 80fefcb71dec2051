"""What the SDK tells the sidecar of paths."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from callgate import Subject
from callgate._gen.callgate.v1 import executor_service_pb2 as ex
from callgate.facts import at, path_fact, resolve
from callgate.testing import FakeSidecar


def read_file(path: str) -> str:
    """Reads."""
    return path


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    fact = path_fact("/path", str(tmp_path / "link"), "")
    assert fact.value == str(tmp_path / "link")
    assert fact.canonical == os.path.realpath(tmp_path / "secret")
    assert fact.exists is True


def test_the_directory_of_what_does_not_exist_is_resolved(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "dir").symlink_to(tmp_path / "real")
    for name in ("new", "new/deeper", "new/../other"):
        fact = path_fact("/path", str(tmp_path / "dir" / name), "")
        assert fact.canonical == os.path.normpath(os.path.realpath(tmp_path / "real") + "/" + name)
        assert fact.exists is False


def test_a_link_that_leads_nowhere_is_what_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere" / "new")
    fact = path_fact("/path", str(tmp_path / "link"), "")
    assert fact.canonical == os.path.realpath(tmp_path) + "/elsewhere/new"
    assert fact.exists is False


def test_relative_paths_are_meant_from_the_session_or_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    assert path_fact("/path", "a", str(tmp_path)).canonical == os.path.realpath(tmp_path / "a")
    assert path_fact("/path", "../a", str(other)).canonical == os.path.realpath(tmp_path / "a")
    assert path_fact("/path", "a", "").canonical == os.path.realpath(other / "a")


def test_what_cannot_be_told_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for value in (str(tmp_path / "loop"), "a\0b", "\ud800"):
        fact = path_fact("/path", value, str(tmp_path))
        assert fact.canonical == ""
        assert fact.error != ""


def test_pointers_find_what_stands_in_the_arguments() -> None:
    arguments = {"paths": ["a", "b"], "a/b": {"~": "c"}}
    assert at(arguments, "/paths/1") == "b"
    assert at(arguments, "/a~1b/~0") == "c"
    for missing in ("/paths/2", "/paths/-", "/nothing", "/paths/1/2"):
        assert at(arguments, missing) is None
    facts = resolve(b'{"paths":["a",1]}', ["/paths/0", "/paths/1", "/paths"], "/data")
    assert [fact.pointer for fact in facts] == ["/paths/0"]
    assert resolve(b"not json", ["/a"], "") == ()


async def test_the_sidecar_is_answered_and_told_so(fake_sidecar: FakeSidecar, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc")
    client = fake_sidecar.client()
    client.tool(subject=Subject("/path", "path"))(read_file)
    async with client:
        await client.wait_ready(10)
        instance = fake_sidecar.executors.owner_of("read_file")
        assert instance is not None
        assert ex.EXECUTOR_CAPABILITY_RESOLVE_FACTS in instance.hellos[-1].capabilities
        stream = instance.stream
        assert stream is not None
        request = ex.ResolveFactsRequest(
            request_id="q",
            tool_name="read_file",
            call_id="c",
            arguments_json=b'{"path":"link/passwd"}',
            pointers=["/path", "/other"],
            cwd=str(tmp_path),
        )
        fake_sidecar.send_raw(ex.ConnectResponse(resolve_facts=request))
        await fake_sidecar.until(lambda: bool(stream.facts))
    (result,) = stream.facts
    assert result.request_id == "q"
    (fact,) = result.facts
    assert (fact.pointer, fact.value) == ("/path", "link/passwd")
    assert fact.canonical == os.path.realpath("/etc/passwd")
    assert fact.exists == os.path.exists("/etc/passwd")


async def test_whatever_looking_at_paths_raises_is_answered_at_once_and_counts_no_longer(
    fake_sidecar: FakeSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    def leaves(*_: object) -> None:
        raise SystemExit(3)

    monkeypatch.setattr("callgate.facts.resolve", leaves)
    monkeypatch.setattr("callgate.questions.QUESTIONS_MAX", 1)
    client = fake_sidecar.client()
    client.tool(subject=Subject("/path", "path"))(read_file)
    async with client:
        await client.wait_ready(10)
        instance = fake_sidecar.executors.owner_of("read_file")
        assert instance is not None
        stream = instance.stream
        assert stream is not None
        for count in (1, 2):
            request = ex.ResolveFactsRequest(request_id=str(count), tool_name="read_file", pointers=["/path"])
            fake_sidecar.send_raw(ex.ConnectResponse(resolve_facts=request))
            await fake_sidecar.until(lambda count=count: len(stream.facts) == count)
        assert [list(one.facts) for one in stream.facts] == [[], []]
        assert client._stream is not None
        assert client._stream._questions._open == 0


async def test_it_can_be_switched_off(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client(resolve_facts=False)
    client.tool(read_file)
    async with client:
        await client.wait_ready(10)
        instance = fake_sidecar.executors.owner_of("read_file")
        assert instance is not None
        assert ex.EXECUTOR_CAPABILITY_RESOLVE_FACTS not in instance.hellos[-1].capabilities
