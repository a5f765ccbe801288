"""The client that adds up usage, and stops before a budget is exceeded."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Final, NoReturn

from callboard.errors import SettingValueError
from callboard.memory.llm_messages import AssistantMessage

from .base import ChatCompletionClient
from .charges import charged
from .errors import BudgetExceededError, BudgetHeldError, ModelError, UnknownPriceError
from .holds import new_hold_id
from .request import ModelRequest, WrappedChatCompletionClient
from .stores import Limit, Refusal
from .types import CreateResult, RequestUsage
from .usage import TOTAL, Spent, UsageLedger, scopes

KINDS: Final = (TOTAL, "client", "agent", "run")
NOTHING: Final = RequestUsage(0, 0)
TOKENS_OF_CORRECTION: Final = 100  # of what is said about an answer that can't be used, at most about so many
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

    def limits_of(self, scope: str) -> list[Limit]:
        """Its limits on a scope, as a store takes them."""
        given = (("tokens", self.tokens), ("usd", self.usd)) if self.covers(scope) else ()
        return [(scope, unit, float(most)) for unit, most in given if most is not None]


class MeteredChatCompletionClient(WrappedChatCompletionClient):
    """A client whose usage is added up, and which makes no request that a budget might not cover.

    Before a request the most that it can cost is set aside: its tokens as the client counts them, and the longest
    answer that `max_tokens` of the request or the client allows. So several requests at once, also of several
    processes with one store, stay within the budget together. Without a limit on answers
    `assumed_completion_tokens` of the ledger's settings stands in, and a longer answer can exceed the budget once.

    What was paid for is counted, whatever became of the answer: also when it could not be used, when a stream broke off
    or its reader stopped, when a request was cancelled or took too long after the model had read it. Where the server
    does not say how much that was, the client's own count stands in.

    Inside a run (`usage_run`, and whatever its messages lead to) a limit that `UsageLedger.limit` set for the run counts
    as well.

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
        async with self._drawn(request) as draft:
            try:
                result = await request.create(self.client)
            except (ModelError, asyncio.CancelledError) as error:
                draft.used = charged(error)
                raise
            draft.end(result, self._estimate(request, result))
        return result

    async def _create_stream(self, request: ModelRequest) -> AsyncGenerator[str | CreateResult, None]:
        async with self._drawn(request) as draft, aclosing(request.create_stream(self.client)) as items:
            said: list[str] = []
            try:
                async for item in items:
                    if isinstance(item, CreateResult):
                        draft.end(item, self._estimate(request, item))
                    else:
                        said.append(item)
                    yield item
            except BaseException as error:
                if not draft.has_ended:
                    # The stream ended before its result, or its reader stopped.
                    draft.used = max(charged(error), self._of_pieces(request, said), key=_total)
                raise

    def _of_pieces(self, request: ModelRequest, said: Sequence[str]) -> RequestUsage:
        """What pieces of an answer cost; servers send about one token in a piece."""
        return RequestUsage(self._tokens_of(request), len(said)) if said else NOTHING

    def _estimate(self, request: ModelRequest, result: CreateResult) -> RequestUsage:
        """The usage of an answer; by the client's own count where the server has counted nothing."""
        if result.cached or result.usage.total_tokens:
            return result.usage
        said = AssistantMessage(content=result.content, thought=result.thought, source="assistant")
        return RequestUsage(self._tokens_of(request), self.client.count_tokens([said]))

    def _tokens_of(self, request: ModelRequest) -> int:
        return self.client.count_tokens(request.messages, tools=request.tools)

    @asynccontextmanager
    async def _drawn(self, request: ModelRequest) -> AsyncIterator[_Draft]:
        """Set the most that a request may need aside, and count what it used in its place.

        Raises:
            BudgetExceededError: a budget that covers it has less left; BudgetHeldError: until other requests end.
            UnknownPriceError: one of them is in money, and the model's price is not known.
        """
        where, hold_id, draft = self._scopes(), new_hold_id(), _Draft()
        try:
            await self._hold(where, hold_id, request)
            yield draft
        finally:
            # In one step: in between, another request would find the money of this one free.
            spent = (
                self.ledger.spending(self.model, draft.used, cached=draft.cached) if draft.counts else Spent()
            )
            await self.ledger.settle(where, hold_id, spent, self.model)

    def _scopes(self) -> tuple[str, ...]:
        """What a request counts for."""
        return scopes(self.name)

    async def _hold(self, where: tuple[str, ...], hold_id: str, request: ModelRequest) -> None:
        limits = [limit for scope in where for budget in self._budgets for limit in budget.limits_of(scope)]
        most = self._most(request, any(unit == "usd" for _, unit, _ in limits))
        refused = await self.ledger.hold(where, hold_id, most, limits)
        if refused is not None:
            await self._refuse(refused, most)

    def _most(self, request: ModelRequest, in_money: bool) -> Spent:
        price = self.ledger.price(self.model)
        if in_money and price is None:
            raise UnknownPriceError(self.model)
        limits = [request.extra_create_args.get(name) for name in LIMITS_OF_ANSWERS]
        given = [limit for limit in (*limits, self.client.max_completion_tokens) if isinstance(limit, int)]
        longest = given[0] if given else self.ledger.settings.assumed_completion_tokens
        times, prompt = self.client.most_answers(**request.options), self._tokens_of(request)
        # Each further answer to the same question comes with the one before it in its prompt.
        before = sum(range(times)) * (longest + TOKENS_OF_CORRECTION)
        usage = RequestUsage(prompt * times + before, longest * times)
        cost = price.of(usage) if price else 0.0
        return Spent(times, usage.prompt_tokens, usage.completion_tokens, cost, 0 if price else times)

    async def _refuse(self, refused: Refusal, most: Spent) -> NoReturn:
        scope, unit, limit, used = refused
        if unit == "usd" and self.ledger.price(self.model) is None:
            raise UnknownPriceError(self.model)
        in_money = unit == "usd"
        needed, spent = most.usd if in_money else most.tokens, await self.ledger.spent(scope)
        has_room = (spent.usd if in_money else spent.tokens) + needed <= limit
        kind = BudgetHeldError if has_room else BudgetExceededError
        name = "USD" if in_money else unit
        raise kind(self.model, unit=name, limit=limit, spent=used, needed=needed, scope=scope)


@dataclass(slots=True)
class _Draft:
    """What a request used, as far as is known by now.

    Attributes:
        used: tokens.
        cached: the answer comes from a cache.
        has_ended: there is an answer.
    """

    used: RequestUsage = NOTHING
    cached: bool = False
    has_ended: bool = False

    @property
    def counts(self) -> bool:
        """Whether there is anything to count."""
        return self.has_ended or self.used.total_tokens > 0

    def end(self, result: CreateResult, used: RequestUsage) -> None:
        """There is an answer."""
        self.used, self.cached, self.has_ended = used, result.cached, True


def _total(usage: RequestUsage) -> int:
    return usage.total_tokens
