"""A namespace with a worker, and doors to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.door_processes import DoorProcesses
from tests.helpers.processes import Process, python
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import SHORT_LEASE

TARGET = "tests.helpers.talking_team:app"


@pytest.fixture(scope="module")
def where(shared_server: ServerProcess) -> Iterator[list[str]]:
    """Options for a namespace in which a worker runs the teams."""
    options = ["--url", shared_server.url, "--namespace", f"agui-{os.urandom(4).hex()}"]
    worker = Process(python("-m", "callboard", "worker", TARGET, *options), SHORT_LEASE)
    yield options
    worker.close()


@pytest.fixture
def doors(where: list[str], tmp_path: Path) -> Iterator[DoorProcesses]:
    made = DoorProcesses(TARGET, where, tmp_path)
    yield made
    made.close()
