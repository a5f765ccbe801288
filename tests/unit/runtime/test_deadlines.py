from __future__ import annotations

import asyncio

import pytest

from callboard.broker import AgentId
from callboard.broker.errors import RequestTimeoutError
from callboard.runtime.sending import Deadlines

CLERK = AgentId("clerk", "a")


@pytest.fixture
def deadlines() -> Deadlines:
    return Deadlines()


def waiting() -> asyncio.Future[None]:
    return asyncio.get_running_loop().create_future()


async def test_what_is_waited_for_too_long_fails_in_its_own_time(deadlines: Deadlines) -> None:
    long, short, answered = waiting(), waiting(), waiting()
    deadlines.add(long, CLERK, 30)
    deadlines.add(answered, CLERK, 0.01)
    deadlines.add(short, CLERK, 0.02)
    answered.set_result(None)
    deadlines.remove(answered)
    with pytest.raises(RequestTimeoutError, match=r"clerk/a .*0\.02"):
        await short
    assert not long.done()
    deadlines.close()


async def test_the_next_one_is_looked_at_when_one_was_late(deadlines: Deadlines) -> None:
    first, second = waiting(), waiting()
    deadlines.add(first, CLERK, 0.01)
    deadlines.add(second, CLERK, 0.03)
    done, _ = await asyncio.wait({first, second}, timeout=10)
    assert all(isinstance(one.exception(), RequestTimeoutError) for one in done)
    assert len(done) == 2
    for one in done:
        deadlines.remove(one)


async def test_no_timer_is_left(deadlines: Deadlines) -> None:
    forgotten = waiting()
    deadlines.add(forgotten, CLERK, 0.01)
    deadlines.close()
    await asyncio.sleep(0.03)
    assert not forgotten.done()


async def test_what_is_done_already_is_left_as_it_is(deadlines: Deadlines) -> None:
    cancelled = waiting()
    deadlines.add(cancelled, CLERK, 0.0)
    cancelled.cancel()
    await asyncio.sleep(0.01)
    deadlines.remove(cancelled)
    deadlines.remove(cancelled)
    assert cancelled.cancelled()
