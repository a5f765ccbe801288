"""Members of teams whose models cost something."""

from __future__ import annotations

from typing import Any

from callboard.agents import AssistantAgent
from callboard.models import ChatCompletionClient, Delayed, ReplayChatCompletionClient


class Limited(ReplayChatCompletionClient):
    """A model that counts, and whose answers have at most two tokens."""

    @property
    def max_completion_tokens(self) -> int | None:
        return 2


def paid(answer: str = "one two", model: str = "gpt", seconds: float = 0.0) -> ReplayChatCompletionClient:
    """A client whose answers are paid for; tokens are words."""
    client = Limited(default=Delayed(seconds, answer), model=model)
    client.set_cached_bool_value(False)
    return client


def spender(name: str, client: ChatCompletionClient | None = None, **options: Any) -> AssistantAgent:
    """An assistant with such a client."""
    return AssistantAgent(name, client or paid(), system_message=None, **options)
