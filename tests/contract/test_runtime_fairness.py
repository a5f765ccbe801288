"""One agent with a long queue and slow handlers: the others of its type do not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from callboard import App, MessageContext, RedisAgentRuntime, RoutedAgent, TopicId, event
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes

OTHERS = 20


class Talks:
    """An app whose agent `hot` waits for the gate with each message, and what was handled in which order."""

    def __init__(self) -> None:
        self.handled: dict[str, list[str]] = {}
        self.gate = asyncio.Event()
        self.app = App("talks")
        talks = self

        @self.app.agent("talk", topics=["lines"])
        class Talk(RoutedAgent):
            @event
            async def on_note(self, message: Note, ctx: MessageContext) -> None:
                if self.id.key == "hot":
                    await talks.gate.wait()
                talks.handled.setdefault(self.id.key, []).append(message.text)

    async def say(self, runtime: RedisAgentRuntime, key: str, count: int, start: int = 0) -> None:
        """Publishes lines, numbered."""
        await asyncio.gather(
            *(
                runtime.publish_message(Note(text=str(n)), TopicId("lines", key))
                for n in range(start, start + count)
            )
        )

    def heard(self, others: int) -> Callable[[], bool]:
        return lambda: len(self.handled.keys() - {"hot"}) == others


async def test_a_long_queue_of_one_agent_does_not_keep_its_worker_from_others(runtimes: Runtimes) -> None:
    talks = Talks()
    publisher = runtimes.of(talks.app, types=())
    await talks.say(publisher, "hot", 300)
    for n in range(OTHERS):
        await talks.say(publisher, f"k{n}", 1)
    worker = runtimes.of(talks.app, types=["talk"])
    worker.start()
    await eventually(talks.heard(OTHERS), what=lambda: talks.handled)
    assert "hot" not in talks.handled
    await talks.say(publisher, "hot", 20, start=300)
    await talks.say(publisher, "late", 1)
    await eventually(talks.heard(OTHERS + 1), what=lambda: talks.handled)
    talks.gate.set()
    await worker.stop_when_idle()
    assert talks.handled["hot"] == [str(n) for n in range(320)]


@pytest.mark.repeat
async def test_what_is_parked_again_keeps_its_order_when_its_agent_is_paused(runtimes: Runtimes) -> None:
    talks = Talks()
    worker = runtimes.of(talks.app, types=["talk"])
    await talks.say(worker, "hot", 200)
    await talks.say(worker, "other", 1)
    worker.start()
    await eventually(talks.heard(1))
    await worker.control.pause("talk")
    talks.gate.set()
    await eventually(lambda: "0" in talks.handled.get("hot", []))
    await worker.control.resume("talk")
    await worker.stop_when_idle()
    assert talks.handled["hot"] == [str(n) for n in range(200)]
