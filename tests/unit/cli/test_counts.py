"""Unit tests of how many processes `callboard up` runs for what."""

from __future__ import annotations

import pytest

from callboard import App, ClosureContext, MessageContext
from callboard.broker import BrokerSettings
from callboard.cli.commands.processes import together_of
from callboard.cli.fleet import FleetPlan
from callboard.errors import SettingValueError
from callboard.process.supervisor import RestartPolicy


def _plan(together: int) -> FleetPlan:
    return FleetPlan(
        target="shop:app",
        processes={"clerk": 2, "guard": 1},
        url=None,
        namespace="shop",
        grace=BrokerSettings().drain_grace,
        policy=RestartPolicy(),
        together=together,
    )


def test_each_type_has_processes_of_its_own() -> None:
    plans = _plan(0).plans()
    assert [(plan.name, plan.types) for plan in plans] == [
        ("clerk.1", ("clerk",)),
        ("clerk.2", ("clerk",)),
        ("guard", ("guard",)),
    ]


def test_together_each_process_runs_all_types() -> None:
    (one,) = _plan(1).plans()
    assert (one.name, one.types) == ("all", ("clerk", "guard"))
    assert [plan.name for plan in _plan(2).plans()] == ["all.1", "all.2"]


@pytest.mark.parametrize(
    ("declared", "wanted", "given", "together"),
    [(0, None, [], 0), (2, None, [], 2), (2, 0, [], 0), (0, 3, [], 3), (2, None, ["clerk=3"], 0)],
)
def test_the_command_line_has_the_last_word(
    declared: int, wanted: int | None, given: list[str], together: int
) -> None:
    app = App("shop", together=declared)

    @app.closure("clerk")
    async def clerk(agent: ClosureContext, message: int, ctx: MessageContext) -> None: ...

    assert together_of(app, wanted, given) == together


def test_fewer_than_no_processes_are_refused() -> None:
    with pytest.raises(SettingValueError, match="together=-1 can't work"):
        App("shop", together=-1)
