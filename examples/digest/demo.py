"""Runs the digest job in processes of its own, for `callboard demo`."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from callboard.broker import BrokerSettings, TopicId
from callboard.broker.redis.client.transport import RedisTransport
from callboard.broker.redis.operations.deadletters import list_letters
from callboard.broker.redis.operations.entries import recent
from callboard.broker.redis.operations.inspect import overview
from callboard.broker.redis.operations.views import Overview
from callboard.broker.redis.store import RedisStore
from callboard.cli.exits import INTERRUPTED, CommandFailed
from callboard.cli.fleet import Board, Fleet, FleetPlan, board
from callboard.cli.output import print_json, remark, say
from callboard.cli.sessions import server_at
from callboard.process.printer import unhindered
from callboard.process.supervisor import RestartPolicy
from callboard.runtime.runtime import RedisAgentRuntime

from .app import app
from .documents import prepare
from .messages import PARTS, Requirements, Result
from .model import MODEL, ModelChoice
from .model_options import chosen_model, try_model
from .report import EXPECTED, Report, lines_of, pending_in, server_cli, type_reports
from .result import render

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent
TARGET = f"{__package__}:app"
NAMESPACE = "demo"
VICTIM = "worker"
KILL_AFTER = 12  # messages that the workers have handled: in the middle of the second round
LOOK_EVERY = 0.05  # seconds
PATIENCE = 120.0  # seconds without any progress after which something is wrong
# Seconds that a worker takes for a draft at least, so that a person sees something.
PACE, KILL_PACE = 0.3, 0.6


def run_demo(
    path: Path | None,
    *,
    kill: bool,
    words: int,
    pace: float | None,
    url: str | None,
    as_json: bool,
    model: str | None = None,
    tokens: int | None = None,
    price: str | None = None,
) -> int:
    """Runs the job, prints the digest and the report, and gives the exit code.

    Args:
        path: A file or folder to digest; None: our own documentation.
        kill: Kill a worker process with -9 in the middle.
        words: Longest digest.
        pace: Seconds that a worker waits before each draft; None: long enough to watch.
        url: Of the server; None: the embedded one.
        as_json: Print JSON.
        model: That words the digest; None: none.
        tokens: Most tokens that it may use; None: no limit.
        price: USD for a million tokens, read and written, such as `0.15/0.60`; None: not known.
    """
    choice = chosen_model(model, tokens, price)
    prepared = prepare([path] if path is not None else own_documents())
    for note in prepared.left_out:
        remark(f"left out: {note}")
    chosen_pace = pace if pace is not None else _usual_pace(kill, choice)
    requirements = prepared.requirements("digest", words=words, pace=chosen_pace)
    with unhindered():
        report = asyncio.run(_run(DemoPlan(requirements, url, kill, choice)))
    if as_json:
        print_json(report.as_data())
    else:
        say(f"\n{report.digest}")
        for line in lines_of(report, server_cli(url)):
            say(line)
    return 1 if report.problems else 0


def _usual_pace(kill: bool, choice: ModelChoice | None) -> float:
    if choice is not None:
        return 0.0  # a model is slow enough to watch
    return KILL_PACE if kill else PACE


def own_documents() -> list[Path]:
    """README and docs of the checkout that this example is in, else the text that comes with it."""
    if (ROOT / "pyproject.toml").is_file():
        found = [path for path in (ROOT / "README.md", ROOT / "docs") if path.exists()]
        if found:
            return found
    return [FOLDER / "sample.md"]


async def _run(plan: DemoPlan) -> Report:
    async with server_at(plan.url) as server, fresh_namespace(server.url) as transport:
        with board(to_stderr=True) as shown:
            return await DemoRun(plan, transport, shown, server.revive).run()


@dataclass(frozen=True, slots=True)
class DemoPlan:
    """The job to run, and where.

    Attributes:
        requirements: The job.
        url: Of the server; None: the embedded one.
        kill: Kill a worker process with -9 in the middle.
        model: That words the digest; None: none.
    """

    requirements: Requirements
    url: str | None
    kill: bool
    model: ModelChoice | None = None

    @property
    def processes(self) -> Mapping[str, int]:
        """The number of processes of each agent type."""
        return {one.type: one.processes for one in app.declarations}


@contextlib.asynccontextmanager
async def fresh_namespace(url: str) -> AsyncIterator[RedisTransport]:
    """A transport in the namespace `demo`, emptied; in `demo-2` and so on while the others are used."""
    number = 1
    while True:
        name = NAMESPACE if number == 1 else f"{NAMESPACE}-{number}"
        transport = RedisTransport(url, replace(BrokerSettings.from_env(), url=url, namespace=name))
        try:
            if not await _is_used(transport):
                await transport.delete_namespace()
                yield transport
                return
        finally:
            await transport.close()
        number += 1


async def _is_used(transport: RedisTransport) -> bool:
    seconds, microseconds = await transport.admin.command("TIME")
    now = int(seconds) * 1000 + int(microseconds) // 1000
    alive = await transport.admin.command("ZCOUNT", transport.keys.of("workers"), now, "+inf")
    return bool(alive)


class DemoRun:
    """One run.

    Args:
        plan: The job to run.
        transport: In the namespace that the run has for itself.
        board: Shows the run.
        revive: Starts the server again if it died.
    """

    def __init__(
        self, plan: DemoPlan, transport: RedisTransport, board: Board, revive: Callable[[], Awaitable[None]]
    ) -> None:
        self._revive = revive
        self._plan = plan
        self._transport = transport
        self._board = board
        self._finished: dict[str, float] = {}
        self._killed: list[int] = []
        self._store = RedisStore(transport.admin)

    async def run(self) -> Report:
        """Runs the job to its end.

        Raises:
            CommandFailed: It was interrupted, or does not go on, or the model can't be used.
            WorkerProcessError: A process died too often.
        """
        if self._plan.model is not None:
            await try_model(self._plan.model, self._store)
            self._board.notice(f"{self._plan.model.name} answers")
        settings = self._transport.settings
        runtime = RedisAgentRuntime.from_app(
            app, settings.url, namespace=settings.namespace, settings=settings, types=()
        )
        runtime.add_message_types([Result])
        fleet = Fleet(self._fleet_plan(), self._transport, self._board, self._revive)
        async with runtime:
            running = asyncio.create_task(fleet.run())
            try:
                started = await self._start(runtime, fleet, running)
                ended = await self._until_done(fleet, running, started)
            finally:
                if not fleet.supervisor.is_stopping:
                    fleet.supervisor.stop()
                await running
            return await self._report(runtime, await overview(self._transport), ended)

    def _fleet_plan(self) -> FleetPlan:
        return FleetPlan(
            target=TARGET,
            processes=self._plan.processes,
            url=self._plan.url,
            namespace=self._transport.keys.namespace,
            grace=self._transport.settings.drain_grace,
            policy=RestartPolicy(),
            options=("--folder", str(FOLDER.parent)),
            # Without --model none is used, whatever the environment says.
            environ={MODEL: ""} if self._plan.model is None else self._plan.model.environ,
        )

    async def _start(self, runtime: RedisAgentRuntime, fleet: Fleet, running: asyncio.Task[object]) -> float:
        wanted = sum(self._plan.processes.values())
        while len((await overview(self._transport)).workers) < wanted:
            await self._pause(running)
        requirements = self._plan.requirements
        await runtime.publish_message(requirements, TopicId("requirements", requirements.job))
        return asyncio.get_running_loop().time()

    async def _until_done(self, fleet: Fleet, running: asyncio.Task[object], started: float) -> float:
        loop = asyncio.get_running_loop()
        progress, last = started, -1
        while True:
            view = await overview(self._transport)
            elapsed = loop.time() - started
            self._note(view, elapsed)
            if self._is_done(view):
                return elapsed
            if self._plan.model is not None and view.totals.dead:
                raise CommandFailed(await self._why_dead())
            if view.totals.done != last:
                progress, last = loop.time(), view.totals.done
            elif loop.time() - progress > PATIENCE:
                raise CommandFailed(f"nothing was handled for {PATIENCE:g} s: see the output above")
            await self._pause(running)

    async def _pause(self, running: asyncio.Task[object]) -> None:
        await asyncio.wait((running,), timeout=LOOK_EVERY)
        if running.done():
            running.result()
            raise CommandFailed("the demo was interrupted before its end", INTERRUPTED)

    async def _why_dead(self) -> str:
        letter, *_ = await list_letters(self._transport, limit=1)
        return f"the demo stopped, because {letter.agent_type}/{letter.key} failed for good: {letter.error}"

    def _note(self, view: Overview, elapsed: float) -> None:
        for one in view.types:
            if one.done >= EXPECTED[one.type]:
                self._finished.setdefault(one.type, elapsed)
        if self._plan.kill and not self._killed:
            self._kill_one(view)

    def _kill_one(self, view: Overview) -> None:
        """Kills the worker process that holds most, so that the kill hurts."""
        done = next((one.done for one in view.types if one.type == VICTIM), 0)
        holding = [
            (one.held, one.pid) for one in view.workers if VICTIM in one.types and one.held and one.pid
        ]
        if done < KILL_AFTER or not holding:
            return
        held, pid = max(holding)
        os.kill(pid, signal.SIGKILL)
        self._killed.append(pid)
        self._board.notice(f"killed worker process {pid} with -9 while it held {held} messages")

    def _is_done(self, view: Overview) -> bool:
        done = {one.type: one.done for one in view.types}
        all_handled = all(done.get(name, 0) >= expected for name, expected in EXPECTED.items())
        return all_handled and pending_in(view) == 0

    async def _report(self, runtime: RedisAgentRuntime, view: Overview, seconds: float) -> Report:
        entries = await recent(self._transport, "topic:results", 10 * PARTS)
        envelopes = [entry.envelope for entry in entries if entry.envelope is not None]
        results = [runtime.registry.decode(one.type, one.version, one.body) for one in envelopes]
        return Report(
            namespace=self._transport.keys.namespace,
            digest=render(results),
            types=type_reports(view, self._plan.processes, self._finished),
            results=len(entries),
            pending=pending_in(view),
            dead=view.totals.dead,
            killed=tuple(self._killed),
            seconds=round(seconds, 2),
            model=None if self._plan.model is None else self._plan.model.name,
            spent=None if self._plan.model is None else await self._plan.model.ledger(self._store).spent(),
        )
