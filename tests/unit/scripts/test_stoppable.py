"""Scripts that are stopped leave nothing behind, and say so in one line."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.helpers.eventually import eventually
from tests.helpers.processes import ROOT

# A server, whose start is not the end of it, and a process that does not know of signals.
WORKS = """
import subprocess, sys
from pathlib import Path
from tests.helpers.servers import ServerProcess, best_kind

def main() -> int:
    server = ServerProcess(best_kind())
    server.start()
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path("begun").write_text(f"{server.pid} {other.pid} {server.folder}")
    other.wait()
    return 0
"""
WAITS_WHILE_IMPORTED = """
import time
from pathlib import Path

Path("begun").write_text("none")
time.sleep(600)
"""
SAYS = """
import sys

def main() -> int:
    print(*sys.argv)
    return 7
"""


def command(folder: Path, text: str, *arguments: str) -> tuple[list[str], dict[str, str]]:
    """A script of this text, and the environment in which it is found."""
    (folder / "it.py").write_text(text)
    path = os.pathsep.join((str(folder), str(ROOT)))
    words = [sys.executable, "-m", "scripts.stoppable", "scripts/it", "it", *arguments]
    return words, {**os.environ, "PYTHONPATH": path}


@contextlib.contextmanager
def begun(folder: Path, text: str) -> Iterator[subprocess.Popen[str]]:
    """The script under way, in a group of its own as a terminal would start it."""
    words, environ = command(folder, text)
    with subprocess.Popen(
        words, cwd=folder, env=environ, stderr=subprocess.PIPE, text=True, process_group=0
    ) as process:
        yield process


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
@pytest.mark.parametrize("text", [WORKS, WAITS_WHILE_IMPORTED], ids=["works", "is imported"])
async def test_a_signal_ends_it_with_one_line_and_all_that_it_started(
    tmp_path: Path, number: signal.Signals, text: str
) -> None:
    mark = tmp_path / "begun"
    with begun(tmp_path, text) as process:
        await eventually(lambda: mark.exists() and mark.read_text(), 30, what="the script at work")
        os.killpg(process.pid, number)
        assert process.communicate(timeout=30)[1] == "scripts/it: stopped\n"
        assert process.returncode == 130
    *numbers, folder = mark.read_text().split()
    await eventually(lambda: not any(psutil.pid_exists(int(one)) for one in numbers), 10, what="their ends")
    assert not Path(folder).exists()


def test_what_ends_by_itself_ends_as_ever(tmp_path: Path) -> None:
    words, environ = command(tmp_path, SAYS, "--rounds", "3")
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=30, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "scripts/it --rounds 3\n", "")
