"""The App: which agent types there are, how they are made, what they subscribe to, and its schedules. It does no IO."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, Unpack, overload

from callboard.broker.ids import AGENT_TYPE, AgentId, AgentType, TopicId
from callboard.core.closure import (
    Closure,
    ClosureAgent,
    UnknownTypePolicy,
    closure_message_types,
    closure_signature,
)
from callboard.core.declaration import (
    AgentClass,
    AgentDeclaration,
    AgentOptions,
    AgentSettings,
    Factory,
    Firing,
    Missed,
    Schedule,
    Topics,
    check_agent_class,
    check_is_named,
    check_is_team,
    check_missed,
    factory_of,
    message_types_of,
    name_subscriptions,
)
from callboard.core.protocol import MessageType
from callboard.core.resources import DeclaredResource, Opening, Replacements

from .errors import DuplicateAgentTypeError, SettingValueError, UnknownNameError

if TYPE_CHECKING:
    from callboard.broker.retry import RetryPolicy
    from callboard.broker.settings import BrokerSettings
    from callboard.core.intervention import InterventionHandler
    from callboard.runtime.runtime import RedisAgentRuntime


AgentClassT = TypeVar("AgentClassT", bound=AgentClass)
ClosureT = TypeVar("ClosureT", bound=Closure)
OpeningT = TypeVar("OpeningT", bound=Opening)

_NO_SETTINGS = ("topics", "prefixes", "processes", "description")  # the other arguments of the decorators


class DeclaredTeam(Protocol):
    """A team, as far as an App needs it; those of `callboard.teams` are."""

    @property
    def name(self) -> str:
        """The agent type of its manager."""
        ...

    def declare(self, app: App, *, processes: int, settings: AgentSettings) -> None:
        """Declare all its agent types."""
        ...

    def order(self, run_id: str, task: str, conversation: str | None = None) -> object:
        """The message to its manager that begins a run, or lets it wait for the one under way."""
        ...


TeamT = TypeVar("TeamT", bound=DeclaredTeam)


class DeclaredHook(Protocol):
    """An incoming webhook, as far as an App and a door need it; those of `callboard.hooks` are."""

    @property
    def name(self) -> str:
        """The last part of its address."""
        ...

    @property
    def headers(self) -> Sequence[str]:
        """The headers that say who sent it, in small letters."""
        ...

    @property
    def message_classes(self) -> Sequence[MessageType]:
        """What it becomes."""
        ...

    def check(self, headers: Mapping[str, str], body: bytes, now: float) -> str:
        """The id of one whose signature is good."""
        ...

    def message(self, headers: Mapping[str, str], found: Any) -> tuple[Any, TopicId] | None:
        """The message that its JSON is, and where it goes; None: nobody wants it."""
        ...


class App:
    """Declares the agent types of an application, its teams and its schedules.

    ```python
    app = App("counting")

    @app.agent("counter", topics=["visits"])
    class Counter(RoutedAgent): ...
    ```

    Args:
        name: Letters, digits, ``_``, ``-`` and ``.``.
        namespace: What keeps it apart from others on one server. None: the one in `settings`, else the name.
        settings: Everything else about its use of the server; None: from the environment.
        retry: When a message that failed is tried again, for agent types that say nothing else; None: as the
            settings say.
        together: Processes of `callboard up` that run all agent types, for an app with many types and little work: a
            process takes some 35 MB. 0: each type has processes of its own, as its `processes` say, so that one that is
            slow, or ends its process, holds up no other.

    Raises:
        SettingValueError: The name or the namespace has other characters, or `together` is below 0 (a ValueError).
    """

    def __init__(
        self,
        name: str,
        *,
        namespace: str | None = None,
        settings: BrokerSettings | None = None,
        retry: RetryPolicy | None = None,
        together: int = 0,
    ) -> None:
        self.name = name
        self.together = together
        self.settings = settings
        self.retry = retry
        self._namespace = namespace
        self._declarations: dict[str, AgentDeclaration] = {}
        self._messages: dict[MessageType, None] = {}
        self._teams: dict[str, DeclaredTeam] = {}
        self._served: dict[str, str] = {}
        self._hearers: dict[str, list[str]] = {}
        self._hooks: dict[str, DeclaredHook] = {}
        self._resources: dict[str, DeclaredResource] = {}
        self._schedules = DeclaredSchedules()
        for what, value in (("name", name), ("namespace", self.namespace)):
            if not AGENT_TYPE.match(value):
                raise SettingValueError(what, repr(value), "letters, digits, '_', '-' and '.'")
        if together < 0:
            raise SettingValueError("together", repr(together), "a number of processes, 0 or more")

    @property
    def given_namespace(self) -> str | None:
        """The namespace that it was made with; None: none was named."""
        if self._namespace is not None:
            return self._namespace
        return self.settings.namespace if self.settings is not None else None

    @property
    def namespace(self) -> str:
        """The namespace that its processes use unless they are told another."""
        given = self.given_namespace
        return self.name if given is None else given

    @property
    def declarations(self) -> tuple[AgentDeclaration, ...]:
        """The agent types, in the order in which they were declared."""
        return tuple(self._declarations.values())

    @property
    def agent_types(self) -> frozenset[str]:
        """The names of the agent types."""
        return frozenset(self._declarations)

    def __getitem__(self, agent_type: str) -> AgentDeclaration:
        """The declaration of one agent type.

        Raises:
            UnknownNameError: There is none (a LookupError); the text names the nearest.
        """
        try:
            return self._declarations[agent_type]
        except KeyError:
            raise UnknownNameError("agent type", agent_type, list(self._declarations)) from None

    def __contains__(self, agent_type: object) -> bool:
        return agent_type in self._declarations

    def __iter__(self) -> Iterator[AgentDeclaration]:
        return iter(self.declarations)

    def __len__(self) -> int:
        return len(self._declarations)

    def agent(
        self,
        type: str,
        *,
        topics: Topics = (),
        prefixes: Iterable[str] = (),
        processes: int = 1,
        description: str | None = None,
        **settings: Unpack[AgentOptions],
    ) -> Callable[[AgentClassT], AgentClassT]:
        """Class decorator: declare a class as an agent type.

        The agents are made without arguments, or with `description` if the constructor takes one. What
        `@type_subscription` and `@default_subscription` say of the class counts as well.

        Args:
            type: The agent type.
            topics: Topic types it subscribes to, or subscriptions.
            prefixes: It subscribes to all topic types that begin with one of these.
            processes: How many processes `callboard up` runs for it.
            description: What its agents are for.
            **settings: The fields of AgentSettings.

        Raises:
            DuplicateAgentTypeError: The type is declared already (a ValueError).
            DeclarationError: The decorated thing is no class of agents, its constructor needs arguments, the type
                has no name, a setting does not exist, or a topic is no text (a TypeError).
            SettingValueError: A setting has a value that can't work.
            InvalidIdError: A topic is not a topic type.
        """
        check_is_named(type, "app.agent")
        limits = AgentSettings.of(settings, others=_NO_SETTINGS)
        named = name_subscriptions(AgentType(type).type, topics, prefixes)

        def declare(agent_class: AgentClassT) -> AgentClassT:
            check_agent_class(type, agent_class)
            self._declare(
                AgentDeclaration(
                    type=type,
                    factory=factory_of(type, agent_class, description),
                    agent_class=agent_class,
                    processes=processes,
                    settings=limits,
                    named=named,
                    message_types=message_types_of(agent_class),
                )
            )
            return agent_class

        return declare

    def register(
        self,
        type: str,
        factory: Factory,
        *,
        expected_class: AgentClass,
        subscriptions: Topics = (),
        processes: int = 1,
        settings: AgentSettings | None = None,
        beside: str | None = None,
    ) -> AgentDeclaration:
        """Declare an agent type by the function that makes its agents.

        Args:
            type: The agent type.
            factory: Makes one agent; it may be async.
            expected_class: The class of what it makes; its handlers and class subscriptions count.
            subscriptions: Topic types or subscriptions.
            processes: How many processes `callboard up` runs for it.
            settings: Its limits; None: the defaults.
            beside: An agent type in whose processes it runs, for example to share what these have open; None: it has
                its own.

        Returns:
            The declaration.

        Raises:
            DuplicateAgentTypeError: The type is declared already (a ValueError).
            DeclarationError: `expected_class` is no class of agents, or a topic is no text (a TypeError).
            InvalidIdError: A topic is not a topic type.
        """
        check_agent_class(type, expected_class)
        return self._declare(
            AgentDeclaration(
                type=AgentType(type).type,
                factory=factory,
                agent_class=expected_class,
                processes=processes,
                settings=settings or AgentSettings(),
                named=name_subscriptions(type, subscriptions),
                message_types=message_types_of(expected_class),
                beside=beside,
            )
        )

    def closure(
        self,
        type: str,
        *,
        topics: Topics = (),
        prefixes: Iterable[str] = (),
        processes: int = 1,
        description: str = "",
        unknown_type_policy: UnknownTypePolicy = "warn",
        **settings: Unpack[AgentOptions],
    ) -> Callable[[ClosureT], ClosureT]:
        """Decorator: declare a function as an agent type.

        ```python
        @app.closure("printer", topics=["results"])
        async def printer(agent: ClosureContext, message: Result, ctx: MessageContext) -> None: ...
        ```

        Args:
            type: The agent type.
            topics: Topic types it subscribes to, or subscriptions.
            prefixes: It subscribes to all topic types that begin with one of these.
            processes: How many processes `callboard up` runs for it.
            description: What it is for.
            unknown_type_policy: What happens to messages that it does not declare.
            **settings: The fields of AgentSettings.

        Raises:
            DeclarationError: The function can't be a closure (an AssertionError).
            DuplicateAgentTypeError: The type is declared already (a ValueError).
            DeclarationError, SettingValueError: A setting does not exist, or has a value that can't work.
            DeclarationError, InvalidIdError: A topic is not a topic type.
        """
        check_is_named(type, "app.closure")
        limits = AgentSettings.of(settings, others=_NO_SETTINGS)
        named = name_subscriptions(AgentType(type).type, topics, prefixes)

        def declare(closure: ClosureT) -> ClosureT:
            signature = closure_signature(closure, depth=2)
            self._declare(
                AgentDeclaration(
                    type=type,
                    factory=lambda: ClosureAgent(
                        description, closure, unknown_type_policy=unknown_type_policy, signature=signature
                    ),
                    agent_class=ClosureAgent,
                    processes=processes,
                    settings=limits,
                    named=named,
                    message_types=lambda: closure_message_types(signature.types),
                )
            )
            return closure

        return declare

    def team(
        self, team: TeamT, *, processes: int = 1, serve: bool | str = False, **settings: Unpack[AgentOptions]
    ) -> TeamT:
        """Declare a team: its manager and each of its members as an agent type, each with processes of its own.

        ```python
        research = app.team(RoundRobinGroupChat([planner, writer], name="research", max_turns=6))
        ```

        `research.on(runtime, "ticket-17")` reaches a conversation of it, and so does
        ``callboard ask main:app research "the task" --conversation ticket-17``.

        Args:
            team: The team; it is returned.
            processes: How many processes `callboard up` runs for each of them.
            serve: Whether `callboard serve` and `callboard.web.asgi` show it to others; a text also says what it is for.
            **settings: The fields of AgentSettings, for all of them.

        Raises:
            DuplicateAgentTypeError: A type of it is declared already (a ValueError).
            DeclarationError: It is no team, or a setting does not exist (a TypeError).
            SettingValueError: A setting has a value that can't work.
        """
        check_is_team(team)
        team.declare(self, processes=processes, settings=AgentSettings.of(settings))
        self._teams[team.name] = team
        if serve is not False:
            self._served[team.name] = serve if isinstance(serve, str) else ""
        return team

    @property
    def teams(self) -> Mapping[str, DeclaredTeam]:
        """The teams, by name."""
        return self._teams

    @property
    def served(self) -> Mapping[str, str]:
        """The teams that are served, by name, and what each is for."""
        return self._served

    def hear(self, team: DeclaredTeam, agent_type: str) -> None:
        """Let an agent type hear of every run of a team that anybody begins.

        It gets a `RunNotice` when one has ended, in whatever way, and when it asks a person: once each, whatever dies. Each
        run has an agent of its own, whose key is the name of the run's stream.

        Args:
            team: The team; `App.team` has declared it.
            agent_type: The agent type; it may be declared later.

        Raises:
            UnknownNameError: The team is not declared (a LookupError).
        """
        if self._teams.get(team.name) is not team:
            raise UnknownNameError("team", team.name, list(self._teams))
        hearers = self.hearers_of(team.name)
        if agent_type not in hearers:
            hearers.append(AgentType(agent_type).type)

    def hearers_of(self, team: str) -> list[str]:
        """The agent types that hear of every run of a team; `hear` adds to this very list.

        Args:
            team: Its name.
        """
        return self._hearers.setdefault(team, [])

    def receive(self, hook: DeclaredHook) -> None:
        """Declare an incoming webhook; `callboard.hooks.incoming_webhook` does.

        Args:
            hook: The webhook.

        Raises:
            SettingValueError: Another one has its name (a ValueError).
        """
        if hook.name in self._hooks and not _is_interactive():
            raise SettingValueError("name", repr(hook.name), "a name that no other incoming webhook has")
        self._hooks[hook.name] = hook
        self.messages(*hook.message_classes)

    @property
    def hooks(self) -> Mapping[str, DeclaredHook]:
        """The incoming webhooks, by name."""
        return self._hooks

    @overload
    def resource(self, opening: OpeningT) -> OpeningT: ...

    @overload
    def resource(
        self, *, name: str | None = None, types: Iterable[str] = ()
    ) -> Callable[[OpeningT], OpeningT]: ...

    def resource(
        self, opening: OpeningT | None = None, *, name: str | None = None, types: Iterable[str] = ()
    ) -> OpeningT | Callable[[OpeningT], OpeningT]:
        """Decorator: declare something that each worker process opens when it starts and closes when it has drained.

        ```python
        @app.resource
        async def pool() -> AsyncIterator[Pool]:
            async with create_pool(DATABASE) as pool:
                yield pool
        ```

        `resource(Pool)` or ``resource("pool")``, of `callboard`, is the pool in handlers, tools, constructors of agents, and
        resources that are declared after it. A process takes no message before all of them are open; one that can't be
        opened ends the worker with that error. Those who only publish or ask open none. A test replaces one by
        ``app.running(resources={Pool: fake})``, and so does `Harness.run`.

        Args:
            opening: An async function without arguments that yields the resource once, or a function that returns an
                async context manager. Its annotation says the class by which it is found.
            name: By which it is found; None: that of the function.
            types: Agent types in whose processes it is opened; empty: all.

        Raises:
            DeclarationError: It is no such function (a TypeError).
            SettingValueError: There is a resource of this name (a ValueError).
        """

        def declare(opening: OpeningT) -> OpeningT:
            made = DeclaredResource.of(opening, name, [types] if isinstance(types, str) else types)
            if made.name in self._resources and not _is_interactive():
                raise SettingValueError("resource", repr(made.name), "a name that no other resource has")
            self._resources[made.name] = made
            return opening

        return declare if opening is None else declare(opening)

    @property
    def resources(self) -> tuple[DeclaredResource, ...]:
        """The resources, in the order in which they are opened."""
        return tuple(self._resources.values())

    def schedule(
        self,
        when: str | timedelta,
        what: Any,
        *,
        topic: str | TopicId | None = None,
        team: DeclaredTeam | None = None,
        conversation: str | None = None,
        name: str | None = None,
        tz: str = "UTC",
        missed: Missed = "one",
    ) -> Schedule:
        """Declare what is sent again and again: a message to a topic, or a task to a team.

        ```python
        app.schedule("0 9 * * mon", WeeklyReport(), topic="reports", tz="Europe/Berlin")
        app.schedule(timedelta(minutes=5), "What is new?", team=research, name="watch")
        ```

        Every worker process of the app looks to it; each due time is sent once, however many there are and whatever
        dies. A message has the id `<name>@<due time>`, such as "reports@20261123T080000Z", and so has a team's run.

        Args:
            when: Five fields of cron (minute, hour, day of month, month, day of week), or "@daily" and the like; or
                a span of time: due times are its multiples since 1970.
            what: The message; for a team the task, as a text.
            topic: Topic type, or a topic; its agents get the message.
            team: The team; `App.team` has to declare it as well. A run that is under way is waited for.
            conversation: With a team: the conversation to go on with. None: each run has a new one, named like it.
            name: Letters, digits, ``_``, ``-`` and ``.``. None: that of the topic or team.
            tz: Time zone of a cron text.
            missed: What becomes of due times that no process saw to until the next one was due (a second at least, a
                minute at most), because none was there or the schedule was paused: "skip": nothing; "one": the last one
                is sent; "all": each, the last 1,000 at most.

        Returns:
            The schedule.

        Raises:
            SettingValueError: A value can't work, or the name is taken (a ValueError).
        """
        how = ScheduleOptions(topic, team, conversation, name, tz, missed)
        return self._schedules.add(when, what, how)

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """The schedules, by name."""
        return self._schedules.by_name

    def messages(self, *classes: MessageType) -> None:
        """Make message classes known that no handler names.

        What the app only sends, for example, or a subclass of what it takes.

        Args:
            *classes: pydantic models or dataclasses.
        """
        self._messages.update(dict.fromkeys(classes))

    def message_classes(self) -> tuple[MessageType, ...]:
        """All message classes of the app, each once.

        Raises:
            DeclarationError: The annotations of a handler can't be read (an AssertionError).
        """
        handled = (cls for declaration in self.declarations for cls in declaration.message_types())
        return tuple(dict.fromkeys((*handled, *self._messages)))

    def message_types(self) -> dict[str, MessageType]:
        """All message classes of the app by wire name.

        Raises:
            SettingsError: Two of them have one name.
        """
        from callboard.broker.codec import MessageRegistry

        registry = MessageRegistry()
        return {registry.name_of(cls): cls for cls in self.message_classes()}

    @asynccontextmanager
    async def running(
        self,
        url: str | None = None,
        *,
        namespace: str | None = None,
        settings: BrokerSettings | None = None,
        types: Collection[str] | None = None,
        intervention_handlers: Sequence[InterventionHandler] | None = None,
        resources: Replacements | None = None,
    ) -> AsyncIterator[RedisAgentRuntime]:
        """Run the app in this process: ``async with app.running() as runtime:``.

        Args:
            url: The server. None: CALLBOARD_URL, else REDIS_URL, else the embedded server.
            namespace: Instead of the app's.
            settings: Instead of the app's.
            types: Agent types to run here; None: all.
            intervention_handlers: See InterventionHandler.
            resources: Objects in place of resources, by name or class; they are neither opened nor closed.

        Yields:
            The runtime, started; it is drained and closed at the end.
        """
        # Imported here: a module that only declares agents does not need the Redis half.
        from callboard.runtime.runtime import RedisAgentRuntime

        runtime = RedisAgentRuntime.from_app(
            self,
            url,
            namespace=namespace,
            settings=settings,
            types=types,
            intervention_handlers=intervention_handlers,
            resources=resources,
        )
        async with runtime:
            runtime.start()
            await runtime.ready()
            yield runtime

    def _declare(self, declaration: AgentDeclaration) -> AgentDeclaration:
        known = self._declarations.get(declaration.type)
        if known is not None and not (
            _is_interactive() and _is_again(known.agent_class, declaration.agent_class)
        ):
            raise DuplicateAgentTypeError(declaration.type)
        self._declarations[declaration.type] = declaration
        return declaration

    def __repr__(self) -> str:
        return f"<App {self.name}: {', '.join(self._declarations) or 'nothing declared'}>"


def _is_interactive() -> bool:
    """Whether a person types the program in, as in a notebook, where a cell that is run again declares its things anew."""
    return hasattr(sys, "ps1")  # Python's own prompt and IPython's set it


def _is_again(known: AgentClass, other: AgentClass) -> bool:
    return (known.__module__, known.__qualname__) == (other.__module__, other.__qualname__)


Send = Callable[[Firing], tuple[Any, TopicId | AgentId]]

SHOWN = 60  # characters of a task or message that lists show


class ScheduleOptions(NamedTuple):
    """Where and how what is due is sent: the other arguments of `App.schedule`."""

    topic: str | TopicId | None
    team: DeclaredTeam | None
    conversation: str | None
    name: str | None
    tz: str
    missed: Missed


class DeclaredSchedules:
    """The schedules of an App.

    Attributes:
        by_name: all of them.
    """

    def __init__(self) -> None:
        self.by_name: dict[str, Schedule] = {}

    def add(self, when: str | timedelta, what: Any, how: ScheduleOptions) -> Schedule:
        """Adds one; see App.schedule."""
        from callboard.core.timetable import timetable

        topic, team, conversation, name = how.topic, how.team, how.conversation, how.name
        if team is not None and topic is None:
            to, send = f"team {team.name}", _to_team(team, what, conversation)
            # What can't be ordered is said here.
            team.order(Firing(name or team.name, 1).id, what, conversation)
        elif topic is not None and team is None and conversation is None:
            goal = TopicId(topic, "default") if isinstance(topic, str) else topic
            to, send = f"topic {goal.type}", lambda firing: (what, goal)
        else:
            raise SettingValueError("topic", repr(topic), "given alone, or a team in its place")
        name = name or to.partition(" ")[2]
        if (name in self.by_name and not _is_interactive()) or not AGENT_TYPE.match(name):
            rule = "a name that no other schedule has, of letters, digits, '_', '-' and '.'"
            raise SettingValueError("name", repr(name), rule)
        shown = what if isinstance(what, str) else repr(what)
        self.by_name[name] = Schedule(
            name=name,
            timetable=timetable(when, how.tz),
            missed=check_missed(how.missed),
            to=to,
            what=shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}...",
            send=send,
            is_run=team is not None,
        )
        return self.by_name[name]


def _to_team(team: DeclaredTeam, task: Any, conversation: str | None) -> Send:
    if not isinstance(task, str):
        raise SettingValueError("what", repr(task), "a task as a text, where a team is given")

    def send(firing: Firing) -> tuple[Any, AgentId]:
        return team.order(firing.id, task), AgentId(
            team.name, firing.id if conversation is None else conversation
        )

    return send
