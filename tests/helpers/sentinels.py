"""A primary, its replicas and the sentinels that watch them, as real processes."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from .servers import ServerProcess, best_kind, binary, free_port

NAME = "mymaster"


class Sentinel(AbstractContextManager["Sentinel"]):
    """One sentinel.

    Args:
        folder: of its files.
        primary: whom it watches from its start on.
        quorum: how many sentinels have to miss a primary.
        password: that it wants to hear, "" for none.
    """

    def __init__(self, folder: Path, primary: ServerProcess, quorum: int, password: str = "") -> None:
        self.port = free_port()
        self._file = folder / f"sentinel-{self.port}.conf"
        self._log = folder / f"sentinel-{self.port}.log"
        self._password = password
        self._process: subprocess.Popen[bytes] | None = None
        lines = [
            f"port {self.port}",
            "bind 127.0.0.1",
            f"dir {folder}",
            f"sentinel monitor {NAME} 127.0.0.1 {primary.port} {quorum}",
            f"sentinel down-after-milliseconds {NAME} 400",
            f"sentinel failover-timeout {NAME} 4000",
        ]
        if password:
            lines.append(f"requirepass {password}")
        self._file.write_text("\n".join(lines) + "\n")

    def start(self) -> None:
        program = binary(best_kind())
        assert program is not None
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [program, str(self._file), "--sentinel"], stdout=log, stderr=log, start_new_session=True
            )
        deadline = time.monotonic() + 10
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, "the sentinel does not answer"
            time.sleep(0.01)

    def _answers(self) -> bool:
        try:
            with self.client() as client:
                return bool(client.ping())
        except redis.ConnectionError:
            return False

    def client(self) -> Any:
        return redis.Redis(port=self.port, password=self._password or None, decode_responses=True)

    def primary_port(self) -> int:
        """Where it says that the primary is."""
        with self.client() as client:
            return int(client.sentinel_get_master_addr_by_name(NAME)[1])

    def pause(self) -> None:
        """It takes connections, and answers nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()


class WatchedServers(AbstractContextManager["WatchedServers"]):
    """Two servers, one of which is the primary, and three sentinels that watch them.

    Args:
        folder: for the files of the sentinels.
        password: that the sentinels want to hear, "" for none.
    """

    def __init__(self, folder: Path, password: str = "") -> None:
        self._stack = ExitStack()
        self._folder, self._password = folder, password

    def __enter__(self) -> Self:
        stack = self._stack
        without_delay = ("--repl-diskless-sync-delay", "0")
        self.servers = [stack.enter_context(ServerProcess(access="tcp", options=without_delay))]
        follows = ("--replicaof", "127.0.0.1", str(self.servers[0].port), *without_delay)
        self.servers.append(stack.enter_context(ServerProcess(access="tcp", options=follows)))
        _wait(lambda: replication(self.servers[1]).get("master_link_status") == "up", "the replica follows")
        self.sentinels = [
            stack.enter_context(Sentinel(self._folder, self.servers[0], 2, self._password)) for _ in range(3)
        ]
        _wait(lambda: all(_knows_all(each) for each in self.sentinels), "the sentinels know each other")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    @property
    def url(self) -> str:
        """Where clients are sent."""
        listed = ",".join(f"127.0.0.1:{each.port}" for each in self.sentinels)
        query = f"?sentinel_password={self._password}" if self._password else ""
        return f"redis+sentinel://{listed}/{NAME}{query}"

    def is_primary(self, server: ServerProcess) -> bool:
        """Whether it is, and all sentinels say so."""
        named = {sentinel.primary_port() for sentinel in self.sentinels}
        return named == {server.port} and replication(server).get("role") == "master"


def replication(server: ServerProcess) -> dict[str, Any]:
    """What it says of its role and of those who follow."""
    with redis.Redis.from_url(server.url) as client:
        found: dict[str, Any] = client.info("replication")
        return found


def _knows_all(sentinel: Sentinel) -> bool:
    with sentinel.client() as client:
        facts = client.sentinel_master(NAME)
        return bool(facts["num-other-sentinels"] >= 2 and facts["num-slaves"] >= 1)


def _wait(holds: Any, what: str) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline, f"not within 30 s: {what}"
        time.sleep(0.02)
