"""Memories of an assistant."""

from __future__ import annotations

import pytest

from callboard.memory import ListMemory, MemoryContent
from callboard.memory.base import ModelContext, UpdateContextResult
from callboard.messages import MemoryQueryEvent
from callboard.models.errors import ModelConnectionError

from .talking import assistant, brief, prompts, remembered, short


def facts(*texts: str) -> ListMemory:
    return ListMemory(memory_contents=[MemoryContent(content=one, mime_type="text/plain") for one in texts])


class Looking(ListMemory):
    """Remembers what it was shown."""

    seen: object = None

    async def update_context(self, model_context: ModelContext) -> UpdateContextResult:
        self.seen = brief(await model_context.get_messages())
        return await super().update_context(model_context)


async def test_memories_are_asked_in_their_order_and_what_they_find_is_an_event() -> None:
    last = Looking()
    agent, model = assistant("hi", memory=[facts("red"), facts(), last], system_message=None)
    result = await agent.run(task="go")
    event = result.messages[1]
    assert isinstance(event, MemoryQueryEvent)
    assert [one.content for one in event.content] == ["red"]
    assert [short(one)[0] for one in result.messages] == ["TextMessage", "MemoryQueryEvent", "TextMessage"]
    kinds = [kind for kind, _ in prompts(model)[0]]
    assert kinds == ["UserMessage", "SystemMessage"]
    assert "red" in prompts(model)[0][1][1]
    assert last.seen == prompts(model)[0]


async def test_what_a_memory_added_is_taken_back_with_the_turn() -> None:
    agent, _ = assistant(ModelConnectionError("m", "gone"), memory=[facts("red")])
    with pytest.raises(ModelConnectionError):
        await agent.run(task="go")
    assert await remembered(agent) == []
