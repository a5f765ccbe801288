"""One text over every server: the store in this process, a server on a socket, and the embedded server on TCP.

Which server it is makes a difference, and so does the way to it; that each server is reached both ways makes none, as
the client's part of it has tests of its own (tests/unit/broker/redis/client). On the socket it is redis-server where it
is installed, else the embedded one, so that nothing is left out on a machine without it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator

import pytest

from callboard.broker import BrokerSettings
from tests.helpers.runtimes import Runtimes
from tests.helpers.server_driver import LEASE, ServerDriver
from tests.helpers.servers import Access, Kind, ServerProcess, best_kind

BEST = f"{best_kind()}-unix"
BACKENDS = ("memory", BEST, "embedded-tcp")


def _backend(name: str) -> object:
    """One is enough for a quick answer: the others repeat it."""
    return pytest.param(name, marks=() if name == BEST else pytest.mark.repeat)


@pytest.fixture(scope="session", params=[_backend(name) for name in BACKENDS])
def server_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of one server of each kind, for the whole session."""
    if request.param == "memory":
        yield f"memory://contract-{os.getpid()}"
        return
    kind: Kind
    access: Access
    kind, _, access = request.param.partition("-")
    with ServerProcess(kind, access) as server:
        yield server.url


@pytest.fixture
async def driver(server_url: str) -> AsyncIterator[ServerDriver]:
    """A namespace of its own."""
    settings = BrokerSettings(namespace=f"contract-{os.urandom(4).hex()}", lease=LEASE)
    made = ServerDriver(server_url, settings)
    yield made
    await made.close()


@pytest.fixture
async def runtimes(server_url: str) -> AsyncIterator[Runtimes]:
    """Runtimes in a namespace of its own."""
    made = Runtimes(server_url)
    yield made
    await made.close()
