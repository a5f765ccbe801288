"""Limits of any minute or day: what finds no room is refused or waits, and what was not used is given back."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from callboard.errors import SettingValueError
from callboard.models import (
    Budget,
    ChatCompletionClient,
    FallbackChatCompletionClient,
    LocalStore,
    MeteredChatCompletionClient,
    ModelRetries,
    ModelSettings,
    Price,
    ReplayChatCompletionClient,
    RetryingChatCompletionClient,
    Streamed,
    UsageLedger,
    UserMessage,
)
from callboard.models.errors import (
    BadRequestError,
    BudgetExceededError,
    BudgetHeldError,
    ModelOverloadedError,
)
from callboard.models.windows import Amounts, Ceiling, LocalWindows, Over

QUESTION = [UserMessage(content="one two three", source="user")]  # 3 tokens
SHORT = {"max_tokens": 7}  # so at most 10, and 7 in the end


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_000_000.25
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    use(monkeypatch, made.sleep)
    return made


def use(monkeypatch: pytest.MonkeyPatch, sleep: Callable[[float], Awaitable[None]]) -> None:
    """Let what waits for windows sleep like this. Not asyncio itself: servers of other tests sleep in this process, too."""

    class Asyncio:
        def __getattr__(self, name: str) -> Any:
            return sleep if name == "sleep" else getattr(asyncio, name)

    for module in ("budget", "admission"):
        monkeypatch.setattr(f"callboard.models.{module}.asyncio", Asyncio())


def model(*answers: Any) -> ReplayChatCompletionClient:
    made = ReplayChatCompletionClient(list(answers), default="one two three four")
    made.set_cached_bool_value(False)
    return made


class Used:
    """A client with budgets, and what is in its windows."""

    def __init__(self, clock: Clock, inner: ChatCompletionClient, *budgets: Budget) -> None:
        settings = ModelSettings(prices={"replay": Price(prompt=0.0, completion=1_000_000.0)})
        self.store = LocalStore(clock=clock)
        ledger = UsageLedger(self.store, settings)
        self.client = MeteredChatCompletionClient(inner, ledger, budgets=budgets)

    async def ask(self) -> str:
        return str((await self.client.create(QUESTION, extra_create_args=SHORT)).content)

    async def refusal(self) -> BudgetExceededError:
        with pytest.raises(BudgetExceededError) as caught:
            await self.ask()
        return caught.value


async def test_what_finds_no_room_is_refused_with_when_there_is(clock: Clock) -> None:
    used = Used(clock, model(), Budget("client", requests=2, every="minute"))
    await used.ask()
    clock.now += 10
    await used.ask()

    error = await used.refusal()
    assert type(error) is BudgetExceededError
    assert (error.unit, error.limit, error.spent, error.needed) == ("requests", 2, 2, 1)
    assert (error.scope, error.every) == ("client:replay", 60)
    assert error.retry_after == pytest.approx(51.75)
    at = datetime.fromtimestamp(error.room_at, UTC)
    assert str(error) == (
        f"replay: there is room at {at:%Y-%m-%d %H:%M:%S} UTC; the request may need 1 request, "
        "and of 2 for client:replay in 1 minute 2 are spent or set aside"
    )
    assert error.room_at > time.time()
    clock.now += error.retry_after or 0
    await used.ask()


async def test_outside_of_handlers_it_waits_until_there_is_room(clock: Clock) -> None:
    used = Used(clock, model(), Budget("client", tokens=17, every="day", when_over="wait"))
    for _ in range(5):
        await used.ask()

    assert len(clock.slept) == 2, "two fit into a day: 7 used, and 10 set aside"
    assert all(86_400 < seconds < 87_900 for seconds in clock.slept)


async def test_what_waits_for_a_window_holds_nothing_of_a_budget(clock: Clock) -> None:
    budgets = Budget(tokens=100), Budget("client", requests=1, every=1, when_over="wait")
    used = Used(clock, model(), *budgets)
    held: list[int] = []

    async def sleep(seconds: float) -> None:
        held.append(await used.client.ledger.holds())
        clock.now += seconds

    clock.sleep = sleep  # type: ignore[method-assign]
    await used.ask()
    with pytest.MonkeyPatch.context() as patched:
        use(patched, sleep)
        await used.ask()
    assert held == [0]


async def test_what_never_fits_is_refused_at_once(clock: Clock) -> None:
    used = Used(clock, model(), Budget("client", tokens=9, every="minute", when_over="wait"))

    error = await used.refusal()
    assert type(error) is BudgetExceededError
    assert error.retry_after is None
    assert str(error).endswith("It never fits: raise the limit, or ask for less (max_tokens)")


async def test_money_of_a_day(clock: Clock) -> None:
    used = Used(clock, model(), Budget("client", usd=12.5, every="day"))
    await used.ask()
    await used.ask()

    error = await used.refusal()
    assert (error.unit, error.spent, error.needed) == ("USD", 8, 7)
    assert str(error).startswith("replay: there is room at ")
    assert str(error).endswith("of 12.5 for client:replay in 24 h 8 are spent or set aside")
    with pytest.raises(BadRequestError, match="its price is not known"):
        await Used(
            clock, ReplayChatCompletionClient(["a"], model="?"), Budget("client", usd=1, every=9)
        ).ask()


async def test_a_stream_that_is_dropped_gives_back_what_it_did_not_use(clock: Clock) -> None:
    streamed = model(Streamed(["one ", "two ", "three"]))
    used = Used(clock, streamed, Budget("client", tokens=24, requests=2, every="minute"))
    items = used.client.create_stream(QUESTION, extra_create_args={"max_tokens": 20})
    async for _ in items:
        break
    await items.aclose()

    assert await used.ask() == "one two three four", "4 and 10 of 24"
    assert (await used.refusal()).unit == "requests", "it was asked"


async def test_a_request_that_is_cancelled_counts_as_one_that_used_nothing(clock: Clock) -> None:
    begun, end = asyncio.Event(), asyncio.Event()

    async def answer(_: object) -> str:
        begun.set()
        await end.wait()
        return ""

    used = Used(clock, model(answer), Budget("client", tokens=10, requests=2, every="minute"))
    asking = asyncio.ensure_future(used.ask())
    await begun.wait()
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)

    await used.ask()
    assert {(await used.refusal()).unit} <= {"requests", "tokens"}


async def test_an_answer_of_a_cache_is_no_request(clock: Clock) -> None:
    cached = ReplayChatCompletionClient(default="one")
    used = Used(clock, cached, Budget("client", requests=1, tokens=10, every="minute"))
    for _ in range(5):
        assert await used.ask() == "one"


def busy() -> ModelOverloadedError:
    return ModelOverloadedError("replay", "busy", 503)


def retrying(*answers: Any) -> RetryingChatCompletionClient:
    settings = ModelSettings(max_attempts=3, retry_base=0.0)
    return RetryingChatCompletionClient(model(*answers), ModelRetries(settings))


async def test_every_attempt_is_a_request(clock: Clock) -> None:
    used = Used(clock, retrying(busy(), "ok", "again"), Budget("client", requests=3, every="minute"))
    assert await used.ask() == "ok"
    assert await used.ask() == "again"
    assert (await used.refusal()).spent == 3


async def test_an_attempt_that_finds_no_room_is_not_made(clock: Clock) -> None:
    inner = retrying(busy(), "never said")
    used = Used(clock, inner, Budget("client", requests=1, every="minute"))
    with pytest.raises(ModelOverloadedError):
        await used.ask()

    clock.now += 100
    assert await used.ask() == "never said"


async def test_outside_of_handlers_an_attempt_waits_for_room_too(clock: Clock) -> None:
    used = Used(
        clock, retrying(busy(), busy(), "ok"), Budget("client", requests=1, every="minute", when_over="wait")
    )
    assert await used.ask() == "ok"
    assert 120 < sum(clock.slept) < 126


async def test_attempts_of_streams_are_requests(clock: Clock) -> None:
    used = Used(clock, retrying(busy(), "ok"), Budget("client", requests=2, tokens=100, every="minute"))
    said = [item async for item in used.client.create_stream(QUESTION, extra_create_args=SHORT)]

    assert said[0] == "ok"
    assert (await used.refusal()).unit == "requests"


async def test_a_budget_for_each_name_that_a_function_says(clock: Clock) -> None:
    customer: list[str | None] = ["customer:ada"]
    used = Used(clock, model(), Budget(lambda: customer[0], requests=1, every="day"))
    await used.ask()
    assert (await used.refusal()).scope == "customer:ada"

    for name in ('customer:bob ; "rm -rf"', "x" * 500, None, None):
        customer[0] = name
        await used.ask()
    assert (await used.client.ledger.spent("customer:ada")).requests == 1


@pytest.mark.parametrize("name", ["", "x" * 501, "a\nb", "\ud800", 7, "\u202eabc"])
async def test_a_function_that_returns_no_name_is_told_so(clock: Clock, name: Any) -> None:
    used = Used(clock, model(), Budget(lambda: name, requests=1, every="day"))
    with pytest.raises(SettingValueError, match=r"scope=.* can't work: it must be a function that returns"):
        await used.ask()


async def test_a_name_may_have_a_budget_for_all_time(clock: Clock) -> None:
    used = Used(clock, model(), Budget(lambda: "customer:ada", tokens=12))
    await used.ask()
    assert (await used.refusal()).scope == "customer:ada"


async def test_another_model_is_asked_where_one_refuses_but_not_where_it_waits(clock: Clock) -> None:
    refusing = Used(clock, model(), Budget("client", requests=1, every="minute"))
    waiting = Used(clock, model(), Budget("client", requests=1, every="minute", when_over="wait"))
    for used, expected in ((refusing, "other"), (waiting, "one two three four")):
        client = FallbackChatCompletionClient(used.client, model("other"))
        assert (await client.create(QUESTION, extra_create_args=SHORT)).content == "one two three four"
        assert (await client.create(QUESTION, extra_create_args=SHORT)).content == expected


async def test_a_process_that_stood_still_behind_the_answer_asks_again(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = Used(clock, model(), Budget("client", requests=2, every="minute"))
    times = iter([0.0, 30.0, *[30.1] * 9])
    monkeypatch.setattr(
        "callboard.models.admission.time", SimpleNamespace(monotonic=lambda: next(times), time=time.time)
    )
    entered: list[str] = []

    class Watched(LocalStore):
        async def enter(self, hold_id: str, amounts: Amounts, ceilings: Sequence[Ceiling]) -> Over | None:
            entered.append(hold_id)
            return await super().enter(hold_id, amounts, ceilings)

    used.client.ledger.store = Watched(clock=clock)
    await used.ask()
    assert len(entered) == 2
    await used.ask()
    assert (await used.refusal()).spent == 2, "what came too late was given back"


NO_LIMITS: tuple[Any, ...] = (0, -1, math.nan, math.inf, True, "9", [])
NO_TIMES: tuple[Any, ...] = (0, -1, 0.5, math.nan, math.inf, True, "week", 10**9, [])


def limits(**given: Any) -> Callable[[], Budget]:
    return lambda: Budget(**{"scope": "client", **given})


@pytest.mark.parametrize(
    "made",
    [
        *(limits(requests=bad, every="minute") for bad in NO_LIMITS),
        *(limits(tokens=bad) for bad in NO_LIMITS),
        *(limits(usd=1, every=bad) for bad in NO_TIMES),
        limits(requests=5),
        limits(tokens=5, when_over="wait"),
        limits(tokens=5, every="day", when_over="sometimes"),
        limits(every="day"),
        limits(scope="customer", tokens=5),
        limits(scope=7, tokens=5),
    ],
)
def test_what_is_no_limit_is_refused(made: Callable[[], Budget]) -> None:
    with pytest.raises(SettingValueError):
        made()


def test_a_huge_limit_limits_nothing() -> None:
    assert (
        Budget("client", requests=10**30, tokens=2**53, every="minute").ceilings_of("client:x")[0][-1] == 1e30
    )


@pytest.mark.parametrize("seed", range(20))
def test_no_window_of_time_has_more_in_it(seed: int) -> None:
    """Requests at odd moments, which need less than they may: whatever minute one looks at, both limits hold."""
    dice, now = random.Random(seed), [dice_start(seed)]
    windows, begun = LocalWindows(lambda: now[0]), list[tuple[float, float]]()
    under_way: dict[str, tuple[float, float]] = {}
    ceilings = [("c", 60.0, "requests", 7.0), ("c", 60.0, "tokens", 100.0)]
    for number in range(600):
        now[0] += dice.expovariate(1 / 3)
        most = float(dice.randint(1, 40))
        if windows.enter(str(number), {"requests": 1, "tokens": most, "usd": 0}, ceilings) is None:
            under_way[str(number)] = (now[0], most)
        for name in [name for name in under_way if dice.random() < 0.5]:
            at, most = under_way.pop(name)
            used = dice.uniform(0, most)
            windows.leave(name, {"requests": 1, "tokens": used, "usd": 0}, [("c", 60.0)])
            begun.append((at, used))
    assert len(begun) > 100
    for end, _ in begun:
        inside = [used for at, used in begun if end - 60 < at <= end]
        assert len(inside) <= 7
        assert sum(inside) <= 100 + 1e-6


def dice_start(seed: int) -> float:
    return 1_000.0 + seed / 7


def test_held_errors_of_windows_end_for_sure() -> None:
    assert BudgetHeldError("m", every=60.0).has_sure_end
    assert not BudgetHeldError("m").has_sure_end
    assert not BudgetHeldError("m", every=60.0, pays_again=True).has_sure_end
