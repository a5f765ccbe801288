"""The runtime as AutoGen's programs know it: it carries messages between agents and creates the agents, over Redis."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from callboard.broker import AgentId, AgentType, BrokerSettings
from callboard.broker.redis.client.states import StoredState
from callboard.broker.retry import RetryPolicy
from callboard.broker.settings import variable
from callboard.broker.subscriptions import Subscription
from callboard.declaration import AgentSettings, Declarations
from callboard.errors import NotAccessibleError
from callboard.intervention import InterventionHandler
from callboard.protocol import Agent, AgentMetadata
from callboard.state import dump_logs, dump_state

from .errors import WrongAgentClassError
from .lifecycle import declared
from .local_agents import LocalAgents
from .registration import LiveAgent
from .run_streams import RuntimeRuns

if TYPE_CHECKING:
    from .answering import Inputs
    from .control import Control
    from .schedules import Schedules

T = TypeVar("T", bound=Agent)


class RedisAgentRuntime(RuntimeRuns):
    """Runs agents in this process; their messages, and the state of persistent ones, live in Redis.

    One and the same runtime serves a script that does everything in one process and one worker among many. It connects
    when it is first used. Names and behaviour are those of AutoGen's SingleThreadedAgentRuntime, and where that one is
    known to be broken this one is right: interceptors chain, an agent handles one message at a time, every recipient
    gets its own copy and gets it once, a failing event handler is retried and then kept as a dead letter, a request
    without a handler raises.

    Args:
        url: redis://, rediss://, redis+sentinel://, unix:// or memory://. None: CALLBOARD_URL, else REDIS_URL,
            else the embedded server.
        namespace: what keeps applications on one server apart. None: that of the settings, else CALLBOARD_NAMESPACE, else
            a throw-away namespace that is deleted by `close`. One that was named anywhere is never deleted.
        settings: everything else; None: from the environment.
        types: agent types that this process runs. None: all that are registered.
        intervention_handlers: see InterventionHandler; each sees what the one before it returned.
        ignore_unhandled_exceptions: False: an event that failed for good is raised by stop_when_idle, stop_when and stop.
        retry: when a message that failed is tried again, for agent types that say nothing else; None: as the settings say.
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
        retry: RetryPolicy | None = None,
        exit_when_stuck: bool = False,
    ) -> None:
        super().__init__(
            LocalAgents(self),
            url,
            namespace=namespace,
            settings=settings,
            types=types,
            intervention_handlers=intervention_handlers,
            ignore_unhandled_exceptions=ignore_unhandled_exceptions,
            retry=retry,
            exit_when_stuck=exit_when_stuck,
        )

    @classmethod
    def from_app(
        cls,
        app: Declarations,
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
            app: the declarations.
            url: as for the class.
            namespace: None: that of `settings`, else the one that the app was made with, else CALLBOARD_NAMESPACE, else the
                app's name.
            settings: instead of the app's.
            types: agent types of the app that this process runs, and with them those declared `beside` them: None all,
                () none (to publish only). What is registered on the runtime itself runs here as well.
            intervention_handlers: as for the class.
            exit_when_stuck: as for the class.

        Raises:
            UnknownAgentTypeError: `types` names one that the app does not declare.
        """
        runtime = cls(
            url,
            namespace=namespace
            or (settings.namespace if settings is not None else None)
            or app.given_namespace
            or variable("namespace")
            or app.namespace,
            settings=settings or app.settings,
            intervention_handlers=intervention_handlers,
            retry=app.retry,
            exit_when_stuck=exit_when_stuck,
        )
        for name in types or ():
            app[name]
        runtime._take_over(app)
        if types is not None:
            runtime._elsewhere = frozenset(
                one.type for one in app.declarations if not {one.type, one.beside} & {*types}
            )
        return runtime

    def _take_over(self, app: Declarations) -> None:
        self._app_name, self._schedules = app.name, app.schedules
        self.registry.register(*app.message_classes())
        for declaration in app.declarations:
            self._agents.add_type(
                declaration.type, declaration.factory, declaration.agent_class, declaration.settings
            )
            for subscription in declaration.subscriptions:
                self._subscriptions.add(subscription)

    @property
    def control(self) -> Control:
        """Pause, resume and reset, for every process of the namespace."""
        from .control import Control

        return Control(self._connected)

    @property
    def schedules(self) -> Schedules:
        """List, pause, resume and remove what is sent again and again."""
        from .schedules import Schedules

        return Schedules(self._connected, self.registry, self._schedules)

    @property
    def inputs(self) -> Inputs:
        """The questions that handlers asked with `ctx.ask`: seen and answered from any process."""
        from .answering import Inputs

        return Inputs(self._connected)

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
        transport = await self._transport_if_any()
        if transport is not None:
            all_types = self._agents.settings_of_types(self._retry(transport.settings))
            await transport.declare({name: all_types[name]}, (), self.registry.versions())
        await self._tell_worker()

    async def _tell_worker(self) -> None:
        """A type or a subscription came: the worker, if there is one yet, is to look at it."""
        if self._worker is not None and self._task is not None:
            await self._worker.consumer.add_types(self._consumed_types())

    async def add_subscription(self, subscription: Subscription) -> None:
        """Adds a subscription; see AgentRuntime.add_subscription.

        Raises:
            DuplicateSubscriptionError: there is an equal one (a ValueError).
        """
        declared(subscription)
        self._subscriptions.add(subscription)
        transport = await self._transport_if_any()
        if transport is not None:
            await transport.declare({}, [declared(subscription)])
        await self._tell_worker()

    async def remove_subscription(self, id: str) -> None:
        """Ends a subscription.

        Raises:
            UnknownSubscriptionError: there is none with this id (a LookupError and a ValueError).
        """
        subscription = self._subscriptions.remove(id)
        transport = await self._transport_if_any()
        if transport is not None:
            staying = [declared(other) for other in self._subscriptions]
            await transport.unsubscribe(declared(subscription), staying)

    # Agents

    async def _live(self, agent_id: AgentId) -> LiveAgent:
        if agent_id.type not in self._agents and await self._is_elsewhere(agent_id.type):
            raise NotAccessibleError(
                f"the agent {agent_id} lives in another process: send it a message, or run its type here"
            )
        kind = self._agents.kind(agent_id.type)
        if not kind.persistent:
            return await self._agents.get(kind, agent_id)
        await self.open()
        return await self._agents.current(agent_id, self.transport.load_state)

    async def _is_elsewhere(self, agent_type: str) -> bool:
        transport = await self._transport_if_any()
        if transport is None:
            return False
        return bool(await transport.admin.command("HEXISTS", transport.keys.of("types"), agent_type))

    async def try_get_underlying_agent_instance(
        self,
        id: AgentId,
        type: type[T] = Agent,  # type: ignore[assignment]
    ) -> T:
        """The agent object itself, made when needed. For tests and debugging.

        Raises:
            NotAccessibleError: no agent of its type runs here, but in another process of the namespace.
            UnknownAgentTypeError: its type is not known (a LookupError).
            WrongAgentClassError: it is of another class (a TypeError).
        """
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
        data = dump_state(live.agent) if self._agents.kind(agent.type).persistent else None
        if data is not None:
            logs = dump_logs(live.agent)
            version = await self.transport.save_state(agent.type, agent.key, data, logs)
            self._agents.bring_to(live, StoredState(version, data, logs))

    async def save_state(self) -> Mapping[str, Any]:
        """States by `type/key`: of the agents in this process, and of every persistent agent of its types."""
        ids = {str(AgentId(kind.type, key)) for kind in self._agents for key in kind.live}
        for kind in self._agents:
            if kind.persistent:
                await self.open()
                ids.update(f"{kind.type}/{key}" for key in await self.transport.stored_keys(kind.type))
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


def _check_factory(agent_type: str, factory: Callable[..., Any]) -> None:
    """A factory with parameters would only fail when the first agent is made."""
    try:
        inspect.signature(factory).bind()
    except ValueError:
        return  # a builtin without a signature
    except TypeError as error:
        raise TypeError(f"the factory of {agent_type!r} has to work without arguments: {error}") from error


__all__ = ["RedisAgentRuntime"]
