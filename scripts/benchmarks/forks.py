"""Measures what workers of one `callboard up` share: scripts/bench forks [--types N].

Three apps whose agents do nothing: one that imports nothing more, one with chat agents and `openai`, one with `chromadb`,
which starts threads. For each, with forks and without: the memory of all processes but the command and its server (PSS: a
page that several have counts in parts), what one worker more adds, and the time until the last one works. Linux only.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil

from .site import ROOT

APPS: Final = {
    "nothing more": "",
    "openai": "import openai\nfrom callboard.agents import AssistantAgent\nfrom callboard.teams import RoundRobinGroupChat",
    "chromadb": "import chromadb",
}
APP: Final = """
{imports}
from callboard import App, MessageContext, RoutedAgent, event
from pydantic import BaseModel

class Job(BaseModel):
    name: str

class Idle(RoutedAgent):
    @event
    async def on_job(self, message: Job, ctx: MessageContext) -> None: ...

app = App("idle")
for number in range({types}):
    app.agent(f"idle{{number}}", topics=["jobs"])(type(f"Idle{{number}}", (Idle,), {{"__module__": __name__}}))
"""
PATIENCE: Final = 120.0  # seconds
SETTLED: Final = 2.0  # seconds after the last worker has begun
MB: Final = 1024  # kB
PSS: Final = re.compile(r"^Pss:\s+(\d+) kB$", re.MULTILINE)


def main() -> int:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench forks", description=__doc__.partition("\n")[0] if __doc__ else ""
    )
    parser.add_argument(
        "--types", type=int, default=7, metavar="N", help="agent types, each a process; default: 7"
    )
    types = parser.parse_args().types
    print(f"{'imports':<14}{'':<12}{'all, MB':>9}{'one more, MB':>14}{'start, s':>10}")
    for name, imports in APPS.items():
        for option in ("--fork", "--no-fork"):
            memory, seconds = measured(imports, types, option)
            twice, _ = measured(imports, 2 * types, option)
            more = (twice - memory) / types
            print(f"{name:<14}{option:<12}{memory:>9.0f}{more:>14.1f}{seconds:>10.1f}", flush=True)
    return 0


def measured(imports: str, types: int, option: str) -> tuple[float, float]:
    """Memory in MB, and seconds until all work."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "idle.py").write_text(APP.format(imports=imports, types=types), encoding="utf-8")
        began = time.monotonic()
        with running(folder, ("up", "idle:app", option)) as process:
            wait_for_workers(folder, process, types)
            seconds = time.monotonic() - began
            time.sleep(SETTLED)
            return sum(pss_of(child) for child in children_of(process)) / MB, seconds


@contextmanager
def running(folder: Path, words: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """A command in a folder, on a server of its own there; both end with the block."""
    command = (sys.executable, "-P", "-m", "callboard")
    environ = {"PATH": "/usr/bin:/bin:/usr/local/bin", "PYTHONPATH": str(ROOT)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen((*command, *words), cwd=folder, env=environ, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        subprocess.run(
            (*command, "server", "stop"), cwd=folder, env=environ, capture_output=True, check=False
        )


def wait_for_workers(folder: Path, process: subprocess.Popen[bytes], count: int) -> None:
    """Waits until so many work."""
    deadline = time.monotonic() + PATIENCE
    while (text := (folder / "log").read_text("utf-8")).count("| works as") < count:
        if process.poll() is not None or time.monotonic() > deadline:
            raise SystemExit(f"not all of {count} workers began:\n{text}")
        time.sleep(0.02)


def children_of(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """The workers, their keepers, and what makes them; not the server and its guard."""
    found = psutil.Process(process.pid).children(recursive=True)
    return [
        child
        for child in found
        if not re.search(r"redis-server|valkey-server|guard\.py", " ".join(child.cmdline()))
    ]


def pss_of(process: psutil.Process) -> int:
    """Its memory, kB."""
    found = PSS.search(Path(f"/proc/{process.pid}/smaps_rollup").read_text("ascii"))
    return int(found[1]) if found else 0


if __name__ == "__main__":
    sys.exit(main())
