"""Addresses: agent types, agents, topics; and the ids of messages."""

from __future__ import annotations

import hashlib
import os
import re
from binascii import b2a_base64
from typing import TYPE_CHECKING, Any, Final, NoReturn

from .errors import InvalidIdError, too_long

if TYPE_CHECKING:
    from pydantic_core import CoreSchema

AGENT_TYPE: Final = re.compile(r"[\w\-.]+\Z")
TOPIC_TYPE: Final = re.compile(r"[\w\-.:=]+\Z")
AGENT_RULE: Final = "letters, digits, '_', '-' and '.'"
TOPIC_RULE: Final = "letters, digits and any of _-.:="

# Bytes of an agent type, a topic type, a key, a message's id, the name of a message's class.
MOST_NAME: Final = 1024
TEXT_RULE: Final = "text without half of a surrogate pair"

# Names that were found valid. An application has few, and to check one costs more than all the rest of an id.
_known_types: set[str] = set()
_known_topic_types: set[str] = set()
_MOST_KNOWN: Final = 10_000


def _check_agent_type(name: object) -> str:
    if not isinstance(name, str) or not AGENT_TYPE.match(name):
        raise InvalidIdError("agent type", name, AGENT_RULE)
    _check_length("agent type", name)
    if len(_known_types) < _MOST_KNOWN:
        _known_types.add(name)
    return name


def _check_topic_type(name: object) -> str:
    if not isinstance(name, str) or not TOPIC_TYPE.match(name):
        raise InvalidIdError("topic type", name, TOPIC_RULE)
    _check_length("topic type", name)
    if len(_known_topic_types) < _MOST_KNOWN:
        _known_topic_types.add(name)
    return name


def _check_length(what: str, name: str) -> None:
    size = len(name.encode())
    if size > MOST_NAME:
        raise too_long(what, size, MOST_NAME)


def check_text(what: str, text: object) -> str:
    """Refuses what can't be written as UTF-8, before anything has left.

    Raises:
        InvalidIdError: it is no text, or has half of a surrogate pair.
    """
    if not isinstance(text, str):
        raise InvalidIdError(what, text, "text")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidIdError(what, text, TEXT_RULE) from error
    return text


def _immutable(value: object, attribute: str) -> AttributeError:
    return AttributeError(f"the {attribute} of a {type(value).__name__} can't be changed: make a new one")


class _Frozen:
    """A base for ids, which can't be changed. Ids are made and compared for every message, hence the slots."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise _immutable(self, name)

    def __delattr__(self, name: str) -> NoReturn:
        raise _immutable(self, name)

    def __copy__(self) -> _Frozen:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> _Frozen:
        return self


class AgentType(_Frozen):
    """The name of a kind of agents.

    Raises:
        InvalidIdError: the name has other characters than letters, digits, `_`, `-` and `.`, or none.
            The same, if it has more than 1,024 bytes.
    """

    __slots__ = ("type",)

    type: str

    def __init__(self, type: str) -> None:
        _set_agent_type(self, _check_agent_type(type))

    def __reduce__(self) -> tuple[Any, ...]:
        return AgentType, (self.type,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AgentType) and other.type == self.type

    def __hash__(self) -> int:
        return hash((AgentType, self.type))

    def __str__(self) -> str:
        return self.type

    def __repr__(self) -> str:
        return f"AgentType({self.type!r})"


class AgentId(_Frozen):
    """The address of one agent: its type and a key that tells it from others of the type.

    Args:
        type: an AgentType or its name.
        key: any text.

    Raises:
        InvalidIdError: the type is not a valid agent type, or too long, or the key no text (a ValueError, as in AutoGen).
    """

    __slots__ = ("key", "type")

    type: str
    key: str

    def __init__(self, type: str | AgentType, key: str) -> None:
        name = type.type if isinstance(type, AgentType) else type
        if name.__class__ is not str or name not in _known_types:
            name = _check_agent_type(name)
        if key.__class__ is not str or not key.isascii():
            key = check_text("agent key", key)
        _set_type(self, name)
        _set_key(self, key)

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

    def __reduce__(self) -> tuple[Any, ...]:
        return AgentId, (self.type, self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AgentId) and other.key == self.key and other.type == self.type

    def __hash__(self) -> int:
        return hash((self.type, self.key))

    def __str__(self) -> str:
        return f"{self.type}/{self.key}"

    def __repr__(self) -> str:
        return f"AgentId(type={self.type!r}, key={self.key!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        return _text_schema(cls)


class TopicId(_Frozen):
    """Where a message is published: a type that agents subscribe to, and a source that becomes their key.

    Raises:
        InvalidIdError: the type has other characters than letters, digits and `_-.:=`, or the source is
            no text (a ValueError, as in AutoGen).
    """

    __slots__ = ("source", "type")

    type: str
    source: str

    def __init__(self, type: str, source: str) -> None:
        is_known = type.__class__ is str and type in _known_topic_types
        _set_topic_type(self, type if is_known else _check_topic_type(type))
        is_plain = source.__class__ is str and source.isascii()
        _set_source(self, source if is_plain else check_text("topic source", source))

    @classmethod
    def from_str(cls, topic_id: str) -> TopicId:
        """Reads `type/source`; only the first slash divides.

        Raises:
            InvalidIdError: there is no slash, or the type is not valid.
        """
        name, slash, source = topic_id.partition("/")
        if not slash:
            raise InvalidIdError("topic id", topic_id, "the form type/source")
        return cls(name, source)

    def __reduce__(self) -> tuple[Any, ...]:
        return TopicId, (self.type, self.source)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicId) and (other.type, other.source) == (self.type, self.source)

    def __hash__(self) -> int:
        return hash((TopicId, self.type, self.source))

    def __str__(self) -> str:
        return f"{self.type}/{self.source}"

    def __repr__(self) -> str:
        return f"TopicId(type={self.type!r}, source={self.source!r})"

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> CoreSchema:
        return _text_schema(cls)


# What sets a slot although the class refuses to set attributes; object.__setattr__ takes twice as long.
_set_agent_type = AgentType.__dict__["type"].__set__
_set_type = AgentId.__dict__["type"].__set__
_set_key = AgentId.__dict__["key"].__set__
_set_topic_type = TopicId.__dict__["type"].__set__
_set_source = TopicId.__dict__["source"].__set__


def _text_schema(cls: type[AgentId] | type[TopicId]) -> CoreSchema:
    """So that an id can be a field of a message: it travels as `type/key`."""
    from pydantic_core import core_schema

    from_text = core_schema.no_info_after_validator_function(cls.from_str, core_schema.str_schema())
    return core_schema.union_schema(
        [core_schema.is_instance_schema(cls), from_text],
        serialization=core_schema.plain_serializer_function_ser_schema(str),
    )


DIGITS: Final = "0123456789abcdefghijklmnopqrstuvwxyz"


def _base36(number: int) -> str:
    text = ""
    while True:
        number, digit = divmod(number, 36)
        text = DIGITS[digit] + text
        if not number:
            return text


_forks = 0


def _count_fork() -> None:
    global _forks  # noqa: PLW0603
    _forks += 1


os.register_at_fork(after_in_child=_count_fork)


class IdSource:
    """Cheap ids that no other process makes: eight random characters and a counter, new after a fork."""

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._forks = _forks
        self._prefix = _base36(int.from_bytes(os.urandom(6), "big") % 36**8).rjust(8, "0")
        self._count = 0

    def next(self) -> str:
        """A new id, 9 to 16 characters."""
        if self._forks != _forks:  # os.getpid() would take a third of the time of an id
            self._renew()
        self._count += 1
        return f"{self._prefix}{self._count:x}"


# base64.b64encode() would make this table anew for each id.
_IN_IDS: Final = bytes.maketrans(b"+/", b"._")


def derived_id(parent: str, agent: str, ordinal: int, salt: bytes = b"") -> str:
    """The id of the `ordinal`-th message that `agent` sends while handling `parent`: always the same.

    Returns:
        16 characters that hold 96 bits: the dedupe window may hold millions of ids, and no two may meet.
    """
    digest = hashlib.blake2b(f"{parent}\0{agent}\0{ordinal}\0".encode() + salt, digest_size=12)
    return b2a_base64(digest.digest(), newline=False).translate(_IN_IDS).decode()
