"""A host for tests of the consumer, whose handlers do as the test says."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from callboard.broker.envelope import Delivery
from callboard.broker.mailbox import HandlingWorker, Turn
from callboard.broker.outcome import Commit, Outcome


def body_of(delivery: Delivery) -> str:
    return delivery.envelope.body.rstrip(b"\0").decode()


class FakeHost:
    """Handles as the test says; a body in `gates` waits until it is let through.

    Attributes:
        outcomes: what becomes of a body; default: a commit. An exception is raised.
        started, ended, cancelled: bodies.
        most_at_once: handlers that ran at one time, by agent type.
    """

    def __init__(self) -> None:
        self.outcomes: dict[str, Outcome | BaseException] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.started: list[str] = []
        self.ended: list[str] = []
        self.cancelled: list[str] = []
        self.given: dict[str, Delivery] = {}
        self.fenced_from: list[str] = []
        self.declared = 0
        self.turns = 0
        self.worker: HandlingWorker | None = None
        self.blocks_for = 0.0
        self._running: dict[bytes, int] = {}
        self.most_at_once: dict[bytes, int] = {}

    def gate(self, *bodies: str) -> None:
        """Handlers of these wait."""
        for body in bodies:
            self.gates[body] = asyncio.Event()

    def let(self, *bodies: str) -> None:
        """Lets handlers go on."""
        for body in bodies:
            self.gates[body].set()

    async def declare(self) -> None:
        self.declared += 1

    def accepts(self) -> dict[str, int]:
        return {"Visit": 1}

    async def handle(self, delivery: Delivery, worker: HandlingWorker) -> Outcome:
        body = body_of(delivery)
        self.worker = worker
        self.given[body] = delivery
        self.started.append(body)
        kind = delivery.raw_type
        running = self._running[kind] = self._running.get(kind, 0) + 1
        self.most_at_once[kind] = max(running, self.most_at_once.get(kind, 0))
        time.sleep(self.blocks_for)  # noqa: ASYNC251 - as a handler does that blocks the event loop
        try:
            if body in self.gates:
                await self.gates[body].wait()
        except asyncio.CancelledError:
            self.cancelled.append(body)
            raise
        finally:
            self._running[kind] -= 1
        outcome = self.outcomes.get(body, Commit())
        if isinstance(outcome, BaseException):
            raise outcome
        self.ended.append(body)
        return outcome

    def fenced(self, running: Sequence[Delivery]) -> None:
        self.fenced_from += [body_of(delivery) for delivery in running]

    def on_turn(self, turn: Turn) -> None:
        self.turns += 1
