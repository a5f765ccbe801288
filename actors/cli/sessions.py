"""Connections for one command."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from broker import BrokerSettings
    from broker.redis.transport import RedisTransport

    from ..app import App
    from ..runtime import RedisAgentRuntime

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a command's coroutine to its end, faster where uvloop is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def settings_for(app: App | None, url: str | None, namespace: str | None) -> BrokerSettings:
    """What is in force for a command: its options, then the app's settings, then the environment."""
    from dataclasses import replace

    from broker import BrokerSettings

    settings = (app.settings if app is not None else None) or BrokerSettings.from_env()
    name = namespace or (app.namespace if app is not None else None) or settings.namespace
    return replace(settings, url=url or settings.url or BrokerSettings.from_env().url, namespace=name)


@contextlib.asynccontextmanager
async def publisher(app: App, url: str | None, namespace: str | None) -> AsyncIterator[RedisAgentRuntime]:
    """A runtime that publishes and asks, and runs no agents."""
    from ..runtime import RedisAgentRuntime

    settings = settings_for(app, url, namespace)
    async with RedisAgentRuntime.from_app(
        app, settings.url, namespace=settings.namespace, settings=settings, types=()
    ) as runtime:
        yield runtime


@contextlib.asynccontextmanager
async def observer(
    target: str | None, url: str | None, namespace: str | None
) -> AsyncIterator[RedisTransport]:
    """A transport that looks at a namespace and declares nothing in it.

    Args:
        target: `module:app`, for its namespace and settings; None: those of the environment.
        url: instead of the environment's; None there as well: the embedded server.
        namespace: instead of the app's.
    """
    from broker.redis.transport import RedisTransport

    from ..loading import load_app

    settings = settings_for(load_app(target) if target else None, url, namespace)
    async with server_url(settings.url) as address:
        transport = RedisTransport(address, settings)
        try:
            yield transport
        finally:
            await transport.close()


@contextlib.asynccontextmanager
async def server_url(url: str | None) -> AsyncIterator[str]:
    """The URL to use: the given one, else that of the embedded server, which stays up meanwhile."""
    if url is not None:
        yield url
        return
    from broker.redis.server import EmbeddedServer

    server = await EmbeddedServer.acquire()
    try:
        yield server.url
    finally:
        await server.release()
