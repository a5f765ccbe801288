"""The environment, as a role sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from .context import Context
from .memory import Memory
from .message import Message


class Surroundings(Protocol):
    """What a role finds in `rc.env`; an Environment."""

    context: Context
    desc: str
    project: str
    history: Memory

    def publish_message(self, message: Message, peekable: bool = True) -> bool:
        """Send a message; see `Environment.publish_message`."""
        ...

    @property
    def roles(self) -> Mapping[str, Any]:
        """The roles by name."""
        ...

    def role_names(self) -> list[str]:
        """What the roles are called."""
        ...
