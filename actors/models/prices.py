"""What tokens cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .info import without_version
from .types import RequestUsage

PER = 1_000_000  # tokens that a price is for


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs.

    Attributes:
        prompt: USD for a million tokens that it reads.
        completion: USD for a million tokens that it writes.
    """

    prompt: float
    completion: float

    def of(self, usage: RequestUsage) -> float:
        """USD."""
        return (usage.prompt_tokens * self.prompt + usage.completion_tokens * self.completion) / PER


def price_of(model: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model, whose version does not matter unless it has a price of its own; None: not known."""
    return prices.get(model) or prices.get(without_version(model))
