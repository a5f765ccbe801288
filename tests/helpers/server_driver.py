"""Drives the scripts one call at a time: a test is the publisher, the workers and the clock."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from callboard.broker import BrokerSettings
from callboard.broker.envelope import Delivery, Envelope, Posting
from callboard.broker.mailbox import ConsumedType, Pull, Turn
from callboard.broker.redis.client.lane import WorkerLane
from callboard.broker.redis.client.transport import Declared, RedisTransport
from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done

_ids = itertools.count(1)
ANY = 1000  # entries that a worker accepts of what is handed over: more than a test has
LEASE = 3600.0  # seconds: a lease ends when the test says so, however slow the machine is


def posting(stream: str, key: str, body: bytes | str = b"{}", *, id: str = "", **rest: Any) -> Posting:
    """A message for a stream such as `topic:visits`, with an id of its own unless one is given."""
    raw = body.encode() if isinstance(body, str) else body
    return Posting(Envelope(id or f"m{next(_ids)}", "Note", key, None, 0, raw), stream, **rest)


def topic(agent_type: str, name: str, start: str = "") -> Declared:
    return Declared(agent_type, "topic", name, start)


class ServerDriver:
    """One namespace. Bodies are what the tests compare; agent keys are strings."""

    def __init__(self, url: str, settings: BrokerSettings) -> None:
        self.url = url
        self.settings = settings
        self.transport = RedisTransport(url, settings)
        self.workers: list[DrivenWorker] = []

    async def declare(
        self, *subscriptions: Declared, max_attempts: int = 3, types: Sequence[str] = ()
    ) -> None:
        """Declares the agent types that the subscriptions name, and `types`."""
        names = {*(subscription.agent_type for subscription in subscriptions), *types}
        await self.transport.declare({name: {"max_attempts": max_attempts} for name in names}, subscriptions)

    async def publish(self, *postings: Posting) -> list[bool]:
        """Publishes in order; for each whether it was added."""
        futures = [self.transport.publisher.post(one) for one in postings]
        return [await future for future in futures]

    async def note(self, stream: str, key: str, *bodies: str) -> None:
        """Publishes messages with these bodies, in order."""
        await self.publish(*(posting(stream, key, body) for body in bodies))

    async def worker(self, *types: str) -> DrivenWorker:
        """A worker that has joined."""
        made = DrivenWorker(self, types)
        await made.lane.join(types)
        self.workers.append(made)
        return made

    # The server

    async def command(self, name: str, suffix: str, *arguments: Any) -> Any:
        """Runs a command on a key of the namespace."""
        return await self.transport.admin.command(name, self.transport.keys.of(suffix), *arguments)

    async def run(self, script: str, *arguments: Any) -> Any:
        """Runs a script."""
        return await self.transport.admin.run(script, arguments)

    async def commands(self, call: Callable[[], Awaitable[Any]]) -> int:
        """How many commands a call runs in the server."""
        command = self.transport.admin.command
        await command("CONFIG", "RESETSTAT")
        await call()
        info: bytes = await command("INFO", "commandstats")
        lines = [line for line in info.decode().splitlines() if line.startswith("cmdstat_")]
        return sum(int(line.partition("calls=")[2].partition(",")[0]) for line in lines)

    async def add_by_hand(self, stream: str, *fields: bytes | str, id: str = "*") -> str:
        """What a person does with redis-cli."""
        added: bytes = await self.command("XADD", stream, id, *fields)
        return added.decode()

    async def pending(self, stream: str, agent_type: str) -> int:
        """How many entries of a stream the group was given and has not acknowledged."""
        return int((await self.command("XPENDING", stream, agent_type))[0])

    async def mapping(self, suffix: str) -> dict[str, str]:
        """A hash as text."""
        flat = await self.command("HGETALL", suffix)
        return {
            flat[i].decode(errors="replace"): flat[i + 1].decode(errors="replace")
            for i in range(0, len(flat), 2)
        }

    async def entries(self, suffix: str) -> list[dict[str, bytes]]:
        """The entries of a stream."""
        found = await self.command("XRANGE", suffix, "-", "+")
        return [{f[i].decode(): f[i + 1] for i in range(0, len(f), 2)} for _, f in found]

    async def letters(self, agent_type: str) -> list[dict[str, bytes]]:
        """The dead letters of a type."""
        return await self.entries(f"dead:{agent_type}")

    async def snapshot(self) -> dict[str, Any]:
        """Every key of the namespace with its content."""
        prefix = self.transport.keys.prefix
        names = sorted(await self.transport.admin.command("KEYS", prefix.replace("{", "[{]") + "*"))
        return {name.decode()[len(prefix) :]: await self._content(name) for name in names}

    async def _content(self, name: bytes) -> Any:
        command = self.transport.admin.command
        kind = await command("TYPE", name)
        if kind in (b"stream", "stream"):
            groups = await command("XINFO", "GROUPS", name)
            return [
                await command("XRANGE", name, "-", "+"),
                [await command("XPENDING", name, g[1]) for g in groups],
            ]
        read = {
            b"string": ("GET", name),
            b"hash": ("HGETALL", name),
            b"list": ("LRANGE", name, 0, -1),
            b"set": ("SMEMBERS", name),
            b"zset": ("ZRANGE", name, 0, -1, "WITHSCORES"),
        }[kind if isinstance(kind, bytes) else kind.encode()]
        value = await command(*read)
        return sorted(value) if kind in (b"set", b"hash") else value

    async def expire(self, *workers: DrivenWorker) -> None:
        """Lets the leases of these workers end now."""
        for worker in workers:
            await self.command("ZADD", "workers", 1, worker.name)

    async def check_empty(self, *types: str) -> None:
        """Nothing is held, parked, read ahead or to be tried, and no acknowledgement is missing."""
        for agent_type in types:
            for name in ("busy", "parked", "ready", "suspects", "early", "tries"):
                assert await self.command("EXISTS", f"{name}:{agent_type}") == 0, f"{name}:{agent_type}"
            for stream in await self.command("SMEMBERS", f"streams:{agent_type}"):
                assert await self.pending(stream.decode(), agent_type) == 0, stream
        names = await self.snapshot()
        assert not [name for name in names if name.startswith(("wait:", "own:"))]

    async def close(self) -> None:
        for worker in self.workers:
            worker.lane.close()
        await self.transport.close(delete_namespace=True)


class DrivenWorker:
    """A worker whose every turn the test decides."""

    def __init__(self, driver: ServerDriver, types: Sequence[str]) -> None:
        self.driver = driver
        self.types = tuple(types)
        self.lane: WorkerLane = driver.transport.lane()
        self.held: list[Delivery] = []

    @property
    def name(self) -> str:
        return self.lane.worker

    async def turn(
        self,
        *done: Done,
        count: int = 0,
        types: Sequence[str] = (),
        persistent: bool = False,
        scan: bool = True,
        accept: bool | int = False,
        rate: float | None = None,
    ) -> Turn:
        """One turn: commits `done`, takes up to `count` entries of each of `types` (default: its own).

        Args:
            accept: takes what is handed over of what waited behind an agent; a number: so much of it.
            rate: entries a second, as the types declare it; they are named also when nothing is taken of them.
        """
        finished = {id(one.delivery) for one in done}
        self.held = [one for one in self.held if id(one) not in finished]
        named = [ConsumedType(name, persistent, rate_limit=rate) for name in types or self.types]
        wanted = named if count or rate else []
        pull = Pull(wanted, count, len(self.held), scan, ANY if accept is True else int(accept))
        turn = await self.lane.commit_and_pull(done, pull)
        self.held += turn.deliveries
        return turn

    async def take(self, count: int = 10, *types: str) -> list[Delivery]:
        """Takes entries."""
        return (await self.turn(count=count, types=types)).deliveries

    async def take_all(self, count: int) -> list[Delivery]:
        """Takes up to `count` entries in as many turns as it needs."""
        taken: list[Delivery] = []
        while len(taken) < count:
            turn = await self.turn(count=count - len(taken))
            taken += turn.deliveries
            if not turn.more:
                break
        return taken

    async def finish(self, *deliveries: Delivery, accept: bool = False) -> list[Delivery]:
        """Commits these without effects; returns what was handed over."""
        return (await self.turn(*plain(deliveries, self.held), accept=accept)).deliveries

    async def finish_all(self) -> None:
        """Commits everything that it holds."""
        await self.finish(*list(self.held))

    async def beat(
        self,
        *,
        lease: float = LEASE,
        retain: int = 1000,
        max_unclaimed: int = 100_000,
        blocked: str = "",
    ) -> list[Any]:
        answer: list[Any] = await self.driver.run(
            "beat",
            self.name,
            int(lease * 1000),
            retain,
            max_unclaimed,
            0,
            0,
            self.lane.incarnation.acknowledged,
            0,
            "",
            blocked,
        )
        return answer


def plain(deliveries: Sequence[Delivery], held: Sequence[Delivery]) -> list[Done]:
    """Commits without effects; a key of which more is held stays with the worker."""
    finished = {id(one) for one in deliveries}
    kept = {(one.raw_type, one.raw_key) for one in held if id(one) not in finished}
    last = {(one.raw_type, one.raw_key): one for one in deliveries}
    result = []
    for one in deliveries:
        key = (one.raw_type, one.raw_key)
        more = Mark.MORE if key in kept or last[key] is not one else ""
        result.append(Done(one, Mark.COMMIT + more + (Mark.TRIED if one.tries else ""), ()))
    return result


def bodies(deliveries: Sequence[Delivery]) -> list[str]:
    return [one.envelope.body.decode() for one in deliveries]
