"""Broken on purpose: every mutation of the scripts and of the code around them has to be caught by the tests it names."""

from __future__ import annotations

import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from .commit_mutations import COMMIT_MUTATIONS
from .mutation import ROOT, Mutation, Verdict, Workplace
from .python_mutations import PYTHON_MUTATIONS
from .work_mutations import WORK_MUTATIONS

ALL = (*WORK_MUTATIONS, *COMMIT_MUTATIONS, *PYTHON_MUTATIONS)
QUICK = [mutation for mutation in ALL if mutation.quick]
AT_ONCE = 2


def test_every_mutation_fits_the_code() -> None:
    """Its text stands in its file exactly once, so that the list follows the code."""
    counts = {m.name: (ROOT / m.file).read_text("utf-8").count(m.old) for m in ALL}
    assert {name: count for name, count in counts.items() if count != 1} == {}
    assert [m.name for m in ALL if m.old == m.new] == []


def test_the_list_is_long_and_has_no_name_twice() -> None:
    assert len({m.name for m in ALL}) == len(ALL) >= 40
    assert len(QUICK) >= 20


@pytest.mark.slow
def test_the_tests_pass_where_nothing_is_broken(tmp_path: Path) -> None:
    """Else what follows would prove nothing."""
    tests = sorted({test for mutation in QUICK for test in mutation.test_ids})
    with Workplace(tmp_path / "whole") as place:
        verdict = place.run("nothing", tests)
    assert not verdict.failed, verdict.output


@pytest.mark.slow
def test_every_quick_mutation_is_caught(tmp_path: Path) -> None:
    survivors = [verdict.name for verdict in try_all(QUICK, tmp_path, AT_ONCE) if not verdict.is_caught]
    assert survivors == []


def try_all(mutations: list[Mutation], folder: Path, at_once: int) -> Iterator[Verdict]:
    """Tries mutations, several at once, each in a copy of its own."""
    free: queue.Queue[Workplace] = queue.Queue()

    def try_one(mutation: Mutation) -> Verdict:
        place = free.get()
        try:
            return place.try_out(mutation)
        finally:
            free.put(place)

    with ExitStack() as places, ThreadPoolExecutor(at_once) as pool:
        for number in range(at_once):
            free.put(places.enter_context(Workplace(folder / f"copy{number}")))
        yield from pool.map(try_one, mutations)
