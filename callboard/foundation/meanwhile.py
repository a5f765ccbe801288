"""Something that goes on beside a block, and ends with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import Any


@contextlib.asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, object], name: str) -> AsyncIterator[None]:
    """Runs `work` in a task of its own while the block runs, then cancels it.

    Args:
        work: What goes on meanwhile.
        name: Of its task.

    Raises:
        Exception: What the work failed with; it is raised when the block has ended.
    """
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
