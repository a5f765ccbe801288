"""One process that does one thing: `python -P cost_node.py WAY COUNT URL [TOPICS]`. What it and its server spent, as JSON.

It runs with the code of whatever checkout is on PYTHONPATH; only names that have been there for long are used.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib import import_module

import redis

from callboard import AgentId, App, TopicId
from callboard.broker import BrokerSettings
from callboard.cli.sessions import run
from callboard.runtime.runtime import RedisAgentRuntime
from scripts.benchmarks.messages import FAN, app, small, wide_app
from tests.helpers.server_driver import LEASE, ServerDriver, plain, posting, topic

NAMESPACE = "cost"
AT_ONCE, KEYS = 100, 100  # tasks that publish or ask; agents of each type


class Meter:
    """Processor time of this process and of the server, in microseconds for each message."""

    def __init__(self, url: str, count: int) -> None:
        self._server = redis.Redis.from_url(url)
        self._count = count
        self.cost: dict[str, float] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """What runs in the block is measured."""
        python, server = time.process_time(), self._spent()
        yield
        server_after, python_after = self._spent(), time.process_time()
        self.cost = {
            "python": (python_after - python) / self._count * 1e6,
            "server": (server_after - server) / self._count * 1e6,
        }

    def _spent(self) -> float:
        spent = self._server.info("cpu")
        return float(spent["used_cpu_user"]) + float(spent["used_cpu_sys"])


def _runtime(url: str, *types: str, which: App = app) -> RedisAgentRuntime:
    settings = BrokerSettings(namespace=NAMESPACE, url=url)
    return RedisAgentRuntime.from_app(which, url, namespace=NAMESPACE, settings=settings, types=types)


async def _publish_all(runtime: RedisAgentRuntime, topic: str, count: int, topics: int = 0) -> None:
    """`topics`: how many take turns, `<topic>-0` and so on; 0: there is one."""
    numbers = iter(range(count))

    async def publish() -> None:
        for number in numbers:
            name = f"{topic}-{number % topics}" if topics else topic
            await runtime.publish_message(small(number), TopicId(name, f"key-{number % KEYS}"))

    await asyncio.gather(*(publish() for _ in range(AT_ONCE)))


async def publish(url: str, count: int, meter: Meter) -> None:
    """Events to one topic, by a hundred tasks."""
    async with _runtime(url, "sink"):
        pass
    async with _runtime(url) as runtime:
        await _publish_all(runtime, "in", KEYS)
        with meter.running():
            await _publish_all(runtime, "in", count)


def _as_a_worker() -> AbstractContextManager[None]:
    """What `callboard worker` puts around its work, in the checkouts where it does."""
    try:
        module = import_module("callboard.process.frozen")  # checkouts before the merge by story
    except ImportError:
        module = import_module("callboard.process")
    made: AbstractContextManager[None] = getattr(module, "frozen", nullcontext)()
    return made


async def handle(
    url: str, count: int, meter: Meter, types: tuple[str, ...] = ("sink",), topic: str = "in"
) -> None:
    """A backlog that is handled by one worker; `count` deliveries in all."""
    async with _runtime(url, *types):
        pass
    async with _runtime(url) as runtime:
        await _publish_all(runtime, topic, count // len(types))
    async with _runtime(url, *types) as runtime:
        with _as_a_worker(), meter.running():
            runtime.start()
            await runtime.stop_when(lambda: runtime.handled >= count)


async def publish_wide(url: str, count: int, meter: Meter, topics: int) -> None:
    """Events to many topics in turn, each of which has something unread already."""
    wide = wide_app(topics)
    async with _runtime(url, "sink", which=wide):
        pass
    async with _runtime(url, which=wide) as runtime:
        await _publish_all(runtime, "in", max(topics, KEYS), topics)
        with meter.running():
            await _publish_all(runtime, "in", count, topics)


async def handle_wide(url: str, count: int, meter: Meter, topics: int) -> None:
    """A backlog in many topics, whose messages follow each other in turn, handled by one worker."""
    wide = wide_app(topics)
    async with _runtime(url, "sink", which=wide):
        pass
    async with _runtime(url, which=wide) as runtime:
        await _publish_all(runtime, "in", count, topics)
    async with _runtime(url, "sink", which=wide) as runtime:
        with _as_a_worker(), meter.running():
            runtime.start()
            await runtime.stop_when(lambda: runtime.handled >= count)


async def drive(url: str, count: int, meter: Meter, topics: int = 1) -> None:
    """Messages to so many topics in turn, published and handled at once without a runtime: each call carries a hundred."""
    settings = BrokerSettings(namespace=NAMESPACE, url=url, lease=LEASE)
    driver = ServerDriver(url, settings)
    await driver.declare(*(topic("sink", f"in-{number}") for number in range(topics)))
    worker = await driver.worker("sink")
    numbers = itertools.count()

    async def pass_on(messages: int) -> None:
        for _ in range(0, messages, AT_ONCE):
            here = [next(numbers) for _ in range(AT_ONCE)]
            await driver.publish(*(posting(f"topic:in-{i % topics}", f"key-{i % KEYS}") for i in here))
            await worker.turn(*plain(worker.held, worker.held), count=AT_ONCE, scan=False)

    await pass_on(max(topics, AT_ONCE))
    with _as_a_worker(), meter.running():
        await pass_on(count)
    await driver.close()


async def relay(url: str, count: int, meter: Meter) -> None:
    """The same by a handler that publishes one message for each."""
    await handle(url, count, meter, ("relay",), "relayed")


async def fan(url: str, count: int, meter: Meter) -> None:
    """Each message to ten types; the cost is that of one delivery."""
    await handle(url, count, meter, FAN, "fan")


async def ask(url: str, count: int, meter: Meter, in_flight: int = AT_ONCE) -> None:
    """Requests and their replies, asked and answered in this process."""
    numbers = iter(range(count))

    async def ask_on(runtime: RedisAgentRuntime) -> None:
        for number in numbers:
            await runtime.send_message(small(number), AgentId("answerer", f"key-{number % KEYS}"))

    async with _runtime(url, "answerer") as runtime:
        runtime.start()
        await runtime.ready()
        for number in range(KEYS):
            await runtime.send_message(small(number), AgentId("answerer", f"key-{number}"))
        with meter.running():
            await asyncio.gather(*(ask_on(runtime) for _ in range(in_flight)))


async def ask_alone(url: str, count: int, meter: Meter) -> None:
    """One request at a time."""
    await ask(url, count, meter, 1)


async def team(url: str, count: int, meter: Meter) -> None:
    """Turns of a team of three whose members answer at once, with the reader in this process, too."""
    from callboard import App
    from callboard.teams import TeamClient
    from scripts.benchmarks.team_app import canned

    teams = App("teams")
    for name, turns in (("few", KEYS), ("many", count)):
        teams.team(canned(turns, name=name))
    settings = BrokerSettings(namespace=NAMESPACE, url=url)
    async with RedisAgentRuntime.from_app(teams, url, namespace=NAMESPACE, settings=settings) as runtime:
        runtime.start()
        await TeamClient(runtime, "few").run(task="go")
        with _as_a_worker(), meter.running():
            await TeamClient(runtime, "many").run(task="go")


WAYS: dict[str, Callable[[str, int, Meter], Awaitable[None]]] = {
    "publish": publish,
    "handle": handle,
    "drive": drive,
    "relay": relay,
    "fan": fan,
    "ask": ask,
    "ask-alone": ask_alone,
    "team": team,
}
OVER_TOPICS: dict[str, Callable[[str, int, Meter, int], Awaitable[None]]] = {
    "publish": publish_wide,
    "handle": handle_wide,
    "drive": drive,
}
"""Ways that may go over many topics."""


async def _measured(way: str, count: int, url: str, topics: int = 0) -> None:
    meter = Meter(url, count)
    if topics:
        await OVER_TOPICS[way](url, count, meter, topics)
    else:
        await WAYS[way](url, count, meter)
    print(json.dumps(meter.cost))


if __name__ == "__main__":
    run(_measured(sys.argv[1], int(sys.argv[2]), sys.argv[3], *map(int, sys.argv[4:])))
