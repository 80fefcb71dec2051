"""Registers one tool and serves it until SIGTERM."""

from typing import Annotated

from pydantic import Field

import callgate

client = callgate.Client(executor_name="calculator")


@client.tool(risk="safe", kind="read")
def add(
    a: Annotated[int, Field(description="The first number.")],
    b: Annotated[int, Field(description="The second number.")],
) -> int:
    """Adds two whole numbers."""
    return a + b


if __name__ == "__main__":
    client.run()
