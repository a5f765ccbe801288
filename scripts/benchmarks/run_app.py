"""The app whose runs are measured: agents that take 20 ms to say what the task was."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from callboard import App
from callboard.agents import BaseChatAgent, Response
from callboard.core.cancellation import CancellationToken
from callboard.messages import BaseChatMessage, TextMessage
from callboard.runs import run_team

THINKING: Final = 0.02  # seconds
TURNS: Final = 3


class Slow(BaseChatAgent):
    """Says after a while what it heard; a member that heard an answer says the same."""

    @property
    def produced_message_types(self) -> Sequence[type[BaseChatMessage]]:
        """Texts."""
        return (TextMessage,)

    async def on_messages(
        self, messages: Sequence[BaseChatMessage], cancellation_token: CancellationToken
    ) -> Response:
        """The first thing that it heard."""
        await asyncio.sleep(THINKING)
        text = messages[0].to_text().removeprefix("heard ")
        return Response(chat_message=TextMessage(content=f"heard {text}", source=self.name))

    async def on_reset(self, cancellation_token: CancellationToken) -> None:
        """Nothing is remembered."""


app = App("measured-runs")
team = app.team(run_team(*(Slow(name, name) for name in ("ann", "bob", "cy")), name="slow", max_turns=TURNS))
