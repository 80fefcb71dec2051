"""Runs one turn with one call, and prints what happens and its result."""

import asyncio

import callgate


async def main() -> None:
    """Runs the turn."""
    async with callgate.Client() as client:
        turn = client.run_turn("demo", [callgate.ToolCall("c1", "add", {"a": 2, "b": 3})])
        async for event in turn:
            print(event.sequence, type(event).__name__)
        result = await turn
        print(result["c1"].raise_for_error().text)


if __name__ == "__main__":
    asyncio.run(main())
