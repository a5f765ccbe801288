"""Copies of agents and teams for other conversations."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from callboard.agents import AgentTool
from callboard.agents.errors import AgentSettingError
from callboard.conditions import MaxMessageTermination
from callboard.memory.contexts import SummarisingChatCompletionContext
from callboard.models import ReplayChatCompletionClient
from callboard.teams import RoundRobinGroupChat

from .talkers import Talker


class Holder(Talker):
    """Holds something."""

    def __init__(self, held: Any) -> None:
        super().__init__("holder")
        self.held = held


class Locked:
    """Can't be copied."""

    def __init__(self) -> None:
        self.lock = threading.Lock()

    def ask(self) -> str:
        return "asked"


@pytest.mark.parametrize(
    "shared", [ReplayChatCompletionClient([]), AgentTool(Talker("inner")), Locked().ask], ids=type
)
def test_what_conversations_share_is_shared_wherever_it_is(shared: Any) -> None:
    twin = Holder({"deep": [(shared,)]}).for_conversation()

    assert twin.held["deep"][0][0] is shared


def test_the_model_of_a_context_is_shared() -> None:
    model = ReplayChatCompletionClient([])
    context = SummarisingChatCompletionContext(model, max_messages=5, keep=2)

    twin = Holder(context).for_conversation()

    assert twin.held is not context
    assert twin.held.model_client is model


def test_methods_of_the_agent_itself_become_methods_of_the_copy() -> None:
    agent = Holder(None)
    agent.held = agent.on_messages

    twin = agent.for_conversation()

    assert twin.held.__self__ is twin


def test_an_agent_inside_is_copied_in_its_own_way() -> None:
    class Own(Talker):
        def for_conversation(self) -> Own:
            return Own("own", "a copy")

    twin = Holder([Own("own")]).for_conversation()

    assert twin.held[0].word == "a copy"


def test_what_can_not_be_copied_is_named() -> None:
    with pytest.raises(
        AgentSettingError, match=r"The agent 'holder' can't be copied .* `for_conversation` in Holder"
    ):
        Holder(Locked()).for_conversation()


async def test_a_team_that_has_run_is_copied_without_what_was_said() -> None:
    talker = Talker("a")
    team = RoundRobinGroupChat([talker], termination_condition=MaxMessageTermination(3))
    await team.run(task="Go")
    talker.count = 0

    twin = team.for_conversation()
    result = await twin.run(task="Go")

    assert [message.to_text() for message in result.messages] == ["Go", "said 1", "said 2"]
    assert talker.count == 0
    assert twin.participants[0] is not talker


async def test_a_team_copies_its_members_in_their_own_way() -> None:
    class Own(Talker):
        def for_conversation(self) -> Own:
            return Own("own", "a copy")

    inner = RoundRobinGroupChat([Own("own")], name="inner", max_turns=1)
    await inner.run(task="Go")

    result = await RoundRobinGroupChat([inner], max_turns=1).for_conversation().run(task="Go")

    assert [message.to_text() for message in result.messages] == ["Go", "a copy 1"]
