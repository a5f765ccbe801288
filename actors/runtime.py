"""The runtime: carries messages between agents and creates the agents, over Redis."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from broker import AgentId, AgentType, BrokerSettings, MessageRegistry, SubscriptionTable, TopicId
from broker.consumer import Consumer, TypeLimits
from broker.redis.lane import Turn
from broker.redis.transport import Declared, RedisTransport
from broker.subscriptions import Subscription, TypePrefixSubscription, TypeSubscription

from .app import AgentSettings
from .cancellation import CancellationToken
from .errors import DuplicateAgentTypeError, UnknownAgentTypeError
from .host import AgentHost
from .intervention import InterventionHandler
from .registration import AgentTypeEntry, LiveAgent
from .runtime_errors import AgentInstanceError, RuntimeStateError, WrongAgentClassError
from .runtime_protocol import Agent, AgentMetadata
from .sending import Sender
from .state import dump_state, restore_state

if TYPE_CHECKING:
    from broker.redis.heartbeat import Heartbeat
    from broker.redis.server import ServerHandle

    from .app import App

logger = logging.getLogger("callboard.actors")

T = TypeVar("T", bound=Agent)

FIRST_LOOK, LONGEST_LOOK = 0.001, 0.1  # seconds between two looks at whether everything is idle


class RedisAgentRuntime:
    """Runs agents in this process; their messages, and the state of persistent ones, live in Redis.

    One and the same runtime serves a script that does everything in one process and one worker among many. It connects
    when it is first used. Names and behaviour are those of AutoGen's SingleThreadedAgentRuntime, and where that one is
    known to be broken this one is right: interceptors chain, an agent handles one message at a time, every recipient
    gets its own copy and gets it once, a failing event handler is retried and then kept as a dead letter, a request
    without a handler raises.

    Args:
        url: redis://, rediss://, unix:// or memory://. None: CALLBOARD_URL, else REDIS_URL, else the embedded server.
        namespace: what keeps applications on one server apart. None: CALLBOARD_NAMESPACE, else a throw-away namespace
            that is deleted by `close`.
        settings: everything else; None: from the environment.
        types: agent types that this process runs. None: all that are registered.
        intervention_handlers: see InterventionHandler; each sees what the one before it returned.
        ignore_unhandled_exceptions: False: an event that failed for good is raised by stop_when_idle, stop_when and stop.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        settings: BrokerSettings | None = None,
        types: Collection[str] | None = None,
        intervention_handlers: Sequence[InterventionHandler] | None = None,
        ignore_unhandled_exceptions: bool = True,
    ) -> None:
        self._given_url = url
        self._given_namespace = namespace
        self._given_settings = settings
        self._only = None if types is None else frozenset(types)
        self._interventions = tuple(intervention_handlers or ())
        self._ignore_errors = ignore_unhandled_exceptions
        self._types: dict[str, AgentTypeEntry] = {}
        self._elsewhere: dict[str, Mapping[str, Any]] = {}
        self._subscriptions = SubscriptionTable()
        self._declared_only: list[Subscription] = []
        self.registry = MessageRegistry()
        self._transport: RedisTransport | None = None
        self._server: ServerHandle | None = None
        self._sender: Sender | None = None
        self._host: AgentHost | None = None
        self._consumer: Consumer | None = None
        self._heartbeat: Heartbeat | None = None
        self._worker_task: asyncio.Task[None] | None = None
        self._opening: asyncio.Lock | None = None
        self._temporary = False
        self._changed: asyncio.Event | None = None

    @classmethod
    def from_app(
        cls,
        app: App,
        url: str | None = None,
        *,
        namespace: str | None = None,
        settings: BrokerSettings | None = None,
        types: Collection[str] | None = None,
        intervention_handlers: Sequence[InterventionHandler] | None = None,
    ) -> Self:
        """A runtime with everything that an App declares.

        Args:
            app: the declarations. Its namespace is used unless another is given.
            url: as for the class.
            namespace: instead of the app's.
            settings: instead of the app's.
            types: agent types that this process runs: None all, () none (to publish only).
            intervention_handlers: as for the class.

        Raises:
            UnknownAgentTypeError: `types` names one that the app does not declare.
        """
        runtime = cls(
            url,
            namespace=namespace or app.namespace,
            settings=settings or app.settings,
            types=types,
            intervention_handlers=intervention_handlers,
        )
        for name in types or ():
            app[name]
        runtime._take_over(app)
        return runtime

    def _take_over(self, app: App) -> None:
        self.registry.register(*app.message_classes())
        for declaration in app.declarations:
            self._types[declaration.type] = AgentTypeEntry(
                declaration.type, declaration.factory, declaration.agent_class, declaration.settings
            )
            for subscription in declaration.subscriptions:
                self._subscriptions.add(subscription)

    # Opening and closing

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
        """What is in force; known once the runtime is open."""
        return self.transport.settings

    @property
    def worker(self) -> str:
        """Name of the worker in this process, "" when it is not running."""
        return self._consumer.worker if self._consumer is not None else ""

    @property
    def handled(self) -> int:
        """Messages that were handled here since `start`."""
        return self._host.handled if self._host is not None else 0

    @property
    def failed(self) -> int:
        """Messages whose handling failed for good here since `start`."""
        return self._host.failed if self._host is not None else 0

    async def open(self) -> None:
        """Connects and declares, without working yet. Safe to repeat; every other call does it when needed.

        Raises:
            ServerUnavailableError: nobody answers at the URL.
            ServerNotFoundError: no URL is given and no server binary is installed.
            BadUrlError, SettingsError: what was given can't be used.
        """
        if self._transport is not None:
            return
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._transport is None:
                await self._open()

    async def _open(self) -> None:
        settings = self._given_settings or BrokerSettings.from_env()
        namespace = self._given_namespace or (settings.namespace if self._named(settings) else None)
        self._temporary = namespace is None
        settings = _with_namespace(settings, namespace or f"run-{os.getpid()}-{os.urandom(4).hex()}")
        url = self._given_url or settings.url
        if url is None:
            from broker.redis.server import EmbeddedServer

            self._server = await EmbeddedServer.acquire()
            url = self._server.url
        transport = RedisTransport(url, settings)
        try:
            await self._declare(transport)
        except BaseException:
            await transport.close()
            await self._release_server()
            raise
        self._transport = transport
        self._sender = Sender(self, transport, self.registry, self._interventions)

    @staticmethod
    def _named(settings: BrokerSettings) -> bool:
        return settings.namespace != BrokerSettings.namespace

    async def _declare(self, transport: RedisTransport) -> None:
        types = {
            name: {"max_attempts": transport.settings.max_attempts, **entry.limits()}
            for name, entry in self._types.items()
        }
        await transport.declare(types, [_declared(subscription) for subscription in self._subscriptions])

    async def close(self) -> None:
        """Stops, closes the agents, ends every connection. A throw-away namespace is deleted. Safe to repeat."""
        await self.drain()
        for entry in self._types.values():
            for live in list(entry.live.values()):
                await live.agent.close()
            entry.live.clear()
        if self._transport is not None:
            transport, self._transport = self._transport, None
            await transport.close(delete_namespace=self._temporary)
        await self._release_server()

    async def _release_server(self) -> None:
        if self._server is not None:
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
        if self._worker_task is not None:
            raise RuntimeStateError("the runtime is already started")
        self._worker_task = asyncio.create_task(self._work(), name="callboard-worker")

    async def ready(self) -> None:
        """Waits until the worker of this process takes messages; raises what keeps it from that."""
        task = self._running_task()
        while self._consumer is None or not self._consumer.joined.is_set():
            if task.done():
                await task
                return
            await asyncio.sleep(0.001)

    def _running_task(self) -> asyncio.Task[None]:
        if self._worker_task is None:
            raise RuntimeStateError("the runtime is not started: call start() first")
        return self._worker_task

    async def _work(self) -> None:
        await self.open()
        transport = self.transport
        host = AgentHost(
            self,
            self._types,
            self.registry,
            transport.settings,
            declare=lambda: self._declare(transport),
            now_ms=transport.now_ms,
            on_turn=self._on_turn,
            token_of=self._sender_now().token_of,
        )
        lane = transport.lane()
        host.lane = lane
        consumer = Consumer(lane, self._consumed(), host, transport.settings)
        heartbeat = transport.heartbeat(lambda: (consumer.worker, consumer.held, consumer.running), self._on_fenced)
        self._host, self._consumer, self._heartbeat = host, consumer, heartbeat
        heartbeat.start()
        try:
            await consumer.run()
        finally:
            await asyncio.to_thread(heartbeat.stop)

    def _consumed(self) -> dict[str, TypeLimits]:
        return {
            name: TypeLimits(persistent=entry.persistent, concurrency=entry.settings.concurrency)
            for name, entry in self._types.items()
            if self._only is None or name in self._only
        }

    def _on_turn(self, turn: Turn) -> None:
        self.transport.observe_clock(turn.server_ms)
        if self._changed is not None:
            self._changed.set()

    def _on_fenced(self, worker: str) -> None:
        consumer = self._consumer
        if consumer is not None and consumer.worker == worker:
            consumer.loop.call_soon_threadsafe(consumer.nudge)

    async def drain(self, grace: float | None = None) -> None:
        """Stops as SIGTERM does: takes nothing new, lets handlers finish, gives back the rest.

        Args:
            grace: seconds that running handlers get; None: `drain_grace` of the settings. What runs longer is
                cancelled and goes to other workers without counting an attempt.
        """
        task, self._worker_task = self._worker_task, None
        if task is None:
            return
        if self._consumer is None:
            task.cancel()
        else:
            self._consumer.drain()
            limit = grace if grace is not None else self.settings.drain_grace
            await asyncio.wait({task}, timeout=limit)
            if not task.done():
                self._consumer.give_up()
        await asyncio.wait({task})
        self._consumer = None
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

    async def stop(self) -> None:
        """Lets running handlers finish and stops. What is queued stays in Redis, for the next start or another process.

        Raises:
            RuntimeStateError: it is not running.
        """
        self._running_task()
        await self.drain()
        self._raise_first_error()

    async def stop_when_idle(self) -> None:
        """Stops when nothing is left to do in the whole namespace: nothing queued, running, or due.

        A message that was sent before this call is always waited for.
        """
        await self._until_idle(self._running_task())
        await self.drain()
        self._raise_first_error()

    async def stop_when(self, condition: Callable[[], bool]) -> None:
        """Stops as soon as `condition()` is true; it is asked after every change."""
        task = self._running_task()
        while not condition() and not task.done():
            await self._next_change(0.02)
        await self.drain()
        self._raise_first_error()

    def _raise_first_error(self) -> None:
        host = self._host
        if host is not None and host.first_error is not None and not self._ignore_errors:
            error, host.first_error = host.first_error, None
            raise error

    async def _until_idle(self, task: asyncio.Task[None]) -> None:
        await self.ready()
        pause = FIRST_LOOK
        last: tuple[int, int, int, bytes] | None = None
        while not task.done():
            if self._has_failed() or (self._is_quiet() and last is not None and await self._is_idle(last)):
                return
            if self._is_quiet():
                last = await self.transport.idle()
                if any(last[:3]):
                    last = None
            else:
                last = None
            if last is None:
                await self._next_change(pause)
                pause = min(pause * 2, LONGEST_LOOK)
        await task

    def _has_failed(self) -> bool:
        return not self._ignore_errors and self._host is not None and self._host.first_error is not None

    def _is_quiet(self) -> bool:
        consumer, sender = self._consumer, self._sender
        return consumer is not None and consumer.is_idle and not self.transport.in_flight and not (
            sender is not None and sender.entering
        )

    async def _is_idle(self, last: tuple[int, int, int, bytes]) -> bool:
        """Twice the same answer, with nothing to do."""
        again = await self.transport.idle()
        return again == last and self._is_quiet()

    async def _next_change(self, at_most: float) -> None:
        if self._changed is None:
            self._changed = asyncio.Event()
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), at_most)

    # Messages

    def _sender_now(self) -> Sender:
        assert self._sender is not None
        return self._sender

    async def send_message(
        self,
        message: Any,
        recipient: AgentId,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Sends a request to one agent and waits for its response; see AgentRuntime.send_message.

        Args:
            message: the request.
            recipient: the agent to ask.
            sender: who asks.
            cancellation_token: cancels the wait.
            message_id: an id of your own; the request is carried out once, whoever sends it again gets the same reply.
            timeout: seconds to wait, None: `request_timeout` of the settings.

        Raises:
            RequestTimeoutError: no reply in time; the request may still be carried out.
        """
        if self._sender is None:
            await self.open()
        return await self._sender_now().send(message, recipient, sender, cancellation_token, message_id, timeout)

    async def publish_message(
        self,
        message: Any,
        topic_id: TopicId,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        delay: float | None = None,
        at: datetime | None = None,
        now: bool = False,
    ) -> None:
        """Publishes a message; see AgentRuntime.publish_message. In a handler it leaves with the handler's commit."""
        if self._sender is None:
            await self.open()
        await self._sender_now().publish(
            message, topic_id, sender, cancellation_token, message_id, delay, at, now
        )

    # Registering

    def add_message_types(self, message_types: Iterable[type[Any]]) -> None:
        """Makes message classes known that no handler names."""
        for cls in message_types:
            if isinstance(cls, type) and cls not in (Any, type(None)):
                self.registry.register(cls)

    add_message_serializer = add_message_types

    async def register_factory(
        self,
        type: str | AgentType,
        agent_factory: Callable[[], T | Awaitable[T]],
        *,
        expected_class: type[T] | None = None,
    ) -> AgentType:
        """Says how agents of a type are made; see AgentRuntime.register_factory."""
        agent_type = AgentType(type) if isinstance(type, str) else type
        if agent_type.type in self._types:
            raise DuplicateAgentTypeError(agent_type.type)
        _check_factory(agent_type.type, agent_factory)
        self._types[agent_type.type] = AgentTypeEntry(
            agent_type.type, agent_factory, expected_class, AgentSettings()
        )
        await self._announce_type(agent_type.type)
        return agent_type

    async def register_agent_instance(self, agent_instance: Agent, agent_id: AgentId) -> AgentId:
        """Adds one agent that exists already; see AgentRuntime.register_agent_instance."""
        entry = self._types.get(agent_id.type)
        if entry is None:
            entry = AgentTypeEntry(agent_id.type, None, type(agent_instance), AgentSettings())
            self._types[agent_id.type] = entry
            await self._announce_type(agent_id.type)
        elif entry.factory is not None:
            raise DuplicateAgentTypeError(agent_id.type)
        if entry.expected_class is not type(agent_instance):
            raise AgentInstanceError(str(agent_id), "all instances of one agent type have to be of one class")
        if agent_id.key in entry.live:
            raise AgentInstanceError(str(agent_id), "there is an agent with this id")
        await agent_instance.bind_id_and_runtime(agent_id, self)
        entry.live[agent_id.key] = LiveAgent(agent_instance)
        return agent_id

    async def _announce_type(self, name: str) -> None:
        if self._transport is not None:
            await self._declare(self._transport)
        if self._consumer is not None and (self._only is None or name in self._only):
            await self._consumer.add_types(self._consumed())

    async def add_subscription(self, subscription: Subscription) -> None:
        """Adds a subscription; see AgentRuntime.add_subscription.

        Raises:
            DuplicateSubscriptionError: there is an equal one (a ValueError).
        """
        _declared(subscription)
        self._subscriptions.add(subscription)
        if self._transport is not None:
            await self._declare(self._transport)
            if self._consumer is not None:
                self._consumer.nudge()

    async def remove_subscription(self, id: str) -> None:
        """Ends a subscription.

        Raises:
            UnknownSubscriptionError: there is none with this id (a LookupError and a ValueError).
        """
        subscription = self._subscriptions.remove(id)
        if self._transport is not None:
            await self._transport.unsubscribe(_declared(subscription))

    # Agents

    def _entry(self, agent_type: str) -> AgentTypeEntry:
        try:
            return self._types[agent_type]
        except KeyError:
            raise UnknownAgentTypeError(agent_type, self._types) from None

    async def _live(self, id: AgentId) -> LiveAgent:
        entry = self._entry(id.type)
        if id.key in entry.live:
            return entry.live[id.key]
        await self.open()
        host = self._host or self._make_host()
        live = await host.make(entry, id)
        if entry.persistent:
            await self._load(live, id)
        return live

    def _make_host(self) -> AgentHost:
        """A host that only makes agents, while nothing runs."""
        transport = self.transport

        async def declare() -> None:
            await self._declare(transport)

        return AgentHost(
            self,
            self._types,
            self.registry,
            transport.settings,
            declare=declare,
            now_ms=transport.now_ms,
            on_turn=self._on_turn,
            token_of=self._sender_now().token_of,
        )

    async def _load(self, live: LiveAgent, id: AgentId) -> None:
        key = self.transport.keys.of(f"state:{id.type}:{id.key}")
        version, data = await self.transport.admin.command("HMGET", key, "v", "d")
        live.version = int(version or 0)
        live.saved = data
        restore_state(live.agent, data)

    async def try_get_underlying_agent_instance(
        self,
        id: AgentId,
        type: type[T] = Agent,  # type: ignore[assignment]
    ) -> T:
        """The agent object itself, made when needed. For tests and debugging."""
        live = await self._live(id)
        if not isinstance(live.agent, type):
            raise WrongAgentClassError(str(id), type.__name__, live.agent.__class__.__name__)
        return live.agent

    @overload
    async def get(self, id: AgentId, /, *, lazy: bool = ...) -> AgentId: ...

    @overload
    async def get(self, type: AgentType | str, /, key: str = ..., *, lazy: bool = ...) -> AgentId: ...

    async def get(
        self, id_or_type: AgentId | AgentType | str, /, key: str = "default", *, lazy: bool = True
    ) -> AgentId:
        """The id of an agent; with `lazy=False` the agent is made as well."""
        if isinstance(id_or_type, AgentId):
            agent_id = id_or_type
        else:
            agent_id = AgentId(id_or_type, key)
        if not lazy:
            await self._live(agent_id)
        return agent_id

    async def agent_metadata(self, agent: AgentId) -> AgentMetadata:
        """Who an agent is."""
        return (await self._live(agent)).agent.metadata

    async def agent_save_state(self, agent: AgentId) -> Mapping[str, Any]:
        """The state of one agent."""
        live = await self._live(agent)
        if self._entry(agent.type).persistent:
            await self._load(live, agent)
        return await live.agent.save_state()

    async def agent_load_state(self, agent: AgentId, state: Mapping[str, Any]) -> None:
        """Takes over the state of one agent; that of a persistent one is stored at once."""
        live = await self._live(agent)
        await live.agent.load_state(state)
        data = dump_state(live.agent) if self._entry(agent.type).persistent else None
        if data is not None:
            live.version += 1
            live.saved = data
            key = self.transport.keys.of(f"state:{agent.type}:{agent.key}")
            await self.transport.admin.command("HSET", key, "v", live.version, "d", data, "w", self.worker)

    async def save_state(self) -> Mapping[str, Any]:
        """States by `type/key`: of the agents in this process, and of every persistent agent of its types."""
        ids = {str(AgentId(entry.type, key)) for entry in self._types.values() for key in entry.live}
        if any(entry.persistent for entry in self._types.values()):
            await self.open()
            ids.update(await self._stored_agents())
        return {name: dict(await self.agent_save_state(AgentId.from_str(name))) for name in sorted(ids)}

    async def _stored_agents(self) -> list[str]:
        found = []
        for entry in self._types.values():
            if entry.persistent:
                prefix = self.transport.keys.of(f"state:{entry.type}:")
                found += [f"{entry.type}/{key}" for key in await self.transport.names_after(prefix)]
        return found

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `save_state` returned; agents of types that are not registered are left out, as in AutoGen."""
        for name, saved in state.items():
            agent_id = AgentId.from_str(name)
            if agent_id.type in self._types:
                await self.agent_load_state(agent_id, saved)

    # For tests, as in AutoGen

    @property
    def unprocessed_messages_count(self) -> int:
        """Messages that this process holds or is sending."""
        held = self._consumer.held if self._consumer is not None else 0
        return held + (self._transport.in_flight if self._transport is not None else 0)


def _declared(subscription: Subscription) -> Declared:
    if isinstance(subscription, TypeSubscription):
        return Declared(subscription.agent_type, "topic", subscription.topic_type)
    if isinstance(subscription, TypePrefixSubscription):
        return Declared(subscription.agent_type, "prefix", subscription.topic_type_prefix)
    raise TypeError(
        f"{type(subscription).__name__} can't cross processes: use TypeSubscription or TypePrefixSubscription"
    )


def _with_namespace(settings: BrokerSettings, namespace: str) -> BrokerSettings:
    from dataclasses import replace

    return replace(settings, namespace=namespace)


def _check_factory(agent_type: str, factory: Callable[..., Any]) -> None:
    """A factory with parameters would only fail when the first agent is made."""
    try:
        inspect.signature(factory).bind()
    except ValueError:
        return  # a builtin without a signature
    except TypeError as error:
        raise TypeError(f"the factory of {agent_type!r} has to work without arguments: {error}") from error


__all__ = ["RedisAgentRuntime"]
