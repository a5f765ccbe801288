from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from scripts.chaos_suite import skewing

PROGRAM = "import time; time.sleep(0.001); print(time.time(), time.monotonic())"


@pytest.mark.parametrize("seconds", [3600.0, -3600.0])
@pytest.mark.parametrize("with_library", [True, False], ids=["libfaketime", "without"])
def test_a_process_with_a_wrong_clock_sleeps_as_ever(
    seconds: float, with_library: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not with_library:
        monkeypatch.setattr(skewing, "faketime_library", lambda: None)
    elif skewing.faketime_library() is None:
        pytest.skip("libfaketime is not installed")
    environ = {**os.environ, **skewing.skewed(seconds)}
    before = time.time(), time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environ, capture_output=True, text=True, check=False
    )
    after = time.time(), time.monotonic()
    assert done.returncode == 0, done.stderr
    wall, monotonic = map(float, done.stdout.split())
    assert before[0] + seconds <= wall <= after[0] + seconds
    assert before[1] <= monotonic <= after[1]
