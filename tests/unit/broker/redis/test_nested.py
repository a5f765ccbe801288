"""Requests to an activation that waits: sent once, answered once, by the worker that runs it."""

from __future__ import annotations

import asyncio

import pytest

from broker.errors import NotWaitingError
from broker.redis.nested import Place
from broker.redis.publisher import Posting
from broker.redis.transport import RedisTransport
from tests.helpers.eventually import eventually

from .servers import Bench, bench, server_url, transport

__all__ = ["bench", "server_url", "transport"]

ROUTE = ("outer", "ask1")


def _ask(name: str, scope: str) -> Posting:
    return Posting("inbox:audit", 0, (name, "Ask", "ada", "", b"", b"{}"), f">{scope}|{name}", "elsewhere")


async def _place(bench: Bench) -> Place:
    """A message of counter/ada that is being handled, and has asked somebody."""
    await bench.publish("topic:visits", "ada", id="outer")
    await bench.take("counter")
    await bench.transport.post(_ask("ask1", "counter:outer"))
    return Place("counter", "ada", "outer", bench.lane.worker)


def _nested(name: str = "n1") -> Posting:
    return Posting(
        "inbox:counter", 0, (name, "Ask", "ada", "audit/ada", b"", b"{}"), f">audit:ask1|{name}", "me"
    )


async def test_it_is_added_once_and_read_in_order(bench: Bench) -> None:
    place, nested = await _place(bench), bench.transport.nested
    for name in ("n1", "n2", "n1"):
        await nested.send(_nested(name), "counter", ROUTE)
    found = await nested.read(place, "0-0")
    assert [values[0] for _, values in found] == [b"n1", b"n2"]
    assert [values[0] for _, values in await nested.read(place, found[0][0])] == [b"n2"]
    command, keys = bench.transport.admin.command, bench.transport.keys
    assert await command("XLEN", keys.of("reply:elsewhere")) == 2, "one notice for each"


async def test_nobody_waits(bench: Bench) -> None:
    await _place(bench)
    with pytest.raises(NotWaitingError, match="counter/ada"):
        await bench.transport.nested.send(_nested(), "counter", ("outer", "another ask"))
    await bench.transport.nested.send(_nested(), "counter", ROUTE)


async def test_a_notice_wakes_whoever_listens(transport: RedisTransport) -> None:
    came = transport.nested.listen("ask1")
    transport.nested.notify("another")
    assert not came.is_set()
    transport._on_reply((b"ask1", b"nested", b"ask1", b"", b"5", b"", b""))
    assert came.is_set()
    transport.nested.ignore("ask1")
    assert transport.nested.listen("ask1") is not came
    assert transport.late_replies == 0


async def test_it_is_answered_once_and_remembered(bench: Bench) -> None:
    place, transport = await _place(bench), bench.transport
    posting = _nested()._replace(waiting=transport.process)
    waiting = transport.ask_back(posting, "counter", ROUTE)
    found = await eventually(lambda: transport.nested.read(place, "0-0"))
    entry = found[0][0]
    assert await transport.nested.ending(place, entry) == ""
    for body in (b"first", b"second"):
        reply = (transport.process, "n1", "Answer", "counter/ada", b"", body)
        assert await transport.nested.answer(place, entry, "ok", reply)
    assert (await asyncio.wait_for(waiting, 5)).body == b"first"
    assert await transport.nested.ending(place, entry) == "ok"


async def test_only_the_worker_that_runs_the_agent_answers(bench: Bench) -> None:
    place, nested = await _place(bench), bench.transport.nested
    await nested.send(_nested(), "counter", ROUTE)
    ((entry, _),) = await nested.read(place, "0-0")
    reply = ("me", "n1", "Answer", "counter/ada", b"", b"x")
    assert not await nested.answer(place._replace(worker="host:1:0"), entry, "ok", reply)
    assert await nested.ending(place, entry) == ""
