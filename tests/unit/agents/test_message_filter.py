"""The agent that hears only a part of what is said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pydantic import ValidationError

from callboard import CancellationToken
from callboard.agents import (
    BaseChatAgent,
    MessageFilterAgent,
    MessageFilterConfig,
    PerSourceFilter,
    Response,
)
from callboard.memory.contexts import Conversation
from callboard.memory.llm_messages import LLMMessage, UserMessage
from callboard.messages import BaseChatMessage, TextMessage


class Listener(BaseChatAgent):
    """Remembers what it heard, and what was done to it."""

    def __init__(self) -> None:
        super().__init__("listener", "listens")
        self.heard: list[str] = []
        self.done: list[str] = []

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        self.heard += [message.to_text() for message in messages]
        return Response(chat_message=TextMessage(content=" ".join(self.heard), source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        self.done.append("reset")

    async def on_pause(self, cancellation_token: CancellationToken) -> None:
        self.done.append("pause")

    async def on_resume(self, cancellation_token: CancellationToken) -> None:
        self.done.append("resume")

    async def close(self) -> None:
        self.done.append("close")

    async def save_state(self) -> Mapping[str, Any]:
        return {"heard": self.heard}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.heard = list(state["heard"])

    def keep_context_in(self, messages: Conversation) -> None:
        messages.append(UserMessage(content="kept", source="listener"))

    async def save_beside_context(self) -> Mapping[str, Any] | None:
        return {"beside": self.heard} if self.heard else None

    async def load_beside_context(self, state: Mapping[str, Any]) -> None:
        self.heard = list(state["beside"])


THREAD = [TextMessage(content=text, source=text[0]) for text in ("u1", "a1", "u2", "b1", "a2", "a3")]


def filtered(*filters: PerSourceFilter, agent: BaseChatAgent | None = None) -> MessageFilterAgent:
    return MessageFilterAgent("ear", agent or Listener(), MessageFilterConfig(per_source=list(filters)))


@pytest.mark.parametrize(
    ("filters", "heard"),
    [
        ([], ""),
        ([PerSourceFilter(source="a")], "a1 a2 a3"),
        ([PerSourceFilter(source="a", position="first", count=2)], "a1 a2"),
        ([PerSourceFilter(source="a", position="last", count=2)], "a2 a3"),
        ([PerSourceFilter(source="a", position="last", count=9)], "a1 a2 a3"),
        ([PerSourceFilter(source="a", position="last")], "a1 a2 a3"),
        ([PerSourceFilter(source="a", position="first", count=0)], "a1 a2 a3"),
        ([PerSourceFilter(source="a", count=1)], "a1 a2 a3"),
        ([PerSourceFilter(source="nobody")], ""),
        (
            [
                PerSourceFilter(source="b", position="last", count=1),
                PerSourceFilter(source="u", position="first", count=1),
            ],
            "b1 u1",
        ),
    ],
)
async def test_only_what_passes_is_heard(filters: list[PerSourceFilter], heard: str) -> None:
    response = await filtered(*filters).on_messages(THREAD, CancellationToken())
    items = [item async for item in filtered(*filters).on_messages_stream(THREAD, CancellationToken())]

    assert response.chat_message.to_text() == heard
    assert isinstance(items[-1], Response)
    assert items[-1].chat_message.to_text() == heard


def test_what_it_is() -> None:
    agent = filtered()

    assert agent.name == "ear"
    assert agent.description == "listens (with message filtering)"
    assert agent.produced_message_types == (TextMessage,)


@pytest.mark.parametrize("given", [{"position": "middle"}, {"count": -1}])
def test_filters_that_make_no_sense_are_refused(given: Any) -> None:
    with pytest.raises(ValidationError):
        PerSourceFilter(source="a", **given)


async def test_everything_else_reaches_the_agent_inside() -> None:
    listener = Listener()
    agent, token = filtered(agent=listener), CancellationToken()

    await agent.on_pause(token)
    await agent.on_resume(token)
    await agent.on_reset(token)
    await agent.close()

    assert listener.done == ["pause", "resume", "reset", "close"]


async def test_the_state_of_the_agent_inside_is_saved() -> None:
    first, second = Listener(), Listener()
    await filtered(PerSourceFilter(source="a"), agent=first).on_messages(THREAD, CancellationToken())

    await filtered(agent=second).load_state(await filtered(agent=first).save_state())

    assert second.heard == ["a1", "a2", "a3"]


async def test_what_autogen_saved_changes_nothing() -> None:
    listener = Listener()
    listener.heard = ["before"]

    await filtered(agent=listener).load_state({"type": "BaseState", "version": "1.0.0"})

    assert listener.heard == ["before"]


async def test_the_agent_inside_is_kept_on_the_bus() -> None:
    first, second = Listener(), Listener()
    kept: list[LLMMessage] = []
    filtered(agent=first).keep_context_in(kept)
    assert [message.content for message in kept] == ["kept"]
    assert await filtered(agent=first).save_beside_context() is None

    first.heard = ["a1"]
    saved = await filtered(agent=first).save_beside_context()
    assert saved is not None
    await filtered(agent=second).load_beside_context(saved)

    assert second.heard == ["a1"]


async def test_conversations_do_not_hear_each_other() -> None:
    listener = Listener()
    twin = filtered(PerSourceFilter(source="a"), agent=listener).for_conversation()

    await twin.on_messages(THREAD, CancellationToken())

    assert listener.heard == []
