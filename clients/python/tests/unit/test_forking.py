"""A client does not survive a fork, and says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import callgate
from callgate.testing import FakeSidecar

SRC = Path(__file__).parents[2] / "src"

PROGRAM = """
import asyncio, os, sys
import callgate

async def main():
    idle = callgate.Client(sys.argv[1])
    used = callgate.Client(sys.argv[1])
    assert await used.health() == "serving"
    child = os.fork()
    if child == 0:
        try:
            await used.health()
        except callgate.ClientForked as error:
            print(error.code, flush=True)
            os._exit(0)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    print("child", os.waitstatus_to_exitcode(status), flush=True)
    # The parent goes on as before.
    print(await used.health(), flush=True)
    await used.aclose()

asyncio.run(main())
"""

UNUSED = """
import os, sys
import callgate

client = callgate.Client(sys.argv[1], executor_name="forked")
child = os.fork()
if child == 0:
    import asyncio
    async def main():
        print(await client.health(), flush=True)
        await client.aclose()
    asyncio.run(main())
    os._exit(0)
_, status = os.waitpid(child, 0)
print("child", os.waitstatus_to_exitcode(status), flush=True)
"""


def output_of(program: str, endpoint: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program, endpoint],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(SRC), "GRPC_VERBOSITY": "ERROR"},
        text=True,
        timeout=25,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_client_that_was_used_before_the_fork_is_refused_in_the_child(fake_sidecar: FakeSidecar) -> None:
    assert output_of(PROGRAM, fake_sidecar.endpoint) == "client_forked\nchild 0\nserving\n"


def test_client_that_was_only_made_before_the_fork_works_in_the_child(fake_sidecar: FakeSidecar) -> None:
    assert output_of(UNUSED, fake_sidecar.endpoint) == "serving\nchild 0\n"


def test_error_in_the_child_says_what_to_do() -> None:
    client = callgate.Client("unix:///tmp/callgate-nobody.sock")
    client._link.forked = True
    with pytest.raises(callgate.ClientForked, match="make one in the child"):
        client._open()
