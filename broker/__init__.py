"""Delivery: messages are handled once in effect, in order per agent, whatever dies.

The Redis half lives in `broker.redis` and is loaded when it is first used.
"""

from __future__ import annotations

from .envelope import Envelope
from .errors import BrokerError
from .ids import AgentId, AgentType, TopicId
from .outcome import Commit, DeadLetter, ErrorInfo, Outcome, Release, Retry
from .registry import MessageRegistry, message
from .retry import RetryPolicy
from .settings import BrokerSettings
from .subscriptions import Subscription, SubscriptionTable, TypePrefixSubscription, TypeSubscription

__all__ = [
    "AgentId",
    "AgentType",
    "BrokerError",
    "BrokerSettings",
    "Commit",
    "DeadLetter",
    "Envelope",
    "ErrorInfo",
    "MessageRegistry",
    "Outcome",
    "Release",
    "Retry",
    "RetryPolicy",
    "Subscription",
    "SubscriptionTable",
    "TopicId",
    "TypePrefixSubscription",
    "TypeSubscription",
    "message",
]
