"""Something that goes on beside a block."""

from __future__ import annotations

import asyncio

import pytest

from callboard.foundation.tasks import meanwhile


async def test_it_runs_beside_the_block_and_ends_with_it() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def work() -> None:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with meanwhile(work(), "work"):
        await began.wait()
        assert not ended.is_set()
    assert ended.is_set()


async def test_what_it_fails_with_is_raised_in_the_end() -> None:
    failed = asyncio.Event()

    async def work() -> None:
        failed.set()
        raise OSError("no disk")

    blocks: list[str] = []

    async def block() -> None:
        async with meanwhile(work(), "work"):
            await failed.wait()
            blocks.append("ended")

    with pytest.raises(OSError, match="no disk"):
        await block()
    assert blocks == ["ended"]
