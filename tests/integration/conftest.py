"""What the fault tests share: a server of each kind, worker processes, and a publisher in this process."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.helpers.servers import Kind, ServerProcess, best_kind, kinds
from tests.helpers.worker_fleet import WorkerFleet


def _kind(kind: Kind) -> object:
    """What workers do is the same on each server, as the contract suite shows; so one of them is enough here."""
    return pytest.param(kind, marks=() if kind == best_kind() else pytest.mark.full)


@pytest.fixture(scope="session", params=[_kind(kind) for kind in kinds()])
def shared_server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A server that stays for the whole session."""
    kind: Kind = request.param
    with ServerProcess(kind) as server:
        yield server


@pytest.fixture
async def fleet(shared_server: ServerProcess, tmp_path: Path) -> AsyncIterator[WorkerFleet]:
    """A namespace of its own, with a publisher and without workers."""
    made = WorkerFleet(shared_server.url, f"faults-{os.urandom(4).hex()}", tmp_path / "ledger")
    await made.open()
    yield made
    await made.close()


@pytest.fixture(params=[_kind(kind) for kind in kinds()])
def own_server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A server for one test, which may break it: a redis-server or the embedded one, with an append-only file."""
    kind: Kind = request.param
    with ServerProcess(kind, persistent=True) as server:
        yield server


@pytest.fixture
async def own_fleet(own_server: ServerProcess, tmp_path: Path) -> AsyncIterator[WorkerFleet]:
    """A fleet on a server of its own."""
    made = WorkerFleet(own_server.url, f"faults-{os.urandom(4).hex()}", tmp_path / "ledger")
    await made.open()
    yield made
    await made.close()
