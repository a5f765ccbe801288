"""A glance beside the whole look: the same while it reaches everything, and never more than there is where it does not."""

from __future__ import annotations

import random

import pytest

from callboard import AgentId, App, ClosureContext, MessageContext, TopicId
from callboard.broker.envelope import Delivery
from callboard.broker.redis.client.transport import Declared, RedisTransport
from callboard.broker.redis.library import Mark
from callboard.broker.redis.operations import glance as limits
from callboard.broker.redis.operations.glance import glance
from callboard.broker.redis.operations.inspect import overview
from callboard.broker.redis.operations.views import Overview
from callboard.cli.commands.views import show_namespace
from tests.helpers.asking import AskingFixture
from tests.helpers.commits import Done
from tests.helpers.eventually import eventually
from tests.helpers.glances import comparable, overview_and_glance
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes
from tests.helpers.server_driver import DrivenWorker, ServerDriver, posting, topic

NARROW, WIDE = range(3), range(300)


async def test_a_namespace_where_nothing_is_declared_is_empty(driver: ServerDriver) -> None:
    view = await overview_and_glance(driver.transport)
    assert (view.types, view.workers, view.topics) == ((), (), ())


class Work:
    """Several types of a namespace, and workers that do one thing after the other."""

    def __init__(self, driver: ServerDriver, seed: int) -> None:
        self.driver = driver
        self.chance = random.Random(seed)
        self.workers: list[DrivenWorker] = []
        self.topics = NARROW

    async def begin(self) -> None:
        await self.driver.declare(
            *(Declared("wide", "prefix", "t-"), Declared("late", "prefix", "t-")),
            *(topic("clerk", "desk"), topic("packer", "desk")),
            max_attempts=2,
        )
        self.workers = [await self.driver.worker("wide", "clerk"), await self.driver.worker("late", "clerk")]

    async def publish(self) -> None:
        streams = [f"topic:t-{self.chance.choice(self.topics)}" for _ in range(6)]
        streams += self.chance.choices(["topic:desk", "inbox:clerk", "topic:nobody"], k=2)
        due = 60_000 if self.chance.random() < 0.1 else 0
        await self.driver.publish(*(posting(one, self.chance.choice("abc"), due=due) for one in streams))

    async def take(self) -> None:
        await self.chance.choice(self.workers).take(self.chance.randint(1, 8))

    async def finish(self) -> None:
        worker = self.chance.choice(self.workers)
        await worker.finish(*worker.held[: self.chance.randint(0, 3)])

    async def fail(self) -> None:
        worker = self.chance.choice(self.workers)
        own = [one for one in worker.held if _agent(one) == _agent(worker.held[0])]
        if len(own) == 1:
            ends = (Mark.RETRY, (60_000, 1, "1", "no")), (Mark.DEAD_LETTER, ("no", "E: no", "", 2, "1"))
            await worker.turn(Done(own[0], *self.chance.choice(ends)))

    async def order(self) -> None:
        targets = [("type", "wide"), ("key", "clerk/a"), ("topic", "desk"), ("topic", "t-1")]
        await self.driver.run(
            "control", self.chance.choice(["pause", "resume"]), *self.chance.choice(targets), "me"
        )

    async def reset(self) -> None:
        await self.driver.run("control", "reset", "clerk", self.chance.choice("abc"), "r", "")

    async def die(self) -> None:
        dead = self.workers.pop(0)
        await self.driver.run("leave", "1", "", dead.name)
        self.workers.append(await self.driver.worker(*dead.types))

    async def step(self) -> None:
        steps = [self.publish, self.take, self.take, self.finish, self.fail, self.order, self.reset, self.die]
        await self.chance.choice(steps)()


def _agent(delivery: Delivery) -> tuple[bytes, bytes]:
    return delivery.raw_type, delivery.raw_key


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_at_each_step_of_random_work_it_says_what_the_whole_look_says(
    driver: ServerDriver, seed: int
) -> None:
    work = Work(driver, seed)
    await work.begin()
    for _ in range(40):
        await work.step()
        await overview_and_glance(driver.transport)


@pytest.mark.real_server("it takes long where so many streams are looked at")
async def test_with_more_than_it_reaches_it_says_so_and_no_stream_is_forgotten(driver: ServerDriver) -> None:
    work = Work(driver, 4)
    await work.begin()
    work.topics = WIDE
    partly = 0
    for _ in range(30):
        await work.publish()
        await work.step()
        full, short = await overview(driver.transport, ages=True), await glance(driver.transport, ages=True)
        partly += _check_part(short, full)
        await _check_fresh(driver.transport, full)
    assert partly > 10, "otherwise there is nothing to see here"


def _check_part(short: Overview, full: Overview) -> bool:
    """What was counted in full is the same; of the rest there is at least so much. Whether there is a rest."""
    for one, whole in zip(comparable(short).types, comparable(full).types, strict=True):
        assert one.waiting is not None
        assert whole.waiting is not None
        assert one.waiting <= whole.waiting
        assert one.done == whole.done
        assert one.dead == whole.dead
        assert (one.oldest or 0) >= (whole.oldest or 0)
        if one.counted:
            assert one == whole or len(whole.streams) > len(one.streams)
            assert (one.waiting, one.parked, one.backing_off, one.held) == (
                *(whole.waiting, whole.parked, whole.backing_off, whole.held),
            )
    assert len(short.topics) + short.left_out.topics == len(full.topics)
    return not all(one.counted for one in short.types)


async def _check_fresh(transport: RedisTransport, full: Overview) -> None:
    """Every stream with something unread is among those that looks go through."""
    for one in full.types:
        fresh = await transport.admin.command("ZRANGE", transport.keys.of(f"fresh:{one.type}"), 0, -1)
        unread = {suffix.encode() for suffix, group in one.groups.items() if group.unread}
        assert unread <= set(fresh)


async def test_of_many_agents_with_something_parked_there_is_at_least_one_entry_each(
    driver: ServerDriver, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(limits, "PARKED", 5)
    monkeypatch.setattr(limits, "LEAST_PARKED", 5)
    await driver.declare(topic("clerk", "desk"))
    first, second = await driver.worker("clerk"), await driver.worker("clerk")
    await driver.publish(*(posting("topic:desk", f"k{number}") for number in range(20)))
    await first.take_all(20)
    await driver.publish(*(posting("topic:desk", f"k{number}") for number in range(20)))
    await second.take(40)
    (whole,) = (await overview(driver.transport)).types
    (one,) = (await glance(driver.transport)).types
    assert whole.parked == one.parked == 20
    assert one.waiting == whole.waiting == 40
    assert (one.counted, whole.counted) == (False, True)
    show_namespace(await glance(driver.transport))
    shown = capsys.readouterr().out
    assert "40+" in shown
    assert "there is more, of clerk: --all counts everything" in shown


async def test_types_workers_pauses_and_held_entries_beyond_its_limits_are_left_out(
    driver: ServerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TYPES", "WORKERS", "PAUSES", "TOPICS"):
        monkeypatch.setattr(limits, name, 2)
    monkeypatch.setattr(limits, "HELD", 1)
    await driver.declare(*(topic(f"type-{number}", f"desk-{number}") for number in range(5)))
    for number in range(3):
        worker = await driver.worker("type-0", f"type-{number}")
        await driver.run("control", "pause", "key", f"type-0/{number}", "me")
        await driver.note(f"topic:desk-{number}", "a", "1", "2")
        await worker.take()
    view = await glance(driver.transport)
    assert (len(view.types), len(view.workers), len(view.paused), len(view.topics)) == (2, 2, 2, 2)
    left = view.left_out
    assert (left.types, left.workers, left.pauses, left.topics) == (3, 1, 1, 3)
    monkeypatch.setattr(limits, "TYPES", 10)
    held = {one.type: one.counted for one in (await glance(driver.transport)).types}
    assert (held["type-0"], held["type-4"]) == (False, True)


async def test_what_waits_for_an_answer_is_seen_as_the_whole_look_sees_it(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1", "2", "3")
    first, _, _ = await scene.worker.take()
    await scene.ask(first)
    await overview_and_glance(driver.transport)
    await scene.suspend(first, "1-q")
    await driver.note("topic:work", "a", "4")
    view = await overview_and_glance(driver.transport)
    assert (view.totals.suspended, view.totals.waiting) == (1, 3)
    await driver.run("control", "reset", "asker", "a", "r", "")
    await overview_and_glance(driver.transport)
    await scene.answer("1-q")
    await overview_and_glance(driver.transport)


async def test_what_a_person_wrote_in_the_books_stops_no_glance(driver: ServerDriver) -> None:
    await driver.declare(topic("clerk", "desk"))
    await driver.note("topic:desk", "a", "1")
    await driver.command("HSET", "parked:clerk", "x", "many", b"\xff", "2")
    await driver.command("RPUSH", "wait:clerk:x", "no reference")
    await driver.command("HSET", "stats:clerk", "done", "a lot")
    await driver.command("ZADD", "workers", 1, b"\xfe")
    await driver.command("ZADD", "early:clerk", 0, "nonsense")
    (one,) = (await glance(driver.transport, ages=True)).types
    assert (one.waiting, one.done) == (4, 0)


@pytest.mark.real_server("it takes a minute for what is large here")
async def test_it_does_not_get_longer_with_more_topics_and_agents(driver: ServerDriver) -> None:
    await driver.declare(Declared("wide", "prefix", "t-"))
    numbers = []
    for start in range(0, 3000, 500):
        streams = range(start, start + 500)
        await driver.publish(*(posting(f"topic:t-{number}", f"k{number}", "x") for number in streams))
        numbers.append(await driver.commands(lambda: glance(driver.transport, ages=True)))
    assert max(numbers) < 2500
    assert max(numbers[2:]) < 1.02 * numbers[2]


async def test_streams_that_were_looked_at_in_vain_hide_nothing(driver: ServerDriver) -> None:
    """A beat, or a worker that joins, has all streams looked at once more: what is in none of them is not counted."""
    await driver.declare(Declared("wide", "prefix", "t-"))
    worker = await driver.worker("wide")
    await driver.publish(*(posting(f"topic:t-{number}", "a") for number in range(150)))
    while taken := await worker.take(100):
        await worker.finish(*taken)
    await driver.note("topic:t-100", "a", "x")
    for _ in range(3):
        await worker.beat()
    assert await driver.command("ZCARD", "fresh:wide") >= 150, "otherwise there is nothing to see here"
    (one,) = (await glance(driver.transport)).types
    assert (one.waiting, one.counted) == (1, True)


async def test_under_load_it_sees_no_less_than_there_was_and_in_the_end_the_same(runtimes: Runtimes) -> None:
    """Workers that fail and ask each other, over more topics than a glance reaches, with one that looks all the time."""
    chance, app = random.Random(11), App("glance")

    @app.closure("clerk", prefixes=["work."], max_attempts=2)
    async def clerk(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        if chance.random() < 0.1:
            raise ValueError("not this time")
        if chance.random() < 0.3:
            await agent.send_message(Ask(text=message.text), AgentId("helper", message.text))

    @app.closure("helper")
    async def helper(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        return Answer(text=message.text)

    workers = [runtimes.of(app, settings={"beat_every": 0.05, "prefetch": 8}) for _ in range(2)]
    for worker in workers:
        worker.start()
        await worker.ready()
    transport = workers[0].transport
    for number in range(200):
        to = TopicId(f"work.{chance.randrange(150)}", f"k{chance.randrange(9)}")
        await workers[0].publish_message(Note(text=str(number % 7)), to)
        if number % 20 == 0:
            before, short = await overview(transport), await glance(transport)
            after = await overview(transport)
            for one, old, new in zip(short.types, before.types, after.types, strict=True):
                assert old.done <= one.done <= new.done
                assert one.waiting is not None

    async def all_done() -> bool:
        view = await glance(transport, ages=True)
        clerk = next(one for one in view.types if one.type == "clerk")
        return view.totals.waiting == 0 and view.totals.running == 0 and clerk.done + clerk.died == 200

    await eventually(all_done)
    full, short = await overview(transport), await glance(transport)
    assert [one.counted for one in short.types] == [True, True]
    assert short.totals == full.totals
