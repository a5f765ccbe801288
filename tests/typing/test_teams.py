"""What type checkers know of teams and runs that handlers begin. Every ignored line is an error that they have to find.

Both mypy and pyright check the tests too, and complain of a comment that ignores nothing.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

from typing import assert_type

import pytest
from pydantic import BaseModel

from callboard import AgentId, App, MessageContext, RoutedAgent, TopicId, event
from callboard.agents import AssistantAgent
from callboard.agents.base import TaskResult
from callboard.errors import DeclarationError
from callboard.models import ReplayChatCompletionClient
from callboard.runs import AsyncRunResponse, a_attach, a_run
from callboard.teams import RoundRobinGroupChat, TeamClient, find_run, list_runs
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note


class Report(BaseModel):
    """What the team answers with."""

    text: str


class Other(BaseModel):
    """Another class."""

    text: str


app = App("desk")
report = app.team(
    RoundRobinGroupChat(
        [AssistantAgent("ann", ReplayChatCompletionClient(['{"text": "fine"}'] * 9))],
        name="report",
        max_turns=1,
        output_content_type=Report,
    )
)


@app.agent("clerk", topics=["work"])
class Clerk(RoutedAgent):
    """Begins runs in a handler, in each way that there is."""

    class State(BaseModel):
        """A state."""

        texts: list[str] = []

    state: State

    @event
    async def on_note(self, message: Note, ctx: MessageContext) -> None:
        result = await report.on(self.runtime, "c1").run(task="Report", run_id=f"{ctx.message_id}-1")
        assert_type(result, TaskResult)
        assert_type(result.output, BaseModel | None)
        assert_type(result.output_as(Report), Report)
        if not result.output_as(Report).text:
            result.output_as(Report).typo  # type: ignore[attr-defined]  # noqa: B018
        client = TeamClient(self.runtime, "report", "c2", Report)
        second = (await client.run(task="Report", run_id=f"{ctx.message_id}-2")).output_as(Report)
        response = await a_attach(self.runtime, f"{ctx.message_id}-2", wait=60)
        assert_type(response, AsyncRunResponse)
        third = await a_run(report, runtime=self.runtime, message="Report", run_id=f"{ctx.message_id}-3")
        assert_type(third, AsyncRunResponse)
        listed = await list_runs(self.runtime)
        found = await find_run(self.runtime, f"{ctx.message_id}-1")
        said = [result.output_as(Report).text, second.text, found.team]
        self.state.texts = [*said, str(len(listed))]


async def test_a_handler_reaches_teams_by_its_own_runtime() -> None:
    async with app.running("memory://typing-teams") as runtime:
        await runtime.publish_message(Note(), TopicId("work", "a"))

        async def done() -> bool:
            state = await runtime.agent_save_state(AgentId("clerk", "a"))
            texts: list[str] = state.get("texts", [])
            return texts[:3] == ["fine", "fine", "report"]

        await eventually(done)


def test_another_class_is_no_output() -> None:
    with pytest.raises(DeclarationError, match="an output of class Other, not one of class Report"):
        TaskResult(messages=[], output=Other(text="x")).output_as(Report)
    with pytest.raises(DeclarationError, match="no output, not one of class Report"):
        TaskResult(messages=[]).output_as(Report)


def test_another_runtime_reaches_no_team() -> None:
    with pytest.raises(DeclarationError, match="is no RedisAgentRuntime"):
        report.on(3)  # type: ignore[arg-type]
