"""Questions whose messages are gone, or that are listed as what they are not, are mended, and no others."""

from __future__ import annotations

from callboard.broker.outcome import Commit
from callboard.broker.redis.operations.repair import find, repair
from tests.helpers.asking import AskingFixture
from tests.helpers.server_driver import ServerDriver

DAY = 86_400_000  # ms


async def faults(driver: ServerDriver) -> list[str]:
    return [str(fault) for fault in await find(driver.transport)]


async def mend(driver: ServerDriver) -> None:
    done = await repair(driver.transport)
    assert (bool(done.mended), done.left) == (True, ())
    assert await faults(driver) == []


async def test_a_question_of_a_message_that_is_handled_or_waits_is_left_alone(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1", "2")
    first, _ = await scene.worker.take()
    await scene.ask(first)
    assert await faults(driver) == []  # its handler runs
    await scene.suspend(first, "1-q")
    assert await faults(driver) == []
    await scene.answer("1-q")
    assert await faults(driver) == []  # it is to be run again


async def test_what_a_version_without_questions_left_open_is_withdrawn(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    await scene.ask(first)
    await scene.ask(first, "r")
    await scene.answer("1-r")
    await scene.end(first, Commit())  # such a version takes no questions along
    assert await faults(driver) == [
        "question 1-q: its message was handled, or deleted",
        "question 1-r: its message was handled, or deleted",
    ]
    await mend(driver)
    assert [await scene.status(name) for name in ("1-q", "1-r")] == ["withdrawn", "answered"]
    for name in ("1-q", "1-r"):
        assert 0 < await driver.command("PTTL", f"input:{name}") <= DAY
    assert await driver.command("EXISTS", "inputs") == 0


async def test_where_an_entry_was_deleted_its_question_goes_and_the_agent_goes_on(
    driver: ServerDriver,
) -> None:
    scene = await AskingFixture.begin(driver, "1", "2")
    first, _ = await scene.worker.take()
    await scene.ask(first)
    await scene.suspend(first, "1-q")
    await driver.command("XDEL", "topic:work", first.entry)
    await mend(driver)
    assert await scene.status("1-q") == "withdrawn"
    assert await scene.taken() == ["2"]


async def test_who_waits_for_another_answer_waits_on(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1", "2")
    first, second = await scene.worker.take()
    await scene.ask(first)
    await scene.end(first, Commit())
    await scene.ask(second)
    await scene.suspend(second, "2-q")
    await mend(driver)
    assert [await scene.status(name) for name in ("1-q", "2-q")] == ["withdrawn", "open"]
    assert await scene.taken_nothing()
    await scene.answer("2-q")
    assert await scene.taken() == ["2"]


async def test_an_open_question_is_listed_and_others_are_not(driver: ServerDriver) -> None:
    scene = await AskingFixture.begin(driver, "1")
    (first,) = await scene.worker.take()
    await scene.ask(first)
    await scene.ask(first, "r")
    await scene.answer("1-r")
    await scene.suspend(first, "1-q")
    await driver.command("DEL", "inputs")
    await driver.command("ZADD", "inputs", 1, "1-r", 1, "nothing")
    assert [fault.split(": ")[1] for fault in await faults(driver)] == [
        "it is open, and nobody sees it",
        "it has ended, and is shown as open",
        "nothing is known of it",
    ]
    await mend(driver)
    assert await driver.transport.inputs.open_ids() == ["1-q"]
