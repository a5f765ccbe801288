"""Small agents for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from callboard import CancellationToken
from callboard.agents import BaseChatAgent, Response
from callboard.messages import BaseChatMessage, TextMessage


class Talker(BaseChatAgent):
    """Says `word` and how often it has spoken; remembers what it heard."""

    def __init__(self, name: str, word: str = "said", fails_at: int = 0) -> None:
        super().__init__(name, f"says {word}")
        self.word = word
        self.count = 0
        self.heard: list[BaseChatMessage] = []
        self.fails_at = fails_at

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        self.heard += messages
        self.count += 1
        if self.count == self.fails_at:
            raise OSError("out of order")
        return Response(chat_message=TextMessage(content=f"{self.word} {self.count}", source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        self.count = 0
        self.heard = []

    async def save_state(self) -> Mapping[str, Any]:
        return {"count": self.count}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.count = state["count"]
