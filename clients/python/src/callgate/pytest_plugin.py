"""The fixtures of `callgate.testing` for pytest."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .testing import FakeSidecar


@pytest.fixture
def fake_sidecar() -> Iterator[FakeSidecar]:
    """A fake sidecar that listens; its methods may be awaited on any loop."""
    with FakeSidecar() as sidecar:
        yield sidecar
