"""Model contexts as plain data, with the fields that AutoGen writes."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from callboard.foundation.component import ComponentModel
from callboard.memory.llm_messages import LLMMessage


class ChatCompletionContextConfig(BaseModel):
    """A context as plain data.

    What was said since is its state, see `save_state`, and where it is kept is a matter of the program: neither is here.

    Attributes:
        initial_messages: the conversation that it begins with.
    """

    model_config = ConfigDict(protected_namespaces=())

    initial_messages: list[LLMMessage] | None = None


class UnboundedChatCompletionContextConfig(ChatCompletionContextConfig):
    """An UnboundedChatCompletionContext as plain data."""


class BufferedChatCompletionContextConfig(ChatCompletionContextConfig):
    """A BufferedChatCompletionContext as plain data; the field is its argument."""

    buffer_size: int


class HeadAndTailChatCompletionContextConfig(ChatCompletionContextConfig):
    """A HeadAndTailChatCompletionContext as plain data; the fields are its arguments."""

    head_size: int
    tail_size: int


class TokenLimitedChatCompletionContextConfig(ChatCompletionContextConfig):
    """A TokenLimitedChatCompletionContext as plain data; the fields are its arguments."""

    model_client: ComponentModel
    token_limit: int | None = None
    tool_schema: list[dict[str, Any]] | None = None


class SummarisingChatCompletionContextConfig(ChatCompletionContextConfig):
    """A SummarisingChatCompletionContext as plain data; the fields are its arguments."""

    model_client: ComponentModel
    max_messages: int = 40
    keep: int = 10
    prompt: str | None = None
