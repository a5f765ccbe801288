"""The declaration of one agent type in an App, and of what is sent at certain times, as plain values."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypedDict, get_args

from callboard.broker.ids import AgentId, AgentType, TopicId
from callboard.broker.subscriptions import Subscription, TypePrefixSubscription, TypeSubscription
from callboard.errors import DeclarationError, SettingValueError, did_you_mean

from .agent import BaseAgent
from .protocol import Agent, MessageType
from .subscriptions import bind_subscriptions_now, direct_message_prefix

if TYPE_CHECKING:
    from callboard.broker.retry import RetryPolicy
    from callboard.broker.settings import BrokerSettings

    from .resources import DeclaredResource
    from .timetable import Timetable


AgentClass: TypeAlias = type[Agent]
Factory: TypeAlias = Callable[[], Agent | Awaitable[Agent]]
Topics: TypeAlias = Iterable[str | Subscription]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """How the messages of one agent type are handled. None stands for the default in BrokerSettings.

    Attributes:
        max_attempts: How often a message is tried before it becomes a dead letter.
        max_runtime: Seconds after which a handler is cancelled and counts as failed; None: no limit.
        concurrency: Handlers of this type that run at once in one process.
        rate_limit: Messages of this type a second that all processes together take; bursts of up to one second's worth.
            None: no limit.
        retry_on_request: Whether a failing request is tried again before its error goes back to the caller.
        reentrant: Whether an agent that waits for a reply can be asked by those who work on it. Such a request runs
            while the handler waits, on the same object, and is committed with that handler's message.
        retry: When a message that failed is tried again; None: as the App says, else as the settings say. Where
            `max_attempts` is given too, that counts.

    Raises:
        SettingValueError: A value is out of range (a ValueError).
    """

    max_attempts: int | None = None
    max_runtime: float | None = None
    concurrency: int | None = None
    rate_limit: float | None = None
    retry_on_request: bool = False
    reentrant: bool = False
    retry: RetryPolicy | None = None

    def retry_policy(self, usual: RetryPolicy) -> RetryPolicy:
        """When a message of this type that failed is tried again, if `usual` is the policy of the other types."""
        policy = self.retry or usual
        return policy if self.max_attempts is None else replace(policy, max_attempts=self.max_attempts)

    def __post_init__(self) -> None:
        _check_at_least_one("max_attempts", self.max_attempts)
        _check_at_least_one("concurrency", self.concurrency)
        if self.max_runtime is not None and not self.max_runtime > 0:
            raise SettingValueError("max_runtime", repr(self.max_runtime), "a number of seconds above 0")
        if self.retry is not None and not hasattr(self.retry, "decide"):
            raise SettingValueError(
                "retry", repr(self.retry), "a RetryPolicy, such as RetryPolicy(max_attempts=5)"
            )
        if self.rate_limit is not None and not 0 < self.rate_limit < math.inf:
            raise SettingValueError(
                "rate_limit", repr(self.rate_limit), "a number of messages a second above 0"
            )

    @classmethod
    def of(cls, options: Mapping[str, Any], others: Iterable[str] = ()) -> AgentSettings:
        """Settings from keyword arguments.

        Args:
            options: The arguments.
            others: Names of arguments that are no settings, one of which may have been meant.

        Raises:
            DeclarationError: There is none of a name (a TypeError).
        """
        known = [spec.name for spec in fields(cls)]
        for name in options:
            if name not in known:
                raise DeclarationError(
                    f"There is no agent setting {name!r}. {did_you_mean(name, [*known, *others])}"
                )
        return cls(**options)


class AgentOptions(TypedDict, total=False):
    """The fields of AgentSettings as keyword arguments of `App.agent`."""

    max_attempts: int | None
    max_runtime: float | None
    concurrency: int | None
    rate_limit: float | None
    retry_on_request: bool
    reentrant: bool
    retry: RetryPolicy | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDeclaration:
    """One agent type of an App.

    Attributes:
        type: The agent type.
        factory: Makes one agent; it may be async.
        agent_class: The class of its agents.
        processes: How many processes `callboard up` runs for it.
        beside: The agent type in whose processes it runs; None: it has its own.
        settings: Its limits.
        named: The subscriptions named where it was declared.
        message_types: Returns the message classes it takes and returns, once all of them are defined.
    """

    type: str
    factory: Factory
    agent_class: AgentClass
    processes: int
    settings: AgentSettings
    named: tuple[Subscription, ...]
    message_types: Callable[[], Iterable[MessageType]]
    beside: str | None = None

    def __post_init__(self) -> None:
        _check_at_least_one("processes", self.processes)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """Its subscriptions, each once: those declared, those of its class's decorators, and its direct messages.

        Raises:
            DeclarationError: A class subscription has to be awaited (a TypeError).
        """
        direct = TypePrefixSubscription(direct_message_prefix(self.type), self.type)
        by_class: list[Subscription] = []
        if issubclass(self.agent_class, BaseAgent):
            by_class = bind_subscriptions_now(self.agent_class.class_subscriptions(), AgentType(self.type))
        return tuple(dict.fromkeys((*self.named, *by_class, direct)))


Missed: TypeAlias = Literal["skip", "one", "all"]
"""The fate of due times at which no worker ran: nothing, the last one is made up for, or each of them."""


class Firing(NamedTuple):
    """One due time of a schedule.

    Attributes:
        schedule: Name of the schedule.
        due: When it was due, ms of Unix time.
    """

    schedule: str
    due: int

    @property
    def id(self) -> str:
        """Of its message, and of the run that it begins: such as "daily@20261122T090000Z"."""
        when, rest = divmod(self.due, 1000)
        shown = datetime.fromtimestamp(when, UTC).strftime("%Y%m%dT%H%M%S")
        return f"{self.schedule}@{shown}.{rest:03}Z" if rest else f"{self.schedule}@{shown}Z"


class Schedule(NamedTuple):
    """A schedule; `App.schedule` makes it.

    Attributes:
        name: By which it is listed, paused and removed.
        timetable: When it is due.
        missed: What becomes of due times at which no worker ran.
        to: Where its messages go, for people.
        what: What is sent, for people.
        send: Makes the message, and says whom it is for.
        is_run: Whether it begins a run with the id of the firing.
    """

    name: str
    timetable: Timetable
    missed: Missed
    to: str
    what: str
    send: Callable[[Firing], tuple[Any, TopicId | AgentId]]
    is_run: bool = False


class Declarations(Protocol):
    """Everything that an App declares, as a runtime takes it over."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def schedules(self) -> Mapping[str, Schedule]:
        """The schedules, by name."""
        ...

    @property
    def resources(self) -> tuple[DeclaredResource, ...]:
        """The resources of its worker processes, in the order in which they are opened."""
        ...

    @property
    def given_namespace(self) -> str | None:
        """The namespace that it was made with; None: none was named."""
        ...

    @property
    def namespace(self) -> str:
        """The namespace that its processes use unless they are told another."""
        ...

    @property
    def settings(self) -> BrokerSettings | None:
        """Its use of the server; None: from the environment."""
        ...

    @property
    def retry(self) -> RetryPolicy | None:
        """When a message that failed is tried again; None: as the settings say."""
        ...

    @property
    def declarations(self) -> tuple[AgentDeclaration, ...]:
        """The agent types, in the order in which they were declared."""
        ...

    def __getitem__(self, agent_type: str) -> AgentDeclaration:
        """The declaration of one agent type; raises UnknownNameError when there is none."""
        ...

    def message_classes(self) -> tuple[MessageType, ...]:
        """All message classes, each once."""
        ...


def name_subscriptions(
    agent_type: str, topics: Topics, prefixes: Iterable[str] = ()
) -> tuple[Subscription, ...]:
    """Subscriptions of an agent type from topic types, prefixes of topic types, and subscriptions.

    Raises:
        DeclarationError: Something else is among them (a TypeError).
        InvalidIdError: A topic type has characters that it can't have (a ValueError).
    """
    _check_list(agent_type, topics)
    _check_list(agent_type, prefixes)
    named = [_subscription(agent_type, topic) for topic in topics]
    return (*named, *(TypePrefixSubscription(prefix, agent_type) for prefix in prefixes))


def _check_list(agent_type: str, given: object) -> None:
    if isinstance(given, str):
        raise _not_topics(agent_type, given, f"give a list, [{given!r}]")
    if not isinstance(given, Iterable):
        raise _not_topics(agent_type, given, "give a list of topic types")


def _not_topics(agent_type: str, given: object, advice: str) -> DeclarationError:
    return DeclarationError(f"Agent type {agent_type!r} can't subscribe to {given!r}", f"{advice}.")


def _subscription(agent_type: str, given: str | Subscription) -> Subscription:
    if isinstance(given, str):
        return TypeSubscription(given, agent_type)
    # Without a type checker anything may be in the list.
    if not isinstance(given, Subscription):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _not_topics(agent_type, given, "a topic type is a string, or give a subscription")
    if given.agent_type != agent_type:
        raise _not_topics(agent_type, given, "this subscription is for another agent type")
    return given


def check_is_named(type: object, decorator: str) -> None:
    """Check that a decorator was given an agent type, and not at once what it decorates, as in ``@app.agent``.

    Raises:
        DeclarationError: It was given a class or a function (a TypeError).
    """
    if callable(type):
        name = _class_name(type)
        raise DeclarationError(
            f"@{decorator} needs the name of the agent type",
            f"write @{decorator}({name.lower()!r}, topics=[...]) above {name}.",
        )


def check_is_team(team: object) -> None:
    """Check that something is a team: an agent alone needs one around it.

    Raises:
        DeclarationError: It is none (a TypeError).
    """
    if isinstance(team, type) or not hasattr(team, "declare"):
        given = repr(team) if isinstance(team, type) else f"A {type(team).__name__}"
        raise DeclarationError(
            f"{given} is no team",
            "give one, such as RoundRobinGroupChat([agent], name='desk', max_turns=1).",
        )


def check_agent_class(agent_type: str, agent_class: object) -> None:
    """Check that something is a class of agents.

    Raises:
        DeclarationError: It is not (a TypeError).
    """
    # Agent has properties, and issubclass() refuses such protocols.
    needed = ("on_message", "bind_id_and_runtime", "save_state", "load_state", "close")
    if not isinstance(agent_class, type) or not all(hasattr(agent_class, name) for name in needed):
        given = agent_class.__name__ if isinstance(agent_class, type) else repr(agent_class)
        raise DeclarationError(
            f"{given} can't be agent type {agent_type!r}",
            "it is not a subclass of Agent. Derive it from RoutedAgent, or use closure() for a function.",
        )


def factory_of(agent_type: str, agent_class: Callable[..., Agent], description: str | None) -> Factory:
    """A factory for a class whose constructor takes nothing, or a description.

    Raises:
        DeclarationError: It needs something else (a TypeError).
    """
    parameters = inspect.signature(agent_class).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind not in variadic]
    if not set(needed) <= {"description"}:
        name = _class_name(agent_class)
        raise DeclarationError(
            f"{name} needs the arguments {', '.join(needed)}",
            f"instead of @agent, use register({agent_type!r}, lambda: {name}(...), expected_class={name}).",
        )
    takes_description = any(p.name == "description" for p in parameters)
    if not takes_description or (description is None and not needed):
        return agent_class
    text = description if description is not None else _first_line(agent_class) or agent_type
    return lambda: agent_class(description=text)


def _class_name(agent_class: Callable[..., object]) -> str:
    return getattr(agent_class, "__name__", repr(agent_class))


def _first_line(agent_class: Callable[..., Agent]) -> str:
    return (vars(agent_class).get("__doc__") or "").strip().partition("\n")[0]


def message_types_of(agent_class: AgentClass) -> Callable[[], Iterable[MessageType]]:
    """Where to ask for the message classes of an agent class, later."""
    return agent_class.message_types if issubclass(agent_class, BaseAgent) else tuple


def _check_at_least_one(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise SettingValueError(name, repr(value), "a whole number, 1 or more")


MISSED: Final[tuple[Missed, ...]] = get_args(Missed)


def check_missed(value: str) -> Missed:
    """The value of `missed`.

    Raises:
        SettingValueError: It is none (a ValueError).
    """
    for known in MISSED:
        if value == known:
            return known
    raise SettingValueError("missed", repr(value), f"one of {', '.join(map(repr, MISSED))}")
