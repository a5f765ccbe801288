"""Tests with the real packages of AutoGen: a job of their own, scripts/interop. Elsewhere they are left out."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from importlib.util import find_spec
from typing import Any

import pytest

from tests.helpers.servers import ServerProcess, best_kind

collect_ignore_glob = [] if find_spec("autogen_agentchat") else ["test_*.py"]


@pytest.fixture(scope="session")
def url() -> Iterator[str]:
    """A server for the whole session."""
    with ServerProcess("redis" if best_kind() == "redis" else "embedded") as server:
        yield server.url


@pytest.fixture
def namespace() -> str:
    """A namespace of its own."""
    return f"interop-{os.urandom(4).hex()}"


@pytest.fixture
async def make_runtime(url: str, namespace: str) -> AsyncIterator[Callable[..., Any]]:
    """Makes runtimes of one namespace, which are closed in the end."""
    from callboard.interop.autogen import CallboardRuntime

    made: list[Any] = []

    def make(**options: Any) -> Any:
        made.append(CallboardRuntime(url, namespace=namespace, **options))
        return made[-1]

    yield make
    for runtime in reversed(made):
        await runtime.close()


@pytest.fixture
def runtime(make_runtime: Callable[..., Any]) -> Any:
    """One runtime."""
    return make_runtime()
