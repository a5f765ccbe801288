from __future__ import annotations

from pathlib import Path

import pytest

from callboard import App, RedisAgentRuntime
from callboard.cli.commands.processes import counts_of
from callboard.memory import HashingEmbedder
from callboard.memory_service import memory_service


@pytest.fixture
def app(tmp_path: Path) -> App:
    made = App("remembering")
    memory_service(made, tmp_path, embedder=HashingEmbedder())
    return made


def test_a_type_beside_another_gets_no_processes_of_its_own(app: App) -> None:
    assert [one.type for one in app] == ["memory", "memory.queries"]
    assert counts_of(app, []) == {"memory": 1}
    assert counts_of(app, ["memory=3"]) == {"memory": 3}
    assert counts_of(app, ["memory.queries=2"]) == {"memory": 1, "memory.queries": 2}


@pytest.mark.parametrize(
    ("types", "expected"),
    [(["memory"], {"memory", "memory.queries"}), ((), set()), (["memory.queries"], {"memory.queries"})],
)
def test_it_runs_where_the_other_one_does(app: App, types: list[str], expected: set[str]) -> None:
    runtime = RedisAgentRuntime.from_app(app, "memory://", types=types)
    assert {one.name for one in runtime.local.consumed()} == expected
