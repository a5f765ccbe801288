"""The streams of runs: what is written with a commit or at once, and how anybody reads it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic import BaseModel

from callboard import AgentId, ClosureContext, MessageContext, RedisAgentRuntime, TopicId
from callboard.broker.errors import CommandError
from callboard.errors import SettingValueError
from callboard.runtime.errors import EventTooLargeError
from callboard.runtime.run_history import RunEntry, RunEvents
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Answer, Ask, Note, Runtimes, closure, stored

RUN = "research-17"


async def opened(runtimes: Runtimes, **settings: Any) -> RedisAgentRuntime:
    """A process that works for nobody."""
    runtime = runtimes.new(settings=settings)
    runtime.add_message_types([Note])
    await runtime.open()
    return runtime


async def entries(runtime: RedisAgentRuntime, after: int = 0, run: str = RUN) -> list[RunEntry]:
    """What stands there now."""
    return [entry async for entry in runtime.read_run(run, after=after, live=False)]


async def shown(runtime: RedisAgentRuntime, after: int = 0) -> list[tuple[int, str, str]]:
    """Number, text and tag of what stands there now."""
    return [(entry.number, entry.event.text, entry.tag) for entry in await entries(runtime, after)]


async def take(reading: RunEvents, count: int) -> list[str]:
    """The texts of the next so many events."""
    found: list[str] = []
    async with asyncio.timeout(10):
        async for entry in reading:
            found.append(entry.event.text)
            if len(found) == count:
                break
    return found


def notes(*texts: str) -> list[Note]:
    return [Note(text=text) for text in texts]


# Writing at once, and reading


async def test_what_a_program_writes_is_read_by_any_process(runtimes: Runtimes) -> None:
    runtime, other = await opened(runtimes), await opened(runtimes)
    before = datetime.now(UTC) - timedelta(minutes=1)
    assert await runtime.write_run(RUN, notes("a", "b")) == 1
    assert await runtime.write_run(RUN, notes("c"), tag="1 1") == 3
    found = await entries(other)
    assert [entry.number for entry in found] == [1, 2, 3]
    assert [entry.event for entry in found] == notes("a", "b", "c")
    assert [entry.tag for entry in found] == ["", "", "1 1"]
    assert before < found[0].at <= found[2].at < before + timedelta(minutes=2)


async def test_an_entry_is_plain_to_see(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    await runtime.write_run(RUN, notes("a"), tag="x")
    admin, key = runtime.transport.admin, runtime.transport.keys.of(f"run:{RUN}")
    ((entry, flat),) = await admin.command("XRANGE", key, "-", "+")
    fields = dict(zip(flat[::2], flat[1::2], strict=True))
    assert entry == b"0-1"
    assert sorted(fields) == [b"at", b"body", b"tag", b"type", b"v"]
    assert (fields[b"type"], fields[b"v"], fields[b"tag"]) == (b"Note", b"1", b"x")


async def test_from_a_number_on(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    await runtime.write_run(RUN, notes(*"abcd"))
    assert [text for _, text, _ in await shown(runtime, after=2)] == ["c", "d"]
    assert await shown(runtime, after=4) == []


async def test_a_run_that_never_was(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    assert await entries(runtime) == []
    assert await runtime.runs.length(RUN) == 0
    assert not await runtime.delete_run(RUN)


async def test_nothing_to_write_writes_nothing(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    assert await runtime.write_run(RUN, []) == 0
    assert await stored(runtime, "run:") == []


async def test_many_pages_are_read(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    texts = [str(number) for number in range(2_500)]
    await runtime.write_run(RUN, notes(*texts))
    assert [entry.event.text for entry in await entries(runtime)] == texts


async def test_writes_at_the_same_time_keep_their_order(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    numbers = await asyncio.gather(*(runtime.write_run(RUN, notes(str(i), "more")) for i in range(50)))
    assert numbers == list(range(1, 101, 2))
    assert [text for _, text, _ in await shown(runtime)][::2] == [str(i) for i in range(50)]


async def test_a_live_reader_hears_what_comes(runtimes: Runtimes) -> None:
    runtime, other = await opened(runtimes), await opened(runtimes)
    await runtime.write_run(RUN, notes("a", "b"))
    async with other.read_run(RUN) as reading:
        assert await take(reading, 1) == ["a"]
        taking = asyncio.create_task(take(reading, 3))
        await runtime.write_run(RUN, notes("c", "d"))
        assert await taking == ["b", "c", "d"]


async def test_a_live_reader_may_come_before_the_run(runtimes: Runtimes) -> None:
    runtime, other = await opened(runtimes), await opened(runtimes)
    taking = asyncio.create_task(take(other.read_run(RUN), 1))
    await runtime.write_run(RUN, notes("a"))
    assert await taking == ["a"]


async def test_any_number_of_readers(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    readings = [asyncio.create_task(take(runtime.read_run(RUN), 20)) for _ in range(10)]
    texts = [str(number) for number in range(20)]
    for text in texts:
        await runtime.write_run(RUN, notes(text))
    assert await asyncio.gather(*readings) == [texts] * 10


async def test_a_reading_ends_with_the_runtime(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    found: list[str] = []

    async def read() -> None:
        found.extend([entry.event.text async for entry in runtime.read_run(RUN)])

    task = asyncio.create_task(read())
    await runtime.write_run(RUN, notes("a"))
    await runtime.close()
    async with asyncio.timeout(5):
        await task
    assert found in ([], ["a"])  # it may have ended before it began


async def test_what_can_not_be_read_is_said_and_passed_over(
    runtimes: Runtimes, caplog: pytest.LogCaptureFixture
) -> None:
    class Stranger(BaseModel):
        """Not known to the reader."""

    runtime, reader = await opened(runtimes), await opened(runtimes)
    await runtime.write_run(RUN, [Stranger(), Stranger(), Note(text="a")])
    assert [(entry.number, entry.event) for entry in await entries(reader)] == [(3, Note(text="a"))]
    (said,) = [record.message for record in caplog.records if "can't be read here" in record.message]
    assert "Stranger" in said
    assert RUN in said


async def test_what_a_person_added_does_no_harm(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    admin, key = runtime.transport.admin, runtime.transport.keys.of(f"run:{RUN}")
    await runtime.write_run(RUN, notes("a"))
    await admin.command("XADD", key, "0-*", "junk", "1")
    await admin.command(
        "XADD", key, "0-*", "at", "9" * 5000, "type", "Note", "v", "1", "body", b'{"text":"x"}'
    )
    await runtime.write_run(RUN, notes("b"))
    assert [text for _, text, _ in await shown(runtime)] == ["a", "x", "b"]
    assert [run.id for run in await runtime.list_runs()] == [RUN]


# Drafts


async def test_drafts_go_when_they_are_settled(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    await runtime.write_run(RUN, notes("begin"))
    first = await runtime.write_run(RUN, notes("to", "tal"), tag="1 1")
    await runtime.write_run(RUN, notes("other"), tag="2 1")
    await runtime.write_run(RUN, notes("total"), settles="1 ", since=first)
    assert await shown(runtime) == [(1, "begin", ""), (4, "other", "2 1"), (5, "total", "")]
    await runtime.write_run(RUN, [], settles="2 ")
    assert await shown(runtime) == [(1, "begin", ""), (5, "total", "")]
    assert await runtime.runs.length(RUN) == 2


async def test_nothing_before_since_is_looked_at(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    await runtime.write_run(RUN, notes("a", "b"), tag="1")
    await runtime.write_run(RUN, [], settles="1", since=2)
    assert await shown(runtime) == [(1, "a", "1")]


async def test_a_number_is_not_given_again(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    await runtime.write_run(RUN, notes("a"), tag="1")
    assert await runtime.write_run(RUN, notes("b"), settles="1") == 2
    assert await shown(runtime) == [(2, "b", "")]


# With a commit


async def test_in_a_handler_it_is_written_with_the_commit(runtimes: Runtimes) -> None:
    gate, written = asyncio.Event(), list[int]()

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        written.append(await runtime.write_run(RUN, notes("with the commit")))
        written.append(await runtime.write_run(RUN, notes("now"), tag="1", now=True))
        await gate.wait()
        await runtime.write_run(RUN, notes("at the end"), settles="1")

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "jobs")
    await runtime.publish_message(Note(), TopicId("jobs", "a"))
    await eventually(lambda: len(written) == 2)
    assert written == [0, 1]
    assert await shown(runtime) == [(1, "now", "1")]
    gate.set()
    await runtime.stop_when_idle()
    assert await shown(runtime) == [(2, "with the commit", ""), (3, "at the end", "")]


async def test_a_failed_attempt_writes_nothing(runtimes: Runtimes) -> None:
    attempts: list[int] = []

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        await runtime.write_run(RUN, notes(f"attempt {ctx.attempt}"))
        attempts.append(ctx.attempt)
        if len(attempts) < 3:
            raise OSError("again")

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "jobs")
    await runtime.publish_message(Note(), TopicId("jobs", "a"))
    await runtime.stop_when_idle()
    assert await shown(runtime) == [(1, "attempt 3", "")]


async def test_a_request_and_several_runs(runtimes: Runtimes) -> None:
    async def work(agent: ClosureContext, message: Ask, ctx: MessageContext) -> Answer:
        await runtime.write_run(RUN, notes("a"))
        await runtime.write_run("another", notes("b", "c"))
        await agent.publish_message(Note(), TopicId("nobody", "a"))
        return Answer(text="done")

    runtime = await runtimes.started()
    await closure(runtime, "worker", work)
    assert await runtime.send_message(Ask(), AgentId("worker", "a")) == Answer(text="done")
    assert await shown(runtime) == [(1, "a", "")]
    assert [entry.event.text for entry in await entries(runtime, run="another")] == ["b", "c"]


async def test_a_task_that_a_handler_left_writes_at_once(runtimes: Runtimes) -> None:
    gate, written = asyncio.Event(), list[int]()

    async def late() -> None:
        await gate.wait()
        written.append(await runtime.write_run(RUN, notes("late")))

    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        tasks.append(asyncio.create_task(late()))

    tasks: list[asyncio.Task[None]] = []
    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "jobs")
    await runtime.publish_message(Note(), TopicId("jobs", "a"))
    await runtime.stop_when_idle()
    gate.set()
    await asyncio.gather(*tasks)
    assert written == [1]


# What it keeps, and what can go wrong


async def test_it_keeps_the_newest(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes, run_events=200)
    for _ in range(10):
        await runtime.write_run(RUN, notes(*["x"] * 100))
    assert 200 <= await runtime.runs.length(RUN) <= 400
    assert (await entries(runtime))[-1].number == 1000


async def test_it_is_kept_for_some_time(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes, run_retention=100.0)
    admin, key = runtime.transport.admin, runtime.transport.keys.of(f"run:{RUN}")
    await runtime.write_run(RUN, notes("a"))
    assert 0 < await admin.command("PTTL", key) <= 100_000
    await admin.command("PEXPIRE", key, 1000)
    await runtime.write_run(RUN, notes("a"))
    assert 10_000 < await admin.command("PTTL", key) <= 100_000


async def test_a_run_that_is_deleted_begins_again(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    await runtime.write_run(RUN, notes("a", "b"))
    assert await runtime.delete_run(RUN)
    assert await stored(runtime, "run:") == []
    assert await runtime.write_run(RUN, notes("c")) == 1


async def test_a_key_that_holds_something_else(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    await runtime.transport.admin.command("SET", runtime.transport.keys.of(f"run:{RUN}"), "mine")
    with pytest.raises(CommandError, match=f"run:{RUN}"):
        await runtime.write_run(RUN, notes("a"))


@pytest.mark.real_server("the stand-in fails at a read of what is no stream")
async def test_reading_a_key_that_holds_something_else(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    await runtime.transport.admin.command("SET", runtime.transport.keys.of(f"run:{RUN}"), "mine")
    with pytest.raises(CommandError):
        await entries(runtime)


async def test_a_commit_goes_on_where_a_run_can_not_be_written(runtimes: Runtimes) -> None:
    async def work(agent: ClosureContext, message: Note, ctx: MessageContext) -> None:
        await runtime.write_run(RUN, notes("a"), settles="x")
        await runtime.write_run("another", notes("b"))

    runtime = await runtimes.started()
    await closure(runtime, "worker", work, "jobs")
    await runtime.transport.admin.command("SET", runtime.transport.keys.of(f"run:{RUN}"), "mine")
    await runtime.publish_message(Note(), TopicId("jobs", "a"))
    await runtime.stop_when_idle()
    assert runtime.handled == 1
    assert [entry.event.text for entry in await entries(runtime, run="another")] == ["b"]


@pytest.mark.parametrize("wrong", ["", "x" * 129, 5, "\ud800"], ids=repr)
async def test_what_is_no_run(runtimes: Runtimes, wrong: Any) -> None:
    runtime = await opened(runtimes)
    with pytest.raises(ValueError, match="run"):
        await runtime.write_run(wrong, notes("a"))
    with pytest.raises(ValueError, match="run"):
        runtime.read_run(wrong)
    with pytest.raises(ValueError, match="run"):
        await runtime.delete_run(wrong)


@pytest.mark.parametrize(
    "wrong", [{"tag": "x" * 129}, {"settles": "x" * 129}, {"since": -1}, {"tag": "\ud800"}], ids=str
)
async def test_what_is_no_draft(runtimes: Runtimes, wrong: dict[str, Any]) -> None:
    runtime = await opened(runtimes)
    with pytest.raises(ValueError, match=next(iter(wrong))):
        await runtime.write_run(RUN, notes("a"), **wrong)


@pytest.mark.parametrize("after", [-1, True, "1"])
async def test_what_is_no_place(runtimes: Runtimes, after: Any) -> None:
    runtime = await opened(runtimes)
    with pytest.raises(SettingValueError, match="after"):
        runtime.read_run(RUN, after=after)


async def test_an_event_that_is_too_large(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes, max_payload=1000)
    with pytest.raises(EventTooLargeError, match="1,000"):
        await runtime.write_run(RUN, notes("a", "b" * 2000))
    assert await entries(runtime) == []


# Servers and connections that are lost


@pytest.mark.real_server("the stand-in has no connections that could be lost")
async def test_a_connection_that_breaks_leaves_no_gap(runtimes: Runtimes) -> None:
    runtime, other = await opened(runtimes), await opened(runtimes)
    admin = runtime.transport.admin
    await runtime.write_run(RUN, notes("a"))
    async with other.read_run(RUN) as reading:
        assert await take(reading, 1) == ["a"]
        for text in "bcd":
            taking = asyncio.create_task(take(reading, 1))
            await eventually(lambda: _blocked(runtime))
            await admin.command("CLIENT", "KILL", "ID", (await _blocked(runtime))[0])
            await runtime.write_run(RUN, notes(text))
            assert await taking == [text]


@pytest.mark.real_server("the stand-in has no connections that could be lost")
async def test_a_server_that_lost_its_tail_is_read_on(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    admin, key = runtime.transport.admin, runtime.transport.keys.of(f"run:{RUN}")
    await runtime.write_run(RUN, notes("a", "b", "lost"))
    async with runtime.read_run(RUN) as reading:
        assert await take(reading, 3) == ["a", "b", "lost"]
        await admin.command("DEL", key)
        await _next_millisecond(runtime)  # what a server writes after it lost a tail, it writes later
        await runtime.write_run(RUN, notes("c"))
        taking = asyncio.create_task(take(reading, 1))
        await eventually(lambda: _blocked(runtime))
        await admin.command("CLIENT", "KILL", "ID", (await _blocked(runtime))[0])
        assert await taking == ["c"]


async def _next_millisecond(runtime: RedisAgentRuntime) -> None:
    async def now() -> int:
        seconds, micros = await runtime.transport.admin.command("TIME")
        return int(seconds) * 1000 + int(micros) // 1000

    begun = await now()

    async def has_come() -> bool:
        return await now() > begun

    await eventually(has_come)


async def _blocked(runtime: RedisAgentRuntime) -> list[str]:
    """The connections that wait for an event of a run."""
    listed = (await runtime.transport.admin.command("CLIENT", "LIST")).decode().splitlines()
    fields = [dict(pair.partition("=")[::2] for pair in line.split()) for line in listed]
    return [one["id"] for one in fields if one["name"] == "callboard-run" and "b" in one["flags"]]


# The list


async def listed(runtime: RedisAgentRuntime, limit: int = 100, before: str | None = None) -> list[str]:
    return [run.id for run in await runtime.list_runs(limit=limit, before=before)]


async def test_runs_are_listed_the_newest_first(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    assert not await runtime.list_runs()  # the first look at a namespace lists what older versions left
    for run in ("b", "a", "c"):
        await runtime.write_run(run, notes("first", "more"))
        await runtime.write_run(run, notes("last"))
    newest, *_ = found = await runtime.list_runs()
    assert {run.id for run in found} == {"a", "b", "c"}
    assert found == sorted(found, key=lambda run: (run.began, run.id), reverse=True)
    assert (newest.entries, newest.first, newest.last) == (3, Note(text="first"), Note(text="last"))
    assert newest.began <= newest.changed


async def test_pages_of_runs_that_began_in_one_ms_miss_none(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    await asyncio.gather(*(runtime.write_run(f"run-{number:03}", notes("a")) for number in range(250)))
    found = await listed(runtime, 120)
    while page := await listed(runtime, 120, found[-1]):
        found += page
    assert len(found) == 250
    assert len(set(found)) == 250


async def test_a_run_is_found_by_the_beginning_of_its_id_and_few_are_read_where_few_are_asked_for(
    runtimes: Runtimes, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = await opened(runtimes)
    names = [f"run-{number:02}" for number in range(30)]
    for name in ("x", "a*b", "a*c", "axb", "[x]", "[y]", *names):
        await runtime.write_run(name, notes("a"))
    sent: list[str] = []
    command = runtime.transport.admin.command

    async def counted(*arguments: Any) -> Any:
        sent.append(str(arguments[0]))
        return await command(*arguments)

    async def found(begins_with: str, before: str | None = None, limit: int = 100) -> list[str]:
        sent.clear()
        return [
            run.id for run in await runtime.list_runs(begins_with=begins_with, before=before, limit=limit)
        ]

    await runtime.list_runs(limit=1)
    monkeypatch.setattr(runtime.transport.admin, "command", counted)
    assert await found("a*") == ["a*c", "a*b"]
    assert sent.count("XLEN") == 2
    assert await found("a*", before="a*c") == ["a*b"]
    assert await found("[") == ["[y]", "[x]"]
    assert await found("none") == []
    assert await found("run-", limit=2) == names[:-3:-1]
    assert await found("", limit=2) == names[:-3:-1]
    assert sent.count("XLEN") == 2


async def test_runs_from_before_there_was_a_list_are_put_into_it(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    await runtime.write_run("old", notes("a"))
    # As a version left it that knew no list; a namespace that begins now has no such runs.
    await runtime.transport.admin.command("DEL", runtime.transport.keys.of("runs"))
    await runtime.transport.admin.command("HDEL", runtime.transport.keys.of("config"), "runs listed")
    await runtime.write_run("new", notes("a"))
    assert sorted(await listed(runtime)) == ["new", "old"]
    (old,) = await runtime.list_runs(before=(await runtime.list_runs())[0])
    assert old.began == old.changed


async def test_a_run_that_is_not_listed_is_no_place_in_the_list(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    with pytest.raises(SettingValueError, match="the id of a run that is listed"):
        await runtime.list_runs(before="none")


async def test_a_run_that_is_deleted_leaves_the_list(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    await runtime.write_run(RUN, notes("a"))
    await runtime.delete_run(RUN)
    assert await listed(runtime) == []
    assert await stored(runtime, "runs") == []


async def test_runs_whose_streams_went_by_themselves_leave_the_list(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes, run_retention=0.05)
    for number in range(30):
        await runtime.write_run(f"run-{number}", notes("a"))
    admin, of = runtime.transport.admin, runtime.transport.keys.of

    async def are_gone() -> bool:
        return await stored(runtime, "run:") == []

    await eventually(are_gone)
    for number in range(12):
        await runtime.write_run(f"new-{number}", notes("a"))
    assert await admin.command("ZCARD", of("runs")) <= 12 + 4
    assert all(name.startswith("new-") for name in await listed(runtime))


# What a person adds with an id of the server's time


@pytest.mark.real_server("the stand-in has no XSETID")
async def test_an_entry_that_no_event_can_follow_stops_neither_writers_nor_readers(
    runtimes: Runtimes,
) -> None:
    runtime = await opened(runtimes)
    admin, key = runtime.transport.admin, runtime.transport.keys.of(f"run:{RUN}")
    await runtime.write_run(RUN, notes("a", "b"))
    await runtime.write_run(RUN, notes("c"), tag="1")
    await runtime.write_run(RUN, [], settles="1")
    async with runtime.read_run(RUN) as reading:
        assert await take(reading, 1) == ["a"]
        await admin.command("XADD", key, "*", "junk", "1")
        assert [text for _, text, _ in await shown(runtime)] == ["a", "b"]
        taking = asyncio.create_task(take(reading, 3))
        number = await runtime.write_run(RUN, notes("d"))
        await runtime.write_run(RUN, notes("e"))
        assert number > 3
        assert await taking == ["b", "d", "e"]
        await admin.command("XADD", key, "9-9", "junk", "1")
        await admin.command("XADD", key, "*", "junk", "1")
        assert await runtime.write_run(RUN, notes("f")) > number + 1
        assert await take(reading, 1) == ["f"]
    assert [text for _, text, _ in await shown(runtime)] == ["a", "b", "d", "e", "f"]
    assert await admin.command("XLEN", key) == 5
    assert await listed(runtime) == [RUN]


@pytest.mark.real_server("the stand-in has no XSETID")
async def test_a_stream_that_a_person_began_becomes_that_of_the_run(runtimes: Runtimes) -> None:
    runtime = await opened(runtimes)
    await runtime.transport.admin.command("XADD", runtime.transport.keys.of(f"run:{RUN}"), "*", "junk", "1")
    assert await shown(runtime) == []
    await runtime.write_run(RUN, notes("a"))
    assert [text for _, text, _ in await shown(runtime)] == ["a"]
    assert await listed(runtime) == [RUN]
