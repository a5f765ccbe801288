"""What an environment knows of its project from the server: what was said, what it cost, and what was given up."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from callboard.broker.redis.operations.deadletters import (
    DeadLetterRecord,
    Handled,
    letters_after,
    list_letters,
    replay,
)
from callboard.broker.redis.store import RedisStore
from callboard.models import UsageLedger
from callboard.runtime.runtime import RedisAgentRuntime

from .context import CostManager
from .errors import NoMoneyException, RoleFailedError
from .memory import Memory
from .message import Message
from .posting import project_of

NO_MONEY: Final = NoMoneyException.__name__


class Looking:
    """Reads along with one project.

    Args:
        runtime: The connection.
        project: The project.
        history: Where what was said is added.
    """

    def __init__(self, runtime: RedisAgentRuntime, project: str, history: Memory) -> None:
        self._runtime = runtime
        self._project = project
        self._history = history
        self._number = 0
        self._newest: dict[str, str] = {}  # id of the newest letter that is known, by role

    async def read_history(self) -> None:
        """Add what was said since the last time."""
        reading = self._runtime.read_run(self._project, after=self._number, live=False)
        async for entry in reading:
            self._number = entry.number
            if isinstance(entry.event, Message):
                self._history.add(entry.event)

    async def read_costs(self, costs: CostManager) -> None:
        """See what was spent, and what may be."""
        scope = f"run:{self._project}"
        costs.spent = await self._ledger.spent(scope)
        stored = await self._store.table(f"usage:{scope}")
        limit = stored.get("limit_usd")
        costs.max_budget = None if limit is None else float(limit)

    async def has_questions(self) -> bool:
        """Whether a person is asked something in the project."""
        return bool(await self._runtime.inputs.list(run=self._project))

    async def limit(self, usd: float) -> None:
        """Set the budget, for every process."""
        await self._ledger.limit(f"run:{self._project}", usd=usd)

    async def pass_over_old_letters(self, agent_types: Iterable[str]) -> None:
        """What was given up until now is known."""
        for agent_type in agent_types:
            for letter in await list_letters(self._runtime.transport, agent_type, 1):
                self._newest[agent_type] = letter.id

    async def failure(self, agent_types: Iterable[str]) -> Exception | None:
        """Why messages were given up since the last time, as an error; None: none was."""
        letters = await self._new_letters(agent_types)
        if not letters:
            return None
        first = letters[0]
        if first.error.startswith(NO_MONEY):
            # As it was when it was raised: by now there may be more money, or less may be set aside.
            return NoMoneyException.told_by(first.error) or NoMoneyException(*await self._money())
        return RoleFailedError(
            first.agent_type, first.error or first.reason, first.message_id, len(letters) - 1
        )

    async def _money(self) -> tuple[float, float]:
        costs = CostManager()
        await self.read_costs(costs)
        return costs.total_cost, costs.max_budget or 0.0

    async def replay(self, agent_types: Iterable[str], error: str = "") -> int:
        """Send messages again that were given up.

        Args:
            agent_types: Of the roles.
            error: Name of the class of the error that ended them; "": whatever it was.

        Returns:
            How many.
        """
        count = 0
        for agent_type in agent_types:
            letters = letters_after(self._runtime.transport, agent_type)
            # guard: all that was given up is sent again, however much it is
            ids = [one.id async for one in letters if self._is_here(one) and one.error.startswith(error)]
            done: Handled = await replay(self._runtime.transport, agent_type, ids)
            count += len(done.done)
        return count

    async def _new_letters(self, agent_types: Iterable[str]) -> list[DeadLetterRecord]:
        new: list[DeadLetterRecord] = []
        for agent_type in agent_types:
            known = self._newest.get(agent_type, "")
            async for letter in letters_after(self._runtime.transport, agent_type, known):
                self._newest[agent_type] = letter.id
                if self._is_here(letter):
                    new.append(letter)
        return sorted(new, key=lambda letter: letter.last)

    def _is_here(self, letter: DeadLetterRecord) -> bool:
        return project_of(letter.key) == self._project

    @property
    def _store(self) -> RedisStore:
        return RedisStore(self._runtime.transport.admin)

    @property
    def _ledger(self) -> UsageLedger:
        return UsageLedger(self._store)
