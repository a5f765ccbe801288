"""From open to close: connecting a runtime, running its worker, and ending both."""

from __future__ import annotations

import asyncio
import contextlib
import os
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from callboard.broker import BrokerSettings, MessageRegistry, SubscriptionTable
from callboard.broker.consumer.interfaces import ConsumedType
from callboard.broker.errors import ServerUnavailableError
from callboard.broker.redis.client.throwaway import ThrowAway
from callboard.broker.redis.client.transport import Declared, RedisTransport
from callboard.broker.retry import RetryPolicy
from callboard.broker.settings import variable, warn_of_unknown
from callboard.broker.subscriptions import Subscription, TypePrefixSubscription, TypeSubscription
from callboard.intervention import InterventionHandler
from callboard.schedules import Schedule

from .audience import Audience
from .errors import RuntimeStateError, register_errors
from .execution import Executions
from .idleness import until_idle
from .local_agents import LocalAgents
from .local_worker import LocalWorker
from .scheduler import Scheduler, kept_up
from .sending import Sender

if TYPE_CHECKING:
    from callboard.broker.redis.server.embedded import ServerHandle


class Reading(Protocol):
    """What reads along in this process, as long as the runtime is open."""

    def end(self) -> None:
        """Ends the reading."""


class RuntimeLifecycle:
    """The part of a runtime that has nothing to do with single agents and messages.

    Args:
        agents: the agents of this process.
        url, namespace, settings, types, intervention_handlers, ignore_unhandled_exceptions, retry, exit_when_stuck: see
            RedisAgentRuntime.
    """

    def __init__(
        self,
        agents: LocalAgents,
        url: str | None,
        *,
        namespace: str | None,
        settings: BrokerSettings | None,
        types: Collection[str] | None,
        intervention_handlers: Sequence[InterventionHandler] | None,
        ignore_unhandled_exceptions: bool,
        retry: RetryPolicy | None,
        exit_when_stuck: bool,
    ) -> None:
        register_errors()
        self.registry = MessageRegistry()
        self._agents = agents
        self._subscriptions = SubscriptionTable()
        self._given_url = url
        self._given_namespace = namespace
        self._given_settings = settings
        self._given_retry = retry
        self._only = None if types is None else frozenset(types)
        self._elsewhere: frozenset[str] = frozenset()
        self._interventions = tuple(intervention_handlers or ())
        self._ignore_errors = ignore_unhandled_exceptions
        self._exit_when_stuck = exit_when_stuck
        self._transport: RedisTransport | None = None
        self._server: ServerHandle | None = None
        self._followings: weakref.WeakSet[Reading] = weakref.WeakSet()
        self._sender: Sender | None = None
        self._worker: LocalWorker | None = None
        self._task: asyncio.Task[None] | None = None
        self._opening: asyncio.Lock | None = None
        self._app_name = ""
        self._schedules: Mapping[str, Schedule] = {}
        self._temporary = False
        self._throw_away: ThrowAway | None = None

    @property
    def transport(self) -> RedisTransport:
        """The connection to the server.

        Raises:
            RuntimeStateError: `open` was not called.
        """
        if self._transport is None:
            raise RuntimeStateError("the runtime is not connected: await open() or start() first")
        return self._transport

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force; known once the runtime is open."""
        return self.transport.settings

    @property
    def worker(self) -> str:
        """Name of the worker in this process, "" when it is not running."""
        return self._worker.consumer.worker if self._worker is not None else ""

    @property
    def handled(self) -> int:
        """Messages that were handled here since `start`."""
        return self._worker.host.handled if self._worker is not None else 0

    @property
    def failed(self) -> int:
        """Messages whose handling failed for good here since `start`."""
        return self._worker.host.failed if self._worker is not None else 0

    # Opening and closing

    async def open(self) -> None:
        """Connects and declares, without working yet. Safe to repeat; every other call does it when needed.

        Raises:
            ServerUnavailableError: no server answers at the URL.
            ServerNotFoundError: no URL is given and no server binary is installed.
            BadUrlError, SettingsError: what was given can't be used.
        """
        if self._transport is not None:
            return
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            # Asked again: of two callers that found no transport, the second gets here when the first has opened. It would
            # replace that transport by its own, and nothing would close the first one's connections.
            if self._transport is None:
                await self._open()

    async def _open(self) -> None:
        warn_of_unknown()
        settings = self._given_settings or BrokerSettings.from_env()
        namespace = self._given_namespace or settings.namespace or variable("namespace")
        # Only what was made up here is removed in the end. That a name is the usual one says nothing: it may be given, too.
        # guard: a namespace that was given is never deleted
        self._temporary = namespace is None
        settings = replace(settings, namespace=namespace or f"run-{os.getpid()}-{os.urandom(4).hex()}")
        url = self._given_url or settings.url or variable("url")
        if url is None:
            from callboard.broker.redis.server.embedded import EmbeddedServer

            self._server = await EmbeddedServer.acquire()
            url = self._server.url
        transport = RedisTransport(url, settings, self._revive if self._server is not None else None)
        try:
            # Registered before its first key is written: whatever kills this process, a later one finds what it left.
            if self._temporary:
                self._throw_away = ThrowAway(transport)
                await self._throw_away.begin()
            await self._declare(transport)
        except BaseException:
            if self._throw_away is not None:
                await self._throw_away.stop()
            await transport.close()
            await self._release_server()
            raise
        self._transport = transport
        audience = Audience(transport, self._subscriptions, self._agents)
        self._sender = Sender(transport, self.registry, self._interventions, audience)

    def _retry(self, settings: BrokerSettings) -> RetryPolicy:
        """When a failed message is tried again, unless its agent type says something else."""
        return self._given_retry or RetryPolicy.of(settings)

    async def _declare(self, transport: RedisTransport) -> None:
        types = self._agents.settings_of_types(self._retry(transport.settings))
        subscriptions = [declared(subscription) for subscription in self._subscriptions]
        await transport.declare(types, subscriptions, self.registry.versions())

    async def _transport_if_any(self) -> RedisTransport | None:
        """The connection, for something that comes now and is to be known there; None: opening will declare it.

        An opening that is under way has said already what it declares: it comes after that.
        """
        if self._transport is None and self._opening is not None:
            # guard: what is registered while the runtime opens is declared
            async with self._opening:
                pass
        return self._transport

    async def close(self) -> None:
        """Stops, closes the agents, ends every connection. A throw-away namespace is deleted. Safe to repeat."""
        async with (
            contextlib.AsyncExitStack() as ending
        ):  # from the last to the first, although one of them fails
            ending.push_async_callback(self._release_server)
            ending.push_async_callback(self._close_transport)
            ending.push_async_callback(self._agents.close)
            ending.push_async_callback(self.drain)

    async def _close_transport(self) -> None:
        if self._transport is not None:
            # Taken before the await: a second `close` that comes meanwhile finds nothing left to close.
            transport, self._transport = self._transport, None
            for following in list(self._followings):
                following.end()
            if self._sender is not None:
                self._sender.deadlines.close()
                await self._sender.audience.close()
            await transport.close(last=None if self._throw_away is None else self._throw_away.end)

    async def _revive(self) -> None:
        """Starts the embedded server again when it died; its file brings everything back."""
        if self._server is None:
            return
        from callboard.broker.redis.server.state import ServerStartError

        try:
            await self._server.ensure_running()
        except ServerStartError as error:
            raise ServerUnavailableError(self._server.url, str(error)) from error

    async def _release_server(self) -> None:
        if self._server is not None:
            # Taken before the await: two calls of `close` must give the server back once, not twice.
            server, self._server = self._server, None
            await server.release()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Working

    def start(self) -> None:
        """Begins to handle messages, in a task of this event loop. An ordinary call, as in AutoGen.

        Raises:
            RuntimeStateError: it is running.
        """
        if self._task is not None:
            raise RuntimeStateError("the runtime is already started")
        self._worker = None
        self._task = asyncio.create_task(self._work(), name="callboard-worker")

    async def _work(self) -> None:
        await self.open()
        transport, sender = self.transport, await self._open_sender()
        self._worker = LocalWorker(
            self._agents,
            Executions(transport, self.registry, sender.tokens.of),
            self._consumed_types(),
            self._retry(transport.settings),
            declare=lambda: self._declare(transport),
            is_sending=self._is_sending,
            exit_when_stuck=self._exit_when_stuck,
            cancelled=self._hear_cancelled,
        )
        async with kept_up(self._scheduler(transport)):
            await self._worker.run()

    def _scheduler(self, transport: RedisTransport) -> Scheduler | None:
        """Looks to the schedules of the app; who only sends leaves that to those who work."""
        if not self._app_name or not self._consumed_types():
            return None
        return Scheduler(transport, self.registry, self._app_name, self._schedules)

    def _hear_cancelled(self, what: str) -> None:
        """Something was cancelled, here or in another process: for what a subclass has to cancel besides requests."""

    def _consumed_types(self) -> list[ConsumedType]:
        return [
            ConsumedType(kind.type, kind.persistent, kind.settings.concurrency, kind.settings.rate_limit)
            for kind in self._agents
            if (self._only is None or kind.type in self._only) and kind.type not in self._elsewhere
        ]

    def _is_sending(self) -> bool:
        return self._sender is not None and self._sender.entering > 0

    def _started(self) -> asyncio.Task[None]:
        if self._task is None:
            raise RuntimeStateError("the runtime is not started: call start() first")
        return self._task

    async def ready(self) -> None:
        """Waits until the worker of this process takes messages; raises what keeps it from that, or has ended it since."""
        task = self._started()
        while not task.done():
            if self._worker is not None and self._worker.consumer.joined.is_set():
                return
            await asyncio.sleep(0.001)
        if self._task is task:
            self._task = None  # the caller is told below how it ended, and may start again
        await task

    async def drain(self, grace: float | None = None) -> None:
        """Stops as SIGTERM does: takes nothing new, lets handlers finish, gives back the rest.

        Args:
            grace: seconds that running handlers get; None: `drain_grace` of the settings. What runs longer is
                cancelled and goes to other workers without counting an attempt. A second call may shorten it.
        """
        task = self._task
        if task is None:
            return
        if self._worker is None:
            task.cancel()
            await asyncio.wait({task})
        else:
            await self._worker.drain(task, self.settings.drain_grace if grace is None else grace)
        if self._task is not task:
            return  # a call with less patience was here first, and told its caller how it ended
        self._task = None
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def stop(self) -> None:
        """Lets running handlers finish and stops. What is queued stays in Redis, for the next start or another process.

        Raises:
            RuntimeStateError: it is not running.
        """
        self._started()
        await self._stop()

    async def stop_when_idle(self) -> None:
        """Stops when nothing is left to do in the whole namespace: nothing queued, running, or due.

        A message that was sent before this call is always waited for.
        """
        task = self._started()
        await self.ready()
        if self._worker is not None:
            await self._worker.until_idle(task, self._has_failed)
        await self._stop()

    async def until_idle(self) -> None:
        """Waits until nothing is left to do in the whole namespace, seen twice, whoever does it; it stops nothing.

        A message that was sent before this call is always waited for. Where no process runs an agent type, what waits for it
        is waited for as well.
        """
        await self.open()
        if self._task is not None:
            await self.ready()
        await until_idle(self.transport, self._worker, self._task)

    async def stop_when(self, condition: Callable[[], bool]) -> None:
        """Stops as soon as `condition()` is true; it is asked after every change."""
        task = self._started()
        await self.ready()
        if self._worker is not None:
            await self._worker.until(lambda: condition() or self._has_failed(), task)
        await self._stop()

    async def _stop(self) -> None:
        await self.drain()
        if self._has_failed() and self._worker is not None:
            error, self._worker.host.first_error = self._worker.host.first_error, None
            if error is not None:
                raise error

    def _has_failed(self) -> bool:
        return (
            not self._ignore_errors and self._worker is not None and self._worker.host.first_error is not None
        )

    async def _open_sender(self) -> Sender:
        """Connects when that has not been done."""
        await self.open()
        if self._sender is None:
            raise RuntimeStateError("the runtime is not connected: await open() or start() first")
        return self._sender


def declared(subscription: Subscription) -> Declared:
    """A subscription as the server keeps it.

    Raises:
        TypeError: it is of a kind that only this process could know.
    """
    if isinstance(subscription, TypeSubscription):
        return Declared(subscription.agent_type, "topic", subscription.topic_type)
    if isinstance(subscription, TypePrefixSubscription):
        return Declared(subscription.agent_type, "prefix", subscription.topic_type_prefix)
    raise TypeError(
        f"{type(subscription).__name__} can't cross processes: use TypeSubscription or TypePrefixSubscription"
    )
