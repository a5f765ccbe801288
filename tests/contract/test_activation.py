"""One activation per agent key at a time; what comes meanwhile is parked and handed over."""

from __future__ import annotations

from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done
from tests.helpers.eventually import eventually
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, topic


async def test_a_busy_key_is_given_to_nobody_else(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    assert bodies(await first.take()) == ["1"]
    await driver.note("topic:visits", "a", "2")
    await driver.note("topic:visits", "b", "3")
    assert bodies(await second.take()) == ["3"]
    assert await driver.mapping("busy:counter") == {"a": first.name, "b": second.name}
    assert await driver.mapping("parked:counter") == {"a": "1"}


async def test_whoever_finishes_a_key_gets_what_waits_behind_it(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    held = await first.take()
    await driver.note("topic:visits", "a", "2", "3")
    assert await second.take() == []
    assert bodies(await first.finish(*held, accept=True)) == ["2", "3"]
    assert await second.take() == []
    await first.finish_all()
    await driver.check_empty("counter")


async def test_who_takes_nothing_more_leaves_the_key_to_others(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    held = await first.take()
    await driver.note("topic:visits", "a", "2")
    await second.take()
    await first.finish(*held, accept=False)
    assert bodies(await second.take()) == ["2"]


async def test_more_of_a_key_that_a_worker_holds_goes_to_it_while_nothing_is_parked(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await first.take()
    await driver.note("topic:visits", "a", "2")
    assert bodies(await first.take()) == ["2"]
    await driver.note("topic:visits", "a", "3")
    assert await second.take() == []
    await driver.note("topic:visits", "a", "4", "5")
    assert await first.take() == [], "3 is parked and comes first"
    assert await driver.mapping("parked:counter") == {"a": "3"}
    await driver.note("topic:visits", "a", "6")
    assert await first.take() == []
    assert await driver.mapping("parked:counter") == {"a": "4"}


async def test_a_key_stays_with_the_worker_while_it_holds_more_of_it(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1", "2")
    one, two = await first.take()
    await first.turn(Done(one, Mark.COMMIT + Mark.MORE, ()))
    await driver.note("topic:visits", "a", "3")
    assert await second.take() == []
    await first.turn(Done(two, Mark.COMMIT, ()))
    assert bodies(await second.take()) == ["3"]


async def test_a_long_queue_behind_a_key_is_handed_over_in_parts_and_in_order(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "0")
    held = await first.take()
    await driver.note("topic:visits", "a", *(str(i) for i in range(1, 100)))
    await second.take(200)
    seen = []
    while held:
        seen += bodies(held)
        assert len(held) <= 50
        held = await first.finish(*held, accept=True)
    assert seen == [str(i) for i in range(100)]
    await driver.check_empty("counter")


async def test_one_entry_in_one_turn_commits_and_takes(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    held = await worker.take()
    await driver.note("topic:visits", "a", "2")
    turn = await worker.turn(Done(held[0], Mark.COMMIT, ()), count=5)
    assert bodies(turn.deliveries) == ["2"]


async def test_keys_may_hold_any_bytes(driver: ServerDriver) -> None:
    keys = ["", " ", "a b", "a|b", "a\nb", "é", "\x00", "k" * 1024, "-", "topic:visits 1-1"]
    await driver.declare(topic("counter", "visits"))
    first = await driver.worker("counter")
    for key in keys:
        await driver.note("topic:visits", key, "1", "2")
    held = await first.take(100)
    assert [one.raw_key.decode() for one in held] == [key for key in keys for _ in "12"]
    await driver.expire(first)
    second = await driver.worker("counter")
    await second.beat()
    again = []
    while got := await second.take(100):
        again += got
    assert {(one.raw_key.decode(), one.envelope.body) for one in again} == {
        (k, b) for k in keys for b in (b"1", b"2")
    }
    await second.finish_all()
    await driver.check_empty("counter")


async def test_what_a_worker_gives_back_of_an_agent_that_it_keeps_is_parked_behind_it(
    driver: ServerDriver,
) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1", "2", "3", "4")
    held = await first.take()
    await driver.note("topic:visits", "a", "5")
    await second.take()
    await first.turn(*(Done(one, Mark.RELEASE + Mark.MORE, ()) for one in held[2:]))
    await driver.note("topic:visits", "a", "6")
    assert await first.take() == [], "what is parked comes before it"
    assert await second.take() == [], "the agent stays where it is"
    assert await driver.mapping("busy:counter") == {"a": first.name}
    assert await driver.mapping("parked:counter") == {"a": "4"}
    await first.turn(Done(held[0], Mark.COMMIT + Mark.MORE, ()))
    again = await first.finish(held[1], accept=True)
    assert (bodies(again), {one.attempt for one in again}) == (["3", "4", "5", "6"], {1})
    await first.finish_all()
    await driver.check_empty("counter")


async def test_what_was_parked_again_comes_after_what_its_worker_lost(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1", "2", "3", "4")
    held = await first.take()
    await first.turn(*(Done(one, Mark.RELEASE + Mark.MORE, ()) for one in held[2:]))
    await driver.expire(first)
    await second.beat()
    assert bodies(await second.take()) == ["1", "2", "3", "4"]
    await second.finish_all()
    await driver.check_empty("counter")


async def test_a_retry_comes_before_what_was_parked_again(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"))
    worker = await driver.worker("counter")
    await driver.note("topic:visits", "a", "1", "2", "3", "4")
    one, two, three, four = await worker.take()
    await worker.turn(*(Done(it, Mark.RELEASE + Mark.MORE, ()) for it in (three, four)))
    assert bodies(await worker.take()) == []
    await worker.turn(Done(one, Mark.RETRY, (1, 1, "", "no")), Done(two, Mark.RELEASE, ()))
    again: list[str] = []
    await eventually(lambda: take_more(worker, again, 4))
    assert again == ["1", "2", "3", "4"]
    await worker.finish_all()
    await driver.check_empty("counter")


async def take_more(worker: DrivenWorker, taken: list[str], count: int) -> bool:
    taken += bodies(await worker.take())
    return len(taken) >= count
