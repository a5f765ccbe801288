"""Carries out a plan: every act in a place of its own, checked at its end."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.helpers.servers import Kind

from . import history
from .checker import Violation, check
from .evidence import Evidence
from .figures import Measured
from .history import Event
from .plan import ActPlan, Lane, Step
from .site import Site

CALM = 0.5  # seconds between two steps
SHOWN = 5  # violations of one rule in one act
LONGEST = 600  # characters of one


class Progress(Protocol):
    """Who is told how far it is."""

    def begins(self, act: ActPlan) -> None: ...

    def strikes(self, act: ActPlan, step: Step) -> None: ...

    def ends(self, act: ActPlan, result: ActResult) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ActResult:
    """The result of one act.

    Attributes:
        name: of the act.
        seed: it was drawn from.
        violations: what was wrong.
        measured: figures; empty where faults were mixed.
        acknowledged: messages of which a publisher was told that they are there.
        committed: messages that took effect.
        executions: handlers that started.
        seconds: it took.
        server: which one it was.
    """

    name: str
    seed: str
    violations: tuple[Violation, ...] = ()
    measured: tuple[Measured, ...] = ()
    acknowledged: int = 0
    committed: int = 0
    executions: int = 0
    seconds: float = 0.0
    server: str = ""

    def complaint(self) -> str:
        """The violations in short; "" when there were none."""
        if not self.violations:
            return ""
        shown: Counter[str] = Counter()
        lines = [f"{self.name} (seed {self.seed}) broke the promise:"]
        for violation in self.violations:
            shown[violation.rule] += 1
            if shown[violation.rule] <= SHOWN:
                lines.append(f"  {violation.rule}: {violation.detail[:LONGEST]}")
        lines += [f"  {rule}: and {number - SHOWN} more" for rule, number in shown.items() if number > SHOWN]
        return "\n".join(lines)


async def run_lanes(
    lanes: Sequence[Lane], folder: Path, progress: Progress, kind: Kind | None = None
) -> list[ActResult]:
    """Carries out the lanes at the same time; the results in the order of the plan."""

    async def run_lane(lane: Lane) -> list[ActResult]:
        return [await run_act(act, folder, progress, kind) for act in lane]

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(run_lane(lane)) for lane in lanes]
    return [result for task in tasks for result in task.result()]


async def run_act(plan: ActPlan, folder: Path, progress: Progress, kind: Kind | None = None) -> ActResult:
    """One act from its server's start to the check."""
    place = folder / f"{plan.name}-{plan.seed.split()[0]}"
    place.mkdir(parents=True)
    began = time.monotonic()
    progress.begins(plan)
    site = Site(place, plan.setting, plan.seed, kind)
    try:
        await site.open()
        problems = await _carry_out(site, plan, progress)
        await site.rest()
        evidence = await site.evidence()
        server = await _version(site)
    finally:
        site.fleet.keep_outputs(place)
        site.load.keep_outputs(place)
        if (site.server.folder / "server.log").exists():
            shutil.copy(site.server.folder / "server.log", place)
        await site.close()
    history.write(place / "history.jsonl", [*evidence.history, *commit_events(evidence)])
    result = _judged(plan, site, evidence, problems, time.monotonic() - began, server)
    progress.ends(plan, result)
    return result


async def _carry_out(site: Site, plan: ActPlan, progress: Progress) -> list[str]:
    """Every step; what could not be done, or did not recover, is a problem, and the next step goes on."""
    problems: list[str] = []
    for step in plan.steps:
        progress.strikes(plan, step)
        strikes = (fault.strike(site) for fault in step.faults)
        for fault, result in zip(
            step.faults, await asyncio.gather(*strikes, return_exceptions=True), strict=True
        ):
            if isinstance(result, Exception):
                problems.append(f"{fault.name}: {type(result).__name__}: {result}")
            elif isinstance(result, BaseException):
                raise result
        await asyncio.sleep(CALM)
    return problems


def _judged(
    plan: ActPlan, site: Site, evidence: Evidence, problems: list[str], seconds: float, server: str
) -> ActResult:
    violations = [*check(evidence), *(Violation("did not recover", problem) for problem in problems)]
    return ActResult(
        name=plan.name,
        seed=plan.seed.split()[0],
        violations=tuple(violations),
        measured=() if plan.is_mixed else tuple(site.measured),
        acknowledged=len({event.id for event in evidence.history if event.type == "ok"}),
        committed=len(evidence.commits),
        executions=len(evidence.executions),
        seconds=seconds,
        server=server,
    )


async def _version(site: Site) -> str:
    info = await site.client.info("server")
    return f"{info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}"


def commit_events(evidence: Evidence) -> list[Event]:
    """The commits as a history: see history.py."""
    committed = {commit.run: commit for commit in evidence.commits}
    last = max((one.end or one.start for one in evidence.executions), default=0.0)
    events = []
    for one in evidence.executions:
        process, key = f"{one.worker}#{one.run}", one.key.partition("/")[2]
        events.append(Event(process, "invoke", "commit", key, one.id, one.start))
        commit = committed.get(one.run)
        if commit is not None:
            # The stream knows the millisecond in which it happened: it had happened at its end.
            events.append(Event(process, "ok", "commit", key, one.id, commit.time + 0.001))
        else:
            events.append(Event(process, "fail", "commit", key, one.id, last))
    return events
