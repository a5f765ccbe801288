"""A message as it travels: its body and what goes along with it, where it goes, and how the entry of a stream holds it.

An entry has up to seven fields: id, type, key, from, at, head, body. The first five are plain text, to be read with
redis-cli. `head` holds what is not the default, as msgpack with short names. What is empty is mostly left out, and so is
`at` where the entry's own id begins with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from msgpack import Packer

from .encoding.claims import Claim
from .encoding.limits import DEFAULT, Limits, unpack
from .encoding.plain import packb
from .errors import DecodeError, EncodeError, NameTooLongError
from .head_fields import HEAD_FIELDS
from .ids import MOST_NAME

Kind = Literal["event", "request", "reply"]
Route = tuple[str, str]

# What is longer becomes a dead letter where it is read, because somebody may have added it by hand: lua/turn/read.lua.
MOST_SENDER: Final = 2 * MOST_NAME + 1  # bytes of type/key
MOST_HEAD: Final = 65536  # bytes
# Characters of all of them together: then none is too long in any encoding.
SHORT_NAMES_AT_MOST: Final = MOST_NAME // 4


class Envelope(NamedTuple):
    """One event, request or reply. A NamedTuple: one is made for every message.

    Attributes:
        id: unique, and the same in every attempt; that of a reply is its request's.
        type: wire name of the message class; "error" where a reply carries one.
        key: key of the agent it is for (the topic's source); "" for a reply.
        sender: `type/key` of the agent that sent it, or None.
        at: when it was added to its stream, server ms; the server sets it.
        body: the encoded message.
        kind: event, request or reply.
        topic: topic type it was published to when the stream does not say it (replayed dead letters).
        reply_to: process that waits for the reply.
        recorded: the reply is kept, because a handler asked that may run again.
        cause: id of the message whose handler sent it.
        chain: agents whose requests led here, the nearest last.
        deadline: server ms until which the requester waits.
        expires_in: ms after `at` within which the handling of an event has to begin; later it is dropped.
        cancellable: its sender may cancel it.
        version: version of the message class.
        error: a reply that carries an error.
        claimed: the body is a pointer to bytes beside the stream, see claims.py.
        routes: agents of the chain that let requests in while they wait -> the message that each of them handles,
            and the request that it waits for.
        run: id of the run that it belongs to; what its handler sends carries it on.
        if_buried: its sender is told when it becomes a dead letter, see buried.py.
    """

    id: str
    type: str
    key: str
    sender: str | None
    at: int
    body: bytes
    kind: Kind = "event"
    topic: str | None = None
    reply_to: str | None = None
    recorded: bool = False
    cause: str | None = None
    chain: tuple[str, ...] = ()
    deadline: int | None = None
    expires_in: int | None = None
    cancellable: bool = False
    version: int = 1
    error: bool = False
    claimed: bool = False
    routes: Mapping[str, Route] | None = None
    run: str | None = None
    if_buried: bool = False


class Fence(NamedTuple):
    """What has to be true when a message leaves a handler before its commit: else another worker has its message.

    Attributes:
        worker: name of the worker.
        held: what it has to hold, `<type> <stream> <entry id>`, as `own:<worker>` has it.
    """

    worker: str
    held: bytes


class Posting(NamedTuple):
    """An envelope with where and when it goes: what leaves through the publisher or with a commit.

    Attributes:
        envelope: the message.
        stream: suffix of the stream, such as `topic:visits`, `inbox:clerk` or, for a reply, `reply:<process>`.
        due: 0 for now, a number of ms to wait, or, with a minus sign, a time of the server's clock in ms; a time in the
            past is now.
        idempotency_id: under which it is accepted once; of a reply: the request's id when the reply is recorded. "" for
            none.
        waiting: name of the process that waits for the reply of a recorded request, or "".
        claim: the bytes that the body points to.
        fence: of what leaves a handler before its commit.
    """

    envelope: Envelope
    stream: str
    due: int = 0
    idempotency_id: str = ""
    waiting: str = ""
    claim: Claim | None = None
    fence: Fence | None = None


def check_names(id: str, type: str, key: str, sender: str | None) -> None:
    """Refuses a message that nobody could read.

    Raises:
        NameTooLongError: one of these is longer than it may be.
    """
    names = (("id", id, MOST_NAME), ("type", type, MOST_NAME), ("key", key, MOST_NAME))
    for what, name, most in (*names, ("sender", sender or "", MOST_SENDER)):
        size = len(name.encode("utf-8", "surrogatepass"))
        if size > most:
            raise NameTooLongError(what, size, most)


# The three below make an envelope that is about to be sent. They hand the tuple over whole: Envelope's own constructor
# takes twice as long, with names for its fields three times, and one is made for every message.


def event(
    id: str,
    type: str,
    key: str,
    sender: str | None,
    body: bytes,
    cause: str | None = None,
    expires_in: int | None = None,
    version: int = 1,
    claimed: bool = False,
    run: str | None = None,
    if_buried: bool = False,
    cancellable: bool = False,
) -> Envelope:
    """An event that is about to be sent.

    Raises:
        NameTooLongError: see check_names.
    """
    if len(id) + len(type) + len(key) + (0 if sender is None else len(sender)) > SHORT_NAMES_AT_MOST:
        check_names(id, type, key, sender)
    # fmt: off
    return tuple.__new__(Envelope, (
        id, type, key, sender, 0, body,
        "event", None, None, False, cause, (), None, expires_in, cancellable, version, False, claimed, None, run, if_buried,
    ))
    # fmt: on


def request(
    id: str,
    type: str,
    key: str,
    sender: str | None,
    body: bytes,
    reply_to: str,
    recorded: bool,
    chain: tuple[str, ...],
    deadline: int,
    cancellable: bool,
    version: int,
    claimed: bool,
    routes: Mapping[str, Route] | None,
    run: str | None = None,
) -> Envelope:
    """A request that is about to be sent.

    Raises:
        NameTooLongError: see check_names.
    """
    if len(id) + len(type) + len(key) + (0 if sender is None else len(sender)) > SHORT_NAMES_AT_MOST:
        check_names(id, type, key, sender)
    # fmt: off
    return tuple.__new__(Envelope, (
        id, type, key, sender, 0, body,
        "request", None, reply_to, recorded, None, chain, deadline, None, cancellable, version, False, claimed, routes, run,
        False,
    ))
    # fmt: on


def reply(id: str, type: str, sender: str, body: bytes, version: int, claimed: bool) -> Envelope:
    """The reply to the request `id`."""
    # fmt: off
    return tuple.__new__(Envelope, (
        id, type, "", sender, 0, body,
        "reply", None, None, False, None, (), None, None, False, version, False, claimed, None, None, False,
    ))
    # fmt: on


# As an entry

FIELDS: Final = ("id", "type", "key", "from", "at", "head", "body")
FIRST_OF_HEAD: Final = Envelope._fields.index("kind")
DEFAULTS: Final = Envelope("", "", "", None, 0, b"")[FIRST_OF_HEAD:]

REPLY: Final = Envelope("", "", "", None, 0, b"", "reply")[FIRST_OF_HEAD:]
REPLY_HEAD: Final = packb({"k": "reply"})
# An event or a reply with nothing special is most of what travels: no head is packed or unpacked for it.
PLAIN: Final = {b"": DEFAULTS, REPLY_HEAD: REPLY}

# What a handler publishes has a head that names only its cause, mostly with an id of ours. It is written and read as bytes:
# a map with one field, `c`, and a text of up to 31 bytes, whose length is in the same byte as its kind.
CAUSE_AT: Final = Envelope._fields.index("cause") - FIRST_OF_HEAD
BEFORE_CAUSE, BEHIND_CAUSE = DEFAULTS[:CAUSE_AT], DEFAULTS[CAUSE_AT + 1 :]
CAUSE_HEAD: Final = packb({"c": ""})[:-1]
TEXT, MOST_TEXT = 0xA0, 31
CAUSE_HEADS: Final = tuple(CAUSE_HEAD + bytes([TEXT + length]) for length in range(MOST_TEXT + 1))

# What a program asks has a head with its process, which is the same in all of its requests, and its deadline: a map with
# three fields, of which the third is `d`, a number of eight bytes. The rest is read once for each process.
REQUEST_HEAD: Final = b"\x83" + packb({"k": "request", "r": ""})[1:-1]
DEADLINE_AT: Final = Envelope._fields.index("deadline") - FIRST_OF_HEAD
DEADLINE_HEAD, DEADLINE = packb({"d": 2**63})[1:-8], 8

# One packer for all heads takes half of packb's time, which makes one for every call. It keeps its buffer, so it is not
# for bodies; and it calls nothing of ours, so that no second call can begin before one has ended.
pack_head: Final[Callable[[dict[str, Any]], bytes]] = Packer().pack

Values = tuple[str, str, str, str, bytes, bytes]


def encode(envelope: Envelope) -> Values:
    """The values of an entry as the scripts take them: id, type, key, from, head, body. They add `at` themselves."""
    special = envelope[FIRST_OF_HEAD:]
    if special == DEFAULTS:
        head = b""
    elif (cause := envelope.cause) and special == (*BEFORE_CAUSE, cause, *BEHIND_CAUSE):
        head = _cause_head(cause) or head_of(envelope)
    else:
        head = REPLY_HEAD if special == REPLY else head_of(envelope)
    return envelope[0], envelope[1], envelope[2], envelope[3] or "", head, envelope[5]


def _cause_head(cause: str) -> bytes | None:
    """The head that names only a cause; None when it has to be packed."""
    if len(cause) > MOST_TEXT or not cause.isascii():
        return None
    return CAUSE_HEADS[len(cause)] + cause.encode()


def head_of(envelope: Envelope) -> bytes:  # noqa: C901 - one `if` per field
    """What is not the default, packed; b"" when all is.

    Written out: a loop over names and defaults takes three times as long, and every message of a handler has a head.

    Raises:
        EncodeError: a text of it has half of a surrogate pair, or all of it is longer than MOST_HEAD.
    """
    head: dict[str, Any] = {}
    (
        kind,
        topic,
        reply_to,
        recorded,
        cause,
        chain,
        deadline,
        expires_in,
        cancellable,
        version,
        error,
        claimed,
        routes,
        run,
        if_buried,
    ) = envelope[FIRST_OF_HEAD:]
    if kind != "event":
        head["k"] = kind
    if topic is not None:
        head["t"] = topic
    if reply_to is not None:
        head["r"] = reply_to
    if recorded:
        head["j"] = True
    if cause is not None:
        head["c"] = cause
    if chain:
        head["h"] = chain
    if deadline is not None:
        head["d"] = deadline
    if expires_in is not None:
        head["l"] = expires_in
    if cancellable:
        head["q"] = True
    if version != 1:
        head["v"] = version
    if error:
        head["e"] = True
    if claimed:
        head["b"] = True
    if routes is not None:
        head["w"] = routes
    if run is not None:
        head["u"] = run
    if if_buried:
        head["f"] = True
    try:
        packed = pack_head(head) if head else b""
    except UnicodeEncodeError as broken:
        raise EncodeError(envelope.type, "an id of its head has half of a surrogate pair") from broken
    if len(packed) > MOST_HEAD:
        raise EncodeError(
            envelope.type, f"its head has {len(packed):,} bytes, the limit is {MOST_HEAD:,}: use shorter keys"
        )
    return packed


def decode(values: Sequence[bytes], limits: Limits = DEFAULT) -> Envelope:
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
    # Envelope(*plain) would go through its own __new__ with fifteen defaults, which takes twice as long.
    special = (PLAIN.get(head) or _read_head(head, limits)) if head else DEFAULTS
    return tuple.__new__(Envelope, plain + special)


def _read_head(head: bytes, limits: Limits) -> tuple[Any, ...]:
    if head.startswith(REQUEST_HEAD) and head[-DEADLINE - len(DEADLINE_HEAD) : -DEADLINE] == DEADLINE_HEAD:
        around = _around_deadline(head[:-DEADLINE])
        if around is not None:
            before, behind = around
            return (*before, int.from_bytes(head[-DEADLINE:], "big"), *behind)
    if head.startswith(CAUSE_HEAD):
        length, text = head[len(CAUSE_HEAD) : len(CAUSE_HEAD) + 1], head[len(CAUSE_HEAD) + 1 :]
        # Before a longer text this byte says only that its length follows.
        if len(text) <= MOST_TEXT and length == b"%c" % (TEXT + len(text)) and text.isascii():
            return (*BEFORE_CAUSE, text.decode(), *BEHIND_CAUSE)
    return _read_fields(head, limits)


@lru_cache(maxsize=1024)
def _around_deadline(start: bytes) -> tuple[tuple[Any, ...], tuple[Any, ...]] | None:
    """What stands before and behind the deadline in all heads that begin so; None: they end with something else."""
    try:
        values = _read_fields(start + bytes(DEADLINE), DEFAULT)
    except DecodeError:
        return None
    return (values[:DEADLINE_AT], values[DEADLINE_AT + 1 :]) if values[DEADLINE_AT] == 0 else None


def _read_fields(head: bytes, limits: Limits) -> tuple[Any, ...]:
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


# Short name -> its place behind the six fields that every envelope has, and what checks the value.
READERS: Final = {
    HEAD_FIELDS[name][0]: (place, HEAD_FIELDS[name][1])
    for place, name in enumerate(Envelope._fields[FIRST_OF_HEAD:])
}
