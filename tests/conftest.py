"""What every test relies on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

from callboard.broker.redis.scripts import library
from tests.helpers.lua import compile_lua

# What takes longest begins first where several processes share the tests, so that they end together.
ORDER = ("integration", "docs", "chaos", "mutations", "contract", "unit")

# Machines that build are slow in bursts; a deadline per example would fail for no reason.
settings.register_profile("callboard", deadline=None)
settings.load_profile("callboard")


def pytest_sessionstart() -> None:
    """Without the server functions thousands of tests would fail, each after its time."""
    try:
        compile_lua(library().text.partition("\n")[2])
    except ValueError as error:
        raise pytest.UsageError(f"the Lua library does not compile: {error}") from None


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests never use a server that the person who runs them has set up."""
    for name in [name for name in os.environ if name == "REDIS_URL" or name.startswith("CALLBOARD_")]:
        monkeypatch.delenv(name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """One text runs over every backend; what is about a thing that fakeredis lacks is not run on it."""
    left_out = [item for item in items if item.get_closest_marker("real_server") and _is_in_memory(item)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    if hasattr(config, "workerinput"):  # a process of pytest-xdist
        items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    folder = item.path.relative_to(Path(__file__).parent).parts[0]
    return ORDER.index(folder) if folder in ORDER else len(ORDER)


def _is_in_memory(item: pytest.Item) -> bool:
    return not {"memory", "fakeredis"}.isdisjoint(item.name.partition("[")[2].rstrip("]").split("-"))
