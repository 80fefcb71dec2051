"""A hook process that has no opinion, for the benchmark: `hook.py ENDPOINT [--bare]`.

With `--bare` it is the bare stream that the SDK's is compared with. Ends with its
standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import Any

import grpc.aio

from callgate import HookInput, Hooks
from callgate._gen.callgate.v1 import hook_service_pb2 as hk
from callgate._gen.callgate.v1 import hook_service_pb2_grpc as hk_rpc
from callgate._wire.channel import EOF


async def serve(endpoint: str) -> None:
    """Answers with the SDK."""
    hooks = Hooks(endpoint)

    @hooks.before_tool_call(hook_id="bench")
    async def bench(_: HookInput) -> None:
        return None

    # `run` does not say when it is ready.
    serving = asyncio.ensure_future(hooks._run())
    await asyncio.sleep(0)
    await hooks.wait_ready()
    print("ready", flush=True)
    await serving


async def serve_bare(endpoint: str) -> None:
    """Answers on a bare stream of grpc.aio, one message in, one message out."""
    # Of a socket's path grpc makes an authority that servers refuse.
    options = (("grpc.default_authority", "localhost"),)
    target = "unix:" + endpoint.removeprefix("unix://")
    # Whoever asks ends first, and need not do so in order.
    ended = contextlib.suppress(grpc.aio.AioRpcError)
    async with grpc.aio.insecure_channel(target, options=options) as channel:
        stub: Any = hk_rpc.HookServiceStub(channel)
        stream = stub.ConnectHook()
        hook = hk.HookRegistration(hook_id="bench", points=[hk.HOOK_POINT_BEFORE_TOOL_CALL])
        await stream.write(hk.ConnectHookRequest(hello=hk.HookHello(hooks=[hook], instance_id="bare")))
        with ended:
            await answer(stream)


async def answer(stream: Any) -> None:
    """Says PROCEED until the stream ends."""
    while (message := await stream.read()) is not EOF:
        if message.WhichOneof("body") == "welcome":
            print("ready", flush=True)
        if message.WhichOneof("body") == "invocation":
            verdict = hk.HookVerdict(
                invocation_id=message.invocation.invocation_id,
                before=hk.BeforeVerdict(action=hk.BEFORE_ACTION_PROCEED),
            )
            await stream.write(hk.ConnectHookRequest(verdict=verdict))


async def main() -> None:
    """Answers at the endpoint of the command line."""
    endpoint, *options = sys.argv[1:]
    serving = asyncio.ensure_future((serve_bare if "--bare" in options else serve)(endpoint))
    stdin_ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    await asyncio.wait([serving, stdin_ended], return_when=asyncio.FIRST_COMPLETED)
    if serving.done():
        serving.result()
    serving.cancel()


if __name__ == "__main__":
    asyncio.run(main())
