"""Where a group chat shows what happens, and where people answer."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar

from .events import ChatEvent
from .waiting import value_of


class IOStream:
    """The terminal. Derive from it for another place, and make it the default with `set_default`.

    `input` may be async in a subclass; here it waits in a thread.
    """

    _default: ClassVar[contextvars.ContextVar[IOStream]] = contextvars.ContextVar("callboard_io_stream")

    def send(self, event: ChatEvent) -> None:
        """Show an event."""
        print(event.text)

    async def input(self, prompt: str) -> str:
        """Ask the person at the other end."""
        return await asyncio.to_thread(input, prompt)

    @staticmethod
    def get_default() -> IOStream:
        """The one in force here; the terminal, if none was set."""
        found = IOStream._default.get(None)
        return IOStream() if found is None else found

    @staticmethod
    @contextmanager
    def set_default(stream: IOStream) -> Iterator[None]:
        """Make it the one in force in a ``with`` block, for all that is called in it."""
        token = IOStream._default.set(stream)
        try:
            yield
        finally:
            IOStream._default.reset(token)


def is_given() -> bool:
    """Whether another stream than the terminal is in force."""
    return IOStream._default.get(None) is not None


async def ask_person(prompt: str) -> str:
    """What a person answers; also where `input` of a stream is no async function."""
    answer: str = await value_of(IOStream.get_default().input(prompt))
    return answer
