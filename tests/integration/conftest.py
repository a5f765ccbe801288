"""What the fault tests share: a server of each kind, worker processes, and a publisher in this process."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.helpers.rigging import Site
from tests.helpers.servers import Kind, ServerProcess, missing


@pytest.fixture(scope="session", params=["redis", "embedded"])
def shared_server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A server of each kind that stays for the whole session."""
    kind: Kind = request.param
    if reason := missing(kind):
        pytest.skip(reason)
    with ServerProcess(kind) as server:
        yield server


@pytest.fixture
async def site(shared_server: ServerProcess, tmp_path: Path) -> AsyncIterator[Site]:
    """A namespace of its own, with a publisher and without workers."""
    made = Site(shared_server.url, f"faults-{os.urandom(4).hex()}", tmp_path / "ledger")
    await made.open()
    yield made
    await made.close()


@pytest.fixture(params=["redis", "embedded"])
def own_server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    """A server for one test, which may break it: a redis-server or the embedded one, with an append-only file."""
    kind: Kind = request.param
    if reason := missing(kind):
        pytest.skip(reason)
    with ServerProcess(kind, persistent=True) as server:
        yield server


@pytest.fixture
async def own_site(own_server: ServerProcess, tmp_path: Path) -> AsyncIterator[Site]:
    """A site on a server of its own."""
    made = Site(own_server.url, f"faults-{os.urandom(4).hex()}", tmp_path / "ledger")
    await made.open()
    yield made
    await made.close()
