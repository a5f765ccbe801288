"""Agents of the tests of teams: what they say depends on what they have heard, and on nothing else."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from callboard.agents import BaseChatAgent, Response, TaskResult
from callboard.agents.base import Said, Task, Team
from callboard.core.cancellation import CancellationToken
from callboard.messages import (
    BaseAgentEvent,
    BaseChatMessage,
    HandoffMessage,
    TextMessage,
    ThoughtEvent,
)


class Parrot(BaseChatAgent):
    """Says its name, how often it has spoken, and of what it has heard who said it and the first word.

    Args:
        name: Its name.
        lines: What it says instead, one after the other, as long as there are any.
        thinks: Whether it lets a thought be seen first.
    """

    def __init__(self, name: str, lines: Sequence[str] = (), *, thinks: bool = False) -> None:
        super().__init__(name, f"is {name}")
        self._lines = list(lines)
        self._thinks = thinks
        self.spoken = 0
        self.heard: list[list[str]] = []

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (TextMessage,)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        self.heard.append([message.to_text() for message in messages])
        said = " ".join(f"{message.source}:{message.to_text().split()[0]}" for message in messages)
        text = self._lines[self.spoken] if self.spoken < len(self._lines) else None
        self.spoken += 1
        content = f"{self.name}{self.spoken} [{said}]" if text is None else text
        inner = [ThoughtEvent(content="hm", source=self.name)] if self._thinks else []
        return Response(chat_message=self.message(content), inner_messages=inner)

    def message(self, content: str) -> BaseChatMessage:
        """What it says."""
        return TextMessage(content=content, source=self.name)

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        self.spoken = 0

    async def save_state(self) -> Mapping[str, Any]:
        return {"spoken": self.spoken}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        self.spoken = int(state["spoken"])


class Passer(Parrot):
    """Hands over to those whom its lines name, one after the other, as long as there are any."""

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        return (HandoffMessage, TextMessage)

    def message(self, content: str) -> BaseChatMessage:
        if self.spoken > len(self._lines):
            return super().message(content)
        return HandoffMessage(content=f"to {content}", target=content, source=self.name)


class Broken(Parrot):
    """Can't speak the first time, nor when it is asked to again, as often as it is told."""

    def __init__(self, name: str, times: int = 1) -> None:
        super().__init__(name)
        self.times = times

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        if self.times:
            self.times -= 1
            raise LookupError(f"{self.name} has lost its notes")
        return await super().on_messages(messages, cancellation_token)


def text_of(said: Said) -> str:
    """Who said it, what, and what it is where that is not a text."""
    kind = "" if isinstance(said, TextMessage) else f"{type(said).__name__} "
    return f"{kind}{said.source}: {said.to_text()}"


def texts_of(result: TaskResult) -> list[str]:
    """All that was said in a run."""
    return [text_of(message) for message in result.messages]


def speakers_of(result: TaskResult) -> str:
    """Who said something, but for events, with a blank between them."""
    return " ".join(message.source for message in result.messages if not isinstance(message, BaseAgentEvent))


async def shown_by(team: Team, task: Task) -> list[Said | TaskResult]:
    """All that the readers of a run see."""
    stream: AsyncGenerator[Said | TaskResult, None] = team.run_stream(task=task)
    return [item async for item in stream]
