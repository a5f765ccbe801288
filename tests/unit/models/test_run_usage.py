from __future__ import annotations

from callboard.models import LocalStore, Spent, UsageLedger, usage_run
from callboard.models.types import RunUsage, UsagePart
from callboard.runtime.execution import speaking_as

DAY = 86_400.0


async def test_it_is_read_by_agent_and_model() -> None:
    ledger = UsageLedger()
    for agent, model, spent in (
        ("a.b", "gpt 4", Spent(1, 2, 3, 0.5)),
        ("a.c", "gpt 4", Spent(1, 1, 1)),
        ("a.b", "mini", Spent(unpriced=1)),
    ):
        with usage_run("42"), speaking_as(agent):
            assert await ledger.begin(("total", "run:42"), f"{agent}{model}")
            await ledger.settle(("total", "run:42"), f"{agent}{model}", spent, model)
    usage = await ledger.of_run("42")
    assert usage.total == Spent(2, 3, 4, 0.5, 1) == await ledger.spent()
    assert usage.by_agent == {"a.b": Spent(1, 2, 3, 0.5, 1), "a.c": Spent(1, 1, 1)}
    assert usage.by_model == {"gpt 4": Spent(2, 3, 4, 0.5), "mini": Spent(unpriced=1)}
    assert usage.parts[0] == UsagePart("a.b", "gpt 4", Spent(1, 2, 3, 0.5))
    assert (await ledger.of_run("43")) == RunUsage()


async def test_its_limits_are_known_and_end_what_begins_without_setting_aside() -> None:
    ledger = UsageLedger(LocalStore())
    await ledger.limit("run:42", tokens=7, usd=0.5)
    usage = await ledger.of_run("42")
    assert (usage.limit_tokens, usage.limit_usd) == (7, 0.5)
    assert not await ledger.begin(("total", "run:42"), "r")
    assert await ledger.holds() == 0
