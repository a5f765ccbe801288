"""The runtime: carries messages between agents and creates the agents, over Redis."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from broker import AgentId, AgentType, BrokerSettings, MessageRegistry, SubscriptionTable, TopicId
from broker.consumer import TypeLimits
from broker.errors import ServerUnavailableError
from broker.redis.lane import Turn
from broker.redis.transport import Declared, RedisTransport
from broker.subscriptions import Subscription, TypePrefixSubscription, TypeSubscription

from .cancellation import CancellationToken
from .control import Control
from .declaration import AgentSettings
from .host import AgentHost
from .intervention import InterventionHandler
from .local_agents import LocalAgents
from .local_worker import LocalWorker
from .registration import LiveAgent
from .runtime_errors import RuntimeStateError, WrongAgentClassError, register_errors
from .runtime_protocol import Agent, AgentMetadata
from .sending import Sender
from .state import dump_state

if TYPE_CHECKING:
    from broker.redis.server import ServerHandle

    from .app import App

T = TypeVar("T", bound=Agent)


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
        exit_when_stuck: end the process (status 75) when a handler blocks the event loop past its `max_runtime`, so that
            its messages move on; for processes that do nothing else, such as those of `callboard worker`.
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
        exit_when_stuck: bool = False,
    ) -> None:
        self._given_url = url
        self._given_namespace = namespace
        self._given_settings = settings
        self._only = None if types is None else frozenset(types)
        self._interventions = tuple(intervention_handlers or ())
        self._ignore_errors = ignore_unhandled_exceptions
        self._exit_when_stuck = exit_when_stuck
        register_errors()
        self._agents = LocalAgents(self)
        self._subscriptions = SubscriptionTable()
        self.registry = MessageRegistry()
        self._transport: RedisTransport | None = None
        self._server: ServerHandle | None = None
        self._sender: Sender | None = None
        self._worker: LocalWorker | None = None
        self._task: asyncio.Task[None] | None = None
        self._opening: asyncio.Lock | None = None
        self._temporary = False

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
        exit_when_stuck: bool = False,
    ) -> Self:
        """A runtime with everything that an App declares.

        Args:
            app: the declarations. Its namespace is used unless another is given.
            url: as for the class.
            namespace: instead of the app's.
            settings: instead of the app's.
            types: agent types that this process runs: None all, () none (to publish only).
            intervention_handlers: as for the class.
            exit_when_stuck: as for the class.

        Raises:
            UnknownAgentTypeError: `types` names one that the app does not declare.
        """
        runtime = cls(
            url,
            namespace=namespace or app.namespace,
            settings=settings or app.settings,
            types=types,
            intervention_handlers=intervention_handlers,
            exit_when_stuck=exit_when_stuck,
        )
        for name in types or ():
            app[name]
        runtime._take_over(app)
        return runtime

    def _take_over(self, app: App) -> None:
        self.registry.register(*app.message_classes())
        for declaration in app.declarations:
            self._agents.add_type(
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
        return self._worker.consumer.worker if self._worker is not None else ""

    @property
    def handled(self) -> int:
        """Messages that were handled here since `start`."""
        return self._worker.host.handled if self._worker is not None else 0

    @property
    def failed(self) -> int:
        """Messages whose handling failed for good here since `start`."""
        return self._worker.host.failed if self._worker is not None else 0

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
        transport = RedisTransport(url, settings, self._revive if self._server is not None else None)
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
        return settings.namespace != BrokerSettings().namespace

    async def _declare(self, transport: RedisTransport) -> None:
        types = self._agents.settings_of_types(transport.settings.max_attempts)
        subscriptions = [_declared(subscription) for subscription in self._subscriptions]
        await transport.declare(types, subscriptions, self.registry.versions())

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
            transport, self._transport = self._transport, None
            await transport.close(delete_namespace=self._temporary)

    async def _revive(self) -> None:
        """Starts the embedded server again when it died; its file brings everything back."""
        if self._server is None:
            return
        from broker.redis.server_state import ServerStartError

        try:
            await self._server.ensure_running()
        except ServerStartError as error:
            raise ServerUnavailableError(self._server.url, str(error)) from error

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
        if self._task is not None:
            raise RuntimeStateError("the runtime is already started")
        self._worker = None
        self._task = asyncio.create_task(self._work(), name="callboard-worker")

    async def _work(self) -> None:
        await self.open()
        self._worker = LocalWorker(
            self.transport, self._make_host, self._limits(), self._is_sending, self._exit_when_stuck
        )
        await self._worker.run()

    def _make_host(self, on_turn: Callable[[Turn], None]) -> AgentHost:
        transport, sender = self.transport, self._open_sender()
        return AgentHost(
            self._agents,
            self.registry,
            transport.settings,
            declare=lambda: self._declare(transport),
            transport=transport,
            on_turn=on_turn,
            token_of=sender.token_of,
        )

    def _limits(self) -> dict[str, TypeLimits]:
        return {
            entry.type: TypeLimits(
                persistent=entry.persistent,
                concurrency=entry.settings.concurrency,
                rate_limit=entry.settings.rate_limit,
            )
            for entry in self._agents
            if self._only is None or entry.type in self._only
        }

    def _is_sending(self) -> bool:
        return self._sender is not None and self._sender.entering > 0

    def _started(self) -> asyncio.Task[None]:
        if self._task is None:
            raise RuntimeStateError("the runtime is not started: call start() first")
        return self._task

    async def ready(self) -> None:
        """Waits until the worker of this process takes messages; raises what keeps it from that."""
        task = self._started()
        while self._worker is None or not self._worker.consumer.joined.is_set():
            if task.done():
                if self._task is task:
                    self._task = None  # whoever asks is told how it ended, and may start again
                await task
                return
            await asyncio.sleep(0.001)

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

    # Messages

    def _open_sender(self) -> Sender:
        if self._sender is None:
            raise RuntimeStateError("the runtime is not connected: await open() or start() first")
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
        claim_check: bool | None = None,
    ) -> Any:
        """Sends a request to one agent and waits for its response; see AgentRuntime.send_message.

        Args:
            message: the request.
            recipient: the agent to ask.
            sender: who asks.
            cancellation_token: cancels the wait.
            message_id: an id of your own; the request is carried out once, whoever sends it again gets the same reply.
            timeout: seconds to wait, None: `request_timeout` of the settings.
            claim_check: True: keep the bytes beside the stream; its reply too may be larger than `max_payload` then.
                None: as the settings say.

        Raises:
            RequestTimeoutError: no reply in time; the request may still be carried out.
        """
        if self._sender is None:
            await self.open()
        return await self._open_sender().send(
            message, recipient, sender, cancellation_token, message_id, timeout, claim_check
        )

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
        claim_check: bool | None = None,
    ) -> None:
        """Publishes a message; see AgentRuntime.publish_message. In a handler it leaves with the handler's commit."""
        if self._sender is None:
            await self.open()
        await self._open_sender().publish(
            message, topic_id, sender, cancellation_token, message_id, delay, at, now, claim_check
        )

    @property
    def control(self) -> Control:
        """Pause, resume and reset, for every process of the namespace."""
        return Control(self._connected)

    async def _connected(self) -> RedisTransport:
        await self.open()
        return self.transport

    # Registering

    def add_message_types(self, message_types: Iterable[type[Any]]) -> None:
        """Makes message classes known that no handler names."""
        for cls in message_types:
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
        _check_factory(agent_type.type, agent_factory)
        self._agents.add_type(agent_type.type, agent_factory, expected_class, AgentSettings())
        await self._announce_type(agent_type.type)
        return agent_type

    async def register_agent_instance(self, agent_instance: Agent, agent_id: AgentId) -> AgentId:
        """Adds one agent that exists already; see AgentRuntime.register_agent_instance."""
        if await self._agents.add_instance(agent_instance, agent_id):
            await self._announce_type(agent_id.type)
        return agent_id

    async def _announce_type(self, name: str) -> None:
        if self._transport is not None:
            all_types = self._agents.settings_of_types(self.settings.max_attempts)
            await self._transport.declare({name: all_types[name]}, ())
        await self._tell_worker()

    async def _tell_worker(self) -> None:
        """A type or a subscription came: the worker, if there is one yet, is to look at it."""
        if self._worker is not None and self._task is not None:
            await self._worker.consumer.add_types(self._limits())

    async def add_subscription(self, subscription: Subscription) -> None:
        """Adds a subscription; see AgentRuntime.add_subscription.

        Raises:
            DuplicateSubscriptionError: there is an equal one (a ValueError).
        """
        _declared(subscription)
        self._subscriptions.add(subscription)
        if self._transport is not None:
            await self._transport.declare({}, [_declared(subscription)])
        await self._tell_worker()

    async def remove_subscription(self, id: str) -> None:
        """Ends a subscription.

        Raises:
            UnknownSubscriptionError: there is none with this id (a LookupError and a ValueError).
        """
        subscription = self._subscriptions.remove(id)
        if self._transport is not None:
            staying = [_declared(other) for other in self._subscriptions]
            await self._transport.unsubscribe(_declared(subscription), staying)

    # Agents

    async def _live(self, agent_id: AgentId) -> LiveAgent:
        entry = self._agents.entry(agent_id.type)
        if not entry.persistent:
            return await self._agents.get(entry, agent_id)
        await self.open()
        return await self._agents.current(agent_id, self.transport.load_state)

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
        agent_id = id_or_type if isinstance(id_or_type, AgentId) else AgentId(id_or_type, key)
        if not lazy:
            await self._live(agent_id)
        return agent_id

    async def agent_metadata(self, agent: AgentId) -> AgentMetadata:
        """Who an agent is."""
        return (await self._live(agent)).agent.metadata

    async def agent_save_state(self, agent: AgentId) -> Mapping[str, Any]:
        """The state of one agent."""
        return await (await self._live(agent)).agent.save_state()

    async def agent_load_state(self, agent: AgentId, state: Mapping[str, Any]) -> None:
        """Takes over the state of one agent; that of a persistent one is stored at once."""
        live = await self._live(agent)
        await live.agent.load_state(state)
        data = dump_state(live.agent) if self._agents.entry(agent.type).persistent else None
        if data is not None:
            await self.transport.save_state(agent.type, agent.key, live.version + 1, data)
            self._agents.bring_to(live, live.version + 1, data)

    async def save_state(self) -> Mapping[str, Any]:
        """States by `type/key`: of the agents in this process, and of every persistent agent of its types."""
        ids = {str(AgentId(entry.type, key)) for entry in self._agents for key in entry.live}
        for entry in self._agents:
            if entry.persistent:
                await self.open()
                ids.update(f"{entry.type}/{key}" for key in await self.transport.stored_keys(entry.type))
        return {name: dict(await self.agent_save_state(AgentId.from_str(name))) for name in sorted(ids)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `save_state` returned; agents of types that are not registered are left out, as in AutoGen."""
        for name, saved in state.items():
            agent_id = AgentId.from_str(name)
            if agent_id.type in self._agents:
                await self.agent_load_state(agent_id, saved)

    # For tests, as in AutoGen

    @property
    def unprocessed_messages_count(self) -> int:
        """Messages that this process holds or is sending."""
        held = self._worker.consumer.held if self._worker is not None else 0
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
