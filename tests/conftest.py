"""What every test relies on."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

# Machines that build are slow in bursts; a deadline per example would fail for no reason.
settings.register_profile("callboard", deadline=None)
settings.load_profile("callboard")


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


def _is_in_memory(item: pytest.Item) -> bool:
    return not {"memory", "fakeredis"}.isdisjoint(item.name.partition("[")[2].rstrip("]").split("-"))
