"""What a commit writes: acknowledgement, state, outgoing messages, timers, reply, dead letter, retry, release."""

from __future__ import annotations

import time

from broker.redis.lane import Done
from tests.helpers.eventually import eventually
from tests.helpers.rig import Rig, bodies, topic


async def test_everything_of_a_commit_is_there_afterwards(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"), topic("audit", "log"))
    worker = await rig.worker("counter", "audit")
    await rig.note("topic:visits", "a", "1")
    (one,) = await worker.take(5, "counter")
    state = (1, b"one")
    reply = ("someone", "", "q1", "Count", "counter/a", b"", b"answer")
    now = ("topic:log", 0, "o1", "Note", "a", "counter/a", b"", b"now")
    later = ("topic:log", 60_000, "o2", "Note", "a", "counter/a", b"", b"later")
    await worker.turn(Done(one, "CSPO", (*state, *reply, 2, *now, *later)))
    assert await rig.pending("topic:visits", "counter") == 0
    assert (await rig.mapping("state:counter:a"))["d"] == "one"
    assert [entry["body"] for entry in await rig.entries("reply:someone")] == [b"answer"]
    assert bodies(await worker.take(5, "audit")) == ["now"]
    assert (await rig.mapping("timer:o2"))["body"] == "later"
    assert (await rig.mapping("stats:counter"))["done"] == "1"


async def test_state_comes_with_the_next_message_unless_the_worker_wrote_it_itself(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    first, second = await rig.worker("counter"), await rig.worker("counter")
    await rig.note("topic:visits", "a", "1", "2", "3")
    one = (await first.turn(count=1, persistent=True)).deliveries[0]
    assert (one.state_version, one.state) == (0, b"")
    await first.turn(Done(one, "CS", (1, b"s1")))
    two = (await first.turn(count=1, persistent=True)).deliveries[0]
    assert (two.state_version, two.state) == (1, None), "it knows what it wrote"
    await first.turn(Done(two, "CS", (2, b"s2")))
    three = (await second.turn(count=1, persistent=True)).deliveries[0]
    assert (three.state_version, three.state) == (2, b"s2")


async def test_a_retry_comes_back_first_and_counts(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    worker = await rig.worker("counter")
    await rig.note("topic:visits", "a", "1", "2", "3")
    one, two, three = await worker.take()
    first_ms = str(int(time.time() * 1000))
    await worker.turn(Done(one, "R", (1, 1, first_ms, "it hurts")), Done(two, "L", ()), Done(three, "L", ()))
    await rig.note("topic:visits", "a", "4")
    seen = []

    async def drained() -> bool:
        taken = await worker.take()
        seen.extend(taken)
        return len(seen) >= 4

    await eventually(drained)
    assert bodies(seen) == ["1", "2", "3", "4"]
    assert [one.attempt for one in seen] == [2, 1, 1, 1]
    assert seen[0].first_tried == first_ms
    await worker.turn(*(Done(one, "CT" if one.tries else "C", ()) for one in seen))
    await rig.check_empty("counter")


async def test_a_key_that_backs_off_waits_and_others_go_on(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    worker = await rig.worker("counter")
    await rig.note("topic:visits", "a", "1")
    await rig.note("topic:visits", "b", "2")
    one, two = await worker.take()
    turn = await worker.turn(Done(one, "R", (60_000, 1, "", "no")), Done(two, "C", ()))
    assert turn.next_due_ms is not None
    assert turn.next_due_ms - turn.server_ms > 59_000
    await rig.note("topic:visits", "a", "3")
    await rig.note("topic:visits", "b", "4")
    assert bodies(await worker.take()) == ["4"]
    assert (await rig.mapping("busy:counter"))["a"] == ""


async def test_released_entries_go_to_others_at_once_in_order_without_an_attempt(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    first, second = await rig.worker("counter"), await rig.worker("counter")
    await rig.note("topic:visits", "a", *"12345")
    held = await first.take(3)
    await second.take(5)
    await first.turn(*(Done(one, "L", ()) for one in held))
    taken = await second.take(10)
    assert bodies(taken) == ["1", "2", "3", "4", "5"]
    assert [one.attempt for one in taken] == [1] * 5


async def test_a_dead_letter_says_everything(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    worker = await rig.worker("counter")
    await rig.note("topic:visits", "a", "1", "2")
    one, two = await worker.take()
    extras = ("failed", "ValueError: no", "Traceback ...", 3, "1763700000000")
    await worker.turn(Done(one, "DM", extras), Done(two, "C", ()))
    (letter,) = await rig.letters("counter")
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
    await rig.check_empty("counter")


async def test_a_reply_to_a_recorded_call_goes_to_who_asked_last(rig: Rig) -> None:
    """A handler that asked, died, and asks again in another process gets the answer."""
    await rig.declare(topic("counter", "visits"))
    worker = await rig.worker("counter")
    ask = ("inbox:counter", 0, "call-1", "p1", "call-1", "Ask", "a", "x/y", b"", b"?")
    await rig.run("publish", "producer-1", 1, 1000, 1000, 0, 0, 1, *ask)
    (one,) = await worker.take()
    again = ("inbox:counter", 0, "call-1", "p2", "call-1", "Ask", "a", "x/y", b"", b"?")
    answer = await rig.run("publish", "producer-2", 1, 1000, 1000, 0, 0, 1, *again)
    assert answer[2:] in ([b"0", b"duplicate"], [0, b"duplicate"])
    await worker.turn(Done(one, "CP", ("p1", "call-1", "call-1", "Count", "counter/a", b"", b"7")))
    assert [entry["body"] for entry in await rig.entries("reply:p2")] == [b"7"]
    await rig.run("publish", "producer-3", 1, 1000, 1000, 0, 0, 1, *ask)
    assert [entry["body"] for entry in await rig.entries("reply:p1")] == [b"7"], (
        "recorded, so answered at once"
    )
    assert await worker.take() == [], "and not carried out again"


async def test_a_large_batch_of_commits(rig: Rig) -> None:
    """More values than Lua's unpack() takes."""
    await rig.declare(topic("counter", "visits"), topic("counter", "other"))
    worker = await rig.worker("counter")
    for start in range(0, 3000, 500):
        for name in ("visits", "other"):
            await rig.publish(*(_numbered(name, i) for i in range(start, start + 500)))
    for _ in range(10):
        await worker.take(1000)
    assert len(worker.held) == 6000
    await worker.finish_all()
    await rig.check_empty("counter")
    assert (await rig.mapping("stats:counter"))["done"] == "6000"


def _numbered(name: str, number: int):  # type: ignore[no-untyped-def]
    from tests.helpers.rig import posting

    return posting(f"topic:{name}", f"k{number % 4500}", str(number))
