"""A namespace in the middle of its work, what a person could break in it, and whether all is done all the same."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from broker.delivery import Delivery
from broker.errors import FencedError
from broker.redis.lane import Done
from broker.redis.repair.faults import Kind

from .rig import Rig, RigWorker, plain, posting, topic

PUBLISHED = {"a": ["a1", "a2", "a3", "a4"], "b": ["b1", "b2"], "c": ["c1"], "d": ["d1"]}


class Scene(NamedTuple):
    """Worker `first` runs a and b, a2 to a4 are parked behind a, d1 waits to be taken, c1 is unread. `second` is idle."""

    rig: Rig
    first: RigWorker
    second: RigWorker

    async def go_on(self) -> dict[str, list[str]]:
        """Both workers work until nothing is left, as if nothing had happened; what was committed, by key."""
        for worker in (self.first, self.second):
            await self._commit(worker, list(worker.held))
        for _ in range(20):
            for worker in (self.first, self.second):
                await self._commit(worker, await self._take(worker))
        committed: dict[str, list[str]] = {}
        for fields in await self.rig.entries("topic:effects"):
            committed.setdefault(fields["key"].decode(), []).append(fields["body"].decode())
        return committed

    async def _take(self, worker: RigWorker) -> list[Delivery]:
        try:
            return await worker.take(3)
        except FencedError:
            worker.held.clear()
            await worker.lane.join(worker.types)
            return []

    async def _commit(self, worker: RigWorker, deliveries: list[Delivery]) -> None:
        done = [_with_effect(one) for one in plain(deliveries, worker.held)]
        try:
            await worker.turn(*done)
        except FencedError:
            worker.held.clear()
            await worker.lane.join(worker.types)


def _with_effect(done: Done) -> Done:
    key, body = done.delivery.raw_key, done.delivery.body
    return Done(done.delivery, f"{done.mode}O", (1, "topic:effects", 0, body, "Note", key, "", b"", body))


async def scene(rig: Rig) -> Scene:
    """A namespace at work."""
    await rig.declare(topic("counter", "visits"), topic("counter", "orders"))
    first, second = await rig.worker("counter"), await rig.worker("counter")
    leaving = await rig.worker("counter")
    await rig.publish(posting("topic:orders", "d", "d1"))
    await leaving.take()
    await rig.publish(*(posting("topic:visits", key, f"{key}1") for key in "ab"))
    await first.take()
    await rig.publish(posting("topic:orders", "b", "b2"))
    await first.take()
    await rig.publish(*(posting("topic:visits", "a", body) for body in ("a2", "a3", "a4")))
    await second.take()
    await leaving.lane.leave()
    rig.workers.remove(leaving)
    leaving.lane.close()
    await rig.publish(posting("topic:visits", "c", "c1"))
    return Scene(rig, first, second)


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


async def ref_of(rig: Rig, body: str, stream: str = "topic:visits") -> str:
    """The ref of the entry with this body."""
    for entry, flat in await rig.command("XRANGE", stream, "-", "+"):
        if flat[-1] == body.encode():
            return f"{stream} {entry.decode()}"
    raise AssertionError(f"no entry {body}")


async def delete_entry(rig: Rig, body: str) -> None:
    """XDEL, by hand."""
    stream, entry = (await ref_of(rig, body)).split(" ")
    await rig.command("XDEL", stream, entry)


async def read_by_a_stranger(rig: Rig) -> None:
    """Somebody reads in the group's name, by hand."""
    key = rig.transport.keys.of("topic:visits")
    await rig.transport.admin.command("XREADGROUP", "GROUP", "counter", "me", "COUNT", 1, "STREAMS", key, ">")


async def read_in_a_group_of_nobody(rig: Rig) -> None:
    """Somebody has a group of their own, and reads in it."""
    await group(rig, "CREATE", "topic:visits", "mine", "0")
    key = rig.transport.keys.of("topic:visits")
    await rig.transport.admin.command("XREADGROUP", "GROUP", "mine", "me", "COUNT", 1, "STREAMS", key, ">")


async def group(rig: Rig, what: str, stream: str, *arguments: str) -> None:
    """XGROUP, by hand."""
    await rig.transport.admin.command("XGROUP", what, rig.transport.keys.of(stream), *arguments)


async def name_twice(rig: Rig, body: str) -> None:
    """A ref stands in a wait list twice."""
    await rig.command("RPUSH", "wait:counter:a", await ref_of(rig, body))
    await rig.command("HINCRBY", "parked:counter", "a", 1)


async def remember_for_ever(rig: Rig) -> None:
    """An idempotency id whose bucket never expires."""
    await rig.publish(posting("topic:nobody", "x", "x", once="id-1"))
    for name in await rig.snapshot():
        if name.startswith("dedupe:"):
            await rig.command("PERSIST", name)


async def pause_and_forget(rig: Rig) -> None:
    """Paused, put aside, and then the pause is deleted by hand instead of ended."""
    await rig.run("control", "pause", "type", "counter", "me")
    await rig.command("DEL", "ready:counter")
    await rig.command("HSET", "shelved:counter", "d", "ready:")
    await rig.command("DEL", "paused")


async def lose_a_reset(rig: Rig) -> None:
    """A reset whose entry was deleted."""
    await rig.run("control", "reset", "counter", "z", "r1", "me")
    await rig.command("DEL", "urgent:counter")


async def lose_a_timer(rig: Rig) -> None:
    """A delayed message whose timer was deleted."""
    await rig.publish(posting("topic:visits", "e", "e1", due=3_600_000))
    await rig.command("DEL", "timers")


SABOTAGES: dict[str, Sabotage] = {
    "a group is destroyed": Sabotage(lambda s: group(s.rig, "DESTROY", "topic:visits", "counter"), "group"),
    "the list of streams is deleted": Sabotage(lambda s: s.rig.command("DEL", "streams:counter"), "group"),
    "a topic forgets its subscriber": Sabotage(
        lambda s: s.rig.command("HSET", "topics", "visits", ""), "topic"
    ),
    "a group of nobody": Sabotage(
        lambda s: group(s.rig, "CREATE", "topic:visits", "mine", "0"), "stray group"
    ),
    "a group of nobody that has read": Sabotage(
        lambda s: read_in_a_group_of_nobody(s.rig), "stray group", stays=True
    ),
    "a consumer of nobody": Sabotage(
        lambda s: group(s.rig, "CREATECONSUMER", "topic:visits", "counter", "me"), "consumer"
    ),
    "somebody reads in the group's name": Sabotage(lambda s: read_by_a_stranger(s.rig), "pending"),
    "the busy mark of a running agent is deleted": Sabotage(
        lambda s: s.rig.command("HDEL", "busy:counter", "a"), "key"
    ),
    "the busy mark of a waiting agent is deleted": Sabotage(
        lambda s: s.rig.command("HDEL", "busy:counter", "d"), "key"
    ),
    "all busy marks are deleted": Sabotage(lambda s: s.rig.command("DEL", "busy:counter"), "key"),
    "an agent is marked for a dead worker": Sabotage(
        lambda s: s.rig.command("HSET", "busy:counter", "c", "ghost:1:1"), "key"
    ),
    "an agent is marked for a worker that lacks it": Sabotage(
        lambda s: s.rig.command("HSET", "busy:counter", "c", s.second.name), "key"
    ),
    "an agent is marked as waiting for nothing": Sabotage(
        lambda s: s.rig.command("HSET", "busy:counter", "c", ""), "key"
    ),
    "a running agent is marked for another": Sabotage(
        lambda s: s.rig.command("HSET", "busy:counter", "a", s.second.name), "key"
    ),
    "parked entries are not counted": Sabotage(lambda s: s.rig.command("DEL", "parked:counter"), "key"),
    "the keys to be taken are deleted": Sabotage(lambda s: s.rig.command("DEL", "ready:counter"), "key"),
    "a key to be taken that is not free": Sabotage(
        lambda s: s.rig.command("RPUSH", "ready:counter", "nobody"), "ready"
    ),
    "a wait list is deleted": Sabotage(lambda s: s.rig.command("DEL", "wait:counter:a"), "pending"),
    "a parked entry is named twice": Sabotage(lambda s: name_twice(s.rig, "a2"), "parked"),
    "a running entry is parked as well": Sabotage(lambda s: name_twice(s.rig, "a1"), "parked"),
    "a parked entry is deleted": Sabotage(lambda s: delete_entry(s.rig, "a3"), "parked", lost=("a3",)),
    "a worker's books are deleted": Sabotage(
        lambda s: s.rig.command("DEL", f"own:{s.first.name}"), "pending"
    ),
    "books of a worker that is not": Sabotage(
        lambda s: s.rig.command("HSET", "own:ghost:1:1", "counter topic:visits 1-1", "zed"), "worker"
    ),
    "a worker's lease is deleted": Sabotage(
        lambda s: s.rig.command("ZREM", "workers", s.first.name), "worker"
    ),
    "all leases are deleted": Sabotage(lambda s: s.rig.command("DEL", "workers"), "worker"),
    "a worker is dead": Sabotage(lambda s: s.rig.expire(s.first), "worker"),
    "attempts of an entry that is done": Sabotage(
        lambda s: s.rig.command("HSET", "tries:counter", "topic:visits 1-1", "1 1 why"), "tries"
    ),
    "an early entry that is not": Sabotage(
        lambda s: s.rig.command("ZADD", "early:counter", 0, "0|topic:visits 1-1"), "early"
    ),
    "a timer without a message": Sabotage(
        lambda s: s.rig.command("ZADD", "timers", 9_000_000_000_000, "m|none"), "timer"
    ),
    "a pause is deleted": Sabotage(lambda s: pause_and_forget(s.rig), "key"),
    "a reset is deleted": Sabotage(lambda s: lose_a_reset(s.rig), "urgent"),
    "a delayed message without a timer": Sabotage(lambda s: lose_a_timer(s.rig), "message", stays=True),
    "a key that never expires": Sabotage(lambda s: remember_for_ever(s.rig), "expiry"),
    "a key of nobody": Sabotage(lambda s: s.rig.command("SET", "notes", "1"), "unknown", stays=True),
}
