"""A Chroma server takes memories of several processes at once."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from callboard import App, TopicId
from callboard.broker import BrokerSettings
from callboard.broker.redis.operations.deadletters import list_letters
from callboard.broker.redis.operations.inspect import overview
from callboard.memory import (
    ChromaDBVectorMemory,
    HashingEmbedder,
    HttpChromaDBVectorMemoryConfig,
    MemoryContent,
    MemoryMimeType,
)
from callboard.memory.errors import StoreUnavailableError
from callboard.memory_service import Add, MemoryChanges, MemoryServiceClient, memory_service
from tests.helpers.eventually import eventually
from tests.helpers.processes import Process, python
from tests.helpers.servers import free_port

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def nothing_is_left_open() -> Iterator[None]:
    """The garbage collector complains of a connection that was not closed: here, and not in the next test."""
    yield
    gc.collect()


ADD = """
import asyncio, sys
from callboard.memory import *

async def main(url, start):
    config = HttpChromaDBVectorMemoryConfig.from_url(url, agent="shared")
    memory = ChromaDBVectorMemory(config, HashingEmbedder())
    for first in range(start, start + 100, 10):
        await memory.add_many([
            MemoryContent(content=f"fact {n}", mime_type="text/plain", metadata={"id": f"n{n}"})
            for n in range(first, first + 10)
        ])

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


class Server:
    """`chroma run` on a free port."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.start()

    def start(self) -> None:
        words = ("run", "--path", str(self._folder), "--host", "127.0.0.1", "--port", str(self._port))
        self.process = Process(python("-c", "from chromadb.cli.cli import app; app()", *words))

    def memory(self) -> ChromaDBVectorMemory:
        config = HttpChromaDBVectorMemoryConfig.from_url(self.url, agent="shared", k=1)
        return ChromaDBVectorMemory(config, HashingEmbedder())

    async def answers(self) -> bool:
        memory = self.memory()
        try:
            await memory.stats()
        except StoreUnavailableError:
            return False
        finally:
            await memory.close()
        return True


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    made = Server(tmp_path / "store")
    try:
        await eventually(made.answers, 90, what=made.process.output)
        yield made
    finally:
        made.process.close()


async def test_processes_share_it_and_it_may_go_away(server: Server) -> None:
    adders = [Process(python("-c", ADD, server.url, str(start))) for start in (0, 100)]
    try:
        for adder in adders:
            assert await adder.ended(120) == 0, adder.output()
    finally:
        for adder in adders:
            adder.close()
    memory, other = server.memory(), server.memory()
    assert sorted(await memory.ids()) == sorted(f"n{n}" for n in range(200))
    scores = [(await memory.query(f"fact {n}")).results[0].metadata or {} for n in range(200)]
    # All are there, as their ids say. The search is an approximate one, and hashes of such texts are all as far from each
    # other, which is the worst case for the graph that it goes along; a model's vectors are not.
    assert sum(found["score"] > 0.999 for found in scores) >= 180

    await other.clear()
    assert (await memory.query("fact 1")).results == []
    await memory.add(MemoryContent(content="a new fact", mime_type=MemoryMimeType.TEXT))
    assert (await other.stats()).count == 1

    server.process.kill()
    with pytest.raises(StoreUnavailableError, match=f"the memory at {server.url} can't be reached"):
        await memory.query("fact 1")
    await memory.close()
    await other.close()


async def test_changes_wait_for_a_server_that_is_away(server: Server) -> None:
    app = App("away", settings=BrokerSettings(retry_base=0.02, retry_cap=0.5))
    config = HttpChromaDBVectorMemoryConfig.from_url(server.url)
    memory_service(app, config=config, embedder=HashingEmbedder())
    async with app.running("memory://") as runtime:
        memory = MemoryServiceClient(runtime, "shared", in_order=True)
        await memory.add(MemoryContent(content="before", mime_type=MemoryMimeType.TEXT))
        server.process.kill()
        for number in range(20):
            content = MemoryContent(content=f"fact {number}", mime_type=MemoryMimeType.TEXT)
            changes = MemoryChanges(changes=[Add(contents=[content])])
            await runtime.publish_message(changes, TopicId("memory:memory", "shared"))

        async def is_waited_for() -> bool:
            view = await overview(runtime.transport)
            return view.totals.retried > 5 and [one.type for one in view.outages] == ["memory"]

        await eventually(is_waited_for, 60)
        server.process.close()
        server.start()
        await eventually(server.answers, 90, what=server.process.output)
        assert len(await memory.ids()) == 21
        assert await list_letters(runtime.transport, "memory") == ()
