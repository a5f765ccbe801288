from __future__ import annotations

from callboard.broker import AgentId
from callboard.core.context import MessageHandlerContext
from callboard.models import LocalStore, ModelSettings, Price, RequestUsage, Spent, UsageLedger, usage_run
from callboard.models.budget import scopes

SETTINGS = ModelSettings(prices={"gpt": Price(1.0, 2.0)}, hold_seconds=10)


def test_the_scopes_that_are_charged() -> None:
    assert scopes("gpt") == ("total", "client:gpt")
    with MessageHandlerContext.populate_context(AgentId("writer", "ada")), usage_run("42"):
        assert scopes("gpt") == ("total", "client:gpt", "agent:writer/ada", "run:42")
        with usage_run("43"):
            assert scopes("gpt")[-1] == "run:43"
    assert scopes("gpt") == ("total", "client:gpt")


def test_the_cost_of_an_answer() -> None:
    ledger = UsageLedger(settings=SETTINGS)
    usage = RequestUsage(1_000, 500)
    assert ledger.spending("gpt", usage) == Spent(1, 1_000, 500, 0.002)
    assert ledger.spending("gpt-2025-01-01", usage).usd == 0.002
    assert ledger.spending("other", usage) == Spent(1, 1_000, 500, 0.0, 1)
    assert ledger.spending("gpt", usage, cached=True) == Spent(1)


async def test_it_adds_up_per_scope() -> None:
    ledger = UsageLedger(settings=SETTINGS)
    spent = ledger.spending("gpt", RequestUsage(1_000, 500))
    await ledger.add(("total", "agent:writer/ada"), spent)
    await ledger.add(("total", "agent:writer/bob"), spent)
    assert await ledger.spent() == Spent(2, 2_000, 1_000, 0.004) == spent + spent
    assert await ledger.spent("agent:writer/ada") == spent
    assert await ledger.spent("agent:nobody/x") == Spent()
    assert spent.tokens == 1_500


async def test_two_ledgers_with_one_store_are_one() -> None:
    store = LocalStore()
    await UsageLedger(store).add(("total",), Spent(1, 2, 3))
    assert await UsageLedger(store).spent() == Spent(1, 2, 3)
