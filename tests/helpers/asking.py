"""Handlers that ask, one call at a time: a test is the handler, its worker, and who answers."""

from __future__ import annotations

from callboard.broker.envelope import Delivery
from callboard.broker.mailbox import Turn
from callboard.broker.outcome import Outcome, Release, RunWrite, Suspend
from callboard.broker.redis.client.questions import Asked, Inquiry, Refusal
from tests.helpers.commits import Done, as_done

from .server_driver import DrivenWorker, ServerDriver, topic

WINDOW = 60.0  # seconds


class AskingFixture:
    """Agents of the type `asker` that ask, and one worker for them."""

    def __init__(self, driver: ServerDriver, worker: DrivenWorker) -> None:
        self.driver = driver
        self.worker = worker

    @classmethod
    async def begin(cls, driver: ServerDriver, *messages: str, max_attempts: int = 3) -> AskingFixture:
        """Declares the type, and publishes messages for the agent `a` whose ids are their bodies."""
        await driver.declare(topic("asker", "work"), max_attempts=max_attempts)
        await driver.note("topic:work", "a", *messages)
        return cls(driver, await driver.worker("asker"))

    async def ask(
        self,
        delivery: Delivery,
        name: str = "q",
        timeout: int | None = None,
        note: RunWrite | None = None,
        run: str = "",
    ) -> Asked:
        """What a handler asks; the question is called `<body of its message>-<name>`."""
        key = delivery.raw_key.decode()
        body = delivery.envelope.body.decode()
        fields = {"key": key, "run": run, "question": name, "schema": "{}", "choices": "[]", "to": "[]"}
        inquiry = Inquiry(f"{body}-{name}", name, timeout, fields)
        message = delivery.envelope.id
        return await self.driver.transport.inputs.ask(delivery.fence, "asker", message, inquiry, note)

    async def suspend(
        self, delivery: Delivery, *asked: str, wake_at: int | None = None, count: int = 0
    ) -> Turn:
        """Its handler ends to wait for these questions; what is held behind it goes back."""
        behind = [one for one in self.worker.held if one is not delivery and one.raw_key == delivery.raw_key]
        outcome: Outcome = Suspend(delivery.envelope.id, asked, wake_at)
        done = [self._done(delivery, outcome), *(self._done(one, Release("no")) for one in behind)]
        return await self.worker.turn(*done, count=count)

    @staticmethod
    def _done(delivery: Delivery, outcome: Outcome) -> Done:
        return as_done(delivery, outcome, True, WINDOW)

    async def end(self, delivery: Delivery, outcome: Outcome) -> Turn:
        """Its handler ends in another way."""
        return await self.worker.turn(self._done(delivery, outcome))

    async def answer(self, input_id: str, answer: str = '"yes"', by: str = "ada") -> Refusal | None:
        return await self.driver.transport.inputs.answer(input_id, answer, by)

    async def taken(self) -> list[str]:
        """What the worker is given now."""
        return [one.envelope.body.decode() for one in await self.worker.take()]

    async def taken_nothing(self) -> bool:
        return await self.taken() == []

    async def status(self, input_id: str) -> str:
        fields = await self.driver.mapping(f"input:{input_id}")
        return fields.get("status", "")

    async def time_is_over(self, input_id: str) -> None:
        """The question has expired; its timer is due."""
        await self.driver.command("HSET", f"input:{input_id}", "expires", 1)
        await self.driver.command("ZADD", "timers", "XX", 1, "k|asker|a")
