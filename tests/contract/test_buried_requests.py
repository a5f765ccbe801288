"""A request that becomes a dead letter is answered by whoever buries it, so that nobody waits for a handler that is gone."""

from __future__ import annotations

import asyncio

import pytest

from callboard import AgentId, ClosureContext, MessageContext
from callboard.broker.envelope import Envelope, Posting, request
from callboard.broker.errors import DeadLetterError
from callboard.broker.redis.library import Mark
from callboard.broker.remote_errors import decode_error
from tests.helpers.commits import Done
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Runtimes, closure
from tests.helpers.server_driver import DrivenWorker, ServerDriver

FAR = 9_000_000_000_000
ROUTES = {"boss/¡r": ("m1", "a1")}


def _ask(
    driver: ServerDriver, *, id: str = "q1", deadline: int = FAR, body: bytes = b"{}", **rest: bool
) -> Posting:
    """A request with all that a head may hold."""
    envelope = request(
        id, "Ask", "a", "x/y", body, driver.transport.process, rest.get("recorded", False),
        ("boss/¡r", "a" * 300), deadline, True, 70_000, False, ROUTES,
    )  # fmt: skip
    waiting = driver.transport.process if envelope.recorded else ""
    return Posting(envelope, "inbox:clerk", 0, id if envelope.recorded else "", waiting)


async def _error_of(waiting: asyncio.Future[Envelope]) -> DeadLetterError:
    reply = await asyncio.wait_for(waiting, 20)
    assert (reply.kind, reply.error, reply.sender) == ("reply", True, None)
    error = decode_error(reply.body)
    assert isinstance(error, DeadLetterError), error
    assert error.agent_type == "clerk"
    return error


async def _crash(driver: ServerDriver, worker: DrivenWorker) -> None:
    assert await driver.run("leave", "1", "1", worker.name) == 1


async def _clerk(driver: ServerDriver) -> DrivenWorker:
    await driver.declare(types=["clerk"], max_attempts=1)
    return await driver.worker("clerk")


@pytest.mark.parametrize("recorded", [False, True])
async def test_whose_process_died_each_time(driver: ServerDriver, recorded: bool) -> None:
    worker = await _clerk(driver)
    waiting = driver.transport.requests.ask(_ask(driver, recorded=recorded))
    await eventually(worker.take)
    await _crash(driver, worker)
    error = await _error_of(waiting)
    assert error.reason == "crashed: the worker died, or lost its lease, each time it handled this message"
    assert "callboard dead list" in str(error)
    (letter,) = await driver.letters("clerk")
    assert letter["reason"] == b"crashed"
    if recorded:  # a handler that runs again asks again
        again = driver.transport.requests.ask(_ask(driver, recorded=True))
        assert (await _error_of(again)).reason == error.reason


async def test_that_no_worker_can_be_given(driver: ServerDriver) -> None:
    worker = await _clerk(driver)
    waiting = driver.transport.requests.ask(_ask(driver, body=b"x" * 2_000_000))
    assert await driver.transport.publisher.post(_ask(driver, id="other"))
    taken = await eventually(worker.take)
    assert [one.envelope.id for one in taken] == ["other"]
    assert (await _error_of(waiting)).reason.startswith("the payload has 2000000 bytes")


async def test_that_its_worker_gave_up_without_an_answer(driver: ServerDriver) -> None:
    worker = await _clerk(driver)
    waiting = driver.transport.requests.ask(_ask(driver))
    (one,) = await eventually(worker.take)
    await worker.turn(Done(one, Mark.DEAD_LETTER, ("failed", "ValueError: né", "", 1, "")))
    assert (await _error_of(waiting)).reason == "failed: ValueError: n??"


async def test_the_answer_of_its_worker_goes_before(driver: ServerDriver) -> None:
    worker = await _clerk(driver)
    waiting = driver.transport.requests.ask(_ask(driver))
    (one,) = await eventually(worker.take)
    reply = (driver.transport.process, "", "q1", "Answer", "", b"", b"from the worker")
    letter = ("decode: no", "", "", 1, "")
    await worker.turn(Done(one, Mark.DEAD_LETTER + Mark.REPLY, (*letter, *reply)))
    assert (await asyncio.wait_for(waiting, 20)).body == b"from the worker"
    assert await driver.command("XLEN", f"reply:{driver.transport.process}") == 1


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"\x81\xa1k\xa5event",
        b"\x82\xa1k\xa7request\xa1r\xa1",
        b"\xdf\xff\xff\xff\xff",
        b"\x91" * 60_000,
        b"\xc1",
        b"\x81\xa1r\xa1p",
        b"\x82\xa1k\xa7request\xa1r\x05",
        b'{"k":"request"',
        b'{"k":"request","r":["p"]}',
        b'["request"]',
        b"7",
    ],
    ids=range(12),
)
async def test_what_asks_nobody_is_buried_as_ever(driver: ServerDriver, head: bytes) -> None:
    worker = await _clerk(driver)
    fields = ("id", "m1", "type", "Ask", "key", "a", "from", "", "at", "5", "head", head, "body", "{}")
    await driver.add_by_hand("inbox:clerk", *fields)
    assert len(await worker.take()) == 1
    await _crash(driver, worker)
    (letter,) = await driver.letters("clerk")
    assert (letter["id"], letter["head"]) == (b"m1", head)
    assert not [name for name in await driver.snapshot() if name.startswith("reply:")]


async def test_a_request_that_a_person_added(driver: ServerDriver) -> None:
    """Its head is JSON, and it has the id that it would have at a worker."""
    worker = await _clerk(driver)
    head = '{"k":"request","r":"someone","d":9000000000000}'
    entry = await driver.add_by_hand("inbox:clerk", "type", "Ask", "key", "a", "head", head, "body", "{}")
    await worker.take()
    await _crash(driver, worker)
    (reply,) = await driver.entries("reply:someone")
    (letter,) = await driver.letters("clerk")
    assert reply["id"] == letter["id"] == f"inbox:clerk:{entry}".encode()


async def test_nobody_waits_beyond_the_deadline(driver: ServerDriver) -> None:
    worker = await _clerk(driver)
    await driver.transport.publisher.post(_ask(driver, deadline=5))
    await driver.transport.publisher.post(_ask(driver, id="q2", deadline=5, recorded=True))
    for _ in range(2):
        assert len(await worker.take(1)) == 1
        await _crash(driver, worker)
        worker = await driver.worker("clerk")
    replies = await driver.entries(f"reply:{driver.transport.process}")
    assert [reply["id"] for reply in replies] == [b"q2"], "a handler may ask again, with another deadline"


async def test_who_asks_gets_the_error(runtimes: Runtimes) -> None:
    begun = asyncio.Event()

    async def hang(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        begun.set()
        await asyncio.Event().wait()
        return Answer()

    asker, worker = await runtimes.started(), await runtimes.started(settings={"max_attempts": 1})
    await closure(worker, "clerk", hang)
    asking = asyncio.create_task(asker.send_message(Ask(), AgentId("clerk", "a"), timeout=60))
    await asyncio.wait_for(begun.wait(), 10)
    transport = asker.transport
    (name,) = await transport.admin.command("HVALS", transport.keys.of("busy:clerk"))
    await transport.admin.run("leave", ("1", "1", name))
    with pytest.raises(DeadLetterError, match=r"became a dead letter of clerk \(crashed"):
        await asking
