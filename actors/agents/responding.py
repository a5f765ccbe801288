"""The Response of a stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from .chat_agent import Response
from .errors import NoResponseError
from .task import Said


async def response_of(items: AsyncGenerator[Said | Response, None], name: str) -> Response:
    """The Response at the end of what `on_messages_stream` yields; the rest is left out.

    Args:
        items: The stream; it is closed.
        name: Of the agent.

    Raises:
        NoResponseError: There is none (a RuntimeError).
    """
    async with aclosing(items) as stream:
        async for item in stream:
            if isinstance(item, Response):
                return item
    raise NoResponseError(name)
