"""Fetching what lies beside a stream."""

from __future__ import annotations

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.envelope import Claim, Envelope, Pointer, Posting
from callboard.broker.errors import ConnectionLostError, DecodeError, PayloadTooLargeError
from callboard.broker.redis.client.transport import RedisTransport
from tests.unit.broker.redis.servers import server_url, transport

__all__ = ["server_url", "transport"]


async def test_bytes_are_written_with_their_entry_and_come_back(transport: RedisTransport) -> None:
    claim = Claim("blob:b1", bytes(range(256)))
    assert await transport.publisher.post(_posting(claim))
    assert await transport.claims.fetch(Pointer.read(claim.pointer)) == claim.body
    await transport.claims.drop(Pointer.read(claim.pointer))
    with pytest.raises(DecodeError, match=r"256 bytes .* blob:b1"):
        await transport.claims.fetch(Pointer.read(claim.pointer))


async def test_other_bytes_are_not_taken_for_them(transport: RedisTransport) -> None:
    await transport.publisher.post(_posting(Claim("blob:b1", b"abc")))
    with pytest.raises(DecodeError):
        await transport.claims.fetch(Pointer("blob:b1", 5))


async def test_what_is_too_large_is_not_read(transport: RedisTransport, server_url: str) -> None:
    await transport.publisher.post(_posting(Claim("blob:b1", b"x" * 1001)))
    small = RedisTransport(server_url, BrokerSettings(namespace=transport.settings.namespace, max_claim=1000))
    with pytest.raises(PayloadTooLargeError, match="max_claim"):
        await small.claims.fetch(Pointer("blob:b1", 1001))
    await small.close()


async def test_nobody_waits_for_a_server_when_it_is_closed(transport: RedisTransport) -> None:
    transport.claims.close()
    with pytest.raises(ConnectionLostError):
        await transport.claims.fetch(Pointer("blob:b1", 3))


def _posting(claim: Claim) -> Posting:
    return Posting(Envelope("m1", "Visit", "ada", None, 0, claim.pointer), "topic:visits", claim=claim)
