"""Usage and cost, added up per client, agent and run, in one process or over all that share a server."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress

from callboard.context import MessageHandlerContext
from callboard.errors import OutsideContextError, SettingValueError
from callboard.runtime.run_paths import names_in
from callboard.runtime.runs import run_id as run_id, run_path, speaker, usage_run as usage_run  # noqa: PLC0414 - passed on

from .amounts import Spent as Spent  # noqa: PLC0414 - passed on
from .info import Price, price_of
from .run_usage import RunUsage
from .settings import DEFAULTS, ModelSettings
from .stores import InMemoryStore, Limit, Refusal, Store
from .types import RequestUsage

TOTAL = "total"


def scopes(client: str) -> tuple[str, ...]:
    """The scopes that a request made here and now counts for.

    Returns:
        "total", "client:<name>", and where there is one "agent:<type>/<key>" and those of `run_scopes`.
    """
    found = [TOTAL, f"client:{client}"]
    with suppress(OutsideContextError):  # outside a handler no agent is charged
        found.append(f"agent:{MessageHandlerContext.agent_id()}")
    return (*found, *run_scopes())


def run_scopes() -> tuple[str, ...]:
    """The scopes of the runs that this code belongs to, such as "run:42", the outermost first.

    A run of a team has two: "run:<id>", and one with its conversation. So has each turn of a team inside another.
    """
    path = run_path()
    return () if path is None else tuple(f"run:{name}" for name in names_in(path))


class UsageLedger:
    """A ledger that adds up usage.

    Sums are added to in the store and never read, changed and written back, so that of two processes that add at the
    same time none overwrites the other's.

    Attributes:
        store: see below.
        settings: prices, and how long amounts are kept.

    Args:
        store: keeps the sums; an InMemoryStore for this process, a RedisStore or RuntimeStore for all processes together.
        settings: see above.
    """

    def __init__(
        self,
        store: Store | None = None,
        settings: ModelSettings = DEFAULTS,
    ) -> None:
        self.store = store or InMemoryStore()
        self.settings = settings

    def price(self, model: str) -> Price | None:
        """The price of a model; None: it is not in the settings."""
        return price_of(model, self.settings.prices)

    def spending(self, model: str, usage: RequestUsage, *, cached: bool = False) -> Spent:
        """The amount for one answer; a cached one costs nothing."""
        if cached:
            return Spent(requests=1)
        price = self.price(model)
        cost = 0.0 if price is None else price.of(usage)
        return Spent(1, usage.prompt_tokens, usage.completion_tokens, cost, int(price is None))

    async def add(self, where: tuple[str, ...], spent: Spent) -> None:
        """Add an amount to every scope of `where`."""
        for scope in where:
            await self.store.add(f"usage:{scope}", spent.amounts, self.settings.usage_seconds)

    async def spent(self, scope: str = TOTAL) -> Spent:
        """The amount that was used in a scope such as "total", "client:gpt-4o", "agent:writer/ada" or "run:42"."""
        return Spent.read(await self.store.table(f"usage:{scope}"))

    # Limits, and amounts set aside for requests under way

    async def limit(self, scope: str, *, tokens: int | None = None, usd: float | None = None) -> None:
        """Limit a scope, such as "run:42", for every client whose usage is added up here, whatever its own budgets.

        Args:
            scope: see `spent`.
            tokens: most that may be used from the beginning of the scope; None: as it was.
            usd: most that may be spent, USD; None: as it was.

        Raises:
            SettingValueError: one of them is no finite number of 0 or more (a ValueError).
        """
        given: Sequence[tuple[str, object]] = (("tokens", tokens), ("usd", usd))
        for unit, most in given:
            if most is not None:
                # What is no number, or not finite, would limit nothing, or stop all that read it.
                if isinstance(most, bool) or not isinstance(most, int | float) or not 0 <= most < math.inf:
                    raise SettingValueError(unit, repr(most), "0 or more")
                value = repr(most).encode()
                await self.store.put(f"usage:{scope}", f"limit_{unit}", value, self.settings.usage_seconds)

    async def hold(
        self, where: tuple[str, ...], hold_id: str, most: Spent, limits: Sequence[Limit] = ()
    ) -> Refusal | None:
        """Set the most that a request may need aside in every scope, or in none: when a limit would not cover it.

        The hold of a process that died counts until `hold_seconds` are over.

        Returns:
            None, or of the limit that is too small: scope, "tokens" or "usd", the limit, and what is used or held.
        """
        amounts = {"tokens": float(most.tokens), "usd": -1.0 if most.unpriced else most.usd}
        return await self.store.hold(hold_id, where, amounts, limits, self.settings.hold_seconds)

    async def begin(self, where: tuple[str, ...], hold_id: str) -> bool:
        """Begin a request that nothing limits, as a hold of nothing; False: a scope is limited, and nothing was done."""
        return await self.store.begin(hold_id, where, self.settings.hold_seconds)

    async def settle(self, where: tuple[str, ...], hold_id: str, spent: Spent, model: str = "") -> None:
        """End a hold, and add what was used to every scope: together, and once however often it is asked for.

        Args:
            where: the scopes.
            hold_id: names the hold.
            spent: what was used.
            model: in scopes of runs it counts for this model and whoever asked it, too; "": it does not.
        """
        part = f"{speaker()} {model}" if model else ""
        await self.store.settle(hold_id, where, spent.amounts, self.settings.usage_seconds, part)

    async def of_run(self, name: str) -> RunUsage:
        """What a run has used, by agent and by model.

        Args:
            name: of the run, as in `usage_run`.
        """
        return RunUsage.read(await self.store.table(f"usage:run:{name}"))

    async def holds(self, scope: str = TOTAL) -> int:
        """How many holds there are in a scope: requests under way, and those of processes that died."""
        return len(await self.store.table(f"held:{scope}"))
