"""Garbage collection in a worker process."""

from __future__ import annotations

import gc
import importlib
import weakref
from collections import deque
from typing import Any, ClassVar

import pytest

from callboard.cli import main
from callboard.cli.commands.processes import worker
from callboard.process import frozen
from callboard.process.worker import WorkerEnding


class Knot:
    """Garbage that only the collector takes away."""

    def __init__(self) -> None:
        self.itself = self


def test_what_becomes_garbage_later_is_collected_and_nothing_stays_frozen() -> None:
    with frozen():
        assert gc.get_freeze_count() > 0
        knots = [weakref.ref(Knot()) for _ in range(50_000)]
        assert sum(knot() is not None for knot in knots) < 10_000
    assert gc.get_freeze_count() == 0


class Counted(Knot):
    """The same, and how many of them are there, at most."""

    alive: ClassVar[int] = 0
    most: ClassVar[int] = 0

    def __init__(self) -> None:
        super().__init__()
        Counted.alive += 1
        Counted.most = max(Counted.most, Counted.alive)

    def __del__(self) -> None:
        Counted.alive -= 1


def test_half_a_million_cycles_that_lived_for_a_while_take_no_more_memory_than_a_few() -> None:
    """Each is in use while 3,000 others come, so that it is looked at too early and passed on to an older generation."""
    in_use: deque[Counted] = deque(maxlen=3_000)
    with frozen():
        for _ in range(500_000):
            in_use.append(Counted())
    assert Counted.most < 100_000, f"{Counted.most:,} of them at once"


def test_the_thresholds_of_the_collector_are_those_of_before_afterwards() -> None:
    before = gc.get_threshold()
    with frozen():
        assert gc.get_threshold()[0] > before[0]
    assert gc.get_threshold() == before


def test_a_command_looks_for_garbage_seldom_while_it_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    before = gc.get_threshold()
    within: list[int] = []
    module = importlib.import_module("callboard.cli.main")
    monkeypatch.setattr(module, "_run", lambda *_: within.append(gc.get_threshold()[0]))
    with pytest.raises(SystemExit):
        main(["status"])
    assert within == [50_000]
    assert gc.get_threshold() == before


def test_the_command_freezes_what_its_process_has_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    async def run_worker(*_: Any, **__: Any) -> WorkerEnding:
        counts.append(gc.get_freeze_count())
        return WorkerEnding.DRAINED

    monkeypatch.setattr("callboard.cli.worker_process.run_worker", run_worker)
    assert worker("tests.helpers.work:app", url="redis://127.0.0.1") == 0
    assert counts[0] > 0
    assert gc.get_freeze_count() == 0
