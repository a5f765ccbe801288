"""Connections of one command, the settings of the workers that it starts, and Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from .exits import INTERRUPTED, UNREACHABLE, CommandFailed, bad_use
from .output import hint

if TYPE_CHECKING:
    from callboard.app import App
    from callboard.broker import BrokerSettings
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.broker.redis.operations.views import Overview
    from callboard.runtime.control import Control
    from callboard.runtime.runtime import RedisAgentRuntime


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def interruptible(call_off: Callable[[], None]) -> Iterator[None]:
    """Call `call_off` for the first of these signals; the second ends the process at once. Within a running loop."""
    loop = asyncio.get_running_loop()

    def end_at_once() -> None:
        os._exit(INTERRUPTED)

    def interrupt() -> None:
        for number in SIGNALS:
            loop.add_signal_handler(number, end_at_once)
        call_off()

    for number in SIGNALS:
        loop.add_signal_handler(number, interrupt)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a command's coroutine to its end, faster where uvloop is installed."""
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
    with _naming(settings.namespace):
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


class CommandServer(NamedTuple):
    """The server that a command uses.

    Attributes:
        url: Its URL.
        revive: Starts it again if it died; does nothing for a server that is not ours.
    """

    url: str
    revive: Callable[[], Awaitable[None]]


@contextlib.asynccontextmanager
async def _transport(
    target: str | None,
    url: str | None,
    namespace: str | None,
    server_of: Callable[[str | None], AbstractAsyncContextManager[CommandServer]],
) -> AsyncIterator[RedisTransport]:
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.process.loader import load_app

    settings = settings_for(load_app(target) if target else None, url, namespace)
    async with server_of(settings.url) as server:
        settings = await _with_namespace(server.url, settings, is_given=bool(target or namespace))
        transport = RedisTransport(server.url, settings)
        try:
            with _naming(settings.namespace):
                yield transport
        finally:
            await transport.close()


@contextlib.contextmanager
def _naming(namespace: str | None) -> Iterator[None]:
    """Note the namespace in what the server refuses: its user may have the same role in another one."""
    from callboard.broker.errors import CommandError

    try:
        yield
    except CommandError as error:
        error.namespace = namespace or ""
        raise


@contextlib.asynccontextmanager
async def runs_at(
    target: str | None, url: str | None, namespace: str | None
) -> AsyncIterator[RedisAgentRuntime]:
    """A runtime that reads runs and gives orders to teams; arguments as for `seen`. It runs no agents.

    With an app its message classes are known; without one those of callboard.
    """
    from callboard.process.loader import load_app
    from callboard.runtime.runtime import RedisAgentRuntime

    app = load_app(target) if target else None
    settings = settings_for(app, url, namespace)
    async with running_server(settings.url) as server:
        settings = await _with_namespace(server.url, settings, is_given=bool(target or namespace))
        with _naming(settings.namespace):
            await _check_namespace_at(server.url, settings)
            runtime = RedisAgentRuntime(server.url, settings=settings)
            if app is not None:
                runtime.add_message_types(app.message_classes())
            async with runtime:
                yield runtime


async def _with_namespace(url: str, settings: BrokerSettings, *, is_given: bool) -> BrokerSettings:
    """The settings with the only namespace of the server, where the command line and the environment name none."""
    from dataclasses import replace

    from callboard.broker.errors import CommandError
    from callboard.broker.redis.client.transport import RedisTransport
    from callboard.broker.redis.operations import namespaces
    from callboard.broker.settings import variable

    if is_given or variable("namespace"):
        return settings
    transport = RedisTransport(url, settings)
    try:
        known = () if await namespaces.exists(transport) else await namespaces.known(transport)
    except CommandError:  # a user that may not look for keys
        known = ()
    finally:
        await transport.close()
    if len(known) != 1:
        return settings
    hint(f"in the namespace {known[0]!r}, the only one there")
    return replace(settings, namespace=known[0])


async def _check_namespace_at(url: str, settings: BrokerSettings) -> None:
    """Before anything is declared there: what looks at a namespace makes none."""
    from callboard.broker.redis.client.transport import RedisTransport

    transport = RedisTransport(url, settings)
    try:
        await check_namespace(transport)
    finally:
        await transport.close()


async def check_namespace(transport: RedisTransport) -> None:
    """Refuse a namespace in which nothing was ever declared.

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
    """Refuse an agent type that is not declared in the namespace.

    Raises:
        UnknownNameError: It names the nearest one that there is, or all of them.
    """
    from callboard.errors import UnknownNameError

    known = await names_in(transport, "types")
    if agent_type not in known:
        raise UnknownNameError("agent type", agent_type, known)


async def check_topic(transport: RedisTransport, topic: str) -> None:
    """Refuse a topic that does not exist in the namespace.

    Raises:
        CommandFailed: It names the nearest one that there is, or all of them.
    """
    from callboard.errors import did_you_mean

    known = await names_in(transport, "topics")
    if topic not in known:
        bad_use(f"there is no topic {topic!r}. {did_you_mean(topic, known)}")


async def names_in(transport: RedisTransport, suffix: str) -> list[str]:
    """The agent types (`types`), or topics (`topics`), of a namespace."""
    from callboard.broker.redis.operations.inspect import pages

    flat = await pages(transport, "HSCAN", suffix)
    return sorted(name.decode(errors="replace") for name in flat[::2])


async def overview_of(
    target: str | None, url: str | None, namespace: str | None, *, everything: bool
) -> Overview:
    """The state of a namespace at this moment, or what a glance sees of it; arguments as for `seen`."""
    from callboard.broker.redis.operations.glance import glance
    from callboard.broker.redis.operations.inspect import overview

    async with seen(target, url, namespace) as transport:
        return await (overview if everything else glance)(transport)


def control_of(transport: RedisTransport) -> Control:
    """The control of a namespace: orders to its workers."""
    from callboard.runtime.control import Control

    async def connected() -> RedisTransport:
        return transport

    return Control(connected)


@contextlib.asynccontextmanager
async def server_at(url: str | None) -> AsyncIterator[CommandServer]:
    """The server to use: the one of a URL, else the embedded one, which stays up meanwhile."""
    if url is not None:
        yield CommandServer(url, _leave_alone)
        return
    from callboard.broker.redis.embedded import EmbeddedServer

    async with await EmbeddedServer.acquire() as handle:
        yield CommandServer(handle.url, handle.ensure_running)


@contextlib.asynccontextmanager
async def running_server(url: str | None) -> AsyncIterator[CommandServer]:
    """The server to look at: the one of a URL, else the embedded one, if it runs.

    Raises:
        CommandFailed: It does not run.
    """
    if url is not None:
        yield CommandServer(url, _leave_alone)
        return
    from callboard.broker.redis.embedded import EmbeddedServer

    status = await EmbeddedServer.status()
    if status is None:
        raise CommandFailed(_no_server(), UNREACHABLE)
    yield CommandServer(status.url, _leave_alone)


@contextlib.asynccontextmanager
async def server_with_data(url: str | None) -> AsyncIterator[CommandServer]:
    """As `server_at`, but nothing is made where there is no embedded server yet.

    Raises:
        CommandFailed: There is none.
    """
    from callboard.broker.redis.embedded import DEFAULT_DIRECTORY

    if url is None and not DEFAULT_DIRECTORY.is_dir():
        raise CommandFailed(_no_server(), UNREACHABLE)
    async with server_at(url) as server:
        yield server


def _no_server() -> str:
    """Advice for a command that finds no embedded server."""
    from callboard.broker.redis.embedded import DEFAULT_DIRECTORY

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


def check_types(app: App, names: Sequence[str]) -> None:
    """Refuse agent types that the app does not declare.

    Raises:
        UnknownNameError: with the nearest name that it has.
    """
    for name in names:
        app[name]


def nothing_to_run(app: App, or_else: str = "") -> NoReturn:
    """End the command: there is no agent type to work for."""
    bad_use(f"the app {app.name!r} has nothing to run: declare agents with @app.agent{or_else}")


def check_served(app: App, serve_all: bool) -> None:
    """Refuse an app that serves nothing, or nothing unless all is served."""
    if not (app.teams if serve_all else app.served):
        bad_use("it serves nothing: write app.team(team, serve=True), or give --all")


def grace_of(given: float | None, settings: BrokerSettings) -> float:
    """Seconds of the grace period."""
    return settings.drain_grace if given is None else given


def with_limits(settings: BrokerSettings, max_memory: str | None, max_messages: int | None) -> BrokerSettings:
    """The settings with the limits of a worker process that the command line gives."""
    from dataclasses import replace

    from callboard.broker.settings import parse_size

    memory = settings.max_memory if max_memory is None else parse_size(max_memory)
    messages = settings.max_messages if max_messages is None else max_messages
    return replace(settings, max_memory=memory, max_messages=messages)


def worker_options(settings: BrokerSettings) -> tuple[str, ...]:
    """Options of the processes of `callboard up` beside their type: these limits, and --debug where it was given."""
    debug = ("--debug",) if logging.getLogger().isEnabledFor(logging.DEBUG) else ()
    return ("--max-memory", str(settings.max_memory), "--max-messages", str(settings.max_messages), *debug)
