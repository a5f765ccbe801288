"""Waiting for a condition instead of for a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from callboard.testing.harness import eventually

__all__ = ["eventually", "never"]

BETWEEN_LOOKS = 0.01  # seconds


async def never(condition: Callable[[], object], during: float = 0.3) -> None:
    """Looks again and again for `during` seconds; fails when `condition()` is true once.

    It can only miss what comes later: what must not happen at all is also seen in what a test asserts at its end.
    """
    deadline = time.monotonic() + during
    while time.monotonic() < deadline:
        assert not condition()
        await asyncio.sleep(BETWEEN_LOOKS)
