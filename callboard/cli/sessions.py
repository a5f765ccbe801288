"""Connections for one command."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from .exits import UNREACHABLE, CommandFailed, bad_use
from .output import hint

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
    if where and where.startswith("memory:"):
        bad_use(
            "a memory:// server is seen by the process that made it only, and commands are processes of their own: "
            "give a redis:// URL, or none for the embedded server"
        )
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
async def seen(target: str | None, url: str | None, namespace: str | None) -> AsyncIterator[RedisTransport]:
    """A transport that looks at a namespace. No server is started for it, and nothing is made on it.

    Args:
        target: `module:app`, for its namespace and settings; None: those of the environment.
        url: instead of the environment's; None there as well: the embedded server.
        namespace: instead of the app's.

    Raises:
        CommandFailed: There is no such namespace, or the embedded server does not run.
    """
    async with on_server(target, url, namespace) as transport:
        await check_namespace(transport)
        yield transport


@contextlib.asynccontextmanager
async def on_server(
    target: str | None, url: str | None, namespace: str | None
) -> AsyncIterator[RedisTransport]:
    """As `seen`, for what concerns the server: whether the namespace exists does not matter."""
    async with _transport(target, url, namespace, running_server) as transport:
        yield transport


@contextlib.asynccontextmanager
async def looked_for(
    target: str | None, url: str | None, namespace: str | None
) -> AsyncIterator[RedisTransport]:
    """As `seen`, also where the namespace does not exist: then it says so and goes on."""
    from callboard.broker.errors import CommandError

    async with on_server(target, url, namespace) as transport:
        try:
            await check_namespace(transport)
        except CommandFailed as unknown:
            hint(str(unknown))
        except CommandError:  # a user with few rights: what is done next says what it lacks
            pass
        yield transport


@contextlib.asynccontextmanager
async def operator(
    target: str | None, url: str | None, namespace: str | None
) -> AsyncIterator[RedisTransport]:
    """A transport that changes what is there: as `seen`, but an embedded server that has data is started for it."""
    async with _transport(target, url, namespace, server_with_data) as transport:
        await check_namespace(transport)
        yield transport


@contextlib.asynccontextmanager
async def _transport(
    target: str | None,
    url: str | None,
    namespace: str | None,
    server_of: Callable[[str | None], AbstractAsyncContextManager[Server]],
) -> AsyncIterator[RedisTransport]:
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.process.loading import load_app

    settings = settings_for(load_app(target) if target else None, url, namespace)
    async with server_of(settings.url) as server:
        transport = RedisTransport(server.url, settings)
        try:
            yield transport
        finally:
            await transport.close()


@contextlib.asynccontextmanager
async def runs_at(
    target: str | None, url: str | None, namespace: str | None
) -> AsyncIterator[RedisAgentRuntime]:
    """A runtime that reads runs and gives orders to teams; arguments as for `seen`. It runs no agents.

    With an app its message classes are known; without one those of callboard.
    """
    from callboard.process.loading import load_app
    from callboard.runtime.runtime import RedisAgentRuntime

    app = load_app(target) if target else None
    settings = settings_for(app, url, namespace)
    async with running_server(settings.url) as server:
        await _check_namespace_at(server.url, settings)
        runtime = RedisAgentRuntime(server.url, settings=settings)
        if app is not None:
            runtime.add_message_types(app.message_classes())
        async with runtime:
            yield runtime


async def _check_namespace_at(url: str, settings: BrokerSettings) -> None:
    """Before anything is declared there: what looks at a namespace makes none."""
    from callboard.broker.redis.client.transport import RedisTransport

    transport = RedisTransport(url, settings)
    try:
        await check_namespace(transport)
    finally:
        await transport.close()


async def check_namespace(transport: RedisTransport) -> None:
    """Refuses a namespace in which nothing was ever declared.

    Raises:
        CommandFailed: It names the nearest one that there is, or all of them.
    """
    from callboard.broker.errors import CommandError
    from callboard.broker.redis.operations import namespaces
    from callboard.errors import did_you_mean

    if await namespaces.exists(transport):
        return
    name = transport.keys.namespace
    try:
        known = await namespaces.known(transport)
    except CommandError:  # a user that may not look for keys
        known = ()
    advice = did_you_mean(name, known) if known else "There is none yet: start an app with `callboard up`."
    bad_use(f"there is no namespace {name!r} on {transport.endpoint.shown}. {advice}")


async def check_type(transport: RedisTransport, agent_type: str) -> None:
    """Refuses an agent type that is not declared in the namespace.

    Raises:
        UnknownAgentTypeError: It names the nearest one that there is, or all of them.
    """
    from callboard.errors import UnknownAgentTypeError

    known = await names_in(transport, "types")
    if agent_type not in known:
        raise UnknownAgentTypeError(agent_type, known)


async def check_topic(transport: RedisTransport, topic: str) -> None:
    """Refuses a topic that does not exist in the namespace.

    Raises:
        CommandFailed: It names the nearest one that there is, or all of them.
    """
    from callboard.errors import did_you_mean

    known = await names_in(transport, "topics")
    if topic not in known:
        bad_use(f"there is no topic {topic!r}. {did_you_mean(topic, known)}")


async def names_in(transport: RedisTransport, suffix: str) -> list[str]:
    """The agent types (`types`), or topics (`topics`), of a namespace."""
    from callboard.broker.redis.operations.paging import pages

    flat = await pages(transport, "HSCAN", suffix)
    return sorted(name.decode(errors="replace") for name in flat[::2])


async def overview_of(target: str | None, url: str | None, namespace: str | None) -> Overview:
    """The state of a namespace at this moment; arguments as for `seen`."""
    from callboard.broker.redis.operations.inspect import overview

    async with seen(target, url, namespace) as transport:
        return await overview(transport)


def control_of(transport: RedisTransport) -> Control:
    """Gives orders to the workers of a namespace."""
    from callboard.runtime.control import Control

    async def connected() -> RedisTransport:
        return transport

    return Control(connected)


class Server(NamedTuple):
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


@contextlib.asynccontextmanager
async def running_server(url: str | None) -> AsyncIterator[Server]:
    """The server to look at: the one of a URL, else the embedded one, if it runs.

    Raises:
        CommandFailed: It does not run.
    """
    if url is not None:
        yield Server(url, _leave_alone)
        return
    from callboard.broker.redis.server.embedded import EmbeddedServer

    status = await EmbeddedServer.status()
    if status is None:
        raise CommandFailed(_no_server(), UNREACHABLE)
    yield Server(status.url, _leave_alone)


@contextlib.asynccontextmanager
async def server_with_data(url: str | None) -> AsyncIterator[Server]:
    """As `server_at`, but nothing is made where there is no embedded server yet.

    Raises:
        CommandFailed: There is none.
    """
    from callboard.broker.redis.server.embedded import DEFAULT_DIRECTORY

    if url is None and not DEFAULT_DIRECTORY.is_dir():
        raise CommandFailed(_no_server(), UNREACHABLE)
    async with server_at(url) as server:
        yield server


def _no_server() -> str:
    """What to do when the embedded server does not run."""
    from callboard.broker.redis.server.embedded import DEFAULT_DIRECTORY

    if DEFAULT_DIRECTORY.is_dir():
        return (
            f"the embedded server of {DEFAULT_DIRECTORY.absolute()} does not run: `callboard server start` starts it, "
            "and so does `callboard up`; or give --url"
        )
    return (
        f"there is no embedded server in {Path.cwd()}: go to the app's folder, start an app there with `callboard up`, "
        "or give --url"
    )


async def _leave_alone() -> None:
    pass
