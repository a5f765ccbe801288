"""What is read as a number, and what is shown of a namespace in whose books somebody wrote something else."""

from __future__ import annotations

import os

import pytest

from callboard.broker.redis.operations import inspect
from callboard.broker.redis.operations.agents import agent, hottest
from callboard.broker.redis.operations.doctor import examine
from callboard.broker.redis.operations.inspect import LATEST, is_entry_id, moment, number, time_of
from tests.unit.broker.redis.servers import WorkerDriver, driver, server_url, transport

__all__ = ["driver", "server_url", "transport"]

OTHERS = [None, "", "junk", "-1", "1.5", "²", "٣", "9" * 20, b"\xff"]
JUNK: dict[str, tuple[str, ...]] = {
    "a worker's own": (
        "HSET",
        "worker:<name>",
        "pid",
        "junk",
        "running",
        "²",
        "started",
        "9" * 30,
        "blocked",
        "1 x",
    ),
    "a lease without end": ("ZADD", "workers", "inf", "<name>"),
    "held": ("HSET", "own:<name>", "junk", "ada"),
    "held, like a reference": ("HSET", "own:<name>", "counter topic:visits x", "ada"),
    "counters": ("HSET", "stats:counter", "done", "²"),
    "parked": ("HSET", "parked:counter", "ada", "junk"),
    "parked entry": ("LPUSH", "wait:counter:ada", "junk"),
    "pause": ("HSET", "paused", "type counter", "junk"),
    "a pause in days to come": ("HSET", "paused", "type counter", "9" * 18),
    "timer": ("ZADD", "timers", "inf", "k|counter|ada"),
    "tries": ("HSET", "tries:counter", "topic:visits 1-1", f"{'9' * 30} 1 1 junk"),
    "version": ("HSET", "state:counter:ada", "v", "junk"),
}


@pytest.mark.parametrize("text", OTHERS)
def test_what_is_no_number_is_none(text: str | bytes | None) -> None:
    assert (number(text), moment(text)) == (None, None)


def test_numbers_moments_and_ids() -> None:
    assert (number(b"12"), moment("12"), moment("9" * 18)) == (12, 12, LATEST)
    assert (time_of("inf"), time_of(b"-inf"), time_of(b"1763700000000.5")) == (LATEST, 0, 1763700000000)
    assert (is_entry_id("12-0"), is_entry_id("12"), is_entry_id("12-x"), is_entry_id("-1")) == (
        True,
        *[False] * 3,
    )


@pytest.mark.parametrize("name", JUNK)
async def test_a_namespace_is_shown_whatever_a_person_wrote_into_its_books(
    driver: WorkerDriver, name: str
) -> None:
    for key in ("ada", "ada", "bob"):
        await driver.publish("topic:visits", key)
    await driver.take("counter")
    command, suffix, *rest = (part.replace("<name>", driver.lane.worker) for part in JUNK[name])
    await driver.transport.admin.command(command, driver.transport.keys.of(suffix), *rest)

    view = await inspect.overview(driver.transport, ages=True)
    assert [one.type for one in view.types] == ["audit", "counter"]
    await hottest(driver.transport)
    await agent(driver.transport, "counter", "ada")
    await inspect.timers(driver.transport)
    report = await examine(driver.transport)
    assert not [finding for finding in report.findings if "could not be checked" in finding.what]


async def test_what_a_worker_says_of_itself_and_is_no_number_is_unknown(driver: WorkerDriver) -> None:
    name = driver.transport.keys.of(f"worker:{driver.lane.worker}")
    await driver.transport.admin.command("HSET", name, "pid", "junk", "running", "x", "started", "y")
    (worker,) = (await inspect.overview(driver.transport)).workers
    assert (worker.pid, worker.running, worker.started) == (os.getpid(), None, None)
    found = [finding for finding in (await examine(driver.transport)).findings if finding.check == "by_hand"]
    assert [f"`worker:{driver.lane.worker}`" in finding.what for finding in found] == [True]
