from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from callboard import CancellationToken
from callboard.memory.cancelling import cancellable, cancellable_items


async def soon() -> int:
    await asyncio.sleep(0)
    return 1


async def never() -> int:
    await asyncio.Event().wait()
    return 1


async def numbers() -> AsyncIterator[int]:
    yield 1
    yield 2
    await asyncio.Event().wait()


async def test_work_that_is_not_cancelled_ends_by_itself() -> None:
    assert await cancellable(soon(), None) == 1
    assert await cancellable(soon(), CancellationToken()) == 1


async def test_a_token_ends_the_work() -> None:
    token = CancellationToken()
    task = asyncio.create_task(cancellable(never(), token))
    await asyncio.sleep(0)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_with_a_cancelled_token_work_does_not_begin() -> None:
    token = CancellationToken()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cancellable(never(), token)


async def test_a_token_ends_a_stream_that_waits() -> None:
    token = CancellationToken()
    seen = []

    async def listen() -> None:
        async for number in cancellable_items(numbers(), token):
            seen.append(number)
            if number == 2:
                asyncio.get_running_loop().call_soon(token.cancel)

    with pytest.raises(asyncio.CancelledError):
        await listen()
    assert seen == [1, 2]


async def test_a_stream_that_ends_ends() -> None:
    async def two() -> AsyncIterator[int]:
        yield 1
        yield 2

    assert [item async for item in cancellable_items(two(), CancellationToken())] == [1, 2]
