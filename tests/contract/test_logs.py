"""Logs of an agent's state: appended to in the commit, all or nothing, and read as one commit left them."""

from __future__ import annotations

import asyncio

import pytest

from callboard.broker.envelope import Delivery
from callboard.broker.errors import FencedError, StateDamagedError
from callboard.broker.outcome import Commit, LogChange
from callboard.broker.redis.client.states import FIRST_PAGE, StoredState
from callboard.broker.redis.operations.agents import sizes_of
from callboard.broker.redis.operations.repair import find, repair
from tests.helpers.commits import Done, as_done
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, topic

THREAD = "log:counter:a:thread"


def appended(
    one: Delivery, version: int, *items: bytes, dropped: int = 0, state: bytes | None = None, **more: object
) -> Done:
    """A commit that appends these items to the thread."""
    change = LogChange("thread", dropped, items)
    return committed(one, version, change, state=state, **more)


def committed(
    one: Delivery, version: int, *changes: LogChange, state: bytes | None = None, **more: object
) -> Done:
    written = None if state is None else (version, state)
    is_free = bool(more.pop("is_free", True))
    return as_done(one, Commit(state=written, logs=(version, changes), **more), is_free, 60.0)  # type: ignore[arg-type]


async def holding(driver: ServerDriver, *names: str) -> tuple[DrivenWorker, list[Delivery]]:
    """A worker that holds messages of agent a with these bodies."""
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", *names)
    return worker, (await worker.turn(count=len(names), persistent=True)).deliveries


async def items_of(driver: ServerDriver, suffix: str = THREAD) -> list[bytes]:
    found: list[bytes] = await driver.command("LRANGE", suffix, 0, -1)
    return found


async def test_a_commit_appends_trims_and_leaves_the_rest_alone(driver: ServerDriver) -> None:
    worker, (one, two, three) = await holding(driver, "1", "2", "3")
    await worker.turn(
        appended(one, 1, b'"a"', b'"b"', b'"c"', state=b"{}", is_free=False),
        committed(two, 2, LogChange("thread", 2, (b'"d"',)), LogChange("other", 0, (b"1",)), is_free=False),
    )
    assert await items_of(driver) == [b'"c"', b'"d"']
    state = await driver.mapping("state:counter:a")
    assert (state["v"], state["d"], state["l"]) == ("2", "{}", "thread 2 other 1")
    await worker.turn(committed(three, 3, LogChange("thread", 2, ())))
    assert await driver.transport.load_state("counter", "a") == StoredState(
        3, b"{}", {"thread": [], "other": [b"1"]}
    )


async def test_more_items_than_one_command_takes_go_in_one_commit(driver: ServerDriver) -> None:
    worker, (one,) = await holding(driver, "1")
    many = tuple(b"%d" % number for number in range(2345))
    await worker.turn(appended(one, 1, *many))
    assert await items_of(driver) == list(many)
    assert (await driver.transport.load_state("counter", "a")).logs["thread"] == list(many)


async def test_a_delivery_says_that_there_are_logs_and_not_what_is_in_them(driver: ServerDriver) -> None:
    worker, (one,) = await holding(driver, "1")
    assert not one.has_logs
    await worker.turn(appended(one, 1, b"1", state=b"{}"))
    other = await driver.worker("counter")
    await driver.note("topic:visits", "a", "2")
    (two,) = (await other.turn(count=1, persistent=True)).deliveries
    assert (two.state_version, two.state, two.has_logs) == (1, b"{}", True)


async def test_a_cancelled_request_appends_nothing(driver: ServerDriver) -> None:
    worker, (one,) = await holding(driver, "1")
    await driver.run("control", "cancel", one.envelope.id, 9_999_999_999_999)
    await worker.turn(appended(one, 1, b"1", state=b"{}", unless_cancelled=one.envelope.id))
    assert await driver.transport.load_state("counter", "a") == StoredState()
    await driver.check_empty("counter")


async def test_a_worker_whose_state_was_replaced_meanwhile_begins_anew(driver: ServerDriver) -> None:
    worker, (one, two) = await holding(driver, "1", "2")
    assert await driver.transport.save_state("counter", "a", b"{}", {"thread": [b'"x"']}) == 1
    with pytest.raises(FencedError):
        await worker.turn(appended(one, 1, b'"mine"', is_free=False), appended(two, 2, b'"mine"'))
    assert await items_of(driver) == [b'"x"']
    other = await driver.worker("counter")
    again = (await other.turn(count=2, persistent=True)).deliveries
    assert bodies(again) == ["1", "2"]
    assert [one.attempt for one in again] == [1, 1]
    await other.turn(appended(again[0], 2, b'"y"', is_free=False), appended(again[1], 3, b'"z"'))
    assert await items_of(driver) == [b'"x"', b'"y"', b'"z"']
    await driver.check_empty("counter")


async def test_replacing_a_state_leaves_nothing_of_the_old_logs(driver: ServerDriver) -> None:
    worker, (one,) = await holding(driver, "1")
    await worker.turn(committed(one, 1, LogChange("old", 0, (b"1",)), LogChange("thread", 0, (b"1", b"2"))))
    await driver.command("RPUSH", "log:counter:a:left", "over")
    version = await driver.transport.save_state("counter", "a", b"new", {"thread": [b"3"], "left": []})
    stored = await driver.transport.load_state("counter", "a")
    assert stored == StoredState(version, b"new", {"thread": [b"3"], "left": []})
    names = [name for name in await driver.snapshot() if name.startswith("log:")]
    assert names == [THREAD]


async def test_a_reset_takes_the_logs_away(driver: ServerDriver) -> None:
    worker, (one, two) = await holding(driver, "1", "2")
    await worker.turn(appended(one, 1, b"1", state=b"{}", is_free=False))
    await worker.turn(as_done(two, Commit(state=(2, b"")), True, 60.0))
    assert await driver.transport.load_state("counter", "a") == StoredState(2)
    assert await items_of(driver) == []


async def test_a_log_that_was_changed_by_hand_is_not_appended_to(driver: ServerDriver) -> None:
    worker, (one, two) = await holding(driver, "1", "2")
    await worker.turn(appended(one, 1, b"1", b"2", state=b"{}", is_free=False))
    await driver.command("RPOP", THREAD)
    changes = (LogChange("other", 0, (b"1",)), LogChange("thread", 0, (b"3",)))
    await worker.turn(committed(two, 2, *changes, state=b"more"))
    (letter,) = await driver.letters("counter")
    assert letter["reason"] == b"unwritable"
    assert letter["error"] == b"log:counter:a:thread: it has 1 items where its state says 2"
    assert (await driver.mapping("state:counter:a"))["d"] == "{}"
    assert await items_of(driver, "log:counter:a:other") == [], "all of a commit or nothing"
    with pytest.raises(StateDamagedError, match="thread has not the 2 items"):
        await driver.transport.load_state("counter", "a")


async def test_what_comes_after_a_commit_that_could_not_be_written_is_not_written_either(
    driver: ServerDriver,
) -> None:
    worker, (one, two, three) = await holding(driver, "1", "2", "3")
    await driver.command("SET", "log:counter:a:notes", "somebody's own")
    await worker.turn(
        committed(one, 1, LogChange("notes", 0, (b"1",)), is_free=False),
        appended(two, 2, b"2", is_free=False),
    )
    assert [letter["body"] for letter in await driver.letters("counter")] == [b"1", b"2"]
    assert await driver.transport.load_state("counter", "a") == StoredState()
    with pytest.raises(FencedError):
        await worker.turn(appended(three, 3, b"3"))


async def test_what_a_state_that_was_deleted_by_hand_left_does_not_count(driver: ServerDriver) -> None:
    worker, (one, two) = await holding(driver, "1", "2")
    await worker.turn(appended(one, 1, b"1", state=b"{}", is_free=False))
    await driver.command("DEL", "state:counter:a")
    assert await driver.transport.load_state("counter", "a") == StoredState()
    with pytest.raises(FencedError):
        await worker.turn(appended(two, 2, b"2"))
    other = await driver.worker("counter")
    (again,) = (await other.turn(count=1, persistent=True)).deliveries
    await other.turn(appended(again, 1, b"3"))
    assert await items_of(driver) == [b"3"]


async def test_a_long_log_is_read_in_pages(driver: ServerDriver) -> None:
    items = [b'"%s"' % (b"x" * (number % 5000)) for number in range(3000)]
    await driver.transport.save_state("counter", "a", b"{}", {"thread": items})
    assert (await driver.transport.load_state("counter", "a")).logs["thread"] == items


async def test_a_state_that_is_replaced_while_it_is_read_is_read_again(driver: ServerDriver) -> None:
    """Each time with logs of another length and other items: what is read is always of one version."""
    transport = driver.transport
    for number in range(1, 30):
        items = [b"%d" % number] * (number * FIRST_PAGE)
        replacing = asyncio.create_task(
            transport.save_state("counter", "a", b"%d" % number, {"thread": items})
        )
        version, data, logs = await transport.load_state("counter", "a")
        assert set(logs.get("thread", ())) <= {data}
        assert len(logs.get("thread", ())) == version * FIRST_PAGE
        await replacing


async def test_an_operator_sees_how_large_it_is(driver: ServerDriver) -> None:
    assert await sizes_of(driver.transport, "counter", "a") is None
    worker, (one,) = await holding(driver, "1")
    await worker.turn(appended(one, 1, b'"a"', b'"b"', state=b'{"n":1}'))
    sizes = await sizes_of(driver.transport, "counter", "a")
    assert sizes is not None
    assert (sizes.version, sizes.data, sizes.logs["thread"].items) == (1, 7, 2)


async def test_a_repair_takes_a_log_as_it_is(driver: ServerDriver) -> None:
    worker, (one, two) = await holding(driver, "1", "2")
    await worker.turn(appended(one, 1, b"1", b"2", state=b"{}", is_free=False))
    await driver.command("LPOP", THREAD)
    await driver.command("RPUSH", "log:counter:b:thread", "left over")
    faults = [(fault.kind, fault.names, fault.detail) for fault in await find(driver.transport)]
    assert faults == [
        ("log", ("counter", "a", ""), "thread has 1 items where its state says 2"),
        ("log", ("counter", "b", "thread"), "no state names it"),
    ]
    assert {fault.status for fault in (await repair(driver.transport)).mended} == {"mended"}
    assert await find(driver.transport) == ()
    with pytest.raises(FencedError):
        await worker.turn(appended(two, 2, b"3"))
    assert await driver.transport.load_state("counter", "a") == StoredState(2, b"{}", {"thread": [b"2"]})
    assert await driver.command("EXISTS", "log:counter:b:thread") == 0
