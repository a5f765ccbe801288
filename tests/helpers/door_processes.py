"""Processes of `callboard serve` for tests, with tokens of two tenants."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx

from .eventually import eventually
from .processes import Process, python
from .servers import free_port

TOKENS = {
    "ada": 'tenant = "acme"',
    "bob": 'tenant = "other"',
    "eve": 'tenant = "acme"\nscopes = ["run"]',  # may begin runs, and not read
}


@contextmanager
def worked(target: str, url: str) -> Iterator[list[str]]:
    """Options for a namespace of its own in which a worker runs the app."""
    options = ["--url", url, "--namespace", f"doors-{os.urandom(4).hex()}"]
    worker = Process(python("-m", "callboard", "worker", target, *options))
    try:
        # What looks at a namespace makes none: it is there when the worker is.
        deadline = time.monotonic() + 30
        while "works as" not in worker.output():
            assert worker.is_alive, worker.output()
            assert time.monotonic() < deadline, worker.output()
            time.sleep(0.02)
        yield options
    finally:
        worker.close()


class DoorProcesses:
    """Doors, which come up at addresses of their own.

    Args:
        target: The app that is served.
        where: Options that say on which server, and in which namespace.
        folder: For the file of tokens.
        tokens: Who may come in: the text of each token is its name; what stands in the file beside its hash.
    """

    def __init__(
        self, target: str, where: list[str], folder: Path, tokens: Mapping[str, str] = TOKENS
    ) -> None:
        self._target, self._where, self._tokens = target, where, folder / "tokens.toml"
        self._made: list[Process] = []
        tables = (
            f'[{name}]\nsha256 = "{hashlib.sha256(name.encode()).hexdigest()}"\n{more}\n'
            for name, more in tokens.items()
        )
        self._tokens.write_text("".join(tables))

    async def open(self, port: int | None = None) -> tuple[Process, str]:
        """Another one, and its address; at a free port, unless it takes the place of one that has died."""
        port = port or free_port()
        command = ["serve", self._target, "--port", str(port), "--tokens", str(self._tokens), *self._where]
        process = Process(python("-m", "callboard", *command))
        self._made.append(process)
        address = f"http://127.0.0.1:{port}"

        def is_ready() -> bool:
            try:
                return httpx.get(f"{address}/readyz").status_code == 200
            except httpx.TransportError:
                return False

        await eventually(is_ready, 30, what=process.output)
        return process, address

    def close(self) -> None:
        """End all."""
        for process in self._made:
            process.close()
