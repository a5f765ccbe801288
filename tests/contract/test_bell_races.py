"""A worker with a slow and unsteady network on both of its connections: nothing is lost, doubled or overtaken.

Two connections carry turns, the worker's own and that of the bell, and which answer comes first is a matter of chance. The
model check drives the server's side of it; here the consumer and the lane are the real ones as well.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any, ClassVar

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.consumer import Consumer
from callboard.broker.errors import ConnectionLostError
from callboard.broker.mailbox import ConsumedType
from callboard.broker.redis.client.connection import Channel
from callboard.broker.redis.client.endpoint import Argument
from callboard.broker.redis.client.wire import Beginning
from tests.helpers.eventually import eventually
from tests.helpers.fake_host import FakeHost
from tests.helpers.server_driver import ServerDriver, topic

MESSAGES, KEYS = 150, ("a", "b", "c")
LONGEST, BREAKS = 0.004, 0.03  # seconds that a way takes at most; share of calls whose connection breaks


class Unsteady:
    """A connection whose calls and answers take their time, and which sometimes breaks before the one or the other.

    Attributes:
        broken: how often one did.
    """

    broken: ClassVar[int] = 0

    def __init__(self, channel: Channel, chance: random.Random) -> None:
        self._channel = channel
        self._chance = chance

    @property
    def is_open(self) -> bool:
        return self._channel.is_open

    @property
    def is_waiting(self) -> bool:
        return self._channel.is_waiting

    async def call_within(
        self, arguments: Sequence[Argument], timeout: float, beginning: Beginning | None = None
    ) -> Any:
        await self._way()
        answer = await self._channel.call_within(arguments, timeout, beginning)
        await self._way()
        return answer

    async def call_both(
        self, first: Beginning, beginning: Beginning, arguments: Sequence[Argument], timeout: float
    ) -> list[Any]:
        await self._way()
        answers = await self._channel.call_both(first, beginning, arguments, timeout)
        await self._way()
        return answers

    async def _way(self) -> None:
        if self._chance.random() < 0.5:
            await asyncio.sleep(self._chance.random() * LONGEST)
        if self._chance.random() < BREAKS:
            self._channel.close("a test")
            Unsteady.broken += 1
            raise ConnectionLostError("redis://test", "a test")

    def close(self, reason: str = "closed") -> None:
        self._channel.close(reason)


def _make_unsteady(link: Any, chance: random.Random) -> None:
    steady = link.channel

    async def channel() -> Unsteady:
        made = await steady()
        if not isinstance(made, Unsteady):
            link._channel = made = Unsteady(made, chance)
        return made

    link.channel = channel
    if link.is_open:
        link._channel = Unsteady(link._channel, chance)


async def _publish(
    driver: ServerDriver, consumer: Consumer, host: FakeHost, chance: random.Random
) -> dict[str, list[str]]:
    """Messages alone, or in fits and starts, so that the worker is often idle; and now and then a turn for no reason."""
    expected: dict[str, list[str]] = {key: [] for key in KEYS}
    comes_alone = True
    for number in range(MESSAGES):
        key = chance.choice(KEYS)
        expected[key].append(f"{key}{number}")
        await driver.note("topic:visits", key, f"{key}{number}")
        comes_alone ^= chance.random() < 0.1
        if comes_alone:
            await eventually(lambda: len(host.started) > number and consumer.is_idle)  # noqa: B023 - it is waited for here
        elif chance.random() < 0.3:
            await asyncio.sleep(chance.random() * 4 * LONGEST)
        if chance.random() < 0.1:
            consumer.nudge()
    return expected


@pytest.mark.real_server("there is no connection that could break")
@pytest.mark.parametrize("seed", range(3))
async def test_each_message_is_handled_once_and_in_order(driver: ServerDriver, seed: int) -> None:
    await driver.declare(topic("counter", "visits"))
    chance, host = random.Random(seed), FakeHost()
    lane = driver.transport.lane()
    settings = BrokerSettings(namespace=driver.settings.namespace, idle_poll=0.05)
    consumer = Consumer(lane, [ConsumedType("counter")], host, settings)
    work = asyncio.create_task(consumer.run())
    await consumer.joined.wait()
    Unsteady.broken = 0
    for link in (lane._link, lane._bell):
        _make_unsteady(link, chance)
    expected = await _publish(driver, consumer, host, chance)
    await eventually(lambda: work.done() or len(host.started) >= MESSAGES, what=lambda: host.started)
    await eventually(lambda: work.done() or consumer.is_idle)
    consumer.drain()
    await work
    assert {key: [body for body in host.started if body[0] == key] for key in KEYS} == expected, (
        f"seed {seed}"
    )
    await driver.check_empty("counter")
    assert Unsteady.broken > 0
