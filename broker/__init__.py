"""Delivery: messages are handled once in effect, in order per agent, whatever dies.

Every name is loaded when it is first used, and the Redis half lives in `broker.redis`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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

_HOME = {
    "AgentId": ".ids",
    "AgentType": ".ids",
    "BrokerError": ".errors",
    "BrokerSettings": ".settings",
    "Commit": ".outcome",
    "DeadLetter": ".outcome",
    "Envelope": ".envelope",
    "ErrorInfo": ".outcome",
    "MessageRegistry": ".registry",
    "Outcome": ".outcome",
    "Release": ".outcome",
    "Retry": ".outcome",
    "RetryPolicy": ".retry",
    "Subscription": ".subscriptions",
    "SubscriptionTable": ".subscriptions",
    "TopicId": ".ids",
    "TypePrefixSubscription": ".subscriptions",
    "TypeSubscription": ".subscriptions",
    "message": ".registry",
}

if not TYPE_CHECKING:
    # Hidden from type checkers, which would take any misspelt name for one of these.

    def __getattr__(name: str) -> object:
        home = _HOME.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(home, __name__), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
