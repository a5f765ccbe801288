"""What the agents of a chat know beside the messages."""

from __future__ import annotations

from collections import UserDict
from typing import Any


class ContextVariables(UserDict[str, Any]):
    """Values by name, which agents and tools share. Plain data that fits into JSON can be saved."""

    def set(self, key: str, value: Any) -> None:
        """Give a variable a value."""
        self[key] = value

    def remove(self, key: str) -> bool:
        """Take a variable away; whether there was one."""
        return self.pop(key, self) is not self

    def to_dict(self) -> dict[str, Any]:
        """The values as a dictionary of its own."""
        return dict(self.data)
