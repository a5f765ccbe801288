"""Ends a conversation after a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Self

from pydantic import BaseModel

from callboard.foundation.component import Component

from .base import Messages
from .latched import LatchedTermination
from .saved import read_state


class TimeoutTerminationConfig(BaseModel):
    """A TimeoutTermination as plain data; its fields are the arguments of TimeoutTermination."""

    timeout_seconds: float


class TimeoutTermination(LatchedTermination, Component[TimeoutTerminationConfig]):
    """Is reached when it is asked and a time has passed; a turn that takes longer is not cut short.

    The time begins when the condition is first asked, which is at the start of a run. AutoGen's begins when it is made or
    reset, so that there the time between two runs counts, and a team that was declared long ago ends at once. It goes on
    while the process is restarted.

    Args:
        timeout_seconds: The time in seconds.
        clock: Returns seconds since 1970, for tests.
    """

    component_config_schema = TimeoutTerminationConfig
    component_provider_override = "callboard.conditions.TimeoutTermination"

    def __init__(self, timeout_seconds: float, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._timeout_seconds = timeout_seconds
        self._clock = clock
        self._started_at: float | None = None

    async def reason(self, messages: Messages) -> str | None:
        """Whether the time has passed."""
        now = self._clock()
        if self._started_at is None:
            self._started_at = now
        passed = now - self._started_at
        return (
            f"Timeout of {self._timeout_seconds} seconds reached" if passed >= self._timeout_seconds else None
        )

    async def reset(self) -> None:
        """Be as in the beginning."""
        await super().reset()
        self._started_at = None

    async def save_state(self) -> Mapping[str, Any]:
        """When the time began, in seconds since 1970, and whether it has passed."""
        return {**await super().save_state(), "started_at": self._started_at}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            ConditionStateError: It is no such state (a ValueError).
        """
        saved = read_state(_State, state, self)
        await super().load_state(state)
        self._started_at = saved.started_at

    def _to_config(self) -> TimeoutTerminationConfig:
        return TimeoutTerminationConfig(timeout_seconds=self._timeout_seconds)

    @classmethod
    def _from_config(cls, config: TimeoutTerminationConfig) -> Self:
        return cls(**dict(config))


class _State(BaseModel):
    started_at: float | None
