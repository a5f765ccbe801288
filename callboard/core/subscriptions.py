"""Subscriptions and topics of the agent that is being made, with what is missing taken from there."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar, overload

from callboard.broker.ids import AgentType, TopicId
from callboard.broker.subscriptions import Subscription, TypeSubscription
from callboard.errors import DeclarationError, MisuseError
from callboard.foundation import CantHandleException

from .context import ContextScope, MessageHandlerContext

if TYPE_CHECKING:
    from callboard.broker.ids import AgentId

    from .protocol import AgentRuntime


UnboundSubscription: TypeAlias = Callable[[], Sequence[Subscription] | Awaitable[Sequence[Subscription]]]
"""Makes subscriptions while an agent type is being registered, for that type."""


AgentClassT = TypeVar("AgentClassT", bound="type[Any]")


class DefaultSubscription(TypeSubscription):
    """A type subscription for programs that need one topic for everybody.

    Args:
        topic_type: The topic type. Default ``"default"``.
        agent_type: Who subscribes; None takes the type that is being registered.

    Raises:
        CantHandleException: `agent_type` is None and nothing is being registered.
    """

    def __init__(self, topic_type: str = "default", agent_type: str | AgentType | None = None) -> None:
        if agent_type is None:
            try:
                agent_type = SubscriptionInstantiationContext.agent_type()
            except MisuseError as error:
                raise CantHandleException(
                    f"{type(self).__name__}() takes its agent type from the registration it is made in. "
                    "Give agent_type=, or use it in a decorator or a subscriptions= callback."
                ) from error
        super().__init__(topic_type, agent_type)


class DefaultTopicId(TopicId):
    """A topic whose source is the key of the agent that is handling a message right now.

    Args:
        type: The topic type. Default ``"default"``.
        source: The source; None takes the key of the current agent, and ``"default"`` outside of handlers.
    """

    def __init__(self, type: str = "default", source: str | None = None) -> None:
        if source is None:
            try:
                source = MessageHandlerContext.agent_id().key
            except MisuseError:
                source = "default"
        super().__init__(type, source)


def subscription_factory(subscription: UnboundSubscription) -> Callable[[AgentClassT], AgentClassT]:
    """Class decorator: subscribe every type that the class is registered under to what a function returns.

    Subclasses do not inherit it.

    Args:
        subscription: Returns the subscriptions, at once or as an awaitable.
    """

    def decorate(agent_class: AgentClassT) -> AgentClassT:
        agent_class.internal_unbound_subscriptions_list.append(subscription)
        return agent_class

    return decorate


@overload
def default_subscription() -> Callable[[AgentClassT], AgentClassT]: ...


@overload
def default_subscription(cls: AgentClassT) -> AgentClassT: ...


def default_subscription(
    cls: AgentClassT | None = None,
) -> Callable[[AgentClassT], AgentClassT] | AgentClassT:
    """Class decorator, with or without parentheses: subscribe to the topic type ``"default"``."""
    decorate: Callable[[AgentClassT], AgentClassT] = subscription_factory(lambda: [DefaultSubscription()])
    return decorate if cls is None else decorate(cls)


def type_subscription(topic_type: str) -> Callable[[AgentClassT], AgentClassT]:
    """Class decorator: subscribe to a topic type.

    Args:
        topic_type: The topic type.
    """
    return subscription_factory(lambda: [DefaultSubscription(topic_type=topic_type)])


async def bind_subscriptions(
    unbound: Iterable[UnboundSubscription], agent_type: AgentType
) -> list[Subscription]:
    """Make the subscriptions of a class for an agent type that is being registered."""
    bound: list[Subscription] = []
    with SubscriptionInstantiationContext.populate_context(agent_type):
        for make in unbound:
            made = make()
            bound.extend(await made if inspect.isawaitable(made) else made)
    return bound


def bind_subscriptions_now(
    unbound: Iterable[UnboundSubscription], agent_type: AgentType
) -> list[Subscription]:
    """The same where nothing can be awaited.

    Raises:
        DeclarationError: One of them has to be awaited.
    """
    bound: list[Subscription] = []
    with SubscriptionInstantiationContext.populate_context(agent_type):
        for make in unbound:
            made = make()
            if inspect.isawaitable(made):
                if inspect.iscoroutine(made):
                    made.close()
                raise DeclarationError(
                    f"Agent type {agent_type.type!r} makes its class subscriptions asynchronously, and an App can't",
                    "make them in an ordinary function, or register the class on a runtime.",
                )
            bound.extend(made)
    return bound


def direct_message_prefix(agent_type: str) -> str:
    """The prefix of the topic types that are meant for one agent type.

    The colon keeps apart agent types whose names begin alike.
    """
    return f"{agent_type}:"


agent_being_made: ContextVar[tuple[AgentRuntime, AgentId]] = ContextVar("callboard_agent_instantiation")
"""The agent that a factory makes, and for which runtime. A runtime of ours sets it by itself, see `context.handling`."""


class AgentInstantiationContext:
    """Tells a factory and a constructor which agent they make, and for which runtime.

    ```python
    def factory() -> Counter:
        return Counter(f"counts for {AgentInstantiationContext.current_agent_id().key}")
    ```
    """

    def __init__(self) -> None:
        raise MisuseError(f"{type(self).__name__} cannot be instantiated: call its class methods.")

    @classmethod
    def populate_context(
        cls, ctx: tuple[AgentRuntime, AgentId]
    ) -> ContextScope[tuple[AgentRuntime, AgentId]]:
        """Make `ctx` the agent being made, for a `with` block. For runtimes."""
        return ContextScope(agent_being_made, ctx)

    @classmethod
    def current_runtime(cls) -> AgentRuntime:
        """The runtime that is making an agent.

        Raises:
            MisuseError: No agent is being made here.
        """
        return cls._get("current_runtime")[0]

    @classmethod
    def current_agent_id(cls) -> AgentId:
        """The id of the agent that is being made.

        Raises:
            MisuseError: No agent is being made here.
        """
        return cls._get("current_agent_id")[1]

    @classmethod
    def is_in_factory_call(cls) -> bool:
        """Whether an agent is being made here."""
        return agent_being_made.get(None) is not None

    @classmethod
    def _get(cls, call: str) -> tuple[AgentRuntime, AgentId]:
        try:
            return agent_being_made.get()
        except LookupError as error:
            where = "an agent's factory or constructor, called by a runtime"
            raise MisuseError(f"AgentInstantiationContext.{call}() must be called within {where}.") from error


class SubscriptionInstantiationContext:
    """Tells a subscription which agent type is being registered."""

    _current: ClassVar[ContextVar[AgentType]] = ContextVar("callboard_subscription_instantiation")

    def __init__(self) -> None:
        raise MisuseError(f"{type(self).__name__} cannot be instantiated: call its class methods.")

    @classmethod
    def populate_context(cls, ctx: AgentType) -> ContextScope[AgentType]:
        """Make `ctx` the type being registered, for a `with` block."""
        return ContextScope(cls._current, ctx)

    @classmethod
    def agent_type(cls) -> AgentType:
        """The agent type that is being registered.

        Raises:
            MisuseError: Nothing is being registered here.
        """
        try:
            return cls._current.get()
        except LookupError as error:
            where = "the registration of an agent type"
            raise MisuseError(
                f"SubscriptionInstantiationContext.agent_type() must be called within {where}."
            ) from error
