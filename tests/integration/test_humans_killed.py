"""A tool waits for a person while every process dies, and the answer comes from the command line a day later."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from callboard.agents import TaskResult
from callboard.messages import InputAnsweredEvent, InputRequestedEvent
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import TeamClient
from tests.helpers.eventually import eventually
from tests.helpers.processes import ROOT, Process, python
from tests.helpers.refunds import app
from tests.helpers.runtimes import end
from tests.helpers.servers import ServerProcess
from tests.helpers.worker_fleet import SHORT_LEASE
from tests.integration.cli.commands import EACH

TARGET = "tests.helpers.refunds:app"
WINDOW = 1.0  # seconds that a record is kept after the last one: a day, in a hurry
RUN = "refund-7"


class OrderDeskFixture:
    """The order desk in processes of its own, and its client in this one."""

    def __init__(self, url: str, folder: Path) -> None:
        self._where = ["--url", url, "--namespace", f"refunds-{os.urandom(4).hex()}"]
        self.runtime = RedisAgentRuntime.from_app(app, url, namespace=self._where[-1], types=())
        self.client = TeamClient(self.runtime, "orders", "customer-1")
        self.notes = folder / "notes.txt"
        self._environ = {
            **SHORT_LEASE,
            "CALLBOARD_DEDUPE_WINDOW": str(WINDOW),
            "PYTHONPATH": str(ROOT),
            "NOTES": str(self.notes),
        }
        self._processes: list[Process] = []

    def start(self) -> None:
        for agent_type in ("orders", "orders.desk"):
            command = python("-m", "callboard", "worker", TARGET, "--type", agent_type, *self._where)
            self._processes.append(Process(command, self._environ))

    def kill_all(self) -> None:
        for process in self._processes:
            if process.is_alive:
                process.kill()

    def output(self) -> str:
        return "\n".join(process.output() for process in self._processes)

    def answers(self, *each: Sequence[str]) -> list[tuple[int, str]]:
        """Exit code and output of `callboard runs answer` with these arguments, one after the other in one process."""
        commands = [["runs", "answer", *self._where, *arguments] for arguments in each]
        environ = {**os.environ, "NO_COLOR": "1", "COLUMNS": "200"}
        command = python("-c", EACH, json.dumps(commands))
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=60, check=True
        )
        return [(code, out + err) for code, out, err in json.loads(done.stdout)]

    async def waits(self) -> None:
        """Until the member's handler has ended, and no process has it."""

        async def is_suspended() -> Any:
            return await self._redis("HGET", "suspended:orders.desk", "customer-1")

        await eventually(is_suspended, 30, what=self.output)

    async def window_passes(self) -> None:
        """Twice as long as a record is kept."""
        await self._redis("SET", "store:canary", "x", "PX", int(2000 * WINDOW))

        async def is_over() -> bool:
            return not await self._redis("EXISTS", "store:canary")

        await eventually(is_over)

    async def _redis(self, name: str, suffix: str, *arguments: Any) -> Any:
        transport = self.runtime.transport
        return await transport.admin.command(name, transport.keys.of(suffix), *arguments)

    async def close(self) -> None:
        await end(self.runtime, self._processes)


@pytest.fixture
async def desk(shared_server: ServerProcess, tmp_path: Path) -> AsyncIterator[OrderDeskFixture]:
    made = OrderDeskFixture(shared_server.url, tmp_path)
    await made.runtime.open()
    yield made
    await made.close()


async def test_the_answer_of_another_day_and_process(desk: OrderDeskFixture) -> None:
    desk.start()
    async for item in desk.client.run_stream(task="go", run_id=RUN):
        if isinstance(item, InputRequestedEvent):
            break
    await desk.waits()
    assert (await desk.client.status()).state == "input_required"
    desk.kill_all()
    await desk.window_passes()

    (question,) = await desk.client.questions()
    name = question.id[:8]
    said = desk.answers(
        [],
        [name],
        [name, "perhaps"],
        [name, "yes", "--by", "ada"],
        [question.id, "no", "--by", "eve"],
        ["x", "no"],
    )
    assert [code for code, _ in said] == [0, 0, 1, 0, 1, 1]
    for (_, text), expected in zip(
        said,
        [
            'May refund be called with {"cents": 8900}?',
            "yes, no",
            "say yes, no",
            "ada",
            "before by ada",
            "no open",
        ],
        strict=True,
    ):
        assert expected in text

    desk.start()
    seen = [item async for item in desk.client.follow(RUN)]
    result = seen[-1]
    assert isinstance(result, TaskResult), desk.output()
    assert result.messages[-1].to_text() == "looked up 7; paid 8900; thanked"
    notes = desk.notes.read_text(encoding="utf-8").splitlines()
    assert sorted(notes) == ["looked up 7", "paid 8900", "thanked", "the model was asked"]
    assert [item.request_id for item in seen if isinstance(item, InputRequestedEvent)] == [question.id]
    assert [item.by for item in seen if isinstance(item, InputAnsweredEvent)] == ["ada"]
