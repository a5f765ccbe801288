"""What an agent puts into its model context, and sends to its model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from callboard.memory.llm_messages import LLMMessage
from callboard.messages.base import BaseChatMessage
from callboard.messages.chat import HandoffMessage
from callboard.models.base import ChatCompletionClient

from .assistant.images import without_images


class Context(Protocol):
    """What messages are added to: a model context, or the draft of a turn."""

    async def add_message(self, message: LLMMessage) -> None:
        """Add the newest message."""
        ...


async def add_heard(context: Context, messages: Sequence[BaseChatMessage]) -> None:
    """Add what was said to a context; of a handoff, first what comes along with it."""
    for message in messages:
        if isinstance(message, HandoffMessage):
            for along in message.context:
                await context.add_message(along)
        await context.add_message(message.to_model_message())


def fit_for(client: ChatCompletionClient, messages: Sequence[LLMMessage]) -> list[LLMMessage]:
    """The messages as the model can read them: without pictures where it can't see."""
    return list(messages) if client.model_info["vision"] else without_images(messages)
