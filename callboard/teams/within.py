"""A limit of time that costs nothing where nobody waits."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class LateError(Exception):
    """It has not ended in time, and was cancelled."""


async def within(seconds: float, step: Coroutine[Any, Any, T]) -> T:
    """Awaits a coroutine for so long at most.

    Most strategies and conditions decide without waiting for anything: they have ended when others would begin to wait, and
    no timer is made for them. `asyncio.timeout` makes one each time, which takes as long as to choose.

    Args:
        seconds: How long it may wait, from when it first does.
        step: The coroutine.

    Raises:
        LateError: It has not ended by then.
    """
    try:
        waiting = step.send(None)
    except StopIteration as ended:
        value: T = ended.value
        return value
    limit = asyncio.timeout(seconds)
    try:
        async with limit:
            return await _rest(step, waiting)
    except TimeoutError as error:
        if limit.expired():
            raise LateError from error
        raise


@coroutine
def _rest(step: Coroutine[Any, Any, T], waiting: Any) -> Generator[Any, Any, T]:
    """What is left of a coroutine that waits for something."""
    try:
        while True:
            try:
                answer = yield waiting
            except BaseException as error:  # noqa: BLE001 - it is the coroutine's, also that it is cancelled or closed
                waiting = step.throw(error)
            else:
                waiting = step.send(answer)
    except StopIteration as ended:
        value: T = ended.value
        return value
