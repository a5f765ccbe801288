"""Addresses: agent types, agents, topics; and the ids of messages."""

from __future__ import annotations

import hashlib
import os
import re
from typing import Final

from .errors import InvalidIdError

AGENT_TYPE: Final = re.compile(r"[\w\-.]+\Z")
TOPIC_TYPE: Final = re.compile(r"[\w\-.:=]+\Z")


class AgentType:
    """The name of a kind of agents.

    Raises:
        InvalidIdError: the name has other characters than letters, digits, `_`, `-` and `.`, or none.
    """

    __slots__ = ("type",)

    def __init__(self, type: str) -> None:
        if not isinstance(type, str) or not AGENT_TYPE.match(type):
            raise InvalidIdError("agent type", type, "letters, digits, '_', '-' and '.'")
        self.type: str = type

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AgentType) and other.type == self.type

    def __hash__(self) -> int:
        return hash((AgentType, self.type))

    def __str__(self) -> str:
        return self.type

    def __repr__(self) -> str:
        return f"AgentType({self.type!r})"


class AgentId:
    """The address of one agent: its type and a key that tells it from others of the type.

    Args:
        type: an AgentType or its name.
        key: any text.

    Raises:
        InvalidIdError: the type is not a valid agent type (a ValueError, as in AutoGen).
    """

    __slots__ = ("_text", "key", "type")

    def __init__(self, type: str | AgentType, key: str) -> None:
        name = type.type if isinstance(type, AgentType) else type
        if not isinstance(name, str) or not AGENT_TYPE.match(name):
            raise InvalidIdError("agent type", name, "letters, digits, '_', '-' and '.'")
        self.type: str = name
        self.key: str = key
        self._text = f"{name}/{key}"

    @classmethod
    def from_str(cls, agent_id: str) -> AgentId:
        """Reads `type/key`; only the first slash divides.

        Raises:
            InvalidIdError: there is no slash, or the type is not valid.
        """
        name, slash, key = agent_id.partition("/")
        if not slash:
            raise InvalidIdError("agent id", agent_id, "the form type/key")
        return cls(name, key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AgentId) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return f"AgentId(type={self.type!r}, key={self.key!r})"


class TopicId:
    """Where a message is published: a type that agents subscribe to, and a source that becomes the agent's key.

    Raises:
        InvalidIdError: the type has other characters than letters, digits and `_-.:=` (a ValueError, as in AutoGen).
    """

    __slots__ = ("source", "type")

    def __init__(self, type: str, source: str) -> None:
        if not isinstance(type, str) or not TOPIC_TYPE.match(type):
            raise InvalidIdError("topic type", type, "letters, digits and any of _-.:=")
        self.type: str = type
        self.source: str = source

    @classmethod
    def from_str(cls, topic_id: str) -> TopicId:
        """Reads `type/source`; only the first slash divides."""
        name, slash, source = topic_id.partition("/")
        if not slash:
            raise InvalidIdError("topic id", topic_id, "the form type/source")
        return cls(name, source)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicId) and (other.type, other.source) == (self.type, self.source)

    def __hash__(self) -> int:
        return hash((self.type, self.source))

    def __str__(self) -> str:
        return f"{self.type}/{self.source}"

    def __repr__(self) -> str:
        return f"TopicId(type={self.type!r}, source={self.source!r})"


DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def _base36(number: int) -> str:
    text = ""
    while True:
        number, digit = divmod(number, 36)
        text = DIGITS[digit] + text
        if not number:
            return text


class IdSource:
    """Cheap ids that no other process makes: eight random characters and a counter. A fork gets a new source."""

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._prefix = _base36(int.from_bytes(os.urandom(5), "big")).rjust(8, "0")
        self._count = 0

    def next(self) -> str:
        """A new id, 9 to 16 characters."""
        if self._pid != os.getpid():
            self._renew()
        self._count += 1
        return f"{self._prefix}{self._count:x}"


def derived_id(parent: str, agent: str, ordinal: int, salt: bytes = b"") -> str:
    """The id of the `ordinal`-th message that `agent` sends while it handles `parent`: the same in every attempt."""
    digest = hashlib.blake2b(f"{parent}\0{agent}\0{ordinal}\0".encode() + salt, digest_size=10)
    return digest.hexdigest()
