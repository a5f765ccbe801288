"""Budgets: the client that adds up usage and stops before a limit, alone or for everything inside a run."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, Literal, NoReturn, TypeGuard

from callboard.core.context import MessageHandlerContext
from callboard.errors import MisuseError, SettingValueError
from callboard.memory.cancelling import cancellable
from callboard.memory.llm_messages import AssistantMessage
from callboard.runtime.effects import names_in
from callboard.runtime.execution import (
    current,
    run_path,
    speaker,
    usage_run as usage_run,  # noqa: PLC0414 - a public name of models
)

from .admission import UNITS, Admission
from .base import ChatCompletionClient, ModelRequest, WrappedChatCompletionClient
from .errors import BadRequestError, BudgetExceededError, BudgetHeldError, ModelError, charged
from .info import DEFAULTS, ModelSettings, Price, price_of
from .stores import Limit, LocalStore, Refusal, RuntimeStore, Store, is_of_handler, new_hold_id
from .types import CreateResult, RequestUsage, RunUsage, Spent
from .windows import Ceiling

TOTAL = "total"
NO_PRICE: Final = "its price is not known: add it to the prices, or set a limit in tokens"


def scopes(client: str) -> tuple[str, ...]:
    """The scopes that a request made here and now counts for.

    Returns:
        "total", "client:<name>", and where there is one "agent:<type>/<key>" and those of `run_scopes`.
    """
    found = [TOTAL, f"client:{client}"]
    with suppress(MisuseError):  # outside a handler no agent is charged
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
        store: keeps the sums; a LocalStore for this process, a RedisStore or RuntimeStore for all processes together.
        settings: see above.
    """

    def __init__(
        self,
        store: Store | None = None,
        settings: ModelSettings = DEFAULTS,
    ) -> None:
        self.store = store or LocalStore()
        self.settings = settings

    def price(self, model: str) -> Price | None:
        """The price of a model; None: it is not in the settings."""
        return price_of(model, self.settings.prices)

    def spending(self, model: str, usage: RequestUsage, *, cached: bool = False, requests: int = 1) -> Spent:
        """The amount for one answer, for which the model was asked so often; one of a cache costs nothing."""
        if cached:
            return Spent(requests=1)
        price = self.price(model)
        return Spent(
            requests=requests,
            prompt_tokens=usage.prompt_tokens,
            completion_tokens=usage.completion_tokens,
            usd=0.0 if price is None else price.of(usage),
            unpriced=int(price is None),
            cached_tokens=usage.cached_tokens,
            reasoning_tokens=usage.reasoning_tokens,
        )

    async def overhead(self, model: str) -> int:
        """Tokens that the server's template added to a prompt at most, beyond those that were counted before."""
        found = await self.store.table(f"overhead:{model}")
        return int(found.get("tokens", b"0"))

    async def note_overhead(self, model: str, tokens: int) -> None:
        """Remember that a prompt was longer than counted by so many tokens, for all who count with this store."""
        await self.store.put(f"overhead:{model}", "tokens", str(tokens).encode(), self.settings.usage_seconds)

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
            model: in scopes of runs it counts for this model and the agent that asked it, too; "": it does not.
        """
        part = f"{speaker()} {model}" if model else ""
        await self.store.settle(hold_id, where, spent.amounts, self.settings.usage_seconds, part)

    async def of_run(self, name: str) -> RunUsage:
        """Usage of a run, by agent and by model.

        Args:
            name: of the run, as in `usage_run`.
        """
        return RunUsage.read(await self.store.table(f"usage:run:{name}"))

    async def holds(self, scope: str = TOTAL) -> int:
        """How many holds there are in a scope: requests under way, and those of processes that died."""
        return len(await self.store.table(f"held:{scope}"))


KINDS: Final = (TOTAL, "client", "agent", "run", "key")
WORDS: Final[Mapping[str, float]] = {"minute": 60.0, "hour": 3_600.0, "day": 86_400.0}
LONGEST_WINDOW: Final = 366 * 86_400.0  # seconds
MOST_NAME: Final = 500  # characters of a name that a function returns
NOTHING: Final = RequestUsage(0, 0)
TOKENS_OF_CORRECTION: Final = 100  # of what is said about an answer that can't be used, at most about so many
LIMITS_OF_ANSWERS: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens")


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on spending, for all time or for any minute, hour, day or other time.

    ```python
    Budget("client", requests=500, tokens=200_000, every="minute", when_over="wait")  # what the provider allows
    Budget(customer, usd=5.0, every="day")  # `def customer() -> str` says whose request it is
    ```

    Attributes:
        scope: "total", "client", "agent" or "run": so much for everything, or for each client, agent or run; "key": for the
            agents of one key together, whatever their types; one of them by name, such as "agent:writer/ada"; or a function
            that is called with each request and returns the name of whom it counts for, None: for nobody.
        usd: most that may be spent, USD; None: no limit in money.
        tokens: most that may be used, of both kinds together; None: no limit.
        requests: most that may begin; needs `every`.
        every: "minute", "hour", "day" or seconds: the limits are for any time of this length, wherever it begins; a day is
            any 24 hours. None: they are for all time.
        when_over: "refuse": a request that finds no room is a BudgetExceededError; "wait": it waits. In a handler the
            attempt ends with a BudgetHeldError, as with an outage, and the message comes again when there is room.

    Raises:
        SettingValueError: there is no such scope, or no limit, or a limit is no number above 0.
    """

    scope: str | Callable[[], str | None] = TOTAL
    usd: float | None = None
    tokens: int | None = None
    requests: int | None = None
    every: float | Literal["minute", "hour", "day"] | None = None
    when_over: Literal["refuse", "wait"] = "refuse"

    def __post_init__(self) -> None:
        if not callable(self.scope):
            kind, colon, name = str(self.scope).partition(":")
            if kind not in KINDS or (colon and (kind == TOTAL or not name)):
                rule = f"one of {', '.join(KINDS)}, agent:writer/ada, or a function"
                raise SettingValueError("scope", repr(self.scope), rule)
        if self.usd is self.tokens is self.requests is None:
            raise SettingValueError("usd", "None", "given, or tokens, or requests")
        for setting in UNITS:
            limit = getattr(self, setting)
            # What is no number, or not finite, would limit nothing.
            if limit is not None and not (_is_number(limit) and 0 < limit < math.inf):
                raise SettingValueError(setting, repr(limit), "more than 0")
        self._check_window()

    def _check_window(self) -> None:
        if self.every is not None:
            seconds = WORDS.get(self.every) if isinstance(self.every, str) else self.every
            if not (_is_number(seconds) and 1 <= seconds <= LONGEST_WINDOW):
                rule = '"minute", "hour", "day", or from 1 second to a year'
                raise SettingValueError("every", repr(self.every), rule)
        if self.when_over not in ("refuse", "wait"):
            raise SettingValueError("when_over", repr(self.when_over), '"refuse" or "wait"')
        if self.every is None and self.requests is not None:
            raise SettingValueError("requests", repr(self.requests), 'given with every, such as "minute"')
        if self.every is None and self.when_over == "wait":
            raise SettingValueError(
                "when_over", "'wait'", "given with every: else there is no end to wait for"
            )

    @property
    def seconds(self) -> float:
        """Length of its window; 0: it is for all time."""
        return WORDS[self.every] if isinstance(self.every, str) else float(self.every or 0)

    def covers(self, scope: str) -> bool:
        """Whether it limits a scope; one of a function covers none before it is asked."""
        return scope == self.scope or scope.partition(":")[0] == self.scope

    def scopes_of(self, where: Sequence[str]) -> tuple[str, ...]:
        """The scopes that it limits for a request made here and now.

        Args:
            where: the scopes that the request counts for anyway.

        Raises:
            SettingValueError: its function returned no name.
        """
        if callable(self.scope):
            name = self.scope()
            return () if name is None else (_checked_name(name),)
        return tuple(scope for scope in (*where, *_key_scope()) if self.covers(scope))

    def limits_of(self, scope: str) -> list[Limit]:
        """Its limits on a scope for all time, as a store takes them."""
        given = () if self.every else (("tokens", self.tokens), ("usd", self.usd))
        return [(scope, unit, float(most)) for unit, most in given if most is not None]

    def ceilings_of(self, scope: str) -> list[Ceiling]:
        """Its limits on a scope within its window."""
        given = [(unit, getattr(self, unit)) for unit in UNITS] if self.every else []
        return [(scope, self.seconds, unit, float(most)) for unit, most in given if most is not None]


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _checked_name(name: object) -> str:
    is_name = isinstance(name, str) and 0 < len(name) <= MOST_NAME and name.isprintable()
    if not is_name:
        rule = f"a function that returns a printable text of 1 to {MOST_NAME} characters, or None"
        raise SettingValueError("scope", repr(name)[:80], rule)
    return str(name)


def _key_scope() -> tuple[str, ...]:
    """The scope of the agents that have the key of the one whose handler is running."""
    with suppress(MisuseError):
        return (f"key:{MessageHandlerContext.agent_id().key}",)
    return ()


@dataclass(slots=True)
class _Draft:
    """Usage of a request, as far as is known by now.

    Attributes:
        used: tokens.
        cached: the answer comes from a cache.
        has_ended: there is an answer.
        requests: how often the model was asked.
        counted: tokens of the prompt as they were counted before the request; 0: they were not.
        admission: of the request to its windows.
    """

    admission: Admission
    used: RequestUsage = NOTHING
    cached: bool = False
    has_ended: bool = False
    requests: int = 1
    counted: int = 0

    @property
    def counts(self) -> bool:
        """Whether there is anything to count."""
        return self.has_ended or self.used.total_tokens > 0

    def end(self, result: CreateResult, used: RequestUsage) -> None:
        """There is an answer."""
        self.used, self.cached, self.has_ended, self.requests = used, result.cached, True, result.requests

    @property
    def overhead(self) -> int:
        """Tokens that the prompt had beyond those that were counted."""
        is_one = self.has_ended and not self.cached and self.requests == 1 and self.counted > 0
        return max(0, self.used.prompt_tokens - self.counted) if is_one else 0


class MeteredChatCompletionClient(WrappedChatCompletionClient):
    """A client whose usage is added up, and which makes no request that a budget might not cover.

    Before a request the most that it can cost is set aside: its tokens as the client counts them, what the server's
    template adds to these (a guess at first, then the most that an answer has shown), and the longest answer that
    `max_tokens` of the request or the client allows. So several requests at once, also of several processes with one
    store, stay within the budget together. Without a limit on answers `assumed_completion_tokens` of the ledger's settings
    stands in, and a longer answer can exceed the budget once.

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
        self._overhead = 0
        self._budgets = tuple(budgets)

    async def _create(self, request: ModelRequest) -> CreateResult:
        async with self._drawn(request) as draft:
            try:
                with draft.admission.asking():
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
                while (item := await draft.admission.next_of(items)) is not None:
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
        """Cost of the pieces of an answer; servers send about one token in a piece."""
        return RequestUsage(self._tokens_of(request), len(said)) if said else NOTHING

    def _estimate(self, request: ModelRequest, result: CreateResult) -> RequestUsage:
        """The usage of an answer; by the client's own count where the server has counted nothing."""
        if result.cached or result.usage.total_tokens:
            return result.usage
        said = AssistantMessage(
            content=result.content, thought=result.thought, source="assistant", vendor=result.vendor
        )
        return RequestUsage(self._tokens_of(request), self.client.count_tokens([said]))

    def _tokens_of(self, request: ModelRequest) -> int:
        return self.client.count_tokens(request.messages, tools=request.tools)

    @asynccontextmanager
    async def _drawn(self, request: ModelRequest) -> AsyncIterator[_Draft]:
        """Set the most that a request may need aside, and count what it used in its place.

        Raises:
            BudgetExceededError: a budget that covers it has less left; BudgetHeldError: until other requests end.
            BadRequestError: one of them is in money, and the model's price is not known.
        """
        where, hold_id = self._scopes(), new_hold_id()
        limited = [(budget, scope) for budget in self._budgets for scope in budget.scopes_of(where)]
        where = tuple(dict.fromkeys((*where, *(scope for _, scope in limited))))
        draft = _Draft(Admission.of(self.ledger.store, self.model, limited))
        try:
            await self._begin(where, hold_id, request, draft, limited)
            yield draft
        finally:
            # In one step: in between, another request would find the money of this one free.
            spent = (
                self.ledger.spending(self.model, draft.used, cached=draft.cached, requests=draft.requests)
                if draft.counts
                else Spent()
            )
            await self.ledger.settle(where, hold_id, spent, self.model)
            await draft.admission.leave(spent, cached=draft.cached)
            if draft.overhead > self._overhead:
                self._overhead = draft.overhead
                await self.ledger.note_overhead(self.model, draft.overhead)

    def _scopes(self) -> tuple[str, ...]:
        """The scopes that a request counts for."""
        return scopes(self.name)

    async def _begin(
        self,
        where: tuple[str, ...],
        hold_id: str,
        request: ModelRequest,
        draft: _Draft,
        limited: Sequence[tuple[Budget, str]],
    ) -> None:
        """Set aside what a request may need, and enter its windows, as soon as both have room."""
        limits = [limit for budget, scope in limited for limit in budget.limits_of(scope)]
        while True:
            draft.counted = await self._hold(where, hold_id, request, limits)
            if not draft.admission.ceilings:
                return
            wait = await draft.admission.enter(
                self._most(request, draft.counted + self._added, draft.admission.is_in_money)
            )
            if wait is None:
                return
            # What waits holds nothing meanwhile that others might use.
            await self.ledger.settle(where, hold_id, Spent())
            await cancellable(asyncio.sleep(wait), request.cancellation_token)

    async def _hold(
        self, where: tuple[str, ...], hold_id: str, request: ModelRequest, limits: Sequence[Limit]
    ) -> int:
        """Set the most aside that a request may need; return the tokens of its prompt, as they are counted."""
        counted = self._tokens_of(request)
        # A server's template must not carry a request over its budget.
        self._overhead = max(self._overhead, await self.ledger.overhead(self.model))
        most = self._most(request, counted + self._added, any(unit == "usd" for _, unit, _ in limits))
        refused = await self.ledger.hold(where, hold_id, most, limits)
        if refused is not None:
            await self._refuse(refused, most)
        return counted

    @property
    def _added(self) -> int:
        """Tokens that the server may add to a prompt."""
        return self._overhead or self.client.template_tokens

    def _most(self, request: ModelRequest, prompt: int, in_money: bool) -> Spent:
        price = self.ledger.price(self.model)
        if in_money and price is None:
            raise BadRequestError(self.model, NO_PRICE)
        limits = [request.extra_create_args.get(name) for name in LIMITS_OF_ANSWERS]
        given = [limit for limit in (*limits, self.client.max_completion_tokens) if isinstance(limit, int)]
        longest = given[0] if given else self.ledger.settings.assumed_completion_tokens
        times = self.client.most_answers(**request.options)
        # Each further answer to the same question comes with the one before it in its prompt.
        before = sum(range(times)) * (longest + TOKENS_OF_CORRECTION)
        usage = RequestUsage(prompt * times + before, longest * times)
        cost = price.of(usage) if price else 0.0
        return Spent(times, usage.prompt_tokens, usage.completion_tokens, cost, 0 if price else times)

    async def _refuse(self, refused: Refusal, most: Spent) -> NoReturn:
        scope, unit, limit, used = refused
        if unit == "usd" and self.ledger.price(self.model) is None:
            raise BadRequestError(self.model, NO_PRICE)
        in_money = unit == "usd"
        needed, spent = most.usd if in_money else most.tokens, await self.ledger.spent(scope)
        has_room = (spent.usd if in_money else spent.tokens) + needed <= limit
        kind = BudgetHeldError if has_room else BudgetExceededError
        name = "USD" if in_money else unit
        raise kind(self.model, unit=name, limit=limit, spent=used, needed=needed, scope=scope)


def _total(usage: RequestUsage) -> int:
    return usage.total_tokens


PAUSE: Final = 0.02  # seconds between two tries while other requests of a run hold what this one needs

# Where the usage of a run in this process is kept, which is in no handler.
store_here: ContextVar[Store | None] = ContextVar("callboard_run_store", default=None)


@contextmanager
def counted_here(store: Store) -> Iterator[None]:
    """Count what is used in the `with` block in a store of this process, as far as that is in no handler of the bus."""
    token = store_here.set(store)
    try:
        yield
    finally:
        store_here.reset(token)


def store_of_run() -> Store | None:
    """Where the run that is under way here counts: on the server in a handler; None: nothing counts here."""
    of_handler = RuntimeStore()
    return of_handler if is_of_handler(of_handler) else store_here.get()


def in_run(client: ChatCompletionClient) -> ChatCompletionClient:
    """The client for a request that is made now: inside a run it is one that is metered for the run.

    In a handler the sums are kept on the server, so that all processes count together. A client that is metered there
    already (`MeteredChatCompletionClient` with a store on the server) stays as it is, so nothing counts twice. Prices are
    those of the MeteredChatCompletionClient that it contains, wherever that one keeps its own sums.

    Args:
        client: with whatever is around it.
    """
    store = store_of_run()
    if store is None or not run_scopes():
        return client
    if _innermost(client).meters_itself:
        return client
    settings = DEFAULTS
    for metered in metered_in(client):
        if metered.ledger.store is store or is_of_handler(metered.ledger.store):
            return client
        settings = metered.ledger.settings
    return _MeteredInRun(client, UsageLedger(store, settings))


def _innermost(client: ChatCompletionClient) -> ChatCompletionClient:
    while isinstance(client, WrappedChatCompletionClient):
        client = client.client
    return client


def metered_in(client: ChatCompletionClient) -> Iterator[MeteredChatCompletionClient]:
    """The metered clients that a client is made of."""
    while isinstance(client, WrappedChatCompletionClient):
        if isinstance(client, MeteredChatCompletionClient):
            yield client
        client = client.client


class _MeteredInRun(MeteredChatCompletionClient):
    """Counts for runs only; and without a limit it sets nothing aside, which spares counting the prompt's tokens."""

    def _scopes(self) -> tuple[str, ...]:
        return run_scopes()

    async def _hold(
        self, where: tuple[str, ...], hold_id: str, request: ModelRequest, limits: Sequence[Limit]
    ) -> int:
        if await self.ledger.begin(where, hold_id):
            return 0
        while True:
            try:
                return await super()._hold(where, hold_id, request, limits)
            except BudgetHeldError:
                if current.get() is not None:
                    raise  # the bus tries the message again
                await asyncio.sleep(PAUSE)
