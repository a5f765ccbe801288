"""The server and the processes of the measurements."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import redis

from tests.helpers.servers import ServerProcess, best_kind

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 120.0  # seconds that one measurement may take


def at_least_one(text: str) -> int:
    """A number of an option that is 1 or more, as `type=` of argparse takes it."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is too few: 1 or more")
    return number


def checkout(text: str) -> Path:
    """A folder with another checkout of Callboard, the same way."""
    folder = Path(text).resolve()
    if not (folder / "callboard" / "broker").is_dir():
        raise argparse.ArgumentTypeError(f"there is no checkout of Callboard in {folder}")
    return folder


class Node:
    """One process; see node.py for what it says."""

    def __init__(self, module: str, *arguments: object, environ: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", f"scripts.benchmarks.{module}", *map(str, arguments)]
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environ or {})},
        )

    def wait_ready(self) -> None:
        self._line("ready")

    def go(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.write("go\n")
            self.process.stdin.flush()

    def result(self) -> dict[str, Any]:
        """Waits for its end; what it measured."""
        found: dict[str, Any] = json.loads(self._line())
        self.process.wait()
        return found

    def _line(self, expected: str = "") -> str:
        line = self.process.stdout.readline().strip() if self.process.stdout is not None else ""
        if not line or (expected and line != expected):
            raise RuntimeError(f"a process of the measurement failed: {self.process.args!r} said {line!r}")
        return line

    @property
    def memory(self) -> int:
        """Resident bytes."""
        return int(psutil.Process(self.process.pid).memory_info().rss)

    @property
    def cpu(self) -> float:
        """Seconds of processor time that it has used."""
        times = psutil.Process(self.process.pid).cpu_times()
        return float(times.user + times.system)

    def end(self) -> None:
        """Tells it to end and waits."""
        with contextlib.suppress(BrokenPipeError):
            self.process.communicate("go\n", timeout=30)

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()


class Site:
    """A server of our own for all measurements; each takes place in an empty one.

    Args:
        server: one that is not started yet; none: a new one of the best kind.
    """

    def __init__(self, server: ServerProcess | None = None) -> None:
        self._server = server or ServerProcess(best_kind())
        self.kind = self._server.kind
        self.benchmark = shutil.which("redis-benchmark") or shutil.which("valkey-benchmark")
        self._nodes: list[Node] = []
        self._numbers = iter(range(1_000_000))

    def __enter__(self) -> Site:
        self._server.start()
        self.redis = redis.Redis.from_url(self.url)
        return self

    def __exit__(self, *_: object) -> None:
        self._end_nodes()
        self.redis.close()
        self._server.__exit__(None, None, None)

    @property
    def url(self) -> str:
        return self._server.url

    @property
    def socket(self) -> str:
        return str(self._server.path)

    @property
    def version(self) -> str:
        info: dict[str, Any] = self.redis.info("server")
        return f"{info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}"

    @contextlib.contextmanager
    def fresh(self) -> Iterator[str]:
        """An empty server and the name of a new namespace; its processes end with it."""
        self.redis.flushall()
        self.redis.config_resetstat()
        try:
            yield f"bench{next(self._numbers)}"
        finally:
            self._end_nodes()

    def start(self, module: str, *arguments: object) -> Node:
        """Starts a process and waits until it is ready."""
        node = Node(module, *arguments)
        self._nodes.append(node)
        node.wait_ready()
        return node

    def spawn(self, module: str, *arguments: object) -> Node:
        """Starts a process."""
        node = Node(module, *arguments)
        self._nodes.append(node)
        return node

    def _end_nodes(self) -> None:
        for node in self._nodes:
            node.kill()
        self._nodes.clear()

    def wait_done(self, namespace: str, counts: dict[str, int]) -> float:
        """Waits until agent types have committed so many messages; returns the time."""
        deadline = time.time() + PATIENCE
        for agent_type, count in counts.items():
            while self.done(namespace, agent_type) < count:
                if time.time() > deadline:
                    raise RuntimeError(f"{agent_type} did not handle {count} messages in {PATIENCE:g} s")
                time.sleep(0.002)
        return time.time()

    def done(self, namespace: str, agent_type: str) -> int:
        """Messages that an agent type has committed."""
        return int(self.redis.hget(f"callboard:{{{namespace}}}:stats:{agent_type}", "done") or 0)

    def cpu(self) -> float:
        """Seconds of processor time that the server has used."""
        info: dict[str, Any] = self.redis.info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def memory(self) -> int:
        """Bytes that the server has allocated."""
        info: dict[str, Any] = self.redis.info("memory")
        return int(info["used_memory"])
