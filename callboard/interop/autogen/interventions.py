"""AutoGen's intervention handlers, asked before a message leaves and when a response has come.

Each sees what the one before it returned; in AutoGen's own runtime each sees the original, and only the last one counts.
What a handler raises goes to whoever sends; there, an `on_publish` that fails is only logged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .real import core, errors


class Interventions:
    """The handlers of one runtime, in their order."""

    def __init__(self, handlers: Sequence[Any] | None) -> None:
        self._handlers = tuple(handlers or ())

    def __bool__(self) -> bool:
        return bool(self._handlers)

    async def sent(self, message: Any, context: Any, recipient: Any) -> Any:
        """A request as it leaves.

        Raises:
            MessageDroppedException: a handler dropped it (AutoGen's).
        """
        for handler in self._handlers:
            message = await handler.on_send(message, message_context=context, recipient=recipient)
            if _is_dropped(message):
                raise errors.MessageDroppedException
        return message

    async def published(self, message: Any, context: Any) -> tuple[Any, bool]:
        """An event as it leaves, and whether it leaves at all."""
        for handler in self._handlers:
            message = await handler.on_publish(message, message_context=context)
            if _is_dropped(message):
                return None, False
        return message, True

    async def answered(self, message: Any, sender: Any, recipient: Any) -> Any:
        """A response as it arrives; raises as `sent` does."""
        for handler in self._handlers:
            message = await handler.on_response(message, sender=sender, recipient=recipient)
            if _is_dropped(message):
                raise errors.MessageDroppedException
        return message


def _is_dropped(message: Any) -> bool:
    return message is core.DropMessage or isinstance(message, core.DropMessage)
