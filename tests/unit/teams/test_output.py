"""A team that answers with an object."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pydantic import BaseModel

from callboard.agents import TaskResult
from callboard.conditions import TextMentionTermination
from callboard.messages import BaseChatMessage, StructuredMessage
from callboard.teams import RoundRobinGroupChat, TeamOutputError
from tests.helpers.team_members import Parrot, shown_by, text_of


class Review(BaseModel):
    stars: int
    text: str = ""


class Wider(BaseModel):
    stars: int
    author: str


class Critic(Parrot):
    """Says one message."""

    def __init__(self, message: BaseChatMessage) -> None:
        super().__init__("critic")
        self._message = message

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (type(self._message),)

    def message(self, content: str) -> BaseChatMessage:
        return self._message


GOOD = StructuredMessage[Review](content=Review(stars=5), source="critic")
WIDER = StructuredMessage[Wider](content=Wider(stars=4, author="ann"), source="critic")


def team_of(last: Parrot) -> RoundRobinGroupChat:
    return RoundRobinGroupChat([Parrot("ann"), last], max_turns=2, output_content_type=Review)


@pytest.mark.parametrize(
    "text",
    [
        '{"stars": 5, "text": "Good."}',
        'My review:\n```json\n{"stars": 5, "text": "Good."}\n```\nTERMINATE',
        '```\n{"stars": "5", "text": "Good."}\n```',
    ],
)
async def test_json_in_a_text_is_read(text: str) -> None:
    result = await team_of(Parrot("bob", [text])).run(task="Begin.")
    assert result.output == Review(stars=5, text="Good.")


@pytest.mark.parametrize(("message", "output"), [(GOOD, Review(stars=5)), (WIDER, Review(stars=4))])
async def test_a_structured_message_is_taken(message: BaseChatMessage, output: Review) -> None:
    assert (await team_of(Critic(message)).run(task="Begin.")).output == output


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("No.", "Invalid JSON: expected ident at line 1 column 2"),
        ('{"stars": "many"}', "stars: Input should be a valid integer, unable to parse string as an integer"),
        ("{}", "stars: Field required"),
        ("```json\n{}\n```\n```json\n{}\n```", "there are 2 blocks in the answer"),
    ],
)
async def test_what_does_not_fit_is_said_at_the_end(text: str, problem: str) -> None:
    with pytest.raises(TeamOutputError) as raised:
        await team_of(Parrot("bob", [text])).run(task="Begin.")
    assert str(raised.value) == (
        "The run of the team 'RoundRobinGroupChat' has ended without a Review "
        f"in the last message, of 'bob': {problem}."
    )
    assert isinstance(raised.value, ValueError)


async def test_all_was_said_before_that() -> None:
    stream = team_of(Parrot("bob")).run_stream(task="Begin.")
    assert [
        text_of(item) for item in [await anext(stream) for _ in range(3)] if not isinstance(item, TaskResult)
    ] == [
        "user: Begin.",
        "ann: ann1 [user:Begin.]",
        "bob: bob1 [user:Begin. ann:ann1]",
    ]
    with pytest.raises(TeamOutputError):
        await anext(stream)


async def test_a_run_in_which_nothing_is_said() -> None:
    ends = TextMentionTermination("Begin")
    team = RoundRobinGroupChat([Parrot("ann")], termination_condition=ends, output_content_type=Review)
    with pytest.raises(TeamOutputError, match=r"without a Review: nothing was said\."):
        await team.run(task="Begin.", output_task_messages=False)


async def test_without_a_type_there_is_no_output() -> None:
    result = await RoundRobinGroupChat([Parrot("ann", ['{"stars": 5}'])], max_turns=1).run(task="Begin.")
    assert result.output is None


async def test_the_team_knows_messages_of_its_type() -> None:
    task = StructuredMessage[Review](content=Review(stars=1), source="user")
    team = RoundRobinGroupChat([Parrot("bob", ['{"stars": 2}'])], max_turns=1, output_content_type=Review)
    assert (await team.run(task=task)).output == Review(stars=2)


async def test_the_output_is_not_written_twice() -> None:
    result = await team_of(Critic(GOOD)).run(task="Begin.")
    assert "output" not in result.model_dump()
    assert TaskResult.model_validate_json(result.model_dump_json()).stop_reason == result.stop_reason
    assert isinstance((await shown_by(team_of(Critic(GOOD)), "Begin."))[-1], TaskResult)
