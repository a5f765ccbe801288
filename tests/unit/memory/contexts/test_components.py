"""Model contexts as plain data and back."""

from __future__ import annotations

from typing import Any

import pytest

from callboard import Component, ComponentModel
from callboard.foundation.component import ComponentTypeError, NotDumpableError
from callboard.memory.contexts import (
    BufferedChatCompletionContext,
    ChatCompletionContext,
    HeadAndTailChatCompletionContext,
    SummarisingChatCompletionContext,
    TokenLimitedChatCompletionContext,
    UnboundedChatCompletionContext,
)
from callboard.memory.llm_messages import Image, LLMMessage, SystemMessage, UserMessage
from callboard.models import ReplayChatCompletionClient
from callboard.tools import FunctionTool

PNG = Image(url="https://example.org/a.png")
MESSAGES: list[LLMMessage] = [
    SystemMessage(content="be kind"),
    UserMessage(content=["look", PNG], source="user"),
]


def replay() -> ReplayChatCompletionClient:
    return ReplayChatCompletionClient(["a summary"])


def again(context: Component[Any]) -> Any:
    """What a dump becomes after it was JSON."""
    assert isinstance(context, ChatCompletionContext)
    text = context.dump_component().model_dump_json()
    return ChatCompletionContext.load_component(ComponentModel.model_validate_json(text))


@pytest.mark.parametrize(
    ("context", "config"),
    [
        (UnboundedChatCompletionContext(MESSAGES), {}),
        (BufferedChatCompletionContext(5, MESSAGES), {"buffer_size": 5}),
        (HeadAndTailChatCompletionContext(2, 3, MESSAGES), {"head_size": 2, "tail_size": 3}),
        (
            TokenLimitedChatCompletionContext(replay(), token_limit=50, initial_messages=MESSAGES),
            {"token_limit": 50},
        ),
        (
            SummarisingChatCompletionContext(
                replay(), max_messages=9, keep=2, prompt="Shorten.", initial_messages=MESSAGES
            ),
            {"max_messages": 9, "keep": 2, "prompt": "Shorten."},
        ),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_each_comes_back(context: Component[Any], config: dict[str, Any]) -> None:
    assert isinstance(context, ChatCompletionContext)
    dump = context.dump_component()
    assert dump.provider == f"callboard.memory.contexts.{type(context).__name__}"
    assert dump.component_type == "chat_completion_context"
    assert config.items() <= dump.config.items()
    loaded = again(context)
    assert type(loaded) is type(context)
    assert await loaded.get_messages() == MESSAGES
    assert loaded.dump_component() == dump


async def test_what_was_said_since_is_no_part_of_it() -> None:
    context = BufferedChatCompletionContext(5)
    await context.add_message(MESSAGES[0])
    assert context.dump_component().config == {"buffer_size": 5}
    assert UnboundedChatCompletionContext(messages=[*MESSAGES]).dump_component().config == {}


@pytest.mark.parametrize(
    ("name", "config"),
    [
        ("UnboundedChatCompletionContext", {}),
        ("BufferedChatCompletionContext", {"buffer_size": 3}),
        ("HeadAndTailChatCompletionContext", {"head_size": 3, "tail_size": 4}),
        (
            "TokenLimitedChatCompletionContext",
            {
                "model_client": {
                    "provider": "autogen_ext.models.replay.ReplayChatCompletionClient",
                    "component_type": "replay_chat_completion_client",
                    "config": {"chat_completions": ["a"]},
                },
                "token_limit": 50,
                "tool_schema": [],
            },
        ),
    ],
)
async def test_those_of_autogen_are_read(name: str, config: dict[str, Any]) -> None:
    said = {"initial_messages": [{"content": "hi", "source": "u", "type": "UserMessage"}]}
    loaded = ChatCompletionContext.load_component(
        {"provider": f"autogen_core.model_context.{name}", "config": {**config, **said}}
    )
    assert type(loaded).__name__ == name
    assert await loaded.get_messages() == [UserMessage(content="hi", source="u")]


def test_tools_are_written_as_their_schemas() -> None:
    tool = FunctionTool(len_of, "the length")
    context = TokenLimitedChatCompletionContext(replay(), token_limit=9, tool_schema=[tool])
    assert context.dump_component().config["tool_schema"] == [tool.schema]


def len_of(text: str) -> int:
    return len(text)


def test_its_client_has_to_be_a_component() -> None:
    class Counter:
        def count_tokens(self, messages: Any, *, tools: Any = ()) -> int:
            return 1

        def remaining_tokens(self, messages: Any, *, tools: Any = ()) -> int:
            return 1

    with pytest.raises(NotDumpableError, match="Counter is no component"):
        TokenLimitedChatCompletionContext(Counter()).dump_component()


def test_its_client_has_to_be_a_client() -> None:
    dump = {
        "provider": "callboard.memory.contexts.TokenLimitedChatCompletionContext",
        "config": {"model_client": {"provider": "callboard.InMemoryStore", "config": {}}},
    }
    with pytest.raises(ComponentTypeError, match="no TokenCounter"):
        ChatCompletionContext.load_component(dump)
