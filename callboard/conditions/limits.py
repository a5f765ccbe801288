"""Conditions that are reached after a number of messages or tokens, or after a time."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final, Self

from pydantic import BaseModel, NonNegativeInt

from callboard.errors import SettingValueError
from callboard.foundation.component import Component
from callboard.messages.chat import BaseChatMessage, StopMessage

from .base import Messages, TerminatedException, TerminationCondition, read_state
from .triggers import LatchedTermination


class MaxMessageTerminationConfig(BaseModel):
    """A MaxMessageTermination as plain data; its fields are the arguments of MaxMessageTermination."""

    max_messages: int
    include_agent_event: bool = False


class MaxMessageTermination(TerminationCondition, Component[MaxMessageTerminationConfig]):
    """Is reached when a number of messages have been said; those of the task count, too.

    Args:
        max_messages: The number, 1 or more. (AutoGen takes 0, and fails when it is asked.)
        include_agent_event: Whether events count as well.

    Raises:
        SettingValueError: The number is less than 1 (a ValueError).
    """

    component_config_schema = MaxMessageTerminationConfig
    component_provider_override = "callboard.conditions.MaxMessageTermination"

    def __init__(self, max_messages: int, include_agent_event: bool = False) -> None:
        given: object = max_messages
        if not isinstance(given, int) or given < 1:
            raise SettingValueError("max_messages", repr(given), "a number, at least 1")
        self._max_messages = max_messages
        self._include_agent_event = include_agent_event
        self._count = 0

    @property
    def terminated(self) -> bool:
        """Whether so many messages have been said."""
        return self._reached()

    def _reached(self) -> bool:
        return self._count >= self._max_messages

    async def __call__(self, messages: Messages) -> StopMessage | None:
        """Count what is new; see `TerminationCondition`."""
        if self.terminated:
            raise TerminatedException
        self._count += sum(
            self._include_agent_event or isinstance(said, BaseChatMessage) for said in messages
        )
        if not self._reached():
            return None
        text = (
            f"Maximum number of messages {self._max_messages} reached, current message count: {self._count}"
        )
        return StopMessage(content=text, source="MaxMessageTermination")

    async def reset(self) -> None:
        """Count from 0."""
        self._count = 0

    async def save_state(self) -> Mapping[str, Any]:
        """How many messages were counted."""
        return {"message_count": self._count}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            ConditionStateError: It is no such state (a ValueError).
        """
        self._count = read_state(_CountState, state, self).message_count

    def _to_config(self) -> MaxMessageTerminationConfig:
        return MaxMessageTerminationConfig(
            max_messages=self._max_messages, include_agent_event=self._include_agent_event
        )

    @classmethod
    def _from_config(cls, config: MaxMessageTerminationConfig) -> Self:
        return cls(**dict(config))


class _CountState(BaseModel):
    message_count: NonNegativeInt


class _Used(BaseModel):
    prompt_tokens: NonNegativeInt
    completion_tokens: NonNegativeInt

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


LIMITS: Final = ("max_total_token", "max_prompt_token", "max_completion_token")
NOTHING: Final = _Used(prompt_tokens=0, completion_tokens=0)


class TokenUsageTerminationConfig(BaseModel):
    """A TokenUsageTermination as plain data; its fields are the arguments of TokenUsageTermination."""

    max_total_token: int | None = None
    max_prompt_token: int | None = None
    max_completion_token: int | None = None


class TokenUsageTermination(TerminationCondition, Component[TokenUsageTerminationConfig]):
    """Is reached when the models behind what was said have used a number of tokens.

    It adds up the `models_usage` of messages and events after each turn. For a limit that holds before a model is called,
    see the budgets of models.

    Args:
        max_total_token: Prompts and answers together; None: no limit.
        max_prompt_token: Prompts; None: no limit.
        max_completion_token: Answers; None: no limit.

    Raises:
        SettingValueError: There is no limit at all, or one is less than 1 (a ValueError).
    """

    component_config_schema = TokenUsageTerminationConfig
    component_provider_override = "callboard.conditions.TokenUsageTermination"

    def __init__(
        self,
        max_total_token: int | None = None,
        max_prompt_token: int | None = None,
        max_completion_token: int | None = None,
    ) -> None:
        self._limits = (
            _limit("max_total_token", max_total_token),
            _limit("max_prompt_token", max_prompt_token),
            _limit("max_completion_token", max_completion_token),
        )
        if all(limit is None for limit in self._limits):
            rule = "a number where max_prompt_token and max_completion_token are left out, too"
            raise SettingValueError("max_total_token", "None", rule)
        self._used = NOTHING

    @property
    def terminated(self) -> bool:
        """Whether so many tokens have been used."""
        return self._reached()

    def _reached(self) -> bool:
        used = (self._used.total_tokens, self._used.prompt_tokens, self._used.completion_tokens)
        return any(
            limit is not None and count >= limit for limit, count in zip(self._limits, used, strict=True)
        )

    async def __call__(self, messages: Messages) -> StopMessage | None:
        """Add up what is new; see `TerminationCondition`."""
        if self.terminated:
            raise TerminatedException
        usages = [said.models_usage for said in messages if said.models_usage is not None]
        self._used = _Used(
            prompt_tokens=self._used.prompt_tokens + sum(usage.prompt_tokens for usage in usages),
            completion_tokens=self._used.completion_tokens + sum(usage.completion_tokens for usage in usages),
        )
        return StopMessage(content=self._text(), source="TokenUsageTermination") if self._reached() else None

    def _text(self) -> str:
        used = self._used
        return (
            f"Token usage limit reached, total token count: {used.total_tokens}, "
            f"prompt token count: {used.prompt_tokens}, completion token count: {used.completion_tokens}."
        )

    async def reset(self) -> None:
        """Count from 0."""
        self._used = NOTHING

    async def save_state(self) -> Mapping[str, Any]:
        """How many tokens were counted."""
        return self._used.model_dump()

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `save_state` returned.

        Raises:
            ConditionStateError: It is no such state (a ValueError).
        """
        self._used = read_state(_Used, state, self)

    def _to_config(self) -> TokenUsageTerminationConfig:
        return TokenUsageTerminationConfig.model_validate(dict(zip(LIMITS, self._limits, strict=True)))

    @classmethod
    def _from_config(cls, config: TokenUsageTerminationConfig) -> Self:
        return cls(**dict(config))


def _limit(setting: str, value: int | None) -> int | None:
    if value is not None and value < 1:
        raise SettingValueError(setting, str(value), "at least 1")
    return value


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
        saved = read_state(_TimeState, state, self)
        await super().load_state(state)
        self._started_at = saved.started_at

    def _to_config(self) -> TimeoutTerminationConfig:
        return TimeoutTerminationConfig(timeout_seconds=self._timeout_seconds)

    @classmethod
    def _from_config(cls, config: TimeoutTerminationConfig) -> Self:
        return cls(**dict(config))


class _TimeState(BaseModel):
    started_at: float | None
