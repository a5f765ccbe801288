"""Envelopes as the fields of a stream entry: id, type, key, from, at, head, body.

The first five are plain text, to be read with redis-cli. `head` holds what is not the default, as msgpack
with short names; it is empty for an ordinary event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgpack

from .envelope import Envelope
from .errors import DecodeError, EncodeError
from .limits import DEFAULT, Limits, unpack

FIELDS: Final = ("id", "type", "key", "from", "at", "head", "body")
SHORT: Final = {
    "kind": "k",
    "topic": "t",
    "reply_to": "r",
    "recorded": "j",
    "cause": "c",
    "chain": "h",
    "deadline": "d",
    "version": "v",
    "trace": "x",
    "error": "e",
}
KINDS: Final = frozenset({"event", "request", "reply", "control"})
FIRST_OF_HEAD: Final = Envelope._fields.index("kind")
DEFAULTS: Final = Envelope("", "", "", None, 0, b"")[FIRST_OF_HEAD:]
SHORT_NAMES: Final = tuple(SHORT[name] for name in Envelope._fields[FIRST_OF_HEAD:])


def head_of(envelope: Envelope) -> bytes:
    """What is not the default, packed; b"" when all is."""
    given = envelope[FIRST_OF_HEAD:]
    if given == DEFAULTS:
        return b""
    pairs = zip(SHORT_NAMES, given, DEFAULTS, strict=True)
    packed: bytes = msgpack.packb({short: value for short, value, default in pairs if value != default})
    return packed


def request_head(
    reply_to: str, deadline: int | None, chain: tuple[str, ...] = (), recorded: bool = False, version: int = 1
) -> bytes:
    """The head of a request; the same as head_of, without an envelope."""
    head: dict[str, Any] = {"k": "request", "r": reply_to}
    if chain:
        head["h"] = chain
    if recorded:
        head["j"] = True
    if deadline is not None:
        head["d"] = deadline
    if version != 1:
        head["v"] = version
    packed: bytes = msgpack.packb(head)
    return packed


def event_head(version: int = 1, cause: str | None = None) -> bytes:
    """The head of an event; the same as head_of, without an envelope."""
    if version == 1 and cause is None:
        return b""
    head: dict[str, Any] = {}
    if cause is not None:
        head["c"] = cause
    if version != 1:
        head["v"] = version
    packed: bytes = msgpack.packb(head)
    return packed


def head_of_reply(version: int, error: bool) -> bytes:
    """The head of a reply: nothing unless it is an error or has a version."""
    if version == 1 and not error:
        return b""
    packed: bytes = msgpack.packb({"e": True} if error else {"v": version})
    return packed


def to_values(envelope: Envelope) -> list[bytes]:
    """The seven values of an entry, in the order of FIELDS.

    Raises:
        EncodeError: a text has a character that UTF-8 does not have (half of a surrogate pair).
    """
    given = envelope[FIRST_OF_HEAD:]
    try:
        return [
            envelope[0].encode(),
            envelope[1].encode(),
            envelope[2].encode(),
            envelope[3].encode() if envelope[3] else b"",
            b"%d" % envelope[4],
            b"" if given == DEFAULTS else head_of(envelope),
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
        plain = Envelope(
            name.decode(), kind.decode(), key.decode(), sender.decode() if sender else None, int(at), body
        )
    except UnicodeDecodeError as error:
        raise DecodeError("the id, type, key or sender of the entry is not UTF-8 text") from error
    except (ValueError, TypeError) as error:
        raise DecodeError("the field `at` of the entry has to be a number of milliseconds") from error
    if sender and b"/" not in sender:
        raise DecodeError("the field `from` has to be an agent, as type/key")
    return _with_head(plain, head, limits) if head else plain


def _with_head(plain: Envelope, head: bytes, limits: Limits) -> Envelope:
    fields = unpack(head, limits)
    if not isinstance(fields, dict):
        raise DecodeError("the head is not a map")
    get = fields.get
    kind = get("k", "event")
    if not isinstance(kind, str) or kind not in KINDS:
        raise _wrong("k", f"one of {', '.join(sorted(KINDS))}")
    return Envelope._make(
        (
            *plain[:FIRST_OF_HEAD],
            kind,
            _text(get("t"), "t"),
            _text(get("r"), "r"),
            _flag(get("j"), "j"),
            _text(get("c"), "c"),
            _texts(get("h"), "h"),
            None if get("d") is None else _number(get("d"), "d", 0),
            _number(get("v", 1), "v", 1),
            _headers(get("x"), "x"),
            _flag(get("e"), "e"),
        )
    )


def _text(value: Any, name: str) -> str | None:
    if value is not None and type(value) is not str:
        raise _wrong(name, "text")
    return value


def _texts(value: Any, name: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if type(value) is not list or not all(type(item) is str for item in value):
        raise _wrong(name, "a list of texts")
    return tuple(value)


def _number(value: Any, name: str, least: int) -> int:
    if type(value) is not int or value < least:
        raise _wrong(name, f"a whole number, at least {least}")
    return value


def _flag(value: Any, name: str) -> bool:
    if value is not None and type(value) is not bool:
        raise _wrong(name, "true or false")
    return bool(value)


def _headers(value: Any, name: str) -> dict[str, str] | None:
    if value is None:
        return None
    if type(value) is not dict or not all(type(item) is str for item in value.values()):
        raise _wrong(name, "a map of texts")
    return value


def _wrong(name: str, wanted: str) -> DecodeError:
    return DecodeError(f"the field `{name}` of the head has to be {wanted}")
