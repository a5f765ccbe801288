"""Everything that a person can break is named, mended where it can be, and the workers go on."""

from __future__ import annotations

import pytest

from callboard.broker.redis.operations.repair import KINDS, find, repair
from callboard.broker.redis.operations.snapshot import Photographer
from tests.helpers.sabotage import PUBLISHED, SABOTAGES, Sabotage, read_by_a_stranger, scene
from tests.helpers.server_driver import ServerDriver, bodies, posting, topic


async def test_a_namespace_at_work_has_no_faults(driver: ServerDriver) -> None:
    at_work = await scene(driver)
    before = await driver.snapshot()
    assert await find(driver.transport) == ()
    mended = await repair(driver.transport)
    assert (mended.mended, mended.left) == ((), ())
    assert await driver.snapshot() == before
    assert await at_work.go_on() == PUBLISHED
    await driver.check_empty("counter")
    assert await find(driver.transport) == ()


async def test_a_timer_that_fires_while_somebody_looks_is_no_fault(
    driver: ServerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.publish(posting("topic:visits", "a", "1", due=60_000))
    (timer,) = await driver.command("ZRANGE", "timers", 0, -1)
    read_names = Photographer._read_names

    async def fires_afterwards(photographer: Photographer) -> None:
        await read_names(photographer)
        await driver.command("ZADD", "timers", 1, timer)
        await worker.turn()

    monkeypatch.setattr(Photographer, "_read_names", fires_afterwards)
    assert await find(driver.transport) == ()
    assert bodies(await worker.take()) == ["1"]


@pytest.mark.parametrize("sabotage", SABOTAGES.values(), ids=SABOTAGES)
async def test_what_is_broken_is_named_and_mended_and_work_goes_on(
    driver: ServerDriver, sabotage: Sabotage
) -> None:
    at_work = await scene(driver)
    await sabotage.act(at_work)

    broken = await driver.snapshot()
    found = await find(driver.transport)
    assert sabotage.kind in {fault.kind for fault in found}, found
    assert await driver.snapshot() == broken, "looking changes nothing"

    done = await repair(driver.transport)
    if sabotage.stays:
        assert {(fault.kind, fault.status) for fault in done.left} == {(sabotage.kind, "stays")}
        assert all(fault.detail for fault in done.left)
    else:
        assert sabotage.kind in {fault.kind for fault in done.mended}, done
        assert done.left == ()
        assert await find(driver.transport) == ()

    wanted = {
        key: [body for body in bodies if body not in sabotage.lost] for key, bodies in PUBLISHED.items()
    }
    assert await at_work.go_on() == wanted
    await driver.check_empty("counter")


async def test_what_is_no_message_and_was_lost_by_hand_becomes_a_dead_letter(driver: ServerDriver) -> None:
    """Repair parks it like any other: the worker that takes it must not fail over it, again and again."""
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.add_by_hand("topic:visits", "greeting", "hello")
    await read_by_a_stranger(driver)
    await driver.note("topic:visits", "a", "a1")
    assert {fault.kind for fault in (await repair(driver.transport)).mended} == {"pending", "consumer"}
    assert bodies(await worker.take()) == ["a1"]
    assert [letter["reason"] for letter in await driver.letters("counter")] == [
        b"the entry has no field `type`"
    ]
    await worker.finish_all()
    await driver.check_empty("counter")


async def test_what_is_paused_reset_or_too_new_is_no_fault(driver: ServerDriver) -> None:
    at_work = await scene(driver)
    await driver.run("control", "reset", "counter", "a", "r1", "me")
    await driver.run("control", "reset", "counter", "z", "r2", "me")
    await driver.run("control", "pause", "type", "counter", "me")
    await driver.run("control", "pause", "key", "counter/a", "me")
    await at_work.second.take()
    await driver.run("control", "resume", "type", "counter", "me")
    await at_work.second.take()
    before = await driver.snapshot()
    assert await find(driver.transport) == ()
    assert (await repair(driver.transport)).mended == ()
    assert await driver.snapshot() == before


async def test_repair_by_two_at_once_is_one_repair(driver: ServerDriver) -> None:
    at_work = await scene(driver)
    await driver.command("DEL", "busy:counter", driver.transport.keys.of("wait:counter:a"))
    await repair(driver.transport)
    assert (await repair(driver.transport)).mended == ()
    assert await at_work.go_on() == PUBLISHED


def test_every_kind_of_fault_is_explained_and_made_once() -> None:
    assert {sabotage.kind for sabotage in SABOTAGES.values()} | {"type", "undeclared"} == set(KINDS)
    assert all(facts.what and facts.why for facts in KINDS.values())


async def test_a_key_of_the_wrong_type_is_named_and_left(driver: ServerDriver) -> None:
    await scene(driver)
    await driver.command("DEL", "tries:counter")
    await driver.command("SET", "tries:counter", "x")
    left = (await repair(driver.transport)).left
    assert [(fault.kind, fault.names) for fault in left] == [("type", ("tries:counter",))]
    assert "has to be a hash" in left[0].detail


async def test_a_subscriber_that_is_not_declared_is_named(driver: ServerDriver) -> None:
    await scene(driver)
    await driver.command("HDEL", "types", "counter")
    found = await find(driver.transport)
    assert ("undeclared", ("counter",)) in {(fault.kind, fault.names) for fault in found}


async def test_a_long_wait_list_is_put_in_order_entry_by_entry(driver: ServerDriver) -> None:
    """The server is not kept busy with sorting: see callboard/broker/redis/lua/repair/order.lua."""
    await driver.declare(topic("counter", "visits"))
    holder, parker = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "held")
    await holder.take()
    published = [str(number) for number in range(1100)]
    for start in range(0, len(published), 500):
        await driver.note("topic:visits", "a", *published[start : start + 500])
        await parker.take(500)
    in_order = await driver.command("LRANGE", "wait:counter:a", 0, -1)

    mixed = list(in_order)
    mixed.insert(3, mixed.pop(900))
    mixed.insert(1099, mixed.pop(20))
    mixed.pop(500)
    mixed[700:700] = [mixed[10], b"topic:visits 1-1"]
    await driver.command("DEL", "wait:counter:a")
    for start in range(0, len(mixed), 500):
        await driver.command("RPUSH", "wait:counter:a", *mixed[start : start + 500])
    kinds = {fault.kind for fault in await find(driver.transport)}
    assert {"order", "pending", "key"} <= kinds, kinds

    assert (await repair(driver.transport)).left == ()
    assert await find(driver.transport) == ()
    # The worker that an entry was lost behind was ended: what it held comes first.
    held, *mended = await driver.command("LRANGE", "wait:counter:a", 0, -1)
    assert (held < mended[0], mended) == (True, in_order)
    assert (await driver.mapping("parked:counter"))["a"] == str(1 + len(in_order))
