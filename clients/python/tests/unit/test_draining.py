"""The end of an executor: what runs is finished, what has not begun is given back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from callgate import ClientClosed, ClientState, ToolContext
from callgate.testing import FakeSidecar

SRC = Path(__file__).parents[2] / "src"


async def test_close_finishes_what_runs_and_gives_back_what_has_not_begun(fake_sidecar: FakeSidecar) -> None:
    states: list[ClientState] = []
    client = fake_sidecar.client(max_concurrency=1, on_state=states.append)
    gate = threading.Event()

    @client.tool
    def wait() -> str:
        """Waits."""
        gate.wait(10)
        return "done"

    await client.wait_ready()
    running = await fake_sidecar.start_call("wait")
    waiting = await fake_sidecar.start_call("wait")
    await waiting.until(lambda: waiting.accepted == [True])
    closing = asyncio.ensure_future(client.aclose())
    await waiting.until(lambda: waiting.abandoned)
    late = await fake_sidecar.start_call("wait")
    await late.result()
    gate.set()
    assert (await running.result()).text == "done"
    await closing
    (instance,) = fake_sidecar.executors.instances.values()
    assert len(instance.drained) == 1
    assert late.rejected == "draining"
    assert states == [ClientState.CONNECTING, ClientState.READY, ClientState.DRAINING, ClientState.CLOSED]


async def test_handler_that_runs_on_after_the_drain_is_told_to_stop(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()
    reasons: list[str | None] = []

    @client.tool
    async def endless(ctx: ToolContext) -> None:
        """Waits."""
        ctx.progress("began")
        try:
            await asyncio.Event().wait()
        finally:
            reasons.append(ctx.cancellation.reason)

    await client.wait_ready()
    call = await fake_sidecar.start_call("endless")
    await call.until(lambda: call.progress)
    await client.aclose(drain_timeout=0.05)
    assert (await call.result()).outcome == "cancelled"
    assert reasons == ["shutdown"]


async def test_sidecar_that_never_answers_the_drain_does_not_hold_up_the_end(fake_sidecar: FakeSidecar) -> None:
    fake_sidecar.executors.answer_drain = False
    client = fake_sidecar.client()

    @client.tool
    def here() -> None:
        """Is here."""

    await client.wait_ready()
    await asyncio.wait_for(client.aclose(drain_timeout=0.1), 5)


async def test_result_is_still_acknowledged_through_a_loss_during_the_drain(fake_sidecar: FakeSidecar) -> None:
    from callgate import Backoff

    client = fake_sidecar.client(backoff=Backoff(initial=0.01, cap=0.05))
    gate = threading.Event()

    @client.tool
    def wait() -> str:
        """Waits."""
        gate.wait(10)
        return "done"

    await client.wait_ready()
    call = await fake_sidecar.start_call("wait")
    await call.until(lambda: call.accepted)
    closing = asyncio.ensure_future(client.aclose())
    (instance,) = fake_sidecar.executors.instances.values()
    await fake_sidecar.until(lambda: instance.drained)
    fake_sidecar.drop_streams()
    await fake_sidecar.until(lambda: len(instance.hellos) == 2)
    gate.set()
    assert (await call.result()).text == "done"
    await closing
    assert len(instance.drained) == 2


async def test_closed_client_says_so_and_may_be_closed_again(fake_sidecar: FakeSidecar) -> None:
    client = fake_sidecar.client()
    await client.wait_ready()
    await client.aclose()
    await client.aclose()
    with pytest.raises(ClientClosed):
        await client.health()
    with pytest.raises(ClientClosed):
        await client.start()


PROGRAM = """
import sys, threading
import callgate

client = callgate.Client(sys.argv[1], executor_name="program")

@client.tool
def wait(ctx: callgate.ToolContext) -> str:
    "Waits."
    ctx.progress("began")
    print("began", flush=True)
    sys.stdin.readline()
    return "done"

client.run()
print("left", flush=True)
"""


async def test_run_drains_on_sigterm_and_returns(fake_sidecar: FakeSidecar) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, fake_sidecar.endpoint],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        text=True,
    )
    with process:
        assert process.stdin is not None
        call = await fake_sidecar.start_call("wait", wait=20)
        await call.until(lambda: call.progress)
        process.send_signal(signal.SIGTERM)
        (instance,) = fake_sidecar.executors.instances.values()
        await fake_sidecar.until(lambda: instance.drained)
        process.stdin.write("\n")
        process.stdin.flush()
        assert (await call.result()).text == "done"
        output, _ = await asyncio.to_thread(process.communicate)
    assert output == "began\nleft\n"
    assert process.returncode == 0


async def test_run_ends_with_an_error_when_another_try_cannot_help(fake_sidecar: FakeSidecar) -> None:
    import grpc

    fake_sidecar.executors.abort_hello = (grpc.StatusCode.PERMISSION_DENIED, "not yours")
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, fake_sidecar.endpoint],
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(SRC)},
        text=True,
    )
    with process:
        _, errors = await asyncio.to_thread(process.communicate)
    assert process.returncode == 1
    assert "PermissionDenied" in errors
