"""Whoever buries a message tells its sender, where that asked for it: in the same step, and whatever the message holds."""

from __future__ import annotations

import msgpack
import pytest

from callboard.broker.codec import MessageRegistry
from callboard.broker.envelope import Envelope, Posting, event
from callboard.broker.outcome import Commit
from callboard.broker.retry import Buried
from tests.helpers.commits import as_done
from tests.helpers.eventually import eventually
from tests.helpers.server_driver import DrivenWorker, ServerDriver, posting


def _telling(
    *, id: str = "m1", key: str = "a", sender: str = "boss/b", stream: str = "inbox:clerk"
) -> Posting:
    return Posting(event(id, "Note", key, sender, b"{}", if_buried=True), stream)


async def _workers(driver: ServerDriver) -> tuple[DrivenWorker, DrivenWorker]:
    """A clerk, and the boss that tells it."""
    await driver.declare(types=["clerk", "boss"], max_attempts=1)
    return await driver.worker("clerk"), await driver.worker("boss")


async def _heard(boss: DrivenWorker) -> tuple[Buried, Envelope]:
    """What the boss is told, read as any message is."""
    (delivery,) = await eventually(boss.take)
    envelope = delivery.envelope
    registry = MessageRegistry()
    registry.register(Buried)
    told = registry.decode(envelope.type, envelope.version, envelope.body)
    assert isinstance(told, Buried)
    return told, envelope


async def test_one_whose_process_died(driver: ServerDriver) -> None:
    clerk, boss = await _workers(driver)
    await driver.publish(_telling())
    await eventually(clerk.take)
    await driver.run("leave", "1", "1", clerk.name)
    told, envelope = await _heard(boss)
    assert (told.message_id, told.recipient, told.type, told.reason) == ("m1", "clerk/a", "Note", "crashed")
    assert (envelope.key, envelope.sender, envelope.cause) == ("b", "clerk/a", "m1")
    assert await boss.take() == []
    assert len(await driver.letters("clerk")) == 1


@pytest.mark.parametrize("name", ["Grüße 漢字 🎉", "a/b c", 'quote " and \\'], ids=ascii)
async def test_names_of_every_kind(driver: ServerDriver, name: str) -> None:
    clerk, boss = await _workers(driver)
    await driver.publish(_telling(id=name, key=name, sender=f"boss/{name}"))
    await eventually(clerk.take)
    await driver.run("leave", "1", "1", clerk.name)
    told, envelope = await _heard(boss)
    assert (told.message_id, told.recipient, envelope.key) == (name, f"clerk/{name}", name)
    assert (envelope.cause, envelope.sender) == (name, f"clerk/{name}")


@pytest.mark.parametrize(
    "broken", [b"\xff", b"\xc3", b"\xe0\x80\x80", b"\xed\xa0\x80", b"\xe4\xc3\xa4\xb8\xad"], ids=str
)
async def test_bytes_that_are_no_text(driver: ServerDriver, broken: bytes) -> None:
    clerk, boss = await _workers(driver)
    head = msgpack.packb({"f": True})
    fields = (
        "id",
        b"m" + broken,
        "type",
        "Note",
        "key",
        "a",
        "from",
        "boss/b",
        "at",
        "1",
        "head",
        head,
        "body",
        "{}",
    )
    await driver.transport.admin.command("XADD", driver.transport.keys.of("inbox:clerk"), "*", *fields)
    await eventually(clerk.take)
    await driver.run("leave", "1", "1", clerk.name)
    told, _ = await _heard(boss)
    assert told.message_id == "m" + "?" * len(broken)


async def test_one_that_no_worker_can_be_given(driver: ServerDriver) -> None:
    clerk, boss = await _workers(driver)
    head = msgpack.packb({"f": True})
    fields = (
        "id",
        "m" * 5000,
        "type",
        "Note",
        "key",
        "a",
        "from",
        "boss/b",
        "at",
        "1",
        "head",
        head,
        "body",
        "{}",
    )
    await driver.transport.admin.command("XADD", driver.transport.keys.of("inbox:clerk"), "*", *fields)
    await clerk.take()
    told, _ = await _heard(boss)
    assert told.recipient == "clerk/a"


async def test_one_that_could_not_leave_with_its_commit(driver: ServerDriver) -> None:
    _, boss = await _workers(driver)
    await driver.publish(posting("inbox:boss", "b", "begin"))
    (begin,) = await eventually(boss.take)
    await driver.transport.admin.command("SET", driver.transport.keys.of("inbox:other"), "mine")
    outgoing = (_telling(stream="inbox:other"),)
    await boss.turn(as_done(begin, Commit(outgoing=outgoing), True, 60.0))
    told, _ = await _heard(boss)
    assert (told.recipient, told.reason) == ("other/a", "unsendable")


@pytest.mark.parametrize("sender", ["nobody/b", ""])
async def test_a_sender_that_can_not_be_told(driver: ServerDriver, sender: str) -> None:
    clerk, boss = await _workers(driver)
    await driver.publish(_telling(sender=sender))
    await eventually(clerk.take)
    await driver.run("leave", "1", "1", clerk.name)
    assert len(await driver.letters("clerk")) == 1
    assert await boss.take() == []


async def test_an_inbox_that_holds_something_else_makes_a_letter_of_the_sender(driver: ServerDriver) -> None:
    clerk, _ = await _workers(driver)
    await driver.publish(_telling())
    await eventually(clerk.take)
    inbox = driver.transport.keys.of("inbox:boss")
    await driver.transport.admin.command("DEL", inbox)
    await driver.transport.admin.command("SET", inbox, "mine")
    await driver.run("leave", "1", "1", clerk.name)
    assert len(await driver.letters("clerk")) == 1
    (letter,) = await driver.letters("boss")
    assert (letter["type"], letter["reason"]) == (b"callboard.buried", b"unsendable")
