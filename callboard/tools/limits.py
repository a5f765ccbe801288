"""Runs work of tools within a time limit, stops it when it is cancelled, and keeps its ending to itself."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from typing import Any, Final, TypeVar

from callboard.cancellation import CancellationToken

from .errors import ToolEndedError, ToolTimeoutError

logger = logging.getLogger("callboard.actors")

T = TypeVar("T")
GRACE: Final = 2.0  # seconds that cancelled work gets to end
_abandoned: set[asyncio.Future[Any]] = set()


async def run_limited(
    tool: str,
    work: Callable[[CancellationToken], Coroutine[Any, Any, T]],
    token: CancellationToken | None,
    timeout: float | None,
) -> T:
    """Run the work of a tool.

    Args:
        tool: Its name, for errors.
        work: Is given a token of its own, which is cancelled when the work has to end for any reason.
        token: Ends the work when it is cancelled.
        timeout: Seconds until the work is ended; None: no limit.

    Raises:
        ToolTimeoutError: It took too long (a TimeoutError).
        ToolEndedError: It called sys.exit or was cancelled from inside.
        asyncio.CancelledError: The token, or the waiting task, was cancelled.
        Exception: Any error of the work.
    """
    if token is not None and token.is_cancelled():
        raise asyncio.CancelledError(f"cancelled before {tool} began")
    inner = CancellationToken()
    cancelled: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    task: asyncio.Task[T] = asyncio.ensure_future(_contained(tool, work(inner)))
    if token is not None:
        token.link_future(cancelled)
    try:
        await asyncio.wait((task, cancelled), timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
    except asyncio.CancelledError:
        await _end(tool, task, inner)
        raise
    finally:
        was_cancelled = cancelled.cancelled()
        cancelled.cancel()
    if task.done():
        return _outcome(tool, task)
    has_ended = await _end(tool, task, inner)
    if was_cancelled:
        raise asyncio.CancelledError(f"{tool} was cancelled")
    raise ToolTimeoutError(tool, timeout or 0.0, not has_ended)


async def stream_limited(
    tool: str,
    work: Callable[[CancellationToken], AsyncGenerator[T, None]],
    token: CancellationToken | None,
    timeout: float | None,
) -> AsyncIterator[T]:
    """Run the work of a tool that yields; as `run_limited`. It is not ahead of the reader by more than an item."""
    items: asyncio.Queue[T] = asyncio.Queue(1)

    async def pump(inner: CancellationToken) -> None:
        # The whole generator runs in one task: context variables and cancel scopes in it would break otherwise.
        async for item in work(inner):
            await items.put(item)

    running = asyncio.ensure_future(run_limited(tool, pump, token, timeout))
    try:
        while not running.done() or not items.empty():
            getter = asyncio.ensure_future(items.get())
            await asyncio.wait({getter, running}, return_when=asyncio.FIRST_COMPLETED)
            if getter.done():
                yield getter.result()
            else:
                getter.cancel()
        await running
    finally:
        if not running.done():
            running.cancel()
            await asyncio.wait({running})


async def _contained(tool: str, work: Coroutine[Any, Any, T]) -> T:
    """A tool that calls sys.exit() ends itself and not the process: the loop would pass it on at once."""
    try:
        return await work
    except (SystemExit, GeneratorExit) as error:
        raise ToolEndedError(tool, f"it ended itself with {type(error).__name__}") from error


def _outcome(tool: str, task: asyncio.Task[T]) -> T:
    if task.cancelled():
        raise ToolEndedError(tool, "it was cancelled from inside")
    return task.result()


async def _end(tool: str, task: asyncio.Task[Any], inner: CancellationToken) -> bool:
    """Cancels the work; False when it does not care."""
    inner.cancel()
    task.cancel()
    await asyncio.wait({task}, timeout=GRACE)
    if task.done():
        _forget(task)
        return True
    _abandoned.add(task)
    task.add_done_callback(_forget)
    logger.warning("the tool %s ignores that it was cancelled and goes on in the background", tool)
    return False


def _forget(task: asyncio.Future[Any]) -> None:
    """Takes the exception of work that was ended: no caller needs it, and asyncio complains if it is never retrieved."""
    _abandoned.discard(task)
    if not task.cancelled():
        task.exception()
