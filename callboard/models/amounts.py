"""What models were used for, as an amount."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import astuple, dataclass, fields
from typing import Self


@dataclass(frozen=True, slots=True)
class Spent:
    """An amount of requests, tokens and money.

    Attributes:
        requests: answers, also those of a cache.
        prompt_tokens: tokens that models read and that were paid for.
        completion_tokens: tokens that they wrote.
        usd: the cost, as far as prices are known.
        unpriced: answers of models without a known price.
    """

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    usd: float = 0.0
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        """Both kinds of tokens."""
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: Spent) -> Spent:
        return Spent(*(mine + yours for mine, yours in zip(astuple(self), astuple(other), strict=True)))

    @property
    def amounts(self) -> dict[str, float]:
        """What is not nothing, by the name of its field."""
        return {spec.name: amount for spec in fields(self) if (amount := getattr(self, spec.name))}

    @classmethod
    def read(cls, table: Mapping[str, bytes]) -> Self:
        """An amount from the table that a store keeps."""
        names = {spec.name for spec in fields(cls)}
        numbers = {name: float(value) for name, value in table.items() if name in names}
        whole = {spec.name: round(numbers.get(spec.name, 0)) for spec in fields(cls) if spec.name != "usd"}
        return cls(**whole, usd=numbers.get("usd", 0.0))
