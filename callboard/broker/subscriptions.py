"""Subscriptions: an agent type subscribes to a topic type, or to all that begin with a prefix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from callboard.foundation import CantHandleException

from .errors import (
    EncodeError,
    InvalidIdError,
    SubscriptionError,
)
from .ids import AgentId, AgentType, TopicId


@runtime_checkable
class Subscription(Protocol):
    """A subscription: the agent type that receives some topics."""

    @property
    def id(self) -> str:
        """The same text for the same subscription in every process."""
        ...

    @property
    def agent_type(self) -> str:
        """The agent type that receives."""
        ...

    def is_match(self, topic_id: TopicId) -> bool:
        """Whether messages of the topic are for its agent type."""
        ...

    def map_to_agent(self, topic_id: TopicId) -> AgentId:
        """The agent that receives messages of the topic.

        Raises:
            CantHandleException: it does not match.
        """
        ...


class _Subscription:
    """The base of both kinds. Equal by its pair of names, and therefore hashable, unlike AutoGen's."""

    __slots__ = ("_agent_type", "_id", "_name")

    kind = ""

    def __init__(self, name: str, agent_type: str | AgentType, id: str | None) -> None:
        if not isinstance(agent_type, AgentType):
            agent_type = AgentType(agent_type)
        self._name = name
        self._agent_type = agent_type.type
        self._id = id or f"{self.kind}:{name}->{self._agent_type}"

    @property
    def id(self) -> str:
        """The same text for the same subscription in every process."""
        return self._id

    @property
    def agent_type(self) -> str:
        """The agent type that receives."""
        return self._agent_type

    def is_match(self, topic_id: TopicId) -> bool:
        """Whether messages of the topic are for its agent type."""
        raise NotImplementedError

    def map_to_agent(self, topic_id: TopicId) -> AgentId:
        """The agent whose key is the topic's source.

        Raises:
            CantHandleException: it does not match.
        """
        if not self.is_match(topic_id):
            raise CantHandleException(f"the topic {topic_id} does not match {self!r}: ask is_match first")
        return AgentId(self._agent_type, topic_id.source)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Subscription):
            return NotImplemented
        return (self.kind, self._name, self._agent_type) == (other.kind, other._name, other._agent_type)

    def __hash__(self) -> int:
        return hash((self.kind, self._name, self._agent_type))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, {self._agent_type!r})"


class TypeSubscription(_Subscription):
    """Messages of one topic type go to the agent whose key is the topic's source.

    Args:
        topic_type: type of the topic.
        agent_type: the type that receives.
        id: default made of the two, the same in every process.

    Raises:
        InvalidIdError: a type is not valid.
    """

    __slots__ = ()

    kind = "topic"

    def __init__(self, topic_type: str, agent_type: str | AgentType, id: str | None = None) -> None:
        TopicId(topic_type, "")
        super().__init__(topic_type, agent_type, id)

    @property
    def topic_type(self) -> str:
        """Type of the topic."""
        return self._name

    def is_match(self, topic_id: TopicId) -> bool:
        """Whether the topic has the type."""
        return topic_id.type == self._name


class TypePrefixSubscription(_Subscription):
    """Messages of every topic type that begins with a prefix go to the agent whose key is the topic's source.

    Args:
        topic_type_prefix: beginning of the type; "" stands for all.
        agent_type: the type that receives.
        id: default made of the two, the same in every process.

    Raises:
        InvalidIdError: a type is not valid.
    """

    __slots__ = ()

    kind = "prefix"

    def __init__(self, topic_type_prefix: str, agent_type: str | AgentType, id: str | None = None) -> None:
        if topic_type_prefix:
            TopicId(topic_type_prefix, "")
        super().__init__(topic_type_prefix, agent_type, id)

    @property
    def topic_type_prefix(self) -> str:
        """Beginning of the topic type."""
        return self._name

    def is_match(self, topic_id: TopicId) -> bool:
        """Whether the type of the topic begins with the prefix."""
        return topic_id.type.startswith(self._name)


def subscription_of(id: str) -> TypeSubscription | TypePrefixSubscription | None:
    """The subscription that an id says, such as `topic:visits->counter`; None: it says none."""
    names, _, agent_type = id.rpartition("->")
    kind, _, name = names.partition(":")
    classes = {cls.kind: cls for cls in (TypeSubscription, TypePrefixSubscription)}
    if kind not in classes:
        return None
    try:
        return classes[kind](name, agent_type)
    except InvalidIdError:
        return None


class SubscriptionTable:
    """The subscriptions of one application, each once, in the order in which they were added."""

    def __init__(self) -> None:
        self._all: dict[str, Subscription] = {}
        self._pairs: set[Subscription] = set()

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self._all.values()))

    def __contains__(self, subscription: Subscription) -> bool:
        """Whether one with its id is there, or one of its kind with the same two names."""
        return subscription.id in self._all or subscription in self._pairs

    def add(self, subscription: Subscription) -> None:
        """Adds one.

        Raises:
            SubscriptionError: an equal one is there.
            EncodeError: it is of a class of its own, which other processes could not know.
        """
        if not isinstance(subscription, TypeSubscription | TypePrefixSubscription):
            raise EncodeError(type(subscription).__name__, "use TypeSubscription or TypePrefixSubscription")
        if subscription in self:
            raise SubscriptionError(repr(subscription))
        self._all[subscription.id] = subscription
        self._pairs.add(subscription)

    def remove(self, id: str) -> Subscription:
        """Removes one by its id.

        Raises:
            SubscriptionError: there is none.
        """
        subscription = self._all.pop(id, None)
        if subscription is None:
            raise SubscriptionError(id, "does not exist")
        self._pairs.discard(subscription)
        return subscription
