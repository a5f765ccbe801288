"""A line too slow for all that a worker has finished at once: it sends less at a time, and gets on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callboard import App, MessageContext, RoutedAgent, TopicId, event
from scripts.chaos_suite.proxy import Proxy
from tests.helpers.eventually import eventually
from tests.helpers.runtimes import Note, Runtimes
from tests.helpers.servers import ServerProcess

AGENTS, BODY = 40, 60_000  # all of it takes some seconds through the line, one alone a tenth of one


@pytest.fixture
async def line() -> AsyncIterator[tuple[ServerProcess, Proxy]]:
    """A server, and a line to it that lets everything through at first."""
    with ServerProcess() as server:
        proxy = Proxy(Path(server.url.partition("://")[2]))
        await proxy.start()
        yield server, proxy
        await proxy.close()


def app_of(started: list[str], gate: asyncio.Event) -> App:
    app = App("slow")

    @app.agent("worker", topics=["work"])
    class Worker(RoutedAgent):
        @event
        async def on_note(self, message: Note, ctx: MessageContext) -> None:
            started.append(self.id.key)
            await gate.wait()
            await self.publish_message(Note(text="x" * BODY), TopicId("results", self.id.key))

    return app


@pytest.mark.slow
async def test_what_does_not_pass_at_once_passes_bit_by_bit(line: tuple[ServerProcess, Proxy]) -> None:
    server, proxy = line
    started: list[str] = []
    gate = asyncio.Event()
    app = app_of(started, gate)
    near, far = Runtimes(server.url), Runtimes(proxy.url)
    far.namespace = near.namespace
    publisher = near.of(app, types=())
    worker = far.of(app, types=["worker"], settings={"socket_timeout": 2.0, "lease": 60.0, "beat_every": 1.0})
    worker.start()
    await worker.ready()
    for number in range(AGENTS):
        await publisher.publish_message(Note(text=""), TopicId("work", f"k{number}"))
    await eventually(lambda: len(started) == AGENTS, 60)
    proxy.drip = 1200
    gate.set()

    async def results() -> int:
        admin, keys = publisher.transport.admin, publisher.transport.keys
        return int(await admin.command("XLEN", keys.of("topic:results")))

    async def all_passed() -> bool:
        return await results() == AGENTS

    await eventually(all_passed, 150)
    proxy.drip = None
    await worker.stop_when_idle()
    assert await results() == AGENTS
    assert len(started) == AGENTS, "nothing was handled twice"
    await far.close()
    await near.close()
