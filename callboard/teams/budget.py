"""What a run may use, and how it ends that has used it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Final

from pydantic import BaseModel, ConfigDict

from callboard.agents.base import BaseChatAgent
from callboard.errors import SettingValueError
from callboard.models.budget import metered_in, run_scopes
from callboard.models.errors import BudgetExceededError, BudgetHeldError
from callboard.models.stores import RuntimeStore

MOST: Final = 2**53  # which the server still counts by ones


@dataclass(frozen=True, slots=True, kw_only=True)
class RunBudget:
    """The most that one run of a team may use. What it has used is kept when it ends, and so is what was said.

    A team that is a member of another one has runs of its own, one for each of its turns: what they use counts for its own
    budget and for that of the run around it.

    Attributes:
        tokens: of all models, prompts and answers together, nested teams and tools included; never exceeded by a request.
        usd: the same in money, by the prices of a MeteredChatCompletionClient in each member's client.
        turns: how often members may speak; a turn of a nested team is one.
        seconds: from its beginning, pauses included.

    Raises:
        SettingValueError: one of them is no number above 0, or there is none (a ValueError).
    """

    tokens: int | None = None
    usd: float | None = None
    turns: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        given = {spec.name: getattr(self, spec.name) for spec in fields(self)}
        if all(limit is None for limit in given.values()):
            raise SettingValueError("tokens", "None", "given, or usd, turns or seconds")
        for name, limit in given.items():
            if limit is None:
                continue
            is_whole = name in ("tokens", "turns")
            if isinstance(limit, bool) or not isinstance(limit, int if is_whole else int | float):
                raise SettingValueError(name, repr(limit), "a whole number" if is_whole else "a number")
            # What is no number, or not finite, would limit nothing.
            if not 0 < limit < MOST:
                raise SettingValueError(name, repr(limit), f"more than 0, and less than {MOST:.0e}")

    @property
    def is_for_models(self) -> bool:
        """Whether it limits what models are used for."""
        return self.tokens is not None or self.usd is not None


class Overspent(BaseModel):
    """The limit that has ended a run.

    Attributes:
        unit: "tokens", "USD", "turns" or "seconds".
        limit: What the run may use.
        spent: What it had used, or set aside, when it asked for more.
        scope: Whose limit it is, in the ledger of tokens and money; "": that of the team itself.
    """

    model_config = ConfigDict(frozen=True)

    unit: str
    limit: float
    spent: float
    scope: str = ""

    @property
    def text(self) -> str:
        """As a sentence."""
        return (
            f"its budget allows {self.limit:,.6g} {self.unit}, and {self.spent:,.6g} are spent or set aside"
        )


def overspent_by(error: BaseException) -> Overspent | None:
    """The limit of the run here that an error tells of; None: it is another error, or another limit."""
    if not isinstance(error, BudgetExceededError) or isinstance(error, BudgetHeldError):
        return None
    if error.scope not in run_scopes():
        return None
    return Overspent(unit=error.unit, limit=error.limit, spent=error.spent, scope=error.scope)


def check_budget(budget: object) -> None:
    """Refuse what is no budget.

    Raises:
        SettingValueError: It is something else (a ValueError).
    """
    if budget is not None and not isinstance(budget, RunBudget):
        raise SettingValueError("budget", repr(budget)[:80], "a RunBudget, such as RunBudget(usd=1.0)")


def not_limited(participants: Sequence[object]) -> str:
    """Why no budget of tokens or money can hold for these members; "": it can."""
    for name, model in _direct(participants):
        return (
            f"{name!r} asks its model {model!r} directly, which no budget of a run limits: "
            f"put a RecordedChatCompletionClient around it"
        )
    return ""


def _direct(participants: Sequence[object]) -> Iterator[tuple[str, str]]:
    for participant in participants:
        if isinstance(participant, BaseChatAgent):
            for client in participant.unrecorded_clients():
                if not any(isinstance(one.ledger.store, RuntimeStore) for one in metered_in(client)):
                    yield participant.name, client.model
        inner = getattr(participant, "participants", ())
        yield from _direct(inner if isinstance(inner, Sequence) else ())
