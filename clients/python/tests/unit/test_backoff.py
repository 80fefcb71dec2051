"""When a lost connection is tried again."""

from __future__ import annotations

from callgate import Backoff
from callgate.backoff import BackoffState


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_jitter_covers_the_whole_capped_span() -> None:
    low = BackoffState(Backoff(initial=1, cap=4), rng=lambda: 0.0)
    high = BackoffState(Backoff(initial=1, cap=4), rng=lambda: 1.0)
    assert [low.lost() for _ in range(5)] == [0, 0, 0, 0, 0]
    assert [high.lost() for _ in range(5)] == [1, 2, 4, 4, 4]


def test_connection_that_does_not_last_does_not_reset_the_waits() -> None:
    clock = Clock()
    state = BackoffState(Backoff(initial=1, cap=100, stable_after=60), clock=clock, rng=lambda: 1.0)
    for expected in (1, 2, 4):
        state.ready()
        clock.now += 59
        assert state.lost() == expected


def test_stable_connection_resets_the_waits() -> None:
    clock = Clock()
    state = BackoffState(Backoff(initial=1, cap=100, stable_after=60), clock=clock, rng=lambda: 1.0)
    state.lost()
    state.lost()
    state.ready()
    clock.now += 60
    assert state.lost() == 1


def test_years_of_failures_do_not_overflow() -> None:
    assert Backoff().span(10**9) == Backoff().cap
