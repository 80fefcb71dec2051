"""Where the client looks for the sidecar and its token."""

from __future__ import annotations

from pathlib import Path

import pytest

from callgate import CallgateError, Client
from callgate._wire.endpoint import default_endpoint, resolve_endpoint, resolve_token


@pytest.mark.parametrize(
    ("environ", "endpoint"),
    [
        ({"CALLGATE_SOCKET_DIR": "/s", "XDG_RUNTIME_DIR": "/r"}, "unix:///s/callgate.sock"),
        ({"XDG_RUNTIME_DIR": "/r", "CALLGATE_DATA_DIR": "/d"}, "unix:///r/callgate/callgate.sock"),
        ({"CALLGATE_DATA_DIR": "/d", "XDG_STATE_HOME": "/x"}, "unix:///d/run/callgate.sock"),
        ({"XDG_STATE_HOME": "/x", "HOME": "/h"}, "unix:///x/callgate/run/callgate.sock"),
        ({"HOME": "/h"}, "unix:///h/.local/state/callgate/run/callgate.sock"),
    ],
)
def test_default_socket_follows_the_environment(environ: dict[str, str], endpoint: str) -> None:
    assert default_endpoint(environ) == endpoint


@pytest.mark.parametrize(
    ("text", "target", "secure", "local"),
    [
        ("unix:///run/c.sock", "unix:/run/c.sock", False, True),
        ("http://127.0.0.1:50551", "127.0.0.1:50551", False, True),
        ("http://[::1]:50551", "[::1]:50551", False, True),
        ("http://10.0.0.1:1", "10.0.0.1:1", False, False),
        ("https://gate.example:443", "gate.example:443", True, False),
    ],
)
def test_endpoint_is_read(text: str, target: str, secure: bool, local: bool) -> None:
    endpoint = resolve_endpoint(text, {})
    assert (endpoint.target, endpoint.secure, endpoint.local) == (target, secure, local)


@pytest.mark.parametrize(
    "text", ["127.0.0.1:1", "http://host", "http://host:x", "unix://relative/p", "ws://h:1", "unix:///" + "x" * 107]
)
def test_bad_endpoint_is_refused_with_a_reason(text: str) -> None:
    with pytest.raises(CallgateError) as caught:
        resolve_endpoint(text, {})
    assert caught.value.code == "endpoint_invalid"


def test_argument_wins_over_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLGATE_ENDPOINT", "http://127.0.0.1:2")
    assert Client().endpoint.target == "127.0.0.1:2"
    assert Client("http://127.0.0.1:1").endpoint.target == "127.0.0.1:1"


def test_token_comes_from_argument_then_variable_then_file(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("from-file\n")
    environ = {"CALLGATE_TOKEN": "from-env", "CALLGATE_TOKEN_FILE": str(path)}
    assert resolve_token("from-argument", environ) == "from-argument"
    assert resolve_token(None, environ) == "from-env"
    assert resolve_token(None, {"CALLGATE_TOKEN_FILE": str(path)}) == "from-file"
    assert resolve_token(None, {}) is None


def test_renewed_token_file_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "token"
    environ = {"CALLGATE_TOKEN_FILE": str(path)}
    path.write_text("old")
    assert resolve_token(None, environ) == "old"
    path.write_text("new")
    assert resolve_token(None, environ) == "new"


def test_unreadable_token_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CallgateError) as caught:
        resolve_token(None, {"CALLGATE_TOKEN_FILE": str(tmp_path / "absent")})
    assert caught.value.code == "token_unreadable"
