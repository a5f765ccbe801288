"""Chat agents for tests of teams: they say what they heard, keep count, and fail when they are told to."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from callboard.agents import BaseChatAgent, Response, TaskResult
from callboard.core.cancellation import CancellationToken
from callboard.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    ModelClientStreamingChunkEvent,
    TextMessage,
    ThoughtEvent,
)


class Echo(BaseChatAgent):
    """Says its name, how often it has spoken, and what it heard; what it remembers can be saved."""

    def __init__(self, name: str, *, thinks: bool = False, fails_at: int = 0) -> None:
        super().__init__(name, f"the agent {name}")
        self.spoken = 0
        self.calls: list[str] = []
        self._thinks = thinks
        self._fails_at = fails_at

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        self.spoken += 1
        if self.spoken == self._fails_at:
            raise RuntimeError(f"{self.name} has nothing to say")
        heard = ",".join(message.to_text().split(":")[0] for message in messages)
        inner = [ThoughtEvent(content="hm", source=self.name)] if self._thinks else None
        said = TextMessage(content=f"{self.name}{self.spoken}:{heard}", source=self.name)
        return Response(chat_message=said, inner_messages=inner)

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        self.spoken = 0

    async def on_pause(self, cancellation_token: CancellationToken) -> None:
        self.calls.append("pause")

    async def on_resume(self, cancellation_token: CancellationToken) -> None:
        self.calls.append("resume")

    async def save_state(self) -> Mapping[str, Any]:
        return {"spoken": self.spoken}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.spoken = state["spoken"]


class Streamer(Echo):
    """The same, word by word."""

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[BaseAgentEvent | BaseChatMessage | Response, None]:
        response = await self.on_messages(messages, cancellation_token)
        for piece in response.chat_message.to_text().split(":"):
            yield ModelClientStreamingChunkEvent(content=piece, source=self.name)
        yield response


def texts(result: TaskResult) -> list[str]:
    """What was said, as text."""
    return [message.to_text() for message in result.messages]
