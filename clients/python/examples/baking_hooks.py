"""The hooks of the demo: one fills an argument in, one denies, one keeps output from the model."""

from __future__ import annotations

import asyncio

import callgate

hooks = callgate.Hooks()


@hooks.before_tool_call(tools=["read_baking_records"])
def fill_in_record(asked: callgate.HookInput) -> callgate.HookOutput | None:
    """Reads the record of the day where the model names none."""
    arguments = asked.tool_args
    if arguments is None or "record_id" in arguments:
        return None
    return callgate.HookOutput(modified_args={**arguments, "record_id": "r2"})


@hooks.before_tool_call(tools=["clear_*"])
def keep_caches(asked: callgate.HookInput) -> callgate.HookOutput:
    """Denies whatever clears something."""
    reason = f"`{asked.tool_name}` is not permitted during opening hours"
    return callgate.HookOutput(permission_decision="deny", permission_decision_reason=reason)


@hooks.before_tool_call(tools=["bake_batch"])
def keep_quiet(_: callgate.HookInput) -> callgate.HookOutput:
    """Keeps long output out of the conversation."""
    return callgate.HookOutput(suppress_output=True, additional_context="The loaves are on the shelf.")


async def main() -> None:
    """Says when the sidecar has the hooks, and serves until it is told to end."""
    await hooks.start()
    await hooks.wait_ready()
    print("ready", flush=True)
    await hooks.serve()


if __name__ == "__main__":
    asyncio.run(main())
