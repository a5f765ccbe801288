"""Work beside other work: beside a block, several things together, calls that may block in threads, a loop of its own."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from typing import Any, Final, Protocol, TypeVar


@contextlib.asynccontextmanager
async def meanwhile(work: Coroutine[Any, Any, object], name: str) -> AsyncIterator[None]:
    """Runs `work` in a task of its own while the block runs, then cancels it.

    Args:
        work: What goes on meanwhile.
        name: Of its task.

    Raises:
        Exception: What the work failed with; it is raised when the block has ended.
    """
    task = asyncio.create_task(work, name=name)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


T = TypeVar("T")


async def together(works: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Do several things at the same time.

    Each begins, in their order, before one of them goes on: what they do until they first await is done in that order.

    Args:
        works: What is to be done.

    Returns:
        Their results, in their order.

    Raises:
        BaseException: What the first one raised that failed; the others have been cancelled, and have ended.
    """
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def in_thread(name: str, call: Callable[[], T]) -> T:
    """Run a function in a thread of its own.

    Not in the loop's pool: functions that hang would fill it, block other users of the pool, and keep the process from
    ending. It sees the context variables of the caller. When the caller is cancelled the thread goes on.

    Args:
        name: Of the thread, for people who look at threads.
        call: The function.

    Returns:
        What it returned.

    Raises:
        BaseException: What it raised.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def run() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = context.run(call)
        except BaseException as raised:  # noqa: BLE001 - it is raised again where it is awaited
            error = raised
        try:
            loop.call_soon_threadsafe(_settle, done, result, error)
        except RuntimeError:
            return  # the loop is closed: no caller waits any more

    threading.Thread(target=run, name=name, daemon=True).start()
    return await done


def _settle(done: asyncio.Future[T], result: T, error: BaseException | None) -> None:
    if done.done():
        return
    if error is None:
        done.set_result(result)
    elif isinstance(error, StopIteration):
        done.set_exception(RuntimeError(f"the function raised {error!r}"))  # a future refuses a StopIteration
    else:
        done.set_exception(error)


class Connected(Protocol):
    """Something with connections of the event loop in which it was used."""

    async def leave_loop(self) -> None:
        """End the connections; it may be used again, in another loop."""
        ...


_connected: Final = weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, "weakref.WeakSet[Connected]"]()


def of_this_loop(connected: Connected) -> None:
    """Have the connections of something ended with the event loop that runs, if `run_in_loop` has made that."""
    _connected.setdefault(asyncio.get_running_loop(), weakref.WeakSet()).add(connected)


def run_in_loop(work: Coroutine[Any, Any, T]) -> T:
    """Do something in an event loop of its own, as `asyncio.run` does; what connected itself meanwhile is closed at its end.

    Else its connections would be left to the garbage collector, which finds their loop closed.
    """

    async def run() -> T:
        try:
            return await work
        finally:
            for connected in list(_connected.pop(asyncio.get_running_loop(), ())):
                await connected.leave_loop()

    return asyncio.run(run())
