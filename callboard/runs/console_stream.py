"""Where the agents of group chats show things and ask people, in a run: in its events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from callboard.asking import Question
from callboard.groupchat.events import ChatEvent
from callboard.groupchat.stream import IOStream


class RunStream(IOStream):
    """Takes the place of the terminal.

    Args:
        ask: Asks a question of the run.
        show: Shows a text to its readers.
    """

    def __init__(self, ask: Callable[[Question], Awaitable[Any]], show: Callable[[str], None]) -> None:
        self._ask = ask
        self._show = show

    def send(self, event: ChatEvent) -> None:
        """Show an event."""
        self._show(event.text)

    async def input(self, prompt: str) -> str:
        """Ask whoever follows the run."""
        text = prompt or "?"  # a question has a text
        return str(await self._ask(Question(text=text, name=text)))
