"""What one turn hands over, carries and looks at is bounded, however much waits."""

from __future__ import annotations

from callboard.broker.mailbox import ConsumedType, Pull
from callboard.broker.redis.library import Mark
from tests.helpers.commits import Done
from tests.helpers.server_driver import DrivenWorker, ServerDriver, bodies, plain, posting, topic

MOST_LOOKS = 200  # as in lua/turn/take.lua
MOST_BYTES = 8 * 1024 * 1024


async def parked(
    driver: ServerDriver, agents: int, each: int, body: str = ""
) -> tuple[DrivenWorker, DrivenWorker]:
    """A worker that runs so many agents, behind each of which so many entries are parked; and another, which is idle."""
    await driver.declare(topic("counter", "visits"))
    first, second = await driver.worker("counter"), await driver.worker("counter")
    keys = [f"k{number}" for number in range(agents)]
    await driver.publish(*(posting("topic:visits", key, "0") for key in keys))
    await first.take(agents)
    messages = [posting("topic:visits", key, f"{number + 1}{body}") for number in range(each) for key in keys]
    await driver.publish(*messages)
    while len(messages) > int(sum(map(int, (await driver.mapping("parked:counter")).values()))):
        assert await second.take(100) == []
    return first, second


# Handing over


async def test_no_more_is_handed_over_than_there_is_room_for(driver: ServerDriver) -> None:
    first, second = await parked(driver, agents=20, each=3)
    turn = await first.turn(*plain(list(first.held), []), accept=32)
    assert len(turn.deliveries) == 32
    # The rest is for whoever asks next.
    rest = await second.take(100)
    assert {one.raw_key for one in rest}.isdisjoint(one.raw_key for one in turn.deliveries)
    for _ in range(3):
        await first.turn(*plain(list(first.held), []), accept=32)
        await second.turn(*plain(list(second.held), []), accept=32)
        await second.take(100)
    await first.finish_all()
    await second.finish_all()
    await driver.check_empty("counter")


async def test_what_was_handed_over_takes_of_the_room_and_leaves_some_for_others(
    driver: ServerDriver,
) -> None:
    first, _ = await parked(driver, agents=20, each=3)
    await driver.publish(*(posting("topic:visits", f"new{number}", "0") for number in range(50)))
    turn = await first.turn(*plain(list(first.held), []), count=32, accept=32)
    assert len(turn.deliveries) == 40
    assert len([one for one in turn.deliveries if one.raw_key.startswith(b"new")]) <= 8


async def test_an_answer_carries_about_8_megabytes_of_what_was_parked(driver: ServerDriver) -> None:
    body = "x" * 1_000_000
    first, _ = await parked(driver, agents=4, each=6, body=body)
    seen: list[str] = []
    for _ in range(20):
        turn = await first.turn(*plain(list(first.held), []), count=100, accept=True)
        # And of each type at least one that was ready, and one that is new.
        assert sum(len(one.envelope.body) for one in turn.deliveries) < MOST_BYTES + 3 * len(body)
        seen += bodies(turn.deliveries)
    assert len(seen) == 24
    await first.finish_all()
    await driver.check_empty("counter")


# The rate limit


async def test_a_rate_limit_holds_for_what_is_handed_over(driver: ServerDriver) -> None:
    first, _ = await parked(driver, agents=10, each=5)
    assert (await first.turn(*plain(list(first.held), []), accept=True, rate=0.001)).deliveries == []
    assert len((await first.turn(count=100, accept=True, rate=0.001)).deliveries) == 1
    assert (
        await first.turn(*plain(list(first.held), []), count=100, accept=True, rate=0.001)
    ).deliveries == []


async def test_a_suspect_counts_in_the_rate(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=2)
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:visits", "b", "1")
    assert len(await first.take(1)) == 1
    await driver.run("leave", "1", "1", first.name)
    assert await driver.command("LLEN", "suspects:counter") == 1
    pull = Pull([ConsumedType("counter", rate_limit=0.001)], 1, 0, True, 0)
    (suspect,) = (await second.lane.commit_and_pull((), pull)).deliveries
    await second.finish(suspect)
    assert (await second.lane.commit_and_pull((), pull)).deliveries == []


async def test_a_suspect_waits_for_its_rate(driver: ServerDriver) -> None:
    await driver.declare(topic("counter", "visits"), max_attempts=2)
    first, second = await driver.worker("counter"), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    assert len(await first.take(1)) == 1
    await driver.run("leave", "1", "1", first.name)
    await driver.note("topic:visits", "b", "1")
    now = int((await driver.transport.admin.command("TIME"))[0]) * 1000
    await driver.command("SET", "rate:counter", f"0.5 {now}")
    pull = Pull([ConsumedType("counter", rate_limit=0.001)], 1, 0, True, 0)
    assert (await second.lane.commit_and_pull((), pull)).deliveries == []
    assert await driver.command("LLEN", "suspects:counter") == 1
    await driver.command("DEL", "rate:counter")
    assert bodies((await second.lane.commit_and_pull((), pull)).deliveries) == ["1"]


# Long lists


async def ready_agents(driver: ServerDriver, number: int) -> DrivenWorker:
    """So many agents that are ready, and a worker that may take them."""
    await driver.declare(topic("counter", "visits"))
    leaving, worker = await driver.worker("counter"), await driver.worker("counter")
    await driver.publish(*(posting("topic:visits", f"k{each}", "1") for each in range(number)))
    for _ in range(number // 100):
        await leaving.take(100)
    await leaving.lane.leave()
    assert await driver.command("LLEN", "ready:counter") == number
    return worker


async def test_a_turn_puts_aside_a_part_of_many_paused_agents_and_asks_for_another(
    driver: ServerDriver,
) -> None:
    worker = await ready_agents(driver, 500)
    await driver.run("control", "pause", "key", "counter/k499", "me")
    await driver.command("HSET", "paused", *[f for n in range(499) for f in (f"key counter/k{n}", "1 me")])
    turn = await worker.turn(count=10)
    assert (len(turn.deliveries), turn.more) == (0, True)
    assert await driver.command("HLEN", "shelved:counter") == MOST_LOOKS
    while (turn := await worker.turn(count=10)).more:
        assert not turn.deliveries
    assert await driver.command("HLEN", "shelved:counter") == 500
    await driver.command("DEL", "paused")
    await driver.command("HSET", "paused", "key counter/k0", "1 me")
    await driver.run("control", "resume", "key", "counter/k0", "me")
    taken = [one for _ in range(60) for one in await worker.take(10)]
    assert len(taken) == 500


async def test_a_turn_looks_at_a_part_of_many_parked_entries_that_are_gone(driver: ServerDriver) -> None:
    worker = await ready_agents(driver, 100)
    for _ in range(900):
        await driver.command("LPUSH", "wait:counter:k0", "topic:visits 1-1")
    await driver.command("HINCRBY", "parked:counter", "k0", 900)
    assert len([one for _ in range(3) for one in await worker.take(100)]) == 99
    assert bodies([one for _ in range(12) for one in await worker.take(100)]) == ["1"]
    await worker.finish_all()
    await driver.check_empty("counter")


# A rolling deploy


async def waiting_for_newer(driver: ServerDriver, number: int) -> DrivenWorker:
    """An old worker, and so many agents that wait for a worker that knows version 2."""
    await driver.declare(topic("counter", "visits"))
    await driver.command("HSET", "accepts", "Note", 2)
    old = await driver.worker("counter")
    await driver.publish(
        *(posting("topic:visits", f"k{each}", f"{n}") for n in (1, 2) for each in range(number))
    )
    for _ in range(2 * number // 100 + 1):
        taken = await old.take(100)
        waits = ("Note", 2, "unknown", "", "", 1, "")
        back = [Done(one, (Mark.WAIT if one.envelope.body == b"1" else Mark.RELEASE), waits) for one in taken]
        await old.turn(*(one._replace(extras=() if Mark.RELEASE in one.mode else one.extras) for one in back))
    assert await driver.command("ZCARD", "newer:counter") == number
    return old


async def joined(driver: ServerDriver, **accepts: int) -> DrivenWorker:
    worker = DrivenWorker(driver, ("counter",))
    await worker.lane.join(("counter",), accepts)
    driver.workers.append(worker)
    return worker


async def test_agents_that_wait_for_newer_code_are_in_no_list_that_old_workers_walk(
    driver: ServerDriver,
) -> None:
    old = await waiting_for_newer(driver, 300)
    new = await joined(driver, Note=2)
    assert await driver.command("EXISTS", "ready:counter") == 0
    await new.lane.leave()
    driver.workers.remove(new)
    new.lane.close()
    assert await old.take(100) == []
    assert await driver.command("EXISTS", "ready:counter") == 0
    await driver.note("topic:visits", "other", "1")
    assert bodies(await old.take(100)) == ["1"]
    await old.finish_all()


async def test_a_worker_that_knows_takes_them_a_portion_at_a_time_and_in_order(driver: ServerDriver) -> None:
    await waiting_for_newer(driver, 300)
    wrong = await joined(driver, Note=1, Other=2)
    assert await wrong.take(100) == []
    new = await joined(driver, Other=1, Note=3)
    seen: dict[bytes, list[str]] = {}
    for _ in range(100):
        for one in await new.take(20):
            seen.setdefault(one.raw_key, []).append(one.envelope.body.decode())
        await new.finish_all()
    assert len(seen) == 300
    assert set(map(tuple, seen.values())) == {("1", "2")}
    await driver.check_empty("counter")
    assert await driver.command("EXISTS", "newer:counter") == 0


async def test_what_somebody_added_to_the_waiting_agents_by_hand_stops_nobody(driver: ServerDriver) -> None:
    await waiting_for_newer(driver, 100)
    for member in ("", "nonsense", "Note 2|", "Note 2|nobody", "Note x|k0", "~ 1|k0"):
        await driver.command("ZADD", "newer:counter", 0, member)
    new = await joined(driver, Note=2)
    taken = [one for _ in range(30) for one in await new.take(20)]
    assert len(taken) == 200
    await new.finish_all()
    await driver.check_empty("counter")
