"""Garbage collection in a worker process."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from callboard.cli.commands.worker import worker
from callboard.process.frozen import frozen
from callboard.process.worker import WorkerEnding


class Knot:
    """Garbage that only the collector takes away."""

    def __init__(self) -> None:
        self.itself = self


def test_what_becomes_garbage_later_is_collected_and_nothing_stays_frozen() -> None:
    with frozen():
        assert gc.get_freeze_count() > 0
        knots = [weakref.ref(Knot()) for _ in range(10_000)]
        assert sum(knot() is not None for knot in knots) < 5_000
    assert gc.get_freeze_count() == 0


def test_the_command_freezes_what_its_process_has_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []

    async def run_worker(*_: Any, **__: Any) -> WorkerEnding:
        counts.append(gc.get_freeze_count())
        return WorkerEnding.DRAINED

    monkeypatch.setattr("callboard.process.worker.run_worker", run_worker)
    assert worker("tests.helpers.work:app", url="redis://127.0.0.1") == 0
    assert counts[0] > 0
    assert gc.get_freeze_count() == 0
