"""One entry of a stream, given to this worker to be handled."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .mailbox import Mailbox


class Delivery:
    """An entry as the server gave it; decoding comes later, and fails alone.

    Attributes:
        raw_type: agent type, bytes.
        stream: suffix of the stream it came from, such as b"topic:visits".
        entry: id of the entry in that stream.
        tries: b"" or b"<attempts> <first ms> <reason>" of earlier attempts; ends with b" cancelled" for a request that
            was cancelled before it was taken.
        message_id, message_type, raw_key, sender, at, head, body: the fields of the entry, bytes.
        state: data of a persistent agent before this message; None when this worker wrote it last.
        state_version: number of commits that the state has seen.
        state_unknown: the state has to be asked for (after a lost connection).
        claim: key suffix of the bytes that the body points to, once that is known.
    """

    __slots__ = (
        "at",
        "body",
        "claim",
        "entry",
        "head",
        "mailbox",
        "message_id",
        "message_type",
        "raw_key",
        "raw_type",
        "sender",
        "state",
        "state_unknown",
        "state_version",
        "stream",
        "tries",
    )

    def __init__(
        self,
        raw_type: bytes,
        stream: bytes,
        entry: bytes,
        tries: bytes,
        message_id: bytes,
        message_type: bytes,
        raw_key: bytes,
        sender: bytes,
        at: bytes,
        head: bytes,
        body: bytes,
    ) -> None:
        self.raw_type = raw_type
        self.stream = stream
        self.entry = entry
        self.tries = tries
        self.message_id = message_id
        self.message_type = message_type
        self.raw_key = raw_key
        self.sender = sender
        self.at = at
        self.head = head
        self.body = body
        self.state: bytes | None = None
        self.state_version = 0
        self.state_unknown = False
        self.claim: str | None = None
        self.mailbox: Mailbox | None = None

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
        return self.tries.endswith(b" cancelled")

    @property
    def first_tried(self) -> str:
        """When the first attempt was, server ms as text; "" when this is the first."""
        return self.tries.split(b" ", 2)[1].decode() if self.tries else ""
