"""Keeps a run on the bus within its budget: what its manager does beside the model clients, which draw from the ledger."""

from __future__ import annotations

from callboard.messaging import Messaging
from callboard.models.stores import RuntimeStore
from callboard.models.usage import UsageLedger
from callboard.runtime.control import Control
from callboard.runtime.run_paths import names_in

from .budget import Overspent
from .manager_state import CurrentRun
from .orders import TimeUp


class Limiting:
    """Begins and ends what a budget needs.

    Args:
        manager: Reminds itself of the end of the time.
        control: Takes that back.
    """

    def __init__(self, manager: Messaging, control: Control) -> None:
        self._manager = manager
        self._control = control

    async def begin(self, run: CurrentRun) -> None:
        """Set the limits, before anybody is asked to speak."""
        budget = run.budget
        if budget is None:
            return
        if budget.is_for_models:
            # guard: a run's limits are there before its first request
            await UsageLedger(RuntimeStore()).limit(
                f"run:{names_in(run.path)[-1]}", tokens=budget.tokens, usd=budget.usd
            )
        if budget.seconds is not None:
            run.timer = f"time up {run.run_id}"
            await self._manager.tell(
                TimeUp(run_id=run.run_id),
                self._manager.id,
                message_id=run.timer,
                after=budget.seconds,
                cancellable=True,
            )

    async def end(self, run: CurrentRun) -> None:
        """Take back what is left."""
        if run.timer:
            await self._control.cancel(run.timer)

    def ask(self, run: CurrentRun, turns: int) -> Overspent | None:
        """Count turns before they are taken; a limit that does not allow them."""
        limit = None if run.budget is None else run.budget.turns
        if limit is not None and run.asked + turns > limit:
            return Overspent(unit="turns", limit=limit, spent=run.asked)
        run.asked += turns
        return None

    def time_up(self, run: CurrentRun) -> Overspent:
        """The limit that a run has reached whose time is over."""
        # The message that tells of it is the one that is handled: cancelling it would undo what its handler does.
        run.timer = ""
        seconds = (run.budget.seconds if run.budget else None) or 0.0
        return Overspent(unit="seconds", limit=seconds, spent=seconds)
