"""Deadlines are by the server's clock, whatever this machine believes, from the first request on."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from callboard import AgentId, ClosureContext, MessageContext, RedisAgentRuntime
from callboard.broker.redis.client import connection as clock
from callboard.broker.redis.client.connection import ServerClock
from tests.helpers.runtimes import Answer, Ask, Runtimes, closure

HOUR = 3600.0
SECOND = 1000.0
pytestmark = pytest.mark.real_server("the stand-in has the clock of this process")
Skew = Callable[[float], None]


@pytest.fixture
def skew(monkeypatch: pytest.MonkeyPatch) -> Skew:
    """Makes the wall clock of this process wrong by so many seconds."""
    real = time.time

    def by(seconds: float) -> None:
        monkeypatch.setattr(time, "time", lambda: real() + seconds)

    return by


async def _answering(runtimes: Runtimes) -> None:
    async def answer(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        return Answer(text="in time")

    worker = await runtimes.started()
    await closure(worker, "answering", answer)


async def _is_answered(asking: RedisAgentRuntime) -> bool:
    asking.add_message_types([Answer])
    reply = await asking.send_message(Ask(), AgentId("answering", "a"), timeout=HOUR / 4)
    seconds, _ = await asking.transport.admin.command("TIME")
    assert abs(asking.transport.now_ms() / 1000 - int(seconds)) < HOUR / 4
    return bool(reply == Answer(text="in time"))


@pytest.mark.parametrize("seconds", [-HOUR, HOUR])
async def test_the_first_request_of_a_process_that_only_asks(
    runtimes: Runtimes, skew: Skew, seconds: float
) -> None:
    await _answering(runtimes)
    skew(seconds)
    assert await _is_answered(runtimes.new())


@pytest.mark.parametrize("seconds", [-HOUR, HOUR])
async def test_a_clock_that_jumps_later(runtimes: Runtimes, skew: Skew, seconds: float) -> None:
    await _answering(runtimes)
    asking = runtimes.new()
    assert await _is_answered(asking)
    skew(seconds)
    assert await _is_answered(asking)


class SteadyFixture:
    """A steady clock that is set by hand, ms."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ms = 1000.0
        monkeypatch.setattr(clock, "steady_ms", lambda: self.ms)


def test_an_answer_that_lay_unread_takes_nothing_away(monkeypatch: pytest.MonkeyPatch) -> None:
    steady = SteadyFixture(monkeypatch)
    known = ServerClock()
    known.observe(5_000_000, 999.0)
    assert abs(known.now_ms() - 5_000_000) <= 2
    steady.ms += 10 * SECOND
    known.observe(5_000_000 + 1, 1000.0)  # asked before, answered at once, read ten seconds later
    assert abs(known.now_ms() - 5_010_000) <= 2


@pytest.mark.parametrize("jump", [-60 * SECOND, 60 * SECOND])
def test_a_server_whose_clock_jumps_is_followed(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    steady = SteadyFixture(monkeypatch)
    known = ServerClock()
    known.observe(5_000_000, 999.0)
    steady.ms += SECOND
    known.observe(int(5_001_000 + jump), steady.ms - 1)
    assert abs(known.now_ms() - 5_001_000 - jump) <= 2


@pytest.mark.parametrize("seconds", [-HOUR, HOUR])
async def test_the_first_act_of_a_process_is_to_cancel(
    runtimes: Runtimes, skew: Skew, seconds: float
) -> None:
    """It is remembered from now on, by the server's time: a clock that is behind let it be forgotten at once."""
    await _answering(runtimes)
    skew(seconds)
    cancelling = runtimes.new()
    await cancelling.control.cancel("m1")
    transport = cancelling.transport
    until = float(await transport.admin.command("ZSCORE", transport.keys.of("cancelled"), "m1"))
    now, _ = await transport.admin.command("TIME")
    assert abs(until / 1000 - int(now) - transport.settings.dedupe_window) < HOUR / 4
