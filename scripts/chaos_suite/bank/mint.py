"""Publishes the coins, one after the other for each account, and notes when each was acknowledged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from callboard import TopicId
from callboard.broker.errors import OverloadedError, ServerUnavailableError
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.eventually import eventually

from .. import clock
from .accounts import ACCOUNTS, HOPS, MINT, Transfer

ACKNOWLEDGED_WITHIN = 60.0  # seconds, whatever happens to the servers
HANDS = 4  # coins that are published at the same time


@dataclass(slots=True)
class Coins:
    """What was published.

    Attributes:
        acknowledged: by account, when each number was acknowledged, by clock.py; the first is number 1.
    """

    acknowledged: dict[str, list[float]] = field(
        default_factory=lambda: {str(account): [] for account in range(ACCOUNTS)}
    )

    @property
    def number(self) -> int:
        return sum(map(len, self.acknowledged.values()))


async def mint(runtime: RedisAgentRuntime, coins: Coins, every: float, ends: asyncio.Event) -> None:
    """Publishes until it is told to end; what is under way is published first.

    Args:
        runtime: to publish with.
        coins: is filled.
        every: seconds between two coins of one hand.
        ends: tells it.
    """

    async def hand(number: int) -> None:
        for account in _around(number):
            if ends.is_set():
                return
            await _publish(runtime, coins, account)
            await asyncio.sleep(every)

    await asyncio.gather(*(hand(number) for number in range(HANDS)))


def _around(hand: int) -> Iterator[str]:
    while True:
        yield from (str(account) for account in range(hand, ACCOUNTS, HANDS))


async def _publish(runtime: RedisAgentRuntime, coins: Coins, account: str) -> None:
    number = len(coins.acknowledged[account]) + 1
    name = f"{account}/{number}"
    coin = Transfer(sender=MINT, number=number, coin=name, value=1 + number % 7, hops=HOPS)
    await eventually(
        lambda: _is_acknowledged(runtime, coin, account), ACKNOWLEDGED_WITHIN, what=f"coin {name}"
    )
    coins.acknowledged[account].append(clock.now())


async def _is_acknowledged(runtime: RedisAgentRuntime, coin: Transfer, account: str) -> bool:
    try:
        await runtime.publish_message(coin, TopicId("transfers", account), message_id=coin.coin)
    except (ServerUnavailableError, OverloadedError):
        return False
    return True
