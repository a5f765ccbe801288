"""Connections for one command."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.broker import BrokerSettings
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.broker.redis.operations.inspect import Overview
    from callboard.runtime.control import Control
    from callboard.runtime.runtime import RedisAgentRuntime

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs a command's coroutine to its end, faster where uvloop is installed."""
    try:
        import uvloop
    except ImportError:
        return asyncio.run(work)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)


def namespace_of(app: App | None, namespace: str | None) -> str:
    """The namespace of a command: its option, what the app was made with, CALLBOARD_NAMESPACE, the app's name, `main`."""
    from callboard.broker.settings import DEFAULT_NAMESPACE, variable, warn_of_unknown

    warn_of_unknown()
    given = namespace or (app.given_namespace if app is not None else None) or variable("namespace")
    return given or (app.namespace if app is not None else DEFAULT_NAMESPACE)


def settings_for(app: App | None, url: str | None, namespace: str | None) -> BrokerSettings:
    """The settings of a command: its options, then those of the app, then those of the environment."""
    from dataclasses import replace

    from callboard.broker import BrokerSettings
    from callboard.broker.settings import variable

    settings = (app.settings if app is not None else None) or BrokerSettings.from_env()
    where = url or settings.url or variable("url")
    return replace(settings, url=where, namespace=namespace_of(app, namespace))


@contextlib.asynccontextmanager
async def publisher(app: App, url: str | None, namespace: str | None) -> AsyncIterator[RedisAgentRuntime]:
    """A runtime that publishes and asks, and runs no agents."""
    from callboard.runtime.runtime import RedisAgentRuntime

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
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.process.loading import load_app

    settings = settings_for(load_app(target) if target else None, url, namespace)
    async with server_at(settings.url) as server:
        transport = RedisTransport(server.url, settings)
        try:
            yield transport
        finally:
            await transport.close()


async def overview_of(target: str | None, url: str | None, namespace: str | None) -> Overview:
    """The state of a namespace at this moment; arguments as for `observer`."""
    from callboard.broker.redis.operations.inspect import overview

    async with observer(target, url, namespace) as transport:
        return await overview(transport)


@contextlib.asynccontextmanager
async def controller(target: str | None, url: str | None, namespace: str | None) -> AsyncIterator[Control]:
    """Gives orders to the workers of a namespace; arguments as for `observer`."""
    from callboard.runtime.control import Control

    async with observer(target, url, namespace) as transport:

        async def connected() -> RedisTransport:
            return transport

        yield Control(connected)


@dataclass(frozen=True, slots=True)
class Server:
    """The server that a command uses.

    Attributes:
        url: Its URL.
        revive: Starts it again if it died; does nothing for a server that is not ours.
    """

    url: str
    revive: Callable[[], Awaitable[None]]


@contextlib.asynccontextmanager
async def server_at(url: str | None) -> AsyncIterator[Server]:
    """The server to use: the one of a URL, else the embedded one, which stays up meanwhile."""
    if url is not None:
        yield Server(url, _leave_alone)
        return
    from callboard.broker.redis.server.embedded import EmbeddedServer

    async with await EmbeddedServer.acquire() as handle:
        yield Server(handle.url, handle.ensure_running)


async def _leave_alone() -> None:
    pass
