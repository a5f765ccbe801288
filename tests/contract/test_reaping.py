"""What happens to the work of workers that die, and to messages that kill them."""

from __future__ import annotations

from broker.redis.lane import Done
from tests.helpers.eventually import eventually
from tests.helpers.rig import Rig, RigWorker, bodies, posting, topic


async def _crash(rig: Rig, worker: RigWorker) -> None:
    await rig.run("leave", "1", "1", worker.name)


async def test_what_a_dead_worker_held_goes_back_in_front_and_in_order(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"), topic("counter", "orders"))
    dying, other = await rig.worker("counter"), await rig.worker("counter")
    for number in range(6):
        await rig.note("topic:visits" if number % 2 else "topic:orders", "a", str(number))
    await dying.take(4)
    assert await other.take() == []
    await rig.expire(dying)
    assert (await other.beat())[2] == 1
    taken = await other.take()
    assert bodies(taken) == [str(i) for i in range(6)]
    assert [one.attempt for one in taken] == [2, 1, 1, 1, 1, 1]
    assert dying.name.encode() not in await rig.command("ZRANGE", "workers", 0, -1)
    await other.finish_all()
    await rig.check_empty("counter")


async def test_a_lease_that_has_not_ended_is_left_alone(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    first, second = await rig.worker("counter"), await rig.worker("counter")
    await rig.note("topic:visits", "a", "1")
    held = await first.take()
    assert (await second.beat())[2] == 0
    await first.finish(*held)


async def test_a_lease_ends_by_the_clock_of_the_server(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    silent, other = await rig.worker("counter"), await rig.worker("counter")
    await silent.beat(lease=0.15)
    await rig.note("topic:visits", "a", "1")
    await silent.take()

    async def reaped() -> bool:
        return bool((await other.beat())[2] == 1)

    await eventually(reaped, within=3)
    assert bodies(await other.take()) == ["1"]


async def test_leaving_in_peace_counts_no_attempt(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    first, second = await rig.worker("counter"), await rig.worker("counter")
    await rig.note("topic:visits", "a", "1")
    await first.take()
    await first.lane.leave()
    assert [one.attempt for one in await second.take()] == [1]


async def test_the_incarnations_of_a_process_are_ended_by_its_name(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    worker = await rig.worker("counter")
    process = worker.name.rsplit(":", 1)[0]
    assert await rig.run("leave", "1", "", process[:-1] + "x:") == 0
    assert await rig.run("leave", "1", "", process + ":") == 1
    assert await rig.run("leave", "1", "", process + ":") == 0


async def test_a_message_that_kills_its_worker_is_tried_as_often_as_said_then_a_dead_letter(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"), max_attempts=3)
    await rig.note("topic:visits", "a", "poison", "good")
    attempts = []
    for _ in range(3):
        worker = await rig.worker("counter")
        taken = await worker.take()
        assert taken[0].body == b"poison"
        attempts.append(taken[0].attempt)
        await _crash(rig, worker)
    assert attempts == [1, 2, 3]
    (letter,) = await rig.letters("counter")
    assert letter["reason"] == b"crashed"
    assert letter["body"] == b"poison"
    assert letter["attempts"] == b"3"
    worker = await rig.worker("counter")
    taken = await worker.take()
    assert bodies(taken) == ["good"]
    assert taken[0].attempt == 1
    await worker.finish_all()
    await rig.check_empty("counter")


async def test_one_attempt_means_one(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"), max_attempts=1)
    await rig.note("topic:visits", "a", "poison", "good")
    worker = await rig.worker("counter")
    await worker.take()
    await _crash(rig, worker)
    assert [letter["body"] for letter in await rig.letters("counter")] == [b"poison"]
    assert bodies(await (await rig.worker("counter")).take()) == ["good"]


async def test_a_suspect_is_tried_alone(rig: Rig) -> None:
    """It may kill the worker once more, and must not take along what has nothing to do with it."""
    await rig.declare(topic("counter", "visits"), max_attempts=3)
    await rig.note("topic:visits", "a", "poison")
    for _ in range(2):
        worker = await rig.worker("counter")
        await worker.take()
        await _crash(rig, worker)
    await rig.publish(*(posting("topic:visits", f"k{i}", f"good {i}") for i in range(5)))
    brave = await rig.worker("counter")
    turn = await brave.turn(count=10)
    assert bodies(turn.deliveries) == ["poison"]
    assert turn.suspects_wait, "the worker is told to take nothing else meanwhile"
    await _crash(rig, brave)
    assert [letter["body"] for letter in await rig.letters("counter")] == [b"poison"]
    other = await rig.worker("counter")
    taken = await other.take()
    assert bodies(taken) == [f"good {i}" for i in range(5)]
    assert all(one.attempt == 1 for one in taken)


async def test_a_worker_that_holds_something_is_told_that_a_suspect_waits(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"), max_attempts=3)
    await rig.note("topic:visits", "a", "poison")
    busy = await rig.worker("counter")
    for _ in range(2):
        worker = await rig.worker("counter")
        await worker.take()
        await _crash(rig, worker)
    await rig.note("topic:visits", "b", "good")
    busy.held = [None]  # type: ignore[list-item]
    turn = await busy.turn(count=5)
    assert turn.suspects_wait
    assert "poison" not in bodies(turn.deliveries)


async def test_an_innocent_message_outlives_many_deaths_of_its_workers(rig: Rig) -> None:
    """A message that was held while others killed the worker is not to blame."""
    await rig.declare(topic("counter", "visits"), max_attempts=3)
    poisons = [f"poison {i}" for i in range(4)]
    await rig.publish(*(posting("topic:visits", f"p{i}", body) for i, body in enumerate(poisons)))
    await rig.publish(*(posting("topic:visits", f"g{i}", f"good {i}") for i in range(20)))
    handled: set[str] = set()
    for _ in range(200):
        worker = await rig.worker("counter")
        while True:
            turn = await worker.turn(count=8)
            while not turn.suspects_wait and turn.deliveries and len(worker.held) < 8:
                turn = await worker.turn(count=8)
            if any(one.body.startswith(b"poison") for one in worker.held):
                await _crash(rig, worker)
                break
            handled.update(bodies(worker.held))
            await worker.finish_all()
            if not turn.deliveries and not turn.more and not turn.suspects_wait:
                break
        if len(handled) == 20 and len(await rig.letters("counter")) == 4:
            break
    assert handled == {f"good {i}" for i in range(20)}
    assert {letter["body"].decode() for letter in await rig.letters("counter")} == set(poisons)


async def test_a_dead_workers_retry_pause_goes_on(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    first, second = await rig.worker("counter"), await rig.worker("counter")
    await rig.note("topic:visits", "a", "1")
    await rig.note("topic:visits", "b", "2")
    one, _ = await first.take()
    await first.turn(Done(one, "R", (60_000, 1, "", "no")))
    await _crash(rig, first)
    assert bodies(await second.take()) == ["2"]
    assert (await rig.mapping("busy:counter"))["a"] == ""


async def test_consumers_of_dead_workers_do_not_pile_up(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    for number in range(5):
        await rig.note("topic:visits", f"k{number}", "x")
        worker = await rig.worker("counter")
        await worker.take()
        await _crash(rig, worker)
    found = await rig.transport.admin.command(
        "XINFO", "CONSUMERS", rig.transport.keys.of("topic:visits"), "counter"
    )
    assert len(found) <= 1


async def test_the_consumer_of_a_dead_worker_that_held_much_goes_too(rig: Rig) -> None:
    """Everything that is pending moves before the consumer goes; what is left pending would keep it for ever."""
    await rig.declare(topic("counter", "visits"))
    await rig.publish(*(posting("topic:visits", f"k{number}") for number in range(600)))
    doomed = await rig.worker("counter")
    assert len(await doomed.take(600)) == 600
    await _crash(rig, doomed)
    stream = rig.transport.keys.of("topic:visits")
    found = await rig.transport.admin.command("XINFO", "CONSUMERS", stream, "counter")
    assert [dict(zip(one[::2], one[1::2], strict=True))[b"name"] for one in found] == [b"nobody"]
    assert await rig.pending("topic:visits", "counter") == 600


async def test_replaying_a_letter_twice_sends_it_once(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    worker = await rig.worker("counter")
    await rig.note("topic:visits", "a", "1")
    (one,) = await worker.take()
    await worker.turn(Done(one, "D", ("failed", "E: no", "", 3, "")))
    (found,) = await rig.command("XRANGE", "dead:counter", "-", "+")
    letter = found[0].decode()
    assert await rig.run("replay", "counter", "replay", letter, b"") == [letter.encode(), b"done"]
    assert await rig.run("replay", "counter", "replay", letter, b"") == [letter.encode(), b"gone"]
    taken = await worker.take()
    assert bodies(taken) == ["1"]
    assert taken[0].attempt == 1
    assert await worker.take() == []


async def test_junk_is_not_replayed(rig: Rig) -> None:
    await rig.declare(topic("counter", "visits"))
    worker = await rig.worker("counter")
    await rig.add_by_hand("topic:visits", "foo", "bar")
    await worker.take()
    (found,) = await rig.command("XRANGE", "dead:counter", "-", "+")
    assert (await rig.run("replay", "counter", "replay", found[0], b""))[1] == b"not replayable"
    assert (await rig.run("replay", "counter", "discard", found[0], b""))[1] == b"done"
    assert await rig.letters("counter") == []
