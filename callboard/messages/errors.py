"""Errors of chat messages."""

from __future__ import annotations

from callboard.errors import ActorError


class MessageError(ActorError, ValueError):
    """The root of what is wrong with chat messages; a ValueError, as AutoGen raises."""


class UnknownMessageTypeError(MessageError):
    """Data names a type of chat message or event that this program does not have.

    Attributes:
        type_name: The type that the data names.
    """

    template = (
        "Unknown message type: {type_name}. Import the module that defines it, "
        "or name its class in `custom_message_types`."
    )

    type_name: str


class MessageTypeError(MessageError):
    """A class can't be a type of chat message or event, or its name is taken."""

    template = "{name}: {reason}"

    name: str
    reason: str
