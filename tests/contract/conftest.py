"""One text over every server: the store in this process, the embedded server, redis-server on a socket and on TCP."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from broker import BrokerSettings
from tests.helpers.rig import Rig
from tests.helpers.runtimes import Runtimes
from tests.helpers.servers import ServerProcess, missing

BACKENDS = ("memory", "embedded-unix", "redis-unix", "redis-tcp")


@pytest.fixture(scope="session", params=BACKENDS)
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of one server of each kind, for the whole session."""
    if request.param == "memory":
        yield f"memory://contract-{os.getpid()}"
        return
    kind, _, access = request.param.partition("-")
    if reason := missing(kind):
        pytest.skip(reason)
    with ServerProcess(kind, access) as server:
        yield server.url


@pytest.fixture
async def rig(server_url: str) -> AsyncIterator[Rig]:
    """A namespace of its own."""
    made = Rig(server_url, BrokerSettings(namespace=f"contract-{os.urandom(4).hex()}"))
    yield made
    await made.close()


@pytest.fixture
async def runtimes(server_url: str) -> AsyncIterator[Runtimes]:
    """Runtimes in a namespace of its own."""
    made = Runtimes(server_url)
    yield made
    await made.close()
