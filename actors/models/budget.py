"""The client that adds up usage, and stops before a budget is exceeded."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final

from callboard.errors import SettingValueError

from .base import ChatCompletionClient
from .errors import BudgetExceededError, UnknownPriceError
from .request import ModelRequest, WrappedChatCompletionClient
from .types import CreateResult, RequestUsage
from .usage import TOTAL, Spent, UsageLedger, scopes

KINDS: Final = (TOTAL, "client", "agent", "run")
LIMITS_OF_ANSWERS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on spending.

    Attributes:
        scope: "total", "client", "agent" or "run": so much for everything, or for each client, agent or run; or one of
            them by name, such as "agent:writer/ada".
        usd: most that may be spent, USD; None: no limit in money.
        tokens: most that may be used, of both kinds together; None: no limit.

    Raises:
        SettingValueError: there is no such scope, or no limit.
    """

    scope: str = TOTAL
    usd: float | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        kind, colon, name = self.scope.partition(":")
        if kind not in KINDS or (colon and (kind == TOTAL or not name)):
            raise SettingValueError(
                "scope", repr(self.scope), f"one of {', '.join(KINDS)}, or agent:writer/ada"
            )
        if self.usd is None and self.tokens is None:
            raise SettingValueError("usd", "None", "given, or tokens")
        for setting, limit in (("usd", self.usd), ("tokens", self.tokens)):
            if limit is not None and not limit > 0:
                raise SettingValueError(setting, repr(limit), "more than 0")

    def covers(self, scope: str) -> bool:
        """Whether it limits a scope."""
        return scope == self.scope or scope.partition(":")[0] == self.scope


class MeteredChatCompletionClient(WrappedChatCompletionClient):
    """A client whose usage is added up, and which makes no request that a budget might not cover.

    Before a request the most that it can cost is set aside: its tokens as the client counts them, and the longest
    answer that `max_tokens` of the request or the client allows. So several requests at once, also of several
    processes with one store, stay within the budget together. Without a limit on answers
    `assumed_completion_tokens` of the ledger's settings stands in, and a longer answer can exceed the budget once.

    A stream that ends early is counted by the pieces that came.

    Args:
        client: asked for every answer.
        ledger: adds up usage, with the prices in its settings; default: one of its own, without prices.
        budgets: limits on spending.
        name: the client's name in the ledger; default: the model.
    """

    def __init__(
        self,
        client: ChatCompletionClient,
        ledger: UsageLedger | None = None,
        *,
        budgets: Sequence[Budget] = (),
        name: str | None = None,
    ) -> None:
        super().__init__(client)
        self.ledger = ledger or UsageLedger()
        self.name = name or client.model
        self._budgets = tuple(budgets)

    async def _create(self, request: ModelRequest) -> CreateResult:
        where = scopes(self.name)
        async with self._set_aside(request, where):
            result = await request.create(self.client)
            # Counted before the hold ends: in between, another request would find the money of this one free.
            await self._count(where, result.usage, cached=result.cached)
        return result

    async def _create_stream(self, request: ModelRequest) -> AsyncGenerator[str | CreateResult, None]:
        where = scopes(self.name)
        pieces = 0
        async with self._set_aside(request, where), aclosing(request.create_stream(self.client)) as items:
            try:
                async for item in items:
                    if isinstance(item, CreateResult):
                        pieces = 0
                        await self._count(where, item.usage, cached=item.cached)
                    else:
                        pieces += 1
                    yield item
            finally:
                # The stream ended before its result, or its reader stopped; servers send about one token in a piece.
                if pieces:
                    await self._count(where, RequestUsage(self._tokens_of(request), pieces))

    async def _count(self, where: tuple[str, ...], usage: RequestUsage, *, cached: bool = False) -> None:
        await self.ledger.add(where, self.ledger.spending(self.model, usage, cached=cached))

    def _tokens_of(self, request: ModelRequest) -> int:
        return self.client.count_tokens(request.messages, tools=request.tools)

    @asynccontextmanager
    async def _set_aside(self, request: ModelRequest, where: tuple[str, ...]) -> AsyncIterator[None]:
        """Set the most that a request may need aside in every budget that covers it.

        Raises:
            BudgetExceededError: one of them has less left.
            UnknownPriceError: one of them is in money, and the model's price is not known.
        """
        covering = [(budget, scope) for scope in where for budget in self._budgets if budget.covers(scope)]
        if not covering:
            yield
            return
        most = self._most(request, any(budget.usd is not None for budget, _ in covering))
        hold_id = os.urandom(8).hex()
        try:
            for budget, scope in covering:
                # Set aside first, and looked at after. The other way round, two requests at once could both find room
                # for one, and then both take it. So each sees the other; at worst both are refused.
                await self.ledger.hold(scope, hold_id, most)
                await self._check(budget, scope, hold_id, most)
            yield
        finally:
            for scope in {scope for _, scope in covering}:
                await self.ledger.release(scope, hold_id)

    def _most(self, request: ModelRequest, in_money: bool) -> Spent:
        price = self.ledger.price(self.model)
        if in_money and price is None:
            raise UnknownPriceError(self.model)
        limits = [request.extra_create_args.get(name) for name in LIMITS_OF_ANSWERS]
        given = [limit for limit in (*limits, self.client.max_completion_tokens) if isinstance(limit, int)]
        longest = given[0] if given else self.ledger.settings.assumed_completion_tokens
        usage = RequestUsage(self._tokens_of(request), longest)
        return Spent(1, usage.prompt_tokens, usage.completion_tokens, price.of(usage) if price else 0.0)

    async def _check(self, budget: Budget, scope: str, hold_id: str, most: Spent) -> None:
        spent = await self.ledger.spent(scope)
        held_tokens, held_usd = await self.ledger.held(scope, besides=hold_id)
        if budget.tokens is not None and spent.tokens + held_tokens + most.tokens > budget.tokens:
            used = spent.tokens + held_tokens
            raise BudgetExceededError(
                self.model, unit="tokens", limit=budget.tokens, spent=used, needed=most.tokens
            )
        if budget.usd is not None and spent.usd + held_usd + most.usd > budget.usd:
            raise BudgetExceededError(
                self.model, unit="USD", limit=budget.usd, spent=spent.usd + held_usd, needed=most.usd
            )
