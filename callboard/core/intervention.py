"""Intervention handlers: code that sees every message on its way and may change or drop it.

Several intervention handlers form a chain: each sees what the one before it returned.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, Protocol, final

from callboard.broker.ids import AgentId
from callboard.errors import MessageDroppedException

from .context import MessageContext

__all__ = [
    "DefaultInterventionHandler",
    "DropMessage",
    "InterventionHandler",
    "intercept_publish",
    "intercept_response",
    "intercept_send",
]


@final
class DropMessage:
    """Returned by an intervention handler, as a class or an instance, to drop the message."""


class InterventionHandler(Protocol):
    """Sees requests, published messages and responses in the process that sends or receives them.

    Every method returns the message to go on with, the same or another, or `DropMessage`. Returning None is
    taken for a forgotten `return`: a RuntimeWarning says so, and the message goes on unchanged. What a method
    raises reaches the sender of the message.
    """

    async def on_send(
        self, message: Any, *, message_context: MessageContext, recipient: AgentId
    ) -> Any | type[DropMessage]:
        """Called with a request before it leaves. Dropping it raises MessageDroppedException."""
        ...

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any | type[DropMessage]:
        """Called with a message before it is published. Dropping it is silent."""
        ...

    async def on_response(
        self, message: Any, *, sender: AgentId, recipient: AgentId | None
    ) -> Any | type[DropMessage]:
        """Called with a response before the requester gets it.

        Args:
            message: The response; None is one that goes through without a warning.
            sender: The agent that answered.
            recipient: The agent that asked; None when the request came from outside the runtime's agents.

        Dropping it raises MessageDroppedException at the requester.
        """
        ...


class DefaultInterventionHandler(InterventionHandler):
    """Passes everything on as it is; derive from it and override what you need."""

    async def on_send(
        self, message: Any, *, message_context: MessageContext, recipient: AgentId
    ) -> Any | type[DropMessage]:
        return message

    async def on_publish(self, message: Any, *, message_context: MessageContext) -> Any | type[DropMessage]:
        return message

    async def on_response(
        self, message: Any, *, sender: AgentId, recipient: AgentId | None
    ) -> Any | type[DropMessage]:
        return message


async def intercept_send(
    handlers: Sequence[InterventionHandler], message: Any, message_context: MessageContext, recipient: AgentId
) -> Any:
    """Pass a request through all handlers.

    Returns:
        The request to send.

    Raises:
        MessageDroppedException: A handler dropped it.
    """
    for handler in handlers:
        answer = await handler.on_send(message, message_context=message_context, recipient=recipient)
        if _is_drop(answer):
            raise MessageDroppedException(f"{_name(handler)} dropped the request to {recipient}.")
        message = _changed(message, answer, handler, "on_send")
    return message


async def intercept_publish(
    handlers: Sequence[InterventionHandler], message: Any, message_context: MessageContext
) -> Any | None:
    """Pass a message to be published through all handlers.

    Returns:
        The message to publish; None when a handler dropped it.
    """
    for handler in handlers:
        answer = await handler.on_publish(message, message_context=message_context)
        if _is_drop(answer):
            return None
        message = _changed(message, answer, handler, "on_publish")
    return message


async def intercept_response(
    handlers: Sequence[InterventionHandler], response: Any, sender: AgentId, recipient: AgentId | None
) -> Any:
    """Pass a response through all handlers.

    Args:
        handlers: The chain.
        response: What the agent answered.
        sender: The agent that answered.
        recipient: Who asked.

    Returns:
        The response for the requester.

    Raises:
        MessageDroppedException: A handler dropped it.
    """
    for handler in handlers:
        answer = await handler.on_response(response, sender=sender, recipient=recipient)
        if _is_drop(answer):
            raise MessageDroppedException(f"{_name(handler)} dropped the response of {sender}.")
        response = _changed(response, answer, handler, "on_response")
    return response


def _is_drop(answer: object) -> bool:
    return answer is DropMessage or isinstance(answer, DropMessage)


def _changed(message: Any, answer: Any, handler: InterventionHandler, method: str) -> Any:
    if answer is not None:
        return answer
    # A message that is None itself comes back as None.
    if message is not None:
        warnings.warn(
            f"{_name(handler)}.{method} returned None, which is treated as no change. "
            "Return the message, or DropMessage to drop it.",
            RuntimeWarning,
            stacklevel=3,
        )
    return message


def _name(handler: InterventionHandler) -> str:
    return type(handler).__name__
