from __future__ import annotations

import msgpack
import pytest

from broker.payload import pack
from broker.redis import deadletters
from broker.redis.entries import read_envelope
from broker.redis.lane import Done
from broker.redis.transport import RedisTransport

from .servers import Bench, bench, server_url, transport

__all__ = ["bench", "server_url", "transport"]


async def bury_some(bench: Bench, count: int, agent_type: str = "counter") -> None:
    for number in range(count):
        await bench.publish("topic:visits", f"k{number}", body=b'{"name":"Ada"}', id=f"{agent_type}-{number}")
    await bench.bury(agent_type)


def message_ids(done: list[Done]) -> list[str]:
    return [item.delivery.message_id.decode() for item in done]


async def test_nothing_is_dead_at_first(transport: RedisTransport) -> None:
    assert await deadletters.list_letters(transport) == ()
    assert await deadletters.show(transport, "counter", "1-0") is None
    assert await deadletters.replay(transport, "counter") == deadletters.Handled()


async def test_a_letter_says_everything(bench: Bench) -> None:
    await bury_some(bench, 1)

    (listed,) = await deadletters.list_letters(bench.transport, "counter")
    letter = await deadletters.show(bench.transport, "counter", listed.id)

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
    assert letter.worker == bench.lane.worker
    assert (letter.payload, letter.problem) == ({"name": "Ada"}, "")


async def test_the_newest_letters_of_all_types_come_first(bench: Bench) -> None:
    await bury_some(bench, 2)
    await bury_some(bench, 1, "audit")

    letters = await deadletters.list_letters(bench.transport, limit=3)

    assert len(letters) == 3
    assert {letter.agent_type for letter in letters} == {"audit"}
    everything = await deadletters.list_letters(bench.transport)
    assert [letter.id for letter in everything] == sorted((letter.id for letter in everything), reverse=True)
    assert {letter.agent_type for letter in everything} == {"audit", "counter"}


async def test_a_body_that_cannot_be_read_is_said_so(bench: Bench) -> None:
    await bench.publish("topic:visits", "ada", body=b"\xc1\xc1")
    await bench.bury("counter")

    (letter,) = await deadletters.list_letters(bench.transport, "counter")

    assert letter.payload is None
    assert "msgpack" in letter.problem
    assert letter.body == b"\xc1\xc1"


async def test_a_replayed_event_goes_to_the_failing_type_only_and_keeps_its_topic(bench: Bench) -> None:
    await bury_some(bench, 1)
    await bench.finish(*await bench.take("audit"))

    handled = await deadletters.replay(bench.transport, "counter")

    assert len(handled.done) == 1
    assert await bench.take("audit") == []
    (again,) = await bench.take("counter")
    delivery = again.delivery
    assert delivery.stream == b"inbox:counter"
    fields = {"id": delivery.message_id, "type": delivery.message_type, "key": delivery.raw_key}
    envelope = read_envelope("1-0", {**fields, "head": delivery.head, "body": delivery.body})
    assert envelope.topic == "visits"
    assert (envelope.id, envelope.key, envelope.body) == ("counter-0", "k0", b'{"name":"Ada"}')
    assert await deadletters.list_letters(bench.transport, "counter") == ()


async def test_the_topic_survives_a_second_failure(bench: Bench) -> None:
    await bury_some(bench, 1)
    await deadletters.replay(bench.transport, "counter")
    await bench.bury("counter")
    (letter,) = await deadletters.list_letters(bench.transport, "counter")
    assert letter.stream == "inbox:counter"

    await deadletters.replay(bench.transport, "counter")

    (again,) = await bench.take("counter")
    assert msgpack.unpackb(again.delivery.head)["t"] == "visits"


async def test_replaying_twice_by_mistake_sends_once(bench: Bench) -> None:
    await bury_some(bench, 3)
    ids = [letter.id for letter in await deadletters.list_letters(bench.transport, "counter")]

    first = await deadletters.replay(bench.transport, "counter", ids)
    second = await deadletters.replay(bench.transport, "counter", ids)

    assert sorted(first.done) == sorted(ids)
    assert (second.done, sorted(second.gone)) == ((), sorted(ids))
    assert sorted(message_ids(await bench.take("counter"))) == ["counter-0", "counter-1", "counter-2"]


async def test_a_replay_has_no_deadline_and_keeps_the_rest_of_its_head(bench: Bench) -> None:
    head = pack({"d": 1, "v": 2, "c": "cause"})
    await bench.publish("inbox:counter", "ada", head=head)
    await bench.bury("counter", "expired")

    await deadletters.replay(bench.transport, "counter")

    (again,) = await bench.take("counter")
    assert msgpack.unpackb(again.delivery.head) == {"v": 2, "c": "cause"}


async def test_only_the_letters_that_are_named_are_touched(bench: Bench) -> None:
    await bury_some(bench, 3)
    newest, _, oldest = await deadletters.list_letters(bench.transport, "counter")

    replayed = await deadletters.replay(bench.transport, "counter", [newest.id, newest.id, "7-7", "no id"])
    discarded = await deadletters.discard(bench.transport, "counter", [oldest.id])

    assert replayed == deadletters.Handled(done=(newest.id,), gone=("7-7", "no id"))
    assert discarded == deadletters.Handled(done=(oldest.id,))
    assert len(await deadletters.list_letters(bench.transport, "counter")) == 1


async def test_all_of_many_letters_in_the_order_in_which_they_died(bench: Bench) -> None:
    count = deadletters.AT_ONCE * 2 + 1
    for number in range(count):
        await bench.publish("topic:visits", f"k{number:03}", id=f"m{number:03}")
    await bench.bury("counter")

    handled = await deadletters.replay(bench.transport, "counter")

    assert len(handled.done) == count
    assert message_ids(await bench.take_all("counter")) == [f"m{number:03}" for number in range(count)]


async def test_discarding_all_leaves_nothing_and_sends_nothing(bench: Bench) -> None:
    await bury_some(bench, 2)

    handled = await deadletters.discard(bench.transport, "counter")

    assert len(handled.done) == 2
    assert await deadletters.list_letters(bench.transport) == ()
    assert await bench.take("counter") == []


@pytest.mark.parametrize("fields", [("foo", "bar"), ("type", "Visit", "body", "x" * 1_100_000)])
async def test_what_never_was_a_message_can_be_discarded_but_not_sent_again(
    bench: Bench, fields: tuple[str, ...]
) -> None:
    await bench.transport.admin.command("XADD", bench.transport.keys.of("topic:visits"), "*", *fields)
    assert await bench.take("counter") == []
    (letter,) = await deadletters.list_letters(bench.transport, "counter")

    replayed = await deadletters.replay(bench.transport, "counter")

    assert replayed == deadletters.Handled(refused=(letter.id,))
    assert (await deadletters.discard(bench.transport, "counter")).done == (letter.id,)


async def test_a_letter_with_a_broken_head_is_sent_as_it_is(bench: Bench) -> None:
    await bench.publish("topic:visits", "ada", head=b"\xc1")
    await bench.bury("counter", "decode: broken msgpack")

    handled = await deadletters.replay(bench.transport, "counter")

    assert len(handled.done) == 1
    (again,) = await bench.take("counter")
    assert again.delivery.head == b"\xc1"
