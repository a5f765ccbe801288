"""How much waits: what was published and not handled, counted by hand, at every step of random work."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from pydantic import BaseModel

from callboard import App, MessageContext, RoutedAgent, TopicId, event
from callboard.broker.redis.library import Mark
from callboard.broker.redis.operations.agents import agent, hottest
from callboard.broker.redis.operations.inspect import overview
from callboard.broker.redis.operations.pulse import Pulse
from callboard.broker.redis.operations.views import AgentTypeView
from tests.helpers.commits import Done
from tests.helpers.eventually import eventually
from tests.helpers.glances import overview_and_glance
from tests.helpers.runtimes import Note, Runtimes
from tests.helpers.server_driver import LEASE, DrivenWorker, ServerDriver, posting, topic

STREAMS = ("topic:visits", "topic:orders", "inbox:counter")


async def counter_of(driver: ServerDriver) -> AgentTypeView:
    """What the overview says of the type; the pulse and a glance say the same."""
    view = await overview_and_glance(driver.transport)
    full = next(one for one in view.types if one.type == "counter")
    (short,) = (await Pulse(driver.transport, ["counter"]).look()).types
    assert (short.waiting, short.running, short.asking, short.done, short.dead, short.died) == (
        *(full.waiting, full.running, full.suspended, full.done, full.dead, full.died),
    )
    return full


class Work:
    """Does one thing after the other, and knows what was published and not handled."""

    def __init__(self, driver: ServerDriver, seed: int) -> None:
        self.driver = driver
        self.chance = random.Random(seed)
        self.workers: list[DrivenWorker] = []
        self.unhandled: set[str] = set()
        self.running: dict[str, int] = {}
        self.published = 0

    async def begin(self) -> None:
        await self.driver.declare(topic("counter", "visits"), topic("counter", "orders"), max_attempts=1000)
        self.workers = [await self.driver.worker("counter") for _ in range(2)]

    async def publish(self) -> None:
        for _ in range(self.chance.randint(1, 6)):
            self.published += 1
            name = f"w{self.published}"
            key = self.chance.choice("aab")
            await self.driver.publish(posting(self.chance.choice(STREAMS), key, id=name))
            self.unhandled.add(name)

    async def take(self) -> None:
        await self.chance.choice(self.workers).take(self.chance.randint(1, 8))

    async def finish(self) -> None:
        worker = self.chance.choice(self.workers)
        if worker.held:
            first = worker.held[0]
            await worker.finish(first, accept=self.chance.random() < 0.5)
            self.unhandled.discard(first.envelope.id)

    async def give_back(self) -> None:
        """The first of what a worker holds is to be tried again, and what it holds of its agent goes back."""
        worker = self.chance.choice(self.workers)
        if not worker.held:
            return
        retry, *rest = [one for one in worker.held if one.raw_key == worker.held[0].raw_key]
        ends = [Done(retry, Mark.RETRY, (60_000, 1, "", "no"))] + [
            Done(one, Mark.RELEASE, ()) for one in rest
        ]
        if not rest:
            await worker.turn(*ends)
        else:
            last = ends[-1]
            await worker.turn(
                *(Done(one.delivery, one.mode + Mark.MORE, one.extras) for one in ends[:-1]), last
            )

    async def pause(self) -> None:
        target = self.chance.choice([("type", "counter"), ("key", "counter/a"), ("topic", "visits")])
        await self.driver.run("control", self.chance.choice(["pause", "resume"]), *target, "me")

    async def die(self) -> None:
        """A worker dies and its messages go back; another takes its place."""
        dead = self.workers.pop(0)
        await self.driver.run("leave", "1", "", dead.name)
        dead.held.clear()
        self.workers.append(await self.driver.worker("counter"))

    async def beat(self) -> None:
        """A worker says how much it runs: one message of each agent at most."""
        worker = self.chance.choice(self.workers)
        running = len({one.raw_key for one in worker.held})
        acknowledged = worker.lane.incarnation.acknowledged
        about = (int(LEASE * 1000), 1000, 100_000, 0, running, acknowledged, 0, f"counter {running}")
        assert (await self.driver.run("beat", worker.name, *about))[0] == b"OK"

    async def step(self) -> None:
        await self.chance.choice(
            [self.publish, self.take, self.finish, self.give_back, self.pause, self.die, self.beat]
        )()


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_waiting_and_running_are_all_that_is_not_handled(driver: ServerDriver, seed: int) -> None:
    work = Work(driver, seed)
    await work.begin()
    for _ in range(60):
        await work.step()
        view = await counter_of(driver)
        assert view.waiting is not None
        assert view.waiting + view.running == len(work.unhandled)
        assert (view.oldest is None) == (view.waiting == 0)


async def test_what_a_worker_holds_and_has_not_begun_waits(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.note("topic:visits", "a", "1", "2", "3", "4", "5", "6", "7")
    worker = await driver.worker("counter")
    await worker.take()
    about = (int(LEASE * 1000), 1000, 100_000, 7, 1, worker.lane.incarnation.acknowledged, 0, "counter 1")
    await driver.run("beat", worker.name, *about)
    view = await counter_of(driver)
    assert (view.waiting, view.running, view.held) == (6, 1, 1)
    second = (await driver.command("XRANGE", "topic:visits", "-", "+"))[1][0]
    assert view.oldest == int(second.split(b"-")[0])


async def test_a_worker_whose_lease_ended_runs_nothing(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.note("topic:visits", "a", "1", "2")
    worker = await driver.worker("counter")
    await worker.take()
    about = (int(LEASE * 1000), 1000, 100_000, 2, 1, worker.lane.incarnation.acknowledged, 0, "counter 1")
    await driver.run("beat", worker.name, *about)
    await driver.expire(worker)
    view = await counter_of(driver)
    assert (view.waiting, view.running) == (2, 0)


async def test_what_is_delayed_does_not_wait_and_a_reset_does(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.publish(posting("topic:visits", "a", due=60_000))
    assert await driver.run("control", "reset", "counter", "a", "r1", "") == 1
    view = await overview_and_glance(driver.transport)
    assert (view.totals.waiting, view.delayed, view.timers) == (1, 1, 1)
    assert (await counter_of(driver)).waiting == 1
    worker = await driver.worker("counter")
    taken = await worker.take()
    assert (await counter_of(driver)).waiting == 1
    await worker.finish(*taken)
    assert (await counter_of(driver)).waiting == 0


async def test_what_backs_off_waits_and_is_not_delayed(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.note("topic:visits", "a", "1")
    worker = await driver.worker("counter")
    (taken,) = await worker.take()
    await worker.turn(Done(taken, Mark.RETRY, (60_000, 1, "", "no")))
    view = await overview_and_glance(driver.transport)
    assert (view.totals.waiting, view.totals.backing_off, view.delayed, view.timers) == (1, 1, 0, 1)


async def test_what_a_type_that_unsubscribed_has_in_hand_waits(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.note("topic:visits", "a", "1", "2")
    worker = await driver.worker("counter")
    await worker.take()
    await driver.run("unsubscribe", "counter", "topic", "visits")
    assert (await counter_of(driver)).waiting == 2


async def test_runtimes_say_what_they_run(runtimes: Runtimes) -> None:
    go_on, app = asyncio.Event(), App("waiting")
    begun: Counter[str] = Counter()

    @app.agent("clerk", topics=["work"], concurrency=2)
    class Clerk(RoutedAgent):
        class State(BaseModel):
            seen: int = 0

        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            begun[self.id.key] += 1
            await go_on.wait()

    workers = [runtimes.of(app, settings={"beat_every": 0.05, "prefetch": 4}) for _ in range(2)]
    for worker in workers:
        worker.start()
        await worker.ready()
    for number in range(40):
        await workers[0].publish_message(Note(), TopicId("work", f"k{number % 10}"))

    async def seen() -> tuple[int | None, int]:
        view = await overview(workers[0].transport)
        return view.totals.waiting, view.totals.running

    async def settled() -> bool:
        return begun.total() == 4 and (await seen())[1] == 4

    await eventually(settled)
    assert await seen() == (36, 4)
    go_on.set()

    async def done() -> bool:
        return await seen() == (0, 0)

    await eventually(done)


async def test_a_handler_that_asked_is_no_backlog(runtimes: Runtimes) -> None:
    """Operations alarm on what waits, and for how long: an answer of a person may take days."""
    app = App("asking")

    @app.agent("clerk", topics=["work"])
    class Clerk(RoutedAgent):
        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            await ctx.ask("May I?")

    worker = runtimes.of(app)
    worker.start()
    await worker.ready()
    for key in ("a", "a", "b"):
        await worker.publish_message(Note(), TopicId("work", key))
    transport, pulse = worker.transport, Pulse(worker.transport, ["clerk"])

    async def both_ask() -> bool:
        totals = (await overview(transport)).totals
        return (totals.suspended, totals.running) == (2, 0)

    await eventually(both_ask)
    view = (await overview_and_glance(transport)).types[0]
    (short,) = (await pulse.look()).types
    assert (view.waiting, view.running, view.suspended) == (1, 0, 2)
    assert (short.waiting, short.running, short.asking) == (1, 0, 2)
    second = await transport.admin.command("XRANGE", transport.keys.of("topic:work"), "-", "+")
    assert view.oldest == int(second[1][0].split(b"-")[0])
    of_a, of_b = await agent(transport, "clerk", "a"), await agent(transport, "clerk", "b")
    assert (of_a.waiting, of_a.suspended, of_b.waiting, of_b.oldest) == (1, True, 0, None)
    assert [one.key for one in await hottest(transport)] == ["a"]
    for question in await worker.inputs.list():
        await worker.inputs.answer(question.id, "yes")

    async def asks_again() -> bool:
        one = (await overview(transport)).types[0]
        return (one.waiting, one.suspended) == (0, 1)

    await eventually(asks_again)
