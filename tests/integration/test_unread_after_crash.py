"""What waits, after a server has read its file again or a replica has taken over: its own count is another one then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack
from typing import Any

import pytest
import redis

from callboard import App, MessageContext, RedisAgentRuntime, RoutedAgent, TopicId, event
from callboard.broker import BrokerSettings
from callboard.broker.errors import OverloadedError
from callboard.broker.redis.operations.inspect import overview
from callboard.broker.redis.operations.views import AgentTypeView
from tests.helpers.eventually import eventually
from tests.helpers.servers import Kind, ServerProcess, kinds

NAMESPACE = "replayed"
FEW, HANDLED, LEFT = 3, 150, 5
STREAM = f"callboard:{{{NAMESPACE}}}:topic:food"

app = App(NAMESPACE)


@app.agent("eater", topics=["food"])
class Eater(RoutedAgent):
    """Handles everything at once."""

    @event
    async def on_text(self, message: str, ctx: MessageContext) -> None:
        return


def _settings(server: ServerProcess, **given: Any) -> BrokerSettings:
    return BrokerSettings(url=server.url, namespace=NAMESPACE, beat_every=0.1, **given)


async def _is_written(client: Any, before: int) -> None:
    def is_written() -> bool:
        facts = client.info("persistence")
        return facts["aof_rewrites"] > before and not facts["aof_rewrite_in_progress"]

    await eventually(is_written, within=30)


async def _write_file_anew(client: Any) -> None:
    """As workers do at their start: from then on the file has how much each group has read, as of now."""
    await _is_written(client, -1)
    before = client.info("persistence")["aof_rewrites"]
    client.bgrewriteaof()
    await _is_written(client, before)


async def _publish(runtime: RedisAgentRuntime, count: int) -> None:
    for number in range(count):
        await runtime.publish_message(f"m{number}", TopicId("food", f"k{number % 7}"))


async def _handle(server: ServerProcess, count: int) -> None:
    async with app.running(settings=_settings(server)) as runtime:
        await _publish(runtime, count)
        await runtime.stop_when_idle()


async def _crashed(server: ServerProcess) -> ServerProcess:
    with redis.Redis.from_url(server.url) as client:
        await _write_file_anew(client)
    await _handle(server, HANDLED)
    server.kill()
    server.start()
    return server


async def _replaced(server: ServerProcess, replica: ServerProcess) -> ServerProcess:
    with redis.Redis.from_url(replica.url) as client, redis.Redis.from_url(server.url) as primary:
        client.replicaof("127.0.0.1", server.port)
        await eventually(lambda: client.info("replication").get("master_link_status") == "up", within=30)
        await _handle(server, HANDLED)
        primary.wait(1, 10_000)
        server.kill()
        client.replicaof("NO", "ONE")
    return replica


@pytest.fixture(params=[(kind, how) for kind in kinds() for how in ("crash", "failover")], ids=" ".join)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[ServerProcess]:
    """A server on which all was handled and which has lost what its own count goes by."""
    kind: Kind
    kind, how = request.param
    options = ("--repl-diskless-sync-delay", "0")
    with ExitStack() as stack:
        first = stack.enter_context(ServerProcess(kind, access="tcp", persistent=True, options=options))
        await _handle(first, FEW)
        if how == "crash":
            yield await _crashed(first)
        else:
            yield await _replaced(first, stack.enter_context(ServerProcess(kind, access="tcp")))


async def _eater(server: ServerProcess) -> AgentTypeView:
    async with app.running(settings=_settings(server), types=()) as runtime:
        (eater,) = (await overview(runtime.transport, ages=True)).types
        return eater


async def test_nothing_waits_when_all_is_handled(server: ServerProcess) -> None:
    eater = await _eater(server)
    assert (eater.waiting, eater.oldest) == (0, None)


async def test_what_was_published_since_is_what_waits(server: ServerProcess) -> None:
    async with app.running(settings=_settings(server), types=()) as runtime:
        await _publish(runtime, LEFT)
    eater = await _eater(server)
    assert eater.waiting == LEFT
    assert eater.oldest is not None


async def test_publishers_have_room_for_as_much_as_max_backlog(server: ServerProcess) -> None:
    limited = _settings(server, max_backlog=LEFT, when_full="reject")
    async with app.running(settings=limited, types=()) as runtime:
        await _publish(runtime, LEFT)
        with pytest.raises(OverloadedError):
            await _publish(runtime, 1)


async def test_an_idle_worker_sets_the_count_right(server: ServerProcess) -> None:
    """For publishers that may not look at the stream."""
    with redis.Redis.from_url(server.url) as client:
        async with app.running(settings=_settings(server)):
            await eventually(lambda: client.xinfo_groups(STREAM)[0]["lag"] == 0, within=10)
        async with app.running(settings=_settings(server), types=()) as runtime:
            await _publish(runtime, LEFT)
        assert client.xinfo_groups(STREAM)[0]["lag"] == LEFT
