"""A namespace with a worker, and doors to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.door_processes import DoorProcesses
from tests.helpers.openai_clients import TARGET, Place
from tests.helpers.servers import ServerProcess


@pytest.fixture
def place(shared_server: ServerProcess) -> Iterator[Place]:
    made = Place(shared_server.url)
    yield made
    made.worker.close()


@pytest.fixture
def doors(place: Place, tmp_path: Path) -> Iterator[DoorProcesses]:
    made = DoorProcesses(TARGET, place.options, tmp_path)
    yield made
    made.close()
