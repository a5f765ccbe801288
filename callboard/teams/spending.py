"""What a run in this process uses, and its budget."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from callboard.models.errors import BudgetExceededError
from callboard.models.in_run import counted_here, store_of_run
from callboard.models.stores import Store
from callboard.models.usage import UsageLedger
from callboard.runtime.run_paths import names_in, within
from callboard.runtime.runs import in_run_path, run_path, speaker, speaking_as

from .budget import Overspent, RunBudget
from .run_errors import budget_error, run_error


class Spending:
    """What one run uses. Inside a handler of the bus, or a run around it, that is counted there, too.

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
        """What is used in the `with` block counts."""
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
            overspent = Overspent(unit="seconds", limit=seconds, spent=seconds)
            raise budget_error(overspent, self._team) from None

    def ask(self, turns: int) -> None:
        """Count turns before they are taken.

        Raises:
            RunBudgetExceededError: There are not so many left (a RuntimeError).
        """
        limit = None if self._budget is None else self._budget.turns
        if limit is not None and self._asked + turns > limit:
            raise budget_error(Overspent(unit="turns", limit=limit, spent=self._asked), self._team)
        self._asked += turns
