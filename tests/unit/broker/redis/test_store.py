from __future__ import annotations

import pytest

from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.store import RedisStore
from tests.unit.broker.redis.servers import server_url, transport

__all__ = ["server_url", "transport"]


@pytest.fixture
def store(transport: RedisTransport) -> RedisStore:
    return RedisStore(transport.admin)


async def lifetime(transport: RedisTransport, name: str) -> int:
    """Milliseconds that a name still has."""
    return int(await transport.admin.command("PTTL", transport.keys.of(f"store:{name}")))


async def test_a_value_has_a_lifetime(store: RedisStore, transport: RedisTransport) -> None:
    assert await store.get("a") is None
    await store.set("a", b"\x00one", 60)
    assert await store.get("a") == b"\x00one"
    assert 0 < await lifetime(transport, "a") <= 60_000
    await store.set("a", b"", 0)
    assert await lifetime(transport, "a") <= 1


async def test_a_table_has_a_lifetime_that_begins_again(store: RedisStore, transport: RedisTransport) -> None:
    await store.put("t", "x", b"1", 60)
    await store.add("t", {"y": 1.5, "z": 1e-09}, 600)
    assert 60_000 < await lifetime(transport, "t") <= 600_000
    await store.add("t", {"y": -0.5}, 60)
    await store.remove("t", "x")
    table = await store.table("t")
    assert {name: float(value) for name, value in table.items()} == {"y": 1.0, "z": 1e-09}
    await store.remove("t", "nothing")


async def test_nothing_to_add_makes_no_table(store: RedisStore) -> None:
    await store.add("t", {}, 60)
    assert await store.table("t") == {}


async def test_everybody_in_the_namespace_sees_it(
    store: RedisStore, transport: RedisTransport, server_url: str
) -> None:
    other = RedisStore.at(server_url, transport.settings)
    await store.set("a", b"1", 60)
    assert await other.get("a") == b"1"
    other.close()
