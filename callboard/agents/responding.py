"""What a stream ends with: the Response of an agent, or the TaskResult of a team."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

from .chat_agent import Response
from .errors import NoResponseError, NoResultError
from .task import Said, TaskResult


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


async def result_of(items: AsyncGenerator[Said | TaskResult, None], name: str) -> TaskResult:
    """The TaskResult of what `run_stream` yields, which is read to its end; the rest is left out.

    Args:
        items: The stream; it is closed.
        name: Of the team.

    Raises:
        NoResultError: There is none (a RuntimeError).
    """
    result: TaskResult | None = None
    async with aclosing(items) as stream:
        async for item in stream:
            if isinstance(item, TaskResult):
                result = item
    if result is None:
        raise NoResultError(name)
    return result
