"""Flow control: a limit on what waits in a topic and behind an agent, and a limit on what a type takes a second."""

from __future__ import annotations

import asyncio
import time

import pytest

from callboard import App, MessageContext, RedisAgentRuntime, RoutedAgent, TopicId, event
from callboard.broker.errors import OverloadedError
from tests.helpers.eventually import eventually, never
from tests.helpers.runtimes import Note, Runtimes


def app_of(handled: list[str], gate: asyncio.Event, **options: float) -> App:
    app = App("flow")

    @app.agent("worker", topics=["work"], **options)  # type: ignore[arg-type]
    class Worker(RoutedAgent):
        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            await gate.wait()
            handled.append(f"{self.id.key}{message.text}")

    return app


async def _publish(runtime: RedisAgentRuntime, key: str, *texts: object) -> None:
    for text in texts:
        await runtime.publish_message(Note(text=str(text)), TopicId("work", key))


async def test_a_full_topic_refuses_at_once_when_asked_to(runtimes: Runtimes) -> None:
    handled: list[str] = []
    gate = asyncio.Event()
    app = app_of(handled, gate)
    publisher = runtimes.of(app, types=(), settings={"max_backlog": 5, "when_full": "reject"})
    await _publish(publisher, "a", *range(5))
    with pytest.raises(OverloadedError) as caught:
        await _publish(publisher, "b", 0)
    assert caught.value.stream == "topic:work"
    assert isinstance(caught.value, OverloadedError)
    gate.set()
    worker = runtimes.of(app, types=["worker"])
    worker.start()
    await eventually(lambda: len(handled) == 5)
    await _publish(publisher, "b", 1)
    await worker.stop_when_idle()
    assert handled[-1] == "b1"


async def test_handled_messages_that_are_kept_do_not_count(runtimes: Runtimes) -> None:
    handled: list[str] = []
    gate = asyncio.Event()
    gate.set()
    app = app_of(handled, gate)
    worker = runtimes.of(app, types=["worker"])
    worker.start()
    publisher = runtimes.of(app, types=(), settings={"max_backlog": 5})
    await _publish(publisher, "a", *range(60))
    await worker.stop_when_idle()
    assert handled == [f"a{number}" for number in range(60)]


async def test_a_publisher_waits_for_room_and_keeps_the_order(runtimes: Runtimes) -> None:
    handled: list[str] = []
    gate = asyncio.Event()
    app = app_of(handled, gate)
    worker = runtimes.of(app, types=["worker"])
    worker.start()
    publisher = runtimes.of(app, types=(), settings={"max_backlog": 5})
    await publisher.open()
    sending = [asyncio.create_task(_publish(publisher, "a", number)) for number in range(30)]
    sending += [asyncio.create_task(_publish(publisher, "b", number)) for number in range(30)]
    await never(lambda: sum(task.done() for task in sending) > 5)
    gate.set()
    await asyncio.gather(*sending)
    await worker.stop_when_idle()
    for key in "ab":
        assert [text for text in handled if text[0] == key] == [f"{key}{number}" for number in range(30)]


async def test_waiting_for_room_ends(runtimes: Runtimes) -> None:
    gate = asyncio.Event()
    settings = {"max_backlog": 2, "publish_timeout": 0.1}
    publisher = runtimes.of(app_of([], gate), types=(), settings=settings)
    await _publish(publisher, "a", 1, 2)
    sending = [asyncio.create_task(_publish(publisher, "a", number)) for number in range(3, 6)]
    await asyncio.wait(sending)
    for task in sending:
        with pytest.raises(OverloadedError, match="has been full"):
            task.result()
    assert publisher.transport.in_flight == 0


async def test_closing_does_not_wait_for_room(runtimes: Runtimes) -> None:
    publisher = runtimes.of(app_of([], asyncio.Event()), types=(), settings={"max_backlog": 1})
    await _publish(publisher, "a", 1)
    sending = asyncio.create_task(_publish(publisher, "a", 2))
    await eventually(lambda: publisher.transport.in_flight == 1)
    await publisher.close()
    with pytest.raises(Exception, match="closed"):
        await sending


async def test_one_busy_agent_is_full_and_the_others_are_not(runtimes: Runtimes) -> None:
    handled: list[str] = []
    gate = asyncio.Event()
    app = app_of(handled, gate)
    worker = runtimes.of(app, types=["worker"], settings={"prefetch": 1})
    worker.start()
    other = runtimes.of(app, types=["worker"], settings={"prefetch": 8})
    other.start()
    settings = {"max_backlog_per_key": 3, "when_full": "reject"}
    publisher = runtimes.of(app, types=(), settings=settings)
    accepted = 0

    async def is_refused() -> bool:
        nonlocal accepted
        try:
            await _publish(publisher, "hot", accepted)
        except OverloadedError:
            return True
        accepted += 1
        return False

    await eventually(is_refused)
    await _publish(publisher, "cold", 0)
    gate.set()
    await worker.stop_when_idle()
    await other.stop_when_idle()
    assert [text for text in handled if text != "cold0"] == [f"hot{number}" for number in range(accepted)]


async def test_a_type_takes_no_more_than_its_rate_whatever_the_number_of_workers(runtimes: Runtimes) -> None:
    times: list[float] = []
    app = App("rate")

    @app.agent("worker", topics=["work"], rate_limit=20)
    class Worker(RoutedAgent):
        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            times.append(time.monotonic())

    workers = [runtimes.of(app, types=["worker"]) for _ in range(2)]
    for worker in workers:
        worker.start()
        await worker.ready()
    for number in range(45):
        await _publish(workers[0], f"k{number}", number)
    await workers[0].stop_when_idle()
    await workers[1].stop_when_idle()
    assert len(times) == 45
    # One second's worth at once, and the rest at the rate; half of that time allows for a first handler that was late.
    assert times[-1] - times[0] >= (45 - 20) / 20 / 2
