"""The runs of teams in a list: how each stands, also where nobody runs the team or its beginning is not known."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta
from typing import Any

import pytest

from callboard import App
from callboard.broker.redis.operations.inspect import overview
from callboard.errors import SettingValueError
from callboard.messages import TextMessage
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.runtime.steps import Take, Tape
from callboard.teams import (
    RoundRobinGroupChat,
    RunCancelledError,
    RunSummary,
    RunUnknownError,
    TeamClient,
    TeamRunError,
    find_run,
    list_runs,
)
from callboard.teams.loop import write_takes
from callboard.teams.protocol import RunEnded, Shown
from tests.helpers.chat import Echo
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Runtimes


def poets(*, fails_at: int = 0) -> App:
    app = App("poems")
    members = [Echo("a"), Echo("b", fails_at=fails_at)]
    app.team(RoundRobinGroupChat(members, name="poets", max_turns=2))
    return app


async def working(runtimes: Runtimes, app: App, types: tuple[str, ...] | None = None) -> TeamClient:
    """The conversation "sea" of a team that works, or only its manager."""
    runtime = runtimes.of(app, types=types, settings={"max_attempts": 1})
    runtime.start()
    await runtime.ready()
    return TeamClient(runtime, "poets", "sea")


async def listed(runtimes: Runtimes) -> list[RunSummary]:
    """As a process sees it that has none of the team's code."""
    runtime = runtimes.new()
    return await list_runs(runtime)


async def test_a_run_that_was_completed(runtimes: Runtimes) -> None:
    await (await working(runtimes, poets())).run(task="go", run_id="first")
    (run,) = await listed(runtimes)
    assert (run.run_id, run.team, run.conversation, run.state) == ("first", "poets", "sea", "completed")
    assert (run.stop_reason, run.problem) == ("Maximum number of turns 2 reached.", "")
    assert run.ended is not None
    assert run.began <= run.ended
    assert run.entries == 4


async def test_a_run_without_a_task_and_one_that_failed(runtimes: Runtimes) -> None:
    client = await working(runtimes, poets(fails_at=2))
    await client.run(task="go", run_id="first")
    with pytest.raises(TeamRunError):
        await client.run(run_id="second")
    newest, oldest = await listed(runtimes)
    assert (newest.run_id, newest.conversation, newest.state) == ("second", "sea", "failed")
    assert newest.problem.startswith("RuntimeError: b has nothing to say")
    assert oldest.state == "completed"
    runtime = runtimes.new()
    assert [run.run_id for run in await list_runs(runtime, state="failed")] == ["second"]
    assert [run.run_id for run in await list_runs(runtime, limit=1)] == ["second"]
    assert [run.run_id for run in await list_runs(runtime, before=newest.stream)] == ["first"]
    assert await list_runs(runtime, team="others") == []


async def test_the_runs_of_one_conversation_and_those_since_a_time(runtimes: Runtimes) -> None:
    client = await working(runtimes, poets())
    for conversation, run_id in (("sea", "first"), ("lake", "second"), ("sea", "third")):
        await client.beside(conversation).run(task="go", run_id=run_id)
    runtime = runtimes.new()
    third, second, first = await list_runs(runtime)

    async def ids(**given: Any) -> list[str]:
        return [run.run_id for run in await list_runs(runtime, **given)]

    assert await ids(conversation="sea") == ["third", "first"]
    assert await ids(conversation="sea", limit=1) == ["third"]
    assert await ids(conversation="sea", before=third.stream) == ["first"]
    assert await ids(conversation="") == await ids(conversation="se") == []
    assert await ids(since=second.began) == ["third", "second"]
    assert await ids(since=first.began, conversation="sea") == ["third", "first"]
    assert await ids(since=third.began + timedelta(days=1)) == []
    with pytest.raises(SettingValueError, match="a time with a zone"):
        await list_runs(runtime, since=datetime(2026, 11, 27))


async def test_a_run_that_is_under_way_is_paused_goes_on_and_is_cancelled(runtimes: Runtimes) -> None:
    client = await working(runtimes, poets(), ("poets",))
    running = asyncio.ensure_future(client.run(task="go", run_id="first"))

    async def state() -> str:
        return next((run.state for run in await listed(runtimes)), "")

    async def is_working() -> bool:
        return await state() == "working"

    await eventually(is_working)
    await client.pause(run_id="first")
    assert await state() == "paused"
    await client.resume(run_id="first")
    assert await state() == "working"
    await client.abort("first")
    assert await state() == "cancelled"
    with pytest.raises(RunCancelledError):
        await running


async def test_a_stream_of_an_older_version_and_one_of_no_team(runtimes: Runtimes) -> None:
    runtime = runtimes.new()
    said = Shown(turn=(0,), source="", attempt="", messages=[TextMessage(content="go", source="user")])
    await runtime.write_run("old@0123456789abcdef", [said])
    await runtime.write_run("ended@0123456789abcdef", [said, RunEnded(state="completed", stop_reason="over")])
    await runtime.write_run("other", [TextMessage(content="x", source="user")])
    found = {run.run_id: (run.team, run.state) for run in await listed(runtimes)}
    assert found == {"old": ("", "working"), "ended": ("", "completed"), "other": ("", "unknown")}


@pytest.mark.real_server("fakeredis reads such names as text")
async def test_names_that_a_person_added_and_that_are_no_text_stop_no_list(runtimes: Runtimes) -> None:
    client = await working(runtimes, poets())
    await client.run(task="go", run_id="one")
    transport, junk = client.runtime.transport, b"j\xff"
    command, of = transport.admin.command, transport.keys.of
    for name in ("types", "stats:poets", "schedules"):
        await command("HSET", of(name), junk, junk)
    await command("SADD", of("streams:poets"), junk)
    await command("ZADD", of("workers"), 1, junk)
    await command("ZADD", of("runs"), "+inf", junk)
    view = await overview(transport)
    assert {"poets", "poets.a", "poets.b"} <= {one.type for one in view.types}
    assert [run.run_id for run in await listed(runtimes)] == ["one"]
    assert (await find_run(client.runtime, "one")).state == "completed"


async def test_a_run_is_found_by_the_beginning_of_its_id(runtimes: Runtimes) -> None:
    client = await working(runtimes, poets())
    for run_id in ("one", "once"):
        await client.run(task="go", run_id=run_id)
    await TeamClient(client.runtime, "poets", "wind").run(task="go", run_id="once")
    runtime = runtimes.new()
    one = await find_run(runtime, "one")
    assert (one.run_id, await find_run(runtime, one.stream)) == ("one", one)
    for name, said in (
        ("on", "3 begin like this"),
        ("once", "2 begin like this"),
        ("ones", "Did you mean 'one'"),
    ):
        with pytest.raises(RunUnknownError, match=said):
            await find_run(runtime, name)


async def test_what_was_recorded_of_a_run_is_no_run_beside_it(runtimes: Runtimes) -> None:
    client = await working(runtimes, poets())
    await client.run(task="go", run_id="one")
    # As a handler's commit writes it; models are not needed for that.
    stream = (await listed(runtimes))[0].stream
    tape = Tape([Take(agent="poets.a", kind="tool", request={"name": "x", "arguments": "{}"}, answer={})])
    await write_takes(client.runtime, stream, tape)
    runtime = runtimes.new()
    assert [run.run_id for run in await listed(runtimes)] == ["one"]
    for name in ("one", "o"):
        assert (await find_run(runtime, name)).stream == stream


async def test_an_id_may_be_as_long_as_is_said_and_no_longer(runtimes: Runtimes) -> None:
    app = poets()
    client = await working(runtimes, app)
    for record in (False, True):
        result = await client.run(task="go", run_id=f"{record:d}" * 100, record=record)
        assert result.stop_reason
        with pytest.raises(SettingValueError, match="1 to 100 characters"):
            await client.run(task="go", run_id=f"{record:d}" * 101, record=record)
    team = RoundRobinGroupChat([Echo("a")], name="poets", max_turns=1)
    app.schedule("@daily", "go", team=team, name="s" * 79)
    with pytest.raises(SettingValueError, match="1 to 100 characters"):
        app.schedule("@daily", "go", team=team, name="s" * 80)


async def test_a_schedule_begins_runs_of_a_team(runtimes: Runtimes) -> None:
    app = App("poems")
    team = app.team(RoundRobinGroupChat([Echo("a")], name="poets", max_turns=1))
    app.schedule("0 9 * * mon", "go", team=team, name="weekly")
    client = await working(runtimes, app)
    runtime: RedisAgentRuntime = client.runtime
    name = await runtime.schedules.run_now("weekly")

    async def has_ended() -> bool:
        return [run.state for run in await list_runs(runtime)] == ["completed"]

    await eventually(has_ended)
    (run,) = await list_runs(runtime)
    assert (run.run_id, run.conversation) == (name, name)
