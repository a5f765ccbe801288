"""What failed beside others gets one more try, alone; what fails again has failed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.processes import ROOT

FAILS_ONCE = """
from pathlib import Path

def test_first() -> None:
    mark = Path(__file__).with_suffix(".seen")
    seen = mark.exists()
    mark.touch()
    assert seen

def test_other() -> None:
    pass
"""
FAILS_ALWAYS = "def test_wrong() -> None:\n    assert False\n"


def _run(folder: Path, module: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", module, *options, "-q", "test_it.py"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        pytest.param(FAILS_ONCE, 0, "passed alone, failed beside others", id="once"),
        pytest.param(FAILS_ALWAYS, 1, "1 failed", id="twice"),
    ],
)
def test_the_second_time_counts(tmp_path: Path, text: str, code: int, says: str) -> None:
    (tmp_path / "test_it.py").write_text(text)
    assert _run(tmp_path, "pytest").returncode == 1
    second = _run(tmp_path, "scripts.second_look", "-n", "2", "--dist", "load")
    assert second.returncode == code, second.stdout + second.stderr
    assert says in second.stdout
    assert "test_it.py::" in second.stdout


def test_many_failures_stand(tmp_path: Path) -> None:
    names = "\n".join(f"def test_{n}() -> None:\n    assert False\n" for n in range(4))
    (tmp_path / "test_it.py").write_text(names)
    assert _run(tmp_path, "pytest").returncode == 1
    second = _run(tmp_path, "scripts.second_look", "-n", "2", "--dist", "load")
    assert (second.returncode, second.stdout) == (1, "")
