"""Fixtures for pytest with pytest-asyncio: put `pytest_plugins = ["callboard.testing.fixtures"]` into conftest.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

from callboard.foundation import MissingPackageError

try:
    import pytest
    import pytest_asyncio
except ModuleNotFoundError as error:
    raise MissingPackageError(str(error.name), "testing") from None

from callboard.broker.redis.embedded import EmbeddedServer
from callboard.runtime.runtime import RedisAgentRuntime

from .harness import Harness


@pytest.fixture
def callboard_url() -> str | None:
    """The server of `harness`. None: a store in this process. Override it to test on a real server."""
    return None


@pytest.fixture
def callboard_settings() -> dict[str, Any]:
    """Fields of BrokerSettings for `harness`. Override it to change some."""
    return {}


@pytest.fixture(scope="session")
def embedded_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a real server that runs as long as the tests do: have `callboard_url` return it."""
    directory = tmp_path_factory.mktemp("callboard")
    handle = asyncio.run(EmbeddedServer.acquire(directory))
    yield handle.url
    asyncio.run(handle.release())


@pytest_asyncio.fixture
async def harness(callboard_url: str | None, callboard_settings: dict[str, Any]) -> AsyncIterator[Harness]:
    """A Harness with a namespace of its own."""
    async with Harness(callboard_url, **callboard_settings) as made:
        yield made


@pytest_asyncio.fixture
async def runtime(harness: Harness) -> RedisAgentRuntime:
    """A runtime without agents, open and not started."""
    made = harness.runtime()
    await made.open()
    return made
