"""A NATS server with JetStream for one measurement, which it leaves nothing of."""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator

from tests.helpers.servers import free_port

PROGRAM = "nats-server"
PATIENCE = 10.0
"""Seconds that the server may take to begin and to end."""


def missing_nats() -> str:
    """Why there is no server here, or ""."""
    return "" if shutil.which(PROGRAM) else f"there is no {PROGRAM} here: apt-get install {PROGRAM}"


@contextlib.contextmanager
def nats_server() -> Iterator[str]:
    """Runs one; gives its URL."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="nats") as folder:
        command = (PROGRAM, "--addr", "127.0.0.1", "--port", str(port), "--jetstream", "--store_dir", folder)
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            _wait_until_it_listens(server, port)
            yield f"nats://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait(PATIENCE)


def _wait_until_it_listens(server: subprocess.Popen[bytes], port: int) -> None:
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), PATIENCE).close()
            return
        except ConnectionRefusedError as error:
            if server.poll() is not None or time.monotonic() > ends:
                raise RuntimeError(f"{PROGRAM} did not begin to listen at port {port}") from error
            time.sleep(0.01)
