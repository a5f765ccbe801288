"""RedisAgentRuntime, as AutoGen's programs know it: carries messages between agents, creates agents, writes runs."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar, Unpack, overload

from callboard.broker import AgentId, AgentType, BrokerSettings, MessageRegistry, TopicId
from callboard.broker.errors import CommandError, ServerUnavailableError, is_refused_right
from callboard.broker.ids import check_text
from callboard.broker.limits import Limits
from callboard.broker.outcome import RunWrite
from callboard.broker.redis.client.states import StoredState
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.keys import RUNS, run as run_suffix
from callboard.broker.retry import RetryPolicy
from callboard.broker.settings import variable
from callboard.broker.subscriptions import Subscription
from callboard.core.cancellation import CancellationToken
from callboard.core.declaration import AgentSettings, Declarations
from callboard.core.intervention import InterventionHandler
from callboard.core.protocol import (
    USUAL,
    Agent,
    AgentMetadata,
    PublishOptions,
    ReminderOptions,
    Request,
    RequestOptions,
    ResponseT,
    SendOptions,
    TellOptions,
)
from callboard.core.state import dump_logs, dump_state
from callboard.errors import NotAccessibleError, SettingValueError

from .agents import LiveAgent, LocalAgents
from .effects import encoded_event
from .errors import RunRightsError, WrongAgentClassError
from .execution import MOST_RUN_ID, running
from .lifecycle import RuntimeLifecycle, declared
from .sending import Case, agent_of, topic_of

if TYPE_CHECKING:
    from .control import Control, Schedules
    from .inputs import Inputs
    from .run_history import ListedRun, RunReading
    from .topic_reader import Following


class RuntimeMessages(RuntimeLifecycle):
    """A runtime as those see it who send messages."""

    @overload
    async def send_message(
        self,
        message: Request[ResponseT],
        recipient: AgentId | str,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> ResponseT: ...

    @overload
    async def send_message(
        self,
        message: Any,
        recipient: AgentId | str,
        *,
        sender: AgentId | None = None,
        cancellation_token: CancellationToken | None = None,
        message_id: str | None = None,
        **options: Unpack[RequestOptions],
    ) -> Any: ...

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
        sending = self._sender or await self._open_sender()
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
        sending = self._sender or await self._open_sender()
        how = SendOptions.of_event(message_id, options) if options or message_id is not None else USUAL
        topic = topic_id if isinstance(topic_id, TopicId) else topic_of(topic_id)
        posted = sending.publish(message, topic, sender, cancellation_token, how)
        if posted is not None:
            await posted

    async def unheard(self, message_class: type[Any], topic_id: TopicId | str) -> str | None:
        """Why nobody would hear messages of a class that a program publishes to a topic; None: somebody may."""
        sending = self._sender or await self._open_sender()
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
            ScheduleError: the time can't be meant so (a ValueError).
        """
        sending = self._sender or await self._open_sender()
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
            ScheduleError: the time can't be meant so (a ValueError).
            UndeliverableError: there is no such agent type (a LookupError).
        """
        sending = self._sender or await self._open_sender()
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
            self._connected, self.registry, Place.of(topic, key), Start.of(last, from_start)
        )
        self._followings.add(following)
        return following

    async def _connected(self) -> RedisTransport:
        await self.open()
        return self.transport


MOST_TAG: Final = 128  # characters; every draft carries it


class Drafts(NamedTuple):
    """Which of the events are drafts, and what becomes of those that are there.

    Attributes:
        tag: of these events; "" when they are none.
        settles: drafts whose tags begin with this are removed; "" for none.
        since: number from which on these may stand.
    """

    tag: str = ""
    settles: str = ""
    since: int = 0

    def check(self) -> None:
        """Refuses what can't be written.

        Raises:
            SettingValueError: a tag is too long, or `since` is no number.
            InvalidIdError: a tag is no text.
        """
        for what, text in (("tag", self.tag), ("settles", self.settles)):
            if len(check_text(what, text)) > MOST_TAG:
                raise SettingValueError(what, repr(text[:MOST_TAG]), f"at most {MOST_TAG} characters")
        if self.since < 0:
            raise SettingValueError("since", repr(self.since), "a whole number, 0 or more")


NO_DRAFTS: Final = Drafts()


class RunWriting:
    """Writes events at once, or with the commit of the handler that is under way.

    Args:
        transport: the connection to the server.
        registry: message classes.
    """

    def __init__(self, transport: RedisTransport, registry: MessageRegistry) -> None:
        settings = transport.settings
        self._transport = transport
        self._registry = registry
        # Found once: it takes longer to find what settings say than to write an event.
        self._limits = Limits.of(settings)
        self._most = settings.run_events
        self._kept_for = int(settings.run_retention * 1000)

    def is_for(self, transport: RedisTransport | None) -> bool:
        """Whether it writes by this connection."""
        return self._transport is transport

    async def write(self, run: str, events: Sequence[Any], drafts: Drafts, now: bool) -> int:
        """See RuntimeRuns.write_run."""
        transport, registry, limits = self._transport, self._registry, self._limits
        if drafts is not NO_DRAFTS:
            drafts.check()
        encoded = [encoded_event(event, registry, limits) for event in events]
        tag, settles, since = drafts
        fence, execution = None, running(transport)
        if now and execution is not None:
            fence = execution.fence
        write = RunWrite(check_run(run), encoded, self._most, self._kept_for, tag, settles, since, fence)
        if not encoded and not settles:
            return 0
        # guard: what a handler writes to a run waits for its commit
        if execution is not None and not now:
            execution.events.append(write)
            return 0
        return await transport.runs.write(write)


def check_run(run: str) -> str:
    """An id of a run, as it may be.

    Raises:
        SettingValueError: it is empty or too long.
        InvalidIdError: it is no text.
    """
    if not 0 < len(check_text("id of a run", run)) <= MOST_RUN_ID:
        raise SettingValueError("run_id", repr(run[:MOST_RUN_ID]), f"1 to {MOST_RUN_ID} characters")
    return run


BEHIND_ALL: Final = "0-18446744073709551615"  # no entry of a run is there


class RuntimeRuns(RuntimeMessages):
    """A runtime as those see it who follow a piece of work."""

    _writing: RunWriting | None = None
    _reads_runs = False  # whether the server has let it

    async def write_run(
        self,
        run_id: str,
        events: Sequence[Any],
        *,
        tag: str = "",
        settles: str = "",
        since: int = 0,
        now: bool = False,
    ) -> int:
        """Adds events to the stream of a run; see AgentRuntime.write_run."""
        writing = self._writing
        if writing is None or not writing.is_for(self._transport):
            await self.open()
            writing = self._writing = RunWriting(self.transport, self.registry)
        drafts = Drafts(tag, settles, since) if tag or settles or since else NO_DRAFTS
        return await writing.write(run_id, events, drafts, now)

    def read_run(self, run_id: str, *, after: int = 0, live: bool = True) -> RunReading:
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
            An asynchronous iterator of RunEntry, also to be used with ``async with``; see RunReading.

        Raises:
            SettingValueError: The id is empty or longer than 128 characters, or `after` is no number (a ValueError).
            RunRightsError: In the loop: the user of the server may not (a PermissionError).
        """
        given: object = after
        if isinstance(given, bool) or not isinstance(given, int) or given < 0:
            raise SettingValueError("after", repr(after), "a whole number, 0 or more")
        from .run_history import RunReading

        reading = RunReading(partial(self._to_read, run_id), self.registry, check_run(run_id), after, live)
        self._followings.add(reading)
        return reading

    async def check_reading(self, run_id: str) -> None:
        """Refuse a user of the server who may not read a run: before it is begun, for which other rights are enough.

        Raises:
            RunRightsError: It may not (a PermissionError).
            ServerUnavailableError: No server answers.
        """
        await self._to_read(run_id)

    async def _to_read(self, run_id: str) -> RedisTransport:
        transport = await self._connected()
        if not self._reads_runs:
            words = ("XREAD", "COUNT", 1, "STREAMS", transport.keys.of(run_suffix(run_id)), BEHIND_ALL)
            try:
                await transport.admin.command(*words)
            except ServerUnavailableError:
                return transport  # who reads waits for the server
            except CommandError as error:
                if is_refused_right(str(error)):
                    raise RunRightsError(str(error)) from error
            self._reads_runs = True
        return transport

    async def run_length(self, run_id: str) -> int:
        """How many entries the stream of a run has now, drafts included.

        Raises:
            SettingValueError: The id can't be one (a ValueError).
            ServerUnavailableError: No server answers.
        """
        key = await self._key_of(run_id)
        return int(await self.transport.admin.command("XLEN", key))

    async def delete_run(self, run_id: str) -> bool:
        """Removes the stream of a run; False when there is none. What is written to it later begins again at number 1.

        Raises:
            SettingValueError: The id can't be one (a ValueError).
            ServerUnavailableError: No server answers.
        """
        key = await self._key_of(run_id)
        is_deleted = bool(await self.transport.admin.command("UNLINK", key))
        await self.transport.admin.command("ZREM", self.transport.keys.of(RUNS), run_id)
        return is_deleted

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
        from .run_history import listed_runs

        await self.open()
        return await listed_runs(self.transport, self.registry, limit, before, begins_with)

    async def _key_of(self, run_id: str) -> str:
        suffix = run_suffix(check_run(run_id))
        await self.open()
        return self.transport.keys.of(suffix)


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
        from .control import Schedules

        return Schedules(self._connected, self.registry, self._schedules)

    @property
    def inputs(self) -> Inputs:
        """The questions that handlers asked with `ctx.ask`: seen and answered from any process."""
        from .inputs import Inputs

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
            SubscriptionError: there is an equal one (a ValueError).
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
            SubscriptionError: there is none with this id (a LookupError and a ValueError).
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
