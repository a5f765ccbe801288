"""What is changed in messages before a model reads them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Protocol, runtime_checkable

from .agent import Message


@runtime_checkable
class MessageTransform(Protocol):
    """Changes a list of messages."""

    def apply_transform(self, messages: list[Message]) -> list[Message]:
        """The list as a model is to read it."""
        ...


class MessageHistoryLimiter:
    """Leaves the last messages.

    Args:
        max_messages: How many; None: all.
        keep_first_message: Whether the first one stays as well, as one of them.
    """

    def __init__(self, max_messages: int | None = None, keep_first_message: bool = False) -> None:
        if max_messages is not None and max_messages < 1:
            raise ValueError("max_messages must be None or greater than 0.")
        self._most = max_messages
        self._keeps_first = keep_first_message

    def apply_transform(self, messages: list[Message]) -> list[Message]:
        """The last messages; one that answers tool calls which are gone is left out as well."""
        most = self._most
        if most is None or len(messages) <= most:
            return messages
        first = messages[:1] if self._keeps_first else []
        rest = messages[len(messages) - most + len(first) :] if most > len(first) else []
        while rest and rest[0].get("role") == "tool":
            rest = rest[1:]
        return [*first, *rest]


class TransformMessages:
    """Transforms, one after the other; the system message in front stays as it is.

    Args:
        transforms: The first one changes the messages first.
    """

    def __init__(self, transforms: Sequence[MessageTransform] = ()) -> None:
        self._transforms = list(transforms)

    def apply(self, messages: Sequence[Message]) -> list[Message]:
        """The messages after all of them; those that are given stay as they are."""
        system = [dict(message) for message in messages[:1] if message.get("role") == "system"]
        rest = deepcopy(list(messages[len(system) :]))
        for transform in self._transforms:
            rest = transform.apply_transform(rest)
        return [*system, *rest]
