"""Which types of messages a team knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .base import BaseAgentEvent, BaseChatMessage
from .errors import MessageTypeError, UnknownMessageTypeError
from .known import type_name
from .unions import AgentEvent, ChatMessage


class MessageFactory:
    """Makes messages from plain data: of the types that this package defines, and of those that were registered.

    Args:
        custom: Types to register.
    """

    def __init__(self, custom: Iterable[type[BaseAgentEvent | BaseChatMessage]] = ()) -> None:
        self._types: dict[str, type[BaseAgentEvent | BaseChatMessage]] = {
            type_name(cls): cls for union in (ChatMessage, AgentEvent) for cls in _members(union)
        }
        for message_type in custom:
            self.register(message_type)

    def is_registered(self, message_type: type[BaseAgentEvent | BaseChatMessage]) -> bool:
        """Whether it knows a type."""
        return type_name(message_type) in self._types

    def register(self, message_type: type[BaseAgentEvent | BaseChatMessage]) -> None:
        """Make a type known.

        Raises:
            MessageTypeError: It is known, or is no class of chat messages or events (a ValueError).
        """
        given: object = message_type  # programs without a type checker pass other things
        if not isinstance(given, type) or not issubclass(given, BaseChatMessage | BaseAgentEvent):
            raise MessageTypeError(
                str(message_type), "must be a subclass of BaseChatMessage or BaseAgentEvent."
            )
        if self.is_registered(message_type):
            raise MessageTypeError(type_name(message_type), "is already registered.")
        self._types[type_name(message_type)] = message_type

    def create(self, data: Mapping[str, Any]) -> BaseAgentEvent | BaseChatMessage:
        """A message from what its `dump` returned.

        Raises:
            UnknownMessageTypeError: It names a type that is not known (a ValueError).
            MessageTypeError: It names none (a ValueError).
            ValueError: It does not fit the type.
        """
        name = data.get("type")
        if not isinstance(name, str):
            raise MessageTypeError(
                "type", "the field 'type' is required in the data of a message, and is a text."
            )
        if name not in self._types:
            raise UnknownMessageTypeError(name[:200])
        return self._types[name].load(data)


def _members(union: Any) -> tuple[type[BaseAgentEvent | BaseChatMessage], ...]:
    members: tuple[type[BaseAgentEvent | BaseChatMessage], ...] = union.__origin__.__args__
    return members
