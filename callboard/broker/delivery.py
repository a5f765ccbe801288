"""One entry of a stream, given to a worker to be handled: an envelope and its receipt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from .encoding.limits import DEFAULT, Limits
from .encoding.sharing import SharedBody
from .envelope import Envelope, Fence, decode
from .errors import DecodeError
from .outages import waited_in

Values = Sequence[bytes]
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
        """What has to be true when its handler sends or records something before its commit."""
        return Fence(self.worker, b" ".join(self.reference))

    @property
    def reference(self) -> tuple[bytes, bytes, bytes]:
        """What makes it unique: agent type, stream, entry."""
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
        mailbox: what holds it in this worker.
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
        self.mailbox: Holder | None = None
        self.shared: SharedBody | None = None

    def like(self, raw_type: bytes, stream: bytes, entry: bytes, tries: bytes) -> Delivery:
        """The same message for another agent type: what it holds is read once for both."""
        if self.shared is None:
            self.shared = SharedBody()
        self.shared.readers += 1
        made = Delivery(raw_type, stream, entry, tries, self.raw_key, self.envelope, self.broken, self.worker)
        made.shared = self.shared
        return made


def read_deliveries(found: Sequence[Values], limits: Limits = DEFAULT, worker: str = "") -> list[Delivery]:
    """The deliveries of one answer, see `read_delivery`; what several agent types get of one message is read once.

    Args:
        found: the values of each.
        limits: what a head may be.
        worker: name of the worker that they are given to.
    """
    if not found or found[0][0] == found[-1][0]:  # all of one type, as nearly always: they come type by type
        return [read_delivery(values, limits, worker) for values in found]
    known: dict[tuple[bytes, bytes], tuple[Values, Delivery]] = {}
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


def read_delivery(values: Values, limits: Limits = DEFAULT, worker: str = "") -> Delivery:
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
    """What can be read of a broken entry: a requester whose head is whole is told what was wrong with the rest."""
    name, message_type, raw_key, sender, _, head, body = fields
    shown = message_type.decode(errors="replace")
    try:
        return decode((name, b"", raw_key, sender, b"0", head, body), limits)._replace(type=shown)
    except DecodeError:
        return Envelope(name.decode(errors="replace"), shown, raw_key.decode(errors="replace"), None, 0, body)
