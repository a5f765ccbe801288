"""Additions in handlers are remembered once, whichever process is killed in between."""

from __future__ import annotations

import asyncio
import os
import secrets
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest

from callboard import TopicId
from callboard.memory import ChromaDBVectorMemory, HashingEmbedder, PersistentChromaDBVectorMemoryConfig
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.eventually import eventually
from tests.helpers.ledger import Ledger
from tests.helpers.memories import SHARED, Lesson, app, fact
from tests.helpers.processes import Process, python
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import SHORT_LEASE

EACH = (200, pytest.param(2_000, marks=pytest.mark.full))  # facts that each of the two agents learns
IN_A_LESSON = 10
PATIENCE = 240.0  # seconds until everything is stored, on a machine that does other things as well


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess() as running:
        yield running


class School:
    """A namespace with lessons to learn, and the processes that do."""

    def __init__(self, url: str, folder: Path, each: int) -> None:
        self.each = each
        self.namespace = f"school-{os.urandom(4).hex()}"
        self.store = folder / "store"
        self.ledger = Ledger(url, self.namespace, folder / "ledger")
        self.runtime = RedisAgentRuntime.from_app(app, url, namespace=self.namespace, types=())
        self._url = url
        self._processes: list[Process] = []

    def worker(self, agent_type: str) -> Process:
        command = ("-m", "callboard", "worker", "tests.helpers.memories:app", "--url", self._url)
        environ = {
            **SHORT_LEASE,
            "MEMORY_PATH": str(self.store),
            "LEDGER": str(self.ledger.file),
            "SYNC_EVERY": "50",
        }
        process = Process(
            python(*command, "--namespace", self.namespace, "--type", agent_type), environ=environ
        )
        self._processes.append(process)
        return process

    async def teach(self) -> None:
        """Lessons for both types: the first half of the facts for one, the others for the other."""
        for topic, start in (("left", 0), ("right", self.each)):
            for first in range(start, start + self.each, IN_A_LESSON):
                lesson = Lesson(first=first, count=IN_A_LESSON)
                await self.runtime.publish_message(lesson, TopicId(topic, f"k{first // 10 % 7}"))

    @property
    def lessons(self) -> int:
        """How many are taught."""
        return 2 * self.each // IN_A_LESSON

    def stored(self) -> int:
        """Messages that the service has carried out."""
        return self.ledger.stats("memory").get("done", 0)

    def has_stored(self, more_than: int) -> bool:
        return self.stored() > more_than

    async def is_learned(self) -> None:
        def done() -> bool:
            return self.stored() >= self.lessons

        await eventually(
            done, PATIENCE, what=lambda: [self.stored(), *(p.output()[-2000:] for p in self._processes)]
        )

    def texts(self) -> Counter[str]:
        """The contents in the files of the store, read without Chroma."""
        with sqlite3.connect(self.store / "chroma.sqlite3") as database:
            query = "select string_value from embedding_metadata where key = 'chroma:document'"
            return Counter(text for (text,) in database.execute(query))

    async def end(self) -> None:
        for process in self._processes:
            process.close()
        await self.runtime.close()
        self.ledger.close()


@pytest.fixture(params=EACH)
async def school(
    server: ServerProcess, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[School]:
    made = School(server.url, tmp_path, request.param)
    await made.runtime.open()
    yield made
    await made.end()


async def check_that_all_is_known(school: School) -> None:
    """Each fact is stored once, and a search finds it."""
    assert school.texts() == Counter(fact(number) for number in range(2 * school.each))
    assert (
        school.ledger.letters("memory")
        == school.ledger.letters("left")
        == school.ledger.letters("right")
        == []
    )
    config = PersistentChromaDBVectorMemoryConfig(
        persistence_path=school.store, namespace=school.namespace, agent=SHARED, lock_patience=30, k=1
    )
    for _ in range(2):  # opened once more, Chroma loses others
        memory = ChromaDBVectorMemory(config, HashingEmbedder())
        try:
            assert len(await memory.ids()) == 2 * school.each
            lost = [number for number in range(2 * school.each) if not await is_found(memory, number)]
        finally:
            await memory.close()
        assert lost == []


async def is_found(memory: ChromaDBVectorMemory, number: int) -> bool:
    """By its own text, and by that and a filter that only it passes."""
    for where in (None, {"number": number}):
        results = (await memory.query(fact(number), where=where)).results
        if [one.content for one in results] != [fact(number)]:
            return False
    return True


@pytest.mark.slow
async def test_memories_of_two_processes_at_once_are_all_kept(school: School) -> None:
    await school.teach()
    workers = [school.worker(agent_type) for agent_type in ("memory", "left", "right")]

    await school.is_learned()

    for worker in workers:
        worker.kill()
    await check_that_all_is_known(school)


@pytest.mark.slow
async def test_killing_an_actor_and_the_service_loses_nothing_and_repeats_nothing(school: School) -> None:
    await school.teach()
    service, left, right = (school.worker(agent_type) for agent_type in ("memory", "left", "right"))

    await eventually(lambda: school.stored() > school.lessons // 20, PATIENCE, what=service.output)
    left.kill()
    service.kill()
    service, left = school.worker("memory"), school.worker("left")
    await eventually(lambda: school.stored() > school.lessons // 3, PATIENCE, what=service.output)
    service.kill()
    service = school.worker("memory")
    await school.is_learned()

    for worker in (service, left, right):
        worker.kill()
    await check_that_all_is_known(school)


@pytest.mark.slow
async def test_a_service_that_is_killed_while_it_adds_finds_all_that_it_counts(school: School) -> None:
    await school.teach()
    for agent_type in ("left", "right"):
        school.worker(agent_type)
    for kill in range(1, 7):
        service = school.worker("memory")
        begun = min(school.lessons * kill // 8, school.lessons - 1)
        await eventually(partial(school.has_stored, begun), PATIENCE, what=service.output)
        await asyncio.sleep(secrets.randbelow(100) / 1000)
        service.kill()
    service = school.worker("memory")
    await school.is_learned()

    service.kill()
    await check_that_all_is_known(school)
