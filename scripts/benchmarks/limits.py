"""The longest call of each function on a server that is full: 100,000 agents, topics, parked entries, questions.

scripts/bench limits [--quick] [--instructions] [--json]. Nothing here runs on its own: the measurement is publisher and
workers at once, one call after the other, and the server's processor time is read before and after each call. With
--instructions it is what callgrind has counted, on a server that holds a tenth: enough that each call does what it does at
most.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from callboard.broker import BrokerSettings
from callboard.broker.errors import FencedError
from callboard.broker.redis.client.transport import Declared
from callboard.broker.redis.library import Mark
from callboard.broker.redis.operations import agents, deadletters, inspect
from callboard.broker.redis.operations.agents import hottest
from callboard.broker.redis.operations.glance import glance
from callboard.broker.redis.operations.repair import find
from callboard.cli.sessions import run
from tests.helpers.commits import Done
from tests.helpers.server_driver import LEASE, DrivenWorker, ServerDriver, plain, posting, topic

from .callgrind import CallgrindError, CountedServer
from .gauge import Gauge, Worst, measured, processor_ms
from .limits_questions import Waiting
from .limits_sizes import Sizes
from .site import Site

LIMIT: Final = 20.0  # ms
HOUR: Final = 3_600_000
SAMPLES: Final = 40  # calls of one function that are counted in one thing: to ask callgrind takes 0.1 s
AT_ONCE: Final = 500  # what a worker takes and commits in one turn


class Place:
    """A namespace that is filled, then measured."""

    def __init__(self, site: Site, sizes: Sizes, gauge: Gauge) -> None:
        self.site = site
        self.sizes = sizes
        self.gauge = gauge
        settings = BrokerSettings(
            namespace="limits", lease=LEASE, socket_timeout=600.0, connect_timeout=600.0
        )
        self.driver = ServerDriver(site.url, settings)
        self.driver.transport = measured(site.url, settings, self.gauge)
        self.prefix = self.driver.transport.keys.prefix

    # What is there before anything is measured

    async def fill(self) -> None:
        """Agents, topics, messages that wait for all reasons there are."""
        await self.driver.declare(
            topic("counter", "visits"), topic("slow", "queue"), topic("paused", "halts"), topic("long", "long"),
            Declared("wide", "prefix", "t-"), Declared("some", "prefix", "t-1"),
        )  # fmt: skip
        _say("states, dead letters, timers")
        self._fill_states()
        self._fill_letters()
        for part in _parts(range(self.sizes.timers)):
            await self.driver.publish(*(posting("inbox:counter", f"k{i}", due=HOUR + i) for i in part))
        _say("topics")
        await self._fill_topics()
        _say("parked entries")
        await self._fill_parked()
        _say("paused agents")
        await self._fill_paused()
        _say("questions")
        self.waiting = Waiting(self.driver, self.gauge, self.sizes.questions)
        await self.waiting.fill()

    def _fill_states(self) -> None:
        pipe = self.site.redis.pipeline(transaction=False)
        for part in _parts(range(self.sizes.agents)):
            for i in part:
                pipe.hset(f"{self.prefix}state:counter:k{i}", mapping={"v": 1, "d": b"x" * 50, "w": ""})
            pipe.execute()

    def _fill_letters(self) -> None:
        names = ("id", "type", "key", "from", "at", "head", "body", "reason", "stream", "entry", "attempts")
        values = ("m", "Note", "k", "", "0", "", "{}", "failed", "topic:visits", "1-1", "3")
        fields: dict[Any, Any] = dict(zip(names, values, strict=True))
        pipe = self.site.redis.pipeline(transaction=False)
        for part in _parts(range(self.sizes.letters)):
            for i in part:
                pipe.xadd(f"{self.prefix}dead:counter", fields, id=f"{i + 1}-1")
            pipe.execute()

    async def _fill_topics(self) -> None:
        for part in _parts(range(self.sizes.topics)):
            await self.driver.publish(*(posting(f"topic:t-{i}", f"k{i % 1000}") for i in part))
        for name in ("wide", "some"):
            await self._handle_all(name)

    async def _fill_parked(self) -> None:
        """Half of it behind one agent, half behind agents that back off."""
        holder, parker = await self.driver.worker("slow"), await self.driver.worker("slow")
        await self.driver.note("topic:queue", "one", "held")
        await holder.take(1)
        half = self.sizes.parked // 2
        for part in _parts(range(half)):
            await self.driver.publish(*(posting("topic:queue", "one") for _ in part))
            await parker.take(AT_ONCE)
        worker = await self.driver.worker("counter")
        for part in _parts(range(half)):
            await self.driver.publish(*(posting("topic:visits", f"k{i}") for i in part))
            while got := await worker.take(AT_ONCE):
                await worker.turn(*(Done(one, Mark.RETRY, (HOUR, 1, "", "failed")) for one in got))
        self.holder, self.counter = holder, worker

    async def _fill_paused(self) -> None:
        transport, worker = self.driver.transport, await self.driver.worker("paused")
        for part in _parts(range(self.sizes.paused)):
            for i in part:
                await transport.order("pause", "key", f"paused/k{i}", "")
            await self.driver.publish(*(posting("topic:halts", f"k{i}") for i in part))
            await worker.take(AT_ONCE)
        self.paused = worker

    async def _handle_all(self, name: str) -> None:
        worker = await self.driver.worker(name)
        await _handle(worker)
        await worker.lane.leave()

    # What is measured

    async def measure(self) -> None:
        """Everything that is called while a server is in use, and what goes wrong."""
        await self._work()
        await self.waiting.measure()
        await self._trim()
        await self._subscribe()
        await self._order()
        await self._operate()
        await self._lose_group()
        await self._end_workers()
        with self.gauge.during("looking for faults"):
            await find(self.driver.transport)

    async def _work(self) -> None:
        driver, gauge = self.driver, self.gauge
        with gauge.during("a worker of all topics joins"):
            wide = await driver.worker("wide", "some")
            await _handle(wide)
        with gauge.during("a worker looks at all streams"):
            for _ in range(5):
                await wide.turn(count=64, scan=True)
        with gauge.during("beats of a worker of all topics"):
            for _ in range(self.sizes.beats):
                await wide.beat()
        with gauge.during(f"{AT_ONCE} messages to as many topics"):
            for part in list(_parts(range(self.sizes.topics)))[:4]:
                await driver.publish(*(posting(f"topic:t-{i}", f"k{i}") for i in part))
                await _handle(wide)
        with gauge.during("messages for agents that back off"):
            await driver.publish(*(posting("topic:visits", f"k{i}") for i in range(AT_ONCE)))
            await self.counter.take(AT_ONCE)
            await self.counter.beat()
        with gauge.during("a worker of paused agents"):
            await driver.publish(*(posting("topic:halts", f"k{i}") for i in range(AT_ONCE)))
            await self.paused.turn(count=64, scan=True)
            await self.paused.beat()
        with gauge.during("a worker of persistent agents"):
            await driver.publish(*(posting("inbox:counter", f"new{i}") for i in range(2 * AT_ONCE)))
            while got := (await self.counter.turn(count=AT_ONCE, persistent=True)).deliveries:
                ends = [
                    Done(one[0], one[1] + Mark.STATE, (2, b"x" * 50)) for one in plain(got, self.counter.held)
                ]
                await self.counter.turn(*ends)
        self.wide = wide

    async def _trim(self) -> None:
        """One agent is stuck, the others go on."""
        driver, worker = self.driver, await self.driver.worker("long")
        await driver.note("topic:long", "stuck", "held")
        await worker.take(1)
        for part in _parts(range(self.sizes.long_stream)):
            await driver.publish(*(posting("topic:long", f"k{i}") for i in part))
            await worker.finish(*await worker.take(len(part)))
        with self.gauge.during("trimming behind an agent that is stuck"):
            for _ in range(self.sizes.beats // 2):
                await worker.beat()

    async def _subscribe(self) -> None:
        driver, gauge = self.driver, self.gauge
        late = Declared("late", "prefix", "t-")
        with gauge.during("an agent type subscribes to all topics"):
            await driver.declare(late)
        with gauge.during("an application declares its types again"):
            await driver.declare(late, Declared("wide", "prefix", "t-"), topic("counter", "visits"))
        with gauge.during("beats while it is subscribed"):
            for _ in range(self.sizes.beats):
                await self.wide.beat()
        with gauge.during("it ends its subscription"):
            await driver.transport.unsubscribe(late)

    async def _order(self) -> None:
        order = self.driver.transport.order
        for kind, name in (("type", "paused"), ("topic", "halts"), ("key", "paused/k1"), ("topic", "t-1")):
            with self.gauge.during(f"pausing and resuming {kind} {name}"):
                await order("pause", kind, name, "")
                await order("resume", kind, name, "")
        with self.gauge.during("cancelling and resetting"):
            await order("cancel", "m1", HOUR)
            await order("reset", "slow", "one", "r1", "")
            await order("reset", "counter", "k1", "r2", "")
        with self.gauge.during("after resuming"):
            await self.paused.turn(count=64, scan=True)
            await self.counter.turn(count=64, scan=True)

    async def _operate(self) -> None:
        transport, during = self.driver.transport, self.gauge.during
        with during("replaying and discarding dead letters"):
            letters = await deadletters.list_letters(transport, "counter", 500)
            await deadletters.replay(transport, "counter", [letter.id for letter in letters[:250]])
            await deadletters.discard(transport, "counter", [letter.id for letter in letters[250:]])
        with during("callboard status"):
            await glance(transport, ages=True)
        with during("callboard doctor, status --all and stop_when_idle"):
            await inspect.overview(transport, ages=True)
            await transport.idle()
        with during("callboard status --keys"):
            await hottest(transport)
        with during("callboard inspect of an agent behind which half of all waits"):
            await agents.agent(transport, "slow", "one", state=True)
        with during("small calls"):
            await transport.record(None, "counter", "m1", "step", b"x")
            await self.driver.run(
                "nest", "", "", 1000, "i", "p", "counter", "m1", "ask", "id", "t", "k", "", "", ""
            )
            await self.driver.run("answer", "", "", "counter", "m1", "e", "ok", 1000, "p", *"itfhb")

    async def _lose_group(self) -> None:
        driver, name = self.driver, self.prefix + "topic:queue"
        worker = await driver.worker("slow")
        with self.gauge.during("a group with parked entries is destroyed"):
            await driver.transport.admin.command("XGROUP", "DESTROY", name, "slow")
        with self.gauge.during("the group is made again"):
            for _ in range(3):
                await worker.turn(count=64, scan=True)
                await worker.beat()
        with self.gauge.during("beats after the group is made again"):
            for _ in range(5 * self.sizes.beats):
                await worker.beat()
        with self.gauge.during("its subscription ends"):
            await driver.transport.unsubscribe(topic("slow", "queue"))

    async def _end_workers(self) -> None:
        driver, gauge = self.driver, self.gauge
        other = await driver.worker("wide", "counter")
        dying = [await driver.worker("wide", "some") for _ in range(3)]
        for worker in dying:
            await driver.publish(*(posting(f"topic:t-{i}", f"k{worker.name}{i}") for i in range(AT_ONCE)))
            while len(worker.held) < AT_ONCE:  # a turn may only read ahead
                await worker.turn(count=AT_ONCE - len(worker.held), scan=False)
        with gauge.during("a worker asks what it holds"):
            await dying[0].lane.resync()
        with gauge.during("workers of all topics leave and die"):
            await dying[0].lane.leave()
            await dying[1].lane.leave(crashed=True)
            await driver.expire(dying[2])
            await other.beat()
        with gauge.during("beats after workers have ended"):
            for _ in range(self.sizes.beats):
                await other.beat()
        with gauge.during("workers with many pending entries leave"):
            for worker in (self.counter, self.paused, self.holder):
                await _leave(worker)
            for _ in range(self.sizes.beats):
                await other.beat()
        with gauge.during("mending faults"):
            faults = [("key", "paused", f"k{i}", "") for i in range(50)]
            faults += [("consumer", "wide", "topic:t-1", "gone:1:1")] * 50 + [("timer", "m|gone", "", "")]
            self.site.redis.hdel(self.prefix + "busy:paused", *(key for _, _, key, _ in faults[:50]))
            await driver.run("repair", "mend", *(value for fault in faults for value in fault))
            self.site.redis.hset(self.prefix + "parked:slow", "one", 1)
            await driver.run("repair", "mend", "key", "slow", "one", "")
        with gauge.during("mending a long wait list"):
            await self._mend_list()

    async def _mend_list(self) -> None:
        """Everything that goes wrong in a list, each as often as `callboard repair` mends it in one call."""
        run, length = self.driver.run, self.sizes.parked // 2
        refs = await self.driver.command("LRANGE", "wait:slow:one", 0, -1)
        far = [("order", "slow", "one", b"|".join((refs[i], refs[length - 10 * i]))) for i in range(1, 5)]
        await run("repair", "mend", *(value for one in far for value in one))
        await self.driver.command("RPUSH", "wait:slow:one", *refs[100:200])
        await run("repair", "mend", "parked", "slow", "one", "")
        await self.driver.command("LREM", "wait:slow:one", 0, refs[length // 2])
        stream, entry = refs[length // 2].decode().split(" ")
        await run("repair", "mend", "pending", "slow", stream, entry)


async def _handle(worker: DrivenWorker) -> None:
    while got := await worker.take(AT_ONCE):
        await worker.finish(*got)


async def _leave(worker: DrivenWorker) -> None:
    with contextlib.suppress(FencedError):
        await worker.lane.leave()


def _parts(numbers: Sequence[int]) -> Iterable[Sequence[int]]:
    return (numbers[start : start + AT_ONCE] for start in range(0, len(numbers), AT_ONCE))


def _say(what: str) -> None:
    print(f"limits: {what}", file=sys.stderr, flush=True)


def _rows(title: str, unit: str, worst: dict[str, Worst]) -> list[str]:
    ordered = sorted(worst.items(), key=lambda item: -item[1].most)
    lines = [f"{title:<20} {unit:>9}  when"]
    lines += [f"{name:<20} {of.most:>9,.1f}  {of.when}" for name, of in ordered]
    return lines


async def _measured(site: Site, sizes: Sizes, gauge: Gauge, begin: Callable[[], None]) -> None:
    place = Place(site, sizes, gauge)
    try:
        _say("filling")
        await place.fill()
        begin()
        _say("measuring")
        await place.measure()
    finally:
        site.redis.flushall()
        await place.driver.close()


def _measure(site: Site, sizes: Sizes, gauge: Gauge, begin: Callable[[], None]) -> Gauge:
    # Ctrl-C ends it early, with what was measured so far: looking for faults alone takes minutes.
    with contextlib.suppress(KeyboardInterrupt):
        run(_measured(site, sizes, gauge, begin))
    return gauge


def _by_time(is_quick: bool) -> Gauge:
    sizes = Sizes.quick() if is_quick else Sizes()
    with Site() as site:
        return _measure(site, sizes, Gauge(lambda: processor_ms(site.redis)), lambda: None)


def _by_instructions() -> Gauge:
    server = CountedServer(from_start=False)
    with Site(server) as site:
        return _measure(
            site, Sizes.counted(), Gauge(lambda: server.count() / 1000, samples=SAMPLES), server.begin
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the measurement; 1 when a call of a function was longer than it may be."""
    parser = argparse.ArgumentParser(prog="scripts/bench limits", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    parser.add_argument(
        "--quick", action="store_true", help="a hundredth of everything: a look, not a record"
    )
    parser.add_argument(
        "--instructions",
        action="store_true",
        help="count instructions in the place of milliseconds, on a server that holds less",
    )
    options = parser.parse_args(arguments)
    try:
        gauge = _by_instructions() if options.instructions else _by_time(options.quick)
    except CallgrindError as error:
        print(f"scripts/bench limits: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps({"functions": gauge.functions, "commands": gauge.commands}, indent=2))
    else:
        unit = "1000s" if options.instructions else "worst, ms"
        print(
            "\n".join(
                [*_rows("function", unit, gauge.functions), "", *_rows("command", unit, gauge.commands)]
            )
        )
    is_record = not options.quick and not options.instructions
    return int(is_record and any(worst.most > LIMIT for worst in gauge.functions.values()))


if __name__ == "__main__":
    sys.exit(main())
