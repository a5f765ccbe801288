"""Entries as `callboard tail` shows them."""

from __future__ import annotations

import msgpack

from callboard.broker.encoding.claims import Claim
from callboard.broker.envelope import Envelope, head_of
from callboard.broker.redis.operations.entries import read_entry
from callboard.cli.commands.tail import as_data, as_line


def test_bytes_beside_the_stream_are_named() -> None:
    pointer = Claim("blob:8x2k1", b"x" * 5000).pointer
    head = head_of(Envelope("m1", "Scan", "k", None, 5, pointer, claimed=True))
    flat = [
        b"id",
        b"m1",
        b"type",
        b"Scan",
        b"key",
        b"k",
        b"from",
        b"",
        b"at",
        b"5",
        b"head",
        head,
        b"body",
        pointer,
    ]
    entry = read_entry("topic:pages", (b"1763700000000-0", flat))
    assert as_line(entry).endswith("pages/k Scan 5,000 bytes in blob:8x2k1, field `body`")
    assert as_data(entry)["body"] == {"claim": "blob:8x2k1", "bytes": 5000}


def test_a_message_that_only_looks_like_it_is_shown_as_it_is() -> None:
    body = msgpack.packb({"claim": "blob:8x2k1", "bytes": 5})
    flat = [
        b"id",
        b"m1",
        b"type",
        b"Scan",
        b"key",
        b"k",
        b"from",
        b"",
        b"at",
        b"5",
        b"head",
        b"",
        b"body",
        body,
    ]
    entry = read_entry("topic:pages", (b"1763700000000-0", flat))
    assert as_line(entry).endswith('{"claim": "blob:8x2k1", "bytes": 5}')
