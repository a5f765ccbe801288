"""Ends a conversation when its models have used a number of tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Self

from pydantic import BaseModel, NonNegativeInt

from callboard.foundation.component import Component
from callboard.messages.chat import StopMessage

from .base import Messages, TerminationCondition
from .errors import ConditionSettingError, TerminatedException
from .saved import read_state


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
        ConditionSettingError: There is no limit at all, or one is less than 1 (a ValueError).
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
            raise ConditionSettingError("max_total_token", "None", rule)
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
        raise ConditionSettingError(setting, str(value), "at least 1")
    return value
