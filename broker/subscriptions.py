"""Who receives what: an agent type subscribes to a topic type, or to all topic types that begin with a prefix."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from .errors import BrokerError, DuplicateSubscriptionError, UnknownSubscriptionError
from .ids import AgentId, AgentType, TopicId


class TopicMismatchError(BrokerError):
    """A subscription was asked for the agent of a topic that it does not match."""

    def __init__(self, subscription: str, topic: TopicId) -> None:
        super().__init__(subscription, topic)
        self.subscription = subscription
        self.topic = topic

    def __str__(self) -> str:
        return f"TopicId {self.topic} does not match the subscription {self.subscription}"


@runtime_checkable
class Subscription(Protocol):
    """What every subscription can do."""

    @property
    def id(self) -> str:
        """The same text for the same subscription in every process."""
        ...

    @property
    def agent_type(self) -> str: ...

    def is_match(self, topic_id: TopicId) -> bool:
        """Whether messages of the topic are for its agent type."""
        ...

    def map_to_agent(self, topic_id: TopicId) -> AgentId:
        """The agent that receives messages of the topic.

        Raises:
            TopicMismatchError: it does not match.
        """
        ...


class _Subscription:
    """What both kinds share. Equal when they have the same id, or name the same pair; hashable, unlike AutoGen's."""

    kind = ""

    def __init__(self, name: str, agent_type: str | AgentType, id: str | None) -> None:
        self._name = name
        self._agent_type = agent_type.type if isinstance(agent_type, AgentType) else AgentType(agent_type).type
        self._id = id or f"{self.kind}:{name}->{self._agent_type}"

    @property
    def id(self) -> str:
        return self._id

    @property
    def agent_type(self) -> str:
        return self._agent_type

    def is_match(self, topic_id: TopicId) -> bool:
        raise NotImplementedError

    def map_to_agent(self, topic_id: TopicId) -> AgentId:
        if not self.is_match(topic_id):
            raise TopicMismatchError(repr(self), topic_id)
        return AgentId(self._agent_type, topic_id.source)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Subscription):
            return NotImplemented
        same_pair = (self.kind, self._name, self._agent_type) == (other.kind, other._name, other._agent_type)
        return same_pair or self._id == other._id

    def __hash__(self) -> int:
        return hash((self.kind, self._name, self._agent_type))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._name!r}, {self._agent_type!r})"


class TypeSubscription(_Subscription):
    """Messages of one topic type go to the agent whose key is the topic's source."""

    kind = "topic"

    def __init__(self, topic_type: str, agent_type: str | AgentType, id: str | None = None) -> None:
        TopicId(topic_type, "")
        super().__init__(topic_type, agent_type, id)

    @property
    def topic_type(self) -> str:
        return self._name

    def is_match(self, topic_id: TopicId) -> bool:
        return topic_id.type == self._name


class TypePrefixSubscription(_Subscription):
    """Messages of every topic type that begins with a prefix go to the agent whose key is the topic's source."""

    kind = "prefix"

    def __init__(self, topic_type_prefix: str, agent_type: str | AgentType, id: str | None = None) -> None:
        if topic_type_prefix:
            TopicId(topic_type_prefix, "")
        super().__init__(topic_type_prefix, agent_type, id)

    @property
    def topic_type_prefix(self) -> str:
        return self._name

    def is_match(self, topic_id: TopicId) -> bool:
        return topic_id.type.startswith(self._name)


class SubscriptionTable:
    """Subscriptions, found by topic without looking at all of them."""

    def __init__(self) -> None:
        self._all: dict[str, Subscription] = {}
        self._pairs: set[Subscription] = set()
        self._by_topic: dict[str, list[Subscription]] = {}
        self._by_prefix: dict[str, list[Subscription]] = {}
        self._order: dict[str, int] = {}
        self._count = 0

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self._all.values()))

    def __contains__(self, subscription: Subscription) -> bool:
        return subscription.id in self._all or subscription in self._pairs

    def add(self, subscription: Subscription) -> None:
        """Adds one.

        Raises:
            DuplicateSubscriptionError: an equal one is there.
        """
        if subscription in self:
            raise DuplicateSubscriptionError(repr(subscription))
        self._count += 1
        self._all[subscription.id] = subscription
        self._order[subscription.id] = self._count
        self._pairs.add(subscription)
        self._bucket(subscription).append(subscription)

    def _bucket(self, subscription: Subscription) -> list[Subscription]:
        if isinstance(subscription, TypeSubscription):
            return self._by_topic.setdefault(subscription.topic_type, [])
        if isinstance(subscription, TypePrefixSubscription):
            return self._by_prefix.setdefault(subscription.topic_type_prefix, [])
        raise TypeError(
            f"{type(subscription).__name__} can't cross processes: use TypeSubscription or TypePrefixSubscription"
        )

    def remove(self, id: str) -> Subscription:
        """Removes one by its id.

        Raises:
            UnknownSubscriptionError: there is none.
        """
        subscription = self._all.pop(id, None)
        if subscription is None:
            raise UnknownSubscriptionError(id)
        self._pairs.discard(subscription)
        self._bucket(subscription).remove(subscription)
        del self._order[id]
        return subscription

    def recipients(self, topic_id: TopicId) -> tuple[AgentId, ...]:
        """The agents that receive a topic, each once, in the order of subscribing."""
        found = list(self._by_topic.get(topic_id.type, ()))
        for length in range(len(topic_id.type) + 1):
            found += self._by_prefix.get(topic_id.type[:length], ())
        found.sort(key=lambda subscription: self._order[subscription.id])
        return tuple(dict.fromkeys(AgentId(subscription.agent_type, topic_id.source) for subscription in found))
