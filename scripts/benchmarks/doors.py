"""Measures the streams of `callboard serve`: scripts/bench doors [--streams N].

Readers of one run, and one reader for each of as many runs that ask somebody and go on when they are answered: the time from
the commit of an event to the reader, the memory of a reader in the door, and what an event that is sent costs door and
server. Readers are bare sockets of this process, which shares the machine with all the others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import resource
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import psutil

from .forks import running, wait_for_workers

APP: Final = """
import asyncio
from pathlib import Path
from callboard import App
from callboard.agents import AssistantAgent, UserProxyAgent
from callboard.models import ReplayChatCompletionClient
from callboard.teams import RoundRobinGroupChat

class Slow(ReplayChatCompletionClient):
    async def create(self, messages, **options):
        while not Path("go").exists():
            await asyncio.sleep(0.02)
        await asyncio.sleep({pause})
        return await super().create(messages, **options)

def member(name):
    return AssistantAgent(name, Slow([], default=lambda messages: "A sentence of the usual length, as agents write it."))

app = App("streams")
app.team(RoundRobinGroupChat([member("ann"), member("bob")], name="talk", max_turns={turns}), serve=True)
app.team(RoundRobinGroupChat([UserProxyAgent("boss"), member("clerk")], name="desk", max_turns=2), serve=True)
"""
PAUSE: Final = 0.5  # seconds between two messages of the run that all read
TURNS: Final = 40
ANSWERS: Final = 20  # a second
PATIENCE: Final = 300.0  # seconds
SETTLED: Final = 2.0  # seconds after all have come in
AT: Final = re.compile(rb'"at":"([^"]+)"')
MB: Final = 1024 * 1024


@dataclass
class Readers:
    """What all readers got.

    Attributes:
        delays: From the commit of an event to its reader, ms; of events since they are counted.
        events: How many came.
        ended: How many readers have seen the end of their run.
        is_counting: Whether delays are noted.
    """

    delays: list[float] = field(default_factory=list)
    events: int = 0
    ended: int = 0
    is_counting: bool = False

    async def read(self, port: int, run: str) -> None:
        """Read a run to its end."""
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=MB)
        try:
            writer.write(f"GET /api/v1/runs/{run}/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
            async for line in reader:
                if line.startswith(b"data: "):
                    self._take(line)
                elif line.startswith((b"event: completed", b"event: error")):
                    self.ended += 1
                    return
        finally:
            writer.close()

    def _take(self, line: bytes) -> None:
        self.events += 1
        at = AT.search(line)
        if self.is_counting and at is not None:
            committed = datetime.fromisoformat(at[1].decode()).timestamp()
            self.delays.append((time.time() - committed) * 1000)


def main() -> int:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser(
        prog="scripts/bench doors", description=__doc__.partition("\n")[0] if __doc__ else ""
    )
    parser.add_argument(
        "--streams", type=int, default=1000, metavar="N", help="readers, 1000 at most; default: 1000"
    )
    streams = parser.parse_args().streams
    files = 4 * streams + 1000
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (files, max(files, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    )
    head = ("", "delay, ms", "95 %", "KB a reader", "door ms/event", "server ms/event")
    print(f"{head[0]:<28}" + "".join(f"{one:>16}" for one in head[1:]))
    for name, measure in (("readers of one run", _one_run), ("readers of a run each", _many_runs)):
        print(f"{streams:>5} {name:<22}" + asyncio.run(_measured(streams, measure)), flush=True)
    return 0


async def _measured(streams: int, measure: Callable[[Place, int, Readers], Any]) -> str:
    with tempfile.TemporaryDirectory() as folder, opened(Path(folder)) as place:
        readers = Readers()
        memory, door, server = await measure(place, streams, readers)
        middle = statistics.median(readers.delays)
        late = statistics.quantiles(readers.delays, n=20)[-1]
        sent = len(readers.delays)
        figures = (middle, late, memory / streams / 1024, 1000 * door / sent, 1000 * server / sent)
        return "".join(f"{one:>16.2f}" for one in figures)


@dataclass(frozen=True)
class Place:
    """Workers, a door, and their server.

    Attributes:
        folder: Where the workers are.
        port: Of the door.
        door: Its process.
        server: Of the server.
    """

    folder: Path
    port: int
    door: psutil.Process
    server: psutil.Process

    def cpu(self) -> tuple[float, float]:
        """Seconds of CPU of the door and of the server until now."""
        return tuple(sum(one.cpu_times()[:2]) for one in (self.door, self.server))  # type: ignore[return-value]

    async def post(self, path: str, body: object) -> Any:
        """What the door answers."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        data = json.dumps(body).encode()
        lines = (
            f"POST /api/v1{path} HTTP/1.1",
            "Host: 127.0.0.1",
            "Connection: close",
            "Content-Type: application/json",
            f"Content-Length: {len(data)}",
        )
        writer.write("\r\n".join((*lines, "", "")).encode() + data)
        answer = await reader.read()
        writer.close()
        head_of, _, said = answer.partition(b"\r\n\r\n")
        if not head_of.startswith(b"HTTP/1.1 2"):
            raise SystemExit(answer.decode())
        return json.loads(said)


@contextmanager
def opened(folder: Path) -> Any:
    """An app at work and a door to it, on a server of its own."""
    (folder / "streams.py").write_text(APP.format(pause=PAUSE, turns=TURNS), encoding="utf-8")
    door_folder = folder / "door"
    door_folder.mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with running(folder, ("up", "streams:app")) as up:
        wait_for_workers(folder, up, 4)
        (folder / "log").rename(folder / "log of up")
        with running(folder, ("serve", "streams:app", "--port", str(port))) as door:
            deadline = time.monotonic() + PATIENCE
            while not _is_open(port):
                if door.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit((folder / "log").read_text("utf-8"))
                time.sleep(0.05)
            server = _server_in(folder)
            yield Place(folder, port, psutil.Process(door.pid), server)


def _is_open(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _server_in(folder: Path) -> psutil.Process:
    for one in psutil.process_iter(["cmdline"]):
        command = " ".join(one.info["cmdline"] or ())
        if command.startswith(("/usr/bin/redis-server", "redis-server")) and str(folder) in command:
            return one
    raise SystemExit("there is no server")


async def _one_run(place: Place, streams: int, readers: Readers) -> tuple[float, float, float]:
    """All read one run."""
    run = (await place.post("/services/talk/runs", {"task": "Go."}))["id"]

    async def begin() -> None:
        (place.folder / "go").touch()

    return await _read(place, [run] * streams, readers, begin)


async def _many_runs(place: Place, streams: int, readers: Readers) -> tuple[float, float, float]:
    """Each reads a run of its own, which asks, and goes on with the answer."""
    (place.folder / "go").touch()
    begun = [(await place.post("/services/desk/runs", {"task": "Go."}))["id"] for _ in range(streams)]

    async def answer_all() -> None:
        for run in begun:
            [question] = await _questions(place, run)
            await place.post(f"/questions/{question}", {"answer": "yes"})
            await asyncio.sleep(1 / ANSWERS)

    return await _read(place, begun, readers, answer_all)


async def _questions(place: Place, run: str) -> list[str]:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        reader, writer = await asyncio.open_connection("127.0.0.1", place.port)
        writer.write(
            f"GET /api/v1/questions?run={run} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode()
        )
        said = json.loads((await reader.read()).partition(b"\r\n\r\n")[2])
        writer.close()
        if said["questions"]:
            return [one["id"] for one in said["questions"]]
        await asyncio.sleep(0.1)
    raise SystemExit(f"{run} asked nothing")


async def _read(
    place: Place, runs: Sequence[str], readers: Readers, meanwhile: Callable[[], Any]
) -> tuple[float, float, float]:
    """Memory of all readers in the door, bytes; seconds of CPU of door and server while they read."""
    before = place.door.memory_info().rss
    reading = [asyncio.create_task(readers.read(place.port, run)) for run in runs]
    # Each has had the first event.
    deadline = time.monotonic() + PATIENCE
    while readers.events < len(runs):
        if time.monotonic() > deadline:
            raise SystemExit("not all readers have come in")
        await asyncio.sleep(0.2)
    await asyncio.sleep(SETTLED)
    memory, (door, server) = place.door.memory_info().rss - before, place.cpu()
    readers.is_counting = True
    await meanwhile()
    async with asyncio.timeout(PATIENCE):
        await asyncio.gather(*reading)
    after = place.cpu()
    return memory, after[0] - door, after[1] - server


if __name__ == "__main__":
    sys.exit(main())
