"""Who speaks next in a run."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from callboard.errors import DeclarationError
from callboard.groupchat import Agent, GroupChat, GroupChatManager
from callboard.memory.llm_messages import LLMMessage
from callboard.models import ReplayChatCompletionClient
from callboard.runs import (
    AsyncRunResponse,
    HandoffChatManager,
    ManualChatManager,
    RandomChatManager,
    RoundRobinChatManager,
    SelectorChatManager,
    SoFar,
    a_run,
    is_async_input_request,
)
from callboard.teams import TeamRunError
from tests.helpers.run_agents import call, chatterer, speaker


async def senders(response: AsyncRunResponse) -> list[str]:
    return [message["sender"] for message in await response.messages][1:]


async def test_one_of_your_own_has_two_methods() -> None:
    class Backwards:
        """As in the RFC, from the last to the first."""

        def __init__(self) -> None:
            self.agents: list[Agent] = []

        def register_agent(self, agent: Agent | list[Agent]) -> None:
            self.agents += agent if isinstance(agent, list) else [agent]

        def get_next_agent(self, response: SoFar) -> Agent | None:
            said = len(response.messages) - 1
            return None if said == 3 else self.agents[-1 - said]

    response = await a_run(*map(chatterer, "abc"), message="Hi", chat_manager=Backwards())
    assert await senders(response) == ["c", "b", "a"]
    assert (await response.result()).stop_reason == "The chat manager chose nobody."


async def test_round_robin_begins_with_the_first_after_somebody_from_outside() -> None:
    agents = [chatterer(name) for name in "abc"]
    manager = RoundRobinChatManager(agents)
    response = await a_run(*agents, message="Hi", chat_manager=manager, max_turns=4)
    assert await senders(response) == ["a", "b", "c", "a"]


async def test_random_is_the_same_with_a_seed_and_repeats_nobody() -> None:
    runs = [
        await a_run(
            *map(chatterer, "abc"),
            message="Hi",
            max_turns=8,
            chat_manager=RandomChatManager(seed=7, allow_repeat_speaker=False),
        )
        for _ in range(2)
    ]
    first, second = [await senders(response) for response in runs]
    assert first == second
    assert all(one != other for one, other in itertools.pairwise(first))


async def test_a_person_chooses() -> None:
    response = await a_run(
        *map(chatterer, "abc"), message="Hi", max_turns=2, chat_manager=ManualChatManager()
    )
    answers = iter(["3", ""])
    async for event in response.events:
        if is_async_input_request(event):
            await event.a_respond(next(answers))
    assert await senders(response) == ["c", "a"]


def named_in_turn(messages: list[LLMMessage]) -> str:
    return "cab"[sum(getattr(message, "source", "") in ("a", "b", "c") for message in messages) % 3]


@pytest.mark.parametrize("kind", ["selector", "group"])
async def test_a_model_chooses_and_that_is_part_of_the_cost(kind: str) -> None:
    agents = [chatterer(name) for name in "abc"]
    model: Any = ReplayChatCompletionClient([], default=named_in_turn)  # type: ignore[arg-type]
    manager: Any = (
        SelectorChatManager(llm_config=model)
        if kind == "selector"
        else GroupChatManager(GroupChat(agents), name="chooser", llm_config=model)
    )
    response = await a_run(*agents, message="Hi", chat_manager=manager, max_turns=3)
    assert await senders(response) == ["c", "a", "b"]
    cost = await response.cost
    assert {part.agent for part in cost.parts} == {"a", "b", "c", "run_a_b_c"}
    assert cost.total.requests == 6


async def test_a_group_chat_manager_ends_the_run_as_it_does_elsewhere() -> None:
    agents = [chatterer("a"), speaker("b", "DONE")]
    manager = GroupChatManager(
        GroupChat(agents, speaker_selection_method="round_robin"),
        is_termination_msg=lambda message: "DONE" in (message.get("content") or ""),
    )
    response = await a_run(*agents, message="Hi", chat_manager=manager)
    assert await senders(response) == ["a", "b"]
    with pytest.raises(DeclarationError, match="not in the group chat"):
        await a_run(chatterer("c"), message="Hi", chat_manager=manager)


async def test_handing_over_to_nobody_known_fails() -> None:
    manager = HandoffChatManager()
    triage = speaker("triage", call("to"), function_map={"to": lambda: chatterer("stranger")})
    response = await a_run(triage, chatterer("b"), message="Hi", chat_manager=manager)
    with pytest.raises(TeamRunError, match="stranger"):
        await response.result()


async def test_a_selector_needs_a_model() -> None:
    with pytest.raises(DeclarationError, match="llm_config"):
        SelectorChatManager()
