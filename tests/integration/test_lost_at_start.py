"""A worker begins although an answer is lost on the way: it would end, and whoever started it had to start it again."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from callboard import TopicId
from callboard.broker import BrokerSettings
from callboard.broker.errors import ServerUnavailableError
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.eventually import eventually
from tests.helpers.forwarder import Forwarder
from tests.helpers.light_app import Visit, app
from tests.helpers.servers import ServerProcess, free_port


@pytest.fixture(scope="module")
def line() -> Iterator[Forwarder]:
    """The way to a server, on which answers can be lost."""
    with ServerProcess(access="tcp") as server, Forwarder(server.port) as made:
        yield made


def runtime_on(line: Forwarder) -> RedisAgentRuntime:
    settings = BrokerSettings(url=line.url, namespace=f"lost-{os.urandom(4).hex()}", keeper=False)
    return RedisAgentRuntime.from_app(app, settings=settings)


@pytest.mark.parametrize("word", [b"_declare", b"XREVRANGE", b"_join", b"_turn"])
async def test_it_begins_and_handles_a_message(line: Forwarder, word: bytes) -> None:
    line.loses = [word, word]
    async with runtime_on(line) as runtime:
        runtime.start()
        await runtime.ready()
        await runtime.publish_message(Visit(name="Ada"), TopicId("visits", "home"))
        await eventually(lambda: runtime.handled == 1)
        assert line.loses == []


async def test_a_server_that_is_not_there_is_told_at_once() -> None:
    settings = BrokerSettings(url=f"redis://127.0.0.1:{free_port()}", namespace="lost", connect_timeout=600.0)
    with pytest.raises(ServerUnavailableError):
        await RedisAgentRuntime.from_app(app, settings=settings).open()
