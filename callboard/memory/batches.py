"""Calls that come while a batch runs, gathered into the next batch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

T = TypeVar("T")
R = TypeVar("R")

UNLIMITED: Final = 2**31


class _Call(NamedTuple, Generic[T, R]):
    item: T
    done: asyncio.Future[R]


class Batches(Generic[T, R]):
    """A queue whose items are worked off in batches, one batch at a time and in order.

    Args:
        run: Works off a batch; returns one result for each item.
        size: Of an item.
        largest: Most that the items of a batch may add up to; a larger item is a batch by itself.
    """

    def __init__(
        self,
        run: Callable[[list[T]], Awaitable[Sequence[R]]],
        size: Callable[[T], int] = lambda _: 1,
        largest: int = UNLIMITED,
    ) -> None:
        self._run = run
        self._size = size
        self._largest = largest
        self._waiting: list[_Call[T, R]] = []
        self._task: asyncio.Task[None] | None = None

    async def add(self, item: T) -> R:
        """The result for an item. An error of a batch is raised in every call that has an item in it."""
        call = _Call[T, R](item, asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if self._task is None:
            self._task = asyncio.create_task(self._work())
        return await call.done

    async def _work(self) -> None:
        try:
            while batch := self._next():
                await self._run_batch(batch)
        finally:
            # There is no await between the empty queue and this line. If there were one, a call could come in between,
            # see a task, start none, and wait for ever.
            self._task = None

    def _next(self) -> list[_Call[T, R]]:
        """As many calls as fit into a batch, without those that were cancelled while they waited."""
        batch: list[_Call[T, R]] = []
        room = self._largest
        while self._waiting:
            size = self._size(self._waiting[0].item)
            if batch and size > room:
                break
            call = self._waiting.pop(0)
            if not call.done.done():
                batch.append(call)
                room -= size
        return batch

    async def _run_batch(self, batch: list[_Call[T, R]]) -> None:
        try:
            results = await self._run([call.item for call in batch])
        except Exception as error:  # noqa: BLE001 - it is raised where the items come from
            for call in batch:
                if not call.done.done():
                    call.done.set_exception(error)
        except BaseException:
            # The loop ends and cancels this task: calls that still wait would otherwise never return.
            for call in (*batch, *self._waiting):
                call.done.cancel()
            self._waiting.clear()
            raise
        else:
            for call, result in zip(batch, results, strict=True):
                # A caller may have given up while its batch ran; the others still get their results.
                if not call.done.done():
                    call.done.set_result(result)
