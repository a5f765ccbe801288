"""Several calls of one answer, whose process is killed when some are done: those are not made again."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from callboard import RedisAgentRuntime
from callboard.messages import BaseChatMessage
from callboard.runs import a_run
from tests.helpers.killed_calls import app, team
from tests.helpers.processes import ROOT, Process, python
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import SHORT_LEASE


@pytest.mark.parametrize(
    ("task", "summary", "done"),
    [
        ("fast slow", "fast done and slow done", ["fast", "slow", "slow"]),
        ("count count", "1 and 2", ["count 1", "died", "count 2"]),
    ],
)
async def test_a_call_that_was_done_before_a_kill_is_not_made_again(
    shared_server: ServerProcess, tmp_path: Path, task: str, summary: str, done: list[str]
) -> None:
    notes = tmp_path / "notes.txt"
    notes.touch()
    where = ["--url", shared_server.url, "--namespace", f"calls-{os.urandom(4).hex()}"]
    command = python("-m", "callboard", "worker", "tests.helpers.killed_calls:app", *where)
    environ = {**SHORT_LEASE, "PYTHONPATH": str(ROOT), "NOTES": str(notes)}
    workers = [Process(command, environ)]

    async def keep_alive() -> None:
        while True:
            if not workers[-1].is_alive:
                workers.append(Process(command, environ))
            await asyncio.sleep(0.02)

    alive = asyncio.ensure_future(keep_alive())
    try:
        async with RedisAgentRuntime.from_app(app, where[1], namespace=where[3], types=()) as runtime:
            response = await a_run(team, message=task, runtime=runtime)
            result = await asyncio.wait_for(response.result(), 60)
            await runtime.transport.delete_namespace()
    finally:
        alive.cancel()
        for worker in workers:
            worker.close()
    last = result.messages[-1]
    assert isinstance(last, BaseChatMessage)
    assert last.to_text() == summary
    assert notes.read_text().splitlines() == done
    assert len(workers) == 2
