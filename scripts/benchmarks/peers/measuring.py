"""Installs each peer, runs its program, and prints a table."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final, NamedTuple

from scripts.benchmarks.site import ROOT
from tests.helpers.servers import ServerProcess, best_kind

from .nats_server import missing_nats, nats_server

HERE: Final = Path(__file__).resolve().parent
FOLDER: Final = Path.home() / ".cache" / "callboard" / "peers"
LIMIT: Final = 300.0
"""Seconds that the program of a peer may take."""

WHAT: Final = ("handled", "request median ms", "requests", "fan-out")
"""The figures, as far as a peer has them: messages per second from publish to handled, milliseconds of a request one at a
time, requests per second with many in flight, deliveries per second to ten receivers."""


@contextlib.contextmanager
def redis_server() -> Iterator[str]:
    """Runs one; gives its URL."""
    with ServerProcess(best_kind(), "tcp") as server:
        yield server.url


class Peer(NamedTuple):
    """Another framework.

    Attributes:
        name: of its program here, and of its folder.
        packages: what is installed.
        server: runs what it needs, and gives the URL.
        missing: why its server can't run here, or "".
    """

    name: str
    packages: tuple[str, ...]
    server: Callable[[], AbstractContextManager[str]] = redis_server
    missing: Callable[[], str] = str


PEERS: Final = (
    Peer("autogen", ("autogen-core==0.7.5",)),
    Peer("faststream", ("faststream[redis]==0.7.8",)),
    Peer("taskiq", ("taskiq==0.13.0", "taskiq-redis==1.2.4")),
    Peer("jetstream", ("nats-py==2.16.0", "pydantic"), nats_server, missing_nats),
)


def measure_peers(runs: int, *, quick: bool) -> int:
    """Measures all peers that can be had here; returns the exit code."""
    for peer in PEERS:
        if problem := peer.missing() or _install(peer):
            print(f"{peer.name}: left out, {problem}")
            continue
        samples = [_sample(peer, quick) for _ in range(runs)]
        figures = {
            name: statistics.median(one[name] for one in samples) for name in WHAT if name in samples[0]
        }
        print(
            f"{peer.name}: " + "; ".join(f"{name} {value:,.2f}" for name, value in figures.items()),
            flush=True,
        )
    return 0


def _install(peer: Peer) -> str:
    """Into a folder of its own, once; returns why it can't be had, or ""."""
    folder = FOLDER / peer.name
    done = folder / "installed"
    wanted = "\n".join(peer.packages)
    if done.exists() and done.read_text("utf-8") == wanted:
        return ""
    print(f"installing {', '.join(peer.packages)} into {folder}", file=sys.stderr, flush=True)
    command = (
        sys.executable,
        "-m",
        "pip",
        "install",
        "-q",
        "--target",
        str(folder),
        "--upgrade",
        *peer.packages,
    )
    found = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if found.returncode:
        return f"pip does not find it here: {found.stderr.strip().splitlines()[-1]}"
    done.write_text(wanted, "utf-8")
    return ""


def _sample(peer: Peer, quick: bool) -> dict[str, float]:
    print(f"{peer.name}: measuring", file=sys.stderr, flush=True)
    with peer.server() as url:
        found = subprocess.run(
            (sys.executable, "-P", str(HERE / f"on_{peer.name}.py"), url, "4" if quick else "1"),
            env={**os.environ, "PYTHONPATH": f"{FOLDER / peer.name}{os.pathsep}{ROOT}"},
            stdout=subprocess.PIPE,
            text=True,
            timeout=LIMIT,
            check=True,
        )
    sample: dict[str, Any] = json.loads(found.stdout.splitlines()[-1])
    return sample
