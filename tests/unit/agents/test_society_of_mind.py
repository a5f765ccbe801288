"""The agent that lets a team think, and answers for it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest

from callboard import CancellationToken
from callboard.agents import Response, SocietyOfMindAgent, TaskResult
from callboard.agents.base import Said
from callboard.agents.errors import NoResponseError
from callboard.memory.contexts import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    UnboundedChatCompletionContext,
)
from callboard.memory.llm_messages import FunctionCall, LLMMessage, SystemMessage, UserMessage
from callboard.messages import HandoffMessage, TextMessage
from callboard.models import ModelFamily, ModelInfo, ReplayChatCompletionClient
from callboard.models.replay import Answer
from callboard.teams import RoundRobinGroupChat

from .talkers import Talker

TASK = TextMessage(content="Write a line.", source="user")
SHY = ModelInfo(
    vision=False,
    function_calling=False,
    json_output=False,
    family=ModelFamily.UNKNOWN,
    structured_output=False,
    multiple_system_messages=False,
)


def society(
    answers: Sequence[Answer] = ("The answer.",),
    *,
    info: ModelInfo | None = None,
    context: ChatCompletionContext | None = None,
    fails_at: int = 0,
    **settings: Any,
) -> tuple[SocietyOfMindAgent, list[Talker], ReplayChatCompletionClient]:
    talkers = [Talker("writer", fails_at=fails_at), Talker("critic")]
    team = RoundRobinGroupChat(talkers, max_turns=2)
    model = ReplayChatCompletionClient(answers, info)
    return SocietyOfMindAgent("society", team, model, model_context=context, **settings), talkers, model


async def test_one_answer_is_made_of_what_the_team_says() -> None:
    agent, _, model = society(instruction="Read:", response_prompt="Answer:")

    items = [item async for item in agent.on_messages_stream([TASK], CancellationToken())]

    *inner, response = items
    assert [(item.source, item.to_text()) for item in inner if not isinstance(item, Response)] == [
        ("writer", "said 1"),
        ("critic", "said 1"),
    ]
    assert isinstance(response, Response)
    assert isinstance(response.chat_message, TextMessage)
    assert (response.chat_message.source, response.chat_message.content) == ("society", "The answer.")
    assert response.chat_message.models_usage is not None
    assert response.inner_messages == []
    assert model.create_calls[0]["messages"] == [
        SystemMessage(content="Read:"),
        UserMessage(content="said 1", source="writer"),
        UserMessage(content="said 1", source="critic"),
        SystemMessage(content="Answer:"),
    ]


async def test_a_model_with_one_system_message_reads_directions_of_the_user() -> None:
    agent, _, model = society(info=SHY, instruction="Read:", response_prompt="Answer:")

    await agent.run(task="Go")

    messages = model.create_calls[0]["messages"]
    assert messages[0] == UserMessage(content="Read:", source="user")
    assert messages[-1] == UserMessage(content="Answer:", source="user")


async def test_the_team_begins_anew_and_is_told_what_was_before() -> None:
    agent, (writer, critic), _ = society(["First.", "Second."])
    await agent.on_messages([TASK], CancellationToken())
    assert (writer.count, critic.count) == (0, 0)

    heard: list[Any] = []
    writer.heard = heard  # on_reset replaces it
    await agent.on_messages([TextMessage(content="Again.", source="user")], CancellationToken())

    before, task = heard
    assert isinstance(before, HandoffMessage)
    assert (before.source, before.target, before.content) == ("society", "", "relevant previous messages")
    assert before.context == [
        UserMessage(content="Write a line.", source="user"),
        UserMessage(content="First.", source="society"),
    ]
    assert task.content == "Again."


async def test_what_comes_along_with_a_handoff_is_remembered() -> None:
    agent, _, _ = society()
    along: list[LLMMessage] = [UserMessage(content="the results", source="tool")]

    await agent.on_messages(
        [HandoffMessage(content="Yours.", source="a", target="society", context=along)], CancellationToken()
    )

    assert [message.content for message in await agent.model_context.get_messages()] == [
        "the results",
        "Yours.",
        "The answer.",
    ]


async def test_a_team_that_says_nothing_is_no_response() -> None:
    class Silent(RoundRobinGroupChat):
        async def run_stream(self, **_: Any) -> AsyncGenerator[Said | TaskResult, None]:
            yield TaskResult(messages=[])

    agent = SocietyOfMindAgent("society", Silent([Talker("writer")]), ReplayChatCompletionClient([]))

    assert (await agent.run(task="?")).messages[-1].to_text() == "No response."


async def test_a_turn_that_fails_leaves_nothing() -> None:
    agent, (writer, critic), _ = society(fails_at=1)

    with pytest.raises(RuntimeError, match="out of order"):
        await agent.run(task="Go")

    assert (writer.count, critic.count) == (0, 0)
    assert await agent.model_context.get_messages() == []


async def test_a_model_that_calls_tools_is_told_off() -> None:
    agent, _, _ = society([[FunctionCall(id="1", name="f", arguments="{}")]])

    with pytest.raises(NoResponseError, match="The model of 'society' asked for tools"):
        await agent.run(task="Go")


async def test_a_reset_forgets() -> None:
    agent, _, _ = society()
    await agent.run(task="Go")

    await agent.on_reset(CancellationToken())

    assert await agent.model_context.get_messages() == []


async def test_the_context_is_saved() -> None:
    first, _, _ = society()
    second, _, _ = society()
    await first.run(task="Go")

    await second.load_state(await first.save_state())

    assert await second.model_context.get_messages() == await first.model_context.get_messages() != []


async def test_what_autogen_saved_can_be_loaded() -> None:
    agent, talkers, _ = society(
        context=UnboundedChatCompletionContext([UserMessage(content="a", source="b")])
    )
    team = dict((await agent.save_state())["inner_team_state"])
    talkers[0].count = 5

    await agent.load_state({"type": "SocietyOfMindAgentState", "version": "1.0.0", "inner_team_state": team})

    assert talkers[0].count == 0
    assert len(await agent.model_context.get_messages()) == 1


class Odd(BufferedChatCompletionContext):
    """A context with something else to save than messages."""

    async def save_state(self) -> dict[str, Any]:
        return {"odd": True, **await super().save_state()}


@pytest.mark.parametrize(
    ("context", "is_kept"), [(UnboundedChatCompletionContext(), True), (Odd(buffer_size=5), False)]
)
async def test_the_context_is_kept_in_a_list_of_the_bus(
    context: ChatCompletionContext, is_kept: bool
) -> None:
    kept: list[LLMMessage] = []
    agent, _, _ = society(context=context)
    agent.keep_context_in(kept)
    await agent.run(task="Go")
    saved = await agent.save_beside_context()

    assert [message.content for message in kept] == (["Go", "The answer."] if is_kept else [])
    assert (saved["model_context"] is None) is is_kept

    other, _, _ = society(context=Odd(buffer_size=5) if not is_kept else None)
    other.keep_context_in(kept)
    await other.load_beside_context(saved)
    assert [message.content for message in await other.model_context.get_messages()] == ["Go", "The answer."]


async def test_conversations_have_teams_of_their_own_and_share_the_model() -> None:
    agent, talkers, model = society(["A.", "B."])
    twin = agent.for_conversation()

    await twin.run(task="Go")

    assert len(model.create_calls) == 1
    assert talkers[0].heard == []
    assert await agent.model_context.get_messages() == []
    assert len(await twin.model_context.get_messages()) == 2
