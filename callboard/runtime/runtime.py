"""RedisAgentRuntime, as AutoGen's programs know it: carries messages between agents, creates agents, writes runs."""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack, overload

from callboard.broker import AgentId, AgentType, BrokerSettings, MessageRegistry, TopicId
from callboard.broker.errors import SubscriptionError
from callboard.broker.redis.client.states import StoredState
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.retry import RetryPolicy
from callboard.broker.settings import variable
from callboard.broker.subscriptions import Subscription, subscription_of
from callboard.core.cancellation import CancellationToken
from callboard.core.declaration import AgentSettings, Declarations
from callboard.core.intervention import InterventionHandler
from callboard.core.protocol import (
    USUAL,
    Agent,
    AgentMetadata,
    AgentRuntime,
    PublishOptions,
    ReminderOptions,
    RequestOptions,
    SendOptions,
    TellOptions,
    typed_as,
)
from callboard.core.resources import Replacements
from callboard.core.state import dump_logs, dump_state
from callboard.errors import DeclarationError, NotAccessibleError

from .agents import LiveAgent, LocalAgents, LocalTypes, declared
from .errors import register_errors
from .lifecycle import RuntimeConnection, Work
from .runs import RunStreams
from .sending import Case, agent_of, topic_of

if TYPE_CHECKING:
    from .control import Control, Schedules
    from .inputs import Inputs
    from .run_history import ListedRun, RunEvents
    from .topic_reader import Following

T = TypeVar("T", bound=Agent)


class RedisAgentRuntime:
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
        registry: message classes, where something else than this one finds them; None: one of its own.

    Attributes:
        registry: message classes.
        local: agent types and subscriptions of this process.
        connection: to the server; opened when it is first used.
        work: the worker of this process, from `start` to `stop`.
        runs: writes runs and finds them.
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
        registry: MessageRegistry | None = None,
    ) -> None:
        register_errors()
        self.registry = MessageRegistry() if registry is None else registry
        self.local = LocalTypes(LocalAgents(self), self.registry, types, retry)
        self.connection = RuntimeConnection(self.local, url, namespace, settings, intervention_handlers or ())
        self.work = Work(
            self.connection, ignores_failures=ignore_unhandled_exceptions, exit_when_stuck=exit_when_stuck
        )
        self.runs = RunStreams(self.connection)

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
        resources: Replacements | None = None,
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
            resources: objects in place of the app's resources, by name or class; they are neither opened nor closed.

        Raises:
            UnknownNameError: `types` or `resources` names one that the app does not declare.
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
        runtime.local.take_over(app, resources)
        if types is not None:
            runtime.local.elsewhere = frozenset(
                one.type for one in app.declarations if not {one.type, one.beside} & {*types}
            )
        return runtime

    @property
    def control(self) -> Control:
        """Pause, resume and reset, for every process of the namespace."""
        from .control import Control

        return Control(self.connection.connected)

    @property
    def schedules(self) -> Schedules:
        """List, pause, resume and remove what is sent again and again."""
        from .control import Schedules

        return Schedules(self.connection.connected, self.registry, self.local.schedules)

    @property
    def inputs(self) -> Inputs:
        """The questions that handlers asked with `ctx.ask`: seen and answered from any process."""
        from .inputs import Inputs

        return Inputs(self.connection.connected)

    # Messages

    @typed_as(AgentRuntime.send_message)
    async def send_message(
        self,
        message: Any,
        recipient: AgentId | str,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any:
        """Sends a request to one agent and waits for its response; see AgentRuntime.send_message.

        Args:
            message: the request.
            recipient: the agent to ask.
            sender: who asks.
            cancellation_token: cancels the wait.
            message_id: an id of your own; the request is carried out once, and sending it again gets the same reply.
            **options: see RequestOptions.

        Raises:
            RequestTimeoutError: no reply in time; the request may still be carried out.
        """
        sending = self.connection.sender or await self.connection.open_sender()
        how = SendOptions.of_request(message_id, options) if options or message_id is not None else USUAL
        agent = recipient if isinstance(recipient, AgentId) else agent_of(recipient)
        return await sending.send(message, agent, sender, cancellation_token, how)

    async def publish_message(
        self,
        message: Any,
        topic_id: TopicId | str,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[PublishOptions],
    ) -> None:
        """Publishes a message; see AgentRuntime.publish_message. In a handler it leaves with the handler's commit."""
        sending = self.connection.sender or await self.connection.open_sender()
        how = SendOptions.of_event(message_id, options) if options or message_id is not None else USUAL
        topic = topic_id if isinstance(topic_id, TopicId) else topic_of(topic_id)
        posted = sending.publish(message, topic, sender, cancellation_token, how)
        if posted is not None:
            await posted

    async def unheard(self, message_class: type[Any], topic_id: TopicId | str) -> str | None:
        """Why no agent would hear messages of a class that a program publishes to a topic; None: one may."""
        sending = self.connection.sender or await self.connection.open_sender()
        return await sending.audience.silence(Case(topic_of(topic_id).type, message_class, None))

    async def tell(
        self,
        message: Any,
        recipient: AgentId | str,
        *,
        sender: AgentId | None = None,
        message_id: str | None = None,
        **options: Unpack[TellOptions],
    ) -> None:
        """Sends a message to one agent; see AgentRuntime.tell. In a handler it leaves with the handler's commit.

        Raises:
            UndeliverableError: there is no such agent type (a LookupError).
            SettingValueError: the time can't be meant so (a ValueError).
        """
        sending = self.connection.sender or await self.connection.open_sender()
        how = SendOptions.of_tell(message_id, options) if options or message_id is not None else USUAL
        agent = recipient if isinstance(recipient, AgentId) else agent_of(recipient)
        await sending.tell(message, agent, sender, how)

    async def remind(
        self,
        message: Any,
        agent: AgentId,
        *,
        message_id: str | None = None,
        **options: Unpack[ReminderOptions],
    ) -> None:
        """Sends an agent a message from itself; see BaseAgent.remind. In a handler it leaves with the handler's commit.

        Raises:
            SettingValueError: the time can't be meant so (a ValueError).
            UndeliverableError: there is no such agent type (a LookupError).
        """
        sending = self.connection.sender or await self.connection.open_sender()
        itself = agent_of(agent)
        await sending.tell(message, itself, itself, SendOptions.of_reminder(message_id, options))

    def follow(
        self,
        topic: TopicId | str,
        *,
        key: str | None = None,
        last: int = 0,
        from_start: bool = False,
    ) -> Following:
        """Reads what is published to a topic, as long as it is read: for windows that come and go.

        ```python
        async for message, ctx in runtime.follow("pieces", key="ada"):
            ...
        ```

        It takes nothing from the agents that subscribe, leaves nothing in the server, and begins anew each time; see
        Following.

        Args:
            topic: A TopicId, or its text; a topic type alone stands for all of its sources.
            key: Only messages of this source.
            last: Begin with so many that are there already, at most; 0: with what comes next.
            from_start: Begin with everything that the stream still has.

        Raises:
            InvalidIdError: The topic is not valid (a ValueError).
            SettingValueError: `last` is no number, or `from_start` or another key is given as well (a ValueError).
        """
        from .topic_reader import Following, Place, Start

        following = Following(
            self.connection.connected, self.registry, Place.of(topic, key), Start.of(last, from_start)
        )
        self.connection.readers.add(following)
        return following

    # Runs

    def write_run(
        self,
        run_id: str,
        events: Sequence[Any],
        *,
        tag: str = "",
        settles: str = "",
        since: int = 0,
        now: bool = False,
    ) -> Coroutine[Any, Any, int]:
        """Adds events to the stream of a run; see AgentRuntime.write_run. No coroutine of its own: one is enough."""
        return self.runs.write(run_id, events, tag, settles, since, now)

    def read_run(self, run_id: str, *, after: int = 0, live: bool = True) -> RunEvents:
        """Reads the events of a run, from the first, or from a number on.

        ```python
        async for entry in runtime.read_run("research-17"):
            print(entry.number, entry.event)
        ```

        Args:
            run_id: Id of the run; it need not have begun.
            after: The number of the last entry that you have; 0: none.
            live: Wait for what comes, without end; False: end when everything that is there has been read.

        Returns:
            An asynchronous iterator of RunEntry, also to be used with ``async with``; see RunEvents.

        Raises:
            SettingValueError: The id is empty or longer than 128 characters, or `after` is no number (a ValueError).
            RunRightsError: In the loop: the user of the server may not (a PermissionError).
        """
        return self.runs.read(run_id, after, live)

    async def delete_run(self, run_id: str) -> bool:
        """Removes the stream of a run; False when there is none. What is written to it later begins again at number 1.

        Raises:
            SettingValueError: The id can't be one (a ValueError).
            ServerUnavailableError: No server answers.
        """
        return await self.runs.delete(run_id)

    async def list_runs(
        self, *, limit: int = 100, before: str | ListedRun | None = None, begins_with: str = ""
    ) -> list[ListedRun]:
        """The runs whose streams are kept, the newest first, with the first and the last event of each.

        What a run is about and how it stands is in its events; `callboard.teams.list_runs` says it of the runs of teams.

        Args:
            limit: Most runs to return.
            before: A run, or its id: only those that began before it. The last one of a page gives the next page.
            begins_with: Only runs whose id begins like this, which are found without reading the others; "": all.

        Raises:
            SettingValueError: `before` is not in the list (a ValueError).
            ServerUnavailableError: No server answers.
        """
        return await self.runs.list(limit, before, begins_with)

    # Registering

    def add_message_types(self, message_types: Iterable[type[Any]] | type[Any]) -> None:
        """Makes message classes known that no handler names.

        Args:
            message_types: The classes, or one.
        """
        for cls in (message_types,) if isinstance(message_types, type) else message_types:
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
        self.local.agents.add_type(agent_type.type, agent_factory, expected_class, AgentSettings())
        await self.work.add_type(agent_type.type)
        return agent_type

    async def register_agent_instance(self, agent_instance: Agent, agent_id: AgentId) -> AgentId:
        """Adds one agent that exists already; see AgentRuntime.register_agent_instance."""
        if await self.local.agents.add_instance(agent_instance, agent_id):
            await self.work.add_type(agent_id.type)
        return agent_id

    async def add_subscription(self, subscription: Subscription) -> None:
        """Adds a subscription; see AgentRuntime.add_subscription.

        Raises:
            SubscriptionError: there is an equal one (a ValueError).
        """
        declared(subscription)
        self.local.subscriptions.add(subscription)
        transport = await self.connection.if_any()
        if transport is not None:
            await transport.declare({}, [declared(subscription)])
        await self.work.add_types()

    async def remove_subscription(self, id: str) -> None:
        """Ends a subscription. Also that of an agent type which is gone: `topic:visits->counter`, `prefix:order.->counter`.

        Raises:
            SubscriptionError: there is none with this id (a LookupError and a ValueError).
        """
        transport = await self.connection.if_any()
        try:
            subscription: Subscription = self.local.subscriptions.remove(id)
        except SubscriptionError:
            foreign = subscription_of(id)
            if transport is None or foreign is None or foreign in self.local.subscriptions:
                raise
            if not await self.local.unsubscribe(transport, foreign):
                raise
            return
        if transport is not None:
            await self.local.unsubscribe(transport, subscription)

    # Agents

    async def _live(self, agent_id: AgentId) -> LiveAgent:
        agents = self.local.agents
        if agent_id.type not in agents and await self.connection.knows(agent_id.type):
            raise NotAccessibleError(
                f"the agent {agent_id} lives in another process: send it a message, or run its type here"
            )
        kind = agents.kind(agent_id.type)
        if not kind.persistent:
            return await agents.get(kind, agent_id)
        return await agents.current(agent_id, (await self.connection.connected()).load_state)

    async def try_get_underlying_agent_instance(
        self,
        id: AgentId,
        type: type[T] = Agent,  # type: ignore[assignment]
    ) -> T:
        """The agent object itself, made when needed. For tests and debugging.

        Raises:
            NotAccessibleError: no agent of its type runs here, but in another process of the namespace.
            UnknownNameError: its type is not known (a LookupError).
            DeclarationError: it is of another class (a TypeError).
        """
        live = await self._live(id)
        if not isinstance(live.agent, type):
            given = live.agent.__class__.__name__
            raise DeclarationError(f"{id} is a {given}, not a {type.__name__}")
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
        data = dump_state(live.agent) if self.local.agents.kind(agent.type).persistent else None
        if data is not None:
            logs = dump_logs(live.agent)
            version = await self.transport.save_state(agent.type, agent.key, data, logs)
            self.local.agents.bring_to(live, StoredState(version, data, logs))

    async def save_state(self) -> Mapping[str, Any]:
        """States by `type/key`: of the agents in this process, and of every persistent agent of its types."""
        ids = {str(AgentId(kind.type, key)) for kind in self.local.agents for key in kind.live}
        for kind in self.local.agents:
            if kind.persistent:
                await self.open()
                ids.update(f"{kind.type}/{key}" for key in await self.transport.stored_keys(kind.type))
        return {name: dict(await self.agent_save_state(AgentId.from_str(name))) for name in sorted(ids)}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Takes over what `save_state` returned; agents of types that are not registered are left out, as in AutoGen."""
        for name, saved in state.items():
            agent_id = AgentId.from_str(name)
            if agent_id.type in self.local.agents:
                await self.agent_load_state(agent_id, saved)

    @property
    def transport(self) -> RedisTransport:
        """The connection to the server.

        Raises:
            MisuseError: `open` was not called.
        """
        return self.connection.required()

    @property
    def settings(self) -> BrokerSettings:
        """The settings in force; known once the runtime is open."""
        return self.connection.required().settings

    @property
    def worker(self) -> str:
        """Name of the worker in this process, "" when it is not running."""
        return self.work.worker.consumer.worker if self.work.worker is not None else ""

    @property
    def handled(self) -> int:
        """Messages that were handled here since `start`."""
        return self.work.worker.host.handled if self.work.worker is not None else 0

    @property
    def failed(self) -> int:
        """Messages whose handling failed for good here since `start`."""
        return self.work.worker.host.failed if self.work.worker is not None else 0

    # Opening and closing

    async def open(self) -> None:
        """Connects and declares, without working yet. Safe to repeat; every other call does it when needed.

        Raises:
            ServerUnavailableError: no server answers at the URL.
            ServerNotFoundError: no URL is given and no server binary is installed.
            SettingsError: what was given can't be used.
        """
        await self.connection.open()

    async def close(self) -> None:
        """Stops, closes the agents, ends every connection. A throw-away namespace is deleted. Safe to repeat."""
        # From the last to the first, although one of them fails.
        async with contextlib.AsyncExitStack() as ending:
            ending.push_async_callback(self.connection.release_server)
            ending.push_async_callback(self.connection.close)
            ending.push_async_callback(self.local.agents.close)
            ending.push_async_callback(self.work.drain)

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
            MisuseError: it is running.
        """
        self.work.start()

    async def ready(self) -> None:
        """Waits until the worker of this process takes messages; raises what keeps it from that, or has ended it since."""
        await self.work.ready()

    async def drain(self, grace: float | None = None) -> None:
        """Stops as SIGTERM does: takes nothing new, lets handlers finish, gives back the rest.

        Args:
            grace: seconds that running handlers get; None: `drain_grace` of the settings. What runs longer is
                cancelled and goes to other workers without counting an attempt. A second call may shorten it.
        """
        await self.work.drain(grace)

    async def stop(self) -> None:
        """Lets running handlers finish and stops. What is queued stays in Redis, for the next start or another process.

        Raises:
            MisuseError: it is not running.
        """
        await self.work.stop()

    async def stop_when_idle(self) -> None:
        """Stops when nothing is left to do in the whole namespace: nothing queued, running, or due.

        A message that was sent before this call is always waited for.
        """
        await self.work.stop_when_idle()

    async def until_idle(self) -> None:
        """Waits until nothing is left to do in the whole namespace, seen twice, whichever process does it; it stops nothing.

        A message that was sent before this call is always waited for. Where no process runs an agent type, what waits for it
        is waited for as well.
        """
        await self.work.until_idle()

    async def stop_when(self, condition: Callable[[], bool]) -> None:
        """Stops as soon as `condition()` is true; it is asked after every change."""
        await self.work.stop_when(condition)

    # For tests, as in AutoGen

    @property
    def unprocessed_messages_count(self) -> int:
        """Messages that this process holds or is sending."""
        worker, transport = self.work.worker, self.connection.transport
        held = worker.consumer.held if worker is not None else 0
        return held + (transport.in_flight if transport is not None else 0)


def _check_factory(agent_type: str, factory: Callable[..., Any]) -> None:
    """A factory with parameters would only fail when the first agent is made."""
    try:
        inspect.signature(factory).bind()
    except ValueError:
        return  # a builtin without a signature
    except TypeError as error:
        raise TypeError(f"the factory of {agent_type!r} has to work without arguments: {error}") from error


def on_bus(runtime: AgentRuntime) -> RedisAgentRuntime:
    """The runtime that an agent has as `self.runtime`, as what it is.

    Raises:
        DeclarationError: It is another one, which knows no runs (a TypeError).
    """
    if not isinstance(runtime, RedisAgentRuntime):
        raise DeclarationError(
            f"{runtime!r:.80} is no RedisAgentRuntime, such as an agent has as `self.runtime`"
        )
    return runtime
