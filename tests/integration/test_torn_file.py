"""A server that was killed in the middle of a write, twice started again: half of a commit must not come back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from callboard import App, MessageContext, RoutedAgent, TopicId, event
from callboard.broker import BrokerSettings
from tests.helpers.eventually import eventually
from tests.helpers.servers import Kind, ServerProcess, kinds

NAMESPACE = "torn"
LIST, BALLAST = "half", "ballast"

app = App(NAMESPACE)


@app.agent("any", topics=["any"])
class AnyAgent(RoutedAgent):
    """Makes its process a worker."""

    @event
    async def on_text(self, message: str, ctx: MessageContext) -> None:
        return


@pytest.fixture(params=kinds())
def server(request: pytest.FixtureRequest) -> Iterator[ServerProcess]:
    kind: Kind = request.param
    with ServerProcess(kind, persistent=True) as started:
        yield started


def _append(server: ServerProcess, value: str) -> None:
    """What a commit does, several writes in one transaction; the last of them is long."""
    script = "redis.call('RPUSH', KEYS[1], ARGV[1]) redis.call('SET', KEYS[2], string.rep('x', 2000))"
    with redis.Redis.from_url(server.url) as client:
        client.eval(script, 2, LIST, BALLAST, value)


def _tear(server: ServerProcess) -> None:
    """The last write did not get as far as its end."""
    (file,) = (server.folder / "appendonlydir").glob("*.incr.aof")
    _cut(file, 1000)


def _cut(file: Path, count: int) -> None:
    file.write_bytes(file.read_bytes()[:-count])


def _list(server: ServerProcess) -> Any:
    with redis.Redis.from_url(server.url) as client:
        return client.lrange(LIST, 0, -1)


def _file_is_new(server: ServerProcess) -> bool:
    with redis.Redis.from_url(server.url) as client:
        facts = client.info("persistence")
    return bool(facts["aof_rewrites"] and not facts["aof_rewrite_in_progress"])


async def test_half_a_commit_does_not_come_back(server: ServerProcess) -> None:
    _append(server, "first")
    _append(server, "second")
    server.kill()
    _tear(server)
    server.start()
    assert _list(server) == [b"first"]
    _append(server, "second")  # as a worker does what the server has not got
    settings = BrokerSettings(url=server.url, namespace=NAMESPACE, beat_every=0.1)
    async with app.running(settings=settings) as runtime:
        await runtime.publish_message("any", TopicId("any", "a"))
        await eventually(lambda: _file_is_new(server), within=30)
    server.kill()
    server.start()
    assert _list(server) == [b"first", b"second"]
