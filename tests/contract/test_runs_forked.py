"""Responses of runs on the bus: recorded, replayed and forked; in one process they say what to write."""

from __future__ import annotations

import pytest

from callboard import App
from callboard.errors import DeclarationError, MisuseError
from callboard.groupchat import ConversableAgent
from callboard.memory.llm_messages import AssistantMessage, LLMMessage
from callboard.models import ReplayChatCompletionClient
from callboard.runs import a_run, run, run_team
from callboard.teams import RunUnknownError, TeamClient, TeamForkError
from callboard.testing import replay
from callboard.testing.cassette import CassetteError
from tests.helpers.runtimes import Runtimes


def count(messages: list[LLMMessage]) -> str:
    return str(sum(isinstance(message, AssistantMessage) for message in messages) + 1)


def counter(name: str) -> ConversableAgent:
    model = ReplayChatCompletionClient([], default=lambda messages: count(list(messages)))
    return ConversableAgent(name, llm_config=model, human_input_mode="NEVER")


def counting() -> tuple[App, object]:
    team = run_team(counter("ann"), counter("bob"), name="counters", max_turns=4)
    app = App("counting")
    app.team(team)
    return app, team


async def test_a_run_is_forked_at_a_turn_and_goes_on_in_another_conversation(runtimes: Runtimes) -> None:
    app, team = counting()
    runtime = runtimes.of(app)
    runtime.start()
    first = await a_run(team, message="Go.", runtime=runtime)  # type: ignore[arg-type]
    assert [one["content"] for one in await first.messages] == ["Go.", "1", "1", "2", "2"]
    turns = await first.source.team.turns()  # type: ignore[attr-defined]
    early = await first.fork(at=turns[1].turn)
    late = await first.fork("the-late-one")
    assert late == "the-late-one"
    for conversation, said in ((early, ["2", "2", "3", "3"]), (late, ["3", "3", "4", "4"])):
        again = await a_run(team, message="More.", runtime=runtime, conversation=conversation)  # type: ignore[arg-type]
        assert [one["content"] for one in await again.messages][1:] == said
    with pytest.raises(TeamForkError):
        await first.fork("the-late-one")


async def test_a_recorded_run_is_replayed(runtimes: Runtimes) -> None:
    app, team = counting()
    runtime = runtimes.of(app)
    runtime.start()
    response = await a_run(team, message="Go.", runtime=runtime, record=True)  # type: ignore[arg-type]
    cassette = await response.export()
    texts = [said.text for said in cassette.transcript if said.source in ("user", "ann", "bob")]
    assert texts == ["Go.", "1", "1", "2", "2"]
    plain = await a_run(team, message="Go.", runtime=runtime)  # type: ignore[arg-type]
    with pytest.raises(CassetteError, match="record=True"):
        await plain.export()
    await runtime.stop()
    other = runtimes.of(app)
    with replay(cassette) as tape:
        other.start()
        await other.ready()
        again = await a_run(team, message="Go.", runtime=other)  # type: ignore[arg-type]
        tape.check(await again.result())


async def test_in_one_process_both_say_what_to_write() -> None:
    response = await a_run(counter("ann"), message="Go.", max_turns=1)
    with pytest.raises(MisuseError, match="can't be forked: give it a runtime"):
        await response.fork(at=1)
    with pytest.raises(MisuseError, match="can't be recorded: give it a runtime"):
        await response.export()
    with pytest.raises(DeclarationError, match="'record' is for runs on the bus"):
        await a_run(counter("ann"), message="Go.", record=True)


def test_a_sync_program_is_told_the_same() -> None:
    response = run(counter("ann"), message="Go.", max_turns=1)
    with pytest.raises(MisuseError, match="give it a runtime"):
        response.fork()
    with pytest.raises(MisuseError, match="give it a runtime"):
        response.export()


async def test_who_reads_the_entries_of_a_run_comes_to_their_end(runtimes: Runtimes) -> None:
    app, _ = counting()
    runtime = runtimes.of(app)
    runtime.start()
    client = TeamClient(runtime, "counters", "read")
    run_id = await client.start(task="Go.")
    for _ in range(2):  # while it goes on, and when it is over
        seen = [type(entry.event).__name__ async for entry in client.entries(run_id)]
        assert seen[-1] == "RunEnded"
    with pytest.raises(RunUnknownError):
        _ = [entry async for entry in client.entries("another")]
