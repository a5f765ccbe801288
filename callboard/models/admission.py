"""The admission of one request to the windows that limit it: asked for before it is made, and left with what it used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final, Protocol, Self

from callboard.runtime.effects import steps_around
from callboard.runtime.execution import current
from callboard.runtime.steps import running_context

from .errors import BudgetExceededError, BudgetHeldError
from .retries import MayAsk, may_ask_again
from .stores import Store, new_hold_id
from .types import CreateResult, Spent
from .windows import SLACK, Amounts, Ceiling, Over, Window

UNITS: Final = ("requests", "tokens", "usd")


class Limiting(Protocol):
    """A budget, as far as an admission needs it."""

    @property
    def when_over(self) -> str:
        """Whether it refuses ("refuse") or waits ("wait")."""
        ...

    def ceilings_of(self, scope: str) -> list[Ceiling]:
        """Its limits on a scope within its window."""
        ...


@dataclass(slots=True)
class Admission:
    """One request in its windows.

    Attributes:
        store: counts.
        model: name of the model, for errors.
        ceilings: limits of windows.
        waits: those of them that are waited for.
    """

    store: Store
    model: str
    ceilings: Sequence[Ceiling]
    waits: frozenset[Ceiling]
    _most: Spent = field(default_factory=Spent)
    _entered: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, store: Store, model: str, limited: Sequence[tuple[Limiting, str]]) -> Self:
        """The admission of a request that these budgets limit in these scopes."""
        found = [(ceiling, budget) for budget, scope in limited for ceiling in budget.ceilings_of(scope)]
        refused = {ceiling for ceiling, budget in found if budget.when_over == "refuse"}
        ceilings = tuple(dict.fromkeys(ceiling for ceiling, _ in found))
        return cls(store, model, ceilings, frozenset(ceilings) - refused)

    @property
    def is_in_money(self) -> bool:
        """Whether a price has to be known."""
        return any(unit == "usd" for _, _, unit, _ in self.ceilings)

    async def enter(self, most: Spent) -> float | None:
        """Enter all windows, or none of them.

        Args:
            most: that the request may need.

        Returns:
            None: it is in, and may be made now. Else it has to wait for so many seconds, and to enter then.

        Raises:
            BudgetExceededError: there is no room, and it is not waited for, or never will be.
            BudgetHeldError: there is none, in a handler: its message comes again.
        """
        self._most = most
        return await self._enter(most)

    async def _enter(self, most: Spent) -> float | None:
        if not self.ceilings:
            return None
        over = await self._entered_at_once(most)
        if over is None:
            return None
        error = self._error(over, most)
        if (
            error.retry_after is None
            or not isinstance(error, BudgetHeldError)
            or running_context() is not None
        ):
            raise error
        return error.retry_after

    async def _entered_at_once(self, most: Spent) -> Over | None:
        """None: it is in its windows, and nearly no time has passed since."""
        name, amounts = new_hold_id(), _amounts(most, most.requests)
        while True:
            asked = time.monotonic()
            try:
                over = await self.store.enter(name, amounts, self.ceilings)
            except BaseException:
                await self._give_back(name)  # it may be in, and is not made
                raise
            if over is not None:
                return over
            # A process that stood still behind the answer would make its request when others count on its time being over.
            # guard: a request is made at once when there is room, or not at all
            if time.monotonic() - asked < SLACK:
                self._entered.append(name)
                return None
            await self._give_back(name)

    async def _give_back(self, name: str) -> None:
        await self.store.leave(name, NOTHING, self._windows)

    async def leave(self, spent: Spent, *, cached: bool) -> None:
        """Count what the request used: its tokens with the last attempt, so that none is out of a window too early.

        Args:
            spent: what it used; nothing, where there is no answer.
            cached: the answer comes from a cache, and there was no request.
        """
        asked = 0 if cached else spent.requests or self._most.requests
        if self._entered and asked:
            _note_paid()
        for place, name in enumerate(reversed(self._entered)):
            used = _amounts(spent, 1) if place == 0 else {**NOTHING, "requests": 1.0}
            if name == self._entered[0]:
                used = {**used, "requests": float(asked)}
            await self.store.leave(name, used, self._windows)
        self._entered.clear()

    # While it is asked

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Let each further attempt in the `with` block enter the windows as well."""
        if not self.ceilings:
            yield
            return
        token = may_ask_again.set(_Again(self, may_ask_again.get()))
        try:
            yield
        finally:
            may_ask_again.reset(token)

    async def next_of(self, items: AsyncGenerator[str | CreateResult, None]) -> str | CreateResult | None:
        """The next item of a stream, as `asking` has it; None: it has ended."""
        with self.asking():
            return await anext(items, None)

    async def may_again(self) -> bool:
        """Whether there is room for one more attempt; outside a handler it is waited for, as its first one was."""
        most = replace(self._most, requests=1)
        while True:
            try:
                wait = await self._enter(most)
            except BudgetExceededError:
                return False
            if wait is None:
                return True
            await asyncio.sleep(wait)

    @property
    def _windows(self) -> list[Window]:
        return list(dict.fromkeys((scope, seconds) for scope, seconds, _, _ in self.ceilings))

    def _error(self, over: Over, most: Spent) -> BudgetExceededError:
        scope, seconds, unit, limit, used, wait, line = over
        waits = (scope, seconds, unit, limit) in self.waits and wait is not None
        until = None if wait is None else wait + (line if waits else 0.0)
        kind = BudgetHeldError if waits else BudgetExceededError
        return kind(
            self.model,
            retry_after=until,
            unit="USD" if unit == "usd" else unit,
            limit=limit,
            spent=used,
            needed=_amounts(most, most.requests)[unit],
            scope=scope,
            every=seconds,
            room_at=time.time() + (wait or 0.0),
            pays_again=_pays_again(),
        )


class _Again:
    """Asks the windows of a request whether it may be made again, then those of who is around it."""

    def __init__(self, admission: Admission, around: MayAsk | None) -> None:
        self._admission = admission
        self._around = around

    async def __call__(self) -> bool:
        return await self._admission.may_again() and (self._around is None or await self._around())


def _note_paid() -> None:
    """A model was asked in the handler that runs here, and in the recorded steps around this, if there are any."""
    execution = current.get()
    if execution is not None and not execution.is_over:
        execution.take_number(_paid(steps_around.get()))


def _pays_again() -> bool:
    """Whether another attempt at the message would ask a model again that was asked before: outside of what is recorded."""
    execution, steps = current.get(), steps_around.get()
    if execution is None or execution.is_over:
        return False
    return any(execution.is_taken(_paid(steps[:depth])) for depth in range(len(steps) + 1))


def _paid(steps: Sequence[str]) -> str:
    return "\0".join(("paid", *steps))


NOTHING: Final[Amounts] = dict.fromkeys(UNITS, 0.0)


def _amounts(spent: Spent, requests: int) -> Amounts:
    usd = -1.0 if spent.unpriced else spent.usd
    return {"requests": float(requests), "tokens": float(spent.tokens), "usd": usd}
