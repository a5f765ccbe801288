"""A server's crash, and what is said of the namespace afterwards by what operators and publishers go by."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, ClassVar

from callboard.broker import BrokerSettings
from callboard.runtime.runtime import RedisAgentRuntime
from tests.helpers.eventually import eventually

from .. import clock
from ..above.beside import as_json
from ..site import NAMESPACE, Site
from ..workload import Job, app
from .base import Act, Fault, require
from .kill_server import DOWN

DONE = 60
MOST = 20  # messages that may wait, fewer than were handled
TYPE = "frail"


@dataclass(frozen=True, slots=True)
class CrashCommands(Fault):
    """Kills the server when all of a topic is handled, and asks commands and a publisher what waits in it."""

    name: ClassVar[str] = "crash-commands"
    act: ClassVar[Act] = "server"
    summary: ClassVar[str] = (
        "kill -9 of the server when all 60 messages of a topic are handled; then `status`, `doctor`, and a publisher with "
        "max_backlog=20"
    )
    promise: ClassVar[str] = "none of them says that something waits there, and the publisher publishes"
    seconds: ClassVar[float] = 5.0

    async def strike(self, site: Site) -> None:
        await _write_file_anew(site)
        done = [await site.publish(f"before.k{number % 5}", topic=TYPE) for number in range(DONE)]
        await site.committed(done)
        site.server.kill()
        await asyncio.sleep(DOWN)
        site.server.start()
        await site.resumed(clock.now())
        where = ("--url", site.server.url, "--namespace", NAMESPACE)
        problems = [*_waiting(await as_json(where, "status")), *_findings(await as_json(where, "doctor"))]
        require(not problems, problems)
        await _publish_within_bounds(site)


async def _write_file_anew(site: Site) -> None:
    """As workers do at their start: from then on the file has how much each group has read, as of now."""
    # The topic and its group have to be in it.
    await site.committed([await site.publish("before.k0", topic=TYPE)])
    before = (await site.client.info("persistence"))["aof_rewrites"]
    await site.client.bgrewriteaof()

    async def is_written() -> bool:
        facts = await site.client.info("persistence")
        return bool(facts["aof_rewrites"] > before and not facts["aof_rewrite_in_progress"])

    await eventually(is_written, 20)


def _waiting(status: Any) -> list[str]:
    types = status["types"]
    return [f"status: {one['waiting']} wait" for one in types if one["type"] == TYPE and one["waiting"]]


def _findings(report: Any) -> list[str]:
    return [
        f"doctor: {one['check']}: {one['what']}"
        for one in report["findings"]
        if one["level"] != "ok" and (one["check"] == "consistency" or TYPE in one["what"])
    ]


async def _publish_within_bounds(site: Site) -> None:
    settings = BrokerSettings(namespace=NAMESPACE, max_backlog=MOST, when_full="reject")
    async with RedisAgentRuntime.from_app(app, site.server.url, settings=settings, types=()) as bounded:
        job = Job(id=f"bounded.k0/{site.chance.random()}", published=clock.now())
        await site.publish_job(bounded, "bounded.k0", job, TYPE)
        await site.committed([job.id])
