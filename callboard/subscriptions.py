"""Subscriptions and topics that take what is missing from where they are made."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar, overload

from callboard.broker.ids import AgentType, TopicId
from callboard.broker.subscriptions import Subscription, TypeSubscription

from .context import MessageHandlerContext
from .errors import AgentDeclarationError, CantHandleException, OutsideContextError
from .instantiation import SubscriptionInstantiationContext

__all__ = [
    "DefaultSubscription",
    "DefaultTopicId",
    "UnboundSubscription",
    "bind_subscriptions",
    "bind_subscriptions_now",
    "default_subscription",
    "direct_message_prefix",
    "subscription_factory",
    "type_subscription",
]

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
            except OutsideContextError as error:
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
            except OutsideContextError:
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
        AgentDeclarationError: One of them has to be awaited.
    """
    bound: list[Subscription] = []
    with SubscriptionInstantiationContext.populate_context(agent_type):
        for make in unbound:
            made = make()
            if inspect.isawaitable(made):
                if inspect.iscoroutine(made):
                    made.close()
                raise AgentDeclarationError(
                    f"Agent type {agent_type.type!r} makes its class subscriptions asynchronously, and an App can't: "
                    "make them in an ordinary function, or register the class on a runtime."
                )
            bound.extend(made)
    return bound


def direct_message_prefix(agent_type: str) -> str:
    """The prefix of the topic types that are meant for one agent type.

    The colon keeps apart agent types whose names begin alike.
    """
    return f"{agent_type}:"
