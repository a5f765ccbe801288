"""Broken on purpose: every mutation of the scripts and of the code around them has to be caught by the tests it names."""

from __future__ import annotations

import queue
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.helpers.lua import compile_lua

from .agent_mutations import AGENT_MUTATIONS
from .alone_mutations import ALONE_MUTATIONS
from .ask_mutations import ASK_MUTATIONS
from .bounds_mutations import BOUNDS_MUTATIONS
from .commit_mutations import COMMIT_MUTATIONS
from .guard import guards
from .hook_mutations import HOOK_MUTATIONS
from .limits_mutations import LIMITS_MUTATIONS
from .log_mutations import LOG_MUTATIONS
from .mutation import ROOT, Mutation, Verdict, Workplace
from .pattern_mutations import PATTERN_MUTATIONS
from .python_mutations import PYTHON_MUTATIONS
from .role_mutations import ROLE_MUTATIONS
from .run_mutations import RUN_MUTATIONS
from .subscription_mutations import SUBSCRIPTION_MUTATIONS
from .team_mutations import TEAM_MUTATIONS
from .work_mutations import WORK_MUTATIONS

ALL = (
    *WORK_MUTATIONS,
    *COMMIT_MUTATIONS,
    *HOOK_MUTATIONS,
    *PYTHON_MUTATIONS,
    *SUBSCRIPTION_MUTATIONS,
    *BOUNDS_MUTATIONS,
    *LIMITS_MUTATIONS,
    *LOG_MUTATIONS,
    *PATTERN_MUTATIONS,
    *AGENT_MUTATIONS,
    *RUN_MUTATIONS,
    *TEAM_MUTATIONS,
    *ROLE_MUTATIONS,
    *ASK_MUTATIONS,
    *ALONE_MUTATIONS,
)
QUICK = [mutation for mutation in ALL if mutation.quick]
SAMPLE = QUICK[::7]  # always the same; `scripts/proof --mutations` tries all
AT_ONCE = 2


def test_every_mutation_has_its_guard_and_every_guard_a_mutation() -> None:
    """A guard that is gone, or that no test is known to miss, is found without running anything."""
    marked = [guard.name for guard in guards(ROOT)]
    assert sorted(marked) == sorted(set(marked)), "a guard is marked twice"
    assert set(marked) == {mutation.guard for mutation in ALL}


@pytest.mark.parametrize("mutation", ALL, ids=lambda mutation: mutation.name)
def test_every_mutation_leaves_code_that_compiles(mutation: Mutation) -> None:
    """Else its tests would fail for a reason that says nothing."""
    guard = mutation.find(ROOT)
    changed = guard.text_with(mutation.change(guard))
    assert changed != guard.text_with(guard.statement)
    if guard.is_lua:
        compile_lua(changed)
    else:
        compile(changed, guard.path.name, "exec")


@pytest.mark.parametrize("test", sorted({test for mutation in ALL for test in mutation.test_ids}))
def test_every_test_that_is_named_is_there(test: str) -> None:
    file, _, name = test.partition("[")[0].partition("::")
    assert re.search(rf"^(?:async )?def {name}\(", (ROOT / file).read_text("utf-8"), re.MULTILINE)


def test_the_list_is_long_and_has_no_name_twice() -> None:
    assert len({m.name for m in ALL}) == len(ALL) >= 40
    assert len(QUICK) >= 20
    assert len(SAMPLE) >= 5


@pytest.mark.slow
def test_the_tests_pass_where_nothing_is_broken(tmp_path: Path) -> None:
    """Else what follows would prove nothing."""
    tests = sorted({test for mutation in SAMPLE for test in mutation.test_ids})
    with Workplace(tmp_path / "whole") as place:
        verdict = place.run("nothing", tests)
    assert not verdict.failed, verdict.output


@pytest.mark.slow
def test_a_sample_of_the_mutations_is_caught(tmp_path: Path) -> None:
    assert _survivors(SAMPLE, tmp_path) == []


@pytest.mark.full
def test_every_quick_mutation_is_caught(tmp_path: Path) -> None:
    assert _survivors(QUICK, tmp_path) == []


def _survivors(mutations: list[Mutation], folder: Path) -> list[str]:
    return [verdict.name for verdict in try_all(mutations, folder, AT_ONCE) if not verdict.is_caught]


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
