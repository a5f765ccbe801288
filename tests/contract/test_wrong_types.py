"""A key of the wrong type, written by hand, buries or delays what it concerns; everything else goes on.

For each kind of key of the catalogue: two workers have ten agents of two types in hand when a value of another type is put
there. They work on; the key is deleted and the namespace repaired; they finish.
"""

from __future__ import annotations

from collections import Counter

import pytest

from callboard.broker.errors import BrokerError, CommandError, FencedError
from callboard.broker.redis.catalogue import CATALOGUE, OF_A_TYPE, OF_ONE_THING, KeyKind, kind_of
from callboard.broker.redis.library import Mark
from callboard.broker.redis.operations.repair import find, repair
from tests.helpers.commits import Done
from tests.helpers.server_driver import ANY, DrivenWorker, ServerDriver, bodies, plain, posting, topic

COUNTERS, AUDITS = [f"c{n}" for n in range(5)], [f"d{n}" for n in range(5)]
EVERYTHING = "everything"
WINDOW = 86_400_000

# For each kind of key: one that the scene uses, and what it concerns: agents, or everything.
C0, COUNTER, ALL = ["c0"], COUNTERS, [*COUNTERS, *AUDITS]
NOBODY: list[str] = []
KEYS: dict[str, tuple[str, list[str]]] = {
    "clock": ("clock", NOBODY),
    "epoch": ("epoch", NOBODY),
    "config": ("config", NOBODY),
    "topics": ("topics", ALL),
    "prefixes": ("prefixes", NOBODY),
    "types": ("types", NOBODY),
    "accepts": ("accepts", NOBODY),
    "workers": ("workers", NOBODY),
    "chores": ("chores", NOBODY),
    "grown": ("grown", NOBODY),
    "beats": ("beats", NOBODY),
    "leaving": ("leaving", NOBODY),
    "resumed": ("resumed", NOBODY),
    "timers": ("timers", NOBODY),
    "events": ("events", NOBODY),
    "control": ("control", NOBODY),
    "paused": ("paused", NOBODY),
    "cancelled": ("cancelled", NOBODY),
    "urgent": ("urgent", NOBODY),
    "blobs": ("blobs", NOBODY),
    "inputs": ("inputs", NOBODY),
    "inputs:<key>": ("inputs:c0", NOBODY),
    "asking:<run>": ("asking:r1", NOBODY),
    "topic:<topic>": ("topic:visits", COUNTER),
    "inbox:<type>": ("inbox:counter", NOBODY),
    "urgent:<type>": ("urgent:counter", NOBODY),
    "dead:<type>": ("dead:counter", ["c2"]),
    "nested:<type>:<message>": ("nested:counter:c0-0", NOBODY),
    "reply:<process>": ("reply:someone", NOBODY),
    "streams:<type>": ("streams:counter", COUNTER),
    "fresh:<type>": ("fresh:counter", COUNTER),
    "cursor:<type>": ("cursor:counter", NOBODY),
    "bell:<type>": ("bell:counter", NOBODY),
    "busy:<type>": ("busy:counter", COUNTER),
    "wait:<type>:<key>": ("wait:counter:c0", C0),
    "parked:<type>": ("parked:counter", COUNTER),
    "ready:<type>": ("ready:counter", COUNTER),
    "suspects:<type>": ("suspects:counter", NOBODY),
    "shelved:<type>": ("shelved:counter", NOBODY),
    "runs": ("runs", NOBODY),
    "schedules": ("schedules", NOBODY),
    "suspended:<type>": ("suspended:counter", NOBODY),
    "newer:<type>": ("newer:counter", NOBODY),
    "early:<type>": ("early:counter", COUNTER),
    "tries:<type>": ("tries:counter", ["c1"]),
    "stats:<type>": ("stats:counter", NOBODY),
    "rate:<type>": ("rate:counter", NOBODY),
    "state:<type>:<key>": ("state:counter:c0", C0),
    "log:<type>:<key>:<field>": ("log:counter:c0:thread", C0),
    "run:<id>": ("run:r1", NOBODY),
    "worker:<worker>": ("worker:<first>", ALL),
    "own:<worker>": ("own:<first>", ALL),
    "timer:<name>": ("timer:<later>", NOBODY),
    "blob:<name>": ("blob:x", NOBODY),
    "dedupe": ("dedupe", ["c4"]),
    "once:<type>:<message>": ("once:counter:c0-0", NOBODY),
    "input:<id>": ("input:q1", NOBODY),
    "call:<id>": ("call:q1", NOBODY),
    "sent:<producer>": ("sent:<own>", NOBODY),
    "store:<name>": ("store:x", NOBODY),
}
# What the value that was written over held is gone, and what needs it with it.
DESTROYED = {"topic:<topic>"}


def test_every_kind_of_key_is_tried() -> None:
    assert set(KEYS) == {kind.pattern for kind in CATALOGUE}


class Traffic:
    """Messages `<agent>-<number>`, each handled with a state and an effect, and some with more; and what became of them."""

    def __init__(self, driver: ServerDriver, first: DrivenWorker, second: DrivenWorker) -> None:
        self.driver = driver
        self.first, self.second = first, second
        self.accepted: list[str] = []
        self._versions: Counter[bytes] = Counter()

    async def publish(self, number: int) -> None:
        """One more message for every agent."""
        for key in ALL:
            name = f"{key}-{number}"
            try:
                await self.driver.publish(posting(stream_of(key), key, name, id=name, idempotency_id=name))
            except BrokerError:
                continue  # it was refused, and its publisher knows
            self.accepted.append(name)

    async def work(self, rounds: int) -> None:
        """Both workers commit all that they hold and take what there is."""
        for _ in range(rounds):
            for worker in (self.first, self.second):
                await self._turn(worker)

    async def _turn(self, worker: DrivenWorker) -> None:
        is_readable = await self.driver.command("TYPE", "state:counter:c0") in (b"hash", "hash")
        version = await self.driver.command("HGET", "state:counter:c0", "v") if is_readable else 0
        self._versions[b"c0"] = int(version or 0)
        done = [self._ending(one) for one in plain(list(worker.held), [])]
        try:
            await worker.turn(*done, count=ANY, persistent=True, accept=True)
        except FencedError:
            worker.held.clear()
            await worker.lane.join(worker.types)

    def _ending(self, done: Done) -> Done:
        """c1 is tried again, c2 fails, c0 appends to a log, c3 answers a request, c4 sends under an id of its own."""
        one = done.delivery
        name, key = one.envelope.id, one.raw_key
        more = Mark.MORE.value if Mark.MORE in done.mode else ""
        if name == "c1-0" and not one.tries:
            return Done(one, Mark.RETRY + more, (1, 1, "", "it hurts"))
        if name == "c2-0":
            return Done(one, Mark.DEAD_LETTER + more, ("failed", "why", "trace", 1, ""))
        mode, extras = self._effects(name, key)
        return Done(one, Mark.COMMIT + more + (Mark.TRIED if one.tries else "") + mode, extras)

    def _effects(self, name: str, key: bytes) -> tuple[str, tuple[bytes | str | int, ...]]:
        self._versions[key] += 1
        effect = ("topic:effects", 0, f"did {name}", "Note", key, "", b"", name)
        mode: str = Mark.UNLESS_CANCELLED + Mark.FORGET
        extras: tuple[bytes | str | int, ...] = (name, name)
        if key == b"c0":
            mode, extras = mode + Mark.LOGS, (*extras, self._versions[key], 1, "thread", 0, 1, name)
        mode, extras = mode + Mark.STATE, (*extras, self._versions[key], name)
        if name.startswith("c3"):
            mode += Mark.REPLY
            extras += ("someone", "q1", f"r {name}", "Count", "counter/c3", b"", b"answer")
        if name.startswith("c4"):
            return mode + Mark.IDENTIFIED, (*extras, WINDOW, 1, f"once {name}", *effect)
        return mode + Mark.OUTGOING, (*extras, 1, *effect)

    async def outcomes(self) -> Counter[str]:
        """How often each message was handled, or is a dead letter. An effect that is a letter itself is there, too."""
        found: Counter[str] = Counter()
        for fields in await self.entries("topic:effects"):
            found[fields["id"].decode().removeprefix("did ")] += 1
        for agent_type in ("counter", "audit"):
            for fields in await self.entries(f"dead:{agent_type}"):
                found[fields["id"].decode().removeprefix("did ")] += 1
        return found

    async def effects_of(self, key: str) -> list[str]:
        """The messages of an agent that were handled, in the order in which they were."""
        names = [fields["body"].decode() for fields in await self.entries("topic:effects")]
        return [name for name in names if name.partition("-")[0] == key]

    async def entries(self, suffix: str) -> list[dict[str, bytes]]:
        kind = await self.driver.command("TYPE", suffix)
        return await self.driver.entries(suffix) if kind in (b"stream", "stream") else []


def stream_of(key: str) -> str:
    return "topic:visits" if key in COUNTERS else "topic:log"


async def in_the_middle_of_work(driver: ServerDriver) -> Traffic:
    """Both workers hold messages, others are parked, others unread; one is due later."""
    await driver.declare(topic("counter", "visits"), topic("audit", "log"))
    traffic = Traffic(
        driver, await driver.worker("counter", "audit"), await driver.worker("counter", "audit")
    )
    await driver.publish(posting("inbox:counter", "c3", "later", id="later", due=3_600_000))
    await traffic.publish(0)
    await traffic.first.turn(count=7, persistent=True)
    await traffic.publish(1)
    await traffic.second.turn(count=7, persistent=True)
    await traffic.publish(2)
    return traffic


async def break_key(driver: ServerDriver, traffic: Traffic, kind: KeyKind, wrong: str) -> str:
    """Puts a value of another type there; returns the key's name."""
    suffix = KEYS[kind.pattern][0].replace("<first>", traffic.first.name)
    if suffix.endswith((":<own>", ":<later>")):
        beginning = suffix.partition("<")[0]
        suffix = next(name for name in await driver.snapshot() if name.startswith(beginning))
    await driver.command("DEL", suffix)
    await driver.command("SET" if wrong == "string" else "RPUSH", suffix, "somebody's own")
    assert kind_of(suffix) is kind
    return suffix


def cases() -> list[object]:
    found: list[object] = []
    for kind in CATALOGUE:
        wrong = "list" if "string" in kind.type else "string"
        found.append(pytest.param(kind, wrong, id=f"{kind.name}-{wrong}"))
        if kind.type == "hash":
            found.append(pytest.param(kind, "list", id=f"{kind.name}-list", marks=pytest.mark.full))
    return found


SERVERS = pytest.mark.real_server("what a command says of another type is the server's own")


@SERVERS
@pytest.mark.parametrize(("kind", "wrong"), cases())
async def test_what_a_broken_key_does_not_concern_goes_on(
    driver: ServerDriver, kind: KeyKind, wrong: str
) -> None:
    traffic = await in_the_middle_of_work(driver)
    suffix = await break_key(driver, traffic, kind, wrong)
    await traffic.work(3)
    await traffic.publish(3)
    await traffic.work(6)
    concerned = KEYS[kind.pattern][1]
    outcomes = await traffic.outcomes()
    spared = [name for name in traffic.accepted if name.partition("-")[0] not in concerned]
    assert {name: outcomes[name] for name in spared} == dict.fromkeys(spared, 1)
    for key in set(ALL) - set(concerned):
        assert (done := await traffic.effects_of(key)) == sorted(done), key
    await beat(traffic.second, is_refused=kind.pattern == "workers")

    await driver.command("DEL", suffix)
    await finish(driver, traffic)
    outcomes = await traffic.outcomes()
    if kind.pattern in DESTROYED:
        traffic.accepted = [name for name in traffic.accepted if outcomes[name]]
    assert {name: outcomes[name] for name in traffic.accepted} == dict.fromkeys(traffic.accepted, 1)
    await traffic.publish(4)
    await finish(driver, traffic)
    outcomes = await traffic.outcomes()
    assert [name for name in (f"{key}-4" for key in ALL) if outcomes[name] != 1] == []


async def beat(worker: DrivenWorker, *, is_refused: bool) -> None:
    """A beat goes through, or is refused as a whole: a worker without a lease must not take itself for one that has it."""
    if is_refused:
        with pytest.raises(CommandError, match="workers"):
            await worker.beat()
    else:
        assert (await worker.beat())[0] == b"OK"


async def finish(driver: ServerDriver, traffic: Traffic) -> None:
    """Repairs, and works until all is done; what waits for its time is due now."""
    for _ in range(3):
        await repair(driver.transport)
        soon = (int((await driver.transport.admin.command("TIME"))[0]) + 600) * 1000
        for member in await driver.command("ZRANGEBYSCORE", "timers", "-inf", soon):
            await driver.command("ZADD", "timers", 1, member)
        await traffic.work(6)


BOOKS = [
    kind for kind in (*OF_A_TYPE, *OF_ONE_THING) if kind.name not in ("store:", "sent:", "rate:", "bell:")
]


@SERVERS
@pytest.mark.parametrize("kind", BOOKS, ids=lambda kind: kind.name)
async def test_a_worker_that_dies_beside_a_broken_key_is_reaped_all_the_same(
    driver: ServerDriver, kind: KeyKind
) -> None:
    traffic = await in_the_middle_of_work(driver)
    suffix = await break_key(driver, traffic, kind, "string")
    await driver.expire(traffic.first)
    assert (await traffic.second.beat())[2] == 1
    await traffic.work(6)
    concerned, outcomes = KEYS[kind.pattern][1], await traffic.outcomes()
    spared = [name for name in traffic.accepted if name.partition("-")[0] not in concerned]
    assert {name: outcomes[name] for name in spared} == dict.fromkeys(spared, 1)
    await driver.command("DEL", suffix)
    await finish(driver, traffic)
    outcomes = await traffic.outcomes()
    assert {name: outcomes[name] for name in traffic.accepted} == dict.fromkeys(traffic.accepted, 1)


async def test_a_letter_and_an_event_name_the_key_that_its_message_could_not_be_written_to(
    driver: ServerDriver,
) -> None:
    traffic = await in_the_middle_of_work(driver)
    (one,) = [one for one in traffic.first.held if one.envelope.id == "c0-0"]
    await driver.command("SET", "state:counter:c0", "somebody's own")
    await traffic.work(6)
    letters = await driver.letters("counter")
    mine = {fields["id"].decode(): fields for fields in letters if fields["key"] == b"c0"}
    assert sorted(mine) == ["c0-0", "c0-1", "c0-2"]
    for fields in mine.values():
        assert fields["reason"] == b"unwritable"
        assert fields["error"].startswith(b"state:counter:c0: WRONGTYPE")
    assert (mine["c0-0"]["entry"], mine["c0-0"]["attempts"]) == (one.entry, b"1")
    told = [fields for fields in await driver.entries("events") if fields["event"] == b"wrong type"]
    assert [fields["of"] for fields in told] == [b"state:counter:c0"], (
        "it is told of once in a while, not every time"
    )
    (fault,) = [fault for fault in await find(driver.transport) if fault.kind == "type"]
    assert fault.names == ("state:counter:c0",)


async def test_a_message_whose_state_can_not_be_read_is_not_handled(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.command("SET", "state:counter:a", "somebody's own")
    await driver.note("topic:visits", "a", "1", "2")
    await driver.note("topic:visits", "b", "3")
    assert bodies((await worker.turn(count=10, persistent=True)).deliveries) == ["3"]
    assert [fields["body"] for fields in await driver.letters("counter")] == [b"1", b"2"]
    await driver.command("DEL", "state:counter:a")
    await driver.note("topic:visits", "a", "4")
    assert bodies((await worker.turn(count=10, persistent=True)).deliveries) == ["4"]
    await worker.finish_all()
    await driver.check_empty("counter")


async def test_a_worker_takes_nothing_that_its_books_do_not_say(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.command("SET", f"own:{first.name}", "somebody's own")
    await driver.note("topic:visits", "a", "1")
    with pytest.raises(FencedError):
        await first.take()
    await first.lane.join(["counter"])
    assert bodies(await first.take()) == ["1"]
    await driver.expire(first)
    await second.beat()
    assert bodies(await second.take()) == ["1"]


async def test_no_agent_is_given_away_while_nobody_knows_who_runs_it(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await first.take()
    await driver.command("DEL", "busy:counter")
    await driver.command("SET", "busy:counter", "somebody's own")
    await driver.note("topic:visits", "a", "2")
    assert await second.take() == []
    await driver.command("DEL", "busy:counter")
    await repair(driver.transport)
    with pytest.raises(FencedError):
        await first.finish_all()
    assert bodies(await second.take()) == ["1", "2"]


async def test_what_was_paused_goes_on_beside_agents_that_can_not_be_found_any_more(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.command("SET", "shelved:counter", "somebody's own")
    await driver.command("HSET", "resumed", "counter", "7")
    await driver.note("topic:visits", "a", "1")
    assert bodies(await worker.take()) == ["1"]
    assert await driver.command("EXISTS", "resumed") == 0
    await driver.command("SET", "leaving", "somebody's own")
    assert (await worker.beat())[0] == b"OK"


async def test_what_may_be_a_duplicate_is_refused(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.command("SET", "dedupe", "somebody's own")
    with pytest.raises(BrokerError):
        await driver.publish(posting("topic:visits", "a", "1", idempotency_id="i1"))
    assert await driver.publish(posting("topic:visits", "a", "2")) == [True]
    assert [fields["body"] for fields in await driver.entries("topic:visits")] == [b"2"]


async def test_what_can_not_be_buried_either_is_not_lost(driver: ServerDriver) -> None:
    """Two keys at once: the message waits, whatever it is, until there is a place for its letter."""
    traffic = await in_the_middle_of_work(driver)
    for suffix in ("dead:counter", "state:counter:c0", "topic:effects", "wait:counter:c3"):
        await driver.command("DEL", suffix)
        await driver.command("SET", suffix, "somebody's own")
    await traffic.publish(3)
    await traffic.work(6)
    for suffix in ("dead:counter", "state:counter:c0", "topic:effects", "wait:counter:c3"):
        await driver.command("DEL", suffix)
    await finish(driver, traffic)
    outcomes = await traffic.outcomes()
    assert {name: outcomes[name] for name in traffic.accepted} == dict.fromkeys(traffic.accepted, 1)
