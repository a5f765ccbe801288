from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest

from callboard import CancellationToken
from callboard.broker.errors import is_outage
from callboard.models import (
    ModelRetries,
    ModelSettings,
    ReplayChatCompletionClient,
    RequestUsage,
    RetryingChatCompletionClient,
)
from callboard.models.errors import (
    AuthenticationError,
    BadResponseError,
    ModelConnectionError,
    ModelError,
    ModelOverloadedError,
    ModelTimeoutError,
    RateLimitError,
)
from callboard.models.replay import Answer, Streamed

from .asking import HELLO, result, stream_of

SETTINGS = ModelSettings(max_attempts=4, retry_base=1.0, retry_cap=3.0, longest_retry_after=60.0)


class Pauses:
    """Remembers pauses instead of making them."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


def retrying(
    pauses: Pauses, *answers: Answer, random: Callable[[], float] = lambda: 0.0
) -> RetryingChatCompletionClient:
    """A client with a script; `random` 0 is the longest pause."""
    retries = ModelRetries(SETTINGS, pauses, random)
    return RetryingChatCompletionClient(ReplayChatCompletionClient(answers), retries)


BUSY = ModelOverloadedError("m", "busy", 503)
SLOW = RateLimitError("m", "slow", 429, 7.0)


async def test_pauses_double_below_a_cap(pauses: Pauses) -> None:
    client = retrying(
        pauses, BUSY, ModelTimeoutError("m", "late"), ModelConnectionError("m", "gone"), "at last"
    )
    assert (await client.create(HELLO)).content == "at last"
    assert pauses.seconds == [1.0, 2.0, 3.0]


def cut_off() -> ModelConnectionError:
    error = ModelConnectionError("m", "the line is cut")
    error.charge(RequestUsage(10, 4))
    return error


async def test_what_earlier_tries_used_is_part_of_the_usage(pauses: Pauses) -> None:
    client = retrying(
        pauses, cut_off(), cut_off(), result("at last", 10, 5), cut_off(), result("again", 10, 5)
    )
    assert (await client.create(HELLO)).usage == RequestUsage(30, 13)
    assert (await stream_of(client))[1].usage == RequestUsage(20, 9)

    client = retrying(pauses, *(cut_off() for _ in range(4)))
    with pytest.raises(ModelConnectionError) as failed:
        await client.create(HELLO)
    assert failed.value.usage == RequestUsage(40, 16)


async def test_jitter_is_full(pauses: Pauses) -> None:
    client = retrying(pauses, BUSY, BUSY, "a", random=lambda: 1.0)
    await client.create(HELLO)
    assert pauses.seconds == [0.0, 0.0]


async def test_retry_after_is_waited_for_before_the_jitter(pauses: Pauses) -> None:
    await retrying(pauses, SLOW, SLOW, "a").create(HELLO)
    assert pauses.seconds == [8.0, 9.0]


async def test_the_last_error_is_raised(pauses: Pauses) -> None:
    client = retrying(pauses, BUSY, BUSY, BUSY, SLOW, "too late")
    with pytest.raises(RateLimitError):
        await client.create(HELLO)
    assert len(pauses.seconds) == 3


@pytest.mark.parametrize(
    "error",
    [
        AuthenticationError("m", "no"),
        BadResponseError("m", "odd"),
        RateLimitError("m", "slow", 429, 61.0),
        ModelError("m", "?"),
    ],
)
async def test_a_permanent_error_is_raised_at_once(pauses: Pauses, error: ModelError) -> None:
    with pytest.raises(type(error)):
        await retrying(pauses, error, "a").create(HELLO)
    assert pauses.seconds == []


async def test_other_errors_are_not_ours(pauses: Pauses) -> None:
    with pytest.raises(KeyError):
        await retrying(pauses, KeyError("x"), "a").create(HELLO)


async def test_a_stream_is_begun_again_before_its_first_piece(pauses: Pauses) -> None:
    pieces, result = await stream_of(retrying(pauses, BUSY, Streamed([SLOW]), "all is well"))
    assert pieces == ["all ", "is ", "well"]
    assert result.content == "all is well"
    assert pauses.seconds == [1.0, 9.0]


async def test_what_was_said_is_not_said_again(pauses: Pauses) -> None:
    client = retrying(pauses, Streamed(["one ", ModelConnectionError("m", "gone")]), "a")
    items = client.create_stream(HELLO)
    assert await anext(items) == "one "
    with pytest.raises(ModelConnectionError):
        await anext(items)
    assert pauses.seconds == []


async def test_a_stream_gives_up_too(pauses: Pauses) -> None:
    with pytest.raises(ModelOverloadedError):
        await stream_of(retrying(pauses, BUSY, BUSY, BUSY, BUSY))
    assert len(pauses.seconds) == 3


async def test_a_pause_ends_with_the_token() -> None:
    began = asyncio.Event()

    async def forever(seconds: float) -> None:
        began.set()
        await asyncio.Event().wait()

    client = RetryingChatCompletionClient(ReplayChatCompletionClient([BUSY]), ModelRetries(SETTINGS, forever))
    token = CancellationToken()
    task = asyncio.create_task(client.create(HELLO, cancellation_token=token))
    await began.wait()
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_log_of_a_retry_has_nothing_of_the_request(
    pauses: Pauses, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        await retrying(pauses, SLOW, "a").create(HELLO)
    assert caplog.messages == ["m: RateLimitError (attempt 1); trying again in 8.0 s"]


def test_by_default_a_few_attempts_are_made() -> None:
    retries = ModelRetries()
    assert retries.pause(4, BUSY) is not None
    assert retries.pause(5, BUSY) is None


@pytest.mark.parametrize("never_sent", [True, False])
async def test_an_answer_that_does_not_come_in_time_is_waited_for_twice(never_sent: bool) -> None:
    """The server may have worked on each of them, and charge it."""

    class ConnectTimeout(Exception):
        """As the HTTP client names it."""

    calls = 0

    async def ask() -> str:
        nonlocal calls
        calls += 1
        error = ModelTimeoutError("m", "no answer in time")
        error.__cause__ = RuntimeError()
        error.__cause__.__cause__ = ConnectTimeout() if never_sent else TimeoutError()
        raise error

    async def at_once(seconds: float) -> None: ...

    with pytest.raises(ModelTimeoutError) as raised:
        await ModelRetries(sleep=at_once).call(ask)
    assert calls == (5 if never_sent else 2)
    assert is_outage(raised.value), "outside a handler nothing makes it again"
