"""The teams that `scripts/bench teams` measures."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Final

from callboard import App
from callboard.agents import BaseChatAgent, Response
from callboard.core.cancellation import CancellationToken
from callboard.messages import BaseChatMessage, ModelClientStreamingChunkEvent, TextMessage
from callboard.teams import RoundRobinGroupChat

NAMES: Final = ("ann", "bob", "cy")
THINKING: Final = 0.02  # seconds that a slow member takes
PIECES: Final = 20  # of a streamed text
BETWEEN: Final = 0.02  # seconds from one piece to the next


class Canned(BaseChatAgent):
    """Always says the same, at once or after a while."""

    def __init__(self, name: str, seconds: float = 0.0) -> None:
        super().__init__(name, name)
        self._seconds = seconds

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """Texts."""
        return (TextMessage,)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """Says it."""
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return Response(chat_message=TextMessage(content="so it is", source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """There is nothing to forget."""


class Streamed(Canned):
    """Says at what time it says each piece."""

    async def on_messages_stream(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> AsyncGenerator[Any, None]:
        """Says it piece by piece."""
        for _ in range(PIECES):
            await asyncio.sleep(BETWEEN)
            yield ModelClientStreamingChunkEvent(content=str(time.time()), source=self.name)
        yield await self.on_messages(messages, cancellation_token)


def canned(turns: int, **options: Any) -> RoundRobinGroupChat:
    """Three members who answer at once."""
    return RoundRobinGroupChat([Canned(name) for name in NAMES], max_turns=turns, **options)


app = App("teams")
for turns in (100, 1000):
    app.team(canned(turns, name=f"canned{turns}"))
app.team(
    RoundRobinGroupChat([Canned(name, THINKING) for name in NAMES], max_turns=6, name="slow"), concurrency=256
)
app.team(RoundRobinGroupChat([Streamed("ann")], max_turns=3, name="streamed"))
