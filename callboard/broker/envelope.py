"""A message as it travels: what goes along with its body, the entry that holds it, and the delivery of it.

An entry has up to seven fields: id, type, key, from, at, head, body. The first five are plain text, to be read with
redis-cli. `head` holds what is not the default, as msgpack with short names. What is empty is mostly left out, and so is
`at` where the entry's own id begins with it.

A body that is too large for an entry lies beside the stream, and the entry's body is a pointer to it. The pointer is
JSON, so that a person who looks at the stream sees what is there: `{"claim":"blob:8x2k1","bytes":104857600}`. Hohpe and
Woolf, Enterprise Integration Patterns, call this a claim check.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from msgpack import Packer

from .codec import SharedBody, packb
from .errors import (
    DecodeError,
    EncodeError,
    PayloadTooLargeError,
    too_long,
    waited_in,
)
from .ids import MOST_NAME
from .limits import DEFAULT, Limits, unpack

if TYPE_CHECKING:
    from .settings import BrokerSettings


Kind = Literal["event", "request", "reply"]
Route = tuple[str, str]

# What is longer becomes a dead letter where it is read, because a person may have added it by hand: lua/turn/read.lua.
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
        claimed: the body is a pointer to bytes beside the stream, see `Pointer`.
        routes: agents of the chain that let requests in while they wait -> the message that each of them handles,
            and the request that it waits for.
        run: id of the run that it belongs to; what its handler sends carries it on.
        if_buried: its sender is told when it becomes a dead letter, see retry.py.
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
    """A condition on a message that leaves a handler before its commit: else another worker has its message.

    Attributes:
        worker: name of the worker.
        held: what it has to hold, `<type> <stream> <entry id>`, as `own:<worker>` has it.
    """

    worker: str
    held: bytes


NO_FENCE: Final = ("", "")
"""The values in the place of a fence where there is none, among the arguments of a Lua function."""


class Claim(NamedTuple):
    """Bytes that leave together with an entry that points to them.

    Attributes:
        name: suffix of their key, such as `blob:8x2k1`.
        body: the encoded message.
    """

    name: str
    body: bytes

    @property
    def pointer(self) -> bytes:
        """The body of the entry."""
        return json.dumps({"claim": self.name, "bytes": len(self.body)}, separators=(",", ":")).encode()


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
    """Refuses a message that no worker could read.

    Raises:
        InvalidIdError: one of these is longer than it may be.
    """
    names = (("id", id, MOST_NAME), ("type", type, MOST_NAME), ("key", key, MOST_NAME))
    for what, name, most in (*names, ("sender", sender or "", MOST_SENDER)):
        size = len(name.encode("utf-8", "surrogatepass"))
        if size > most:
            raise too_long(what, size, most)


# To be sent

# The three below make an envelope that is about to be sent. A new field of Envelope goes into each of them, into `head_of`
# and into HEAD_FIELDS. They hand the tuple over whole: Envelope's own constructor
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
        InvalidIdError: see check_names.
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
        InvalidIdError: see check_names.
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
    """The fields that are not the default, packed; b"" when all are.

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
    """Fields before and behind the deadline in all heads that begin so; None: they end with something else."""
    try:
        values = _read_fields(start + bytes(DEADLINE), DEFAULT)
    except DecodeError:
        return None
    return (values[:DEADLINE_AT], values[DEADLINE_AT + 1 :]) if values[DEADLINE_AT] == 0 else None


# The fields of a head

KINDS: Final = frozenset({"event", "request", "reply"})


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


def _routes(value: Any, name: str) -> dict[str, tuple[str, str]]:
    if type(value) is not dict:
        raise _wrong(name, "a map of pairs of texts")
    made = {agent: _texts(pair, name) for agent, pair in value.items()}
    if any(len(pair) != 2 for pair in made.values()):
        raise _wrong(name, "a map of pairs of texts")
    return {agent: (pair[0], pair[1]) for agent, pair in made.items()}


def _wrong(name: str, wanted: str) -> DecodeError:
    return DecodeError(f"the field `{name}` of the head has to be {wanted}")


HEAD_FIELDS: Final[Mapping[str, tuple[str, Callable[[Any, str], Any]]]] = {
    "kind": ("k", _kind),
    "topic": ("t", _text),
    "reply_to": ("r", _text),
    "recorded": ("j", _flag),
    "cause": ("c", _text),
    "chain": ("h", _texts),
    "deadline": ("d", _time),
    "expires_in": ("l", _time),
    "cancellable": ("q", _flag),
    "version": ("v", _version),
    "error": ("e", _flag),
    "claimed": ("b", _flag),
    "routes": ("w", _routes),
    "run": ("u", _text),
    "if_buried": ("f", _flag),
}

# Short name -> its place behind the six fields that every envelope has, and what checks the value.
READERS: Final = {
    HEAD_FIELDS[name][0]: (place, HEAD_FIELDS[name][1])
    for place, name in enumerate(Envelope._fields[FIRST_OF_HEAD:])
}


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


# As a delivery

EntryValues = Sequence[bytes]
"""A delivery as the server gives it: agent type, stream, entry id, tries, and the seven values of its entry."""

RECEIPT: Final = 4  # values before those of the entry
MOST_SHARED: Final = 262_144
"""Bytes of bodies in one answer that are unpacked once for several types, and kept in the meantime. What is unpacked is
larger: mostly three times as large, and up to seventy times."""


class Holder(Protocol):
    """The mailbox of an agent, which holds its deliveries in one worker."""

    @property
    def has_work(self) -> bool:
        """Whether something of it is handled, waits, or is not committed yet."""
        ...

    @property
    def ended(self) -> bool:
        """Whether the worker cancelled its handler."""
        ...


class Receipt:
    """Where a delivery came from, and what its commit has to name; bytes as the server gave them.

    Attributes:
        raw_type: agent type.
        stream: suffix of the stream it came from, such as b"topic:visits".
        entry: id of the entry in that stream.
        raw_key: key of the agent; made by other programs, it need not be UTF-8.
        tries: b"" or b"<attempts> <first ms> <deaths> <reason>" of earlier attempts, and of deaths of workers that held
            it among others; begins with b"+" for a request that was cancelled before it was taken.
        worker: name of the worker that it was given to.
    """

    __slots__ = ("entry", "raw_key", "raw_type", "stream", "tries", "worker")

    raw_type: bytes
    stream: bytes
    entry: bytes
    raw_key: bytes
    tries: bytes
    worker: str

    @property
    def fence(self) -> Fence:
        """The condition on all that its handler sends or records before its commit."""
        return Fence(self.worker, b" ".join(self.reference))

    @property
    def reference(self) -> tuple[bytes, bytes, bytes]:
        """The three that make it unique: agent type, stream, entry."""
        return self.raw_type, self.stream, self.entry

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return int(self.tries.split(b" ", 1)[0]) + 1 if self.tries else 1

    @property
    def is_cancelled(self) -> bool:
        """Whether it is a request that was cancelled before it was taken."""
        return self.tries.startswith(b"+")

    @property
    def first_tried(self) -> str:
        """When it was tried first, or may have been, server ms as text; "" when this is the first attempt."""
        return self.tries.split(b" ", 2)[1].decode() if self.tries else ""

    @property
    def waited(self) -> float:
        """Seconds that it has waited so far for an outage to end."""
        reason = self.tries.split(b" ", 3)[3:]
        return waited_in(reason[0].decode(errors="replace")) if reason else 0.0


class Delivery(Receipt):
    """An entry as a worker got it. It is a receipt itself: an object less for every message.

    Attributes:
        envelope: the message; of an entry that can't be decoded, as much as could be read.
        broken: why it can't be decoded, or None.
        state: data of a persistent agent before this message; None when this worker wrote it last.
        state_version: number of commits that the state has seen.
        has_logs: the state has logs, which did not come along.
        state_unknown: the state has to be asked for (after a lost connection).
        claim: key suffix of the bytes that the body points to, once they were read.
        mailbox: the Mailbox that holds it in this worker, or None. (A class above this one: it is made of deliveries.)
        shared: what it has in common with other deliveries of the same answer that have the same body; None: nothing.
    """

    __slots__ = (
        "broken",
        "claim",
        "envelope",
        "has_logs",
        "mailbox",
        "shared",
        "state",
        "state_unknown",
        "state_version",
    )

    def __init__(
        self,
        raw_type: bytes,
        stream: bytes,
        entry: bytes,
        tries: bytes,
        raw_key: bytes,
        envelope: Envelope,
        broken: DecodeError | None = None,
        worker: str = "",
    ) -> None:
        self.raw_type = raw_type
        self.stream = stream
        self.entry = entry
        self.tries = tries
        self.worker = worker
        self.raw_key = raw_key
        self.envelope = envelope
        self.broken = broken
        self.state: bytes | None = None
        self.state_version = 0
        self.has_logs = False
        self.state_unknown = False
        self.claim: str | None = None
        self.mailbox: Any = None
        self.shared: SharedBody | None = None

    def like(self, raw_type: bytes, stream: bytes, entry: bytes, tries: bytes) -> Delivery:
        """The same message for another agent type: what it holds is read once for both."""
        if self.shared is None:
            self.shared = SharedBody()
        self.shared.readers += 1
        made = Delivery(raw_type, stream, entry, tries, self.raw_key, self.envelope, self.broken, self.worker)
        made.shared = self.shared
        return made


def read_deliveries(
    found: Sequence[EntryValues], limits: Limits = DEFAULT, worker: str = ""
) -> list[Delivery]:
    """The deliveries of one answer, see `read_delivery`; what several agent types get of one message is read once.

    Args:
        found: the values of each.
        limits: what a head may be.
        worker: name of the worker that they are given to.
    """
    if not found or found[0][0] == found[-1][0]:  # all of one type, as nearly always: they come type by type
        return [read_delivery(values, limits, worker) for values in found]
    known: dict[tuple[bytes, bytes], tuple[EntryValues, Delivery]] = {}
    deliveries, room = [], MOST_SHARED
    for values in found:
        raw_type, stream, entry, tries = values[:RECEIPT]
        message = values[RECEIPT:]
        seen = known.get((stream, entry))
        # guard: what is not the same message is read apart
        if seen is not None and seen[0] == message:
            deliveries.append(seen[1].like(raw_type, stream, entry, tries))
            continue
        delivery = read_delivery(values, limits, worker)
        deliveries.append(delivery)
        room -= len(delivery.envelope.body)
        if room >= 0:
            known[stream, entry] = message, delivery
    return deliveries


def read_delivery(values: EntryValues, limits: Limits = DEFAULT, worker: str = "") -> Delivery:
    """A delivery from what the server gives. Never fails: junk becomes a delivery that is `broken`.

    An entry that was added by hand may lack an id: it is made of its stream and the entry's own id. Most entries have no
    time, since their own id says it.

    Args:
        values: agent type, stream, entry id, tries, and the seven values of the entry, see envelope.py.
        limits: what a head may be.
        worker: name of the worker that it is given to.
    """
    raw_type, stream, entry, tries, name, kind, raw_key, sender, at, head, body = values
    fields = (
        name or name_of(stream, entry),
        kind,
        raw_key,
        sender,
        at or entry.partition(b"-")[0],
        head,
        body,
    )
    try:
        envelope = decode(fields, limits)
        return Delivery(raw_type, stream, entry, tries, raw_key, envelope, None, worker)
    except DecodeError as error:
        return Delivery(raw_type, stream, entry, tries, raw_key, _salvaged(fields, limits), error, worker)


def name_of(stream: bytes, entry: bytes) -> bytes:
    """The id of a message whose entry a person added without one. entries.lua says the same.

    The entry's own id alone may stand in another stream as well, and two messages would share what is recorded for one.
    """
    return stream + b":" + entry


def _salvaged(fields: Sequence[bytes], limits: Limits) -> Envelope:
    """As much as can be read of a broken entry: a requester whose head is whole is told what was wrong with the rest."""
    name, message_type, raw_key, sender, _, head, body = fields
    shown = message_type.decode(errors="replace")
    try:
        return decode((name, b"", raw_key, sender, b"0", head, body), limits)._replace(type=shown)
    except DecodeError:
        return Envelope(name.decode(errors="replace"), shown, raw_key.decode(errors="replace"), None, 0, body)


# As a pointer to bytes beside the stream

POINTER: Final = re.compile(rb'\{"claim":"(blob:[^"\s]{1,200})","bytes":(\d{1,12})\}\Z')
PLAIN_ID: Final = re.compile(r"[\w.-]{1,100}\Z", re.ASCII)


class Pointer(NamedTuple):
    """The pointer of an entry to its bytes: the suffix of their Redis key, and their number."""

    name: str
    size: int

    @classmethod
    def read(cls, body: bytes) -> Pointer:
        """Reads the body of an entry that says it is a pointer.

        Raises:
            DecodeError: it is none.
        """
        found = POINTER.match(body)
        if found is None:
            raise DecodeError("the body is no pointer to bytes beside the stream, although the head says so")
        return cls(found[1].decode(), int(found[2]))


def shown(body: bytes) -> str | None:
    """The text that a person is shown instead of a pointer; None when the body is not a pointer."""
    try:
        pointer = Pointer.read(body)
    except DecodeError:
        return None
    return f"{pointer.size:,} bytes in {pointer.name}, field `body`"


def is_set_aside(size: int, claim_check: bool | None, settings: BrokerSettings) -> bool:
    """Whether a body goes beside the stream.

    Args:
        size: of the body, bytes.
        claim_check: True: whatever its size is; False: never; None: as `claim_check` of the settings says, when it
            is larger than `max_payload`.
        settings: the limits.

    Raises:
        PayloadTooLargeError: it is too large for an entry, and is not to go beside the stream; or larger than `max_claim`.
    """
    is_large = size > settings.max_payload
    if not (claim_check or (is_large and claim_check is None and settings.claim_check)):
        if is_large:
            raise PayloadTooLargeError(size, settings.max_payload)
        return False
    if size > settings.max_claim:
        raise PayloadTooLargeError(size, settings.max_claim, is_claim=True)
    return True


def reply_claim(request_id: str, body: bytes) -> Claim:
    """The bytes of a reply. Their name follows from the request, so that they go with the record of it."""
    if not PLAIN_ID.match(request_id):
        request_id = hashlib.blake2b(request_id.encode(errors="surrogatepass"), digest_size=12).hexdigest()
    return Claim(f"blob:{request_id}:reply", body)
