"""Answers what the sidecar asks about calls before they run: the tool's own check, and paths.

A question has no slot and no result: its one answer goes out, or the sidecar goes on
without it. Nothing that the user's code throws gets further than the log.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import facts
from .executor import Executor
from .permission_check import PathFact, Permission, PermissionContext
from .tool import Tool

log = logging.getLogger("callgate")

# Most questions that are being answered. The sidecar has a bound of its own, but forgets slow ones.
QUESTIONS_MAX = 256


@dataclass(frozen=True, slots=True)
class CheckQuestion:
    """What does the tool itself say?"""

    tool_digest: bytes
    arguments_json: bytes
    context: PermissionContext


@dataclass(frozen=True, slots=True)
class PathQuestion:
    """What are these paths?"""

    arguments_json: bytes
    pointers: tuple[str, ...]
    cwd: str


class Questions:
    """The questions of one process. Confined to the wire's loop, aside from what it starts elsewhere."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._open = 0

    def check(self, question: CheckQuestion, answer: Callable[[Permission], None]) -> None:
        """Asks a tool. `answer` is called once, on the wire's loop."""
        name = question.context.tool_name
        tool = self._executor.find(name, question.tool_digest)
        if tool is None or tool.check is None or self._open >= QUESTIONS_MAX:
            answer(Permission.ask())
            return
        self._open += 1
        if not tool.is_check_async:
            self._executor.in_thread(self._check_sync, tool, question, answer)
            return
        if not self._executor.in_loop(self._begin_check, tool, question, answer):
            self._done(answer, Permission.ask())

    def resolve(self, question: PathQuestion, answer: Callable[[Sequence[PathFact]], None]) -> None:
        """Looks at the file system, on a thread: it may be slow. `answer` is called once, on the wire's loop."""
        if self._open >= QUESTIONS_MAX:
            answer(())
            return
        self._open += 1
        self._executor.in_thread(self._resolve, question, answer)

    def _done(self, answer: Callable[[Any], None], value: Any) -> None:
        self._open -= 1
        answer(value)

    def _resolve(self, question: PathQuestion, answer: Callable[[Sequence[PathFact]], None]) -> None:
        """On a thread of the pool."""
        found: Sequence[PathFact] = ()
        try:
            found = facts.resolve(question.arguments_json, question.pointers, question.cwd)
        except BaseException:  # an open question that nobody answers would count for ever
            log.exception("paths could not be resolved")
        self._executor.post(self._done, answer, found)

    def _check_sync(self, tool: Tool, question: CheckQuestion, answer: Callable[[Permission], None]) -> None:
        """On a thread of the pool."""
        try:
            said = _said(tool, tool.run_check(question.arguments_json, question.context))
        except BaseException as error:  # noqa: BLE001 - a SystemExit of the check is its failure, not ours
            said = _failed(tool, error)
        self._executor.post(self._done, answer, said)

    def _begin_check(self, tool: Tool, question: CheckQuestion, answer: Callable[[Permission], None]) -> None:
        """On the handlers' loop."""
        task = asyncio.get_running_loop().create_task(_check_async(tool, question))
        task.add_done_callback(lambda done: self._executor.post(self._done, answer, _outcome(tool, done)))


async def _check_async(tool: Tool, question: CheckQuestion) -> Permission:
    try:
        return _said(tool, await tool.run_check(question.arguments_json, question.context))
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a SystemExit would end the user's event loop
        return _failed(tool, error)


def _outcome(tool: Tool, task: asyncio.Task[Permission]) -> Permission:
    if task.cancelled():
        return _failed(tool, asyncio.CancelledError())
    error = task.exception()
    return task.result() if error is None else _failed(tool, error)


def _said(tool: Tool, said: object) -> Permission:
    if isinstance(said, Permission):
        return said
    log.error("the permission check of tool `%s` returned no Permission; the call is asked for", tool.name)
    return Permission.ask()


def _failed(tool: Tool, error: BaseException) -> Permission:
    # The message may quote arguments.
    log.error(
        "the permission check of tool `%s` failed with %s; the call is asked for", tool.name, type(error).__name__
    )
    return Permission.ask()
