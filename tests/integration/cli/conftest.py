"""One server for the command line tests of a session; every test has it empty."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import hiredis
import pytest

from tests.helpers.servers import ServerProcess

from .commands import ShopFolder


@pytest.fixture(scope="session")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as running:
        yield running


@pytest.fixture
def shop(server: ServerProcess, tmp_path: Path) -> ShopFolder:
    """A folder with an app, on an empty server."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server.path))
        connection.sendall(hiredis.pack_command(("FLUSHALL",)))
        assert connection.recv(5) == b"+OK\r\n"
    return ShopFolder(tmp_path, server.url)
