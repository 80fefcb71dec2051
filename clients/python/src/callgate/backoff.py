"""When to try again after a lost connection."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential waits with full jitter. All spans are in seconds.

    The jitter is taken below the capped span, so that clients that lost the same
    sidecar stay apart for good. Waits grow until a connection has lasted
    `stable_after`: one that is made and lost at once is no success.
    """

    initial: float = 0.2
    cap: float = 15.0
    stable_after: float = 60.0

    def span(self, failures: int) -> float:
        """The longest wait after so many failures in a row, from 0."""
        # The exponent is bounded, so that years of failures do not overflow.
        return min(self.cap, self.initial * 2.0 ** min(failures, 32))


class BackoffState:
    """The waits of one connection that is made again and again."""

    def __init__(
        self,
        backoff: Backoff,
        *,
        clock: Callable[[], float] = time.monotonic,
        rng: Callable[[], float] = random.random,
    ) -> None:
        self._backoff = backoff
        self._clock = clock
        self._rng = rng
        self._failures = 0
        self._ready_since: float | None = None

    def ready(self) -> None:
        """The connection works, so far."""
        self._ready_since = self._clock()

    def ready_once(self) -> None:
        """The same, for callers that notice it with every message."""
        if self._ready_since is None:
            self.ready()

    def lost(self) -> float:
        """How long to wait before the next try."""
        since, self._ready_since = self._ready_since, None
        if since is not None and self._clock() - since >= self._backoff.stable_after:
            self._failures = 0
        wait = self._rng() * self._backoff.span(self._failures)
        self._failures += 1
        return wait
