"""Declares tools that must be refused, and prints what was said about each.

One is refused where it is declared, the others by the sidecar.

Exits 0 if exactly the bad ones were refused.
"""

import asyncio
import sys

import callgate

EXPECTED = {
    "": "tool_name_empty",
    "twice": "tool_name_duplicate",
    "choose_flour": "schema_unsupported_keyword",
    "lost_property": "schema_invalid_required",
}

client = callgate.Client(executor_name="bad-bakery")


@client.tool(name="good", risk="safe", kind="read")
def good() -> str:
    """Is fine, and is registered although its neighbours are not."""
    return "fine"


def nameless() -> str:
    """Has no name."""
    return ""


@client.tool(name="twice", risk="safe", kind="read")
def first() -> str:
    """Has the name first."""
    return "first"


@client.tool(name="twice", risk="safe", kind="read")
def second() -> str:
    """Has a name that is taken."""
    return "second"


@client.tool(
    risk="safe",
    kind="read",
    dialect="core",
    schema={"type": "object", "properties": {"flour": {"type": "string", "enum": ["rye", "wheat"]}}},
)
def choose_flour(flour: str) -> str:
    """Has a keyword that its dialect does not know. It is refused, not ignored."""
    return flour


@client.tool(risk="safe", kind="read", dialect="core", schema={"type": "object", "properties": {}, "required": "flour"})
def lost_property() -> str:
    """Has a `required` that is no list."""
    return ""


async def main() -> int:
    """Registers and reports."""
    refused: dict[str, str] = {}
    try:
        client.add_tool(callgate.Tool(nameless, name="", risk="safe", kind="read"))
    except callgate.ToolDefinitionError as error:
        refused[""] = error.code
    async with client:
        await client.wait_ready()
        refused |= {item.name: item.error.code for item in client.refused if item.error is not None}
    for name, code in sorted(refused.items()):
        print(f"{name!r}: {code}")
    return 0 if refused == EXPECTED else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
