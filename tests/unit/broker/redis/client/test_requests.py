"""Requests of a process, and how the replies to them come in."""

from __future__ import annotations

import os

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.envelope import Envelope, Posting
from callboard.broker.errors import (
    ConnectionLostError,
    DecodeError,
    UndeliverableError,
)
from callboard.broker.redis.client.transport import RedisTransport
from tests.helpers.commits import Done
from tests.helpers.eventually import eventually
from tests.unit.broker.redis.servers import WorkerDriver, driver, server_url, transport

__all__ = ["driver", "server_url", "transport"]


def request(name: str, agent_type: str = "counter", key: str = "ada") -> Posting:
    return Posting(Envelope(name, "Ask", key, None, 0, b"{}"), f"inbox:{agent_type}")


async def answer(driver: WorkerDriver, *, body: bytes = b"yes", head: bytes = b"") -> None:
    """Handles one request of the counter."""
    done: list[Done] = []

    async def taken() -> bool:
        done.extend(await driver.take("counter"))
        return bool(done)

    await eventually(taken)
    for one in done:
        name = one.delivery.envelope.id
        extras = (driver.transport.process, "", name, "Answer", "counter/ada", head, body)
        await driver.finish(Done(one.delivery, "CP", extras))


async def test_a_request_gets_its_reply(driver: WorkerDriver) -> None:
    waiting = driver.transport.requests.ask(request("r1"))
    assert driver.transport.in_flight == 2, "the message, and the reply that is waited for"
    await answer(driver, body=b"yes", head=b"\x81\xa1k\xa5reply")
    reply = await waiting
    assert (reply.id, reply.type, reply.sender, reply.kind) == ("r1", "Answer", "counter/ada", "reply")
    assert reply.body == b"yes"
    assert driver.transport.in_flight == 0


async def test_many_requests_at_once_get_their_own_replies(driver: WorkerDriver) -> None:
    waiting = {name: driver.transport.requests.ask(request(name, key=name)) for name in "abcdef"}
    for _ in range(20):
        if all(future.done() for future in waiting.values()):
            break
        for one in await driver.take("counter"):
            name = one.delivery.envelope.id
            await driver.finish(
                Done(one.delivery, "CP", (driver.transport.process, "", name, "A", "", b"", name))
            )
    assert {name: (await future).body for name, future in waiting.items()} == {
        n: n.encode() for n in "abcdef"
    }


async def test_a_reply_that_nobody_waits_for_any_more_is_counted(driver: WorkerDriver) -> None:
    waiting = driver.transport.requests.ask(request("r1"))
    driver.transport.requests.forget("r1", waiting)
    driver.transport.requests.forget("r1", waiting)
    await answer(driver)
    await eventually(lambda: driver.transport.requests.late == 1)
    assert not waiting.done()
    assert driver.transport.in_flight == 0


async def test_a_request_that_was_given_up_is_answered_without_harm(driver: WorkerDriver) -> None:
    waiting = driver.transport.requests.ask(request("r1"))
    waiting.cancel()
    await answer(driver)
    second = driver.transport.requests.ask(request("r2"))
    await answer(driver)
    assert (await second).body == b"yes"


async def test_the_same_request_may_be_waited_for_twice(driver: WorkerDriver) -> None:
    first, second = driver.transport.requests.ask(request("r1")), driver.transport.requests.ask(request("r1"))
    driver.transport.requests.forget("r1", first)
    await answer(driver)
    assert (await second).body == b"yes"
    assert not first.done()


async def test_a_request_to_nobody_fails(driver: WorkerDriver) -> None:
    waiting = driver.transport.requests.ask(request("r1", "nobody"))
    with pytest.raises(UndeliverableError, match="no agent type is registered for 'nobody'"):
        await waiting
    driver.transport.requests.forget("r1", waiting)
    assert driver.transport.in_flight == 0


async def test_what_is_no_reply_does_not_end_the_reading(
    driver: WorkerDriver, caplog: pytest.LogCaptureFixture
) -> None:
    waiting = driver.transport.requests.ask(request("r1"))
    key = driver.transport.keys.of(f"reply:{driver.transport.process}")
    await driver.transport.admin.command("XADD", key, "*", "by", "hand")
    await answer(driver)
    assert (await waiting).body == b"yes"
    assert "has an entry that is no reply" in caplog.text


async def test_a_reply_that_can_not_be_read_fails_its_requester_alone(driver: WorkerDriver) -> None:
    first = driver.transport.requests.ask(request("r1"))
    await answer(driver, head=b"\xc1")
    with pytest.raises(DecodeError, match="broken msgpack"):
        await first
    second = driver.transport.requests.ask(request("r2"))
    await answer(driver)
    assert (await second).body == b"yes"


async def test_closing_fails_those_who_wait_for_a_reply(server_url: str) -> None:
    transport = RedisTransport(server_url, BrokerSettings(namespace=f"test-{os.urandom(4).hex()}"))
    await transport.declare({"counter": {}}, [])
    waiting = transport.requests.ask(request("r1"))
    await transport.close(delete_namespace=True)
    with pytest.raises(ConnectionLostError, match="closed before the reply came"):
        await waiting
