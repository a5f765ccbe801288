"""A limit of time that costs nothing where nobody waits."""

from __future__ import annotations

import asyncio

import pytest

from callboard.teams import TeamNotRunError
from callboard.teams.bus_run import within


async def test_what_does_not_wait_has_no_limit() -> None:
    async def step() -> int:
        return 1

    assert await within(0.0, step(), "team") == 1


async def test_what_waits_goes_on_where_it_was() -> None:
    async def step() -> list[int]:
        done = [1]
        for number in (2, 3):
            await asyncio.sleep(0)
            done.append(number)
        done.append(await asyncio.to_thread(lambda: 4))
        return done

    assert await within(60.0, step(), "team") == [1, 2, 3, 4]


async def test_what_waits_for_ever_is_cancelled() -> None:
    ended: list[str] = []

    async def step() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("yes")

    with pytest.raises(TeamNotRunError):
        await within(0.01, step(), "team")
    assert ended == ["yes"]


@pytest.mark.parametrize("waits", [False, True])
async def test_errors_are_its_own(waits: bool) -> None:
    async def step() -> None:
        if waits:
            await asyncio.sleep(0)
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await within(60.0, step(), "team")


async def test_who_is_cancelled_is_told_so() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def step() -> None:
        try:
            async with asyncio.timeout(60):
                began.set()
                await asyncio.Event().wait()
        finally:
            ended.set()

    task = asyncio.ensure_future(within(60.0, step(), "team"))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_a_limit_of_its_own_is_not_taken_for_ours() -> None:
    async def step() -> str:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            await asyncio.sleep(0)
            return "its own"
        return "none"

    assert await within(60.0, step(), "team") == "its own"
