"""Messages that end their workers: what is known of which did, who is tried alone, and what becomes a dead letter.

A worker that dies with one entry was ended by it: that counts an attempt. Of several each may have ended it: no attempt is
counted, each is remembered, and what was there too often is tried alone, so that its next death is known to be its own.
"""

from __future__ import annotations

import pytest

from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done
from tests.helpers.eventually import eventually
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, posting, topic


async def _crash(driver: ServerDriver, worker: DrivenWorker) -> None:
    await driver.run("leave", "1", "1", worker.name)


async def _die_with(driver: ServerDriver, count: int) -> list[int]:
    """A new worker takes so many and dies; the attempts of what it took."""
    worker = await driver.worker("counter")
    taken = await worker.take(count)
    assert len(taken) == count
    await _crash(driver, worker)
    return [one.attempt for one in taken]


async def _known(driver: ServerDriver) -> list[tuple[int, int]]:
    """Attempts and deaths of the entries of which any are known."""
    lines = (await driver.mapping("tries:counter")).values()
    return [(int(line.split(" ")[0]), int(line.split(" ")[2])) for line in lines]


@pytest.mark.parametrize("others", [0, 1])
async def test_what_was_waited_for_an_outage_outlives_the_worker(driver: ServerDriver, others: int) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    await driver.note("topic:visits", "a", "waits")
    worker = await driver.worker("counter")
    (one,) = await worker.take()
    await worker.turn(Done(one, Mark.RETRY, (1, 0, one.first_tried, b"outage 5000 AwayError: gone")))
    await driver.publish(*(posting("topic:visits", f"k{i}", "x") for i in range(others)))

    async def is_taken() -> bool:
        await worker.take()
        return len(worker.held) == 1 + others

    await eventually(is_taken)
    await _crash(driver, worker)
    heir = await driver.worker("counter")
    assert [again.waited for again in await heir.take_all(1 + others) if again.raw_key == b"a"] == [5.0]


# Certain


async def test_what_a_worker_held_alone_is_tried_as_often_as_said_then_a_dead_letter(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    await driver.note("topic:visits", "a", "poison")
    assert [await _die_with(driver, 1) for _ in range(3)] == [[1], [2], [3]]
    (letter,) = await driver.letters("counter")
    assert (letter["reason"], letter["body"], letter["attempts"]) == (b"crashed", b"poison", b"3")
    await driver.check_empty("counter")


async def test_after_one_death_that_is_its_own_it_is_tried_alone(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    await driver.note("topic:visits", "a", "poison")
    await _die_with(driver, 1)
    await driver.publish(*(posting("topic:visits", f"k{i}", f"good {i}") for i in range(5)))
    brave = await driver.worker("counter")
    turn = await brave.turn(count=10)
    assert bodies(turn.deliveries) == ["poison"]
    assert turn.suspects_wait, "the worker is told to take nothing else meanwhile"


@pytest.mark.parametrize("is_supervised", [True, False])
async def test_one_attempt_means_one(driver: ServerDriver, is_supervised: bool) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=1)
    await driver.note("topic:visits", "a", "poison")
    worker, other = await driver.worker("counter"), await driver.worker("counter")
    await worker.take()
    await driver.note("topic:visits", "a", "good")
    assert await other.take() == []
    if is_supervised:
        await _crash(driver, worker)
    else:
        await driver.expire(worker)
        assert (await other.beat())[2] == 1
    assert [letter["body"] for letter in await driver.letters("counter")] == [b"poison"]
    assert bodies(await other.take()) == ["good"]


# Uncertain


async def test_one_attempt_is_not_spent_by_who_may_be_innocent(driver: ServerDriver) -> None:
    """Fifty agents, one worker that takes all and dies: one of them ran, 49 did not, nobody knows which."""
    await driver.declare(topic("counter", "visits"), max_attempts=1)
    await driver.publish(*(posting("topic:visits", f"k{i}", f"{i}") for i in range(50)))
    await _die_with(driver, 50)
    assert await driver.letters("counter") == []
    last, handled = await driver.worker("counter"), []
    for _ in range(50):
        (one,) = await last.take(64)
        assert one.attempt == 1
        handled.append(one.envelope.body.decode())
        await last.finish(one)
    assert sorted(handled, key=int) == [str(i) for i in range(50)]
    await driver.check_empty("counter")


async def test_after_one_death_all_go_on_as_before_and_after_two_each_is_tried_alone(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    await driver.publish(*(posting("topic:visits", f"k{i}") for i in range(64)))
    for deaths in (1, 2):
        worker = await driver.worker("counter")
        turn = await worker.turn(count=100)
        assert [one.attempt for one in turn.deliveries] == [1] * 64
        assert not turn.suspects_wait
        await _crash(driver, worker)
        assert await _known(driver) == [(0, deaths)] * 64
    late = posting("topic:visits", "late", "late")
    await driver.publish(late)
    alone = await driver.worker("counter")
    turn = await alone.turn(count=100)
    assert (len(turn.deliveries), turn.suspects_wait) == (1, True)


async def test_a_message_behind_one_that_was_finished_and_not_committed_is_blamed_as_well(
    driver: ServerDriver,
) -> None:
    """A worker begins with the next message of an agent before it has told of the one before: which ran is not known."""
    await driver.declare(topic("counter", "visits"), max_attempts=1)
    await driver.note("topic:visits", "a", "finished", "poison")
    await _die_with(driver, 2)
    assert await driver.letters("counter") == [], "the first of them may have been finished"
    worker = await driver.worker("counter")
    (one,) = await worker.take()
    assert one.envelope.body == b"finished"
    (two,) = await worker.finish(one, accept=True) or await worker.take()
    assert two.envelope.body == b"poison"
    await _crash(driver, worker)
    assert [letter["body"] for letter in await driver.letters("counter")] == [b"poison"]
    await driver.check_empty("counter")


async def test_a_poison_among_innocents_is_found_and_ends_no_more_workers_than_said(
    driver: ServerDriver,
) -> None:
    """Twice among others, then three times alone: max_attempts - 1 and max_attempts."""
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    await driver.publish(*(posting("topic:visits", f"k{i}", f"good {i}") for i in range(25)))
    await driver.note("topic:visits", "a", "poison", "good 50")
    await driver.publish(*(posting("topic:visits", f"k{i}", f"good {i}") for i in range(25, 50)))
    handled, deaths = await _work(driver, 51, 1)
    assert handled == {f"good {i}" for i in range(51)}
    (letter,) = await driver.letters("counter")
    assert (letter["body"], letter["reason"], letter["attempts"]) == (b"poison", b"crashed", b"3")
    assert deaths == 5
    await driver.check_empty("counter")


@pytest.mark.parametrize("limit", [1, 2, 5])
async def test_how_many_workers_a_poison_ends_follows_from_the_limit(
    driver: ServerDriver, limit: int
) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=limit)
    await driver.publish(*(posting("topic:visits", f"k{i}", f"good {i}") for i in range(5)))
    await driver.note("topic:visits", "a", "poison")
    handled, deaths = await _work(driver, 5, 1)
    assert len(handled) == 5
    assert [letter["attempts"] for letter in await driver.letters("counter")] == [str(limit).encode()]
    assert deaths == max(1, limit - 1) + limit


async def test_an_innocent_message_outlives_many_deaths_of_its_workers(driver: ServerDriver) -> None:
    """A message that was held while others killed the worker is not to blame."""
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    poisons = [f"poison {i}" for i in range(4)]
    await driver.publish(*(posting("topic:visits", f"p{i}", body) for i, body in enumerate(poisons)))
    await driver.publish(*(posting("topic:visits", f"g{i}", f"good {i}") for i in range(20)))
    handled, _ = await _work(driver, 20, 4, count=8)
    assert handled == {f"good {i}" for i in range(20)}
    assert {letter["body"].decode() for letter in await driver.letters("counter")} == set(poisons)
    assert all(letter["attempts"] == b"3" for letter in await driver.letters("counter"))


async def _work(driver: ServerDriver, good: int, bad: int, count: int = 100) -> tuple[set[str], int]:
    """Workers take what they get, as much as they are told, and die of what begins with `poison`.

    Returns:
        What was handled, and how many died.
    """
    handled: set[str] = set()
    deaths, worker = 0, await driver.worker("counter")
    for _ in range(400):
        turn = await worker.turn(count=count)
        while turn.deliveries and not turn.suspects_wait and len(worker.held) < count:
            turn = await worker.turn(count=count)
        if any(one.envelope.body.startswith(b"poison") for one in worker.held):
            await _crash(driver, worker)
            deaths, worker = deaths + 1, await driver.worker("counter")
        else:
            handled.update(bodies(worker.held))
            await worker.finish_all()
        if len(handled) == good and len(await driver.letters("counter")) == bad:
            break
    return handled, deaths


async def test_all_workers_of_a_process_die_together(driver: ServerDriver) -> None:
    """Each held one entry, and either of them ended the process of both."""
    await driver.declare(topic("counter", "visits"), max_attempts=1)
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:visits", "b", "2")
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await first.take(1)
    await second.take(1)
    assert await driver.run("leave", "1", "", first.name.rsplit(":", 1)[0] + ":") == 2
    assert await driver.letters("counter") == []
    assert await _known(driver) == [(0, 1)] * 2


@pytest.mark.parametrize("is_silent", [True, False])
async def test_a_worker_of_the_same_process_that_beats_no_more_has_died_with_it(
    driver: ServerDriver, is_silent: bool
) -> None:
    """It beat a little later, so that its lease goes on for a while."""
    await driver.declare(topic("counter", "visits"), max_attempts=1)
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:visits", "b", "2")
    dead, other, reaper = [await driver.worker("counter") for _ in range(3)]
    await dead.take(1)
    await other.take(1)
    await driver.expire(dead)
    if is_silent:
        (seconds, _) = await driver.transport.admin.command("TIME")
        await driver.command("ZADD", "workers", (int(seconds) + 1000) * 1000, other.name)
    assert (await reaper.beat())[2] == 1
    assert len(await driver.letters("counter")) == (0 if is_silent else 1)
    assert await _known(driver) == ([(0, 1)] if is_silent else [])


async def test_no_number_of_deaths_among_others_makes_a_dead_letter(driver: ServerDriver) -> None:
    """Whoever is tried alone for long is joined by others after all; then its deaths are not its own again."""
    await driver.declare(topic("counter", "visits"), max_attempts=2)
    await driver.note("topic:visits", "a", "long")
    for death in range(1, 9):
        await driver.note("topic:visits", f"b{death}", "other")
        worker = await driver.worker("counter")
        taken = await worker.take(1)
        worker.held.clear()  # its patience is over
        taken += await worker.take(1)
        assert len(taken) == 2
        await _crash(driver, worker)
    assert await driver.letters("counter") == []
    assert max(deaths for _, deaths in await _known(driver)) > 2
    assert {attempts for attempts, _ in await _known(driver)} == {0}


# Tried alone


async def test_a_worker_that_holds_something_is_told_that_a_suspect_waits(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    await driver.note("topic:visits", "a", "poison")
    busy = await driver.worker("counter")
    await _die_with(driver, 1)
    await driver.note("topic:visits", "b", "good")
    busy.held = [None]  # type: ignore[list-item]
    turn = await busy.turn(count=5)
    assert turn.suspects_wait
    assert "poison" not in bodies(turn.deliveries)


async def test_a_worker_is_told_how_often_a_suspect_was_not_alone(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=2)
    await driver.note("topic:visits", "a", "long")
    await driver.note("topic:visits", "b", "long")
    told = []
    await _die_with(driver, 2)
    for _ in range(3):
        worker = await driver.worker("counter")
        turn = await worker.turn(count=5)
        told.append(turn.suspicion)
        worker.held.clear()  # its patience is over
        turn = await worker.turn(count=5)
        assert len(turn.deliveries) == 1
        await _crash(driver, worker)
    assert told == [0, 1, 2]
    busy = await driver.worker("counter")
    busy.held = [None]  # type: ignore[list-item]
    assert (await busy.turn(count=5)).suspicion == 3, "also while it makes room"


async def test_a_suspect_that_is_given_back_unhandled_stays_one(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    await driver.note("topic:visits", "a", "poison")
    await _die_with(driver, 1)
    draining = await driver.worker("counter")
    (poison,) = await draining.take()
    await draining.turn(Done(poison, Mark.RELEASE, ()))
    await driver.publish(*(posting("topic:visits", f"k{i}", f"good {i}") for i in range(5)))
    other = await driver.worker("counter")
    turns = [await other.turn(count=10)]
    assert turns[0].suspects_wait or bodies(turns[0].deliveries) == ["poison"]
    while "poison" not in bodies(turns[-1].deliveries):
        await other.finish_all()
        turns.append(await other.turn(count=10))
    assert bodies(turns[-1].deliveries) == ["poison"], "and nothing with it"


async def test_what_was_handled_to_an_end_is_a_suspect_no_more(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=4)
    await driver.note("topic:visits", "a", "1")
    await _die_with(driver, 1)
    worker = await driver.worker("counter")
    (one,) = await worker.take()
    assert one.attempt == 2
    await worker.turn(Done(one, Mark.RETRY, (1, one.attempt, one.first_tried, "E: no")))
    assert await _known(driver) == [(2, 0)]
    await driver.command("ZADD", "timers", 1, "k|counter|a")
    await driver.note("topic:visits", "b", "2")
    turn = await worker.turn(count=5)
    assert (bodies(turn.deliveries), turn.suspects_wait) == (["1", "2"], False)
    assert [one.attempt for one in turn.deliveries] == [3, 1]
    await worker.finish_all()
    await driver.check_empty("counter")


async def test_a_suspect_behind_another_message_is_not_handed_over_with_what_else_is_held(
    driver: ServerDriver,
) -> None:
    """A reset goes before it; when that is done, the worker holds another agent by now."""
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    await driver.note("topic:visits", "a", "poison")
    await _die_with(driver, 1)
    await driver.run("control", "reset", "counter", "a", "reset-1", "")
    worker = await driver.worker("counter")
    (reset,) = await worker.take()
    assert reset.stream == b"urgent:counter"
    worker.held.clear()
    await driver.note("topic:visits", "b", "good")
    assert bodies(await worker.take()) == ["good"]
    turn = await worker.turn(Done(reset, Mark.COMMIT, ()), count=5, accept=True)
    assert turn.deliveries == []
    assert turn.suspects_wait
    await worker.finish_all()
    assert bodies(await worker.take()) == ["poison"]


async def test_a_suspect_is_reached_however_much_there_is_to_do(driver: ServerDriver) -> None:
    """Workers that always have more make room as soon as they are told, and the next turn of an empty one is its."""
    await driver.declare(topic("counter", "visits"), max_attempts=3)
    await driver.note("topic:visits", "a", "poison")
    await _die_with(driver, 1)
    busy = await driver.worker("counter")
    busy.held = [None]  # type: ignore[list-item]
    for number in range(3):
        await driver.publish(*(posting("topic:visits", f"k{number}{i}", "good") for i in range(20)))
        turn = await busy.turn(count=5)
        assert turn.suspects_wait
    busy.held.clear()
    assert bodies(await busy.take(5)) == ["poison"]


# Who asked, and who was asked


@pytest.mark.parametrize(
    ("asker", "asked"),
    [("asker", "clerk"), ("clerk", "asker"), ("asker", "asker")],
    ids=["a later type", "an earlier type", "one type"],
)
async def test_a_request_that_ends_the_process_of_who_waits_for_it_is_tried_before_who_asks(
    driver: ServerDriver, asker: str, asked: str
) -> None:
    """Together they would be held whenever the one that asks is tried, so that no death told which of them it was."""
    await driver.declare(topic("asker", "asker"), topic("clerk", "clerk"), max_attempts=3)
    await driver.note(f"topic:{asker}", "a", "asks")
    await driver.note(f"inbox:{asked}", "b", "poison")
    deaths = 0
    while not await driver.letters(asked):
        worker = await driver.worker("asker", "clerk")
        held = await worker.take_all(2 if deaths < 2 else 1)
        assert sorted(bodies(held)) == (["asks", "poison"] if deaths < 2 else ["poison"])
        await _crash(driver, worker)
        deaths += 1
    assert deaths == 5
    last = await driver.worker("asker", "clerk")
    (freed,) = await last.take()
    assert (freed.envelope.body, freed.attempt) == (b"asks", 1)
    await last.finish(freed)
    await driver.check_empty("asker", "clerk")


async def test_of_many_suspects_the_newest_is_tried_first(driver: ServerDriver) -> None:
    """It may be what one before it asked for."""
    await driver.declare(topic("counter", "visits"), max_attempts=1)
    await driver.publish(*(posting("topic:visits", f"k{i}", str(i)) for i in range(200)))
    await _die_with(driver, 200)
    last, handled = await driver.worker("counter"), []
    for _ in range(200):
        (one,) = await last.take()
        handled.append(int(one.envelope.body))
        await last.finish(one)
    assert handled == list(range(199, -1, -1))
