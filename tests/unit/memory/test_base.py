"""Contents cross JSON and the bus; contexts get one message."""

from __future__ import annotations

from typing import Any

import pytest

from callboard.broker.codec import MessageRegistry
from callboard.memory import MemoryContent, MemoryMimeType, MemoryQueryResult, UpdateContextResult
from callboard.memory.base import add_to_context, last_text
from callboard.memory.contexts import UnboundedChatCompletionContext
from callboard.memory.errors import MemoryValueError
from callboard.memory.llm_messages import AssistantMessage, FunctionCall, Image, SystemMessage, UserMessage

PNG = Image.from_bytes(b"\x89PNG\r\n\x1a\n rest")

CONTENTS = [
    MemoryContent(content="plain", mime_type=MemoryMimeType.TEXT),
    MemoryContent(content="# title", mime_type=MemoryMimeType.MARKDOWN, metadata={"a": 1, "b": [1, None]}),
    MemoryContent(content={"a": {"b": [1, 2.5]}}, mime_type=MemoryMimeType.JSON),
    MemoryContent(content="{}", mime_type=MemoryMimeType.JSON),
    MemoryContent(content=b"\x00\xff\xfebytes", mime_type=MemoryMimeType.BINARY),
    MemoryContent(content=PNG, mime_type=MemoryMimeType.IMAGE),
    MemoryContent(content="x", mime_type="text/x-own"),
]


@pytest.mark.parametrize("content", CONTENTS, ids=lambda one: str(one.mime_type))
def test_a_content_is_the_same_after_json(content: MemoryContent) -> None:
    assert MemoryContent.model_validate_json(content.model_dump_json()) == content


@pytest.mark.parametrize("content", CONTENTS, ids=lambda one: str(one.mime_type))
def test_a_content_is_the_same_behind_the_bus(content: MemoryContent) -> None:
    registry = MessageRegistry()
    result = UpdateContextResult(memories=MemoryQueryResult(results=[content]))
    entry = registry.entry_for(result)

    assert entry.decode(entry.encode(result)) == result


def test_the_text_of_a_content() -> None:
    assert [one.text for one in CONTENTS[:4]] == ["plain", "# title", '{"a": {"b": [1, 2.5]}}', "{}"]
    with pytest.raises(MemoryValueError, match=r"application/octet-stream \(bytes\) has no text"):
        _ = CONTENTS[4].text


async def test_a_context_gets_a_numbered_list_as_one_system_message() -> None:
    context = UnboundedChatCompletionContext()

    result = await add_to_context(context, "What you know", [CONTENTS[0], CONTENTS[5]])

    (message,) = await context.get_messages()
    assert message == SystemMessage(content="\nWhat you know:\n1. plain\n2. (image/*)")
    assert result.memories.results == [CONTENTS[0], CONTENTS[5]]


async def test_a_context_gets_no_message_without_memories() -> None:
    context = UnboundedChatCompletionContext()

    result = await add_to_context(context, "What you know", [])

    assert await context.get_messages() == []
    assert result.memories.results == []


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (UserMessage(content="where?", source="u"), "where?"),
        (UserMessage(content=["look", PNG, "there"], source="u"), "look\n\nthere"),
        (
            AssistantMessage(content=[FunctionCall(id="1", arguments='{"q": 1}', name="f")], source="a"),
            '{"q": 1}',
        ),
    ],
)
async def test_the_subject_of_a_context_is_the_text_of_its_last_message(message: Any, text: str) -> None:
    first = UserMessage(content="first", source="u")

    assert await last_text(UnboundedChatCompletionContext(initial_messages=[first, message])) == text


async def test_an_empty_context_has_no_subject() -> None:
    assert await last_text(UnboundedChatCompletionContext()) == ""
