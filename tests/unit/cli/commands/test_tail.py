"""Entries as `callboard tail` shows them."""

from __future__ import annotations

import msgpack

from callboard.broker.envelope import Claim, Envelope, head_of
from callboard.broker.redis.operations.entries import StreamEntry, read_entry
from callboard.cli.commands.views import as_data, as_line


def _scan(head: bytes, body: bytes) -> StreamEntry:
    fields = {"id": b"m1", "type": b"Scan", "key": b"k", "from": b"", "at": b"5", "head": head, "body": body}
    flat = [word for name, value in fields.items() for word in (name.encode(), value)]
    return read_entry("topic:pages", (b"1763700000000-0", flat))


def test_bytes_beside_the_stream_are_named() -> None:
    pointer = Claim("blob:8x2k1", b"x" * 5000).pointer
    head = head_of(Envelope("m1", "Scan", "k", None, 5, pointer, claimed=True))
    entry = _scan(head, pointer)
    assert as_line(entry).endswith("pages/k Scan 5,000 bytes in blob:8x2k1, field `body`")
    assert as_data(entry)["body"] == {"claim": "blob:8x2k1", "bytes": 5000}


def test_a_message_that_only_looks_like_it_is_shown_as_it_is() -> None:
    body = msgpack.packb({"claim": "blob:8x2k1", "bytes": 5})
    entry = _scan(b"", body)
    assert as_line(entry).endswith('{"claim": "blob:8x2k1", "bytes": 5}')
