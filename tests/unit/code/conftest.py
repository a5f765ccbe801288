"""Every level of confinement that this machine allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from callboard.code import Confinement, local
from callboard.code.launcher import LANDLOCK, MEASURES, NAMESPACES, PROC, SECCOMP, LaunchPlan
from callboard.code.process import detect

LEVELS = {
    "all": MEASURES,
    "container": (SECCOMP, LANDLOCK),
    "masked-proc": (NAMESPACES, SECCOMP, LANDLOCK),
    "namespaces": (NAMESPACES, PROC),
    "none": (),
}


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The executors of a test take these measures, as on a system that allows no others."""
    wanted = LEVELS[request.param]

    async def detect_less(plan: LaunchPlan) -> Confinement:
        found = await detect(plan)
        if not set(wanted) <= set(found.measures):
            pytest.skip(f"this system allows only {found.measures}")
        return Confinement.of(wanted, landlock=7, network=plan.network)

    monkeypatch.setattr(local, "detect", detect_less)
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A work folder."""
    made = tmp_path / "work"
    made.mkdir()
    return made
