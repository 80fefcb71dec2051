"""A real sidecar in a folder of its own. `CALLGATE_BIN` names the binary."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from callgate import Approvals, Backoff, Client

QUICK = Backoff(initial=0.02, cap=0.2)
READY_SECONDS = 15.0
STOP_SECONDS = 10.0


class Sidecar:
    """One `callgate serve`. `settings` are keys of its configuration, as the environment spells them."""

    def __init__(self, binary: str, **settings: str) -> None:
        self._settings = settings
        # Short, because the path of a socket is.
        self.folder = Path(tempfile.mkdtemp(prefix="cgr-", dir="/tmp"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.endpoint = f"unix://{self.folder}/s/callgate.sock"
        self.control_endpoint = f"unix://{self.folder}/s/control.sock"
        self.tcp_endpoint = f"http://127.0.0.1:{self.port}"
        self._binary = binary
        self._process: subprocess.Popen[bytes] | None = None

    def environment(self) -> dict[str, str]:
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith(("CALLGATE", "XDG"))},
            "CALLGATE_DATA_DIR": str(self.folder / "d"),
            "CALLGATE_SOCKET_DIR": str(self.folder / "s"),
            "CALLGATE__SERVER__TCP": f"127.0.0.1:{self.port}",
            "XDG_CONFIG_HOME": str(self.folder / "c"),
            **self._settings,
        }

    def start(self) -> None:
        """Starts it, and returns when its health says that it is ready."""
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binary, "serve"], env=self.environment(), stdout=log, stderr=subprocess.STDOUT
            )
        asyncio.run(self._ready())

    async def _ready(self) -> None:
        async with Client(self.endpoint) as client:
            try:
                await client.wait_ready(READY_SECONDS)
            except Exception as error:
                raise AssertionError(f"the sidecar is not ready: {error}\n{self.log()}") from error

    def stop(self, number: int = signal.SIGTERM) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.send_signal(number)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def restart(self, number: int) -> None:
        """Ends it with a signal and starts it again with what it has kept."""
        self.stop(number)
        self.start()

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-4_000:]

    def token(self, role: str) -> str:
        return (self.folder / "d" / "tokens" / f"{role}.token").read_text().strip()

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def client(self, **options: object) -> Client:
        return Client(**{"endpoint": self.endpoint, "backoff": QUICK, **options})  # type: ignore[arg-type]

    def approver(self, **options: object) -> Approvals:
        return Approvals(**{"endpoint": self.control_endpoint, "backoff": QUICK, **options})  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def binary() -> str:
    path = os.environ.get("CALLGATE_BIN", "")
    if not path:
        pytest.fail("set CALLGATE_BIN to the callgate binary, e.g. target/debug/callgate")
    if not os.access(path, os.X_OK):
        pytest.fail(f"CALLGATE_BIN is {path}, which cannot be executed")
    return path


@pytest.fixture(scope="module")
def sidecar(binary: str) -> Iterator[Sidecar]:
    """One that the tests of a module share; they may not restart it."""
    running = Sidecar(binary)
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
def own_sidecar(binary: str) -> Iterator[Sidecar]:
    """One that a test may end."""
    running = Sidecar(binary)
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture
def diagnosing(binary: str) -> Iterator[Sidecar]:
    """One that wants a diagnosis of a run after every round without calls."""
    keys = {"CALLGATE__LOOP__DIAGNOSIS__AFTER_ROUNDS": "1", "CALLGATE__LOOP__DIAGNOSIS__EVERY_ROUNDS": "1"}
    running = Sidecar(binary, **keys)
    try:
        running.start()
        yield running
    finally:
        running.close()
