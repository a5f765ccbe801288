"""The pulse of a namespace beside the whole overview: the same numbers, from looks that stay short."""

from __future__ import annotations

import asyncio
import random

import pytest

from callboard import AgentId, App, ClosureContext, MessageContext, TopicId
from callboard.broker.redis.client.transport import Declared
from callboard.broker.redis.operations.inspect import overview
from callboard.broker.redis.operations.pulse import Pulse
from callboard.broker.redis.operations.views import PulseView
from tests.helpers.asking import AskingFixture
from tests.helpers.eventually import eventually
from tests.helpers.glances import overview_and_glance
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes
from tests.helpers.server_driver import ServerDriver, posting, topic


async def _same(driver: ServerDriver, pulse: Pulse, name: str, *, is_large: bool = False) -> int | None:
    """What waits by the pulse, which is what the overview says, and a glance where there is no more than it reaches."""
    view = await (overview if is_large else overview_and_glance)(driver.transport)
    full = next(one for one in view.types if one.type == name)
    short = _of(await pulse.look(), name)
    assert short == (full.waiting, full.running, full.done, full.dead, full.died)
    return short[0]


def _of(view: PulseView, name: str) -> tuple[int | None, int, int, int, int]:
    one = next(one for one in view.types if one.type == name)
    return one.waiting, one.running, one.done, one.dead, one.died


async def test_an_empty_namespace_and_a_type_that_is_not_declared_have_nothing(driver: ServerDriver) -> None:
    view = await Pulse(driver.transport, ["counter"]).look()
    assert _of(view, "counter") == (0, 0, 0, 0, 0)
    assert view.workers == ()
    assert view.at > 0


async def test_a_worker_is_seen_with_its_lease_and_with_what_it_holds_of_each_type(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"), topic("clerk", "orders"))
    worker = await driver.worker("counter", "clerk")
    await driver.note("topic:visits", "a", "1", "2")
    await driver.note("topic:orders", "b", "3")
    await worker.take()
    (seen,) = (await Pulse(driver.transport, ["counter"]).look()).workers
    assert (seen.name, seen.holds) == (worker.name, {"counter": 2, "clerk": 1})
    assert seen.lease_ms_left > 0
    await driver.expire(worker)
    (seen,) = (await Pulse(driver.transport, ["counter"]).look()).workers
    assert seen.lease_ms_left < 0


async def test_more_streams_than_a_look_reaches_are_counted_in_rounds(driver: ServerDriver) -> None:
    await driver.declare(Declared("wide", "prefix", "t-"))
    for number in range(130):
        await driver.note(f"topic:t-{number}", "k", *(["x"] * (1 + number % 3)))
    pulse = Pulse(driver.transport, ["wide"])
    found = [_of(await pulse.look(), "wide")[0] for _ in range(6)]
    assert found[0] is not None
    assert 0 < found[0] < 259
    assert found[2:] == [259] * 4, (
        "a round takes three looks, and what it counted stays until the next one has more"
    )


async def test_what_was_read_meanwhile_leaves_with_the_next_round(driver: ServerDriver) -> None:
    await driver.declare(Declared("wide", "prefix", "t-"))
    for number in range(130):
        await driver.note(f"topic:t-{number}", "k", "x")
    pulse = Pulse(driver.transport, ["wide"])
    for _ in range(3):
        await pulse.look()
    worker = await driver.worker("wide")
    while got := await worker.take(200):
        await worker.finish(*got)
    for _ in range(4):
        await pulse.look()
    assert await _same(driver, pulse, "wide", is_large=True) == 0


@pytest.mark.real_server("it takes long where so much is parked")
async def test_more_agents_with_something_parked_than_a_look_reaches_are_counted_in_rounds(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("wide", "work"))
    first, second = await driver.worker("wide"), await driver.worker("wide")
    for _ in range(2):
        for start in range(0, 1700, 500):
            numbers = range(start, min(start + 500, 1700))
            await driver.publish(*(posting("topic:work", f"k{number}", "x") for number in numbers))
        while len(first.held) < 1700:
            await first.take(400)
    for _ in range(40):
        await second.take(200)
    assert await driver.command("HLEN", "parked:wide") > 1000, "otherwise there is nothing to see here"
    pulse = Pulse(driver.transport, ["wide"])
    for _ in range(30):
        await pulse.look()
    assert await _same(driver, pulse, "wide", is_large=True) == 3400


async def test_what_waits_for_an_answer_is_counted_as_the_overview_counts_it(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1", "2", "3")
    pulse = Pulse(driver.transport, ["asker"])
    await _same(driver, pulse, "asker")
    first, _, _ = await scene.worker.take()
    await scene.ask(first)
    await _same(driver, pulse, "asker")
    await scene.suspend(first, "1-q")
    await driver.note("topic:work", "a", "4")
    await _same(driver, pulse, "asker")
    await scene.answer("1-q")
    await _same(driver, pulse, "asker")
    await scene.worker.take()
    await _same(driver, pulse, "asker")


async def test_a_group_that_is_gone_and_numbers_that_are_none_stop_nothing(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.note("topic:visits", "a", "1", "2", "3")
    await driver.command("HSET", "parked:counter", "x", "many", "y", "9" * 30)
    await driver.command("HSET", "stats:counter", "done", "a lot")
    pulse = Pulse(driver.transport, ["counter"])
    assert _of(await pulse.look(), "counter") == (3, 0, 0, 0, 0)
    key = driver.transport.keys.of("topic:visits")
    await driver.transport.admin.command("XGROUP", "DESTROY", key, "counter")
    assert _of(await pulse.look(), "counter")[0] == 3
    await driver.command("DEL", "topic:visits")
    assert _of(await pulse.look(), "counter")[0] == 0


@pytest.mark.real_server("it takes a minute for what is large here")
async def test_a_look_does_not_get_longer_with_more_topics(driver: ServerDriver) -> None:
    await driver.declare(Declared("wide", "prefix", "t-"))
    pulse = Pulse(driver.transport, ["wide"])
    most = 0
    for start in range(0, 3000, 500):
        numbers = range(start, start + 500)
        await driver.publish(*(posting(f"topic:t-{number}", "k", "x") for number in numbers))
        most = max(most, await driver.commands(pulse.look))
    assert most < 600


async def test_a_large_fleet_is_looked_at_less_often(driver: ServerDriver) -> None:
    few, many = Pulse(driver.transport, ["a"]), Pulse(driver.transport, [f"t{n}" for n in range(200)])
    await few.look()
    await many.look()
    assert few.every < 0.1 < many.every < 2


async def test_under_load_both_come_to_the_same(runtimes: Runtimes) -> None:
    """Workers that wait, fail, ask each other and nest, beside one that looks all the time; in the end all is counted."""
    chance, app = random.Random(7), App("pulse")

    @app.closure("clerk", topics=["work"], max_attempts=2)
    async def clerk(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        if chance.random() < 0.2:
            raise ValueError("not this time")
        if chance.random() < 0.3:
            await agent.send_message(
                Ask(text=message.text), AgentId("helper", ctx.topic_id.source if ctx.topic_id else "h")
            )

    @app.closure("helper", reentrant=True)
    async def helper(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        await asyncio.sleep(0.001)
        return Answer(text=message.text)

    workers = [runtimes.of(app, settings={"beat_every": 0.05, "prefetch": 4}) for _ in range(2)]
    for worker in workers:
        worker.start()
        await worker.ready()
    transport = workers[0].transport
    pulse = Pulse(transport, ["clerk", "helper"])
    for number in range(200):
        await workers[0].publish_message(Note(text=str(number)), TopicId("work", f"k{chance.randrange(9)}"))
        for one in (await pulse.look()).types if number % 5 == 0 else ():
            assert one.waiting is not None
            assert 0 <= one.waiting <= 200

    async def all_done() -> bool:
        full = {one.type: one for one in (await overview(transport)).types}
        short = {one.type: one for one in (await pulse.look()).types}
        return (
            all(
                (short[name].waiting, short[name].done, short[name].died)
                == (0, full[name].done, full[name].died)
                for name in ("clerk", "helper")
            )
            and full["clerk"].done + full["clerk"].died == 200
        )

    await eventually(all_done)
