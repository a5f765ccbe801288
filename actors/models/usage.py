"""Usage and cost, added up per client, agent and run, in one process or over all that share a server."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import astuple, dataclass, fields
from typing import Self

from callboard.context import MessageHandlerContext
from callboard.errors import OutsideContextError

from .info import Price, price_of
from .settings import DEFAULTS, ModelSettings
from .stores import InMemoryStore, Store
from .types import RequestUsage

TOTAL = "total"

_run: ContextVar[str | None] = ContextVar("callboard_usage_run", default=None)


@contextmanager
def usage_run(name: str) -> Iterator[None]:
    """Count everything that is used in the `with` block for the run `name` as well.

    Args:
        name: such as the id of a team's run. The same name may be used again, also in other processes.
    """
    token = _run.set(name)
    try:
        yield
    finally:
        _run.reset(token)


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

    @classmethod
    def read(cls, table: Mapping[str, bytes]) -> Self:
        """An amount from the table that a store keeps."""
        numbers = {name: float(value) for name, value in table.items()}
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
    run = _run.get()
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
        clock: Unix time in seconds.
    """

    def __init__(
        self,
        store: Store | None = None,
        settings: ModelSettings = DEFAULTS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._store = store or InMemoryStore()
        self.settings = settings
        self._clock = clock

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
        changed = {spec.name: amount for spec in fields(spent) if (amount := getattr(spent, spec.name))}
        for scope in where:
            await self._store.add(f"usage:{scope}", changed, self.settings.usage_seconds)

    async def spent(self, scope: str = TOTAL) -> Spent:
        """The amount that was used in a scope such as "total", "client:gpt-4o", "agent:writer/ada" or "run:42"."""
        return Spent.read(await self._store.table(f"usage:{scope}"))

    # Amounts set aside for requests under way

    async def hold(self, scope: str, hold_id: str, amount: Spent) -> None:
        """Set an amount aside."""
        ends = self._clock() + self.settings.hold_seconds
        value = json.dumps([ends, amount.tokens, amount.usd]).encode()
        await self._store.put(f"held:{scope}", hold_id, value, self.settings.hold_seconds)

    async def held(self, scope: str, *, besides: str = "") -> tuple[int, float]:
        """Tokens and USD that are set aside, except by the hold with the id `besides`.

        The hold of a process that died counts until `hold_seconds` are over.
        """
        tokens, usd = 0, 0.0
        for hold_id, value in (await self._store.table(f"held:{scope}")).items():
            ends, more_tokens, more_usd = json.loads(value)
            if hold_id != besides and ends > self._clock():
                tokens, usd = tokens + more_tokens, usd + more_usd
        return tokens, usd

    async def release(self, scope: str, hold_id: str) -> None:
        """End a hold."""
        await self._store.remove(f"held:{scope}", hold_id)
