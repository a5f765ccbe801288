"""A team whose member speaks when its gate is opened, for tests in which its manager is away while orders come.

The manager is in a process of its own, the member in that of the test. Where the manager dies, dying.py is told.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

from callboard import App
from callboard.teams import RoundRobinGroupChat
from tests.helpers.chat import Echo
from tests.helpers.dying import die_where_told

NAME = "poets"


class Gated(Echo):
    """Speaks when its gate is opened."""

    began: asyncio.Event
    gate: asyncio.Event
    interrupted = 0

    async def on_messages_stream(
        self, messages: Sequence[Any], cancellation_token: Any
    ) -> AsyncGenerator[Any, None]:
        Gated.began.set()
        try:
            await Gated.gate.wait()
        except asyncio.CancelledError:
            Gated.interrupted += 1
            raise
        yield await self.on_messages(messages, cancellation_token)


app = App("ordered")
team = RoundRobinGroupChat([Gated("a")], name=NAME, max_turns=1)
app.team(team)


die_where_told()
