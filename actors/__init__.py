"""Agents that handle messages, the runtime they live in, and the App that declares them.

Names and behaviour are those of AutoGen's core where it has them. Everything that needs the Redis half,
pydantic or asyncio is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from broker.ids import AgentId, AgentType, TopicId
    from broker.registry import message
    from broker.settings import BrokerSettings
    from broker.subscriptions import Subscription, TypePrefixSubscription, TypeSubscription

    from .agent import BaseAgent, handles
    from .app import App
    from .cancellation import CancellationToken
    from .closure import ClosureAgent, ClosureContext
    from .context import MessageContext, MessageHandlerContext
    from .declaration import AgentDeclaration, AgentSettings
    from .errors import (
        ActorError,
        CantHandleException,
        MessageDroppedException,
        NotAccessibleError,
        UndeliverableException,
    )
    from .handlers import event, message_handler, rpc
    from .instantiation import AgentInstantiationContext, SubscriptionInstantiationContext
    from .intervention import DefaultInterventionHandler, DropMessage, InterventionHandler
    from .proxy import AgentProxy
    from .routed import RoutedAgent
    from .runtime import RedisAgentRuntime
    from .runtime_protocol import Agent, AgentMetadata, AgentRuntime
    from .subscriptions import DefaultSubscription, DefaultTopicId, default_subscription, type_subscription

__all__ = [
    "ActorError",
    "Agent",
    "AgentDeclaration",
    "AgentId",
    "AgentInstantiationContext",
    "AgentMetadata",
    "AgentProxy",
    "AgentRuntime",
    "AgentSettings",
    "AgentType",
    "App",
    "BaseAgent",
    "BrokerSettings",
    "CancellationToken",
    "CantHandleException",
    "ClosureAgent",
    "ClosureContext",
    "DefaultInterventionHandler",
    "DefaultSubscription",
    "DefaultTopicId",
    "DropMessage",
    "InterventionHandler",
    "MessageContext",
    "MessageDroppedException",
    "MessageHandlerContext",
    "NotAccessibleError",
    "RedisAgentRuntime",
    "RoutedAgent",
    "Subscription",
    "SubscriptionInstantiationContext",
    "TopicId",
    "TypePrefixSubscription",
    "TypeSubscription",
    "UndeliverableException",
    "default_subscription",
    "event",
    "handles",
    "message",
    "message_handler",
    "rpc",
    "type_subscription",
]

_HOME = {
    "ActorError": ".errors",
    "Agent": ".runtime_protocol",
    "AgentDeclaration": ".declaration",
    "AgentId": "broker.ids",
    "AgentInstantiationContext": ".instantiation",
    "AgentMetadata": ".runtime_protocol",
    "AgentProxy": ".proxy",
    "AgentRuntime": ".runtime_protocol",
    "AgentSettings": ".declaration",
    "AgentType": "broker.ids",
    "App": ".app",
    "BaseAgent": ".agent",
    "BrokerSettings": "broker.settings",
    "CancellationToken": ".cancellation",
    "CantHandleException": ".errors",
    "ClosureAgent": ".closure",
    "ClosureContext": ".closure",
    "DefaultInterventionHandler": ".intervention",
    "DefaultSubscription": ".subscriptions",
    "DefaultTopicId": ".subscriptions",
    "DropMessage": ".intervention",
    "InterventionHandler": ".intervention",
    "MessageContext": ".context",
    "MessageDroppedException": ".errors",
    "MessageHandlerContext": ".context",
    "NotAccessibleError": ".errors",
    "RedisAgentRuntime": ".runtime",
    "RoutedAgent": ".routed",
    "Subscription": "broker.subscriptions",
    "SubscriptionInstantiationContext": ".instantiation",
    "TopicId": "broker.ids",
    "TypePrefixSubscription": "broker.subscriptions",
    "TypeSubscription": "broker.subscriptions",
    "UndeliverableException": ".errors",
    "default_subscription": ".subscriptions",
    "event": ".handlers",
    "handles": ".agent",
    "message": "broker.registry",
    "message_handler": ".handlers",
    "rpc": ".handlers",
    "type_subscription": ".subscriptions",
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
