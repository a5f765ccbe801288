"""Requests to an activation that waits: sent once, answered once, by the worker that runs it."""

from __future__ import annotations

import asyncio

import pytest

from callboard.broker.envelope import Envelope, Fence, Posting
from callboard.broker.errors import FencedError, NotWaitingError
from callboard.broker.redis.client.requests import NestedPlace
from callboard.broker.redis.client.transport import RedisTransport
from tests.helpers.eventually import eventually
from tests.unit.broker.redis.servers import WorkerDriver, driver, server_url, transport

__all__ = ["driver", "server_url", "transport"]

ROUTE = ("outer", "ask1")


def _ask(name: str, scope: str) -> Posting:
    envelope = Envelope(name, "Ask", "ada", None, 0, b"{}")
    return Posting(envelope, "inbox:audit", 0, f">{scope}|{name}", "elsewhere")


async def _place(driver: WorkerDriver) -> NestedPlace:
    """A message of counter/ada that is being handled, and has asked somebody."""
    await driver.publish("topic:visits", "ada", id="outer")
    (done,) = await driver.take("counter")
    await driver.transport.publisher.post(_ask("ask1", "counter:outer"))
    return NestedPlace("counter", "ada", "outer", done.delivery.fence)


def _nested(name: str = "n1") -> Posting:
    envelope = Envelope(name, "Ask", "ada", "audit/ada", 0, b"{}")
    return Posting(envelope, "inbox:counter", 0, f">audit:ask1|{name}", "me")


def _reply(process: str, body: bytes) -> Posting:
    return Posting(Envelope("n1", "Answer", "", "counter/ada", 0, body, "reply"), f"reply:{process}")


async def test_it_is_added_once_and_read_in_order(driver: WorkerDriver) -> None:
    place, nested = await _place(driver), driver.transport.nested
    for name in ("n1", "n2", "n1"):
        await nested.send(_nested(name), "counter", ROUTE)
    found = await nested.read(place, "0-0")
    assert [values[0] for _, values in found] == [b"n1", b"n2"]
    assert [values[0] for _, values in await nested.read(place, found[0][0])] == [b"n2"]
    command, keys = driver.transport.admin.command, driver.transport.keys
    assert await command("XLEN", keys.of("reply:elsewhere")) == 2, "one notice for each"


async def test_a_place_that_the_server_has_lost_is_not_read_behind(driver: WorkerDriver) -> None:
    """Ids of the server that took over may be below the one that is remembered."""
    place, nested = await _place(driver), driver.transport.nested
    await nested.send(_nested("n1"), "counter", ROUTE)
    found = await nested.read(place, "9000000000000-0")
    assert [values[0] for _, values in found] == [b"n1"]
    assert await nested.read(place, found[0][0]) == []


async def test_nobody_waits(driver: WorkerDriver) -> None:
    await _place(driver)
    with pytest.raises(NotWaitingError, match="counter/ada"):
        await driver.transport.nested.send(_nested(), "counter", ("outer", "another ask"))
    await driver.transport.nested.send(_nested(), "counter", ROUTE)


async def test_a_notice_wakes_whoever_listens(transport: RedisTransport) -> None:
    came = transport.nested.listen("ask1")
    transport.nested.notify("another")
    assert not came.is_set()
    transport.requests._on_reply((b"ask1", b"nested", b"ask1", b"", b"5", b"", b""))
    assert came.is_set()
    other = transport.nested.listen("ask1")
    transport.nested.ignore("ask1", came)
    came.clear()
    transport.nested.notify("ask1")
    assert (came.is_set(), other.is_set()) == (False, True), "each listens for itself"
    assert transport.requests.late == 0


async def test_it_is_answered_once_and_remembered(driver: WorkerDriver) -> None:
    place, transport = await _place(driver), driver.transport
    posting = _nested()._replace(waiting=transport.process)
    waiting = transport.requests.ask_back(posting, "counter", ROUTE)
    found = await eventually(lambda: transport.nested.read(place, "0-0"))
    entry = found[0][0]
    assert await transport.nested.ending(place, entry) == ""
    for body in (b"first", b"second"):
        await transport.nested.answer(place, entry, "ok", _reply(transport.process, body))
    assert (await asyncio.wait_for(waiting, 5)).body == b"first"
    assert await transport.nested.ending(place, entry) == "ok"


async def test_only_the_worker_that_holds_the_message_asks_and_answers(driver: WorkerDriver) -> None:
    place, nested = await _place(driver), driver.transport.nested
    await nested.send(_nested(), "counter", ROUTE)
    ((entry, _),) = await nested.read(place, "0-0")
    other = Fence("host:1:0", place.fence.held)
    with pytest.raises(FencedError, match="host:1:0 lost its lease"):
        await nested.answer(place._replace(fence=other), entry, "ok", _reply("me", b"x"))
    with pytest.raises(FencedError, match="host:1:0 lost its lease"):
        await nested.send(_nested("n2")._replace(fence=other), "counter", ROUTE)
    assert len(await nested.read(place, "0-0")) == 1
    assert await nested.ending(place, entry) == ""
