"""Seed 004's listing with a process for each role and three for B, which are killed with -9, alone and all at once."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from callboard.roles import Environment, Message
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers import factory
from tests.helpers.processes import ROOT, Process, python
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import SHORT_LEASE

TYPES = ("AgentA", "AgentB", "AgentB", "AgentB", "AgentC", "AgentD")
DEATHS = ("B 1", "B 3", "D 3")  # in whose how manyth act: the first process that comes so far


class Fleet:
    """A process of each role: whoever dies is started again."""

    def __init__(self, url: str, folder: Path) -> None:
        self.namespace = f"factory-{os.urandom(4).hex()}"
        self.deaths = folder / "deaths"
        self.deaths.mkdir()
        self._url = url
        self._processes: list[Process] = []
        self._dead: list[Process] = []

    def start(self) -> None:
        self._processes = [self._one(agent_type) for agent_type in TYPES]

    def _one(self, agent_type: str) -> Process:
        command = python("-m", "callboard", "worker", "tests.helpers.factory:app", "--type", agent_type)
        options = ["--url", self._url, "--namespace", self.namespace]
        environ = {
            **SHORT_LEASE,
            "CALLBOARD_MAX_ATTEMPTS": "20",
            "PYTHONPATH": str(ROOT),
            "DEATHS": str(self.deaths),
        }
        return Process([*command, *options], environ)

    async def keep_alive(self) -> None:
        while True:
            for number, process in enumerate(self._processes):
                if not process.is_alive:
                    self._dead.append(process)
                    self._processes[number] = self._one(TYPES[number])
            await asyncio.sleep(0.02)

    def kill_all(self) -> None:
        for process in self._processes:
            process.kill()

    @property
    def died(self) -> int:
        return len(self._dead)

    def close(self) -> None:
        for process in (*self._dead, *self._processes):
            process.close()


@pytest.fixture
def fleet(shared_server: ServerProcess, tmp_path: Path) -> Iterator[Fleet]:
    made = Fleet(shared_server.url, tmp_path)
    yield made
    made.close()


async def watched(env: Environment) -> None:
    """Asks 1,000 times a second whether it is idle, as long as it runs."""
    running = asyncio.create_task(env.run())
    while not running.done():
        if env.is_idle:
            assert factory.counts(env) == factory.WANTED
        await asyncio.sleep(0.001)
    await running


@pytest.mark.slow
async def test_whatever_is_killed_each_act_counts_once(fleet: Fleet, shared_server: ServerProcess) -> None:
    for name in DEATHS:
        (fleet.deaths / name).touch()
    async with RedisAgentRuntime.from_app(
        factory.app, shared_server.url, namespace=fleet.namespace, types=()
    ) as runtime:
        env = factory.environment.on(runtime)
        env.publish_message(Message("New", send_to=factory.AgentA))
        await env.flush()
        fleet.start()
        keeping = asyncio.create_task(fleet.keep_alive())
        try:
            async with asyncio.timeout(60):
                while len(env.history) < 40:
                    await env.look()
                    await asyncio.sleep(0.01)
                fleet.kill_all()
                await watched(env)
        finally:
            keeping.cancel()
        assert factory.counts(env) == factory.WANTED
        assert len(env.history) == 101
        assert len(env.results) == 10
        assert not list(fleet.deaths.iterdir())
        assert fleet.died > len(DEATHS)
        assert (env.max_rounds, env.is_idle) == (factory.ROUNDS, True)
