"""What happens to the work of workers that die, and who is taken for dead. What kills workers: test_suspects.py."""

from __future__ import annotations

import pytest

from callboard.broker.redis.client import identity
from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done
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
    assert [one.attempt for one in taken] == [1] * 6
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


# Standing still


async def _stand_still(driver: ServerDriver, *workers: DrivenWorker) -> None:
    """No worker beats for longer than a lease: the server stands still, or what they run on."""
    await driver.command("HSET", "beats", "last", 1)
    await driver.expire(*workers)


async def _dead_and_living_after_a_gap(driver: ServerDriver) -> tuple[DrivenWorker, DrivenWorker]:
    """One that holds a message and never beats again, and one that has beaten, and has reaped nobody for it."""
    await driver.declare(topic("counter", "visits"))
    dead, living = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await dead.take()
    await _stand_still(driver, dead, living)
    assert (await living.beat())[2] == 0
    return dead, living


async def _ends_patience(driver: ServerDriver) -> None:
    await driver.command("HSET", "beats", "patience", 1)


@pytest.mark.parametrize("each", [1, 3])
async def test_a_server_that_stands_still_again_and_again_costs_nobody_anything(
    driver: ServerDriver, each: int
) -> None:
    await driver.declare(topic("counter", "visits"))
    workers = [await driver.worker("counter") for _ in range(3)]
    for number, worker in enumerate(workers):
        await driver.note("topic:visits", f"k{number}", *"abc"[:each])
        assert len(await worker.take()) == each
    for _ in range(4):
        await _stand_still(driver, *workers)
        for worker in workers:
            assert (await worker.beat())[0::2] == [b"OK", 0]
    for worker in workers:
        assert await worker.finish(*worker.held) == []
    assert await driver.letters("counter") == []
    assert await driver.mapping("stats:counter") == {"done": str(3 * each)}
    await driver.check_empty("counter")


async def test_who_is_silent_a_lease_after_the_gap_is_reaped(driver: ServerDriver) -> None:
    _, living = await _dead_and_living_after_a_gap(driver)
    assert (await living.beat())[2] == 0, "patience lasts a lease"
    await _ends_patience(driver)
    assert (await living.beat())[2] == 1
    assert bodies(await living.take()) == ["1"]


async def test_a_new_worker_waits_one_lease_for_the_dead_of_before(driver: ServerDriver) -> None:
    """They may live: all it knows is that nobody beat. It is the first that joins whose lease counts."""
    await driver.declare(topic("counter", "visits"))
    dead = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await dead.take()
    await _stand_still(driver, dead)
    new = await driver.worker("counter")
    assert (await new.beat())[2] == 0, "a worker that joins does not hide the gap"

    async def reaped() -> bool:
        return bool((await new.beat(lease=0.2))[2])

    await eventually(reaped, within=20)
    assert bodies(await new.take()) == ["1"]


async def test_where_every_beat_is_late_the_dead_are_reaped_all_the_same(driver: ServerDriver) -> None:
    _, living = await _dead_and_living_after_a_gap(driver)
    for _ in range(3):
        await driver.command("HSET", "beats", "last", 1)
        assert (await living.beat())[2] == 0
    await driver.command("HSET", "beats", "last", 1, "since", 2)  # it began long ago
    assert (await living.beat())[2] == 1
    assert bodies(await living.take()) == ["1"]


async def test_where_every_beat_is_late_who_dies_later_is_reaped_too(driver: ServerDriver) -> None:
    """As on a machine that has too much to do."""
    await driver.declare(topic("counter", "visits"))
    dead, living = await driver.worker("counter"), await driver.worker("counter")

    async def beats_late(worker: DrivenWorker) -> int:
        await driver.command("HSET", "beats", "last", 1)
        _, _, reaped, _ = await worker.beat(lease=0.2)
        return int(reaped)

    assert await beats_late(living) == 0
    assert await beats_late(dead) == 0, "it lives when patience begins"
    await driver.note("topic:visits", "a", "1")
    await dead.take()

    async def reaped() -> bool:
        return bool(await beats_late(living))

    await eventually(reaped, within=20)
    assert bodies(await living.take()) == ["1"]


async def test_a_death_that_is_known_does_not_wait(driver: ServerDriver) -> None:
    dead, living = await _dead_and_living_after_a_gap(driver)
    await _crash(driver, dead)
    assert bodies(await living.take()) == ["1"]


async def test_a_clock_that_is_set_back_does_not_keep_the_dead_for_longer_than_a_lease(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"))
    dead, living = await driver.worker("counter"), await driver.worker("counter")
    await driver.command("HSET", "beats", "patience", 10**15)
    await driver.expire(dead)

    async def reaped() -> bool:
        return bool((await living.beat(lease=0.2))[2])

    await eventually(reaped, within=20)


async def test_the_diary_tells_whether_it_is_known_what_ended_a_worker(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:visits", "b", "2")
    for count, keys, known in ((2, b"2 keys", b"uncertain"), (1, b"1 keys", b"certain")):
        worker = await driver.worker("counter")
        assert len(await worker.take(count)) == count
        await _crash(driver, worker)
        last = (await driver.entries("events"))[-1]
        assert (last["event"], last["of"]) == (b"reaped", worker.name.encode())
        assert (last["what"], last["more"]) == (keys, known)
    assert (await driver.mapping("stats:counter"))["reaped"] == "2"


# Leaving


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
    assert await driver.run("leave", "1", "", process[:-1] + "-:") == 0, "a token has letters and digits"
    assert await driver.run("leave", "1", "", process + ":") == 1
    assert await driver.run("leave", "1", "", process + ":") == 0


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
    assert len(await doomed.take_all(600)) == 600
    await _crash(driver, doomed)
    other = await driver.worker("counter")
    for _ in range(3):  # so much takes several calls
        await other.beat()
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
