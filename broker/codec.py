"""Envelopes as the fields of a stream entry: id, type, key, from, at, head, body.

The first five are plain text, to be read with redis-cli. `head` holds what is not the default, as msgpack
with short names; it is empty for an ordinary event.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from .envelope import Envelope, Route
from .errors import DecodeError, EncodeError
from .limits import DEFAULT, Limits, unpack
from .plain import packb

FIELDS: Final = ("id", "type", "key", "from", "at", "head", "body")
SHORT: Final = {
    "kind": "k",
    "topic": "t",
    "reply_to": "r",
    "recorded": "j",
    "cause": "c",
    "chain": "h",
    "deadline": "d",
    "cancellable": "q",
    "version": "v",
    "trace": "x",
    "error": "e",
    "claimed": "b",
    "routes": "w",
}
KINDS: Final = frozenset({"event", "request", "reply", "control"})
FIRST_OF_HEAD: Final = Envelope._fields.index("kind")
DEFAULTS: Final = Envelope("", "", "", None, 0, b"")[FIRST_OF_HEAD:]
SHORT_NAMES: Final = tuple(SHORT[name] for name in Envelope._fields[FIRST_OF_HEAD:])


def head_of(envelope: Envelope) -> bytes:
    """What is not the default, packed; b"" when all is."""
    pairs = zip(SHORT_NAMES, envelope[FIRST_OF_HEAD:], DEFAULTS, strict=True)
    head = {short: value for short, value, default in pairs if value != default}
    return packb(head) if head else b""


def request_head(
    reply_to: str,
    deadline: int | None,
    chain: tuple[str, ...] = (),
    recorded: bool = False,
    version: int = 1,
    cancellable: bool = False,
    claimed: bool = False,
    routes: Mapping[str, Route] | None = None,
) -> bytes:
    """The head of a request; the same as head_of, without an envelope."""
    head: dict[str, Any] = {"k": "request", "r": reply_to}
    if chain:
        head["h"] = chain
    if recorded:
        head["j"] = True
    if deadline is not None:
        head["d"] = deadline
    if cancellable:
        head["q"] = True
    if version != 1:
        head["v"] = version
    if claimed:
        head["b"] = True
    if routes:
        head["w"] = routes
    return packb(head)


def event_head(version: int = 1, cause: str | None = None, claimed: bool = False) -> bytes:
    """The head of an event; the same as head_of, without an envelope."""
    if version == 1 and cause is None and not claimed:
        return b""
    head: dict[str, Any] = {}
    if cause is not None:
        head["c"] = cause
    if version != 1:
        head["v"] = version
    if claimed:
        head["b"] = True
    return packb(head)


def head_of_reply(version: int, error: bool, claimed: bool = False) -> bytes:
    """The head of a reply: nothing unless it is an error, has a version or points to its bytes."""
    if version == 1 and not error and not claimed:
        return b""
    if error:
        return packb({"e": True})
    return packb({"v": version, "b": True} if claimed else {"v": version})


def to_values(envelope: Envelope) -> list[bytes]:
    """The seven values of an entry, in the order of FIELDS.

    Raises:
        EncodeError: a text has a character that UTF-8 does not have (half of a surrogate pair).
    """
    sender = envelope.sender
    try:
        return [
            envelope[0].encode(),
            envelope[1].encode(),
            envelope[2].encode(),
            sender.encode() if sender else b"",
            b"%d" % envelope[4],
            b"" if envelope[FIRST_OF_HEAD:] == DEFAULTS else head_of(envelope),
            envelope[5],
        ]
    except UnicodeEncodeError as error:
        raise EncodeError(envelope.type, "its id, key or sender has half of a surrogate pair") from error


def from_values(values: Sequence[bytes], limits: Limits = DEFAULT) -> Envelope:
    """Reads the seven values of an entry; the body stays as it is.

    Raises:
        DecodeError: a value is not UTF-8, not a number, or the head is not what it should be.
    """
    try:
        name, kind, key, sender, at, head, body = values
        plain = (
            name.decode(),
            kind.decode(),
            key.decode(),
            sender.decode() if sender else None,
            int(at),
            body,
        )
    except UnicodeDecodeError as error:
        raise DecodeError("the id, type, key or sender of the entry is not UTF-8 text") from error
    except (ValueError, TypeError) as error:
        raise DecodeError("the field `at` of the entry has to be a number of milliseconds") from error
    if sender and b"/" not in sender:
        raise DecodeError("the field `from` has to be an agent, as type/key")
    # Envelope(*plain) would go through its own __new__ with ten defaults, which takes twice as long.
    return tuple.__new__(Envelope, plain + (_read_head(head, limits) if head else DEFAULTS))


def _read_head(head: bytes, limits: Limits) -> tuple[Any, ...]:
    fields = unpack(head, limits)
    if not isinstance(fields, dict):
        raise DecodeError("the head is not a map")
    values = list(DEFAULTS)
    for short, value in fields.items():
        known = READERS.get(short)
        if known is not None and value is not None:
            place, read = known
            values[place] = read(value, short)
    return tuple(values)


def _kind(value: Any, name: str) -> str:
    if type(value) is not str or value not in KINDS:
        raise _wrong(name, f"one of {', '.join(sorted(KINDS))}")
    return value


def _text(value: Any, name: str) -> str:
    if type(value) is not str:
        raise _wrong(name, "text")
    return value


def _texts(value: Any, name: str) -> tuple[str, ...]:
    if type(value) is not list or not all(type(item) is str for item in value):
        raise _wrong(name, "a list of texts")
    return tuple(value)


def _time(value: Any, name: str) -> int:
    if type(value) is not int or value < 0:
        raise _wrong(name, "a number of milliseconds")
    return value


def _version(value: Any, name: str) -> int:
    if type(value) is not int or value < 1:
        raise _wrong(name, "a whole number, at least 1")
    return value


def _flag(value: Any, name: str) -> bool:
    if type(value) is not bool:
        raise _wrong(name, "true or false")
    return value


def _headers(value: Any, name: str) -> dict[str, str]:
    if type(value) is not dict or not all(type(item) is str for item in value.values()):
        raise _wrong(name, "a map of texts")
    return value


def _routes(value: Any, name: str) -> dict[str, Route]:
    if type(value) is not dict:
        raise _wrong(name, "a map of pairs of texts")
    made = {agent: _texts(pair, name) for agent, pair in value.items()}
    if any(len(pair) != 2 for pair in made.values()):
        raise _wrong(name, "a map of pairs of texts")
    return {agent: (pair[0], pair[1]) for agent, pair in made.items()}


def _wrong(name: str, wanted: str) -> DecodeError:
    return DecodeError(f"the field `{name}` of the head has to be {wanted}")


# Short name -> its place behind the six fields that every envelope has, and what checks the value.
READERS: Final[dict[str, tuple[int, Callable[[Any, str], Any]]]] = {
    SHORT[name]: (SHORT_NAMES.index(SHORT[name]), read)
    for name, read in {
        "kind": _kind,
        "topic": _text,
        "reply_to": _text,
        "recorded": _flag,
        "cause": _text,
        "chain": _texts,
        "deadline": _time,
        "cancellable": _flag,
        "version": _version,
        "trace": _headers,
        "error": _flag,
        "claimed": _flag,
        "routes": _routes,
    }.items()
}
