"""Secrets: what a tool says of arguments that the audit must not show."""

from __future__ import annotations

import pytest

from callgate import Tool, ToolDefinitionError
from callgate._wire import convert


def log_in(user: str, token: str) -> str:
    """Logs in."""
    return user + token[:0]


def test_secret_arguments_are_registered() -> None:
    definition = convert.definition(Tool(log_in, secret_pointers=["/token"]))
    assert list(definition.secret_pointers) == ["/token"]
    assert list(convert.definition(Tool(log_in)).secret_pointers) == []


@pytest.mark.parametrize("pointers", ["/token", ["token"], [""]])
def test_what_is_no_list_of_pointers_is_refused(pointers: list[str]) -> None:
    with pytest.raises(ToolDefinitionError, match="secret_pointers must hold pointers"):
        Tool(log_in, secret_pointers=pointers)
