"""What happens to the work of workers that die, and to messages that kill them."""

from __future__ import annotations

import pytest

from callboard.broker.redis.client import identity
from callboard.broker.redis.client.commits import Done
from callboard.broker.redis.marks import Mark
from tests.helpers.eventually import eventually
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, posting, topic


async def _crash(driver: ServerDriver, worker: DrivenWorker) -> None:
    await driver.run("leave", "1", "1", worker.name)


async def test_what_a_dead_worker_held_goes_back_in_front_and_in_order(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), topic("counter", "orders"))
    dying, other = await driver.worker("counter"), await driver.worker("counter")
    for number in range(6):
        await driver.note("topic:visits" if number % 2 else "topic:orders", "a", str(number))
    await dying.take(4)
    assert await other.take() == []
    await driver.expire(dying)
    assert (await other.beat())[2] == 1
    taken = await other.take()
    assert bodies(taken) == [str(i) for i in range(6)]
    assert [one.attempt for one in taken] == [2, 1, 1, 1, 1, 1]
    assert dying.name.encode() not in await driver.command("ZRANGE", "workers", 0, -1)
    await other.finish_all()
    await driver.check_empty("counter")


async def test_a_lease_that_has_not_ended_is_left_alone(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    held = await first.take()
    assert (await second.beat())[2] == 0
    await first.finish(*held)


async def test_a_lease_ends_by_the_clock_of_the_server(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    silent, other = await driver.worker("counter"), await driver.worker("counter")
    await silent.beat(lease=0.15)
    await driver.note("topic:visits", "a", "1")
    await silent.take()

    async def reaped() -> bool:
        return bool((await other.beat())[2] == 1)

    await eventually(reaped, within=20)
    assert bodies(await other.take()) == ["1"]


async def test_leaving_in_peace_counts_no_attempt(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await first.take()
    await first.lane.leave()
    assert [one.attempt for one in await second.take()] == [1]


async def test_the_incarnations_of_a_process_are_ended_by_its_name(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    process = worker.name.rsplit(":", 1)[0]
    assert await driver.run("leave", "1", "", process[:-1] + "x:") == 0
    assert await driver.run("leave", "1", "", process + ":") == 1
    assert await driver.run("leave", "1", "", process + ":") == 0


async def test_a_message_that_kills_its_worker_is_tried_as_often_as_said_then_a_dead_letter(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    await driver.note("topic:visits", "a", "poison", "good")
    attempts = []
    for _ in range(3):
        worker = await driver.worker("counter")
        taken = await worker.take()
        assert taken[0].envelope.body == b"poison"
        attempts.append(taken[0].attempt)
        await _crash(driver, worker)
    assert attempts == [1, 2, 3]
    (letter,) = await driver.letters("counter")
    assert letter["reason"] == b"crashed"
    assert letter["body"] == b"poison"
    assert letter["attempts"] == b"3"
    worker = await driver.worker("counter")
    taken = await worker.take()
    assert bodies(taken) == ["good"]
    assert taken[0].attempt == 1
    await worker.finish_all()
    await driver.check_empty("counter")


async def test_one_attempt_means_one(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=1)
    await driver.note("topic:visits", "a", "poison", "good")
    worker = await driver.worker("counter")
    await worker.take()
    await _crash(driver, worker)
    assert [letter["body"] for letter in await driver.letters("counter")] == [b"poison"]
    assert bodies(await (await driver.worker("counter")).take()) == ["good"]


async def test_a_suspect_is_tried_alone(driver: ServerDriver) -> None:
    """It may kill the worker once more, and must not take along what has nothing to do with it."""
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    await driver.note("topic:visits", "a", "poison")
    for _ in range(2):
        worker = await driver.worker("counter")
        await worker.take()
        await _crash(driver, worker)
    await driver.publish(*(posting("topic:visits", f"k{i}", f"good {i}") for i in range(5)))
    brave = await driver.worker("counter")
    turn = await brave.turn(count=10)
    assert bodies(turn.deliveries) == ["poison"]
    assert turn.suspects_wait, "the worker is told to take nothing else meanwhile"
    await _crash(driver, brave)
    assert [letter["body"] for letter in await driver.letters("counter")] == [b"poison"]
    other = await driver.worker("counter")
    taken = await other.take()
    assert bodies(taken) == [f"good {i}" for i in range(5)]
    assert all(one.attempt == 1 for one in taken)


async def test_a_worker_that_holds_something_is_told_that_a_suspect_waits(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    await driver.note("topic:visits", "a", "poison")
    busy = await driver.worker("counter")
    for _ in range(2):
        worker = await driver.worker("counter")
        await worker.take()
        await _crash(driver, worker)
    await driver.note("topic:visits", "b", "good")
    busy.held = [None]  # type: ignore[list-item]
    turn = await busy.turn(count=5)
    assert turn.suspects_wait
    assert "poison" not in bodies(turn.deliveries)


async def test_an_innocent_message_outlives_many_deaths_of_its_workers(driver: ServerDriver) -> None:
    """A message that was held while others killed the worker is not to blame."""
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    poisons = [f"poison {i}" for i in range(4)]
    await driver.publish(*(posting("topic:visits", f"p{i}", body) for i, body in enumerate(poisons)))
    await driver.publish(*(posting("topic:visits", f"g{i}", f"good {i}") for i in range(20)))
    handled: set[str] = set()
    for _ in range(200):
        worker = await driver.worker("counter")
        while True:
            turn = await worker.turn(count=8)
            while not turn.suspects_wait and turn.deliveries and len(worker.held) < 8:
                turn = await worker.turn(count=8)
            if any(one.envelope.body.startswith(b"poison") for one in worker.held):
                await _crash(driver, worker)
                break
            handled.update(bodies(worker.held))
            await worker.finish_all()
            if not turn.deliveries and not turn.more and not turn.suspects_wait:
                break
        if len(handled) == 20 and len(await driver.letters("counter")) == 4:
            break
    assert handled == {f"good {i}" for i in range(20)}
    assert {letter["body"].decode() for letter in await driver.letters("counter")} == set(poisons)


async def test_a_dead_workers_retry_pause_goes_on(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:visits", "b", "2")
    one, _ = await first.take()
    await first.turn(Done(one, Mark.RETRY, (60_000, 1, "", "no")))
    await _crash(driver, first)
    assert bodies(await second.take()) == ["2"]
    assert (await driver.mapping("busy:counter"))["a"] == ""


async def test_consumers_of_dead_workers_do_not_pile_up(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    for number in range(5):
        await driver.note("topic:visits", f"k{number}", "x")
        worker = await driver.worker("counter")
        await worker.take()
        await _crash(driver, worker)
    found = await driver.transport.admin.command(
        "XINFO", "CONSUMERS", driver.transport.keys.of("topic:visits"), "counter"
    )
    assert len(found) <= 1


async def test_the_consumer_of_a_dead_worker_that_held_much_goes_too(driver: ServerDriver) -> None:
    """Everything that is pending moves before the consumer goes; what is left pending would keep it for ever."""
    await driver.declare(topic("counter", "visits"))
    await driver.publish(*(posting("topic:visits", f"k{number}") for number in range(600)))
    doomed = await driver.worker("counter")
    assert len(await doomed.take(600)) == 600
    await _crash(driver, doomed)
    stream = driver.transport.keys.of("topic:visits")
    found = await driver.transport.admin.command("XINFO", "CONSUMERS", stream, "counter")
    assert [dict(zip(one[::2], one[1::2], strict=True))[b"name"] for one in found] == [b"nobody"]
    assert await driver.pending("topic:visits", "counter") == 600


async def test_replaying_a_letter_twice_sends_it_once(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    (one,) = await worker.take()
    await worker.turn(Done(one, Mark.DEAD_LETTER, ("failed", "E: no", "", 3, "")))
    (found,) = await driver.command("XRANGE", "dead:counter", "-", "+")
    letter = found[0].decode()
    assert await driver.run("replay", "counter", "replay", letter, b"") == [letter.encode(), b"done"]
    assert await driver.run("replay", "counter", "replay", letter, b"") == [letter.encode(), b"gone"]
    taken = await worker.take()
    assert bodies(taken) == ["1"]
    assert taken[0].attempt == 1
    assert await worker.take() == []


async def test_junk_is_not_replayed(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.add_by_hand("topic:visits", "foo", "bar")
    await worker.take()
    (found,) = await driver.command("XRANGE", "dead:counter", "-", "+")
    assert (await driver.run("replay", "counter", "replay", found[0], b""))[1] == b"not replayable"
    assert (await driver.run("replay", "counter", "discard", found[0], b""))[1] == b"done"
    assert await driver.letters("counter") == []


async def test_burying_a_process_leaves_the_one_with_the_same_host_and_process_id(
    driver: ServerDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two containers with one host name, in each of which the worker is process 7."""
    await driver.declare(topic("counter", "visits"))
    monkeypatch.setattr("socket.gethostname", lambda: "shop")
    monkeypatch.setattr("os.getpid", lambda: 7)
    names = []
    for token in ("aaaaaaaa", "bbbbbbbb"):
        monkeypatch.setattr(identity, "_token", token)
        await driver.worker("counter")
        names.append(identity.own_name())
    dead, living = driver.workers
    await driver.note("topic:visits", "a", "1")
    await dead.take()
    assert await driver.run("leave", "1", "", f"{names[0]}:") == 1
    assert names == ["shop:7:aaaaaaaa", "shop:7:bbbbbbbb"]
    (taken,) = await living.take()
    assert (taken.envelope.body, taken.attempt) == (b"1", 2)
    await living.finish(taken)
    await driver.check_empty("counter")
