"""What a commit writes: acknowledgement, state, outgoing messages, timers, reply, dead letter, retry, release."""

from __future__ import annotations

import os
import time
from itertools import chain

from callboard.broker import BrokerSettings
from callboard.broker.envelope import Delivery
from callboard.broker.redis.client.publisher import message_values
from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done
from tests.helpers.eventually import eventually
from tests.helpers.server_driver import LEASE, ServerDriver, bodies, posting, topic


async def test_everything_of_a_commit_is_there_afterwards(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("audit", "log"))
    worker = await driver.worker("counter", "audit")
    await driver.note("topic:visits", "a", "1")
    (one,) = await worker.take(5, "counter")
    state = (1, b"one")
    reply = ("someone", "", "q1", "Count", "counter/a", b"", b"answer")
    now = ("topic:log", 0, "o1", "Note", "a", "counter/a", b"", b"now")
    later = ("topic:log", 60_000, "o2", "Note", "a", "counter/a", b"", b"later")
    await worker.turn(
        Done(one, Mark.COMMIT + Mark.STATE + Mark.REPLY + Mark.OUTGOING, (*state, *reply, 2, *now, *later))
    )
    assert await driver.pending("topic:visits", "counter") == 0
    assert (await driver.mapping("state:counter:a"))["d"] == "one"
    assert [entry["body"] for entry in await driver.entries("reply:someone")] == [b"answer"]
    assert bodies(await worker.take(5, "audit")) == ["now"]
    (member,) = await driver.command("ZRANGE", "timers", 0, -1)
    assert (await driver.mapping(f"timer:{member.decode()[2:]}"))["body"] == "later"
    assert (await driver.mapping("stats:counter"))["done"] == "1"


async def test_what_commits_send_to_a_topic_that_nobody_takes_is_cut(server_url: str) -> None:
    settings = BrokerSettings(namespace=f"contract-{os.urandom(4).hex()}", lease=LEASE, max_unclaimed=100)
    driver = ServerDriver(server_url, settings)
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    for turn in range(3):
        await driver.note("topic:visits", "a", str(turn))
        (one,) = await worker.take()
        sent: list[tuple[str | int | bytes, ...]] = [
            ("topic:unread", 0, f"{turn}-{n}", "Note", "a", "counter/a", b"", b"") for n in range(300)
        ]
        await worker.turn(Done(one, Mark.COMMIT + Mark.OUTGOING, (len(sent), *chain.from_iterable(sent))))
    assert await driver.command("XLEN", "topic:unread") <= 300 + 2 * 100
    await driver.close()


async def test_state_comes_with_the_next_message_unless_the_worker_wrote_it_itself(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1", "2", "3")
    one = (await first.turn(count=1, persistent=True)).deliveries[0]
    assert (one.state_version, one.state) == (0, b"")
    await first.turn(Done(one, Mark.COMMIT + Mark.STATE, (1, b"s1")))
    two = (await first.turn(count=1, persistent=True)).deliveries[0]
    assert (two.state_version, two.state) == (1, None), "it knows what it wrote"
    await first.turn(Done(two, Mark.COMMIT + Mark.STATE, (2, b"s2")))
    three = (await second.turn(count=1, persistent=True)).deliveries[0]
    assert (three.state_version, three.state) == (2, b"s2")


async def test_a_retry_comes_back_first_and_counts(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1", "2", "3")
    one, two, three = await worker.take()
    first_ms = str(int(time.time() * 1000))
    await worker.turn(
        Done(one, Mark.RETRY, (1, 1, first_ms, "it hurts")),
        Done(two, Mark.RELEASE, ()),
        Done(three, Mark.RELEASE, ()),
    )
    await driver.note("topic:visits", "a", "4")
    seen = []

    async def drained() -> bool:
        taken = await worker.take()
        seen.extend(taken)
        return len(seen) >= 4

    await eventually(drained)
    assert bodies(seen) == ["1", "2", "3", "4"]
    assert [one.attempt for one in seen] == [2, 1, 1, 1]
    assert seen[0].first_tried == first_ms
    await worker.turn(
        *(Done(one, Mark.COMMIT + Mark.TRIED if one.tries else Mark.COMMIT, ()) for one in seen)
    )
    await driver.check_empty("counter")


async def test_a_key_that_backs_off_waits_and_others_go_on(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    for key, body in ("a", "1"), ("b", "2"), ("c", "3"):
        await driver.note("topic:visits", key, body)
    one, two, three = await worker.take()
    turn = await worker.turn(Done(one, Mark.RETRY, (60_000, 1, "", "no")), Done(two, Mark.COMMIT, ()))
    assert turn.next_due_ms is not None
    assert turn.next_due_ms - turn.server_ms > 59_000
    await worker.turn(Done(three, Mark.RETRY, (60_000, 1, "", "no")))
    for key, body in ("a", "4"), ("b", "5"), ("c", "6"):
        await driver.note("topic:visits", key, body)
    assert bodies(await worker.take()) == ["5"]
    busy = await driver.mapping("busy:counter")
    assert (busy["a"], busy["c"]) == ("", "")


async def test_commits_of_several_streams_end_as_each_says(driver: ServerDriver) -> None:
    """So many of one stream in a row are a run of their own."""
    together = 5
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    worker, other = await driver.worker("counter"), await driver.worker("counter")
    for number in range(together):
        await driver.note("topic:visits", f"a{number}", "done")
    for number in range(together):
        await driver.note("topic:orders", f"b{number}", "again")
    taken = await worker.take(20)
    assert bodies(taken) == ["done"] * together + ["again"] * together
    await worker.turn(
        *(
            Done(one, Mark.RETRY, (1, 1, "", "no"))
            if one.stream == b"topic:orders"
            else Done(one, Mark.COMMIT, ())
            for one in taken
        )
    )
    came_back: list[Delivery] = []

    async def are_back() -> bool:
        came_back.extend(await other.take())
        return len(came_back) == together

    await eventually(are_back)
    assert {(one.stream, one.attempt) for one in came_back} == {(b"topic:orders", 2)}
    await other.finish_all()
    await driver.note("topic:visits", "a0", "next")
    assert bodies(await other.take()) == ["next"]
    await other.finish_all()
    await driver.check_empty("counter")
    assert (await driver.mapping("stats:counter"))["done"] == str(2 * together + 1)


async def test_commits_of_many_streams_and_types_in_turn(driver: ServerDriver) -> None:
    """Each is acknowledged in its stream for its type; what can't be written takes no other with it."""
    names = [f"visits-{number}" for number in range(4)]
    await driver.declare(*(topic(each, name) for each in ("counter", "clerk") for name in names))
    await driver.command("SET", "state:counter:k5", "no hash")
    worker = await driver.worker("counter", "clerk")
    notes = [posting(f"topic:{names[number % 4]}", f"k{number}", str(number)) for number in range(12)]
    assert await driver.publish(*notes) == [True] * 12
    taken = await worker.take(20)
    assert bodies(taken) == [str(number) for number in range(12)] * 2
    state = Done(taken[5], Mark.COMMIT + Mark.STATE, (1, b"x"))
    back = Done(taken[7], Mark.RELEASE, ())
    done = [Done(one, Mark.COMMIT, ()) for one in taken]
    await worker.turn(*done[:5], state, done[6], back, *done[8:])
    (letter,) = await driver.letters("counter")
    assert letter["body"] == b"5"
    assert [await driver.pending(f"topic:{name}", "counter") for name in names] == [0, 0, 0, 1]
    assert bodies(await worker.take()) == ["7"]
    await worker.finish_all()
    await driver.check_empty("counter", "clerk")
    totals = [(await driver.mapping(f"stats:{each}"))["done"] for each in ("counter", "clerk")]
    assert totals == ["12", "12"]


async def test_commits_of_two_types_that_are_alike_free_the_agents_of_both(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("clerk", "visits"))
    worker, other = await driver.worker("counter", "clerk"), await driver.worker("counter", "clerk")
    for body in ("1", "2"):
        await driver.note("topic:visits", "a", body)
        assert bodies(await worker.take()) == [body, body]
        await worker.finish_all()
        worker, other = other, worker
    await driver.check_empty("counter", "clerk")
    assert [(await driver.mapping(f"stats:{name}"))["done"] for name in ("counter", "clerk")] == ["2", "2"]


async def test_released_entries_go_to_others_at_once_in_order_without_an_attempt(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", *"12345")
    held = await first.take(3)
    await second.take(5)
    await first.turn(*(Done(one, Mark.RELEASE, ()) for one in held))
    taken = await second.take(10)
    assert bodies(taken) == ["1", "2", "3", "4", "5"]
    assert [one.attempt for one in taken] == [1] * 5


async def test_a_dead_letter_says_everything(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1", "2")
    one, two = await worker.take()
    extras = ("failed", "ValueError: no", "Traceback ...", 3, "1763700000000")
    await worker.turn(Done(one, Mark.DEAD_LETTER + Mark.MORE, extras), Done(two, Mark.COMMIT, ()))
    (letter,) = await driver.letters("counter")
    assert letter["body"] == b"1"
    assert letter["key"] == b"a"
    assert letter["reason"] == b"failed"
    assert letter["error"] == b"ValueError: no"
    assert letter["traceback"] == b"Traceback ..."
    assert letter["attempts"] == b"3"
    assert letter["first"] == b"1763700000000"
    assert int(letter["last"]) > int(letter["first"])
    assert letter["stream"] == b"topic:visits"
    assert letter["entry"] == one.entry
    assert letter["worker"] == worker.name.encode()
    await driver.check_empty("counter")


async def test_a_reply_to_a_recorded_call_goes_to_all_who_ask(driver: ServerDriver) -> None:
    """A handler that asked, died, and asks again in another process gets the answer; so do two that ask at once."""
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    ask = message_values(
        [posting("inbox:counter", "a", "?", id="call-1", idempotency_id="call-1", waiting="p1")]
    )
    await driver.run("publish", "producer-1", 1, "1000 1000 0 0", 1, "", *ask)
    (one,) = await worker.take()
    again = message_values(
        [posting("inbox:counter", "a", "?", id="call-1", idempotency_id="call-1", waiting="p2")]
    )
    answer = await driver.run("publish", "producer-2", 1, "1000 1000 0 0", 1, "", *again)
    assert answer[2:] in ([b"0", b"duplicate"], [0, b"duplicate"])
    await worker.turn(
        Done(one, Mark.COMMIT + Mark.REPLY, ("p1", "call-1", "call-1", "Count", "counter/a", b"", b"7"))
    )
    for process in ("p1", "p2"):
        assert [entry["body"] for entry in await driver.entries(f"reply:{process}")] == [b"7"]
    third = message_values(
        [posting("inbox:counter", "a", "?", id="call-1", idempotency_id="call-1", waiting="p3")]
    )
    await driver.run("publish", "producer-3", 1, "1000 1000 0 0", 1, "", *third)
    for process in ("p1", "p2", "p3"):
        found = await driver.entries(f"reply:{process}")
        assert [entry["body"] for entry in found] == [b"7"], "recorded: who asks later is answered at once"
    assert await worker.take() == [], "and not carried out again"


async def test_a_large_batch_of_commits(driver: ServerDriver) -> None:
    """More values than Lua's unpack() takes."""
    await driver.declare(topic("counter", "visits"), topic("counter", "other"))
    worker = await driver.worker("counter")
    for start in range(0, 3000, 500):
        for name in ("visits", "other"):
            await driver.publish(*(_numbered(name, i) for i in range(start, start + 500)))
    assert len(await worker.take_all(6000)) == 6000
    await worker.finish_all()
    await driver.check_empty("counter")
    assert (await driver.mapping("stats:counter"))["done"] == "6000"


def _numbered(name: str, number: int):  # type: ignore[no-untyped-def]
    from tests.helpers.server_driver import posting

    return posting(f"topic:{name}", f"k{number % 4500}", str(number))
