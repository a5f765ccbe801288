"""What the server makes of writes to runs: each once, none of a worker that lost its message, and none of a void commit."""

from __future__ import annotations

import pytest

from callboard.broker.errors import CommandError, FencedError
from callboard.broker.outcome import Commit, RunEvent, RunWrite
from callboard.broker.redis.client.lane import write_values
from callboard.broker.redis.client.run_reader import RunReader
from tests.helpers.commits import as_done
from tests.helpers.eventually import eventually
from tests.helpers.server_driver import DrivenWorker, ServerDriver, topic


def _write(*bodies: str, run: str = "r1", tag: str = "", settles: str = "", since: int = 0) -> RunWrite:
    events = [RunEvent("Note", 1, body.encode()) for body in bodies]
    return RunWrite(run, events, 1000, 60_000, tag, settles, since)


async def _bodies(driver: ServerDriver, run: str = "r1") -> list[str]:
    return [entry["body"].decode() for entry in await driver.entries(f"run:{run}")]


async def _worker(driver: ServerDriver) -> DrivenWorker:
    await driver.declare(topic("counter", "visits"))
    return await driver.worker("counter")


async def test_a_batch_that_comes_again_is_written_once(driver: ServerDriver) -> None:
    values = ("producer", 1, 1, "", "", *write_values(_write("a", "b")))
    assert await driver.run("write", *values) == [b"0-1"]
    assert await driver.run("write", *values) == [b"0-1"]
    assert await _bodies(driver) == ["a", "b"]
    assert await driver.run("write", "producer", 2, *values[2:]) == [b"0-3"]
    with pytest.raises(CommandError, match="OVERTAKEN"):
        await driver.run("write", *values)


async def test_what_a_person_wrote_of_the_batches_of_a_writer_keeps_nobody_waiting(
    driver: ServerDriver,
) -> None:
    runs = driver.transport.runs
    assert await runs.write(_write("a")) == 1
    (name,) = await driver.transport.names_after(driver.transport.keys.of("sent:"))
    await driver.command("SET", f"sent:{name}", "2 junk and more")
    with pytest.raises(ValueError, match=r"shorter|longer|literal"):
        await runs.write(_write("b"))
    await driver.command("SET", f"sent:{name}", "99 0-7")
    assert await runs.write(_write("c")) == 2
    assert await _bodies(driver) == ["a", "c"]


async def test_a_worker_that_lost_its_message_writes_nothing(driver: ServerDriver) -> None:
    worker = await _worker(driver)
    await driver.note("topic:visits", "a", "1")
    (delivery,) = await eventually(worker.take)
    fence = delivery.fence
    assert await driver.transport.runs.write(_write("mine")._replace(fence=fence)) == 1
    await driver.run("leave", "1", "1", worker.name)
    late = driver.transport.runs.write(_write("late", settles="x")._replace(fence=fence))
    beside = driver.transport.runs.write(_write("beside"))
    with pytest.raises(FencedError):
        await late
    assert await beside == 2
    assert await _bodies(driver) == ["mine", "beside"]


async def test_a_commit_writes_and_one_of_a_lost_message_does_not(driver: ServerDriver) -> None:
    worker, other = await _worker(driver), await driver.worker("counter")
    await driver.note("topic:visits", "a", "1")
    (delivery,) = await eventually(worker.take)
    await driver.run("leave", "1", "1", worker.name)
    (again,) = await eventually(other.take)
    commit = Commit(events=(_write("a", "b"), _write("c", run="r2")), once_of="m1")
    await other.turn(as_done(again, commit, True, 60.0))
    for late, one in ((worker, delivery), (other, again)):
        with pytest.raises(FencedError):
            await late.turn(as_done(one, commit, True, 60.0))
    assert (await _bodies(driver), await _bodies(driver, "r2")) == (["a", "b"], ["c"])


async def test_a_cancelled_request_writes_nothing(driver: ServerDriver) -> None:
    worker = await _worker(driver)
    await driver.note("topic:visits", "a", "1", "2")
    first, second = await eventually(worker.take)
    await driver.command("ZADD", "cancelled", 9_000_000_000_000, "m1")
    void = Commit(events=(_write("void"), _write("void", "too")), unless_cancelled="m1")
    await worker.turn(
        as_done(first, void, False, 60.0), as_done(second, Commit(events=(_write("a"),)), True, 60.0)
    )
    assert await _bodies(driver) == ["a"]


async def test_a_commit_that_could_not_be_written_is_passed_over_with_its_events(
    driver: ServerDriver,
) -> None:
    worker = await _worker(driver)
    await driver.note("topic:visits", "a", "1")
    await driver.note("topic:visits", "b", "2")
    first, second = sorted(await eventually(worker.take), key=lambda one: one.envelope.key)
    await driver.command("SET", "state:counter:a", "mine")
    bad = Commit(state=(1, b"x"), events=(_write("lost", tag="t"), _write("lost")))
    await worker.turn(
        as_done(first, bad, True, 60.0), as_done(second, Commit(events=(_write("a"),)), True, 60.0)
    )
    assert await _bodies(driver) == ["a"]


async def test_a_reader_that_lost_its_place_goes_back_to_what_is_still_true(driver: ServerDriver) -> None:
    """The server forgot the last entries; others have their numbers now."""
    runs, link = driver.transport.runs, driver.transport.link("run")
    await runs.write(_write("a"))
    reader = RunReader(link, "r1")
    assert [one.body for one in await reader.read(wait=False) or ()] == [b"a"]
    await driver.command("DEL", "run:r1")

    async def is_later() -> bool:  # entries of one millisecond can't be told apart
        seconds, micros = await driver.transport.admin.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000 > reader._at

    await eventually(is_later)
    await runs.write(_write("b", "c"))
    reader._tail.in_doubt = True
    assert [(one.number, one.body) for one in await reader.read(wait=False) or ()] == [(1, b"b"), (2, b"c")]
    reader.close()
