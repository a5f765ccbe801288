"""Agents made of one function."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, cast

from callboard.broker.ids import AgentType
from callboard.broker.subscriptions import Subscription
from callboard.errors import MisuseError
from callboard.foundation import CantHandleException

from .agent import BaseAgent, Messaging
from .context import MessageContext
from .handlers import ANY, HandlerSignature, HandlerTypes, local_scope
from .protocol import AgentRuntime, MessageType
from .subscriptions import AgentInstantiationContext, bind_subscriptions

__all__ = [
    "Closure",
    "ClosureAgent",
    "ClosureContext",
    "UnknownTypePolicy",
    "closure_message_types",
    "closure_signature",
]

UnknownTypePolicy: TypeAlias = Literal["error", "warn", "ignore"]
"""How a closure agent treats a message of a class that its function does not declare."""


class ClosureContext(Messaging):
    """The first argument of a closure: the agent whose body the closure is, as far as it has an id and sends."""


Closure: TypeAlias = Callable[[ClosureContext, Any, MessageContext], Awaitable[Any]]
"""``async def name(agent: ClosureContext, message: SomeClass, ctx: MessageContext) -> SomeResponse``."""


def closure_signature(closure: Closure, depth: int = 1) -> HandlerSignature:
    """The declared types of a closure.

    Args:
        closure: The function.
        depth: How many calls above this one the code stands in whose local names the annotations may use.

    Raises:
        DeclarationError: It can't be a closure (an AssertionError).
    """
    return HandlerSignature(closure, scope=local_scope(closure, sys._getframe(depth)))


class ClosureAgent(BaseAgent):
    """An agent whose messages are all handled by one function; made by `register_closure` or an App.

    Args:
        description: What the agent is for, in a sentence.
        closure: The function; `Any` as the type of its message takes everything.
        unknown_type_policy: For other messages: ``"warn"`` and drop them, raise an ``"error"``
            (CantHandleException), or ``"ignore"``: drop them in silence.
        signature: The declared types, where they have been read already.

    Raises:
        MisuseError: It is made outside of a runtime (a RuntimeError).
        DeclarationError: The function can't be a closure (an AssertionError).
    """

    def __init__(
        self,
        description: str,
        closure: Closure,
        *,
        unknown_type_policy: UnknownTypePolicy = "warn",
        signature: HandlerSignature | None = None,
    ) -> None:
        if not AgentInstantiationContext.is_in_factory_call():
            raise MisuseError(
                "ClosureAgent must be instantiated within the context of an AgentRuntime. "
                "Use ClosureAgent.register_closure(), or closure() of an App."
            )
        super().__init__(description)
        self._closure = closure
        self._signature = signature or closure_signature(closure, depth=2)
        self._accepts = self._signature.types.accepts
        self._unknown_type_policy = unknown_type_policy

    async def on_message_impl(self, message: Any, ctx: MessageContext) -> Any:
        """Pass the message to the function."""
        if isinstance(message, self._accepts):
            return await self._closure(cast("ClosureContext", self), message, ctx)
        accepted = ", ".join(cls.__name__ for cls in self._accepts)
        error = CantHandleException(
            f"Message type {type(message).__name__} not in target types {accepted} of {self._signature.name}."
        )
        # An event has no requester; a requester must not take silence for an answer.
        if self._unknown_type_policy == "error" or ctx.is_rpc:
            raise error
        if self._unknown_type_policy == "warn":
            warnings.warn(f"{error} Set unknown_type_policy to 'error' or 'ignore'.", stacklevel=2)
        return None

    async def save_state(self) -> Mapping[str, Any]:
        """Closures have no state: always ``{}``."""
        return {}

    async def load_state(self, state: Mapping[str, Any]) -> None:
        """Closures have no state: does nothing."""

    @classmethod
    async def register_closure(
        cls,
        runtime: AgentRuntime,
        type: str,
        closure: Closure,
        *,
        unknown_type_policy: UnknownTypePolicy = "warn",
        skip_direct_message_subscription: bool = False,
        description: str = "",
        subscriptions: Callable[[], Sequence[Subscription] | Awaitable[Sequence[Subscription]]] | None = None,
    ) -> AgentType:
        """Register a function as an agent type.

        ```python
        async def collect(agent: ClosureContext, message: Result, ctx: MessageContext) -> None:
            results.append(message)

        await ClosureAgent.register_closure(
            runtime, "collector", collect, subscriptions=lambda: [DefaultSubscription()]
        )
        ```

        Args:
            runtime: Where to.
            type: The agent type.
            closure: The function.
            unknown_type_policy: What happens to messages of other classes.
            skip_direct_message_subscription: Leave out the subscription to topic types that start with
                ``"<type>:"``.
            description: What the agent is for.
            subscriptions: Makes the subscriptions; `DefaultSubscription()` in it takes the agent type.

        Returns:
            The agent type.

        Raises:
            ValueError: The type is taken.
            DeclarationError: The function can't be a closure (an AssertionError).
        """
        signature = closure_signature(closure, depth=2)
        message_types = closure_message_types(signature.types)

        def factory() -> ClosureAgent:
            return ClosureAgent(
                description, closure, unknown_type_policy=unknown_type_policy, signature=signature
            )

        agent_type = await ClosureAgent.register(
            runtime,
            type,
            factory,
            skip_class_subscriptions=True,
            skip_direct_message_subscription=skip_direct_message_subscription,
        )
        runtime.add_message_types(message_types)
        if subscriptions is not None:
            for subscription in await bind_subscriptions([subscriptions], agent_type):
                await runtime.add_subscription(subscription)
        return agent_type


def closure_message_types(types: HandlerTypes) -> list[MessageType]:
    """The message classes that a closure takes or returns, for a runtime's registry."""
    return [cls for cls in dict.fromkeys((*types.accepts, *types.returns)) if cls not in (ANY, type(None))]
