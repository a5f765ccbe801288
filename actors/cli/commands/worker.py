"""`callboard worker`: one process."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from callboard.cli.exits import INTERRUPTED, bad_use
from callboard.cli.options import (
    Grace,
    MaxMemory,
    MaxMessages,
    Namespace,
    Target,
    Url,
    check_types,
    with_limits,
)
from callboard.cli.output import remark
from callboard.cli.sessions import run, settings_for


def worker(
    target: Target,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type", metavar="TYPE", help="An agent type that it runs; may be repeated. Default: all."
        ),
    ] = None,
    url: Url = None,
    namespace: Namespace = None,
    grace: Grace = None,
    max_memory: MaxMemory = None,
    max_messages: MaxMessages = None,
    health_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Renewed while it works, for `callboard health`. Default: none."),
    ] = None,
    folder: Annotated[Path | None, typer.Option(hidden=True)] = None,
    watch: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> int:
    """Run agents in this process, until SIGTERM or Ctrl-C.

    Then it takes no new messages, lets running handlers finish within the grace period and gives the rest to
    other workers, without counting an attempt. A second signal ends it at once. `callboard up` runs and
    supervises one for each type. A process that passes --max-memory or --max-messages drains as well and ends
    with 79, and is then to be started again (systemd: Restart=on-failure). In a container, --health-file and
    `callboard health` make its health check.

      callboard worker counting:app --type counter
      callboard worker counting:app --type counter --url redis://10.0.0.5:6379 --grace 10 --max-memory 500MB

    Exit codes: 0 drained, 1 failed, 2 wrong use, 3 no server, 75 a handler blocked it past its max_runtime,
    79 passed a limit and drained, 130 stopped at once by a second signal.
    """
    from callboard.process.frozen import frozen
    from callboard.process.loading import load_app
    from callboard.process.printing import unhindered
    from callboard.process.worker import RECYCLED, WorkerEnding, run_worker
    from callboard.runtime.runtime import RedisAgentRuntime

    app = load_app(target, folder)
    check_types(app, types or [])
    settings = with_limits(settings_for(app, url, namespace), max_memory, max_messages)
    if health_file is not None:
        if not health_file.parent.is_dir():
            bad_use(f"--health-file {health_file}: there is no folder {health_file.parent}")
        settings = replace(settings, health_file=str(health_file))
    # A supervisor puts the name in front of every line.
    label = "" if watch is not None else f"{', '.join(types or ['all types'])}: "

    async def work() -> WorkerEnding:
        runtime = RedisAgentRuntime.from_app(
            app,
            settings.url,
            namespace=settings.namespace,
            settings=settings,
            types=types,
            exit_when_stuck=True,
        )
        with frozen():
            return await run_worker(
                runtime, grace=grace, watch=watch, announce=lambda text: remark(f"{label}{text}")
            )

    codes = {WorkerEnding.DRAINED: 0, WorkerEnding.RECYCLED: RECYCLED, WorkerEnding.AT_ONCE: INTERRUPTED}
    with unhindered():
        return codes[run(work())]
