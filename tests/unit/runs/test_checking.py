"""What can make no run is refused where it is given."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from callboard.errors import DeclarationError, SettingValueError
from callboard.runs import a_run, run
from callboard.teams import RoundRobinGroupChat, RunBudget, TeamDeclarationError
from tests.helpers.run_agents import chatterer


@pytest.mark.parametrize(
    "options",
    [
        {"previous_run": 5},
        {"chat_manager": "x"},
        {"termination": "x"},
        {"tools": "x"},
        {"tools": 5},
        {"is_termination_message": "STOP"},
        {"runtime": 5},
        {"run_id": 5},
        {"run_id": ""},
        {"conversation": ""},
        {"name": ""},
        {"if_busy": "perhaps"},
        {"no_such": 1},
    ],
    ids=str,
)
async def test_an_argument_of_a_wrong_kind_is_named(options: dict[str, Any]) -> None:
    with pytest.raises(DeclarationError, match=next(iter(options))):
        await a_run(chatterer("a"), message="Hi", max_turns=1, **options)
    with pytest.raises(DeclarationError, match=next(iter(options))):
        run(chatterer("a"), message="Hi", max_turns=1, **options)


async def test_what_is_no_agent_is_refused() -> None:
    with pytest.raises(DeclarationError, match="'Alice' is no agent"):
        await a_run("Alice", message="Hi")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("budget", [1, "x", {"tokens": 1}, RunBudget])
async def test_what_is_no_budget_is_refused(budget: Any) -> None:
    with pytest.raises(SettingValueError, match="RunBudget"):
        await a_run(chatterer("a"), message="Hi", max_turns=1, budget=budget)
    team = RoundRobinGroupChat([chatterer("a")], name="team", max_turns=1)
    with pytest.raises(SettingValueError, match="RunBudget"):
        await team.run(task="Hi", budget=budget)
    with pytest.raises(SettingValueError, match="RunBudget"):
        RoundRobinGroupChat([chatterer("a")], name="team", budget=budget)


@pytest.mark.parametrize("limit", [math.nan, math.inf, 0, -1, True, 10**400])
@pytest.mark.parametrize("unit", ["tokens", "usd", "turns", "seconds"])
def test_a_limit_that_limits_nothing_is_refused(unit: str, limit: Any) -> None:
    with pytest.raises(SettingValueError, match=unit):
        RunBudget(**{unit: limit})


@pytest.mark.parametrize("turns", [math.nan, math.inf, 1.5, True, "3", 0])
async def test_turns_that_are_no_number_are_refused(turns: Any) -> None:
    with pytest.raises(TeamDeclarationError, match="number of turns"):
        await a_run(chatterer("a"), message="Hi", max_turns=turns)


async def test_the_same_id_again_is_the_same_run() -> None:
    first = await a_run(chatterer("a"), message="One", max_turns=1, run_id="twice")
    second = await a_run(chatterer("a"), message="One", max_turns=1, run_id="twice")
    assert await second.messages == await first.messages


def test_a_run_of_another_event_loop_is_not_gone_on_with() -> None:
    async def go_on() -> None:
        with pytest.raises(DeclarationError, match="another event loop"):
            await a_run(chatterer("a"), message="Two", max_turns=1, previous_run=first)

    first = run(chatterer("a"), message="One", max_turns=1)
    assert first.summary
    asyncio.run(go_on())
