"""Envelopes as the fields of a stream entry: id, type, key, from, at, head, body.

The first five are plain text, to be read with redis-cli. `head` holds what is not the default, as msgpack with short
names; it is empty for an ordinary event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgpack

from .envelope import Envelope
from .errors import DecodeError
from .limits import DEFAULT, Limits, unpack

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
KINDS: Final = ("event", "request", "reply", "control")
DEFAULTS: Final = Envelope("", "", "", None, 0, b"")._asdict()


def head_of(envelope: Envelope) -> bytes:
    """What is not the default, packed; b"" when all is."""
    head = {
        short: value
        for name, short in SHORT.items()
        if (value := getattr(envelope, name)) != DEFAULTS[name]
    }
    packed: bytes = msgpack.packb(head) if head else b""
    return packed


def request_head(
    reply_to: str, deadline: int | None, chain: tuple[str, ...] = (), recorded: bool = False, version: int = 1
) -> bytes:
    """The head of a request; the same as head_of, without an envelope."""
    head: dict[str, Any] = {"k": "request", "r": reply_to, "d": deadline}
    if chain:
        head["h"] = chain
    if recorded:
        head["j"] = True
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
    """The seven values of an entry."""
    return [
        envelope.id.encode(),
        envelope.type.encode(),
        envelope.key.encode(),
        (envelope.sender or "").encode(),
        str(envelope.at).encode(),
        head_of(envelope),
        envelope.body,
    ]


def from_values(values: Sequence[bytes], limits: Limits = DEFAULT) -> Envelope:
    """Reads the seven values of an entry; the body stays as it is.

    Raises:
        DecodeError: a value is not UTF-8, not a number, or the head is not what it should be.
    """
    try:
        name, kind, key, sender, at, head, body = values
        plain = Envelope(name.decode(), kind.decode(), key.decode(), sender.decode() or None, int(at), body)
    except (ValueError, TypeError) as error:
        raise DecodeError(f"a field of the entry can't be read: {error}") from error
    if plain.sender is not None and "/" not in plain.sender:
        raise DecodeError("the field `from` has to be an agent, as type/key")
    return _with_head(plain, head, limits) if head else plain


def _with_head(plain: Envelope, head: bytes, limits: Limits) -> Envelope:
    fields = unpack(head, limits)
    if not isinstance(fields, dict):
        raise DecodeError("the head is not a map")
    try:
        return plain._replace(
            kind=_one_of(fields.get("k", "event")),
            topic=_text(fields.get("t")),
            reply_to=_text(fields.get("r")),
            recorded=bool(fields.get("j", False)),
            cause=_text(fields.get("c")),
            chain=tuple(str(agent) for agent in fields.get("h", ())),
            deadline=None if fields.get("d") is None else int(fields["d"]),
            version=int(fields.get("v", 1)),
            trace=fields.get("x"),
            error=bool(fields.get("e", False)),
        )
    except (ValueError, TypeError) as error:
        raise DecodeError(f"the head can't be read: {error}") from error


def _one_of(kind: object) -> Any:
    if kind not in KINDS:
        raise ValueError(f"kind {kind!r}")
    return kind


def _text(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} where text should be")
    return value
