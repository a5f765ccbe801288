"""What a person or a broken program adds to a stream never reaches a worker, and stops nobody."""

from __future__ import annotations

import pytest

from tests.helpers.server_driver import ServerDriver, bodies, topic

JUNK: dict[str, tuple[bytes | str, ...]] = {
    "no type": ("foo", "bar"),
    "an empty field": ("", ""),
    "only a key": ("key", "a"),
    "too large, as a publisher stores it": ("id", "m", "type", "Note", "key", "a", "body", b"x" * 1_048_577),
    "a long key, as a publisher stores it": ("id", "m", "type", "Note", "key", "k" * 1025, "body", "{}"),
    "a long head, as a publisher stores it": (
        *("id", "m", "type", "Note", "key", "a", "from", "", "head", b"h" * 70_000, "body", ""),
    ),
    "too large": ("type", "Note", "key", "a", "body", b"x" * 1_048_577),
    "a long key": ("type", "Note", "key", "k" * 1025, "body", "{}"),
    "a long type": ("type", "t" * 1025, "key", "a", "body", "{}"),
    "a long head": (
        "id",
        "1",
        "type",
        "Note",
        "key",
        "a",
        "from",
        "",
        "at",
        "1",
        "head",
        b"h" * 70_000,
        "body",
        "",
    ),
    "many fields": tuple(f"f{i}" for i in range(20_000)),
}


@pytest.mark.parametrize("kind", JUNK)
async def test_junk_is_a_dead_letter_and_what_follows_is_delivered(driver: ServerDriver, kind: str) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "before")
    entry = await driver.add_by_hand("topic:visits", *JUNK[kind])
    await driver.note("topic:visits", "a", "behind")
    assert bodies(await worker.take()) == ["before", "behind"]
    (letter,) = await driver.letters("counter")
    assert letter["reason"], letter
    assert letter["entry"].decode() == entry
    assert letter["stream"] == b"topic:visits"
    assert all(len(value) <= 65_536 for value in letter.values())
    await worker.finish_all()
    await driver.check_empty("counter")


async def test_other_fields_than_ours_are_harmless(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.add_by_hand(
        "topic:visits", "type", "Note", "key", "a", "colour", "red", "body", "1", "type", "Other"
    )
    worker = await driver.worker("counter")
    assert bodies(await worker.take()) == ["1"]


async def test_a_stream_full_of_junk_does_not_end_the_take(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    for number in range(60):
        await driver.add_by_hand("topic:visits", "foo", str(number))
    await driver.note("topic:visits", "a", "good")
    worker = await driver.worker("counter")
    seen = []
    for _ in range(100):
        turn = await worker.turn(count=5)
        seen += bodies(turn.deliveries)
        if not turn.more:
            break
    assert seen == ["good"]
    assert len(await driver.letters("counter")) == 60


@pytest.mark.real_server("it fails on reading a key of another kind as a group")
async def test_a_key_of_the_wrong_kind_does_not_stop_the_other_streams(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    await driver.command("DEL", "topic:visits")
    await driver.command("SET", "topic:visits", "somebody's own")
    await driver.note("topic:orders", "a", "1")
    worker = await driver.worker("counter")
    assert bodies(await worker.take()) == ["1"]
