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
