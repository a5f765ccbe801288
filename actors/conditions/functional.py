"""Ends a conversation when a function says so."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from .base import Messages
from .latched import LatchedTermination

Func: TypeAlias = Callable[[Messages], bool] | Callable[[Messages], Awaitable[bool]]


class FunctionalTermination(LatchedTermination):
    """Is reached when a function returns True.

    AutoGen asks an object with an ``async def __call__`` and never waits for its answer; this one waits.

    Args:
        func: Is given what was said since the last call, also where that is nothing; may be async. It should be quick,
            as it is called after each turn, and remember nothing, as what it remembers is in no state.
    """

    def __init__(self, func: Func) -> None:
        super().__init__()
        self._func = func

    async def reason(self, messages: Messages) -> str | None:
        """Whether the function returns True."""
        answer = self._func(messages)
        reached = await answer if inspect.isawaitable(answer) else answer
        return "Functional termination condition met" if reached is True else None
