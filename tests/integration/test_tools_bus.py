"""Tools in a process of their own: one is killed in the middle, and nothing is lost."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from callboard import CancellationToken
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.tools import StaticWorkbench
from tests.helpers.eventually import eventually
from tests.helpers.processes import Process, python
from tests.helpers.runtimes import end
from tests.helpers.servers import ServerProcess
from tests.helpers.tool_work import TOOLS, app
from tests.helpers.worker_fleet import SHORT_LEASE


class ToolFixture:
    """A namespace with a caller in this process and tool processes."""

    def __init__(self, url: str, ledger: Path) -> None:
        self._url, self._ledger = url, ledger
        self._namespace = f"tools-{os.urandom(4).hex()}"
        self.runtime = RedisAgentRuntime.from_app(app, url, namespace=self._namespace, types=())
        self.processes: list[Process] = []

    def workbench(self, on: str = "tools", timeout: float = 60.0) -> StaticWorkbench:
        return StaticWorkbench(TOOLS, on=on, runtime=self.runtime, timeout=timeout)

    async def worker(self, *types: str) -> Process:
        command = python("-m", "tests.helpers.tool_work", self._url, self._namespace, *types)
        process = Process(command, {**SHORT_LEASE, "LEDGER": str(self._ledger)})
        self.processes.append(process)
        await process.says("works as", within=60)
        return process

    def notes(self, what: str, pid: int | None = None) -> list[int]:
        """The numbers of which something was written down, by one process or by all."""
        lines = self._ledger.read_text().split("\n")[:-1] if self._ledger.exists() else []
        found = [line.split() for line in lines]
        return [int(n) for kind, n, p in found if kind == what and pid in (None, int(p))]

    async def close(self) -> None:
        await end(self.runtime, self.processes)


@pytest.fixture
async def fixture(shared_server: ServerProcess, tmp_path: Path) -> AsyncIterator[ToolFixture]:
    made = ToolFixture(shared_server.url, tmp_path / "ledger")
    await made.runtime.open()
    yield made
    await made.close()


async def test_a_killed_tool_process_loses_no_call(fixture: ToolFixture) -> None:
    doomed = await fixture.worker("tools")
    workbench = fixture.workbench()
    calls = [
        asyncio.ensure_future(
            workbench.call_tool("square", {"number": i, "seconds": 0.5 + i / 20}, call_id=f"call_{i}")
        )
        for i in range(30)
    ]
    await eventually(lambda: len(fixture.notes("end")) >= 3, within=30)
    doomed.kill()
    other = await fixture.worker("tools")
    results = await asyncio.gather(*calls)
    assert [(result.is_error, result.to_text()) for result in results] == [
        (False, str(i * i)) for i in range(30)
    ]
    assert set(fixture.notes("start", other.pid)) >= set(range(30)) - set(fixture.notes("end", doomed.pid))


async def test_everything_that_goes_wrong_elsewhere_comes_back_as_a_result(fixture: ToolFixture) -> None:
    await fixture.worker("tools")
    workbench = fixture.workbench()
    broken = await workbench.call_tool("broken")
    assert (broken.is_error, broken.to_text()) == (True, "LookupError: nothing there")
    misfit = await workbench.call_tool("square", {"nummer": 1})
    assert "Did you mean 'number'" in misfit.to_text()
    large = await workbench.call_tool("large")
    assert large.to_text().endswith("xxx... [cut here: 1,950,100 of 2,000,000 characters are missing]")
    assert (await workbench.call_tool("message_id")).to_text()
    nobody = await fixture.workbench(on="nobody").call_tool("square", {"number": 1})
    assert (nobody.is_error, "UndeliverableException" in nobody.to_text()) == (True, True)


async def test_a_tool_process_has_limits_of_its_own(fixture: ToolFixture) -> None:
    await fixture.worker("limited")
    slow = await fixture.workbench(on="limited").call_tool("square", {"number": 1, "seconds": 30})
    assert slow.is_error
    assert "max_runtime=0.3" in slow.to_text()


async def test_cancelling_a_call_frees_the_tool_process(fixture: ToolFixture) -> None:
    await fixture.worker("tools")
    workbench, token = fixture.workbench(), CancellationToken()
    calling = asyncio.ensure_future(workbench.call_tool("square", {"number": 7, "seconds": 600}, token))
    await eventually(lambda: fixture.notes("start") == [7], within=30)
    token.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await eventually(lambda: fixture.notes("cancelled") == [7], within=30)


async def test_nobody_answers_while_no_tool_process_runs(fixture: ToolFixture) -> None:
    result = await fixture.workbench(timeout=0.3).call_tool("square", {"number": 1})
    assert result.is_error
    assert "within 0.3 s" in result.to_text()
