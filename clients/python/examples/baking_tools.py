"""The executor of the demo: a small bakery with one tool for every way a call can go."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field

import callgate

client = callgate.Client(executor_name="bakery", max_concurrency=8)


class Record(BaseModel):
    """One thing that was baked."""

    record_id: str
    name: str
    minutes: int
    celsius: int


@dataclass
class RecordStore:
    """The bakery's records, shared by the handlers as a service."""

    records: list[Record]
    cache_size: int = 3

    @property
    def service_id(self) -> str:
        """What tools name in `services`."""
        return "records"


client.services.register(
    RecordStore(
        [
            Record(record_id="r1", name="sourdough", minutes=45, celsius=240),
            Record(record_id="r2", name="brioche", minutes=30, celsius=180),
            Record(record_id="r3", name="focaccia", minutes=22, celsius=220),
        ]
    )
)


def store_of(ctx: callgate.ToolContext) -> RecordStore:
    """The records, which every tool here that wants them must have declared."""
    store = ctx.services.get("records")
    if not isinstance(store, RecordStore):
        raise callgate.ToolError("records_unavailable", "the records cannot be read now", retryable=True)
    return store


@client.tool(risk="safe", kind="read", services=["records"])
def read_baking_records(
    ctx: callgate.ToolContext,
    record_id: Annotated[str, Field(description="Id of one record; empty for all of them.")] = "",
) -> dict[str, list[Record]]:
    """Reads the baking records, or one of them."""
    found = [record for record in store_of(ctx).records if record_id in {"", record.record_id}]
    if not found:
        # Never fake success: an empty list would let the model make something up.
        raise callgate.ToolError("record_not_found", f"there is no record `{record_id}`")
    return {"records": found}


@client.tool(risk="dangerous", kind="delete", services=["records"])
def clear_baking_cache(
    ctx: callgate.ToolContext,
    confirm: Annotated[str, Field(description='Must be the word "clear".')],
) -> str:
    """Deletes everything in the cache of baking results. Cannot be undone."""
    # Which words count is a business rule, so it is checked here and not in the schema.
    if confirm != "clear":
        raise callgate.ToolError("confirmation_missing", 'say confirm="clear" to clear the cache')
    store = store_of(ctx)
    cleared, store.cache_size = store.cache_size, 0
    return f"cleared {cleared} entries"


@client.tool(risk="safe", kind="read", services=["records"])
def find_record(
    ctx: callgate.ToolContext,
    index: Annotated[int, Field(description="Position of the record, from 0.")],
) -> Record:
    """Finds a record by its position."""
    records = store_of(ctx).records
    if not 0 <= index < len(records):
        raise callgate.ToolError(
            "record_not_found", f"there is no record at {index}; there are {len(records)}", path="$.index"
        )
    return records[index]


@client.tool(risk="safe", kind="read", timeout=600)
def proof_dough(
    ctx: callgate.ToolContext,
    seconds: Annotated[float, Field(description="How long the dough rests.")] = 30.0,
) -> str:
    """Lets the dough rest. Slow; stops early when it is cancelled."""
    steps = max(1, int(seconds * 10))
    for step in range(steps):
        # A `def` tool waits like this: it wakes up at once when it is cancelled.
        if ctx.cancellation.wait(seconds / steps):
            raise callgate.ToolCancelled(f"stopped after {step} of {steps} steps", effect="executed")
        ctx.progress("proofing", (step + 1) / steps)
    return f"proofed for {seconds} s"


@client.tool(risk="safe", kind="other")
async def bake_batch(
    ctx: callgate.ToolContext,
    count: Annotated[int, Field(description="How many loaves.")],
) -> dict[str, int]:
    """Bakes some loaves, and tells about each of them."""
    if not 1 <= count <= 100:
        raise callgate.ToolError("batch_size_invalid", "between 1 and 100 loaves fit", path="$.count")
    for loaf in range(1, count + 1):
        await asyncio.sleep(0.05)
        ctx.output(f"loaf {loaf} is done\n", "stdout")
        ctx.progress(f"{loaf} of {count}", loaf / count)
    return {"baked": count}


@client.tool(risk="safe", kind="read")
def broken_oven() -> str:
    """Fails in a way that nobody thought of."""
    raise RuntimeError("the oven does not heat")


@client.tool(risk="safe", kind="other")
def finish_baking(
    summary: Annotated[str, Field(description="What was done.")],
) -> callgate.ToolResult:
    """Ends the work: call it when everything that was asked for is done."""
    return callgate.ToolResult.of(f"finished: {summary}", stop=True)


if __name__ == "__main__":
    client.run()
