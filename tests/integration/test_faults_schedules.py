"""Schedules while the processes that look to them are killed: each due time once, and none left out."""

from __future__ import annotations

import os
from collections import defaultdict
from datetime import datetime

from callboard import RedisAgentRuntime
from tests.helpers.eventually import eventually
from tests.helpers.processes import Process, python
from tests.helpers.scheduled_app import NAMES, SPAN
from tests.helpers.servers import ServerProcess

DUE_TIMES = 200
KILLS = 5
QUICK = {"CALLBOARD_LEASE": "1", "CALLBOARD_BEAT_EVERY": "0.2"}


def _worker(url: str, namespace: str) -> Process:
    arguments = ("-m", "callboard", "worker", "tests.helpers.scheduled_app:app")
    return Process(python(*arguments, "--url", url, "--namespace", namespace), QUICK)


async def test_each_due_time_is_sent_once_whoever_is_killed(shared_server: ServerProcess) -> None:
    namespace = f"bells-{os.urandom(4).hex()}"
    runtime = RedisAgentRuntime(shared_server.url, namespace=namespace)
    await runtime.open()
    admin, rings = runtime.transport.admin, runtime.transport.keys.of("topic:rings")
    workers = [_worker(shared_server.url, namespace) for _ in range(3)]
    try:
        for kill in range(1, KILLS + 1):
            await _until(runtime, rings, kill * DUE_TIMES // (KILLS + 1))
            workers.pop(0).close()
            workers.append(_worker(shared_server.url, namespace))
        await _until(runtime, rings, DUE_TIMES)
    finally:
        for worker in workers:
            worker.close()
    sent = defaultdict[str, list[int]](list)
    for _, flat in await admin.command("XRANGE", rings, "-", "+"):
        name, _, when = flat[flat.index(b"id") + 1].decode().partition("@")
        sent[name].append(round(datetime.fromisoformat(when).timestamp() * 1000))
    await runtime.transport.delete_namespace()
    await runtime.close()

    assert set(sent) == set(NAMES)
    for due in sent.values():
        assert due == list(range(due[0], due[0] + len(due) * SPAN, SPAN))


async def _until(runtime: RedisAgentRuntime, stream: str, length: int) -> None:
    async def is_there() -> bool:
        return int(await runtime.transport.admin.command("XLEN", stream)) >= length

    await eventually(is_there, 30)
