"""For which agents most waits."""

from __future__ import annotations

from callboard.broker.mailbox import ConsumedType, Pull
from callboard.broker.redis.operations.agents import hottest
from tests.unit.broker.redis.servers import WorkerDriver, driver, server_url, transport

__all__ = ["driver", "server_url", "transport"]


async def beat(driver: WorkerDriver, running: str) -> None:
    """The worker says what it runs, such as `counter 1`."""
    acknowledged = driver.lane.incarnation.acknowledged
    arguments = (driver.lane.worker, 5000, 1000, 100_000, 0, running.split()[1], acknowledged, 0, running)
    assert (await driver.transport.admin.run("beat", arguments))[0] == b"OK"


async def first_of(driver: WorkerDriver, stream: str) -> int:
    (entry,) = await driver.transport.admin.command(
        "XRANGE", driver.transport.keys.of(stream), "-", "+", "COUNT", 1
    )
    return int(entry[0].split(b"-")[0])


async def test_nothing_waits(driver: WorkerDriver) -> None:
    assert await hottest(driver.transport) == ()


async def test_what_is_unread_held_parked_and_read_ahead_counts(driver: WorkerDriver) -> None:
    for _ in range(4):
        await driver.publish("topic:visits", "ada")
    await driver.take("counter")
    await beat(driver, "counter 1")
    other = driver.transport.lane()
    await other.join(["counter"])
    await driver.publish("topic:visits", "ada")  # is parked behind the first worker
    await driver.publish("topic:orders", "bob")
    await other.commit_and_pull([], Pull([ConsumedType("counter")], 1, 0, True, 0))
    for key in ("ada", "cyd", "ada"):
        await driver.publish("topic:visits", key)

    found = {one.key: one for one in await hottest(driver.transport, "counter")}

    assert {key: one.waiting for key, one in found.items()} == {"ada": 6, "bob": 1, "cyd": 1}
    assert (found["ada"].running, found["bob"].running) == (True, False)
    assert found["ada"].oldest is not None
    assert found["ada"].oldest >= await first_of(driver, "topic:visits")
    await other.leave()
    other.close()


async def test_the_most_come_first_and_each_type_has_its_own(driver: WorkerDriver) -> None:
    for key in ("ada", "bob", "bob", "cyd", "cyd", "cyd"):
        await driver.publish("inbox:counter", key)
    await driver.publish("inbox:audit", "x")
    found = await hottest(driver.transport, n=2)
    assert [(one.type, one.key, one.waiting) for one in found] == [
        ("counter", "cyd", 3),
        ("counter", "bob", 2),
        ("audit", "x", 1),
    ]


async def test_the_size_of_the_state_is_told(driver: WorkerDriver) -> None:
    name = driver.transport.keys.of("state:counter:ada")
    await driver.transport.admin.command("HSET", name, "v", 1, "d", '{"total":12}', "w", "w1")
    await driver.publish("inbox:counter", "ada")
    (one,) = await hottest(driver.transport)
    assert one.state_bytes == 12


async def test_a_long_backlog_is_counted_in_several_calls(driver: WorkerDriver) -> None:
    admin, name = driver.transport.admin, driver.transport.keys.of("inbox:counter")
    for i in range(2300):
        await admin.command("XADD", name, "*", "type", "Visit", "key", f"k{i % 3}", "body", "{}")
    found = await hottest(driver.transport)
    assert {one.key: one.waiting for one in found} == {"k0": 767, "k1": 767, "k2": 766}
