"""Connections that died without a word: one that is noticed says something about the others of the process."""

from __future__ import annotations

import asyncio

import pytest

from callboard.broker import BrokerSettings
from callboard.broker.errors import ConnectionLostError, ServerUnavailableError
from callboard.broker.redis.client.transport import RedisTransport
from tests.helpers.peers import Client, Peer, peer


class Network:
    """Answers every command, until the connections that exist fall silent."""

    def __init__(self) -> None:
        self.silent_before = 0
        self.made = 0

    async def talk(self, client: Client) -> None:
        self.made += 1
        number = self.made
        while await client.command() is not None:
            if number > self.silent_before:
                await client.say(b"+OK\r\n")

    def fall_silent(self) -> None:
        self.silent_before = self.made


async def _opened(network: Network, there: Peer) -> RedisTransport:
    made = RedisTransport(there.url, BrokerSettings(namespace="half-open", socket_timeout=0.3))
    assert await made.admin.command("PING") == b"OK"
    return made


async def test_when_one_connection_does_not_answer_the_idle_ones_are_made_again() -> None:
    """Else each of them would cost one `socket_timeout` more, when it is used next."""
    network = Network()
    async with peer(network.talk) as there:
        transport = await _opened(network, there)
        other = transport.link("other")
        assert await other.command("PING") == b"OK"
        network.fall_silent()
        with pytest.raises(ConnectionLostError):
            await other.command("PING")
        assert await transport.admin.command("PING") == b"OK"
        other.close()
        await transport.close()


async def test_a_connection_that_waits_for_an_answer_is_left_alone() -> None:
    """It has its own limit: a blocking command may well wait longer than another call."""
    network = Network()
    async with peer(network.talk) as there:
        transport = await _opened(network, there)
        waiting, hurried = transport.link("waiting"), transport.link("hurried")
        await waiting.command("PING")
        await hurried.command("PING")
        network.fall_silent()
        blocking = asyncio.create_task(waiting.command("BLPOP", "bell", 0, timeout=60))
        with pytest.raises(ConnectionLostError):
            await hurried.command("PING")
        assert waiting.is_open
        assert not blocking.done()
        waiting.break_off("the test is over")
        with pytest.raises(ConnectionLostError):
            await blocking
        hurried.close()
        waiting.close()
        await transport.close()


async def test_when_a_server_is_the_primary_no_more_nothing_waits_there_any_longer() -> None:
    """What waits for something to come, such as a reply, would wait for ever."""

    async def replica(client: Client) -> None:
        while (command := await client.command()) is not None:
            if command[0] != b"BLPOP":
                await client.say(b"+OK\r\n" if command[0] == b"PING" else b"-READONLY You can't write\r\n")

    async with peer(replica) as there:
        transport = RedisTransport(there.url, BrokerSettings(namespace="demoted", socket_timeout=30.0))
        waiting = transport.link("waiting")
        await waiting.command("PING")
        blocked = asyncio.create_task(waiting.command("BLPOP", "bell", "0"))
        await asyncio.sleep(0)
        with pytest.raises(ServerUnavailableError):
            await transport.admin.command("SET", "a", "b")
        with pytest.raises(ConnectionLostError, match="the primary no more"):
            await asyncio.wait_for(blocked, 10)
        assert not transport.admin.is_open
        waiting.close()
        await transport.close()
