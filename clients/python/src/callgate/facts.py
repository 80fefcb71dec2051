"""What paths in arguments really are on this machine.

Looks at the file system and changes nothing. What it says was so at that moment:
whoever may change links meanwhile can still mislead.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from .permission_check import PathFact


def resolve(arguments_json: bytes, pointers: Sequence[str], cwd: str) -> tuple[PathFact, ...]:
    """One fact per pointer that points to a text. `cwd` empty: that of the process."""
    try:
        arguments = json.loads(arguments_json)
    except ValueError:
        return ()
    found = ((pointer, at(arguments, pointer)) for pointer in pointers)
    return tuple(path_fact(pointer, value, cwd) for pointer, value in found if isinstance(value, str))


def path_fact(pointer: str, value: str, cwd: str) -> PathFact:
    """What one path is: links followed, also where the last parts do not exist."""
    try:
        full = os.path.join(cwd or os.getcwd(), value)
        exists = True
        try:
            canonical = os.path.realpath(full, strict=True)
        except FileNotFoundError:
            # A link that leads nowhere is followed all the same: to write is to make what it leads to.
            canonical, exists = os.path.realpath(full), False
        canonical.encode("utf-8")
    except (OSError, ValueError) as error:
        # A loop of links, a directory that may not be read, a NUL, a name that is no text.
        return PathFact(pointer, value, "", None, type(error).__name__)
    return PathFact(pointer, value, canonical, exists)


def at(value: Any, pointer: str) -> Any:
    """What an RFC 6901 pointer finds in a JSON value. None: nothing."""
    for token in pointer.split("/")[1:]:
        name = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict):
            value = value.get(name)
        elif isinstance(value, list) and name.isascii() and name.isdigit() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value
