"""What an App says of one agent type, as plain values."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, TypedDict

from broker.ids import AgentType
from broker.subscriptions import Subscription, TypePrefixSubscription, TypeSubscription

from .agent import BaseAgent
from .errors import (
    AgentArgumentsError,
    AgentClassError,
    SettingValueError,
    SubscriptionKindError,
    UnknownSettingError,
)
from .runtime_protocol import Agent, MessageType
from .subscriptions import bind_subscriptions_now, direct_message_prefix

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

    Raises:
        SettingValueError: A value is out of range (a ValueError).
    """

    max_attempts: int | None = None
    max_runtime: float | None = None
    concurrency: int | None = None
    rate_limit: float | None = None
    retry_on_request: bool = False
    reentrant: bool = False

    def __post_init__(self) -> None:
        _check_at_least_one("max_attempts", self.max_attempts)
        _check_at_least_one("concurrency", self.concurrency)
        if self.max_runtime is not None and not self.max_runtime > 0:
            raise SettingValueError("max_runtime", repr(self.max_runtime), "a number of seconds above 0")
        if self.rate_limit is not None and not 0 < self.rate_limit < math.inf:
            raise SettingValueError(
                "rate_limit", repr(self.rate_limit), "a number of messages a second above 0"
            )

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> AgentSettings:
        """Settings from keyword arguments.

        Raises:
            UnknownSettingError: There is none of a name (a TypeError).
        """
        known = [spec.name for spec in fields(cls)]
        for name in options:
            if name not in known:
                raise UnknownSettingError(name, known)
        return cls(**options)


class AgentOptions(TypedDict, total=False):
    """The fields of AgentSettings as keyword arguments of `App.agent`."""

    max_attempts: int | None
    max_runtime: float | None
    concurrency: int | None
    rate_limit: float | None
    retry_on_request: bool
    reentrant: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDeclaration:
    """One agent type of an App.

    Attributes:
        type: The agent type.
        factory: Makes one agent; it may be async.
        agent_class: The class of its agents.
        processes: How many processes `callboard up` runs for it.
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

    def __post_init__(self) -> None:
        _check_at_least_one("processes", self.processes)

    @property
    def subscriptions(self) -> tuple[Subscription, ...]:
        """What it subscribes to, each once: as declared, by its class's decorators, and its direct messages.

        Raises:
            AsyncSubscriptionError: A class subscription has to be awaited (a TypeError).
        """
        direct = TypePrefixSubscription(direct_message_prefix(self.type), self.type)
        by_class: list[Subscription] = []
        if issubclass(self.agent_class, BaseAgent):
            by_class = bind_subscriptions_now(self.agent_class.class_subscriptions(), AgentType(self.type))
        return tuple(dict.fromkeys((*self.named, *by_class, direct)))


def name_subscriptions(
    agent_type: str, topics: Topics, prefixes: Iterable[str] = ()
) -> tuple[Subscription, ...]:
    """Subscriptions of an agent type from topic types, prefixes of topic types, and subscriptions.

    Raises:
        SubscriptionKindError: Something else is among them (a TypeError).
        InvalidIdError: A topic type has characters that it can't have (a ValueError).
    """
    _check_list(agent_type, topics)
    _check_list(agent_type, prefixes)
    named = [_subscription(agent_type, topic) for topic in topics]
    return (*named, *(TypePrefixSubscription(prefix, agent_type) for prefix in prefixes))


def _check_list(agent_type: str, given: object) -> None:
    if isinstance(given, str):
        raise SubscriptionKindError(agent_type, repr(given), f"give a list, [{given!r}]")
    if not isinstance(given, Iterable):
        raise SubscriptionKindError(agent_type, repr(given), "give a list of topic types")


def _subscription(agent_type: str, given: str | Subscription) -> Subscription:
    if isinstance(given, str):
        return TypeSubscription(given, agent_type)
    # Without a type checker anything may be in the list.
    if not isinstance(given, Subscription):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise SubscriptionKindError(
            agent_type, repr(given), "a topic type is a string, or give a subscription"
        )
    if given.agent_type != agent_type:
        raise SubscriptionKindError(agent_type, repr(given), "this subscription is for another agent type")
    return given


def check_agent_class(agent_type: str, agent_class: object) -> None:
    """Check that something is a class of agents.

    Raises:
        AgentClassError: It is not (a TypeError).
    """
    # Agent has properties, and issubclass() refuses such protocols.
    needed = ("on_message", "bind_id_and_runtime", "save_state", "load_state", "close")
    if not isinstance(agent_class, type) or not all(hasattr(agent_class, name) for name in needed):
        given = agent_class.__name__ if isinstance(agent_class, type) else repr(agent_class)
        raise AgentClassError(agent_type, given)


def factory_of(agent_type: str, agent_class: Callable[..., Agent], description: str | None) -> Factory:
    """A factory for a class whose constructor takes nothing, or a description.

    Raises:
        AgentArgumentsError: It needs something else (a TypeError).
    """
    parameters = inspect.signature(agent_class).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [p.name for p in parameters if p.default is inspect.Parameter.empty and p.kind not in variadic]
    if not set(needed) <= {"description"}:
        raise AgentArgumentsError(agent_type, _class_name(agent_class), ", ".join(needed))
    takes_description = any(p.name == "description" for p in parameters)
    if not takes_description or (description is None and not needed):
        return agent_class
    text = description if description is not None else _first_line(agent_class) or agent_type
    return lambda: agent_class(description=text)


def _class_name(agent_class: Callable[..., Agent]) -> str:
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
