from __future__ import annotations

import asyncio

import msgpack
import pytest

from callboard.broker.codec import pack
from callboard.broker.envelope import head_of
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.operations import deadletters
from tests.helpers.commits import Done
from tests.unit.broker.redis.servers import WorkerDriver, driver, server_url, transport

__all__ = ["driver", "server_url", "transport"]


async def bury_some(driver: WorkerDriver, count: int, agent_type: str = "counter") -> None:
    for number in range(count):
        await driver.publish(
            "topic:visits", f"k{number}", body=b'{"name":"Ada"}', id=f"{agent_type}-{number}"
        )
    await driver.bury(agent_type)


def message_ids(done: list[Done]) -> list[str]:
    return [item.delivery.envelope.id for item in done]


async def test_nothing_is_dead_at_first(transport: RedisTransport) -> None:
    assert await deadletters.list_letters(transport) == ()
    assert await deadletters.show(transport, "counter", "1-0") is None
    assert await deadletters.replay(transport, "counter") == deadletters.HandledLetters()


async def test_a_letter_says_everything(driver: WorkerDriver) -> None:
    await bury_some(driver, 1)

    (listed,) = await deadletters.list_letters(driver.transport, "counter")
    letter = await deadletters.show(driver.transport, "counter", listed.id)

    assert letter is not None
    assert letter == listed
    assert letter.agent_type == "counter"
    assert (letter.message_id, letter.message_type, letter.key, letter.sender) == (
        "counter-0",
        "Visit",
        "k0",
        None,
    )
    assert (letter.reason, letter.error, letter.traceback) == ("failed", "ValueError: no", "Traceback ...")
    assert (letter.attempts, letter.first) == (3, 1763700000000)
    assert letter.last > letter.first
    assert letter.stream == "topic:visits"
    assert letter.worker == driver.lane.worker
    assert (letter.payload, letter.problem) == ({"name": "Ada"}, "")


async def test_the_newest_letters_of_all_types_come_first(driver: WorkerDriver) -> None:
    await bury_some(driver, 2)
    await asyncio.sleep(0.002)  # letters of one millisecond have no order between types
    await bury_some(driver, 1, "audit")

    letters = await deadletters.list_letters(driver.transport, limit=3)

    assert len(letters) == 3
    assert {letter.agent_type for letter in letters} == {"audit"}
    everything = await deadletters.list_letters(driver.transport)
    ids = [tuple(map(int, letter.id.split("-"))) for letter in everything]
    assert ids == sorted(ids, reverse=True)
    assert {letter.agent_type for letter in everything} == {"audit", "counter"}


async def test_letters_of_one_millisecond_are_listed_in_the_order_in_which_they_were_buried(
    driver: WorkerDriver,
) -> None:
    for number in range(30):
        await driver.publish("topic:visits", f"k{number}", id=f"m{number:02}")
    counted, audited = await driver.take_all("counter"), await driver.take_all("audit")
    extras = ("failed", "", "", 3, "")
    both = [Done(done.delivery, "D", extras) for pair in zip(counted, audited, strict=True) for done in pair]
    await driver.finish(*both)

    letters = await deadletters.list_letters(driver.transport)

    assert len({letter.id for letter in letters}) == len(both), "each id is given once in a namespace"
    died = [(letter.agent_type, letter.message_id) for letter in reversed(letters)]
    assert died == [
        (name, done.delivery.envelope.id) for done, name in zip(both, ["counter", "audit"] * 30, strict=True)
    ]


async def test_a_body_that_cannot_be_read_is_said_so(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada", body=b"\xc1\xc1")
    await driver.bury("counter")

    (letter,) = await deadletters.list_letters(driver.transport, "counter")

    assert letter.payload is None
    assert "msgpack" in letter.problem
    assert letter.body == b"\xc1\xc1"


async def test_a_replayed_event_goes_to_the_failing_type_only_and_keeps_its_topic(
    driver: WorkerDriver,
) -> None:
    await bury_some(driver, 1)
    await driver.finish(*await driver.take("audit"))

    handled = await deadletters.replay(driver.transport, "counter")

    assert len(handled.done) == 1
    assert await driver.take("audit") == []
    (again,) = await driver.take("counter")
    delivery = again.delivery
    assert delivery.stream == b"inbox:counter"
    envelope = delivery.envelope
    assert envelope.topic == "visits"
    assert (envelope.id, envelope.key, envelope.body) == ("counter-0", "k0", b'{"name":"Ada"}')
    assert await deadletters.list_letters(driver.transport, "counter") == ()


async def test_the_topic_survives_a_second_failure(driver: WorkerDriver) -> None:
    await bury_some(driver, 1)
    await deadletters.replay(driver.transport, "counter")
    await driver.bury("counter")
    (letter,) = await deadletters.list_letters(driver.transport, "counter")
    assert letter.stream == "inbox:counter"

    await deadletters.replay(driver.transport, "counter")

    (again,) = await driver.take("counter")
    assert again.delivery.envelope.topic == "visits"


async def test_replaying_twice_by_mistake_sends_once(driver: WorkerDriver) -> None:
    await bury_some(driver, 3)
    ids = [letter.id for letter in await deadletters.list_letters(driver.transport, "counter")]

    first = await deadletters.replay(driver.transport, "counter", ids)
    second = await deadletters.replay(driver.transport, "counter", ids)

    assert sorted(first.done) == sorted(ids)
    assert (second.done, sorted(second.gone)) == ((), sorted(ids))
    assert sorted(message_ids(await driver.take("counter"))) == ["counter-0", "counter-1", "counter-2"]


async def test_a_replay_has_no_deadline_and_keeps_the_rest_of_its_head(driver: WorkerDriver) -> None:
    head = pack({"d": 1, "v": 2, "c": "cause"})
    await driver.publish("inbox:counter", "ada", head=head)
    await driver.bury("counter", "expired")

    await deadletters.replay(driver.transport, "counter")

    (again,) = await driver.take("counter")
    assert msgpack.unpackb(head_of(again.delivery.envelope)) == {"v": 2, "c": "cause"}


async def test_only_the_letters_that_are_named_are_touched(driver: WorkerDriver) -> None:
    await bury_some(driver, 3)
    newest, _, oldest = await deadletters.list_letters(driver.transport, "counter")

    replayed = await deadletters.replay(driver.transport, "counter", [newest.id, newest.id, "7-7", "no id"])
    discarded = await deadletters.discard(driver.transport, "counter", [oldest.id])

    assert replayed == deadletters.HandledLetters(done=(newest.id,), gone=("7-7", "no id"))
    assert discarded == deadletters.HandledLetters(done=(oldest.id,))
    assert len(await deadletters.list_letters(driver.transport, "counter")) == 1


async def test_all_of_many_letters_in_the_order_in_which_they_died(driver: WorkerDriver) -> None:
    count = deadletters.AT_ONCE * 2 + 1
    for number in range(count):
        await driver.publish("topic:visits", f"k{number:03}", id=f"m{number:03}")
    await driver.bury("counter")

    handled = await deadletters.replay(driver.transport, "counter")

    assert len(handled.done) == count
    assert message_ids(await driver.take_all("counter")) == [f"m{number:03}" for number in range(count)]


async def test_discarding_all_leaves_nothing_and_sends_nothing(driver: WorkerDriver) -> None:
    await bury_some(driver, 2)

    handled = await deadletters.discard(driver.transport, "counter")

    assert len(handled.done) == 2
    assert await deadletters.list_letters(driver.transport) == ()
    assert await driver.take("counter") == []


@pytest.mark.parametrize("fields", [("foo", "bar"), ("type", "Visit", "body", "x" * 1_100_000)])
async def test_what_never_was_a_message_can_be_discarded_but_not_sent_again(
    driver: WorkerDriver, fields: tuple[str, ...]
) -> None:
    await driver.transport.admin.command("XADD", driver.transport.keys.of("topic:visits"), "*", *fields)
    assert await driver.take("counter") == []
    (letter,) = await deadletters.list_letters(driver.transport, "counter")

    replayed = await deadletters.replay(driver.transport, "counter")

    assert replayed == deadletters.HandledLetters(refused=(letter.id,))
    assert (await deadletters.discard(driver.transport, "counter")).done == (letter.id,)


async def test_a_letter_with_a_broken_head_is_sent_as_it_is(driver: WorkerDriver) -> None:
    await driver.publish("topic:visits", "ada", head=b"\xc1")
    await driver.bury("counter", "decode: broken msgpack")

    handled = await deadletters.replay(driver.transport, "counter")

    assert len(handled.done) == 1
    (again,) = await driver.take("counter")
    assert again.delivery.broken is not None
    entries = await driver.transport.admin.command(
        "XRANGE", driver.transport.keys.of("inbox:counter"), "-", "+"
    )
    assert b"\xc1" in entries[0][1]
