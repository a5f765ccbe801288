"""What a worker process has loaded when it handles its first message: what it takes until then, and in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from callboard import TopicId
from callboard.broker import BrokerSettings
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.light_app import Visit, app
from tests.helpers.servers import ServerProcess

ROOT = Path(__file__).parents[2]
NEVER = """
typer rich redis email.parser jsonschema croniter httpx openai unittest multiprocessing
importlib.resources.readers encodings.idna unicodedata
callboard.questions callboard.asking callboard.input_request callboard.timetable callboard.telemetry
callboard.teams callboard.agents callboard.tools callboard.models callboard.memory callboard.process.supervisor
callboard.broker.redis.client.memory callboard.broker.redis.assembly
callboard.broker.redis.operations callboard.broker.redis.server
callboard.runtime.control callboard.runtime.inputs callboard.runtime.control callboard.runtime.topic_reader
callboard.runtime.run_history callboard.runtime.run_history
"""
"""What most workers never use."""


async def test_a_worker_loads_what_it_uses(shared_server: ServerProcess) -> None:
    settings = BrokerSettings(url=shared_server.url, namespace="light")
    async with RedisAgentRuntime.from_app(app, settings=settings, types=()) as runtime:
        await runtime.publish_message(Visit(name="Ada"), TopicId("visits", "home"))
    command = (sys.executable, "-P", "-m", "callboard", "worker", "tests.helpers.light_app:app")
    options = ("--url", shared_server.url, "--namespace", "light", "--max-messages", "1")
    done = subprocess.run(
        (*command, *options),
        cwd=ROOT,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    (told,) = (line for line in done.stdout.splitlines() if line.startswith("loaded "))
    assert set(NEVER.split()).intersection(told.split()) == set()
