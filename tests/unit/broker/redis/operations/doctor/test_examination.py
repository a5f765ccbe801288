"""All checks on a namespace of a real server, and on what is no server."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import AsyncIterator

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.errors import CommandError
from callboard.broker.redis.operations.doctor import (
    Finding,
    Level,
    Report,
    Subject,
    _made,
    all_checks,
    examine,
    info,
    some,
)
from tests.helpers.server_driver import ServerDriver, posting, topic
from tests.unit.broker.redis.servers import server_url

__all__ = ["server_url"]


AGREE = "the books of the namespace agree"


@pytest.fixture
async def driver(server_url: str) -> AsyncIterator[ServerDriver]:
    made = ServerDriver(
        server_url, BrokerSettings(namespace=f"doctor-{os.urandom(4).hex()}", max_unclaimed=100)
    )
    yield made
    await made.close()


async def found(driver: ServerDriver, check: str) -> list[Finding]:
    report = await examine(driver.transport)
    return [finding for finding in report.findings if finding.check == check]


def worst(findings: list[Finding]) -> Level:
    return max((finding.level for finding in findings), key=lambda level: level.rank)


def test_the_checks_are_made_in_this_order() -> None:
    assert list(all_checks()) == [
        *(
            "layout",
            "server",
            "permissions",
            "persistence",
            "memory",
            "clock",
            "latency",
            "replica",
            "sentinels",
            "libraries",
            "workers",
            "types",
            "pauses",
            "backlog",
            "by_hand",
        ),
        *("deadletters", "timers", "schedules", "outages", "reading", "consistency"),
    ]


async def test_every_check_says_something_of_an_empty_namespace_and_changes_nothing(
    driver: ServerDriver,
) -> None:
    report = await examine(driver.transport)
    of_servers = {"persistence", "memory", "replica", "sentinels", "permissions"}
    silent = of_servers if driver.url.startswith("memory") else set()
    assert {finding.check for finding in report.findings} == set(all_checks()) - silent
    assert all(
        finding.what and (finding.level in ("ok", "info") or finding.do) for finding in report.findings
    )
    assert (report.namespace, await driver.snapshot()) == (driver.settings.namespace, {})


async def test_workers(driver: ServerDriver) -> None:
    assert "nothing is declared" in (await found(driver, "workers"))[0].what
    await driver.declare(topic("counter", "visits"))
    assert worst(await found(driver, "workers")) == "info"
    await driver.note("topic:visits", "a", "1")
    missing = (await found(driver, "workers"))[1]
    assert (missing.level, "1 messages wait and no worker" in missing.what) == ("error", True)
    worker = await driver.worker("counter")
    assert [one.level for one in await found(driver, "workers")] == ["ok"]
    await worker.take()
    await driver.expire(worker)
    alone = await found(driver, "workers")
    assert (alone[1].level, worker.name in alone[1].what, "1 entries are still theirs" in alone[1].why) == (
        "warning",
        True,
        True,
    )
    await driver.worker("counter")
    assert [one.level for one in await found(driver, "workers")] == ["ok", "info"]


async def test_a_blocked_event_loop(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await worker.beat(blocked="2.5 counter/a handles Note, line 7 of app.py")
    blocked = (await found(driver, "workers"))[1]
    assert (blocked.level, "asyncio.to_thread" in blocked.do) == ("warning", True)
    assert f"{worker.name} for 2.5 s, 0 s ago (counter/a handles Note, line 7 of app.py)" in blocked.what
    await worker.beat()
    assert worst(await found(driver, "workers")) == "warning", "it was a moment ago"


async def test_what_is_paused(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.run("control", "pause", "type", "counter", "ada@laptop")
    await driver.run("control", "pause", "topic", "visits", "")
    findings = {finding.what[:14]: finding for finding in await found(driver, "pauses")}
    assert "by ada@laptop" in findings["type counter i"].what
    assert findings["topic visits i"].do.endswith(f"--namespace {driver.settings.namespace} --topic visits")
    await driver.run("control", "pause", "key", "counter/x; touch PWNED #", "")
    offered = [one.do for one in await found(driver, "pauses") if "PWNED" in one.what]
    assert [shlex.split(line)[-1] for line in offered] == ["counter/x; touch PWNED #"], (
        "it is one word of a shell"
    )
    assert await found(driver, "consistency") == [Finding(level=Level.OK, what=AGREE, check="consistency")]


async def test_topics_without_readers(driver: ServerDriver) -> None:
    await driver.note("topic:void", "a", "1")
    assert "void (1)" in (await found(driver, "backlog"))[1].what
    await driver.publish(*(posting("topic:void", "a") for _ in range(150)))
    full = (await found(driver, "backlog"))[1]
    assert (full.level, "are full: void" in full.what) == ("warning", True)


async def test_dead_letters(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.add_by_hand("topic:visits", "foo", "bar")
    await (await driver.worker("counter")).take()
    (finding,) = await found(driver, "deadletters")
    assert (finding.level, finding.what) == ("warning", "counter: 1 dead letters")
    assert f"--namespace {driver.settings.namespace}" in finding.do


async def test_timers_that_are_late(driver: ServerDriver) -> None:
    await driver.command("ZADD", "timers", 1, "k|counter|a")
    assert worst(await found(driver, "timers")) == "warning"
    await driver.declare(topic("counter", "visits"))
    await driver.worker("counter")
    assert worst(await found(driver, "timers")) == "error"


async def test_what_was_read_ahead_and_is_not_taken(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    await driver.worker("counter")
    for stream in ("topic:visits", "topic:orders"):
        await driver.add_by_hand(stream, "type", "Note", id="1000-1")
        await driver.command("HSET", "cursor:counter", stream, "1000-1")
    await driver.command("ZADD", "early:counter", 0, f"{1000:016d}-{1:020d}|topic:visits 1000-1")
    assert worst(await found(driver, "reading")) == "warning"


async def test_books_that_do_not_agree(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.command("HSET", "own:ghost:1:1", "counter topic:visits 1-1", "a")
    await driver.command("SET", "notes", "mine")
    serious, foreign = await found(driver, "consistency")
    assert (serious.level, serious.do) == ("error", "callboard repair --yes")
    assert (foreign.level, foreign.do[:7]) == ("info", "by hand")


async def test_a_check_that_may_not_look_says_so(driver: ServerDriver) -> None:
    async def refused(subject: Subject) -> list[Finding]:
        raise CommandError("NOPERM this user has no permissions")

    (finding,) = await _made(refused, Subject(driver.transport))
    assert (finding.level, "could not be checked" in finding.what) == ("info", True)


@pytest.mark.parametrize(
    "damage",
    [
        ("SET", "topics"),
        ("HSET", "topics", b"\xff"),
        ("HSET", "types", b"\xff"),
        ("HSET", "stats:counter", "done"),
    ],
    ids=str,
)
async def test_what_was_written_by_hand_is_a_finding(driver: ServerDriver, damage: tuple[str, ...]) -> None:
    await driver.declare(topic("counter", "visits"))
    command, suffix, *field = damage
    name = driver.transport.keys.of(suffix)
    if command == "SET":
        await driver.transport.admin.command("DEL", name)
    await driver.transport.admin.command(command, name, *field, b"junk\xff")
    (finding,) = await found(driver, "by_hand")
    assert finding.level == "error"
    assert "changed by hand" in finding.why


async def test_no_server_and_what_is_none_are_findings() -> None:
    async def greet(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(greet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    report = await _examined(f"redis://127.0.0.1:{port}")
    server.close()
    await server.wait_closed()
    for one in (report, await _examined("redis://127.0.0.1:1")):
        assert [(finding.check, finding.level) for finding in one.findings] == [("connection", "error")]
        assert one.worst is Level.ERROR


async def _examined(url: str) -> Report:
    driver = ServerDriver(url, BrokerSettings(connect_timeout=2))
    try:
        return await examine(driver.transport)
    finally:
        await driver.transport.close()


def test_the_worst_level_counts() -> None:
    findings = tuple(Finding(level=level, what="x") for level in (Level.INFO, Level.WARNING, Level.OK))
    assert Report(server="s", namespace="n", findings=findings).worst is Level.WARNING
    assert Report(server="s", namespace="n", findings=()).worst is Level.OK
    assert info("x").why == ""
    assert some("abc", 2) == "a, b and 1 more"
