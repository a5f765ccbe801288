"""A namespace in the middle of its work, what a person could break in it, and whether all is done all the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from callboard.broker.envelope import Delivery
from callboard.broker.errors import FencedError
from callboard.broker.redis.library import Mark
from callboard.broker.redis.operations.repair import Kind
from tests.helpers.commits import Done

from .server_driver import DrivenWorker, ServerDriver, plain, posting, topic

PUBLISHED = {"a": ["a1", "a2", "a3", "a4"], "b": ["b1", "b2"], "c": ["c1"], "d": ["d1"]}


class Scene(NamedTuple):
    """Worker `first` runs a and b, a2 to a4 are parked behind a, d1 waits to be taken, c1 is unread. `second` is idle."""

    driver: ServerDriver
    first: DrivenWorker
    second: DrivenWorker

    async def go_on(self) -> dict[str, list[str]]:
        """Both workers work until nothing is left, as if nothing had happened; what was committed, by key."""
        for worker in (self.first, self.second):
            await self._commit(worker, list(worker.held))
        for _ in range(20):
            for worker in (self.first, self.second):
                await self._commit(worker, await self._take(worker))
        committed: dict[str, list[str]] = {}
        for fields in await self.driver.entries("topic:effects"):
            committed.setdefault(fields["key"].decode(), []).append(fields["body"].decode())
        return committed

    async def _take(self, worker: DrivenWorker) -> list[Delivery]:
        try:
            return await worker.take(3)
        except FencedError:
            worker.held.clear()
            await worker.lane.join(worker.types)
            return []

    async def _commit(self, worker: DrivenWorker, deliveries: list[Delivery]) -> None:
        done = [_with_effect(one) for one in plain(deliveries, worker.held)]
        try:
            await worker.turn(*done)
        except FencedError:
            worker.held.clear()
            await worker.lane.join(worker.types)


def _with_effect(done: Done) -> Done:
    key, body = done.delivery.raw_key, done.delivery.envelope.body
    return Done(
        done.delivery, done.mode + Mark.OUTGOING, (1, "topic:effects", 0, body, "Note", key, "", b"", body)
    )


async def scene(driver: ServerDriver) -> Scene:
    """A namespace at work."""
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    leaving = await driver.worker("counter")
    await driver.publish(posting("topic:orders", "d", "d1"))
    await leaving.take()
    await driver.publish(*(posting("topic:visits", key, f"{key}1") for key in "ab"))
    await first.take()
    await driver.publish(posting("topic:orders", "b", "b2"))
    await first.take()
    await driver.publish(*(posting("topic:visits", "a", body) for body in ("a2", "a3", "a4")))
    await second.take()
    await leaving.lane.leave()
    driver.workers.remove(leaving)
    leaving.lane.close()
    await driver.publish(posting("topic:visits", "c", "c1"))
    return Scene(driver, first, second)


async def shorten_a_log(driver: ServerDriver) -> None:
    await driver.transport.save_state("counter", "zed", b"{}", {"said": [b"1", b"2"], "heard": [b"3"]})
    await driver.command("DEL", "log:counter:zed:said")


class Sabotage(NamedTuple):
    """Something that a person breaks.

    Attributes:
        act: how.
        kind: what it has to be called.
        lost: messages that are gone with it.
        stays: it can't be mended, only named.
    """

    act: Callable[[Scene], Awaitable[object]]
    kind: Kind
    lost: tuple[str, ...] = ()
    stays: bool = False


async def ref_of(driver: ServerDriver, body: str, stream: str = "topic:visits") -> str:
    """The ref of the entry with this body."""
    for entry, flat in await driver.command("XRANGE", stream, "-", "+"):
        if flat[-1] == body.encode():
            return f"{stream} {entry.decode()}"
    raise AssertionError(f"no entry {body}")


async def delete_entry(driver: ServerDriver, body: str) -> None:
    """XDEL, by hand."""
    stream, entry = (await ref_of(driver, body)).split(" ")
    await driver.command("XDEL", stream, entry)


async def read_by_a_stranger(driver: ServerDriver) -> None:
    """Somebody reads in the group's name, by hand."""
    key = driver.transport.keys.of("topic:visits")
    await driver.transport.admin.command(
        "XREADGROUP", "GROUP", "counter", "me", "COUNT", 1, "STREAMS", key, ">"
    )


async def read_in_a_group_of_nobody(driver: ServerDriver) -> None:
    """Somebody has a group of their own, and reads in it."""
    await group(driver, "CREATE", "topic:visits", "mine", "0")
    key = driver.transport.keys.of("topic:visits")
    await driver.transport.admin.command("XREADGROUP", "GROUP", "mine", "me", "COUNT", 1, "STREAMS", key, ">")


async def group(driver: ServerDriver, what: str, stream: str, *arguments: str) -> None:
    """XGROUP, by hand."""
    await driver.transport.admin.command("XGROUP", what, driver.transport.keys.of(stream), *arguments)


async def name_twice(driver: ServerDriver, body: str) -> None:
    """A ref stands in a wait list twice."""
    await driver.command("RPUSH", "wait:counter:a", await ref_of(driver, body))
    await driver.command("HINCRBY", "parked:counter", "a", 1)


async def mix_up(driver: ServerDriver) -> None:
    """What is parked behind an agent stands in another order."""
    refs = await driver.command("LRANGE", "wait:counter:a", 0, -1)
    await driver.command("DEL", "wait:counter:a")
    await driver.command("RPUSH", "wait:counter:a", *reversed(refs))


async def remember_for_ever(driver: ServerDriver) -> None:
    """Idempotency ids that never expire."""
    await driver.publish(posting("topic:nobody", "x", "x", idempotency_id="id-1"))
    await driver.command("PERSIST", "dedupe")


async def pause_and_forget(driver: ServerDriver) -> None:
    """Paused, put aside, and then the pause is deleted by hand instead of ended."""
    await driver.run("control", "pause", "type", "counter", "me")
    await driver.command("DEL", "ready:counter")
    await driver.command("HSET", "shelved:counter", "d", "ready:")
    await driver.command("DEL", "paused")


async def lose_a_reset(driver: ServerDriver) -> None:
    """A reset whose entry was deleted."""
    await driver.run("control", "reset", "counter", "z", "r1", "me")
    await driver.command("DEL", "urgent:counter")


async def wait_by_hand(driver: ServerDriver) -> None:
    """An agent that was to wait for newer code, and is not in the queue of those that do."""
    await driver.command("DEL", "ready:counter")
    await driver.command("ZADD", "newer:counter", 0, "Note 2|another")


async def lose_a_timer(driver: ServerDriver) -> None:
    """A delayed message whose timer was deleted."""
    await driver.publish(posting("topic:visits", "e", "e1", due=3_600_000))
    await driver.command("DEL", "timers")


SABOTAGES: dict[str, Sabotage] = {
    "a group is destroyed": Sabotage(
        lambda s: group(s.driver, "DESTROY", "topic:visits", "counter"), "group"
    ),
    "the list of streams is deleted": Sabotage(lambda s: s.driver.command("DEL", "streams:counter"), "group"),
    "a topic forgets its subscriber": Sabotage(
        lambda s: s.driver.command("HSET", "topics", "visits", ""), "topic"
    ),
    "a group of nobody": Sabotage(
        lambda s: group(s.driver, "CREATE", "topic:visits", "mine", "0"), "stray group"
    ),
    "a group of nobody that has read": Sabotage(
        lambda s: read_in_a_group_of_nobody(s.driver), "stray group", stays=True
    ),
    "a consumer of nobody": Sabotage(
        lambda s: group(s.driver, "CREATECONSUMER", "topic:visits", "counter", "me"), "consumer"
    ),
    "somebody reads in the group's name": Sabotage(lambda s: read_by_a_stranger(s.driver), "pending"),
    "the busy mark of a running agent is deleted": Sabotage(
        lambda s: s.driver.command("HDEL", "busy:counter", "a"), "key"
    ),
    "the busy mark of a waiting agent is deleted": Sabotage(
        lambda s: s.driver.command("HDEL", "busy:counter", "d"), "key"
    ),
    "all busy marks are deleted": Sabotage(lambda s: s.driver.command("DEL", "busy:counter"), "key"),
    "an agent is marked for a dead worker": Sabotage(
        lambda s: s.driver.command("HSET", "busy:counter", "c", "ghost:1:1"), "key"
    ),
    "an agent is marked for a worker that lacks it": Sabotage(
        lambda s: s.driver.command("HSET", "busy:counter", "c", s.second.name), "key"
    ),
    "an agent is marked as waiting for nothing": Sabotage(
        lambda s: s.driver.command("HSET", "busy:counter", "c", ""), "key"
    ),
    "a running agent is marked for another": Sabotage(
        lambda s: s.driver.command("HSET", "busy:counter", "a", s.second.name), "key"
    ),
    "parked entries are not counted": Sabotage(lambda s: s.driver.command("DEL", "parked:counter"), "key"),
    "the keys to be taken are deleted": Sabotage(lambda s: s.driver.command("DEL", "ready:counter"), "key"),
    "a key to be taken that is not free": Sabotage(
        lambda s: s.driver.command("RPUSH", "ready:counter", "nobody"), "ready"
    ),
    "a wait list is deleted": Sabotage(lambda s: s.driver.command("DEL", "wait:counter:a"), "pending"),
    "parked entries are mixed up": Sabotage(lambda s: mix_up(s.driver), "order"),
    "a parked entry is named twice": Sabotage(lambda s: name_twice(s.driver, "a2"), "parked"),
    "a running entry is parked as well": Sabotage(lambda s: name_twice(s.driver, "a1"), "parked"),
    "a parked entry is deleted": Sabotage(lambda s: delete_entry(s.driver, "a3"), "parked", lost=("a3",)),
    "a worker's books are deleted": Sabotage(
        lambda s: s.driver.command("DEL", f"own:{s.first.name}"), "pending"
    ),
    "books of a worker that is not": Sabotage(
        lambda s: s.driver.command("HSET", "own:ghost:1:1", "counter topic:visits 1-1", "zed"), "worker"
    ),
    "a worker's lease is deleted": Sabotage(
        lambda s: s.driver.command("ZREM", "workers", s.first.name), "worker"
    ),
    "all leases are deleted": Sabotage(lambda s: s.driver.command("DEL", "workers"), "worker"),
    "a worker is dead": Sabotage(lambda s: s.driver.expire(s.first), "worker"),
    "attempts of an entry that is done": Sabotage(
        lambda s: s.driver.command("HSET", "tries:counter", "topic:visits 1-1", "1 1 why"), "tries"
    ),
    "an early entry that is not": Sabotage(
        lambda s: s.driver.command("ZADD", "early:counter", 0, "0|topic:visits 1-1"), "early"
    ),
    "a timer without a message": Sabotage(
        lambda s: s.driver.command("ZADD", "timers", 9_000_000_000_000, "m|none"), "timer"
    ),
    "a pause is deleted": Sabotage(lambda s: pause_and_forget(s.driver), "key"),
    "a reset is deleted": Sabotage(lambda s: lose_a_reset(s.driver), "urgent"),
    "a delayed message without a timer": Sabotage(lambda s: lose_a_timer(s.driver), "message", stays=True),
    "a key that never expires": Sabotage(lambda s: remember_for_ever(s.driver), "expiry"),
    "a state is a text": Sabotage(
        lambda s: s.driver.command("SET", "state:counter:zed", "1"), "type", stays=True
    ),
    "a question that nobody asked": Sabotage(
        lambda s: s.driver.command("ZADD", "inputs", 1, "nobody"), "question"
    ),
    "a log lost items": Sabotage(lambda s: shorten_a_log(s.driver), "log"),
    "a log of a state that was deleted": Sabotage(
        lambda s: s.driver.command("RPUSH", "log:counter:zed:said", "1"), "log"
    ),
    "an agent waits for newer code that is known": Sabotage(lambda s: wait_by_hand(s.driver), "key"),
    "a key of nobody": Sabotage(lambda s: s.driver.command("SET", "notes", "1"), "unknown", stays=True),
}
