"""Model calls of strategies, recorded."""

from __future__ import annotations

from callboard.models.base import ChatCompletionClient
from callboard.models.recorded import RecordedChatCompletionClient


def recorded(client: ChatCompletionClient) -> ChatCompletionClient:
    """A client whose answers are not paid again where a strategy chooses again, because its process died."""
    return (
        client if isinstance(client, RecordedChatCompletionClient) else RecordedChatCompletionClient(client)
    )
