"""Ends a conversation when a function says so."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Self, TypeAlias

from pydantic import BaseModel

from callboard.foundation.component import Component
from callboard.tools.importing import function_at, function_path

from .base import Messages
from .latched import LatchedTermination

Func: TypeAlias = Callable[[Messages], bool] | Callable[[Messages], Awaitable[bool]]


class FunctionalTerminationConfig(BaseModel):
    """A FunctionalTermination as plain data. AutoGen's can't be written down.

    Attributes:
        func: Where the function is: ``module:qualname``.
    """

    func: str


class FunctionalTermination(LatchedTermination, Component[FunctionalTerminationConfig]):
    """Is reached when a function returns True.

    AutoGen asks an object with an ``async def __call__`` and never waits for its answer; this one waits.

    Args:
        func: Is given what was said since the last call, also where that is nothing; may be async. It should be quick,
            as it is called after each turn, and remember nothing, as what it remembers is in no state.
    """

    component_config_schema = FunctionalTerminationConfig
    component_provider_override = "callboard.conditions.FunctionalTermination"

    def __init__(self, func: Func) -> None:
        super().__init__()
        self._func = func

    async def reason(self, messages: Messages) -> str | None:
        """Whether the function returns True."""
        answer = self._func(messages)
        reached = await answer if inspect.isawaitable(answer) else answer
        return "Functional termination condition met" if reached is True else None

    def _to_config(self) -> FunctionalTerminationConfig:
        return FunctionalTerminationConfig(func=function_path(self._func, self))

    @classmethod
    def _from_config(cls, config: FunctionalTerminationConfig) -> Self:
        return cls(function_at(config.func))
