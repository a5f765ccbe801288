from __future__ import annotations

from callboard.broker import BrokerSettings
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.operations import namespaces
from tests.unit.broker.redis.servers import server_url, transport

__all__ = ["server_url", "transport"]


async def test_a_namespace_exists_once_something_is_declared_in_it(
    transport: RedisTransport, server_url: str
) -> None:
    assert await namespaces.exists(transport)
    assert transport.keys.namespace in await namespaces.known(transport)
    other = RedisTransport(server_url, BrokerSettings(namespace="nobody-was-here"))
    assert not await namespaces.exists(other)
    assert "nobody-was-here" not in await namespaces.known(other)
    await other.close()
