"""Where the sidecar is and who we are: argument, then environment, then default."""

from __future__ import annotations

import ipaddress
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ..errors import CallgateError

log = logging.getLogger("callgate")

_SOCKET_NAME = "callgate.sock"
_CONTROL_NAME = "control.sock"
_SOCKET_PATH_MAX = 107


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One address. `target` is grpc's form of it."""

    text: str
    target: str
    secure: bool
    local: bool


@dataclass(frozen=True, slots=True)
class TLS:
    """How to trust the sidecar, and how it trusts us. All in PEM; None: the system's roots, no certificate."""

    root_certificates: bytes | None = None
    private_key: bytes | None = None
    certificate_chain: bytes | None = None


def default_endpoint(environ: Mapping[str, str]) -> str:
    """The sidecar's default Unix socket."""
    if directory := environ.get("CALLGATE_SOCKET_DIR"):
        return f"unix://{Path(directory).absolute() / _SOCKET_NAME}"
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        return f"unix://{Path(runtime) / 'callgate' / _SOCKET_NAME}"
    if data := environ.get("CALLGATE_DATA_DIR"):
        return f"unix://{Path(data).absolute() / 'run' / _SOCKET_NAME}"
    state = environ.get("XDG_STATE_HOME")
    home = Path(state) if state else Path(environ.get("HOME", "~")).expanduser() / ".local" / "state"
    return f"unix://{home / 'callgate' / 'run' / _SOCKET_NAME}"


def resolve_endpoint(argument: str | None, environ: Mapping[str, str] = os.environ) -> Endpoint:
    """Reads an endpoint.

    Raises:
        CallgateError: `endpoint_invalid`; the text is no `unix:///…`, `http://…`
            or `https://…` with a port, or names a socket path that is too long.
    """
    text = argument or environ.get("CALLGATE_ENDPOINT") or default_endpoint(environ)
    parts = urlsplit(text)
    if parts.scheme == "unix":
        path = parts.path
        if parts.netloc or not path.startswith("/"):
            raise _invalid(text, "a Unix socket needs an absolute path: unix:///run/callgate/callgate.sock")
        if len(os.fsencode(path)) > _SOCKET_PATH_MAX:
            raise _invalid(text, f"the path is longer than {_SOCKET_PATH_MAX} bytes")
        return Endpoint(text, f"unix:{path}", secure=False, local=True)
    if parts.scheme in {"http", "https"}:
        try:
            port = parts.port
        except ValueError:
            port = None
        if not parts.hostname or port is None:
            raise _invalid(text, "host and port are needed: http://127.0.0.1:50551")
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        return Endpoint(text, f"{host}:{port}", parts.scheme == "https", _is_loopback(parts.hostname))
    if parts.scheme in {"ws", "wss"}:
        raise _invalid(text, "this SDK speaks gRPC; name the same address with http or https")
    raise _invalid(text, "it must begin with unix:///, http:// or https://")


def resolve_control_endpoint(argument: str | None, environ: Mapping[str, str] = os.environ) -> Endpoint:
    """Reads the endpoint of an approver.

    An argument is taken as it is. The environment and the default name the sidecar;
    if that is its socket `callgate.sock`, approvers are served at `control.sock` beside it.

    Raises:
        CallgateError: `endpoint_invalid`.
    """
    if argument:
        return resolve_endpoint(argument, environ)
    text = environ.get("CALLGATE_ENDPOINT") or default_endpoint(environ)
    return resolve_endpoint(control_endpoint_beside(text), environ)


def control_endpoint_beside(text: str) -> str:
    """Where the sidecar of that endpoint serves approvers and hooks, as far as its name tells."""
    folder, slash, name = text.rpartition("/")
    if text.startswith("unix://") and name == _SOCKET_NAME:
        return folder + slash + _CONTROL_NAME
    return text


def resolve_token(argument: str | None, environ: Mapping[str, str] = os.environ) -> str | None:
    """The bearer token, or None. A file is read anew each time, so that it may be renewed.

    Raises:
        CallgateError: `token_unreadable`; the file that the environment names cannot be read.
    """
    if argument is not None:
        return argument
    if token := environ.get("CALLGATE_TOKEN"):
        return token
    if path := environ.get("CALLGATE_TOKEN_FILE"):
        try:
            return Path(path).read_text(encoding="utf-8").strip()
        except OSError as error:
            raise CallgateError(f"CALLGATE_TOKEN_FILE cannot be read: {error}", code="token_unreadable") from error
    return None


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _invalid(text: str, why: str) -> CallgateError:
    return CallgateError(f"`{text}` is not an endpoint: {why}", code="endpoint_invalid")
