"""A token that cancels a run."""

from __future__ import annotations

import asyncio

from callboard.core.cancellation import CancellationToken
from callboard.teams.outcome import Cancelling


def test_a_token_that_outlives_the_reader_and_its_loop_is_cancelled_without_an_error() -> None:
    token = CancellationToken()
    orders: list[str] = []

    async def abort() -> bool:
        orders.append("abort")
        return True

    async def read() -> None:
        await Cancelling(token, abort).close()

    asyncio.run(read())
    token.cancel()
    assert not orders


async def test_a_token_cancels_the_run_while_it_is_read() -> None:
    token, aborted = CancellationToken(), asyncio.Event()

    async def abort() -> bool:
        aborted.set()
        return True

    cancelling = Cancelling(token, abort)
    token.cancel()
    await asyncio.wait_for(aborted.wait(), 5)
    await cancelling.close()
