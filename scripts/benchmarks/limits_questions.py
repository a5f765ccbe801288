"""What limits.py measures of questions: 100,000 agents wait for an answer each, and some of them get one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from callboard.broker.envelope import Delivery
from callboard.broker.mailbox import MOST_RECORDS
from callboard.broker.outcome import Commit, Outcome, Suspend
from callboard.broker.redis.client.questions import Inquiry
from tests.helpers.commits import Done, as_done
from tests.helpers.server_driver import DrivenWorker, ServerDriver, posting, topic

from .gauge import Gauge

AT_ONCE: Final = 500
LONG: Final = 3_600_000  # ms
SOME: Final = 50  # questions that are answered, withdrawn, ...
KEPT: Final = 86_400.0  # seconds


class Waiting:
    """Agents of the type `asker`, one question each."""

    def __init__(self, driver: ServerDriver, gauge: Gauge, agents: int) -> None:
        self._driver = driver
        self._gauge = gauge
        self._agents = agents

    async def fill(self) -> None:
        """All of them ask, and wait."""
        driver = self._driver
        await driver.declare(topic("asker", "questions"))
        self._worker: DrivenWorker = await driver.worker("asker")
        for start in range(0, self._agents, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, self._agents))
            await driver.publish(*(posting("topic:questions", f"k{i}", id=f"w{i}") for i in numbers))
            await self._ask_all()

    async def _ask_all(self) -> None:
        while got := await self._worker.take(AT_ONCE):
            await self._end(got, await asyncio.gather(*map(self._ask, got)))

    async def _ask(self, one: Delivery) -> Outcome:
        message, key = one.envelope.id, one.raw_key.decode()
        fields = {"key": key, "run": "", "question": "May it?", "schema": "{}", "choices": "[]", "to": "[]"}
        inquiry = Inquiry(message, "q", LONG, fields)
        asked = await self._driver.transport.inputs.ask(one.fence, "asker", message, inquiry)
        return Suspend(message, (message,), asked.expires)

    async def _end(self, got: Sequence[Delivery], outcomes: Sequence[Outcome]) -> None:
        done: list[Done] = [as_done(one, how, True, KEPT) for one, how in zip(got, outcomes, strict=True)]
        for start in range(0, len(done), MOST_RECORDS):
            await self._worker.turn(*done[start : start + MOST_RECORDS])

    async def measure(self) -> None:
        """Everything that is done with questions."""
        driver, during = self._driver, self._gauge.during
        with during(f"{AT_ONCE} more agents ask"):
            await driver.publish(*(posting("topic:questions", f"n{i}", id=f"n{i}") for i in range(AT_ONCE)))
            await self._ask_all()
        with during("open questions are listed"):
            await driver.transport.inputs.open_ids()
        with during("questions are answered and withdrawn"):
            for i in range(SOME):
                await driver.transport.inputs.answer(f"w{i}", '"yes"', "ada")
                await driver.transport.inputs.withdraw(f"w{SOME + i}", "ada")
        with during("who waits is cancelled and reset"):
            for i in range(2 * SOME, 3 * SOME):
                await driver.run("control", "cancel", f"w{i}", LONG)
                await driver.run("control", "reset", "asker", f"k{SOME + i}", f"r{i}", "")
        with during("who waited ends"):
            while got := await self._worker.take(AT_ONCE):
                await self._end(got, [Commit(once_of=one.envelope.id) for one in got])
        with during("messages come behind those that wait"):
            last = range(self._agents - AT_ONCE, self._agents)
            await driver.publish(*(posting("topic:questions", f"k{i}", id=f"b{i}") for i in last))
            await self._worker.take(AT_ONCE)
        with during("questions expire at once"):
            for i in last:
                await driver.command("ZADD", "timers", "XX", 1, f"k|asker|k{i}")
            await self._worker.beat()
            await self._ask_all()
