"""Time limits, cancellation, and endings that are not for tools."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import weakref
from collections.abc import AsyncGenerator

import pytest

from callboard import CancellationToken
from callboard.tools import static as limits
from callboard.tools.errors import ToolEndedError, ToolTimeoutError
from callboard.tools.static import run_limited, stream_limited
from tests.helpers.watched_token import WatchedToken


async def quick(token: CancellationToken) -> int:
    return 1


async def endless(token: CancellationToken) -> int:
    await asyncio.Event().wait()
    return 1


async def test_the_result_comes_through() -> None:
    assert await run_limited("t", quick, CancellationToken(), 1.0) == 1
    assert await run_limited("t", quick, None, None) == 1


async def test_work_that_takes_too_long_is_stopped() -> None:
    stopped = asyncio.Event()

    async def work(token: CancellationToken) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            assert token.is_cancelled()
            stopped.set()

    with pytest.raises(ToolTimeoutError, match=r"t did not end within 0\.01 s and was given up"):
        await run_limited("t", work, None, 0.01)
    assert stopped.is_set()


async def test_work_that_ignores_its_cancellation_is_left_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(limits, "GRACE", 0.01)
    release = asyncio.Event()

    async def stubborn(token: CancellationToken) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        raise ValueError("nobody looks at this")

    before = asyncio.all_tasks()
    with pytest.raises(ToolTimeoutError, match="ignores") as caught, caplog.at_level(logging.WARNING):
        await run_limited("t", stubborn, None, 0.01)
    assert caught.value.still_running
    assert "the tool t ignores" in caplog.text
    del caught  # its traceback holds what ran
    gc.collect()
    (task,) = asyncio.all_tasks() - before
    kept = weakref.ref(task)
    release.set()
    await asyncio.wait({task})
    del task
    await asyncio.sleep(0)
    gc.collect()
    assert kept() is None


async def test_a_token_ends_the_work() -> None:
    token = CancellationToken()
    running = asyncio.ensure_future(run_limited("t", endless, token, None))
    await asyncio.sleep(0)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


async def test_a_token_that_is_cancelled_already_lets_nothing_begin() -> None:
    token = CancellationToken()
    token.cancel()
    begun = []

    async def work(inner: CancellationToken) -> None:
        begun.append(inner)

    with pytest.raises(asyncio.CancelledError):
        await run_limited("t", work, token, None)
    assert not begun


async def test_a_caller_that_is_cancelled_ends_the_work() -> None:
    ended = asyncio.Event()

    async def work(token: CancellationToken) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.ensure_future(run_limited("t", work, None, None))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert ended.is_set()


async def test_a_token_keeps_nothing_of_work_that_is_done() -> None:
    token = WatchedToken()
    for _ in range(3):
        await run_limited("t", quick, token, None)
    await asyncio.sleep(0)
    assert (token.links, token.kept()) == (3, [])


async def exits(token: CancellationToken) -> None:
    sys.exit(3)


async def cancels_itself(token: CancellationToken) -> None:
    raise asyncio.CancelledError


@pytest.mark.parametrize("work", [exits, cancels_itself])
async def test_work_that_ends_itself_ends_nobody_else(work: object) -> None:
    with pytest.raises(ToolEndedError, match="t gave no result"):
        await run_limited("t", work, None, None)  # type: ignore[arg-type]


async def counting(token: CancellationToken) -> AsyncGenerator[int, None]:
    for number in range(3):
        yield number


async def test_a_stream_yields_all_of_it() -> None:
    assert [item async for item in stream_limited("t", counting, None, 5.0)] == [0, 1, 2]


async def test_a_stream_is_hardly_ahead_of_its_reader() -> None:
    made: list[int] = []

    async def work(token: CancellationToken) -> AsyncGenerator[int, None]:
        for number in range(100):
            made.append(number)
            yield number

    stream = stream_limited("t", work, None, None)
    assert await anext(stream) == 0
    await asyncio.sleep(0.01)
    assert len(made) <= 3
    await stream.aclose()  # type: ignore[attr-defined]


async def test_an_error_comes_after_what_was_yielded_before_it() -> None:
    async def work(token: CancellationToken) -> AsyncGenerator[int, None]:
        yield 1
        yield 2
        raise ValueError("then this")

    stream = stream_limited("t", work, None, None)
    seen = [await anext(stream), await anext(stream)]
    with pytest.raises(ValueError, match="then this"):
        await anext(stream)
    assert seen == [1, 2]


async def test_a_stream_that_takes_too_long_is_ended() -> None:
    ended = asyncio.Event()

    async def work(token: CancellationToken) -> AsyncGenerator[int, None]:
        try:
            yield 1
            await asyncio.Event().wait()
        finally:
            ended.set()

    stream = stream_limited("t", work, None, 0.05)
    assert await anext(stream) == 1
    with pytest.raises(ToolTimeoutError):
        await anext(stream)
    assert ended.is_set()


async def test_a_reader_that_stops_ends_the_work() -> None:
    ended = asyncio.Event()

    async def work(token: CancellationToken) -> AsyncGenerator[int, None]:
        try:
            while True:
                yield 1
        finally:
            ended.set()

    stream = stream_limited("t", work, None, None)
    await anext(stream)
    await stream.aclose()  # type: ignore[attr-defined]
    await asyncio.wait_for(ended.wait(), 5)
