"""What the models of agents have used."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from callboard.models.info import price_of
from callboard.models.settings import DEFAULTS
from callboard.models.types import CreateResult, RequestUsage

NOTHING = RequestUsage(0, 0)


@dataclass
class ModelUsage:
    """Tokens by the name of the model.

    Attributes:
        paid: Tokens that were paid for.
        cached: Tokens of answers that came from a cache.
    """

    paid: dict[str, RequestUsage] = field(default_factory=dict)
    cached: dict[str, RequestUsage] = field(default_factory=dict)

    def add(self, model: str, result: CreateResult) -> None:
        """Count an answer."""
        _add(self.cached if result.cached else self.paid, model, result.usage)

    def merge(self, other: ModelUsage) -> None:
        """Count all that another one has counted."""
        for mine, theirs in ((self.paid, other.paid), (self.cached, other.cached)):
            for model, usage in theirs.items():
                _add(mine, model, usage)

    def minus(self, before: ModelUsage) -> ModelUsage:
        """What came after another one was counted."""
        return ModelUsage(_minus(self.paid, before.paid), _minus(self.cached, before.cached))

    def dump(self) -> dict[str, Any]:
        """As plain data."""
        return {"paid": _dump(self.paid), "cached": _dump(self.cached)}

    @classmethod
    def load(cls, data: Mapping[str, Any]) -> ModelUsage:
        """From what `dump` returned."""
        return cls(_load(data.get("paid", {})), _load(data.get("cached", {})))

    def cost(self) -> dict[str, Any]:
        """In AG2's shape: with and without what came from a cache."""
        whole = ModelUsage(dict(self.paid))
        for model, usage in self.cached.items():
            _add(whole.paid, model, usage)
        return {
            "usage_including_cached_inference": _summary(whole.paid),
            "usage_excluding_cached_inference": _summary(self.paid),
        }


def added_up(usages: Iterable[ModelUsage]) -> ModelUsage:
    """All of them together."""
    whole = ModelUsage()
    for usage in usages:
        whole.merge(usage)
    return whole


def _add(to: dict[str, RequestUsage], model: str, usage: RequestUsage) -> None:
    to[model] = to.get(model, NOTHING) + usage


def _minus(all: Mapping[str, RequestUsage], before: Mapping[str, RequestUsage]) -> dict[str, RequestUsage]:
    left = {}
    for model, usage in all.items():
        old = before.get(model, NOTHING)
        prompt = usage.prompt_tokens - old.prompt_tokens
        completion = usage.completion_tokens - old.completion_tokens
        if prompt or completion:
            left[model] = RequestUsage(prompt, completion)
    return left


def _dump(usages: Mapping[str, RequestUsage]) -> dict[str, list[int]]:
    return {model: [usage.prompt_tokens, usage.completion_tokens] for model, usage in usages.items()}


def _load(data: Mapping[str, Any]) -> dict[str, RequestUsage]:
    return {model: RequestUsage(int(prompt), int(completion)) for model, (prompt, completion) in data.items()}


def _summary(usages: Mapping[str, RequestUsage]) -> dict[str, Any]:
    costs = {model: _cost(model, usage) for model, usage in usages.items()}
    summary: dict[str, Any] = {"total_cost": sum(costs.values())}
    for model, usage in usages.items():
        summary[model] = {
            "cost": costs[model],
            "prompt_tokens": usage.prompt_tokens,
            "completion_tokens": usage.completion_tokens,
            "total_tokens": usage.total_tokens,
        }
    return summary


def _cost(model: str, usage: RequestUsage) -> float:
    price = price_of(model, DEFAULTS.prices)
    return 0.0 if price is None else price.of(usage)
