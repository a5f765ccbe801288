"""The budget of a run: what it may use, its limits on the bus and in this process, and the error at a limit."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, fields
from typing import Final

from pydantic import BaseModel, ConfigDict

from callboard.agents.base import BaseChatAgent
from callboard.broker.codec import message
from callboard.broker.remote_errors import text_of, trace_of
from callboard.core.agent import Messaging
from callboard.errors import SettingValueError
from callboard.models.budget import UsageLedger, counted_here, metered_in, run_scopes, store_of_run
from callboard.models.errors import BudgetExceededError, BudgetHeldError
from callboard.models.stores import RuntimeStore, Store
from callboard.runtime.effects import names_in, within
from callboard.runtime.execution import in_run_path, run_path, speaker, speaking_as

from .errors import RunBudgetExceededError, TeamRunError

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


TRACEBACK: Final = 8000  # characters of it that are kept, the last ones


def run_error(error: BaseException, where: str) -> TeamRunError:
    """The error of a run in which something was raised.

    Args:
        error: What was raised.
        where: Name of the member, or of the team's manager.
    """
    if isinstance(error, TeamRunError):
        return error
    overspent = overspent_by(error)
    if overspent is not None:
        return budget_error(overspent, where)
    return TeamRunError(type(error).__name__, text_of(error), where, trace_of(error)[-TRACEBACK:])


def budget_error(overspent: Overspent, where: str) -> RunBudgetExceededError:
    """The error of a run that has used what it may."""
    name = RunBudgetExceededError.__name__
    return RunBudgetExceededError(
        name, overspent.text, where, "", overspent.unit, overspent.limit, overspent.spent
    )


def turns_overspent(budget: RunBudget, asked: int, turns: int) -> Overspent | None:
    """The limit that does not allow so many turns more; None: they may be taken."""
    if budget.turns is None or asked + turns <= budget.turns:
        return None
    return Overspent(unit="turns", limit=budget.turns, spent=asked)


def time_overspent(budget: RunBudget | None) -> Overspent:
    """The limit that a run has reached whose time is over."""
    seconds = (budget.seconds if budget else None) or 0.0
    return Overspent(unit="seconds", limit=seconds, spent=seconds)


@message(name="callboard.team.TimeUp")
class TimeUp(BaseModel):
    """A manager's message to itself: the time of a run's budget is over."""

    model_config = ConfigDict(frozen=True)

    run_id: str


async def set_limits(manager: Messaging, budget: RunBudget, run_id: str, path: str) -> str:
    """Set the limits of a run on the bus, before a member is asked to speak.

    Args:
        manager: Leads the run; reminds itself of the end of the time.
        budget: What the run may use.
        run_id: Id of the run.
        path: For which runs it counts.

    Returns:
        Id of the message that comes when the time is over, to be cancelled when the run ends before; "": there is none.
    """
    if budget.is_for_models:
        # The first `Speak` leaves with the commit of this message, and a model may be asked a moment later in another
        # process. A limit that came after it would count from a request that nothing had refused.
        # guard: a run's limits are there before its first request
        await UsageLedger(RuntimeStore()).limit(
            f"run:{names_in(path)[-1]}", tokens=budget.tokens, usd=budget.usd
        )
    if budget.seconds is None:
        return ""
    timer = f"time up {run_id}"
    over = TimeUp(run_id=run_id)
    await manager.tell(over, manager.id, message_id=timer, after=budget.seconds, cancellable=True)
    return timer


class Spending:
    """The budget of a run in this process, and what it uses; inside a handler, or a run around it, that counts there, too.

    Args:
        team: Name of the team.
        budget: The most that it may use; None: no limit.
        store: Where it is counted when nothing is around it.
    """

    def __init__(self, team: str, budget: RunBudget | None, store: Store) -> None:
        self._team = team
        self._budget = budget
        self._path = within(run_path(), uuid.uuid4().hex)
        self._ledger = UsageLedger(store_of_run() or store)
        self._asked = 0
        outer = speaker()
        self._name = outer if outer.rpartition(".")[2] == team else f"{outer}.{team}".lstrip(".")

    @property
    def _run(self) -> str:
        return names_in(self._path)[-1]

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count the use of models in the `with` block."""
        with in_run_path(self._path), counted_here(self._ledger.store), speaking_as(self._name):
            yield

    @contextmanager
    def of(self, member: str) -> Iterator[None]:
        """The same, by a member."""
        with speaking_as(f"{self._name}.{member}"):
            yield

    @asynccontextmanager
    async def limited(self) -> AsyncIterator[None]:
        """Within the budget.

        Raises:
            RunBudgetExceededError: The time is over, or a request might exceed it (a RuntimeError).
        """
        budget = self._budget
        if budget is not None and budget.is_for_models:
            await self._ledger.limit(f"run:{self._run}", tokens=budget.tokens, usd=budget.usd)
        seconds = None if budget is None else budget.seconds
        timeout = asyncio.timeout(seconds)
        try:
            async with timeout:
                yield
        except BudgetExceededError as error:  # of who chooses speakers
            raise run_error(error, self._team) from error
        except TimeoutError:
            if not timeout.expired() or seconds is None:
                raise
            raise budget_error(time_overspent(budget), self._team) from None

    def ask(self, turns: int) -> None:
        """Count turns before they are taken.

        Raises:
            RunBudgetExceededError: There are not so many left (a RuntimeError).
        """
        budget = self._budget
        overspent = None if budget is None else turns_overspent(budget, self._asked, turns)
        if overspent is not None:
            raise budget_error(overspent, self._team)
        self._asked += turns
