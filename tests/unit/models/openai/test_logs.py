"""What clients log of their calls."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from callboard import EVENT_LOGGER_NAME
from callboard.logging import LLMCallEvent, LLMStreamEndEvent, LLMStreamStartEvent
from callboard.memory.llm_messages import LLMMessage, UserMessage
from callboard.models.openai import OpenAIChatCompletionClient
from tests.helpers.openai_server import Answer, OpenAIServer, Usage

HELLO: list[LLMMessage] = [UserMessage(content="Hello", source="ada")]


async def ask(client: OpenAIChatCompletionClient) -> None:
    await client.create(HELLO)
    async for _ in client.create_stream(HELLO):
        pass


async def test_calls_and_streams_are_logged_at_debug_only(
    server: OpenAIServer, client: OpenAIChatCompletionClient, caplog: pytest.LogCaptureFixture
) -> None:
    server.script(*[Answer("Hi.", usage=Usage(prompt=11, completion=4))] * 4)
    caplog.set_level(logging.INFO, EVENT_LOGGER_NAME)
    await ask(client)
    assert not [record for record in caplog.records if record.name == EVENT_LOGGER_NAME]
    caplog.set_level(logging.DEBUG, EVENT_LOGGER_NAME)
    await ask(client)
    events: list[Any] = [record.msg for record in caplog.records if record.name == EVENT_LOGGER_NAME]
    assert [type(event) for event in events] == [LLMCallEvent, LLMStreamStartEvent, LLMStreamEndEvent]
    said = [{"role": "user", "content": "Hello", "name": "ada"}]
    assert events[0].kwargs["messages"] == events[1].kwargs["messages"] == said
    for event in (events[0], events[2]):
        assert (event.prompt_tokens, event.completion_tokens) == (11, 4)
        assert event.kwargs["response"]["content"] == "Hi."
    assert "sk-test" not in caplog.text
