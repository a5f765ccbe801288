"""Usage and cost, added up per client, agent and run, in one process or over all that share a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, fields
from typing import Self

from callboard.context import MessageHandlerContext
from callboard.errors import OutsideContextError
from callboard.runtime.runs import run_id as run_id, usage_run as usage_run  # noqa: PLC0414 - passed on

from .info import Price, price_of
from .settings import DEFAULTS, ModelSettings
from .stores import InMemoryStore, Limit, Refusal, Store
from .types import RequestUsage

TOTAL = "total"


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


def scopes(client: str) -> tuple[str, ...]:
    """The scopes that a request made here and now counts for.

    Returns:
        "total", "client:<name>", and where there is one "agent:<type>/<key>" and "run:<name>".
    """
    found = [TOTAL, f"client:{client}"]
    with suppress(OutsideContextError):  # outside a handler no agent is charged
        found.append(f"agent:{MessageHandlerContext.agent_id()}")
    run = run_id()
    return (*found, f"run:{run}") if run is not None else tuple(found)


class UsageLedger:
    """A ledger that adds up usage.

    Sums are added to in the store and never read, changed and written back, so that of two processes that add at the
    same time none overwrites the other's.

    Attributes:
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
        self._store = store or InMemoryStore()
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
            await self._store.add(f"usage:{scope}", spent.amounts, self.settings.usage_seconds)

    async def spent(self, scope: str = TOTAL) -> Spent:
        """The amount that was used in a scope such as "total", "client:gpt-4o", "agent:writer/ada" or "run:42"."""
        return Spent.read(await self._store.table(f"usage:{scope}"))

    # Limits, and amounts set aside for requests under way

    async def limit(self, scope: str, *, tokens: int | None = None, usd: float | None = None) -> None:
        """Limit a scope, such as "run:42", for every client whose usage is added up here, whatever its own budgets.

        Args:
            scope: see `spent`.
            tokens: most that may be used from the beginning of the scope; None: as it was.
            usd: most that may be spent, USD; None: as it was.
        """
        for unit, most in (("tokens", tokens), ("usd", usd)):
            if most is not None:
                value = repr(most).encode()
                await self._store.put(f"usage:{scope}", f"limit_{unit}", value, self.settings.usage_seconds)

    async def hold(
        self, where: tuple[str, ...], hold_id: str, most: Spent, limits: Sequence[Limit] = ()
    ) -> Refusal | None:
        """Set the most that a request may need aside in every scope, or in none: when a limit would not cover it.

        The hold of a process that died counts until `hold_seconds` are over.

        Returns:
            None, or of the limit that is too small: scope, "tokens" or "usd", the limit, and what is used or held.
        """
        amounts = {"tokens": float(most.tokens), "usd": most.usd}
        return await self._store.hold(hold_id, where, amounts, limits, self.settings.hold_seconds)

    async def settle(self, where: tuple[str, ...], hold_id: str, spent: Spent) -> None:
        """End a hold, and add what was used to every scope: together, and once however often it is asked for."""
        await self._store.settle(hold_id, where, spent.amounts, self.settings.usage_seconds)

    async def holds(self, scope: str = TOTAL) -> int:
        """How many holds there are in a scope: requests under way, and those of processes that died."""
        return len(await self._store.table(f"held:{scope}"))
