"""Handlers that wait for an answer hold nothing, keep their place, and are woken by whatever concerns them."""

from __future__ import annotations

import pytest

from callboard.broker.errors import FencedError
from callboard.broker.outcome import Commit, DeadLetter, Retry, RunEvent, RunWrite
from callboard.broker.redis.client.questions import Asked, InputStatus, Refusal
from callboard.broker.redis.operations.inspect import overview
from callboard.broker.redis.operations.repair import find, repair
from tests.helpers.asking import AskingFixture
from tests.helpers.server_driver import ServerDriver

LATER = 10**9  # ms
OPEN = Asked(InputStatus.OPEN, "", None, "")


async def test_who_waits_keeps_its_place_and_goes_on_with_the_answer(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1", "2")
    first, _ = await scene.worker.take()
    assert await scene.ask(first) == OPEN
    await scene.suspend(first, "1-q")
    await driver.note("topic:work", "a", "3")
    await driver.note("topic:work", "b", "other")
    assert await scene.taken() == ["other"]
    await scene.worker.finish_all()
    assert await scene.answer("1-q") is None
    again, *behind = await scene.worker.take()
    assert [one.envelope.body for one in (again, *behind)] == [b"1", b"2", b"3"]
    assert again.attempt == 1
    assert again.tries, "what expires before it is begun would be dropped"
    assert await scene.ask(again) == Asked(InputStatus.ANSWERED, '"yes"', None, "")
    await scene.end(again, Commit(once_of=again.envelope.id))
    await scene.worker.finish_all()
    await driver.check_empty("asker")
    assert await driver.command("EXISTS", "suspended:asker") == 0
    assert await driver.command("EXISTS", f"once:asker:{first.envelope.id}") == 0
    assert 0 < await driver.command("PTTL", "input:1-q") <= 86_400_000


async def test_an_answer_that_comes_before_the_handler_has_ended_is_not_lost(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    await scene.ask(first)
    assert await scene.answer("1-q") is None
    await scene.suspend(first, "1-q")
    assert await scene.taken() == ["1"]


async def test_every_answer_wakes_and_who_lacks_one_waits_again(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    for name in ("q", "r"):
        await scene.ask(first, name)
    await scene.suspend(first, "1-q", "1-r")
    for input_id, left in (("1-r", ("1-q",)), ("1-q", ())):
        assert await scene.taken_nothing()
        await scene.answer(input_id)
        (first,) = await scene.worker.take()
        if left:
            await scene.suspend(first, *left)
    assert (await scene.ask(first, "r")).status is InputStatus.ANSWERED


async def test_the_first_answer_wins(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    await scene.ask(first)
    assert await scene.answer("1-q", '"yes"', "ada") is None
    refusal = await scene.answer("1-q", '"no"', "bob")
    assert refusal is not None
    assert (refusal.status, refusal.by) == (InputStatus.ANSWERED, "ada")
    assert (await scene.ask(first)).answer == '"yes"'
    assert await scene.answer("nothing") == Refusal(None)


async def test_an_open_question_is_in_the_lists_of_its_runs_and_of_its_key(driver: ServerDriver) -> None:
    asking = await AskingFixture.begin(driver, "m1")
    (delivery,) = await asking.worker.take()
    await asking.ask(delivery, run="outer\x1e@8f\x1finner")
    inputs = driver.transport.inputs
    for run in ("outer", "outer@8f", "inner"):
        assert await inputs.open_ids(run) == ["m1-q"]
    assert (await inputs.open_ids(key="a"), await inputs.open_ids()) == (["m1-q"], ["m1-q"])
    assert (await inputs.open_ids("@8f"), await inputs.open_ids(key="b")) == ([], [])
    await asking.answer("m1-q")
    assert not [key for key in await driver.snapshot() if key.startswith(("inputs", "asking"))]


async def test_a_question_of_an_older_version_is_found_in_the_list_of_all(driver: ServerDriver) -> None:
    asking = await AskingFixture.begin(driver, "m1")
    (delivery,) = await asking.worker.take()
    await asking.ask(delivery, run="r")
    await driver.command("DEL", "inputs:a")
    await driver.command("DEL", "asking:r")
    await driver.command("HDEL", "config", "questions listed")
    await asking.ask(delivery, "other", run="r")
    inputs = driver.transport.inputs
    assert await inputs.open_ids("r") == await inputs.open_ids(key="a") == ["m1-q", "m1-other"]


async def test_a_question_is_asked_once_however_often_its_handler_runs(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    note = RunWrite("r", (RunEvent("Note", 1, b"{}"),), 100, LATER)
    await scene.ask(first, note=note)
    asked = await driver.mapping("input:1-q")
    await scene.ask(first, note=note)
    assert await driver.mapping("input:1-q") == asked
    assert len(await driver.entries("run:r")) == 1


async def test_a_question_that_expires_wakes_its_handler_and_is_not_answered_any_more(
    driver: ServerDriver,
) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    asked = await scene.ask(first, timeout=LATER)
    await scene.suspend(first, "1-q", wake_at=asked.expires)
    assert await scene.taken_nothing()
    await scene.time_is_over("1-q")
    refusal = await scene.answer("1-q")
    assert refusal is not None
    assert refusal.status is InputStatus.EXPIRED
    (again,) = await scene.worker.take()
    assert (await scene.ask(again)).status is InputStatus.EXPIRED


async def test_a_timer_wakes_who_waited_too_long(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    asked = await scene.ask(first, timeout=LATER)
    await scene.suspend(first, "1-q", wake_at=asked.expires)
    await scene.time_is_over("1-q")
    await scene.worker.beat()
    assert await driver.command("EXISTS", "suspended:asker") == 0
    assert await scene.taken() == ["1"]


async def test_a_reset_goes_first_and_the_message_runs_again(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    await scene.ask(first)
    await scene.suspend(first, "1-q")
    assert await driver.run("control", "reset", "asker", "a", "reset-1", "") == 1
    reset, again = await scene.worker.take()
    assert (reset.envelope.type, again.envelope.body) == ("callboard.reset", b"1")
    await scene.worker.finish(reset)
    assert await scene.ask(again) == OPEN


async def test_a_reset_that_comes_while_the_handler_ends_goes_first(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    await scene.ask(first)
    assert await driver.run("control", "reset", "asker", "a", "reset-1", "") == 1
    await scene.suspend(first, "1-q")
    assert len(await scene.worker.take()) == 2


async def test_a_cancelled_message_is_given_to_a_worker_at_once(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    await scene.ask(first)
    await scene.suspend(first, "1-q")
    assert await driver.run("control", "cancel", first.envelope.id, 9_000_000_000_000) == 1
    assert await scene.taken() == ["1"]


async def test_a_message_that_was_cancelled_while_its_handler_ended_does_not_wait(
    driver: ServerDriver,
) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    await scene.ask(first)
    assert await driver.run("control", "cancel", first.envelope.id, 9_000_000_000_000) == 1
    await scene.suspend(first, "1-q")
    assert await scene.taken() == ["1"]


@pytest.mark.parametrize("ending", ["commit", "dead letter"])
async def test_a_question_that_nobody_waits_for_is_withdrawn(driver: ServerDriver, ending: str) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    for name in ("q", "r"):
        await scene.ask(first, name)
    await scene.answer("1-q")
    commit = Commit(once_of=first.envelope.id)
    await scene.end(first, commit if ending == "commit" else DeadLetter("failed"))
    assert [await scene.status(f"1-{name}") for name in ("q", "r")] == ["answered", "withdrawn"]
    assert await driver.command("ZCARD", "inputs") == 0
    for name in ("input:1-q", "input:1-r"):
        assert 0 < await driver.command("PTTL", name) <= 86_400_000
    record = await driver.mapping(f"once:asker:{first.envelope.id}")
    # What a replay would ask again, and what it knows.
    assert record == ({} if ending == "commit" else {"?q": "1-q"})
    if record:
        assert 0 < await driver.command("PTTL", f"once:asker:{first.envelope.id}") <= 86_400_000


async def test_what_was_recorded_outlasts_a_wait(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    step = (*first.fence, "asker", first.envelope.id)
    await driver.run("record", *step, "before", "x", 1000)
    await scene.ask(first)
    await driver.run("record", *step, "after", "x", 1000)
    await driver.command("HSET", f"once:asker:{first.envelope.id}", ">sent", 1)
    await driver.command("HSET", "call:sent", "to", "p")
    await driver.command("PEXPIRE", "call:sent", 1000)
    await scene.suspend(first, "1-q")
    for name in (f"once:asker:{first.envelope.id}", "call:sent", "input:1-q"):
        assert await driver.command("PTTL", name) > LATER, name


async def test_a_worker_that_has_lost_the_message_asks_nothing(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    await driver.run("leave", "1", "1", scene.worker.name)
    with pytest.raises(FencedError):
        await scene.ask(first)
    assert await driver.command("EXISTS", "input:1-q") == 0


async def test_who_waits_is_no_work_left_and_nothing_to_repair(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1", "2")
    first, _ = await scene.worker.take()
    await scene.ask(first)
    await scene.suspend(first, "1-q")
    assert (await driver.transport.idle())[:3] == (0, 0, 0)
    assert await find(driver.transport) == ()
    view = await overview(driver.transport)
    assert (view.totals.suspended, view.totals.backing_off, view.totals.waiting) == (1, 0, 1)
    await driver.command("DEL", "suspended:asker")
    assert (await driver.transport.idle())[1] == 1
    await repair(driver.transport)
    assert await scene.taken() == ["1", "2"]


async def test_what_is_said_to_wait_and_does_not_is_repaired(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1")
    await scene.worker.take()
    await driver.command("HSET", "suspended:asker", "a", "1")
    (fault,) = await find(driver.transport)
    assert (fault.kind, fault.names[:2]) == ("key", ("asker", "a"))
    await repair(driver.transport)
    assert await find(driver.transport) == ()
    await scene.worker.finish_all()
    await driver.check_empty("asker")


async def test_a_failure_after_an_answer_is_tried_again_and_counted(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1", max_attempts=5)
    (first,) = await scene.worker.take()
    await scene.end(first, Retry(0.001, "no"))
    await driver.command("ZADD", "timers", "XX", 1, "k|asker|a")
    (second,) = await scene.worker.take()
    await scene.ask(second)
    await scene.suspend(second, "1-q")
    await scene.answer("1-q")
    (third,) = await scene.worker.take()
    assert (first.attempt, second.attempt, third.attempt) == (1, 2, 2)
