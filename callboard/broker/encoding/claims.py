"""Claim checks: a body too large for a stream lies in a key of its own, and its entry holds a pointer to it.

The pointer is JSON, so that a person who looks at the stream sees what is there: `{"claim":"blob:8x2k1","bytes":104857600}`.
Hohpe and Woolf, Enterprise Integration Patterns, call this a claim check.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from callboard.broker.errors import ClaimTooLargeError, DecodeError, PayloadTooLargeError

if TYPE_CHECKING:
    from callboard.broker.settings import BrokerSettings

POINTER: Final = re.compile(rb'\{"claim":"(blob:[^"\s]{1,200})","bytes":(\d{1,12})\}\Z')
PLAIN_ID: Final = re.compile(r"[\w.-]{1,100}\Z", re.ASCII)


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
        PayloadTooLargeError: it is too large for an entry, and is not to go beside the stream.
        ClaimTooLargeError: it is larger than `max_claim`.
    """
    is_large = size > settings.max_payload
    if not (claim_check or (is_large and claim_check is None and settings.claim_check)):
        if is_large:
            raise PayloadTooLargeError(size, settings.max_payload)
        return False
    if size > settings.max_claim:
        raise ClaimTooLargeError(size, settings.max_claim)
    return True


def reply_claim(request_id: str, body: bytes) -> Claim:
    """The bytes of a reply. Their name follows from the request, so that they go with the record of it."""
    if not PLAIN_ID.match(request_id):
        request_id = hashlib.blake2b(request_id.encode(errors="surrogatepass"), digest_size=12).hexdigest()
    return Claim(f"blob:{request_id}:reply", body)
