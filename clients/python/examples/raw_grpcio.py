"""Registers one tool and answers its calls with grpcio alone: no SDK, only the contract.

Make the modules, then run it in an environment without the SDK:

    python -m grpc_tools.protoc -I proto --python_out=gen --grpc_python_out=gen proto/callgate/v1/*.proto
    CALLGATE_ENDPOINT=http://127.0.0.1:50551 PYTHONPATH=gen python raw_grpcio.py
"""

import json
import os
import queue

import grpc
from callgate.v1 import executor_service_pb2 as ex
from callgate.v1 import executor_service_pb2_grpc as ex_rpc
from callgate.v1 import stream_pb2 as st
from callgate.v1 import types_pb2 as t

SCHEMA = {
    "type": "object",
    "required": ["a", "b"],
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
}

# Everything that we say, in order. One queue and one writer: grpc reads it.
outbox: "queue.SimpleQueue[ex.ConnectRequest | None]" = queue.SimpleQueue()


def say(**body: object) -> None:
    """Queues one message."""
    outbox.put(ex.ConnectRequest(**body))


def answer(call: ex.ExecuteRequest) -> t.ToolResult:
    """Runs the tool. A failing tool is a result, never the end of the stream."""
    try:
        arguments = json.loads(call.arguments_json)  # checked already
        return t.ToolResult(contents=[t.ContentPart(text=str(arguments["a"] + arguments["b"]))])
    except Exception as error:
        return t.ToolResult(is_error=True, contents=[t.ContentPart(text=str(error))])


def main() -> None:
    """Says hello, then answers until the sidecar goes away."""
    endpoint = os.environ.get("CALLGATE_ENDPOINT", "http://127.0.0.1:50551")
    target = endpoint.removeprefix("http://").replace("unix://", "unix:")
    channel = grpc.insecure_channel(target, options=[("grpc.default_authority", "localhost")])
    metadata = []
    if token := os.environ.get("CALLGATE_TOKEN"):
        metadata.append(("authorization", f"Bearer {token}"))
    definition = t.ToolDefinition(
        name="raw_add",
        description="Adds two whole numbers.",
        parameters_json=json.dumps(SCHEMA).encode(),
        risk_level=t.RISK_LEVEL_SAFE,
        kind=t.TOOL_KIND_READ,
    )
    say(hello=ex.Hello(executor_name="raw", tools=[definition]))
    for message in ex_rpc.ExecutorServiceStub(channel).Connect(iter(outbox.get, None), metadata=metadata):
        kind = message.WhichOneof("body")  # None: newer than this program; skip it
        if kind == "ping":
            say(pong=st.Pong(nonce=message.ping.nonce))
        elif kind == "welcome":
            for tool in message.welcome.registrations:
                print(tool.name, t.RegistrationState.Name(tool.state), tool.error.code, flush=True)
        elif kind == "execute":
            say(result=ex.ExecuteResult(execution=message.execute.execution, result=answer(message.execute)))
        elif kind == "go_away":
            outbox.put(None)  # ends our half; the sidecar ends the other one


if __name__ == "__main__":
    main()
