"""The server loses a tail of what it acknowledged while workers live: what it still has is handled once in effect.

A worker that was answered something of the tail is fenced, whatever it calls next; nothing of it is written.
"""

from __future__ import annotations

import asyncio
import json
from functools import partial

import msgpack
import pytest
from pydantic import BaseModel

from callboard import MessageContext, RedisAgentRuntime, RoutedAgent, TopicId, TypeSubscription, event
from callboard.broker.errors import FencedError
from callboard.broker.redis.client.endpoint import Argument
from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes
from tests.helpers.server_driver import ServerDriver, bodies, posting, topic
from tests.helpers.tails import Tail

EFFECTS = Mark.COMMIT + Mark.STATE + Mark.OUTGOING


@pytest.fixture
def tail(driver: ServerDriver) -> Tail:
    return Tail(driver.transport.admin.command, driver.transport.keys.prefix)


def _effects(body: str) -> tuple[Argument, ...]:
    """A state, and a message that leaves with the commit."""
    return (1, body.encode(), 1, "topic:effects", 0, f"of-{body}", "Note", "a", "", b"", body.encode())


async def _effects_of(driver: ServerDriver) -> list[bytes]:
    return [entry["body"] for entry in await driver.entries("topic:effects")]


async def test_nothing_that_was_committed_in_the_tail_is_committed_twice(
    driver: ServerDriver, tail: Tail
) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1", "2", "3")
    one, two, three = await worker.take()
    await tail.begins()
    await worker.turn(Done(one, EFFECTS + Mark.MORE, _effects("1")))
    await tail.is_lost()
    with pytest.raises(FencedError):
        await worker.turn(Done(two, EFFECTS + Mark.MORE, _effects("2")), count=5)
    assert await _effects_of(driver) == []
    other = await driver.worker("counter")
    held = await other.take()
    assert bodies(held) == ["1", "2", "3"], "all of it is there again, in order"
    assert [one.attempt for one in held] == [1, 1, 1], "nobody died"
    with pytest.raises(FencedError):
        await worker.finish(three)
    await other.finish_all()
    await driver.check_empty("counter")


async def test_what_a_worker_was_given_in_the_tail_is_not_its_own(driver: ServerDriver, tail: Tail) -> None:
    """Two workers believe to hold M: the one that the server gave it to first has forgotten that."""
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "M")
    await tail.begins()
    (lost,) = await first.take()
    await tail.is_lost()
    (found,) = await second.take()
    assert lost.reference == found.reference
    with pytest.raises(FencedError):
        await first.turn(Done(lost, EFFECTS, _effects("first")))
    await second.turn(Done(found, EFFECTS, _effects("second")))
    assert await _effects_of(driver) == [b"second"]
    await driver.check_empty("counter")


async def test_an_idle_worker_hears_it_from_its_heartbeat(driver: ServerDriver, tail: Tail) -> None:
    """Its lane says nothing while its handlers run, which may take an hour."""
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "0", "1")
    held = await first.take(1)
    await tail.begins()
    await first.turn(Done(held[0], Mark.COMMIT, ()), count=1)
    await tail.is_lost()
    assert await first.beat() == [b"FENCED"]
    assert bodies(await second.take()) == ["0", "1"], "what it held goes to others at once, in order"
    assert [one.attempt for one in second.held] == [1, 1]
    with pytest.raises(FencedError):
        await first.lane.resync()


async def test_an_unsure_worker_hears_it_when_it_asks(driver: ServerDriver, tail: Tail) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1", "2")
    (one,) = await first.take(1)
    await tail.begins()
    await first.finish(one)
    await tail.is_lost()
    with pytest.raises(FencedError):
        await first.lane.resync()
    assert bodies(await second.take()) == ["1", "2"]


async def test_a_call_whose_answer_was_lost_with_the_tail_is_none_of_it(
    driver: ServerDriver, tail: Tail
) -> None:
    """The worker was not told that it was carried out, so it is not behind: it goes on, and sends its commit again."""
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    (one,) = await worker.take()
    known = worker.lane.incarnation
    await tail.begins()
    await worker.turn(Done(one, EFFECTS, _effects("1")))
    worker.lane.incarnation = known  # its answer did not arrive
    await tail.is_lost()
    (again,) = await worker.lane.resync()
    await worker.turn(Done(again, EFFECTS, _effects("1")))
    assert await _effects_of(driver) == [b"1"]
    await driver.check_empty("counter")


async def test_a_worker_that_was_answered_nothing_of_the_tail_goes_on(
    driver: ServerDriver, tail: Tail
) -> None:
    await driver.declare(topic("counter", "visits"))
    worker, other = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    held = await worker.take()
    await tail.begins()
    await driver.note("topic:visits", "b", "2")
    await other.take()
    await tail.is_lost()
    assert (await worker.beat())[0] == b"OK"
    assert bodies(await worker.lane.resync()) == ["1"]
    await worker.finish(*held)
    await driver.check_empty("counter")


async def test_nothing_overtakes_what_comes_back(driver: ServerDriver, tail: Tail) -> None:
    """The finding: the commit of `blocker` was lost, nobody ran it any more, and a later message overtook it."""
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "blocker", "next")
    (blocker, _) = await first.take()
    await tail.begins()
    await first.turn(Done(blocker, Mark.COMMIT + Mark.MORE, ()))
    await tail.is_lost()
    await driver.note("topic:visits", "a", "later")
    assert await second.take() == [], "the agent is held, as far as the server knows"
    assert await first.beat() == [b"FENCED"]
    assert bodies(await second.take()) == ["blocker", "next", "later"]


async def test_a_process_gets_no_name_twice(driver: ServerDriver, tail: Tail) -> None:
    """Else a turn of its earlier incarnation, or of another lane of the process, would pass for one of this one."""
    await driver.declare(topic("counter", "visits"))
    await tail.begins()
    first, second = await driver.worker("counter"), await driver.worker("counter")
    names = {first.name, second.name}
    await tail.is_lost()
    with pytest.raises(FencedError):
        await first.take()
    await first.lane.join(["counter"])
    await second.lane.join(["counter"])
    assert not names & {first.name, second.name}
    assert first.name != second.name


async def test_a_batch_that_was_answered_and_lost_may_be_followed_by_others(
    driver: ServerDriver, tail: Tail
) -> None:
    """The publisher's numbers go on: a number that the server has forgotten is not taken for one that it knows."""
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await tail.begins()
    await driver.publish(posting("topic:visits", "a", "2", idempotency_id="two"))
    await driver.note("topic:visits", "a", "3")
    await tail.is_lost()
    await driver.note("topic:visits", "a", "4")
    assert await driver.publish(posting("topic:visits", "a", "2", idempotency_id="two")) == [True]
    assert bodies(await worker.take()) == ["1", "4", "2"], "what was in the tail is gone, nothing else"


async def test_a_commit_of_what_another_worker_holds_is_refused(driver: ServerDriver) -> None:
    """However it came about that they disagree."""
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:visits", "b", "2")
    one, two = await first.take()
    await driver.command("HDEL", f"own:{first.name}", "counter topic:visits " + one.entry.decode())
    await driver.command("HDEL", "busy:counter", "a")
    with pytest.raises(FencedError):
        await first.turn(Done(two, EFFECTS, _effects("2")), Done(one, EFFECTS, _effects("1")))
    assert await _effects_of(driver) == []
    assert bodies(await second.take()) == ["2"], "nothing of that turn was written"


async def test_a_commit_for_another_agent_is_refused(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    (one,) = await worker.take()
    one.raw_key = b"b"
    with pytest.raises(FencedError):
        await worker.turn(Done(one, EFFECTS, _effects("1")))


# Whole workers


class Tally(RoutedAgent):
    """Counts what it hears; a note `stop` waits at the gate of the process that runs it."""

    class State(BaseModel):
        heard: list[str] = []

    def __init__(self, gate: asyncio.Event, started: list[str]) -> None:
        super().__init__("counts")
        self._gate, self._started = gate, started

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        self._started.append(message.text)
        if message.text == "stop":
            await self._gate.wait()
        self.state.heard.append(message.text)
        await self.publish_message(message, TopicId("heard", "all"))


class Counting:
    """A runtime whose agents count, with the gate that they stop at."""

    def __init__(self, runtime: RedisAgentRuntime) -> None:
        self.runtime = runtime
        self.gate = asyncio.Event()
        self.started: list[str] = []

    async def begin(self) -> None:
        await Tally.register(self.runtime, "tally", lambda: Tally(self.gate, self.started))
        await self.runtime.add_subscription(TypeSubscription("notes", "tally"))
        self.runtime.start()
        await self.runtime.ready()


async def _counting(runtimes: Runtimes) -> Counting:
    made = Counting(runtimes.new(settings={"lease": 1.0, "beat_every": 0.05}))
    await made.begin()
    return made


async def _say(runtime: RedisAgentRuntime, *texts: str) -> None:
    for text in texts:
        await runtime.publish_message(Note(text=text), TopicId("notes", "a"))


async def _has_heard(runtime: RedisAgentRuntime, *texts: str) -> bool:
    """Whether just this was handled, by what left with the commits and by the state."""
    transport = runtime.transport
    entries = await transport.admin.command("XRANGE", transport.keys.of("topic:heard"), "-", "+")
    fields = [dict(zip(flat[::2], flat[1::2], strict=True)) for _, flat in entries]
    sent = [msgpack.unpackb(one[b"body"])["text"] for one in fields]
    state = (await transport.load_state("tally", "a")).data
    return sent == (json.loads(state)["heard"] if state else []) == list(texts)


def _tail_of(runtime: RedisAgentRuntime) -> Tail:
    return Tail(runtime.transport.admin.command, runtime.transport.keys.prefix)


async def test_an_idle_worker_does_again_what_was_lost(runtimes: Runtimes) -> None:
    """It makes no call: its heartbeat notices. What its agents have in memory does not count either."""
    worker = await _counting(runtimes)
    publisher = runtimes.new()
    await publisher.open()
    await _say(publisher, "1", "stop")
    await eventually(lambda: worker.started == ["1", "stop"])
    tail = _tail_of(publisher)
    await tail.begins()
    worker.gate.set()
    await _say(publisher, "lost")
    await eventually(lambda: worker.started == ["1", "stop", "lost"])
    await eventually(partial(_has_heard, publisher, "1", "stop", "lost"))
    await tail.is_lost()
    await eventually(partial(_has_heard, publisher, "1", "stop"))
    await _say(publisher, "2")
    await eventually(partial(_has_heard, publisher, "1", "stop", "2"))


async def test_of_two_workers_that_run_the_same_message_one_counts(runtimes: Runtimes) -> None:
    """The server has forgotten that it gave it to the first one, and that this one joined."""
    first = await _counting(runtimes)
    publisher = runtimes.new()
    await publisher.open()
    await first.runtime.stop()
    await _say(publisher, "stop")
    tail = _tail_of(publisher)
    await tail.begins()
    first.runtime.start()
    await eventually(lambda: first.started == ["stop"])
    await tail.is_lost()
    second = await _counting(runtimes)
    await eventually(lambda: second.started or len(first.started) > 1)
    await _say(publisher, "next")
    first.gate.set()
    second.gate.set()
    await eventually(partial(_has_heard, publisher, "stop", "next"))
    await second.runtime.stop_when_idle()
    assert await _has_heard(publisher, "stop", "next")
