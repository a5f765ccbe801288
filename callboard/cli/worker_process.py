"""The work of `callboard worker`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from callboard.process import frozen
from callboard.process.loader import load_app
from callboard.process.logs import keep_log
from callboard.process.printer import unhindered
from callboard.process.worker import RECYCLED, WorkerEnding, run_worker
from callboard.runtime.runtime import RedisAgentRuntime

from .exits import INTERRUPTED, bad_use
from .output import remark
from .sessions import check_types, nothing_to_run, run, settings_for, with_limits
from .worker_line import WorkerLine

if TYPE_CHECKING:
    from callboard.broker import BrokerSettings


def work(line: WorkerLine) -> int:
    """Run agents in this process until it is told to stop; return the exit code."""
    app = load_app(line.target, line.folder)
    check_types(app, line.types)
    if not app.declarations:
        nothing_to_run(app)
    settings = with_limits(settings_for(app, line.url, line.namespace), line.max_memory, line.max_messages)
    if line.health_file is not None:
        settings = replace(settings, health_file=str(_checked(line.health_file)))
    if line.metrics_port is not None:
        settings = replace(settings, metrics_port=line.metrics_port)
    keep_log(settings.log_level, as_json=settings.log_json, namespace=settings.namespace or "")
    # A supervisor puts the name in front of every line.
    label = "" if line.watch is not None else f"{', '.join(line.types or ['all types'])}: "

    async def work_until_told() -> WorkerEnding:
        runtime = RedisAgentRuntime.from_app(
            app,
            settings.url,
            namespace=settings.namespace,
            settings=settings,
            types=line.types or None,
            exit_when_stuck=True,
        )
        with frozen(), _metrics(settings, remark):
            return await run_worker(
                runtime, grace=line.grace, watch=line.watch, announce=lambda text: remark(f"{label}{text}")
            )

    codes = {WorkerEnding.DRAINED: 0, WorkerEnding.RECYCLED: RECYCLED, WorkerEnding.AT_ONCE: INTERRUPTED}
    with unhindered():
        return codes[run(work_until_told())]


@contextlib.contextmanager
def _metrics(settings: BrokerSettings, announce: Callable[[str], None]) -> Iterator[None]:
    """Give out metrics while it lasts, where the settings say so."""
    if settings.metrics_port is None:
        yield
        return
    from callboard.process.metrics import MetricsServer, WorkerMetrics, address_of, worker_routes

    host, port = address_of(settings.metrics_port)
    metrics = WorkerMetrics(settings.namespace or "")
    routes = worker_routes(metrics, asyncio.get_running_loop(), settings.lease)
    with MetricsServer(host, port, routes) as server, contextlib.ExitStack() as ending:
        ending.callback(metrics.listen())
        announce(f"metrics at {server.url}/metrics")
        yield


def _checked(health_file: Path) -> Path:
    if not health_file.parent.is_dir():
        bad_use(f"--health-file {health_file}: there is no folder {health_file.parent}")
    return health_file
