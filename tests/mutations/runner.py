"""Runs tests again and again, each time in a process that has not imported our packages yet.

What is not ours is imported once, before the processes split: that is most of what a run of one test takes.

Reads a line for each run, a JSON list of test ids; answers with a line [exit code, output].
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path

PATIENCE = 120.0  # seconds that one run may take, on a machine that has other things to do
HUNG = 124
# A plugin that is there before pytest is not rewritten, which pytest would complain about.
OPTIONS = (
    "-q",
    "-p",
    "no:cacheprovider",
    "-rA",
    "--tb=line",
    "-W",
    "ignore::pytest.PytestAssertRewriteWarning",
)
OTHERS = (
    *(
        "pytest",
        "_pytest.assertion.rewrite",
        "pytest_asyncio.plugin",
        "hypothesis.stateful",
        "hypothesis.strategies",
    ),
    *(
        "pydantic",
        "pydantic_core",
        "redis",
        "redis.asyncio",
        "hiredis",
        "msgpack",
        "fakeredis",
        "lupa",
        "psutil",
    ),
)


def main() -> None:
    """Answers until its input ends."""
    for name in OTHERS:
        importlib.import_module(name)
    for line in sys.stdin:
        print(json.dumps(_run(json.loads(line))), flush=True)


def _run(tests: list[str]) -> tuple[int, str]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "output"
        process = os.fork()
        if process == 0:
            _become_pytest(tests, output)
        return _wait(process), output.read_text("utf-8", "replace")


def _become_pytest(tests: list[str], output: Path) -> None:
    """Does not return, whatever happens."""
    code = HUNG
    try:
        os.setsid()  # so that what it starts can be ended with it
        target = os.open(output, os.O_WRONLY | os.O_CREAT, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(target, 1)
        os.dup2(target, 2)
        import pytest

        code = int(pytest.main([*OPTIONS, *tests]))
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(process: int) -> int:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(process, signal.SIGKILL)
    os.waitpid(process, 0)
    return HUNG


if __name__ == "__main__":
    main()
