"""What the agents of a chat know beside the messages."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Mapping
from typing import Any, Self


class ContextVariables(UserDict[str, Any]):
    """Values by name, which agents and tools share. Plain data that fits into JSON can be saved, and crosses processes.

    Args:
        data: The values.
        **values: More of them.
    """

    def __init__(self, data: Mapping[str, Any] | None = None, /, **values: Any) -> None:
        # `data=` is AG2's name for the first one.
        given = values.pop("data") if data is None and isinstance(values.get("data"), Mapping) else data
        super().__init__(given, **values)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The variables of a dictionary."""
        return cls(data)

    def set(self, key: str, value: Any) -> None:
        """Give a variable a value."""
        self[key] = value

    def remove(self, key: str) -> bool:
        """Take a variable away; whether there was one."""
        return self.pop(key, self) is not self

    def contains(self, key: str) -> bool:
        """Whether there is a variable."""
        return key in self

    def to_dict(self) -> dict[str, Any]:
        """The values as a dictionary of its own."""
        return dict(self.data)
