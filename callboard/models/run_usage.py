"""What a run has used, by agent and by model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Self

from .amounts import Spent


@dataclass(frozen=True, slots=True)
class UsagePart:
    """What one agent used of one model.

    Attributes:
        agent: type of the agent, such as "poets.writer"; of a team's manager, whose model chooses speakers, the team's name;
            "": no agent.
        model: name of the model.
        spent: the amount.
    """

    agent: str
    model: str
    spent: Spent


@dataclass(frozen=True, slots=True)
class RunUsage:
    """What a run has used until now; requests under way are not in it.

    Attributes:
        total: all of it.
        parts: the same for each agent and each of its models, in the order of their names.
        limit_tokens: most tokens that it may use; None: no limit.
        limit_usd: most that it may spend, USD; None: no limit.
    """

    total: Spent = Spent()  # noqa: RUF009 - it never changes
    parts: tuple[UsagePart, ...] = field(default=())
    limit_tokens: int | None = None
    limit_usd: float | None = None

    @property
    def by_agent(self) -> dict[str, Spent]:
        """The amount of each agent, by its type."""
        return _sums((part.agent, part.spent) for part in self.parts)

    @property
    def by_model(self) -> dict[str, Spent]:
        """The amount of each model, by its name."""
        return _sums((part.model, part.spent) for part in self.parts)

    @classmethod
    def read(cls, table: Mapping[str, bytes]) -> Self:
        """The usage of a run from the table that a store keeps: `<agent> <model> <unit>` -> amount, and the sums."""
        named = sorted((_split(name), value) for name, value in table.items() if " " in name)
        parts = tuple(
            UsagePart(names[0], names[1], Spent.read({unit: value for (_, _, unit), value in group}))
            for names, group in groupby(named, key=lambda item: item[0][:2])
        )
        tokens, usd = (table.get(f"limit_{unit}") for unit in ("tokens", "usd"))
        return cls(
            Spent.read(table),
            parts,
            None if tokens is None else int(float(tokens)),
            None if usd is None else float(usd),
        )


def _split(name: str) -> tuple[str, str, str]:
    agent, _, rest = name.partition(" ")
    model, _, unit = rest.rpartition(" ")
    return agent, model, unit


def _sums(amounts: Iterable[tuple[str, Spent]]) -> dict[str, Spent]:
    sums: dict[str, Spent] = {}
    for name, spent in amounts:
        sums[name] = sums.get(name, Spent()) + spent
    return sums
