"""The real thing: a writer and a critic on a small local model, each in a process of its own, one of them killed with -9."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from callboard.agents import TaskResult
from callboard.messages import AttemptEndedEvent, ModelClientStreamingChunkEvent, TextMessage
from callboard.runtime.runtime import RedisAgentRuntime
from scripts.benchmarks.small_models import SmallModel
from tests.helpers.local_model import local_model, missing
from tests.helpers.model_proxy import Exchange, ModelProxy
from tests.helpers.openai_server import OpenAIServer
from tests.helpers.processes import ROOT, Process, python
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import SHORT_LEASE
from tests.helpers.writing_team import TASK, TURNS, app, team

pytestmark = [pytest.mark.skipif(bool(missing()), reason=missing() or "installed"), pytest.mark.slow]

MANAGER, WRITER, CRITIC = "writing", "writing.writer", "writing.critic"
AFTER = 5  # pieces of text that the killed speaker has said


@pytest.fixture(scope="module")
def model() -> Iterator[SmallModel]:
    with local_model() as running:
        yield running


class Stage:
    """The processes of the team, and a server between them and the model."""

    def __init__(self, url: str, model: OpenAIServer, folder: Path) -> None:
        self.url = url
        self.namespace = f"writing-{os.urandom(4).hex()}"
        self.deaths = folder
        self._model = model
        self._processes: dict[str, Process] = {}
        self._dead: list[Process] = []
        self._dies_at = ""

    def start(self, proxy: ModelProxy, dies_at: str = "") -> None:
        self._model.default = proxy
        self._dies_at = dies_at
        for agent_type in (MANAGER, WRITER, CRITIC):
            self._start(agent_type)

    def kill(self, agent_type: str) -> None:
        """Kill -9, and another process in its place."""
        self._processes[agent_type].kill()
        self._replace(agent_type)

    async def replace_when_dead(self, agent_type: str) -> None:
        await self._processes[agent_type].ended(within=120)
        self._replace(agent_type)

    async def read(self) -> AsyncIterator[Any]:
        """A run, as a reader sees it who has no agent in its process."""
        async with RedisAgentRuntime.from_app(app, self.url, namespace=self.namespace, types=()) as runtime:
            async for item in team.on(runtime, "c1").run_stream(task=TASK):
                yield item

    def close(self) -> None:
        for process in (*self._dead, *self._processes.values()):
            process.close()

    def _replace(self, agent_type: str) -> None:
        self._dead.append(self._processes[agent_type])
        self._start(agent_type)

    def _start(self, agent_type: str) -> None:
        target = "tests.helpers.writing_team:app"
        command = python("-m", "callboard", "worker", target, "--type", agent_type)
        environ = {
            **SHORT_LEASE,
            "PYTHONPATH": str(ROOT),
            "OPENAI_BASE_URL": self._model.url,
            "DIES_AT": self._dies_at,
            "DEATHS": str(self.deaths),
        }
        options = ["--url", self.url, "--namespace", self.namespace]
        self._processes[agent_type] = Process([*command, *options], environ)


@pytest.fixture
def stage(shared_server: ServerProcess, tmp_path: Path) -> Iterator[Stage]:
    with OpenAIServer() as server:
        made = Stage(shared_server.url, server, tmp_path)
        yield made
        made.close()


def check_texts(shown: list[Any], exchanges: list[Exchange]) -> None:
    """The transcript is what the model said when nobody interrupted it, and so are the pieces that count."""
    whole = [one.text for one in exchanges if one.is_whole]
    result = shown[-1]
    assert isinstance(result, TaskResult)
    texts = [(one.source, one.content) for one in result.messages if isinstance(one, TextMessage)]
    assert texts == [
        ("user", TASK),
        *zip(("writer", "critic", "writer"), whole, strict=True),
    ]
    assert all(len(text) > 20 for text in whole)


def pieces(items: list[Any], source: str) -> list[str]:
    return [
        one.content
        for one in items
        if isinstance(one, ModelClientStreamingChunkEvent) and one.source == source
    ]


def endings(items: list[Any]) -> list[int]:
    return [at for at, one in enumerate(items) if isinstance(one, AttemptEndedEvent)]


async def test_the_critic_is_killed_in_the_middle_of_a_sentence(stage: Stage, model: SmallModel) -> None:
    proxy = ModelProxy(model.url, hold=1, after=AFTER)
    stage.start(proxy)
    shown: list[Any] = []
    is_killed = False
    async with asyncio.timeout(180):
        async for item in stage.read():
            shown.append(item)
            if not is_killed and "".join(pieces(shown, "critic")):
                stage.kill(CRITIC)
                is_killed = True
    [at] = endings(shown)
    assert shown[at].source == "critic"
    assert len(proxy.exchanges) == TURNS + 1, "only the interrupted answer is asked for again"
    _, interrupted, again, _ = proxy.exchanges
    assert not interrupted.is_whole
    assert interrupted.asked == again.asked
    # What the reader had of the first attempt is a beginning, told to be void; behind it comes the whole text.
    void = "".join(pieces(shown[:at], "critic"))
    assert interrupted.text.startswith(void)
    assert len(void) < len(again.text)
    assert "".join(pieces(shown[at:], "critic")) == again.text
    check_texts(shown, proxy.exchanges)


async def test_an_answer_that_was_recorded_is_not_asked_for_again(stage: Stage, model: SmallModel) -> None:
    proxy = ModelProxy(model.url)
    stage.start(proxy, dies_at=f"{CRITIC} member answers")
    replacing = asyncio.ensure_future(stage.replace_when_dead(CRITIC))
    try:
        async with asyncio.timeout(180):
            shown = [item async for item in stage.read()]
    finally:
        replacing.cancel()
    assert [mark.name for mark in stage.deaths.iterdir()] == [f"{CRITIC}-member-answers"]
    [at] = endings(shown)
    assert shown[at].source == "critic"
    assert len(proxy.exchanges) == TURNS, "each answer was asked for once"
    assert "".join(pieces(shown[at:], "critic")) == proxy.exchanges[1].text
    check_texts(shown, proxy.exchanges)
