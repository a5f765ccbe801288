"""A group chat of a pattern whose manager and executor are killed with -9: nothing happens twice or is forgotten."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from callboard.messages import BaseChatMessage
from callboard.runtime.runtime import RedisAgentRuntime
from callboard.teams import TeamClient
from tests.helpers.processes import ROOT, Process, python
from tests.helpers.servers import ServerProcess
from tests.helpers.support_desk import app
from tests.helpers.worker_fleet import SHORT_LEASE

EXECUTOR = "support._Group_Tool_Executor"
# What the function did is not committed; who is next is not committed.
DEATHS = (f"{EXECUTOR} member answers", "support turn ends")
PROCESSES = (["support"], [EXECUTOR], ["support.triage", "support.desk"])


async def test_what_a_function_did_and_changed_outlives_its_process(
    shared_server: ServerProcess, tmp_path: Path
) -> None:
    where = ["--url", shared_server.url, "--namespace", f"support-{os.urandom(4).hex()}"]
    environ = {
        **SHORT_LEASE,
        "PYTHONPATH": str(ROOT),
        "NOTES": str(tmp_path / "notes.txt"),
        "DEATHS": str(tmp_path),
        "DIES_AT": ",".join(DEATHS),
    }
    processes: list[Process] = []

    def start(types: list[str]) -> Process:
        options = [option for one in types for option in ("--type", one)]
        command = python("-m", "callboard", "worker", "tests.helpers.support_desk:app", *options, *where)
        processes.append(Process(command, environ))
        return processes[-1]

    async def keep_alive() -> None:
        running = [(types, start(types)) for types in PROCESSES]
        while True:
            running = [(types, one if one.is_alive else start(types)) for types, one in running]
            await asyncio.sleep(0.02)

    alive = asyncio.ensure_future(keep_alive())
    try:
        async with RedisAgentRuntime.from_app(app, where[1], namespace=where[3], types=()) as runtime:
            result = await asyncio.wait_for(TeamClient(runtime, "support", "c1").run(task="Where is it?"), 60)
            await runtime.transport.delete_namespace()
    finally:
        alive.cancel()
        for process in processes:
            process.close()
    said = [(one.source, one.to_text()) for one in result.messages if isinstance(one, BaseChatMessage)]
    assert said == [
        ("user", "Where is it?"),
        ("triage", ""),
        ("_Group_Tool_Executor", "routed"),
        ("desk", "3 read"),
    ]
    assert {death.replace(" ", "-") for death in DEATHS} < {path.name for path in tmp_path.iterdir()}
    assert (tmp_path / "notes.txt").read_text() == "7\n"
